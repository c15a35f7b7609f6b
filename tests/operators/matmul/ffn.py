"""Calls of npu_ffn."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from operators.matmul.grouped_data import Data
from support.arrays import Array, as_bf16, exp, numbers, rounded
from support.call_strategies import Draw
from support.call_table import Call, Case, Statement, bad, good, packed
from support.tensors import bf16, f16, f32, i8, nz, small32

OP = "ffn"
HALF: dict[str, Any] = {"x": f16(3, 16), "weight1": f16(16, 32), "weight2": f16(32, 16), "activation": "gelu"}
BF16: dict[str, Any] = {"x": bf16(3, 16), "weight1": bf16(16, 32), "weight2": bf16(32, 16), "activation": "silu"}
GATED: dict[str, Any] = HALF | {"weight2": f16(16, 16), "activation": "geglu", "inner_precise": 1}
EXPERTS: dict[str, Any] = HALF | {"weight1": f16(2, 16, 32), "weight2": f16(2, 32, 16), "expert_tokens": [1, 2]}
WEIGHTS: dict[str, Any] = {"weight1": i8(16, 32), "weight2": i8(32, 16)}
ANTIQUANT: dict[str, Any] = (
    HALF
    | WEIGHTS
    | {
        "antiquant_scale1": f16(32),
        "antiquant_scale2": f16(16),
        "antiquant_offset1": f16(32),
        "antiquant_offset2": f16(16),
    }
)
QUANT: dict[str, Any] = WEIGHTS | {
    "x": i8(3, 16),
    "activation": "relu",
    "scale": f32(1),
    "offset": f32(1),
    "deq_scale1": packed(32),
    "deq_scale2": packed(16),
}
OF_EXPERTS: dict[str, Any] = QUANT | {
    "weight1": i8(2, 16, 32),
    "weight2": i8(2, 32, 16),
    "expert_tokens_index": [0, 3],
    "scale": f32(2, 32),
    "offset": f32(2),
    "deq_scale1": packed(32, rows=2),
    "deq_scale2": packed(16, rows=2),
    "bias1": small32(2, 32),
    "bias2": small32(2, 16),
}


def of(make: Any, form: dict[str, Any], **changes: Any) -> Call:
    options = form | changes
    args = [options.pop(name) for name in ("x", "weight1", "weight2", "activation")]
    call: Call = make(*args, **options)
    return call


def right(label: str, form: dict[str, Any], **changes: Any) -> Call:
    return of(lambda *args, **kwargs: good(OP, label, *args, **kwargs), form, **changes)


def wrong(argument: str, label: str, form: dict[str, Any], **changes: Any) -> Call:
    return of(lambda *args, **kwargs: bad(OP, argument, label, *args, **kwargs), form, **changes)


GOOD = [
    right("float16", HALF),
    right("float16, fast", HALF, inner_precise=1, activation="fastgelu", bias1=f16(32), bias2=f16(16)),
    right("bfloat16", BF16, x=bf16(2, 3, 16), bias1=f32(32), bias2=f32(16)),
    right("geglu", GATED),
    right("swiglu", GATED, activation="swiglu", bias1=f16(32)),
    right("reglu", GATED, activation="reglu"),
    right("experts", EXPERTS),
    right("where experts end", EXPERTS, expert_tokens=None, expert_tokens_index=[3, 3]),
    right("int8 weights", ANTIQUANT),
    right(
        "int8 weights of bfloat16",
        ANTIQUANT,
        x=bf16(3, 16),
        bias1=f32(32),
        **{name: value.bfloat16() for name, value in ANTIQUANT.items() if name.startswith("antiquant")},
    ),
    right("int8", QUANT, bias1=small32(32), inner_precise=1),
    right("int8, float scales", QUANT, deq_scale1=f32(32), deq_scale2=f32(16), output_dtype=torch.float16),
    right("int8 to bfloat16", QUANT, deq_scale1=bf16(32), deq_scale2=bf16(16), output_dtype=torch.bfloat16),
    right("int8, a scale a column", QUANT, scale=f32(32)),
    right("int8 experts", OF_EXPERTS),
    right("no rows", HALF, x=f16(0, 16)),
]
WRONG = [
    wrong("x", "x float32", HALF, x=f32(3, 16)),
    wrong("x", "x of one dimension", HALF, x=f16(16)),
    wrong("weight1", "weights of another dtype", HALF, weight1=bf16(16, 32)),
    wrong("weight2", "weights apart", HALF, weight2=i8(32, 16)),
    wrong("activation", "another activation", HALF, activation="tanh"),
    wrong("inner_precise", "inner_precise 2", HALF, inner_precise=2),
    wrong("inner_precise", "fast bfloat16", BF16, inner_precise=1),
    wrong("activation", "a precise gate", GATED, inner_precise=0),
    wrong("expert_tokens", "rows of experts twice", EXPERTS, expert_tokens_index=[1, 3]),
    wrong("expert_tokens", "257 experts", EXPERTS, expert_tokens=[0] * 257),
    wrong("expert_tokens", "fewer than no rows", EXPERTS, expert_tokens=[-1, 4]),
    wrong("expert_tokens_index", "ends that fall", EXPERTS, expert_tokens=None, expert_tokens_index=[4, 3]),
    wrong("expert_tokens", "rows left", EXPERTS, expert_tokens=[1, 1]),
    wrong("weight1", "weights without experts", EXPERTS, weight1=f16(16, 32)),
    wrong("weight1.size(0)", "weights of another expert", EXPERTS, weight1=f16(3, 16, 32)),
    wrong("weight1.size(-2)", "another depth", HALF, weight1=f16(8, 32)),
    wrong("weight2.size(-1)", "another width", HALF, weight2=f16(32, 8)),
    wrong("weight1.size(-1)", "weights that do not meet", HALF, weight1=f16(16, 64)),
    wrong("weight1.size(-1)", "a gate without its half", GATED, weight2=f16(32, 16)),
    wrong("x.size(-1)", "too deep", HALF, x=f16(1, 65536), weight1=f16(65536, 1), weight2=f16(1, 65536)),
    wrong("output_dtype", "int8 to float32", QUANT, output_dtype=torch.float32),
    wrong("bias1", "bias of another dtype", BF16, bias1=bf16(32)),
    wrong("bias1.size(0)", "bias of fewer columns", HALF, bias1=f16(16)),
    wrong("bias2", "bias of two dimensions", HALF, bias2=f16(1, 16)),
    wrong("scale", "scale of float16", HALF, scale=f32(1)),
    wrong("scale", "no scale", QUANT, scale=None),
    wrong("scale", "half scale", QUANT, scale=f16(1)),
    wrong("scale.size(0)", "a scale too few", QUANT, scale=f32(31)),
    wrong("offset", "no offset", QUANT, offset=None),
    wrong("offset.size(0)", "offsets of columns", QUANT, offset=f32(32)),
    wrong("deq_scale1", "no deq_scale", QUANT, deq_scale1=None),
    wrong("deq_scale1", "a bfloat16 scale to float16", QUANT, deq_scale1=bf16(32), deq_scale2=bf16(16)),
    wrong("deq_scale1", "float scales by column", QUANT, scale=f32(32), deq_scale1=f32(32), deq_scale2=f32(16)),
    wrong("deq_scale1.size(0)", "a deq_scale too few", QUANT, deq_scale1=packed(16)),
    wrong("deq_scale2", "deq_scales apart", QUANT, deq_scale2=f32(16)),
    wrong("antiquant_scale1", "no antiquant_scale", ANTIQUANT, antiquant_scale1=None),
    wrong("antiquant_offset2", "no antiquant_offset", ANTIQUANT, antiquant_offset2=None),
    wrong("antiquant_scale2", "antiquant_scale of another dtype", ANTIQUANT, antiquant_scale2=bf16(16)),
    wrong("antiquant_offset1.size(0)", "antiquant_offset short", ANTIQUANT, antiquant_offset1=f16(16)),
    wrong("antiquant_scale1", "antiquant_scale of float16 weights", HALF, antiquant_scale1=f16(32)),
]
WRONG_FORMATS = [
    wrong(name, f"{name} in FRACTAL_NZ", HALF, **{name: nz(HALF[name])}) for name in ("x", "weight1", "weight2")
]


def golden(form: dict[str, Any]) -> Case:
    names = [name for name, value in form.items() if isinstance(value, torch.Tensor)]
    rest = {name: value for name, value in form.items() if name not in names}

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_ffn(**dict(zip(names, tensors, strict=True)), **rest)

    return call, tuple(form[name] for name in names)


GOLDEN = {"ffn": golden(EXPERTS), "ffn-int8": golden(QUANT)}


def act(h: Array, name: str) -> Array:
    if name in ("geglu", "swiglu", "reglu"):
        left, right = np.split(h, 2, -1)
        return left * act(right, {"geglu": "gelu", "swiglu": "silu", "reglu": "relu"}[name])
    if name == "relu":
        return np.maximum(h, 0)
    if name == "gelu":
        return h / (np.float32(1) + exp((h + h * h * h * np.float32(0.044715)) * np.float32(-1.5957691)))
    return h / (np.float32(1) + exp(h * np.float32(-1.702 if name == "fastgelu" else -1)))


def away(h: Array, dtype: torch.dtype) -> Array:
    """Rounded half away from zero."""
    if dtype == torch.bfloat16:
        bits = np.asarray(h, np.float32).view(np.uint32)
        return ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)
    near = h.astype(np.float16)
    next_ = np.nextafter(near, np.where(h < 0, np.float16(-np.inf), np.float16(np.inf)))
    wide = np.abs(h.astype(np.float64))
    is_tie = (np.abs(near) < wide) & (np.abs(next_) - wide == wide - np.abs(near))
    return np.where(is_tie, next_, near).astype(np.float32)


def weight(arguments: dict[str, Any], layer: int, dtype: torch.dtype) -> Array:
    whole = numbers(arguments[f"weight{layer}"])
    if arguments.get("antiquant_scale1") is None:
        return whole
    offset, scale = numbers(arguments[f"antiquant_offset{layer}"]), numbers(arguments[f"antiquant_scale{layer}"])
    if dtype == torch.bfloat16:
        return as_bf16((whole.astype(np.float32) + offset) * scale)
    return ((whole.astype(np.float16) + offset.astype(np.float16)) * scale.astype(np.float16)).astype(np.float32)


def one_expert(arguments: dict[str, Any], name: str, fast: bool) -> Array:
    """Both layers of one expert, from the text of the kernels."""
    x, dtype = numbers(arguments["x"]), arguments["x"].dtype
    bias1, bias2 = (
        0 if arguments.get(argument) is None else numbers(arguments[argument]) for argument in ("bias1", "bias2")
    )
    if dtype == torch.int8:
        acc = x.astype(np.int64) @ numbers(arguments["weight1"]).astype(np.int64) + bias1
        to = arguments.get("output_dtype") or torch.float16
        h = rounded(
            acc.astype(np.float32) * scales(arguments["deq_scale1"]), torch.float32 if to != torch.float16 else to
        )
        half = act(h, name).astype(np.float16) * numbers(arguments["scale"]).astype(np.float16)
        q = np.clip(np.rint((half + numbers(arguments["offset"]).astype(np.float16)).astype(np.float32)), -128, 127)
        acc = np.nan_to_num(q).astype(np.int64) @ numbers(arguments["weight2"]).astype(np.int64) + bias2
        return rounded(acc.astype(np.float32) * scales(arguments["deq_scale2"]), to)
    h = x @ weight(arguments, 1, dtype) + bias1
    if dtype == torch.float16 and (fast or arguments.get("antiquant_scale1") is not None):
        h = rounded(act(rounded(h, dtype), name), dtype)
    else:
        h = away(act(h, name), dtype)
    return rounded((h.astype(np.float64) @ weight(arguments, 2, dtype) + bias2).astype(np.float32), dtype)


def scales(scale: torch.Tensor) -> Array:
    if scale.dtype == torch.bfloat16:
        return numbers(scale)
    bits = scale.numpy().view(np.uint32) if scale.dtype == torch.float32 else scale.numpy() & 0xFFFFFFFF
    return (bits.astype(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def expected(x: torch.Tensor, weight1: torch.Tensor, weight2: torch.Tensor, activation: str, **options: Any) -> Array:
    tokens, fast = options.pop("expert_tokens", None), options.pop("inner_precise", 0) == 1
    arguments = {"weight1": weight1, "weight2": weight2, **options}
    with np.errstate(all="ignore"):
        if tokens is None:
            return one_expert({"x": x, **arguments}, activation, fast)
        parts = [
            one_expert(
                {"x": rows} | {n: e[expert] if isinstance(e, torch.Tensor) else e for n, e in arguments.items()},
                activation,
                fast,
            )
            for expert, rows in enumerate(x.split(tokens))
        ]
        return np.concatenate(parts)


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Sums of eighths are exact in float32 in the first layer, and within a bit of the result in the second."""
    data = Data(draw)
    form, dtype = data.one_of("float", "antiquant", "quant"), data.one_of(torch.float16, torch.bfloat16)
    experts = data.one_of(None, None, 2)
    lead = () if experts is None else (experts,)
    k, hidden, rows = data.one_of(1, 8), data.one_of(1, 4, 9), data.one_of(0, 1, 5)
    options: dict[str, Any] = {} if experts is None else {"expert_tokens": [rows // 2, rows - rows // 2]}
    activation = data.one_of("gelu", "fastgelu", "relu", "silu")
    wide = hidden
    if form == "float" and dtype == torch.float16:
        options["inner_precise"] = data.one_of(0, 1)
        if experts is None and options["inner_precise"] == 1 and data.one_of(True, False):
            activation, wide = data.one_of("geglu", "swiglu", "reglu"), 2 * hidden
    sizes = (wide, k)
    if form == "quant":
        x, first, second = data.int8(rows, k), data.int8(*lead, k, wide), data.int8(*lead, hidden, k)
        by_column = wide > 1 and data.one_of(True, False)
        single = lead or (1,)
        options |= {
            "scale": data.powers(torch.float32, *lead, wide) if by_column else data.powers(torch.float32, *single)
        }
        options |= {"offset": data.halves(torch.float32, *single), "output_dtype": dtype}
        for layer, size in enumerate(sizes, 1):
            wanted = data.floats(torch.bfloat16 if dtype == torch.bfloat16 else torch.float32, *lead, size)
            is_packed = dtype == torch.float16 and by_column
            options[f"deq_scale{layer}"] = data.params(*lead, size) if is_packed else wanted
            options[f"bias{layer}"] = data.int32(*lead, size, low=-99, high=99)
        return (x, first, second, activation), options
    x = data.eighths(dtype, rows, k)
    for layer, size in enumerate(sizes, 1):
        options[f"bias{layer}"] = data.eighths(dtype if dtype == torch.float16 else torch.float32, *lead, size)
    if form == "antiquant":
        for layer, size in enumerate(sizes, 1):
            options[f"antiquant_scale{layer}"] = data.powers(dtype, *lead, size)
            options[f"antiquant_offset{layer}"] = data.halves(dtype, *lead, size)
        return (x, data.int8(*lead, k, wide), data.int8(*lead, hidden, k), activation), options
    return (x, data.eighths(dtype, *lead, k, wide), data.eighths(dtype, *lead, hidden, k), activation), options


# The second product's order of summation: a bit of bfloat16.
STATEMENTS = {f"npu_{OP}": Statement(expected, calls(), bound=2**-8)}
