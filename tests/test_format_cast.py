"""npu_format_cast on the host NPU."""

import pytest
import torch
import torch_npu

from support.tensors import f32, i8


def test_cast_to_nz_keeps_values_and_reports_format() -> None:
    weight = i8(32, 16).npu()
    cast = torch_npu.npu_format_cast(weight, 29)
    assert torch_npu.get_npu_format(cast) == torch_npu.Format.FRACTAL_NZ
    assert torch_npu.get_npu_format(weight) == torch_npu.Format.ND
    assert torch.equal(cast.cpu(), weight.cpu())
    x, scale = i8(4, 32).npu(), f32(16).npu()
    for run in (torch_npu.npu_quant_matmul, torch.compile(torch_npu.npu_quant_matmul, backend="npu", fullgraph=True)):
        assert torch.equal(run(x, cast, scale), torch_npu.npu_quant_matmul(x, weight, scale))
    torch_npu.npu_format_cast_(weight, 29)
    assert torch_npu.get_npu_format(weight) == torch_npu.Format.FRACTAL_NZ
    assert torch.equal(cast.cpu(), weight.cpu())


@pytest.mark.parametrize("acl_format", [torch_npu.Format.ND, torch_npu.Format.FRACTAL_NZ])
def test_cast_to_the_same_format_copies_nothing(acl_format: int) -> None:
    """As torch_npu's own does: what is written to one is seen in the other."""
    weight = torch_npu.npu_format_cast(f32(32, 16).npu(), acl_format)
    address = weight.data_ptr()
    assert torch_npu.npu_format_cast(weight, acl_format).data_ptr() == address
    assert torch_npu.npu_format_cast(weight, weight).data_ptr() == address
    assert torch_npu.npu_format_cast_(weight, acl_format).data_ptr() == address


@pytest.mark.parametrize("acl_format", [torch_npu.Format.ND, torch_npu.Format.FRACTAL_NZ])
def test_gradients_pass_through_a_cast(acl_format: int) -> None:
    weight = f32(32, 16).npu().requires_grad_()
    (torch_npu.npu_format_cast(weight, acl_format) * 3).sum().backward()
    assert weight.grad is not None
    assert (weight.grad == 3).all()


def test_weight_can_be_passed_by_blocks_of_its_format() -> None:
    weight, x, groups = i8(2, 64, 128).npu(), i8(3, 64).npu(), torch.tensor([1, 3]).npu()
    cast = torch_npu.npu_format_cast(weight, 29)
    blocks = cast.view(2, 4, 4, 16, 32)
    assert torch_npu.get_npu_format(blocks) == torch_npu.Format.FRACTAL_NZ
    scales = f32(2, 128).npu(), f32(3).npu()
    expected = torch_npu.npu_grouped_matmul_swiglu_quant(x, cast, groups, *scales)
    actual = torch_npu.npu_grouped_matmul_swiglu_quant(x, blocks, groups, *scales)
    assert all(torch.equal(one, other) for one, other in zip(actual, expected, strict=True))
    options = {"group_list": groups, "split_item": 3, "group_type": 0, "output_dtype": torch.int32}
    (expected,) = torch_npu.npu_grouped_matmul([x], [weight], **options)
    (actual,) = torch_npu.npu_grouped_matmul([x], [blocks], **options)
    assert torch.equal(actual, expected)


def test_weight_can_be_passed_as_blocks() -> None:
    weight, x, groups, scales = i8(2, 64, 128).npu(), i8(3, 64).npu(), torch.tensor([1, 3]).npu(), (f32(2, 128), f32(3))
    blocks = weight.reshape(2, 4, 16, 4, 32).permute(0, 3, 1, 2, 4).contiguous()
    channels, tokens = (each.npu() for each in scales)
    cast = torch_npu.npu_format_cast(weight, 29)
    expected = torch_npu.npu_grouped_matmul_swiglu_quant_v2(x, [cast], [channels], tokens, groups)
    actual = torch_npu.npu_grouped_matmul_swiglu_quant_v2(x, [blocks], [channels], tokens, groups)
    assert all(torch.equal(one, other) for one, other in zip(actual, expected, strict=True))
    with pytest.raises(RuntimeError, match="npu_grouped_matmul: weight"):
        torch_npu.npu_grouped_matmul([x], [blocks], group_list=groups, split_item=3, group_type=0)


@pytest.mark.parametrize("shape", [(1, 16), (32, 1)])
@pytest.mark.parametrize("name", ["mm", "linear", "addmm", "matmul", "out"])
def test_products_refuse_nz_weights_with_one_row_or_column(name: str, shape: tuple[int, int]) -> None:
    weight = torch_npu.npu_format_cast(f32(*shape).half().npu(), 29)
    x = f32(4, shape[0]).half().npu()
    call = {
        "mm": lambda w: x @ w,
        "linear": lambda w: torch.nn.functional.linear(x, w.t()),
        "addmm": lambda w: torch.addmm(x.new_zeros(w.size(1)), x, w),
        "matmul": lambda w: torch.matmul(x[None], w),
        "out": lambda w: torch.mm(x, w, out=x.new_empty(4, w.size(1))),
    }[name]
    with pytest.raises(RuntimeError, match="mat2 in FRACTAL_NZ must have more than one row and column, got"):
        call(weight)
    assert call(torch_npu.npu_format_cast(weight, 2)).shape[-1] == shape[1]


def test_packing_int4_keeps_the_format() -> None:
    weight = torch.randint(-8, 8, (64, 64), dtype=torch.int32).npu()
    packed = torch_npu.npu_convert_weight_to_int4pack(torch_npu.npu_format_cast(weight, 29))
    assert torch_npu.get_npu_format(packed) == torch_npu.Format.FRACTAL_NZ
    assert torch.equal(packed, torch_npu.npu_convert_weight_to_int4pack(weight))


def test_captures_refuse_nz_weights_with_one_column() -> None:
    weight, x = torch_npu.npu_format_cast(f32(32, 1).half().npu(), 29), f32(4, 32).half().npu()
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match="mat2 in FRACTAL_NZ"), torch.npu.graph(graph):
        torch.mm(x, weight)
