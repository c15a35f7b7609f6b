"""Compiled for GE and run there, every allowed call gives the bits of eager mode.

What kernels of A2 and A3 lack is refused.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchair
from torch.utils._pytree import tree_leaves

from support.all_calls import GOOD, INT4, Call


def is_beyond_a2(call: Call) -> bool:
    mode, smooth = call.kwargs.get("quant_mode"), call.kwargs.get("smooth_scales")
    return (
        "dst_type_max" in call.kwargs
        or (mode == "pertensor" and smooth is not None)
        or (mode == "perchannel" and call.kwargs.get("dst_type") is INT4)
    )


BY_OPERATOR: dict[str, list[Call]] = {}
for allowed in GOOD:
    if not is_beyond_a2(allowed):
        BY_OPERATOR.setdefault(allowed.op, []).append(allowed)


def compiled(calls: list[Call], dynamic: bool | None) -> Callable[..., list[Any]]:
    """One graph that makes all calls: compiling is what takes the time."""
    torch._dynamo.reset()

    def make_calls(arguments: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
        return [call.overload(*args, **kwargs) for call, (args, kwargs) in zip(calls, arguments, strict=True)]

    return torch.compile(make_calls, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=dynamic)


def tensors(results: Any) -> list[torch.Tensor]:
    """The tensors among the results of a call."""
    return [result for result in tree_leaves(results) if isinstance(result, torch.Tensor)]


@pytest.mark.parametrize("op", BY_OPERATOR)
@pytest.mark.parametrize("dynamic", [False, True])
def test_same_bits_as_eager(op: str, dynamic: bool) -> None:
    calls = BY_OPERATOR[op]
    if not (dynamic or "GRAPH_QUANT_EXAMPLES" in os.environ):
        calls = calls[::2]  # the others are compiled with dynamic sizes only
    expected = [call.overload(*args, **kwargs) for call in calls for args, kwargs in [call.on("npu")]]
    arguments = [call.on("npu") for call in calls]
    results = compiled(calls, dynamic)(arguments)
    for call, theirs, ours, inputs in zip(calls, expected, results, arguments, strict=True):
        for one, other in zip(tensors(theirs), tensors(ours), strict=True):
            assert torch.equal(as_bits(one), as_bits(other)), str(call)
            assert (one.dtype, one.stride(), one.device) == (other.dtype, other.stride(), other.device), str(call)
        assert_same_writes(call, inputs)


def assert_same_writes(call: Call, inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
    """Compare what an in-place operator wrote into its arguments."""
    if call.overload._schema.is_mutable:
        eager = call.on("npu")
        call.overload(*eager[0], **eager[1])
        for one, other in zip(tree_leaves(eager), tree_leaves(inputs), strict=True):
            if isinstance(one, torch.Tensor):
                assert torch.equal(as_bits(one), as_bits(other)), str(call)


def as_bits(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor's values, in which a NaN equals itself."""
    return tensor.cpu().contiguous().flatten().view(torch.uint8)


@pytest.mark.parametrize("call", [call for call in GOOD if is_beyond_a2(call)], ids=str)
def test_refused_with_a_workaround(call: Call) -> None:
    with pytest.raises(Exception, match=rf"{call.op}: kernels of Ascend A2 and A3 cannot do .*; .*, or run eagerly"):
        compiled([call], None)([call.on("npu")])
