"""ATB's attention and caches, by the names that torch_npu gives them, against statements in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from hypothesis import strategies as st

from support.generated import Draw, run
from support.rules import floats
from support.tensors import bf16, f16, i8

# Weights are rounded to half precision before the second product, and so is the result: two units of 2**-8.
BOUND = 2**-7


def ints(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def attended(query: Any, key: Any, value: Any, scale: float, mask: Any = 0.0) -> Any:
    """One head after the other, in float64; (tokens, heads, channels) each, fewer heads of keys and values."""
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
    """Three sequences in four blocks of two, four heads over two, values of their own width."""
    table = ints([3, 0, 1], [0, 0, 0], [2, 2, 1])
    caches = make(4, 2, 2, 16), make(4, 2, 2, 8)
    return make(3, 4, 16) / 4, *caches, 2, 4, 0.25, table, ints(*lengths), make(3, 4, 8)


@st.composite
def paged_calls(draw: Draw) -> tuple[Any, ...]:
    return paged(draw(st.sampled_from([f16, bf16])), [draw(st.integers(0, 6)) for _ in range(3)])


def test_a_token_attends_to_its_own_pages() -> None:
    def agrees(args: tuple[Any, ...]) -> None:
        query, key_cache, value_cache, _, _, scale, table, lengths, out = args
        before = out.clone()
        torch.ops.atb._npu_paged_attention(*args)
        for place, length in enumerate(lengths.tolist()):
            if not length:
                assert torch.equal(out[place], before[place])
                continue
            where = [(int(table[place, token // 2]), token % 2) for token in range(length)]
            key, value = (np.stack([floats(cache[at]) for at in where]) for cache in (key_cache, value_cache))
            near(out[place], attended(floats(query[place])[None], key, value, scale)[0])

    run(agrees, paged_calls())


def test_lengths_may_be_on_either_device_and_a_workspace_is_left_alone() -> None:
    args = [each.npu() if isinstance(each, torch.Tensor) else each for each in paged()]
    results = []
    for lengths in (args[7], args[7].cpu()):
        call = [*args[:7], lengths, args[8].clone()]
        workspace = torch_npu._npu_paged_attention_get_workspace(*call)
        assert workspace.dtype == torch.uint8
        torch_npu._npu_paged_attention(*call, workspace=workspace)
        results.append(call[-1])
    assert torch.equal(*results)


def test_a_captured_graph_reads_lengths_from_the_cpu() -> None:
    *args, out = (each.npu() if isinstance(each, torch.Tensor) else each for each in paged())
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
    mask = torch.full((4, 4), -10000.0).triu(1).to(query.dtype)
    mask = draw(st.sampled_from([mask, mask[None], torch.stack([mask, mask.mT, mask])[: len(lengths)]]))
    return query / 4, key, value, mask, ints(*lengths), 0.25, 4, 2, out


def test_sequences_attend_to_themselves() -> None:
    def agrees(args: tuple[Any, ...]) -> None:
        query, key, value, mask, lengths, scale, heads, kv_heads, out = args
        before, start = out.clone(), 0
        torch.ops.atb._npu_flash_attention(*args)
        tokens = out.size(0)
        q, k, v = (floats(x).reshape(tokens, n, -1) for x, n in ((query, heads), (key, kv_heads), (value, kv_heads)))
        for place, length in enumerate(lengths.tolist()):
            part = slice(start, start + length)
            masks = floats(mask).reshape(-1, 4, 4)
            own = masks[place if len(masks) > 1 else 0, :length, :length]
            near(out[part].reshape(length, heads, -1), attended(q[part], k[part], v[part], scale, own))
            start += length
        assert torch.equal(out[start:], before[start:])

    run(agrees, sequences())


@pytest.mark.parametrize("make", [f16, bf16, i8], ids=["float16", "bfloat16", "int8"])
def test_tokens_go_to_their_slots(make: Any) -> None:
    key, value, slots = make(3, 2, 16), make(3, 2, 8), ints(5, -1, 0)
    caches = [make(3, 2, 2, 16), make(3, 2, 2, 8)]
    wanted = [cache.clone() for cache in caches]
    for cache, rows in zip(wanted, (key, value), strict=True):
        cache[2, 1], cache[0, 0] = rows[0], rows[2]
    given = [cache.npu() for cache in caches]
    torch_npu._npu_reshape_and_cache(key.npu(), value.npu(), *given, slots.npu())
    alone = caches[0].npu()
    torch_npu._npu_reshape_and_cache_siso(key.npu(), alone, slots.npu())
    for one, other in zip((*given, alone), (*wanted, wanted[0]), strict=True):
        assert torch.equal(one.cpu(), other)


def test_tokens_go_to_their_slots_in_parts() -> None:
    key, value, slots = i8(2, 1, 64), bf16(2, 1, 32), ints(3, -1)
    caches = [i8(2, 2, 2, 32), bf16(2, 2, 2, 16)]
    wanted = [cache.clone() for cache in caches]
    for cache, rows in zip(wanted, (key, value), strict=True):
        cache[1, 0, 1], cache[1, 1, 1] = rows[0, 0].chunk(2)
    given = [cache.npu() for cache in caches]
    torch_npu._npu_reshape_and_cache(key.npu(), value.npu(), *given, slots.npu())
    for one, other in zip(given, wanted, strict=True):
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
    place, value = cases[argument]
    with pytest.raises(RuntimeError) as refusal:
        getattr(torch.ops.atb, op)(*args[:place], value, *args[place + 1 :])
    assert str(refusal.value).startswith(f"{op}: {argument} ")


def test_other_names_say_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="atb::_npu_paged_attention_mla cannot run on the host NPU"):
        torch_npu._npu_paged_attention_mla()
