"""Schemas of the operators of the ATB library that are supported here.

torch_npu defines them when it loads its ATB library, which needs CANN's package. Without that package they are defined
here, with the schemas of torch_npu 2.13; other ATB operators are refused by name.
"""

from __future__ import annotations

import torch

_RING = (
    "Tensor q_nope, Tensor q_rope, Tensor k_nope, Tensor k_rope, Tensor value, Tensor mask, Tensor seqlen, "
    "int head_num, int kv_head_num, *, Tensor? pre_out=None, Tensor? prev_lse=None, float qk_scale=1, "
    "str? kernel_type=None, str? mask_type=None, str? input_layout=None, str? calc_type=None"
)
_LOAD = (
    "Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor context_lens, *, Tensor? seq_starts=None, "
    "bool cumsum=False"
)
_PAGED_V2 = (
    "Tensor query, Tensor key_cache, Tensor block_table, SymInt[] context_lens, *, Tensor? value_cache=None, "
    "Tensor? mask=None, int num_kv_heads=0, int num_heads=0, float scale_value=1.0, int mask_type=0"
)
_LATENT = (
    "Tensor q_nope, Tensor q_rope, Tensor ctkv, Tensor k_rope, Tensor block_tables, SymInt[] context_lens, "
    "int q_headnum, float qk_scale, int kv_headnum"
)
_LATENT_OPTIONS = (
    "*, Tensor? mask=None, SymInt[]? qseqlen=None, Tensor? qk_descale=None, Tensor? pv_descale=None, "
    "str? mask_type=None, str? calc_type=None, str? cache_mode=None"
)
_LATENT_LSE = f"{_LATENT}, bool return_lse, {_LATENT_OPTIONS}"
_TOPK = (
    "Tensor x, Tensor add_num, *, Tensor? mapping_num=None, Tensor? mapping_table=None, str? activation_type=None, "
    "int group_num=1, int group_topk=1, int n=1, int k=1, bool is_norm=True, float scale=1, "
    "bool enable_expert_mapping=False"
)
_PREFIX = (
    "Tensor query, Tensor key, Tensor value, Tensor block_tables, SymInt[] seqlen, SymInt[] kv_seqlen, int q_headnum, "
    "float qk_scale, int kv_headnum, *, Tensor? mask=None, Tensor? slopes=None, str? mask_type=None"
)
SCHEMAS = {
    "_npu_paged_attention": (
        "(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int num_heads, float scale_value, "
        "Tensor block_table, Tensor context_lens, Tensor(a!) out, *, Tensor? workspace=None) -> ()"
    ),
    "_npu_paged_attention_get_workspace": (
        "(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int num_heads, float scale_value, "
        "Tensor block_table, Tensor context_lens, Tensor(a!) out) -> Tensor"
    ),
    "_npu_paged_attention_v2.out": f"({_PAGED_V2}, Tensor? workspace=None, Tensor(a!) out) -> Tensor(a!)",
    "_npu_paged_attention_v2_get_workspace": f"({_PAGED_V2}, Tensor(a!) out) -> Tensor",
    "_npu_flash_attention": (
        "(Tensor query, Tensor key, Tensor value, Tensor mask, Tensor seq_len, float scale_value, int num_heads, "
        "int num_kv_heads, Tensor(a!) out) -> ()"
    ),
    "_npu_reshape_and_cache": (
        "(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_indices) -> ()"
    ),
    "_npu_reshape_and_cache_siso": "(Tensor key, Tensor(a!) key_cache, Tensor slot_indices) -> ()",
    "_npu_flash_attention_unpad": (
        "(Tensor query, Tensor key, Tensor value, Tensor seq_len, float scale_value, int num_heads, int num_kv_heads, "
        "Tensor(a!) out) -> ()"
    ),
    "_npu_flash_attention_unpad_v2": (
        "(Tensor query, Tensor key, Tensor value, Tensor seq_len, float scale_value, int num_heads, int num_kv_heads, "
        "*, int? kernel_type=0, Tensor(a!) out) -> ()"
    ),
    "_npu_flash_attention_v2.out": (
        "(Tensor query, Tensor key, Tensor value, SymInt[] seq_len, *, Tensor? mask=None, Tensor? slopes=None, "
        "int kernel_type=0, int mask_type=2, float scale_value=1, int num_heads=0, int num_kv_heads=0, Tensor(a!) out) "
        "-> Tensor(a!)"
    ),
    "_npu_flash_attention_prefix_v2.out": (
        "(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor mask, SymInt[] seq_len, "
        "SymInt[] context_lens, *, Tensor? slopes=None, int kernel_type=1, int mask_type=3, int num_kv_heads=0, "
        "int num_heads=0, float scale_value=1, Tensor(a!) out) -> Tensor(a!)"
    ),
    "npu_self_attention_prefix_encoder": f"({_PREFIX}) -> Tensor",
    "npu_self_attention_prefix_encoder.out": f"({_PREFIX}, Tensor(a!) output) -> Tensor(a!)",
    "_npu_flash_attention_qlens": (
        "(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor mask, Tensor seq_len, "
        "Tensor context_lens, int num_kv_heads, int num_heads, float scale_value, Tensor(a!) out) -> ()"
    ),
    "_npu_paged_attention_splitfuse": (
        "(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor context_lens, Tensor mask, "
        "Tensor seq_len, int num_kv_heads, int num_heads, float scale_value, Tensor(a!) out) -> ()"
    ),
    "_npu_paged_attention_mla": (
        "(Tensor query, Tensor key_cache, int num_kv_heads, int num_heads, float scale_value, Tensor block_table, "
        "Tensor context_lens, int mla_vheadsize, Tensor(a!) out) -> ()"
    ),
    "npu_multi_head_latent_attention": f"({_LATENT}, {_LATENT_OPTIONS}) -> Tensor",
    "npu_multi_head_latent_attention.out": f"({_LATENT}, {_LATENT_OPTIONS}, Tensor(a!) output) -> Tensor(a!)",
    "npu_multi_head_latent_attention.lse": f"({_LATENT_LSE}, Tensor? workspace=None) -> (Tensor, Tensor)",
    "npu_multi_head_latent_attention.lse_out": (
        f"({_LATENT_LSE}, Tensor? workspace=None, Tensor(a!) output, Tensor(b!) lse) -> (Tensor(a!), Tensor(b!))"
    ),
    "_npu_multi_head_latent_attention_get_workspace.lse": f"({_LATENT_LSE}) -> Tensor",
    "npu_ring_mla": f"({_RING}) -> (Tensor, Tensor)",
    "npu_ring_mla.out": (f"({_RING}, Tensor(a!) output, Tensor(b!) softmax_lse) -> (Tensor(a!), Tensor(b!))"),
    "npu_paged_cache_load": f"({_LOAD}) -> (Tensor, Tensor)",
    "npu_paged_cache_load.out": f"({_LOAD}, Tensor(a!) key, Tensor(b!) value) -> (Tensor(a!), Tensor(b!))",
    "_npu_matmul_add_fp32": "(Tensor x, Tensor weight, Tensor(a!) C) -> ()",
    "_npu_rotary_embedding": (
        "(Tensor positions, Tensor(a!) query, Tensor(b!) key, int head_size, Tensor cos_sin_cache, bool is_neox_style) "
        "-> ()"
    ),
    "_npu_group_topk": "(Tensor self, int k=0, int group_num=1, int n=1) -> ()",
    "npu_fused_add_topk_div": f"({_TOPK}) -> (Tensor, Tensor)",
    "npu_fused_add_topk_div.out": f"({_TOPK}, Tensor(a!) y, Tensor(b!) indices) -> (Tensor(a!), Tensor(b!))",
    "_npu_quant_rms_norm": (
        "(Tensor self, Tensor gamma, Tensor beta, Tensor scale, Tensor offset, Tensor(a!) output, float eps=1e-05) "
        "-> ()"
    ),
    "_npu_quantize_per_tensor": "(Tensor x, Tensor scale, Tensor zero_point, Tensor(a!) y) -> ()",
}
_library = torch.library.Library("atb", "FRAGMENT")
for _name, _schema in SCHEMAS.items():
    _base, _, _overload = _name.partition(".")
    # Looked up without torch.ops, which would cache the overloads that are defined so far.
    _known = torch._C._jit_get_schemas_for_operator(f"atb::{_base}")
    if _overload not in [_definition.overload_name for _definition in _known]:
        _library.define(_name + _schema)
