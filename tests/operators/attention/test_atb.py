"""ATB's attention and caches, under torch_npu's names, against statements in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant.refusals import Refusal
from hypothesis import strategies as st

from support.call_strategies import Draw, run
from support.numpy_rules import floats
from support.tensors import bf16, f16, i8

# Weights are rounded to half precision before the second product, and so is the result: two units of 2**-8.
BOUND = 2**-7


def ints(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def attended(query: Any, key: Any, value: Any, scale: float, mask: Any = 0.0) -> Any:
    """Attention head by head, in float64; all (tokens, heads, channels), with fewer heads of keys and values."""
    out = np.empty((*query.shape[:2], value.shape[-1]))
    for head in range(query.shape[1]):
        own = head * key.shape[1] // query.shape[1]
        scores = query[:, head].astype(np.float64) @ key[:, own].astype(np.float64).T * scale + mask
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out[:, head] = weights @ value[:, own] / weights.sum(-1, keepdims=True)
    return out


def near(one: torch.Tensor, other: Any) -> None:
    np.testing.assert_allclose(floats(one), other, rtol=0, atol=BOUND * np.abs(other).max())


def paged(make: Any = f16, lengths: Any = (5, 0, 3)) -> tuple[Any, ...]:
    """Three sequences in four blocks of two, four heads over two, with values of another width."""
    table = ints([3, 0, 1], [0, 0, 0], [2, 2, 1])
    caches = make(4, 2, 2, 16), make(4, 2, 2, 8)
    return make(3, 4, 16) / 4, *caches, 2, 4, 0.25, table, ints(*lengths), make(3, 4, 8)


@st.composite
def paged_calls(draw: Draw) -> tuple[Any, ...]:
    return paged(draw(st.sampled_from([f16, bf16])), [draw(st.integers(0, 6)) for _ in range(3)])


def test_paged_attention_reads_the_pages_of_each_sequence() -> None:
    def agrees(args: tuple[Any, ...]) -> None:
        query, key_cache, value_cache, _, _, scale, table, lengths, out = args
        before = out.clone()
        torch.ops.atb._npu_paged_attention(*args)
        for sequence, length in enumerate(lengths.tolist()):
            if not length:
                assert torch.equal(out[sequence], before[sequence])
                continue
            where = [(int(table[sequence, token // 2]), token % 2) for token in range(length)]
            key, value = (np.stack([floats(cache[at]) for at in where]) for cache in (key_cache, value_cache))
            near(out[sequence], attended(floats(query[sequence])[None], key, value, scale)[0])

    run(agrees, paged_calls())


@st.composite
def masked_calls(draw: Draw) -> tuple[tuple[Any, ...], Any, int]:
    """A call of _npu_paged_attention, a mask or None, and its mask_type in the second version."""
    make = draw(st.sampled_from([f16, bf16]))
    args = paged(make, [draw(st.integers(1, 6)), *(draw(st.integers(0, 6)) for _ in range(2))])
    mask = draw(st.sampled_from([make(3, 4, 1, 6), make(4, 1, 7)]))
    return args, mask, draw(st.sampled_from([0, 2]))


def test_paged_attention_v2_adds_a_mask_per_head() -> None:
    def agrees(call: tuple[tuple[Any, ...], Any, int]) -> None:
        (query, key_cache, value_cache, kv_heads, heads, scale, table, lengths, out), mask, kind = call
        before, arguments = out.clone(), {"num_kv_heads": kv_heads, "num_heads": heads, "scale_value": scale}
        arguments |= {"value_cache": value_cache, "mask": mask, "mask_type": kind, "out": out}
        result = torch.ops.atb._npu_paged_attention_v2(query, key_cache, table, lengths.tolist(), **arguments)
        assert result.data_ptr() == out.data_ptr()
        for sequence, length in enumerate(lengths.tolist()):
            if not length:
                assert torch.equal(out[sequence], before[sequence])
                continue
            key, value = (pages(table, cache, sequence, length) for cache in (key_cache, value_cache))
            own = floats(mask if mask.dim() == 3 else mask[sequence])[..., :length] * (kind == 2)
            for head in range(heads):
                part = slice(head // 2, head // 2 + 1)
                wanted = attended(
                    floats(query[sequence])[None, head : head + 1], key[:, part], value[:, part], scale, own[head]
                )
                near(out[sequence, head], wanted[0, 0])

    run(agrees, masked_calls())


def paged_v2(**changed: Any) -> Any:
    query, key_cache, value_cache, kv_heads, heads, scale, table, lengths, out = paged()
    arguments = {"query": query, "key_cache": key_cache, "block_table": table, "context_lens": lengths.tolist()}
    arguments |= {"value_cache": value_cache, "num_kv_heads": kv_heads, "num_heads": heads, "scale_value": scale}
    arguments |= {"mask": f16(3, 4, 1, 6), "mask_type": 2, "out": out} | changed
    return torch.ops.atb._npu_paged_attention_v2(**arguments)


NO_TABLE = torch.empty(0, 3, dtype=torch.int32)


def test_num_kv_heads_defaults_to_num_heads() -> None:
    caches = {"key_cache": f16(4, 2, 4, 16), "value_cache": f16(4, 2, 4, 8)}
    same = caches | {"query": f16(3, 4, 16), "mask_type": 0}
    assert torch.equal(
        paged_v2(**same, num_kv_heads=0, out=(out := f16(3, 4, 8)).clone()),
        paged_v2(**same, num_kv_heads=4, out=out.clone()),
    )


@pytest.mark.parametrize(
    ("message", "changed"),
    [
        ("value_cache", {"value_cache": None}),
        ("mask_type", {"mask_type": 1}),
        ("mask must be given", {"mask": None}),
        ("mask must be", {"mask": bf16(3, 4, 1, 6)}),
        ("mask", {"mask": f16(1, 6)}),
        ("mask.size(-3)", {"mask": f16(3, 1, 1, 6)}),
        ("mask.size(-2)", {"mask": f16(3, 4, 2, 6)}),
        ("mask.size(0)", {"mask": f16(2, 4, 1, 6)}),
        ("the number of context_lens", {"context_lens": [1, 2]}),
        ("context_lens[0]", {"mask": f16(3, 4, 1, 4)}),
        ("context_lens[1]", {"mask_type": 0, "context_lens": [1, 7, 1]}),
        ("context_lens must have", {"context_lens": [0, 0, 0]}),
        (
            "context_lens must have",
            {
                "context_lens": [],
                "query": f16(0, 4, 16),
                "out": f16(0, 4, 8),
                "mask": f16(4, 1, 6),
                "block_table": NO_TABLE,
            },
        ),
        ("num_heads", {"num_heads": 0, "num_kv_heads": 1}),
        ("workspace", {"workspace": f16(1)}),
        ("key_cache.size(-1)", {"query": f16(3, 4, 592), "key_cache": f16(4, 2, 2, 592)}),
        ("key_cache.size(1)", {"query": f16(3, 4, 272), "key_cache": f16(4, 144, 2, 272)}),
    ],
)
def test_wrong_calls_of_the_second_version_are_refused(message: str, changed: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError) as refusal:
        paged_v2(**changed)
    assert str(refusal.value).startswith(f"_npu_paged_attention_v2: {message}")


def test_lengths_may_be_on_either_device_and_a_workspace_is_ignored() -> None:
    args = [argument.npu() if isinstance(argument, torch.Tensor) else argument for argument in paged()]
    results = []
    for lengths in (args[7], args[7].cpu()):
        call = [*args[:7], lengths, args[8].clone()]
        workspace = torch_npu._npu_paged_attention_get_workspace(*call)
        assert workspace.dtype == torch.uint8
        torch_npu._npu_paged_attention(*call, workspace=workspace)
        results.append(call[-1])
    assert torch.equal(*results)


def test_a_captured_graph_reads_lengths_from_the_cpu() -> None:
    *args, out = (argument.npu() if isinstance(argument, torch.Tensor) else argument for argument in paged())
    args[7], wanted = args[7].cpu(), out.clone()
    torch_npu._npu_paged_attention(*args, wanted)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        torch_npu._npu_paged_attention(*args, out)
    graph.replay()
    assert torch.equal(out, wanted)


@st.composite
def sequences(draw: Draw) -> tuple[Any, ...]:
    make, flat = draw(st.sampled_from([f16, bf16])), draw(st.booleans())
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    tokens = sum(lengths) + draw(st.integers(0, 2))
    rows = [make(tokens, heads, width) for heads, width in ((4, 16), (2, 16), (2, 8), (4, 8))]
    query, key, value, out = (row.flatten(1) if flat else row for row in rows)
    mask = torch.full((4, 4), 1.0 if make is bf16 else -10000.0).triu(1).to(query.dtype)
    mask = draw(st.sampled_from([mask, mask[None], torch.stack([mask, mask.mT, mask])[: len(lengths)]]))
    return query / 4, key, value, mask, ints(*lengths), 0.25, 4, 2, out


def test_flash_attention_of_packed_sequences() -> None:
    def agrees(args: tuple[Any, ...]) -> None:
        query, key, value, mask, lengths, scale, heads, kv_heads, out = args
        before, start = out.clone(), 0
        torch.ops.atb._npu_flash_attention(*args)
        tokens = out.size(0)
        q, k, v = (floats(x).reshape(tokens, n, -1) for x, n in ((query, heads), (key, kv_heads), (value, kv_heads)))
        for sequence, length in enumerate(lengths.tolist()):
            part = slice(start, start + length)
            # In bfloat16 a mask is of ones, which the kernel makes lower than any score.
            masks = floats(mask).reshape(-1, 4, 4) * (-3e38 if mask.dtype == torch.bfloat16 else 1.0)
            own = masks[sequence if len(masks) > 1 else 0, :length, :length]
            near(out[part].reshape(length, heads, -1), attended(q[part], k[part], v[part], scale, own))
            start += length
        assert torch.equal(out[start:], before[start:])

    run(agrees, sequences())


@pytest.mark.parametrize("make", [f16, bf16, i8], ids=["float16", "bfloat16", "int8"])
def test_reshape_and_cache_writes_slots(make: Any) -> None:
    key, value, slots = make(3, 2, 16), make(3, 2, 8), ints(5, -1, 0)
    caches = [make(3, 2, 2, 16), make(3, 2, 2, 8)]
    wanted = [cache.clone() for cache in caches]
    for cache, rows in zip(wanted, (key, value), strict=True):
        cache[2, 1], cache[0, 0] = rows[0], rows[2]
    npu_caches = [cache.npu() for cache in caches]
    torch_npu._npu_reshape_and_cache(key.npu(), value.npu(), *npu_caches, slots.npu())
    alone = caches[0].npu()
    torch_npu._npu_reshape_and_cache_siso(key.npu(), alone, slots.npu())
    for one, other in zip((*npu_caches, alone), (*wanted, wanted[0]), strict=True):
        assert torch.equal(one.cpu(), other)


def test_reshape_and_cache_writes_nz_slots() -> None:
    key, value, slots = i8(2, 1, 64), bf16(2, 1, 32), ints(3, -1)
    caches = [i8(2, 2, 2, 32), bf16(2, 2, 2, 16)]
    wanted = [cache.clone() for cache in caches]
    for cache, rows in zip(wanted, (key, value), strict=True):
        cache[1, 0, 1], cache[1, 1, 1] = rows[0, 0].chunk(2)
    npu_caches = [cache.npu() for cache in caches]
    torch_npu._npu_reshape_and_cache(key.npu(), value.npu(), *npu_caches, slots.npu())
    for one, other in zip(npu_caches, wanted, strict=True):
        assert torch.equal(one.cpu(), other)


P, F = paged(), (f16(3, 64), f16(3, 32), f16(3, 16), f16(4, 4), ints(3), 0.25, 4, 2, f16(3, 32))
C = (f16(3, 2, 16), f16(3, 2, 8), f16(3, 2, 2, 16), f16(3, 2, 2, 8), ints(0, 1, 2))
WRONG = {
    "_npu_paged_attention": (
        P,
        {
            "query": (0, P[0].float()),
            "query.size(-2)": (4, 2),
            "num_kv_heads": (3, 0),
            "num_heads": (4, 3),
            "key_cache": (1, i8(4, 2, 2, 16)),
            "key_cache.size(-1)": (1, f16(4, 2, 2, 8)),
            "value_cache.size(0)": (2, f16(3, 2, 2, 8)),
            "value_cache": (2, f16(4, 2, 16)),
            "out.size(-1)": (8, f16(3, 4, 16)),
            "out.size(0)": (8, f16(2, 4, 8)),
            "block_table": (6, P[6].long()),
            "block_table.size(0)": (6, P[6][:2]),
            "context_lens": (7, P[7].long()),
            "context_lens.size(0)": (7, P[7][:2]),
            "context_lens[1]": (7, ints(1, 7, 1)),
            "block_table[0][1]": (6, ints([0, 4, 0], [0, 0, 0], [0, 0, 0])),
        },
    ),
    "_npu_flash_attention": (
        F,
        {
            "query": (0, f16(3, 64).float()),
            "key": (1, bf16(3, 32)),
            "key.size(0)": (1, f16(2, 32)),
            "key.size(-1)": (1, f16(3, 16)),
            "value.size(1)": (2, f16(3, 4, 4)),
            "value.size(-1)": (2, f16(3, 15)),
            "out.size(-1)": (8, f16(3, 64)),
            "mask": (3, bf16(4, 4)),
            "mask.size(-2)": (3, f16(3, 4)),
            "mask.size(0)": (3, f16(2, 4, 4)),
            "seq_len": (4, ints([3])),
            "seq_len[0]": (4, ints(5)),
            "the sum of seq_len": (4, ints(3, 1)),
        },
    ),
    "_npu_reshape_and_cache": (
        C,
        {
            "key": (0, f16(3, 2, 16).float()),
            "value": (1, f16(6, 8)),
            "value.size(0)": (1, f16(2, 2, 8)),
            "value_cache": (3, bf16(3, 2, 2, 8)),
            "value_cache.size(0)": (3, f16(2, 2, 2, 8)),
            "slot_indices": (4, C[4].long()),
            "slot_indices.size(0)": (4, C[4][:2]),
            "slot_indices[2]": (4, ints(0, 1, 6)),
        },
    ),
}


@pytest.mark.parametrize(("op", "argument"), [(op, name) for op, (_, cases) in WRONG.items() for name in cases])
def test_wrong_calls_are_refused(op: str, argument: str) -> None:
    args, cases = WRONG[op]
    index, value = cases[argument]
    with pytest.raises(RuntimeError) as refusal:
        getattr(torch.ops.atb, op)(*args[:index], value, *args[index + 1 :])
    assert str(refusal.value).startswith(f"{op}: {argument} ")


def test_missing_atb_operators_are_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match="atb::_npu_paged_attention_quant cannot run on the host NPU"):
        torch_npu._npu_paged_attention_quant()


def test_bfloat16_mask_hides_and_float16_mask_is_added() -> None:
    """The kernels multiply ones of a bfloat16 mask by -3e38, and keep minus infinity."""
    causal = np.triu(np.full((3, 3), -np.inf), 1)
    for make, hides in ((bf16, 1.0), (f16, -torch.inf)):
        query, key, value, out = (make(3, 2, 16) for _ in range(4))
        mask = torch.zeros(3, 3).masked_fill_(torch.from_numpy(np.isinf(causal)), hides).to(query.dtype)
        torch.ops.atb._npu_flash_attention(query, key, value, mask, ints(3), 0.25, 2, 2, out)
        near(out, attended(floats(query), floats(key), floats(value), 0.25, causal))


@pytest.mark.parametrize("flat", [False, True])
def test_flash_attention_unpad_v2(flat: bool) -> None:
    def agrees(lengths: list[int]) -> None:
        query, key, value, out = bf16(9, 4, 16), bf16(9, 2, 16), bf16(9, 2, 8), bf16(9, 4, 8)
        before, tensors = out.clone(), [query, key, value]
        if flat:
            tensors, out = [tensor.flatten(1) for tensor in tensors], out.flatten(1)
        torch.ops.atb._npu_flash_attention_unpad_v2(*tensors, ints(*lengths), 0.25, 4, 2, out=out)
        start, result = 0, out.reshape(9, 4, 8)
        for length in lengths:
            part = slice(start, start + length)
            if length:
                near(result[part], attended(*(floats(tensor[part]) for tensor in (query, key, value)), 0.25))
            start += length
        assert torch.equal(result[start:], before[start:])

    run(agrees, st.lists(st.integers(0, 4), min_size=1, max_size=2))


def pages(table: Any, cache: torch.Tensor, sequence: int, length: int) -> Any:
    size = cache.size(1)
    where = [(int(table[sequence, token // size]), token % size) for token in range(length)]
    return np.stack([floats(cache[at]) for at in where])


@st.composite
def lengths_of_two(draw: Draw) -> list[tuple[int, int]]:
    """The numbers of queries and keys of two sequences."""
    keys = [draw(st.integers(1, 6)) for _ in range(2)]
    return [(draw(st.integers(0, min(count, 4))), count) for count in keys]


@pytest.mark.parametrize("name", ["_npu_paged_attention_splitfuse", "_npu_flash_attention_qlens"])
def test_queries_are_the_last_tokens_of_paged_sequences(name: str) -> None:
    causal_by_table = name.endswith("qlens")

    def agrees(lengths: list[tuple[int, int]]) -> None:
        table, key_cache, value_cache = ints([3, 0, 1], [2, 2, 1]), bf16(4, 2, 2, 16), bf16(4, 2, 2, 8)
        query, out = bf16(8, 4, 16), bf16(8, 4, 8)
        before, mask = out.clone(), bf16(8, 6)
        if causal_by_table:
            mask = torch.ones(128, 128, dtype=torch.bfloat16).triu(1)
        arguments = {
            "query": query,
            "key_cache": key_cache,
            "value_cache": value_cache,
            "block_table": table,
            "mask": mask,
        }
        arguments |= {"seq_len": ints(*(q for q, _ in lengths)), "context_lens": ints(*(k for _, k in lengths))}
        getattr(torch.ops.atb, name)(**arguments, num_kv_heads=2, num_heads=4, scale_value=0.25, out=out)
        start = 0
        for sequence, (queries, keys) in enumerate(lengths):
            part = slice(start, start + queries)
            start += queries
            if not queries:
                continue
            key, value = (pages(table, cache, sequence, keys) for cache in (key_cache, value_cache))
            shift: Any = floats(mask[part, :keys]) if not causal_by_table else 0.0
            if causal_by_table:
                shift = np.triu(np.full((queries, keys), -np.inf), 1 + keys - queries)
            near(out[part], attended(floats(query[part]), key, value, 0.25, shift))
        assert torch.equal(out[start:], before[start:])

    run(agrees, lengths_of_two())


def test_paged_mla_uses_one_cache_for_keys_and_values() -> None:
    query, cache, table, out = f16(2, 4, 16), f16(4, 2, 1, 16), ints([3, 0], [2, 1]), f16(2, 4, 8)
    torch_npu._npu_paged_attention_mla(
        query.npu(), cache.npu(), 1, 4, 0.25, table.npu(), ints(3, 4), 8, result := out.npu()
    )
    for sequence, length in enumerate((3, 4)):
        key = pages(table, cache, sequence, length)
        near(result[sequence].cpu(), attended(floats(query[sequence])[None], key, key[..., :8], 0.25)[0])


def ring(causal: bool, lengths: Any, calc_type: str, **more: Any) -> tuple[Any, dict[str, Any]]:
    query, key, value = bf16(5, 2, 192) / 8, bf16(7, 2, 192) / 8, bf16(7, 2, 128)
    table = torch.ones(512, 512, dtype=torch.bfloat16).triu(1)
    parts = [part.contiguous() for whole in (query, key) for part in whole.split([128, 64], -1)]
    args = [tensor.npu() for tensor in (*parts, value, table)]
    options = {"mask_type": "mask_type_triu" if causal else "no_mask", "calc_type": calc_type, "qk_scale": 0.125}
    return (query, key, value), {"args": (*args, lengths, 2, 2), "kwargs": options | more}


def both(query: Any, key: Any, value: Any, mask: Any) -> tuple[Any, Any]:
    """The attention of one sequence and its log-sum-exp, in float64."""
    scores = np.einsum("qhd,khd->hqk", query, key).astype(np.float64) * 0.125 + mask
    return attended(query, key, value, 0.125, mask), np.log(np.exp(scores).sum(-1))


def test_ring_mla_equals_attention_over_all_keys() -> None:
    """Attention over own tokens merged with attention over earlier ones equals attention over all keys."""
    lengths, prefix = [2, 3], [0, 4]
    (query, key, value), call = ring(True, ints(*lengths), "calc_type_first_ring")
    out, lse = torch_npu.atb.npu_ring_mla(*call["args"], **call["kwargs"])
    first = [(floats(tensor[:2]), floats(tensor[2:5])) for tensor in (query, key, value)]
    for sequence, part in enumerate((slice(2), slice(2, 5))):
        hidden = np.triu(np.full((lengths[sequence],) * 2, -np.inf), 1)
        wanted, sums = both(*(tensor[sequence] for tensor in first), hidden)
        near(out[part].cpu(), wanted)
        near(lse[:, part].cpu(), sums)
    (_, later, values), again = ring(False, torch.stack([ints(*lengths), ints(*prefix)]), "calc_type_default")
    q_parts, kept = call["args"][:2], out.clone()
    torch_npu.atb.npu_ring_mla(
        *q_parts, *again["args"][2:], **again["kwargs"], pre_out=out, prev_lse=lse, output=out, softmax_lse=lse
    )
    assert torch.equal(out[:2], kept[:2])
    keys, all_values = (np.concatenate([floats(x[2:5]), floats(y[:4])]) for x, y in ((key, later), (value, values)))
    hidden = np.concatenate([np.triu(np.full((3, 3), -np.inf), 1), np.zeros((3, 4))], -1)
    wanted, sums = both(floats(query[2:]), keys, all_values, hidden)
    near(out[2:].cpu(), wanted)
    near(lse[:, 2:].cpu(), sums)


def test_paged_cache_load_starts_at_the_block_of_seq_starts() -> None:
    key_cache, value_cache, table = f16(5, 4, 1, 32), f16(5, 4, 1, 16), ints([4, 2, 0], [1, 3, 3])
    starts = ints(5, 0)
    caches = key_cache.npu(), value_cache.npu(), table.npu()
    for lengths, cumsum in ((ints(6, 3), False), (ints(0, 6, 9), True)):
        results = torch_npu.atb.npu_paged_cache_load(*caches, lengths.npu(), seq_starts=starts.npu(), cumsum=cumsum)
        for cache, loaded in zip((key_cache, value_cache), results, strict=True):
            wanted = torch.cat([cache[2], cache[0, :2], cache[1, :3]])
            assert torch.equal(loaded.cpu(), wanted)
        out = [torch.zeros(12, 1, width, dtype=torch.float16).npu() for width in (32, 16)]
        torch_npu.atb.npu_paged_cache_load(
            *caches, lengths.npu(), seq_starts=starts.npu(), cumsum=cumsum, key=out[0], value=out[1]
        )
        assert all(torch.equal(tensor[:9], one) for tensor, one in zip(out, results, strict=True))
        assert not any(tensor[9:].any() for tensor in out)


def test_matmul_add_accumulates_in_float32() -> None:
    x, weight, total = bf16(6, 3), bf16(6, 5), torch.ones(3, 5)
    torch_npu._npu_matmul_add_fp32(x.npu(), weight.npu(), result := total.npu())
    wanted = floats(x).astype(np.float64).T @ floats(weight) + 1
    # Six products of bfloat16 are exact in float32; their sum is rounded.
    np.testing.assert_allclose(result.cpu().numpy(), wanted, rtol=0, atol=2.0**-21 * np.abs(wanted).max())


@pytest.mark.parametrize("neox", [True, False])
def test_rotary_embedding_of_halves_or_neighbours(neox: bool) -> None:
    query, key, table, positions = f16(3, 64), f16(3, 32), f16(9, 32).float(), torch.tensor([8, 0, 3])
    rotated = [tensor.npu() for tensor in (query, key)]
    torch_npu._npu_rotary_embedding(positions.npu(), *rotated, 32, table.npu(), neox)
    for before, after in zip((query, key), rotated, strict=True):
        wanted = np.empty(before.shape)
        for row, position in enumerate(positions.tolist()):
            for head in range(0, before.size(1), 32):
                for pair in range(16):
                    one, other = (pair, pair + 16) if neox else (2 * pair, 2 * pair + 1)
                    x, y = (float(before[row, head + at]) for at in (one, other))
                    cos, sin = float(table[position, pair]), float(table[position, 16 + pair])
                    wanted[row, head + one], wanted[row, head + other] = x * cos - y * sin, y * cos + x * sin
        np.testing.assert_allclose(floats(after.cpu()), wanted, rtol=2.0**-10, atol=2.0**-10)


def test_rotary_embedding_of_halves_does_not_read_head_size() -> None:
    """RopeAtb.cpp passes the width of the table on, for heads of 128 channels with 64 rotated, too."""
    query, key, table, positions = f16(3, 256), f16(3, 128), f16(9, 64).float(), torch.tensor([8, 0, 3])
    by_size = []
    for size in (128, 64):
        by_size.append([tensor.clone().npu() for tensor in (query, key)])
        torch_npu._npu_rotary_embedding(positions.npu(), *by_size[-1], size, table.npu(), True)
    assert all(torch.equal(*pair) for pair in zip(*by_size, strict=True))
    assert not torch.equal(by_size[0][0][:, 192:].cpu(), query[:, 192:])
    with pytest.raises(RuntimeError, match=r"cos_sin_cache\.size\(1\) must equal head_size, got 64 and 128"):
        torch_npu._npu_rotary_embedding(positions.npu(), *by_size[0], 128, table.npu(), False)


def test_a_second_table_of_a_process_is_warned_of(run_python: Any) -> None:
    done = run_python(
        """
