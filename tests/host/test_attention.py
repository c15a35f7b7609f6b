"""scaled_dot_product_attention on npu tensors is npu_fusion_attention, eagerly and in graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
import torchair
from torch import Tensor
from torch.nn import functional

Arguments = dict[str, Any]
BATCH, HEADS, KV_HEADS, TOKENS, SEEN, CHANNELS = 2, 4, 2, 7, 12, 16
RANDOM = torch.Generator().manual_seed(0)
QUERY, KEY, VALUE = (
    torch.randn(BATCH, heads, tokens, CHANNELS, generator=RANDOM).bfloat16().npu()
    for heads, tokens in ((HEADS, TOKENS), (KV_HEADS, SEEN), (KV_HEADS, SEEN))
)
SHOWN = torch.rand(BATCH, 1, TOKENS, SEEN, generator=RANDOM) < 0.5
SHOWN[0, 0, 1] = False  # a query that sees nothing
FUSED: dict[str, Arguments] = {
    "all": {},
    "causal": {"is_causal": True},
    "a mask of each sequence": {"attn_mask": SHOWN.npu()},
    "a mask of each head": {"attn_mask": SHOWN.expand(BATCH, HEADS, TOKENS, SEEN).npu()},
    "a mask of all": {"attn_mask": SHOWN[1, 0].npu()},
    "a mask of keys": {"attn_mask": SHOWN[1, 0, :1].npu()},
    "a scale": {"scale": 0.1},
}
COMPOSED: dict[str, Arguments] = {
    "a shift": {"attn_mask": torch.randn(TOKENS, SEEN, generator=RANDOM).bfloat16().npu()}
}


def attend(query: Tensor, key: Tensor, value: Tensor) -> dict[str, Tensor]:
    return {
        name: functional.scaled_dot_product_attention(query, key, value, **options, enable_gqa=True)
        for name, options in (FUSED | COMPOSED).items()
    }


def fused(**options: Any) -> Tensor:
    """The same by the operator: what is hidden, and queries that see nothing give zeros."""
    shown = (
        torch.ones(TOKENS, SEEN, dtype=torch.bool).tril().npu() if "is_causal" in options else options.get("attn_mask")
    )
    hidden = None if shown is None else shown.logical_not().expand(BATCH, HEADS, TOKENS, SEEN)
    scale = options.get("scale", CHANNELS**-0.5)
    return torch_npu.npu_fusion_attention(
        QUERY, KEY, VALUE, HEADS, "BNSD", atten_mask=hidden, scale=scale, inner_precise=2
    )[0]


def test_eager_and_graph_are_bitwise_equal_to_fusion_attention() -> None:
    eager = attend(QUERY, KEY, VALUE)
    for name, options in FUSED.items():
        assert torch.equal(eager[name], fused(**options)), name
    compiled = torch.compile(attend, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=True)
    for name, result in compiled(QUERY, KEY, VALUE).items():
        assert torch.equal(result, eager[name]), name
        assert not result.isnan().any(), name
        cpu = functional.scaled_dot_product_attention(
            QUERY.cpu().float(), KEY.cpu().float(), VALUE.cpu().float(), **_on_cpu(name), enable_gqa=True
        )
        # Weights are rounded to 8 bits, and values are of unit variance.
        torch.testing.assert_close(result.cpu().float(), cpu, rtol=2**-6, atol=2**-6)


def _on_cpu(name: str) -> Arguments:
    options = (FUSED | COMPOSED)[name]
    mask = options.get("attn_mask")
    return options if mask is None else {"attn_mask": mask.cpu() if mask.dtype == torch.bool else mask.cpu().float()}


@pytest.mark.parametrize("channels", [16, 6], ids=["fused", "composed"])
def test_gradients_match_cpu(channels: int) -> None:
    """The operator takes float32 in channels of four."""
    leaves = [torch.randn(1, 2, 5, channels, generator=RANDOM) for _ in range(3)]
    gradients = []
    for device in ("npu", "cpu"):
        query, key, value = (leaf.to(device).requires_grad_() for leaf in leaves)
        functional.scaled_dot_product_attention(query, key, value, is_causal=True).square().sum().backward()
        gradients.append([tensor.grad.cpu() for tensor in (query, key, value)])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
