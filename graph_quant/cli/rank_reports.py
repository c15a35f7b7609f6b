"""Joins the verification reports of several ranks."""

from __future__ import annotations

import argparse
import json
import tempfile
from html import escape
from pathlib import Path
from typing import Any

from .errors import UsageError

REPORTS_VARIABLE = "GRAPH_QUANT_REPORTS"  # the folder where ranks write their reports


def verify_ranks(options: argparse.Namespace) -> int:
    """Run the ranks and join their reports."""
    from . import ranks, run, script_options

    command = script_options.rank_command("verify", options, "--ranks", "--json", "--html")
    with tempfile.TemporaryDirectory() as folder:
        code = ranks.run_ranks(command, {**run.npu_environment(), REPORTS_VARIABLE: folder}, options.ranks, good=(0, 1))
        stems = [Path(folder, str(rank)) for rank in range(options.ranks)]
        reports = [json.loads(text) for text in _read_files(stems, ".json")]
        pages = _read_files(stems, ".html")
    for report in reports:
        print(f"{report['title']}: {report['verdict']}")
    for path, content in (
        (options.json, _join_json(reports, options.ranks)),
        (options.html, _join_pages(reports, pages)),
    ):
        if path:
            write_file(path, content)
            print(f"wrote {path}")
    if code in (0, 1) and len(reports) < options.ranks:
        raise UsageError(f"{options.script}: of {options.ranks} ranks, {options.ranks - len(reports)} left no report")
    return code


def write_file(path: str, content: str) -> None:
    """Write a report; raise `UsageError` if that fails."""
    try:
        Path(path).write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _read_files(stems: list[Path], suffix: str) -> list[str]:
    """Read the files of the ranks; one that failed early has none."""
    files = [stem.with_suffix(suffix) for stem in stems]
    return [file.read_text(encoding="utf-8") for file in files if file.exists()]


def _join_json(reports: list[dict[str, Any]], ranks: int) -> str:
    whole = {"ok": len(reports) == ranks and all(report["ok"] for report in reports), "ranks": reports}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _join_pages(reports: list[dict[str, Any]], pages: list[str]) -> str:
    """Join the pages of all ranks; the first failing one is open."""
    wrong = next((rank for rank, report in enumerate(reports) if not report["ok"]), 0)
    parts = [
        f"<details{' open' if rank == wrong else ''}><summary>{escape(report['title'])}: {escape(report['verdict'])}"
        f'</summary><iframe srcdoc="{escape(page)}"></iframe></details>'
        for rank, (report, page) in enumerate(zip(reports, pages, strict=True))
    ]
    style = "body{font-family:sans-serif;margin:1rem}summary{padding:.5rem 0}iframe{width:100%;height:85vh;border:0}"
    head = f"<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>{len(reports)} ranks</title>"
    return f"{head}<style>{style}</style></head><body>{''.join(parts)}</body></html>\n"
