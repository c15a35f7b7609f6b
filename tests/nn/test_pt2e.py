"""A model that PT2E quantised runs on npu operators with PT2E's integers and scales."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import graph_quant  # noqa: F401
import pytest
import torch
import torch_npu
from graph_quant import dumps
from graph_quant.nn import CheckpointError, convert_pt2e_
from torch import nn

pt2e = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e")
x86 = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
xnnpack = pytest.importorskip("torchao.testing.pt2e._xnnpack_quantizer")

QUANTISERS = {
    "uint8 static": lambda: x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config()),
    "uint8 dynamic": lambda: x86.X86InductorQuantizer().set_global(
        x86.get_default_x86_inductor_quantization_config(is_dynamic=True)
    ),
    "int8 static": lambda: xnnpack.XNNPACKQuantizer().set_global(
        xnnpack.get_symmetric_quantization_config(is_per_channel=True)
    ),
    "int8 dynamic": lambda: xnnpack.XNNPACKQuantizer().set_global(
        xnnpack.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
    ),
}
TYPES = {
    "static": {"AscendQuantV2": 1, "QuantBatchMatmulV3": 1},
    "dynamic": {"DynamicQuant": 1, "QuantBatchMatmulV3": 1},
    "weight-only": {"WeightQuantBatchMatmulV2": 1},
}


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(x)


def make(scheme: str, dtype: torch.dtype, model: nn.Module | None = None) -> tuple[torch.fx.GraphModule, torch.Tensor]:
    torch.manual_seed(0)
    x, model = torch.randn(4, 64, dtype=dtype), (model or Linear()).to(dtype).eval()
    with torch.no_grad():
        exported = torch.export.export(model, (x,)).module()
        prepared = pt2e.prepare_pt2e(exported, QUANTISERS[scheme]())
        prepared(x)
        return pt2e.convert_pt2e(prepared).npu(), x.npu()


def documented(model: torch.fx.GraphModule, x: torch.Tensor, scheme: str) -> torch.Tensor:
    """The calls of the operators' pages, on the integers and scales in PT2E's graph."""
    weight, scale, bias = model._frozen_param0, model._scale_0, model.up.bias
    elements = weight.t().contiguous()
    if scheme == "weight-only":
        wide = bias if x.dtype == torch.float16 else bias.float()
        return torch_npu.npu_weight_quant_batchmatmul(x, elements, scale.to(x.dtype), bias=wide)
    if scheme == "dynamic":
        rows, tokens = torch_npu.npu_dynamic_quant(x)
        return torch_npu.npu_quant_matmul(
            rows, elements, scale, pertoken_scale=tokens, bias=bias.float(), output_dtype=x.dtype
        )
    (node,) = [
        node
        for node in model.graph.nodes
        if "quantize_per_tensor" in str(node.target) and node.args[0].op == "placeholder"
    ]
    step, zero, low = node.args[1:4]
    offset = zero - low - 128
    multiplier, zero_point = (torch.tensor([value], dtype=x.dtype).npu() for value in (1, offset))
    multiplier = (1 / torch.tensor([step]).npu()).to(x.dtype)
    rows = torch_npu.npu_quantize(x, multiplier, zero_point, torch.qint8, axis=-1, div_mode=False)
    product = step * scale
    added = bias.double() / product.double() - offset * weight.sum(1, dtype=torch.float64)
    packed = torch_npu.npu_trans_quant_param(product) if x.dtype == torch.float16 else product
    return torch_npu.npu_quant_matmul(rows, elements, packed, bias=added.round().int(), output_dtype=x.dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scheme", [*QUANTISERS, "weight-only"])
def test_the_operators_compute_with_pt2es_integers(scheme: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model, x = make("int8 dynamic" if scheme == "weight-only" else scheme, dtype)
    if scheme == "weight-only":
        (linear,) = [node for node in model.graph.nodes if "linear" in str(node.target)]
        linear.update_arg(0, next(node for node in model.graph.nodes if node.op == "placeholder"))
        model.graph.eliminate_dead_code()
        model.recompile()
    with torch.no_grad():
        own, expected = model(x), documented(model, x, scheme.rpartition(" ")[2])
        (name,) = convert_pt2e_(model)
        actual = model(x)
        compiled = {}
        for backend in ("npu", "npugraph_ex") if dtype == torch.float16 else ("npu",):
            torch._dynamo.reset()
            options = {"dump": str(tmp_path)} if backend == "npu" else None
            compiled[backend] = torch.compile(model, backend=backend, dynamic=False, options=options)(x)
    assert name == "up_quantised"
    assert torch.equal(actual, expected)
    assert all(torch.equal(result, expected) for result in compiled.values()), compiled.keys()
    noise = (own.double() - actual.double()).square().sum() / own.double().square().sum()
    assert noise.item() < 10**-3.2, "PT2E's own forward is the same up to the rounding of activations"
    types = Counter(node.type for node in dumps.load(str(next(tmp_path.iterdir()))).nodes.values())
    wanted = TYPES[scheme.rpartition(" ")[2]]
    assert {kind: types[kind] for kind in wanted} == wanted
    allowed = {*wanted, "Data", "Const", "ConstPlaceHolder", "NetOutput", "Cast", "TransQuantParamV2"}
    assert set(types) <= allowed, "nothing of PT2E's decomposition is left"
    assert not any(key.startswith(("_frozen", "_scale", "_zero")) for key in model.state_dict())


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 32, bias=False), nn.Linear(32, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.silu(self.up(x)))


def test_quantisations_between_other_operators_are_removed() -> None:
    model, x = make("int8 static", torch.float16, Mixed())
    own = model(x)
    assert convert_pt2e_(model) == ["up_quantised", "down_quantised"]
    assert not [node for node in model.graph.nodes if "quantize" in str(node.target)]
    assert torch.allclose(own.float(), model(x).float(), atol=0.05)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="model must be a GraphModule of convert_pt2e, got Linear"):
        convert_pt2e_(nn.Linear(4, 4))
    with pytest.raises(ValueError, match="PT2E quantised no linear of this model"):
        convert_pt2e_(torch.fx.symbolic_trace(nn.Linear(4, 4)))
    with pytest.raises(TypeError, match=r"linear must be torch.float16 or torch.bfloat16, got torch.float32"):
        convert_pt2e_(make("int8 static", torch.float32)[0])
    model, _ = make("int8 static", torch.float16)
    model._zero_point_0.fill_(3)
    before = [str(node) for node in model.graph.nodes]
    with pytest.raises(CheckpointError, match=r"linear: its weight must be symmetric int8 .* zero points up to 3"):
        convert_pt2e_(model)
    assert [str(node) for node in model.graph.nodes] == before, "the model is unchanged"
