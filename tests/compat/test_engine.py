"""The suite of vLLM's engine: its checkpoints, and how requests are compared. The engine itself is not needed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from compat.engine import compare
from compat.engine.checkpoint import quantise
from compat.engine.models import EAGER, FUSED, MODELS, SERVER, options_of
from compat.outcome import Verdict
from compat.suites import SUITES

LINEAR, GATE = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.gate"


def test_every_model_is_in_the_suite() -> None:
    (suite,) = (suite for suite in SUITES if suite.name == "vllm-engine")
    assert suite.engine_models == tuple(MODELS)
    for model in MODELS.values():
        assert model.modes[0] == EAGER, "the other modes are compared with it"


@pytest.mark.parametrize("scheme", ["W8A8_DYNAMIC", "W8A8"])
def test_quantised_checkpoints_equal_their_dequantised_copies(tmp_path: Path, scheme: str) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    weights = {f"{LINEAR}.weight": torch.randn(8, 16), f"{GATE}.weight": torch.randn(4, 16)}
    save_file(weights, plain / "model.safetensors")
    quantise(plain, tmp_path, scheme, ["kv_b_proj"], {LINEAR: torch.tensor(2.54)})
    stored, meant = load_file(tmp_path / "model.safetensors"), load_file(plain / "model.safetensors")
    description = json.loads((tmp_path / "quant_model_description.json").read_text())
    assert torch.equal(stored[f"{GATE}.weight"], weights[f"{GATE}.weight"])
    assert description[f"{GATE}.weight"] == "FLOAT"
    assert description[f"{LINEAR}.weight"] == scheme
    assert stored.keys() == description.keys() - {"model_quant_type"}
    assert torch.equal(stored[f"{LINEAR}.weight"] * stored[f"{LINEAR}.weight_scale"], meant[f"{LINEAR}.weight"])
    assert (meant[f"{LINEAR}.weight"] - weights[f"{LINEAR}.weight"]).abs().max() <= stored[
        f"{LINEAR}.weight_scale"
    ].max() * 0.51
    if scheme == "W8A8":
        expected = stored[f"{LINEAR}.weight_scale"].squeeze(1) * 2**-5
        assert torch.allclose(stored[f"{LINEAR}.deq_scale"], expected)


def test_the_reference_rounds_the_inputs_of_quantised_linears() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.Linear(1, 1, bias=False))
    for linear in model:
        torch.nn.init.ones_(linear.weight)
    x = torch.tensor([[127.0, 3.4], [254.0, 3.4]])  # sums of 130.4 and 257.4
    compare.round_inputs(model, {"0.weight_scale": torch.ones(1)})
    assert model(x).flatten().tolist() == [130, 258], "by the largest of each token"
    static = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False))
    torch.nn.init.ones_(static[0].weight)
    compare.round_inputs(static, {"0.weight_scale": torch.ones(1), "0.input_scale": torch.tensor([2.0])})
    assert static(x).flatten().tolist() == [132, 258], "by the scale"


def test_a_token_behind_the_best_is_a_tie_or_an_error() -> None:
    logits = torch.tensor([[4.0, 3.99, 0.0], [0.0, 1.0, 2.0]])
    logprobs = [{str(token): value for token, value in enumerate(row)} for row in logits.log_softmax(-1).tolist()]
    tie = compare.agreement({"tokens": [1, 2], "logprobs": logprobs}, logits)
    assert (tie.tokens, round(tie.behind, 4), round(tie.error, 4)) == (1, 0.0025, 0)
    wrong = compare.agreement({"tokens": [2, 2], "logprobs": logprobs}, logits)
    assert (wrong.tokens, wrong.behind) == (1, 1.0)
    assert compare.Agreement(30, 0.01, 0.01).accepts(0.05)
    assert not compare.Agreement(29, 0.01, 0.01).accepts(0.05)
    assert not compare.Agreement(31, 0.06, 0.01).accepts(0.05)
    assert not compare.Agreement(32, 0.0, 0.06).accepts(0.05)


def test_modes_are_compared_with_eager_execution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eager = [{"prompt": [1], "tokens": [2], "logprobs": [{"2": -0.5}]}]
    other = [{"prompt": [1], "tokens": [3], "logprobs": [{"2": -0.25, "3": -0.1}]}]
    written = iter([eager, eager, other, eager, eager])

    def run(arguments: list[str], folder: Path, environment: dict[str, str]) -> tuple[int | None, str]:
        assert arguments[0] == "run"
        assert environment["GRAPH_QUANT_MEMORY"] == "2GiB"
        if (answer := next(written, None)) is None:
            return 1, "RuntimeError: wrong"
        (folder / "requests.json").write_text(json.dumps(answer))
        return 0, ""

    passed: Callable[..., compare.Outcome] = lambda label, *_: compare.Outcome(label, Verdict.PASSED)  # noqa: E731
    monkeypatch.setattr(compare, "write", lambda _model, folder: folder)
    monkeypatch.setattr(compare, "_compare_with_transformers", passed)
    verdicts = {outcome.name: outcome for outcome in compare.outcomes("qwen3-bf16", tmp_path, run)}
    assert [outcome.verdict for outcome in verdicts.values()] == [
        *[Verdict.PASSED] * 2,
        Verdict.FAILED,
        *[Verdict.PASSED] * 2,
        Verdict.FAILED,
    ]
    assert verdicts["qwen3-bf16, FULL"].reason == "0 of 1 requests have eager's tokens; probabilities differ by 0.2500"
    assert verdicts[f"qwen3-bf16, {SERVER}"].reason == "RuntimeError: wrong"


def test_the_options_of_a_mode() -> None:
    model = MODELS["qwen3-w8a8-dynamic"]
    assert options_of(model, EAGER)["enforce_eager"] is True
    captured = options_of(model, "PIECEWISE")
    assert captured["compilation_config"] == {"cudagraph_mode": "PIECEWISE"}
    assert captured["additional_config"]["ascend_compilation_config"]["fuse_qknorm_rope"] is False
    fused = options_of(model, FUSED)
    assert (fused["compilation_config"], fused["additional_config"]) == ({"cudagraph_mode": "FULL_DECODE_ONLY"}, {})
    assert captured["quantization"] == "ascend"
