"""What nothing lowers is refused in one line, with the way out.

TorchAir speaks of converters to be written. Of operators of other packages it speaks of a GE operator that is called as
they are, which it looked for.
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
# What TorchAir's stubs say, and its way to nodes for operators of users.
_STUB = re.compile(r"(?:torch\.ops\.)?(?P<name>\w+\.[\w.]+) (?:\w+ )*(?:ge_)?converter is not implemented")
_UNKNOWN = re.compile(r"auto-generated converter for (?P<name>.+?) to AscendIR")
_FUNCTION = re.compile(r"<built-in function (\w+)>")
_ANYWAY = (
    "no GE node is known for it; compute it outside of the compiled function, or trace something in its place "
    "(custom_decompositions of get_npu_backend)"
)
_INSTEAD = {
    "_adaptive_avg_pool2d": "its size has to be known when the graph is built: compile with dynamic=False",
    "_histogramdd_bin_edges": "count with torch.histc",
    "_trilinear": "write it with torch.einsum",
    "_upsample_bicubic2d_aa": "interpolate without antialias",
    "_upsample_bilinear2d_aa": "interpolate without antialias",
    "histogram": "count with torch.histc",
}
# What TorchAir found of a GE operator by the name of another package's.
_REGISTERED, _NOT_ASKED = "SUCCESS", "None"
_OF_TORCH = ("aten", "prims")
# Results that the node of an operator does not give: gradients ask for them.
WITHOUT_NODES = {
    aten._linalg_det.default: (1, 2),
    aten._linalg_slogdet.default: (2, 3),
    aten._linalg_solve_ex.default: (1, 2),
}


def check_results(gm: GraphModule) -> None:
    """Refuse a graph that reads results which no node gives."""
    for target, places in WITHOUT_NODES.items():
        for node in gm.graph.find_nodes(op="call_function", target=target):
            if any(user.target is operator.getitem and user.args[1] in places and user.users for user in node.users):
                raise NotImplementedError(
                    f"the factors beside the result of {target}, which its gradient takes, are not lowered: {_ANYWAY}"
                )


def refusal(error: BaseException) -> NotImplementedError | None:
    """What to raise in place of an error of TorchAir's; None where it speaks of something else."""
    found = _STUB.search(str(error)) or _UNKNOWN.search(str(error))
    return None if found is None else NotImplementedError(_told(found["name"]))


def name_others(converter: ModuleType) -> None:
    """Let TorchAir say which operator of another package it is that nothing lowers."""
    generate = converter._generate_converter_code

    def generate_or_refuse(target: Any) -> Any:
        if isinstance(target, OpOverload) and target.namespace not in _OF_TORCH:
            found = converter._get_converter_context(target)
            if found.status not in (_REGISTERED, _NOT_ASKED):
                raise NotImplementedError(
                    f"{target.name()} has no converter, no decomposition and no GE operator {found.ge_name}: "
                    "register a converter with torchair.register_fx_node_ge_converter, or give "
                    "torchair.get_npu_backend a decomposition in custom_decompositions"
                )
        return generate(target)

    vars(converter)["_generate_converter_code"] = generate_or_refuse


def _told(name: str) -> str:
    if name.partition(".")[0] not in _OF_TORCH:
        return told_of_sizes(_FUNCTION.sub(r"\1", name))
    return f"{name} is not lowered: {_INSTEAD.get(name.split('.')[1], _ANYWAY)}"


def told_of_sizes(function: str) -> str:
    """That a function of sizes is refused, and the way out."""
    return f"{function} of sizes is not lowered: give sizes as integers, or compile with dynamic=False"
