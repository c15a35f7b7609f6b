"""Calls that the model code of public recipes makes, with its dtypes, formats and layouts; sizes are scaled down.

``~`` marks a tensor that is not contiguous, ``@nz`` one in format FRACTAL_NZ. On an npu each call gives what it gives
for contiguous CPU tensors in format ND, and writes the same.
"""

import ast
import re
from typing import Any

import pytest
import torch
import torch_npu

from support.call_table import overload

_MASKED = "atten_mask=bool[2048, 2048], actual_seq_lengths=[2, 5], sparse_mode=3"
_PAGED = "block_table=int32[2, 1], block_size=128, num_key_value_heads=1"
_NZ_PAGES = "key=bfloat16[3, 1, 32, 128, 16], value=bfloat16[3, 1, 32, 128, 16], key_rope=bfloat16[3, 1, 4, 128, 16]"
_INT8_PAGES = "key=int8[3, 1, 16, 128, 32], value=int8[3, 1, 16, 128, 32], key_rope=bfloat16[3, 1, 4, 128, 16]"
_V2 = f"actual_seq_qlen=[1, 2], actual_seq_kvlen=[17, 9], input_layout='TND_NTD', num_query_heads=4, {_PAGED}"
_SINK = "learnable_sink=bfloat16[4], next_tokens=0, num_query_heads=4, num_key_value_heads=2, input_layout='TND'"
_NORMS = "rmsnorm_gamma_cq=bfloat16[128], rmsnorm_gamma_ckv=bfloat16[512], cache_mode='PA_NZ'"
_ANGLES = "rope_sin=bfloat16[2, 64], rope_cos=bfloat16[2, 64], cache_index=int64[2], kr_cache=bfloat16[3, 128, 1, 64]"
_SPARSE = "actual_seq_lengths_query=int32[2], block_table=int32[2, 1], layout_query='TND'"
CALLS = f"""
npu_rms_norm: input=bfloat16[1, 4, 256], gamma=bfloat16[256], epsilon=1e-05
npu_add_rms_norm: x1=bfloat16[4, 256], x2=bfloat16[4, 256], gamma=bfloat16[256]
npu_add_rms_norm_cast: x1=bfloat16[2, 256], x2=bfloat16[2, 256], gamma=bfloat16[256]
npu_add_rms_norm_dynamic_quant: x1=bfloat16[2, 256], x2=bfloat16[2, 256], gamma=bfloat16[256], output_mask=[True, False]
npu_interleave_rope: x=bfloat16[1, 4, 3, 64]~, cos=bfloat16[1, 1, 3, 64], sin=bfloat16[1, 1, 3, 64]
npu_apply_rotary_pos_emb: query=bfloat16[5, 4, 64]~, key=bfloat16[5, 2, 64]~, cos=bfloat16[5, 1, 64], sin=bfloat16[5, 1, 64], layout='TND'
npu_swiglu: input=bfloat16[1, 4, 64]
npu_scatter_nd_update_: input=bfloat16[32, 2, 64], indices=int64[4, 1], updates=bfloat16[4, 2, 64]~
scatter_update_: input=bfloat16[1, 20, 64], indices=int64[1], updates=bfloat16[1, 16, 64]~, axis=-2
npu_kv_rmsnorm_rope_cache_v2: kv=bfloat16[4, 1, 1, 576], gamma=bfloat16[512], cos=bfloat16[4, 1, 1, 64], sin=bfloat16[4, 1, 1, 64], index=int64[4], k_cache=bfloat16[3, 128, 1, 64], ckv_cache=int8[3, 128, 1, 512], c_kv_scale=float32[1, 512], cache_mode='PA_NZ', is_output_kv=True
npu_mla_prolog_v3: token_x=int8[2, 256], weight_dq=int8[256, 128]@nz, weight_uq_qr=int8[128, 768]@nz, weight_uk=bfloat16[4, 128, 512], weight_dkv_kr=int8[256, 576]@nz, {_NORMS}, {_ANGLES}, kv_cache=int8[3, 128, 1, 512], dequant_scale_x=float32[2, 1], dequant_scale_w_dq=float32[1, 128], dequant_scale_w_uq_qr=float32[1, 768], dequant_scale_w_dkv_kr=float32[1, 576], quant_scale_ckv=float32[1], weight_quant_mode=2, kv_cache_quant_mode=1, query_quant_mode=1
npu_mla_prolog_v3: token_x=bfloat16[2, 256], weight_dq=bfloat16[256, 128]@nz, weight_uq_qr=int8[128, 768]@nz, weight_uk=bfloat16[4, 128, 512], weight_dkv_kr=bfloat16[256, 576]@nz, {_NORMS}, {_ANGLES}, kv_cache=bfloat16[3, 128, 1, 512], dequant_scale_w_uq_qr=float32[1, 768], weight_quant_mode=1, query_norm_flag=True
npu_fused_infer_attention_score: query=bfloat16[4, 5, 128]~, key=bfloat16[4, 5, 128], value=bfloat16[4, 5, 128], {_MASKED}, actual_seq_lengths_kv=[2, 5], query_rope=bfloat16[4, 5, 64], key_rope=bfloat16[4, 5, 64], num_heads=4, scale=0.1, next_tokens=0, input_layout='NTD_TND', num_key_value_heads=4
npu_fused_infer_attention_score: query=bfloat16[5, 4, 512], {_NZ_PAGES}, {_MASKED}, actual_seq_lengths_kv=[9, 16], query_rope=bfloat16[5, 4, 64], {_PAGED}, num_heads=4, scale=0.1, input_layout='TND_NTD'
npu_fused_infer_attention_score: query=bfloat16[1, 4, 512], key=bfloat16[1, 4, 256], value=bfloat16[1, 4, 256]~, atten_mask=bool[2048, 2048], num_heads=4, scale=0.1, next_tokens=0, num_key_value_heads=2, sparse_mode=2
npu_fused_infer_attention_score: query=bfloat16[1, 1, 512], key=bfloat16[1, 20, 256], value=bfloat16[1, 20, 256], actual_seq_lengths_kv=[6], num_heads=4, scale=0.1, num_key_value_heads=2
npu_fused_infer_attention_score_v2: query=bfloat16[2, 4, 512], {_NZ_PAGES}, query_rope=bfloat16[2, 4, 64]~, softmax_scale=0.1, {_V2}
npu_fused_infer_attention_score_v2: query=int8[2, 4, 512], {_INT8_PAGES}, query_rope=bfloat16[2, 4, 64], dequant_scale_query=float32[2, 4], dequant_scale_key=float32[1], dequant_scale_value=float32[1], softmax_scale=0.1, query_quant_mode=3, {_V2}
npu_fused_infer_attention_score_v2: query=bfloat16[5, 4, 64], key=bfloat16[5, 2, 64], value=bfloat16[5, 2, 64]~, atten_mask=bool[2048, 2048], actual_seq_qlen=[2, 5], actual_seq_kvlen=[2, 5], {_SINK}, softmax_scale=0.125, pre_tokens=128, sparse_mode=4
npu_fused_infer_attention_score_v2: query=bfloat16[2, 4, 64], key=bfloat16[5, 128, 128], value=bfloat16[5, 128, 128], atten_mask=bool[2048, 2048], actual_seq_qlen=[1, 2], actual_seq_kvlen=[17, 17], block_table=int32[2, 1], {_SINK}, softmax_scale=0.125, sparse_mode=3, block_size=128
npu_lightning_indexer: query=bfloat16[5, 32, 128], key=bfloat16[3, 128, 1, 128], weights=bfloat16[5, 32], actual_seq_lengths_key=int32[2], layout_key='PA_BSND', {_SPARSE}
npu_quant_lightning_indexer: query=int8[5, 32, 128], key=int8[3, 128, 1, 128], weights=float16[5, 32], query_dequant_scale=float16[5, 32], key_dequant_scale=float16[3, 128, 1], query_quant_mode=0, key_quant_mode=0, actual_seq_lengths_key=int32[2], layout_key='PA_BSND', {_SPARSE}
npu_sparse_flash_attention: query=bfloat16[5, 4, 512], key=bfloat16[3, 128, 1, 512], value=bfloat16[3, 128, 1, 512], sparse_indices=int32[5, 1, 2048], scale_value=0.0625, actual_seq_lengths_kv=int32[2], query_rope=bfloat16[5, 4, 64], key_rope=bfloat16[3, 128, 1, 64], layout_kv='PA_BSND', attention_mode=2, {_SPARSE}
"""  # noqa: E501 (a line is a call)
_TENSOR = re.compile(r"(?P<dtype>\w+)\[(?P<sizes>[\d, ]+)\](?P<strided>~?)(?P<nz>(?:@nz)?)")
_PARTS = re.compile(r",\s*(?=\w+=)")


