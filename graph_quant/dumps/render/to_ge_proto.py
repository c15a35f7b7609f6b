"""Writes ``ge_proto``, for tools that read GE's dumps: inferred types are in the descs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import text_format

from ...ge import TO_DESC, Node, schema
from ..graph.shapes import TensorType, format_dim

if TYPE_CHECKING:
    from ..dump import Dump


def to_ge_proto(dump: Dump) -> str:
    """Format a dump as GE's ``ge_proto``.

    Args:
        dump: The dump.

    Returns:
        A ModelDef in text form with all graphs.

    Examples:
        >>> Path("ge_proto_graph.txt").write_text(to_ge_proto(dump))
    """
    model = schema().ModelDef(name=dump.name)
    for graph in dump.graphs():
        model.graph.add().CopyFrom(describe_graph(graph))
    return text_format.MessageToString(model)


def describe_graph(dump: Dump) -> Any:
    """Copy the GraphDef with inferred types in its descs, and desc names in the attributes where GE stores them."""
    graph = schema().GraphDef()
    graph.CopyFrom(dump.graph_def)
    for op in graph.op:
        node = dump.nodes[op.name]
        for side, descs in (("input", op.input_desc), ("output", op.output_desc)):
            _move_names(op, side, descs)
        if not dump.trusts_descs:
            _fill_descs(dump, node, op)
    return graph


def _move_names(op: Any, side: str, descs: Any) -> None:
    named = {desc.name: index for index, desc in enumerate(descs) if desc.name}
    if not named:
        return
    keys, values = op.attr[f"_{side}_name_key"].list, op.attr[f"_{side}_name_value"].list
    keys.Clear()
    values.Clear()
    for name in sorted(named):
        keys.s.append(name.encode())
        values.i.append(named[name])
    for desc in descs:
        desc.name = ""


def _fill_descs(dump: Dump, node: Node, op: Any) -> None:
    for desc, tensor in zip(op.output_desc, dump.inference.types[node.name], strict=False):
        _set_desc(desc, tensor)
    for desc, edge in zip(op.input_desc, node.inputs, strict=False):
        read = dump.inference.type_of(edge)
        if read is not None:
            _set_desc(desc, read)


def _set_desc(desc: Any, tensor: TensorType) -> None:
    desc.dtype = TO_DESC.get(tensor.dtype, 0)
    if tensor.layout.shape:  # the desc states the shape of the blocks
        return
    if tensor.shape is None:
        desc.ClearField("shape")
        return
    desc.shape.SetInParent()
    del desc.shape.dim[:]
    desc.shape.dim.extend(size if isinstance(size, int) else -1 for size in tensor.shape)
    if "_meta" in desc.attr and desc.attr["_meta"].s.startswith(b"Tensor"):
        sizes = ", ".join(map(format_dim, tensor.shape))
        desc.attr["_meta"].s = f"Tensor(dtype=torch.{tensor.dtype}, shape=torch.Size([{sizes}])".encode()
