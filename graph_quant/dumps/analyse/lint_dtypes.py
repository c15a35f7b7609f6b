"""Lint rules about dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ge import OF_ATTRIBUTE, TO_ATTRIBUTE, UNDEFINED, Node, registration, to_python
from ...host.kernels import facts
from ..graph.shapes import TensorType, stated
from .lint import Severity, rule

if TYPE_CHECKING:
    from ..dump import Dump

_RESULT_DTYPE = ("dst_type", "dtype")


def _inputs(dump: Dump, node: Node) -> dict[str, TensorType]:
    return {edge.name: found for edge in node.inputs if (found := dump.inference.of(edge)) is not None}


@rule(
    "refused-type",
    Severity.ERROR,
    why="GE registers which dtypes an operator takes and gives, and refuses the graph at compile time otherwise",
    way_out="ask for a dtype that GE registers; npu_group_quant without dst_dtype is uint8 upstream: pass torch.int8",
    anywhere=True,
)
def refused_types(dump: Dump) -> Iterator[tuple[str, str]]:
    """Quantisation operators with a dtype that GE does not register for them."""
    for node in dump.order:
        declared = registration(node.type) if facts(node.type).exact else None
        if declared is None:
            continue
        defaults = {each.name: each.default for each in declared.attributes}
        for name in _RESULT_DTYPE:
            attribute = node.proto.attr.get(name)
            if attribute is None or attribute.WhichOneof("value") not in ("i", "dt"):
                continue
            if str(to_python(attribute)) == defaults.get(name):
                continue
            word = OF_ATTRIBUTE.get(to_python(attribute), f"dtype {to_python(attribute)}")
            if declared.outputs[0].dtypes and word not in declared.outputs[0].dtypes:
                yield node.name, f"{name}={word}, GE takes {_listed(declared.outputs[0].dtypes)}"
        inputs = _inputs(dump, node)
        for parameter in declared.inputs:
            found = inputs.get(parameter.name)
            if found and found.inferred and parameter.dtypes and found.dtype not in parameter.dtypes:
                yield node.name, f"{parameter.name} is {found.dtype}, GE takes {_listed(parameter.dtypes)}"


def _listed(words: frozenset[str]) -> str:
    return ", ".join(sorted(words))


@rule(
    "unpacked-scale",
    Severity.ERROR,
    why="with an int8 or float16 result and no pertoken_scale the kernel reads scale as packed 64-bit parameters",
    way_out="put npu_trans_quant_param (TransQuantParamV2) before the matmul",
    anywhere=True,
)
def unpacked_scales(dump: Dump) -> Iterator[tuple[str, str]]:
    """A floating point scale where QuantBatchMatmulV3 reads packed ones."""
    for node in dump.order:
        if node.type != "QuantBatchMatmulV3" or "dtype" not in node.proto.attr:
            continue
        inputs = _inputs(dump, node)
        result = OF_ATTRIBUTE.get(node.proto.attr["dtype"].i, "")
        packed = result == "int8" or (result == "float16" and "pertoken_scale" not in inputs)
        if packed and "scale" in inputs and inputs["scale"].dtype in ("float32", "bfloat16", "float16"):
            yield node.name, f"scale is {inputs['scale'].dtype} and the result {result}"


@rule(
    "int4-width",
    Severity.ERROR,
    why="eight int4 elements share one int32, so the last dimension must be a multiple of 8",
    way_out="pad the last dimension to a multiple of 8, or quantise to int8",
    anywhere=True,
)
def int4_widths(dump: Dump) -> Iterator[tuple[str, str]]:
    """int4 results with a fixed width that cannot be packed."""
    for node in dump.order:
        asked = [to_python(node.proto.attr[name]) for name in _RESULT_DTYPE if name in node.proto.attr]
        x = _inputs(dump, node).get("x")
        if TO_ATTRIBUTE["int4"] in asked and x and x.shape and isinstance(x.shape[-1], int) and x.shape[-1] % 8:
            yield node.name, f"the last dimension is {x.shape[-1]}"


@rule(
    "float-desc",
    Severity.ERROR,
    why="GE sizes buffers by the desc: FLOAT on an int4 tensor is eight times too large, and fusions read it wrong",
    way_out="lower with a converter that writes DT_INT4 into the desc of every int4 result, as this package's do",
)
def float_descs(dump: Dump) -> Iterator[tuple[str, str]]:
    """int4 results whose desc says something else."""
    for node in dump.order:
        types = dump.inference.types[node.name]
        for found, desc in zip(types, node.proto.output_desc, strict=False):
            said = stated(desc).dtype
            if found.inferred and found.dtype == "int4" and said not in ("int4", UNDEFINED):
                yield node.name, f"{desc.name or 'its result'} is int4, the desc says {said}"


@rule(
    "mixed-dtypes",
    Severity.ERROR,
    why="GE does not promote dtypes: these inputs must have the same one",
    way_out="cast one of them before the call",
    anywhere=True,
)
def mixed_dtypes(dump: Dump) -> Iterator[tuple[str, str]]:
    """Inputs that must share a dtype and do not."""
    for node in dump.order:
        inputs = _inputs(dump, node)
        same = facts(node.type).same
        # The inputs of a dynamic one are numbered.
        found = {
            name: read.dtype
            for name, read in inputs.items()
            if read.inferred and (name in same or name.rstrip("0123456789") in same)
        }
        if len(set(found.values())) > 1 and node.name not in dump.inference.values:
            yield node.name, ", ".join(f"{name} is {word}" for name, word in found.items())
