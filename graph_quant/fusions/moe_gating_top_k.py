"""Scores of a router, the best experts and their weights become npu_moe_gating_top_k.

The forms are softmax and top-k with or without renormalisation, top-k and softmax of the chosen logits, and
DeepSeek-V3's sigmoid with a bias, chosen groups and a factor.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, either, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, readers

if TYPE_CHECKING:
    from torch.fx import Node

_CAST = aten._to_copy.default
_GATING = torch.ops.npu.npu_moe_gating_top_k.default
_SIGMOID_NORM, _TWO_LARGEST = 1, 1
_HALVES = (torch.float16, torch.bfloat16)


_FORMS: tuple[tuple[Any, ...], ...] = ((), (-1,), (-1, True), (-1, True, False))


def _patterns() -> Alternatives:
    scores = call(aten._softmax.default, leaf("x"), -1, False)
    patterns: Alternatives = []
    for form in _FORMS:
        chosen = call(aten.topk.default, scores, leaf("k"), *form)
        weights = call(operator.getitem, chosen, 0)
        total = call(aten.sum.dim_IntList, weights, [-1], True)
        patterns += [call(aten.div.Tensor, weights, total), chosen]
        logits = call(operator.getitem, call(aten.topk.default, leaf("x"), leaf("k"), *form), 0)
        patterns += [call(aten._softmax.default, logits, dim, False) for dim in (-1, 1)]
    scores = call(aten.sigmoid.default, leaf("x"))
    for biased in either(aten.add.Tensor, [scores], [leaf("bias")]):
        patterns += [_grouped_pattern(scores, biased, form) for form in (_FORMS[0], _FORMS[-1])]
    return patterns


def _grouped_pattern(scores: Any, biased: Any, form: tuple[Any, ...]) -> Any:
    """DeepSeek-V3's: groups by the sum of their two best, experts of the best groups, normalised, times a factor."""
    two_largest = call(aten.topk.default, call(aten.view.default, biased, leaf("groups")), 2)
    group_scores = call(aten.sum.dim_IntList, call(operator.getitem, two_largest, 0), [-1])
    best = call(operator.getitem, call(aten.topk.default, group_scores, leaf("k_group"), *form), 1)
    mask = call(aten.scatter.value, call(aten.zeros_like.default, group_scores), 1, best, 1)
    wide = call(aten.clone.default, call(aten.expand.default, call(aten.unsqueeze.default, mask, -1), leaf("expanded")))
    is_allowed = call(
        _CAST, call([aten._unsafe_view.default, aten.view.default], wide, leaf("shape")), dtype=torch.bool
    )
    is_hidden = call([aten.bitwise_not.default, aten.logical_not.default], is_allowed)
    allowed = call(aten.masked_fill.Scalar, biased, is_hidden, leaf("fill"))
    chosen = call(operator.getitem, call(aten.topk.default, allowed, leaf("k"), *form), 1)
    weights = call(aten.gather.default, scores, 1, chosen)
    total = call(aten.add.Tensor, call(aten.sum.dim_IntList, weights, [-1], True), leaf("eps"))
    return call(aten.mul.Tensor, call(aten.div.Tensor, weights, total), leaf("factor"))


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    x, k = leaves["x"], leaves["k"]
    if root.target is aten.topk.default and _is_normalised(root):
        return False
    if x.meta["val"].dim() != 2:
        raise NotFusedError(f"the logits have {x.meta['val'].dim()} dimensions, not 2")
    chosen, weights, options = _describe(root, leaves)
    logits = _before_cast(x, weights)
    with rewriter.before(chosen, root):
        bias = options.get("bias")
        if bias is not None and bias.meta["val"].dtype != logits.meta["val"].dtype:
            options["bias"] = rewriter.call(_CAST, bias, dtype=logits.meta["val"].dtype)
        fused = rewriter.call(_GATING, logits, k, **options)
        y, index = rewriter.result(fused, 0), rewriter.result(fused, 1)
        if weights is not None:
            for node in [weights] if logits is x else readers(weights):
                rewriter.replace(node, y)
        _replace_index(rewriter, chosen, index)
    return True


def _is_normalised(chosen: Node) -> bool:
    """Whether the weights are divided by something: the pattern that ends there has all of it."""
    weights = [node for node in readers(chosen) if node.args[1] == 0]
    return any(node.target is aten.div.Tensor and node.args[0] in weights for one in weights for node in readers(one))


def _describe(root: Node, leaves: dict[str, Any]) -> tuple[Node, Node | None, dict[str, Any]]:
    """The node of the top-k, that of the weights, and the arguments of the operator."""
    if "bias" in leaves:
        return _describe_groups(root, leaves)
    if root.target is aten.topk.default:
        weights = [node for node in readers(root) if node.args[1] == 0]
        return root, weights[0] if weights else None, {}
    values: Any = root.args[0]
    return values.args[0], root, {"renorm": 1}


def _describe_groups(root: Node, leaves: dict[str, Any]) -> tuple[Node, Node | None, dict[str, Any]]:
    if leaves["fill"] != -math.inf:
        raise NotFusedError(f"experts outside the chosen groups score {leaves['fill']}, and may be chosen")
    groups = leaves["groups"]
    experts = leaves["x"].meta["val"].size(1)
    if len(groups) != 3 or groups[1] * groups[2] != experts:
        raise NotFusedError(f"the groups are {groups}, not (tokens, groups, experts of a group)")
    if not all(isinstance(leaves[name], float) for name in ("eps", "factor")):
        raise NotFusedError("the factor or epsilon is a tensor")
    if leaves["x"].meta["val"].dtype != torch.float32:
        raise NotFusedError(f"the scores are {leaves['x'].meta['val'].dtype}")
    ratio: Any = root.args[0]
    gathered = ratio.args[0]
    options = {
        "bias": leaves["bias"],
        "k_group": leaves["k_group"],
        "group_count": groups[1],
        "group_select_mode": _TWO_LARGEST,
        "norm_type": _SIGMOID_NORM,
        "routed_scaling_factor": leaves["factor"],
        "eps": leaves["eps"],
    }
    return gathered.args[2].args[0], root, options


def _before_cast(x: Node, weights: Node | None) -> Node:
    """The logits before they are cast to float32, where the weights are only read by casts back: it rounds once."""
    source: Any = x.args[0] if x.target is _CAST else None
    if source is None or weights is None or x.meta["val"].dtype != torch.float32 or not weights.users:
        return x
    dtype = source.meta["val"].dtype
    is_back = all(node.target is _CAST and node.meta["val"].dtype == dtype for node in readers(weights))
    return source if dtype in _HALVES and is_back else x  # type: ignore[no-any-return]


def _replace_index(rewriter: Rewriter, chosen: Node, index: Node) -> None:
    for result in [node for node in readers(chosen) if node.args[1] == 1]:
        for cast in [node for node in readers(result) if node.target is _CAST]:
            if cast.meta["val"].dtype == torch.int32:
                rewriter.replace(cast, index)
        if result.users:
            rewriter.replace(result, rewriter.call(_CAST, index, dtype=torch.int64))


FUSION = Fusion(
    "moe_gating_top_k",
    "npu_moe_gating_top_k",
    _patterns,
    _rewrite,
    "Weights are computed in float32 and rounded once. Of equal scores the lower expert is chosen.",
    2**-7,
)
