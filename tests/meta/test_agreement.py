"""Thousands of generated calls of each operator, right and wrong: inference and eager execution agree on all.

They agree on shape, dtype and strides, and on the words of a refusal. Calls are drawn near the rules'
edges: sizes from a handful of values, so that they match about as often as not, and dtypes with a wrong one
now and then.
"""

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from support.calls import packed

EXAMPLES = 2000
Draw = Callable[[st.SearchStrategy[Any]], Any]

SIZES = st.sampled_from([0, 1, 2, 3, 8, 16])
NEAR = st.integers(0, 9)


def mostly(draw: Draw, usual: Any, other: st.SearchStrategy[Any]) -> Any:
    """The usual value nine times in ten."""
    return draw(other) if draw(NEAR) == 0 else usual


def dtype(draw: Draw, *allowed: torch.dtype) -> torch.dtype:
    every = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64)
    return mostly(draw, draw(st.sampled_from(allowed)), st.sampled_from(every))


def tensor(draw: Draw, shape: tuple[int, ...], *allowed: torch.dtype) -> torch.Tensor:
    """Ones, sometimes stored the other way round: a size changed now and then, or a dimension more."""
    shape = tuple(mostly(draw, size, SIZES) for size in shape)
    shape = mostly(draw, shape, st.sampled_from([(1, *shape), shape[1:], (*shape, 1)]))
    ones = torch.ones(shape, dtype=dtype(draw, *allowed))
    return ones.mT.contiguous().mT if ones.dim() > 1 and draw(st.booleans()) else ones


def optional(draw: Draw, shape: tuple[int, ...], *allowed: torch.dtype) -> torch.Tensor | None:
    return tensor(draw, shape, *allowed) if draw(st.booleans()) else None


def group_ends(draw: Draw, groups: int, rows: int, *allowed: torch.dtype) -> torch.Tensor:
    """Values that no rule refuses, where the number of groups allows any."""
    values = [min(place + 1, rows) for place in range(groups)]
    if values:
        values[-1] = rows
    return torch.tensor(values).to(dtype(draw, *allowed))


HALVES = (torch.float16, torch.bfloat16)
FLOATS = (torch.float32, *HALVES)
DESTINATIONS = st.sampled_from(
    [None, torch.int8, torch.qint8, torch.quint4x2, torch.quint4x2, torch.quint8, torch.float32]
)


@st.composite
def group_quant(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width, groups = draw(SIZES), draw(SIZES), draw(st.sampled_from([1, 2, 3]))
    scale = tensor(draw, (groups, width), *FLOATS)
    args = tensor(draw, (rows, width), *FLOATS), scale, group_ends(draw, groups, rows, torch.int32, torch.int64)
    return args, {"offset": optional(draw, (1,), scale.dtype), "dst_dtype": draw(DESTINATIONS)}


@st.composite
def quantize(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=4)))
    divide = draw(st.booleans())
    axis = draw(st.integers(-3, 4)) if draw(NEAR) < 3 else -1
    where = axis if divide else min(axis, -1)
    length = draw(st.sampled_from([1, shape[where] if -len(shape) <= where < len(shape) else 2]))
    full = (1,) * (len(shape) - 1) + (length,) if where == -1 and draw(NEAR) < 2 else (length,)
    scales = tensor(draw, full, *((torch.float32, torch.bfloat16) if divide else FLOATS))
    kinds = (torch.int8, torch.uint8, torch.int32) if divide else (scales.dtype,)
    zero_points = optional(draw, tuple(scales.shape), *kinds)
    spellings = [torch.qint8, torch.int8, torch.quint8, torch.qint32] if divide else [torch.qint8, torch.quint4x2]
    spelling = mostly(draw, draw(st.sampled_from(spellings)), st.sampled_from([torch.float32, torch.quint4x2, 999]))
    return (tensor(draw, shape, *FLOATS), scales, zero_points, spelling, axis, divide), {}


