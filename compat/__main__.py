"""Runs other people's tests and documents' examples on the host NPU: `make compat CHECKOUTS=folder`."""

from __future__ import annotations

import argparse
import importlib.metadata
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .outcome import Outcome, Verdict
from .runner import Limits, run
from .suites import SUITES, Job, Suite
from .table import Results, has_passed, read, steps_back, to_json, to_markdown, with_the_rest

_TABLE = Path(__file__).with_name("table.json")
_PAGE = Path(__file__).parents[1] / "docs" / "compat.md"
_HEAD = """# Other people's tests here

Made by `make compat CHECKOUTS=folder`, never by hand: the tests of these projects, their quantised layers and recipes,
and the examples in the public documents of torch_npu's operators, run unchanged on the host NPU, each in a process of
its own. "Refused by name" is a call that the package says it does not know, or that the documents forbid; a test of
another chip's operator ends there or as skipped by itself.

"""
_EPILOG = """\
The folder holds checkouts under the names of their repositories: op-plugin, torchair, pytorch (Ascend's), vllm-ascend,
sglang, cann-recipes-infer. A suite whose checkout is missing is left out and said so. Nothing of theirs is copied.
What they import is the user's to install: einops and pillow for some of op-plugin; accelerate, datasets, einops,
fastapi and requests for the recipes; vllm (without its torch) for the tests of vllm-ascend.

examples:
  python -m compat ../checkouts                           run everything; compare with the last table
  python -m compat ../checkouts --suite documents -k quant    only examples whose names contain quant
  python -m compat ../checkouts --write                   also write the table and docs/compat.md; a part into the rest

With a step back nothing is written, so that the next run tells of it too; --accept writes it all the same.

exit code: 0; 1 where something that passed in the last table does not any more; 2 for a mistake"""


def main() -> int:
    """Run what was asked for."""
    options = _options()
    checkouts = Path(options.checkouts).resolve()
    suites = [suite for suite in SUITES if not options.suite or suite.name in options.suite]
    missing = [suite.name for suite in suites if not suite.is_there(checkouts)]
    suites = [suite for suite in suites if suite.is_there(checkouts)]
    if not suites:
        print(f"compat: {checkouts} holds none of {', '.join(sorted({s.checkout for s in SUITES}))}", file=sys.stderr)
        return 2
    if missing:
        print(f"left out, their checkouts are missing: {', '.join(missing)}")
    table = Path(options.table)
    before = read(table)
    versions = {**before.get("versions", {}), **_versions(suites, checkouts)}
    is_part = bool(options.k or options.rest)
    if options.write and is_part and not set(before.get("versions", {}).items()) <= set(versions.items()):
        print("compat: a part is written beside the versions that the last table was made from", file=sys.stderr)
        return 2
    jobs = [job for suite in suites for job in suite.jobs(checkouts) if options.k in job.name]
    if options.rest:
        jobs = [job for job in jobs if not has_passed(before, job.suite, job.name)]
    results = _run(suites, jobs, options)
    _show(results)
    back = list(steps_back(before, results))
    for line in back:
        print(line)
    if options.write and (not back or options.accept):
        _write(table, with_the_rest(read(table), results, is_part=is_part), versions)
    return 1 if back and not options.accept else 0


def _write(table: Path, results: Results, versions: dict[str, str]) -> None:
    page = _PAGE if table == _TABLE else table.with_suffix(".md")
    table.write_text(to_json(results, versions) + "\n", encoding="utf-8")
    page.write_text(_HEAD + to_markdown(results, versions), encoding="utf-8")
    print(f"wrote {table.name} and {page.name}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "compat", description=__doc__, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", help="the folder with the checkouts")
    parser.add_argument("--suite", action="append", choices=[suite.name for suite in SUITES], help="only this suite")
    parser.add_argument("-k", default="", metavar="TEXT", help="only files and examples whose names contain TEXT")
    parser.add_argument("--rest", action="store_true", help="only what did not pass in the last table")
    parser.add_argument("--seconds", type=float, default=240, help="time limit of a process; default: %(default)s")
    parser.add_argument("--gigabytes", type=float, default=8, help="memory of a process; default: %(default)s")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time; default: %(default)s")
    parser.add_argument("--table", default=_TABLE, metavar="FILE", help="another table than the project's")
    parser.add_argument("--write", action="store_true", help="write the table and docs/compat.md, or FILE and its page")
    parser.add_argument("--accept", action="store_true", help="take steps back for what is right from now on")
    return parser.parse_args()


def _run(suites: list[Suite], jobs: list[Job], options: argparse.Namespace) -> dict[str, Sequence[Outcome]]:
    found: dict[str, dict[str, list[Outcome]]] = defaultdict(dict)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("compat", total=len(jobs))
        ended = run(jobs, Limits(options.seconds, options.gigabytes), options.jobs)
        for count, (job, outcomes) in enumerate(ended, 1):
            found[job.suite][job.name] = outcomes
            shown.update(task, advance=1, description=f"{job.suite}: {job.name[:48]}")
            if not console.is_terminal:
                print(
                    f"{count} of {len(jobs)}: {job.suite}: {job.name}: {_counted(outcomes)}",
                    file=sys.stderr,
                    flush=True,
                )
    # In the order of the jobs, whenever they ended.
    return {
        suite.name: [each for job in jobs if job.suite == suite.name for each in found[suite.name][job.name]]
        for suite in suites
    }


def _show(results: Results) -> None:
    for suite, outcomes in results.items():
        print(f"{suite}: {len(outcomes)} run, {_counted(outcomes)}")
        for each in outcomes:
            if each.verdict not in (Verdict.PASSED, Verdict.SKIPPED):
                print(f"  {each.verdict.value}: {each.name}: {each.reason}")


def _counted(outcomes: Sequence[Outcome]) -> str:
    counts = {verdict: sum(each.verdict is verdict for each in outcomes) for verdict in Verdict}
    return ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)


def _versions(suites: list[Suite], checkouts: Path) -> dict[str, str]:
    found = {name: importlib.metadata.version(name) for name in ("torch", "torch_npu")}
    for checkout in dict.fromkeys(suite.checkout for suite in suites):
        asked = ["git", "-C", str(checkouts / checkout), "rev-parse", "--short=12", "HEAD"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        found[checkout] = told.stdout.strip() or "unknown"
    return found


if __name__ == "__main__":
    raise SystemExit(main())
