"""Linears and recipes of Ascend 950: MX formats, float8 by block and HiFloat8."""

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.narrow_floats import E2M1, E4M3
from graph_quant.nn import MXFP4, MXFP8, BlockFP8, HiF8, MxLinear, Recipe, quantize_, save_quantised
from graph_quant.nn.checkpoints.stored import CheckpointError
from graph_quant.refusals import UndescribedError
from torch import nn

RECIPES: dict[str, tuple[Recipe | str, float]] = {
    "MXFP8": ("MXFP8", 24.0),
    "MXFP4, W4A4": ("MXFP4", 12.0),
    "MXFP4, W4A8": (MXFP4(float8_activations=True), 15.0),
    "float8 by block": ("FP8_BLOCK", 25.0),
    "HiFloat8": ("HIF8", 20.0),
}


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def make_model() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(160, 136), nn.GELU(), nn.Linear(136, 64, bias=False))
    return layers.bfloat16().npu()  # type: ignore[no-any-return, attr-defined]


def sqnr(approximate: torch.Tensor, exact: torch.Tensor) -> float:
    exact = exact.float()
    return float(20 * torch.log10(exact.norm() / (approximate.float() - exact).norm()))


@pytest.mark.parametrize("name", RECIPES)
def test_models_are_close_and_graphs_equal(name: str) -> None:
    recipe, least = RECIPES[name]
    model = make_model()
    quantised = copy.deepcopy(model)
    assert quantize_(quantised, recipe) == ["0", "2"]
    x = torch.randn(2, 5, 160).bfloat16().npu()
    y = quantised(x)
    assert (y.shape, y.dtype) == ((2, 5, 64), torch.bfloat16)
    assert sqnr(y.cpu(), model(x).cpu()) > least
    torch._dynamo.reset()
    compiled = torch.compile(quantised, backend="npu", fullgraph=True)
    assert torch.equal(compiled(x).cpu(), y.cpu())


@pytest.mark.parametrize("name", RECIPES)
def test_state_dictionaries_restore_a_model(name: str, tmp_path: Path) -> None:
    recipe, _ = RECIPES[name]
    model, other = make_model(), make_model()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    quantize_(model, recipe)
    quantize_(other, recipe)
    x = torch.randn(3, 160).bfloat16().npu()
    assert not torch.equal(other(x).cpu(), model(x).cpu())
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert torch.equal(other(x).cpu(), model(x).cpu())


def test_float16_models_keep_their_dtype() -> None:
    model = make_model().half()
    quantize_(model, MXFP8())
    assert model(torch.randn(3, 160).half().npu()).dtype == torch.float16
    assert "activations=float8_e4m3fn" in repr(model)


def test_wrong_formats_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="do not go together"):
        MxLinear.from_float(nn.Linear(32, 8).half().npu(), E4M3, E2M1)
    with pytest.raises(ValueError, match="multiple of 8"):
        MxLinear.from_float(nn.Linear(36, 8).half().npu(), E2M1, E4M3)
    with pytest.raises(TypeError, match=r"torch\.float16 or"):
        MxLinear.from_float(nn.Linear(32, 8).npu())


def test_formats_of_checkpoints_cannot_hold_them(tmp_path: Path) -> None:
    model = make_model()
    quantize_(model, HiF8())
    with pytest.raises(CheckpointError, match="HiF8Linear"):
        save_quantised(model, tmp_path)


def test_other_chips_refuse_them() -> None:
    with chip.use(chip.A2), pytest.raises(RuntimeError, match="it must run on Ascend 950") as refused:
        quantize_(make_model(), MXFP8())
    assert isinstance(refused.value, UndescribedError)
    with chip.use(chip.A2), pytest.raises(RuntimeError, match="dst_type"):
        quantize_(make_model(), BlockFP8())
