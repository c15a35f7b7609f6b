"""npu_fusion_attention against its statement, and its gradients against those of the same formula in float64."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
import torchair

from operators.attention.fusion_attention import NAME, calls, expected
from support.call import overload
from support.generated import run
from support.tensors import f32


def test_gives_what_its_statement_gives() -> None:
    """The generated calls of the other operators, of which this one returns numbers besides."""

    def agrees(call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        args, kwargs = call
        wanted = expected(*args, **kwargs)
        out, *_ = overload(f"npu_{NAME}")(*args, **kwargs)
        assert out.shape == wanted.shape
        largest = np.max(np.abs(wanted), initial=0.0)
        np.testing.assert_allclose(out.float().numpy(), wanted, rtol=0, atol=2.0**-7 * largest)

    run(agrees, calls())


def plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, pse: torch.Tensor) -> torch.Tensor:
    shared = query.size(1) // key.size(1)
    scores = (query @ key.repeat_interleave(shared, 1).mT + pse) * 0.25
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1 + scores.size(-1) - scores.size(-2))
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value.repeat_interleave(shared, 1)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(compiled: bool) -> None:
    given = f32(2, 4, 3, 16), f32(2, 2, 5, 16), f32(2, 2, 5, 16), f32(2, 4, 3, 5)
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
    ours = [each.npu().requires_grad_(place < 3) for place, each in enumerate(given)]
    theirs = [each.double().requires_grad_() for each in given]
    function(*ours).square().sum().backward()
    plain(*theirs).square().sum().backward()
    for one, other in zip(ours[:3], theirs, strict=False):
        assert one.grad is not None
        assert other.grad is not None
        # An exponential magnifies the rounding of a score, and scores here are up to 2^7: 2^-24 of them, and sums.
        assert float((one.grad.cpu() - other.grad).abs().max() / other.grad.abs().max()) < 2.0**-15


def test_a_sink_takes_weight_and_has_a_gradient() -> None:
    given, sink = [f32(1, 2, 3, 16) for _ in range(3)], f32(2)
    ours = [each.npu().requires_grad_() for each in (*given, sink)]
    theirs = [each.double().requires_grad_() for each in (*given, sink)]
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
    """Keys further than ``after`` after, or ``before`` before, the diagonal from a corner, else the lower right one."""
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
def test_packed_sequences_are_those_of_a_mask_each(mode: str) -> None:
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
