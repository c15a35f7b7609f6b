"""Calls of npu_recurrent_gated_delta_rule."""

from typing import Any

import torch
from operators.attention.gated_delta_rule import expected_recurrent, recurrent

from support.extension_calls import Case, Wrong
from support.tensors import bf16, ends, f32

OP = "_C_ascend::npu_recurrent_gated_delta_rule"
ARGS, NAMED = recurrent()


def expected(query: Any, key: Any, value: Any, state: Any, **options: Any) -> list[Any]:
    """State the rule for the tokens of sequences; results of the others are zero."""
    start, *lengths = options["actual_seq_lengths"].tolist()
    kept = [index for index, length in enumerate(lengths) if length > 0]
    end = start + sum(lengths[index] for index in kept)
    tokens = slice(start, end)
    options["actual_seq_lengths"] = ends(*(lengths[index] for index in kept))
    for name in ("beta", "g", "ssm_state_indices"):
        options[name] = options[name][tokens]
    if options.get("num_accepted_tokens") is not None:
        options["num_accepted_tokens"] = options["num_accepted_tokens"][kept]
    out, states = expected_recurrent(query[tokens], key[tokens], value[tokens], state, **options)
    whole = torch.zeros(value.shape)
    whole[tokens] = torch.from_numpy(out)
    return [whole.numpy(), states]


def case(label: str, lengths: tuple[int, ...], **options: Any) -> Case:
    args = (*ARGS[:3], options.pop("state", ARGS[3]))
    named = {**NAMED, "actual_seq_lengths": ends(*lengths), **options}
    # Results and states are rounded to bfloat16 once.
    return Case(OP, label, args, named, expected, ("state",), 2.0**-8)


VALID = [
    case("two sequences", (0, 3, 2)),
    case("float32 states", (0, 3, 2), state=f32(7, *ARGS[3].shape[1:])),
    case("accepted tokens", (0, 3, 2), num_accepted_tokens=ends(2, 1)),
    case("an offset and an empty sequence", (1, 2, 0, 1)),
    case("more indices than tokens", (0, 4, 1), ssm_state_indices=ends(6, 0, 3, 5, 1, 2, 4)),
]
WRONG = [
    Wrong(OP, "state must be torch.bfloat16 or torch.float32", (*ARGS[:3], ARGS[3].half()), NAMED),
    Wrong(OP, "beta, scale, actual_seq_lengths", ARGS, {**NAMED, "scale": None}),
    Wrong(OP, "query must be torch.bfloat16, got torch.float16", (ARGS[0].half(), *ARGS[1:]), NAMED),
    Wrong(OP, "value.size(1) must be a multiple of", (*ARGS[:2], bf16(5, 3, 8), bf16(7, 3, 8, 16)), NAMED),
]
