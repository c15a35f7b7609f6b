"""compat: files of other projects are found, run in their own processes, and compared with the last table."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compat.documents import examples, runnable
from compat.outcome import (
    TOO_LONG,
    Outcome,
    Verdict,
    classify_error,
    extract_reason,
    has_failed_rank,
    outcome_of_process,
)
from compat.runner import Limits, _location, run
from compat.suites import SUITES, Suite
from compat.table import has_passed, merge_with_table, regressions, to_json, to_markdown
from compat.worker import Sample, TimeLimit

ROOT = Path(__file__).parents[2]
PAGE = """
# A page

```python
import torch
import torch_npu
print(torch.ones(2).npu().sum())
tensor(2., device='npu:0')
```

   ```python
   >>> import torch
   >>> x = torch.ones(2)
   >>> x
   tensor([1., 1.])
   ```

```python
import torch
torch.distributed.init_process_group("hccl")
```

```cpp
int main() {}
```
"""


def test_examples_are_programs_without_prompts_and_output(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "page.md").write_text(PAGE)
    by_name = {example.name: example for example in examples(tmp_path)}
    assert list(by_name) == ["folder/page-0", "folder/page-1", "folder/page-2"]
    assert by_name["folder/page-0"].code.endswith("print(torch.ones(2).npu().sum())\n")
    assert by_name["folder/page-1"].code == "import torch\nx = torch.ones(2)\nx\n"
    assert [example.of_ranks for example in by_name.values()] == [False, False, True]
    assert not any(example.for_a3 for example in by_name.values())


def test_the_chips_of_a_page_are_read(tmp_path: Path) -> None:
    chips = "| <term>Atlas A3 训练系列产品</term> | {} |\n"
    for name, mark in (("with", "√"), ("without", "×")):
        (tmp_path / f"{name}.md").write_text(chips.format(mark) + PAGE, encoding="utf-8")
    assert {example.name for example in examples(tmp_path) if example.for_a3} == {"with-0", "with-1", "with-2"}


@pytest.mark.parametrize("printed", ["group_0\ngroup_0", "y: tensor([1.,\n 2.])", "(tensor([1.]), 2)", "tensor(1)"])
def test_printed_output_below_a_program_is_removed(printed: str) -> None:
    program = "import torch\ny = torch.ones(2)\nprint(y, z)\ny\n"
    assert runnable(program + printed) == program


def test_a_block_that_is_no_program_gives_an_empty_string() -> None:
    assert runnable("npu_x(Tensor x) -> Tensor\nimport torch") == ""


@pytest.mark.parametrize(
    ("code", "output", "verdict", "reason"),
    [
        (0, "", Verdict.PASSED, ""),
        (None, "", Verdict.TIMED_OUT, ""),
        (-11, "", Verdict.CRASHED, "signal 11"),
        (1, "Traceback\nValueError: no\n", Verdict.FAILED, "ValueError: no"),
        (
            1,
            "RuntimeError: npu::npu_x cannot run on the host NPU: it has no reference\n",
            Verdict.REFUSED,
            "RuntimeError: npu::npu_x cannot run on the host NPU: it has no reference",
        ),
    ],
    ids=["passed", "late", "crashed", "failed", "refused"],
)
def test_the_exit_code_decides_the_verdict(code, output, verdict, reason) -> None:
    assert outcome_of_process("x", code, output) == Outcome("x", verdict, reason)


def test_a_failed_rank_is_detected_in_spite_of_success_messages() -> None:
    assert has_failed_rank("Process SpawnProcess-3:\nTraceback (most recent call last):\nrun npu success.\n")
    assert extract_reason("ValueError: no\nRuntimeError: subprocess 7 failed with exitcode 1\n") == "ValueError: no"
    assert not has_failed_rank("Process 3: ready\nrun npu success.\n")


def test_a_reason_contains_no_paths_of_this_machine() -> None:
    assert extract_reason("OSError: /some/where/else/lib.so: at 0x7fff12") == "OSError: …/lib.so: at 0x…"


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "ImportError while importing module 'x'.\nE   ModuleNotFoundError: No module named 'y'\n[+4 more lines]",
            "ModuleNotFoundError: No module named 'y'",
        ),
        (
            "def test(x):\nE       fixture 'x' not found\n>       available fixtures: y\n[+4 more lines]",
            "fixture 'x' not found",
        ),
    ],
    ids=["import", "fixture"],
)
def test_a_reason_is_extracted_from_pytest_output(output: str, reason: str) -> None:
    assert extract_reason(output) == reason


def test_a_reason_is_extracted_from_lines_with_rank_prefixes() -> None:
    output = (
        "[rank 1] [rank1]: my.Refusal: npu_x: no\n[rank 1] [ERROR] unknown exception\ngraph-quant run: rank 1 ended\n"
    )
    assert extract_reason(output) == "my.Refusal: npu_x: no"


def test_a_refusal_inside_a_dynamo_error_is_extracted() -> None:
    output = (
        "torch._dynamo.exc.TorchRuntimeError: RuntimeError when making fake tensor call\n"
        "  Explanation: Dynamo failed to run FX node with fake tensors: call npu.x(*()): got Refusal('npu_x: no')\n"
    )
    assert extract_reason(output) == "Refusal: npu_x: no"
    assert classify_error(output) is Verdict.REFUSED


def test_a_refusal_inside_a_replay_error_is_extracted() -> None:
    output = "RuntimeError: replay: AclmdlRIExecuteAsync, error code is 107000\n{}\n[DEBUG] more\n"
    refused = output.format("replay: npu::npu_x (kernel 0): npu_x: lengths must add up to 2, got 3")
    assert extract_reason(refused) == "Refusal: npu_x: lengths must add up to 2, got 3"
    assert classify_error(refused) is Verdict.REFUSED
    assert classify_error(output.format("replay: npu::npu_x (kernel 0): no memory")) is Verdict.FAILED


def test_a_regression_is_reported_and_other_suites_are_kept() -> None:
    old = {
        "one": [Outcome("a", Verdict.PASSED), Outcome("b", Verdict.FAILED, "why")],
        "two": [Outcome("c", Verdict.PASSED)],
    }
    before = json.loads(to_json(old, {"torch": "2"}))
    new = {"one": [Outcome("a", Verdict.FAILED, "now"), Outcome("b", Verdict.FAILED)]}
    assert list(regressions(before, new)) == ["one: a passed before and now: failed now"]
    merged = merge_with_table(before, new)
    assert merged["two"] == old["two"]
    assert "| one | 2 | 0 | 0 | 2 | 0 | 0 | 0 |" in to_markdown(merged, {"torch": "2"})
    assert [has_passed(before, "one", name) for name in ("a", "b", "c")] == [True, False, False]
    compared = to_markdown({"one": [Outcome("a", Verdict.PASSED, "equal")]}, {})
    assert "## one: what passes\n\n| what | compared |\n|---|---|\n| a | equal |\n" in compared
    part = merge_with_table(before, {"one": [Outcome("b", Verdict.PASSED)]}, is_part=True)
    assert part == {"one": [old["one"][0], Outcome("b", Verdict.PASSED)], "two": old["two"]}


def test_rerunning_a_file_replaces_all_its_old_outcomes() -> None:
    stopped, run_through = [Outcome("x.py", Verdict.CRASHED)], [Outcome("x.py::test", Verdict.PASSED)]
    other = Outcome("y.py", Verdict.FAILED)
    before = json.loads(to_json({"one": [*stopped, other]}, {}))
    assert merge_with_table(before, {"one": run_through}, is_part=True)["one"] == [other, *run_through]
    before = json.loads(to_json({"one": [*run_through, other]}, {}))
    assert merge_with_table(before, {"one": stopped}, is_part=True)["one"] == [other, *stopped]
    assert list(regressions(before, {"one": stopped})) == ["one: x.py passed before and now: crashed"]


def test_the_command_isolates_jobs_and_writes_no_regression(tmp_path: Path) -> None:
    pages = tmp_path / "op-plugin" / "docs" / "zh" / "custom_APIs"
    pages.mkdir(parents=True)
    (pages / "page.md").write_text(PAGE)
    tests = tmp_path / "op-plugin" / "test" / "test_custom_ops"
    tests.mkdir(parents=True)
    (tests / "test_x.py").write_text(
        "import torch\nimport pytest\n"
        "def test_right():\n    assert torch.ones(2).npu().sum() == 2\n"
        "def test_wrong():\n    assert torch.ones(2).npu().sum() == 3\n"
        "def test_large():\n    bytearray(9 << 30)\n"
        "@pytest.mark.skip(reason='another chip')\ndef test_other(): pass\n"
    )
    table = tmp_path / "table.json"
    known = to_json({"op-plugin": [Outcome("test_x.py::test_wrong", Verdict.PASSED)]}, {})
    table.write_text(known)

    def command(*suites: str) -> subprocess.CompletedProcess[str]:
        arguments = [sys.executable, "-m", "compat", str(tmp_path), "--write", "--table", str(table), *suites]
        return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)

    done = command("--suite", "documents", "--suite", "op-plugin")
    assert done.returncode == 1, done.stderr
    assert "documents: 2 run, 2 passed" in done.stdout
    assert "op-plugin: 4 run, 1 passed, 2 failed, 1 skipped by itself" in done.stdout
    assert "failed: test_x.py::test_wrong: " in done.stdout
    assert "failed: test_x.py::test_large: MemoryError" in done.stdout
    assert "op-plugin: test_x.py::test_wrong passed before and now: failed" in done.stdout
    assert "3 of 3: " in done.stderr
    assert table.read_text() == known
    done = command("--suite", "documents")
    assert done.returncode == 0, done.stderr
    written = json.loads(table.read_text())["suites"]
    assert written["op-plugin"] == {"test_x.py::test_wrong": ["passed", ""]}
    assert written["documents"] == {"page-0": ["passed", ""], "page-1": ["passed", ""]}


@pytest.mark.parametrize(("count", "left"), [(3, [0, 3, 6]), (10, list(range(10))), (20, list(range(10)))])
def test_a_sample_is_evenly_spaced(count: int, left: list[object]) -> None:
    items: list[object] = list(range(10))
    Sample(count).pytest_collection_modifyitems(items)
    assert items == left


def test_a_test_beyond_its_time_limit_is_stopped() -> None:
    stop = TimeLimit(0.02, least=0.3)  # on a busy machine a moment is long
    stop.pytest_runtest_setup()
    with pytest.raises(TimeoutError, match=TOO_LONG):
        time.sleep(60)
    stop.pytest_runtest_setup()
    stop.pytest_runtest_teardown()
    time.sleep(0.4)


def test_each_test_gets_half_of_the_remaining_time() -> None:
    stop = TimeLimit(1000)
    for most in (500, 500):
        stop.pytest_runtest_setup()
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        stop.pytest_runtest_teardown()
        assert most - 100 < left <= most  # a busy machine may take a while between two lines
    stop.end -= 600
    stop.pytest_runtest_setup()
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    stop.pytest_runtest_teardown()
    assert 100 < left <= 200


def test_ranks_that_do_not_check_the_device_count_get_devices(tmp_path: Path) -> None:
    tests = tmp_path / "op-plugin" / "test" / "test_custom_ops"
    tests.mkdir(parents=True)
    ranks = "# Ascend910_93\ntorch_npu.npu.set_device(rank)\n"
    (tests / "test_ranks.py").write_text(ranks)
    (tests / "test_count.py").write_text(f"# skipIfUnsupportMultiNPU(8)\n{ranks}")
    suite = next(suite for suite in SUITES if suite.name == "op-plugin-a3")
    assert [dict(job.environment).get("GRAPH_QUANT_DEVICES") for job in suite.jobs(tmp_path)] == [None, "16"]


def test_tests_with_process_pools_are_not_forked(tmp_path: Path) -> None:
    tests = tmp_path / "op-plugin" / "test" / "test_custom_ops"
    tests.mkdir(parents=True)
    (tests / "test_pool.py").write_text("from multiprocessing import Pool\n")
    (tests / "test_x.py").write_text("import torch\n")
    suite = next(suite for suite in SUITES if suite.name == "op-plugin")
    assert [bool(job.environment) for job in suite.jobs(tmp_path)] == [True, False]


def test_files_for_a3_run_with_an_a3_chip(tmp_path: Path) -> None:
    tests = tmp_path / "op-plugin" / "test" / "test_custom_ops"
    tests.mkdir(parents=True)
    (tests / "test_x.py").write_text(
        "import torch_npu\ndef test_name():\n    assert 'Ascend910_93' in torch_npu.npu.get_device_name()\n"
    )
    (tests / "test_y.py").write_text("def test_nothing(): pass\n")
    suite = next(suite for suite in SUITES if suite.name == "op-plugin-a3")
    [(_, outcomes)] = run(suite.jobs(tmp_path), Limits(240, 8), 1)
    assert outcomes == [Outcome("test_x.py::test_name", Verdict.PASSED)]


def test_skipped_tests_are_run_and_only_these(tmp_path: Path) -> None:
    (suite,) = [suite for suite in SUITES if suite.name == "op-plugin-skipped"]
    tests = tmp_path / suite.checkout / suite.root
    tests.mkdir(parents=True)
    (tests / "test_x.py").write_text(
        "import unittest\n"
        "class TestSome(unittest.TestCase):\n"
        "    def test_always(self): assert False\n"
        "    @unittest.skip('later')\n"
        "    def test_right(self): pass\n"
        "    @unittest.skip('later')\n"
        "    def test_wrong(self): assert False\n"
        "@unittest.skip('later')\n"
        "class TestWhole(unittest.TestCase):\n"
        "    def test_right(self): pass\n"
    )
    (tests / "test_y.py").write_text("def test_nothing(): pass\n")
    ((_, outcomes),) = list(run(suite.jobs(tmp_path), Limits(60, 8), 1))
    verdicts = {outcome.name.partition("::")[2]: outcome.verdict for outcome in outcomes}
    assert verdicts == {
        "TestSome::test_right": Verdict.PASSED,
        "TestSome::test_wrong": Verdict.FAILED,
        "TestWhole::test_right": Verdict.PASSED,
    }


@pytest.mark.parametrize(
    ("job", "classname", "location"),
    [
        ("test_x.py", "tests.test_x.TestY", ("test_x.py", "TestY")),
        ("test_x.py", "test_x", ("test_x.py", "test_x")),
        ("ops", "tests.ut.ops.test_x.TestY", ("ops/test_x.py", "TestY")),
        ("ops", "...work.some-ops.ut.ops.a2.test_x", ("ops/a2/test_x.py", "")),
        ("ops", "tests.ut.ops.ops.a2.test_x.TestY.TestZ", ("ops/ops/a2/test_x.py", "TestZ")),
        ("ops", "", ("ops", "")),
    ],
)
def test_a_test_of_a_folder_is_named_by_its_file(job: str, classname: str, location: tuple[str, str]) -> None:
    assert _location(job, classname) == location


def test_folders_run_as_one(tmp_path: Path) -> None:
    tests = tmp_path / "checkout" / "tests"
    for name in ("a/b/test_x.py", "empty/conftest.py", "test_y.py"):
        (tests / name).parent.mkdir(parents=True, exist_ok=True)
        (tests / name).write_text("")
    jobs = list(Suite("s", "checkout", "tests", ("test_*.py", "*/")).jobs(tmp_path))
    assert [(job.name, job.tests) for job in jobs] == [("a", tests / "a"), ("test_y.py", tests / "test_y.py")]


def test_skip_reasons_are_counted() -> None:
    page = to_markdown({"one": [Outcome(name, Verdict.SKIPPED, "another chip") for name in "ab"]}, {})
    assert "## one: why tests skip themselves\n\n| tests | why |\n|---|---|\n| 2 | another chip |\n" in page


def test_a_folder_without_checkouts_is_a_one_line_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "compat", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
