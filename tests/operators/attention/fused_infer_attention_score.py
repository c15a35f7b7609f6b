"""Calls of npu_fused_infer_attention_score."""

from typing import Any

import torch
import torch_npu

from support import attention
from support.attention import TABLE, inference_calls, nearly
from support.call_table import Call, Case, Statement, bad, good
from support.tensors import bf16, ends, f16, f32, i8, i32, u8

NAME = "fused_infer_attention_score"
Q, K = f16(2, 4, 3, 32), f16(2, 2, 5, 32)
GQA = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD", "scale": 0.2}
PAGED = {"block_table": ends(2, 0).reshape(2, 1), "block_size": 16, "actual_seq_lengths_kv": [5, 16]}
T = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "TND", "scale": 0.2}
LENGTHS = {"actual_seq_lengths": [1, 3], "actual_seq_lengths_kv": [2, 5]}
CACHE = {"key_antiquant_scale": f16(1, 2, 1, 32), "value_antiquant_scale": f16(1, 2, 1, 32)}
INT8 = {"dequant_scale1": f32(1).abs() / 999, "quant_scale1": f32(1).abs() + 99, "dequant_scale2": f32(1).abs() / 99}
LATENT = {"num_heads": 4, "num_key_value_heads": 1, "input_layout": "TND_NTD", "scale": 0.1, "block_size": 128}
NZ, NZ_ROPE = bf16(3, 1, 32, 128, 16), bf16(3, 1, 4, 128, 16)
LATENT_BLOCKS = {"block_table": ends(2, 1).reshape(2, 1), "actual_seq_lengths": [1, 3], "actual_seq_lengths_kv": [9, 2]}
SPLIT = f16(1, 4, 3, 128), f16(1, 2, 5, 128), f16(1, 2, 5, 128)
ROPE = {**GQA, "query_rope": f16(1, 4, 3, 64), "key_rope": f16(1, 2, 5, 64)}
WIDE = f16(1, 4, 3, 512), f16(1, 1, 5, 512), f16(1, 1, 5, 512)
WIDE_ROPE = {**ROPE, "num_key_value_heads": 1, "key_rope": f16(1, 1, 5, 64)}
INT4 = f16(2, 4, 1, 64), i32(2, 2, 5, 8), i32(2, 2, 5, 8)
OF_INT4 = {"key_antiquant_scale": f16(1, 2, 1, 64), "value_antiquant_scale": f16(1, 2, 1, 64)}


def allowed(label: str, *args: Any, **kwargs: Any) -> Call:
    return good(NAME, label, *args, **kwargs)


def refused(argument: str, label: str, *args: Any, **kwargs: Any) -> Call:
    return bad(NAME, argument, label, *args, **kwargs)


