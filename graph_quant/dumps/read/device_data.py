"""Reads the tensors that a device dumped: GE's own files, and those that msprobe and msaccucmp convert.

| file | what |
|---|---|
| ``type.name.task.stream.time`` | GE's own: the length of a message, the message, the tensors one after the other |
| ``….output.0.npy``, ``….input.1.2x8.npy``, ``….bin`` | one tensor of such a file; a ``bin`` is its bytes alone |
| ``name.0.time.npy`` | one output |
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from google.protobuf.message import DecodeError

from ...ge import OF_DESC, TO_DESC, UNDEFINED, from_desc
from ..errors import DumpError
from .proto import build_message

_CONVERTED = re.compile(
    r"(?P<type>[\w-]+)\.(?P<name>[\w-]+)\.\d+(?:\.\d+)*\.(?P<side>input|output)\.(?P<index>\d{1,4})"
    r"(?:\.[\w-]+)*\.(?P<kind>npy|bin)$"
)
_RAW = re.compile(r"(?P<type>[\w-]+)\.(?P<name>[\w-]+)\.\d+\.\d+\.\d{10,}(?:\.\d+)*$")
_OUTPUT = re.compile(r"(?P<name>[\w-]+)\.(?P<index>\d{1,4})\.\d{10,}\.npy$")
_OTHER = re.compile(r"[^\w-]")
_GRAPHS = ("dynamo_optimized_graph_*.txt", "dynamo_original_graph_*.txt", "ge_proto_*_Build.txt")
_GRAPH = re.compile(r"dynamo_\w+?_(?P<graph>graph_\d+)_rank_(?P<rank>\d+)_")
_HEADER = 8
# GE allocates whole blocks of 32 bytes, and one more.
_PADDING = 64
_NOT_IN_NUMPY = {torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.bool}


def to_file_name(node: str) -> str:
    """The name of a node in file names."""
    return _OTHER.sub("_", node)


def find_ge_dumps(folder: Path) -> list[tuple[Path, Path]]:
    """Find the GE graphs in a folder, and for each the folder with the tensors that GE dumped of it.

    Args:
        folder: The folder that TorchAir and GE dumped to, as msprobe's ``set_ge_dump_config`` sets it up.

    Returns:
        Pairs of a graph and a folder; empty where there is no graph.

    Raises:
        DumpError: If there are several graphs of a rank and the tensors do not say of which they are.

    Examples:
        >>> for graph, tensors in find_ge_dumps(Path("msprobe_ge_dump")):
        ...     report = check_device_data(load(graph), DeviceData(tensors))
    """
    graphs = next(filter(None, (sorted(folder.rglob(form)) for form in _GRAPHS)), [])
    folders = [path for path in folder.rglob("*") if path.is_dir()]
    pairs: list[tuple[Path, Path]] = []
    for graph in graphs:
        match = _GRAPH.match(graph.name)
        rank, name = (match["rank"], match["graph"]) if match else ("", "")
        of_rank = [path for path in folders if rank and re.search(rf"rank{rank}$", path.name)][:1] or [folder]
        own = [path for path in folders if name and re.match(rf"{name}(_|$)", path.name)]
        own = [path for path in own if path.is_relative_to(of_rank[0])][:1]
        others = [path for path in graphs if path != graph and (not rank or f"_rank_{rank}_" in path.name)]
        if others and not own:
            raise DumpError(f"{graph}: no tensors of this graph alone; name them: graph-quant verify GRAPH --data DIR")
        pairs.append((graph, (own or of_rank)[0]))
    return pairs


@dataclass(frozen=True)
class StoredTensor:
    """The location of a tensor: a whole ``npy`` or ``bin`` file, or a part of one of GE's files."""

    path: Path
    kind: str
    offset: int = 0
    size: int = 0
    dtype: str = ""
    shape: tuple[int, ...] = ()


class DeviceData:
    """The tensors that a device dumped into a folder; of several runs, the first.

    Args:
        folder: The folder, searched at any depth.

    Attributes:
        nodes: The names of the nodes with tensors, as in file names.

    Raises:
        DumpError: If there is no such folder, or no dumped tensor in it.

    Examples:
        >>> data = DeviceData(Path("dump/20240101"))
        >>> data.has("MatMulV2", "output", 0)
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DumpError(f"{folder}: there is no such folder")
        self._tensors: dict[tuple[str, str, int], StoredTensor] = {}
        for path in sorted(folder.rglob("*")):
            self._add(path)
        if not self._tensors:
            raise DumpError(f"{folder}: there are no dumped tensors in this folder")
        self.nodes = {name for name, _, _ in self._tensors}

    def _add(self, path: Path) -> None:
        if match := _CONVERTED.match(path.name):
            key = match["name"], match["side"], int(match["index"])
            self._tensors.setdefault(key, StoredTensor(path, match["kind"]))
        elif match := _OUTPUT.match(path.name):
            self._tensors.setdefault((match["name"], "output", int(match["index"])), StoredTensor(path, "npy"))
        elif (match := _RAW.match(path.name)) and path.is_file():
            for side, index, stored in _read_raw(path):
                self._tensors.setdefault((match["name"], side, index), stored)

    def has(self, node: str, side: str, index: int) -> bool:
        """Whether there is a tensor for this ``input`` or ``output`` of a node."""
        return (to_file_name(node), side, index) in self._tensors

    def tensor(self, node: str, side: str, index: int, dtype: str, shape: tuple[int, ...] | None) -> torch.Tensor:
        """Load a tensor; ``dtype`` and ``shape`` are the graph's, for files that do not state them."""
        stored = self._tensors[to_file_name(node), side, index]
        try:
            return _load(stored, dtype, shape)
        except (OSError, ValueError, TypeError, EOFError) as error:
            raise DumpError(f"{stored.path}: {error}") from None


