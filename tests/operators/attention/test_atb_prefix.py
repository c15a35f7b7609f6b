"""ATB's attention of the last tokens of sequences over their pages, against statements in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant.refusals import Refusal

from support.numpy_rules import floats
from support.tensors import bf16, f16, f32

# Weights are rounded to half precision before the second product, and so is the result: two units of 2**-8.
BOUND = 2**-7
QUERIES, KEYS = (5, 130), (261, 130)
TABLE = torch.tensor([[3, 0, 1], [2, 1, 0]], dtype=torch.int32)


def slopes_mask(make: Any, root: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Distances of queries from keys, or their square roots, infinite above the diagonal; and a slope per head."""
    positions = torch.arange(256.0)
    between = (positions[:, None] - positions).clamp(min=0)
    mask = (between.sqrt() if root else between).masked_fill(torch.ones(256, 256).triu(1) > 0, torch.inf)
    return mask.to(make(1).dtype), torch.tensor([-0.5, -0.25, -0.125, -1.0])


def triangle(make: Any) -> torch.Tensor:
    ones = torch.ones(128, 128).triu(1)
    return (ones if make is bf16 else ones * -20000).to(make(1).dtype)


def wanted(query: Any, caches: Any, scale: float, bias: Any) -> Any:
    """Each head of each query over the keys up to its own position, in float64."""
    out, start = np.empty(query.shape), 0
    for sequence, (queries, keys) in enumerate(zip(QUERIES, KEYS, strict=True)):
        rows = TABLE[sequence].tolist()
        key, value = (np.concatenate([cache[row] for row in rows])[:keys] for cache in caches)
        for token in range(queries):
            seen = keys - queries + token + 1
            for head in range(4):
                scores = key[:seen, head // 2] @ query[start + token, head].astype(np.float64) * scale
                scores = scores + bias(head, seen - 1, np.arange(seen))
                weights = np.exp(scores - scores.max())
                out[start + token, head] = weights @ value[:seen, head // 2] / weights.sum()
        start += queries
    return out


@pytest.mark.parametrize("make", [f16, bf16])
@pytest.mark.parametrize("kind", [3, 4, 5, None])
def test_prefix_attention_is_causal(make: Any, kind: int | None) -> None:
    query, caches = make(sum(QUERIES), 4, 16) / 3, [make(4, 128, 2, 16) / 3 for _ in range(2)]
    options, bias = {}, lambda *_: 0.0
    if kind == 3:
        options = {"mask": triangle(make).npu()}
    elif kind is not None:
        mask, slopes = slopes_mask(make, kind == 5)
        options = {"mask": mask.npu(), "slopes": slopes.npu()}
        exact = np.sqrt if kind == 5 else np.array
        bias = lambda head, row, columns: float(slopes[head]) * exact(row - columns)  # noqa: E731
    npu = [tensor.npu() for tensor in (query, *caches, TABLE)]
    if kind is None:
        result = torch_npu.atb.npu_self_attention_prefix_encoder(*npu, list(QUERIES), list(KEYS), 4, 0.5, 2)
    else:
        out, lengths = torch.empty_like(npu[0]), (list(QUERIES), list(KEYS))
        options |= {"mask_type": kind, "num_kv_heads": 2, "num_heads": 4, "scale_value": 0.5, "out": out}
        result = torch_npu.atb._npu_flash_attention_prefix_v2(*npu, options.pop("mask"), *lengths, **options)
        assert result.data_ptr() == out.data_ptr()
    right = wanted(floats(query), [floats(cache) for cache in caches], 0.5, bias)
    # Roots in bfloat16 are off by 2**-9 of themselves before a slope of at most one.
    bound = BOUND if kind != 5 or make is f16 else 2**-4
    np.testing.assert_allclose(floats(result.cpu()), right, rtol=0, atol=bound * np.abs(right).max())


def test_heads_and_channels_may_be_one_dimension() -> None:
    query, key, value = f16(5, 4, 16), f16(4, 128, 2, 16), f16(4, 128, 2, 16)
    args = (TABLE[:1], [5], [133], 4, 0.5, 2)
    whole = torch.ops.atb.npu_self_attention_prefix_encoder(query, key, value, *args)
    flat = torch.ops.atb.npu_self_attention_prefix_encoder(query.flatten(1), key.flatten(2), value.flatten(2), *args)
    out = torch.empty_like(query)
    into = torch.ops.atb.npu_self_attention_prefix_encoder(query, key, value, *args, output=out)
    assert torch.equal(whole.flatten(1), flat)
    assert torch.equal(whole, out)
    assert into.data_ptr() == out.data_ptr()
    words = {"mask": triangle(f16), "mask_type": "mask_type_norm_compress"}
    assert torch.equal(torch.ops.atb.npu_self_attention_prefix_encoder(query, key, value, *args, **words), whole)


def encode(**changed: Any) -> Any:
    arguments: dict[str, Any] = {"query": f16(5, 4, 16), "key": f16(4, 128, 2, 16), "value": f16(4, 128, 2, 16)}
    arguments |= {"block_tables": TABLE[:1], "seqlen": [5], "kv_seqlen": [133]}
    arguments |= {"q_headnum": 4, "qk_scale": 0.5, "kv_headnum": 2}
    return torch.ops.atb.npu_self_attention_prefix_encoder(**arguments | changed)


def prefix(**changed: Any) -> Any:
    arguments: dict[str, Any] = {
        "query": f16(5, 4, 16),
        "key_cache": f16(4, 128, 2, 16),
        "value_cache": f16(4, 128, 2, 16),
    }
    arguments |= {"block_table": TABLE[:1], "mask": triangle(f16), "seq_len": [5], "context_lens": [133]}
    arguments |= {"num_kv_heads": 2, "num_heads": 4, "out": f16(5, 4, 16)}
    return torch.ops.atb._npu_flash_attention_prefix_v2(**arguments | changed)


SLOPED = dict(zip(("mask", "slopes"), slopes_mask(f16, root=False), strict=True)) | {"mask_type": 4}
LONG = {"query": f16(129, 4, 16), "out": f16(129, 4, 16), "seq_len": [129]}
WRONG: list[tuple[str, Any, dict[str, Any]]] = [
    ("query must be", encode, {"query": f32(5, 4, 16)}),
    ("query.size(1)", encode, {"query": f16(5, 3, 16)}),
    ("kv_headnum", encode, {"kv_headnum": 0}),
    ("q_headnum", encode, {"q_headnum": 3}),
    ("key must be", encode, {"key": bf16(4, 128, 2, 16)}),
    ("key must have", encode, {"key": f16(4, 128)}),
    ("key.size(1)", encode, {"key": f16(4, 64, 2, 16)}),
    ("key.size(2)", encode, {"key": f16(4, 128, 4, 16)}),
    ("the channels of key", encode, {"key": f16(4, 128, 2, 32)}),
    ("value.size(0)", encode, {"value": f16(3, 128, 2, 16)}),
    ("the channels of a head", encode, {"query": f16(5, 4, 8), "key": f16(4, 128, 16), "value": f16(4, 128, 16)}),
    ("the channels of a head", encode, {"query": f16(5, 4, 144), "key": f16(4, 128, 288), "value": f16(4, 128, 288)}),
    ("block_tables must be", encode, {"block_tables": TABLE[:1].long()}),
    ("block_tables must have", encode, {"block_tables": TABLE[0]}),
    ("the number of seqlen", encode, {"seqlen": [2, 3]}),
    ("the number of kv_seqlen", encode, {"kv_seqlen": [133, 0]}),
    ("kv_seqlen[0] - seqlen[0]", encode, {"kv_seqlen": [132]}),
    ("kv_seqlen[0] must lie", encode, {"kv_seqlen": [517]}),
    ("without output", encode, {"seqlen": [4], "kv_seqlen": [132]}),
    ("without output", encode, {"seqlen": [5, 0], "kv_seqlen": [133, 128], "block_tables": TABLE}),
    ("mask_type", encode, {"mask_type": "mask_type_norm"}),
    ("mask and slopes", encode, {"mask": triangle(f16)}),
    ("mask must be given", encode, {"mask_type": "mask_type_alibi_compress_sort"}),
    ("output.size(0)", encode, {"output": f16(4, 4, 16)}),
    ("num_heads", prefix, {"num_heads": 0}),
    ("num_heads", prefix, {"num_kv_heads": 3}),
    ("kernel_type", prefix, {"kernel_type": 0}),
    ("mask_type", prefix, {"mask_type": 1}),
    ("mask must be", prefix, {"mask": triangle(bf16)}),
    ("mask must have", prefix, SLOPED | {"mask": f16(4, 256, 128)}),
    ("mask.size(0)", prefix, {"mask": f16(256, 256)}),
    ("the values of mask", prefix, {"mask": f16(128, 128)}),
    ("mask[i, j]", prefix, SLOPED | {"mask": f16(256, 256)}),
    ("slopes must be given", prefix, SLOPED | {"slopes": None}),
    ("slopes must be", prefix, SLOPED | {"slopes": f16(4)}),
    ("slopes must have", prefix, SLOPED | {"slopes": f32(4, 1)}),
    ("slopes.size(0)", prefix, SLOPED | {"slopes": f32(3)}),
    ("block_table[0][0]", prefix, {"block_table": TABLE[:1] + 4}),
    ("the sum of seq_len", prefix, {"seq_len": [5, 1], "context_lens": [133, 1], "block_table": TABLE}),
    ("seq_len[0] must be at most", prefix, LONG | {"context_lens": [1]}),
]


@pytest.mark.parametrize(("words", "call", "changed"), WRONG)
def test_wrong_calls_are_refused(words: str, call: Any, changed: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refusal:
        call(**changed)
    assert str(refusal.value).partition(": ")[2].startswith(words)
