"""npu_fusion_attention reads query, key and value as the linears give them, and keys and values before repeat_kv.

transformers transposes all three to BNSD, repeats the heads of keys and values, and transposes the result back. The
operator takes BSH and shares heads itself. Norms and rotary embeddings between a transpose and the operator move along.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, readers, without_full_slices

if TYPE_CHECKING:
    from torch.fx import Node

_KEEP_PROB = 9  # the position of the argument
_ROTARY = torch.ops.npu.npu_rotary_mul.default
_NORMS = (torch.ops.npu.npu_rms_norm.default, torch.ops.npu.npu_gemma_rms_norm.default)
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
_COPIES = (aten.clone.default, aten.contiguous.default)


def _patterns() -> Alternatives:
    attention = torch.ops.npu.npu_fusion_attention.default
    operands = [leaf(name) for name in ("query", "key", "value", "head_num", "input_layout")]
    others = [leaf(f"argument_{index}") for index in range(8)]
    return [call(attention, *operands, *others[:count]) for count in range(len(others) + 1)]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    if leaves["input_layout"] != "BNSD":
        return False
    keep_prob = root.args[_KEEP_PROB] if len(root.args) > _KEEP_PROB else root.kwargs.get("keep_prob", 1.0)
    if keep_prob != 1:
        raise NotFusedError(f"it has dropout: keep_prob is {keep_prob}")
    query, key, value = leaves["query"], before_repeat(leaves["key"]), before_repeat(leaves["value"])
    transposed = [before_transpose(tensor) for tensor in (query, key, value)]
    is_shared = key is not leaves["key"] and value is not leaves["value"]
    if not is_shared:
        key, value = leaves["key"], leaves["value"]
        transposed[1:] = [before_transpose(tensor) for tensor in (key, value)]
    if None in transposed:
        if not is_shared:
            raise NotFusedError("query, key or value, such as a cache, is stored as BNSD")
        with rewriter.before(root, root):
            fused = rewriter.call(root.target, query, key, value, *root.args[3:], **root.kwargs)
            rewriter.replace_results(root, fused)
        return True
    with rewriter.before(root, root):
        heads = [as_bsnd(rewriter, tensor) for tensor in (query, key, value)]
        operands = [rewriter.merge_last(tensor) for tensor in heads]
        fused = rewriter.call(root.target, *operands, root.args[3], "BSH", *root.args[5:], **root.kwargs)
        out = rewriter.view_like(rewriter.result(fused, 0), heads[0])
        transposed_out = rewriter.call(aten.transpose.int, out, 1, 2)
        for node in readers(root):
            if node.args[1] == 0:
                replace_transposes(rewriter, node, out)
                rewriter.replace(node, transposed_out)
            else:
                rewriter.replace(node, rewriter.result(fused, int(node.args[1])))  # type: ignore[arg-type]
    return True


def before_repeat(tensor: Node) -> Node:
    """The keys or values whose heads ``repeat_kv`` repeats; the tensor itself where they are not repeated."""
    copy = tensor.args[0] if tensor.target in _VIEWS else None
    expand: Any = copy.args[0] if isinstance(copy, torch.fx.Node) and copy.target in _COPIES else copy
    if not isinstance(expand, torch.fx.Node) or expand.target is not aten.expand.default:
        return tensor
    unsqueeze: Any = without_full_slices(expand.args[0])  # type: ignore[arg-type]
    if unsqueeze.target is not aten.unsqueeze.default or unsqueeze.args[1] != 2:
        return tensor
    source = unsqueeze.args[0]
    before, after, whole = (node.meta["val"].shape for node in (source, expand, tensor))
    repeats = len(after) == 5 and (after[0], after[1], after[3], after[4]) == tuple(before)
    return source if repeats and tuple(whole) == (before[0], after[1] * after[2], before[2], before[3]) else tensor


def before_transpose(tensor: Node) -> Node | None:
    """The BSND tensor whose transpose ``tensor`` is, or the norm or rotary embedding of one."""
    if tensor.target is aten.transpose.int and sorted(dim % 4 for dim in tensor.args[1:]) == [1, 2]:  # type: ignore[operator]
        return tensor.args[0]  # type: ignore[return-value]
    if tensor.target is _ROTARY and len(tensor.args) == 3:
        return before_transpose(tensor.args[0])  # type: ignore[arg-type]
    norm = _norm(tensor)
    return None if norm is None else before_transpose(norm.args[0])  # type: ignore[arg-type]


def _norm(tensor: Node) -> Node | None:
    """The norm over the channels whose first result ``tensor`` is."""
    norm: Any = tensor.args[0] if tensor.target is operator.getitem and tensor.args[1] == 0 else None
    is_of_rows = norm is not None and norm.target in _NORMS and norm.args[1].meta["val"].dim() == 1
    return norm if is_of_rows else None


def as_bsnd(rewriter: Rewriter, tensor: Node) -> Node:
    """The BSND tensor, with the norm and the rotary embedding of ``tensor``."""
    if tensor.target is aten.transpose.int:
        return tensor.args[0]  # type: ignore[return-value]
    norm = _norm(tensor)
    if norm is not None:
        source = as_bsnd(rewriter, norm.args[0])  # type: ignore[arg-type]
        return rewriter.result(rewriter.call(norm.target, source, *norm.args[1:], **norm.kwargs), 0)
    source = as_bsnd(rewriter, tensor.args[0])  # type: ignore[arg-type]
    tables = [_table(rewriter, table) for table in tensor.args[1:]]  # type: ignore[arg-type]
    return rewriter.call(_ROTARY, source, *tables, **tensor.kwargs)


def _table(rewriter: Rewriter, table: Node) -> Node:
    """Cosines or sines of BNSD for BSND."""
    if table.target is aten.unsqueeze.default and table.args[1] == 1:
        return rewriter.call(aten.unsqueeze.default, table.args[0], 2)
    return rewriter.call(aten.transpose.int, table, 1, 2)


def replace_transposes(rewriter: Rewriter, result: Node, out: Node) -> None:
    """Let the transposes of a BNSD result, and contiguous copies of them, be ``out``, which is BSND."""
    for node in transposes(result):
        for copy in [reader for reader in readers(node) if reader.target in _COPIES]:
            rewriter.replace(copy, out)
        rewriter.replace(node, out)


def transposes(result: Node) -> list[Node]:
    """The transposes of a BNSD result to BSND."""
    same = [result, *(node for node in readers(result) if node.target in _VIEWS and _has_shape_of(node, result))]
    nodes = [reader for tensor in same for reader in readers(tensor) if reader.target is aten.transpose.int]
    return [node for node in nodes if sorted(dim % 4 for dim in node.args[1:]) == [1, 2]]  # type: ignore[operator]


def _has_shape_of(node: Node, other: Node) -> bool:
    return tuple(node.meta["val"].shape) == tuple(other.meta["val"].shape)


FUSION = Fusion(
    "attention_layout",
    "npu_fusion_attention",
    _patterns,
    _rewrite,
    "Attention is computed in the same precision; a kernel may sum in another order.",
    2**-7,
)
