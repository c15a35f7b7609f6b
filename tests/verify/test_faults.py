"""A fault in one converter or one kernel is found, and the node and the Python line are named."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
import torch_npu
from graph_quant.host.kernels import KERNELS
from graph_quant.verification import Status, capture, verify
from torch import Tensor
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.fx2ge_converter import register_fx_node_ge_converter

SIZE = 16
UINT8, INT8 = 4, 2


class Inputs(NamedTuple):
    """Tensors are square or vectors of that size, so that faults do not change shapes."""

    x: Tensor
    group_scale: Tensor
    group_index: Tensor
    scales: Tensor
    zero_points: Tensor
    weight: Tensor
    scale: Tensor
    offset: Tensor
    bias: Tensor


def model(x, group_scale, group_index, scales, zero_points, weight, scale, offset, bias):  # type: ignore[no-untyped-def]
    hidden = torch.nn.functional.silu(x)
    packed = torch_npu.npu_group_quant(hidden, group_scale, group_index, dst_dtype=torch.quint4x2)
    static = torch_npu.npu_quantize(x, scales, zero_points, torch.qint8, -2, False)
    codes, token_scale = torch_npu.npu_dynamic_quant(hidden)
    skewed = torch_npu.npu_dynamic_quant_asymmetric(hidden)
    params = torch_npu.npu_trans_quant_param(scale, offset)
    narrow = torch_npu.npu_quant_matmul(static, weight, params, output_dtype=torch.int8)
    product = torch_npu.npu_quant_matmul(
        codes, weight, scale, pertoken_scale=token_scale, bias=bias, output_dtype=torch.bfloat16
    )
    shifted = product.transpose(0, 1) + 1
    return packed, skewed, narrow, shifted


@pytest.fixture
def inputs() -> Inputs:
    # Halves are ties in rounding, and the last column exceeds the range of int8.
    x = (torch.randint(-40, 40, (SIZE, SIZE)) / 2).to(torch.float16)
    x[:, -1] = 300
    tensors = Inputs(
        x,
        group_scale=torch.tensor([[0.2], [0.7], [1.5]]).expand(3, SIZE).to(torch.float16).contiguous(),
        group_index=torch.tensor([5, 11, SIZE]),
        scales=torch.ones(SIZE).index_fill(0, torch.tensor([2, 9]), 2.0).to(torch.float16),
        zero_points=torch.arange(SIZE).to(torch.float16),
        weight=torch.randint(-9, 9, (SIZE, SIZE), dtype=torch.int8),
        scale=torch.rand(SIZE) * 0.01 + 0.001,
        offset=torch.full((SIZE,), 3.0),
        bias=torch.randn(SIZE).to(torch.bfloat16),
    )
    return Inputs(*(tensor.npu() for tensor in tensors))


@dataclasses.dataclass(frozen=True)
class Fault:
    """Replaces the kernel of a GE type, or the converter of an operator; ``code`` is the start of the reported line."""

    name: str
    where: str
    replace: Callable[..., Any]  # of the original, and of the arguments
    node: str
    ge: str
    code: str

    def __str__(self) -> str:
        return self.name


def half_up(original: Any, x: Tensor, scale: Tensor, offset: Tensor, **attributes: Any) -> Tensor:  # noqa: ARG001
    values = x.float() * scale.reshape(-1, 1).float() + offset.reshape(-1, 1).float()
    return torch.floor(values + 0.5).clamp(-128, 127).to(torch.int8)


def wrap_around(original: Any, x: Tensor, scale: Tensor, offset: Tensor, **attributes: Any) -> Tensor:  # noqa: ARG001
    values = x.float() * scale.reshape(-1, 1).float() + offset.reshape(-1, 1).float()
    return values.round().to(torch.int32).to(torch.int8)


def high_nibble_first(original: Any, x: Tensor, **attributes: Any) -> Tensor:
    packed: Tensor = original(x.flip(-1) if x.dtype == torch.int8 else x, **attributes)
    return packed


def one_row_early(original: Any, x: Tensor, scale: Tensor, index: Tensor, *rest: Any, **attributes: Any) -> Any:
    return original(x, scale, torch.cat([index[:-1] - 1, index[-1:]]), *rest, **attributes)


def rounded_offset(original: Any, *inputs: Any, **attributes: Any) -> Any:
    y, scale, offset = original(*inputs, **attributes)
    return y, scale, offset.round()


def truncated_codes(original: Any, x: Tensor, *rest: Any, **attributes: Any) -> Any:
    _, scale = original(x, *rest, **attributes)
    return (x.float() / scale.unsqueeze(-1)).trunc().to(torch.int8), scale


def first_scale_for_all(original: Any, x1: Tensor, x2: Tensor, scale: Tensor, *rest: Any, **attributes: Any) -> Any:
    return original(x1, x2, scale[:1].expand_as(scale).contiguous(), *rest, **attributes)


def rounded_up_scale(original: Any, scale: Tensor, offset: Tensor, **attributes: Any) -> Any:
    return original(scale, offset, **{**attributes, "round_mode": 1})


def not_transposed(original: Any, x: Tensor, perm: Any) -> Tensor:  # noqa: ARG001
    return x


def last_axis(original: Any, x: Any, scales: Any, zero_points: Any, dtype: int, axis: int, div: bool) -> Any:  # noqa: ARG001
    return original(x, scales, zero_points, dtype, -1, div)


def no_offset(original: Any, x: Any, scales: Any, zero_points: Any, *rest: Any) -> Any:  # noqa: ARG001
    return original(x, scales, None, *rest)


def unsigned(original: Any, x: Any, scales: Any, zero_points: Any, *rest: Any) -> Any:  # noqa: ARG001
    return ge.AscendQuantV2(x, scales, zero_points, dst_type=UINT8, axis=-2)


def no_pertoken_scale(original: Any, x1: Any, x2: Any, scale: Any, **options: Any) -> Any:
    return original(x1, x2, scale, **{**options, "pertoken_scale": None})


def no_bias(original: Any, x1: Any, x2: Any, scale: Any, **options: Any) -> Any:
    return original(x1, x2, scale, **{**options, "bias": None})


def transposed_weight(original: Any, x1: Any, x2: Any, scale: Any, **options: Any) -> Any:
    transposed = ge.Transpose(x2, [1, 0])
    transposed.set_meta(x2.meta)
    return original(x1, transposed, scale, **options)


FAULTS = [
    Fault("wrong rounding", "AscendQuantV2", half_up, "npu_quantize", "AscendQuantV2", "static ="),
    Fault(
        "truncation", "DynamicQuant", truncated_codes, "npu_dynamic_quant[0]", "DynamicQuant", "codes, token_scale ="
    ),
    Fault("missing saturation", "AscendQuantV2", wrap_around, "npu_quantize", "AscendQuantV2", "static ="),
    Fault("wrong packing order", "Bitcast", high_nibble_first, "npu_group_quant", "Bitcast", "packed ="),
    Fault("group off by one", "GroupQuant", one_row_early, "npu_group_quant", "GroupQuant", "packed ="),
    Fault(
        "rounded offset",
        "DynamicQuantV2",
        rounded_offset,
        "npu_dynamic_quant_asymmetric[2]",
        "DynamicQuantV2",
        "skewed =",
    ),
    Fault(
        "rounded scale", "TransQuantParamV2", rounded_up_scale, "npu_trans_quant_param", "TransQuantParamV2", "params ="
    ),
    Fault(
        "wrong scale broadcast",
        "QuantBatchMatmulV3",
        first_scale_for_all,
        "npu_quant_matmul",
        "QuantBatchMatmulV3",
        "narrow =",
    ),
    Fault("wrong transposition", "Transpose", not_transposed, "add", "Transpose", "shifted ="),
    Fault("wrong axis", "npu_quantize", last_axis, "npu_quantize", "AscendQuantV2", "static ="),
    Fault("dropped offset", "npu_quantize", no_offset, "npu_quantize", "AscendQuantV2", "static ="),
    Fault("wrong destination", "npu_quantize", unsigned, "npu_quantize", "AscendQuantV2", "static ="),
    Fault(
        "dropped pertoken scale",
        "npu_quant_matmul",
        no_pertoken_scale,
        "npu_quant_matmul_1",
        "QuantBatchMatmulV3",
        "product =",
    ),
    Fault("dropped bias", "npu_quant_matmul", no_bias, "npu_quant_matmul_1", "QuantBatchMatmulV3", "product ="),
    Fault(
        "transposed weight", "npu_quant_matmul", transposed_weight, "npu_quant_matmul", "QuantBatchMatmulV3", "narrow ="
    ),
]


@pytest.fixture
def injected(request: pytest.FixtureRequest) -> Iterator[Fault]:
    fault: Fault = request.param
    if fault.where in KERNELS:
        request.getfixturevalue("break_kernel")(fault.where, fault.replace)
        yield fault
        return
    from graph_quant.converters.lowering import converter  # after TorchAir, which registers them

    operator = getattr(torch.ops.npu, fault.where).default
    registered, original = operator._ge_converter, converter(f"npu::{fault.where}")

    def convert(*args: Any, meta_outputs: Any = None, **kwargs: Any) -> Any:  # noqa: ARG001
        return fault.replace(original, *args, **kwargs)

    register_fx_node_ge_converter(operator)(convert)
    yield fault
    operator._ge_converter = registered


@pytest.mark.parametrize("injected", FAULTS, indirect=True, ids=str)
def test_fault_is_found_and_named(injected: Fault, inputs: Inputs) -> None:
    report = verify(model, *inputs, fullgraph=True)
    first = report.first_divergence
    assert not report.ok
    assert first is not None
    assert first.status is Status.DIFFERS
    assert first.fx == injected.node
    assert injected.ge in first.ge_types
    assert first.line is not None
    assert first.line.file == __file__
    assert first.line.code.startswith(injected.code)


@pytest.mark.parametrize("dynamic", [False, True])
def test_nothing_is_found_where_nothing_is_wrong(inputs: Inputs, dynamic: bool) -> None:
    report = verify(model, *inputs, dynamic=dynamic, fullgraph=True)
    report.check()
    assert len(report.graphs) == 1
    assert {node.status for node in report.nodes} == {Status.EQUAL}
    assert {output.status for output in report.outputs} == {Status.EQUAL}
    assert (
        len([node for node in report.nodes if node.op.startswith("npu.")]) == 10
    )  # seven calls, two with more results
    assert report.graphs[0].unobserved == ("transpose",)


@pytest.mark.parametrize("injected", [FAULTS[2]], indirect=True, ids=str)
@pytest.mark.usefixtures("injected")
def test_the_table_fits_in_100_columns(inputs: Inputs, capsys: pytest.CaptureFixture[str]) -> None:
    verify(model, *inputs).show()
    table, _, rest = capsys.readouterr().out.partition("\n\n")
    lines = [line.rstrip() for line in table.splitlines()]
    assert max(map(len, lines)) <= 100
    assert [line.split()[:2] for line in lines if line[0] in "✗↳"] == [["✗", "npu_quantize"], ["↳", "npu_quant_matmul"]]
    assert "npu_dynamic_quant_asymmetric[2] " in table
    assert "\nfirst divergence  npu_quantize  npu.npu_quantize.default\n" in rest


def test_a_fault_after_the_calls_whose_nodes_are_compared(break_kernel) -> None:
    """The second call is wrong, and only nodes of the first are compared."""
    ran = []

    def late(kernel, *args, **attributes):
        ran.append(kernel)
        return kernel(*args, **attributes) + (1 if len(ran) == 2 else 0)

    break_kernel("Relu", late)
    with capture() as report:
        compiled = torch.compile(torch.relu, backend="npu")
        for _ in range(3):
            compiled(torch.ones(2).npu())
    assert len(ran) == 3
    assert report.calls_beyond == 2
    assert not report.ok
    assert " call 2 output[0], although every node of 1 result" in report.verdict()
    assert [output.name.partition(" ")[2] for output in report.outputs] == ["output[0]", "call 2 output[0]"]
