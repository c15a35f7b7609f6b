"""npu_anti_quant: generated calls, and sizes that are symbols."""

from typing import Any

import pytest
import torch
import torch_npu
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounterWithBackend

from support.calls import INT4
from support.generated import SIZES, Draw, generated, mostly, optional, tensor
from support.tensors import f32, i32


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=4)))
    x = tensor(draw, shape, torch.int8, torch.int32)
    width = x.size(-1) * (8 if x.dtype == torch.int32 else 1) if x.dim() else 1
    scale = tensor(draw, (draw(st.sampled_from([1, width])),), torch.float32, torch.bfloat16)
    source = INT4 if x.dtype == torch.int32 else torch.int8
    options = {
        "offset": optional(draw, tuple(scale.shape), scale.dtype),
        "dst_dtype": draw(st.sampled_from([None, torch.float16, torch.bfloat16, torch.float32, 999])),
        "src_dtype": mostly(draw, draw(st.sampled_from([None, source])), st.sampled_from([INT4, torch.int8])),
    }
    return (x, scale), options


test_generated_calls = generated("npu_anti_quant", calls())


@pytest.mark.parametrize("backend", ["eager", "npu"])
def test_many_row_counts_compile_once(backend: str) -> None:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(torch_npu.npu_anti_quant, backend=counter, dynamic=True, fullgraph=True)
    scale = f32(32)
    for rows in range(3, 53):
        x = i32(rows, 4)
        assert torch.equal(compiled(x, scale), torch_npu.npu_anti_quant(x, scale))
    assert counter.frame_count == 1


def test_a_width_known_at_run_time() -> None:
    x = i32(3, 4)
    torch._dynamo.decorators.mark_unbacked(x, 1)
    torch._dynamo.reset()
    compiled = torch.compile(torch_npu.npu_anti_quant, backend="eager", fullgraph=True)
    assert compiled(x, f32(32)).shape == (3, 32)
