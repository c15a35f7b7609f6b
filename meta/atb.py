"""The operators of the ATB library that are served here.

torch_npu defines them when it loads its library for ATB, which needs CANN's package for it. Where that is not installed
they are defined here, with the schemas of torch_npu 2.13; the others are refused by name.
"""

from __future__ import annotations

import torch

SCHEMAS = {
    "_npu_paged_attention": (
        "(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int num_heads, float scale_value, "
        "Tensor block_table, Tensor context_lens, Tensor(a!) out, *, Tensor? workspace=None) -> ()"
    ),
    "_npu_paged_attention_get_workspace": (
        "(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, int num_heads, float scale_value, "
        "Tensor block_table, Tensor context_lens, Tensor(a!) out) -> Tensor"
    ),
    "_npu_flash_attention": (
        "(Tensor query, Tensor key, Tensor value, Tensor mask, Tensor seq_len, float scale_value, int num_heads, "
        "int num_kv_heads, Tensor(a!) out) -> ()"
    ),
    "_npu_reshape_and_cache": (
        "(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_indices) -> ()"
    ),
    "_npu_reshape_and_cache_siso": "(Tensor key, Tensor(a!) key_cache, Tensor slot_indices) -> ()",
}
_library = torch.library.Library("atb", "FRAGMENT")
for _name, _schema in SCHEMAS.items():
    if not hasattr(torch.ops.atb, _name):
        _library.define(_name + _schema)
