"""Errors for operators without a lowering: one line, with a workaround.

TorchAir's own errors ask for a converter to be written. For operators of other packages, they name a GE operator that
TorchAir searched for by the operator's name.
"""

from __future__ import annotations

import operator
import re
from types import ModuleType
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule

aten = torch.ops.aten
# Messages of TorchAir's stubs, and of its converter generator for custom operators.
_STUB = re.compile(r"(?:torch\.ops\.)?(?P<name>\w+\.[\w.]+) (?:\w+ )*(?:ge_)?converter is not implemented")
_UNKNOWN = re.compile(r"auto-generated converter for (?P<name>.+?) to AscendIR")
# Its messages about layouts other than contiguous ones.
_LAYOUT = re.compile(r"torch\.ops\.(?P<name>aten\.[\w.]+) .*memory_format = torch\.(?P<layout>channels_last\w*)")
_FUNCTION = re.compile(r"<built-in function (\w+)>")
_ADVICE = (
    "no GE node is known for it; compute it outside of the compiled function, or trace something in its place "
    "(custom_decompositions of get_npu_backend)"
)
_ALTERNATIVES = {
    "_adaptive_avg_pool2d": "its size has to be known when the graph is built: compile with dynamic=False",
    "_histogramdd_bin_edges": "count with torch.histc",
    "_trilinear": "write it with torch.einsum",
    "_upsample_bicubic2d_aa": "interpolate without antialias",
    "_upsample_bilinear2d_aa": "interpolate without antialias",
    "histogram": "count with torch.histc",
}
# The states of TorchAir's search for a GE operator named like a custom operator.
_REGISTERED, _NOT_SEARCHED = "SUCCESS", "None"
_OF_TORCH = ("aten", "prims")
_INTEGER_PRODUCT = "out_dtype"
# Results that the node of an operator does not compute. Gradients need them.
WITHOUT_NODES = {
    aten._linalg_det.default: (1, 2),
    aten._linalg_slogdet.default: (2, 3),
    aten._linalg_solve_ex.default: (1, 2),
}


def check_results(gm: GraphModule) -> None:
    """Refuse a graph that reads results that no node computes."""
    for target, indices in WITHOUT_NODES.items():
        for node in gm.graph.find_nodes(op="call_function", target=target):
            if any(user.target is operator.getitem and user.args[1] in indices and user.users for user in node.users):
                raise NotImplementedError(
                    f"the factors beside the result of {target}, which its gradient takes, are not lowered: {_ADVICE}"
                )


def refusal(error: BaseException) -> NotImplementedError | None:
    """The error to raise in place of a TorchAir error about a missing converter; None for other errors."""
    if layout := _LAYOUT.search(str(error)):
        return NotImplementedError(
            f"{layout['name']} with memory_format=torch.{layout['layout']} is not lowered, as tensors of a GE graph "
            "have no strides: leave it out, or change the layout outside of the compiled function"
        )
    match = _STUB.search(str(error)) or _UNKNOWN.search(str(error))
    return None if match is None else NotImplementedError(_refusal_message(match["name"]))


def name_others(converter: ModuleType) -> None:
    """Let TorchAir name the custom operator that has no lowering."""
    if not hasattr(converter, "_get_converter_context"):
        _name_where_searched(converter)
        return
    generate = converter._generate_converter_code

    def generate_or_refuse(target: Any) -> Any:
        if isinstance(target, OpOverload) and target.namespace not in _OF_TORCH:
            context = converter._get_converter_context(target)
            if context.status not in (_REGISTERED, _NOT_SEARCHED):
                raise _no_converter(target, f"no GE operator {context.ge_name}")
        return generate(target)

    vars(converter)["_generate_converter_code"] = generate_or_refuse


def _name_where_searched(converter: ModuleType) -> None:
    """The same in older releases, which search for a GE operator before they generate."""
    search = converter._can_autogenerate_converter

    def search_or_refuse(target: Any) -> Any:
        try:
            return search(target)
        except RuntimeError as error:
            if isinstance(target, OpOverload) and target.namespace not in _OF_TORCH:
                raise _no_converter(target, "no GE operator of its name and arguments") from error
            raise

    vars(converter)["_can_autogenerate_converter"] = search_or_refuse


def _no_converter(target: OpOverload, searched: str) -> NotImplementedError:
    return NotImplementedError(
        f"{target.name()} has no converter, no decomposition and {searched}: register a converter with "
        "torchair.register_fx_node_ge_converter, or give torchair.get_npu_backend a decomposition in "
        "custom_decompositions"
    )


def _refusal_message(name: str) -> str:
    if name == _INTEGER_PRODUCT:
        return (
            f"{name}, an integer product such as torchao's, is not lowered: GRAPH_QUANT_FUSE=on lowers linears that "
            "torchao quantised to npu operators, and so does graph_quant.nn.convert_torchao_(model)"
        )
    if name.partition(".")[0] not in _OF_TORCH:
        return refuse_size_function(_FUNCTION.sub(r"\1", name))
    return f"{name} is not lowered: {_ALTERNATIVES.get(name.split('.')[1], _ADVICE)}"


def refuse_size_function(function: str) -> str:
    """The message that a function of sizes is not lowered, with a workaround."""
    return f"{function} of sizes is not lowered: give sizes as integers, or compile with dynamic=False"
