"""Some calls of core ATen in graph mode against eager mode; `make coverage` runs every overload over every OpInfo."""

from itertools import islice

import torch

from engine.core_aten import Call, check_together, own

aten = torch.ops.aten
SAMPLE = (
    aten.any.dims,
    aten.argmax.default,
    aten.as_strided.default,
    aten.bitwise_xor.Scalar,
    aten.div.Scalar_mode,
    aten.fmod.Scalar,
    aten.ge.Scalar,
    aten.index_put.default,
    aten.lt.Tensor,
    aten.max_pool2d_with_indices.default,
    aten.min.dim,
    aten.reflection_pad3d.default,
    aten.replication_pad2d.default,
    aten.scatter.value,
    aten.sub.Tensor,
)


def test_a_sample_agrees_with_eager_mode_to_the_bit() -> None:
    calls = [call for by_signature in own(SAMPLE).values() for call in islice(by_signature.values(), 4)]
    assert {call.overload for call in calls} == set(SAMPLE)
    outcome = check_together(calls, dynamic=True)
    assert outcome.failures == []
    assert outcome.agreed >= len(calls)


def test_calls_that_once_failed_agree_with_eager_mode() -> None:
    """Scalars beyond float32, a mask larger than its tensor, empty padding, bool as a number."""
    x, mask = torch.arange(1.0, 16.0), torch.eye(5, dtype=torch.bool)
    calls = [
        Call(aten.fmod.Scalar, (x.bfloat16(), 0.1), {}),
        Call(aten.full_like.default, (x, 0.1), {"dtype": torch.float64}),
        Call(aten.masked_scatter.default, (torch.arange(5), mask, torch.arange(25)), {}),
        Call(aten.reflection_pad1d.default, (torch.zeros(0, 3, 3), [1, 2]), {}),
        Call(aten.replication_pad2d.default, (torch.zeros(0, 3, 3, 3), [0, 2, 0, 1]), {}),
        Call(aten._local_scalar_dense.default, (torch.tensor(True),), {}),
        Call(aten.addcmul.default, (x, x, x), {"value": 2.0}),
        Call(aten.addcdiv.default, (x, x, x + 1), {"value": 2.0}),
    ]
    outcome = check_together(calls, dynamic=True)
    assert outcome.failures == []
