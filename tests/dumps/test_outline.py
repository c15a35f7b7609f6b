"""Layers that repeat are found and shown once; module paths of dumps group their nodes."""

from __future__ import annotations

import functools
import random
from importlib import import_module
from pathlib import Path

import pytest
import torch
from graph_quant import dumps
from graph_quant.dumps import Costs, node_lines, tree_lines
from graph_quant.dumps.graph.repeats import find_repeats
from graph_quant.dumps.render.page_groups import Groups
from graph_quant.ge.graph import Source, normalise_path
from graph_quant.ge.protobuf import new_graph

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


def decoder(layers: int, mask: int = 8) -> dumps.Dump:
    """A model whose epsilons are inputs, cast and added by nodes without a module, and whose mask takes nodes."""
    graph = new_graph("model")

    def add(name: str, kind: str, *inputs: str, module: str = "", shape: tuple[int, ...] = (4, 8)) -> str:
        op = graph.op.add(name=name, type=kind, input=[f"{producer}:0" for producer in inputs])
        desc = op.output_desc.add(name="y", dtype=1)
        desc.shape.dim.extend(shape)
        for producer in inputs:
            op.input_desc.add(name=producer)
        if module:
            op.attr["_module_path"].s = module.encode()
        return name

    mask = functools.reduce(
        lambda state, n: add(f"mask{n}", "Relu", state, module="model"), range(mask), add("x", "Data")
    )
    state = mask
    for n in range(layers):
        within = f"model.layers.{n}"
        eps = add(f"cast{n}", "Cast", add(f"eps{n}", "Data", shape=()), shape=())
        mean = add(f"mean{n}", "Relu", state, module=f"{within}.norm")
        norm = add(f"rsqrt{n}", "Rsqrt", add(f"add{n}", "Add", mean, eps), module=f"{within}.norm")
        gain = add(f"gain{n}", "Data", module=f"{within}.norm.weight")
        scaled = add(f"mul{n}", "Mul", gain, norm, module=f"{within}.norm")
        state = add(f"sum{n}", "Add", scaled, mask, module=within)
    add("end", "NetOutput", state)
    return dumps.from_graph(graph)


def test_what_one_module_reads_belongs_to_it():
    dump = decoder(9)
    groups = Groups(dump)

    def path(name: str) -> list[str]:
        group, labels = groups.list[groups.of(dump, dump.nodes[name])], []
        while group["parent"] is not None:
            labels.append(group["label"])
            group = groups.list[group["parent"]]
        return labels[::-1]

    for name in ("eps1", "cast1", "add1", "rsqrt1", "gain1"):
        assert path(name) == ["model", "layers", "0 … 8", "1", "norm"], name
    assert path("mask7") == ["model", "8 Relu"]
    assert path("x") == path("end") == []
    inline = {name for name in dump.nodes if groups.is_inline(dump, dump.nodes[name])}
    assert inline == {f"{name}{n}" for name in ("eps", "gain") for n in range(9)}


def test_nodes_beside_submodules_are_grouped_where_they_are_few_of_many():
    assert [item.label for item in decoder(9).outline.first.children[0].children] == ["8 Relu", "layers"]
    assert [item.label for item in decoder(9, mask=5).outline.first.children[0].children] == ["layers"]
    assert [item.label for item in decoder(2, mask=20).outline.first.children[0].children] == ["layers"]


@pytest.mark.parametrize(
    ("file", "title"),
    [
        ("LlamaForCausalLM.txt", "LlamaForCausalLM"),
        ("ge_proto_00046_afterUBMatch.txt", "model_file: model"),
        ("dynamo_optimized_graph_1_rank_3_pid_5_ts_2026.txt", "model_file: model, rank 3"),
    ],
)
def test_titles_name_the_model(file, title):
    dump = decoder(1)
    assert dumps.page_title(dump, Path(file)) == (title if file[0] == "L" else file), "no Python file is known"
    dump.nodes["sum0"].source = Source(file="/a/model_file.py", line=3)
    assert dumps.page_title(dump, Path("graphs") / file) == title


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
