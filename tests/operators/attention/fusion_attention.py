"""Calls of npu_fusion_attention and of its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.attention import TABLE
from support.call_strategies import Draw
from support.call_table import Call, Case, bad, good, overload
from support.tensors import bf16, ends, f16, f32, f64, u8

NAME = "fusion_attention"
Q, K = f16(2, 4, 3, 16), f16(2, 2, 5, 16)
FOUR = (4, "BNSD")
PACKED = (f16(3, 4, 16), f16(5, 2, 16), f16(5, 2, 16), 4, "TND")
ENDS = {"actual_seq_qlen": [3], "actual_seq_kvlen": [5]}
HALVES = tuple(each.bfloat16() for each in PACKED[:3]) + PACKED[3:]
TURNED = {**ENDS, "atten_mask": u8(3, 5), "query_rope": bf16(3, 4, 8), "key_rope": bf16(5, 2, 8)}
Given = dict[str, Any]


def gradient(**more: Any) -> Given:
    """The results of the forward call, because other values would overflow."""
    forward = torch.ops.npu.npu_fusion_attention(Q, K, K, *FOUR, pse=more.get("pse"), scale=0.25)
    return {"softmax_max": forward[1], "softmax_sum": forward[2], "attention_in": forward[0], **more}


GOOD: list[Call] = [
    good(NAME, "shift and mask", Q, K, K, *FOUR, pse=f16(1, 4, 3, 5), atten_mask=u8(2, 1, 3, 5) > 150, scale=0.25),
    good(NAME, "flat, causal", bf16(2, 3, 64), bf16(2, 5, 32), bf16(2, 5, 32), 4, "BSH", atten_mask=TABLE,
         sparse_mode=3, scale=0.25),
    good(f"{NAME}_grad", "shift", Q, K, K, f16(2, 4, 3, 16), *FOUR, **gradient(pse=f16(1, 4, 3, 5)), scale_value=0.25),
]  # fmt: skip
WRONG_950 = [
    bad(NAME, "pse", "shift", Q, K, K, *FOUR, pse=f16(1, 4, 3, 5)),
    bad(NAME, "sink", "a sink", Q, K, K, *FOUR, sink=f32(4)),
    bad(NAME, "keep_prob", "dropout", Q, K, K, *FOUR, keep_prob=0.5),
    bad(NAME, "inner_precise", "rows repaired", Q, K, K, *FOUR, inner_precise=2),
    bad(NAME, "query", "float32", Q.float(), K.float(), K.float(), *FOUR),
]
WRONG: list[Call] = [
    bad(NAME, "input_layout", "NTD", Q, K, K, 4, "NTD"),
    bad(NAME, "head_num", "no heads", Q, K, K, 0, "BNSD"),
    bad(NAME, "keep_prob", "nothing kept", Q, K, K, *FOUR, keep_prob=0.0, dropout_mask=u8(15)),
    bad(
        NAME,
        "the channels of a head of query",
        "too wide",
        f16(1, 1, 1, 769),
        f16(1, 1, 1, 769),
        f16(1, 1, 1, 769),
        1,
        "BNSD",
    ),
    bad(NAME, "prefix", "a prefix", Q, K, K, *FOUR, prefix=[1, 1]),
    bad(NAME, "prefix", "no prefix", Q, K, K, *FOUR, atten_mask=u8(3, 5), sparse_mode=5),
    bad(NAME, "sink", "a float16 sink", Q, K, K, *FOUR, sink=f16(4)),
    bad(NAME, "sink.size(0)", "a short sink", Q, K, K, *FOUR, sink=f32(2)),
    bad(NAME, "dropout_mask", "bits, and all kept", Q, K, K, *FOUR, dropout_mask=u8(15)),
    bad(NAME, "dropout_mask", "too few bits", Q, K, K, *FOUR, keep_prob=0.5, dropout_mask=u8(14)),
    bad(NAME, "dropout_mask", "bool", Q, K, K, *FOUR, keep_prob=0.5, dropout_mask=u8(120) > 9),
    bad(NAME, "padding_mask", "reserved", Q, K, K, *FOUR, padding_mask=u8(3, 5)),
    bad(NAME, "softmax_layout", "of another layout", Q, K, K, *FOUR, softmax_layout="TND"),
    bad(NAME, "softmax_layout", "no such layout", *PACKED, **ENDS, softmax_layout="NTD"),
    bad(NAME, "query", "float64", f64(2, 4, 3, 16), f64(2, 2, 5, 16), f64(2, 2, 5, 16), *FOUR),
    bad(NAME, "key", "another dtype", Q, K.float(), K, *FOUR),
    bad(NAME, "value", "three dimensions", Q, K, K[0], *FOUR),
    bad(NAME, "value.size(2)", "tokens apart", Q, K, K[:, :, :4], *FOUR),
    bad(NAME, "key.size(0)", "batches apart", Q, K[:1], K[:1], *FOUR),
    bad(NAME, "query.size(1)", "other heads", Q, K, K, 2, "BNSD"),
    bad(NAME, "key.size(3)", "other channels", Q, K[..., :8], K[..., :8], *FOUR),
    bad(NAME, "head_num", "heads not shared", f16(2, 3, 3, 16), K, K, 3, "BNSD"),
    bad(NAME, "query.size(2)", "flat heads", f16(2, 3, 65), f16(2, 5, 65), f16(2, 5, 65), 4, "BSH"),
    bad(NAME, "sparse_mode", "no such mode", Q, K, K, *FOUR, sparse_mode=9),
    bad(NAME, "sparse_mode", "a mode of packed sequences", Q, K, K, *FOUR, atten_mask=TABLE, sparse_mode=7),
    bad(
        NAME,
        "sparse_mode",
        "prefixes of packed sequences",
        *PACKED,
        **ENDS,
        atten_mask=u8(3, 5),
        sparse_mode=5,
        prefix=[1],
    ),
    bad(NAME, "atten_mask", "a table without prefixes", Q, K, K, *FOUR, atten_mask=TABLE, sparse_mode=6, prefix=[1, 1]),
    bad(NAME, "the length of prefix", "one prefix", Q, K, K, *FOUR, atten_mask=u8(3, 5), sparse_mode=5, prefix=[1]),
    bad(NAME, "atten_mask", "int8 mask", Q, K, K, *FOUR, atten_mask=u8(3, 5).to(torch.int8)),
    bad(NAME, "atten_mask", "a whole mask", Q, K, K, *FOUR, atten_mask=u8(3, 5), sparse_mode=3),
    *[
        bad(
            NAME,
            name,
            f"a band of nothing, {before} and {after}",
            Q,
            K,
            K,
            *FOUR,
            atten_mask=mask,
            sparse_mode=mode,
            pre_tockens=before,
            next_tockens=after,
        )
        for name, mask, mode, before, after in (
            ("pre_tockens + next_tockens", u8(3, 5), 0, -2, 1),
            ("pre_tockens", u8(3, 5), 0, -5, 9),
            ("next_tockens", u8(3, 5), 0, 9, -3),
            ("pre_tockens", TABLE, 4, -3, 9),
            ("next_tockens", TABLE, 4, 9, -5),
        )
    ],
    bad(
        NAME,
        "pre_tockens",
        "packed, a band after the diagonal",
        *PACKED,
        **ENDS,
        atten_mask=TABLE,
        sparse_mode=4,
        pre_tockens=-1,
        next_tockens=3,
    ),
    bad(
        NAME,
        "next_tockens",
        "packed, a band before the diagonal",
        *PACKED,
        **ENDS,
        atten_mask=u8(2, 3),
        pre_tockens=3,
        next_tockens=-1,
    ),
    bad(NAME, "atten_mask", "three dimensions", Q, K, K, *FOUR, atten_mask=u8(1, 3, 5)),
    bad(NAME, "atten_mask.size(-1)", "a narrow mask", Q, K, K, *FOUR, atten_mask=u8(3, 4)),
    bad(NAME, "atten_mask.size(0)", "one mask of each head", Q, K, K, *FOUR, atten_mask=u8(1, 4, 3, 5)),
    bad(NAME, "pse", "another dtype", Q, K, K, *FOUR, pse=f32(1, 4, 3, 5)),
    bad(NAME, "pse.size(1)", "other heads", Q, K, K, *FOUR, pse=f16(1, 2, 3, 5)),
    bad(NAME, "pse.size(0)", "neither of keys nor of scores", *PACKED, **ENDS, pse=f16(59)),
    bad(NAME, "pse", "packed, in four dimensions", *PACKED, **ENDS, pse=f16(1, 4, 3, 5)),
    bad(NAME, "pse", "in a band", *PACKED, **ENDS, pse=f16(60), atten_mask=TABLE, sparse_mode=7),
    bad(
        NAME,
        "actual_seq_qlen",
        "a shift of nothing",
        *PACKED,
        actual_seq_qlen=[0, 3],
        actual_seq_kvlen=[2, 5],
        pse=f16(60),
    ),
    bad(NAME, "actual_seq_qlen", "no lengths", *PACKED),
    bad(NAME, "actual_seq_kvlen", "fewer lengths", *PACKED, actual_seq_qlen=[1, 3], actual_seq_kvlen=[5]),
    bad(
        NAME,
        "the tokens of key",
        "the last rows of a shift, and more keys",
        f16(1, 1, 1026, 16),
        f16(1, 1, 1030, 16),
        f16(1, 1, 1030, 16),
        1,
        "BNSD",
        pse=f16(1, 1, 1024, 1030),
        atten_mask=TABLE,
        sparse_mode=2,
    ),
    bad(
        NAME,
        "pse",
        "the last rows of a shift, and all keys",
        *[f16(1, 1, 1026, 16)] * 3,
        1,
        "BNSD",
        pse=f16(1, 1, 1024, 1026),
    ),
    bad(f"{NAME}_v2", "pse_type", "no such type", Q, K, K, *FOUR, pse=f16(1, 4, 3, 5), pse_type=4),
    bad(f"{NAME}_v2", "pse_type", "a type of nothing", Q, K, K, *FOUR, pse_type=0),
    bad(f"{NAME}_v2", "pse", "float16 slopes", Q, Q, Q, *FOUR, pse=f16(4), pse_type=2),
    bad(f"{NAME}_v2", "pse.size(-1)", "fewer slopes", Q, Q, Q, *FOUR, pse=f32(2), pse_type=3),
    bad(f"{NAME}_v2", "pse.size(0)", "slopes of three sequences", Q, Q, Q, *FOUR, pse=f32(3, 4), pse_type=3),
    bad(f"{NAME}_v2", "the tokens of key", "slopes, and more keys", Q, K, K, *FOUR, pse=f32(4), pse_type=2),
    bad(f"{NAME}_v2", "actual_seq_kvlen", "packed slopes, and more keys", *PACKED, **ENDS, pse=f32(4), pse_type=2),
    bad(f"{NAME}_v2", "query_rope and key_rope", "one of them", *HALVES, **TURNED | {"key_rope": None}),
    bad(f"{NAME}_v2", "atten_mask", "without a mask", *HALVES, **TURNED | {"atten_mask": None}),
    bad(f"{NAME}_v2", "query", "float16", *PACKED, **TURNED),
    bad(
        f"{NAME}_v2",
        "input_layout",
        "of another layout",
        bf16(2, 4, 3, 16),
        bf16(2, 2, 5, 16),
        bf16(2, 2, 5, 16),
        *FOUR,
        query_rope=bf16(2, 4, 3, 8),
        key_rope=bf16(2, 2, 5, 8),
    ),
    bad(f"{NAME}_v2", "key_rope.size(1)", "other heads", *HALVES, **TURNED | {"key_rope": bf16(5, 4, 8)}),
    bad(f"{NAME}_v2", "query_rope.size(2)", "wider than query", *HALVES, **TURNED | {"query_rope": bf16(3, 4, 32)}),
    bad(f"{NAME}_v2", "key_rope.size(2)", "narrower", *HALVES, **TURNED | {"key_rope": bf16(5, 2, 4)}),
    bad(f"{NAME}_v3", "actual_seq_qlen", "int32 lengths", *PACKED, actual_seq_qlen=ends(3), actual_seq_kvlen=ends(5)),
    bad(f"{NAME}_grad", "softmax_max", "none", Q, K, K, Q, *FOUR, **gradient(softmax_max=None)),
    bad(NAME, "value.size(3)", "wider than key", Q, K, f16(2, 2, 5, 32), *FOUR),
    bad(NAME, "value.size(2)", "flat heads of value", f16(2, 3, 64), f16(2, 5, 32), f16(2, 5, 31), 4, "BSH"),
    bad(f"{NAME}_grad", "dy.size(2)", "another token", Q, K, K, Q[:, :, :2], *FOUR, **gradient()),
    bad(f"{NAME}_grad", "softmax_max", "float16 rows", Q, K, K, Q, *FOUR, **gradient(softmax_max=f16(2, 4, 3, 8))),
    bad(f"{NAME}_grad", "softmax_sum.size(3)", "one copy", Q, K, K, Q, *FOUR, **gradient(softmax_sum=f32(2, 4, 3, 1))),
    bad(f"{NAME}_grad", "dy", "another dtype", Q, K, K, Q.float(), *FOUR, **gradient()),
]
WRONG_VALUES: list[Call] = [
    bad(NAME, "sequence 0", f"a packed query without keys, mode {mode}", *PACKED, actual_seq_qlen=[2, 3],
        actual_seq_kvlen=[1, 5], sparse_mode=mode, pre_tockens=before, next_tockens=0, atten_mask=mask)
    for mode, before, mask in ((3, 9, TABLE), (4, 9, TABLE), (0, 0, u8(2, 4)))
]  # fmt: skip


def _hides(mode: int, options: Given, row: int, queries: int, keys: int) -> Any:
    """The keys that a query does not see, as documented; mode 0 has no mask here."""
    distance = np.arange(keys) - row - (keys - queries if mode in (3, 4) else 0)
    if mode == 4:
        return (distance > options["next_tockens"]) | (distance < -options["pre_tockens"])
    return distance > 0 if mode in (2, 3) else np.zeros(keys, bool)


def expected(*args: Any, **options: Any) -> tuple[Any, Any, Any]:
    """Row by row in float64: the attention, and the largest score and the sum of exponentials of each row."""
    query, key, value, heads, layout = args
    q, k, v = (_heads(tensor, layout, heads, query, key) for tensor in (query, key, value))
    spans = [(0, q.shape[2], 0, k.shape[2])]
    if layout == "TND":
        starts, key_starts = [0, *options["actual_seq_qlen"]], [0, *options["actual_seq_kvlen"]]
        spans = list(zip(starts, starts[1:], key_starts, key_starts[1:], strict=False))
    out, rows = np.zeros((*q.shape[:3], v.shape[3])), np.zeros((2, *q.shape[:3]))
    for batch in range(q.shape[0]):
        for start, stop, key_start, key_stop in spans:
            for head in range(heads):
                shared = head * k.shape[1] // heads
                keys, values = k[batch, shared, key_start:key_stop], v[batch, shared, key_start:key_stop]
                for row in range(start, stop if len(keys) else start):
                    scores = keys @ q[batch, head, row]
                    if options.get("pse") is not None:
                        pse = options["pse"].double().numpy()
                        scores = scores + pse[batch if pse.shape[0] > 1 else 0, head, row - start]
                    hidden = _hides(options["sparse_mode"], options, row - start, stop - start, len(keys))
                    scores = np.where(hidden, -np.inf, scores * options["scale"])
                    if not hidden.all():
                        weights = np.exp(scores - scores.max())
                        rounded = torch.from_numpy(weights).to(query.dtype).double().numpy()
                        out[batch, head, row] = rounded @ values / weights.sum()
                        rows[:, batch, head, row] = scores.max(), weights.sum()
    result = _laid_out(torch.from_numpy(out).to(query.dtype).float().numpy(), layout)
    return result, *(_kept(tensor, layout, spans, options) for tensor in rows)


def _kept(rows: Any, layout: str, spans: Any, options: Given) -> Any:
    """Statistics stored eight times; packed sequences head by head, or by token with softmax_layout."""
    if layout == "TND" and options.get("softmax_layout"):
        rows = rows[0].T
    elif layout == "TND":
        flat = [rows[0][:, start:stop].reshape(-1) for start, stop, *_ in spans]
        rows = np.concatenate(flat).reshape(rows.shape[2], rows.shape[1])
    return np.repeat(rows[..., None], 8, -1)


def _heads(x: torch.Tensor, layout: str, heads: int, query: torch.Tensor, key: torch.Tensor) -> Any:
    a = x.double().numpy()
    if layout.endswith("H"):
        of_x = heads if x is query else heads * key.shape[2] // query.shape[2]
        a = a.reshape(*a.shape[:2], of_x, -1)
    order = {"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "SBH": (1, 2, 0, 3)}
    return a.transpose(1, 0, 2)[None] if layout == "TND" else a.transpose(order[layout])


def _laid_out(out: Any, layout: str) -> Any:
    if layout == "TND":
        return out[0].transpose(1, 0, 2)
    a = out.transpose({"BNSD": (0, 1, 2, 3), "BSND": (0, 2, 1, 3), "BSH": (0, 2, 1, 3), "SBH": (2, 0, 1, 3)}[layout])
    return a.reshape(*a.shape[:2], -1) if layout.endswith("H") else a


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], Given]:
    layout = draw(st.sampled_from(["BNSD", "BSND", "BSH", "SBH", "TND"]))
    kind = draw(st.sampled_from([f32, f16, bf16]))
    batch, tokens, keys = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 4])), draw(st.sampled_from([2, 5]))
    kv_heads, width = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([16, 8]))
    options: Given = {"scale": 0.2, "sparse_mode": draw(st.sampled_from([0, 2, 3, 4]))}
    if layout == "TND":
        tokens, keys = tokens + 2, keys + 2
        q, k, v = kind(tokens, 4, 16), kind(keys, kv_heads, 16), kind(keys, kv_heads, width)
        options["actual_seq_qlen"] = [draw(st.integers(0, tokens)), tokens]
        options["actual_seq_kvlen"] = [draw(st.integers(0, keys)), keys]
        options["softmax_layout"] = draw(st.sampled_from(["", "TND"]))
    else:
        q = kind(*_shape(layout, batch, 4, tokens))
        k, v = kind(*_shape(layout, batch, kv_heads, keys)), kind(*_shape(layout, batch, kv_heads, keys, width))
        if draw(st.booleans()):
            options["pse"] = kind(draw(st.sampled_from([1, batch])), 4, tokens, keys)
    if options["sparse_mode"]:
        options["atten_mask"] = TABLE
    if options["sparse_mode"] == 4:
        options |= {"pre_tockens": draw(st.integers(0, 5)), "next_tockens": draw(st.integers(0, 3))}
    if layout == "TND" and options["sparse_mode"] > 2:
        lengths = [np.diff([0, *options[name]]) for name in ("actual_seq_qlen", "actual_seq_kvlen")]
        if (lengths[0] > lengths[1]).any():
            options["sparse_mode"] = 2  # the others refuse queries that see nothing
    return (q, k, v, 4, layout), options


def _shape(layout: str, batch: int, heads: int, tokens: int, width: int = 16) -> tuple[int, ...]:
    return {
        "BNSD": (batch, heads, tokens, width),
        "BSND": (batch, tokens, heads, width),
        "BSH": (batch, tokens, heads * width),
        "SBH": (tokens, batch, heads * width),
    }[layout]


def golden(query: torch.Tensor, key: torch.Tensor, pse: torch.Tensor) -> torch.Tensor:
    return overload(f"npu_{NAME}")(query, key, key, *FOUR, pse=pse, scale=0.25)[0]


GOLDEN: dict[str, Case] = {NAME: (golden, (Q, K, f16(1, 4, 3, 5)))}
