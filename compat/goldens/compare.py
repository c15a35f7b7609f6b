"""One golden against one kernel: `tests/assets/*golden.py` of a checkout names a function for each GE op type.

A golden takes the inputs of its op type as NumPy arrays by position, and the attributes by name; so does a kernel of
the host, with tensors. Where the golden has cases of its own for Ascend 950 and the kernel is described for that chip,
they run as that chip does; else both get the same uniform samples, with all inputs of one shape.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graph_quant import chip
from graph_quant.ge import KERNELS, TO_ATTRIBUTE, facts, stored_dtype
from torch import Tensor

from .cases import Case, read_cases, sample, to_tensor

SHAPE = (4, 32)
# Inputs of another shape, by op type and input.
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "DeepNorm": {"gamma": (32,), "beta": (32,)},
    "ThresholdV2": {"threshold": (1,), "value": (1,)},
}
# Op types whose inputs have dependent shapes or values, that no uniform sample is a valid call of.
NOT_SAMPLED = ("BNInferGrad", "DeepNormGrad")
# Goldens of a kernel that another chip has.
OTHER_KERNELS = {"Gelu": "of Ascend 950's kernel, which approximates with tanh; GE's operator is exact"}
DTYPES = (torch.float32, torch.float16)
# Of the largest number in a result: what a few roundings in another order may change.
CLOSE = {torch.float32: 2**-18, torch.float16: 2**-8, torch.bfloat16: 2**-6}
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
    """Yield op type, file and function name of every golden that has a kernel here."""
    by_letters = {name.lower(): name for name in KERNELS}
    for path in sorted(checkout.glob("**/tests/assets/*golden.py")):
        for title, function in _declared(path):
            name = by_letters.get(title.replace("_", "").lower())
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
    cases: list[Case] = []
    if chip.ASCEND_950 in KERNELS[name].chips:
        titles = [title for title, declared in _declared(path) if declared == function]
        cases = [case for title in titles for case in read_cases(path, title)]
    if cases:
        with chip.use(chip.ASCEND_950):
            verdicts = [_compare_case(name, golden, case) for case in cases]
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
    kernel = KERNELS[name]
    inputs = [entry for entry in kernel.inputs if not entry.is_optional]
    if name in OTHER_KERNELS:
        return Result(name, Verdict.NOT_RUN, OTHER_KERNELS[name])
    if name in NOT_SAMPLED:
        return Result(name, Verdict.NOT_RUN, "needs inputs of its own")
    if any(entry.is_size or entry.is_dynamic for entry in inputs) or kernel.returns_sizes:
        return Result(name, Verdict.NOT_RUN, "takes sizes or lists")
    generator = torch.Generator().manual_seed(1)
    shapes = [SHAPES.get(name, {}).get(entry.name, SHAPE) for entry in inputs]
    tensors = [torch.rand(shape, generator=generator).sub(0.5).mul(4).to(dtype) for shape in shapes]
    named = inspect.signature(golden).parameters
    positional = [p for p in named.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    if not len(required) <= len(tensors) <= len(positional):
        return Result(name, Verdict.NOT_RUN, f"the golden takes {len(required)} inputs, the kernel {len(tensors)}")
    context = {"input_dtypes": [str(dtype).removeprefix("torch.")] * len(tensors)}
    accepts_all = any(p.kind is p.VAR_KEYWORD for p in named.values())
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = golden(*(tensor.numpy().copy() for tensor in tensors), **(context if accepts_all else {}))
    except Exception as error:
        return Result(name, Verdict.NOT_RUN, f"the golden refuses such inputs: {error}")
    try:
        actual = kernel.function(*(tensor.clone() for tensor in tensors))
    except Exception as error:
        return Result(name, Verdict.REFUSED, f"{type(error).__name__}: {error}".splitlines()[0][:120])
    return _judge(name, dtype, expected, actual)


def _compare_case(name: str, golden: Callable[..., Any], case: Case) -> Result:
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
    first = actual[0] if isinstance(actual, (list, tuple)) else actual
    result = _judge(name, first.dtype, expected, actual)
    reason = f"{case.name}: {result.reason}" if result.reason else "its own cases"
    return Result(name, result.verdict, reason)


def _judge(name: str, dtype: torch.dtype, expected: Any, actual: Any) -> Result:
    wanted = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    results = list(actual) if isinstance(actual, (list, tuple)) else [actual]
    if len(wanted) > len(results):  # goldens leave out results that a mode does not define
        return Result(name, Verdict.NOT_RUN, f"{len(results)} results for {len(wanted)} of the golden")
    verdict = Verdict.EXACT
    for one, other in zip(wanted, results, strict=False):
        array = np.asarray(one)
        if (
            array.dtype.name.startswith(_CODES)
            and isinstance(other, Tensor)
            and other.dtype is stored_dtype(array.dtype.name)
        ):
            differing = int((array.view(np.uint8) != other.view(torch.uint8).reshape(array.shape).numpy()).sum())
            if differing:
                return Result(name, Verdict.WRONG, f"{differing} of {array.size} codes of {array.dtype} differ")
            continue
        if array.dtype.name in ("bfloat16", "int4"):
            array = array.astype(np.float32)
        if array.dtype.kind not in "biufc" or array.dtype.name not in _NATIVE:
            return Result(name, Verdict.NOT_RUN, f"a result of {array.dtype}")
        left = torch.as_tensor(array)
        if isinstance(other, Tensor) and left.dim() < 2 and left.numel() == other.numel():
            left = left.reshape(other.shape)  # some goldens flatten or squeeze
        if not isinstance(other, Tensor) or left.shape != other.shape:
            return Result(name, Verdict.WRONG, f"shape {list(getattr(other, 'shape', ()))} for {list(left.shape)}")
        if torch.equal(left.to(other.dtype), other):
            continue
        distance = (left.double() - other.double()).abs().nan_to_num(0).max().item()
        largest = left.double().abs().nan_to_num(0, 0, 0).max().item()
        if not math.isfinite(distance) or distance > CLOSE.get(dtype, 0) * max(largest, 1e-30):
            return Result(name, Verdict.WRONG, f"{dtype}: differs by {distance:.3g} of {largest:.3g}")
        verdict = Verdict.CLOSE
    return Result(name, verdict)
