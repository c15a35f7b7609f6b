"""Measured times are joined to nodes, and bounds come from published peaks."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_quant import dumps
from graph_quant.dumps import Costs, join_profile, read_profile
from graph_quant.dumps.analyse.roofline import CHIPS, find_chip, roofline_bound

DATA = Path(__file__).parent / "data"
KERNELS = """\
Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim
1,conv_relu,Conv2D,AI_CORE,1,8.0,0,8
2,conv_relu,Conv2D,AI_CORE,9,12.0,0,8
1,norm,BNInference,AI_VECTOR_CORE,2,1.0,0,8
1,trans_1,TransData,AI_VECTOR_CORE,2,4.0,0,8
2,trans_2,TransData,AI_VECTOR_CORE,2,6.0,0,8
1,hcom_allReduce__1,hcom_allReduce_,HCCL,2,9.0,0,8
1,AscendQuant_lxslice0,AscendQuant,AI_VECTOR_CORE,2,0,0,8
"""
SUMMARY = "Op Name,OP Type,Task Type,Task Duration(us)\nconv_relu,Conv2D,AI_CORE,8\n"


def test_rows_are_matched_to_nodes(tmp_path):
    (tmp_path / "kernel_details.csv").write_text(KERNELS)
    dump = dumps.load(DATA / "small_ge_proto.txt")
    profile = join_profile(dump, read_profile(tmp_path / "kernel_details.csv"))
    times = {
        name: (measured.microseconds, measured.runs, measured.found_by) for name, measured in profile.nodes.items()
    }
    assert times == {
        "conv_relu": (21.0, 3, "name"),  # twice itself, and once under the name of a node that was fused into it
        "trans": (10.0, 2, "order"),
        "AscendQuant": (0.0, 1, "name"),
    }
    assert [row.name for row in profile.unmatched] == ["hcom_allReduce__1"]
    assert profile.total == 40.0
    assert profile.share("conv_relu") == 21 / 40


def test_the_other_file_of_the_profiler_is_read(tmp_path):
    (tmp_path / "op_summary_0.csv").write_text(SUMMARY)
    (row,) = read_profile(tmp_path / "op_summary_0.csv")
    assert (row.name, row.type, row.microseconds, row.core) == ("conv_relu", "Conv2D", 8.0, "AI_CORE")


def test_bounds_are_the_slower_of_memory_and_arithmetic():
    dump = dumps.load(DATA / "small_ge_proto.txt")
    costs, peaks = Costs(dump), find_chip("Ascend910B3")
    conv = roofline_bound(dump, dump.nodes["conv_relu"], costs, peaks)
    moved, computed = 2 * (1024 + 2304 + 1024), 2 * 1024 * 27
    assert conv.by == "memory"
    assert conv.microseconds == pytest.approx(max(1e6 * moved / (1.6 * 2**40), 1e6 * computed / 313e12))
    assert roofline_bound(dump, dump.nodes["weight"], costs, peaks) is None


def test_a_smaller_memory_is_a_slower_one_and_wide_elements_take_twice_as_long():
    assert find_chip("Ascend910B4").memory == find_chip("Ascend910B4-1").memory / 2 == 0.8 * 2**40
    assert find_chip("Ascend910B4").int8 == find_chip("A3_560T_DIE").int8 == 560e12
    assert find_chip("Ascend910B2").vector_peak({"float32", "int8"}) == 11e12
    assert find_chip("Ascend910B2").vector_peak({"float16"}) == 22e12


def test_times_and_bounds_are_in_the_lines(command, tmp_path):
    (tmp_path / "k.csv").write_text(KERNELS)
    path = DATA / "small_ge_proto.txt"
    code, out, _ = command("inspect", path, "--profile", tmp_path / "k.csv", "--chip", "Ascend910B3")
    line = next(line for line in out.splitlines() if line.startswith("conv_relu"))
    assert code == 0
    assert "  [7.00 us of 3 runs, 52.5 %; at least 0.00495 us by memory, 1414.8 times that]  @ stream 1" in line
    assert "measured: 40.0 us, 31.0 us (78 %) at 3 nodes: 2 by name, 1 by order" in out
    assert "  at no node: hcom_allReduce__1 (hcom_allReduce_) 9.0 us" in out
    assert "peaks of Ascend910B3: those of Atlas 800 A2 313T, published by Ascend/msmodeling, not measured" in out


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--chip", "H100"], f"no peaks are published for H100; they are for {', '.join(CHIPS)}"),
        (["--profile", "none.csv"], "none.csv: No such file or directory"),
        (
            ["--profile", "small_fx.txt"],
            "small_fx.txt: this is not a kernel_details.csv or op_summary.csv of the profiler",
        ),
    ],
    ids=["chip", "absent", "other"],
)
def test_unknown_names_are_refused(command, monkeypatch, options, error):
    monkeypatch.chdir(DATA)
    code, _, message = command("inspect", "small_ge_proto.txt", *options)
    assert (code, message) == (2, f"graph-quant: {error}\n")
