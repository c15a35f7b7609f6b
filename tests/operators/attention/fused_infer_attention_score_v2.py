"""Calls of npu_fused_infer_attention_score_v2: what it has beyond the first version, and its names."""

from typing import Any

import torch
from hypothesis import strategies as st

from support import attention
from support.attention import TABLE, Arrays, inference_calls
from support.call_strategies import Draw
from support.call_table import Call, Statement, bad, good
from support.tensors import bf16, ends, f16, f32, i8

NAME = "fused_infer_attention_score_v2"
Q, K = f16(2, 4, 3, 32), f16(2, 2, 5, 32)
GQA = {"num_query_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD", "softmax_scale": 0.2}
T = {**GQA, "input_layout": "TND", "actual_seq_qlen": [1, 3], "actual_seq_kvlen": [2, 5]}
NZ, NZ_ROPE = i8(3, 1, 16, 128, 32), bf16(3, 1, 4, 128, 16)
LATENT = {
    "query_rope": bf16(3, 4, 64),
    "key_rope": NZ_ROPE,
    "num_query_heads": 4,
    "num_key_value_heads": 1,
    "input_layout": "TND_NTD",
    "softmax_scale": 0.1,
    "block_size": 128,
    "block_table": ends(2, 1).reshape(2, 1),
    "actual_seq_qlen": [1, 3],
    "actual_seq_kvlen": [9, 2],
    "atten_mask": TABLE,
    "sparse_mode": 3,
}
SCALES = {
    "dequant_scale_query": f32(3, 4).abs() / 99,
    "dequant_scale_key": f32(1).abs() / 99,
    "dequant_scale_value": f32(1).abs() / 99,
    "query_quant_mode": 3,
}
SINK = bf16(3, 4, 64), bf16(5, 2, 64), bf16(5, 2, 64)
WIDE_SINK = bf16(3, 4, 192), bf16(5, 2, 192), bf16(5, 2, 192)


def allowed(label: str, *args: Any, **kwargs: Any) -> Call:
    return good(NAME, label, *args, **kwargs)


def refused(argument: str, label: str, *args: Any, **kwargs: Any) -> Call:
    return bad(NAME, argument, label, *args, **kwargs)


