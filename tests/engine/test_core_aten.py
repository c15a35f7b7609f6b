"""Some calls of core ATen in graph mode against eager mode; `make coverage` runs every overload over every OpInfo."""

from itertools import islice

import torch

from engine.core_aten import check_together, own

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
    calls = [call for each in own(SAMPLE).values() for call in islice(each.values(), 4)]
    assert {call.overload for call in calls} == set(SAMPLE)
    outcome = check_together(calls, dynamic=True)
    assert outcome.failures == []
    assert outcome.agreed >= len(calls)
