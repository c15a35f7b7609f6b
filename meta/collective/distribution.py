"""What may be passed to both ways between tokens and the ranks of their experts."""

from __future__ import annotations

import torch
from graph_quant.chip import is_a3
from graph_quant.meta.rules import Rules
from torch import Tensor

_RANKS_OF_A2 = (2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256)


def check_ranks(rules: Rules, ranks: int, rank: int, experts: int, tp_ranks: int, shared: tuple[int, int, int]) -> None:
    """The group and its experts: none of them shared here, and as many on every rank."""
    if is_a3():
        rules.require(2 <= ranks <= 768, lambda: f"ep_world_size must be from 2 to 768, got {ranks}")
    else:
        rules.one_of("ep_world_size", ranks, _RANKS_OF_A2)
    rules.require(0 <= rank < ranks, lambda: f"ep_rank_id must be from 0 to {ranks - 1}, got {rank}")
    rules.require(1 <= experts <= 1024, lambda: f"moe_expert_num must be from 1 to 1024, got {experts}")
    rules.require(
        experts % ranks == 0, lambda: f"moe_expert_num must be a multiple of ep_world_size, got {experts} and {ranks}"
    )
    rules.one_of("tp_world_size", tp_ranks, (0, 1))
    kind, number, on_ranks = shared
    rules.one_of("expert_shard_type", kind, (0,))
    rules.one_of("shared_expert_rank_num", on_ranks, (0,), ": ranks of shared experts are not computed on the host")
    rules.one_of("shared_expert_num", number, (0, 1), " without ranks of shared experts")


def check_tokens(rules: Rules, name: str, x: Tensor, expert_ids: Tensor, experts: int, most: int) -> None:
    """Tokens are rows; each names its experts."""
    rules.rank(name, x, 2)
    rules.rank("expert_ids", expert_ids, 2)
    rules.dtype("expert_ids", expert_ids, (torch.int32,))
    rows, chosen, width = expert_ids.size(0), expert_ids.size(1), x.size(1)
    rules.require(rows >= 1, lambda: f"expert_ids.size(0) must be at least 1, got {rows}")
    rules.require(rows <= most, lambda: f"expert_ids.size(0) must be at most {most}, got {rows}")
    rules.at_least("expert_ids.size(1)", chosen, 1)
    limit = min(16, experts)
    rules.require(chosen <= limit, lambda: f"expert_ids.size(1) must be at most {limit}, got {chosen}")
    low, high, step = (1024, 8192, 1) if is_a3() else (32, 5120 if x.dtype == torch.int32 else 7168, 32)
    rules.require(width >= low, lambda: f"{name}.size(1) must be at least {low}, got {width}")
    rules.require(width <= high, lambda: f"{name}.size(1) must be at most {high}, got {width}")
    rules.require(width % step == 0, lambda: f"{name}.size(1) must be a multiple of {step}, got {width}")


def check_mask(rules: Rules, mask: Tensor | None, expert_ids: Tensor) -> None:
    """A truth for each token, or for each of its experts."""
    if mask is not None:
        rules.dtype("x_active_mask", mask, (torch.bool,))
        rules.rank("x_active_mask", mask, 1, 2)
        for dim in range(mask.dim()):
            size = f"x_active_mask.size({dim})"
            rules.equal(size, mask.size(dim), f"expert_ids.size({dim})", expert_ids.size(dim))


def check_weights(rules: Rules, name: str, weights: Tensor, expert_ids: Tensor) -> None:
    """A float for each expert of a token."""
    rules.dtype(name, weights, (torch.float32,))
    rules.rank(name, weights, 2)
    for dim in range(2):
        rules.equal(f"{name}.size({dim})", weights.size(dim), f"expert_ids.size({dim})", expert_ids.size(dim))


def check_batch(rules: Rules, global_bs: int, ranks: int) -> None:
    """The tokens of all ranks, where they are told."""
    rules.require(global_bs >= 0, lambda: f"global_bs must be at least 0, got {global_bs}")
    rules.require(
        global_bs % ranks == 0, lambda: f"global_bs must be a multiple of ep_world_size, got {global_bs} and {ranks}"
    )


def check_specials(rules: Rules, zero: int, copy: int, const: int) -> None:
    """Experts that compute nothing: how many of each kind."""
    for name, number in (("zero_expert_num", zero), ("copy_expert_num", copy), ("const_expert_num", const)):
        rules.require(number >= 0, lambda: f"{name} must be at least 0, got {number}")  # noqa: B023
    rules.require(const == 0 or is_a3(), lambda: f"const_expert_num must be 0 on A2, got {const}")
