"""Collects calls that rules refused during tracing, including those whose error the script caught."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from typing import Any

from torch._dynamo.utils import get_compilation_metrics

from .findings import DryRun, DryRunFinding

_REFUSAL = re.compile(r"got Refusal\((?P<message>(?P<quote>['\"]).*(?P=quote))\)")


class Refusals:
    """Reads the refusals from Dynamo's compilation metrics, of which it keeps only the latest."""

    def __init__(self, run: DryRun) -> None:
        self._run = run
        self._seen = get_compilation_metrics()

    def collect(self) -> None:
        """Add what was refused since the last call to the run."""
        metrics = get_compilation_metrics()
        known = set(map(id, self._seen))
        for trace in metrics:
            if id(trace) not in known:
                self._run.refused += [finding for finding in _read_refusal(trace) if finding not in self._run.refused]
        self._seen = metrics


def _read_refusal(trace: Any) -> Iterator[DryRunFinding]:
    match = _REFUSAL.search(trace.fail_reason or "")
    if match is not None:
        file, line = trace.fail_user_frame_filename, trace.fail_user_frame_lineno
        where = f"{file}:{line}: {linecache.getline(file, line).strip()}" if file else ""
        yield DryRunFinding(ast.literal_eval(match["message"]), where)
