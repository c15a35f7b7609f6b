"""torch.library.opcheck over the calls that the documents allow.

Checked are the schema, fake tensors, and AOT dispatch with static and with dynamic sizes.
"""

import os

import pytest
import torch
from torch.utils._pytree import tree_leaves

from support.all_calls import GOOD, Call

QUICK = ("test_schema", "test_faketensor")
# These write their caches, as on the device, and their schemas do not say so.
UNSAID = ("npu_mla_prolog", "npu_mla_prolog_v2")
UTILITIES = (*QUICK, "test_aot_dispatch_static", "test_aot_dispatch_dynamic")
# AOT dispatch takes most of the time: of the first and the last call of an operator, of all in the long version.
DISPATCHED = [{call.op: call for call in calls}.values() for calls in (GOOD, GOOD[::-1])]
WHOLE = GOOD if "GRAPH_QUANT_EXAMPLES" in os.environ else [call for some in DISPATCHED for call in some]


@pytest.mark.parametrize("call", GOOD, ids=str)
def test_opcheck(call: Call) -> None:
    utilities = UTILITIES if any(call is entry for entry in WHOLE) else QUICK
    if call.op in UNSAID:
        utilities = tuple(entry for entry in utilities if entry != "test_schema")
    torch.library.opcheck(call.overload, call.args, call.kwargs, test_utils=utilities)


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
    return tuple(result for result in tree_leaves(results) if isinstance(result, torch.Tensor))
