"""torch.library.opcheck over the calls that the documents allow.

Checked are the schema, fake tensors, and AOT dispatch with static and with dynamic sizes.
"""

import pytest
import torch
from torch.utils._pytree import tree_leaves

from support.calls import GOOD, Call

UTILITIES = ("test_schema", "test_faketensor", "test_aot_dispatch_static", "test_aot_dispatch_dynamic")


@pytest.mark.parametrize("call", GOOD, ids=str)
def test_opcheck(call: Call) -> None:
    torch.library.opcheck(call.overload, call.args, call.kwargs, test_utils=UTILITIES)


@pytest.mark.parametrize("call", GOOD, ids=str)
def test_meta_tensors_agree_with_the_npu(call: Call) -> None:
    args, kwargs = call.on("meta")
    inferred = call.overload(*args, **kwargs)
    args, kwargs = call.on("npu")
    computed = call.overload(*args, **kwargs)
    for one, other in zip(_tuple(inferred), _tuple(computed), strict=True):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
        assert other.device.type == "npu"
        assert other.is_contiguous()


def _tuple(results: object) -> tuple[torch.Tensor, ...]:
    return tuple(each for each in tree_leaves(results) if isinstance(each, torch.Tensor))
