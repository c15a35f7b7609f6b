"""verify: runs a function eagerly and as GE graphs, and compares them node by node."""

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
from .region import OutputComparer
from .state import State, have_same_bits


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

    Both runs get copies of the inputs and start from the same RNG state. The modules that ``fn`` is or refers to are
    restored after each run. Gradients are off unless an input requires them.

    Args:
        fn: A function or module that ``torch.compile`` can compile for the NPU.
        *inputs: Its positional arguments.
        kwargs: Its keyword arguments.
        dynamic: As for ``torch.compile``.
        fullgraph: As for ``torch.compile``.
        config: A TorchAir ``CompilerConfig``.
        max_error: The largest absolute error that is accepted. Without limits, bits must be equal.
        min_sqnr: The smallest ratio of signal to quantisation noise that is accepted, in dB.
        progress: Whether a progress bar is shown on a terminal.

    Returns:
        The report: ``report.ok``, ``report.show()``, ``report.check()`` for tests, ``report.save(path)``.

    Raises:
        VerificationError: Nothing in ``fn`` was compiled for the NPU.

    Examples:
        >>> report = graph_quant.verify(layer, torch.randn(4, 64).npu())
        >>> report.check()
    """
    import torchair

    shown = on_terminal if progress else silent
    title = getattr(fn, "__name__", type(fn).__name__)
    with _repeatable(fn, inputs, dict(kwargs or {})) as start:
        with shown("running eagerly"):
            eager_inputs = start()
            expected = fn(*eager_inputs[0], **eager_inputs[1])
            eager_state = start.state.changed()
        with capture(max_error=max_error, min_sqnr=min_sqnr, title=title, progress=shown) as report:
            backend = torchair.get_npu_backend(compiler_config=config)
            compiled = torch.compile(fresh(fn), backend=backend, dynamic=dynamic, fullgraph=fullgraph)
            with shown("compiling and running the graph"):
                graph_inputs = start()
                results = compiled(*graph_inputs[0], **graph_inputs[1])
            graph_state = start.state.changed()
    if not report.graphs:
        raise VerificationError(f"{title}: nothing in it was compiled for the NPU")
    is_random = any(node.status is Status.RANDOM for node in report.nodes)
    # The outputs of regions are part of what the caller gets: they are listed only where those are all right.
    inner = [output for output in report.outputs if output.status in FAILING]
    comparer = OutputComparer(report, is_random, is_within_fusions=report.is_fused and not inner and not report.passes)
    report.outputs = [
        *comparer.compare_results("", expected, results),
        *comparer.compare_written("", _written(start.before, eager_inputs, graph_inputs)),
        *comparer.compare_written("", start.state.pairs(eager_state, graph_state)),
    ]
    if not any(output.status in FAILING for output in report.outputs):
        report.outputs += inner
    return report


def _written(before: Any, eager: Any, graph: Any) -> dict[str, tuple[Any, Any]]:
    """The inputs that either run wrote to, after each run."""
    one, other = _tensors(eager), _tensors(graph)
    return {
        f"input{path}": (one[path], other.get(path))
        for path, value in _tensors(before).items()
        if path in one
        and not (have_same_bits(value, one[path]) and path in other and have_same_bits(value, other[path]))
    }


def _tensors(arguments: tuple[Any, Any]) -> dict[str, Tensor]:
    named = [entry for part in arguments for entry in pytree.tree_flatten_with_path(part)[0]]
    return {pytree.keystr(path): leaf for path, leaf in named if isinstance(leaf, Tensor)}


class _Start:
    """Restores the state before a run, and returns copies of the arguments."""

    def __init__(self, fn: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.before = inputs, kwargs
        self.state = State(fn)
        self._random = torch.get_rng_state()

    def __call__(self) -> Any:
        torch.set_rng_state(self._random)
        self.state.restore()
        return _copied(self.before)


@contextmanager
def _repeatable(fn: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[_Start]:
    """Let runs start from the same state, and restore it at the end."""
    start = _Start(fn, inputs, kwargs)
    leaves = pytree.tree_leaves((inputs, kwargs))
    wants_gradient = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves)
    with torch.set_grad_enabled(wants_gradient and torch.is_grad_enabled()):
        try:
            yield start
        finally:
            start.state.restore()


def _copied(arguments: Any) -> Any:
    """A deep copy, which for tensors that are not leaves of autograd needs copies of its own."""
    tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor)]
    copies = {id(tensor): tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TypedStorage is deprecated")  # torch_npu's copy of a storage
        return copy.deepcopy(arguments, memo=copies)
