"""What msprobe dumped on a device: a wrong call is named, whatever kind of program it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401
import numpy as np
import pytest
import torch
import torch_npu
from graph_quant.dumps.read.msprobe import RecordedTensor, Unstated, read_program_dumps

from tests.support.layered_dump import layered

# As msprobe 26.2.0 writes them.
STACK = [
    "File /site-packages/torch/nn/modules/linear.py, line 134, in forward, \\n return F.linear(input, self.weight)",
    "File /home/me/model.py, line 18, in forward, \\n h = self.up(x)",
    "File /home/me/model.py, line 26, in <module>, \\n model(x)",
]


def fact(tensor: torch.Tensor, name: str | None) -> dict[str, Any]:
    facts = {"type": "torch.Tensor", "dtype": str(tensor.dtype), "shape": list(tensor.shape)}
    number = tensor.double()
    facts |= {"Max": number.max().item(), "Min": number.min().item(), "Mean": number.mean().item()}
    return facts | {"Norm": number.norm().item(), "requires_grad": False} | ({"data_name": name} if name else {})


class Program:
    """A program whose calls are dumped as msprobe does, with tensors or with statistics."""

    def __init__(self, folder: Path, tensors: bool = True) -> None:
        self.folder, self.tensors = folder, tensors
        self.data: dict[str, Any] = {}
        (folder / "dump_tensor_data").mkdir(parents=True)

    def store(self, name: str, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if self.tensors:
                torch.save(value.cpu(), self.folder / "dump_tensor_data" / f"{name}.pt")
            return fact(value.cpu(), f"{name}.pt" if self.tensors else None)
        if isinstance(value, list | tuple):
            return [self.store(f"{name}.{index}", item) for index, item in enumerate(value)]
        if isinstance(value, torch.dtype):
            return {"type": "torch.dtype", "value": str(value)} if name.endswith(".dtype") else {}
        return None if value is None else {"type": type(value).__name__, "value": value}

    def call(self, name: str, result: Any, *arguments: Any, **keywords: Any) -> Any:
        results = list(result) if isinstance(result, tuple) else [result]
        self.data[name] = {
            "input_args": self.store(f"{name}.input", arguments),
            "input_kwargs": {key: self.store(f"{name}.input.{key}", value) for key, value in keywords.items()},
            "output": self.store(f"{name}.output", results),
        }
        return result

    def write(self) -> None:
        facts = {
            "task": "tensor",
            "level": "mix",
            "framework": "pytorch",
            "dump_data_dir": "/device",
            "data": self.data,
        }
        (self.folder / "dump.json").write_text(json.dumps(facts))
        within = {"Functional.linear.0.forward": "Module.layers.0.up.Linear.forward.0"}
        (self.folder / "construct.json").write_text(json.dumps(within | {"Module.layers.0.up.Linear.forward.0": None}))
        (self.folder / "stack.json").write_text(json.dumps({"0": [["Functional.linear.0.forward"], STACK]}))


def decoder(folder: Path, wrong: str = "", tensors: bool = True) -> None:
    """A linear in a module, its quantisation and more; the results of ``wrong`` are altered, and what follows."""
    program = Program(folder, tensors)
    torch.manual_seed(0)

    def call(name: str, function: Any, *arguments: Any, **keywords: Any) -> Any:
        stored = [one.clone() if isinstance(one, torch.Tensor) else one for one in arguments]
        result = function(*arguments, **keywords)
        if name == wrong:
            altered = (result[0] if isinstance(result, tuple) else result).view(-1)
            altered[3 : 4 if tensors else None] += 2  # statistics hide a single element
        return program.call(name, result, *stored, **keywords)

    x, weight = torch.randn(4, 16, dtype=torch.float16).npu(), torch.randn(32, 16, dtype=torch.float16).npu()
    y = call("Functional.linear.0.forward", torch.nn.functional.linear, x, weight, None)
    program.call("Module.layers.0.up.Linear.forward.0", y, x)
    call("Tensor.mul_.0.forward", torch.Tensor.mul_, y, 2.0)
    q, s = call("NPU.npu_dynamic_quant.0.forward", torch_npu.npu_dynamic_quant, y)
    call("Tensor.to.0.forward", torch.Tensor.to, s, dtype=torch.float16)
    call("Torch.cat.0.forward", torch.cat, [q, q], dim=-1)
    torch.manual_seed(5)
    call("Functional.dropout.0.forward", torch.nn.functional.dropout, y)
    call("NPU.npu_dynamic_quant.1.forward", torch_npu.npu_dynamic_quant, y, dst_type=torch.quint4x2)
    call("Distributed.all_reduce.0.forward", torch.clone, y)
    program.data["Functional.linear.0.backward"] = {
        "input": program.data["Tensor.mul_.0.forward"]["output"],
        "output": [],
    }
    program.write()


def test_what_is_read(tmp_path: Path) -> None:
    for name in ("step0/rank0", "step0/rank1", "step1/rank0"):
        decoder(tmp_path / name)
    dumps = read_program_dumps(tmp_path)
    assert [dump.label for dump in dumps] == ["step 0, rank 0", "step 0, rank 1", "step 1, rank 0"]
    assert [dump.label for dump in read_program_dumps(tmp_path / "step0" / "rank1")] == ["step 0, rank 1"]
    calls = dumps[0].calls
    linear = calls["Functional.linear.0.forward"]
    assert (linear.kind, linear.api, linear.direction) == ("Functional", "linear", "forward")
    assert (linear.module, linear.line) == ("layers.0.up", "/home/me/model.py:18 in forward")
    assert (calls["Module.layers.0.up.Linear.forward.0"].api, linear.inputs[2]) == ("layers.0.up", None)
    assert calls["Tensor.to.0.forward"].keywords == {"dtype": torch.float16}
    assert isinstance(calls["NPU.npu_dynamic_quant.1.forward"].keywords["dst_type"], Unstated)
    assert calls["Torch.cat.0.forward"].keywords == {"dim": -1}


def test_calls_are_computed_on_the_host(tmp_path: Path, command: Any) -> None:
    decoder(tmp_path / "step0" / "proc77")
    code, out, error = command("compare-device", tmp_path)
    assert code == 0, error
    assert out.splitlines() == [
        "step 0: 10 calls: 5 equal bits, 5 not comparable",
        "  1 of modules, whose functions are compared",
        "  1 with random numbers",
        "  1 with arguments that the dump does not state (dst_type)",
        "  1 of Distributed, which the host does not have",
        "  1 of gradients: dump the same script on the host and compare with that",
    ]


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("Functional.linear.0.forward", ", module layers.0.up, /home/me/model.py:18 in forward"),
        ("Tensor.mul_.0.forward", ""),
        ("NPU.npu_dynamic_quant.0.forward", ""),
        ("Torch.cat.0.forward", ""),
    ],
)
def test_a_wrong_call_is_named(tmp_path: Path, command: Any, name: str, where: str) -> None:
    decoder(tmp_path / "step0" / "rank0")
    decoder(tmp_path / "step0" / "rank1", wrong=name)
    code, out, _ = command("compare-device", tmp_path, "--json", tmp_path / "wrong.json")
    assert code == 1
    (line,) = [line for line in out.splitlines() if "wrong:" in line]
    assert line.startswith(f"step 0, rank 1: first wrong: {name}{where}: result 0 differs in 1 of ")
    assert [dump["first_wrong"] for dump in json.loads((tmp_path / "wrong.json").read_text())] == [None, name]


@pytest.mark.parametrize("tensors", [True, False], ids=["tensors", "statistics"])
def test_two_dumps_of_one_script(tmp_path: Path, command: Any, tensors: bool) -> None:
    decoder(tmp_path / "device" / "step0" / "rank0", "Functional.linear.0.forward", tensors)
    decoder(tmp_path / "host" / "step0" / "rank0", tensors=tensors)
    code, out, _ = command("compare-device", tmp_path / "device", tmp_path / "host")
    assert code == 1
    wrong = [line for line in out.splitlines() if "wrong:" in line]
    assert len(wrong) == 1, "what follows a wrong call is not to blame"
    assert "first wrong: Functional.linear.0.forward, module layers.0.up" in wrong[0]
    assert "wrong, as their inputs are" in out
    assert command("compare-device", tmp_path / "host", tmp_path / "host")[0] == 0


def test_statistics_alone_need_a_second_dump(tmp_path: Path, command: Any) -> None:
    decoder(tmp_path, tensors=False)
    code, out, error = command("compare-device", tmp_path)
    assert code == 2
    assert "with statistics only: dump the same script on the host and compare with that" in out
    assert "nothing in this folder could be compared" in error


def test_captured_graphs(tmp_path: Path, command: Any) -> None:
    for name, alter in (("device", 2.0), ("host", 0.0)):
        folder = tmp_path / name / "step0" / "pid9" / "dump_tensor_data"
        folder.mkdir(parents=True)
        x, weight = (torch.randn(8, 8, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
        product = torch.mm(x.npu(), weight.npu()).cpu()
        product[1, 2] += alter
        for stem, tensor in (
            ("Aten.mm.0.input.0", x), ("Aten.mm.0.input.1", weight), ("Aten.mm.0.output", product),
            ("Aten.add.Tensor.0.input.0", x), ("Aten.add.Tensor.0.input.1", x), ("Aten.add.Tensor.0.output", x + x),
        ):  # fmt: skip
            torch.save(tensor, folder / f"{stem}.pt")
    (dump,) = read_program_dumps(tmp_path / "device")
    assert [call.api for call in dump.calls.values()] == ["mm", "add.Tensor"]
    code, out, _ = command("compare-device", tmp_path / "device")
    assert (code, "first wrong: Aten.mm.0.forward: result 0 differs in 1 of 64" in out) == (1, True)
    assert "  1 with arguments that dumps of captured graphs do not state" in out
    code, out, _ = command("compare-device", tmp_path / "device", tmp_path / "host")
    assert (code, "step 0: 2 calls: 1 equal bits, 1 wrong" in out) == (1, True)


def test_graphs_of_ge_with_the_tensors_of_each_rank(tmp_path: Path, command: Any) -> None:
    for rank in (0, 1):
        graph = tmp_path / f"dynamo_original_graph_1_rank_{rank}_pid_5_ts_2026.txt"
        graph.write_text(layered(1))
        folder = tmp_path / f"worldsize2_global_rank{rank}" / "20260101" / str(rank) / "graph_1_0" / "1" / "0"
        folder.mkdir(parents=True)
        state = np.full((4, 32), 2, np.float16)
        for side, index, value in (("input", 0, state), ("input", 1, state), ("output", 0, state + state + rank)):
            np.save(folder / f"Add.add0.1.2.{1700000000000000}.{side}.{index}.npy", value)
    code, out, error = command("compare-device", tmp_path)
    assert code == 1, error
    assert [line for line in out.splitlines() if "nodes:" in line] == [
        "4 nodes: 1 equal bits, 3 not comparable",
        "4 nodes: 1 wrong, 3 not comparable",
    ]
    (tmp_path / "dynamo_original_graph_2_rank_1_pid_5_ts_2026.txt").write_text(layered(1))
    assert "no tensors of this graph alone" in command("compare-device", tmp_path)[2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such folder"),
        ({}, "there is neither a dump of msprobe nor a GE graph"),
        ({"dump.json": "[1]"}, "it holds a list, no dump of msprobe"),
        ({"dump.json": "{}"}, "it has no data, so it is no dump of msprobe"),
        ({"dump.json": "{"}, "dump.json: "),
    ],
)
def test_what_is_no_dump_is_refused(tmp_path: Path, command: Any, content: Any, message: str) -> None:
    for name, text in (content or {}).items():
        (tmp_path / name).write_text(text)
    code, _, error = command("compare-device", tmp_path / "absent" if content is None else tmp_path)
    assert (code, error.count("\n")) == (2, 1)
    assert message in error


def test_a_file_that_is_no_tensor_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(b"junk")
    with pytest.raises(Exception, match=r"x\.pt: "):
        RecordedTensor("", (), tmp_path / "x.pt").load()
    torch.save([1], tmp_path / "y.pt")
    with pytest.raises(Exception, match="it holds a list, no tensor"):
        RecordedTensor("", (), tmp_path / "y.pt").load()