@lru_cache(maxsize=64)
def _load(stored: StoredTensor, dtype: str, shape: tuple[int, ...] | None) -> torch.Tensor:
    if stored.kind == "npy":
        array = np.load(stored.path, allow_pickle=False)
        if array.dtype.kind not in "biufc":
            raise ValueError(f"an array of {array.dtype} is not a tensor")
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return _match_type(tensor, dtype, shape)
    with stored.path.open("rb") as file:
        file.seek(stored.offset)
        content = file.read(stored.size) if stored.kind == "raw" else file.read()
    return _decode(content, stored.dtype or dtype, stored.shape or shape, _PADDING if stored.kind == "raw" else 0)


def _match_type(tensor: torch.Tensor, dtype: str, shape: tuple[int, ...] | None) -> torch.Tensor:
    """Give an array the dtype and shape of the graph, if only its storage differs.

    The dtype changes if the file has the bits of a dtype that NumPy lacks, or equal values in a wider dtype. The shape
    changes if the file has it flat or without sizes of 1. Any other difference is kept, to be reported.
    """
    wanted = from_desc(TO_DESC[dtype]) if dtype in TO_DESC and dtype != UNDEFINED else tensor.dtype
    if wanted != tensor.dtype:
        if wanted.itemsize == tensor.element_size() and not tensor.is_floating_point() and wanted in _NOT_IN_NUMPY:
            tensor = tensor.view(wanted)
        elif wanted.is_floating_point and torch.promote_types(wanted, tensor.dtype) == tensor.dtype:
            narrow = tensor.to(wanted)
            kept = (narrow.to(tensor.dtype) == tensor) | tensor.isnan()
            tensor = narrow if bool(kept.all()) else tensor
    if shape is None or tensor.numel() != _count(shape):
        return tensor
    same = [size for size in tensor.shape if size != 1] == [size for size in shape if size != 1]
    return tensor.reshape(shape) if same or tensor.dim() == 1 else tensor


def _decode(content: bytes, dtype: str, shape: tuple[int, ...] | None, padding: int) -> torch.Tensor:
    """Decode bytes as a tensor; up to ``padding`` more bytes may follow."""
    per_byte, stored = (2, torch.uint8) if dtype == "int4" else (1, from_desc(TO_DESC[dtype]))
    if shape is not None:
        size = -(-_count(shape) // per_byte) * stored.itemsize
        if not size <= len(content) <= size + padding:
            raise ValueError(f"{len(content)} bytes are no {dtype}{list(shape)}")
        content = content[:size]
    flat = torch.frombuffer(bytearray(content), dtype=stored) if content else torch.empty(0, dtype=stored)
    if dtype == "int4":
        packed = flat.to(torch.int8)
        flat = torch.stack(((packed << 4) >> 4, packed >> 4), -1).reshape(-1)
    return flat if shape is None else flat[: _count(shape)].reshape(shape)


def _count(shape: Iterable[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


@cache
def _dump_message() -> Any:
    """The fields of GE's DumpData that describe tensors."""
    messages = {
        "Shape": "dim:uint64*=1",
        "OpOutput": "data_type:int32=1 shape:Shape=3 data:bytes=5 size:uint64=6",
        "OpInput": "data_type:int32=1 shape:Shape=3 data:bytes=4 size:uint64=5",
        "DumpData": "output:OpOutput*=3 input:OpInput*=4",
    }
    return build_message("DumpData", messages)


def _read_raw(path: Path) -> list[tuple[str, int, StoredTensor]]:
    """Read the index of one of GE's own files; empty if it is another file."""
    try:
        total = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(_HEADER))
            if not 0 < length <= total - _HEADER:
                return []
            message = _dump_message()()
            message.ParseFromString(file.read(length))
    except (OSError, struct.error, DecodeError):
        return []
    parts, offset = [], _HEADER + length
    for side, tensors in (("input", message.input), ("output", message.output)):
        for index, tensor in enumerate(tensors):
            word = OF_DESC.get(tensor.data_type, UNDEFINED)
            parts.append((side, index, StoredTensor(path, "raw", offset, tensor.size, word, tuple(tensor.shape.dim))))
            offset += tensor.size
    return parts if offset <= total else []
