"""compare: errors by layer, checked against torch's functions and by construction."""

import copy
import json
import math

import pytest
import torch
from graph_quant.nn import W4A8, DynamicW8A8, StaticW8A8, compare, observe, quantize_
from graph_quant.nn.accuracy import ErrorSums
from torch import nn
from torch.nn.functional import cosine_similarity


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(128, 64), nn.Linear(64, 128)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def make(recipe, wanted=None):
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), nn.Linear(128, 16)).half().npu().eval()
    samples = [torch.randn(3, 128).half().npu() for _ in range(2)]
    quantised = copy.deepcopy(model)
    with observe(quantised) as seen, torch.no_grad():
        quantised(samples[0])
    quantize_(quantised, recipe, wanted, observations=seen)
    return model, quantised, samples


def test_own_and_inherited_errors() -> None:
    model, quantised, samples = make("W8A8")
    result = compare(model, quantised, samples)
    layers = {layer.name: layer for layer in result.layers}
    assert set(layers) == {"0.up", "0.down", "1.up", "1.down", "2"}
    first = layers["0.up"]
    assert (first.inherited_sqnr, first.own_sqnr) == (math.inf, first.sqnr), "nothing is quantised before it"
    assert layers["2"].inherited_sqnr < math.inf
    assert [layer.own_sqnr for layer in result.layers] == sorted(layer.own_sqnr for layer in result.layers)
    with torch.no_grad():
        expected, actual = (torch.cat([network(x) for x in samples]).double().cpu() for network in (model, quantised))
    noise = (actual - expected).square().sum()
    assert result.output.sqnr == pytest.approx((10 * torch.log10(expected.square().sum() / noise)).item())
    assert result.output.cosine == pytest.approx(cosine_similarity(expected.flatten(), actual.flatten(), 0).item())
    assert result.output.max_error == (actual - expected).abs().max().item()
    assert result.top1 == (expected.argmax(-1) == actual.argmax(-1)).double().mean().item()
    weight = model[0].up.weight
    assert first.weight_range == (weight.min().item(), weight.max().item())
    assert first.input_range == (torch.cat(samples).min().item(), torch.cat(samples).max().item())


def test_worst_layer_comes_first_and_can_be_left_out() -> None:
    model, quantised, samples = make("W8A8")
    coarse = copy.deepcopy(model)
    quantize_(coarse, W4A8(), lambda _, name: name == "1.up")
    quantised[1].up = coarse[1].up
    result = compare(model, quantised, samples)
    assert result.layers[0].name == "1.up"
    kept = result.keep_float(result.layers[1].own_sqnr)
    assert [name for name in ("0.up", "1.up", "2") if kept(nn.Identity(), name)] == ["0.up", "2"]


def test_saturation_of_static_scales() -> None:
    model, quantised, samples = make(StaticW8A8())
    assert all(layer.saturated is not None for layer in compare(model, quantised, samples).layers)
    wide = [sample * 4 for sample in samples]
    saturated = {layer.name: layer.saturated for layer in compare(model, quantised, wide).layers}
    scaled = [(x.float() * quantised[0].up.multiplier.float()).round() + quantised[0].up.zero_point for x in wide]
    beyond = torch.cat([(rows < -128) | (rows > 127) for rows in scaled])
    assert saturated["0.up"] == beyond.double().mean().item() > 0


def test_output_forms() -> None:
    result = compare(*make(DynamicW8A8(), lambda _, name: name == "2"))
    content = json.loads(result.to_json())
    assert (content["layers"][0]["inherited_sqnr"], content["layers"][0]["name"]) == ("inf", "2")
    lines = list(result.lines())
    assert lines[1].startswith("2 ")
    assert "equal" in lines[1]
    assert lines[-1].startswith("whole model: ")
    page = result.to_html("a <title>")
    assert "a &lt;title&gt;" in page
    assert "http" not in page


def test_refusals() -> None:
    model, quantised, samples = make("W8A8")
    for arguments, message in (
        ((model, model, samples), "Sequential has no quantised module"),
        ((quantised, quantised, samples), "0.up of the float model is quantised"),
        ((model[0], quantised, samples), "the float model has no 0"),
        ((model, quantised, []), "samples must not be empty"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(*arguments)


def test_values_that_are_not_finite() -> None:
    sums = ErrorSums()
    sums.add(torch.tensor([1.0, math.inf]), torch.tensor([1.0, math.inf]))
    assert math.isnan(sums.sqnr)
    equal = ErrorSums()
    equal.add(torch.zeros(2), torch.zeros(2))
    assert (equal.sqnr, equal.cosine) == (math.inf, 1.0)


SCRIPT = """
import copy, sys
import torch, torch_npu
from graph_quant.nn import quantize_
torch.manual_seed(0)
float_model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).half().npu()
quantised = copy.deepcopy(float_model)
quantize_(quantised, sys.argv[1])
samples = [torch.randn(4, 64).half().npu()]
"""


def test_command(tmp_path, capsys) -> None:
    from graph_quant.cli import main

    (tmp_path / "script.py").write_text(SCRIPT)
    html, facts = tmp_path / "page.html", tmp_path / "facts.json"
    script = str(tmp_path / "script.py")
    assert main(["compare", script, "--html", str(html), "--json", str(facts), "--", "W8A8"]) == 0
    assert capsys.readouterr().out.startswith("layer")
    assert html.read_text().startswith("<!doctype html>")
    assert len(json.loads(facts.read_text())["layers"]) == 2
    assert main(["compare", script, "--min-sqnr", "90", "--", "W8A8"]) == 1
    assert main(["compare", script, "--samples", "inputs", "--", "W8A8"]) == 2
    assert "script.py defines no inputs, which compare needs" in capsys.readouterr().err
    assert main(["compare", script, "--", "W8A9"]) == 2
    assert "stopped: ValueError: quantize_: recipe must be one of" in capsys.readouterr().err
