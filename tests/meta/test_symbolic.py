"""Symbolic sizes: one graph works for every number of rows, and unbacked sizes are supported."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from torch._dynamo.testing import CompileCounterWithBackend

from support.all_calls import INT4, packed
from support.tensors import f16, f32, i8, i32

Rows = Callable[[int], tuple[torch.Tensor, ...]]


def last(rows: int) -> torch.Tensor:
    return torch.tensor([1, rows], dtype=torch.int32)


BY_ROWS: dict[str, tuple[Callable[..., Any], Rows]] = {
    "group_quant": (
        lambda x, scale, ends: torch_npu.npu_group_quant(x, scale, ends, dst_dtype=INT4),
        lambda rows: (f16(rows, 16), f32(2, 16), last(rows)),
    ),
    "quantize": (
        lambda x, s: torch_npu.npu_quantize(x, s, None, INT4, -1, False),
        lambda rows: (f16(rows, 16), f16(16)),
    ),
    "quantize dividing": (
        lambda x, s: torch_npu.npu_quantize(x, s, None, torch.qint8, 1),
        lambda rows: (f16(rows, 16), f32(16)),
    ),
    "trans_quant_param": (torch_npu.npu_trans_quant_param, lambda rows: (f32(rows), f32(rows))),
    "trans_quant_param of one": (torch_npu.npu_trans_quant_param, lambda rows: (f32(1), f32(rows))),
    "dynamic_quant": (lambda x: torch_npu.npu_dynamic_quant(x, dst_type=INT4), lambda rows: (f16(rows, 16),)),
    "dynamic_quant_asymmetric": (
        lambda x, s, ends: torch_npu.npu_dynamic_quant_asymmetric(x, smooth_scales=s, group_index=ends),
        lambda rows: (f16(rows, 16), f16(2, 16), last(rows)),
    ),
    "pertensor": (
        lambda x: torch_npu.npu_dynamic_quant_asymmetric(x, quant_mode="pertensor"),
        lambda rows: (f16(rows, 16),),
    ),
    "perchannel": (
        lambda x: torch_npu.npu_dynamic_quant_asymmetric(x, quant_mode="perchannel"),
        lambda rows: (f16(rows, 16),),
    ),
    "anti_quant": (torch_npu.npu_anti_quant, lambda rows: (i32(rows, 4), f32(32))),
    "quant_matmul": (torch_npu.npu_quant_matmul, lambda rows: (i8(rows, 32), i8(32, 16), packed(16))),
    "quant_matmul batch": (torch_npu.npu_quant_matmul, lambda rows: (i8(rows, 4, 32), i8(32, 16), packed(16))),
    "quant_matmul tokens": (
        lambda x1, x2, scale, tokens: torch_npu.npu_quant_matmul(
            x1, x2, scale, pertoken_scale=tokens, output_dtype=torch.bfloat16
        ),
        lambda rows: (i8(rows, 32), i8(32, 16), f32(16), f32(rows)),
    ),
}


@pytest.mark.parametrize("name", BY_ROWS)
@pytest.mark.parametrize("backend", ["eager", "npu"])
def test_fifty_row_counts_compile_once(name: str, backend: str) -> None:
    torch._dynamo.reset()
    function, arguments = BY_ROWS[name]
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(function, backend=counter, dynamic=True, fullgraph=True)
    for rows in range(3, 53):  # from 3, because torch unifies two sizes of 2 in the first call
        args = arguments(rows)
        results, expected = compiled(*args), function(*args)
        if rows in (3, 52):
            assert str(results) == str(expected)
    assert counter.frame_count == 1


@pytest.mark.parametrize("name", BY_ROWS)
def test_rows_are_not_guarded(name: str) -> None:
    """A traced graph has no guards on the number of rows."""
    function, arguments = BY_ROWS[name]

    class Module(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return function(*args)

    args = arguments(5)
    shapes = tuple({dim: torch.export.Dim.AUTO for dim, size in enumerate(arg.shape) if size == 5} for arg in args)
    program = torch.export.export(Module(), args, dynamic_shapes=(shapes,), strict=False)
    assert program.range_constraints
    for bounds in program.range_constraints.values():
        assert bounds.lower <= 2
        assert bounds.upper >= 2**30


UNBACKED: dict[str, tuple[Callable[..., Any], Callable[[int, int], tuple[torch.Tensor, ...]]]] = {
    "group_quant": (
        lambda x, scale, ends: torch_npu.npu_group_quant(x, scale, ends, dst_dtype=INT4),
        lambda rows, width: (f16(rows, width), f32(2, width), last(rows)),
    ),
    "quantize": (
        lambda x, s: torch_npu.npu_quantize(x, s, s, INT4, -1, False),
        lambda rows, width: (f16(rows, width), f16(width)),
    ),
    "trans_quant_param": (torch_npu.npu_trans_quant_param, lambda _rows, width: (f32(width), f32(width))),
    "trans_quant_param of one": (torch_npu.npu_trans_quant_param, lambda _rows, width: (f32(1), f32(width))),
    "dynamic_quant": (
        lambda x: torch_npu.npu_dynamic_quant(x, dst_type=INT4),
        lambda rows, width: (f16(rows, width),),
    ),
    "dynamic_quant_asymmetric": (
        lambda x, s: torch_npu.npu_dynamic_quant_asymmetric(x, smooth_scales=s, dst_type=INT4),
        lambda rows, width: (f16(rows, width), f16(width)),
    ),
    "anti_quant": (torch_npu.npu_anti_quant, lambda rows, width: (i32(rows, width), f32(8 * width))),
    "quant_matmul": (
        lambda x1, x2, scale: torch_npu.npu_quant_matmul(x1, x2, scale),
        lambda rows, width: (i8(rows, width), i8(width, 16), packed(16)),
    ),
}


@pytest.mark.parametrize("name", UNBACKED)
def test_sizes_known_only_at_run_time(name: str) -> None:
    torch._dynamo.reset()
    function, arguments = UNBACKED[name]
    args = arguments(6, 16)
    for arg in args:
        for dim, size in enumerate(arg.shape):
            if size in (6, 16, 128):
                torch._dynamo.decorators.mark_unbacked(arg, dim)
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    assert str(compiled(*args)) == str(function(*args))
    other = arguments(3, 24)
    if name != "quant_matmul":
        assert str(compiled(*other)) == str(function(*other))
