"""Calls that copy between caches."""

from typing import Any

import numpy as np
import torch

from support.extension_calls import Case, Wrong
from support.numpy_rules import floats
from support.tensors import bf16, ends, f16, i8

META, STORE, SWAP = (f"_C_ascend::{name}" for name in ("store_kv_block_metadata", "store_kv_block", "swap_blocks"))
BATCH = "_C_ascend::swap_blocks_batch"
GROUPS = ("group_len", "group_key_idx", "group_key_cache_idx")


def grouped(slots: Any, length: Any, _first: Any, _slot: Any, block_size: int) -> list[Any]:
    """Follow the groups from left to right, as the extension's code does."""
    groups, index, values = [], 0, slots.tolist()
    while index < len(values):
        if values[index] < 0:
            index += 1
            continue
        end = index + 1
        while end < len(values) and values[end] == values[end - 1] + 1 and values[end] % block_size:
            end += 1
        groups.append((end - index, index, values[index]))
        index = end
    out = np.zeros((3, len(length)), np.int32)
    out[:, : len(groups)] = np.array(groups, np.int32).reshape(-1, 3).T
    return list(out)


def stored(rows: Any, cache: Any, length: Any, first: Any, slot: Any, _block: int) -> list[Any]:
    out = (
        floats(cache).reshape(-1, rows[0].numel()) if rows.dtype != torch.int8 else cache.numpy().reshape(-1, 8).copy()
    )
    source = floats(rows) if rows.dtype != torch.int8 else rows.numpy()
    for count, token, target in zip(length.tolist(), first.tolist(), slot.tolist(), strict=True):
        for step in range(count):
            out[target + step] = source[token + step].reshape(-1)
    return [out.reshape(cache.shape)]


def swapped(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[Any]:
    out = floats(y).copy()
    for source, target in z.tolist():
        out[target] = floats(x)[source]
    return [out]


EMPTY = ends(*[9] * 8)
SLOTS = ends(6, 7, 8, 9, -1, 3, 1, 2)
PLANNED = ends(2, 0, 1), ends(0, 5, 4), ends(6, 9, 1)
VALID = [
    Case(META, "blocks of four", (SLOTS, EMPTY, EMPTY.clone(), EMPTY.clone(), 4), {}, grouped, GROUPS),
    Case(META, "blocks of one", (SLOTS, EMPTY, EMPTY.clone(), EMPTY.clone(), 1), {}, grouped, GROUPS),
    Case(META, "no slots", (ends(-1, -1), *[ends(5, 5, 5)] * 3, 4), {}, grouped, GROUPS),
    Case(STORE, "bfloat16", (bf16(6, 1, 8), bf16(3, 4, 1, 8), *PLANNED, 4), {}, stored, ("key_cache_in",)),
    Case(STORE, "int8", (i8(6, 8), i8(3, 4, 1, 8), *PLANNED, 4), {}, stored, ("key_cache_in",)),
    Case(SWAP, "blocks", (f16(3, 4, 8), f16(5, 4, 8), torch.tensor([[2, 0], [0, 4]])), {}, swapped, ("y",)),
]
WRONG = [
    Wrong(META, "group_len.size(0) must be at least 8, got 3", (SLOTS, *[ends(5, 5, 5)] * 3, 4)),
    Wrong(META, "slot_mapping_npu must be torch.int32, got torch.int64", (SLOTS.long(), EMPTY, EMPTY, EMPTY, 4)),
    Wrong(STORE, "key_cache_in must be torch.int8, the dtype of key_in", (i8(6, 8), f16(3, 8), *PLANNED, 4)),
    Wrong(STORE, "key_cache_in must hold whole rows of 8 elements, got 12", (i8(6, 8), i8(12), *PLANNED, 4)),
    Wrong(SWAP, "y.size(1) must equal x.size(1), got 4 and 2", (f16(3, 2), f16(5, 4), torch.tensor([[2, 0]]))),
    Wrong(BATCH, "direction must be 0, 1 or 2, got 3", (torch.ones(1, dtype=torch.int64),) * 3 + (3,)),
]
