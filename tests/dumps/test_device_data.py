"""A graph and the tensors of a device: a wrong one is named, whatever the files are called."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from graph_quant import dumps
from graph_quant.dumps import replay
from graph_quant.dumps.read import device_data
from graph_quant.ge import dtypes
from graph_quant.ge.values import ge_dtype_name

from tests.support.layered_dump import layered

LAYERS = 28
TIME = 1700000000000000


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> tuple[Path, dumps.Dump, dict[str, torch.Tensor]]:
    path = tmp_path_factory.mktemp("model") / "graph.txt"
    path.write_text(layered(LAYERS))
    dump = dumps.load(path)
    torch.manual_seed(0)
    inputs = {}
    for node in dump.order:
        if node.type == "Data":
            shape = dump.inference.types[node.name][0].shape
            inputs[node.name] = {
                "x": lambda shape: torch.randn(shape, dtype=torch.float16),
                "w": lambda shape: torch.randint(-128, 128, shape, dtype=torch.int8),
                "s": lambda shape: torch.rand(shape) * 0.002,
            }[node.name[0]](shape)
    results = replay(dump, inputs, trace=True)
    return path, dump, {**{f"{name}:0": tensor for name, tensor in inputs.items()}, **results}


def write(folder: Path, stem: str, side: str, index: int, tensor: torch.Tensor, kind: str) -> Path:
    path = folder / f"{stem}.{side}.{index}.{kind}"
    array = tensor.contiguous().numpy()
    np.save(path, array) if kind == "npy" else path.write_bytes(array.tobytes())
    return path


def dump_all(dump: dumps.Dump, results: dict[str, torch.Tensor], folder: Path, kind: str) -> None:
    folder.mkdir()
    for number, node in enumerate(dump.order):
        if node.type in ("Data", "NetOutput"):
            continue
        stem = f"{node.type}.{node.name}.{number}.2.{TIME + number}"
        tensors = [
            ("input", index, results[f"{edge.node}:{edge.output}"])
            for index, edge in enumerate(node.inputs)
            if edge.node
        ]
        tensors += [("output", at, results[f"{node.name}:{at}"]) for at in range(len(node.proto.output_desc))]
        if kind == "raw":
            _raw(folder / stem, tensors)
        for side, index, tensor in tensors if kind != "raw" else ():
            write(folder, stem, side, index, tensor, kind)


def _raw(path: Path, tensors: list[tuple[str, int, torch.Tensor]]) -> None:
    message, content = device_data._dump_message()(), b""
    for side, index, tensor in tensors:
        parts = getattr(message, side)
        while len(parts) <= index:
            parts.add()
        parts[index].data_type = dtypes.TO_DESC[ge_dtype_name(tensor.dtype)]
        parts[index].shape.dim.extend(tensor.shape)
        parts[index].size = tensor.numel() * tensor.element_size()
        content += tensor.contiguous().numpy().tobytes()
    text = message.SerializeToString()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)


@pytest.mark.parametrize("kind", ["npy", "bin", "raw"])
def test_correct_results_are_equal(command, model, tmp_path, kind):
    path, dump, results = model
    dump_all(dump, results, tmp_path / "data", kind)
    code, out, _ = command("verify", path, "--data", tmp_path / "data")
    assert code == 0
    assert out == f"{4 * LAYERS} nodes: {4 * LAYERS} equal bits\n"


@pytest.mark.parametrize("name", ["quant0:1", "linear17:0", "act9:0", "add27:0", "quant3:0"])
def test_an_altered_tensor_is_named(command, model, tmp_path, name):
    path, dump, results = model
    node = dump.nodes[name.partition(":")[0]]
    dump_all(dump, results, tmp_path / "data", "npy")
    (file,) = (tmp_path / "data").glob(f"{node.type}.{node.name}.*.output.{name[-1]}.npy")
    altered = np.load(file)
    altered.reshape(-1)[3] += np.array(3, altered.dtype) if altered.dtype == np.int8 else np.array(1, altered.dtype)
    np.save(file, altered)
    code, out, _ = command("verify", path, "--data", tmp_path / "data", "--json", tmp_path / "report.json")
    lines = out.splitlines()
    assert code == 1
    assert lines[0].startswith(f"first wrong: {node.name} ({node.type})")
    assert "differs in 1 of" in lines[0]
    assert lines[1] == f"{4 * LAYERS} nodes: {4 * LAYERS - 1} equal bits, 1 wrong"
    assert f'"first_wrong": "{node.name}"' in (tmp_path / "report.json").read_text()


def test_outputs_alone_are_enough_and_what_is_missing_is_counted(command, model, tmp_path):
    path, dump, results = model
    dump_all(dump, results, tmp_path / "data", "npy")
    for file in (tmp_path / "data").glob("*.input.*"):
        if not any(word in file.name for word in ("linear", "quant0")):
            file.unlink()
    for file in (tmp_path / "data").glob("*.act4.*"):
        file.unlink()
    code, out, _ = command("verify", path, "--data", tmp_path / "data")
    assert code == 0
    assert f"{4 * LAYERS} nodes: {4 * LAYERS - 3} equal bits, 3 not comparable" in out
    assert "  2 with an input that was not dumped" in out
    assert "  1 not dumped" in out


def test_a_folder_without_tensors_is_refused(command, model, tmp_path):
    code, _, error = command("verify", model[0], "--data", tmp_path)
    assert (code, error.count("\n")) == (2, 1)
    assert "there are no dumped tensors in this folder" in error


NODE = (
    'op {{ name: "{}" type: "{}" {} output_desc {{ name: "y" dtype: {} shape {{ dim: 2 dim: 2 }} layout: "ND" }} }}\n'
)
INPUT = 'attr { key: "index" value { i: 0 } }'
FED = 'input: "x:0" input_desc { name: "x" }'
END = 'op { name: "NetOutput" type: "NetOutput" input: "neg:0" input_desc { name: "input0" } }\n'
LONG = torch.tensor([[1, 2], [3, 2**53 + 1]])
HALF = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float16)
BRAIN = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.bfloat16).float()
GREAT = torch.tensor([[1.0, float("inf")], [3.0, 4.0]])
ZERO = torch.zeros(2, 2)


@pytest.mark.parametrize(
    ("dtype", "operand", "result", "verdict"),
    [
        ("DT_INT64", LONG, -LONG, "equal bits"),
        ("DT_INT64", LONG, -LONG + torch.tensor([[0, 0], [0, 1]]), "wrong"),  # float64 cannot tell
        ("DT_FLOAT", GREAT, torch.tensor([[-1.0, 5.0], [-3.0, -4.0]]), "wrong"),  # infinite, and so is any share of it
        ("DT_FLOAT", -GREAT, torch.tensor([[1.0, 5.0], [3.0, 4.0]]).neg(), "wrong"),
        ("DT_FLOAT", ZERO, ZERO, "within rounding"),  # -0 has other bits
        ("DT_FLOAT", ZERO, -ZERO, "equal bits"),
        ("DT_FLOAT", ZERO, ZERO.to(torch.int32), "wrong"),
        ("DT_FLOAT", HALF.float(), -HALF, "wrong"),
        ("DT_FLOAT16", HALF, -HALF.float(), "equal bits"),  # as tools write what NumPy lacks
        ("DT_BF16", BRAIN, -BRAIN, "equal bits"),
        ("DT_BF16", BRAIN, -BRAIN * 1.0001, "wrong"),  # no bfloat16
        ("DT_BF16", GREAT, torch.tensor([[-1.0, torch.finfo(torch.float32).min], [-3.0, -4.0]]), "wrong"),
        ("DT_FLOAT16", HALF, -HALF.reshape(4), "equal bits"),
        ("DT_FLOAT16", HALF, -HALF.reshape(4, 1), "wrong"),
        ("DT_FLOAT16", HALF, -HALF.reshape(1, 2, 2), "equal bits"),
        ("DT_FLOAT16", HALF, -HALF[:1], "wrong"),
        ("DT_FLOAT16", HALF, torch.full((2, 2), float("nan"), dtype=torch.float16), "wrong"),
    ],
)
def test_verdicts(command, tmp_path, dtype, operand, result, verdict):
    path, folder = tmp_path / "graph.txt", tmp_path / "data"
    path.write_text(NODE.format("x", "Data", INPUT, dtype) + NODE.format("neg", "Neg", FED, dtype) + END)
    folder.mkdir()
    stem = f"Neg.neg.1.2.{TIME}"
    write(folder, stem, "input", 0, operand, "npy")
    write(folder, stem, "output", 0, result, "npy")
    code, out, error = command("verify", path, "--data", folder)
    assert out.splitlines()[-1] == f"1 nodes: 1 {verdict}", error
    assert code == (verdict == "wrong")


def test_number_of_bytes_must_match_the_graph(command, tmp_path):
    path, folder = tmp_path / "graph.txt", tmp_path / "data"
    path.write_text(NODE.format("x", "Data", INPUT, "DT_FLOAT") + NODE.format("neg", "Neg", FED, "DT_FLOAT") + END)
    folder.mkdir()
    stem = f"Neg.neg.1.2.{TIME}"
    write(folder, stem, "input", 0, ZERO, "bin")
    write(folder, stem, "output", 0, -ZERO.double(), "bin")
    code, _, error = command("verify", path, "--data", folder)
    assert (code, error.count("\n")) == (2, 1)
    assert "32 bytes are no float32[2, 2]" in error


def test_ambiguous_file_names_are_not_compared(command, tmp_path):
    path, folder = tmp_path / "graph.txt", tmp_path / "data"
    twins = NODE.format("a/neg", "Neg", FED, "DT_FLOAT") + NODE.format("a.neg", "Neg", FED, "DT_FLOAT")
    path.write_text(NODE.format("x", "Data", INPUT, "DT_FLOAT") + twins + END.replace("neg:0", "a/neg:0"))
    folder.mkdir()
    for side in ("input", "output"):
        write(folder, f"Neg.a_neg.1.2.{TIME}", side, 0, ZERO, "npy")
    code, out, error = command("verify", path, "--data", folder)
    assert "with a file name shared by another node" in out
    assert (code, error.count("\n")) == (2, 1)
    assert "no node of the graph could be compared" in error
