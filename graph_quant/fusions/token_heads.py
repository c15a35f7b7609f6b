"""Heads of one token are split as BNSD at once, without a transpose of query, key and value each.

With one token BSND and BNSD are the same memory. Norms of the heads between the split and the transposes move along.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .patterns import Alternatives, aten, call, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, readers

if TYPE_CHECKING:
    from torch.fx import Node

_SPLIT = aten.split_with_sizes.default
_NORMS = (torch.ops.npu.npu_rms_norm.default, torch.ops.npu.npu_gemma_rms_norm.default)


def _patterns() -> Alternatives:
    return [call(_SPLIT, call(aten.view.default, leaf("x"), leaf("shape")), leaf("sizes"), 2)]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    view: Any = root.args[0]
    shape = leaves["shape"]
    value = view.meta["val"]
    parts = [part for part in readers(root) if part.users]
    if value.dim() != 4 or not statically_known_true(value.size(1) == 1) or not any(map(_is_transposed, parts)):
        return False
    pairs = [(part, norm, transpose) for part in parts for norm, transpose in _transposes(part)]
    if not all(_transposes(part) for part in parts):
        raise NotFusedError("some of the heads are read before they are transposed")
    with rewriter.before(root, root):
        heads = rewriter.call(aten.view.default, leaves["x"], [shape[0], shape[2], shape[1], shape[3]])
        split = rewriter.call(_SPLIT, heads, leaves["sizes"], 1)
        results = {part: rewriter.result(split, int(part.args[1])) for part in parts}  # type: ignore[arg-type]
    for part, norm, transpose in pairs:
        result = results[part]
        with rewriter.before(transpose, transpose):
            if norm is not None:
                result = rewriter.result(rewriter.call(norm.target, result, *norm.args[1:], **norm.kwargs), 0)
            rewriter.replace(transpose, result)
    return True


def _transposes(part: Node) -> list[tuple[Node | None, Node]]:
    """The transposes of heads to BNSD, each with the norm before it, if nothing else reads the heads."""
    pairs: list[tuple[Node | None, Node]] = []
    for reader in readers(part):
        results = [node for node in readers(reader) if node.users] if reader.target in _NORMS else []
        normed = [node for node in results if node.target is operator.getitem and node.args[1] == 0]
        is_norm = len(results) == len(normed) == 1 and _is_of_channels(reader)
        nodes = [(reader, node) for node in readers(normed[0])] if is_norm else [(None, reader)]
        for _, node in nodes:
            if not _is_to_heads(node):
                return []
        pairs += nodes
    return pairs


def _is_transposed(part: Node) -> bool:
    return any(_is_to_heads(node) for node in readers(part))


def _is_to_heads(node: Node) -> bool:
    return node.target is aten.transpose.int and sorted(dim % 4 for dim in node.args[1:]) == [1, 2]  # type: ignore[operator]


def _is_of_channels(norm: Node) -> bool:
    weight: Any = norm.args[1]
    return weight.meta["val"].dim() == 1


FUSION = Fusion("token_heads", None, _patterns, _rewrite, "Results keep every bit.", 0.0)
