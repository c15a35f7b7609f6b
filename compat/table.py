"""The table of a run, as people read it and as the next run compares with it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .known_failures import WHOSE
from .outcome import Outcome, Verdict

_COLUMNS = (Verdict.PASSED, Verdict.REFUSED, Verdict.FAILED, Verdict.LATE, Verdict.CRASHED, Verdict.SKIPPED)

_LONGEST = 296  # of a row without its bars at both ends

Results = Mapping[str, Sequence[Outcome]]


def to_markdown(results: Results, versions: Mapping[str, str]) -> str:
    """Figures by suite, then what was compared of what passed, and the reasons for everything that did not."""
    heads = ["suite", "run", *(verdict.value for verdict in _COLUMNS)]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for suite, outcomes in results.items():
        counts = Counter(outcome.verdict for outcome in outcomes)
        figures = [len(outcomes), *(counts[verdict] for verdict in _COLUMNS)]
        lines.append(f"| {suite} | " + " | ".join(map(str, figures)) + " |")
    lines += ["", "Made from: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".", ""]
    for suite, outcomes in results.items():
        if compared := [each for each in outcomes if each.verdict is Verdict.PASSED and each.reason]:
            lines += [f"## {suite}: what passes", "", "| what | compared |", "|---|---|"]
            lines += [_row(each.name, each.reason) for each in compared]
            lines.append("")
        rest = [each for each in outcomes if each.verdict not in (Verdict.PASSED, Verdict.SKIPPED)]
        if rest:
            lines += [f"## {suite}: what does not pass", "", "| what | how | why |", "|---|---|---|"]
            lines += [_row(each.name, each.verdict.value, _why(suite, each)) for each in rest]
            lines.append("")
        reasons = Counter(each.reason for each in outcomes if each.verdict is Verdict.SKIPPED)
        if reasons:
            lines += [f"## {suite}: why tests skip themselves", "", "| tests | why |", "|---|---|"]
            lines += [_row(str(count), reason) for reason, count in reasons.most_common()]
            lines.append("")
    return "\n".join(lines)


def _why(suite: str, outcome: Outcome) -> str:
    """What was said last, and whose it is where it is not this package's."""
    found = [why for name, why in WHOSE.get(suite, {}).items() if outcome.name.startswith(name)]
    return "; ".join(filter(None, [*found, outcome.reason]))


def _row(*cells: str) -> str:
    """A row of a table; the last cell is cut where the line would be too long to read, and is whole in the JSON."""
    line = " | ".join(cell.replace("|", "\\|").replace("\n", " ").replace("`", "'") for cell in cells)
    return f"| {line if len(line) <= _LONGEST else line[: _LONGEST - 1] + '…'} |"


def to_json(results: Results, versions: Mapping[str, str]) -> str:
    """The same for the next run."""
    suites = {
        suite: {each.name: [each.verdict.value, each.reason] for each in outcomes}
        for suite, outcomes in results.items()
    }
    return json.dumps({"versions": dict(versions), "suites": suites}, indent=1, sort_keys=True, ensure_ascii=False)


def steps_back(before: Mapping[str, Any], results: Results) -> Iterable[str]:
    """What passed in the last table and does not any more; what was not run this time is not judged."""
    for suite, outcomes in results.items():
        known = before.get("suites", {}).get(suite, {})
        passed = {name for name, (verdict, _) in known.items() if verdict == Verdict.PASSED.value}
        passed |= {name.partition("::")[0] for name in passed}  # a file, whose tests may not be reached any more
        for each in outcomes:
            if each.name in passed and each.verdict is not Verdict.PASSED:
                yield f"{suite}: {each.name} passed before and now: {each.verdict.value} {each.reason}".rstrip()


def has_passed(before: Mapping[str, Any], suite: str, job: str) -> bool:
    """Whether all that a job ran passed in the last table, or was skipped by itself."""
    known = before.get("suites", {}).get(suite, {})
    verdicts = {
        verdict for name, (verdict, _) in known.items() if name == job or name.startswith((f"{job}::", f"{job}, "))
    }
    return bool(verdicts) and verdicts <= {Verdict.PASSED.value, Verdict.SKIPPED.value}


def with_the_rest(
    before: Mapping[str, Any], results: Results, *, is_part: bool = False
) -> dict[str, Sequence[Outcome]]:
    """``results``, and of the last table what was not run: other suites, and where a part was run the rest of it."""
    kept = {
        suite: [Outcome(name, Verdict(verdict), reason) for name, (verdict, reason) in outcomes.items()]
        for suite, outcomes in before.get("suites", {}).items()
    }
    if is_part:
        results = {suite: _updated(kept.get(suite, ()), outcomes) for suite, outcomes in results.items()}
    return dict(sorted({**kept, **results}.items()))


def _updated(old: Iterable[Outcome], new: Sequence[Outcome]) -> list[Outcome]:
    """``new``, and of ``old`` what was not run: of a file that was run, a test may be gone, or have stopped it once."""
    files = {_file(each) for each in new}
    kept = [each for each in old if _file(each) not in files]
    return [*kept, *new]


def _file(outcome: Outcome) -> str:
    return outcome.name.partition("::")[0]


def read(path: Path) -> dict[str, Any]:
    """The last table; an empty one where there is none."""
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
