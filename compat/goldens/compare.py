"""One golden against one kernel: `tests/assets/*golden.py` of a checkout names a function for each GE op type.

A golden takes the inputs of its op type as NumPy arrays by position, and the attributes by name; so does a kernel of
the host, with tensors. Where the golden has cases of its own for Ascend 950 and the kernel is described for that chip,
they run as that chip does. Else both get the same call: the one that `cases.py` has for the op type, or uniform samples
with all inputs of one shape.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graph_quant import chip
from graph_quant.ge import KERNELS, TO_ATTRIBUTE, Sizes, facts, stored_dtype
from torch import Tensor

from .authors_cases import AuthorsCase, read_cases, sample, to_tensor
from .cases import CASES, Case, Samples

SHAPE = (4, 32)
# Inputs of another shape, by op type and input.
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "DeepNorm": {"gamma": (32,), "beta": (32,)},
    "ThresholdV2": {"threshold": (1,), "value": (1,)},
}
# Operators without a GE node, by the names of their goldens.
OPERATORS = {
    "grouped_matmul_add": "npu_grouped_matmul_add",
    "moe_gating_top_k_backward": "npu_moe_gating_top_k_backward",
}
# Goldens that are not of the kernel of the same name on A2 and A3.
OTHER_KERNELS = {
    **dict.fromkeys(
        (
            "AllGatherMatmul",
            "AllGatherMatmulV2",
            "AlltoAllvGroupedMatMul",
            "GroupedMatMulAlltoAllv",
            "MatmulAllReduce",
            "MatmulReduceScatter",
            "MatmulReduceScatterV2",
        ),
        "a collective, whose golden is the product of one rank alone",
    ),
    "GeluGrad": "of Ascend 950's kernel, which approximates with tanh; GE's operator is exact",
    "Gelu": "of Ascend 950's kernel, which approximates with tanh; GE's operator is exact",
    "DynamicBlockQuant": "of Ascend 950's kernel, whose results are float8",
    "DynamicMxQuant": "of Ascend 950's kernel, whose results are float8 and float4",
    "GroupedMatmulFinalizeRouting": "of Ascend 950's kernel, whose scales are of groups of 32",
}
DTYPES = (torch.float32, torch.float16)
# Of the largest number in a result: what a few roundings in another order may change.
CLOSE = {torch.float32: 2**-18, torch.float16: 2**-8, torch.bfloat16: 2**-6}
# Of integers, one in a hundred may be the next one: where a rounding goes the other way.
CLOSE_INTEGERS = 0.01
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NATIVE = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64")
# Results that are compared code by code.
_CODES = ("float8", "float4", "hifloat8")


class Verdict(Enum):
    """What became of one golden."""

    EXACT = "exact"
    CLOSE = "close"
    WRONG = "wrong"
    REFUSED = "refused"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Result:
    """The verdict on one op type, and its reason."""

    type: str
    verdict: Verdict
    reason: str = ""


def find_goldens(checkout: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield op type, file and function name of every golden that has a kernel here, or an operator."""
    by_letters = {name.lower(): name for name in KERNELS}
    for path in sorted(checkout.glob("**/tests/assets/*golden.py")):
        for title, function in _declared(path):
            name = by_letters.get(title.replace("_", "").lower(), OPERATORS.get(title))
            if name is not None:
                yield name, path, function


