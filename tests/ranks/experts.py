"""Run by every rank: tokens to the ranks of their experts and back, against NumPy, which knows what all ranks have."""

import os
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch_npu

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TOKENS, CHOSEN, EXPERTS, WIDTH = 3, 2, 4, 32
LOCAL = EXPERTS // RANKS
rng = np.random.default_rng(7)
X = [rng.standard_normal((TOKENS, WIDTH)).astype(np.float16) for _ in range(RANKS)]
IDS = [np.stack([rng.permutation(EXPERTS)[:CHOSEN] for _ in range(TOKENS)]).astype(np.int32) for _ in range(RANKS)]
WEIGHTS = [rng.random((TOKENS, CHOSEN)).astype(np.float32) for _ in range(RANKS)]
SMOOTH = rng.random((EXPERTS, WIDTH)).astype(np.float32)
X[0][0] = 0  # a row without a largest value


def npu(array: np.ndarray) -> torch.Tensor:
    return torch.tensor(array).npu()


def arrived(active: int = TOKENS) -> list[tuple[int, int, int]]:
    """Return the sources (rank, token, k) of this rank's rows, ordered by expert, rank and token."""
    rows = []
    for expert in range(RANK * LOCAL, (RANK + 1) * LOCAL):
        for rank in range(RANKS):
            for token in range(active):
                rows += [(rank, token, k) for k in range(CHOSEN) if IDS[rank][token, k] == expert]
    return rows


def quantised(row: np.ndarray, expert: int, smooth: bool) -> tuple[np.ndarray, np.float32]:
    values = row.astype(np.float32)
    if smooth:
        values = values * SMOOTH[expert]
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.float32(127) / np.abs(values).max()
        whole = np.nan_to_num(np.rint(values * factor), nan=0.0)
    return whole.astype(np.int8), np.float32(1) / factor


def dispatched(**more: Any) -> tuple[torch.Tensor, ...]:
    name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(RANK)
    call = torch_npu.npu_moe_distribute_dispatch_v2
    return call(npu(X[RANK]), npu(IDS[RANK]), name, RANKS, RANK, EXPERTS, expert_scales=npu(WEIGHTS[RANK]), **more)


def combined(rows: torch.Tensor, came: tuple[torch.Tensor, ...], **more: Any) -> torch.Tensor:
    name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(RANK)
    call = torch_npu.npu_moe_distribute_combine_v2
    scales = {"expand_scales": came[6], **more}
    ids, weights = npu(IDS[RANK]), npu(WEIGHTS[RANK])
    result: torch.Tensor = call(rows, ids, came[2], came[4], weights, name, RANKS, RANK, EXPERTS, **scales)
    return result


def check_dispatch() -> None:
    for smooth in (None, False, True):
        quant = {} if smooth is None else {"quant_mode": 2, **({"scales": npu(SMOOTH)} if smooth else {})}
        rows, scales, info, numbers, ends, _, weights = dispatched(**quant)
        wanted = arrived()
        assert rows.shape == (TOKENS * RANKS * min(LOCAL, CHOSEN), WIDTH)
        for index, (rank, token, k) in enumerate(wanted):
            row = X[rank][token]
            if smooth is not None:
                row, scale = quantised(row, IDS[rank][token, k], smooth)
                assert scales[index].item() == scale
            assert np.array_equal(rows[index].cpu().numpy(), row), (smooth, index)
            assert weights[index].item() == WEIGHTS[rank][token, k]
            assert info[3 * index : 3 * index + 3].tolist() == [rank, token, k]
        experts = [IDS[rank][token, k] for rank, token, k in wanted]
        assert numbers.tolist() == [experts.count(RANK * LOCAL + expert) for expert in range(LOCAL)]
        pairs = [(IDS[rank][token, k] - RANK * LOCAL) * RANKS + rank for rank, token, k in wanted]
        assert ends[: LOCAL * RANKS].tolist() == [sum(pair <= end for pair in pairs) for end in range(LOCAL * RANKS)]
    assert dispatched(expert_token_nums_type=0)[3].tolist()[-1] == len(wanted)


def back(rows: dict[tuple[int, int], np.ndarray], active: int = TOKENS) -> np.ndarray:
    """Return the combined results of this rank's tokens."""
    total = np.zeros((TOKENS, WIDTH), np.float32)
    for token in range(active):
        for k in range(CHOSEN):
            if (token, k) in rows:
                total[token] += rows[token, k].astype(np.float32) * WEIGHTS[RANK][token, k]
    return total.astype(np.float16)


