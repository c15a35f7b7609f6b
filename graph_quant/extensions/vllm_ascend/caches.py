"""Copies between caches: swap_blocks, swap_blocks_batch, store_kv_block and its metadata.

``store_kv_block_metadata`` groups tokens whose slots follow each other inside a block: it writes the length of each
group, its first token and its first slot, and zero after the last group; negative slots belong to none.
``store_kv_block`` copies those groups of rows of ``key_in`` into a cache, whose slots are rows of the same size.

``swap_blocks`` copies blocks by pairs ``[source, target]``; one of the tensors may be on the CPU. ``swap_blocks_batch``
copies bytes by address, at once, on the current stream; it cannot be captured here.
"""

from __future__ import annotations

import ctypes

import torch
from graph_quant.dispatcher import overload
from graph_quant.host import recording
from graph_quant.meta import Plan, Rules, operator
from graph_quant.refusals import Refusal
from torch import Tensor

_STORED = (torch.int8, torch.float16, torch.bfloat16)
_BATCH = "_C_ascend::swap_blocks_batch"


def store_kv_block_metadata(
    slot_mapping: Tensor, group_len: Tensor, group_key_idx: Tensor, group_key_cache_idx: Tensor, block_size: int
) -> tuple[()]:
    """Write the groups."""
    slots = slot_mapping.tolist()
    groups: list[list[int]] = []
    for token, slot in enumerate(slots):
        follows = bool(groups) and token > 0 and slots[token - 1] >= 0 and slot == slots[token - 1] + 1
        if slot >= 0 and follows and slot // block_size == slots[token - 1] // block_size:
            groups[-1][0] += 1
        elif slot >= 0:
            groups.append([1, token, slot])
    for column, target in enumerate((group_len, group_key_idx, group_key_cache_idx)):
        target.zero_()
        target[: len(groups)] = torch.tensor([group[column] for group in groups], dtype=target.dtype)
    return ()


@operator("_C_ascend::store_kv_block_metadata", reference=store_kv_block_metadata)
def rules_of_store_kv_block_metadata(
    rules: Rules,
    slot_mapping: Tensor,
    group_len: Tensor,
    group_key_idx: Tensor,
    group_key_cache_idx: Tensor,
    block_size: int,
) -> Plan:
    """Check a call by the extension's host code; it returns nothing."""
    rules.at_least("block_size", block_size, 1)
    rules.rank("slot_mapping_npu", slot_mapping, 1)
    rules.not_empty("slot_mapping_npu", slot_mapping)
    _check_groups(rules, group_len, group_key_idx, group_key_cache_idx)
    rules.dtype("slot_mapping_npu", slot_mapping, (torch.int32,))
    rules.at_least("group_len.size(0)", group_len.size(0), slot_mapping.size(0))
    return Plan(())


def _check_groups(rules: Rules, group_len: Tensor, group_key_idx: Tensor, group_key_cache_idx: Tensor) -> None:
    rules.dtype("group_len", group_len, (torch.int32,))
    rules.rank("group_len", group_len, 1)
    rules.like("group_key_idx", group_key_idx, "group_len", group_len)
    rules.like("group_key_cache_idx", group_key_cache_idx, "group_len", group_len)


def store_kv_block(
    key_in: Tensor, key_cache_in: Tensor, group_len: Tensor, group_key_idx: Tensor, group_key_cache_idx: Tensor
) -> tuple[()]:
    """Copy the groups of rows into the cache."""
    rows = key_in.reshape(key_in.size(0), -1)
    cache = key_cache_in.view(-1, rows.size(1))
    groups = zip(group_len.tolist(), group_key_idx.tolist(), group_key_cache_idx.tolist(), strict=True)
    for index, (length, first, slot) in enumerate(groups):
        if length <= 0 or first < 0 or slot < 0:
            continue
        if first + length > rows.size(0) or slot + length > cache.size(0):
            raise Refusal(
                f"store_kv_block: group {index} must lie in the {rows.size(0)} rows of key_in and the {cache.size(0)} "
                f"of key_cache_in, got rows {first} to {first + length} and slots {slot} to {slot + length}"
            )
        cache[slot : slot + length] = rows[first : first + length]
    return ()


