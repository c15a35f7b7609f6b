"""The outcome of a run, and its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

_LONGEST_REASON = 160
# Raised in a test that exceeds its time, so that the other tests of its file still run.
TOO_LONG = "the test takes too long on the host"


class Verdict(Enum):
    """The verdict on an example or a test."""

    PASSED = "passed"
    REFUSED = "refused by name"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    CRASHED = "crashed"
    SKIPPED = "skipped by itself"


# Messages of the package for unsupported calls and for calls that the documents forbid.
_REFUSALS = re.compile(
    r"needs an NPU|cannot run on the host NPU|no host kernel for|only supports Ascend910_95|\bRefusal\b"
    r"|which alone has a kernel|GE has no operator|is not (?:served|supported) on the host"
    r"|ge_converter is not implemented"
)
# Ranks prefix each line with their number, and so does torch; pytest prefixes E.
_ERROR_LINE = re.compile(
    r"^(?:\[rank ?\d+\]:? |E +)*(?P<error>[\w.]*(?:Error|Exception|Refusal|Exit|Interrupt|Warning)\b.*)$", re.MULTILINE
)
_PYTEST_LINE = re.compile(r"^E +(?P<message>\S.*)$", re.MULTILINE)
# Printed by multiprocessing before the traceback of a process.
_RANK_FAILED = re.compile(r"^Process \w*Process-\d+:$", re.MULTILINE)
# Follows the error of the rank itself.
_RANK_EXIT = re.compile(r"subprocess \d+ failed with exitcode")
# Dynamo quotes the operator's error at the end of its own.
_BEHIND_DYNAMO = re.compile(r"failed to run FX node with fake tensors.*: got (?P<kind>\w+)\((['\"])(?P<error>.*)\2\)")
# A replayed operator's error follows the runtime's error number.
_BEHIND_REPLAY = re.compile(r"^replay: \w+::(?P<op>\w+)\S* \(kernel \d+\): (?P<error>(?P=op): .*)$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """One example or test."""

    name: str
    verdict: Verdict
    reason: str = ""


def outcome_of_process(name: str, code: int | None, output: str) -> Outcome:
    """Return the outcome of a program by its exit code; None means that it exceeded its time limit."""
    if code is None:
        return Outcome(name, Verdict.TIMED_OUT)
    if code == 0:
        return Outcome(name, Verdict.PASSED)
    if code < 0:
        return Outcome(name, Verdict.CRASHED, f"signal {-code}")
    return Outcome(name, classify_error(output), extract_reason(output))


def has_failed_rank(output: str) -> bool:
    """Whether a process started by the program failed, which the program's exit code may not show."""
    return bool(_RANK_FAILED.search(output))


def classify_error(text: str) -> Verdict:
    """Classify an error as a refusal or a failure."""
    return Verdict.REFUSED if _REFUSALS.search(extract_reason(text)) else Verdict.FAILED


def extract_reason(text: str) -> str:
    """Return the last error of a traceback in one line."""
    reasons = [match["error"] for match in _ERROR_LINE.finditer(text)]
    reasons = [error for error in reasons if not _RANK_EXIT.search(error)] or reasons
    reasons += [f"{match['kind']}: {match['error']}" for match in _BEHIND_DYNAMO.finditer(text)]
    reasons += [f"Refusal: {match['error']}" for match in _BEHIND_REPLAY.finditer(text)]
    reasons = reasons or [match["message"] for match in _PYTEST_LINE.finditer(text)]
    line = (
        reasons[-1]
        if reasons
        else next((text_line for text_line in reversed(text.splitlines()) if text_line.strip()), "")
    )
    return _without_addresses(line.strip())[:_LONGEST_REASON]


def _without_addresses(line: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x…", re.sub(r"(/[\w.+-]+){2,}/", "…/", line))