PLAIN = {name: value for name, value in LATENT.items() if name not in ("atten_mask", "sparse_mode")}
# Guesses that follow one another, or stand side by side.
TREE = {"atten_mask": torch.tensor([0, 0, 1, 1, 0]).bool(), "sparse_mode": 9}
BATCHED = {
    **PLAIN,
    "input_layout": "BSND",
    "query_rope": bf16(2, 3, 4, 64),
    "actual_seq_qlen": None,
    "actual_seq_kvlen": [9, 5],
    "atten_mask": torch.tensor([[0, 1, 1], [0, 0, 1], [0, 1, 0]]).expand(2, 3, 3).bool(),
    "sparse_mode": 9,
}
SCALED = {**SCALES, "dequant_scale_query": f32(2, 4, 3)}
SINK_CACHE = {"dequant_scale_key": f16(1), "dequant_scale_value": f16(1)}
OLDER = (f16(1, 2, 1, 256), f16(1, 2, 5, 256), f16(1, 2, 5, 256))
PAGES = bf16(3, 1, 32, 128, 16)
GOOD = [
    allowed("a tree of guesses", bf16(2, 3, 4, 512), PAGES, PAGES, **BATCHED),
    allowed("packed trees", bf16(3, 4, 512), PAGES, PAGES, **{**PLAIN, **TREE}),
    allowed("a sink", *SINK, **T, learnable_sink=bf16(4), return_softmax_lse=True),
    allowed("a sink in batches", Q, K, K, **GQA, learnable_sink=bf16(4)),
    allowed("int8 latent", i8(3, 4, 512), NZ, NZ, **LATENT, **SCALES),
]
WRONG_950 = [
    refused("sparse_mode", "a tree", bf16(3, 4, 512), PAGES, PAGES, **{**PLAIN, **TREE}),
    refused("learnable_sink", "a bfloat16 sink of float16", Q, K, K, **GQA, learnable_sink=bf16(4)),
    refused("dequant_scale_key", "an int8 cache", Q[:, :, :1], i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
            **{"dequant_scale_key": f16(1, 2, 1, 32), "dequant_scale_value": f16(1, 2, 1, 32)}),
]  # fmt: skip
WRONG = [
    refused("num_query_heads", "no heads", Q, K, K, **{**GQA, "num_query_heads": 0}),
    refused("actual_seq_qlen", "sequences without lengths", *SINK, **{**T, "actual_seq_qlen": None}),
    refused("learnable_sink", "float16 sink", *SINK, **T, learnable_sink=f16(4)),
    refused("learnable_sink", "a sink of two dimensions", *SINK, **T, learnable_sink=bf16(4, 1)),
    refused("learnable_sink.size(0)", "a sink too short", *SINK, **T, learnable_sink=bf16(2)),
    refused("value", "a sink of wide values", *WIDE_SINK, **T, learnable_sink=bf16(4)),
    refused("pse_shift", "a sink and a shift", Q, K, K, **GQA, learnable_sink=bf16(4), pse_shift=f16(1, 4, 3, 5)),
    refused("key", "a sink and an int8 cache", Q[:, :, :1], i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA, **SINK_CACHE,
            learnable_sink=bf16(4)),
    refused("query", "a sink of an older kernel", *OLDER, num_query_heads=2, input_layout="BNSD",
            learnable_sink=bf16(2)),
    refused("query_rope", "int8 without rope", i8(2, 4, 3, 32), i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA),
    refused("dequant_scale_query", "int8 without scales", i8(3, 4, 512), NZ, NZ, **LATENT),
    refused("dequant_scale_query", "scales of a float query", Q, K, K, **GQA, dequant_scale_query=f32(2, 4, 3),
            query_quant_mode=3),
    refused("query_quant_mode", "scales in mode 0", i8(3, 4, 512), NZ, NZ, **LATENT,
            **{**SCALES, "query_quant_mode": 0}),
    refused("dequant_scale_query.size(0)", "a token too few", i8(3, 4, 512), NZ, NZ, **LATENT,
            **{**SCALES, "dequant_scale_query": f32(2, 4)}),
    refused("dequant_scale_key", "two scales of key", i8(3, 4, 512), NZ, NZ, **LATENT,
            **{**SCALES, "dequant_scale_key": f32(2)}),
    refused("dequant_scale_value", "no scale of value", i8(3, 4, 512), NZ, NZ, **LATENT,
            **{**SCALES, "dequant_scale_value": None}),
    refused("the channels of query", "int8 of 128 channels", i8(3, 4, 128), i8(5, 2, 128), i8(5, 2, 128), **{
            **T, "query_rope": bf16(3, 4, 64), "key_rope": bf16(5, 2, 64)}, **SCALES),
    refused("input_layout", "int8 latent, heads first", i8(2, 4, 3, 512), NZ, NZ, **{
            **BATCHED, "input_layout": "BNSD", "query_rope": bf16(2, 4, 3, 64)}, **SCALED),
    refused("sparse_mode", "int8 latent in a band", i8(3, 4, 512), NZ, NZ, **{**LATENT, "sparse_mode": 4}, **SCALES),
    refused("block_table", "int8 latent without blocks", i8(3, 4, 512), i8(5, 1, 512), i8(5, 1, 512), **{
            **LATENT, "block_table": None, "key_rope": bf16(5, 1, 64)}, **SCALES),
    refused("key", "int8 latent not in NZ", i8(3, 4, 512), i8(3, 128, 512), i8(3, 128, 512), **{
            **LATENT, "key_rope": bf16(3, 128, 64)}, **SCALES),
    refused("block_size", "int8 latent in blocks of 64", i8(3, 4, 512), i8(3, 1, 16, 64, 32), i8(3, 1, 16, 64, 32), **{
            **LATENT, "block_size": 64, "key_rope": bf16(3, 1, 4, 64, 16)}, **SCALES),
    refused("sparse_mode", "several int8 latent tokens without a mode", i8(2, 3, 4, 512), NZ, NZ, **{
            **BATCHED, "sparse_mode": 0, "atten_mask": None}, **{**SCALED, "dequant_scale_query": f32(2, 3, 4)}),
    refused("atten_mask", "a mask of one int8 latent token", i8(2, 1, 4, 512), NZ, NZ, **{
            **BATCHED, "query_rope": bf16(2, 1, 4, 64), "sparse_mode": 0, "atten_mask": bf16(2, 1, 1, 128) > 0},
            **{**SCALED, "dequant_scale_query": f32(2, 1, 4)}),
    refused("sparse_mode", "no such mode", bf16(3, 4, 512), PAGES, PAGES, **{**PLAIN, **TREE, "sparse_mode": 8}),
    refused("atten_mask", "a tree without a mask", bf16(3, 4, 512), PAGES, PAGES, **PLAIN, sparse_mode=9),
    refused("query_rope", "a tree without rope", Q, K, K, **GQA, atten_mask=Q[:, 0, :, :3] > 0, sparse_mode=9),
    refused("atten_mask.size(0)", "a tree too large", bf16(3, 4, 512), PAGES, PAGES,
            **{**PLAIN, **TREE, "atten_mask": bf16(9) > 0}),
    refused("atten_mask.size(2)", "a tree of keys", bf16(2, 3, 4, 512), PAGES, PAGES,
            **{**BATCHED, "atten_mask": bf16(2, 3, 9) > 0}),
    refused("atten_mask", "a tree of bfloat16", bf16(3, 4, 512), PAGES, PAGES,
            **{**PLAIN, **TREE, "atten_mask": bf16(5)}),
    refused("query_dtype", "a type of Ascend 950", Q, K, K, **GQA, query_dtype=290),
    refused("out_dtype", "a result of int8", Q, K, K, **GQA, out_dtype=1),
]  # fmt: skip

NAMES = {
    "num_heads": "num_query_heads",
    "scale": "softmax_scale",
    "actual_seq_lengths": "actual_seq_qlen",
    "actual_seq_lengths_kv": "actual_seq_kvlen",
    "softmax_lse_flag": "return_softmax_lse",
    **{
        f"{side}_antiquant_{what}": f"dequant_{what}_{side}"
        for side in ("key", "value")
        for what in ("scale", "offset")
    },
    **{f"{side}_antiquant_mode": f"{side}_quant_mode" for side in ("key", "value")},
}
FIRST_ALONE = ("antiquant_scale", "query_padding_size", "kv_padding_size", "key_shared_prefix")


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], Arrays]:
    """Calls of the first version that the second can make, sometimes with a sink."""
    arguments = draw(inference_calls().filter(lambda call: not any(name in call for name in FIRST_ALONE)))
    takes_sink = arguments["query"].size(-1) in (64, 128) or arguments["query"].dtype == torch.bfloat16
    if arguments["input_layout"] in ("TND", "NTD_TND") and takes_sink and draw(st.booleans()):
        arguments["learnable_sink"] = bf16(arguments["num_heads"])
    return (), {NAMES.get(name, name): value for name, value in arguments.items()}


def expected(**arguments: Any) -> list[Any]:
    names = {second: first for first, second in NAMES.items()}
    return attention.expected(**{names.get(name, name): value for name, value in arguments.items()})


STATEMENTS = {f"npu_{NAME}": Statement(expected, calls(), attention.BOUND)}
