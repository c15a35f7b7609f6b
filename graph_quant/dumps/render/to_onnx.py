"""Converts a graph to an ONNX model for viewers: GE operators in their own domain, with types and symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ge import CONST_TYPES, END_TYPES, INPUT_TYPES, Node, format_attribute, list_attributes, to_python
from ..errors import DumpError
from ..graph.shapes import TensorType, format_dim
from ..read.file_contents import ANNOTATED_KINDS

if TYPE_CHECKING:
    from ..dump import Dump

DOMAIN = "ge"
_ELEMENT = {
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "float8_e5m2": "FLOAT8E5M2",
    "float8_e4m3fn": "FLOAT8E4M3FN",
    "qint8": "INT8",
    "quint8": "UINT8",
    "qint32": "INT32",
}


def to_onnx(dump: Dump) -> bytes:
    """Convert a dump to an ONNX model, for viewers such as Netron.

    Args:
        dump: The dump.

    Returns:
        The serialised model, with operators in the domain ``ge``.

    Raises:
        DumpError: If onnx is not installed.

    Examples:
        >>> Path("graph.onnx").write_bytes(to_onnx(dump))
    """
    try:
        from onnx import helper
    except ImportError:
        raise DumpError("an ONNX model needs the onnx package: pip install onnx") from None
    graph = _make_graph(dump)
    versions = [helper.make_opsetid(DOMAIN, 1), helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=versions, producer_name="graph-quant")
    content: bytes = model.SerializeToString()
    return content


def _make_graph(dump: Dump) -> Any:
    from onnx import helper

    nodes, inputs, outputs, typed, constants = [], [], [], [], []
    for node in dump.order:
        if node.type in INPUT_TYPES:
            inputs.append(_value_info(dump, node, 0))
        elif node.type in CONST_TYPES and (tensor := _make_constant(dump, node)) is not None:
            constants.append(tensor)
        elif node.type in END_TYPES:
            outputs += [_value_info(dump, dump.nodes[edge.node], edge.output) for edge in node.inputs if edge.node]
        else:
            nodes.append(_make_node(dump, node))
            typed += [_value_info(dump, node, index) for index in range(len(dump.inference.types[node.name]))]
    return helper.make_graph(nodes, dump.name or "ge", inputs, outputs, constants, value_info=typed)


def _make_node(dump: Dump, node: Node) -> Any:
    from onnx import helper

    names = [edge.node and f"{edge.node}:{edge.output}" for edge in node.inputs]
    results = [f"{node.name}:{index}" for index in range(len(node.proto.output_desc))]
    onnx_node = helper.make_node(node.type, names, results, name=node.name, domain=DOMAIN)
    for name in list_attributes(node.proto, declared=dump.kind in ANNOTATED_KINDS):
        attribute = node.proto.attr[name]
        words, value = format_attribute(name, attribute), to_python(attribute)
        # Text for dtypes, which are numbers, and for empty lists, which have no type in ONNX.
        exact = isinstance(value, int | float | str) and str(value).lower() == words.lower()
        onnx_node.attribute.append(helper.make_attribute(name, value if exact else words))
    for call in dump.calls.get(node.name, ()):
        onnx_node.attribute.append(helper.make_attribute(call.role, _make_graph(call.graph)))
    if node.source.fx or node.source.file:
        onnx_node.doc_string = str(node.source)
    return onnx_node


def _value_info(dump: Dump, node: Node, index: int) -> Any:
    from onnx import helper

    types = dump.inference.types[node.name]
    tensor = types[index] if index < len(types) else TensorType("undefined", None)
    sizes = None if tensor.shape is None else [s if isinstance(s, int) else format_dim(s) for s in tensor.shape]
    return helper.make_tensor_value_info(f"{node.name}:{index}", element_type(tensor.dtype), sizes)


def element_type(dtype: str) -> int:
    """ONNX's element type for GE's name of a dtype; UNDEFINED if there is none."""
    from onnx import TensorProto

    return int(getattr(TensorProto, _ELEMENT.get(dtype, dtype.upper()), TensorProto.UNDEFINED))


def _make_constant(dump: Dump, node: Node) -> Any:
    from onnx import TensorProto

    if "value" not in node.proto.attr:
        return None
    tensor = node.proto.attr["value"].t
    kind = element_type(dump.inference.types[node.name][0].dtype) if dump.inference.types[node.name] else 0
    if not kind or node.name in dump.inference.failures or (dump.trusts_descs and not tensor.data):
        return None
    return TensorProto(name=f"{node.name}:0", data_type=kind, dims=list(tensor.desc.shape.dim), raw_data=tensor.data)
