"""Checkpoints of torchao in safetensors files: the header describes each weight.

Int8Tensor stores qdata int8 (n, k) and scale (n, 1); with act_quant_kwargs its inputs are quantised by row.
IntxUnpackedToInt8Tensor stores integers of fewer bits as int8, with scale (n, groups) and zero_point.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from graph_quant.nn.checkpoints.files import Files, one_or_rows
from graph_quant.nn.checkpoints.stored import Activations, CheckpointError, Stored
from torch import Tensor

_KINDS = ("Int8Tensor", "IntxUnpackedToInt8Tensor")


class TorchAo:
    """The format torchao: schemes from the headers."""

    title = "torchao"

    def __init__(self, files: Files) -> None:
        self._files = files

    def _description(self, linear: str) -> dict[str, Any]:
        text = self._files.metadata.get(f"{linear}.weight")
        try:
            description = {} if text is None else json.loads(text)
        except json.JSONDecodeError as error:
            raise CheckpointError(f"{linear}.weight: what the header says of it is no JSON: {error}") from None
        if not isinstance(description, dict):
            raise CheckpointError(f"{linear}.weight: what the header says of it must be an object of JSON")
        return description

    def is_quantised(self, linear: str) -> bool:
        """Return whether the weight of ``linear`` is stored as integers."""
        return self._description(linear).get("_type", "Tensor") != "Tensor"

    def weight(self, linear: str, shape: tuple[int, int]) -> Stored:
        """Return the weight of ``linear``, of shape (n, k)."""
        about = self._description(linear)
        kind, data = about["_type"], about.get("_data", {})
        if kind not in _KINDS:
            raise CheckpointError(f"{linear}.weight: a {kind} is not among {', '.join(_KINDS)}")
        integers = self._part(linear, "qdata")
        for name in ("zero_point", "act_quant_zero_point", "act_pre_scale", "act_quant_scale"):
            part = self._files.take_optional(f"{linear}._weight_{name}")
            if part is not None and bool(part.any()):
                raise CheckpointError(f"{linear}.weight: its {name} is not supported")
        scale = one_or_rows(f"{linear}._weight_scale", self._part(linear, "scale"), shape[0])
        bits = 4 if "int4" in str(data.get("target_dtype", "")) else 8
        if integers.dtype != torch.int8 or tuple(integers.shape) != shape:
            actual = f"{integers.dtype} {tuple(integers.shape)}"
            raise CheckpointError(f"{linear}.weight: it must be int8 of shape {shape}, got {actual}")
        dynamic = data.get("act_quant_kwargs") or data.get("activation_quantization")
        if dynamic is None:
            return Stored(bits, integers, scale, Activations.FLOAT)
        if "PerRow" not in json.dumps(dynamic) or "ASYMMETRIC" in json.dumps(dynamic):
            raise CheckpointError(f"{linear}.weight: activations must be symmetric and by row, got {dynamic}")
        return Stored(bits, integers, scale, Activations.DYNAMIC, 8)

    def _part(self, linear: str, name: str) -> Tensor:
        return self._files.take(f"{linear}._weight_{name}")

    def caches(self) -> dict[str, dict[str, Tensor]]:
        """Return nothing: the format has no quantised caches."""
        return {}
