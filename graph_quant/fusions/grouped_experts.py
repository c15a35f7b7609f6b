"""Experts on sorted rows, as transformers compiles them, become grouped products between two operators for routing.

They are npu_moe_init_routing_v2, npu_grouped_matmul and npu_moe_finalize_routing. The match is the weighted sum of the
rows of each token. From its order of rows follow the gather of tokens, the number of rows of each expert, the grouped
products and the biases of each row. What is between two products stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .patterns import Alternatives, aten, call, either, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, readers, require_rows

if TYPE_CHECKING:
    from torch.fx import Node

_OPERATOR = "npu_moe_finalize_routing"
_CAST, _INDEX = aten._to_copy.default, aten.index.Tensor
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
_WITHOUT_PADDING = 2
_COUNTS, _NOT_QUANTISED = 1, -1
_SINGLE_RESULT, _BY_ROWS = 3, 0


class _Routing(NamedTuple):
    """Tokens and their experts, the gather of rows, the ends of the experts' rows, and the products that read those."""

    tokens: Node
    experts: Node
    gathered: Node
    ends: Node
    expert_count: int
    sorted_experts: Node


def _patterns() -> Alternatives:
    order = leaf("order")
    weights = call(_INDEX, call(aten.view.default, leaf("weights"), [-1]), [order])
    column = call(aten.unsqueeze.default, weights, -1)
    inverse = call(aten.index_put.default, call(aten.empty_like.default, order, pin_memory=False), [order], leaf("all"))
    patterns: Alternatives = []
    for weighted in either(aten.mul.Tensor, [leaf("rows")], [column]):
        restored = call(aten.view.default, call(_INDEX, weighted, [inverse]), leaf("shape"))
        patterns.append(call(aten.sum.dim_IntList, restored, [1]))
    return patterns


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    weights = leaves["weights"]
    routing = _routing(leaves["order"], weights)
    tokens, experts = routing.tokens, routing.experts
    require_rows(tokens)
    products = [node for node in readers(routing.ends) if node.target is aten._grouped_mm.default]
    if not products or any(product.args[2:] != (routing.ends,) for product in products):
        raise NotFusedError("the rows of an expert are not multiplied by a grouped product")
    if leaves["all"].target is not aten.arange.default or len(leaves["all"].args) != 1:
        raise NotFusedError("the rows are not put back by the inverse of their order")
    _check_readers(routing, products)
    with rewriter.before(routing.gathered, routing.gathered):
        if experts.meta["val"].dtype != torch.int32:
            experts = rewriter.call(_CAST, experts, dtype=torch.int32)
        routed = rewriter.call(
            torch.ops.npu.npu_moe_init_routing_v2.default,
            tokens,
            experts,
            expert_num=routing.expert_count,
            expert_tokens_num_type=_COUNTS,
            expert_tokens_num_flag=True,
            quant_mode=_NOT_QUANTISED,
        )
        rows, row_index, counts = (rewriter.result(routed, index) for index in range(3))
        rewriter.replace(routing.gathered, rows)
    for product in products:
        _replace_product(rewriter, product, routing.sorted_experts, counts)
    with rewriter.before(root, root):
        last = root.args[0].args[0].args[0].args  # type: ignore[union-attr]
        (result,) = [node for node in last if node.target is not aten.unsqueeze.default]  # type: ignore[union-attr]
        fused = rewriter.call(
            torch.ops.npu.npu_moe_finalize_routing.default,
            *(result, None, None, None, weights, row_index, None),
            drop_pad_mode=_WITHOUT_PADDING,
        )
        rewriter.replace(root, fused)
    return True


