"""What operators and engines refuse of a checkpoint is found in its headers; the cases are users' reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401
import pytest
import torch
import torch_npu  # noqa: F401
from checkpoints.stored_checkpoint import Tensors, Write, decoder, description, linear, write_file
from graph_quant.checkpoints import HeaderError, check_checkpoint
from graph_quant.checkpoints.memory import buffer_mib
from graph_quant.cli import main
from graph_quant.refusals import Refusal


def model(scheme: str = "W8A8_DYNAMIC", **options: Any) -> Tensors:
    return decoder(0, scheme, **options) | decoder(1, scheme, **options)


@pytest.mark.parametrize("scheme", ["W8A8_DYNAMIC", "W8A16", "W8A8", "W4A16", "W4A8_DYNAMIC"])
@pytest.mark.parametrize("cards", [1, 2, 4])
def test_a_good_checkpoint_passes(write: Write, scheme: str, cards: int) -> None:
    tensors = model(scheme, group=128 if scheme.startswith("W4") else 0)
    report = check_checkpoint(write(tensors, description(tensors, scheme, group_size=128)), chip="A2", cards=cards)
    assert report.ok, "\n".join(report.lines())
    assert report.schemes == {scheme: 14}


# Options of the tensors, of the description, of config.json and of the check; the layer and a part of the rule.
REPORTS = {
    "groups of 256 in NZ": (
        "W4A8_DYNAMIC", {"group": 256}, {"group_size": 256}, {}, {},
        "model.layers.0.mlp.down_proj", "antiquant_group_size must be 64 or 128 for int4 weights in FRACTAL_NZ",
    ),
    "float16 scales": (
        "W8A8_DYNAMIC", {}, {}, {"torch_dtype": "float16"}, {},
        "model.layers.0.self_attn.qkv_proj", "npu_quant_matmul: scale must be torch.float32",
    ),
    "bfloat16 bias": (
        "W8A16", {"bias": "BF16"}, {}, {}, {},
        "model.layers.0.self_attn.qkv_proj", "npu_weight_quant_batchmatmul: bias must be torch.float32",
    ),
    "scales of another dtype": (
        "W8A8", {"scale": "F32"}, {}, {"torch_dtype": "float16"}, {},
        "model.layers.0.mlp.up_proj", "deq_scale: it must be I64 for torch.float16, got F32",
    ),
    "sizes that do not divide": (
        "W8A8_DYNAMIC", {}, {}, {}, {"cards": 3},
        "", "num_attention_heads, 8, must be a multiple of the 3 cards",
    ),
    "groups that do not divide": (
        "W4A16", {"group": 1024}, {"group_size": 1024}, {}, {"cards": 2, "nz": False},
        "model.layers.0.mlp.down_proj", "k of a card, 3072 / 2 = 1536, must be a multiple of the group size 1024",
    ),
    "head size": (
        "W8A8_DYNAMIC", {}, {}, {"head_dim": 520, "hidden_size": 1024}, {},
        "attention", "npu_fused_infer_attention_score: ",
    ),
    "chip without rules": (
        "W8A8_DYNAMIC", {}, {}, {}, {"chip": "310P"},
        "model.layers.0.self_attn.qkv_proj", "Ascend 310P",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_what_an_operator_refuses(write: Write, name: str) -> None:
    scheme, tensor_options, described, config, options, layer, rule = REPORTS[name]
    tensors = model(scheme, **tensor_options)
    report = check_checkpoint(write(tensors, description(tensors, scheme, **described), **config), **options)
    matches = [finding for finding in report.findings if finding.layer == layer and rule in finding.rule]
    assert matches, "\n".join(report.lines())
    assert not report.ok


def test_the_rule_is_the_operators_own(write: Write) -> None:
    tensors = model("W8A16", bias="BF16")
    report = check_checkpoint(write(tensors, description(tensors, "W8A16")), chip="A2")
    x, weight = (torch.empty(4, 8, dtype=dtype, device="meta") for dtype in (torch.bfloat16, torch.int8))
    with pytest.raises(Refusal) as refused:
        torch.ops.npu.npu_weight_quant_batchmatmul(
            x, torch.empty(8, 16, dtype=torch.int8, device="meta"), x.new_empty(16), bias=x.new_empty(16)
        )
    assert weight.is_meta
    assert report.findings[0].rule == str(refused.value).splitlines()[0]


GATE, JOINED, VISION = "model.layers.1.mlp.gate_proj", "model.layers.1.mlp.gate_up_proj", "visual.blocks.0.mlp.fc1"
# Tensors and descriptions that change, None for those that are left out, and a part of the rule.
CHANGES: dict[str, tuple[dict[str, Any], dict[str, str | None], str]] = {
    "deq_scale of a dynamic layer": (
        {f"{GATE}.deq_scale": ("F32", [3072])},
        {},
        "deq_scale: stored, but W8A8_DYNAMIC has none; loading ends with a KeyError",
    ),
    "scale of a float layer": ({}, {f"{GATE}.weight": "FLOAT"}, "stored, but the description says FLOAT"),
    "no scale": ({f"{GATE}.weight_scale": None}, {}, "weight_scale: missing"),
    "no weight": ({f"{GATE}.weight": None}, {}, "the description names it, and no file"),
    "no description": ({}, {f"{GATE}.weight": None}, "weight: the description does not name it"),
    "unknown scheme": ({}, {f"{GATE}.weight": "W8A8SC"}, "scheme W8A8SC is not among"),
    "parts of two schemes": ({}, {f"{GATE}.weight": "W8A16"}, "its parts have different schemes"),
    "joined already": (
        linear(JOINED, "W8A8_DYNAMIC", 64, 64),
        {f"{JOINED}.weight": "W8A8_DYNAMIC"},
        "gate_up_proj is stored joined, but qwen3 is loaded from gate_proj and up_proj",
    ),
    "integer scales": ({f"{GATE}.weight_scale": ("I64", [3072, 1])}, {}, "weight_scale: it must be of floats, got I64"),
    "vision tower": (
        linear(VISION, "W8A8_DYNAMIC", 64, 64),
        {f"{VISION}.weight": "W8A8_DYNAMIC"},
        "the vision tower is quantised",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_an_engine_refuses(write: Write, name: str) -> None:
    changed, redescribed, rule = CHANGES[name]
    described = {**description(model(), "W8A8_DYNAMIC"), **redescribed}
    tensors = {**model(), **changed}
    stored = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    report = check_checkpoint(write(stored, {name: scheme for name, scheme in described.items() if scheme is not None}))
    assert [finding for finding in report.findings if rule in finding.rule], "\n".join(report.lines())
    assert report.ok is (name == "vision tower")


def test_quantised_tensors_without_a_description(write: Write) -> None:
    report = check_checkpoint(write(model()))
    assert len(report.findings) == 14
    assert report.findings[0].rule == (
        "weight_offset, weight_scale: stored, but nothing says that the layer is quantised"
    )


def test_compressed_tensors(write: Write) -> None:
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 256}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None}
    config = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]}
    name = "model.layers.0.mlp.down_proj"
    tensors: Tensors = {
        f"{name}.weight_packed": ("I32", [1024, 384]),
        f"{name}.weight_scale": ("BF16", [1024, 12]),
        "lm_head.weight": ("BF16", [512, 1024]),
    }
    report = check_checkpoint(write(tensors, quantization_config=config))
    assert report.schemes == {"W4A16": 1}
    assert "antiquant_group_size must be 64 or 128 for int4 weights in FRACTAL_NZ" in report.findings[0].rule
    assert check_checkpoint(write(tensors, quantization_config=config), nz=False).ok


def test_files(write: Write, tmp_path: Path) -> None:
    tensors = model()
    folder = write(tensors, description(tensors, "W8A8_DYNAMIC"))
    whole = folder / "model.safetensors"
    with whole.open("r+b") as file:
        file.truncate(whole.stat().st_size - 1)
    (folder / "pointer.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    (folder / "junk.safetensors").write_bytes(b"junk")
    index = dict.fromkeys(tensors, "model.safetensors") | {"lost": "model.safetensors", "x": "absent.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    rules = [finding.rule for finding in check_checkpoint(folder).findings]
    assert [rule.partition(": ")[2].partition(",")[0] for rule in rules] == [
        "it is no safetensors file",
        "it is truncated",
        "it is a pointer of Git LFS; fetch the file itself with git lfs pull",
        "model.safetensors.index.json names it and it is missing",
        "model.safetensors.index.json names it and model.safetensors does not hold it",
    ]
    with pytest.raises(HeaderError, match="there is no such folder"):
        check_checkpoint(tmp_path / "absent")


def test_sharded_files_and_memory(write: Write) -> None:
    tensors = decoder(0)
    folder = write(tensors, description(decoder(0) | decoder(1), "W8A8_DYNAMIC"))
    write_file(folder / "second.safetensors", decoder(1))
    one, two = (check_checkpoint(folder, cards=cards) for cards in (1, 2))
    assert one.ok
    assert one.schemes == {"W8A8_DYNAMIC": 14}
    integers = 2 * (1024 * 1024 * 2 + 2 * 512 * 1024 + 3 * 3072 * 1024)
    assert one.weight_bytes - integers == 2 * 2 * 4 * (1024 * 3 + 512 * 2 + 3072 * 2)
    assert integers // 2 < two.weight_bytes < one.weight_bytes
    assert one.cache_bytes == 2 * 2 * 4 * 128 * 2


def test_the_buffer_is_what_the_tiling_asks_for() -> None:
    """The numbers of a device's own message: 2 ranks of 64 experts, 8 for a token, 512 tokens of 2048."""
    config = {"num_experts": 128, "num_experts_per_tok": 8, "hidden_size": 2048}
    assert buffer_mib(config, 2, 512) == 609
    assert buffer_mib(config, 1, 512) is None
    assert buffer_mib({"hidden_size": 2048}, 2, 512) is None


def test_the_command(write: Write, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tensors = model("W4A8_DYNAMIC", group=256)
    folder = write(tensors, description(tensors, "W4A8_DYNAMIC", group_size=256))
    page = tmp_path / "check.json"
    assert main(["check", str(folder), "--chip", "A2", "--json", str(page)]) == 1
    text = capsys.readouterr().out
    assert "error: model.layers.*.mlp.down_proj (2 layers, W4A8_DYNAMIC)" in text
    assert "fix: quantise with groups of 128 or 64" in text
    assert json.loads(page.read_text())["ok"] is False
    assert main(["check", str(folder), "--nd"]) == 0
    assert main(["check", str(tmp_path / "absent")]) == 2
    assert main(["check", str(folder), "--chip", "A9"]) == 2
