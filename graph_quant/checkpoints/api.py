"""``check_checkpoint``: what operators and engines will refuse of a checkpoint, without loading a weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from .. import chip as chips
from ..refusals import Refusal
from .calls import check_attention, check_linear
from .headers import HeaderError, Headers, TensorHeader, read_json
from .layers import MSMODELSLIM, QuantisedLayer, read_layers
from .memory import buffer_mib, cache_bytes, experts_of, head_size, weight_bytes
from .report import ERROR, WARNING, CheckpointFinding, CheckpointReport
from .sharding import join, shard

_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_NAMES = {torch.float16: "F16", torch.bfloat16: "BF16"}
# Models whose engines join these linears themselves: a checkpoint must hold the parts.
_JOINING = ("qwen2", "qwen3", "llama", "mistral", "deepseek")
_VISION = ("visual.", "vision_tower.", "vision_model.")
_FIXES = (
    ("antiquant_group_size", "quantise with groups of 128 or 64, or serve in ND (VLLM_ASCEND_ENABLE_NZ=0)"),
    ("scale must be", "serve with --dtype bfloat16, or quantise the model in bfloat16"),
    ("bias must be", "convert the bias to the dtype that the rule names, or serve in float16"),
)  # fmt: skip


def check_checkpoint(
    folder: str | Path,
    *,
    chip: str | None = None,
    cards: int = 1,
    dtype: str | None = None,
    nz: bool = True,
    tokens: int = 512,
) -> CheckpointReport:
    """Check a checkpoint before an engine loads it, by its configuration and the headers of its files.

    The operators' own records decide: the calls that vllm-ascend makes with each layer are made on meta tensors.

    Args:
        folder: The folder of the checkpoint, of msModelSlim or compressed-tensors.
        chip: ``A2``, ``A3``, or a device name; default: the chip in use.
        cards: The number of cards in a tensor-parallel group.
        dtype: ``float16`` or ``bfloat16``; default: that of the configuration.
        nz: Whether weights are cast to FRACTAL_NZ, as vllm-ascend does by default.
        tokens: The tokens of a rank in a step, for the buffer of the collectives.

    Returns:
        What is refused, and the memory of a card.

    Raises:
        HeaderError: The folder, a file or the configuration cannot be read.
        ValueError: ``chip``, ``cards`` or ``dtype`` is unknown.

    Examples:
        >>> report = check_checkpoint("Qwen3-8B-W4A8", chip="A2", cards=4)
        >>> report.ok
    """
    import torch_npu  # noqa: F401

    if cards < 1:
        raise ValueError(f"cards must be at least 1, got {cards}")
    described = chips.current() if chip is None else chips.find_chip(chip)
    headers = Headers(Path(folder))
    config = _configuration(headers)
    half = _dtype(dtype or _stated_dtype(config))
    title, layers, problems = read_layers(headers, config)
    model = config.get("model_type", "unknown model")
    report = CheckpointReport(
        f"{model}, {str(half).removeprefix('torch.')}, {title}, {len(headers.files)} files", described.name, cards
    )
    report.schemes = dict(Counter(layer.scheme for layer in layers))
    report.findings += [CheckpointFinding(ERROR, "", "", text) for text in headers.problems]
    report.findings += [CheckpointFinding(ERROR, problem.layer, "", problem.rule, problem.fix) for problem in problems]
    with chips.use(described):
        report.findings += _check_parts(layers, title, half, str(model))
        report.findings += _check_linears(layers, cards, half, config, nz=nz)
        report.findings += _check_heads(config, cards, half)
    report.weight_bytes, report.cache_bytes = weight_bytes(headers, cards, config), cache_bytes(config, cards)
    report.buffer_mib, report.tokens = buffer_mib(config, cards, tokens), tokens
    return report


def _configuration(headers: Headers) -> dict[str, Any]:
    path = headers.folder / "config.json"
    if not path.is_file():
        raise HeaderError(f"{headers.folder}: it holds no config.json")
    config = read_json(path)
    text = config.get("text_config")  # of a model with images
    return {**config, **text, "quantization_config": config.get("quantization_config")} if text else config


def _stated_dtype(config: Mapping[str, Any]) -> str:
    return str(config.get("dtype") or config.get("torch_dtype") or "bfloat16").removeprefix("torch.")


def _dtype(name: str) -> torch.dtype:
    if name not in _DTYPES:
        raise ValueError(f"dtype must be float16 or bfloat16, as the quantised operators take, got {name}")
    return _DTYPES[name]


def _check_parts(
    layers: list[QuantisedLayer], title: str, half: torch.dtype, model: str
) -> Iterator[CheckpointFinding]:
    """Check the dtypes of stored parts, which a loader copies into parameters of other dtypes, and their names."""
    for layer in layers:
        for part, rule, fix in _wrong_parts(layer, half) if title == MSMODELSLIM else ():
            yield CheckpointFinding(ERROR, layer.name, layer.scheme, f"{part}: {rule}", fix)
        own = layer.name.rpartition(".")[2]
        if own in ("gate_up_proj", "qkv_proj") and model.startswith(_JOINING):
            parts = "gate_proj and up_proj" if own == "gate_up_proj" else "q_proj, k_proj and v_proj"
            yield CheckpointFinding(
                ERROR, layer.name, layer.scheme, f"{own} is stored joined, but {model} is loaded from {parts}",
                "save the model with its parts apart; engines join them",
            )  # fmt: skip
        if layer.name.removeprefix("model.").startswith(_VISION):
            yield CheckpointFinding(
                WARNING, layer.name, layer.scheme, "the vision tower is quantised; engines that load it as float "
                "read integers as weights", "leave it out of the quantisation, or check that the engine takes it",
            )  # fmt: skip


def _wrong_parts(layer: QuantisedLayer, half: torch.dtype) -> Iterator[tuple[str, str, str]]:
    def wrong(part: str, allowed: tuple[str, ...]) -> bool:
        stored: TensorHeader | None = layer.parts.get(part)
        return stored is not None and stored.dtype not in allowed

    if wrong("quant_bias", ("I32",)):
        yield "quant_bias", f"it must be I32, got {layer.parts['quant_bias'].dtype}", ""
    expected = "I64" if half == torch.float16 else "F32"
    if wrong("deq_scale", (expected,)):
        other = "bfloat16" if half == torch.float16 else "float16"
        yield (
            "deq_scale",
            f"it must be {expected} for {half}, got {layer.parts['deq_scale'].dtype}, which a loader converts by value",
            f"serve with --dtype {other}, which it was quantised in",
        )
    for part in ("weight_scale", "weight_offset", "input_scale"):
        if wrong(part, ("F32", "F16", "BF16")):
            yield part, f"it must be of floats, got {layer.parts[part].dtype}", ""


def _check_linears(
    layers: list[QuantisedLayer], cards: int, half: torch.dtype, config: Mapping[str, Any], *, nz: bool
) -> Iterator[CheckpointFinding]:
    joined, mixed = join(layers)
    for name in mixed:
        yield CheckpointFinding(
            ERROR, name, "", "its parts have different schemes, and engines join them to one linear",
            "give all of them one scheme, or leave all of them out",
        )  # fmt: skip
    refused: dict[tuple[Any, ...], str | None] = {}
    for name, parts in joined:
        if name in mixed:
            continue
        try:
            part = shard(parts, cards, config)
        except ValueError as error:
            yield CheckpointFinding(ERROR, name, parts[0].scheme, str(error), "use fewer cards")
            continue
        if ".experts." in name:
            continue  # grouped products take any sizes that divide; their schemes are checked by their parts
        # The same sizes need one call only.
        key = (part.scheme, part.outputs, part.inputs, part.group, "bias" in part.parts)
        if key not in refused:
            refused[key] = _refusal(lambda: check_linear(part, half, nz=nz))  # noqa: B023
        if (rule := refused[key]) is not None:
            yield CheckpointFinding(ERROR, name, part.scheme, rule, _fix(rule))


def _refusal(check: Callable[[], None]) -> str | None:
    try:
        check()
    except Refusal as error:
        return str(error).partition("\n")[0]
    return None


def _fix(rule: str) -> str:
    return next((fix for part, fix in _FIXES if part in rule), "")


def _check_heads(config: Mapping[str, Any], cards: int, half: torch.dtype) -> Iterator[CheckpointFinding]:
    heads, size = config.get("num_attention_heads"), head_size(config)
    key_heads = config.get("num_key_value_heads", heads)
    if isinstance(heads, int) and heads % cards:
        yield CheckpointFinding(ERROR, "", "", f"num_attention_heads, {heads}, must be a multiple of the {cards} cards")
        return
    if isinstance(key_heads, int) and key_heads % cards and cards % key_heads:
        rule = f"num_key_value_heads, {key_heads}, must divide the {cards} cards or be a multiple of them"
        yield CheckpointFinding(ERROR, "", "", rule)
        return
    experts = experts_of(config)
    if experts is not None and experts[0] % cards:
        yield CheckpointFinding(
            WARNING, "", "", f"{experts[0]} experts do not divide among {cards} cards: no expert parallelism"
        )
    if not isinstance(heads, int) or not isinstance(key_heads, int) or size is None or config.get("kv_lora_rank"):
        return
    with suppress(NotImplementedError):
        rule_or_none = _refusal(lambda: check_attention(heads // cards, max(key_heads // cards, 1), size, half))
        if rule_or_none is not None:
            yield CheckpointFinding(ERROR, "attention", "", rule_or_none)