def _routing(order: Node, weights: Node) -> _Routing:
    """What the order of rows is computed from, and what is computed from it."""
    sort: Any = order.args[0]
    if getattr(sort, "target", None) is not aten.sort.default or order.args[1] != 1 or len(sort.args) != 1:
        raise NotFusedError("the order of rows is not that of sorted experts")
    flat = sort.args[0]
    experts = flat.args[0] if flat.target in _VIEWS else flat
    if experts.meta["val"].dim() != 2 or weights.meta["val"].dim() != 2:
        raise NotFusedError("experts or their weights do not have two dimensions")
    if experts.target is _CAST and experts.args[0].meta["val"].dtype == torch.int32:
        experts = experts.args[0]
    top_k = experts.meta["val"].size(1)
    sorted_experts = next((node for node in readers(sort) if node.args[1] == 0), None)
    token_of_row = _only_reader(order, aten.floor_divide.default, "the token of each row")
    if token_of_row.args[1] != top_k:
        raise NotFusedError(f"rows are divided by {token_of_row.args[1]}, not by the {top_k} experts of a token")
    gathered = _only_reader(token_of_row, _INDEX, "a gather of the tokens")
    if sorted_experts is None:
        raise NotFusedError("the rows of each expert are not counted")
    integers = _only_reader(sorted_experts, _CAST, "the experts of the rows as int32")
    histogram = _only_reader(integers, aten.histc.default, "the number of rows of each expert")
    ends = _only_reader(histogram, aten.cumsum.default, "the ends of the rows of each expert")
    count = histogram.args[1]
    if histogram.args[2:] != (0, count - 1) or ends.args[1] != 0:  # type: ignore[operator]
        raise NotFusedError("the rows of each expert are not counted")
    return _Routing(gathered.args[0], experts, gathered, ends, count, sorted_experts)  # type: ignore[arg-type]


def _only_reader(node: Node, target: Any, what: str) -> Node:
    nodes = [reader for reader in readers(node) if reader.target is target]
    if len(nodes) != 1:
        raise NotFusedError(f"{what} is not computed once from {node.name}")
    return nodes[0]


def _check_readers(routing: _Routing, products: list[Node]) -> None:
    """Raise NotFusedError unless every product has rows in this order and one weight for each expert."""
    reached = {routing.gathered}
    for node in sorted(products):
        value, rows = node.args[1].meta["val"], node.args[0]  # type: ignore[union-attr]
        if value.dim() != 3 or not statically_known_true(value.size(0) == routing.expert_count):
            raise NotFusedError("the grouped product does not have a weight for each expert")
        if not _depends_on(rows, reached):  # type: ignore[arg-type]
            raise NotFusedError("the rows of a grouped product are not those of the sorted experts")
        reached.add(node)


def _depends_on(node: Node, sources: set[Node]) -> bool:
    return node in sources or any(_depends_on(source, sources) for source in node.all_input_nodes)


def _replace_product(rewriter: Rewriter, product: Node, sorted_experts: Node, counts: Node) -> None:
    """Replace a grouped product, with the biases of its rows if they are added to it."""
    rows, weight = product.args[:2]
    bias, total = _bias(product, sorted_experts)
    with rewriter.before(total, total):
        options: dict[str, Any] = {}
        if bias is not None:
            if bias.meta["val"].dtype == torch.bfloat16:  # which the operator takes in float32 alone
                bias = rewriter.call(_CAST, bias, dtype=torch.float32)
            options["bias"] = [bias]
        fused = rewriter.call(
            torch.ops.npu.npu_grouped_matmul.default,
            [rows],
            [weight],
            **options,
            group_list=counts,
            split_item=_SINGLE_RESULT,
            group_type=_BY_ROWS,
            group_list_type=_COUNTS,
        )
        rewriter.replace(total, rewriter.result(fused, 0))


def _bias(product: Node, sorted_experts: Node) -> tuple[Node | None, Node]:
    """The biases of all experts, if those of each row are added to the product alone, and the sum."""
    users = readers(product)
    if len(users) == 1 and users[0].target is aten.add.Tensor and not users[0].kwargs:
        for other in users[0].all_input_nodes:
            if other.target is _INDEX and other.args[1] == [sorted_experts]:
                return other.args[0], users[0]  # type: ignore[return-value]
    return None, product


FUSION = Fusion(
    "grouped_experts",
    _OPERATOR,
    _patterns,
    _rewrite,
    "Biases are added and rows weighted and added up in float32, and rounded once.",
    2**-6,
)
