"""How each quantisation operator becomes GE nodes, through TorchAir's own registry.

Besides them stand the ATen operators that quantised models need and TorchAir cannot lower. A module that
names its ``OPERATOR`` is found by that.
"""

from __future__ import annotations

from typing import Any

# The converters that TorchAir had for the operators, by overload.
UPSTREAM: dict[Any, Any] = {}

_registered = False


def register() -> None:
    """Replaces TorchAir's converters. TorchAir must be imported already; calling this again changes nothing."""
    global _registered
    if _registered:
        return
    _registered = True
    from graph_quant import discovery
    from graph_quant.meta.chip import or_upstream
    from torchair._ge_concrete_graph.fx2ge_converter import register_fx_node_ge_converter

    # TorchAir loads its own converters when it meets the first operator, which would replace the ones here.
    from torchair._ge_concrete_graph.ge_converter import custom  # noqa: F401

    for module in discovery.operators(__name__):
        upstream = getattr(module.OPERATOR, "_ge_converter", None)
        if upstream is not None:
            UPSTREAM[module.OPERATOR] = upstream
        register_fx_node_ge_converter(module.OPERATOR)(or_upstream(module.convert, upstream))
