"""Layers that repeat are found and shown once; module paths of dumps group their nodes."""

from __future__ import annotations

import random
from importlib import import_module
from pathlib import Path

import pytest
import torch
from graph_quant import dumps
from graph_quant.dumps import Costs, node_lines, tree_lines
from graph_quant.dumps.graph.repeats import find_repeats
from graph_quant.ge.graph import normalise_path

from tests.support.layered_dump import layered

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("xxabcabcabcyy", [(2, 3, 3)]),
        ("abcabcabc", [(0, 3, 3)]),
        ("abcdefgh", []),
        ("aaaaaaaa", []),  # one kind of node, again and again, is no layer
        ("pabcdabcdqxyzxyzxyzr", [(1, 4, 2), (10, 3, 3)]),
        ("", []),
    ],
)
def test_repeats_of_a_sequence(text, expected):
    assert find_repeats(text) == expected


def test_repeats_are_at_the_returned_positions():
    chance = random.Random(7)
    for _ in range(30):
        block = [chance.randrange(9) for _ in range(chance.randrange(4, 30))] + [9, 8]
        times = chance.randrange(3, 9)
        before, after = ([100 + n for n in range(chance.randrange(5))] for _ in range(2))
        sequence = [*before, *block * times, *after]
        repeats = find_repeats(sequence)
        for start, period, count in repeats:
            first = sequence[start : start + period]
            assert first * count == sequence[start : start + period * count]
        assert max(period * count for _, period, count in repeats) >= len(block) * times - len(block)


def test_layers_of_a_graph_are_shown_once_with_what_differs(tmp_path):
    text = layered(28).replace("act5_0 = ge.Swish(linear5_0, scale=1.0", "act5_0 = ge.Swish(linear5_0, scale=2.0")
    (tmp_path / "model.txt").write_text(text)
    dump = dumps.load(tmp_path / "model.txt")
    (layers,) = [item for item in dump.outline.children if item.kind == "layers"]
    assert (layers.times, len(layers.first.nodes)) == (28, 4)
    assert layers.repetitions[3].nodes == ["quant3", "linear3", "act3", "add3"]
    assert layers.differs == ["act0 scale: 1 ×27, 2 ×1"]
    assert sorted(dump.outline.names()) == sorted(dump.nodes)
    lines = list(tree_lines(dump, Costs(dump)))
    assert lines[1].startswith("  block of 4 nodes ×28: 112 nodes, 56 quantised, ")
    assert "differs: act0 scale: 1 ×27, 2 ×1" in lines[2]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("L['self'].layers[2].self_attn.o_proj", "layers.2.self_attn.o_proj"),
        ("L['self']._modules['layers']._modules['2'].mlp", "layers.2.mlp"),
        ("L['self']", ""),
        ("layers.0", "layers.0"),
        ("L['self']._modules['layers']._modules['0']._parameters['weight']", "layers.0.weight"),
        ("L['fn'].__self__._modules['rope']._buffers['inv_freq']", "rope.inv_freq"),
    ],
)
def test_module_paths(path, expected):
    assert normalise_path(path) == expected


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return torch.nn.functional.silu(self.proj(x)) + x


def test_dumps_have_module_paths(tmp_path):
    import torchair

    model = torch.nn.Sequential(*(Layer() for _ in range(3))).npu()
    config = torchair.CompilerConfig()
    config.debug.graph_dump.type = "pbtxt"
    config.debug.graph_dump.path = str(tmp_path)
    with torch.no_grad():
        torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))(torch.randn(4, 8).npu())
    dump = dumps.load(next(tmp_path.glob("*optimized*")))
    linears = [node.source.module for node in dump.order if node.type.startswith("MatMul")]
    assert linears == ["0.proj", "1.proj", "2.proj"]
    inputs = {node.source.module for node in dump.order if node.type == "Data"}
    assert inputs == {"", "0.proj.weight", "1.proj.weight", "2.proj.weight"}
    assert '"weight":"1.proj.weight"' in dumps.to_html(dump, dumps.Costs(dump), "graph").replace(" ", "")
    (layers,) = dump.outline.children
    assert (layers.label, layers.times) == ("0 … 2", 3)
    assert not dump.diff(dumps.load(next(tmp_path.glob("*optimized*"))))


class Unrolled(torch.fx.Tracer):
    def is_leaf_module(self, *_):
        return False


@pytest.mark.parametrize("compiler", ["torchair", "npugraph_ex"])
def test_dumps_of_passes_have_module_paths(tmp_path, compiler):
    observer = import_module(f"{compiler}._utils.graph_transform_observer")
    model = torch.nn.Sequential(Layer(), Layer())
    graph = torch.fx.GraphModule(model, Unrolled().trace(model))
    before = graph.print_readable(print_output=False)
    observer.dump_fx_safety(graph, str(tmp_path / "001_forward.txt"))
    assert graph.print_readable(print_output=False) == before, "the graph itself is left as it was"
    dump = dumps.load(tmp_path / "001_forward.txt")
    linears = [node.source.module for node in dump.order if "linear" in node.type]
    assert linears == ["0.proj", "1.proj"]
    assert [node.source.module for node in dump.order if "add" in node.type] == ["0", "1"]
    (layers,) = [item for item in dump.outline.children if item.times > 1]
    assert (layers.label, layers.times) == ("0 … 1", 2)


def test_computed_shapes_are_shown_at_their_readers():
    dump = dumps.load(DATA / "upstream_block.txt")
    lines = list(node_lines(dump))
    reshape = next(line for line in lines if line.startswith("Reshape: Reshape("))
    assert "shape=[8*s77, 32]" in reshape
    shown = {line.partition(":")[0] for line in lines}
    served = [
        node.name for node in dump.order if node.type in ("Shape", "Gather", "Pack") and dump.consumers[node.name]
    ]
    assert len(served) > 10
    assert shown.isdisjoint(served)
    assert lines[-1].endswith("nodes that compute shapes are shown at the inputs that read them; --no-fold lists them)")
    assert len(list(node_lines(dump, fold=False))) == len(dump.nodes)
