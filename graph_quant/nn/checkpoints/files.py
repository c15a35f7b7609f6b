"""Tensors of a checkpoint's safetensors files, read lazily."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graph_quant.nn.checkpoints.stored import CheckpointError
from torch import Tensor


class Files:
    """All tensors of a folder of safetensors files, and the files' metadata. ``taken`` holds the names read so far."""

    def __init__(self, folder: Path) -> None:
        from safetensors import SafetensorError, safe_open

        if not folder.is_dir():
            raise CheckpointError(f"{folder}: there is no such folder")
        paths = sorted(folder.glob("*.safetensors"))
        if not paths:
            raise CheckpointError(f"{folder}: it holds no safetensors files")
        self.folder = folder
        self.taken: set[str] = set()
        self.metadata: dict[str, str] = {}
        self._file_of: dict[str, Any] = {}
        for path in paths:
            try:
                opened: Any = safe_open(str(path), framework="pt")
            except SafetensorError as error:
                raise CheckpointError(f"{path}: it is no safetensors file: {error}") from None
            self.metadata.update(opened.metadata() or {})
            for name in opened.keys():  # noqa: SIM118  (it has keys and no iterator)
                if name in self._file_of:
                    raise CheckpointError(f"{folder}: two of its files hold {name}")
                self._file_of[name] = opened

    def __contains__(self, name: str) -> bool:
        return name in self._file_of

    @property
    def names(self) -> list[str]:
        """The names of all tensors."""
        return sorted(self._file_of)

    def take(self, name: str) -> Tensor:
        """Return a tensor."""
        if name not in self._file_of:
            raise CheckpointError(f"{self.folder}: it holds no {name}")
        self.taken.add(name)
        tensor: Tensor = self._file_of[name].get_tensor(name)
        return tensor

    def take_optional(self, name: str) -> Tensor | None:
        """Return a tensor, or None if it is not stored."""
        return self.take(name) if name in self else None

    def take_rows(self, name: str, rows: int) -> Tensor:
        """Return a tensor in float32 as a matrix with ``rows`` rows."""
        return as_rows(name, self.take(name), rows)

    def read_json(self, pattern: str) -> dict[str, Any]:
        """Return the first JSON file that ``pattern`` matches; empty if none does."""
        for path in sorted(self.folder.glob(pattern)):
            try:
                content = json.loads(path.read_text(encoding="utf-8"))
            except json.JSONDecodeError as error:
                raise CheckpointError(f"{path}: it is no JSON: {error}") from None
            if not isinstance(content, dict):
                raise CheckpointError(f"{path}: it must be an object of JSON, got a {type(content).__name__}")
            return content
        return {}


def as_rows(name: str, tensor: Tensor, rows: int) -> Tensor:
    """Return ``tensor`` in float32 as a matrix with ``rows`` rows."""
    _check_float(name, tensor)
    if not tensor.numel() or (tensor.numel() != rows and (tensor.dim() != 2 or tensor.size(0) != rows)):
        raise CheckpointError(
            f"{name}: it must have as many elements for each of {rows} rows, got {list(tensor.shape)}"
        )
    return tensor.float().reshape(rows, -1)


def one_or_rows(name: str, tensor: Tensor, rows: int) -> Tensor:
    """Return the same; a single element is repeated for all rows."""
    _check_float(name, tensor)
    return tensor.float().reshape(1, 1).expand(rows, 1) if tensor.numel() == 1 else as_rows(name, tensor, rows)


def _check_float(name: str, tensor: Tensor) -> None:
    """Raise for integers: they may be the bits of floats in a kernel's layout, which the format does not state."""
    if not tensor.is_floating_point():
        raise CheckpointError(f"{name}: it must be of floats, got {tensor.dtype}")
