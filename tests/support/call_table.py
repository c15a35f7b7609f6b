"""How tables of calls are written: a line a call, for what the documents allow and for what they refuse."""

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
    """The operator of a name such as npu_quantize or npu_grouped_matmul.List."""
    packet, _, variant = op.partition(".")
    return getattr(getattr(torch.ops.npu, packet), variant or "default")


@dataclass(frozen=True)
class Statement:
    """An operator's rule stated once more, independently of the package, and calls to try it on.

    `expected(*args, **kwargs)` takes the torch tensors of an allowed call and gives an array, or one for each result.
    `bound` says how far a float result may be from it, relative to the largest magnitude of the result, and why is for
    the table to say; 0 means the same bits. `sample` is how many calls are tried unless the long version is asked for.
    `computed` is called for the operator where that runs in graphs alone.
    """

    expected: Callable[..., Any]
    calls: st.SearchStrategy[tuple[tuple[Any, ...], dict[str, Any]]]
    bound: float = 0.0
    sample: int | None = None
    computed: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Call:
    """One call. `argument` is what the refusal of a wrong call has to name."""

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
        """The name that refusals start with."""
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
    """Parameters as npu_trans_quant_param gives them: scale 2**-j and offset j, bit 46 set."""
    places = torch.arange(n, dtype=torch.int64) % 8
    params = ((127 - places) << 23) | (places << 37) | (1 << 46)
    return params if rows is None else params.expand(rows, n).contiguous()
