"""Runs every overload that PyTorch tags as core ATen in graph mode, over PyTorch's own samples, against eager mode.

The calls that PyTorch's OpInfos make of an overload are noted down, with ordinary numbers and again with NaN,
infinities and zeros of both signs among them. Several calls share a graph, static or with symbols for sizes, and every
result is compared to the bit with the CPU's or, where the host NPU rounds otherwise, with its eager mode's.

In `tests`:

    python -m engine.core_aten              all of them, and what differs
    python -m engine.core_aten amax var     the overloads of some operators
    python -m engine.core_aten --page ../docs/aten.md   all of them, and how many agree into the table there
    python -m engine.core_aten --page ../docs/aten.md --found all.json some.json   the same of reports of earlier runs
"""

from __future__ import annotations

import argparse
import json
import math
import operator
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401  (makes npu:0 available)
import torch
import torchair
from graph_quant.aten import core, lowering
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from engine.core_aten_calls import own_calls

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0)
SHARED = 24
# More elements than this tell no more, and cost time.
LARGEST = 20_000


@dataclass(frozen=True)
class Call:
    """One call of an overload, on the CPU."""

    overload: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in tree_leaves((self.args, self.kwargs)) if isinstance(leaf, torch.Tensor)]

    @property
    def signature(self) -> str:
        """The key of a call: dtypes, shapes and numbers, not data."""
        return str(tree_map(_described, (self.args, self.kwargs)))

    def with_tensors(self, make: Callable[[torch.Tensor], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with something else for each tensor, and another device's name for the CPU's."""

        def other(item: Any) -> Any:
            if isinstance(item, torch.Tensor):
                return make(item)
            return torch.device("npu", 0) if isinstance(item, torch.device) else item

        args, kwargs = tree_map(other, (self.args, self.kwargs))
        return args, kwargs

    def eager(self) -> list[Any]:
        """The results of the CPU."""
        args, kwargs = tree_map(
            lambda item: item.clone() if isinstance(item, torch.Tensor) else item, (self.args, self.kwargs)
        )
        return tree_leaves(self.overload(*args, **kwargs))

    def on_host(self) -> list[Any]:
        """Return the results of eager mode on the host NPU, whose rounding does not depend on strides."""
        args, kwargs = self.with_tensors(lambda tensor: tensor.clone().npu())
        return [_back(leaf) for leaf in tree_leaves(self.overload(*args, **kwargs))]


def _described(item: Any) -> Any:
    return f"{item.dtype}{list(item.shape)}{list(item.stride())}" if isinstance(item, torch.Tensor) else repr(item)


class Noting(TorchDispatchMode):
    """Records distinct calls of some overloads, up to a number for each."""

    def __init__(self, wanted: Iterable[OpOverload], most: int) -> None:
        super().__init__()
        self.most = most
        self.calls: dict[OpOverload, dict[str, Call]] = {overload: {} for overload in wanted}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in self.calls:
            self.note(func, args, kwargs)
        return func(*args, **kwargs)

    def note(self, overload: OpOverload, args: Any, kwargs: Any) -> None:
        """Record a call unless there are enough, or the device does not support it."""
        call = Call(overload, args, kwargs)
        noted = self.calls[overload]
        if not all(_is_plain(tensor) for tensor in call.tensors) or call.signature in noted:
            return
        per_dtype = Counter(_dtype(other) for other in noted.values())
        if per_dtype[_dtype(call)] < self.most:
            args, kwargs = tree_map(
                lambda item: item.detach().clone() if isinstance(item, torch.Tensor) else item, (args, kwargs)
            )
            noted[call.signature] = Call(overload, args, kwargs)


def _dtype(call: Call) -> torch.dtype | None:
    return call.tensors[0].dtype if call.tensors else None


def _is_plain(tensor: torch.Tensor) -> bool:
    small = tensor.layout == torch.strided and not tensor.is_nested and tensor.numel() <= LARGEST
    return small and (tensor.dtype in DTYPES or tensor.dtype == torch.complex64)


def own(wanted: Sequence[OpOverload]) -> dict[OpOverload, dict[str, Call]]:
    """Return this module's own calls by key."""
    calls: dict[OpOverload, dict[str, Call]] = {overload: {} for overload in wanted}
    for overload, args, kwargs in own_calls():
        if overload in calls:
            call = Call(overload, args, kwargs)
            calls[overload][call.signature] = call
    return calls


def noted_calls(wanted: Sequence[OpOverload], most: int) -> dict[OpOverload, list[Call]]:
    """Return the calls of OpInfos for the overloads, including composite ones, and this module's own calls."""
    noting = Noting(wanted, most)
    by_name = {overload.overloadpacket.__name__.strip("_"): overload for overload in wanted}
    composite = [overload for overload in wanted if _is_composite(overload)]
    noting.calls = own(wanted)
    # Their import takes longer than most tests.
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        for dtype in DTYPES:
            if dtype in info.supported_dtypes("cpu"):
                _note_samples(noting, info, dtype, [op for op in composite if op in _named(by_name, info)])
    return {overload: list(calls.values()) for overload, calls in noting.calls.items()}


def _named(by_name: dict[str, OpOverload], info: Any) -> list[OpOverload]:
    op = by_name.get(info.name.rpartition(".")[2])
    return [] if op is None else [op]


def _is_composite(overload: OpOverload) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CompositeImplicitAutograd")


def _note_samples(noting: Noting, info: Any, dtype: torch.dtype, composite: list[OpOverload]) -> None:
    torch.manual_seed(0)
    try:
        wants_gradient = dtype.is_floating_point and info.supports_autograd
        for sample in islice(info.sample_inputs("cpu", dtype, requires_grad=wants_gradient), noting.most):
            if sum(leaf.numel() for leaf in tree_leaves(sample.input) if isinstance(leaf, torch.Tensor)) > LARGEST:
                continue
            for overload in composite:
                noting.note(overload, (sample.input, *sample.args), sample.kwargs)
            with noting:
                _backward(info.op(sample.input, *sample.args, **sample.kwargs))
    except Exception:  # the sample is none for this dtype, or wants what a build of PyTorch lacks
        return


def _backward(result: Any) -> None:
    """Make the calls of the gradients too."""
    for leaf in tree_leaves(result):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            leaf.backward(torch.ones_like(leaf), retain_graph=True)


def with_special_values(call: Call) -> Call | None:
    """Return the call with NaN, infinities and signed zeros among its values; None if it has no floats."""
    floats = [tensor for tensor in call.tensors if tensor.is_floating_point() and tensor.numel()]
    if not floats:
        return None

    def insert(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or not tensor.numel():
            return tensor
        changed = tensor.clone(memory_format=torch.contiguous_format)
        flat = changed.view(-1)
        for index, value in zip(range(0, flat.numel(), max(1, flat.numel() // 5)), SPECIAL, strict=False):
            flat[index] = value
        return changed

    args, kwargs = tree_map(
        lambda item: insert(item) if isinstance(item, torch.Tensor) else item, (call.args, call.kwargs)
    )
    return Call(call.overload, args, kwargs)


def together(calls: Sequence[Call]) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """Return one module that makes all the calls, and its input tensors; results that are views are copied."""
    graph, tensors = torch.fx.Graph(), []

    def placeholder(tensor: torch.Tensor) -> torch.fx.Node:
        tensors.append(tensor)
        return graph.placeholder(f"t{len(tensors)}")

    # Placeholders come first in a graph.
    arguments = [(call, call.with_tensors(placeholder)) for call in calls]
    results = []
    for call, (args, kwargs) in arguments:
        result = graph.call_function(call.overload, args, kwargs)
        if call.overload is torch.ops.aten._local_scalar_dense.default:  # a graph cannot return a Python number
            result = graph.call_function(torch.ops.aten.full.default, ([], result), {"dtype": call.tensors[0].dtype})
        results.append(_copied(graph, call, result) if _is_view(call.overload) else result)
    graph.output(tuple(results))
    return torch.fx.GraphModule(torch.nn.Module(), graph), tensors


def _is_view(overload: OpOverload) -> bool:
    return any(returned.alias_info is not None for returned in overload._schema.returns)


def _copied(graph: torch.fx.Graph, call: Call, result: torch.fx.Node) -> Any:
    """Copy views: AOTAutograd would create views of inputs outside of the graph."""
    clone = torch.ops.aten.clone.default
    if not isinstance(call.overload(*call.args, **call.kwargs), list | tuple):
        return graph.call_function(clone, (result,))
    items = range(len(call.eager()))
    return [graph.call_function(clone, (graph.call_function(operator.getitem, (result, at)),)) for at in items]


def compiled(calls: Sequence[Call], dynamic: bool) -> list[list[Any]]:
    """The results of each call, of one graph of all of them."""
    module, tensors = together(calls)
    torch._dynamo.reset()
    torch._dynamo.config.capture_scalar_outputs = torch._dynamo.config.capture_dynamic_output_shape_ops = True
    # Not the module: what a module says of an error runs in Dynamo, which then says another one.
    call = torch.compile(module.forward, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=dynamic)
    results = call(*(tensor.npu() for tensor in tensors))
    return [[_back(leaf) for leaf in tree_leaves(value)] for value in results]


def _back(leaf: Any) -> Any:
    return leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf


def difference(expected: list[Any], actual: list[Any]) -> str:
    """Describe the first difference of results: dtypes, shapes, or bits."""
    if len(expected) != len(actual):
        return f"{len(actual)} results for {len(expected)}"
    for one, other in zip(expected, actual, strict=True):
        if not isinstance(one, torch.Tensor):
            if not (one == other or (one != one and other != other)):
                return f"{other} for {one}"
            continue
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return f"{other.dtype}{list(other.shape)} for {one.dtype}{list(one.shape)}"
        if message := _values(one, other):
            return message
    return ""


def _values(one: torch.Tensor, other: torch.Tensor) -> str:
    if one.is_complex():
        return _values(torch.view_as_real(one), torch.view_as_real(other))
    if not one.is_floating_point():
        return "" if torch.equal(one, other) else f"{other.flatten()[:6].tolist()} for {one.flatten()[:6].tolist()}"
    wrong = (one != other) | (one.signbit() != other.signbit())
    wrong &= ~(one.isnan() & other.isnan())
    if not wrong.any():
        return ""
    index = int(wrong.flatten().nonzero()[0])
    return f"{int(wrong.sum())} of {one.numel()}: {other.flatten()[index].item()!r} for {one.flatten()[index].item()!r}"


@dataclass
class Outcome:
    """The outcome of an overload's calls in one kind of graph."""

    overload: str
    dynamic: bool
    agreed: int = 0
    failures: list[str] = field(default_factory=list)


def check(overload: OpOverload, calls: Sequence[Call], dynamic: bool, undefined: bool = False) -> Outcome:
    """Run the calls of an overload, many in a graph; where a graph fails, its calls one by one."""
    outcome = check_together(calls, dynamic, undefined)
    outcome.overload = str(overload)
    return outcome


def check_together(calls: Sequence[Call], dynamic: bool, undefined: bool = False) -> Outcome:
    """Run calls of any overloads in graphs that they share."""
    outcome = Outcome("several", dynamic)
    with_results = list(_runnable(calls))
    for start in range(0, len(with_results), SHARED):
        _check_shared(with_results[start : start + SHARED], dynamic, outcome, undefined)
    return outcome


def _runnable(calls: Iterable[Call]) -> Iterator[tuple[Call, list[Any]]]:
    """The calls that the CPU can make, and its results."""
    for call in calls:
        for variant in (call, with_special_values(call)):
            try:
                if variant is not None:
                    yield variant, variant.eager()
            except Exception:  # no call, or none with these numbers
                continue


def _check_shared(chosen: list[tuple[Call, list[Any]]], dynamic: bool, outcome: Outcome, undefined: bool) -> None:
    try:
        results = compiled([call for call, _ in chosen], dynamic)
    except Exception as error:
        if len(chosen) > 1:
            for call in chosen:
                _check_shared([call], dynamic, outcome, undefined)
        else:
            outcome.failures.append(f"{chosen[0][0].signature[:300]}: {_brief(error)}")
        return
    for (call, expected), result in zip(chosen, results, strict=True):
        mismatch = difference(_shapes(expected), _shapes(result)) if undefined else difference(expected, result)
        if mismatch and not undefined:
            mismatch = mismatch if difference(call.on_host(), result) else ""
        outcome.agreed += not mismatch
        if mismatch:
            outcome.failures.append(f"{call.signature[:300]}: {mismatch}")


def _shapes(results: list[Any]) -> list[Any]:
    return [(value.dtype, value.shape) if isinstance(value, torch.Tensor) else type(value) for value in results]


def _brief(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "not implemented" in line or "ERR" in line]
    return f"{type(error).__name__}: {' / '.join((errors or lines)[:2])[:300]}"


# Where the order of sums, or how often one is rounded, decides the last bits, and GE's nodes are not ATen's kernels.
EXPLAINED = {
    "aten.convolution_backward.default": "summed in another order than by ATen; of transposed ones in groups with "
    "padding of the result the host refuses TorchAir's node",
    "aten.native_group_norm_backward.default": "summed in another order than by ATen",
    "aten.resize_.default": "PyTorch cannot trace an input that is resized with dynamic sizes, for any backend",
}

HEADING = "## The overloads\n\n"
TABLE = "| overload | how | by | GE nodes | checked |\n|---|---|---|---|---|\n"


def write_table(page: Path, outcomes: Sequence[Outcome]) -> None:
    """Put a row for each overload at the end of a page: how it is lowered, and how many of its calls agree."""
    agreed, checked = Counter[str](), Counter[str]()
    for outcome in outcomes:
        agreed[outcome.overload] += outcome.agreed
        checked[outcome.overload] += outcome.agreed + len(outcome.failures)
    rows = []
    for row in map(lowering, core()):
        name = row.overload
        cells = (name.removeprefix("aten."), row.how, row.by, ", ".join(row.nodes))
        rows.append(f"| {' | '.join(cells)} | {agreed[name]} of {checked[name]} |\n")
    summary = f"{agreed.total()} of {checked.total()} calls agree with eager mode to the bit.\n\n"
    text = page.read_text(encoding="utf-8").partition(HEADING)[0]
    page.write_text(text + HEADING + summary + TABLE + "".join(rows), encoding="utf-8")


def _joined(reports: Sequence[Path]) -> list[Outcome]:
    """Return the outcomes of all reports; for an overload in several, the last one."""
    merged = [Outcome(**entry) for report in reports for entry in json.loads(report.read_text())]
    return list({(entry.overload, entry.dynamic): entry for entry in merged}.values())


# Whose numbers are random or not defined: only shapes and dtypes can agree.
UNDEFINED = ("rand", "randn", "randperm", "native_dropout", "empty", "empty_strided", "resize_")


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="operators to check (default: all)")
    parser.add_argument("--most", type=int, default=8, help="calls of each overload for each dtype")
    parser.add_argument("--static", action="store_true", help="no symbols for sizes")
    parser.add_argument("--dynamic", action="store_true", help="symbols for sizes alone")
    parser.add_argument("--report", type=Path, help="write what was found as JSON")
    parser.add_argument("--page", type=Path, help="write how many agree into the table of this page")
    parser.add_argument("--found", type=Path, nargs="+", help="run nothing: the page is written of these reports")
    options = parser.parse_args()
    if options.page and options.found:
        write_table(options.page, _joined(options.found))
        return 0
    if options.page and options.names:
        parser.error("--page needs all operators, or --found")
    warnings.simplefilter("ignore")
    wanted = [op for op in core() if not options.names or op.overloadpacket.__name__ in options.names]
    calls = noted_calls(wanted, options.most)
    kinds = [False] if options.static else [True] if options.dynamic else [False, True]
    outcomes = []
    for overload in wanted:
        start = time.perf_counter()
        for dynamic in kinds:
            undefined = overload.overloadpacket.__name__ in UNDEFINED
            outcome = check(overload, calls[overload], dynamic, undefined)
            outcomes.append(outcome)
            kind, seconds = "dynamic" if dynamic else "static", time.perf_counter() - start
            message = f"{outcome.agreed:4} agree, {len(outcome.failures)} do not ({seconds:.1f} s)"
            print(f"{outcome.overload:44} {kind:8} {message}", flush=True)
            for failure in outcome.failures[:3]:
                print("      ", failure, flush=True)
    agreed, failed = sum(outcome.agreed for outcome in outcomes), sum(len(outcome.failures) for outcome in outcomes)
    print(f"{agreed} of {agreed + failed} calls of {len(wanted)} overloads agree with eager mode to the bit")
    left = {outcome.overload for outcome in outcomes if outcome.failures}
    for name in sorted(left & set(EXPLAINED)):
        print(f"{name:44} {EXPLAINED[name]}")
    if options.report:
        options.report.write_text(json.dumps([vars(outcome) for outcome in outcomes], indent=1))
    if options.page:
        write_table(options.page, outcomes)
    return 0 if left <= set(EXPLAINED) else 1


if __name__ == "__main__":
    raise SystemExit(main())