import graph_quant, torch, torch_npu, warnings
warnings.simplefilter("always")
tables = [torch.ones(4, 32), torch.ones(4, 32), torch.zeros(4, 32), torch.full((4, 32), 2.0)]
for number, table in enumerate(tables):
    with warnings.catch_warnings(record=True) as caught:
        query, key = torch.ones(2, 1, 32).half().npu()
        torch_npu._npu_rotary_embedding(torch.tensor([3]).npu(), query, key, 32, table.npu(), True)
    print(number, [str(warning.message)[:43] for warning in caught if "cos_sin" in str(warning.message)])
"""
    )
    warned = "2 ['_npu_rotary_embedding: cos_sin_cache differ']"
    assert done.stdout.splitlines() == ["0 []", "1 []", warned, "3 []"], done.stderr


@pytest.mark.parametrize("make", [f16, bf16])
def test_quantize_per_tensor_rounds_to_float16_first(make: Any) -> None:
    x, scale, zero = make(4, 3, 8) * 9, make(3, 8).abs() + 0.5, i8(3, 8)
    for offset in (zero, zero[:0]):
        torch_npu._npu_quantize_per_tensor(x.npu(), scale.npu(), offset.npu(), y := i8(4, 3, 8).npu())
        quotient = (floats(x) / floats(scale)).astype(np.float16)
        if offset.numel():
            quotient = quotient + offset.numpy().astype(np.float16)
        wanted = np.rint(np.clip(quotient.astype(np.float32), -128, 127))
        assert np.array_equal(y.cpu().numpy(), wanted)


REFUSED: dict[str, Any] = {
    "kernel_type": lambda: torch.ops.atb._npu_flash_attention_unpad_v2(
        f16(3, 16), f16(3, 16), f16(3, 16), ints(3), 1.0, 1, 1, kernel_type=2, out=f16(3, 16)
    ),
    "the values of mask": lambda: torch_npu.atb.npu_ring_mla(
        *(call := ring(True, ints(2, 3), "calc_type_first_ring")[1])["args"][:5],
        call["args"][5] * -10000,
        *call["args"][6:],
        **call["kwargs"],
    ),
    "sequence 0 must have keys": lambda: torch_npu.atb.npu_ring_mla(
        *(call := ring(False, torch.stack([ints(5), ints(0)]), "calc_type_first_ring")[1])["args"], **call["kwargs"]
    ),
    "pre_out": lambda: torch_npu.atb.npu_ring_mla(
        *(call := ring(False, ints(5), "calc_type_default")[1])["args"], **call["kwargs"]
    ),
    "positions": lambda: torch.ops.atb._npu_rotary_embedding(
        torch.tensor([4]), f16(1, 16), f16(1, 16), 16, f16(4, 16), True
    ),
    "cos_sin_cache.size": lambda: torch.ops.atb._npu_rotary_embedding(
        torch.tensor([3]), f16(1, 32), f16(1, 32), 32, f16(4, 16), False
    ),
    "block_table": lambda: torch.ops.atb.npu_paged_cache_load(
        f16(2, 4, 1, 16), f16(2, 4, 1, 16), ints([0, 2]), ints(6)
    ),
    "scale.size": lambda: torch.ops.atb._npu_quantize_per_tensor(f16(3, 4), f16(3), i8(0), i8(3, 4)),
    "seq_len": lambda: torch.ops.atb._npu_flash_attention_qlens(
        f16(3, 16), f16(2, 2, 1, 16), f16(2, 2, 1, 16), ints([0, 1]), torch.full((128, 128), -torch.inf).triu(1).half(),
        ints(3), ints(2), 1, 1, 1.0, f16(3, 16)
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_invalid_calls_are_refused(words: str) -> None:
    with pytest.raises(Refusal, match=words.replace("(", ".")):
        REFUSED[words]()
