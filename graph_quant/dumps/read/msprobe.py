"""Reads what msprobe dumped of a program: its calls with their tensors, or with statistics of them.

| program | files |
|---|---|
| eager | ``dump.json``: each call with its arguments; ``construct.json``: its module; ``stack.json``: its line |
| captured | ``name.index.input.0.pt``, without numbers, lists and ``dump.json``; of statistics, a ``dump.json`` |

Both lie in ``step0/rank0``, or ``step0/proc1234`` of a program without ranks; tensors are in ``dump_tensor_data``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import DumpError

_FUNCTION = re.compile(r"(?P<kind>\w+)\.(?P<api>.+)\.\d+\.(?P<direction>forward|backward)$")
_MODULE = re.compile(r"Module\.(?P<api>.+)\.\w+\.(?P<direction>forward|backward|parameters_grad)\.\d+$")
_CAPTURED = re.compile(r"(?P<call>.+\.\d+)\.(?P<side>input_kwargs|input|output)(?:\.(?P<position>[\w.]+))?\.pt$")
_STEP, _RANK = re.compile(r"step(\d+)$"), re.compile(r"rank(\d+)$")
_DATA = ("dump_tensor_data", "tensor_data")
_STATISTICS = ("Max", "Min", "Mean", "Norm")
_NOT_THE_CALLERS = ("/torch/", "/torch_npu/", "/msprobe/", "/graph_quant/", "<frozen")
_FRAME = re.compile(r"File (?P<file>[^,\n]+), line (?P<line>\d+), in (?P<function>[^,\n]+)")


class Unstated:
    """An argument that the dump does not state, such as a dtype."""


@dataclass(frozen=True)
class RecordedTensor:
    """A tensor of a call: its file, or only its statistics."""

    dtype: str
    shape: tuple[int, ...]
    path: Path | None = None
    statistics: Mapping[str, float] = field(default_factory=dict)

    def load(self) -> torch.Tensor:
        """Load the tensor.

        Raises:
            DumpError: If the file is missing or is no tensor.
        """
        if self.path is None:
            raise DumpError("the dump has statistics only")
        try:
            if self.path.suffix == ".npy":
                return torch.from_numpy(np.load(self.path, allow_pickle=False))
            tensor = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception as error:  # unpickling raises whatever the bytes of a file lead to
            raise DumpError(f"{self.path}: {next(iter(str(error).splitlines()), type(error).__name__)}") from None
        if not isinstance(tensor, torch.Tensor):
            raise DumpError(f"{self.path}: it holds a {type(tensor).__name__}, no tensor")
        return tensor.detach()


@dataclass
class RecordedCall:
    """A call of a function or module; arguments are nested lists and dicts of numbers and `RecordedTensor`."""

    name: str
    kind: str = ""
    api: str = ""
    direction: str = ""
    inputs: Any = field(default_factory=list)
    keywords: dict[str, Any] = field(default_factory=dict)
    outputs: Any = field(default_factory=list)
    module: str = ""
    line: str = ""
    tensors_only: bool = False

    def __post_init__(self) -> None:
        if match := _MODULE.match(self.name):
            self.kind, self.api, self.direction = "Module", match["api"], match["direction"]
        elif match := _FUNCTION.match(self.name):
            self.kind, self.api, self.direction = match["kind"], match["api"], match["direction"]


@dataclass
class ProgramDump:
    """The calls of one step of one rank, in order; made by `read_program_dumps`.

    Attributes:
        folder: Where it lies.
        step: The step, as the folder names it.
        rank: The rank; None for a program without ranks.
        calls: The calls by msprobe's name, such as ``Functional.linear.0.forward``.

    Examples:
        >>> (dump,) = read_program_dumps(Path("dump/step0/rank3"))
        >>> dump.calls["NPU.npu_dynamic_quant.0.forward"].inputs
    """

    folder: Path
    step: int
    rank: int | None
    calls: dict[str, RecordedCall]

    @property
    def label(self) -> str:
        """Step and rank in words."""
        return f"step {self.step}" + ("" if self.rank is None else f", rank {self.rank}")


def leaves(value: Any) -> Iterator[Any]:
    """Yield what nested lists and dicts hold."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    else:
        yield value


def read_program_dumps(folder: Path) -> list[ProgramDump]:
    """Read every step and rank that msprobe dumped into a folder.

    Args:
        folder: The ``dump_path`` of msprobe, or a folder of a step or rank in it.

    Returns:
        The dumps, by step and rank; empty if there is none.

    Raises:
        DumpError: If there is no such folder, or a file is no dump of msprobe.

    Examples:
        >>> for dump in read_program_dumps(Path("dump")):
        ...     print(dump.label, len(dump.calls))
    """
    if not folder.is_dir():
        raise DumpError(f"{folder}: there is no such folder")
    eager = {path.parent: _read_calls(path) for path in sorted(folder.rglob("dump.json"))}
    captured = {
        path.parent: calls
        for name in _DATA
        for path in sorted(folder.rglob(name))
        if path.parent not in eager and (calls := _read_captured(path))
    }
    if folder.name in _DATA and not eager and (calls := _read_captured(folder)):
        captured[folder.parent] = calls
    dumps = [_program_dump(parent, calls) for parent, calls in (eager | captured).items()]
    return sorted(dumps, key=lambda dump: (dump.step, -1 if dump.rank is None else dump.rank, str(dump.folder)))


