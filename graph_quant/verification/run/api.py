"""verify: a function run eagerly and as a GE graph, compared node by node."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ...scripts import fresh
from ..errors import VerificationError
from ..report.report import FAILING, Report, Status
from .interception import capture
from .progress import on_terminal, silent
from .region import Judge
from .state import State, same


def verify(
    fn: Callable[..., Any],
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    config: Any = None,
    max_error: float | None = None,
    min_sqnr: float | None = None,
    progress: bool = True,
) -> Report:
    """Run ``fn(*inputs, **kwargs)`` eagerly and as GE graphs, and report where they differ.

    Both runs get copies of the inputs and start from the same random numbers; the modules that ``fn`` is or reaches are
    put back after each. Gradients are off unless an input asks for them. ``config`` is a TorchAir CompilerConfig.
    Results must have equal bits, unless ``max_error`` (the largest absolute error) or ``min_sqnr`` (in dB) allow more.
    """
    import torchair

    shown = on_terminal if progress else silent
    title = getattr(fn, "__name__", type(fn).__name__)
    with _repeatable(fn, inputs, dict(kwargs or {})) as again:
        with shown("running eagerly"):
            given = again()
            expected = fn(*given[0], **given[1])
            left = again.state.changed()
        with capture(max_error=max_error, min_sqnr=min_sqnr, title=title, progress=shown) as report:
            backend = torchair.get_npu_backend(compiler_config=config)
            compiled = torch.compile(fresh(fn), backend=backend, dynamic=dynamic, fullgraph=fullgraph)
            with shown("compiling and running the graph"):
                taken = again()
                results = compiled(*taken[0], **taken[1])
            changed = again.state.changed()
    if not report.graphs:
        raise VerificationError(f"{title}: nothing in it was compiled for the NPU")
    is_random = any(node.status is Status.RANDOM for node in report.nodes)
    judge = Judge(report, is_random)
    # What the caller gets includes what was compared where it left a graph.
    inner = [output for output in report.outputs if output.status in FAILING]
    report.outputs = [
        *judge.results("", expected, results),
        *judge.written("", _written(again.before, given, taken)),
        *judge.written("", again.state.pairs(left, changed)),
    ]
    if not any(output.status in FAILING for output in report.outputs):
        report.outputs += inner
    return report


def _written(before: Any, eager: Any, graph: Any) -> dict[str, tuple[Any, Any]]:
    """The inputs that a run wrote to, as both left them."""
    one, other = _tensors(eager), _tensors(graph)
    return {
        f"input{path}": (one[path], other.get(path))
        for path, value in _tensors(before).items()
        if path in one and not (same(value, one[path]) and path in other and same(value, other[path]))
    }


def _tensors(arguments: tuple[Any, Any]) -> dict[str, Tensor]:
    named = [each for part in arguments for each in pytree.tree_flatten_with_path(part)[0]]
    return {pytree.keystr(path): leaf for path, leaf in named if isinstance(leaf, Tensor)}


class _Again:
    """Puts everything back as it was, and returns copies of the arguments."""

    def __init__(self, fn: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.before = inputs, kwargs
        self.state = State(fn)
        self._random = torch.get_rng_state()

    def __call__(self) -> Any:
        torch.set_rng_state(self._random)
        self.state.restore()
        return _copied(self.before)


@contextmanager
def _repeatable(fn: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[_Again]:
    """Runs that start from the same state, and leave it as it was."""
    again = _Again(fn, inputs, kwargs)
    leaves = pytree.tree_leaves((inputs, kwargs))
    wants_gradient = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves)
    with torch.set_grad_enabled(wants_gradient and torch.is_grad_enabled()):
        try:
            yield again
        finally:
            again.state.restore()


def _copied(arguments: Any) -> Any:
    """A deep copy, also of tensors that a computation gave."""
    tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor)]
    copies = {id(tensor): tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TypedStorage is deprecated")  # torch_npu's copy of a storage
        return copy.deepcopy(arguments, memo=copies)
