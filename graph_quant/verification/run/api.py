"""verify: a function run eagerly and as a GE graph, compared node by node."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..compare.metrics import compare, dtype_name
from ..errors import VerificationError
from ..report.report import OutputReport, Report, Status, Thresholds
from .interception import capture
from .observe import on_host
from .progress import on_terminal, silent


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

    Both runs get copies of the inputs and of a module's buffers, and start from the same random numbers; gradients are
    off unless an input asks for them. ``config`` is a TorchAir CompilerConfig. Results must have equal bits, unless
    ``max_error`` (the largest absolute error) or ``min_sqnr`` (in dB) allow more.
    """
    import torchair

    shown = on_terminal if progress else silent
    title = getattr(fn, "__name__", type(fn).__name__)
    with _repeatable(fn, inputs, dict(kwargs or {})) as again:
        with shown("running eagerly"):
            args, named = again()
            expected = _leaves(fn(*args, **named))
        with capture(max_error=max_error, min_sqnr=min_sqnr, title=title, progress=shown) as report:
            backend = torchair.get_npu_backend(compiler_config=config)
            compiled = torch.compile(_fresh(fn), backend=backend, dynamic=dynamic, fullgraph=fullgraph)
            with shown("compiling and running the graph"):
                args, named = again()
                results = _leaves(compiled(*args, **named))
    if not report.graphs:
        raise VerificationError(f"{title}: nothing in it was compiled for the NPU")
    is_random = any(node.status is Status.RANDOM for node in report.nodes)
    pairs = [(name, expected[name], results.get(name)) for name in expected]
    report.outputs = [_output(*pair, report.thresholds, is_random) for pair in pairs]
    return report


def _output(name: str, eager: Tensor, graph: Tensor | None, thresholds: Thresholds, is_random: bool) -> OutputReport:
    difference = compare(on_host(eager), on_host(eager.new_empty(0) if graph is None else graph))
    if is_random:
        status = Status.RANDOM
    elif difference.equal:
        status = Status.EQUAL
    else:
        status = Status.CLOSE if thresholds.accept(difference) else Status.DIFFERS
    return OutputReport(name, status, difference, dtype_name(eager), tuple(eager.shape))


def _leaves(results: Any) -> dict[str, Tensor]:
    named, _ = pytree.tree_flatten_with_path(results)
    return {f"output{pytree.keystr(path)}": leaf for path, leaf in named if isinstance(leaf, Tensor)}


@contextmanager
def _repeatable(fn: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Callable[[], Any]]:
    """A function that puts everything back as it was, and returns copies of the arguments."""
    random = torch.get_rng_state()
    buffers = list(fn.buffers()) if isinstance(fn, nn.Module) else []
    before = [buffer.detach().clone() for buffer in buffers]

    def again() -> Any:
        torch.set_rng_state(random)
        with torch.no_grad():
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)
        return _copied((inputs, kwargs))

    leaves = pytree.tree_leaves((inputs, kwargs))
    wants_gradient = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves)
    with torch.set_grad_enabled(wants_gradient and torch.is_grad_enabled()):
        yield again


def _copied(arguments: Any) -> Any:
    """A deep copy, also of tensors that a computation gave."""
    tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, Tensor)]
    copies = {id(tensor): tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TypedStorage is deprecated")  # torch_npu's copy of a storage
        return copy.deepcopy(arguments, memo=copies)


def _fresh(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` behind a code object of its own, so that Dynamo's cache and its limit stay out of other people's way."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    code: CodeType = call.__code__
    return FunctionType(code.replace(), call.__globals__, call.__name__, None, call.__closure__)
