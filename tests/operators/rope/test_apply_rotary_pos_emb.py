"""npu_apply_rotary_pos_emb against a NumPy statement: in place in eager mode, out of place in graphs."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950

from operators.rope.apply_rotary_pos_emb import GOOD_950, OP, call
from support.call_table import Call, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32

CALLS: dict[str, tuple[tuple[torch.Tensor, ...], dict[str, Any]]] = {
    "bfloat16": (call(bf16, 2, 3), {}),
    "float16": (call(f16, 2, 3, width=128), {"layout": "BSH"}),
    "float32": (call(f32, 2, 3), {}),
    "tokens": (call(bf16, 5, width=128), {"layout": "TND"}),
    "a part": ((*call(bf16, 5, width=128)[:2], *call(bf16, 5)[2:]), {"layout": "TND"}),
}


def expected(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    width = cos.size(-1)
    part = x[..., :width]
    half = width // 2
    if x.dtype == torch.float16:
        values, cosines, sines = part.numpy(), cos.numpy(), sin.numpy()
    else:
        values, cosines, sines = floats(part), floats(cos), floats(sin)
    turn = np.concatenate([-values[..., half:], values[..., :half]], -1)
    result = values * cosines + turn * sines
    if x.dtype == torch.bfloat16:  # halves away from zero, by magnitude
        bits = np.ascontiguousarray(result).view(np.uint32)
        result = (((bits & 0x7FFFFFFF) + 0x8000) & 0xFFFF0000 | (bits & 0x80000000)).astype(np.uint32).view(np.float32)
    return torch.cat([torch.from_numpy(result).to(x.dtype), x[..., width:]], -1)


@pytest.mark.parametrize("name", CALLS)
def test_eager_execution_writes_over_its_inputs(name: str) -> None:
    args, options = CALLS[name]
    wanted = [expected(tensor, *args[2:]) for tensor in args[:2]]
    inputs = [tensor.npu() for tensor in args]
    results = torch_npu.npu_apply_rotary_pos_emb(*inputs, **options)
    for result, over, want in zip(results, inputs, wanted, strict=False):
        assert torch.equal(result.cpu(), want)
        assert torch.equal(over.cpu(), want)


def test_a_graph_leaves_its_inputs_unchanged() -> None:
    args, options = CALLS["bfloat16"]
    torch._dynamo.reset()
    graph = torch.compile(
        lambda *args: torch_npu.npu_apply_rotary_pos_emb(*args, **options), backend="npu", fullgraph=True, dynamic=True
    )
    inputs = [tensor.npu() for tensor in args]
    for result, tensor in zip(graph(*inputs), args[:2], strict=True):
        assert torch.equal(result.cpu(), expected(tensor, *args[2:]))
    assert torch.equal(inputs[0].cpu(), args[0])


SHARED = [good(OP, name, *args, **options) for name, (args, options) in CALLS.items()]


@pytest.mark.parametrize("call", [*GOOD_950, *SHARED])
def test_ascend950_rounds_once_in_every_layout_and_mode(call: Call) -> None:
    query, key, cos, sin = call.args[:4]
    mode = call.args[5] if len(call.args) > 5 else "half"
    with chip.use(ASCEND_950):
        results = call.overload(*call.on("npu")[0], **call.kwargs)
    for result, x in zip(results, (query, key), strict=True):
        width = cos.size(-1)
        part = floats(x[..., :width])
        turned = np.concatenate([np.concatenate([-b, a], -1) for a, b in _pairs(part, mode)], -1)
        if mode == "interleave":
            turned = np.stack(np.split(turned, 2, -1), -1).reshape(part.shape)
        rotated = torch.from_numpy(part * floats(cos) + turned * floats(sin)).to(x.dtype)
        assert torch.equal(result.cpu(), torch.cat([rotated, x[..., width:]], -1))


def _pairs(x: Any, mode: str) -> list[Any]:
    """The elements that are rotated with each other."""
    if mode == "interleave":
        return [(x[..., ::2], x[..., 1::2])]
    return [np.split(part, 2, -1) for part in (np.split(x, 2, -1) if mode == "quarter" else [x])]
