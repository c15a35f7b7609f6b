"""Checks the calls that msprobe dumped on a device: computed again on the host, or compared with a dump of the host."""

from __future__ import annotations

import copy
import importlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from ...ge import printable
from ..errors import DumpError
from ..read.msprobe import ProgramDump, RecordedCall, RecordedTensor, Unstated, leaves
from .tensor_verdict import ROUNDING, Verdict, compare_tensors

_LONGEST_LINE = 300
_DIFFERS = (Verdict.WRONG, Verdict.INHERITED)
_AVERAGED = 8  # statistics differ by less than single elements do
# What msprobe calls the packages whose functions it wraps.
_PACKAGES = {"Functional": "torch.nn.functional", "Tensor": "torch:Tensor", "Torch": "torch", "NPU": "torch_npu"}


class _NotComparableError(Exception):
    """A call cannot be compared; the message is the reason."""


@dataclass(frozen=True)
class CallCheck:
    """The verdict on one call and the reason."""

    call: RecordedCall
    verdict: Verdict
    note: str = ""


@dataclass
class CallReport:
    r"""The verdicts on the calls of one step of one rank, in order; made by `check_calls` or `compare_calls`.

    Attributes:
        label: Step and rank in words.
        checks: Each call with its verdict and the reason.

    Examples:
        >>> [check.call.name for check in report.wrong]
        >>> print("\n".join(report.lines()))
    """

    label: str
    checks: list[CallCheck] = field(default_factory=list)

    @property
    def wrong(self) -> list[CallCheck]:
        """Calls whose results do not follow from their inputs."""
        return [check for check in self.checks if check.verdict is Verdict.WRONG]

    @property
    def compared(self) -> bool:
        """Whether any call could be compared."""
        return any(check.verdict is not Verdict.UNKNOWN for check in self.checks)

    def lines(self) -> Iterator[str]:
        """The report as lines of text."""
        for index, check in enumerate(self.wrong):
            call = check.call
            module = f", module {call.module}" if call.module else ""
            line = f", {call.line}" if call.line else ""
            yield f"{self.label}: {'wrong' if index else 'first wrong'}: {call.name}{module}{line}: {check.note}"
        counts = Counter(check.verdict for check in self.checks)
        summary = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
        yield f"{self.label}: {len(self.checks)} calls: {summary or 'nothing to compare'}"
        reasons = Counter(check.note for check in self.checks if check.verdict is Verdict.UNKNOWN)
        yield from (f"  {count} {reason}" for reason, count in reasons.most_common(6))

    def facts(self) -> dict[str, Any]:
        """The report for JSON."""
        calls = [
            {
                "call": check.call.name,
                "module": check.call.module,
                "line": check.call.line,
                "verdict": check.verdict.value,
                "note": check.note,
            }
            for check in self.checks
        ]
        first = self.wrong[0].call.name if self.wrong else None
        return {"dump": self.label, "first_wrong": first, "calls": calls}


def reports_to_json(reports: list[CallReport]) -> str:
    """Write the reports of all steps and ranks as JSON.

    Args:
        reports: The reports.

    Returns:
        A list with the first wrong call and the verdict on each call, by dump.

    Examples:
        >>> Path("wrong.json").write_text(reports_to_json([check_calls(dump)]))
    """
    return json.dumps([report.facts() for report in reports], indent=1) + "\n"


def check_calls(dump: ProgramDump) -> CallReport:
    r"""Compute each call of a function on the host from the device's inputs, and compare the results.

    Args:
        dump: What msprobe dumped on the device, with tensors.

    Returns:
        A report with ``checks``, ``wrong`` and ``lines()``.

    Raises:
        DumpError: If a dumped tensor cannot be read.

    Examples:
        >>> for dump in read_program_dumps(Path("dump")):
        ...     print(*check_calls(dump).lines(), sep="\\n")
    """
    report = CallReport(dump.label)
    for call in dump.calls.values():
        try:
            verdict, note = _check_call(call)
        except _NotComparableError as error:
            verdict, note = Verdict.UNKNOWN, str(error)
        report.checks.append(CallCheck(call, verdict, note))
    return report


