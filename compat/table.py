"""The results of a run as Markdown, and as JSON for the next run to compare with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .known_failures import KNOWN_FAILURES
from .outcome import Outcome, Verdict

_COLUMNS = (Verdict.PASSED, Verdict.REFUSED, Verdict.FAILED, Verdict.TIMED_OUT, Verdict.CRASHED, Verdict.SKIPPED)

_LONGEST = 296  # of a row without its bars at both ends

Results = Mapping[str, Sequence[Outcome]]


def to_markdown(results: Results, versions: Mapping[str, str]) -> str:
    """Return figures by suite, the comparisons of passed runs, and the reasons of all others."""
    heads = ["suite", "run", *(verdict.value for verdict in _COLUMNS)]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for suite, outcomes in results.items():
        counts = Counter(outcome.verdict for outcome in outcomes)
        figures = [len(outcomes), *(counts[verdict] for verdict in _COLUMNS)]
        lines.append(f"| {suite} | " + " | ".join(map(str, figures)) + " |")
    lines += ["", "Made from: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".", ""]
    for suite, outcomes in results.items():
        if compared := [outcome for outcome in outcomes if outcome.verdict is Verdict.PASSED and outcome.reason]:
            lines += [f"## {suite}: what passes", "", "| what | compared |", "|---|---|"]
            lines += [_row(outcome.name, outcome.reason) for outcome in compared]
            lines.append("")
        rest = [outcome for outcome in outcomes if outcome.verdict not in (Verdict.PASSED, Verdict.SKIPPED)]
        if rest:
            lines += [f"## {suite}: what does not pass", "", "| what | how | why |", "|---|---|---|"]
            lines += [_row(outcome.name, outcome.verdict.value, _why(suite, outcome)) for outcome in rest]
            lines.append("")
        reasons = Counter(outcome.reason for outcome in outcomes if outcome.verdict is Verdict.SKIPPED)
        if reasons:
            lines += [f"## {suite}: why tests skip themselves", "", "| tests | why |", "|---|---|"]
            lines += [_row(str(count), reason) for reason, count in reasons.most_common()]
            lines.append("")
    return "\n".join(lines)


def _why(suite: str, outcome: Outcome) -> str:
    """Return the known reason of a failure, and the error."""
    reasons = [why for name, why in KNOWN_FAILURES.get(suite, {}).items() if outcome.name.startswith(name)]
    return "; ".join(filter(None, [*reasons, outcome.reason]))


def _row(*cells: str) -> str:
    """Return a row of a table; the last cell is truncated if the line would be too long, and complete in the JSON."""
    line = " | ".join(cell.replace("|", "\\|").replace("\n", " ").replace("`", "'") for cell in cells)
    return f"| {line if len(line) <= _LONGEST else line[: _LONGEST - 1].rpartition(' ')[0] + '…'} |"


def to_json(results: Results, versions: Mapping[str, str]) -> str:
    """Return the results as JSON."""
    suites = {
        suite: {outcome.name: [outcome.verdict.value, outcome.reason] for outcome in outcomes}
        for suite, outcomes in results.items()
    }
    return json.dumps({"versions": dict(versions), "suites": suites}, indent=1, sort_keys=True, ensure_ascii=False)


def regressions(before: Mapping[str, Any], results: Results) -> Iterable[str]:
    """Yield what passed in the last table and fails now; what was not run is ignored."""
    for suite, outcomes in results.items():
        known = before.get("suites", {}).get(suite, {})
        passed = {name for name, (verdict, _) in known.items() if verdict == Verdict.PASSED.value}
        passed |= {name.partition("::")[0] for name in passed}  # a file that cannot be collected any more
        for outcome in outcomes:
            if outcome.name in passed and outcome.verdict is not Verdict.PASSED:
                now = f"{outcome.verdict.value} {outcome.reason}".rstrip()
                yield f"{suite}: {outcome.name} passed before and now: {now}"


def has_passed(before: Mapping[str, Any], suite: str, job: str) -> bool:
    """Whether all tests of a job passed or skipped themselves in the last table."""
    known = before.get("suites", {}).get(suite, {})
    verdicts = {
        verdict
        for name, (verdict, _) in known.items()
        if name == job or name.startswith((f"{job}::", f"{job}, ", f"{job}/"))
    }
    return bool(verdicts) and verdicts <= {Verdict.PASSED.value, Verdict.SKIPPED.value}


def merge_with_table(
    before: Mapping[str, Any], results: Results, *, is_part: bool = False
) -> dict[str, Sequence[Outcome]]:
    """Return ``results`` with what was not run from the last table: other suites, and the rest of partly run ones."""
    kept = {
        suite: [Outcome(name, Verdict(verdict), reason) for name, (verdict, reason) in outcomes.items()]
        for suite, outcomes in before.get("suites", {}).items()
    }
    if is_part:
        results = {suite: _updated(kept.get(suite, ()), outcomes) for suite, outcomes in results.items()}
    return dict(sorted({**kept, **results}.items()))


def _updated(old: Iterable[Outcome], new: Sequence[Outcome]) -> list[Outcome]:
    """Return ``new`` and the old outcomes of files that were not run; tests of rerun files may be gone."""
    files = {_file(outcome) for outcome in new}
    kept = [outcome for outcome in old if _file(outcome) not in files]
    return [*kept, *new]


def _file(outcome: Outcome) -> str:
    return outcome.name.partition("::")[0]


def read(path: Path) -> dict[str, Any]:
    """Return the last table; empty if there is none."""
    if not path.exists():
        return {}
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table
