"""Faults name the GE node, its FX node and the Python line, and leave the process and other graphs unharmed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant.host.engine import GraphError, NodeError, UnsupportedGraphError, import_graph, missing_kernels, use
from torchair._ge_concrete_graph.ge_ir_pb2 import GraphDef

Compile = Callable[..., Any]


def quantise(x: torch.Tensor, scale: torch.Tensor, group_index: torch.Tensor) -> torch.Tensor:
    return torch_npu.npu_group_quant(x, scale, group_index, dst_dtype=torch.int8)


@pytest.mark.parametrize("engine", ["eager", "inductor"])
@pytest.mark.parametrize(
    ("ends", "rule"),
    [([-1, 4], "must lie in"), ([2, 5], "must lie in"), ([3, 2], "must not be below"), ([1, 3], "last value")],
)
def test_an_invalid_index_names_the_node(compile_npu: Compile, engine: str, ends: list[int], rule: str) -> None:
    x, scale = torch.ones(4, 8), torch.ones(2, 8)
    with use(engine):
        compiled = compile_npu(quantise)
        good = compiled(x, scale, torch.tensor([1, 4]))
        with pytest.raises(NodeError, match=rule) as caught:
            compiled(x, scale, torch.tensor(ends))
    message = str(caught.value)
    assert "GE node 'GroupQuant' (GroupQuant)" in message
    assert "FX node 'npu_group_quant'" in message
    assert "test_errors.py" in message
    assert "torch_npu.npu_group_quant(x, scale, group_index" in message
    assert torch.equal(compiled(x, scale, torch.tensor([1, 4])), good)


def _graph(*nodes: tuple[str, str, list[str]]) -> GraphDef:
    """A graph of (name, type, inputs by ``desc=source``) with one float input and one output."""
    graph = GraphDef(name="hand_made")
    data = graph.op.add(name="x", type="Data")
    data.attr["index"].i = 0
    desc = data.output_desc.add(name="y", dtype=1)
    desc.attr["_meta"].s = b"Tensor(dtype=torch.float32, shape=torch.Size([2, 3])"
    for name, op_type, inputs in nodes:
        op = graph.op.add(name=name, type=op_type)
        for entry in inputs:
            label, _, source = entry.rpartition("=")
            op.input.append(source)
            if label:
                op.input_desc.add(name=label)
        if op_type != "NetOutput":
            op.output_desc.add(name="y")
    return graph


def test_all_missing_types_are_reported_at_once() -> None:
    graph = _graph(
        ("a", "NoSuchOp", ["x=x:0"]),
        ("b", "NorThis", ["x=a:0"]),
        ("c", "Relu", ["x=b:0"]),
        ("unused", "NeverMind", ["x=c:0"]),
        ("out", "NetOutput", ["input0=c:0"]),
    )
    assert [node.name for node in missing_kernels(graph)] == ["a", "b"]
    with pytest.raises(UnsupportedGraphError, match="NoSuchOp") as caught:
        import_graph(graph)
    assert "'a' (NoSuchOp)" in str(caught.value)
    assert "'b' (NorThis)" in str(caught.value)


def test_shape_mismatch_names_the_node() -> None:
    from graph_quant.host.engine import make_callable

    graph = _graph(
        ("first", "Relu", ["x=x:0"]),
        ("product", "MatMul", ["x1=first:0", "x2=first:0"]),
        ("out", "NetOutput", ["input0=product:0"]),
    )
    run = make_callable(import_graph(graph), "eager")
    with pytest.raises(NodeError, match="GE node 'product' \\(MatMul\\)"):
        run(torch.ones(2, 3))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("a", "Relu", ["x=b:0"]), ("b", "Relu", ["x=a:0"]), ("out", "NetOutput", ["input0=b:0"])], "itself"),
        ([("a", "Relu", ["x=nowhere:0"]), ("out", "NetOutput", ["input0=a:0"])], "not in the graph"),
        ([("a", "Relu", []), ("out", "NetOutput", ["input0=a:0"])], "lacks its input 'x'"),
        ([("a", "Relu", ["x=x:0"]), ("out", "NetOutput", ["input0=a:3"])], "no output 3"),
        ([("a", "Relu", ["x=x:0"])], "no NetOutput"),
        ([("a", "Relu", ["x=x:0"]), ("a", "Neg", ["x=x:0"]), ("out", "NetOutput", ["input0=a:0"])], "two nodes .* 'a'"),
        ([("a", "Relu", ["x=x"]), ("out", "NetOutput", ["input0=a:0"])], "not of the form node:output"),
    ],
)
def test_broken_graphs_are_refused(nodes: list[tuple[str, str, list[str]]], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        import_graph(_graph(*nodes))


def _convolution(**attributes: str | int) -> GraphDef:
    graph = _graph(("conv", "Conv2D", ["x=x:0", "filter=x:0"]), ("out", "NetOutput", ["input0=conv:0"]))
    node = graph.op[1]
    for name in ("strides", "pads"):
        node.attr[name].list.i.extend([1] * 4)
    for name, value in attributes.items():
        if isinstance(value, str):
            node.attr[name].s = value.encode()
        else:
            node.attr[name].i = value
    return graph


@pytest.mark.parametrize("attributes", [{"data_format": "NHWC"}, {"data_format": "NCHW", "offset_x": 3}])
def test_an_attribute_that_no_kernel_reads_is_refused(attributes: dict[str, str | int]) -> None:
    """Unless it has the value that GE takes by default, or the one that is computed."""
    import_graph(_convolution(data_format="NCHW", offset_x=0))
    name, value = list(attributes.items())[-1]
    with pytest.raises(GraphError, match=rf"'conv' \(Conv2D\): the host does not compute {name}={value}$"):
        import_graph(_convolution(**attributes))


def test_unsupported_values_of_an_attribute_are_refused() -> None:
    """Whether the kernel reads it or not."""
    for node in ("MoeDistributeDispatchV2", "MoeDistributeCombineV2"):
        there, back = ["x=x:0", "expert_ids=x:0"], ["expand_x=x:0", "ep_send_counts=x:0", "expert_scales=x:0"]
        inputs = there if "Dispatch" in node else [*there[1:], *back]
        graph = _graph(("made", node, inputs), ("out", "NetOutput", ["input0=made:0"]))
        for ranks in (0, 1):
            graph.op[1].attr["tp_world_size"].i = ranks
            import_graph(graph)
        graph.op[1].attr["tp_world_size"].i = 2
        with pytest.raises(GraphError, match=r"the host does not compute tp_world_size=2$"):
            import_graph(graph)


def test_an_input_that_no_kernel_reads_is_refused() -> None:
    graph = _graph(("made", "MatMulV2", ["x1=x:0", "x2=x:0", "offset_w=x:0"]), ("out", "NetOutput", ["input0=made:0"]))
    with pytest.raises(GraphError, match=r"the host does not compute offset_w$"):
        import_graph(graph)


def test_control_edges_order_nodes_that_share_no_data() -> None:
    graph = _graph(
        ("late", "Neg", ["x=x:0", "=early:-1"]),
        ("early", "Relu", ["x=x:0"]),
        ("out", "NetOutput", ["input0=late:0", "=early:-1"]),
    )
    module = import_graph(graph)
    names = [node.name for node in module.graph.nodes if node.op == "call_function"]
    assert names == ["early", "late"]
    assert module(torch.tensor([1.0]))[0].item() == -1


def test_an_unknown_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from graph_quant.host.engine import engines

    with pytest.raises(ValueError, match="eager, inductor, got 'turbo'"), use("turbo"):
        pass
    monkeypatch.setenv("GRAPH_QUANT_ENGINE", "Inductor")
    assert engines.current() == "inductor"
    monkeypatch.setenv("GRAPH_QUANT_ENGINE", "fast")
    with pytest.raises(ValueError, match="GRAPH_QUANT_ENGINE"):
        engines.current()