def _check_call(call: RecordedCall) -> tuple[Verdict, str]:
    function = _function(call)
    _require_stated(call, function)
    device = _tensors(call.outputs)
    if not device:
        raise _NotComparableError("without a tensor as its result")
    if any(tensor.path is None for tensor in (*device, *_tensors([call.inputs, call.keywords]))):
        raise _NotComparableError("with statistics only: dump the same script on the host and compare with that")
    loaded = [tensor.load() for tensor in device]
    verdict, note = _worst(loaded, _run(call, function, 0))
    if verdict is not Verdict.WRONG:
        return verdict, note
    # What differs between seeds is random, on the device as on the host.
    if _worst(_run(call, function, 1), _run(call, function, 0))[0] is not Verdict.EQUAL:
        raise _NotComparableError("with random numbers")
    if unclear := [name for name, value in _named(call) if value is None]:
        note += f"; {', '.join(unclear)} is null in the dump: None, or of a type that msprobe does not write"
    return verdict, note


def _function(call: RecordedCall) -> Callable[..., Any]:
    if call.kind == "Module":
        raise _NotComparableError("of modules, whose functions are compared")
    if call.direction != "forward":
        raise _NotComparableError("of gradients: dump the same script on the host and compare with that")
    if call.api.startswith(("empty", "new_empty")):
        raise _NotComparableError("of uninitialised memory")
    owner: Any = torch.ops.aten if call.kind == "Aten" else None
    if call.kind in _PACKAGES:
        package, _, name = _PACKAGES[call.kind].partition(":")
        owner = importlib.import_module(package)
        owner = getattr(owner, name) if name else owner
    if call.kind == "NPU" and not hasattr(owner, call.api):
        owner = torch.ops.npu
    for name in call.api.split("."):
        owner = getattr(owner, name, None)
    if not callable(owner):
        raise _NotComparableError(f"of {call.kind or 'other functions'}, which the host does not have")
    return owner  # type: ignore[no-any-return]


def _require_stated(call: RecordedCall, function: Callable[..., Any]) -> None:
    unstated = [name for name, value in _named(call) if isinstance(value, Unstated)]
    if unstated and not call.tensors_only:
        raise _NotComparableError(f"with arguments that the dump does not state ({', '.join(unstated)})")
    if call.tensors_only and (unstated or not _takes_tensors_only(function)):
        raise _NotComparableError("with arguments that dumps of captured graphs do not state")


def _takes_tensors_only(function: Callable[..., Any]) -> bool:
    overload = getattr(function, "default", function)
    schema = getattr(overload, "_schema", None)
    return schema is not None and all(str(argument.type) == "Tensor" for argument in schema.arguments)


def _named(call: RecordedCall) -> Iterator[tuple[str, Any]]:
    for index, value in enumerate(call.inputs if isinstance(call.inputs, list) else [call.inputs]):
        yield from ((f"argument {index}", leaf) for leaf in leaves(value))
    for name, value in call.keywords.items():
        yield from ((name, leaf) for leaf in leaves(value))


def _tensors(value: Any) -> list[RecordedTensor]:
    return [leaf for leaf in leaves(value) if isinstance(leaf, RecordedTensor)]


def _run(call: RecordedCall, function: Callable[..., Any], seed: int) -> list[torch.Tensor]:
    """The results on the host, from the device's inputs."""
    torch.manual_seed(seed)
    try:
        with torch.no_grad():
            result = function(*_load(call.inputs), **_load(call.keywords))
    except DumpError:
        raise
    except Exception as error:  # whatever a function raises is the reason
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise _NotComparableError(f"refused by the host: {printable(reason, _LONGEST_LINE)}") from None
    return [leaf.cpu() for leaf in leaves(result) if isinstance(leaf, torch.Tensor)]


def _load(value: Any) -> Any:
    if isinstance(value, RecordedTensor):
        return value.load().to("npu")
    if isinstance(value, list):
        return [_load(item) for item in value]
    return {name: _load(item) for name, item in value.items()} if isinstance(value, dict) else copy.copy(value)


def _worst(device: list[torch.Tensor], expected: list[torch.Tensor]) -> tuple[Verdict, str]:
    if len(device) != len(expected):
        return Verdict.WRONG, f"the device has {len(device)} results, the host {len(expected)}"
    pairs = zip(device, expected, strict=True)
    verdicts = [compare_tensors(f"result {index}", one, other) for index, (one, other) in enumerate(pairs)]
    return max(verdicts, key=lambda item: _rank(item[0]))


def _rank(verdict: Verdict) -> int:
    return (Verdict.EQUAL, Verdict.CLOSE, Verdict.UNKNOWN, Verdict.INHERITED, Verdict.WRONG).index(verdict)


