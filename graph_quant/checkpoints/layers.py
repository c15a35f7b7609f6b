"""The quantised linears of a checkpoint: scheme, sizes and stored parts, from its description and headers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .headers import Headers, TensorHeader, read_json

MSMODELSLIM, COMPRESSED_TENSORS, FLOAT_FORMAT = "msModelSlim", "compressed-tensors", "not quantised"
_FLOAT = "FLOAT"
# The bits of weights and activations, and the parts beside `weight` that a linear must and may have.
_SYMMETRIC = ("weight_scale",), ("weight_offset", "bias")
_SCHEMES: dict[str, tuple[int, int, tuple[str, ...], tuple[str, ...]]] = {
    "W8A8": (
        8,
        8,
        ("input_scale", "input_offset", "deq_scale", "quant_bias"),
        ("weight_scale", "weight_offset", "bias"),
    ),
    "W8A8_DYNAMIC": (8, 8, *_SYMMETRIC),
    "W8A16": (8, 16, *_SYMMETRIC),
    "W4A16": (4, 16, *_SYMMETRIC),
    "W4A8_DYNAMIC": (4, 8, ("weight_scale",), ("weight_offset", "bias", "scale_bias", "weight_scale_second",
                                               "weight_offset_second")),
    "W4A4_DYNAMIC": (4, 4, *_SYMMETRIC),
}  # fmt: skip
# Parts that only a quantised linear has.
_QUANTISED_PARTS = frozenset(
    {"weight_scale", "weight_offset", "input_scale", "input_offset", "deq_scale", "quant_bias", "scale_bias"}
    | {"weight_packed", "weight_shape", "weight_scale_second", "weight_offset_second"}
)


@dataclass(frozen=True)
class QuantisedLayer:
    """A quantised linear: ``outputs`` x ``inputs`` elements of ``bits``, in groups of ``group`` inputs, 0 for one."""

    name: str
    scheme: str
    bits: int
    activation_bits: int
    outputs: int
    inputs: int
    group: int
    parts: Mapping[str, TensorHeader]

    @property
    def is_static(self) -> bool:
        """Whether the activations have a stored scale."""
        return self.activation_bits == 8 and "input_scale" in self.parts


@dataclass(frozen=True)
class LoadProblem:
    """A rule that a layer breaks, so that no engine can load it."""

    layer: str
    rule: str
    fix: str = ""


def read_layers(headers: Headers, config: Mapping[str, Any]) -> tuple[str, list[QuantisedLayer], list[LoadProblem]]:
    """Return the format, the quantised linears, and what is wrong with the description of the others."""
    parts = _parts(headers)
    descriptions = sorted(headers.folder.glob("quant_model_description*.json"))
    problems: list[LoadProblem] = []
    layers: list[QuantisedLayer] = []
    if descriptions:
        entries = _msmodelslim(parts, headers, read_json(descriptions[0]))
        title = MSMODELSLIM
    elif (stated := config.get("quantization_config") or {}).get("quant_method") == "compressed-tensors":
        entries, title = _compressed_tensors(parts, stated), COMPRESSED_TENSORS
    else:
        method = stated.get("quant_method")
        if method is not None:
            return str(method), [], [LoadProblem("", f"the check does not read quant_method {method}")]
        entries, title = _undescribed(parts), FLOAT_FORMAT
    for item in entries:
        if isinstance(item, LoadProblem):
            problems.append(item)
        else:
            layers.append(item)
    return title, layers, problems


def _parts(headers: Headers) -> dict[str, dict[str, TensorHeader]]:
    parts: dict[str, dict[str, TensorHeader]] = {}
    for name, header in headers.tensors.items():
        module, _, part = name.rpartition(".")
        parts.setdefault(module, {})[part] = header
    return parts


def _undescribed(parts: Mapping[str, Mapping[str, TensorHeader]]) -> Iterator[QuantisedLayer | LoadProblem]:
    for module, stored in parts.items():
        if extra := sorted(_QUANTISED_PARTS & stored.keys()):
            yield LoadProblem(
                module,
                f"{', '.join(extra)}: stored, but nothing says that the layer is quantised",
                "add quant_model_description.json, or quantization_config in config.json",
            )


def _msmodelslim(
    parts: Mapping[str, Mapping[str, TensorHeader]], headers: Headers, description: Mapping[str, Any]
) -> Iterator[QuantisedLayer | LoadProblem]:
    lost = [name for name in description if name.endswith(".weight") and name not in headers.tensors]
    for name in lost:
        yield LoadProblem(name.rpartition(".")[0], "weight: the description names it, and no file holds it")
    size = description.get("group_size") or 0
    for module, stored in parts.items():
        if "weight" not in stored or len(stored["weight"].shape) != 2:
            continue
        scheme = description.get(f"{module}.weight")
        if scheme is None:
            yield LoadProblem(
                module,
                "weight: the description does not name it",
                "quantise again with a version of msModelSlim that knows the model, or add the tensor as FLOAT",
            )
        elif scheme == _FLOAT:
            if extra := sorted(_QUANTISED_PARTS & stored.keys()):
                yield LoadProblem(module, f"{', '.join(extra)}: stored, but the description says {_FLOAT}")
        elif scheme not in _SCHEMES:
            yield LoadProblem(module, f"scheme {scheme} is not among {', '.join(sorted(_SCHEMES))}")
        else:
            yield _of_description(module, str(scheme), stored, size if isinstance(size, int) else 0)


def _of_description(
    module: str, scheme: str, stored: Mapping[str, TensorHeader], size: int
) -> QuantisedLayer | LoadProblem:
    bits, activation_bits, needed, possible = _SCHEMES[scheme]
    if missing := [part for part in needed if part not in stored]:
        return LoadProblem(module, f"{', '.join(missing)}: missing, and {scheme} needs it")
    known = {"weight", *needed, *possible}
    if extra := sorted((_QUANTISED_PARTS & stored.keys()) - known):
        return LoadProblem(
            module,
            f"{', '.join(extra)}: stored, but {scheme} has none; loading ends with a KeyError",
            "the description and the weights are of different schemes: quantise again, or correct the description",
        )
    weight = stored["weight"]
    if weight.dtype not in ("I8", "I32"):
        return LoadProblem(module, f"weight: {scheme} is stored as I8, got {weight.dtype}")
    outputs, inputs = weight.shape
    scale = stored.get("weight_scale", stored.get("deq_scale"))
    assert scale is not None
    if bits == 4 and scale.shape and scale.shape[0] == 2 * outputs:
        outputs *= 2  # two elements in each int8
    if not scale.shape or scale.shape[0] != outputs:
        return LoadProblem(
            module, f"weight_scale: it must have a row for each of {outputs} outputs, got {[*scale.shape]}"
        )
    return _layer(module, scheme, (bits, activation_bits), (outputs, inputs), stored, size)


def _layer(
    module: str,
    scheme: str,
    bits: tuple[int, int],
    size: tuple[int, int],
    stored: Mapping[str, TensorHeader],
    group: int,
) -> QuantisedLayer | LoadProblem:
    scale = stored.get("weight_scale_second", stored.get("weight_scale"))
    groups = scale.shape[1] if scale is not None and len(scale.shape) == 2 else 1
    if groups > 1:
        if group and groups != -(-size[1] // group):
            return LoadProblem(
                module, f"weight_scale: groups of {group} of {size[1]} inputs need {-(-size[1] // group)}, got {groups}"
            )
        group = group or -(-size[1] // groups)
    else:
        group = 0
    return QuantisedLayer(module, scheme, *bits, *size, group, dict(stored))


def _compressed_tensors(
    parts: Mapping[str, Mapping[str, TensorHeader]], config: Mapping[str, Any]
) -> Iterator[QuantisedLayer | LoadProblem]:
    groups = list((config.get("config_groups") or {}).values())
    ignored = config.get("ignore") or []
    for module, stored in parts.items():
        weight = stored.get("weight_packed", stored.get("weight"))
        if weight is None or len(weight.shape) != 2:
            continue
        group = None if any(_matches(name, module) for name in ignored) else _group_of(module, groups)
        is_stored = weight.dtype in ("I8", "I32")
        if not is_stored:
            if group is not None and "weight_scale" in stored:
                yield LoadProblem(module, f"weight: its group says integers, got {weight.dtype}")
            continue
        if group is None:
            yield LoadProblem(module, "weight: stored as integers, but no group of config.json targets it")
            continue
        yield _of_group(module, stored, group)


def _of_group(
    module: str, stored: Mapping[str, TensorHeader], group: Mapping[str, Any]
) -> QuantisedLayer | LoadProblem:
    weights, inputs = group.get("weights") or {}, group.get("input_activations")
    bits = weights.get("num_bits")
    if weights.get("type") != "int" or bits not in (4, 8):
        return LoadProblem(module, f"weights must be integers of 4 or 8 bits, got {weights.get('type')} of {bits}")
    if not weights.get("symmetric", True):
        return LoadProblem(module, "weights must be symmetric; the kernels of W8A8 and W4A8 take no offset")
    if "weight_scale" not in stored:
        return LoadProblem(module, "weight_scale: missing, and every scheme needs it")
    activation_bits = inputs.get("num_bits", 16) if inputs else 16
    suffix = "_DYNAMIC" if inputs and inputs.get("dynamic") else ""
    packed = stored.get("weight_packed")
    if packed is None:
        size = stored["weight"].shape
    else:
        per_word = 32 // bits
        size = (packed.shape[0], packed.shape[1] * per_word)
    size_of_group = weights.get("group_size") or 0 if weights.get("strategy") == "group" else 0
    return _layer(module, f"W{bits}A{activation_bits}{suffix}", (bits, activation_bits), (size[0], size[1]), stored,
                  size_of_group)  # fmt: skip


def _group_of(module: str, groups: list[Any]) -> Mapping[str, Any] | None:
    for group in groups:
        if any(target == "Linear" or _matches(target, module) for target in group.get("targets", ())):
            return group  # type: ignore[no-any-return]
    return None


def _matches(pattern: str, module: str) -> bool:
    return re.match(pattern[3:], module) is not None if pattern.startswith("re:") else module == pattern
