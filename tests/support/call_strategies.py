"""Hypothesis strategies for valid and invalid calls, and checks that inference and eager execution agree on them."""

import os
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# The long version is for `make coverage`.
EXAMPLES = int(os.environ.get("GRAPH_QUANT_EXAMPLES", "40"))
DESTINATIONS = st.sampled_from(
    [None, torch.int8, torch.qint8, torch.quint4x2, torch.quint4x2, torch.quint8, torch.float32]
)
Draw = Callable[[st.SearchStrategy[Any]], Any]

SIZES = st.sampled_from([0, 1, 2, 3, 8, 16])
NEAR = st.integers(0, 9)
# Drawn to make calls that differ only in their values distinct.
SEEDS = st.integers(0, 2**16)
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (torch.float32, *HALVES)


def mostly(draw: Draw, usual: Any, other: st.SearchStrategy[Any]) -> Any:
    """Return the usual value nine times in ten."""
    return draw(other) if draw(NEAR) == 0 else usual


def dtype(draw: Draw, *allowed: torch.dtype) -> torch.dtype:
    every = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64)
    return mostly(draw, draw(st.sampled_from(allowed)), st.sampled_from(every))


def tensor(draw: Draw, shape: tuple[int, ...], *allowed: torch.dtype) -> torch.Tensor:
    """Return ones, sometimes transposed; now and then with another size or one more dimension."""
    shape = tuple(mostly(draw, size, SIZES) for size in shape)
    shape = mostly(draw, shape, st.sampled_from([(1, *shape), shape[1:], (*shape, 1)]))
    ones = torch.ones(shape, dtype=dtype(draw, *allowed))
    return ones.mT.contiguous().mT if ones.dim() > 1 and draw(st.booleans()) else ones


def optional(draw: Draw, shape: tuple[int, ...], *allowed: torch.dtype) -> torch.Tensor | None:
    return tensor(draw, shape, *allowed) if draw(st.booleans()) else None


def group_ends(draw: Draw, groups: int, rows: int, *allowed: torch.dtype) -> torch.Tensor:
    """Return valid ends of groups, if the number of groups allows any."""
    values = [min(group + 1, rows) for group in range(groups)]
    if values:
        values[-1] = rows
    return torch.tensor(values).to(dtype(draw, *allowed))


def outcome(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """Return the shapes, dtypes and strides of a call's results, or its error message."""
    try:
        results = op(*args, **kwargs)
    except RuntimeError as refusal:
        return str(refusal)
    tensors = (results,) if isinstance(results, torch.Tensor) else results or ()
    return [None if result is None else (tuple(result.shape), result.dtype, result.stride()) for result in tensors]


def run(check: Callable[[Any], None], calls: st.SearchStrategy[Any], sample: int | None = None) -> None:
    """Run ``check`` over generated calls, deterministically; over a ``sample`` unless GRAPH_QUANT_EXAMPLES is set."""
    is_long = sample is None or "GRAPH_QUANT_EXAMPLES" in os.environ
    run_all = settings(
        max_examples=EXAMPLES if is_long else sample,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )(given(calls)(check))
    run_all()