def _integers(name: str, sizes: list[int]) -> torch.Tensor:
    """Valid indices: of blocks, slots or rows, of keys from the first on, and the ends of sequences."""
    if name == "sparse_indices":
        return torch.where(torch.arange(sizes[-1]) < 2, torch.arange(sizes[-1]), -1).expand(sizes).clone()
    if name.startswith("actual_seq_lengths"):
        return torch.tensor([2, 5]) if name.endswith("query") else torch.tensor([12, 9])
    return torch.arange(1, 1 + sizes[0]).reshape(sizes)


def _values(name: str, dtype: torch.dtype, sizes: list[int]) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.ones(sizes, dtype=torch.bool).triu(1)
    if dtype == torch.int8:
        return torch.randint(-9, 9, sizes, dtype=dtype)
    if not dtype.is_floating_point:
        return _integers(name, sizes).to(dtype)
    return (torch.rand(sizes) / 8 if "scale" in name else torch.randn(sizes)).to(dtype)


def _arguments(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments as contiguous CPU tensors, and as the recipe has them."""
    plain: dict[str, Any] = {}
    laid_out: dict[str, Any] = {}
    for part in _PARTS.split(text):
        name, _, value = part.partition("=")
        form = _TENSOR.fullmatch(value)
        if form is None:
            plain[name] = laid_out[name] = ast.literal_eval(value)
            continue
        plain[name] = _values(name, getattr(torch, form["dtype"]), [int(size) for size in form["sizes"].split(",")])
        if name == "value" and "sparse_indices" in text:
            plain[name] = plain["key"].clone()
        laid_out[name] = plain[name].clone().npu()
        if form["strided"]:
            laid_out[name] = torch.cat([laid_out[name]] * 2, -1)[..., : laid_out[name].size(-1)]
        if form["nz"]:
            laid_out[name] = torch_npu.npu_format_cast(laid_out[name], torch_npu.Format.FRACTAL_NZ)
    return plain, laid_out


def _tensors(results: Any) -> list[torch.Tensor]:
    listed = results if isinstance(results, (list, tuple)) else [results]
    return [result.cpu() for result in listed if isinstance(result, torch.Tensor)]


@pytest.mark.parametrize("call", CALLS.strip().splitlines(), ids=lambda call: call.partition(":")[0])
def test_formats_and_strides_make_no_difference(call: str) -> None:
    op, _, text = call.partition(": ")
    plain, laid_out = _arguments(text)
    expected, results = overload(op)(**plain), overload(op)(**laid_out)
    written = [name for name, value in plain.items() if isinstance(value, torch.Tensor)]
    pairs = [*zip(_tensors(results), _tensors(expected), strict=True)]
    for result, other in (*pairs, *((laid_out[name].cpu(), plain[name]) for name in written)):
        assert (result.dtype, result.shape) == (other.dtype, other.shape)
        assert torch.equal(result, other)
