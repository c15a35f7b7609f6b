"""Calls of npu_fusion_attention and of its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.attention import TABLE
from support.call import Call, Case, bad, good, overload
from support.generated import Draw
from support.tensors import bf16, f16, f32, f64, u8

NAME = "fusion_attention"
Q, K = f16(2, 4, 3, 16), f16(2, 2, 5, 16)
FOUR = (4, "BNSD")
PACKED = (f16(3, 4, 16), f16(5, 2, 16), f16(5, 2, 16), 4, "TND")
Given = dict[str, Any]


def gradient(**more: Any) -> Given:
    """What the forward call gives: numbers of any other kind overflow."""
    forward = torch.ops.npu.npu_fusion_attention(Q, K, K, *FOUR, pse=more.get("pse"), scale=0.25)
    return {"softmax_max": forward[1], "softmax_sum": forward[2], "attention_in": forward[0], **more}


GOOD: list[Call] = [
    good(NAME, "shift and mask", Q, K, K, *FOUR, pse=f16(1, 4, 3, 5), atten_mask=u8(2, 1, 3, 5) > 150, scale=0.25),
    good(NAME, "flat, causal", bf16(2, 3, 64), bf16(2, 5, 32), bf16(2, 5, 32), 4, "BSH", atten_mask=TABLE,
         sparse_mode=3, scale=0.25),
    good(f"{NAME}_grad", "shift", Q, K, K, f16(2, 4, 3, 16), *FOUR, **gradient(pse=f16(1, 4, 3, 5)), scale_value=0.25),
]  # fmt: skip
WRONG: list[Call] = [
    bad(NAME, "input_layout", "NTD", Q, K, K, 4, "NTD"),
    bad(NAME, "head_num", "no heads", Q, K, K, 0, "BNSD"),
    bad(NAME, "keep_prob", "dropout", Q, K, K, *FOUR, keep_prob=0.9),
    bad(NAME, "prefix", "a prefix", Q, K, K, *FOUR, prefix=[1, 1]),
    bad(NAME, "prefix", "no prefix", Q, K, K, *FOUR, atten_mask=u8(3, 5), sparse_mode=5),
    bad(NAME, "sink", "a float16 sink", Q, K, K, *FOUR, sink=f16(4)),
    bad(NAME, "sink.size(0)", "a short sink", Q, K, K, *FOUR, sink=f32(2)),
    bad(NAME, "dropout_mask", "a mask of dropout", Q, K, K, *FOUR, dropout_mask=u8(8)),
    bad(NAME, "softmax_layout", "another layout", Q, K, K, *FOUR, softmax_layout="TND"),
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
    bad(NAME, "sparse_mode", "prefixes of packed sequences", *PACKED, atten_mask=TABLE, sparse_mode=5, prefix=[1]),
    bad(NAME, "atten_mask", "a table without prefixes", Q, K, K, *FOUR, atten_mask=TABLE, sparse_mode=6, prefix=[1, 1]),
    bad(NAME, "the length of prefix", "one prefix", Q, K, K, *FOUR, atten_mask=u8(3, 5), sparse_mode=5, prefix=[1]),
    bad(NAME, "atten_mask", "int8 mask", Q, K, K, *FOUR, atten_mask=u8(3, 5).to(torch.int8)),
    bad(NAME, "atten_mask", "a whole mask", Q, K, K, *FOUR, atten_mask=u8(3, 5), sparse_mode=3),
    bad(NAME, "atten_mask", "three dimensions", Q, K, K, *FOUR, atten_mask=u8(1, 3, 5)),
    bad(NAME, "atten_mask.size(-1)", "a narrow mask", Q, K, K, *FOUR, atten_mask=u8(3, 4)),
    bad(NAME, "pse", "another dtype", Q, K, K, *FOUR, pse=f32(1, 4, 3, 5)),
    bad(NAME, "pse.size(1)", "other heads", Q, K, K, *FOUR, pse=f16(1, 2, 3, 5)),
    bad(NAME, "actual_seq_qlen", "no lengths", *PACKED),
    bad(f"{NAME}_grad", "softmax_max", "none", Q, K, K, Q, *FOUR, **gradient(softmax_max=None)),
    bad(NAME, "value.size(3)", "wider than key", Q, K, f16(2, 2, 5, 32), *FOUR),
    bad(NAME, "value.size(2)", "flat heads of value", f16(2, 3, 64), f16(2, 5, 32), f16(2, 5, 31), 4, "BSH"),
    bad(f"{NAME}_grad", "dy.size(2)", "another token", Q, K, K, Q[:, :, :2], *FOUR, **gradient()),
    bad(f"{NAME}_grad", "softmax_max", "float16 rows", Q, K, K, Q, *FOUR, **gradient(softmax_max=f16(2, 4, 3, 8))),
    bad(f"{NAME}_grad", "softmax_sum.size(3)", "one copy", Q, K, K, Q, *FOUR, **gradient(softmax_sum=f32(2, 4, 3, 1))),
    bad(f"{NAME}_grad", "dy", "another dtype", Q, K, K, Q.float(), *FOUR, **gradient()),
]


def expected(*args: Any, **given: Any) -> list[Any]:
    """Row by row in float64."""
    query, key, value, heads, layout = args
    q, k, v = (_heads(each, layout, heads, query) for each in (query, key, value))
    ends = [(0, q.shape[2], 0, k.shape[2])]
    if layout == "TND":
        starts, key_starts = [0, *given["actual_seq_qlen"]], [0, *given["actual_seq_kvlen"]]
        ends = list(zip(starts, starts[1:], key_starts, key_starts[1:], strict=False))
    out = np.zeros((*q.shape[:3], v.shape[3]))
    for batch in range(q.shape[0]):
        for start, stop, key_start, key_stop in ends:
            for head in range(heads):
                shared = head * k.shape[1] // heads
                keys, values = k[batch, shared, key_start:key_stop], v[batch, shared, key_start:key_stop]
                for row in range(start, stop):
                    scores = keys @ q[batch, head, row]
                    if given.get("pse") is not None:
                        pse = given["pse"].double().numpy()
                        scores = scores + pse[batch if pse.shape[0] > 1 else 0, head, row - start]
                    scores = scores * given["scale"]
                    if given["sparse_mode"] == 3:
                        seen = row - start + (key_stop - key_start) - (stop - start)
                        scores = np.where(np.arange(len(scores)) > seen, -np.inf, scores)
                    if len(scores) and np.isfinite(scores).any():
                        weights = np.exp(scores - scores.max())
                        rounded = torch.from_numpy(weights).to(query.dtype).double().numpy()
                        out[batch, head, row] = rounded @ values / weights.sum()
    return _laid_out(torch.from_numpy(out).to(query.dtype).float().numpy(), layout)


def _heads(x: torch.Tensor, layout: str, heads: int, query: torch.Tensor) -> Any:
    a = x.double().numpy()
    if layout.endswith("H"):
        width = query.shape[2] // heads
        a = a.reshape(*a.shape[:2], -1, width)
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
    given: Given = {"scale": 0.2, "sparse_mode": draw(st.sampled_from([0, 3]))}
    if layout == "TND":
        tokens, keys = tokens + 2, keys + 2
        q, k, v = kind(tokens, 4, 16), kind(keys, 2, 16), kind(keys, 2, 16)
        given["actual_seq_qlen"] = [draw(st.integers(0, tokens)), tokens]
        given["actual_seq_kvlen"] = [draw(st.integers(0, keys)), keys]
    else:
        q = kind(*_shape(layout, batch, 4, tokens))
        k, v = kind(*_shape(layout, batch, 2, keys)), kind(*_shape(layout, batch, 2, keys))
        if draw(st.booleans()):
            given["pse"] = kind(draw(st.sampled_from([1, batch])), 4, tokens, keys)
    if given["sparse_mode"] == 3:
        given["atten_mask"] = TABLE
    return (q, k, v, 4, layout), given


def _shape(layout: str, batch: int, heads: int, tokens: int) -> tuple[int, ...]:
    return {
        "BNSD": (batch, heads, tokens, 16),
        "BSND": (batch, tokens, heads, 16),
        "BSH": (batch, tokens, heads * 16),
        "SBH": (tokens, batch, heads * 16),
    }[layout]


def golden(query: torch.Tensor, key: torch.Tensor, pse: torch.Tensor) -> torch.Tensor:
    return overload(f"npu_{NAME}")(query, key, key, *FOUR, pse=pse, scale=0.25)[0]


GOLDEN: dict[str, Case] = {NAME: (golden, (Q, K, f16(1, 4, 3, 5)))}
