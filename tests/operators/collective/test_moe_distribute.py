"""Dispatch and combine where A2 and A3 differ: int4, and constant experts.

The expected results are computed in NumPy from the data of all ranks. `ranks/experts.py` has the other cases, on ranks
that are processes.
"""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu

from support.thread_ranks import ranks

RNG = np.random.default_rng(9)
RANKS, EXPERTS, TOKENS, CHOSEN = 2, 4, 3, 2
LOCAL = EXPERTS // RANKS


def choices(experts: int) -> list[np.ndarray]:
    chosen = [[RNG.permutation(experts)[:CHOSEN] for _ in range(TOKENS)] for _ in range(RANKS)]
    return [np.array(ids, dtype=np.int32) for ids in chosen]


def arrived(ids: list[np.ndarray], rank: int) -> list[tuple[int, int, int]]:
    """The sources of the rows of a rank, ordered by expert, rank and token."""
    return [
        (source, token, choice)
        for expert in range(rank * LOCAL, (rank + 1) * LOCAL)
        for source in range(RANKS)
        for token in range(TOKENS)
        for choice in range(CHOSEN)
        if ids[source][token, choice] == expert
    ]


def test_int4_is_sent_unchanged() -> None:
    """On A2, eight packed in an int32, with a scale for each token."""
    x = [RNG.integers(-(2**31), 2**31, (TOKENS, 32), dtype=np.int32) for _ in range(RANKS)]
    scales, ids = [RNG.random(TOKENS, dtype=np.float32) for _ in range(RANKS)], choices(EXPERTS)

    def run(rank: int, name: str) -> Any:
        inputs = torch.tensor(x[rank]), torch.tensor(ids[rank]), name, RANKS, rank, EXPERTS
        more = {"scales": torch.tensor(scales[rank]), "comm_alg": "fullmesh"}
        return torch_npu.npu_moe_distribute_dispatch_v2(*inputs, **more)

    with ranks(RANKS) as by_all:
        results = by_all(run)
    for rank, (rows, row_scales, *_) in enumerate(results):
        wanted = arrived(ids, rank)
        assert rows.dtype == torch.int32
        assert np.array_equal(rows[: len(wanted)], [x[source][token] for source, token, _ in wanted])
        assert np.array_equal(row_scales[: len(wanted)], [scales[source][token] for source, token, _ in wanted])


def test_constant_experts_mix_the_token_with_a_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """On A3: the last two of six experts are constant; the others return their rows unchanged.

    The rows of shared experts are added last.
    """
    monkeypatch.setattr(torch_npu.npu, "get_device_name", lambda *_: "Ascend910_9392")
    width, constants = 1024, 2
    x = [RNG.integers(-4, 5, (TOKENS, width)).astype(np.float16) for _ in range(RANKS)]
    ids = choices(EXPERTS + constants)
    ids[0][0] = [EXPERTS, EXPERTS + 1]
    weights = [RNG.random((TOKENS, CHOSEN), dtype=np.float32) for _ in range(RANKS)]
    first, second, vector = (RNG.integers(-3, 4, (constants, width)).astype(np.float16) for _ in range(3))
    shared = [RNG.integers(-4, 5, (1, TOKENS, width)).astype(np.float16) for _ in range(RANKS)]

    def run(rank: int, name: str) -> Any:
        tokens, experts, group = torch.tensor(x[rank]), torch.tensor(ids[rank]), (name, RANKS, rank, EXPERTS)
        kinds = {"const_expert_num": constants}
        dispatched = torch_npu.npu_moe_distribute_dispatch_v2(tokens, experts, *group, **kinds)
        names = ("const_expert_alpha_1", "const_expert_alpha_2", "const_expert_v")
        more = dict(zip(names, map(torch.tensor, (first, second, vector)), strict=True))
        back = (dispatched[0], experts, dispatched[2], dispatched[4], torch.tensor(weights[rank]))
        more.update(ori_x=tokens, shared_expert_x=torch.tensor(shared[rank]))
        return dispatched, torch_npu.npu_moe_distribute_combine_v2(*back, *group, **more, **kinds)

    with ranks(RANKS) as by_all:
        results = by_all(run)
    for rank, (dispatched, combined) in enumerate(results):
        assert dispatched[3].sum() == len(arrived(ids, rank))  # constant experts are sent nothing
        total = np.zeros((TOKENS, width), np.float32)
        for token in range(TOKENS):
            for choice, expert in enumerate(ids[rank][token]):
                row = x[rank][token].astype(np.float32)
                if expert >= EXPERTS:
                    alphas = (parameter[expert - EXPERTS].astype(np.float32) for parameter in (first, second, vector))
                    alpha, beta, constant = alphas
                    row = alpha * row + beta * constant
                total[token] += row * weights[rank][token, choice]
        total += shared[rank][0].astype(np.float32)
        assert np.array_equal(combined.numpy(), total.astype(np.float16))


WIDE = torch.zeros(3, 1024, dtype=torch.float16)


@pytest.mark.parametrize(
    ("shared", "words"),
    [
        (WIDE.bfloat16(), r"shared_expert_x must be torch.float16, as expand_x is"),
        (WIDE[0], r"shared_expert_x must have 2 to 3 dimensions"),
        (WIDE[:2], r"the rows of shared_expert_x must equal expert_ids.size\(0\), got 2 and 3"),
        (WIDE[:, :512], r"shared_expert_x.size\(-1\) must equal expand_x.size\(1\), got 512 and 1024"),
    ],
)
def test_shared_expert_x_has_a_row_for_each_token(
    monkeypatch: pytest.MonkeyPatch, shared: torch.Tensor, words: str
) -> None:
    monkeypatch.setattr(torch_npu.npu, "get_device_name", lambda *_: "Ascend910_9392")
    numbers = torch.zeros(8, dtype=torch.int32)
    inputs = WIDE, numbers[:6].reshape(3, 2), numbers, numbers, torch.ones(3, 2), "group", 2, 0, 4
    with pytest.raises(RuntimeError, match=words):
        torch_npu.npu_moe_distribute_combine_v2(*inputs, shared_expert_x=shared)
