"""npu_quant_matmul_all_to_all on A2: two ranks as threads, compared with NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu

from support.tensors import bf16, f16, f32, i8
from support.thread_ranks import ranks

RNG = np.random.default_rng(21)
RANKS, ROWS, DEPTH, COLUMNS = 2, 3, 48, 6


@pytest.mark.parametrize(("dtype", "of_bias"), [(torch.float16, torch.float16), (torch.bfloat16, torch.float32)])
def test_columns_are_sent_to_their_rank(dtype: torch.dtype, of_bias: torch.dtype) -> None:
    x1, x2 = (RNG.integers(-128, 128, (RANKS, *shape), np.int8) for shape in ((ROWS, DEPTH), (DEPTH, COLUMNS)))
    rows, columns = RNG.random((RANKS, ROWS), np.float32), RNG.random((RANKS, COLUMNS), np.float32)
    bias = RNG.integers(-8, 9, (RANKS, COLUMNS)).astype(np.float32)

    def run(rank: int, name: str) -> Any:
        inputs = torch.tensor(x1[rank]), torch.tensor(x2[rank]), name, RANKS
        scales = {"x1_scale": torch.tensor(rows[rank]), "x2_scale": torch.tensor(columns[rank])}
        more = {"bias": torch.tensor(bias[rank]).to(of_bias), "y_dtype": dtype, "all2all_axes": [-1, -2]}
        return torch_npu.npu_quant_matmul_all_to_all(*inputs, **scales, **more)

    with ranks(RANKS) as by_all:
        results = by_all(run)
    half = COLUMNS // RANKS
    for rank, got in enumerate(results):
        parts = []
        for source in range(RANKS):
            product = (x1[source].astype(np.int32) @ x2[source].astype(np.int32)).astype(np.float32)
            whole = product * columns[source] * rows[source][:, None] + bias[source]
            parts.append(whole[:, rank * half : (rank + 1) * half])
        assert torch.equal(got, torch.tensor(np.concatenate(parts)).to(dtype))


RIGHT: dict[str, Any] = {
    "x1": i8(3, 8), "x2": i8(8, 4), "hcom": "group", "world_size": 2, "x1_scale": f32(3), "x2_scale": f32(4),
    "y_dtype": torch.float16,
}  # fmt: skip
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("common_scale", {"common_scale": f32(4)}),
    ("x1_offset", {"x1_offset": f32(3)}),
    ("x2_offset", {"x2_offset": f32(4)}),
    ("x1_dtype", {"x1_dtype": 292}),
    ("comm_quant_dtype", {"comm_quant_dtype": 2}),
    ("group_sizes", {"group_sizes": [1, 1, 32]}),
    ("x1_quant_mode", {"x1_quant_mode": 6}),
    ("x2_quant_mode", {"x2_quant_mode": 6}),
    ("common_quant_mode", {"common_quant_mode": 1}),
    ("all2all_axes", {"all2all_axes": [-2, -1]}),
    ("comm_mode", {"comm_mode": "ccu"}),
    ("world_size", {"world_size": 3}),
    ("x1 must be torch.int8", {"x1": f16(3, 8)}),
    ("x1 must have", {"x1": i8(1, 3, 8)}),
    ("x1.size(0)", {"x1": i8(0, 8), "x1_scale": f32(0)}),
    ("x2 must be torch.int8", {"x2": f16(8, 4)}),
    ("x2 must be contiguous", {"x2": i8(4, 8).t()}),
    ("x2.size(0)", {"x2": i8(7, 4)}),
    ("x1.size(1) must be at most", {"x1": i8(3, 65536), "x2": i8(65536, 4)}),
    ("x2.size(1) must be a multiple", {"x2": i8(8, 3), "x2_scale": f32(3)}),
    ("x1_scale must be given", {"x1_scale": None}),
    ("x1_scale must be torch.float32", {"x1_scale": f16(3)}),
    ("x1_scale must have", {"x1_scale": f32(3, 1)}),
    ("x1_scale.size(0)", {"x1_scale": f32(4)}),
    ("x2_scale.size(0)", {"x2_scale": f32(3)}),
    ("y_dtype", {"y_dtype": torch.float32}),
    ("bias must be", {"bias": bf16(4)}),
    ("bias must have", {"bias": f16(1, 4)}),
    ("bias.size(0)", {"bias": f16(3)}),
]


@pytest.mark.parametrize(("words", "change"), WRONG, ids=[words for words, _ in WRONG])
def test_wrong_calls_are_refused_by_name(words: str, change: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError) as raised:
        torch_npu.npu_quant_matmul_all_to_all(**{**RIGHT, **change})
    assert f"npu_quant_matmul_all_to_all: {words}" in str(raised.value)


def test_a3_has_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_npu.npu, "get_device_name", lambda *_: "Ascend910_9392")
    with pytest.raises(RuntimeError, match="npu_quant_matmul_all_to_all: only Atlas A2"):
        torch_npu.npu_quant_matmul_all_to_all(**RIGHT)
