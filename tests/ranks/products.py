"""Run by every rank: products that communicate, against NumPy. All ranks draw the same data, so each knows all of it.

Values are small integers and powers of two: sums are exact in any order, and results are compared bit for bit.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch_npu

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
M, K, N = 4, 256, 8
Arrays = list[np.ndarray]
rng = np.random.default_rng(5)


def small(*shape: int) -> Arrays:
    """An array of small integers for each rank."""
    return [rng.integers(-3, 4, shape).astype(np.float64) for _ in range(RANKS)]


def powers(*shape: int) -> Arrays:
    return [2.0 ** rng.integers(-3, 1, shape) for _ in range(RANKS)]


def mine(arrays: Arrays, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(arrays[RANK]).to(dtype).npu()


def group() -> str:
    return str(dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(RANK))


def rounded(values: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Round float64 to half precision; the value is exact otherwise."""
    return torch.tensor(values).to(dtype).double().numpy()


def same(got: torch.Tensor, expected: np.ndarray, dtype: torch.dtype) -> None:
    assert got.dtype == dtype, got.dtype
    assert got.device == torch.device("npu", RANK), got.device
    assert np.array_equal(got.cpu().double().numpy(), expected), (got, expected)


def summed(parts: Arrays, dtype: torch.dtype) -> np.ndarray:
    """Sum rank by rank, rounding after each addition."""
    total = rounded(parts[0], dtype)
    for part in parts[1:]:
        total = rounded(total + rounded(part, dtype), dtype)
    return total


