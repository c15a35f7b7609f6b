"""build_tree_kernel_efficient: the tree of draft tokens of each sequence, written into its last five arguments.

Token 0 is the verified one, token i > 0 the draft with the index ``selected_index[i - 1]``. That index divided by
``topk`` is a row of ``parent_list``, which holds the index of its parent; row 0 is token 0. A token's position is the
length of the sequence plus its depth, its first child and its next sibling are the lowest ones, and its mask marks its
ancestors and itself, after the columns of the sequence, which are not written. Only ``tree_mask_mode`` 0 is here:
the kernel of mode 1 writes the masks of all tokens of a sequence to one row.
"""

from __future__ import annotations

import torch
from graph_quant.meta import Plan, Rules, operator
from graph_quant.refusals import Refusal
from torch import Tensor

_OP, _FULL_MASK = "build_tree_kernel_efficient", 0


def _parent(selected: list[int], parents: list[int], token: int, topk: int) -> int:
    """The parent of a token."""
    row = selected[token - 1] // topk
    if row == 0:
        return 0
    if not 0 < row < len(parents) or parents[row] not in selected:
        raise Refusal(f"{_OP}: selected_index must hold the parent of token {token}, row {row} of parent_list")
    return selected.index(parents[row]) + 1


def build_tree(
    parent_list: Tensor,
    selected_index: Tensor,
    verified_seq_len: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    topk: int,
    draft_token_num: int,
) -> tuple[()]:
    """Write masks, positions, indices, first children and next siblings."""
    count, start = draft_token_num, 0
    targets = [
        tensor.view(-1, count) for tensor in (positions, retrive_index, retrive_next_token, retrive_next_sibling)
    ]
    for sequence, length in enumerate(verified_seq_len.tolist()):
        end = start + count * (length + count)
        if length < 0 or end > tree_mask.numel():
            raise Refusal(f"{_OP}: tree_mask must have {end} elements, got {tree_mask.numel()}")
        masks = tree_mask.view(-1)[start:end].view(count, length + count)[:, length:]
        masks.zero_()
        masks[:, 0] = True
        selected, parents = selected_index[sequence].tolist(), parent_list[sequence].tolist()
        chain = [0, *(_parent(selected, parents, token, topk) for token in range(1, count))]
        depths, first, sibling = [0] * count, [-1] * count, [-1] * count
        for token in range(1, count):
            ancestor = token
            while ancestor:
                masks[token, ancestor] = True
                depths[token] += 1
                ancestor = chain[ancestor]
                if depths[token] > count:
                    raise Refusal(f"{_OP}: parent_list must be a tree, got a cycle at token {token}")
        for token in reversed(range(1, count)):
            sibling[token], first[chain[token]] = first[chain[token]], token
        rows = [length + depth for depth in depths], range(sequence * count, (sequence + 1) * count), first, sibling
        for target, values in zip(targets, rows, strict=True):
            target[sequence] = torch.tensor(values, dtype=torch.int64)
        start = end
    return ()


@operator(f"npu::{_OP}", reference=build_tree)
def rules_of_build_tree(
    rules: Rules,
    parent_list: Tensor,
    selected_index: Tensor,
    verified_seq_len: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> Plan:
    """Check a call by the extension's host code; it returns nothing."""
    rules.one_of("tree_mask_mode", tree_mask_mode, (_FULL_MASK,))
    rules.at_least("topk", topk, 1)
    rules.at_least("draft_token_num", draft_token_num, 1)
    rules.rank("parent_list", parent_list, 2)
    batch = parent_list.size(0)
    if depth > 1:  # else all are children of token 0, and no parent is read
        rules.equal("parent_list.size(1)", parent_list.size(1), "topk * (depth - 1) + 1", topk * (depth - 1) + 1)
    rules.shape("selected_index", selected_index, (batch, draft_token_num - 1))
    rules.shape("verified_seq_len", verified_seq_len, (batch,))
    rules.dtype("tree_mask", tree_mask, (torch.bool,))
    written = {
        "positions": positions,
        "retrive_index": retrive_index,
        "retrive_next_token": retrive_next_token,
        "retrive_next_sibling": retrive_next_sibling,
    }
    for name, tensor in written.items():
        rules.equal(f"{name}.numel()", tensor.numel(), "the tokens", batch * draft_token_num)
    read = {"parent_list": parent_list, "selected_index": selected_index, "verified_seq_len": verified_seq_len}
    for name, tensor in (read | written).items():
        rules.dtype(name, tensor, (torch.int64,))
    for name, tensor in (read | written | {"tree_mask": tree_mask}).items():
        rules.require(tensor.is_contiguous(), lambda: f"{name} must be contiguous, got {list(tensor.stride())}")  # noqa: B023
    return Plan(())
