"""Attention on Ascend 950: a query without a visible key is refused, for what the chip writes is not described."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.refusals import Refusal

from support.attention import TABLE
from support.tensors import f16

QUERY, KEYS = f16(1, 2, 4, 32), f16(1, 2, 3, 32)


def infer(query: torch.Tensor, keys: torch.Tensor, **options: Any) -> torch.Tensor:
    return torch_npu.npu_fused_infer_attention_score(query, keys, keys, num_heads=2, input_layout="BNSD", **options)[0]


def train(query: torch.Tensor, keys: torch.Tensor, **options: Any) -> torch.Tensor:
    return torch_npu.npu_fusion_attention(query, keys, keys, 2, "BNSD", **options)[0]


@pytest.mark.parametrize("attend", [infer, train])
def test_a_query_without_a_visible_key_is_refused(attend: Callable[..., torch.Tensor]) -> None:
    mask = torch.zeros(1, 1, 4, 3, dtype=torch.bool)
    mask[..., 2, :] = True
    causal = {"atten_mask": TABLE.npu(), "sparse_mode": 3}
    with chip.use(ASCEND_950):
        for options in ({"atten_mask": mask.npu()}, causal):
            with pytest.raises(Refusal, match="every query must see a key"):
                attend(QUERY.npu(), KEYS.npu(), **options)
        square = attend(QUERY.npu(), QUERY.npu(), **causal)
    assert torch.equal(square, attend(QUERY.npu(), QUERY.npu(), **causal))


def test_a_sequence_without_keys_is_refused() -> None:
    with chip.use(ASCEND_950), pytest.raises(Refusal, match="every query must see a key"):
        infer(f16(2, 2, 1, 32).npu(), f16(2, 2, 3, 32).npu(), actual_seq_lengths_kv=[3, 0])
