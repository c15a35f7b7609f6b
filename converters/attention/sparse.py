"""The operators of sparse attention become nodes of their own, of which TorchAir ships no registration.

Each input or attribute of a node is the argument of the same name; inputs without one are omitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_quant.converters.lowering import lowers
from graph_quant.ge import TO_DESC
from graph_quant.meta import Refusal
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor

_KINDS = {str: attr.Str, bool: attr.Bool, int: attr.Int, float: attr.Float}
_LENGTHS = ("actual_seq_lengths_query", "actual_seq_lengths_key", "block_table")
_PAGES = ("block_table", "actual_seq_lengths_query", "actual_seq_lengths_kv")
_MODES = ("layout_query", "sparse_mode", "pre_tokens", "next_tokens")
_INDEX_ATTRIBUTES = ("layout_key", "sparse_count")
_ATTENTION = ("scale_value", "sparse_block_size", "layout_kv", "attention_mode")


def _node(op_type: str, inputs: Sequence[str], attributes: Sequence[str], outputs: list[str], arguments: Any) -> Any:
    return ge_op(
        op_type=op_type,
        inputs={name: arguments.get(name) for name in inputs},
        outputs=outputs,
        attrs={name: _KINDS[type(arguments[name])](arguments[name]) for name in (*_MODES, *attributes)},
    )


def _refuse_in_graphs(op: str, argument: str, arguments: dict[str, Any]) -> None:
    if arguments[argument]:
        raise Refusal(
            f"{op}: kernels of Ascend A2 and A3 cannot do {argument}=True in a graph; leave it out, or run eagerly"
        )


@lowers("npu_lightning_indexer")
def lower_indexer(**arguments: Any) -> tuple[Tensor, Tensor]:
    """The GE node of one call."""
    _refuse_in_graphs("npu_lightning_indexer", "return_value", arguments)
    indices, values = _node(
        "LightningIndexer",
        ("query", "key", "weights", *_LENGTHS),
        (*_INDEX_ATTRIBUTES, "return_values"),
        ["sparse_indices", "sparse_values"],
        arguments | {"return_values": arguments["return_value"]},
    )
    indices.desc.dtype = TO_DESC["int32"]
    return indices, values


@lowers("npu_quant_lightning_indexer")
def lower_quant_indexer(**arguments: Any) -> Tensor:
    """The GE node of one call."""
    indices: Tensor = _node(
        "QuantLightningIndexer",
        ("query", "key", "weights", "query_dequant_scale", "key_dequant_scale", *_LENGTHS),
        ("query_quant_mode", "key_quant_mode", *_INDEX_ATTRIBUTES),
        ["sparse_indices"],
        arguments,
    )
    indices.desc.dtype = TO_DESC["int32"]
    return indices


@lowers("npu_sparse_flash_attention")
def lower_attention(**arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The GE node of one call."""
    _refuse_in_graphs("npu_sparse_flash_attention", "return_softmax_lse", arguments)
    out, largest, total = _node(
        "SparseFlashAttention",
        ("query", "key", "value", "sparse_indices", *_PAGES, "query_rope", "key_rope"),
        (*_ATTENTION, "return_softmax_lse"),
        ["attention_out", "softmax_max", "softmax_sum"],
        arguments,
    )
    largest.desc.dtype = total.desc.dtype = TO_DESC["float32"]
    return out, largest, total


@lowers("npu_kv_quant_sparse_flash_attention")
def lower_quant_attention(**arguments: Any) -> Tensor:
    """The GE node of one call; scales are in the cache."""
    reserved = {"key_dequant_scale": None, "value_dequant_scale": None}
    out: Tensor = _node(
        "KvQuantSparseFlashAttention",
        ("query", "key", "value", "sparse_indices", *reserved, *_PAGES),
        (*_ATTENTION, "key_quant_mode", "value_quant_mode", "quant_scale_repo_mode", "tile_size", "rope_head_dim"),
        ["attention_out"],
        arguments | reserved,
    )
    return out
