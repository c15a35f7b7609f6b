"""Calls of npu_nsa_compress, of its gradient and of its form for caches."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, tensor
from support.call_table import Statement, bad
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32

OP, BACK, CACHED = "nsa_compress", "nsa_compress_grad", "nsa_compress_infer.cache"
ENDS = [5, 60, 108]


def call(make: Any = f16, ends: Any = ENDS, window: int = 32, stride: int = 16) -> tuple[tuple[Any, ...], Any]:
    return (make(ends[-1], 2, 16), make(window, 2), window, stride), {"actual_seq_len": list(ends)}


def wrong(argument: str, label: str, index: int | None = None, value: Any = None, **named: Any) -> Any:
    args, lengths = call()
    changed = [value if at == index else argument_value for at, argument_value in enumerate(args)]
    return bad(OP, argument, label, *changed, **lengths | named)


def back(argument: str, label: str, grad: torch.Tensor, stride: int = 16) -> Any:
    (tokens, weight, window, _), lengths = call()
    return bad(BACK, argument, label, grad, tokens, weight, window, stride, **lengths)


def last(**changed: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Three sequences in four pages of 64: one just filled a window over two pages, one did not, one is short."""
    arguments: dict[str, Any] = {"input": f16(4, 64, 2, 16), "weight": f16(32, 2)}
    arguments |= {"slot_mapping": torch.tensor([2, 0, 1], dtype=torch.int32)}
    arguments |= {"compress_block_size": 32, "compress_stride": 16, "page_block_size": 64}
    named: dict[str, Any] = {"block_table": torch.tensor([[3, 1], [0, 2], [2, 0]], dtype=torch.int32)}
    named |= {"actual_seq_len": [80, 81, 16], "cache": f16(3, 2, 16)}
    for name, value in changed.items():
        (arguments if name in arguments else named)[name] = value
    return tuple(arguments.values()), named


def wrong_last(argument: str, label: str, **changed: Any) -> Any:
    args, named = last(**changed)
    return bad(CACHED, argument, label, *args, **named)


# Upstream lowers none of them, so that they run eagerly alone: allowed calls are those that are generated below.
WRONG = [
    wrong("input", "float32", 0, f32(108, 2, 16)),
    wrong("input", "two dimensions", 0, f16(108, 16)),
    wrong("input.size(0)", "no tokens", 0, f16(0, 2, 16)),
    wrong("input.size(-2)", "129 heads", 0, f16(108, 129, 16)),
    wrong("input.size(-1)", "24 channels", 0, f16(108, 2, 24)),
    wrong("input.size(-1)", "272 channels", 0, f16(108, 2, 272)),
    wrong("weight", "another dtype", 1, bf16(32, 2)),
    wrong("weight", "three dimensions of weight", 1, f16(32, 2, 1)),
    wrong("weight.size(0)", "a shorter window", 1, f16(16, 2)),
    wrong("weight.size(1)", "another number of heads", 1, f16(32, 1)),
    wrong("compress_block_size", "24", 2, 24),
    wrong("compress_block_size", "144", 2, 144),
    wrong("compress_stride", "8", 3, 8),
    wrong("compress_stride", "longer than a window", 3, 48),
    wrong("actual_seq_len", "no ends", actual_seq_len=None),
    wrong("actual_seq_len", "falling ends", actual_seq_len=[60, 5, 108]),
    wrong("the last of actual_seq_len", "an end before the last", actual_seq_len=[60, 100]),
    back("compress_stride", "windows that do not overlap", f16(3, 2, 16), 32),
    back("grad", "another dtype", bf16(4, 2, 16)),
    back("grad", "two dimensions", f16(4, 32)),
    back("grad.size(0)", "a window too few", f16(3, 2, 16)),
    wrong_last("input", "float32", input=f32(4, 64, 2, 16)),
    wrong_last("input", "three dimensions", input=f16(4, 64, 32)),
    wrong_last("input.size(-2)", "66 heads", input=f16(4, 64, 66, 16)),
    wrong_last("input.size(2)", "51 heads", input=f16(4, 64, 51, 16), weight=f16(32, 51), cache=f16(3, 51, 16)),
    wrong_last("input.size(1)", "pages of another size", page_block_size=128),
    wrong_last("page_block_size", "pages of 32", page_block_size=32, input=f16(4, 32, 2, 16)),
    wrong_last("compress_block_size", "80", compress_block_size=80, weight=f16(80, 2)),
    wrong_last("block_table", "no table", block_table=None),
    wrong_last("block_table", "no lengths", actual_seq_len=None),
    wrong_last("block_table", "int64", block_table=torch.zeros(3, 2, dtype=torch.int64)),
    wrong_last("slot_mapping", "two dimensions", slot_mapping=torch.zeros(3, 1, dtype=torch.int32)),
    wrong_last("slot_mapping.size(0)", "two slots", slot_mapping=torch.zeros(2, dtype=torch.int32)),
    wrong_last("block_table.size(0)", "two rows", block_table=torch.zeros(2, 2, dtype=torch.int32)),
    wrong_last(
        "actual_seq_len",
        "2049 sequences",
        actual_seq_len=[1] * 2049,
        block_table=torch.zeros(2049, 2, dtype=torch.int32),
        slot_mapping=torch.zeros(2049, dtype=torch.int32),
    ),
    wrong_last("cache", "another dtype", cache=bf16(3, 2, 16)),
    wrong_last("cache", "two dimensions", cache=f16(3, 32)),
    wrong_last("cache.size(0)", "no slots", cache=f16(0, 2, 16)),
    wrong_last("cache.size(1)", "other heads", cache=f16(3, 1, 16)),
]
WRONG_VALUES = [
    wrong_last("actual_seq_len[1]", "longer than its pages", actual_seq_len=[80, 129, 16]),
    wrong_last("the values of block_table", "a page too far", block_table=torch.full((3, 2), 4, dtype=torch.int32)),
    wrong_last("the values of slot_mapping", "a slot too far", slot_mapping=torch.full((3,), 3, dtype=torch.int32)),
]


