"""``parallelize_``: of the quantised modules of a model, this rank keeps its part."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from graph_quant.nn.experts.base import QuantisedExperts
from graph_quant.nn.parallel.experts import ParallelExperts
from graph_quant.nn.parallel.linears import Joined, Linears, by_columns, by_rows
from graph_quant.nn.parallel.ranks import Ranks
from torch import nn
from torch.distributed import ProcessGroup

KINDS = ("column", "joined", "row", "expert")


def parallelize_(model: nn.Module, plan: Mapping[str, str], group: ProcessGroup | None = None) -> list[str]:
    """Shares the quantised modules that ``plan`` names among the ranks of ``group``, and returns their names.

    The plan says how, by pattern of the module's name (``*.q_proj``): ``column`` and ``joined`` (which gives every rank
    all outputs), ``row``, ``expert``. The results are those of one rank, bit for bit, but for W4A8 and weight-only
    modules, which sum floats.
    """
    wrong = {kind for kind in plan.values() if kind not in KINDS}
    if wrong:
        raise ValueError(f"parallelize_: a kind must be one of {', '.join(KINDS)}, got {', '.join(sorted(wrong))}")
    ranks, done = Ranks(group), []
    for name, module in list(model.named_modules()):
        kind = next((kind for pattern, kind in plan.items() if fnmatchcase(name, pattern)), None)
        if kind is not None:
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, _shared(name, module, kind, ranks))
            done.append(name)
    unused = [pattern for pattern in plan if not any(fnmatchcase(name, pattern) for name in done)]
    if unused:
        raise ValueError(f"parallelize_: no module is named {', '.join(unused)}")
    return done


def _shared(name: str, module: nn.Module, kind: str, ranks: Ranks) -> nn.Module:
    if kind == "expert":
        if not isinstance(module, QuantisedExperts):
            raise TypeError(f"parallelize_: {name} must be quantised experts for {kind!r}, got {type(module).__name__}")
        return ParallelExperts(name, module, ranks)
    if not isinstance(module, Linears):
        raise TypeError(f"parallelize_: {name} must be a quantised linear for {kind!r}, got {type(module).__name__}")
    if kind == "row":
        return by_rows(name, module, ranks)
    part = by_columns(name, module, ranks)
    return Joined(part, ranks) if kind == "joined" else part
