"""``parallelize_``: replaces quantised modules by this rank's part of them."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from graph_quant.nn.experts.base import QuantisedExperts
from graph_quant.nn.parallel.experts import ParallelExperts
from graph_quant.nn.parallel.linears import GatheredLinear, Linears, column_parallel, row_parallel
from graph_quant.nn.parallel.ranks import Ranks
from torch import nn
from torch.distributed import ProcessGroup

KINDS = ("column", "joined", "row", "expert")


def parallelize_(model: nn.Module, plan: Mapping[str, str], group: ProcessGroup | None = None) -> list[str]:
    """Distribute quantised modules of ``model`` over the ranks of ``group``, in place.

    Results are bitwise those of one rank, except for W4A8 and weight-only modules, which sum floats.

    Args:
        model: A model whose modules ``quantize_`` or ``load_quantised`` replaced.
        plan: How to distribute modules, by pattern of their names (``*.q_proj``): ``"column"`` splits the outputs,
            ``"joined"`` also gathers them on every rank, ``"row"`` splits the inputs, ``"expert"`` splits experts.
        group: The process group; the default group if None.

    Returns:
        The names of the distributed modules.

    Raises:
        ValueError: A kind is unknown, a pattern matches no module, or a size does not split evenly.
        TypeError: A module is not quantised, or cannot be split this way.
        RuntimeError: ``torch.distributed`` is not initialised.

    Examples:
        >>> parallelize_(model, {"*.q_proj": "column", "*.o_proj": "row", "*.experts": "expert"})
    """
    wrong = {kind for kind in plan.values() if kind not in KINDS}
    if wrong:
        raise ValueError(f"parallelize_: a kind must be one of {', '.join(KINDS)}, got {', '.join(sorted(wrong))}")
    ranks, done = Ranks(group), []
    for name, module in list(model.named_modules()):
        kind = next((kind for pattern, kind in plan.items() if fnmatchcase(name, pattern)), None)
        if kind is not None:
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, _parallelize(name, module, kind, ranks))
            done.append(name)
    unused = [pattern for pattern in plan if not any(fnmatchcase(name, pattern) for name in done)]
    if unused:
        raise ValueError(f"parallelize_: no module is named {', '.join(unused)}")
    return done


def _parallelize(name: str, module: nn.Module, kind: str, ranks: Ranks) -> nn.Module:
    if kind == "expert":
        if not isinstance(module, QuantisedExperts):
            raise TypeError(f"parallelize_: {name} must be quantised experts for {kind!r}, got {type(module).__name__}")
        return ParallelExperts(name, module, ranks)
    if not isinstance(module, Linears):
        raise TypeError(f"parallelize_: {name} must be a quantised linear for {kind!r}, got {type(module).__name__}")
    if kind == "row":
        return row_parallel(name, module, ranks)
    part = column_parallel(name, module, ranks)
    return GatheredLinear(part, ranks) if kind == "joined" else part