def expected(tokens: Any, weight: Any, window: int, stride: int, actual_seq_len: Any) -> Any:
    """Window by window, in float64."""
    x, w, compressed = floats(tokens).astype(np.float64), floats(weight).astype(np.float64), []
    for first, end in zip([0, *actual_seq_len], actual_seq_len, strict=False):
        while first + window <= end:
            compressed.append((x[first : first + window] * w[:, :, None]).sum(0))
            first += stride
    return np.stack(compressed) if compressed else np.zeros((0, *x.shape[1:]))


def expected_gradient(grad: Any, tokens: Any, weight: Any, window: int, stride: int, actual_seq_len: Any) -> Any:
    upstream, x, w = (floats(tensor).astype(np.float64) for tensor in (grad, tokens, weight))
    of_x, of_w, row = np.zeros_like(x), np.zeros_like(w), 0
    for first, end in zip([0, *actual_seq_len], actual_seq_len, strict=False):
        for start in range(first, end - window + 1, stride):
            of_x[start : start + window] += upstream[row] * w[:, :, None]
            of_w += (upstream[row] * x[start : start + window]).sum(-1)
            row += 1
    return [of_x, of_w]


def expected_last(
    tokens: Any, weight: Any, slots: Any, window: int, stride: int, page: int, *, block_table: Any, actual_seq_len: Any,
    cache: Any,
) -> Any:  # fmt: skip
    out = floats(cache).astype(np.float64)
    for sequence, length in enumerate(actual_seq_len):
        if length >= window and (length - window) % stride == 0:
            rows = [
                floats(tokens[block_table[sequence, at // page], at % page]) for at in range(length - window, length)
            ]
            out[slots[sequence]] = (np.stack(rows) * floats(weight)[:, :, None]).sum(0)
    return out


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    ends = np.cumsum([draw(st.integers(0, 70)) for _ in range(2)] + [40]).tolist()
    window, stride = draw(st.sampled_from([(32, 16), (16, 16), (48, 32)]))
    return call(draw(st.sampled_from([f16, bf16])), ends, window, stride)


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (tokens, _, _, _), named = draw(with_data())
    args = (tokens, f32(32, 2).to(tokens.dtype), 32, 16)
    windows = expected(*args, **named).shape[0]
    return (f32(windows, 2, 16).to(tokens.dtype), *args), named


@st.composite
def filled(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    return last(actual_seq_len=[draw(st.sampled_from([0, 31, 32, 48, 80, 100, 128])) for _ in range(3)])


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, named = call()
    return (*(tensor(draw, tuple(like.shape), like.dtype) for like in args[:2]), *args[2:]), named


CALLS = {f"npu_{OP}": calls()}
# The result is rounded to bfloat16 or float16 once.
STATEMENTS = {
    f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-8),
    f"npu_{BACK}": Statement(expected_gradient, gradients(), bound=2.0**-8),
    f"npu_{CACHED}": Statement(expected_last, filled(), bound=2.0**-11),
}