def _program_dump(folder: Path, calls: dict[str, RecordedCall]) -> ProgramDump:
    parts = folder.absolute().parts
    steps, ranks = ([int(match[1]) for part in parts if (match := form.match(part))] for form in (_STEP, _RANK))
    return ProgramDump(folder, steps[-1] if steps else 0, ranks[-1] if ranks else None, calls)


def _read_json(path: Path, required: bool = False) -> dict[str, Any]:
    if not required and not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DumpError(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise DumpError(f"{path}: it holds a {type(content).__name__}, no dump of msprobe")
    return content


def _read_calls(path: Path) -> dict[str, RecordedCall]:
    data = _read_json(path, required=True).get("data")
    if not isinstance(data, dict):
        raise DumpError(f"{path}: it has no data, so it is no dump of msprobe")
    folder = next((path.parent / name for name in _DATA if (path.parent / name).is_dir()), path.parent)
    parents, lines = _read_json(path.parent / "construct.json"), _read_lines(path.parent / "stack.json")
    calls = {}
    for name, facts in data.items():
        if not isinstance(facts, dict):
            continue
        backward = {key: facts[key] for key in ("input", "input_args") if key in facts}
        calls[name] = RecordedCall(
            name,
            inputs=_parse(next(iter(backward.values()), []), folder),
            keywords={key: _parse(value, folder) for key, value in (facts.get("input_kwargs") or {}).items()},
            outputs=_parse(facts.get("output") or [], folder),
            module=_module_path(name, parents),
            line=lines.get(name, ""),
        )
    return calls


def _parse(value: Any, folder: Path) -> Any:
    """Convert msprobe's description of an argument."""
    if isinstance(value, list):
        return [_parse(item, folder) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if not isinstance(kind, str):
        return {key: _parse(item, folder) for key, item in value.items()} if value else Unstated()
    if "shape" in value and "dtype" in value:
        path = folder / Path(str(value["data_name"])).name if value.get("data_name") else None
        numbers = {key: value[key] for key in _STATISTICS if isinstance(value.get(key), int | float)}
        return RecordedTensor(str(value["dtype"]), tuple(value["shape"] or ()), path, numbers)
    if kind in ("int", "float", "bool", "str"):
        return value.get("value")
    if kind == "torch.Size":
        return torch.Size(value["value"])
    if kind == "slice" and isinstance(value.get("value"), list):
        return slice(*value["value"])
    dtype = getattr(torch, str(value.get("value")).rpartition(".")[2], None) if kind == "torch.dtype" else None
    return dtype if isinstance(dtype, torch.dtype) else Unstated()


def _module_path(name: str, parents: Mapping[str, Any]) -> str:
    """The path of the innermost module around a call."""
    parent = parents.get(name)
    match = _MODULE.match(parent) if isinstance(parent, str) else None
    return match["api"] if match else ""


def _read_lines(path: Path) -> dict[str, str]:
    """The line of the caller of each call: the innermost one that is not in a library."""
    lines = {}
    for entry in _read_json(path).values():
        if isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, list) for part in entry):
            lines.update(dict.fromkeys(map(str, entry[0]), _caller(map(str, entry[1]))))
    return lines


def _caller(frames: Iterable[str]) -> str:
    matches = (match for frame in frames if (match := _FRAME.match(frame)))
    own = (match for match in matches if not any(part in match["file"] for part in _NOT_THE_CALLERS))
    match = next(own, None)
    return f"{match['file']}:{match['line']} in {match['function']}" if match else ""


def _read_captured(folder: Path) -> dict[str, RecordedCall]:
    """Read the files of a captured graph; they are written in the order of the calls."""
    files = [(path.stat().st_mtime_ns, path.name, path) for path in folder.glob("*.pt")]
    calls: dict[str, RecordedCall] = {}
    for _, name, path in sorted(files):
        if (match := _CAPTURED.match(name)) is None:
            continue
        api, _, index = match["call"].rpartition(".")
        key = f"{api}.forward.{index}" if api.startswith("Module.") else f"{match['call']}.forward"
        call = calls.setdefault(key, RecordedCall(key, tensors_only=True))
        stored, position = RecordedTensor("", (), path), match["position"] or "0"
        if match["side"] == "input_kwargs":
            call.keywords[position] = stored
        else:
            _put(call.inputs if match["side"] == "input" else call.outputs, position, stored)
    return calls


def _put(values: list[Any], position: str, stored: RecordedTensor) -> None:
    """Put a tensor at its position; positions of what is no tensor, or within a list, are unstated."""
    index = int(head) if (head := position.partition(".")[0]).isdigit() else len(values)
    values += [Unstated() for _ in range(index + 1 - len(values))]
    values[index] = Unstated() if "." in position else stored
