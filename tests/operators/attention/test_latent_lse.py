"""The log-sum-exp of latent attention, which merges parts of a context on several ranks."""

import pytest
import torch
import torch_npu

from support.tensors import bf16, f16


@pytest.mark.parametrize("make", [f16, bf16])
def test_log_sum_exp_of_latent_attention(make: object) -> None:
    query, key, query_rope, key_rope = make(1, 4, 3, 512), make(1, 1, 5, 512), make(1, 4, 3, 64), make(1, 1, 5, 64)
    options = {"num_heads": 4, "num_key_value_heads": 1, "input_layout": "BNSD", "scale": 0.05}
    out, lse = torch_npu.npu_fused_infer_attention_score(
        *(tensor.npu() for tensor in (query, key, key)),
        query_rope=query_rope.npu(),
        key_rope=key_rope.npu(),
        softmax_lse_flag=True,
        **options,
    )
    scores = torch.cat([query, query_rope], -1).double() @ torch.cat([key, key_rope], -1).double().mT * 0.05
    torch.testing.assert_close(lse.cpu().double().squeeze(-1), scores.logsumexp(-1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(out.cpu().double(), scores.softmax(-1) @ key.double(), rtol=2**-7, atol=2**-7)
