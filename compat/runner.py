"""Runs jobs, each in a process of its own with a time limit."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from .documents import Example
from .outcome import TOO_LONG, Outcome, Verdict, a_rank_failed, judged, of_process, reason_in
from .suites import A3, Job

_TASKS = "compat.worker"


@dataclass(frozen=True)
class Limits:
    """What a process may take; ranks and recipes are bound in time alone."""

    seconds: float
    gigabytes: float


def run(jobs: Iterable[Job], limits: Limits, workers: int) -> Iterator[tuple[Job, list[Outcome]]]:
    """The outcomes of all jobs as they come."""
    with ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(_outcomes, job, limits): job for job in jobs}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def _outcomes(job: Job, limits: Limits) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        if job.recipe is not None:
            from .recipes.compare import outcomes

            assert job.folder is not None

            def run_recipe(arguments: list[str], place: Path, more: dict[str, str]) -> tuple[int | None, str]:
                return _process(arguments, place, limits.seconds, more)

            try:
                return list(outcomes(*job.recipe, job.folder, Path(folder), run_recipe))
            except Exception as error:  # of one recipe; the others are run all the same
                return [Outcome(job.name, Verdict.FAILED, f"{type(error).__name__}: {error}"[:160])]
        if job.tests is None:
            script = Path(folder) / "example.py"
            script.write_text(job.code, encoding="utf-8")
            if job.ranks is not None:
                return [of_process(job.name, *_of_ranks(job.ranks, script, limits.seconds))]
            code, output = _forked("run_script", str(script), folder, limits)
            return [of_process(job.name, code, output)]
        report = Path(folder) / "report.xml"
        # A log that pytest keeps holds the tensors it tells of, and tests that count memory count them.
        plugins = ["-p", "no:cacheprovider", "-p", "no:logging"]
        options = ["-q", *plugins, f"--junitxml={report}", "--rootdir", folder, str(job.tests)]
        if job.environment:
            more = {**dict(job.environment), "PYTHONPATH": str(job.folder)}
            code, output = _process(["run", "-m", "pytest", *options], job.tests.parent, limits.seconds, more)
        else:
            given = (str(job.folder), options, job.sample, limits.seconds)
            code, output = _forked("run_tests", given, str(job.tests.parent), limits)
        if report.exists() and (found := list(_cases(job.name, report))):
            return found
        return [of_process(job.name, 1 if code == 0 else code, output)]


def _of_ranks(example: Example, script: Path, seconds: float) -> tuple[int | None, str]:
    """A program of several ranks: it starts them itself, on devices that are there, or two are started."""
    chip = A3 if example.for_a3 else {}
    ranks = [] if example.starts_ranks else ["--ranks", "2"]
    devices = {"GRAPH_QUANT_DEVICES": "16"} if example.starts_ranks else {}
    code, output = _process(["run", *ranks, str(script)], script.parent, seconds, {**chip, **devices})
    return (1 if code == 0 and a_rank_failed(output) else code), output


def _forked(task: str, what: Any, folder: str, limits: Limits) -> tuple[int | None, str]:
    """The same in a process that is forked from one where the libraries are loaded already."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        tempfile.NamedTemporaryFile("r", errors="replace", dir=scratch) as printed,
    ):
        process = _ready().Process(target=_call, args=(task, what, folder, printed.name, limits.gigabytes))
        process.start()
        process.join(limits.seconds)
        if process.is_alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid or 0, signal.SIGKILL)
            process.kill()
            process.join()
            return None, printed.read()
        return process.exitcode, printed.read()


def _call(task: str, *args: Any) -> None:
    """A task by its name, so that the process that asks for it need not load the libraries."""
    getattr(importlib.import_module(_TASKS), task)(*args)


@cache
def _ready() -> ForkServerContext:
    # Processes end at once, so semaphores of their libraries are left to the system, which is not worth a remark.
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker"
    os.environ.setdefault("GRAPH_QUANT_DEVICES", "2")  # some work on a second one
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_TASKS])
    return context


def _process(
    arguments: list[str], folder: Path, seconds: float, more: dict[str, str] | None = None
) -> tuple[int | None, str]:
    """The exit code, None after the time limit, and what was printed. Nothing of it is left running."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}
    process = subprocess.Popen(
        [sys.executable, "-m", "graph_quant", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]


def _cases(file: str, report: Path) -> Iterator[Outcome]:
    for case in ElementTree.parse(report).iter("testcase"):
        name = "::".join(filter(None, (file, case.get("classname", "").rpartition(".")[2], case.get("name"))))
        failure = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if failure is not None:
            text = f"{failure.text or ''}\n{failure.get('message') or ''}"
            yield Outcome(name, Verdict.LATE if TOO_LONG in text else judged(text), reason_in(text))
        elif skipped is not None:
            yield Outcome(name, Verdict.SKIPPED, (skipped.get("message") or "")[:120])
        else:
            yield Outcome(name, Verdict.PASSED)
