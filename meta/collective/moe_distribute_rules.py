"""Rules that npu_moe_distribute_dispatch and npu_moe_distribute_combine share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import is_a3
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.expert_layout import ExpertLayout
from torch import Tensor

_RANKS_OF_A2 = (2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256)
_RANKS_OF_FIRST_ON_A3 = (8, 16, 32, 64, 128, 144, 256, 288)
Shared = tuple[int, int, int]  # expert_shard_type, shared_expert_num and shared_expert_rank_num


def check_ranks(rules: Rules, ranks: int, rank: int, experts: int, tp_ranks: int, shared: Shared) -> ExpertLayout:
    """Check the ranks and experts of the second version and return their layout."""
    if is_a3():
        rules.require(2 <= ranks <= 768, lambda: f"ep_world_size must be from 2 to 768, got {ranks}")
    else:
        rules.one_of("ep_world_size", ranks, _RANKS_OF_A2)
    layout = _check_layout(rules, ranks, rank, experts, tp_ranks, shared, 1024)
    slots = layout.all_local[-1] * ranks
    rules.require(
        slots <= 2048 or not is_a3(), lambda: f"experts of a rank times ep_world_size must be at most 2048, got {slots}"
    )
    number, on_ranks = shared[1:]
    rules.require(0 <= number <= 4, lambda: f"shared_expert_num must be from 0 to 4, got {number}")
    rules.require(
        number <= 1 or on_ranks > 0, lambda: f"shared_expert_num must be 0 or 1 without ranks of them, got {number}"
    )
    rules.require(
        on_ranks == 0 or (number > 0 and on_ranks % number == 0),
        lambda: f"shared_expert_rank_num must be a multiple of shared_expert_num, got {on_ranks} and {number}",
    )
    return layout


def check_ranks_of_first(
    rules: Rules, ranks: int, rank: int, experts: int, tp_ranks: int, shared: Shared
) -> ExpertLayout:
    """Check the ranks and experts of the first version, which needs whole servers, and return their layout."""
    if is_a3():
        rules.one_of("ep_world_size", ranks, _RANKS_OF_FIRST_ON_A3)
    else:
        rules.require(
            ranks % 8 == 0 and 8 <= ranks <= 256,
            lambda: f"ep_world_size must be a multiple of 8 up to 256, got {ranks}",
        )
    layout = _check_layout(rules, ranks, rank, experts, tp_ranks, shared, 512)
    most = layout.all_local[-1]
    rules.require(is_a3() or most <= 24, lambda: f"experts of a rank must be at most 24 on A2, got {most}")
    rules.one_of("shared_expert_num", shared[1], (1,) if is_a3() else (0, 1))
    on_ranks = shared[2]
    rules.require(
        on_ranks == 0 or ranks % on_ranks == 0,
        lambda: f"ep_world_size must be a multiple of shared_expert_rank_num, got {ranks} and {on_ranks}",
    )
    return layout


def _check_layout(
    rules: Rules, ranks: int, rank: int, experts: int, tp_ranks: int, shared: Shared, most: int
) -> ExpertLayout:
    rules.require(0 <= rank < ranks, lambda: f"ep_rank_id must be from 0 to {ranks - 1}, got {rank}")
    rules.require(1 <= experts <= most, lambda: f"moe_expert_num must be from 1 to {most}, got {experts}")
    rules.one_of("tp_world_size", tp_ranks, (0, 1))
    kind, number, on_ranks = shared
    rules.one_of("expert_shard_type", kind, (0,))
    limit = ranks - 1 if is_a3() else 0
    rules.require(0 <= on_ranks <= limit, lambda: f"shared_expert_rank_num must be from 0 to {limit}, got {on_ranks}")
    others = ranks - on_ranks
    rules.require(
        experts % others == 0,
        lambda: f"moe_expert_num must be a multiple of the ranks without shared experts, got {experts} and {others}",
    )
    return ExpertLayout.of(ranks, rank, experts, number, on_ranks)


@dataclass(frozen=True)
class Limits:
    """The most tokens per rank, the most experts per token, and the range of widths on A3."""

    tokens: int
    chosen: int
    widths: tuple[int, int] = (1024, 8192)


def limits(comm_alg: str = "") -> Limits:
    """The limits of the second version."""
    if not is_a3():
        return Limits(256, 16)
    return Limits(256, 12) if comm_alg == "fullmesh_v2" else Limits(512, 16)


def limits_of_first() -> Limits:
    """The limits of the first version."""
    return Limits(512, 8, (7168, 7168)) if is_a3() else Limits(256, 16)


def check_tokens(rules: Rules, name: str, x: Tensor, expert_ids: Tensor, experts: int, limits: Limits) -> None:
    """Check the rows of tokens and their expert ids."""
    rules.rank(name, x, 2)
    rules.rank("expert_ids", expert_ids, 2)
    rules.dtype("expert_ids", expert_ids, (torch.int32,))
    rows, chosen, width, most = expert_ids.size(0), expert_ids.size(1), x.size(1), limits.tokens
    rules.require(rows >= 1, lambda: f"expert_ids.size(0) must be at least 1, got {rows}")
    rules.require(rows <= most, lambda: f"expert_ids.size(0) must be at most {most}, got {rows}")
    rules.at_least("expert_ids.size(1)", chosen, 1)
    limit = min(limits.chosen, experts)
    rules.require(chosen <= limit, lambda: f"expert_ids.size(1) must be at most {limit}, got {chosen}")
    low, high, step = (*limits.widths, 1) if is_a3() else (32, 5120 if x.dtype == torch.int32 else 7168, 32)
    rules.require(width >= low, lambda: f"{name}.size(1) must be at least {low}, got {width}")
    rules.require(width <= high, lambda: f"{name}.size(1) must be at most {high}, got {width}")
    rules.require(width % step == 0, lambda: f"{name}.size(1) must be a multiple of {step}, got {width}")


def check_mask(rules: Rules, mask: Tensor | None, expert_ids: Tensor) -> None:
    """Check a mask with one bool per token, or per token and expert."""
    if mask is not None:
        rules.dtype("x_active_mask", mask, (torch.bool,))
        rules.rank("x_active_mask", mask, 1, 2)
        for dim in range(mask.dim()):
            size = f"x_active_mask.size({dim})"
            rules.equal(size, mask.size(dim), f"expert_ids.size({dim})", expert_ids.size(dim))


def check_weights(rules: Rules, name: str, weights: Tensor, expert_ids: Tensor) -> None:
    """Check the weights, a float32 per token and expert."""
    rules.dtype(name, weights, (torch.float32,))
    rules.rank(name, weights, 2)
    for dim in range(2):
        rules.equal(f"{name}.size({dim})", weights.size(dim), f"expert_ids.size({dim})", expert_ids.size(dim))


def check_batch(rules: Rules, global_bs: int, ranks: int) -> None:
    """Check the number of tokens of all ranks; 0 leaves it open."""
    rules.require(global_bs >= 0, lambda: f"global_bs must be at least 0, got {global_bs}")
    rules.require(
        global_bs % ranks == 0, lambda: f"global_bs must be a multiple of ep_world_size, got {global_bs} and {ranks}"
    )


def check_specials(rules: Rules, zero: int, copy: int, const: int) -> None:
    """Check the counts of zero, copy and constant experts, which compute nothing."""
    for name, number in (("zero_expert_num", zero), ("copy_expert_num", copy), ("const_expert_num", const)):
        rules.require(number >= 0, lambda: f"{name} must be at least 0, got {number}")  # noqa: B023
    rules.require(const == 0 or is_a3(), lambda: f"const_expert_num must be 0 on A2, got {const}")
