"""ATB's _npu_flash_attention_v2 under each mask type, against a statement in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu  # noqa: F401 (it defines the operators)
from graph_quant.refusals import Refusal

from support.numpy_rules import floats
from support.tensors import bf16, f16

# Weights are rounded to half precision before the second product, and so is the result: two units of 2**-8.
BOUND = 2**-7
SLOPES = torch.tensor([-0.5, -0.25, -(2.0**-8), -(2.0**-9)])
NORM, ALIBI, COMPRESSED = 1, 2, 4


def falling(make: Any = bf16) -> torch.Tensor:
    """The distance from key to query, and 60000 above the diagonal."""
    positions = torch.arange(256.0)
    return (positions[:, None] - positions + torch.full((256, 256), 60000.0).triu(1)).to(make(1).dtype)


def alibi(length: int, *batch: int) -> torch.Tensor:
    positions = torch.arange(float(length))
    hidden = torch.full((length, length), -torch.inf).triu(1)
    return (
        (SLOPES[:, None, None] * (positions[:, None] - positions) + hidden).expand(*batch, 4, length, length).bfloat16()
    )


def call(make: Any = bf16, lengths: Any = (3, 2), **changed: Any) -> dict[str, Any]:
    tokens = sum(lengths)
    arguments: dict[str, Any] = {
        "query": make(tokens, 4, 16) / 4,
        "key": make(tokens, 2, 16),
        "value": make(tokens, 2, 8),
    }
    arguments |= {"seq_len": list(lengths), "num_heads": 4, "num_kv_heads": 2, "scale_value": 0.25}
    return arguments | {"out": make(tokens, 4, 8), "mask_type": ALIBI, "mask": alibi(max(lengths))} | changed


def wanted(arguments: dict[str, Any], shifts: Any) -> Any:
    """Query by query, in float64; ``shifts(sequence, head, query, key)`` is added to a score."""
    query, key, value = (floats(arguments[name]).astype(np.float64) for name in ("query", "key", "value"))
    out, start = np.zeros((len(query), 4, 8)), 0
    for sequence, length in enumerate(arguments["seq_len"]):
        for row in range(length):
            for head in range(4):
                seen = range(row + 1)
                scores = np.array([key[start + at, head // 2] @ query[start + row, head] for at in seen]) * 0.25
                scores += [shifts(sequence, head, row, at) for at in seen]
                weights = np.exp(scores - scores.max())
                out[start + row, head] = weights @ value[start : start + row + 1, head // 2] / weights.sum()
        start += length
    return out


def near(arguments: dict[str, Any], expected: Any) -> None:
    result = torch.ops.atb._npu_flash_attention_v2.out(**arguments)
    assert result is arguments["out"]
    np.testing.assert_allclose(floats(result), expected, rtol=0, atol=BOUND * np.abs(expected).max())


@pytest.mark.parametrize("batch", [(), (2,)])
def test_an_alibi_mask_is_added(batch: tuple[int, ...]) -> None:
    mask = alibi(3, *batch)
    numbers = floats(mask)
    arguments = call(mask=mask)
    near(arguments, wanted(arguments, lambda sequence, *at: numbers[(sequence, *at) if batch else at]))


@pytest.mark.parametrize("lengths", [(3, 2), (130, 5)])
def test_a_compressed_mask_is_expanded_by_its_slopes(lengths: tuple[int, int]) -> None:
    arguments = call(lengths=lengths, mask_type=COMPRESSED, mask=falling(), slopes=SLOPES)
    near(arguments, wanted(arguments, lambda _, head, row, at: float(SLOPES[head]) * (row - at)))


@pytest.mark.parametrize(("make", "hides"), [(bf16, 1.0), (f16, -torch.inf)])
def test_a_norm_mask_is_that_of_the_first_version(make: Any, hides: float) -> None:
    mask = torch.full((3, 3), hides).triu(1).to(make(1).dtype)
    arguments = call(make, mask_type=NORM, mask=mask)
    near(arguments, wanted(arguments, lambda *_: 0.0))


@pytest.mark.parametrize(
    ("argument", "changed"),
    {
        "mask_type": {"mask_type": 5},
        "kernel_type": {"kernel_type": 2},
        "mask must be given": {"mask": None},
        "mask must be torch": {"mask": alibi(3).float()},
        "slopes must be None": {"slopes": SLOPES},
        "mask must have": {"mask": alibi(3)[0]},
        "mask.size(-3)": {"mask": alibi(3)[:2]},
        "mask.size(-2)": {"mask": alibi(3)[:, :2]},
        "mask.size(0)": {"mask": alibi(3, 3)},
        "num_heads": {"num_heads": 3},
        "mask.size(1)": {"mask_type": COMPRESSED, "mask": falling()[:, :128], "slopes": SLOPES},
        "slopes must be given": {"mask_type": COMPRESSED, "mask": falling()},
        "slopes must be torch": {"mask_type": COMPRESSED, "mask": falling(), "slopes": SLOPES.half()},
        "slopes.size(0)": {"mask_type": COMPRESSED, "mask": falling(), "slopes": SLOPES[:2]},
        "mask must be -10000": {"mask": torch.zeros(4, 3, 3, dtype=torch.bfloat16)},
        "a compressed mask must fall": {"mask_type": COMPRESSED, "mask": falling() * 2, "slopes": SLOPES},
        "seq_len[0]": {"seq_len": [4, 1]},
        "the sum of seq_len": {"seq_len": [3, 3]},
    }.items(),
)
def test_wrong_calls_are_refused(argument: str, changed: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refusal:
        torch.ops.atb._npu_flash_attention_v2.out(**call(**changed))
    assert str(refusal.value).startswith(f"_npu_flash_attention_v2: {argument}")
