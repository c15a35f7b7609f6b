"""Lint rules about dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ge import OF_ATTRIBUTE, TO_ATTRIBUTE, UNDEFINED, Node, facts, registration, to_python
from ..graph.shapes import TensorType, read_desc
from .lint import Severity, lint_rule

if TYPE_CHECKING:
    from ..dump import Dump

_RESULT_DTYPE = ("dst_type", "dtype")


def _named_inputs(dump: Dump, node: Node) -> dict[str, TensorType]:
    return {edge.name: tensor for edge in node.inputs if (tensor := dump.inference.type_of(edge)) is not None}


@lint_rule(
    "refused-type",
    Severity.ERROR,
    why="GE registers which dtypes an operator takes and gives, and refuses the graph at compile time otherwise",
    fix="ask for a dtype that GE registers; npu_group_quant without dst_dtype is uint8 upstream: pass torch.int8",
    all_formats=True,
)
def find_refused_types(dump: Dump) -> Iterator[tuple[str, str]]:
    """Operators with a dtype that GE does not register for them."""
    for node in dump.order:
        declared = registration(node.type) if facts(node.type).exact else None
        if declared is None:
            continue
        defaults = {declaration.name: declaration.default for declaration in declared.attributes}
        for name in _RESULT_DTYPE:
            attribute = node.proto.attr.get(name)
            if attribute is None or attribute.WhichOneof("value") not in ("i", "dt"):
                continue
            if str(to_python(attribute)) == defaults.get(name):
                continue
            word = OF_ATTRIBUTE.get(to_python(attribute), f"dtype {to_python(attribute)}")
            if declared.outputs[0].dtypes and word not in declared.outputs[0].dtypes:
                yield node.name, f"{name}={word}, GE takes {_join_sorted(declared.outputs[0].dtypes)}"
        inputs = _named_inputs(dump, node)
        for parameter in declared.inputs:
            tensor = inputs.get(parameter.name)
            if tensor and tensor.inferred and parameter.dtypes and tensor.dtype not in parameter.dtypes:
                yield node.name, f"{parameter.name} is {tensor.dtype}, GE takes {_join_sorted(parameter.dtypes)}"


def _join_sorted(words: frozenset[str]) -> str:
    return ", ".join(sorted(words))


@lint_rule(
    "unpacked-scale",
    Severity.ERROR,
    why="with an int8 or float16 result and no pertoken_scale the kernel reads scale as packed 64-bit parameters",
    fix="put npu_trans_quant_param (TransQuantParamV2) before the matmul",
    all_formats=True,
)
def find_unpacked_scales(dump: Dump) -> Iterator[tuple[str, str]]:
    """Floating point scales where QuantBatchMatmulV3 reads packed ones."""
    for node in dump.order:
        if node.type != "QuantBatchMatmulV3" or "dtype" not in node.proto.attr:
            continue
        inputs = _named_inputs(dump, node)
        result = OF_ATTRIBUTE.get(node.proto.attr["dtype"].i, "")
        packed = result == "int8" or (result == "float16" and "pertoken_scale" not in inputs)
        if packed and "scale" in inputs and inputs["scale"].dtype in ("float32", "bfloat16", "float16"):
            yield node.name, f"scale is {inputs['scale'].dtype} and the result {result}"


@lint_rule(
    "int4-width",
    Severity.ERROR,
    why="eight int4 elements share one int32, so the last dimension must be a multiple of 8",
    fix="pad the last dimension to a multiple of 8, or quantise to int8",
    all_formats=True,
)
def find_int4_widths(dump: Dump) -> Iterator[tuple[str, str]]:
    """int4 results whose last dimension is not a multiple of 8."""
    for node in dump.order:
        requested = [to_python(node.proto.attr[name]) for name in _RESULT_DTYPE if name in node.proto.attr]
        x = _named_inputs(dump, node).get("x")
        if TO_ATTRIBUTE["int4"] in requested and x and x.shape and isinstance(x.shape[-1], int) and x.shape[-1] % 8:
            yield node.name, f"the last dimension is {x.shape[-1]}"


@lint_rule(
    "float-desc",
    Severity.ERROR,
    why="GE sizes buffers by the desc: FLOAT on an int4 tensor is eight times too large, and fusions read it wrong",
    fix="lower with a converter that writes DT_INT4 into the desc of every int4 result, as this package's do",
)
def find_float_descs(dump: Dump) -> Iterator[tuple[str, str]]:
    """int4 results whose desc states another dtype."""
    for node in dump.order:
        types = dump.inference.types[node.name]
        for tensor, desc in zip(types, node.proto.output_desc, strict=False):
            stated = read_desc(desc).dtype
            if tensor.inferred and tensor.dtype == "int4" and stated not in ("int4", UNDEFINED):
                yield node.name, f"{desc.name or 'its result'} is int4, the desc says {stated}"


@lint_rule(
    "mixed-dtypes",
    Severity.ERROR,
    why="GE does not promote dtypes: these inputs must have the same one",
    fix="cast one of them before the call",
    all_formats=True,
)
def find_mixed_dtypes(dump: Dump) -> Iterator[tuple[str, str]]:
    """Inputs that must have the same dtype but do not."""
    for node in dump.order:
        inputs = _named_inputs(dump, node)
        same = facts(node.type).same
        # The names of dynamic inputs are numbered.
        dtypes = {
            name: read.dtype
            for name, read in inputs.items()
            if read.inferred and (name in same or name.rstrip("0123456789") in same)
        }
        if len(set(dtypes.values())) > 1 and node.name not in dump.inference.values:
            yield node.name, ", ".join(f"{name} is {word}" for name, word in dtypes.items())