def compare_calls(device: ProgramDump, host: ProgramDump) -> CallReport:
    r"""Compare each call with the one of the same name that the same script made on the host.

    Args:
        device: What msprobe dumped on the device: tensors, or statistics.
        host: What it dumped on the host, as with ``graph-quant run``.

    Returns:
        A report; a call is wrong if its results differ and its inputs do not.

    Raises:
        DumpError: If a dumped tensor cannot be read.

    Examples:
        >>> pair = [read_program_dumps(Path(name))[0] for name in ("device", "host")]
        >>> print(*compare_calls(*pair).lines(), sep="\\n")
    """
    report = CallReport(device.label)
    wrong_in: set[str] = set()
    for call in device.calls.values():
        verdict, note = _compare_call(call, host.calls.get(call.name))
        within = f"{call.api}." if call.kind == "Module" else None
        if verdict is Verdict.WRONG and within and any(f"{name}.".startswith(within) for name in wrong_in):
            verdict, note = Verdict.INHERITED, "a call within it is wrong"
        elif verdict is Verdict.WRONG and (call.module or within):
            wrong_in.add(call.module or call.api)
        report.checks.append(CallCheck(call, verdict, note))
    return report


def _compare_call(call: RecordedCall, other: RecordedCall | None) -> tuple[Verdict, str]:
    if other is None:
        return Verdict.UNKNOWN, "missing in the dump of the host"
    verdict, note = _compare_stored(_tensors(call.outputs), _tensors(other.outputs), "result")
    if verdict is not Verdict.WRONG:
        return verdict, note
    inputs, expected = (_tensors([one.inputs, one.keywords]) for one in (call, other))
    fed, _ = _compare_stored(inputs, expected, "input") if inputs or expected else (Verdict.EQUAL, "")
    if fed in _DIFFERS:
        return Verdict.INHERITED, "its inputs differ already"
    is_exact = any(not _dtype(tensor).is_floating_point for tensor in _tensors(call.outputs))
    if is_exact and not all(map(_is_identical, inputs, expected)):
        return Verdict.INHERITED, "its inputs differ within rounding, which moves integers"
    return verdict, note


def _is_identical(device: RecordedTensor, host: RecordedTensor) -> bool:
    if device.path is None or host.path is None:
        return device.statistics == host.statistics
    return compare_tensors("", device.load(), host.load())[0] is Verdict.EQUAL


def _dtype(tensor: RecordedTensor) -> torch.dtype:
    dtype = getattr(torch, tensor.dtype.rpartition(".")[2], None) if tensor.dtype else tensor.load().dtype
    return dtype if isinstance(dtype, torch.dtype) else torch.float32


def _compare_stored(device: list[RecordedTensor], host: list[RecordedTensor], name: str) -> tuple[Verdict, str]:
    if len(device) != len(host):
        return Verdict.WRONG, f"the device has {len(device)} tensors as {name}s, the host {len(host)}"
    if not device:
        return Verdict.UNKNOWN, f"without a tensor as its {name}"
    pairs = zip(device, host, strict=True)
    verdicts = [_compare_pair(f"{name} {index}", one, other) for index, (one, other) in enumerate(pairs)]
    return max(verdicts, key=lambda item: _rank(item[0]))


def _compare_pair(name: str, device: RecordedTensor, host: RecordedTensor) -> tuple[Verdict, str]:
    if device.path is not None and host.path is not None:
        return compare_tensors(name, device.load(), host.load())
    for fact, one, other in (("shape", device.shape, host.shape), ("dtype", device.dtype, host.dtype)):
        if one != other:
            return Verdict.WRONG, f"{name} has the {fact} {one}, the host {other}"
    rounding = ROUNDING.get(_dtype(device), 0.0) / _AVERAGED
    magnitude = max((abs(value) for value in host.statistics.values() if math.isfinite(value)), default=0.0)
    for fact, value in device.statistics.items():
        expected = host.statistics.get(fact, math.nan)
        same = value == expected or (math.isnan(value) and math.isnan(expected))
        if not same and not abs(value - expected) <= rounding * magnitude:
            return Verdict.WRONG, f"{name}: {fact.lower()} is {value:.6g}, the host's {expected:.6g}"
    return (Verdict.CLOSE, "") if device.statistics else (Verdict.UNKNOWN, f"without statistics of {name}")
