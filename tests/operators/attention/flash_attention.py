"""Calls of npu_prompt_flash_attention and npu_incre_flash_attention, as far as they differ from the fused one."""

from typing import Any

from hypothesis import strategies as st

from support import attention
from support.attention import TABLE, Arrays, inference_calls
from support.call_strategies import Draw
from support.call_table import Call, Statement, bad, good, overload
from support.tensors import f16, f32, i8, i32, u8

PROMPT, INCRE = "prompt_flash_attention", "incre_flash_attention"
Q, K = f16(2, 4, 3, 32), f16(2, 2, 5, 32)
GQA = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD", "scale_value": 0.2}

GOOD: list[Call] = [
    good(PROMPT, "high precision, causal", Q, K, K, **GQA, atten_mask=TABLE, sparse_mode=13),
    good(PROMPT, "one token, a mask", Q[:, :, :1], K, K, **GQA, atten_mask=u8(1, 5) > 99, next_tokens=65535),
    good(INCRE, "int8 cache", Q[:, :, :1], i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA, actual_seq_lengths=[3, 5],
         antiquant_scale=f16(2, 2, 1, 32)),
]  # fmt: skip
WRONG: list[Call] = [
    bad(PROMPT, "padding_mask", "reserved", Q, K, K, **GQA, padding_mask=f16(1)),
    bad(PROMPT, "key", "int8 cache", Q, i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA),
    bad(PROMPT, "input_layout", "NTD", Q, K, K, **{**GQA, "input_layout": "NTD"}),
    bad(PROMPT, "sparse_mode", "mode 15", Q, K, K, **GQA, sparse_mode=15),
    bad(PROMPT, "deq_scale1", "a scale for nothing", Q, K, K, **GQA, deq_scale1=f32(1)),
    bad(INCRE, "padding_mask", "reserved", Q[:, :, :1], K, K, **GQA, padding_mask=f16(1)),
    bad(INCRE, "query", "three tokens", Q, K, K, **GQA),
    bad(INCRE, "query", "int8", i8(2, 4, 1, 32), i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA),
    bad(INCRE, "inner_precise", "row fix", Q[:, :, :1], K, K, **GQA, inner_precise=2),
    bad(INCRE, "actual_seq_lengths", "too few", f16(3, 4, 1, 32), f16(3, 2, 5, 32), f16(3, 2, 5, 32), **GQA,
        actual_seq_lengths=[5, 5]),
    bad(INCRE, "value.size(3)", "another width", Q[:, :, :1], K, f16(2, 2, 5, 16), **GQA),
    bad(INCRE, "antiquant_scale", "transposed", Q[:, :, :1], i8(2, 2, 5, 32), i8(2, 2, 5, 32), **GQA,
        antiquant_scale=f16(2, 2, 32, 1)),
    bad(INCRE, "antiquant_scale", "none", Q[:, :, :1], i32(2, 2, 5, 4), i32(2, 2, 5, 4), **GQA),
]  # fmt: skip
OF_PROMPT = {"query", "key", "value", "num_heads", "num_key_value_heads", "scale", "input_layout", "pse_shift"}
OF_PROMPT |= {"atten_mask", "sparse_mode", "pre_tokens", "next_tokens", "actual_seq_lengths", "actual_seq_lengths_kv"}


@st.composite
def prompt_calls(draw: Draw) -> tuple[tuple[Any, ...], Arrays]:
    def fits(call: Arrays) -> bool:
        unknown = {*call} - OF_PROMPT - {"softmax_lse_flag", "inner_precise"}
        tokens = call["query"].shape["BSNDH".index("S") if call["input_layout"][1] == "S" else -2]
        known = call["input_layout"] in ("BSH", "BSND", "BNSD", "BNSD_BSND", "TND")
        known &= call["input_layout"] != "TND" or call["query"].size(-1) == 64
        return not unknown and known and tokens > 1

    arguments = draw(inference_calls().filter(fits))
    return (), {"scale_value" if name == "scale" else name: arguments[name] for name in arguments if name in OF_PROMPT}


def expected(**arguments: Any) -> Any:
    return attention.expected(
        **{"scale" if name == "scale_value" else name: value for name, value in arguments.items()}
    )[0]


def incre_expected(**arguments: Any) -> Any:
    lengths = arguments.pop("actual_seq_lengths")
    return expected(**arguments, actual_seq_lengths_kv=lengths)


@st.composite
def incre_calls(draw: Draw) -> tuple[tuple[Any, ...], Arrays]:
    batch, keys = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 7]))
    cache = draw(st.booleans())
    kv = (i8 if cache else f16)(batch, 2, keys, 32)
    arguments: Arrays = {**GQA, "query": f16(batch, 4, 1, 32), "key": kv, "value": kv}
    arguments["actual_seq_lengths"] = [draw(st.integers(0, keys)) for _ in range(batch)]
    if cache:
        arguments["antiquant_scale"] = f16(2, 2, 32).abs() / 64
        if draw(st.booleans()):
            arguments["antiquant_offset"] = f16(2, 2, 32)
    if draw(st.booleans()):
        arguments["atten_mask"] = u8(batch, keys) > 150
    return (), arguments


STATEMENTS = {
    f"npu_{PROMPT}": Statement(expected, prompt_calls(), attention.BOUND),
    f"npu_{INCRE}": Statement(incre_expected, incre_calls(), attention.BOUND),
}


def called(op: str, **numbers: Any) -> Any:
    return lambda query, key, value: overload(op)(query, key, value, **GQA, **numbers)


GOLDEN = {
    PROMPT: (called(f"npu_{PROMPT}"), (Q, K, K)),
    INCRE: (called(f"npu_{INCRE}"), (Q[:, :, :1].contiguous(), K, K)),
}
