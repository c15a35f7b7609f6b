"""Results of sparse attention in eager mode only: scores of selected keys, largest scores and sums."""

import pytest
import torch
import torch_npu

from operators.attention.sparse import indexer, ropes, sparse
from support.tensors import bf16, on


def test_scores_are_sorted_and_rounded_away_from_zero() -> None:
    query, key = torch.eye(128, dtype=torch.bfloat16)[None, None, :2], torch.zeros(1, 3, 1, 128, dtype=torch.bfloat16)
    key[0, 1, 0, :2], key[0, 2, 0, :2] = torch.tensor([1.0, 2.0**-8]), torch.tensor([-5.0, 4.0])
    weights = torch.ones(1, 1, 2)
    indices, values = torch_npu.npu_lightning_indexer(query, key, weights, sparse_count=4, return_value=True)
    assert indices.flatten().tolist() == [2, 1, 0, -1]
    # 1 + 2**-8 is as near to 1 as to what it becomes.
    assert values.flatten().tolist() == [4.0, 1.0 + 2.0**-7, 0.0, -torch.inf]


def test_largest_scores_and_sums_are_those_of_the_weights() -> None:
    args, parts = sparse(bf16, keys=(2, 19), blocks=19), ropes(keys=(2, 19))
    out, largest, total = torch_npu.npu_sparse_flash_attention(*args, **parts, return_softmax_lse=True)
    query, key, _, indices, scale = args
    assert largest.shape == total.shape == (2, 1, 3, 4)
    named = [index for index in indices[1, 2, 0].tolist() if index >= 0]
    joined = torch.cat([key, parts["key_rope"]], -1)[1, named, 0].double()
    scores = torch.cat([query, parts["query_rope"]], -1)[1, 2].double() @ joined.mT * scale
    torch.testing.assert_close(largest[1, 0, 2].double(), scores.amax(-1), rtol=1e-5, atol=1e-5)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    torch.testing.assert_close(total[1, 0, 2].double(), weights.sum(-1), rtol=1e-5, atol=0)
    mean = weights / weights.sum(-1, keepdim=True) @ key[1, named, 0].double()
    torch.testing.assert_close(out[1, 2].double(), mean, rtol=2**-7, atol=2**-7)


def test_keys_after_a_query_are_skipped() -> None:
    """The first of three queries sees 17 of 19 keys; selecting hidden keys changes nothing, or gives zeros."""
    (query, key, *_, scale), parts = sparse(bf16, keys=(2, 19)), ropes(keys=(2, 19))
    key[:, 17:] = torch.nan
    indices = torch.tensor([[3, 18], [18, 17], [17, 18]], dtype=torch.int32)[None, :, None].repeat(2, 1, 1, 1)
    out, *_ = torch_npu.npu_sparse_flash_attention(query, key, key, indices, scale, **parts)
    assert torch.equal(out[:, 0], key[:, 3].expand_as(out[:, 0]))
    indices[:, 0, 0] = torch.tensor([17, 18], dtype=torch.int32)
    out, *_ = torch_npu.npu_sparse_flash_attention(query, key, key, indices, scale, **parts)
    assert not out[:, 0].any()
    assert out[:, 1:].isnan().all()
    # Rows of no width select nothing, whatever the keys are.
    out, *_ = torch_npu.npu_sparse_flash_attention(query, key, key, indices[..., :0], scale, **parts)
    assert out.shape == query.shape
    assert not out.any()


@pytest.mark.parametrize("op", ["indexer", "attention"])
def test_graphs_of_a2_and_a3_lack_both(op: str) -> None:
    def indices(*tensors: torch.Tensor) -> object:
        return torch_npu.npu_lightning_indexer(*tensors, return_value=True)

    def attention(*tensors: torch.Tensor) -> object:
        query_rope, key_rope = tensors[4:]
        return torch_npu.npu_sparse_flash_attention(
            *tensors[:4], 0.5, query_rope=query_rope, key_rope=key_rope, attention_mode=2, return_softmax_lse=True
        )

    parts = ropes(keys=(2, 19))
    tensors = (
        indexer(keys=(2, 19))
        if op == "indexer"
        else (*sparse(keys=(2, 19))[:4], parts["query_rope"], parts["key_rope"])
    )
    torch._dynamo.reset()
    compiled = torch.compile(indices if op == "indexer" else attention, backend="npu", fullgraph=True)
    with pytest.raises(Exception, match=r"kernels of Ascend A2 and A3 cannot do return_.*=True in a graph"):
        compiled(*on("npu", tensors))
