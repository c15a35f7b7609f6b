"""One call of an inference attention operator: its tensors, its attributes, and what follows from them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from .layouts import LAYOUTS, is_packed


@dataclass(frozen=True)
class Operands:
    """The tensors of a call, by their names in npu_fused_infer_attention_score."""

    query: Tensor
    key: Tensor
    value: Tensor
    pse_shift: Tensor | None = None
    atten_mask: Tensor | None = None
    dequant_scale1: Tensor | None = None
    quant_scale1: Tensor | None = None
    dequant_scale2: Tensor | None = None
    quant_scale2: Tensor | None = None
    quant_offset2: Tensor | None = None
    antiquant_scale: Tensor | None = None
    antiquant_offset: Tensor | None = None
    key_antiquant_scale: Tensor | None = None
    key_antiquant_offset: Tensor | None = None
    value_antiquant_scale: Tensor | None = None
    value_antiquant_offset: Tensor | None = None
    block_table: Tensor | None = None
    query_padding_size: Tensor | None = None
    kv_padding_size: Tensor | None = None
    key_shared_prefix: Tensor | None = None
    value_shared_prefix: Tensor | None = None
    query_rope: Tensor | None = None
    key_rope: Tensor | None = None
    dequant_scale_query: Tensor | None = None
    learnable_sink: Tensor | None = None


# The names in other operators of the arguments of npu_fused_infer_attention_score.
NAMES: Mapping[str, Mapping[str, str]] = {
    "npu_fused_infer_attention_score_v2": {
        "num_heads": "num_query_heads",
        "scale": "softmax_scale",
        "actual_seq_lengths": "actual_seq_qlen",
        "actual_seq_lengths_kv": "actual_seq_kvlen",
        "key_antiquant_scale": "dequant_scale_key",
        "key_antiquant_offset": "dequant_offset_key",
        "value_antiquant_scale": "dequant_scale_value",
        "value_antiquant_offset": "dequant_offset_value",
        "key_antiquant_mode": "key_quant_mode",
        "value_antiquant_mode": "value_quant_mode",
        "quant_scale2": "quant_scale_out",
        "quant_offset2": "quant_offset_out",
        "softmax_lse_flag": "return_softmax_lse",
    },
    "npu_prompt_flash_attention": {
        "scale": "scale_value",
        "dequant_scale1": "deq_scale1",
        "dequant_scale2": "deq_scale2",
    },
    "npu_incre_flash_attention": {"scale": "scale_value", "actual_seq_lengths_kv": "actual_seq_lengths"},
}


@dataclass(frozen=True)
class Attributes:
    """The attributes of a call. ``num_key_value_heads`` 0 means the number of query heads."""

    op: str
    input_layout: str = "BSH"
    num_heads: int = 1
    num_key_value_heads: int = 0
    scale: float = 1.0
    pre_tokens: int = 2147483647
    next_tokens: int = 2147483647
    sparse_mode: int = 0
    inner_precise: int = 0
    block_size: int = 0
    antiquant_mode: int = 0
    key_antiquant_mode: int = 0
    value_antiquant_mode: int = 0
    softmax_lse_flag: bool = False
    actual_seq_lengths: Sequence[int] | None = None
    actual_seq_lengths_kv: Sequence[int] | None = None
    actual_shared_prefix_len: Sequence[int] | None = None

    def name(self, argument: str) -> str:
        """The name of an argument in this operator."""
        return NAMES.get(self.op, {}).get(argument, argument)

    @property
    def knows_modes(self) -> bool:
        """Whether one query is masked by sparse modes; the kernel for a single query has masks only."""
        return self.op == "npu_prompt_flash_attention"

    @property
    def kv_heads(self) -> int:
        """The heads of key and value."""
        return self.num_key_value_heads or self.num_heads

    @property
    def layout(self) -> str:
        """The layout of query, and of key and value where they are not in blocks."""
        return LAYOUTS[self.input_layout][0]

    @property
    def out_layout(self) -> str:
        """The layout of the result."""
        return LAYOUTS[self.input_layout][1]

    @property
    def is_packed(self) -> bool:
        """Whether sequences are packed along T."""
        return is_packed(self.layout)
