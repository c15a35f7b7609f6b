"""Compares forms of operators on npu:0 with the CPU: method, in-place, out=, numbers, 0-d, strided tensors, lists.

The samples are PyTorch's own (OpInfo). Optimizers take steps in each of their implementations.

cd tests && python -m host.variants             everything, a summary and what differs
cd tests && python -m host.variants add Adam    some operators and optimizers
"""

import argparse
import random
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import graph_quant  # noqa: F401  (makes npu:0 available)
import torch
from torch import Tensor
from torch.testing._internal.common_methods_invocations import (
    foreach_binary_op_db,
    foreach_other_op_db,
    foreach_pointwise_op_db,
    foreach_reduce_op_db,
    foreach_unary_op_db,
    op_db,
)
from torch.testing._internal.common_optimizers import OptimizerInfo, optim_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

from host.opinfo import (
    DTYPES,
    ROUNDED_AS_IN_GRAPHS,
    ROUNDING,
    UNDEFINED_VALUES,
    Outcome,
    is_strided,
    on_cpu,
    on_npu,
    same,
    seed_both,
)

FOREACH = (
    *foreach_unary_op_db,
    *foreach_binary_op_db,
    *foreach_pointwise_op_db,
    *foreach_reduce_op_db,
    *foreach_other_op_db,
)
OPERATORS = (*op_db, *FOREACH)
OPTIMIZERS = tuple(optim_db)
SAMPLES = 2
NUMBERS = {torch.bool: (True, 2), torch.uint8: (3, 0.9)}
# One number that half precision does not represent, one integer.
DEFAULT_NUMBERS = (0.9, -3)
# Neither a form of the operator nor its result is defined by PyTorch.
NO_FORMS = {
    "as_strided.partial_views": "the sample is a view into memory that does not move with it",
    "kthvalue": "of equal elements either may be named",
    "nn.functional.linear_cross_entropy.chunked": "chunks its sum by device type",
    "nn.functional.linear_cross_entropy.chunked_none": "chunks its sum by device type",
    "tensor_split": "PyTorch wants the indices on the CPU",
    "resize_": "memory that a tensor grows by is not set",
    "to_sparse": "sparse tensors are not supported",
}

# PyTorch's own CPU kernels read beyond such tensors, and end the process.
CRASHES_0D = ("segment_reduce", "_chunk_cat")

# Besides those of ROUNDED_AS_IN_GRAPHS. The CPU computes pow with another precision where no vector is full, and norms
# without weight or bias by another formula. (add and sub with alpha: host/device/add_alpha.py.)
ROUNDED_OTHERWISE = re.compile(
    r"(_foreach_)?pow|__r?pow__|float_power|native_(group|layer)_norm|grid_sampler_[23]d|nn\.functional\.grid_sample"
)

HALVES = (torch.float16, torch.bfloat16)
# Optimizers that multiply matrices or add many numbers.
SUMS = ("LBFGS", "Muon", "Adafactor")

# A call: the first argument, the others, and the keyword arguments.
Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
Form = Callable[[Call], Any]


def clone(value: Any) -> Any:
    """Copy the tensors of a call; strides stay as they are."""
    return tree_map(lambda item: item.detach().clone() if isinstance(item, Tensor) else item, value)


def _make_strided(value: Any) -> Any:
    def stride(item: Any) -> Any:
        if not isinstance(item, Tensor) or not item.dim() or item.dtype == torch.bool:
            return item
        return torch.stack((item, item), dim=-1)[..., 1]

    return tree_map(stride, value)


def _make_0d(value: Any) -> Any:
    def select(item: Any) -> Any:
        return item.flatten()[0].clone() if isinstance(item, Tensor) and item.numel() else item

    return tree_map(select, value)


def _with_number(call: Call, number: Any) -> Call | None:
    """Return the call with a Python number for its second tensor."""
    if not call[1] or not isinstance(call[1][0], Tensor) or not isinstance(call[0], Tensor):
        return None
    return call[0], (number, *call[1][1:]), call[2]


