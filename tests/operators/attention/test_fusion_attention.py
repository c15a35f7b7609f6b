"""npu_fusion_attention against its statement, and its gradients against those of the same formula in float64."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
import torchair
from graph_quant.reference.attention.sequence_attention import exponentials_

from operators.attention.fusion_attention import NAME, calls, expected
from support.call_strategies import run
from support.call_table import overload
from support.tensors import f32


def test_results_agree_with_the_statement() -> None:
    """Runs generated calls here, because this operator also returns numbers."""

    def agrees(call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        args, kwargs = call
        wanted = expected(*args, **kwargs)
        out, *rows = overload(f"npu_{NAME}")(*args, **kwargs)[:3]
        assert out.shape == wanted[0].shape
        largest = np.max(np.abs(wanted[0]), initial=0.0)
        np.testing.assert_allclose(out.float().numpy(), wanted[0], rtol=0, atol=2.0**-7 * largest)
        seen = wanted[2] > 0  # rows that see nothing keep what their kernel left there
        for kept, right in zip(rows, wanted[1:], strict=True):
            assert kept.shape == right.shape
            # Scores of up to 2^7 are sums of 16 rounded products: 2^-24 of them, and an exponential of that.
            np.testing.assert_allclose(kept.numpy()[seen], right[seen], rtol=2.0**-13, atol=2.0**-13)

    run(agrees, calls())


def plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, pse: torch.Tensor) -> torch.Tensor:
    shared = query.size(1) // key.size(1)
    scores = (query @ key.repeat_interleave(shared, 1).mT + pse) * 0.25
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + scores.size(-1) - scores.size(-2))
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value.repeat_interleave(shared, 1)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(compiled: bool) -> None:
    inputs = f32(2, 4, 3, 16), f32(2, 2, 5, 16), f32(2, 2, 5, 16), f32(2, 4, 3, 5)
    table = torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu()

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, pse: torch.Tensor) -> torch.Tensor:
        out = torch_npu.npu_fusion_attention(
            query, key, value, 4, "BNSD", pse=pse, atten_mask=table, scale=0.25, sparse_mode=3
        )
        return out[0]

    function = attend
    if compiled:
        torch._dynamo.reset()
        function = torch.compile(attend, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=False)
    ours = [tensor.npu().requires_grad_(index < 3) for index, tensor in enumerate(inputs)]
    theirs = [tensor.double().requires_grad_() for tensor in inputs]
    function(*ours).square().sum().backward()
    plain(*theirs).square().sum().backward()
    for one, other in zip(ours[:3], theirs, strict=False):
        assert one.grad is not None
        assert other.grad is not None
        # An exponential magnifies the rounding of a score, and scores here are up to 2^7: 2^-24 of them, and sums.
        assert float((one.grad.cpu() - other.grad).abs().max() / other.grad.abs().max()) < 2.0**-15


def test_a_sink_takes_weight_and_has_a_gradient() -> None:
    inputs, sink = [f32(1, 2, 3, 16) for _ in range(3)], f32(2)
    ours = [tensor.npu().requires_grad_() for tensor in (*inputs, sink)]
    theirs = [tensor.double().requires_grad_() for tensor in (*inputs, sink)]
    out = torch_npu.npu_fusion_attention(*ours[:3], 2, "BNSD", scale=0.25, sink=ours[3])[0]
    query, key, value, extra = theirs
    scores = torch.cat([query @ key.mT * 0.25, extra.reshape(1, 2, 1, 1).expand(1, 2, 3, 1)], -1)
    wanted = scores.softmax(-1)[..., :-1] @ value
    torch.testing.assert_close(out.cpu().double(), wanted, rtol=1e-5, atol=1e-5)
    out.square().sum().backward()
    wanted.square().sum().backward()
    for one, other in zip(ours, theirs, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert float((one.grad.cpu() - other.grad).abs().max() / other.grad.abs().max()) < 2.0**-15


def hidden(
    queries: int, keys: int, before: int | None = None, after: int = 0, corner: int | None = None
) -> torch.Tensor:
    """True for keys more than ``after`` after or ``before`` before the diagonal from a corner."""
    distance = torch.arange(keys) - torch.arange(queries)[:, None] - (keys - queries if corner is None else corner)
    return (distance > after) | (distance < -keys - queries if before is None else distance < -before)


BAND = {"pre_tockens": 6, "next_tockens": -1}
PREFIXES = torch.cat([torch.ones(2048, 2048).triu(1), torch.ones(1024, 2048).tril(-3000)]).bool()
PREFIXES[2048:, 1024:] = True
MODES: dict[str, tuple[dict[str, Any], list[torch.Tensor]]] = {
    "a mode without a mask": ({"sparse_mode": 3}, [torch.zeros(2, 4).bool(), torch.zeros(3, 6).bool()]),
    "prefixes": (
        {"sparse_mode": 6, "atten_mask": PREFIXES, "prefix": [3, 5]},
        [hidden(2, 4) & (torch.arange(4) >= 3), hidden(3, 6) & (torch.arange(6) >= 5)],
    ),
    "a band for the last": (
        {"sparse_mode": 7, "atten_mask": PREFIXES[:2048], **BAND},
        [hidden(2, 4), hidden(3, 6, before=6, after=-1)],
    ),
    "a band for the first": (
        {"sparse_mode": 8, "atten_mask": PREFIXES[:2048], **BAND},
        [hidden(2, 4, before=6, after=-1), hidden(3, 6, corner=0)],
    ),
}


@pytest.mark.parametrize("mode", MODES)
def test_packed_sequences_equal_a_block_diagonal_mask(mode: str) -> None:
    """Two sequences, and one that is left out."""
    query, key = f32(5, 2, 16), f32(10, 2, 16)
    options, hides = MODES[mode]
    if "prefix" in options:
        options = {**options, "prefix": [*options["prefix"], 0]}
    out, *_ = torch_npu.npu_fusion_attention(
        query, key, key, 2, "TND", actual_seq_qlen=[2, 5, 0], actual_seq_kvlen=[4, 10, 0], scale=0.25, **options
    )
    for (first, last), (start, stop), mask in zip(((0, 2), (2, 5)), ((0, 4), (4, 10)), hides, strict=True):
        rows, keys = query[None, first:last], key[None, start:stop]
        alone, *_ = torch_npu.npu_fusion_attention(
            rows, keys, keys, 2, "BSND", atten_mask=mask, sparse_mode=1, scale=0.25
        )
        assert torch.equal(out[first:last], alone[0])


def by_distance(queries: int, keys: int) -> torch.Tensor:
    """A shift that depends on the distance of query and key alone, of two heads."""
    distance = (torch.arange(queries)[:, None] - torch.arange(keys)).float()
    return torch.stack([distance * -0.01, distance * -0.02])[None]


CAUSAL = {"atten_mask": PREFIXES[:2048], "sparse_mode": 2, "scale": 0.25}


def test_the_last_rows_of_a_shift_by_distance_determine_it() -> None:
    """Compares values that a causal mask shows; their dot products are exact in float32."""
    size = 1030
    query, whole = f32(1, 2, size, 16), by_distance(size, size)
    wanted = torch_npu.npu_fusion_attention(query, query, query, 2, "BNSD", pse=whole, **CAUSAL)[0]
    got = torch_npu.npu_fusion_attention(query, query, query, 2, "BNSD", pse=whole[:, :, -1024:], **CAUSAL)[0]
    assert torch.equal(got, wanted)
    packed = torch.cat([query[0].transpose(0, 1), query[0, :, :7].transpose(0, 1)])
    lengths = {"actual_seq_qlen": [size, size + 7], "actual_seq_kvlen": [size, size + 7]}
    out = torch_npu.npu_fusion_attention(
        packed, packed, packed, 2, "TND", pse=whole[:, :, -1024:], **lengths, **CAUSAL
    )[0]
    assert torch.equal(out[:size].transpose(0, 1), wanted[0])
    short = query[:, :, :7].contiguous()
    alone = torch_npu.npu_fusion_attention(short, short, short, 2, "BNSD", pse=by_distance(7, 7), **CAUSAL)[0]
    assert torch.equal(out[size:].transpose(0, 1), alone[0])


@pytest.mark.parametrize("by_key", [False, True], ids=["of scores", "of keys"])
def test_shifts_of_packed_sequences_are_concatenated(by_key: bool) -> None:
    query, key = f32(5, 2, 16), f32(7, 2, 16)
    shifts = f32(2, 1 if by_key else 2, 3), f32(2, 1 if by_key else 3, 4)
    out = torch_npu.npu_fusion_attention(
        query, key, key, 2, "TND", pse=torch.cat([part.flatten() for part in shifts]), scale=0.25,
        actual_seq_qlen=[2, 5], actual_seq_kvlen=[3, 7],
    )[0]  # fmt: skip
    for rows, keys, shift in zip((query[:2], query[2:]), (key[:3], key[3:]), shifts, strict=True):
        alone = torch_npu.npu_fusion_attention(
            rows[None], keys[None], keys[None], 2, "BSND", pse=shift[None], scale=0.25
        )
        assert torch.equal(out[: len(rows)] if len(rows) == 2 else out[2:], alone[0][0])


def test_pse_types_and_their_gradients() -> None:
    """Slopes equal a dense shift that is added after scaling."""
    query, slopes = f32(2, 2, 6, 16) / 10, f32(2, 2) / 10
    distance = (torch.arange(6) + 1 - torch.arange(6)[:, None] - 3).abs().double()
    for kind, by in ((2, distance), (3, distance.sqrt())):
        ours = [query.npu().requires_grad_(), slopes.npu().requires_grad_()]
        theirs = [query.double().requires_grad_(), slopes.double().requires_grad_()]
        got = torch_npu.npu_fusion_attention_v2(
            ours[0],
            ours[0],
            ours[0],
            2,
            "BNSD",
            pse=ours[1],
            pse_type=kind,
            scale=0.25,
            q_start_idx=[3],
            kv_start_idx=[1],
        )[0]
        shift = -theirs[1][:, :, None, None] * by
        wanted = (theirs[0] @ theirs[0].mT * 0.25 + shift).softmax(-1) @ theirs[0]
        torch.testing.assert_close(got.cpu().double(), wanted, rtol=1e-4, atol=1e-4)
        got.square().sum().backward()
        wanted.square().sum().backward()
        for one, other in zip(ours, theirs, strict=True):
            assert one.grad is not None
            assert other.grad is not None
            # Sums of some hundred terms below 10 in float32.
            torch.testing.assert_close(one.grad.cpu().double(), other.grad, rtol=0, atol=2e-4)


def test_dropout_mask_bits_select_weights() -> None:
    """Bits are stored lowest first, over batches, heads, queries and keys."""
    query, key, bits = f32(2, 2, 3, 16), f32(2, 2, 5, 16), torch.randint(256, (8,), dtype=torch.uint8)
    out = torch_npu.npu_fusion_attention(
        query, key, key, 2, "BNSD", scale=0.25, keep_prob=0.75, dropout_mask=bits, seed=7, offset=5
    )
    kept = np.unpackbits(bits.numpy(), bitorder="little")[: 2 * 2 * 3 * 5].reshape(2, 2, 3, 5)
    weights = (query.double() @ key.double().mT * 0.25).softmax(-1) * torch.from_numpy(kept) / 0.75
    torch.testing.assert_close(out[0].double(), weights @ key.double(), rtol=1e-4, atol=1e-4)
    assert out[4:] == (7, 5, 60)


def test_rope_parts_of_packed_queries_and_keys() -> None:
    parts = [f32(5, 2, 16), f32(5, 2, 8), f32(7, 1, 16), f32(7, 1, 8)]
    query, query_rope, key, key_rope = (part.bfloat16().npu().requires_grad_() for part in parts)
    options = {
        "atten_mask": PREFIXES[:2048].npu(), "sparse_mode": 3, "scale": 0.2,
        "actual_seq_qlen": [2, 5], "actual_seq_kvlen": [3, 7],
    }  # fmt: skip
    apart = torch_npu.npu_fusion_attention_v2(
        query, key, key, 2, "TND", query_rope=query_rope, key_rope=key_rope, **options
    )[0]
    apart.square().sum().backward()
    whole = [torch.cat(pair, -1).bfloat16().npu().requires_grad_() for pair in (parts[:2], parts[2:])]
    value = parts[2].bfloat16().npu().requires_grad_()
    beside = torch_npu.npu_fusion_attention(*whole, value, 2, "TND", **options)[0]
    assert torch.equal(apart, beside)
    beside.square().sum().backward()
    for first, rope, both in ((query, query_rope, whole[0]), (key, key_rope, whole[1])):
        assert both.grad is not None
        assert rope.grad is not None
        assert torch.equal(rope.grad, both.grad[..., 16:])
        if first is query:
            assert first.grad is not None
            assert torch.equal(first.grad, both.grad[..., :16])


def test_version_3_takes_lengths_on_the_host() -> None:
    query, key = f32(5, 2, 16).npu(), f32(7, 2, 16).npu()
    ends, key_ends = [2, 5], [3, 7]
    results = []
    for function, lengths in (
        (torch_npu.npu_fusion_attention, (ends, key_ends)),
        (torch_npu.npu_fusion_attention_v3, (torch.tensor(ends), torch.tensor(key_ends))),
    ):
        leaf = query.clone().requires_grad_()
        out, largest, *rest = function(
            leaf, key, key, 2, "TND", scale=0.25, actual_seq_qlen=lengths[0], actual_seq_kvlen=lengths[1]
        )
        out.square().sum().backward()
        results.append([out, largest, rest[0], leaf.grad])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_a_packed_mask_covers_the_longest_sequences_or_all_tokens() -> None:
    query, key, hides = f32(5, 2, 16), f32(7, 2, 16), f32(5, 7) > 1
    options = {"actual_seq_qlen": [2, 5], "actual_seq_kvlen": [3, 7], "scale": 0.25, "sparse_mode": 1}
    every = torch_npu.npu_fusion_attention(query, key, key, 2, "TND", atten_mask=hides, **options)[0]
    longest = torch_npu.npu_fusion_attention(query, key, key, 2, "TND", atten_mask=hides[:3, :4], **options)[0]
    for out, first, last in ((every, hides[:2, :3], hides[2:, 3:]), (longest, hides[:2, :3], hides[:3, :4])):
        for rows, keys, mask, part in ((query[:2], key[:3], first, out[:2]), (query[2:], key[3:], last, out[2:])):
            alone = torch_npu.npu_fusion_attention(
                rows[None], keys[None], keys[None], 2, "BSND", atten_mask=mask, sparse_mode=1, scale=0.25
            )
            assert torch.equal(part, alone[0][0])
    with pytest.raises(RuntimeError, match="atten_mask must be \\(3, 4\\)"):
        torch_npu.npu_fusion_attention(query, key, key, 2, "TND", atten_mask=hides[:4], **options)


def test_prefixes_reach_to_the_last_key() -> None:
    query, key = f32(1, 2, 3, 16), f32(1, 2, 5, 16)
    for prefix in (1, 6):
        with pytest.raises(RuntimeError, match=r"prefix\[0\] must lie in \[2, 5\]"):
            torch_npu.npu_fusion_attention(
                query, key, key, 2, "BNSD", atten_mask=PREFIXES, sparse_mode=6, prefix=[prefix]
            )


def test_layouts_are_case_insensitive() -> None:
    query = f32(1, 2, 3, 16)
    results = [torch_npu.npu_fusion_attention(query, query, query, 2, name)[0] for name in ("BNSD", "bnsd")]
    assert torch.equal(*results)


def test_underflowing_exponentials_are_unchanged() -> None:
    """Checks ordinary and masked scores around the underflow threshold."""
    low = torch.finfo(torch.float32).min
    numbers = torch.tensor([0.0, -1.0, -87.3, -88.0, -103.9, -104.0, -104.1, low, -torch.inf, torch.nan]).repeat(7)
    torch.testing.assert_close(exponentials_(numbers.clone()), numbers.exp(), rtol=0, atol=0, equal_nan=True)


def dropped(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Attention after dropout with keep_prob 3/4; one key head per two query heads."""
    shared = query.size(1) // key.size(1)
    weights = (query @ key.repeat_interleave(shared, 1).mT * 0.25).softmax(-1)
    return (weights * kept / 0.75) @ value.repeat_interleave(shared, 1)