@st.composite
def trans_quant_param(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = draw(st.sampled_from([(1,), (8,), (1, 8), (3, 8), (3, 1)]))
    other = draw(st.sampled_from([shape, (1,), (8,)]))
    round_mode = mostly(draw, draw(st.sampled_from([None, 0, 1])), st.integers(-1, 3))
    scale = tensor(draw, shape, torch.float32)
    return (scale, optional(draw, other, torch.float32), round_mode), {}


@st.composite
def dynamic(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=2, max_size=4)))
    mode = mostly(draw, draw(st.sampled_from(["pertoken", "pertensor", "perchannel"])), st.just("pergroup"))
    options = {"quant_mode": mode, "dst_type": draw(DESTINATIONS), "dst_type_max": draw(st.sampled_from([0.0, 9.0]))}
    if mostly(draw, mode == "pertoken", st.booleans()) and draw(st.booleans()):
        groups = draw(st.sampled_from([1, 2, 3]))
        rows = torch.Size(shape[:-1]).numel()
        options["smooth_scales"] = tensor(draw, (groups, shape[-1]), *HALVES)
        options["group_index"] = group_ends(draw, groups, rows, torch.int32)
    else:
        options["smooth_scales"] = optional(draw, (shape[-2 if mode == "perchannel" else -1],), *HALVES)
    return (tensor(draw, shape, *HALVES),), options


@st.composite
def quant_matmul(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    output = draw(st.sampled_from([None, torch.int8, torch.float16, torch.bfloat16, torch.int32]))
    m, k, n = draw(SIZES), draw(st.sampled_from([1, 8, 16])), draw(st.sampled_from([1, 8, 16]))
    int4 = draw(NEAR) < 3
    left = tuple(draw(st.lists(st.sampled_from([0, 1, 2]), max_size=2)))
    right = () if int4 else tuple(draw(st.lists(st.sampled_from([1, 2]), max_size=2)))
    kind = torch.int32 if int4 else torch.int8
    x1 = tensor(draw, (*left, m, k), kind)
    x2 = tensor(draw, (*right, k * 8 if int4 and draw(st.booleans()) else k, n), kind)
    columns = x2.size(-1) * 8 if int4 and x2.dim() > 1 and x1.dim() and x2.size(-2) != x1.size(-1) else n
    floating = output is torch.bfloat16 or output is torch.int32
    scale = tensor(draw, (columns,), torch.float32, *((torch.bfloat16,) if floating else ()))
    if not floating and draw(st.booleans()):
        scale = packed(mostly(draw, columns, SIZES))
    options = {
        "output_dtype": output,
        "offset": optional(draw, (columns,), torch.float32) if output in (None, torch.int8) else None,
        "pertoken_scale": optional(draw, (m,), torch.float32) if draw(NEAR) < 4 else None,
        "bias": optional(draw, (columns,), torch.int32, torch.float32) if draw(NEAR) < 5 else None,
    }
    return (x1, x2, scale), options


def outcome(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """What comes of a call: the layout of its results, or the words it is refused with."""
    try:
        results = op(*args, **kwargs)
    except RuntimeError as refusal:
        return str(refusal)
    tensors = (results,) if isinstance(results, torch.Tensor) else results
    return [(tuple(each.shape), each.dtype, each.stride()) for each in tensors]


def agrees(op: str, call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    overload = getattr(torch.ops.npu, op).default
    args, kwargs = call
    eager = outcome(overload, args, kwargs)
    with FakeTensorMode() as mode:
        fake = {
            id(each): mode.from_tensor(each) for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)
        }
        faked = tuple(fake.get(id(each), each) for each in args)
        inferred = outcome(overload, faked, {name: fake.get(id(each), each) for name, each in kwargs.items()})
    if (isinstance(eager, str) and ": group_index[" in eager) or "the last value of group_index" in str(eager):
        assert not isinstance(inferred, str), "values of an index are for eager execution to refuse"
    else:
        assert inferred == eager


def generated(op: str, calls: st.SearchStrategy[Any]) -> Callable[[], None]:
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(calls)
    def check(call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        agrees(op, call)

    return check


test_group_quant = generated("npu_group_quant", group_quant())
test_quantize = generated("npu_quantize", quantize())
test_trans_quant_param = generated("npu_trans_quant_param", trans_quant_param())
test_dynamic_quant_asymmetric = generated("npu_dynamic_quant_asymmetric", dynamic())
test_dynamic_quant = generated("npu_dynamic_quant", dynamic())
test_quant_matmul = generated("npu_quant_matmul", quant_matmul())
