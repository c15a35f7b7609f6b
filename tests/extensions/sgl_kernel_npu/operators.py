"""Calls of sgl-kernel-npu's operators."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from extensions.vllm_ascend import lora, matmul
from support.extension_calls import Case, Wrong
from support.numpy_rules import floats
from support.tensors import bf16, ends, f32

MASK, TREE = "npu::apply_token_bitmask", "npu::build_tree_kernel_efficient"
ASSIGN, UPDATE = "npu::cache_loc_assign", "npu::cache_loc_update"
WRITTEN = ("tree_mask", "positions", "retrive_index", "retrive_next_token", "retrive_next_sibling")


def masked(logits: torch.Tensor, bitmask: torch.Tensor, indices: torch.Tensor | None = None) -> list[Any]:
    out = floats(logits).copy()
    for row in range(len(logits)) if indices is None or not len(indices) else indices.tolist():
        for column in range(logits.size(1)):
            word = int(bitmask[row, column // 32]) if column // 32 < bitmask.size(1) else 0
            if not word >> column % 32 & 1:
                out[row, column] = -np.inf
    return [out, out]


def assigned(requests: Any, pool: Any, starts: Any, ends_: Any, slots: Any) -> list[Any]:
    out, used = pool.numpy().copy(), 0
    for request, start, end in zip(requests.tolist(), starts.tolist(), ends_.tolist(), strict=True):
        for position in range(start, end):
            out[request, position] = slots[used]
            used += 1
    return [out, out]


def updated(requests: Any, pool: Any, starts: Any, ends_: Any, slots: Any) -> list[Any]:
    spans = zip(requests.tolist(), starts.tolist(), ends_.tolist(), strict=True)
    read = [int(pool[request, position]) for request, start, end in spans for position in range(start, end)]
    out = slots.numpy().copy()
    out[: len(read)] = read
    return [out, out]


def grown(parents: Any, selected: Any, lengths: Any, mask: Any, *rest: Any) -> list[Any]:
    """Follow the extension's kernel: tokens from the last to the first for children, each one's chain for its mask."""
    topk, count = rest[-4], rest[-2]
    out, begin = mask.numpy().reshape(-1).copy(), 0
    rows: list[list[list[int]]] = [[], [], [], []]
    for b, length in enumerate(lengths.tolist()):
        chosen, child, sibling, positions = selected[b].tolist(), [-1] * count, [-1] * count, [length]

        def above(token: int, b: int = b, chosen: list[int] = chosen) -> int:
            row = chosen[token - 1] // topk
            return chosen.index(int(parents[b, row])) + 1 if row else 0

        for token in range(count - 1, 0, -1):
            parent = above(token)
            child[parent], sibling[token] = token, child[parent]
        for token in range(count):
            at = begin + (length + count) * token + length
            out[at : at + count] = False
            out[at] = True
            depth, walked = 0, token
            while walked:
                out[at + walked], depth, walked = True, depth + 1, above(walked)
            if token:
                positions.append(length + depth)
        begin += count * (length + count)
        for values, row in zip(
            (positions, list(range(b * count, b * count + count)), child, sibling), rows, strict=True
        ):
            row.append(values)
    return [out, np.array(rows[0]).ravel(), *(np.array(row) for row in rows[1:])]


def tree(*lengths: int, chosen: list[list[int]], parents: list[list[int]], topk: int, depth: int) -> tuple[Any, ...]:
    batch, count = len(lengths), len(chosen[0]) + 1
    mask = torch.ones(sum(count * (length + count) for length in lengths), dtype=torch.bool)
    empty = [torch.full((batch, count), 7) for _ in range(3)]
    read = torch.tensor(parents).reshape(batch, -1).long(), torch.tensor(chosen), torch.tensor(lengths)
    return (*read, mask, torch.full((batch * count,), 7), *empty, topk, depth, count, 0)


INT64 = torch.int64
BITS = torch.tensor([[-1, 5], [0, -(2**31)], [0x0F0F0F0F, 3]], dtype=torch.int32)
POOL = torch.arange(40, dtype=torch.int32).reshape(4, 10)
REQUESTS, STARTS, ENDS = ends(2, 0, 3), ends(1, 4, 0, dtype=INT64), ends(4, 4, 10, dtype=INT64)
SLOTS = torch.arange(100, 115, dtype=torch.int32)
# Two children of the root, three of the first of them, one of the second: topk 3, three steps.
CHOSEN, PARENTS = [[0, 1, 3, 4, 6], [0, 2, 3, 7, 8]], [[-1, 0, 1, 2, 4, 5, 6], [-1, 0, 2, 1, 3, 5, 6]]
TREE = Case(TREE, "two sequences", tree(3, 1, chosen=CHOSEN, parents=PARENTS, topk=3, depth=3), {}, grown, WRITTEN)
FLAT = replace(TREE, label="one step", args=tree(2, chosen=[[0, 1]], parents=[[]], topk=2, depth=1))
VALID = [
    *(replace(case, op=case.op.replace("_C_ascend", "npu")) for case in (*lora.VALID, *matmul.VALID)),
    Case(MASK, "all rows", (f32(3, 64), BITS), expected=masked, writes=("logits",)),
    Case(MASK, "some rows", (bf16(3, 50), BITS, ends(2, 0)), expected=masked, writes=("logits",)),
    Case(MASK, "more tokens than bits", (f32(3, 70), BITS), expected=masked, writes=("logits",)),
    Case(ASSIGN, "three requests", (REQUESTS, POOL, STARTS, ENDS, SLOTS), {}, assigned, ("token_pool",)),
    Case(UPDATE, "three requests", (REQUESTS.long(), POOL, STARTS, ENDS, SLOTS), {}, updated, ("out_cache_loc",)),
    TREE,
    FLAT,
]
WRONG = [
    Wrong(MASK, "bitmask.size(0) must equal logits.size(0), got 3 and 2", (f32(2, 64), BITS)),
    Wrong(MASK, "bitmask must be torch.int32, got torch.int64", (f32(3, 64), BITS.long())),
    Wrong(ASSIGN, "token_pool must be torch.int32", (REQUESTS, POOL.long(), STARTS, ENDS, SLOTS)),
    Wrong(TREE.op, "tree_mask_mode must be 0, got 1", (*TREE.args[:-1], 1)),
    Wrong(TREE.op, "selected_index.size(1) must equal 4, got 5", (*TREE.args[:-2], 5, 0)),
]
