"""Lowerings of operators to GE nodes, registered as TorchAir converters.

The npu operators are in the folders of their families, ``aten`` has the ATen operators that TorchAir lacks or lowers
wrongly.
"""

from __future__ import annotations

from typing import Any

ENTRY_POINTS = "graph_quant.converters"

# The converters that TorchAir had for the operators, by overload.
UPSTREAM: dict[Any, Any] = {}

_registered = False


def register() -> None:
    """Replace TorchAir's converters, once. TorchAir must be imported already."""
    global _registered
    if _registered:
        return
    _registered = True
    from graph_quant.converters import unbacked_sizes, unsupported
    from graph_quant.converters.decompositions import add_to_backend
    from graph_quant.converters.lowering import CONVERTERS, converter, lowered, or_upstream
    from graph_quant.discovery import import_modules, indexed_modules, load_plugins
    from graph_quant.dispatcher import is_defined, overload
    from graph_quant.releases.ge_functions import complete_ge_functions
    from torchair import npu_fx_compiler
    from torchair._ge_concrete_graph import fx2ge_converter, ge_apis

    # TorchAir loads its own converters when it meets the first operator, which would replace the ones here.
    from torchair._ge_concrete_graph.ge_converter import custom  # noqa: F401

    complete_ge_functions(vars(ge_apis))
    # sync_batch_norm registers meta functions alone, which the index does not list.
    unindexed = f"{__name__}.aten.sync_batch_norm"
    import_modules(sorted({unindexed, *indexed_modules("CONVERTERS"), *indexed_modules("DECOMPOSITIONS")}))
    list(load_plugins(ENTRY_POINTS))
    ours = {overload(name): converter(name) for name in sorted(lowered()) if is_defined(name)}
    for operator, convert in {**ours, **CONVERTERS}.items():
        upstream = getattr(operator, "_ge_converter", None)
        if upstream is not None:
            UPSTREAM[operator] = upstream
        fx2ge_converter.register_fx_node_ge_converter(operator)(or_upstream(convert, upstream))
    add_to_backend()
    unbacked_sizes.patch(fx2ge_converter, npu_fx_compiler)
    unsupported.name_others(fx2ge_converter)
