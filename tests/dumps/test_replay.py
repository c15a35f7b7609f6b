"""Replay gives the bits of the live call; missing inputs are generated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from graph_quant import dumps
from graph_quant.dumps import replay
from graph_quant.dumps.analyse.replay_inputs import make_inputs
from graph_quant.ge.graph import INPUT_TYPES
from safetensors.torch import load_file, save_file

DATA = Path(__file__).parent / "data"


def live_inputs(dump: dumps.Dump, case) -> dict[str, torch.Tensor]:
    data = sorted(
        (node for node in dump.order if node.type in INPUT_TYPES), key=lambda node: node.proto.attr["index"].i
    )
    assert len(data) == len(case.inputs)
    return {node.name: tensor.contiguous() for node, tensor in zip(data, case.inputs, strict=True)}


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return torch.equal(first.contiguous().view(torch.uint8), second.contiguous().view(torch.uint8))


@pytest.mark.parametrize("kind", ["txt", "pbtxt"])
def test_a_replay_has_the_bits_of_the_live_call(live, kind):
    for name, case in live.items():
        dump = dumps.load(case.dumps["optimized"][kind])
        results = replay(dump, live_inputs(dump, case))
        assert len(results) == len(case.outputs), name
        for index, output in enumerate(case.outputs):
            assert same_bits(results[f"output{index}"], output.cpu()), (name, index)


def test_the_command_writes_what_the_live_call_returned(live, command, tmp_path):
    case = live["block"]
    save_file(live_inputs(dumps.load(case.txt), case), tmp_path / "in.safetensors")
    inputs = ["--inputs", tmp_path / "in.safetensors", "--trace", "-o", tmp_path / "out.safetensors"]
    code, out, error = command("replay", case.txt, *inputs)
    assert (code, error) == (0, "")
    results = load_file(tmp_path / "out.safetensors")
    assert same_bits(results["output0"], case.outputs[0])
    assert out.startswith("output0: float32[2, 10, 32] from ")
    assert results["SoftmaxV2:0"].shape == (2, 4, 10, 10), "a trace holds every intermediate result"


def test_the_same_seed_makes_the_same_inputs(command, tmp_path):
    dump = DATA / "upstream_group_quant_int4.txt"
    results = []
    for seed, name in ((7, "a"), (7, "b"), (8, "c")):
        assert command("replay", dump, "--seed", seed, "--size", "s77=12,s75=5", "-o", tmp_path / name)[0] == 0
        results.append(load_file(tmp_path / name)["output0"])
    assert results[0].shape == (12, 2)
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_both_engines_write_the_same_file(tmp_path):
    dump, written = DATA / "upstream_group_quant_int4.txt", []
    for engine in ("eager", "inductor"):
        target = tmp_path / engine
        arguments = ["replay", dump, "--size", "s77=12,s75=5", "--engine", engine, "-o", target]
        done = subprocess.run(
            [sys.executable, "-m", "graph_quant", *arguments], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        written.append(target.read_bytes())
    assert written[0] == written[1]


def test_generated_sizes_make_every_graph_run(live):
    for name, case in live.items():
        results = replay(dumps.load(case.txt), {})
        assert [result.dtype for result in results.values()] == [output.dtype for output in case.outputs], name


def test_a_size_that_follows_from_others_is_refused_when_it_is_another(live, command, tmp_path):
    path = live["int4_linear"].txt
    (tied,) = dumps.load(path).inference.tied.items()
    code, _, error = command("replay", path, "--size", f"{tied[0]}=3", "-o", tmp_path / "out")
    assert code == 2
    assert f"{tied[0]} must be {tied[1]} in this graph" in error


def test_generated_groups_end_at_the_row_count():
    dump = dumps.load(DATA / "upstream_group_quant_int4.txt")
    for groups, rows in ((1, 9), (9, 9), (4, 20), (30, 6)):
        x, scale, ends = make_inputs(dump, {}, {"s77": rows, "s75": groups}, seed=groups)
        assert x.shape == (rows, 16)
        assert (scale > 0).all()
        assert ends[-1] == rows
        assert (ends.diff() >= 0).all()
        assert ends.min() >= 0


def test_sizes_follow_from_the_inputs():
    dump = dumps.load(DATA / "upstream_group_quant_int4.txt")
    _, scale, ends = make_inputs(dump, {"arg2_1": torch.zeros(11, 24, dtype=torch.float16)}, {}, seed=0)
    assert scale.shape[1] == 24
    assert ends[-1] == 11


def test_names_that_mean_something_in_python_are_only_names(tmp_path):
    text = (DATA / "upstream_group_quant_int4.txt").read_text()
    expected = replay(dumps.load(DATA / "upstream_group_quant_int4.txt"))["output0"]
    names = {"arg2_1": "from", "arg4_1": "self", "arg5_1": "torch", "Const": "a/b", "Const_1": "a_b", "Const_2": "a.b"}
    for before, after in {**names, "GroupQuant": "1); import os", "Div": "print"}.items():
        text = text.replace(f'name: "{before}"', f'name: "{after}"').replace(f'"{before}:0"', f'"{after}:0"')
    (tmp_path / "dump.txt").write_text(text)
    assert torch.equal(replay(dumps.load(tmp_path / "dump.txt"))["output0"], expected)


def test_a_module_that_computes_the_graph():
    module = dumps.load(DATA / "upstream_group_quant_int4.txt").to_fx()
    (result,) = module(torch.full((4, 16), 3.0).half(), torch.ones(1, 16).half(), torch.tensor([4], dtype=torch.int32))
    assert result.tolist() == [[0x33333333] * 2] * 4


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"arg9": torch.zeros(1)}, "arg9 is not an input of the dump; its inputs are arg2_1, arg4_1, arg5_1"),
        ({"arg2_1": torch.zeros(3, 16)}, "arg2_1 must be torch.float16 (3, 16), got torch.float32 (3, 16)"),
        ({"arg2_1": torch.zeros(3, dtype=torch.float16)}, "arg2_1 must be torch.float16"),
        ({"arg5_1": torch.tensor([9, 5], dtype=torch.int32)}, "npu_group_quant: group_index"),
    ],
)
def test_wrong_inputs_are_refused(command, tmp_path, inputs, message):
    save_file(inputs, tmp_path / "in")
    dump = DATA / "upstream_group_quant_int4.txt"
    code, _, error = command("replay", dump, "--inputs", tmp_path / "in", "-o", tmp_path / "out")
    assert code == 2
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_graphs_that_replay_cannot_run(command, tmp_path):
    text = (DATA / "upstream_group_quant_int4.txt").read_text()
    (tmp_path / "d").write_text(text.replace('type: "Const"', 'type: "ConstPlaceHolder"', 1))
    code, _, error = command("replay", tmp_path / "d", "-o", tmp_path / "out")
    assert code == 2
    assert "its data stayed in the process that wrote the dump" in error
    code, _, error = command("replay", DATA / "upstream_group_quant_int4.txt", "--size", "q=3", "-o", tmp_path / "out")
    assert code == 2
    assert "the dump has no symbol q" in error
    huge = ["--size", "s77=99999999999", "-o", tmp_path / "out"]
    code, _, error = command("replay", DATA / "upstream_group_quant_int4.txt", *huge)
    assert code == 2
    assert "more than 2 GiB" in error
    (tmp_path / "in").write_bytes(b"not tensors")
    code, _, error = command(
        "replay", DATA / "upstream_group_quant_int4.txt", "--inputs", tmp_path / "in", "-o", tmp_path / "out"
    )
    assert code == 2
    assert "not a safetensors file" in error


@pytest.mark.parametrize(("gibibytes", "code"), [("0.0001", 0), ("0.0000001", 2)])
def test_little_memory_is_enough_for_little_tensors(run_python, gibibytes, code):
    command = "import sys; from graph_quant.cli import main; sys.exit(main(['replay', *sys.argv[1:]]))"
    dump = str(DATA / "upstream_group_quant_int4.txt")
    done = run_python(command, dump, "--size", "s77=12,s75=5", "--memory", gibibytes, OMP_NUM_THREADS="2")
    assert done.returncode == code, done.stderr
    assert len(done.stderr.splitlines()) == (code != 0), done.stderr


@pytest.mark.parametrize(
    ("option", "value"), [("--memory", "nan"), ("--memory", "inf"), ("--memory", "-1"), ("--seed", str(1 << 70))]
)
def test_invalid_numbers_are_refused(command, option, value):
    path = Path(__file__).parent / "data" / "upstream_group_quant_int4.txt"
    code, out, error = command("replay", path, option, value)
    assert (code, out) == (2, "")
    assert f"argument {option}: must " in error
