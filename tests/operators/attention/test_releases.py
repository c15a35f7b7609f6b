"""Calls that CANN takes since a release, and the values of the kernel that it took them for."""

import pytest
import torch
import torch_npu

torch.manual_seed(0)
Q = torch.randn(2, 4, 1, 64).half()
PAGES = torch.randn(3, 2, 16, 64).half()
CACHE = (PAGES, PAGES.flip(0))
PAGED = {"block_table": torch.tensor([[2], [0]], dtype=torch.int32), "block_size": 16}
KEYS = torch.randn(2, 2, 5, 64).half()
SINK = torch.randn(4).bfloat16()
LENGTHS = [5, 16]


def attend(query, key, value, layout, **arguments):
    arguments = {name: x.npu() if isinstance(x, torch.Tensor) else x for name, x in arguments.items()}
    return torch_npu.npu_fused_infer_attention_score_v2(
        query.npu(), key.npu(), value.npu(), num_query_heads=4, num_key_value_heads=2, input_layout=layout,
        softmax_scale=0.125, **arguments,
    )[0].cpu()  # fmt: skip


def blocks_beside_bsh():
    return attend(Q.transpose(1, 2).flatten(2), *CACHE, "BSH", actual_seq_kvlen=LENGTHS, **PAGED)


def one_token_transposed():
    return attend(Q, KEYS, KEYS, "BNSD_BSND")


def sink_in_batches():
    return attend(Q, KEYS, KEYS, "BNSD", learnable_sink=SINK)


def test_blocks_by_head_are_read_as_beside_bnsd() -> None:
    expected = attend(Q, *CACHE, "BNSD", actual_seq_kvlen=LENGTHS, **PAGED)
    assert torch.equal(blocks_beside_bsh().unflatten(2, (4, 64)).transpose(1, 2), expected)


def test_one_token_is_transposed() -> None:
    assert torch.equal(one_token_transposed().transpose(1, 2), attend(Q, KEYS, KEYS, "BNSD"))


def test_a_sink_is_a_key_without_a_value() -> None:
    """As a softmax over one more score, in float64."""
    scores = (Q.double() * 0.125) @ KEYS.double().repeat_interleave(2, 1).mT
    sink = SINK.double().view(1, 4, 1, 1).expand(2, 4, 1, 1)
    weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
    expected = weights @ KEYS.double().repeat_interleave(2, 1)
    torch.testing.assert_close(sink_in_batches().double(), expected, rtol=2e-3, atol=1e-3)


def tree():
    pages = torch.randn(3, 1, 32, 128, 16).bfloat16()
    mask = torch.tensor([[0, 1, 1], [0, 0, 1], [0, 1, 0]]).expand(2, 3, 3).bool()
    query, rope = torch.randn(2, 3, 4, 512).bfloat16(), torch.randn(2, 3, 4, 64).bfloat16()
    return torch_npu.npu_fused_infer_attention_score_v2(
        query.npu(), pages.npu(), pages.npu(), query_rope=rope.npu(), key_rope=pages[:, :, :4].npu(),
        num_query_heads=4, num_key_value_heads=1, input_layout="BSND", softmax_scale=0.1, actual_seq_kvlen=[5, 9],
        block_table=torch.tensor([[2], [0]], dtype=torch.int32).npu(), block_size=128, atten_mask=mask.npu(),
        sparse_mode=9,
    )[0]  # fmt: skip


def packed_heads_of_96():
    x = torch.randn(6, 4, 96).half()
    lengths = {"actual_seq_qlen": [2, 6], "actual_seq_kvlen": [2, 6]}
    return attend(x, x[:, :2], x[:, :2], "TND", **lengths)


def sums_of_latent_heads():
    latent, rope = torch.randn(2, 3, 512).half().npu(), torch.randn(2, 3, 64).half().npu()
    return torch_npu.npu_fused_infer_attention_score(
        latent, latent, latent, query_rope=rope, key_rope=rope, num_heads=1, softmax_lse_flag=True, scale=0.1
    )


RELEASES = {
    "8.3": ("8.5", (packed_heads_of_96, sums_of_latent_heads)),
    "8.5": ("9.0", (blocks_beside_bsh, one_token_transposed, sink_in_batches, tree)),
}


@pytest.mark.parametrize(
    ("earlier", "first", "call"), [(one, first, call) for one, (first, calls) in RELEASES.items() for call in calls]
)
def test_an_earlier_release_refuses(monkeypatch, earlier, first, call) -> None:
    monkeypatch.setenv("GRAPH_QUANT_CANN", first)
    call()
    monkeypatch.setenv("GRAPH_QUANT_CANN", earlier)
    with pytest.raises(RuntimeError, match=rf"CANN {earlier}\.0; {first} takes it: GRAPH_QUANT_CANN"):
        call()
