"""Checkpoints of compressed-tensors: config.json lists groups of targets, each with its scheme.

int-quantized stores int8 weights and weight_scale (n, 1); pack-quantized stores weight_packed, int32 of eight int4
along the input channels, each plus 8, the first in the lowest bits, with weight_shape and weight_scale (n, groups).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from graph_quant.nn.checkpoints.files import Files, one_or_rows
from graph_quant.nn.checkpoints.stored import Activations, CheckpointError, Stored
from torch import Tensor

_ANY = "Linear"
_FORMATS = ("int-quantized", "pack-quantized")
_MIXED = "mixed-precision"  # each group states its own
_STRATEGIES = ("tensor", "channel", "group")


class CompressedTensors:
    """The format compressed-tensors: schemes from the configuration."""

    title = "compressed-tensors"

    def __init__(self, files: Files, config: Mapping[str, Any]) -> None:
        self._files = files
        self._groups = list((config.get("config_groups") or {}).values())
        if not all("targets" in group and group.get("weights") for group in self._groups):
            raise CheckpointError(f"{files.folder}: each of its config_groups must have targets and weights")
        if (config.get("transform_config") or {}).get("config_groups"):
            raise CheckpointError(f"{files.folder}: its transform_config rotates activations, which is not supported")
        self._cache = config.get("kv_cache_scheme")
        if self._cache is not None and not _is_supported_cache(self._cache):
            scheme = dict(self._cache)
            raise CheckpointError(f"{files.folder}: its kv_cache_scheme must be symmetric static int8, got {scheme}")
        self._ignored = config.get("ignore") or []
        stated = config.get("format")
        for written in [group.get("format") for group in self._groups] if stated == _MIXED else [stated]:
            if written not in _FORMATS:
                raise CheckpointError(f"{files.folder}: its format {written} is not among {', '.join(_FORMATS)}")

    def is_quantised(self, linear: str) -> bool:
        """Whether a group targets ``linear``, and it is not ignored."""
        return not any(_matches(pattern, linear) for pattern in self._ignored) and self._group(linear) is not None

    def _group(self, linear: str) -> Mapping[str, Any] | None:
        """Return the group that matches ``linear`` most closely: by name, by pattern, or as any linear."""
        matches = [
            (target.startswith("re:") + 2 * (target == _ANY), target, index)
            for index, group in enumerate(self._groups)
            for target in group["targets"]
            if target == _ANY or _matches(target, linear)
        ]
        return self._groups[min(matches)[2]] if matches else None

    def weight(self, linear: str, shape: tuple[int, int]) -> Stored:
        """Return the weight of ``linear``, of shape (n, k)."""
        group = self._group(linear)
        assert group is not None
        weights, inputs = group["weights"], group.get("input_activations")
        if weights.get("type") != "int" or weights.get("num_bits") not in (4, 8) or not weights.get("symmetric"):
            scheme = {name: weights.get(name) for name in ("num_bits", "type", "symmetric")}
            raise CheckpointError(f"{linear}.weight: weights must be symmetric integers of 4 or 8 bits, got {scheme}")
        if group.get("output_activations") is not None:
            raise CheckpointError(f"{linear}: quantised output_activations are not supported")
        integers = self._integers(linear, weights["num_bits"], shape)
        scale = one_or_rows(f"{linear}.weight_scale", self._files.take(f"{linear}.weight_scale"), shape[0])
        _check_groups(linear, weights, scale, shape[1])
        if inputs is None:
            return Stored(weights["num_bits"], integers, scale, Activations.FLOAT)
        if inputs.get("type") != "int":
            raise CheckpointError(f"{linear}: activations must be integers, got {dict(inputs)}")
        if inputs.get("dynamic") not in (None, False, True):
            raise CheckpointError(f"{linear}: dynamic activations must be True or False, got {inputs['dynamic']!r}")
        if not inputs.get("dynamic"):
            if inputs.get("num_bits") != 8 or inputs.get("strategy") != "tensor":
                raise CheckpointError(f"{linear}: stored scales must be of a tensor of 8 bits, got {dict(inputs)}")
            return self._static(linear, integers, scale)
        if inputs.get("strategy") != "token" or not inputs.get("symmetric", True):
            raise CheckpointError(f"{linear}: dynamic activations must be symmetric and by token, got {dict(inputs)}")
        return Stored(weights["num_bits"], integers, scale, Activations.DYNAMIC, inputs["num_bits"])

    def _static(self, linear: str, integers: Tensor, scale: Tensor) -> Stored:
        offset = self._files.take_optional(f"{linear}.input_zero_point")
        input_scale = self._files.take(f"{linear}.input_scale").float().reshape(-1)
        if input_scale.numel() != 1:
            raise CheckpointError(f"{linear}.input_scale: it must have one element, got {input_scale.numel()}")
        zero = torch.zeros(1) if offset is None else offset.float().reshape(-1)
        if zero.numel() != 1:
            raise CheckpointError(f"{linear}.input_zero_point: it must have one element, got {zero.numel()}")
        return Stored(8, integers, scale, Activations.STATIC, 8, input_scale, zero)

    def _integers(self, linear: str, bits: int, shape: tuple[int, int]) -> Tensor:
        packed = self._files.take_optional(f"{linear}.weight_packed")
        if packed is None:
            stored = self._files.take(f"{linear}.weight")
            if stored.dtype != torch.int8 or tuple(stored.shape) != shape:
                actual = f"{stored.dtype} {tuple(stored.shape)}"
                raise CheckpointError(f"{linear}.weight: it must be int8 of shape {shape}, got {actual}")
            return stored
        stated = self._files.take_optional(f"{linear}.weight_shape")
        if stated is not None and tuple(stated.tolist()) != shape:
            raise CheckpointError(f"{linear}.weight_shape: it must be {shape}, got {tuple(stated.tolist())}")
        for name in ("weight_g_idx", "weight_zero_point"):
            extra = self._files.take_optional(f"{linear}.{name}")
            if extra is not None and bool((extra if name == "weight_zero_point" else extra + 1).any()):
                raise CheckpointError(f"{linear}.{name}: weights with it are not supported")
        if packed.dtype != torch.int32 or tuple(packed.shape) != (shape[0], -(-shape[1] * bits // 32)):
            held = f"{packed.dtype} {tuple(packed.shape)}"
            raise CheckpointError(f"{linear}.weight_packed: {held} does not hold {shape} of {bits} bits")
        parts = [(packed >> shift) & ((1 << bits) - 1) for shift in range(0, 32, bits)]
        return (torch.stack(parts, -1).reshape(shape[0], -1)[:, : shape[1]] - (1 << (bits - 1))).to(torch.int8)

    def caches(self) -> dict[str, dict[str, Tensor]]:
        """Return the scales of int8 KV caches by attention module."""
        scales: dict[str, dict[str, Tensor]] = {}
        for name in self._files.names:
            module, _, kind = name.rpartition(".")
            if kind in ("k_scale", "v_scale"):
                scales.setdefault(module, {})[kind] = self._files.take(name)
        if self._cache is not None and not scales:
            raise CheckpointError(f"{self._files.folder}: it has a kv_cache_scheme and holds no k_scale and v_scale")
        return scales


def _is_supported_cache(scheme: Mapping[str, Any]) -> bool:
    return (
        scheme.get("type") == "int"
        and scheme.get("num_bits") == 8
        and bool(scheme.get("symmetric", True))
        and not scheme.get("dynamic")
    )


def _matches(pattern: str, linear: str) -> bool:
    if pattern.startswith("re:"):
        return re.match(pattern.removeprefix("re:"), linear) is not None
    return linear == pattern


def _check_groups(linear: str, weights: Mapping[str, Any], scale: Tensor, inputs: int) -> None:
    strategy, size = weights.get("strategy"), weights.get("group_size")
    if strategy not in _STRATEGIES:
        raise CheckpointError(f"{linear}.weight: its strategy {strategy} is not among {', '.join(_STRATEGIES)}")
    groups = inputs // size if strategy == "group" and size else 1
    if scale.size(1) != groups:
        scheme = f"{strategy} of {size}" if size else strategy
        raise CheckpointError(f"{linear}.weight_scale: {scheme} must have {groups} for each row, got {scale.size(1)}")
