"""One report of several ranks, each of which verifies what it compiles."""

from __future__ import annotations

import argparse
import json
import tempfile
from html import escape
from pathlib import Path
from typing import Any

from .errors import UsageError

FOLDER = "GRAPH_QUANT_REPORTS"  # where ranks leave their reports for the command that started them


def verify_ranks(options: argparse.Namespace) -> int:
    """Run the ranks, then say what each has found."""
    from . import ranks, run, script_options

    command = script_options.command_of_a_rank("verify", options, "--ranks", "--json", "--html")
    with tempfile.TemporaryDirectory() as folder:
        code = ranks.run(command, {**run.prepared(), FOLDER: folder}, options.ranks, good=(0, 1))
        places = [Path(folder, str(rank)) for rank in range(options.ranks)]
        found = [json.loads(text) for text in _texts(places, ".json")]
        pages = _texts(places, ".html")
    for each in found:
        print(f"{each['title']}: {each['verdict']}")
    for path, content in ((options.json, _document(found, options.ranks)), (options.html, _page(found, pages))):
        if path:
            _write(path, content)
            print(f"wrote {path}")
    if code in (0, 1) and len(found) < options.ranks:
        raise UsageError(f"{options.script}: of {options.ranks} ranks, {options.ranks - len(found)} left no report")
    return code


def _write(path: str, content: str) -> None:
    try:
        Path(path).write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _texts(places: list[Path], suffix: str) -> list[str]:
    """What ranks left; those that stopped before they had something to report left nothing."""
    files = [place.with_suffix(suffix) for place in places]
    return [file.read_text(encoding="utf-8") for file in files if file.exists()]


def _document(found: list[dict[str, Any]], ranks: int) -> str:
    whole = {"ok": len(found) == ranks and all(each["ok"] for each in found), "ranks": found}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _page(found: list[dict[str, Any]], pages: list[str]) -> str:
    """A page with those of all ranks in it; the first that is wrong is open."""
    wrong = next((place for place, each in enumerate(found) if not each["ok"]), 0)
    parts = [
        f"<details{' open' if place == wrong else ''}><summary>{escape(each['title'])}: {escape(each['verdict'])}"
        f'</summary><iframe srcdoc="{escape(page)}"></iframe></details>'
        for place, (each, page) in enumerate(zip(found, pages, strict=True))
    ]
    style = "body{font-family:sans-serif;margin:1rem}summary{padding:.5rem 0}iframe{width:100%;height:85vh;border:0}"
    head = f"<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>{len(found)} ranks</title>"
    return f"{head}<style>{style}</style></head><body>{''.join(parts)}</body></html>\n"
