"""Attention with a sink, as gpt-oss writes it, becomes npu_fused_infer_attention_score_v2.

The sink is a column of scores beside those of the keys, which is dropped after the softmax. Layouts and repeated heads
are as for ``infer_attention``.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .attention_layout import before_repeat
from .infer_attention import replace_attention
from .patterns import Alternatives, aten, call, leaf, through
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, require_rows

if TYPE_CHECKING:
    from torch.fx import Node

_OPERATOR = "npu_fused_infer_attention_score_v2"
_VIEWS = [aten.view.default, aten._unsafe_view.default, aten.reshape.default]


def _operands(tensors: Iterable[Any], name: str) -> Alternatives:
    """Operands of a product of four dimensions: expanded to their own sizes, copied or not, and viewed as three."""
    expanded = through(aten.expand.default, tensors, leaf(f"{name}_sizes"))
    copied = through(aten.clone.default, expanded, memory_format=leaf(f"{name}_format"))
    return through(_VIEWS, expanded + copied, leaf(f"{name}_view"))


def _products(first: Alternatives, second: Alternatives, name: str) -> Alternatives:
    products = [call(aten.bmm.default, *operands) for operands in product(first, second)]
    return through(_VIEWS, products, leaf(f"{name}_view"))


def _patterns() -> Alternatives:
    key = call(aten.transpose.int, leaf("key"), leaf("dim"), leaf("other_dim"))
    scores = _products(_operands([leaf("query")], "query"), _operands([key], "key"), "scores")
    scaled = through(aten.mul.Tensor, scores, leaf("scale"))
    sink = call(aten.expand.default, call(_VIEWS, leaf("sink"), leaf("sink_view")), leaf("sink_sizes"))
    joined = [call(aten.cat.default, [masked, sink], -1) for masked in through(aten.add.Tensor, scaled, leaf("mask"))]
    joined += [call(aten.cat.default, [unmasked, sink], -1) for unmasked in scaled]
    kept = through(aten.slice.Tensor, map(_weights, joined), 3, 0, leaf("end"))
    copied = through(aten.clone.default, kept)  # by a dropout that does nothing
    weights = _operands(kept + copied, "weights")
    return _products(weights, _operands([leaf("value")], "value"), "result")


def _weights(joined: Any) -> Any:
    largest = call(operator.getitem, call(aten.max.dim, joined, -1, True), 0)
    return call(aten._softmax.default, call(aten.sub.Tensor, joined, largest), -1, False)


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    query, key, value, sink = (leaves[name] for name in ("query", "key", "value", "sink"))
    _check_shapes(root, leaves)
    if not isinstance(leaves["scale"], (int, float)):
        raise NotFusedError("the scale is a tensor")
    require_rows(query)
    condition = _condition(leaves["mask"]) if "mask" in leaves else None
    shared_key, shared_value = before_repeat(key), before_repeat(value)
    if (shared_key is key) != (shared_value is value):
        raise NotFusedError("the heads of keys and values are not repeated alike")
    options: dict[str, Any] = {
        "learnable_sink": sink,
        "num_query_heads": query.meta["val"].size(1),
        "num_key_value_heads": shared_key.meta["val"].size(1),
        "softmax_scale": float(leaves["scale"]),
    }

    def attend(*operands: Node, input_layout: str) -> Node:
        if condition is not None:
            options["atten_mask"] = rewriter.call(aten.logical_not.default, condition)
        target = getattr(torch.ops.npu, _OPERATOR).default
        return rewriter.call(target, *operands, **options, input_layout=input_layout)

    replace_attention(rewriter, root, [root], (query, shared_key, shared_value), attend)
    return True


def _check_shapes(root: Node, leaves: dict[str, Any]) -> None:
    """Raise NotFusedError unless query, key and value are BNSD, which neither views nor expansions change."""
    query, key, value, sink = (leaves[name].meta["val"] for name in ("query", "key", "value", "sink"))
    if not query.dim() == key.dim() == value.dim() == 4 or sink.dim() != 1:
        raise NotFusedError("query, key and value do not have four dimensions, or the sink not one")
    if sorted(dim % 4 for dim in (leaves["dim"], leaves["other_dim"])) != [2, 3]:
        raise NotFusedError("the product is not with the transposed key")
    pairs = [(query.size(0), key.size(0)), (query.size(1), key.size(1)), (query.size(3), key.size(3))]
    pairs += list(zip(key.shape[:3], value.shape[:3], strict=True))
    pairs += list(zip(root.meta["val"].shape, (*query.shape[:3], value.size(3)), strict=False))
    pairs += [(sink.size(0), query.size(1)), (len(leaves["sink_view"]), 4), (len(leaves["result_view"]), 4)]
    if not all(statically_known_true(one == other) for one, other in pairs):
        raise NotFusedError("the sizes of query, key, value, sink and result are not those of attention")
    if leaves["sink_view"][0] != 1 or list(leaves["sink_view"][2:]) != [1, 1]:
        raise NotFusedError("the sink is not one score for each head")
    if leaves["end"] != -1:
        raise NotFusedError("other columns than the sink are dropped after the softmax")


def _condition(mask: Node) -> Node:
    """The condition that is true where a key is seen, from the scores that are added: 0 there, else the lowest."""
    if mask.target not in (aten.where.self, aten.where.ScalarOther):
        raise NotFusedError("the mask that is added is not chosen by a condition")
    condition, seen, hidden = mask.args
    if _number(seen) != 0 or _number(hidden) not in (-torch.inf, torch.finfo(mask.meta["val"].dtype).min):
        raise NotFusedError("the mask that is added has other values than 0 and the lowest number")
    return condition  # type: ignore[return-value]


def _number(node: Any) -> float | None:
    """The number that a tensor is filled with."""
    while isinstance(node, torch.fx.Node) and node.target in (aten._to_copy.default, aten.expand.default):
        node = node.args[0]
    target = node.target if isinstance(node, torch.fx.Node) else None
    if target is aten.zeros.default:
        return 0.0
    if target in (aten.full.default, aten.scalar_tensor.default):
        node = node.args[-1]
    return node if isinstance(node, (int, float)) else None


FUSION = Fusion(
    "sink_attention",
    _OPERATOR,
    _patterns,
    _rewrite,
    "Scores and weights are computed in float32; the plain form rounds each of them.",
    2**-5,
)