def _call_in_place(function: Callable[..., Any], call: Call) -> Any:
    first, args, kwargs = clone(call)
    shapes = [leaf.shape for leaf in tree_leaves(first) if isinstance(leaf, Tensor)]
    returned = function(first, *args, **kwargs)
    if [leaf.shape for leaf in tree_leaves(first) if isinstance(leaf, Tensor)] != shapes:
        raise RuntimeError("the CPU resized an argument that is written in place")
    return first, returned


def _call_with_out(op: OpInfo, call: Call, prepare: Callable[[Tensor], Tensor]) -> Any:
    expected = op.op(call[0], *call[1], **call[2])
    plain = isinstance(expected, Tensor)
    if not plain and not all(isinstance(item, Tensor) for item in expected):
        raise TypeError("results that are no tensors have no out=")
    out = prepare(expected) if plain else tuple(map(prepare, expected))
    seed_both(1)
    op.op(call[0], *call[1], out=out, **call[2])
    return out


def _transposed_like(result: Tensor) -> Tensor:
    if result.dim() < 2:
        return torch.empty((*result.shape, 2), dtype=result.dtype, device=result.device)[..., 0]
    return torch.empty(result.shape[::-1], dtype=result.dtype, device=result.device).permute(
        *reversed(range(result.dim()))
    )


def forms_of(op: OpInfo, call: Call, numbers: Sequence[Any]) -> Iterator[tuple[str, Form]]:
    """Yield the forms in which an operator can be called, with what calls it."""

    def function(target: Call) -> Any:
        return op.op(target[0], *target[1], **target[2])

    if op.op is not None:
        yield "function", function
        yield "strided", lambda target: function(_make_strided(target))
        if op.name not in CRASHES_0D:
            yield "0-d", lambda target: function(_make_0d(target))
    if op.method_variant is not None and op.method_variant is not op.op:
        yield "method", lambda target: op.method_variant(target[0], *target[1], **target[2])
    if op.inplace_variant is not None:
        in_place = op.inplace_variant
        yield "in place", lambda target: _call_in_place(in_place, target)
        yield "strided in place", lambda target: _call_in_place_strided(in_place, target)
        yield "0-d in place", lambda target: _call_in_place(in_place, _make_0d(target))
    if op.supports_out and op not in FOREACH:
        yield "out", lambda target: _call_with_out(op, target, torch.empty_like)
        yield "empty out", lambda target: _call_with_out(op, target, lambda result: result.new_empty(0))
        yield "strided out", lambda target: _call_with_out(op, target, _transposed_like)
    for number in numbers:
        if _with_number(call, number) is None:
            return
        yield f"number {number}", lambda target, number=number: function(_with_number(target, number))
        if op.inplace_variant is not None:
            yield (
                f"number {number} in place",
                lambda target, number=number: _call_in_place(op.inplace_variant, _with_number(target, number)),
            )
        yield f"{number} first", lambda target, number=number: op.op(number, target[0], **target[2])


def _call_in_place_strided(function: Callable[..., Any], call: Call) -> Any:
    first, args, kwargs = clone(call)
    return _call_in_place(function, (_make_strided(first), args, kwargs))


def samples(op: OpInfo, dtype: torch.dtype) -> Iterator[SampleInput]:
    """Yield the first samples of an operator; of lists some with numbers."""
    random.seed(1)
    seed_both(1)
    if op in FOREACH:
        generated = op.sample_inputs("cpu", dtype, num_input_tensors=[3], set_seed=False)
        for index, sample in enumerate(generated):
            if index % 3 == 0 and index < 24:
                sample.kwargs.pop("disable_fastpath", None)
                yield sample
        return
    yield from islice(op.sample_inputs("cpu", dtype, set_seed=False), SAMPLES)


def compare(op: OpInfo, name: str, form: Form, call: Call) -> bool:
    """Run a form on both devices: False if the CPU cannot run it, an exception if the device answers otherwise."""
    try:
        seed_both(1)
        expected = form(clone(call))
    except Exception:
        return False
    moved = on_npu(call)
    seed_both(1)
    actual = on_cpu(form(moved))
    rounded = op.name if is_rounded(op.name, call) else ""
    values = not UNDEFINED_VALUES.fullmatch(op.name)
    try:
        if "out" in name:  # out= of some CPU kernels ignores strides
            seed_both(1)
            same(form_function(op)(clone(call)), expected, values, op.name)
        same(expected, actual, values, rounded)
    except AssertionError as error:
        if rounded and _is_closer_to_double(op, form, call, expected, actual):
            return True
        if "out" in name and rounded == "":
            seed_both(1)
            same(form_function(op)(clone(call)), actual, values)
            return True
        if name not in FORMS_OF_CONTIGUOUS:
            raise AssertionError(f"{name}: {error}") from None
        # Strides decide the CPU's last bits; the host computes over contiguous memory, as an NPU does.
        seed_both(1)
        dense = FORMS_OF_CONTIGUOUS[name](op)(clone(call))
        same(dense, actual, values, rounded)
    return True


