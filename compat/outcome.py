"""How a run ended, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

_LONGEST_REASON = 160
# What a test is told that is stopped alone, so that the others of its file are run.
TOO_LONG = "the test takes too long on the host"


class Verdict(Enum):
    """What became of an example or a test."""

    PASSED = "passed"
    REFUSED = "refused by name"
    FAILED = "failed"
    LATE = "timed out"
    CRASHED = "crashed"
    SKIPPED = "skipped by itself"


# What the package says where it does not know, or where the documents forbid a call.
_REFUSALS = re.compile(
    r"needs an NPU|cannot run on the host NPU|no host kernel for|only supports Ascend910_95|\bRefusal\b"
    r"|which alone has a kernel|GE has no operator|is not served on the host|ge_converter is not implemented"
)
# Ranks put their number before each line, and torch once more; pytest an E.
_ERROR_LINE = re.compile(
    r"^(?:\[rank ?\d+\]:? |E +)*(?P<error>[\w.]*(?:Error|Exception|Refusal|Exit|Interrupt|Warning)\b.*)$", re.MULTILINE
)
_TOLD_BY_PYTEST = re.compile(r"^E +(?P<told>\S.*)$", re.MULTILINE)
# What multiprocessing prints before the traceback of a process.
_RANK_FAILED = re.compile(r"^Process \w*Process-\d+:$", re.MULTILINE)
# What a program says of a rank that has told why.
_THAT_A_RANK_FAILED = re.compile(r"subprocess \d+ failed with exitcode")
# Dynamo tells what an operator said of a call behind its own words.
_BEHIND_DYNAMO = re.compile(r"failed to run FX node with fake tensors.*: got (?P<kind>\w+)\((['\"])(?P<said>.*)\2\)")
# A replayed operator tells beside the runtime's number what it refuses: after its own name.
_BEHIND_REPLAY = re.compile(r"^replay: \w+::(?P<op>\w+)\S* \(kernel \d+\): (?P<said>(?P=op): .*)$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """One example or test."""

    name: str
    verdict: Verdict
    reason: str = ""


def of_process(name: str, code: int | None, output: str) -> Outcome:
    """The outcome of a program by its exit code, None where it was stopped for taking too long."""
    if code is None:
        return Outcome(name, Verdict.LATE)
    if code == 0:
        return Outcome(name, Verdict.PASSED)
    if code < 0:
        return Outcome(name, Verdict.CRASHED, f"signal {-code}")
    return Outcome(name, judged(output), reason_in(output))


def a_rank_failed(output: str) -> bool:
    """Whether a process that a program has started ended in an error: programs say that all is well all the same."""
    return bool(_RANK_FAILED.search(output))


def judged(text: str) -> Verdict:
    """Whether an error is a refusal."""
    return Verdict.REFUSED if _REFUSALS.search(reason_in(text)) else Verdict.FAILED


def reason_in(text: str) -> str:
    """The last error that a traceback tells, in one line."""
    found = [match["error"] for match in _ERROR_LINE.finditer(text)]
    found = [error for error in found if not _THAT_A_RANK_FAILED.search(error)] or found
    found += [f"{match['kind']}: {match['said']}" for match in _BEHIND_DYNAMO.finditer(text)]
    found += [f"Refusal: {match['said']}" for match in _BEHIND_REPLAY.finditer(text)]
    found = found or [match["told"] for match in _TOLD_BY_PYTEST.finditer(text)]
    line = found[-1] if found else next((each for each in reversed(text.splitlines()) if each.strip()), "")
    return _without_addresses(line.strip())[:_LONGEST_REASON]


def _without_addresses(line: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x…", re.sub(r"(/[\w.+-]+){2,}/", "…/", line))
