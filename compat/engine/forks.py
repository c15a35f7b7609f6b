"""Runs scripts in processes forked from one that has loaded vLLM: loading it takes most of a short run."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock

_PRINTED = "printed.txt"


class Forks:
    """A process that has loaded vLLM. It runs one script at a time."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._turn = Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "graph_quant", "run", str(Path(__file__).with_name("fork_server.py"))],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        atexit.register(self._process.kill)

    def run(
        self, arguments: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str]
    ) -> tuple[int | None, str]:
        """Run a script; return its exit code, None after the time limit, and its output."""
        request = {
            "arguments": arguments,
            "folder": str(folder),
            "seconds": seconds,
            "environment": environment,
            "printed": str(folder / _PRINTED),
        }
        with self._turn:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            return 1, "RuntimeError: vLLM cannot be imported"
        return json.loads(answer), (folder / _PRINTED).read_text(errors="replace")


@cache
def ready(**environment: str) -> Forks:
    """Return the process, which is started once."""
    return Forks(environment)
