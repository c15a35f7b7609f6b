"""Public API for packages that bring operators of their own.

``operator`` declares an operator's rules and reference, ``kernel`` computes a GE node on the host, and ``lowers`` turns
a call into GE nodes. A package names its modules in the entry point groups ``graph_quant.operators`` (records,
references, kernels) and ``graph_quant.converters`` (lowerings). ``examples/custom_operator`` is such a package.

Names are loaded when they are first used: ``lowers`` imports TorchAir, the others do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .discovery import load_attribute

if TYPE_CHECKING:
    from .converters.lowering import lowers as lowers
    from .ge import Sizes as Sizes
    from .ge import kernel as kernel
    from .meta import Operator as Operator
    from .meta import Plan as Plan
    from .meta import Refusal as Refusal
    from .meta import Result as Result
    from .meta import Rules as Rules
    from .meta import operator as operator
    from .meta import reference_only as reference_only
    from .meta.definitions import define_operators as define_operators
    from .reference.checks import value_check as value_check

_HOMES = {
    "converters.lowering": ("lowers",),
    "ge": ("Sizes", "kernel"),
    "meta.definitions": ("define_operators",),
    "meta": ("Operator", "Plan", "Refusal", "Result", "Rules", "operator", "reference_only"),
    "reference.checks": ("value_check",),
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    if name == "lowers":
        # First: they load the lowerings of this package, which import the module of ``lowers``.
        import torch  # noqa: F401
        import torchair  # noqa: F401
    value = globals()[name] = load_attribute(name, _HOMES, __package__)
    return value
