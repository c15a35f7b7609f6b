"""The table of docs/serving.md, made from the last run of the suite."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from .models import EAGER, FUSED, MODELS, SERVERS

SUITE = "vllm-engine"
_TOKENS = re.compile(r"(?P<counts>[\d, ]+) of (?P<of>\d+) tokens|off by (?P<error>[\d.]+) of their length")
_HEAD = ("| model | eager execution against transformers | captured against eager |", "|---|---|---|")


def table(results: Mapping[str, Sequence[str]]) -> str:
    """Return a row for each model; ``results`` are verdicts and reasons by the name of the row."""
    lines = [*_HEAD]
    for name, model in MODELS.items():
        row = {mode: results.get(f"{name}, {mode}") for mode in model.modes}
        alone = [mode for mode in row if mode in (EAGER, FUSED, *SERVERS)]
        captured = [mode for mode in row if mode not in alone]
        cells = (_sorted(alone, row, _agreement), _sorted(captured, row, lambda _: "equal to the bit") or "—")
        lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def _sorted(modes: Sequence[str], row: Mapping[str, Sequence[str] | None], describe: Callable[[str], str]) -> str:
    """Return what became of the modes, those with the same result together."""
    results: dict[str, list[str]] = {}
    for mode in modes:
        match row[mode]:
            case None:
                result = "not run"
            case ["passed", reason]:
                result = describe(reason)
            case [verdict, *reasons]:
                result = f"**{verdict}** {_plain(' '.join(reasons))}".strip()
        results.setdefault(result, []).append(mode)
    return "; ".join(f"{', '.join(names)}: {result}" for result, names in results.items())


def _agreement(reason: str) -> str:
    """Return the tokens that are those of transformers, or the error of embeddings."""
    match = _TOKENS.search(reason)
    assert match, reason
    if match["error"]:
        return f"off by {match['error']}"
    return f"{match['counts'].strip()} of {match['of']}"


def _plain(reason: str) -> str:
    return reason.replace("|", "\\|").replace("`", "'")
