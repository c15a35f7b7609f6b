"""Calls of npu_copy_and_expand_eagle_inputs."""

from typing import Any

import numpy as np

from support.extension_calls import Case, Wrong
from support.tensors import ends

OP = "_C_ascend::npu_copy_and_expand_eagle_inputs"


def expected(
    tokens: Any, positions: Any, following: Any, starts: Any, stops: Any, pad: int, draft: int, slots: int, *rest: Any
) -> list[Any]:
    """Write each element by what it is: a valid token, the next one, one to draft, or a rejected one."""
    shift, total = rest
    out = [np.zeros(total, dtype) for dtype in (np.int32, np.int32, np.int8, np.int8)]
    new, mapping = np.zeros(len(stops) * slots, np.int32), np.zeros(len(tokens), np.int32)
    for r in range(len(stops)):
        start, stop, after = int(starts[r]), int(stops[r]), int(starts[r + 1])
        valid = stop - start if shift else stop - start + 1
        at = start + r * (slots - 1) if shift else start + r * slots
        for j in range(valid + slots + max(after - stop - 1, 0)):
            if j < valid:
                element = (int(tokens[start + j + (1 if shift else 0)]), int(positions[start]) + j, 0, 0)
            elif j < valid + slots:
                element = (int(following[r]) if j == valid else draft, int(positions[start]) + j, 0, int(j > valid))
                new[r * slots + j - valid] = at + j
            else:
                element = (pad, 0, 1, 0)
            for array, value in zip(out, element, strict=True):
                array[at + j] = value
        if shift:
            mapping[start:after] = at + np.arange(after - start)
    return [*out, new, mapping]


TOKENS, POSITIONS = ends(11, 12, 13, 14, 15, 16, 17), ends(4, 5, 6, 7, 0, 1, 2)
NEXT, STARTS, STOPS = ends(91, 92), ends(0, 4, 7), ends(2, 6)
VALID = [
    Case(OP, "shifted", (TOKENS, POSITIONS, NEXT, STARTS, STOPS, 0, 99, 1, True, 7), expected=expected),
    Case(
        OP, "shifted, drafted in parallel", (TOKENS, POSITIONS, NEXT, STARTS, STOPS, 7, 99, 3, True, 12), {}, expected
    ),
    Case(OP, "not shifted", (TOKENS, POSITIONS, NEXT, STARTS, STOPS, 0, 99, 2, False, 12), expected=expected),
]
WRONG = [
    Wrong(
        OP,
        "next_token_ids.size(0) must equal query_end_loc.size(0), got 1 and 2",
        (*VALID[0].args[:2], NEXT[:1], *VALID[0].args[3:]),
    ),
    Wrong(OP, "target_token_ids must be torch.int32, got torch.int64", (TOKENS.long(), *VALID[0].args[1:])),
]