def _is_closer_to_double(op: OpInfo, form: Form, call: Call, expected: Any, actual: Any) -> bool:
    """Whether a result in half precision is at least as close to the result in double precision as the CPU's is."""
    wide = tree_map(lambda item: item.double() if isinstance(item, Tensor) and item.dtype in HALVES else item, call)
    if not isinstance(actual, Tensor) or actual.dtype not in HALVES or not ROUNDED_OTHERWISE.fullmatch(op.name):
        return False
    exact = form(clone(wide))
    return bool((actual.double() - exact).abs().max() <= (expected.double() - exact).abs().max())


def form_function(op: OpInfo) -> Form:
    return lambda target: op.op(target[0], *target[1], **target[2])


def _in_place(op: OpInfo) -> Form:
    return lambda target: _call_in_place(op.inplace_variant, target)


FORMS_OF_CONTIGUOUS: dict[str, Callable[[OpInfo], Form]] = {"strided": form_function, "strided in place": _in_place}


def is_rounded(name: str, call: Call) -> bool:
    """Whether the host rounds a call otherwise than the CPU; each such kernel states its reason."""
    if ROUNDED_AS_IN_GRAPHS.fullmatch(name) or ROUNDED_OTHERWISE.fullmatch(name):
        return True
    return name in ("add", "sub", "rsub", "_foreach_add", "_foreach_sub") and "alpha" in call[2]


def check_operator(op: OpInfo, dtypes: Sequence[torch.dtype] = DTYPES) -> Outcome:
    """Run all forms of an operator over its samples."""
    outcome = Outcome(f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name)
    failures = []
    for dtype in dtypes:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for sample in _valid_samples(op, dtype):
            call = (sample.input, sample.args, sample.kwargs)
            for name, form in forms_of(op, call, NUMBERS.get(dtype, DEFAULT_NUMBERS)):
                try:
                    outcome.agreed += compare(op, name, form, call)
                except Exception as error:
                    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
                    failures.append(f"{dtype} {name}: {type(error).__name__}: {' '.join(lines)[:300]}")
    if failures:
        outcome.failure = f"{len(failures)} forms differ, first {failures[0]}"
        outcome.failures = failures
    return outcome


def _valid_samples(op: OpInfo, dtype: torch.dtype) -> list[SampleInput]:
    drawn: list[SampleInput] = []
    with suppress(Exception):
        drawn.extend(sample for sample in samples(op, dtype) if is_strided(sample))
    return drawn


def check_optimizer(info: OptimizerInfo, dtypes: Sequence[torch.dtype] = DTYPES[:4]) -> Outcome:
    """Take three steps with each configuration and implementation of an optimizer."""
    outcome = Outcome(info.optim_cls.__name__)
    failures = []
    is_list = "foreach" in info.supported_impls
    # What npu tensors take, and what the CPU takes for the same steps: without settings NPUs update lists of tensors.
    pairs: list[tuple[dict[str, bool], dict[str, bool]]] = [({}, {"foreach": True} if is_list else {})]
    pairs += [({"foreach": flag}, {"foreach": flag}) for flag in (True, False) if is_list]
    if "fused" in info.supported_impls:
        # PyTorch's fused SGD on the CPU stores no parameters in half precision.
        loop = {"foreach": False} if info.optim_cls is torch.optim.SGD else {"fused": True}
        pairs.append(({"fused": True}, loop))
    name = info.optim_cls.__name__
    for dtype in dtypes:
        for configuration in info.optim_inputs_func("cpu"):
            for on_device, on_host in pairs:
                if {*configuration.kwargs} & {*on_device, *on_host}:
                    continue
                try:
                    expected = take_steps(info, {**configuration.kwargs, **on_host}, dtype, "cpu")
                except Exception:
                    continue
                try:
                    actual = on_cpu(take_steps(info, {**configuration.kwargs, **on_device}, dtype, "npu"))
                    _compare_steps(
                        expected, actual, dtype, exact=dtype not in HALVES and name not in SUMS and on_device == on_host
                    )
                    outcome.agreed += 1
                except Exception as error:
                    if "momentum must be positive" in str(error):
                        continue  # as torch_npu refuses fused SGD
                    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
                    label = f"{dtype} {configuration.desc} {on_device}"
                    failures.append(f"{label}: {type(error).__name__}: {' '.join(lines)[:300]}")
    if failures:
        outcome.failure = f"{len(failures)} configurations differ, first {failures[0]}"
        outcome.failures = failures
    return outcome


