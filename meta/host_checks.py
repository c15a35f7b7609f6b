"""Which operators' host checks were read, condition by condition, and in which source.

The host checks of an operator are what its aclnn function, the tiling of its kernel for A2 and A3 and its shape
inference in GE refuse. An operator is listed once every condition of them was compared with its rules: what the device
refuses is refused, what it takes is taken, but for what ``left`` names. ``docs/host-checks.md`` is written from this.
"""

from __future__ import annotations

from dataclasses import dataclass

# The repositories and commits that were read.
SOURCES = {
    "ops-nn": ("hicann/ops-nn", "e5c3fa932"),
    "ops-transformer": ("libochao-huawei/ops-transformer", "577814407"),
}


@dataclass(frozen=True)
class HostChecks:
    """The host checks of one operator: the source, its folders, and the conditions that the rules leave out."""

    source: str
    folders: tuple[str, ...]
    left: str = ""


def _nn(*folders: str, left: str = "") -> HostChecks:
    return HostChecks("ops-nn", folders, left)


def _transformer(*folders: str, left: str = "") -> HostChecks:
    return HostChecks("ops-transformer", folders, left)


_PROLOG_SIZES = "the hidden sizes and the rank 1536 of query, which models of other sizes need"
_EMPTY = (
    "the tiling refuses tensors without elements; the page of aclnn states that they are taken, and so are they here"
)

_ROPE_CACHE = "several heads beside v, cosines of one position, caches of more batches than kv in mode Norm: refused"

READ: dict[str, HostChecks] = {
    "npu_add_rms_norm": _nn("norm/add_rms_norm"),
    "npu_add_rms_norm_cast": _nn("norm/add_rms_norm_cast"),
    "npu_add_rms_norm_dynamic_quant": _nn("norm/add_rms_norm_dynamic_quant"),
    "npu_apply_rotary_pos_emb": _transformer("posembedding/apply_rotary_pos_emb"),
    "npu_clipped_swiglu": _nn(
        "activation/clipped_swiglu", left="more than 8192 groups, which its page denies: refused"
    ),
    "npu_dequant_swiglu_quant": _nn("quant/dequant_swiglu_quant", left="swiglu_mode 3: refused"),
    "npu_dynamic_quant": _nn("quant/dynamic_quant", "quant/dynamic_quant_v2"),
    "npu_dynamic_quant_asymmetric": _nn("quant/dynamic_quant", "quant/dynamic_quant_v2"),
    "npu_gather_pa_kv_cache": _transformer(
        "attention/gather_pa_kv_cache", left="caches of other dtypes, whose kernels are for Ascend 950: refused"
    ),
    "npu_gemma_rms_norm": _nn("norm/rms_norm", left=_EMPTY),
    "npu_group_quant": _nn("quant/group_quant"),
    "npu_grouped_matmul_add": _transformer("gmm/grouped_matmul_add"),
    "npu_grouped_matmul_add_": _transformer("gmm/grouped_matmul_add"),
    "npu_grouped_matmul_finalize_routing": _transformer(
        "gmm/grouped_matmul_finalize_routing",
        left="bfloat16 scales of int8 weights, whose kernel has no reference here: refused",
    ),
    "npu_grouped_matmul_swiglu_quant": _transformer("gmm/grouped_matmul_swiglu_quant"),
    "npu_interleave_rope": _transformer("posembedding/interleave_rope", left=_EMPTY),
    "npu_kv_rmsnorm_rope_cache": _transformer("posembedding/kv_rms_norm_rope_cache", left=_ROPE_CACHE),
    "npu_kv_rmsnorm_rope_cache_v2": _transformer("posembedding/kv_rms_norm_rope_cache", left=_ROPE_CACHE),
    "npu_lightning_indexer": _transformer("attention/lightning_indexer"),
    "npu_mla_prolog": _transformer("attention/mla_prolog", left=_PROLOG_SIZES),
    "npu_mla_prolog_v2": _transformer("attention/mla_prolog", left=_PROLOG_SIZES),
    "npu_mla_prolog_v3": _transformer(
        "attention/mla_prolog", "attention/mla_prolog_v3", left=f"{_PROLOG_SIZES}; caches in groups: refused"
    ),
    "npu_moe_compute_expert_tokens": _transformer("moe/moe_compute_expert_tokens"),
    "npu_moe_finalize_routing": _transformer("moe/moe_finalize_routing_v2"),
    "npu_moe_gating_top_k": _transformer("moe/moe_gating_top_k"),
    "npu_moe_gating_top_k_softmax": _transformer("moe/moe_gating_top_k_softmax", left=_EMPTY),
    "npu_moe_init_routing": _transformer(
        "moe/moe_init_routing", left="2**24 pairs and more, which its page denies: refused"
    ),
    "npu_moe_init_routing_v2": _transformer("moe/moe_init_routing_v3"),
    "npu_moe_re_routing": _transformer("moe/moe_re_routing"),
    "npu_moe_token_permute": _transformer("moe/moe_token_permute"),
    "npu_moe_token_unpermute": _transformer("moe/moe_token_unpermute"),
    "npu_qkv_rms_norm_rope_cache": _transformer(
        "posembedding/qkv_rms_norm_rope_cache", left="cosines of one position for all of a batch: refused"
    ),
    "npu_quant_matmul": _nn("matmul/quant_batch_matmul_v3", "matmul/quant_batch_matmul_v4"),
    "npu_quant_matmul_reduce_sum": _nn("matmul/quant_matmul_reduce_sum"),
    "npu_rms_norm": _nn("norm/rms_norm", left=_EMPTY),
    "npu_rms_norm_quant": _nn("norm/rms_norm_quant"),
    "npu_scatter_pa_kv_cache": _transformer("attention/scatter_pa_kv_cache"),
    "npu_swiglu": _nn("activation/swi_glu"),
    "npu_trans_quant_param": _nn("quant/trans_quant_param_v2"),
    "npu_transpose_batchmatmul": _nn("matmul/transpose_batch_mat_mul"),
}
