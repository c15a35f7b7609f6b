"""The suite of vLLM's engine: its checkpoints, and how requests are compared. The engine itself is not needed."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from compat.engine import compare, reference
from compat.engine.agreement import Agreement, agreement
from compat.engine.checkpoint import quantise
from compat.engine.models import EAGER, FUSED, LONG_SERVER, MODELS, SERVER, options_of
from compat.outcome import Verdict
from compat.suites import SUITES

LINEAR, GATE = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.gate"
EXPERT = "model.layers.0.mlp.experts.3.down_proj"


def test_every_model_is_in_the_suite() -> None:
    (suite,) = (suite for suite in SUITES if suite.name == "vllm-engine")
    assert suite.engine_models == tuple(MODELS)
    for model in MODELS.values():
        assert model.modes[0] in (EAGER, SERVER), "the other modes are compared with it"


@pytest.mark.parametrize("scheme", ["W8A8_DYNAMIC", "W8A8", "W8A16", "W4A8_DYNAMIC"])
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
    assert description[f"{LINEAR}.weight"] == {"W4A8_DYNAMIC": "W8A8_DYNAMIC"}.get(scheme, scheme)
    assert stored.keys() == description.keys() - {"model_quant_type"}
    assert torch.equal(stored[f"{LINEAR}.weight"] * stored[f"{LINEAR}.weight_scale"], meant[f"{LINEAR}.weight"])
    assert torch.equal(stored[f"{LINEAR}.weight_scale"], stored[f"{LINEAR}.weight_scale"].bfloat16().float())
    assert (meant[f"{LINEAR}.weight"] - weights[f"{LINEAR}.weight"]).abs().max() <= stored[
        f"{LINEAR}.weight_scale"
    ].max() * 0.51
    if scheme == "W8A8":
        expected = stored[f"{LINEAR}.weight_scale"].squeeze(1) * 2**-5
        assert torch.allclose(stored[f"{LINEAR}.deq_scale"], expected)


def test_experts_of_four_bits_are_packed_by_pairs_of_outputs(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    save_file({f"{EXPERT}.weight": torch.randn(6, 32)}, plain / "model.safetensors")
    quantise(plain, tmp_path, "W4A8_DYNAMIC", [], {})
    stored, meant = load_file(tmp_path / "model.safetensors"), load_file(plain / "model.safetensors")
    packed, scale = stored[f"{EXPERT}.weight"], stored[f"{EXPERT}.weight_scale"]
    assert packed.shape == (3, 32)
    integers = torch.stack((packed << 4 >> 4, packed >> 4), 1).flatten(0, 1)
    assert torch.equal(integers * scale, meant[f"{EXPERT}.weight"])
    bias = stored[f"{EXPERT}.scale_bias"]
    assert bias.shape == (6, 16)
    assert torch.allclose(bias.sum(1), 8 * meant[f"{EXPERT}.weight"].sum(1), atol=1e-5)


def test_an_adapter_is_merged_into_the_weights(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    save_file({"q_proj.weight": torch.randn(6, 4), "other.weight": torch.randn(6, 4)}, plain / "model.safetensors")
    reference._write_adapter(plain, tmp_path / "adapter")
    model = torch.nn.Module()
    model.q_proj, model.other = torch.nn.Linear(4, 6, bias=False), torch.nn.Linear(4, 6, bias=False)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    reference.merge_adapter(model, tmp_path / "adapter")
    assert torch.equal(model.other.weight, before["other.weight"])
    stored = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    x = torch.randn(4)
    down = stored["base_model.model.q_proj.lora_A.weight"].float() @ x
    expected = before["q_proj.weight"] @ x + 2 * (stored["base_model.model.q_proj.lora_B.weight"].float() @ down)
    assert torch.allclose(model.q_proj(x), expected, atol=1e-6)
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["r"] == 8


def test_the_reference_rounds_the_inputs_of_quantised_linears() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.Linear(1, 1, bias=False))
    for linear in model:
        torch.nn.init.ones_(linear.weight)
    x = torch.tensor([[127.0, 3.4], [254.0, 3.4]])  # sums of 130.4 and 257.4
    reference.round_inputs(model, {"0.weight_scale": torch.ones(1)})
    assert model(x).flatten().tolist() == [130, 258], "by the largest of each token"
    static = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False))
    torch.nn.init.ones_(static[0].weight)
    reference.round_inputs(static, {"0.weight_scale": torch.ones(1), "0.input_scale": torch.tensor([2.0])})
    assert static(x).flatten().tolist() == [132, 258], "by the scale"


def test_a_token_behind_the_best_is_a_tie_or_an_error() -> None:
    logits = torch.tensor([[4.0, 3.99, 0.0], [0.0, 1.0, 2.0]])
    logprobs = [{str(token): value for token, value in enumerate(row)} for row in logits.log_softmax(-1).tolist()]
    tie = agreement({"tokens": [1, 2], "logprobs": logprobs}, logits)
    assert (tie.tokens, round(tie.behind, 4), round(tie.error, 4)) == (1, 0.0025, 0)
    wrong = agreement({"tokens": [2, 2], "logprobs": logprobs}, logits)
    assert (wrong.tokens, wrong.behind) == (1, 1.0)
    grammar = agreement({"tokens": [2, 2], "logprobs": logprobs}, logits, allowed=[2])
    assert (grammar.tokens, grammar.behind) == (2, 0.0), "a grammar leaves no other token"
    assert Agreement(30, 0.01, 0.01).accepts(0.05)
    assert not Agreement(29, 0.01, 0.01).accepts(0.05)
    assert not Agreement(31, 0.06, 0.01).accepts(0.05)
    assert not Agreement(32, 0.0, 0.06).accepts(0.05)


def test_modes_are_compared_with_eager_execution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eager = [{"prompt": [1], "tokens": [2], "logprobs": [{"2": -0.5}]}]
    other = [{"prompt": [1], "tokens": [3], "logprobs": [{"2": -0.25, "3": -0.1}]}]
    written = iter([eager, eager, other, eager, eager, eager])

    def run(arguments: list[str], folder: Path, environment: dict[str, str]) -> tuple[int | None, str]:
        assert arguments[0] == "run"
        assert environment["GRAPH_QUANT_MEMORY"] == "2GiB"
        if (answer := next(written, None)) is None:
            return 1, "RuntimeError: wrong"
        (folder / "requests.json").write_text(json.dumps({"requests": answer, "counters": {}, "note": "memory"}))
        return 0, ""

    passed: Callable[..., compare.Outcome] = lambda label, *_: compare.Outcome(label, Verdict.PASSED)  # noqa: E731
    monkeypatch.setattr(compare, "write", lambda _model, folder: folder)
    monkeypatch.setattr(compare, "_compare_with_transformers", passed)
    verdicts = {outcome.name: outcome for outcome in compare.outcomes("qwen3-bf16", tmp_path, run)}
    assert [outcome.verdict for outcome in verdicts.values()] == [
        *[Verdict.PASSED] * 2,
        Verdict.FAILED,
        *[Verdict.PASSED] * 3,
        Verdict.FAILED,
    ]
    assert verdicts["qwen3-bf16, FULL"].reason == "0 of 1 requests have eager's tokens; probabilities differ by 0.2500"
    assert verdicts[f"qwen3-bf16, {SERVER}"].reason == "memory"
    assert verdicts[f"qwen3-bf16, {LONG_SERVER}"].reason == "RuntimeError: wrong"


def test_embeddings_are_compared_by_their_difference() -> None:
    model = torch.nn.Module()
    model.model = lambda _: SimpleNamespace(last_hidden_state=torch.tensor([[[9.0, 9.0], [3.0, 4.0]]]))
    passed = compare._compare_embeddings("label", model, [{"prompt": [1, 2], "embedding": [0.6, 0.8]}])
    assert passed == compare.Outcome("label", Verdict.PASSED, "embeddings are off by 0.0000 of their length")
    failed = compare._compare_embeddings("label", model, [{"prompt": [1, 2], "embedding": [0.8, 0.6]}])
    assert failed.verdict is Verdict.FAILED


def test_a_feature_that_was_not_used_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_arguments: list[str], folder: Path, _environment: dict[str, str]) -> tuple[int | None, str]:
        (folder / "requests.json").write_text(json.dumps({"requests": [], "counters": {"vllm:prefix_cache_hits": 0}}))
        return 0, ""

    monkeypatch.setattr(compare, "write", lambda _model, folder: folder)
    outcomes = list(compare.outcomes("qwen3-bf16, prefix caching", tmp_path, run))
    assert {outcome.reason for outcome in outcomes} == {"vllm:prefix_cache_hits is 0"}


def test_the_options_of_a_mode() -> None:
    model = MODELS["qwen3-w8a8-dynamic"]
    assert options_of(model, EAGER)["enforce_eager"] is True
    captured = options_of(model, "PIECEWISE")
    assert captured["compilation_config"] == {"cudagraph_mode": "PIECEWISE"}
    assert captured["additional_config"]["ascend_compilation_config"]["fuse_qknorm_rope"] is False
    fused = options_of(model, FUSED)
    assert (fused["compilation_config"], fused["additional_config"]) == ({"cudagraph_mode": "FULL_DECODE_ONLY"}, {})
    assert captured["quantization"] == "ascend"


def test_a_layer_for_drafts_is_like_the_last(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    names = ("model.layers.0.mlp", "model.layers.1.mlp", "model.embed_tokens", "model.norm", "lm_head")
    weights = {f"{name}.weight": torch.randn(6, 4) for name in names}
    save_file(weights, file)
    reference._add_draft_layer(file, 2)
    stored = load_file(file)
    assert all(torch.equal(stored[name], weight) for name, weight in weights.items())
    assert torch.equal(stored["model.layers.2.mlp.weight"], weights["model.layers.1.mlp.weight"])
    assert stored["model.layers.2.eh_proj.weight"].shape == (4, 8)
    assert torch.equal(stored["model.layers.2.shared_head.head.weight"], weights["lm_head.weight"])
