"""Sparse mode 9 of npu_fused_infer_attention_score_v2: speculative tokens see earlier keys and a tree of each other."""

from typing import Any

import pytest
import torch
import torch_npu

from operators.attention.fused_infer_attention_score_v2 import BATCHED, LATENT, PAGES, PLAIN, TREE
from support.tensors import bf16


def attend(query: torch.Tensor, **arguments: Any) -> torch.Tensor:
    out, _ = torch_npu.npu_fused_infer_attention_score_v2(query, PAGES, PAGES, **arguments)
    return out


def test_a_chain_of_speculative_tokens_equals_causal_mode() -> None:
    query = bf16(3, 4, 512)
    chain = torch.tensor([0, 0, 1, 0, 0]).bool()
    assert torch.equal(attend(query, **{**PLAIN, **TREE, "atten_mask": chain, "actual_seq_kvlen": [9, 7]}),
                       attend(query, **{**LATENT, "actual_seq_kvlen": [9, 7]}))  # fmt: skip


def test_a_speculative_token_sees_its_own_branch() -> None:
    """Hidden tokens may hold any value: the last token of a batch sees the first speculative token, not the second.

    A query of zeros weighs alike all that it sees, so a value that it sees surely changes its result.
    """
    query, pages = torch.zeros(2, 3, 4, 512, dtype=torch.bfloat16), PAGES.clone()
    arguments = {**BATCHED, "query_rope": torch.zeros_like(BATCHED["query_rope"])}
    before, _ = torch_npu.npu_fused_infer_attention_score_v2(query, pages, pages, **arguments)
    pages[int(BATCHED["block_table"][1, 0]), :, :, 3] += 9
    after, _ = torch_npu.npu_fused_infer_attention_score_v2(query, pages, pages, **arguments)
    changed = (before != after).flatten(2).any(-1)
    assert changed.tolist() == [[False, False, False], [False, True, False]]


def test_fewer_keys_than_speculative_tokens_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"sequence 1 must have a key for each query in sparse_mode 9, got 1 and 2"):
        attend(bf16(3, 4, 512), **{**PLAIN, **TREE, "actual_seq_kvlen": [9, 1]})
