"""A model that torchao quantised runs on npu operators with torchao's integers and scales."""

from __future__ import annotations

import graph_quant  # noqa: F401
import pytest
import torch
import torch_npu
from graph_quant import dumps, fusions
from graph_quant.nn import CheckpointError, convert_torchao_
from torch import nn

ao = pytest.importorskip("torchao.quantization")
granularity = pytest.importorskip("torchao.quantization.granularity")
CONFIGS = {
    "int8 dynamic": lambda: ao.Int8DynamicActivationInt8WeightConfig(),
    "int8 weight-only": lambda: ao.Int8WeightOnlyConfig(),
    "int4 weight-only": lambda: ao.IntxWeightOnlyConfig(
        weight_dtype=torch.int4, granularity=granularity.PerGroup(32)
    ),
}  # fmt: skip
TYPES = {
    "int8 dynamic": {"DynamicQuant": 1, "QuantBatchMatmulV3": 1},
    "int8 weight-only": {"WeightQuantBatchMatmulV2": 1},
    "int4 weight-only": {"WeightQuantBatchMatmulV2": 1},
}


def make(scheme: str, dtype: torch.dtype) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 64)).to(dtype).npu().eval()
    ao.quantize_(model, CONFIGS[scheme]())
    return model, torch.randn(4, 128).to(dtype).npu()


def documented(scheme: str, linear: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """The calls of the operators' pages, on the integers that torchao stores."""
    weight, bias = linear.weight, linear.bias
    if scheme == "int8 dynamic":
        rows, tokens = torch_npu.npu_dynamic_quant(x)
        return torch_npu.npu_quant_matmul(
            rows, weight.qdata.t().contiguous(), weight.scale.reshape(-1), pertoken_scale=tokens,
            bias=bias.float(), output_dtype=x.dtype,
        )  # fmt: skip
    elements = weight.qdata.t().contiguous()
    scale = weight.scale.to(x.dtype).t().contiguous()
    bias = bias if x.dtype == torch.float16 else bias.float()
    if scheme == "int8 weight-only":
        return torch_npu.npu_weight_quant_batchmatmul(x, elements, scale.reshape(-1), bias=bias)
    packed = torch_npu.npu_convert_weight_to_int4pack(elements.to(torch.int32))
    return torch_npu.npu_weight_quant_batchmatmul(x, packed, scale, bias=bias, antiquant_group_size=32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scheme", CONFIGS)
def test_the_operators_compute_with_torchaos_integers(scheme: str, dtype: torch.dtype, tmp_path) -> None:
    model, x = make(scheme, dtype)
    with torch.no_grad():
        own, expected = model(x), documented(scheme, model[0], x)
        assert convert_torchao_(model) == ["0"]
        actual = model(x)
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="npu", dynamic=False, options={"dump": str(tmp_path)})(x)
    assert torch.equal(actual, expected)
    assert torch.equal(compiled, expected)
    noise = (own.double() - actual.double()).square().sum() / own.double().square().sum()
    assert noise.item() < 10**-3.5, "torchao's own forward is the same up to the rounding of activations"
    types = {}
    for node in dumps.load(str(next(tmp_path.iterdir()))).nodes.values():
        types[node.type] = types.get(node.type, 0) + 1
    assert {name: types.get(name, 0) for name in TYPES[scheme]} == TYPES[scheme]
    assert not {"MatMul", "MatMulV2", "BatchMatMul", "ReduceMax", "Round"} & types.keys()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scheme", CONFIGS)
def test_a_compiled_model_of_torchao_is_lowered(scheme: str, dtype: torch.dtype, tmp_path) -> None:
    model, x = make(scheme, dtype)
    with torch.no_grad(), fusions.use():
        expected, own = documented(scheme, model[0], x), model(x)
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="npu", dynamic=False, options={"dump": str(tmp_path)})(x)
        nodes = dumps.load(str(next(tmp_path.iterdir()))).nodes.values()
        torch._dynamo.reset()
        captured = torch.compile(model, backend="npugraph_ex")(x)
        assert torch.equal(model(x), own), "eager calls stay torchao's"
    assert torch.equal(compiled, expected)
    assert torch.equal(captured, expected)
    types = [node.type for node in nodes]
    assert {name: types.count(name) for name in TYPES[scheme]} == TYPES[scheme]
    assert not {"MatMul", "MatMulV2", "BatchMatMul", "ReduceMax", "Round"} & set(types)


def test_without_fusions_an_integer_product_is_refused_with_the_way_to_lower_it() -> None:
    model, x = make("int8 dynamic", torch.float16)
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(Exception, match="GRAPH_QUANT_FUSE=on lowers linears that torchao quantised"):
        torch.compile(model, backend="npu", dynamic=False)(x)


@pytest.mark.parametrize("scheme", ["int8 weight-only", "int4 weight-only"])
def test_without_fusions_a_graph_is_torchaos_own(scheme: str) -> None:
    model, x = make(scheme, torch.float16)
    torch._dynamo.reset()
    with torch.no_grad():
        assert torch.equal(torch.compile(model, backend="npu", dynamic=False)(x), model(x))


def test_npugraph_ex() -> None:
    model, x = make("int8 dynamic", torch.bfloat16)
    with torch.no_grad():
        expected = documented("int8 dynamic", model[0], x)
        convert_torchao_(model)
        assert torch.equal(torch.compile(model, backend="npugraph_ex")(x), expected)


def test_what_no_operator_takes_is_refused() -> None:
    model, _ = make("int8 dynamic", torch.float16)
    second = nn.Sequential(nn.Linear(128, 64)).half().npu()
    ao.quantize_(
        second,
        ao.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=granularity.PerGroup(32)
        ),
    )  # fmt: skip
    both = nn.Sequential(model, second)
    with pytest.raises(CheckpointError, match=r"1\.0\.weight: activations must be floats or symmetric, got int8_asym"):
        convert_torchao_(both)
    assert type(both[0][0]) is nn.Linear
    with pytest.raises(ValueError, match="Sequential has no linear that torchao quantised"):
        convert_torchao_(nn.Sequential(nn.Linear(4, 4)))
