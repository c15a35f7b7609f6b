"""Matmuls before and after an all-to-all, on as many ranks as A3 requires.

The expected results are computed in NumPy from the data of all ranks. Values are small integers: sums are exact in any
order, and results are compared bit for bit.
"""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant.meta.rules import Refusal

from support.thread_ranks import ranks

RNG = np.random.default_rng(3)
RANKS, EXPERTS, DEPTH, COLUMNS = 8, 2, 4096, 4


@pytest.fixture(autouse=True)
def _a3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_npu.npu, "get_device_name", lambda *_: "Ascend910_9392")


def small(*shape: int) -> np.ndarray:
    return RNG.integers(-2, 3, shape).astype(np.float32)


def tensor(array: np.ndarray, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.tensor(array).to(dtype)


def same(got: torch.Tensor, expected: np.ndarray, dtype: torch.dtype = torch.float16) -> None:
    assert got.dtype == dtype
    assert torch.equal(got, torch.tensor(expected).to(dtype))


@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
def test_experts_on_eight_ranks(transposed: bool) -> None:
    """npu_gmm_alltoallv of the rows that npu_alltoallv_gmm received, in the order of its results."""
    counts = RNG.integers(128, 140, (RANKS, RANKS, EXPERTS))  # from, to, expert: 2 MB for a rank are 256 rows
    x = [small(int(counts[rank].sum()), DEPTH) for rank in range(RANKS)]
    ends = [np.split(rows, np.cumsum(counts[rank].flatten())[:-1]) for rank, rows in enumerate(x)]
    weights = [small(EXPERTS, DEPTH, COLUMNS) for _ in range(RANKS)]
    shared_x, shared = small(int(counts[0].sum()) // 4, 8), small(8, 3)

    def parts(rank: int, expert: int) -> list[np.ndarray]:
        """The rows of all ranks for an expert of a rank."""
        return [ends[source][rank * EXPERTS + expert] for source in range(RANKS)]

    received = [
        np.concatenate([row for expert in range(EXPERTS) for row in parts(rank, expert)]) for rank in range(RANKS)
    ]

    def transpose(weight: np.ndarray) -> torch.Tensor:
        return tensor(np.ascontiguousarray(weight.swapaxes(-1, -2)) if transposed else weight)

    options = {"mm_weight": transpose(shared), "trans_gmm_weight": transposed, "trans_mm_weight": transposed}
    options["mm_x"] = tensor(shared_x)

    def run(rank: int, name: str) -> tuple[Any, Any]:
        sends, receives = counts[rank].flatten().tolist(), counts[:, rank].flatten().tolist()
        operands = (transpose(weights[rank]), name, RANKS)
        there = torch_npu.npu_alltoallv_gmm(
            tensor(x[rank]), *operands, sends, receives, permute_out_flag=True, **options
        )
        return there, torch_npu.npu_gmm_alltoallv(there[2], *operands, receives, sends, **options)

    with ranks(RANKS) as by_all:
        results = by_all(run)
    for rank, (there, back) in enumerate(results):
        products = [np.concatenate(parts(rank, expert)) @ weights[rank][expert] for expert in range(EXPERTS)]
        same(there[0], np.concatenate(products))
        same(there[1], shared_x @ shared)
        same(there[2], received[rank])
        pieces = [
            ends[rank][target * EXPERTS + expert] @ weights[target][expert]
            for target in range(RANKS)
            for expert in range(EXPERTS)
        ]
        same(back[0], np.concatenate(pieces))
        same(back[1], shared_x @ shared)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [8, 0])
def test_rows_become_columns_and_back(dtype: torch.dtype, rows: int) -> None:
    number, wide = 4, torch.float32 if dtype == torch.bfloat16 else dtype
    x1 = [small(rows, 6) for _ in range(number)]
    joined, apart = small(6 * number, 12), small(6, 12)
    bias = small(12)

    def run(rank: int, name: str) -> tuple[Any, ...]:
        mine, more = tensor(x1[rank], dtype), {"bias": tensor(bias, wide)}
        there = torch_npu.npu_all_to_all_matmul(mine, tensor(joined.T.copy(), dtype).t(), name, number, **more)
        alone = torch_npu.npu_all_to_all_matmul(mine, tensor(joined, dtype), name, number, all2all_out_flag=False)
        assert alone[1] is None
        return *there, torch_npu.npu_matmul_all_to_all(mine, tensor(apart, dtype), name, number, **more)

    with ranks(number) as by_all:
        results = by_all(run)
    part, products = rows // number, [x @ apart + bias for x in x1]
    for rank, (y, permuted, scattered) in enumerate(results):
        columns = np.concatenate([x[rank * part : (rank + 1) * part] for x in x1], 1)
        same(permuted, columns, dtype)
        same(y, columns @ joined + bias, dtype)
        same(scattered, np.concatenate([product[:, rank * 3 : rank * 3 + 3] for product in products]), dtype)


def test_graphs_on_a3_are_refused() -> None:
    x1, x2 = torch.zeros(4, 8, dtype=torch.float16, device="npu"), torch.zeros(8, 4, dtype=torch.float16, device="npu")
    compiled = torch.compile(lambda x1, x2: torch_npu.npu_matmul_all_to_all(x1, x2, "a group", 2), backend="npu")
    with pytest.raises((Refusal, RuntimeError), match="npu_matmul_all_to_all: it must be called eagerly on A3"):
        compiled(x1, x2)
