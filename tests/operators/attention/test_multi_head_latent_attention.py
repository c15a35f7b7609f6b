"""npu_multi_head_latent_attention in its variants, against a statement in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant.refusals import Refusal

from support.numpy_rules import floats
from support.tensors import bf16, f16, i8

TABLE = torch.tensor([[3, 0], [1, 1], [2, 3]], dtype=torch.int32)
SCALE = 0.0625
# Weights are rounded to half precision before the second product, and so is the result.
BOUND = 2**-7


def call(make: Any = f16, **changed: Any) -> dict[str, Any]:
    arguments = {"q_nope": make(3, 8, 512) / 8, "q_rope": make(3, 8, 64) / 8}
    arguments |= {"ctkv": make(4, 128, 1, 512), "k_rope": make(4, 128, 1, 64), "block_tables": TABLE}
    return arguments | {"context_lens": [200, 128, 5], "q_headnum": 8, "qk_scale": SCALE, "kv_headnum": 1} | changed


def wanted(arguments: dict[str, Any]) -> tuple[Any, Any]:
    """Token by token and head by head, in float64: the attention and its log-sum-exp."""
    query = np.concatenate([floats(arguments["q_nope"]), floats(arguments["q_rope"])], -1).astype(np.float64)
    cache = np.concatenate([floats(arguments["ctkv"]), floats(arguments["k_rope"])], -1)[:, :, 0]
    out, lse = np.zeros((3, 8, 512)), np.zeros((3, 8, 1))
    for sequence, length in enumerate(arguments["context_lens"]):
        keys = np.stack([cache[int(TABLE[sequence, at // 128]), at % 128] for at in range(length)])
        for head in range(8):
            exponentials = np.exp(keys @ query[sequence, head] * SCALE)
            out[sequence, head] = exponentials @ keys[:, :512] / exponentials.sum()
            lse[sequence, head] = np.log(exponentials.sum())
    return out, lse


def near(result: torch.Tensor, expected: Any) -> None:
    np.testing.assert_allclose(floats(result.cpu()), expected, rtol=0, atol=BOUND * np.abs(expected).max())


def in_parts(cache: torch.Tensor) -> torch.Tensor:
    """A cache (block, token, 1, channel) as (block, part, token, 16)."""
    nz_cache = torch.empty(cache.size(0), cache.size(3) // 16, 128, 16, dtype=cache.dtype)
    for part in range(nz_cache.size(1)):
        nz_cache[:, part] = cache[:, :, 0, part * 16 : part * 16 + 16]
    return nz_cache


@pytest.mark.parametrize("make", [f16, bf16])
def test_latent_attention_reads_the_pages_of_each_sequence(make: Any) -> None:
    arguments = call(make)
    out, lse = wanted(arguments)
    result = torch_npu.atb.npu_multi_head_latent_attention(
        **{name: value.npu() if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}
    )
    near(result, out)
    both = torch.ops.atb.npu_multi_head_latent_attention(**arguments, return_lse=True, calc_type="calc_type_ring")
    assert torch.equal(both[0], result.cpu())
    assert both[1].dtype == arguments["q_nope"].dtype
    near(both[1], lse)
    room = torch.ops.atb._npu_multi_head_latent_attention_get_workspace(
        **arguments, return_lse=True, calc_type="calc_type_ring"
    )
    arguments |= {name: in_parts(arguments[name]) for name in ("ctkv", "k_rope")} | {"cache_mode": "nzcache"}
    into = [torch.full_like(value, 7) for value in both]
    ring = arguments | {"return_lse": True, "calc_type": "calc_type_ring", "workspace": room}
    torch.ops.atb.npu_multi_head_latent_attention(**ring, output=into[0], lse=into[1])
    assert all(torch.equal(one, other) for one, other in zip(both, into, strict=True))


def test_without_a_ring_there_is_no_lse() -> None:
    arguments = call()
    for options in ({"return_lse": True}, {"return_lse": False, "calc_type": "calc_type_ring"}):
        _, lse = torch.ops.atb.npu_multi_head_latent_attention(**arguments, **options)
        assert lse is None


def test_a_sequence_without_keys_leaves_its_results_unchanged() -> None:
    arguments = call(context_lens=[200, 0, 5])
    output, lse = torch.full((3, 8, 512), 7.0).half(), torch.full((3, 8, 1), 7.0).half()
    torch.ops.atb.npu_multi_head_latent_attention(**arguments, output=output)
    assert (output[1] == 7).all()
    assert (output[::2] != 7).any(-1).all()
    ring = arguments | {"return_lse": True, "calc_type": "calc_type_ring"}
    torch.ops.atb.npu_multi_head_latent_attention(**ring, output=output, lse=lse)
    assert (output[1] == 7).all()
    assert (lse[1] == 7).all()
    assert (lse[::2] != 7).all()


RING = {"return_lse": True, "calc_type": "calc_type_ring"}
WRONG: dict[str, dict[str, Any]] = {
    "q_nope must be": {"q_nope": torch.zeros(3, 8, 512)},
    "q_nope.size(2)": {"q_nope": f16(3, 8, 256)},
    "q_rope must be": {"q_rope": bf16(3, 8, 64)},
    "q_rope.size(1)": {"q_rope": f16(3, 16, 64)},
    "q_headnum": {"q_headnum": 4},
    "kv_headnum": {"kv_headnum": 2},
    "qk_scale": {"qk_scale": 1.5},
    "ctkv must be": {"ctkv": i8(4, 128, 1, 512)},
    "ctkv.size(1)": {"ctkv": f16(4, 64, 1, 512)},
    "k_rope.size(0)": {"k_rope": f16(3, 128, 1, 64)},
    "block_tables must be": {"block_tables": TABLE.long()},
    "block_tables.size(0)": {"block_tables": TABLE[:2]},
    "block_table[0][1]": {"block_tables": TABLE + 3 * (TABLE == 0).int() + (TABLE == 0).int()},
    "the number of context_lens": {"context_lens": [1, 2]},
    "context_lens[0] must lie": {"context_lens": [257, 1, 1]},
    "context_lens[1] must be above 0": {"context_lens": [1, 0, 1]},
    "mask_type": {"mask_type": "mask_type_spec"},
    "calc_type": {"calc_type": "calc_type_spec"},
    "calc_type must be": {"calc_type": "calc_type_ring"},
    "cache_mode 'int8_nzcache' is missing on the host NPU": {"cache_mode": "int8_nzcache"},
    "cache_mode must be": {"cache_mode": "int8"},
    "output": {"output": f16(3, 8, 64)},
    "workspace": RING | {"workspace": f16(1)},
    "lse.size(2)": RING | {"output": f16(3, 8, 512), "lse": f16(3, 8, 2)},
    "return_lse": RING | {"return_lse": False, "output": f16(3, 8, 512), "lse": f16(3, 8, 1)},
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_calls_are_refused(message: str) -> None:
    with pytest.raises((RuntimeError, Refusal)) as refusal:
        torch.ops.atb.npu_multi_head_latent_attention(**call(**WRONG[message]))
    assert f"npu_multi_head_latent_attention: {message}" in str(refusal.value)