FORMS = {
    "1": torch_npu.npu_fusion_attention,
    "2": torch_npu.npu_fusion_attention_v2,
    "3": torch.ops.npu.npu_fusion_attention_v3,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["BNSD", "TND"])
def test_gradients_regenerate_the_dropout_mask(form: str, layout: str) -> None:
    """The mask is generated from the returned seed and offset, and unpacked by NumPy."""
    inputs = f32(1, 4, 6, 16), f32(1, 2, 9, 16), f32(1, 2, 9, 16)
    ours = [tensor.npu().requires_grad_() for tensor in inputs]
    theirs = [tensor.double().requires_grad_() for tensor in inputs]
    packed = layout == "TND"
    args = [tensor[0].transpose(0, 1) for tensor in ours] if packed else ours
    lengths = {"actual_seq_qlen": [6], "actual_seq_kvlen": [9]} if packed else {}
    if form == "3":
        lengths = {name: torch.tensor(value) for name, value in lengths.items()}
    torch.npu.manual_seed(12)
    torch.rand(3, device="npu")
    out, _, _, _, *numbers = FORMS[form](*args, 4, layout, scale=0.25, keep_prob=0.75, **lengths)
    seed, offset = (int(tensor) for tensor in numbers[:2])
    assert (seed, offset) == (12, 12)
    assert form == "3" or numbers[2] == 4 * 6 * 9
    mask = torch_npu._npu_dropout_gen_mask(ours[0], [4 * 6 * 9], 0.25, seed, offset)
    kept = torch.from_numpy(np.unpackbits(mask.cpu().numpy(), count=4 * 6 * 9, bitorder="little"))
    wanted = dropped(*theirs, kept.reshape(1, 4, 6, 9))
    result = out.transpose(0, 1).unsqueeze(0) if packed else out
    torch.testing.assert_close(result.cpu().double(), wanted, rtol=1e-4, atol=1e-4)
    out.square().sum().backward()
    wanted.square().sum().backward()
    for one, other in zip(ours, theirs, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert float((one.grad.cpu() - other.grad).abs().max() / other.grad.abs().max()) < 2.0**-14


def test_dropout_masks_of_packed_sequences_are_concatenated() -> None:
    query, key = f32(5, 2, 16), f32(10, 2, 16)
    ends = {"actual_seq_qlen": [2, 5], "actual_seq_kvlen": [4, 10]}
    torch.npu.manual_seed(5)
    out, *_ = torch_npu.npu_fusion_attention(
        query.npu(), key.npu(), key.npu(), 2, "TND", scale=0.25, keep_prob=0.75, **ends
    )
    mask = torch_npu._npu_dropout_gen_mask(query.npu(), [2 * (2 * 4 + 3 * 6)], 0.25, 5, 0)
    kept = torch.from_numpy(np.unpackbits(mask.cpu().numpy(), bitorder="little"))[:52]
    parts = [
        (query[:2], key[:4], kept[:16].reshape(2, 2, 4)),
        (query[2:], key[4:], kept[16:].reshape(2, 3, 6)),
    ]
    wanted = torch.cat(
        [
            dropped(*(tensor.transpose(0, 1)[None].double() for tensor in (q, k, k)), bits[None])[0].transpose(0, 1)
            for q, k, bits in parts
        ]
    )
    torch.testing.assert_close(out.cpu().double(), wanted, rtol=1e-4, atol=1e-4)


def test_replays_of_version_3_sample_new_dropout_masks() -> None:
    inputs = [f32(1, 2, 6, 16).npu() for _ in range(4)]
    graph = torch.npu.NPUGraph()
    call = torch.ops.npu.npu_fusion_attention_v3
    gradient = torch.ops.npu.npu_fusion_attention_grad_v3

    def run() -> torch.Tensor:
        out, largest, total, empty, seed, offset = call(*inputs[:3], 2, "BNSD", keep_prob=0.5)
        kept = {"softmax_max": largest, "softmax_sum": total, "softmax_in": empty, "attention_in": out}
        gradients = gradient(*inputs, 2, "BNSD", **kept, keep_prob=0.5, seed=seed, offset=offset)
        return torch.stack([out, *gradients[:3]])

    torch.npu.manual_seed(9)
    wanted = [run(), run()]
    with torch.npu.graph(graph):
        out = run()
    torch.npu.manual_seed(9)
    for result in wanted:
        graph.replay()
        assert torch.equal(out, result)
    assert not torch.equal(*wanted)


def test_dropout_is_refused_where_a_graph_would_bake_in_its_seed() -> None:
    q = f32(1, 2, 6, 16).npu()
    with (
        pytest.raises(RuntimeError, match="keep_prob must be 1, or dropout_mask given"),
        torch.npu.graph(torch.npu.NPUGraph()),
    ):
        torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", keep_prob=0.5)


def test_a_graph_refuses_a_mask_that_its_node_lacks() -> None:
    q, mask = f32(1, 2, 6, 16).npu(), torch.zeros(16, dtype=torch.uint8).npu()
    torch._dynamo.reset()

    @torch.compile(backend=torchair.get_npu_backend(), fullgraph=True, dynamic=False)
    def attend(q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", keep_prob=0.5, dropout_mask=mask)[0]

    with pytest.raises(Exception, match="keep_prob must be 1 in a graph"):
        attend(q, mask)