GOOD = [
    allowed("heads shared, lse", Q, K, K, **GQA, softmax_lse_flag=True),
    allowed("flat, decode", f16(2, 1, 64), f16(2, 9, 32), f16(2, 9, 32), num_heads=4, num_key_value_heads=2,
            actual_seq_lengths_kv=[9, 4], scale=0.25),
    allowed("mask and shift", Q, K, K, **GQA, atten_mask=u8(1, 1, 3, 5) > 99, pse_shift=f16(1, 4, 3, 5)),
    allowed("sequences", f16(3, 4, 64), f16(5, 2, 64), f16(5, 2, 64), **T, **LENGTHS, atten_mask=TABLE, sparse_mode=3),
    allowed("wide sequences", f16(3, 4, 192), f16(5, 2, 192), f16(5, 2, 128), **T, **LENGTHS),
    allowed("heads of 256 in sequences", f16(3, 4, 256), f16(3, 16, 512), f16(3, 16, 512), **T, **LENGTHS,
            block_table=ends(2, 1).reshape(2, 1), block_size=16, atten_mask=TABLE, sparse_mode=4, pre_tokens=2),
    allowed("heads of 48 in sequences", f16(3, 4, 48), f16(5, 2, 48), f16(5, 2, 48), **T, **LENGTHS),
    allowed("blocks by head beside BSH", f16(2, 3, 128), f16(3, 2, 16, 32), f16(3, 2, 16, 32), **{
            **GQA, "input_layout": "BSH"}, **PAGED),
    allowed("one token, transposed", f16(2, 4, 1, 64), f16(2, 2, 5, 64), f16(2, 2, 5, 64), **{
            **GQA, "input_layout": "BNSD_BSND"}),
    allowed("blocks", Q, f16(3, 16, 64), f16(3, 16, 64), **GQA, **PAGED, next_tokens=0),
    allowed("latent, blocks in NZ", bf16(3, 4, 512), NZ, NZ, **LATENT, **LATENT_BLOCKS,
            query_rope=bf16(3, 4, 64), key_rope=NZ_ROPE, atten_mask=TABLE, sparse_mode=3),
    allowed("latent, lse", f16(1, 4, 3, 512), f16(1, 1, 5, 512), f16(1, 1, 5, 512), **{
            **GQA, "num_key_value_heads": 1}, query_rope=f16(1, 4, 3, 64), key_rope=f16(1, 1, 5, 64),
            softmax_lse_flag=True),
    allowed("int8 cache", Q[:, :, :1], i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA, **CACHE),
    allowed("one scale of key, one of value", Q[:, :, :1], i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            antiquant_scale=f16(2).abs()),
    allowed("int4 cache", f16(2, 4, 1, 64), i32(2, 2, 5, 8), i32(2, 2, 5, 8), **GQA,
            key_antiquant_scale=f16(1), value_antiquant_scale=f16(1)),
    allowed("int8 blocks of several tokens", f16(2, 3, 128), i8(3, 128, 64), i8(3, 128, 64), **{
            **GQA, "input_layout": "BSH"}, **{**PAGED, "block_size": 128}, key_antiquant_scale=f16(1, 64),
            value_antiquant_scale=f16(1, 64), inner_precise=1, sparse_mode=3, atten_mask=TABLE),
    allowed("128 channels and rope, transposed", *SPLIT, **{**ROPE, "input_layout": "BNSD_BSND"}, sparse_mode=2,
            atten_mask=TABLE),
    allowed("latent, transposed to NBSD", *WIDE, **{**WIDE_ROPE, "input_layout": "BNSD_NBSD"}),
    allowed("int8 throughout", i8(2, 4, 3, 32), i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA, **INT8,
            quant_scale2=f32(1).abs()),
    allowed("left padding", Q, K, K, **GQA, actual_seq_lengths=[2, 1], actual_seq_lengths_kv=[3, 4],
            query_padding_size=ends(1, dtype=torch.int64), kv_padding_size=ends(1, dtype=torch.int64)),
    allowed("shared prefix", Q, K, K, **GQA, key_shared_prefix=f16(1, 2, 4, 32), value_shared_prefix=f16(1, 2, 4, 32),
            actual_shared_prefix_len=[3]),
    allowed("int8 result", Q, K, K, **GQA, quant_scale2=f32(4, 32), quant_offset2=f32(4, 32)),
]  # fmt: skip
WRONG_950 = [
    refused("pse_shift", "shift", Q, K, K, **GQA, pse_shift=f16(1, 4, 3, 5)),
    refused("quant_scale2", "int8 result", Q, K, K, **GQA, quant_scale2=f32(4, 32)),
    refused("key_antiquant_scale", "int8 cache", Q[:, :, :1], i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA, **CACHE),
    refused("antiquant_scale", "one scale", Q[:, :, :1], i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            antiquant_scale=f16(2).abs()),
    refused("dequant_scale1", "int8 throughout", i8(2, 4, 3, 32), i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA, **INT8,
            quant_scale2=f32(1).abs()),
    refused("query_padding_size", "left padding", Q, K, K, **GQA, actual_seq_lengths=[2, 1],
            actual_seq_lengths_kv=[3, 4], query_padding_size=ends(1, dtype=torch.int64)),
    refused("key_shared_prefix", "shared prefix", Q, K, K, **GQA, key_shared_prefix=f16(1, 2, 4, 32),
            value_shared_prefix=f16(1, 2, 4, 32), actual_shared_prefix_len=[3]),
    refused("atten_mask", "a mask of two dimensions", Q, K, K, **GQA, atten_mask=u8(3, 5) > 99),
    refused("inner_precise", "rows repaired", Q, K, K, **GQA, inner_precise=2),
]  # fmt: skip
WRONG = [
    refused("input_layout", "a layout of training", Q, K, K, **{**GQA, "input_layout": "SBH"}),
    refused("key_rope.size(0)", "fewer blocks of rope", bf16(3, 4, 512), NZ, NZ, **LATENT, **LATENT_BLOCKS,
            query_rope=bf16(3, 4, 64), key_rope=NZ_ROPE[:2], atten_mask=TABLE, sparse_mode=3),
    refused("num_heads", "no heads", Q, K, K, **{**GQA, "num_heads": 0}),
    refused("num_key_value_heads", "negative heads", Q, K, K, **{**GQA, "num_key_value_heads": -1}),
    refused("num_heads", "heads not shared evenly", Q, K, K, **{**GQA, "num_key_value_heads": 3}),
    refused("num_heads", "a group of 65", f16(1, 65, 2, 32), K[:1, :1], K[:1, :1], num_heads=65, num_key_value_heads=1,
            input_layout="BNSD"),
    refused("inner_precise", "inner_precise 4", Q, K, K, **GQA, inner_precise=4),
    refused("query", "float32", Q.float(), K.float(), K.float(), **GQA),
    refused("query", "three dimensions", Q[0], K, K, **GQA),
    refused("query.size(1)", "other heads", Q, K, K, **{**GQA, "num_heads": 2}),
    refused("query.size(2)", "heads that do not divide", f16(2, 3, 50), f16(2, 5, 50), f16(2, 5, 50), num_heads=3),
    refused("query", "too many channels", f16(1, 1, 2, 528), f16(1, 1, 2, 528), f16(1, 1, 2, 528), input_layout="BNSD"),
    refused("query", "channels not of 16", f16(1, 1, 2, 24), f16(1, 1, 2, 24), f16(1, 1, 2, 24), input_layout="BNSD"),
    refused("query", "one token to be transposed", Q[:, :, :1], K, K, **{**GQA, "input_layout": "BNSD_BSND"}),
    refused("key", "bfloat16 beside float16", Q, K.bfloat16(), K, **GQA),
    refused("value", "bfloat16 beside float16", Q, K, K.bfloat16(), **GQA),
    refused("value", "dimensions apart", Q, K, K[0], **GQA),
    refused("key", "three dimensions", Q, K[0], K[0], **GQA),
    refused("value.size(2)", "tokens apart", Q, K, K[:, :, :4], **GQA),
    refused("key.size(0)", "batches apart", Q, K[:1], K[:1], **GQA),
    refused("key.size(1)", "heads of key", Q, K[:, :1], K[:, :1], **GQA),
    refused("key.size(3)", "channels of key", Q, K[..., :16], K[..., :16], **GQA),
    refused("key.size(2)", "width of flat key", f16(2, 3, 64), f16(2, 5, 64), f16(2, 5, 64), num_heads=4,
            num_key_value_heads=2),
    refused("block_table", "int64 table", Q, f16(3, 16, 64), f16(3, 16, 64), **GQA,
            **{**PAGED, "block_table": ends(2, 0).reshape(2, 1).long()}),
    refused("block_table", "table of one dimension", Q, f16(3, 16, 64), f16(3, 16, 64), **GQA,
            **{**PAGED, "block_table": ends(2, 0)}),
    refused("block_table.size(0)", "a row too few", Q, f16(3, 16, 64), f16(3, 16, 64), **GQA,
            **{**PAGED, "block_table": ends(2).reshape(1, 1)}),
    refused("block_size", "block_size 0", Q, f16(3, 16, 64), f16(3, 16, 64), **GQA, **{**PAGED, "block_size": 0}),
    refused("key.size(1)", "other block_size", Q, f16(3, 32, 64), f16(3, 32, 64), **GQA, **PAGED),
    refused("key", "int8 blocks of heads in a flat layout", f16(2, 1, 128), i8(3, 2, 32, 32), i8(3, 2, 32, 32),
            **{**GQA, "input_layout": "BSH"}, **{**PAGED, "block_size": 32}, **CACHE),
    refused("actual_seq_lengths_kv", "blocks without lengths", Q, f16(3, 16, 64), f16(3, 16, 64), **GQA,
            **{**PAGED, "actual_seq_lengths_kv": None}),
    refused("key", "int4 in blocks", Q, i32(3, 16, 8), i32(3, 16, 8), **GQA, **PAGED),
    refused("key_rope", "query_rope alone", f16(1, 4, 3, 128), f16(1, 2, 5, 128), f16(1, 2, 5, 128), **GQA,
            query_rope=f16(1, 4, 3, 64)),
    refused("query", "rope beside 32 channels", Q, K, K, **GQA, query_rope=f16(2, 4, 3, 64), key_rope=f16(2, 2, 5, 64)),
    refused("query_rope", "rope of 32 channels", f16(1, 4, 3, 128), f16(1, 2, 5, 128), f16(1, 2, 5, 128), **GQA,
            query_rope=f16(1, 4, 3, 32), key_rope=f16(1, 2, 5, 32)),
    refused("num_key_value_heads", "two latent heads", f16(1, 4, 3, 512), f16(1, 2, 5, 512), f16(1, 2, 5, 512), **GQA,
            query_rope=f16(1, 4, 3, 64), key_rope=f16(1, 2, 5, 64)),
    refused("key_rope_antiquant_scale", "reserved", Q, K, K, **GQA, key_rope_antiquant_scale=f16(1)),
    refused("antiquant_scale", "scales of tokens, flat", Q[:, :, :1], i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            antiquant_scale=f32(2), antiquant_mode=1),
    refused("pre_tokens + next_tokens", "a band of nothing", Q, K, K, **GQA, atten_mask=TABLE, sparse_mode=4,
            pre_tokens=-3, next_tokens=2),
    refused("next_tokens", "a band after all queries", Q, K, K, **GQA, atten_mask=u8(3, 5), next_tokens=-3),
    refused("pre_tokens", "a band before all keys", Q, K, K, **GQA, atten_mask=u8(3, 5), pre_tokens=-5),
    refused("query and value", "narrow heads of sequences, fast", f16(3, 4, 32), f16(5, 2, 32), f16(5, 2, 32), **T,
            **LENGTHS, inner_precise=1),
    refused("query and value", "heads of 256 in blocks of heads", f16(3, 4, 256), f16(3, 2, 16, 256),
            f16(3, 2, 16, 256), **T, **LENGTHS, block_table=ends(2, 1).reshape(2, 1), block_size=16),
    refused("query and value", "heads of 256 transposed", f16(4, 3, 256), f16(2, 5, 256), f16(2, 5, 256),
            **{**T, "input_layout": "NTD_TND"}, **LENGTHS),
    refused("query and value", "heads of 272 in sequences", f16(3, 4, 272), f16(5, 2, 272), f16(5, 2, 272), **T,
            **LENGTHS),
    refused("query and value", "wide heads without rope", f16(3, 4, 512), f16(5, 2, 512), f16(5, 2, 512), **T,
            **LENGTHS),
    refused("value", "wide values of shared heads", f16(3, 4, 192), f16(5, 2, 192), f16(5, 2, 192), **T, **LENGTHS,
            inner_precise=1),
    refused("query", "sequences transposed without rope", f16(3, 4, 64), f16(5, 2, 64), f16(5, 2, 64),
            **{**T, "input_layout": "TND_NTD"}, **LENGTHS),
    refused("sparse_mode", "mode 2 of sequences", f16(3, 4, 64), f16(5, 2, 64), f16(5, 2, 64), **T, **LENGTHS,
            atten_mask=TABLE, sparse_mode=2),
    refused("actual_seq_lengths", "sequences without lengths", f16(3, 4, 32), f16(5, 2, 32), f16(5, 2, 32), **T),
    refused("actual_seq_lengths_kv", "sequences apart", f16(3, 4, 32), f16(5, 2, 32), f16(5, 2, 32), **T,
            actual_seq_lengths=[1, 3], actual_seq_lengths_kv=[5]),
    refused("actual_seq_lengths", "lengths too few", f16(3, 4, 3, 32), f16(3, 2, 5, 32), f16(3, 2, 5, 32), **GQA,
            actual_seq_lengths=[3, 3]),
    refused("sparse_mode", "prefix mode", Q, K, K, **GQA, sparse_mode=5),
    refused("atten_mask", "mode 1 without a mask", Q, K, K, **GQA, sparse_mode=1),
    refused("atten_mask", "float mask", Q, K, K, **GQA, atten_mask=f16(1, 1, 3, 5)),
    refused("atten_mask", "a whole mask in mode 3", Q, K, K, **GQA, atten_mask=u8(1, 1, 3, 5), sparse_mode=3),
    refused("atten_mask.size(1)", "a mask for each head", Q, K, K, **GQA, atten_mask=u8(1, 4, 3, 5)),
    refused("atten_mask.size(0)", "masks of other batches", Q, K, K, **GQA, atten_mask=u8(3, 1, 3, 5)),
    refused("atten_mask.size(-2)", "a mask too low", Q, K, K, **GQA, atten_mask=u8(1, 1, 2, 5)),
    refused("atten_mask.size(-1)", "a mask too narrow", Q, K, K, **GQA, atten_mask=u8(1, 1, 3, 4)),
    refused("atten_mask", "a whole mask for sequences", f16(3, 4, 32), f16(5, 2, 32), f16(5, 2, 32), **T, **LENGTHS,
            atten_mask=u8(1, 3, 5)),
    refused("pse_shift", "bfloat16 shift", Q, K, K, **GQA, pse_shift=bf16(1, 4, 3, 5)),
    refused("pse_shift", "shift of three dimensions", Q, K, K, **GQA, pse_shift=f16(4, 3, 5)),
    refused("pse_shift.size(1)", "shift of other heads", Q, K, K, **GQA, pse_shift=f16(1, 2, 3, 5)),
    refused("pse_shift.size(3)", "shift too narrow", Q, K, K, **GQA, pse_shift=f16(1, 4, 3, 4)),
    refused("value_shared_prefix", "half a prefix", Q, K, K, **GQA, key_shared_prefix=f16(1, 2, 4, 32)),
    refused("key_shared_prefix.size(0)", "two prefixes", Q, K, K, **GQA, key_shared_prefix=f16(2, 2, 4, 32),
            value_shared_prefix=f16(2, 2, 4, 32)),
    refused("actual_shared_prefix_len", "a length without prefix", Q, K, K, **GQA, actual_shared_prefix_len=[1]),
    refused("actual_seq_lengths", "padding without lengths", Q, K, K, **GQA,
            query_padding_size=ends(1, dtype=torch.int64)),
    refused("kv_padding_size", "int32 padding", Q, K, K, **GQA, actual_seq_lengths_kv=[3], kv_padding_size=ends(1)),
    refused("antiquant_scale", "int8 cache without scales", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA),
    refused("antiquant_scale", "scales of key alone", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            antiquant_scale=f16(1, 2, 32)),
    refused("value_antiquant_scale", "half the scales", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            key_antiquant_scale=f16(1)),
    refused("key_antiquant_scale", "scales of a float cache", Q, K, K, **GQA, **CACHE),
    refused("key_antiquant_scale", "float32 scales a channel", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            key_antiquant_scale=f32(64), value_antiquant_scale=f32(64)),
    refused("key_antiquant_scale", "scales too few", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            key_antiquant_scale=f16(32), value_antiquant_scale=f16(32)),
    refused("value_antiquant_mode", "modes apart", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA, **CACHE,
            key_antiquant_mode=1),
    refused("block_table", "paged scales without blocks", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            key_antiquant_scale=f32(3, 16), value_antiquant_scale=f32(3, 16), key_antiquant_mode=4,
            value_antiquant_mode=4),
    refused("value_antiquant_offset", "half the offsets", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA, **CACHE,
            key_antiquant_offset=f16(1, 2, 1, 32)),
    refused("dequant_scale1", "int8 without scales", i8(2, 4, 3, 32), i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA),
    refused("dequant_scale1", "scales of a float query", Q, K, K, **GQA, **INT8),
    refused("query", "int8 of one token", i8(2, 4, 1, 32), i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA, **INT8),
    refused("quant_scale2", "offset alone", Q, K, K, **GQA, quant_offset2=f32(1)),
    refused("quant_scale2", "too few result scales", Q, K, K, **GQA, quant_scale2=f32(4)),
    refused("quant_offset2", "offset of another shape", Q, K, K, **GQA, quant_scale2=f32(4, 32), quant_offset2=f32(1)),
    *[refused("input_layout", f"{layout} without rope", *each, **{**GQA, "input_layout": layout}) for layout, *each in
      (("BSH_NBSD", f16(2, 3, 128), f16(2, 5, 64), f16(2, 5, 64)), ("BNSD_NBSD", Q, K, K))],
    refused("query", "32 channels transposed", f16(2, 3, 4, 32), f16(2, 5, 2, 32), f16(2, 5, 2, 32),
            **{**GQA, "input_layout": "BSND_BNSD"}),
    refused("input_layout", "rope and heads to the front", *SPLIT, **{**ROPE, "input_layout": "BNSD_NBSD"}),
    refused("input_layout", "latent heads transposed", *WIDE, **{**WIDE_ROPE, "input_layout": "BNSD_BSND"}),
    refused("sparse_mode", "latent and the mask alone", *WIDE, **WIDE_ROPE, sparse_mode=1, atten_mask=u8(1, 3, 5) > 99),
    refused("sparse_mode", "latent from the upper left", *WIDE, **WIDE_ROPE, sparse_mode=2, atten_mask=TABLE),
    refused("atten_mask", "a flat mask beside rope", *SPLIT, **ROPE, atten_mask=u8(3, 5) > 99),
    refused("query", "blocks in NZ of 32 channels", Q, f16(3, 2, 2, 16, 16), f16(3, 2, 2, 16, 16), **GQA, **PAGED),
    refused("query_padding_size", "padding of two dimensions", Q, K, K, **GQA, actual_seq_lengths=[2, 1],
            query_padding_size=ends(1, dtype=torch.int64)[None]),
    refused("value", "an int8 result of 48 channels", f16(2, 4, 3, 48), f16(2, 2, 5, 48), f16(2, 2, 5, 48), **GQA,
            quant_scale2=f32(1)),
    refused("pre_tokens", "an int8 result of a band away from the diagonal", Q, K, K, **GQA, atten_mask=TABLE,
            sparse_mode=4, pre_tokens=-1, next_tokens=3, quant_scale2=f32(1)),
    refused("softmax_lse_flag", "lse beside an int8 result of channels", Q, K, K, **GQA, quant_scale2=f32(4, 32),
            softmax_lse_flag=True),
    refused("kv_padding_size", "padding beside an int8 result of channels", Q, K, K, **GQA, quant_scale2=f32(4, 32),
            actual_seq_lengths_kv=[3], kv_padding_size=ends(1, dtype=torch.int64)),
    refused("block_size", "int8 blocks of 16", Q[:, :, :1], i8(3, 16, 64), i8(3, 16, 64), **GQA, **PAGED, **CACHE),
    refused("block_size", "int8 blocks of 1024", Q[:, :, :1], i8(3, 1024, 64), i8(3, 1024, 64), **GQA, **CACHE,
            **{**PAGED, "block_size": 1024}),
    refused("inner_precise", "the row fix of an int8 cache", Q[:, :, :1], i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            **CACHE, inner_precise=2),
    refused("query", "modes apart beside bfloat16", Q[:, :, :1].bfloat16(), i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            key_antiquant_scale=bf16(1, 2, 32), value_antiquant_scale=f32(1, 2, 5), value_antiquant_mode=1),
    refused("query", "int4 of 32 channels", Q[:, :, :1], i32(2, 2, 5, 4), i32(2, 2, 5, 4), **GQA, **CACHE),
    refused("kv_padding_size", "int4 with padding", *INT4, **GQA, **OF_INT4, actual_seq_lengths_kv=[3],
            kv_padding_size=ends(1, dtype=torch.int64)),
    refused("quant_scale2", "int4 to int8", *INT4, **GQA, **OF_INT4, quant_scale2=f32(1)),
    refused("key_antiquant_mode", "int4 with a scale a head", *INT4, **GQA, key_antiquant_scale=f16(2),
            value_antiquant_scale=f16(2), key_antiquant_mode=2, value_antiquant_mode=2),
    refused("key", "int4 of several tokens", f16(2, 4, 3, 64), *INT4[1:], **GQA, **OF_INT4),
    refused("query", "bfloat16 and antiquant_scale", Q.bfloat16(), i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            antiquant_scale=bf16(2, 2, 1, 32)),
    refused("antiquant_mode", "scales of tokens for several", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            antiquant_scale=f32(2, 2, 5), antiquant_mode=1),
    refused("key_antiquant_mode", "scales of heads for several tokens", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            key_antiquant_scale=f16(2), value_antiquant_scale=f16(2), key_antiquant_mode=2, value_antiquant_mode=2),
    refused("key_antiquant_mode and value_antiquant_mode", "modes apart for several tokens", Q, i8(2, 2, 5, 32),
            i8(2, 2, 5, 32), **GQA, key_antiquant_scale=f16(2, 1, 32), value_antiquant_scale=f32(2, 5),
            value_antiquant_mode=1),
    refused("kv_padding_size", "an int8 cache of several tokens with padding", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32),
            **GQA, **CACHE, actual_seq_lengths_kv=[3], kv_padding_size=ends(1, dtype=torch.int64)),
    refused("block_table", "int8 blocks of several tokens", Q, i8(3, 128, 64), i8(3, 128, 64), **GQA, **CACHE,
            **{**PAGED, "block_size": 128}),
    refused("input_layout", "int8 sequences", f16(3, 4, 32), f16(5, 2, 32), f16(5, 2, 32), **T, **LENGTHS,
            quant_scale2=f32(1)),
]  # fmt: skip
WRONG_VALUES = [
    refused("actual_seq_lengths[1]", "a token beside the sequences", f16(4, 4, 64), f16(5, 2, 64), f16(5, 2, 64), **T,
            **LENGTHS),
    refused("actual_seq_lengths_kv[1]", "a key beside the sequences", f16(3, 4, 64), f16(6, 2, 64), f16(6, 2, 64), **T,
            **LENGTHS),
    refused("sequence 0", "more queries than keys", f16(4, 4, 64), f16(5, 2, 64), f16(5, 2, 64), **T,
            actual_seq_lengths=[3, 4], actual_seq_lengths_kv=[2, 5], atten_mask=TABLE, sparse_mode=3),
    *[refused("quant_offset2", f"an offset and queries without keys, {mode}", f16(2, 4, 7, 32), K, K, **GQA,
              **each, sparse_mode=mode, quant_scale2=f32(1), quant_offset2=f32(1)) for mode, each in (
        (0, {"atten_mask": u8(7, 5), "pre_tokens": 1}), (0, {"atten_mask": u8(7, 5), "next_tokens": -1}),
        (3, {"atten_mask": TABLE}), (4, {"atten_mask": TABLE, "next_tokens": 1}))],
    refused("block_table[1]", "no such block", Q, f16(3, 16, 64), f16(3, 16, 64), **GQA,
            **{**PAGED, "block_table": ends(2, 3).reshape(2, 1)}),
    refused("the values of atten_mask", "a table upside down", Q, K, K, **GQA, atten_mask=~TABLE, sparse_mode=2),
    refused("actual_seq_lengths_kv[1]", "more tokens than there are", Q, K, K, **GQA, actual_seq_lengths_kv=[3, 6]),
    refused("actual_seq_lengths[1]", "a sequence of -1 tokens", f16(3, 4, 64), f16(5, 2, 64), f16(5, 2, 64), **T,
            actual_seq_lengths=[3, 2], actual_seq_lengths_kv=[2, 5]),
]  # fmt: skip


def decode(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, table: torch.Tensor) -> Any:
    return torch_npu.npu_fused_infer_attention_score(
        query,
        key,
        value,
        num_heads=4,
        num_key_value_heads=2,
        input_layout="BNSD",
        scale=0.2,
        block_table=table,
        block_size=16,
        actual_seq_lengths_kv=[5, 16],
    )[0]


GOLDEN: dict[str, Case] = {
    "fused_infer_attention_score-blocks": (
        decode,
        (f16(2, 4, 1, 32), f16(3, 16, 64), f16(3, 16, 64), ends(2, 0).reshape(2, 1)),
    )
}
CALLS = {f"npu_{NAME}": nearly(inference_calls())}
STATEMENTS = {
    f"npu_{NAME}": Statement(attention.expected, inference_calls().map(lambda call: ((), call)), attention.BOUND)
}
