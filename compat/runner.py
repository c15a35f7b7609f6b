"""Runs each job in its own process with a time limit."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from .documents import Example
from .engine import forks
from .outcome import TOO_LONG, Outcome, Verdict, classify_error, extract_reason, has_failed_rank, outcome_of_process
from .suites import A3, Job

_TASKS = "compat.worker"
_FORKED_SCRIPT = Path(__file__).parent / "engine" / "driver.py"
# What vLLM and the host NPU read when they are loaded. Models on one device leave the second unused.
_FORK_ENVIRONMENT = {"GRAPH_QUANT_DEVICES": "2", "VLLM_NO_USAGE_STATS": "1"}


@dataclass(frozen=True)
class Limits:
    """Limits of a process; ranks and recipes are limited in time only."""

    seconds: float
    gigabytes: float


def run(jobs: Iterable[Job], limits: Limits, workers: int) -> Iterator[tuple[Job, list[Outcome]]]:
    """Yield the outcomes of all jobs as they complete."""
    with ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(_outcomes, job, limits): job for job in jobs}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def _outcomes(job: Job, limits: Limits) -> list[Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        if job.recipe is not None or job.engine_model:

            def run_driver(arguments: list[str], cwd: Path, more: dict[str, str]) -> tuple[int | None, str]:
                if Path(arguments[1]) == _FORKED_SCRIPT:
                    return forks.ready(**_FORK_ENVIRONMENT).run(arguments[1:], cwd, limits.seconds, more)
                return _process(arguments, cwd, limits.seconds, more)

            try:
                return list(_outcomes_of_model(job, Path(folder), run_driver))
            except Exception as error:  # one model must not stop the others
                return [Outcome(job.name, Verdict.FAILED, f"{type(error).__name__}: {error}"[:160])]
        if job.tests is None:
            script = Path(folder) / "example.py"
            script.write_text(job.code, encoding="utf-8")
            if job.ranks is not None:
                return [outcome_of_process(job.name, *_of_ranks(job.ranks, script, limits.seconds))]
            code, output = _forked("run_script", str(script), folder, limits)
            return [outcome_of_process(job.name, code, output)]
        report = Path(folder) / "report.xml"
        # pytest's captured log keeps tensors alive, which tests of memory would count.
        plugins = ["-p", "no:cacheprovider", "-p", "no:logging"]
        options = ["-q", *plugins, f"--junitxml={report}", "--rootdir", folder, str(job.tests)]
        if job.environment:
            more = {**dict(job.environment), "PYTHONPATH": str(job.folder)}
            code, output = _process(["run", "-m", "pytest", *options], job.tests.parent, limits.seconds, more)
        else:
            request = (str(job.folder), options, job.sample, limits.seconds, job.unskips)
            code, output = _forked("run_tests", request, str(job.tests.parent), limits)
        if report.exists() and (cases := list(_cases(job.name, report))):
            return cases
        return [outcome_of_process(job.name, 1 if code == 0 else code, output)]


def _outcomes_of_model(job: Job, folder: Path, run_driver: Callable[..., tuple[int | None, str]]) -> Iterator[Outcome]:
    if job.recipe is None:
        from .engine import compare as engine

        return engine.outcomes(job.engine_model, folder, run_driver)
    from .recipes import compare as recipes

    assert job.folder is not None
    return recipes.outcomes(*job.recipe, job.folder, folder, run_driver)


def _of_ranks(example: Example, script: Path, seconds: float) -> tuple[int | None, str]:
    """Run a program of several ranks: it starts its own, or two are started."""
    chip = A3 if example.for_a3 else {}
    ranks = [] if example.starts_ranks else ["--ranks", "2"]
    devices = {"GRAPH_QUANT_DEVICES": "16"} if example.starts_ranks else {}
    code, output = _process(["run", *ranks, str(script)], script.parent, seconds, {**chip, **devices})
    return (1 if code == 0 and has_failed_rank(output) else code), output


def _forked(task: str, what: Any, folder: str, limits: Limits) -> tuple[int | None, str]:
    """Run a task in a process forked from one that has loaded the libraries."""
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
    """Run a task by name, so that the calling process need not load the libraries."""
    getattr(importlib.import_module(_TASKS), task)(*args)


@cache
def _ready() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_TASKS])
    before = dict(os.environ)
    # Processes exit without cleanup; warnings about leaked semaphores are ignored.
    os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker"
    os.environ.setdefault("GRAPH_QUANT_DEVICES", "2")  # some tests use a second device
    try:
        forkserver.ensure_running()  # with these variables, which its processes inherit
    finally:
        os.environ.clear()
        os.environ.update(before)
    return context


def _process(
    arguments: list[str], folder: Path, seconds: float, more: dict[str, str] | None = None
) -> tuple[int | None, str]:
    """Return the exit code, None after the time limit, and the output. The whole process group is killed then."""
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


def _location(job: str, classname: str) -> tuple[str, str]:
    """Return the file of a test and its class. A job that is no file is the folder of the file."""
    if job.endswith(".py"):
        return job, classname.rpartition(".")[2]
    match = re.search(rf"\.{re.escape(job)}\.((?:\w+\.)*?)(test_\w+)(?:\.(?:.*\.)?(\w+))?$", f".{classname}")
    if match is None:
        return job, ""
    folders, module, test_class = match.groups()
    return f"{job}/{folders.replace('.', '/')}{module}.py", test_class or ""


def _cases(file: str, report: Path) -> Iterator[Outcome]:
    for case in ElementTree.parse(report).iter("testcase"):
        name = "::".join(filter(None, (*_location(file, case.get("classname", "")), case.get("name"))))
        failure = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if failure is not None:
            text = f"{failure.text or ''}\n{failure.get('message') or ''}"
            yield Outcome(name, Verdict.TIMED_OUT if TOO_LONG in text else classify_error(text), extract_reason(text))
        elif skipped is not None:
            yield Outcome(name, Verdict.SKIPPED, (skipped.get("message") or "")[:120])
        else:
            yield Outcome(name, Verdict.PASSED)
