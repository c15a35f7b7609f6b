"""Names, dtypes and shapes of a checkpoint's tensors, from the headers of its safetensors files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

_MOST_HEADER = 100 << 20  # safetensors itself takes no longer header
_POINTER = b"version https://git-lfs"
BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}


class HeaderError(ValueError):
    """A checkpoint that cannot be read: no folder, no safetensors file, no configuration that is JSON."""


class TensorHeader(NamedTuple):
    """A stored tensor; ``dtype`` is safetensors' name of it."""

    dtype: str
    shape: tuple[int, ...]
    file: str

    @property
    def bytes(self) -> int:
        """The size in memory."""
        return prod(self.shape) * BYTES.get(self.dtype, 1)


class Headers:
    """The tensors of a folder of safetensors files.

    Attributes:
        tensors: The header of each tensor by its name.
        problems: What is wrong with the files: truncated, missing, or of other tensors than the index says.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise HeaderError(f"{folder}: there is no such folder")
        self.folder = folder
        self.tensors: dict[str, TensorHeader] = {}
        self.problems: list[str] = []
        self.files = sorted(folder.glob("*.safetensors"))
        if not self.files:
            raise HeaderError(f"{folder}: it holds no safetensors files")
        for path in self.files:
            try:
                self._add(path)
            except HeaderError as error:
                self.problems.append(str(error))
        self.problems += self._check_index()

    def _add(self, path: Path) -> None:
        for name, header in _read(path):
            if name in self.tensors:
                self.problems.append(f"{name}: both {self.tensors[name].file} and {path.name} hold it")
            self.tensors[name] = header

    def _check_index(self) -> Iterator[str]:
        for path in sorted(self.folder.glob("*.safetensors.index.json")):
            weights = read_json(path).get("weight_map")
            if not isinstance(weights, dict):
                yield f"{path.name}: it must have an object weight_map"
                continue
            present = {file.name for file in self.files}
            for file in sorted({str(file) for file in weights.values()} - present):
                yield f"{file}: {path.name} names it and it is missing"
            lost = [name for name, file in weights.items() if file in present and name not in self.tensors]
            yield from (f"{name}: {path.name} names it and {weights[name]} does not hold it" for name in lost)
            moved = (name for name, header in self.tensors.items() if weights.get(name, header.file) != header.file)
            yield from (f"{name}: {path.name} has it in {weights[name]}, but it is in another file" for name in moved)


def _read(path: Path) -> Iterator[tuple[str, TensorHeader]]:
    """Yield the headers of a file; raise if the file is no safetensors file, or shorter than its header says."""
    with path.open("rb") as file:
        start = file.read(len(_POINTER))
        if start == _POINTER:
            raise HeaderError(f"{path.name}: it is a pointer of Git LFS; fetch the file itself with git lfs pull")
        length = int.from_bytes(start[:8], "little")
        size = path.stat().st_size
        if len(start) < 8 or length > min(_MOST_HEADER, size):
            raise HeaderError(f"{path.name}: it is no safetensors file, or is truncated")
        file.seek(8)
        try:
            content = json.loads(file.read(length))
            tensors = {
                name: (str(stored["dtype"]), tuple(map(int, stored["shape"])), int(stored["data_offsets"][1]))
                for name, stored in content.items()
                if name != "__metadata__"
            }
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise HeaderError(f"{path.name}: its header is no header of safetensors ({error})") from None
    end = 8 + length + max((stored[2] for stored in tensors.values()), default=0)
    for name, (dtype, shape, _) in tensors.items():
        yield name, TensorHeader(dtype, shape, path.name)
    if size < end:
        raise HeaderError(f"{path.name}: it is truncated, {size:,} of {end:,} bytes")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file; raise if it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HeaderError(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise HeaderError(f"{path}: it must be an object of JSON, got a {type(content).__name__}")
    return content