def _declared(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what ``__golden__`` or ``__spec__`` declares, without running the file."""
    try:
        body = ast.parse(path.read_text(encoding="utf-8")).body
    except SyntaxError:
        return  # one public golden does not parse
    for node in body:
        if not isinstance(node, ast.Assign):
            continue
        names = {getattr(target, "id", "") for target in node.targets}
        if "__golden__" in names:
            yield from ast.literal_eval(node.value).get("kernel", {}).items()
        elif "__spec__" in names and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield str(key.value), value.id if isinstance(value, ast.Name) else ast.literal_eval(value)


def compare(name: str, path: Path, function: str) -> Result:
    """Run a golden and the kernel of its op type on the same inputs."""
    try:
        golden = _load(path, function)
    except Exception as error:
        return Result(name, Verdict.NOT_RUN, f"the golden does not load: {error}")
    cases: list[AuthorsCase] = []
    kernel = KERNELS.get(name)
    # Kernels of PyTorch's operators compute the same on every chip.
    if kernel is not None and kernel.chips != chip.CHIPS and chip.ASCEND_950 in kernel.chips:
        titles = [title for title, declared in _declared(path) if declared == function]
        cases = [case for title in titles for case in read_cases(path, title)]
    if cases:
        with chip.use(chip.ASCEND_950):
            verdicts = [_compare_authors_case(name, golden, case) for case in cases]
    else:
        verdicts = [_compare_dtype(name, golden, dtype) for dtype in DTYPES]
    ran = [result for result in verdicts if result.verdict is not Verdict.NOT_RUN]
    worst = [Verdict.EXACT, Verdict.CLOSE, Verdict.REFUSED, Verdict.WRONG]
    return max(ran, key=lambda result: worst.index(result.verdict)) if ran else verdicts[0]


def _load(path: Path, function: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location(f"golden_{path.parents[2].name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    golden: Callable[..., Any] = getattr(module, function)
    return getattr(golden, "golden", golden)  # a spec is a class with a golden


def _compare_dtype(name: str, golden: Callable[..., Any], dtype: torch.dtype) -> Result:
    if name in OTHER_KERNELS:
        return Result(name, Verdict.NOT_RUN, OTHER_KERNELS[name])
    case = CASES[name](Samples(dtype)) if name in CASES else _sample(name, golden, dtype)
    if case is None:
        return Result(name, Verdict.NOT_RUN, f"the op type does not take {dtype}")
    if isinstance(case, str):
        return Result(name, Verdict.NOT_RUN, case)
    try:
        computed = _function(name)(*map(_copied, case.inputs), **case.attributes)
    except Exception as error:
        if name not in CASES:
            return Result(name, Verdict.NOT_RUN, f"uniform samples are no call of it: {error}")
        return Result(name, Verdict.REFUSED, f"{type(error).__name__}: {error}".splitlines()[0][:120])
    actual = _as_list(computed)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = _call(golden, case, actual)
    except Exception as error:
        return Result(name, Verdict.NOT_RUN, f"the golden refuses such inputs: {type(error).__name__}: {error}")
    wanted = _as_list(expected)
    if len(wanted) == len(actual) and case.results is not None:
        wanted, actual = ([values[index] for index in case.results] for values in (wanted, actual))
    return _judge(name, dtype, wanted, actual)


def _compare_authors_case(name: str, golden: Callable[..., Any], case: AuthorsCase) -> Result:
    """Run a case of the authors; the reason says its name."""
    kernel = KERNELS[name]
    try:
        arrays = sample(case)
        tensors = [None if array is None else to_tensor(array.copy()) for array in arrays]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = golden(*arrays, **case.attributes, **case.context())
    except Exception as error:
        return Result(name, Verdict.NOT_RUN, f"the golden refuses {case.name}: {error}")
    attributes = {key: value for key, value in case.attributes.items() if key not in facts(name).idle}
    if "dtype" in attributes:  # these files leave it at 1, and say the result's dtype apart
        attributes["dtype"] = TO_ATTRIBUTE[case.output_dtypes[0]]
    accepted = len(inspect.signature(kernel.function).parameters) - len(kernel.attributes)
    try:
        actual = kernel.function(*tensors[:accepted], **attributes)
    except Exception as error:
        reason = f"{case.name}: {type(error).__name__}: {error}"
        return Result(name, Verdict.REFUSED, reason.splitlines()[0][:160])
    results, wanted = _as_list(actual), _as_list(expected)
    # Goldens leave out results that a mode does not define.
    result = _judge(name, results[0].dtype, wanted, results[: len(wanted)])
    reason = f"{case.name}: {result.reason}" if result.reason else "its own cases"
    return Result(name, result.verdict, reason)


def _function(name: str) -> Callable[..., Any]:
    """The kernel of an op type, or the operator on tensors of the CPU."""
    return getattr(torch.ops.npu, name) if name in OPERATORS.values() else KERNELS[name].function


def _sample(name: str, golden: Callable[..., Any], dtype: torch.dtype) -> Case | str:
    """Uniform samples for all required inputs, or the reason why there can be none."""
    kernel = KERNELS[name]
    inputs = [entry for entry in kernel.inputs if not entry.is_optional]
    if any(entry.is_size or entry.is_dynamic for entry in inputs) or kernel.returns_sizes:
        return "takes sizes or lists"
    positional = [p for p in inspect.signature(golden).parameters.values() if p.kind in _POSITIONAL]
    required = [p for p in positional if p.default is p.empty]
    if not len(required) <= len(inputs) <= len(positional):
        return f"the golden takes {len(required)} inputs, the kernel {len(inputs)}"
    new = Samples(dtype)
    return Case(tuple(new(*SHAPES.get(name, {}).get(entry.name, SHAPE)) for entry in inputs))


def _call(golden: Callable[..., Any], case: Case, results: Sequence[Any]) -> Any:
    """The results of the golden, which also gets the keywords of its test framework if it takes them."""
    inputs = case.inputs if case.golden_inputs is None else case.golden_inputs
    attributes = dict(case.attributes)
    if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(golden).parameters.values()):
        for kind, values in (("input", inputs), ("output", results)):
            tensors = [value for value in values if isinstance(value, Tensor)]
            attributes[f"{kind}_dtypes"] = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
            attributes[f"{kind}_formats"] = ["ND"] * len(tensors)
            attributes[f"{kind}_ori_shapes"] = [tuple(tensor.shape) for tensor in tensors]
        attributes |= {"short_soc_version": "Ascend910B", "full_soc_version": "Ascend910B3"}
    return golden(*(_as_array(value) for value in inputs), **attributes)


def _as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value.clone() if isinstance(value, Tensor) else value


def _as_array(value: Any) -> Any:
    if isinstance(value, Sizes):
        return np.asarray(value.items)
    if isinstance(value, list):
        return [_as_array(item) for item in value]
    return value.numpy().copy() if isinstance(value, Tensor) else value


def _judge(name: str, dtype: torch.dtype, wanted: Sequence[Any], results: Sequence[Any]) -> Result:
    if len(wanted) != len(results):
        return Result(name, Verdict.NOT_RUN, f"{len(results)} results for {len(wanted)} of the golden")
    verdict = Verdict.EXACT
    for one, other in zip(wanted, results, strict=True):
        array = np.asarray(one)
        if array.dtype.name.startswith(_CODES) and _holds_codes(other, array.dtype.name):
            differing = int((array.view(np.uint8) != other.view(torch.uint8).reshape(array.shape).numpy()).sum())
            if differing:
                return Result(name, Verdict.WRONG, f"{differing} of {array.size} codes of {array.dtype} differ")
            continue
        if array.dtype.name in ("bfloat16", "int4"):
            array = array.astype(np.float32)
        if array.dtype.kind not in "biufc" or array.dtype.name not in _NATIVE:
            return Result(name, Verdict.NOT_RUN, f"a result of {array.dtype}")
        left = torch.as_tensor(array)
        if isinstance(other, Tensor) and _is_flattened(left, other):
            left = left.reshape(other.shape)
        if not isinstance(other, Tensor) or left.shape != other.shape:
            return Result(name, Verdict.WRONG, f"shape {list(getattr(other, 'shape', ()))} for {list(left.shape)}")
        if torch.equal(left.to(other.dtype), other):
            continue
        reason = _difference(left, other, dtype)
        if reason:
            return Result(name, Verdict.WRONG, reason)
        verdict = Verdict.CLOSE
    return Result(name, verdict)


def _holds_codes(result: Any, dtype: str) -> bool:
    return isinstance(result, Tensor) and result.dtype is stored_dtype(dtype)


def _is_flattened(left: Tensor, right: Tensor) -> bool:
    """Whether shapes differ by dimensions of one element, or because some goldens flatten their results."""
    if left.numel() != right.numel():
        return False
    return min(left.dim(), right.dim()) <= 1 or left.squeeze().shape == right.squeeze().shape


def _difference(left: Tensor, right: Tensor, dtype: torch.dtype) -> str:
    """What differs by more than a rounding; an empty text if nothing does."""
    apart = (left.double() - right.double()).abs().nan_to_num(0)
    distance, largest = apart.max().item(), left.double().abs().nan_to_num(0, 0, 0).max().item()
    if not right.is_floating_point():
        share = (apart != 0).double().mean().item()
        is_close = distance <= 1 and share <= CLOSE_INTEGERS
        return "" if is_close else f"{dtype}: {share:.0%} of the integers differ, by {distance:.0f} at most"
    is_close = math.isfinite(distance) and distance <= CLOSE.get(dtype, 0) * max(largest, 1e-30)
    return "" if is_close else f"{dtype}: differs by {distance:.3g} of {largest:.3g}"
