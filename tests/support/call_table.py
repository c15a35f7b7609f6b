"""Entries of the tables of calls: valid calls, and invalid ones with the argument that their error names."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

from support.tensors import on

INT4 = torch.quint4x2

# A function to lower, and what to call it with.
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def overload(op: str) -> Any:
    """Return the overload with a name such as npu_quantize or npu_grouped_matmul.List."""
    packet, _, variant = op.partition(".")
    return getattr(getattr(torch.ops.npu, packet), variant or "default")


@dataclass(frozen=True)
class Statement:
    """An independent NumPy statement of an operator, and calls to compare it on.

    `expected(*args, **kwargs)` takes the torch tensors of a valid call and returns an array, or one for each result.
    `bound` is the allowed error of a float result relative to its absmax, which the table justifies; 0 means bitwise
    equality. `sample` is the number of calls unless GRAPH_QUANT_EXAMPLES is set. `computed` replaces the operator if it
    runs only in graphs.
    """

    expected: Callable[..., Any]
    calls: st.SearchStrategy[tuple[tuple[Any, ...], dict[str, Any]]]
    bound: float = 0.0
    sample: int | None = None
    computed: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Call:
    """One call. `argument` is what the error of an invalid call must name."""

    op: str
    label: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    argument: str = ""

    @property
    def overload(self) -> Any:
        return overload(self.op)

    @property
    def title(self) -> str:
        """The name that error messages start with."""
        return self.op.partition(".")[0]

    def on(self, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(on(device, arg) for arg in self.args), {name: on(device, arg) for name, arg in self.kwargs.items()}

    def __str__(self) -> str:
        return f"{self.op.removeprefix('npu_')}: {self.label}"


def good(op: str, label: str, *args: Any, **kwargs: Any) -> Call:
    return Call(f"npu_{op}", label, args, kwargs)


def bad(op: str, argument: str, label: str, *args: Any, **kwargs: Any) -> Call:
    return Call(f"npu_{op}", label, args, kwargs, argument)


def packed(n: int, rows: int | None = None) -> torch.Tensor:
    """Return parameters in the format of npu_trans_quant_param: scale 2**-j and offset j, bit 46 set."""
    exponents = torch.arange(n, dtype=torch.int64) % 8
    params = ((127 - exponents) << 23) | (exponents << 37) | (1 << 46)
    return params if rows is None else params.expand(rows, n).contiguous()
