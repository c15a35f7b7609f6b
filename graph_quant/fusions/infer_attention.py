"""npu_fusion_attention, which is for training, becomes npu_fused_infer_attention_score.

Of its results only the first may be read. Query, key and value are read as the linears give them, BSND, where they are
transposes; caches stay BNSD, and the result is BSND where it is transposed. Keys and values are read before repeat_kv.
What the operator does not support is left to ``attention_layout``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..refusals import Refusal
from .attention_layout import as_bsnd, before_repeat, before_transpose, replace_transposes, transposes
from .patterns import Alternatives, aten, call, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, readers

if TYPE_CHECKING:
    from torch.fx import Node

_ATTENTION = torch.ops.npu.npu_fusion_attention.default
_INFER = torch.ops.npu.npu_fused_infer_attention_score.default
# Arguments that mean the same for both operators, by their names in the one for training.
_SAME = {"atten_mask": "atten_mask", "scale": "scale", "pre_tockens": "pre_tokens", "next_tockens": "next_tokens",
         "inner_precise": "inner_precise", "sparse_mode": "sparse_mode"}  # fmt: skip
_PRECISE = (0, 2)  # 2: a row that sees no key is 0
_WITHOUT_MEANING = ("gen_mask_parallel", "sync", "seed", "offset", "softmax_layout")


def _patterns() -> Alternatives:
    operands = [leaf(name) for name in ("query", "key", "value", "head_num", "input_layout")]
    others = [leaf(f"argument_{index}") for index in range(8)]
    return [call(_ATTENTION, *operands, *others[:count]) for count in range(len(others) + 1)]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    if leaves["input_layout"] != "BNSD":
        return False
    options = _options(root)
    if any(result.args[1] != 0 and result.users for result in readers(root)):
        raise NotFusedError("its maxima and sums of the softmax are read, as training does")
    query, key, value = leaves["query"], before_repeat(leaves["key"]), before_repeat(leaves["value"])
    if (key is leaves["key"]) != (value is leaves["value"]):
        raise NotFusedError("the heads of keys and values are not repeated alike")
    options |= {"num_heads": leaves["head_num"], "num_key_value_heads": key.meta["val"].size(1)}
    results = [result for result in readers(root) if result.users]
    if key.meta["val"].size(3) != value.meta["val"].size(3):
        (query, options["query_rope"]), (key, options["key_rope"]) = (
            _parts(name, tensor) for name, tensor in (("query", query), ("key", key))
        )
        with rewriter.before(root, root):
            fused = rewriter.call(_INFER, query, key, value, **options, input_layout="BNSD")
            for result in results:
                rewriter.replace(result, rewriter.result(fused, 0))
        return True
    replace_attention(rewriter, root, results, (query, key, value), partial(rewriter.call, _INFER, **options))
    return True


def _parts(name: str, tensor: Node) -> tuple[Node, Node]:
    """The channels without and with positions, as latent attention joins them."""
    parts: Any = tensor.args[0] if tensor.target is aten.cat.default else ()
    if len(parts) != 2 or tensor.args[1] not in (-1, 3):
        raise NotFusedError(f"value has other channels than key, and {name} is not two parts, one with positions")
    return tuple(parts)  # type: ignore[return-value]


def replace_attention(
    rewriter: Rewriter, root: Node, results: Sequence[Node], operands: Sequence[Node], attend: Callable[..., Node]
) -> None:
    """Insert ``attend`` of BNSD operands before ``root``, in the layout with fewest transposes, for these results."""
    if None not in [before_transpose(tensor) for tensor in operands]:
        with rewriter.before(root, root):
            heads = [as_bsnd(rewriter, tensor) for tensor in operands]
            _replace_by_bsnd(rewriter, results, attend(*heads, input_layout="BSND"))
        return
    if any(map(transposes, results)):
        with suppress(Refusal), rewriter.before(root, root):
            _replace_by_bsnd(rewriter, results, attend(*operands, input_layout="BNSD_BSND"))
            return
    with rewriter.before(root, root):
        fused = attend(*operands, input_layout="BNSD")
        for result in results:
            rewriter.replace(result, rewriter.result(fused, 0))


def _replace_by_bsnd(rewriter: Rewriter, results: Sequence[Node], fused: Node) -> None:
    """Let what reads these BNSD results read that of ``fused``, which is BSND."""
    out = rewriter.result(fused, 0)
    transposed = rewriter.call(aten.transpose.int, out, 1, 2)
    for result in results:
        replace_transposes(rewriter, result, out)
        rewriter.replace(result, transposed)


def _options(root: Node) -> dict[str, Any]:
    """The arguments of the call that differ from their defaults, by the names of the operator for inference."""
    options: dict[str, Any] = {}
    for index, argument in enumerate(_ATTENTION._schema.arguments[5:], 5):
        name = argument.name
        value = root.args[index] if index < len(root.args) else root.kwargs.get(name, argument.default_value)
        if value == argument.default_value or name in _WITHOUT_MEANING:
            continue
        if name not in _SAME:
            raise NotFusedError(f"{name} is not for inference")
        if name == "inner_precise" and value not in _PRECISE:
            raise NotFusedError(f"inner_precise {value} means another precision for inference")
        options[_SAME[name]] = value
    return options


FUSION = Fusion(
    "infer_attention",
    "npu_fused_infer_attention_score",
    _patterns,
    _rewrite,
    "Attention is computed in the same precision; a kernel may sum in another order.",
    2**-6,
)
