"""Streams and events in functions that TorchAir's two compilers compile.

PyTorch traces them since 2.10 as objects with indices. npugraph_ex's pass, which replaces them by its own operators,
handles an event only after its creation in the graph, and no wait_stream. torchair's pass looks for a name that
torch_npu no longer has, does nothing without it, and otherwise calls operators that torchair does not define.
"""

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ..releases.alternatives import has_traced_streams

Pass = Callable[[GraphModule], GraphModule]


def patch_npugraph_ex(module: ModuleType) -> None:
    """Prepare graphs for the pass of npugraph_ex."""
    if not has_traced_streams():
        return
    vars(module)["_is_event"] = _is_event
    vars(module)["replace_stream_event_pass"] = _prepared(module.replace_stream_event_pass, torch)


def patch_torchair(module: ModuleType) -> None:
    """Let torchair use the pass of npugraph_ex, with its own operators and events."""
    if not has_traced_streams():
        return
    device: Any = torch.npu  # type: ignore[attr-defined]
    if not hasattr(device, "fake_record_stream"):  # torch_npu 2.10 has one of its own
        device.fake_record_stream = _fake_record_stream

    def replace(gm: GraphModule) -> GraphModule:
        import torchair.ops._tagged_event  # noqa: F401  (defines operators)
        from npugraph_ex._acl_concrete_graph import replace_stream_event as npugraph_ex_pass

        theirs = FunctionType(
            _code(npugraph_ex_pass.replace_stream_event_pass), {**vars(npugraph_ex_pass), **_own(module)}
        )
        return _prepared(theirs, _TORCHAIR)(gm)

    vars(module)["replace_stream_event_pass"] = replace


def _own(module: ModuleType) -> dict[str, Any]:
    names = ("GraphCounter", "_create_event_by_name", "logger")
    return {"torch": _TORCHAIR, **{name: vars(module)[name] for name in names}}


def _code(function: Any) -> Any:
    return getattr(function, "unprepared", function).__code__


def _prepared(replace: Pass, operators_of: Any) -> Pass:
    """Run the pass on graphs in which every event is created before its first use and streams wait by an operator."""

    def replace_stream_event_pass(gm: GraphModule) -> GraphModule:
        import npugraph_ex.ops._tagged_event  # noqa: F401  (defines operators)

        _name_events(gm.graph)
        _wait_by_operator(gm.graph, operators_of)
        return replace(gm)

    vars(replace_stream_event_pass)["unprepared"] = replace
    return replace_stream_event_pass


def _name_events(graph: Graph) -> None:
    """Move the creation of each event before its first record."""
    makers: dict[Any, Node] = {node.args[0]: node for node in graph.nodes if _is_event(node)}
    named: set[Any] = set()
    for node in list(graph.nodes):
        number = node.args[0] if node.args else None
        if node in makers.values():
            named.add(number)
        elif node.target is torch.ops.streams.record_event and number not in named:
            node.prepend(makers[number])
            named.add(number)


def _wait_by_operator(graph: Graph, operators_of: Any) -> None:
    default = torch.npu.current_stream().stream_id  # type: ignore[attr-defined]
    for node in graph.nodes:
        if node.target is torch.ops.streams.wait_stream:
            arguments = [part for index in node.args for part in _stream_arguments(index, default)]
            node.target, node.args = operators_of.ops.npugraph_ex.tagged_stream_wait_stream, tuple(arguments)


def _stream_arguments(index: Any, default: int) -> tuple[str, str, str]:
    """Return the arguments that identify a stream; the caller's stream is not known before the graph runs."""
    from npugraph_ex._acl_concrete_graph import replace_stream_event as markers

    stream = _external(index)
    if stream.stream_id == default:
        return markers.DEFAULT_STREAM_ID_MARKER, markers.DEFAULT_DEVICE_INDEX_MARKER, markers.DEFAULT_DEVICE_TYPE_MARKER
    return str(stream.stream_id), str(stream.device_index), str(stream.device_type)


def _is_event(node: Node) -> bool:
    """Whether a node creates an event: one of torch_npu, or one of PyTorch, which streams return."""
    if node.target is torch.npu.Event:  # type: ignore[attr-defined]
        return True
    by_number = node.target is torch._dynamo.graph_bytecode_inputs.get_external_object_by_index
    return by_number and isinstance(_external(node.args[0]), torch.Event)


def _external(index: Any) -> Any:
    return torch._dynamo.graph_bytecode_inputs.get_external_object_by_index(index)


def _fake_record_stream(tensor: torch.Tensor, stream: Any) -> None:
    """TorchAir replaces streams in a graph only if this name exists; PyTorch traces record_stream itself now."""
    raise NotImplementedError(f"torch.npu.fake_record_stream: call Tensor.record_stream({stream}) of {tensor.shape}")


class _Torch:
    """torch, where the operators of npugraph_ex are those of torchair, as far as it has them."""

    def __init__(self) -> None:
        self.ops = _Operators()

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


class _Operators:
    def __getattr__(self, name: str) -> Any:
        return _OfTorchair() if name == "npugraph_ex" else getattr(torch.ops, name)


class _OfTorchair:
    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops.air if hasattr(torch.ops.air, name) else torch.ops.npugraph_ex, name)


_TORCHAIR = _Torch()
