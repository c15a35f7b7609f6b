"""Checkpoints of msModelSlim: a description names the scheme of every weight.

W8A8 stores the arguments of npu_quantize and npu_quant_matmul: input_scale and input_offset, deq_scale (float32, or its
bits as int64 for float16) and quant_bias, which subtracts the offset's contribution. The other schemes store
weight_scale (n, 1), or (n, groups), and weight_offset, which symmetric weights have as zeros. int4 is stored as int8,
one element or two to each; two lie side by side along the output channels, the first in the low half.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from graph_quant.nn.checkpoints.files import Files, as_rows
from graph_quant.nn.checkpoints.stored import Activations, CheckpointError, Stored
from torch import Tensor

_FLOAT = "FLOAT"
# Bits of the weight and of the activations, and how those are quantised.
_SCHEMES = {
    "W8A8": (8, 8, Activations.STATIC),
    "W8A8_DYNAMIC": (8, 8, Activations.DYNAMIC),
    "W8A16": (8, 16, Activations.FLOAT),
    "W4A16": (4, 16, Activations.FLOAT),
    "W4A8_DYNAMIC": (4, 8, Activations.DYNAMIC),
    "W4A4_DYNAMIC": (4, 4, Activations.DYNAMIC),
}


class MsModelSlim:
    """The format msModelSlim: schemes from the description."""

    title = "msModelSlim"

    def __init__(self, files: Files, description: Mapping[str, Any]) -> None:
        self._files = files
        self._description = description

    def is_quantised(self, linear: str) -> bool:
        """Return whether the weight of ``linear`` is stored as integers; raise if the description does not name it."""
        scheme = self._description.get(f"{linear}.weight")
        if scheme is None:
            raise CheckpointError(f"{linear}.weight: {self._files.folder}'s description does not name it")
        return bool(scheme != _FLOAT)

    def weight(self, linear: str, shape: tuple[int, int]) -> Stored:
        """Return the weight of ``linear``, of shape (n, k)."""
        scheme = self._description[f"{linear}.weight"]
        if scheme not in _SCHEMES:
            raise CheckpointError(f"{linear}.weight: its scheme {scheme} is not among {', '.join(sorted(_SCHEMES))}")
        bits, activation_bits, activations = _SCHEMES[scheme]
        integers = _elements(linear, self._files.take(f"{linear}.weight"), bits, shape)
        self._check_symmetric(linear)
        if activations is Activations.STATIC:
            return self._static(linear, integers)
        scale = self._files.take_rows(f"{linear}.weight_scale", shape[0])
        has_assist = f"{linear}.scale_bias" in self._files
        return Stored(
            bits,
            integers,
            scale,
            activations,
            activation_bits,
            assist=self._files.take_rows(f"{linear}.scale_bias", shape[0]).sum(1) if has_assist else None,
        )

    def _static(self, linear: str, integers: Tensor) -> Stored:
        files = self._files
        result_scale = files.take(f"{linear}.deq_scale")
        if result_scale.dtype == torch.int64:  # the bits of float32
            result_scale = (result_scale & 0xFFFFFFFF).to(torch.uint32).view(torch.float32)
        input_scale = self._one(f"{linear}.input_scale")
        rows = integers.size(0)
        result_scale = as_rows(f"{linear}.deq_scale", result_scale, rows)
        has_scale = f"{linear}.weight_scale" in files
        step = files.take_rows(f"{linear}.weight_scale", rows) if has_scale else result_scale / input_scale
        return Stored(
            8,
            integers,
            step,
            Activations.STATIC,
            8,
            input_scale,
            self._one(f"{linear}.input_offset"),
            result_scale.reshape(-1),
            self._integer_bias(f"{linear}.quant_bias"),
        )

    def _integer_bias(self, name: str) -> Tensor:
        stored = self._files.take(name).reshape(-1)
        bias = stored.to(torch.int32)
        if bool((bias != stored).any()):
            raise CheckpointError(f"{name}: it must be of whole numbers of 32 bits, got {stored.dtype}")
        return bias

    def _one(self, name: str) -> Tensor:
        """Return the single value of a tensor, which may be repeated."""
        values = self._files.take(name).float().reshape(-1)
        if not values.numel() or bool((values != values[0]).any()):
            raise CheckpointError(f"{name}: it must be one value for all inputs, got {values.numel()} of several")
        return values[:1]

    def _check_symmetric(self, linear: str) -> None:
        offset = self._files.take_optional(f"{linear}.weight_offset")
        if offset is not None and bool(offset.any()):
            raise CheckpointError(f"{linear}.weight_offset: it must be zero, weights with an offset are not supported")

    def caches(self) -> dict[str, dict[str, Tensor]]:
        """Return scales and offsets of int8 KV caches, by the linear whose results are cached."""
        caches: dict[str, dict[str, Tensor]] = {}
        for name in self._files.names:
            linear, _, kind = name.rpartition(".")
            if kind in ("kv_cache_scale", "kv_cache_offset"):
                caches.setdefault(linear, {})[kind.removeprefix("kv_cache_")] = self._files.take(name)
        return caches


def _elements(linear: str, stored: Tensor, bits: int, shape: tuple[int, int]) -> Tensor:
    if stored.dtype != torch.int8:
        raise CheckpointError(f"{linear}.weight: it must be int8, got {stored.dtype}")
    if tuple(stored.shape) == shape:
        return stored
    if bits == 4 and (2 * stored.size(0), *stored.shape[1:]) == shape:
        low, high = (stored << 4) >> 4, stored >> 4
        return torch.stack([low, high], 1).reshape(shape)
    raise CheckpointError(f"{linear}.weight: it must be of shape {shape}, got {tuple(stored.shape)}")