def all_reduced(compiled: Callable[..., Any]) -> None:
    x1, x2, bias, x3 = small(M, K), small(K, N), small(N), small(M, N)
    for dtype in (torch.float16, torch.bfloat16):
        got = compiled(mine(x1, dtype), mine(x2, dtype), group(), bias=mine(bias, dtype), x3=mine(x3, dtype))
        parts = [rounded(a @ b + c, dtype) + d for a, b, c, d in zip(x1, x2, bias, x3, strict=True)]
        same(got, summed(parts, dtype), dtype)
        scale, offset = powers(N), small(N)
        got = compiled(
            mine(x1, dtype),
            mine(x2, torch.int8),
            group(),
            antiquant_scale=mine(scale, dtype),
            antiquant_offset=mine(offset, dtype),
        )
        restored = [(b + d) * c for b, c, d in zip(x2, scale, offset, strict=True)]
        same(got, summed([a @ b for a, b in zip(x1, restored, strict=True)], dtype), dtype)
    grouped = powers(K // 32, N)
    got = compiled(
        mine(x1, torch.float16),
        mine(x2, torch.int8),
        group(),
        antiquant_scale=mine(grouped, torch.float16),
        antiquant_group_size=32,
    )
    restored = [b * np.repeat(c, 32, 0) for b, c in zip(x2, grouped, strict=True)]
    same(got, summed([a @ b for a, b in zip(x1, restored, strict=True)], torch.float16), torch.float16)
    columns, tokens = powers(N), powers(M)
    q1, q2, bias32 = mine(x1, torch.int8), mine(x2, torch.int8), mine(bias, torch.int32)
    exact = [a @ b + c for a, b, c in zip(x1, x2, bias, strict=True)]
    packed = torch_npu.npu_trans_quant_param(mine(columns, torch.float32))
    got = compiled(q1.view(2, 2, K), q2, group(), bias=bias32, dequant_scale=packed)
    parts = [a * c for a, c in zip(exact, columns, strict=True)]
    same(got.view(M, N), summed(parts, torch.float16), torch.float16)
    by_token = [a * t[:, None] for a, t in zip(parts, tokens, strict=True)]
    for scale_dtype, dtype in ((torch.float32, torch.float16), (torch.bfloat16, torch.bfloat16)):
        scales = {"dequant_scale": mine(columns, scale_dtype), "pertoken_scale": mine(tokens, torch.float32)}
        same(compiled(q1, q2, group(), bias=bias32, **scales), summed(by_token, dtype), dtype)
        # Every rank has the same scales; some columns have more than int8 can tell.
        first, second = 2.0 ** np.arange(2 - N, 2), np.full(N, 1.5)
        more = {f"comm_quant_scale_{n}": torch.tensor(scale).to(dtype).npu() for n, scale in ((1, first), (2, second))}
        got = compiled(q1, q2, group(), bias=bias32, **scales, **more)
        same(got, added_as_int8(by_token, first, second, dtype), dtype)


def added_as_int8(parts: Arrays, first: np.ndarray, second: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    half = np.float16 if dtype == torch.float16 else np.float32
    total = np.zeros(parts[0].shape, np.int64)
    for part in parts:
        quotient = rounded(part, dtype).astype(half) / first.astype(half)
        total += np.clip(np.rint(quotient.astype(np.float16)), -128, 127).astype(np.int64)
    scaled = total.astype(np.float32) * (first.astype(np.float32) / second.astype(np.float32))
    shared = np.clip(np.rint(scaled.astype(np.float16)), -128, 127)
    return rounded((shared.astype(half) * second.astype(half)).astype(np.float64), dtype)


def gathered(multiply: Callable[..., Any], scatter: Callable[..., Any]) -> None:
    x1, x2, bias = small(M, K), small(K, N), small(N)
    rows = np.concatenate(x1)
    part = slice(RANK * M // RANKS, (RANK + 1) * M // RANKS)
    for dtype in (torch.float16, torch.bfloat16):
        y, all_rows = multiply(mine(x1, dtype), mine(x2, dtype), group(), RANKS, bias=mine(bias, dtype))
        same(y, rounded(rows @ x2[RANK] + bias[RANK], dtype), dtype)
        same(all_rows, rows, dtype)
        y = scatter(mine(x1, dtype), mine(x2, dtype), group(), RANKS, bias=mine(bias, dtype))
        same(y, summed([a @ b + c for a, b, c in zip(x1, x2, bias, strict=True)], dtype)[part], dtype)


def gathered_integers() -> None:
    """Quantised products without scales in graphs."""
    x1, x2, columns, tokens = small(M, K), small(K, N), powers(1, N), powers(M, 1)
    rows, by_row = np.concatenate(x1), np.concatenate(tokens)
    q1, q2, scale = mine(x1, torch.int8), mine(x2, torch.int8), mine(columns, torch.float32)
    part = slice(RANK * M // RANKS, (RANK + 1) * M // RANKS)
    products = [a @ b * c for a, b, c in zip(x1, x2, columns, strict=True)]
    by_token = [a * t for a, t in zip(products, tokens, strict=True)]
    for dtype in (torch.float16, torch.bfloat16):
        aiv = {"x1_scale": mine(tokens, torch.float32), "x2_scale": scale, "output_dtype": dtype, "comm_mode": "aiv"}
        y, all_rows = torch_npu.npu_all_gather_base_mm(q1, q2, group(), RANKS, **aiv)
        same(y, rounded(rows @ x2[RANK] * columns[RANK] * by_row, dtype), dtype)
        same(all_rows, rows, torch.int8)
        y = torch_npu.npu_mm_reduce_scatter_base(q1, q2, group(), RANKS, **aiv)
        same(y, summed(by_token, dtype)[part], dtype)
    packed = torch_npu.npu_trans_quant_param(scale.view(-1)).view(1, -1)
    y = torch_npu.npu_mm_reduce_scatter_base(q1, q2, group(), RANKS, x2_scale=packed, comm_mode="aiv")
    same(y, summed(products, torch.float16)[part], torch.float16)


def quantised() -> None:
    """The v2 operators, which graphs support with scales."""
    x1, x2, columns, tokens, bias = small(M, K), small(K, N), powers(1, N), powers(M, 1), small(N)
    rows, by_row = np.concatenate(x1), np.concatenate(tokens)
    gather, scatter = torch_npu.npu_all_gather_quant_mm, torch_npu.npu_quant_mm_reduce_scatter
    q1, q2 = mine(x1, torch.int8), mine([tensor.T for tensor in x2], torch.int8).t()
    part = slice(RANK * M // RANKS, (RANK + 1) * M // RANKS)
    scaled = [a @ b * c * t + d for a, b, c, t, d in zip(x1, x2, columns, tokens, bias, strict=True)]
    plain = [a @ b + d for a, b, d in zip(x1, x2, bias, strict=True)]
    scales = {"x1_scale": mine(tokens, torch.float32), "x2_scale": mine(columns, torch.float32)}
    for dtype in (torch.float16, torch.bfloat16):
        y, all_rows, nothing = gather(q1, q2, group(), RANKS, y_dtype=dtype, comm_mode="aiv", **scales)
        same(y, rounded(rows @ x2[RANK] * columns[RANK] * by_row, dtype), dtype)
        same(all_rows, rows, torch.int8)
        assert (nothing.dtype, nothing.shape) == (torch.float32, (0,))
        y, nothing = scatter(q1, q2, group(), RANKS, y_dtype=dtype, bias=mine(bias, torch.float32), **scales)
        same(y, summed(scaled, dtype)[part], dtype)
        assert (nothing.dtype, nothing.shape) == (torch.float32, (0,))
        y, all_rows, _ = gather(mine(x1, dtype), mine(x2, dtype), group(), RANKS, comm_mode="aiv")
        same(y, rounded(rows @ x2[RANK], dtype), dtype)
        same(all_rows, rows, dtype)
        y, _ = scatter(mine(x1, dtype), mine(x2, dtype), group(), RANKS, bias=mine(bias, torch.float32))
        same(y, summed(plain, dtype)[part], dtype)
    packed = torch_npu.npu_trans_quant_param(scales["x2_scale"].view(-1)).view(1, -1)
    y, _, _ = gather(q1, q2, group(), RANKS, x2_scale=packed, y_dtype=torch.float16, comm_mode="aiv")
    same(y, rounded(rows @ x2[RANK] * columns[RANK], torch.float16), torch.float16)


def products() -> None:
    all_reduced(torch_npu.npu_mm_all_reduce_base)
    gathered(torch_npu.npu_all_gather_base_mm, torch_npu.npu_mm_reduce_scatter_base)
    gathered_integers()
    quantised()


def together(x1: torch.Tensor, x2: torch.Tensor, q1: torch.Tensor, q2: torch.Tensor, scales: Any, name: str) -> Any:
    """One call of each kind that graphs take."""
    packed, columns, tokens, weights = scales
    reduce, by_column = torch_npu.npu_mm_all_reduce_base, {"x2_scale": columns[None], "y_dtype": torch.bfloat16}
    return (
        reduce(x1, x2, name, bias=weights, x3=torch.ones_like(x1[:, :N])),
        reduce(x1, q2, name, antiquant_scale=weights, antiquant_offset=weights),
        reduce(q1, q2, name, dequant_scale=packed),
        reduce(q1, q2, name, dequant_scale=packed, comm_quant_scale_1=weights, comm_quant_scale_2=2 * weights),
        reduce(q1, q2, name, dequant_scale=columns, pertoken_scale=tokens),
        *torch_npu.npu_all_gather_base_mm(x1, x2, name, RANKS, bias=weights),
        torch_npu.npu_mm_reduce_scatter_base(x1, x2, name, RANKS),
        *torch_npu.npu_all_gather_quant_mm(x1, x2, name, RANKS, comm_mode="aiv"),
        *torch_npu.npu_all_gather_quant_mm(q1, q2, name, RANKS, **by_column, comm_mode="aiv"),
        torch_npu.npu_quant_mm_reduce_scatter(x1, x2, name, RANKS, bias=weights)[0] * 2,
        *torch_npu.npu_quant_mm_reduce_scatter(q1, q2, name, RANKS, **by_column, x1_scale=tokens[:, None]),
    )


def product_inputs() -> tuple[Any, ...]:
    x1, x2, columns = small(M, K), small(K, N), powers(N)
    packed = torch_npu.npu_trans_quant_param(mine(columns, torch.float32))
    scales = (packed, mine(columns, torch.float32), mine(powers(M), torch.float32), mine(columns, torch.float16))
    dtypes = (torch.float16, torch.float16, torch.int8, torch.int8)
    return (*(mine(x, dtype) for x, dtype in zip((x1, x2, x1, x2), dtypes, strict=True)), scales, group())
