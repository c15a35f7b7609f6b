"""The operators of sparse attention become nodes of their own, of which TorchAir ships no registration."""

from __future__ import annotations

from typing import Any

from graph_quant.converters.lowering import lowers
from graph_quant.ge.dtypes import TO_DESC
from graph_quant.meta import Refusal
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


def _refuse_in_graphs(op: str, argument: str, is_asked_for: bool) -> None:
    if is_asked_for:
        raise Refusal(
            f"{op}: kernels of Ascend A2 and A3 cannot do {argument}=True in a graph; leave it out, or run eagerly"
        )


def _modes(layout_query: str, sparse_mode: int, pre_tokens: int, next_tokens: int, **others: Any) -> dict[str, Any]:
    return {
        "layout_query": attr.Str(layout_query),
        "sparse_mode": attr.Int(sparse_mode),
        "pre_tokens": attr.Int(pre_tokens),
        "next_tokens": attr.Int(next_tokens),
        **others,
    }


@lowers("npu_lightning_indexer")
def lower_indexer(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_key: Tensor | None,
    block_table: Tensor | None,
    layout_query: str,
    layout_key: str,
    sparse_count: int,
    sparse_mode: int,
    pre_tokens: int,
    next_tokens: int,
    return_value: bool,
) -> tuple[Tensor, Tensor]:
    """The GE node of one call."""
    _refuse_in_graphs("npu_lightning_indexer", "return_value", return_value)
    places, values = ge_op(
        op_type="LightningIndexer",
        inputs={
            "query": query,
            "key": key,
            "weights": weights,
            "actual_seq_lengths_query": actual_seq_lengths_query,
            "actual_seq_lengths_key": actual_seq_lengths_key,
            "block_table": block_table,
        },
        outputs=["sparse_indices", "sparse_values"],
        attrs=_modes(
            layout_query,
            sparse_mode,
            pre_tokens,
            next_tokens,
            layout_key=attr.Str(layout_key),
            sparse_count=attr.Int(sparse_count),
            return_values=attr.Bool(return_value),
        ),
    )
    places.desc.dtype = TO_DESC["int32"]
    return places, values


@lowers("npu_quant_lightning_indexer")
def lower_quant_indexer(
    query: Tensor,
    key: Tensor,
    weights: Tensor,
    query_dequant_scale: Tensor,
    key_dequant_scale: Tensor,
    query_quant_mode: int,
    key_quant_mode: int,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_key: Tensor | None,
    block_table: Tensor | None,
    layout_query: str,
    layout_key: str,
    sparse_count: int,
    sparse_mode: int,
    pre_tokens: int,
    next_tokens: int,
) -> Tensor:
    """The GE node of one call."""
    places: Tensor = ge_op(
        op_type="QuantLightningIndexer",
        inputs={
            "query": query,
            "key": key,
            "weights": weights,
            "query_dequant_scale": query_dequant_scale,
            "key_dequant_scale": key_dequant_scale,
            "actual_seq_lengths_query": actual_seq_lengths_query,
            "actual_seq_lengths_key": actual_seq_lengths_key,
            "block_table": block_table,
        },
        outputs=["sparse_indices"],
        attrs=_modes(
            layout_query,
            sparse_mode,
            pre_tokens,
            next_tokens,
            query_quant_mode=attr.Int(query_quant_mode),
            key_quant_mode=attr.Int(key_quant_mode),
            layout_key=attr.Str(layout_key),
            sparse_count=attr.Int(sparse_count),
        ),
    )
    places.desc.dtype = TO_DESC["int32"]
    return places


@lowers("npu_sparse_flash_attention")
def lower_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    scale_value: float,
    block_table: Tensor | None,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_kv: Tensor | None,
    query_rope: Tensor,
    key_rope: Tensor,
    sparse_block_size: int,
    layout_query: str,
    layout_kv: str,
    sparse_mode: int,
    pre_tokens: int,
    next_tokens: int,
    attention_mode: int,
    return_softmax_lse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The GE node of one call."""
    _refuse_in_graphs("npu_sparse_flash_attention", "return_softmax_lse", return_softmax_lse)
    out, largest, total = ge_op(
        op_type="SparseFlashAttention",
        inputs={
            "query": query,
            "key": key,
            "value": value,
            "sparse_indices": sparse_indices,
            "block_table": block_table,
            "actual_seq_lengths_query": actual_seq_lengths_query,
            "actual_seq_lengths_kv": actual_seq_lengths_kv,
            "query_rope": query_rope,
            "key_rope": key_rope,
        },
        outputs=["attention_out", "softmax_max", "softmax_sum"],
        attrs=_modes(
            layout_query,
            sparse_mode,
            pre_tokens,
            next_tokens,
            scale_value=attr.Float(scale_value),
            sparse_block_size=attr.Int(sparse_block_size),
            layout_kv=attr.Str(layout_kv),
            attention_mode=attr.Int(attention_mode),
            return_softmax_lse=attr.Bool(return_softmax_lse),
        ),
    )
    largest.desc.dtype = total.desc.dtype = TO_DESC["float32"]
    return out, largest, total


@lowers("npu_kv_quant_sparse_flash_attention")
def lower_quant_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sparse_indices: Tensor,
    scale_value: float,
    key_quant_mode: int,
    value_quant_mode: int,
    block_table: Tensor | None,
    actual_seq_lengths_query: Tensor | None,
    actual_seq_lengths_kv: Tensor | None,
    sparse_block_size: int,
    layout_query: str,
    layout_kv: str,
    sparse_mode: int,
    pre_tokens: int,
    next_tokens: int,
    attention_mode: int,
    quant_scale_repo_mode: int,
    tile_size: int,
    rope_head_dim: int,
) -> Tensor:
    """The GE node of one call."""
    out: Tensor = ge_op(
        op_type="KvQuantSparseFlashAttention",
        inputs={
            "query": query,
            "key": key,
            "value": value,
            "sparse_indices": sparse_indices,
            "key_dequant_scale": None,
            "value_dequant_scale": None,
            "block_table": block_table,
            "actual_seq_lengths_query": actual_seq_lengths_query,
            "actual_seq_lengths_kv": actual_seq_lengths_kv,
        },
        outputs=["attention_out"],
        attrs=_modes(
            layout_query,
            sparse_mode,
            pre_tokens,
            next_tokens,
            scale_value=attr.Float(scale_value),
            key_quant_mode=attr.Int(key_quant_mode),
            value_quant_mode=attr.Int(value_quant_mode),
            sparse_block_size=attr.Int(sparse_block_size),
            layout_kv=attr.Str(layout_kv),
            attention_mode=attr.Int(attention_mode),
            quant_scale_repo_mode=attr.Int(quant_scale_repo_mode),
            tile_size=attr.Int(tile_size),
            rope_head_dim=attr.Int(rope_head_dim),
        ),
    )
    return out