@operator("_C_ascend::store_kv_block", reference=store_kv_block)
def rules_of_store_kv_block(
    rules: Rules,
    key_in: Tensor,
    key_cache_in: Tensor,
    group_len: Tensor,
    group_key_idx: Tensor,
    group_key_cache_idx: Tensor,
    block_size: int,  # noqa: ARG001
) -> Plan:
    """Check a call by the extension's host code; it returns nothing."""
    rules.dtype("key_in", key_in, _STORED)
    rules.dtype("key_cache_in", key_cache_in, (key_in.dtype,), ", the dtype of key_in")
    rules.rank("key_in", key_in, 2, 8)
    rules.not_empty("key_in", key_in)
    rules.require(
        key_cache_in.is_contiguous(), lambda: f"key_cache_in must be contiguous, got {list(key_cache_in.stride())}"
    )
    width = key_in.numel() // key_in.size(0)
    rules.require(
        key_cache_in.numel() % width == 0,
        lambda: f"key_cache_in must hold whole rows of {width} elements, got {key_cache_in.numel()} elements",
    )
    _check_groups(rules, group_len, group_key_idx, group_key_cache_idx)
    return Plan(())


def swap_blocks(x: Tensor, y: Tensor, z: Tensor) -> tuple[()]:
    """Copy block ``z[i][0]`` of x to block ``z[i][1]`` of y."""
    for source, target in z.tolist():
        if not (0 <= source < x.size(0) and 0 <= target < y.size(0)):
            raise Refusal(
                f"swap_blocks: z must name blocks of x, {x.size(0)}, and y, {y.size(0)}, got [{source}, {target}]"
            )
        y[target].copy_(x[source])
    return ()


@operator("_C_ascend::swap_blocks", reference=swap_blocks, on_any_device=("x", "y", "z"))
def rules_of_swap_blocks(rules: Rules, x: Tensor, y: Tensor, z: Tensor) -> Plan:
    """Check that both caches have blocks of one size; the call returns nothing."""
    rules.dtype("y", y, (x.dtype,), ", the dtype of x")
    rules.rank("x", x, 1, 8)
    rules.rank("y", y, x.dim(), why=", as x has")
    for dim in range(1, x.dim()):
        rules.equal(f"y.size({dim})", y.size(dim), f"x.size({dim})", x.size(dim))
    for name, tensor in (("x", x), ("y", y)):
        rules.require(tensor.is_contiguous(), lambda: f"{name} must be contiguous, got {list(tensor.stride())}")  # noqa: B023
    rules.dtype("z", z, (torch.int64,))
    rules.shape("z", z, (z.size(0) if z.dim() else 0, 2))
    return Plan(())


def swap_blocks_batch(x: Tensor, y: Tensor, z: Tensor) -> tuple[()]:
    """Copy ``z[i]`` bytes from address ``x[i]`` to address ``y[i]``."""
    recording.refuse(overload(_BATCH))
    for source, target, size in zip(x.tolist(), y.tolist(), z.tolist(), strict=True):
        ctypes.memmove(target, source, size)
    return ()


@operator(_BATCH, reference=swap_blocks_batch)
def rules_of_swap_blocks_batch(rules: Rules, x: Tensor, y: Tensor, z: Tensor, direction: int) -> Plan:
    """Check the addresses' dtypes and numbers; the call returns nothing."""
    rules.one_of("direction", direction, (0, 1, 2))
    for name, tensor in (("x", x), ("y", y), ("z", z)):
        rules.dtype(name, tensor, (torch.int64,))
        rules.shape(name, tensor, (x.size(0) if x.dim() else 0,), ("x.size(0)",))
    return Plan(())
