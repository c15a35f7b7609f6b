"""Dispatch and combine with shared experts, in both versions of the two operators.

The expected results are computed in NumPy from the data of all ranks. An expert multiplies a row by its rank plus one,
so that a misrouted row shows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch_npu

from support.thread_ranks import ranks

A3, TOKENS, CHOSEN, F32 = "Ascend910_9392", 3, 2, np.float32


@dataclass(frozen=True)
class Case:
    """The ranks, of which the first have shared experts, and the options of the calls."""

    version: str
    ranks: int
    experts: int
    shared: int
    shared_ranks: int
    width: int
    quantised: bool = False
    smooth: bool = False
    int8_back: bool = False
    mask: bool = False
    local_shared: bool = False  # shared experts on the rank of the tokens return rows

    @property
    def local(self) -> int:
        return self.experts // (self.ranks - self.shared_ranks)

    def rank_of(self, expert: int) -> int:
        return self.shared_ranks + expert // self.local

    def shared_rank(self, shared: int, source: int, token: int) -> int:
        """The rank of a shared expert: one copy per source rank; in the first version all copies share its tokens."""
        if self.version:
            copies = self.shared_ranks // self.shared
            return shared * copies + source % copies
        if source < self.shared_ranks:
            return source
        bounds = [(source + rank) * TOKENS // self.shared_ranks for rank in range(self.shared_ranks + 1)]
        return next(rank for rank in range(self.shared_ranks) if token + bounds[0] < bounds[rank + 1])


CASES = {
    "first on A2": Case("", 8, 16, 0, 0, 64),
    "first on A3": Case("", 8, 12, 1, 2, 7168, quantised=True, smooth=True),
    "first, int8 back": Case("", 8, 6, 1, 2, 7168, int8_back=True),
    "second": Case("_v2", 6, 4, 2, 4, 1024),
    "second, quantised": Case("_v2", 6, 4, 2, 4, 1030, quantised=True, smooth=True, int8_back=True),
    "second, masked": Case("_v2", 4, 6, 1, 1, 1024, mask=True, int8_back=True),
    "second, masked, local shared": Case("_v2", 2, 4, 0, 0, 1024, mask=True, local_shared=True),
    "second, none shared, int8 back": Case("_v2", 2, 4, 0, 0, 1028, int8_back=True),
}


class AllRanks:
    """The data of all ranks."""

    def __init__(self, case: Case, seed: int) -> None:
        rng, self.case = np.random.default_rng(seed), case
        self.x = [rng.standard_normal((TOKENS, case.width)).astype(np.float16) for _ in range(case.ranks)]
        self.x[0][0, :8] = 0  # a block of eight zeros
        ids = [[rng.permutation(case.experts)[:CHOSEN] for _ in range(TOKENS)] for _ in range(case.ranks)]
        self.ids = [np.array(rows, dtype=np.int32) for rows in ids]
        self.weights = [rng.random((TOKENS, CHOSEN), dtype=F32) for _ in range(case.ranks)]
        self.smooth = rng.random((case.shared + case.experts, case.width), dtype=F32)
        self.masks = [rng.random((TOKENS, CHOSEN)) < 0.7 for _ in range(case.ranks)]
        self.masks[1][0] = False  # a token without an expert
        self.shared_rows = [rng.standard_normal((TOKENS, case.width)).astype(np.float16) for _ in range(case.ranks)]
        if not case.mask:
            self.masks = [np.ones((TOKENS, CHOSEN), dtype=bool)] * case.ranks

    def arrived(self, rank: int) -> list[tuple[int, int, int, int]]:
        """Source, token, choice and row of the scales of each row of a rank."""
        case, rows = self.case, []
        if rank < case.shared_ranks:
            for source in range(case.ranks):
                for token in range(TOKENS):
                    for shared in range(case.shared):
                        if self.masks[source][token].any() and case.shared_rank(shared, source, token) == rank:
                            rows.append((source, token, CHOSEN + shared, shared))
            return rows
        first = (rank - case.shared_ranks) * case.local
        for expert in range(first, first + case.local):
            for source in range(case.ranks):
                for token, k in zip(*np.nonzero(self.ids[source] == expert), strict=True):
                    if self.masks[source][token, k]:
                        rows.append((source, int(token), int(k), case.shared + expert))
        return rows

    def combined(self, rank: int) -> np.ndarray:
        case, total = self.case, np.zeros((TOKENS, self.case.width), F32)
        for token in range(TOKENS):
            for k in range(CHOSEN):
                if self.masks[rank][token, k]:
                    row = self.back(self.x[rank][token], case.rank_of(self.ids[rank][token, k]))
                    total[token] += row * self.weights[rank][token, k]
            for shared in range(case.shared):
                if self.masks[rank][token].any():
                    total[token] += self.back(self.x[rank][token], case.shared_rank(shared, rank, token))
            if case.local_shared and self.masks[rank][token].any():
                total[token] += self.shared_rows[rank][token]
        return total.astype(np.float16)

    def back(self, row: np.ndarray, rank: int) -> np.ndarray:
        row = row * np.float16(rank + 1)
        if not self.case.int8_back:
            return row.astype(F32)
        arrived = np.zeros(row.size, F32)
        for begin in range(0, row.size, 8):
            eight = row[begin : begin + 8].astype(F32)
            scale = np.abs(eight).max() * F32(1 / 127)
            if scale:
                whole = np.rint((eight / scale).astype(np.float16)).astype(np.int8)
                arrived[begin : begin + 8] = (whole.astype(F32) * F32(np.float16(scale))).astype(np.float16)
        return arrived


def run(data: AllRanks, rank: int, name: str) -> Any:
    case = data.case
    x, ids, weights = (torch.tensor(tensors[rank]) for tensors in (data.x, data.ids, data.weights))
    group = (name, case.ranks, rank, case.experts)
    shared: dict[str, Any] = {"shared_expert_rank_num": case.shared_ranks, "shared_expert_num": case.shared or 1}
    there: dict[str, Any] = {"quant_mode": 2 * case.quantised, **shared}
    back: dict[str, Any] = {"comm_quant_mode": 2 * case.int8_back, **shared}
    if case.smooth:
        there["scales"] = torch.tensor(data.smooth)
    if case.mask:
        there["x_active_mask"] = back["x_active_mask"] = torch.tensor(data.masks[rank])
    if case.local_shared:
        back["shared_expert_x"] = torch.tensor(data.shared_rows[rank])
    if not case.version:
        there["expert_scales"] = weights  # ignored on A3
    dispatched = getattr(torch_npu, f"npu_moe_distribute_dispatch{case.version}")(x, ids, *group, **there)
    back["expand_scales"] = dispatched[6]  # ignored on A3; vllm-ascend hands it on whatever the chip
    rows = dispatched[0]
    if case.quantised:  # the unquantised tokens are sent back
        rows = torch.zeros(dispatched[0].shape, dtype=torch.float16)
        for row, (source, token, *_) in enumerate(data.arrived(rank)):
            rows[row] = torch.tensor(data.x[source][token])
    combine = getattr(torch_npu, f"npu_moe_distribute_combine{case.version}")
    return dispatched, combine(rows * (rank + 1), ids, dispatched[2], dispatched[4], weights, *group, **back)


def quantised(row: np.ndarray, smooth: np.ndarray) -> tuple[np.ndarray, np.float32]:
    values = row.astype(F32) * smooth
    multiplier = F32(127) / np.abs(values).max()
    return np.rint(values * multiplier).astype(np.int8), F32(1) / multiplier


@pytest.mark.parametrize("label", CASES)
def test_dispatch_and_combine(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[label]
    if label != "first on A2":
        monkeypatch.setattr(torch_npu.npu, "get_device_name", lambda *_: A3)
    data = AllRanks(case, seed=len(label))
    with ranks(case.ranks) as by_all:
        results = by_all(lambda rank, name: run(data, rank, name))
    for rank, (dispatched, combined) in enumerate(results):
        wanted = data.arrived(rank)
        rows, scales, _, numbers, ends, _, weights = dispatched
        assert weights.size(0) == (rows.size(0) if label == "first on A2" else 0)
        assert rows.size(0) >= len(wanted)
        for index, (source, token, _, expert) in enumerate(wanted):
            row = data.x[source][token]
            if case.quantised:
                row, scale = quantised(row, data.smooth[expert])
                assert scales[index] == scale
            assert np.array_equal(rows[index], row), (rank, index)
        local = 1 if rank < case.shared_ranks else case.local
        experts = sorted({expert for *_, expert in wanted})
        assert numbers.shape == (local,)
        assert [int(number) for number in numbers if number] == [
            sum(expert == owner for *_, owner in wanted) for expert in experts
        ]
        assert ends[local * case.ranks - 1] == len(wanted)
        assert np.array_equal(combined, data.combined(rank)), rank


X, IDS, GROUP = torch.zeros(3, 1024, dtype=torch.float16), torch.zeros(3, 2, dtype=torch.int32), ("a group", 6, 0, 12)
WIDE, FIRST = torch.zeros(3, 7168, dtype=torch.float16), ("a group", 8, 0, 12)
COMBINED = (IDS[:, 0], IDS[:, 0], torch.ones(3, 2))


@pytest.mark.parametrize(
    ("version", "group", "options", "words"),
    [
        ("_v2", GROUP, {"shared_expert_num": 5, "shared_expert_rank_num": 5}, "shared_expert_num must be from 0 to 4"),
        ("_v2", GROUP, {"shared_expert_num": 2}, "shared_expert_num must be 0 or 1 without ranks of them, got 2"),
        ("_v2", GROUP, {"shared_expert_num": 0, "shared_expert_rank_num": 2}, "multiple of shared_expert_num, got 2"),
        ("_v2", GROUP, {"shared_expert_num": 2, "shared_expert_rank_num": 3}, "multiple of shared_expert_num, got 3"),
        ("_v2", GROUP, {"shared_expert_rank_num": 6}, "shared_expert_rank_num must be from 0 to 5, got 6"),
        ("_v2", GROUP, {"shared_expert_rank_num": 1}, "moe_expert_num must be a multiple of the ranks without shared"),
        ("_v2", ("g", 768, 0, 765), {"shared_expert_rank_num": 513, "shared_expert_num": 1}, "at most 2048, got 2304"),
        ("", FIRST, {"shared_expert_num": 2, "shared_expert_rank_num": 2}, "shared_expert_num must be 1, got 2"),
        ("", ("g", 8, 0, 10), {"shared_expert_rank_num": 3}, "ep_world_size must be a multiple of shared_expert_rank"),
        ("", ("g", 24, 0, 24), {}, "ep_world_size must be 8, 16, 32, 64, 128, 144, 256 or 288, got 24"),
        ("", ("g", 8, 0, 520), {}, "moe_expert_num must be from 1 to 512, got 520"),
    ],
)
def test_layouts_that_a3_refuses(
    version: str, group: tuple[Any, ...], options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_npu.npu, "get_device_name", lambda *_: A3)
    x = X if version else WIDE
    with pytest.raises(RuntimeError, match=words):
        getattr(torch_npu, f"npu_moe_distribute_dispatch{version}")(x, IDS, *group, **options)
    with pytest.raises(RuntimeError, match=words):
        getattr(torch_npu, f"npu_moe_distribute_combine{version}")(x, IDS, *COMBINED, *group, **options)


def test_other_calls_that_a3_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_npu.npu, "get_device_name", lambda *_: A3)
    shared: dict[str, Any] = {"shared_expert_num": 2, "shared_expert_rank_num": 4}
    many = torch.zeros(3, 13, dtype=torch.int32)
    scales = torch.ones(12, 1024)
    with pytest.raises(RuntimeError, match="moe_expert_num and the shared experts, got 12 and 14"):
        torch_npu.npu_moe_distribute_dispatch_v2(X, IDS, *GROUP, scales=scales, quant_mode=2, **shared)
    with pytest.raises(RuntimeError, match=r"expert_ids.size\(1\) must be at most 12, got 13"):
        torch_npu.npu_moe_distribute_dispatch_v2(X, many, "a group", 2, 0, 32, comm_alg="fullmesh_v2")
    with pytest.raises(RuntimeError, match="shared_expert_x must be None beside ranks of shared experts"):
        torch_npu.npu_moe_distribute_combine_v2(X, IDS, *COMBINED, *GROUP, shared_expert_x=X, **shared)
    with pytest.raises(RuntimeError, match=r"x.size\(1\) must be at least 7168, got 1024"):
        torch_npu.npu_moe_distribute_dispatch(X, IDS, *FIRST, shared_expert_rank_num=2)
    with pytest.raises(RuntimeError, match=r"expert_ids.size\(1\) must be at most 8, got 13"):
        torch_npu.npu_moe_distribute_dispatch(WIDE, many, "a group", 8, 0, 32)