def _compare_steps(expected: Any, actual: Any, dtype: torch.dtype, exact: bool) -> None:
    """Raise unless parameters and states agree: to the bit, or up to the rounding of a few steps."""
    if exact:
        same(expected, actual, True)
        return
    same(expected, actual, False)
    for left, right in zip(tree_leaves(expected), tree_leaves(actual), strict=True):
        bound = max(ROUNDING[dtype], 2**-9) * max(1.0, left.double().abs().max().item())
        torch.testing.assert_close(right, left, rtol=0, atol=bound, equal_nan=True)


def take_steps(info: OptimizerInfo, settings: dict[str, Any], dtype: torch.dtype, device: str) -> list[Any]:
    """Return the parameters and the state after three steps."""
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype).to(device)

    is_search = info.optim_cls is torch.optim.LBFGS
    matrices = info.optim_cls.__name__ == "Muon"
    shapes = [(5, 7), (37, 3)] if matrices else [(5, 7), (67,), (), (2, 3, 4)]
    parameters = [torch.nn.Parameter(normal(*shape)) for shape in shapes]
    settings = {name: on_npu(value) if device == "npu" else clone(value) for name, value in settings.items()}
    optimizer = info.optim_cls(parameters, **settings)

    def closure() -> Tensor:
        for parameter in parameters:
            # LBFGS searches: its gradients are those of a function, the distance from 1/2.
            parameter.grad = parameter.detach() - 0.5 if is_search else normal(*parameter.shape)
        return sum(
            (((parameter.detach() - 0.5) ** 2).sum().float() / 2 for parameter in parameters),
            torch.zeros((), device=device),
        )

    for _ in range(3):
        optimizer.step(closure)
    if is_search:
        return [parameters]
    state = [optimizer.state[parameter] for parameter in parameters if parameter in optimizer.state]
    return [parameters, [leaf for leaf in tree_leaves(state) if isinstance(leaf, Tensor)]]


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="operators and optimizers to check (default: all)")
    parser.add_argument("--all-failures", action="store_true", help="show every form that differs")
    parser.add_argument("--verbose", action="store_true", help="name each operator on standard error before it runs")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen: list[tuple[str, Callable[[], Outcome]]] = [
        *((op.name, lambda op=op: check_operator(op)) for op in OPERATORS),
        *((info.optim_cls.__name__, lambda info=info: check_optimizer(info)) for info in OPTIMIZERS),
    ]
    chosen = [entry for entry in chosen if not arguments.names or entry[0] in arguments.names]
    count: Counter[str] = Counter()
    calls = 0
    for position, (name, check) in enumerate(chosen):
        if sys.stderr.isatty():
            print(f"\r{position + 1}/{len(chosen)} {name:40.40}", end="", file=sys.stderr, flush=True)
        if arguments.verbose:
            print(name, file=sys.stderr, flush=True)
        outcome = check()
        calls += outcome.agreed
        known = outcome.name in NO_FORMS
        count["differ" if outcome.failure and not known else "agree"] += 1
        if outcome.failure:
            print(f"{outcome.name:40} {NO_FORMS[outcome.name] if known else outcome.failure}", flush=True)
            for failure in outcome.failures if arguments.all_failures and not known else ():
                print(f"    {failure}")
    print(f"{count['agree']} of {len(chosen)} operators and optimizers agree with the CPU in every form, {calls} calls")
    return 1 if count["differ"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
