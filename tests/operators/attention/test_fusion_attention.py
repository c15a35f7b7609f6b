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
