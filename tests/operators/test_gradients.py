"""Gradients of operators, compared with the same formulas in plain torch, and in graphs with eager mode."""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
import torchair
from torch.nn import functional

from support.tensors import f32

Function = Callable[..., torch.Tensor]
EXPERTS = torch.tensor([[2, 0], [0, 1], [1, 2], [2, 1]], dtype=torch.int32)
MAP = torch.tensor([[1, 0, 1], [1, 1, 0], [0, 1, 1], [0, 1, 1]], dtype=torch.int8)
# The sorted positions of the pairs of MAP, token by token.
ROWS = torch.tensor([0, 5, 1, 2, 3, 6, 4, 7], dtype=torch.int32)
# The tokens of three rows for each expert.
PADDED = torch.tensor([0, 1, 2, 1, 2, 3, 0, 2, 3], dtype=torch.int32)
# No two of a row so near that their scores are equal.
LOGITS = (torch.arange(20) * 7 % 20).reshape(4, 5) / 4 - 2


def sample(shape: tuple[int, ...]) -> torch.Tensor:
    return LOGITS if shape == LOGITS.shape else f32(*shape)


def on(like: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return index.to(like.device)


def pairs(tokens: torch.Tensor, kept: int) -> torch.Tensor:
    return tokens[torch.argsort(EXPERTS.flatten(), stable=True)[:kept] // 2]


def weighted(rows: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
    """The pairs of MAP beyond the last row add nothing."""
    kept = torch.cat([rows, rows.new_zeros(8 - len(rows), rows.size(1))])
    return (kept[ROWS.long()].reshape(4, 2, -1) * probs.unsqueeze(-1)).sum(1)


def by_map(tokens: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
    chosen = MAP.bool().t()
    return tokens[chosen.nonzero()[:, 1]] * probs.t()[chosen].unsqueeze(-1)


def by_padded_map(tokens: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
    return tokens[PADDED.long()] * probs.t().gather(1, PADDED.long().reshape(3, 3)).reshape(-1, 1)


def scores(x: torch.Tensor, chosen: torch.Tensor, norm_type: int, renorm: int) -> torch.Tensor:
    some = (x.sigmoid() if norm_type else x.softmax(1)).gather(1, chosen)
    return 2.5 * (some / (some.sum(1, keepdim=True) + 1e-20) if norm_type or renorm else some)


def back_by_map(rows: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
    return weighted(rows, probs[MAP.bool()].reshape(4, 2))


def back_by_padded_map(rows: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
    weighted_rows = rows * probs.t().gather(1, PADDED.long().reshape(3, 3)).reshape(-1, 1)
    return torch.zeros_like(rows[:4]).index_add(0, PADDED.long(), weighted_rows)


def permuted_by_map(tokens: torch.Tensor, probs: torch.Tensor, **options: Any) -> torch.Tensor:
    rows, weights, _ = torch_npu.npu_moe_token_permute_with_routing_map(tokens, on(tokens, MAP), probs=probs, **options)
    return rows * weights.unsqueeze(-1)


def gated(x: torch.Tensor, norm_type: int, renorm: int) -> torch.Tensor:
    return torch_npu.npu_moe_gating_top_k(
        x, 2, norm_type=norm_type, renorm=renorm, out_flag=True, routed_scaling_factor=2.5
    )[0]


def swish_gate(x: torch.Tensor) -> torch.Tensor:
    return functional.silu(x[:, :3]) * x[:, 3:]


def root_mean_square(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gamma


def deep(x: torch.Tensor, gx: torch.Tensor, beta: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(0.3 * x + gx, gamma.shape, gamma, beta, 1e-6)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return x * cos + torch.cat([-x[..., 3:], x[..., :3]], -1) * sin


def turned_in_pairs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return x * cos + torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * sin


def geglu(x: torch.Tensor) -> torch.Tensor:
    return x[:, :3] * functional.gelu(x[:, 3:], approximate="tanh")


def unpermuted_by_map(rows: torch.Tensor, probs: torch.Tensor, index: torch.Tensor, padded: bool) -> torch.Tensor:
    return torch_npu.npu_moe_token_unpermute_with_routing_map(
        rows, on(rows, index), [4, 6], probs=probs, routing_map=on(rows, MAP), drop_and_pad=padded
    )


# By name: the operator, the formula in plain torch, and the sizes of what both are given.
CASES: dict[str, tuple[Function, Function, list[tuple[int, ...]]]] = {
    "permute": (lambda x: torch_npu.npu_moe_token_permute(x, on(x, EXPERTS))[0], lambda x: pairs(x, 8), [(4, 6)]),
    "permute, dropped": (
        lambda x: torch_npu.npu_moe_token_permute(x, on(x, EXPERTS), 5)[0],
        lambda x: pairs(x, 5),
        [(4, 6)],
    ),
    "unpermute": (
        lambda x: torch_npu.npu_moe_token_unpermute(x, on(x, ROWS)),
        lambda x: x[ROWS.long()],
        [(8, 6)],
    ),
    "unpermute, weighted": (
        lambda x, p: torch_npu.npu_moe_token_unpermute(x, on(x, ROWS), p),
        weighted,
        [(8, 6), (4, 2)],
    ),
    "unpermute, dropped": (
        lambda x, p: torch_npu.npu_moe_token_unpermute(x, on(x, ROWS), p),
        weighted,
        [(5, 6), (4, 2)],
    ),
    "permute by a map": (lambda x, p: permuted_by_map(x, p, num_out_tokens=8), by_map, [(4, 6), (4, 3)]),
    "permute by a map, padded": (
        lambda x, p: permuted_by_map(x, p, num_out_tokens=9, drop_and_pad=True),
        by_padded_map,
        [(4, 6), (4, 3)],
    ),
    "unpermute by a map": (
        lambda x, p: unpermuted_by_map(x, p, ROWS, False),
        back_by_map,
        [(8, 6), (4, 3)],
    ),
    "unpermute by a map, padded": (
        lambda x, p: unpermuted_by_map(x, p, PADDED, True),
        back_by_padded_map,
        [(9, 6), (4, 3)],
    ),
    "gate by sigmoid": (
        lambda x: gated(x, 1, 0),
        lambda x: scores(x, x.topk(2).indices, 1, 0),
        [(4, 5)],
    ),
    "gate by softmax": (
        lambda x: gated(x, 0, 1),
        lambda x: scores(x, x.topk(2).indices, 0, 1),
        [(4, 5)],
    ),
    "swiglu": (torch_npu.npu_swiglu, swish_gate, [(4, 6)]),
    "rms norm": (lambda x, g: torch_npu.npu_rms_norm(x, g)[0], root_mean_square, [(4, 6), (6,)]),
    "deep norm": (lambda *inputs: torch_npu.npu_deep_norm(*inputs)[2], deep, [(4, 6), (4, 6), (6,), (6,)]),
    "rotary half": (torch_npu.npu_rotary_mul, rotated, [(2, 3, 4, 6), (1, 3, 1, 6), (1, 3, 1, 6)]),
    "rotary interleave": (
        lambda x, cos, sin: torch_npu.npu_rotary_mul(x, cos, sin, "interleave"),
        turned_in_pairs,
        [(2, 3, 4, 6), (2, 1, 1, 6), (2, 1, 1, 6)],
    ),
    "gelu": (torch_npu.npu_gelu, functional.gelu, [(4, 6)]),
    "gelu by tanh": (
        lambda x: torch_npu.npu_gelu(x, approximate="tanh"),
        lambda x: functional.gelu(x, approximate="tanh"),
        [(4, 6)],
    ),
    "fast gelu": (torch_npu.npu_fast_gelu, lambda x: x * torch.sigmoid(1.702 * x), [(4, 6)]),
    "silu": (torch_npu.npu_silu, functional.silu, [(4, 6)]),
    "geglu": (lambda x: torch_npu.npu_geglu(x)[0], geglu, [(4, 6)]),
}


def gradients(function: Function, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    inputs = [tensor.clone().requires_grad_() for tensor in tensors]
    out = function(*inputs)
    # Weights that differ, so that no gradient may be exchanged for another.
    out.backward(torch.arange(1.0, out.numel() + 1, device=out.device, dtype=out.dtype).reshape(out.shape))
    return [tensor.grad.cpu() for tensor in inputs if tensor.grad is not None]


def test_probabilities_alone_are_refused_by_name() -> None:
    """torch_npu's autograd has nothing then from which the operator could tell the width of the tokens."""
    tokens, probs = f32(4, 6).npu().requires_grad_(), f32(4, 3).npu().requires_grad_()
    _, weights, _ = torch_npu.npu_moe_token_permute_with_routing_map(tokens, MAP.npu(), probs=probs, num_out_tokens=8)
    with pytest.raises(RuntimeError, match=r"with_routing_map_grad: permuted_token_out_grad must be given"):
        weights.sum().backward()


def test_a_gate_without_its_scores_is_refused_by_name() -> None:
    weights, _, _ = torch_npu.npu_moe_gating_top_k(LOGITS.npu().requires_grad_(), 2)
    with pytest.raises(RuntimeError, match=r"x_norm\[0\] must hold the scores, which out_flag=True gives"):
        weights.sum().backward()


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_plain_torch(name: str) -> None:
    ours, theirs, shapes = CASES[name]
    tensors = [sample(shape) for shape in shapes]
    results, wanted = gradients(ours, [x.npu() for x in tensors]), gradients(theirs, [x.double() for x in tensors])
    assert len(results) == len(tensors)
    for one, other in zip(results, wanted, strict=True):
        # Float32 rounds what is added and multiplied, a dozen times, and gates cancel most of what comes in.
        torch.testing.assert_close(one.double(), other, rtol=2.0**-12, atol=2.0**-12 * float(other.abs().max() + 1))


# Symbolic sizes are for the long version: they take three times as long.
@pytest.mark.parametrize("dynamic", [False, True] if "GRAPH_QUANT_EXAMPLES" in os.environ else [False])
def test_a_graph_has_the_gradients_of_eager_mode(dynamic: bool) -> None:
    torch._dynamo.reset()
    flat = [sample(shape).npu() for *_, shapes in CASES.values() for shape in shapes]

    def all_of_them(*inputs: torch.Tensor) -> torch.Tensor:
        left = iter(inputs)
        outs = [function(*(next(left) for _ in shapes)) for function, _, shapes in CASES.values()]
        return torch.cat([out.flatten() for out in outs])

    compiled = torch.compile(all_of_them, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=dynamic)
    for one, other in zip(gradients(compiled, flat), gradients(all_of_them, flat), strict=True):
        assert torch.equal(one, other)