def check_combine() -> None:
    came = dispatched()
    experts = torch.repeat_interleave(torch.arange(LOCAL), came[3].cpu()) + RANK * LOCAL
    factors = torch.zeros(came[0].size(0)).index_copy(0, torch.arange(experts.numel()), (experts + 1).float())
    rows = came[0] * factors[:, None].half().npu()  # an expert multiplies by its number and one
    inputs = {
        (token, k): X[RANK][token] * np.float16(IDS[RANK][token, k] + 1)
        for token in range(TOKENS)
        for k in range(CHOSEN)
    }
    assert np.array_equal(combined(rows, came).cpu().numpy(), back(inputs))
    mask = torch.tensor([True] * (TOKENS - 1) + [False]).npu()
    came = dispatched(x_active_mask=mask)
    assert came[3].sum().item() == len(arrived(TOKENS - 1))
    same = {(token, k): X[RANK][token] for token in range(TOKENS) for k in range(CHOSEN)}
    assert np.array_equal(combined(came[0], came, x_active_mask=mask).cpu().numpy(), back(same, TOKENS - 1))


def check_experts_that_compute_nothing() -> None:
    """Of six experts the fifth returns zero and the sixth the token itself."""
    name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(RANK)
    ids = IDS[RANK].copy()
    ids[0] = [EXPERTS, 0]
    ids[1] = [1, EXPERTS + 1]
    special = {"zero_expert_num": 1, "copy_expert_num": 1}
    x, experts, weights = npu(X[RANK]), npu(ids), npu(WEIGHTS[RANK])
    args = (name, RANKS, RANK, EXPERTS)
    came = torch_npu.npu_moe_distribute_dispatch_v2(x, experts, *args, expert_scales=weights, **special)
    more = {"expand_scales": came[6], "ori_x": x, **special}
    got = torch_npu.npu_moe_distribute_combine_v2(came[0], experts, came[2], came[4], weights, *args, **more)
    same = {(token, k): X[RANK][token] for token in range(TOKENS) for k in range(CHOSEN)}
    del same[0, 0]
    assert np.array_equal(got.cpu().numpy(), back(same))


def there_and_back(x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, name: str) -> torch.Tensor:
    args, alone = (name, RANKS, RANK, EXPERTS), of_one_rank(name)
    came = torch_npu.npu_moe_distribute_dispatch_v2(x, ids, *args, expert_scales=weights, quant_mode=2, **alone)
    rows, back = (came[0].float() * came[1][:, None]).half(), {"expand_scales": came[6], **alone}
    return torch_npu.npu_moe_distribute_combine_v2(rows, ids, came[2], came[4], weights, *args, **back)


def of_one_rank(name: str) -> dict[str, Any]:
    """Models pass a tensor-parallel group of experts even if each rank has whole experts."""
    return {"group_tp": name, "tp_world_size": 1, "tp_rank_id": 0}


def by_shared(x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, name: str) -> torch.Tensor:
    """On A3: rank 0 has a shared expert, and rows come back as int8."""
    args, shared = (name, RANKS, RANK, EXPERTS * (RANKS - 1)), {"shared_expert_rank_num": 1}
    came = torch_npu.npu_moe_distribute_dispatch_v2(x, ids, *args, quant_mode=2, **shared)
    rows = (came[0].float() * came[1][:, None]).half()
    return torch_npu.npu_moe_distribute_combine_v2(
        rows, ids, came[2], came[4], weights, *args, comm_quant_mode=2, **shared
    )


def normalised(x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, name: str) -> torch.Tensor:
    """On A3: rows come back and are normalised with what they are added to."""
    args, alone, x = (name, RANKS, RANK, EXPERTS), of_one_rank(name), x.bfloat16()
    came = torch_npu.npu_moe_distribute_dispatch_v2(x, ids, *args, **alone)
    back = came[0], ids, came[2], came[4], weights, x.unsqueeze(1), x[0]
    result = torch_npu.npu_moe_distribute_combine_add_rms_norm(*back, *args, **alone)
    return torch.cat([tensor.float() for tensor in result], 2)


def experts() -> None:
    check_dispatch()
    check_combine()
    check_experts_that_compute_nothing()


def expert_inputs() -> tuple[Any, ...]:
    name = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(RANK)
    return npu(X[RANK]), npu(IDS[RANK]), npu(WEIGHTS[RANK]), name
