"""Compiled for GE and run there, every allowed call gives the bits of eager mode.

What kernels of A2 and A3 lack is refused.
"""

import pytest
import torch
import torchair

from support.calls import GOOD, INT4, Call


def is_beyond_a2(call: Call) -> bool:
    mode, smooth = call.kwargs.get("quant_mode"), call.kwargs.get("smooth_scales")
    return (
        "dst_type_max" in call.kwargs
        or (mode == "pertensor" and smooth is not None)
        or (mode == "perchannel" and call.kwargs.get("dst_type") is INT4)
    )


def compiled(call: Call, dynamic: bool | None) -> object:
    torch._dynamo.reset()
    return torch.compile(
        lambda *args, **kwargs: call.overload(*args, **kwargs),
        backend=torchair.get_npu_backend(),
        fullgraph=True,
        dynamic=dynamic,
    )


@pytest.mark.parametrize("call", [call for call in GOOD if not is_beyond_a2(call)], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_same_bits_as_eager(call: Call, dynamic: bool) -> None:
    args, kwargs = call.on("npu")
    expected = call.overload(*args, **kwargs)
    results = compiled(call, dynamic)(*args, **kwargs)  # type: ignore[operator]
    if isinstance(expected, torch.Tensor):
        expected, results = (expected,), (results,)
    for one, other in zip(expected, results, strict=True):
        assert torch.equal(one.cpu(), other.cpu())
        assert (one.dtype, one.stride(), one.device) == (other.dtype, other.stride(), other.device)


@pytest.mark.parametrize("call", [call for call in GOOD if is_beyond_a2(call)], ids=str)
def test_refused_with_the_way_out(call: Call) -> None:
    args, kwargs = call.on("npu")
    with pytest.raises(Exception, match=rf"{call.op}: kernels of Ascend A2 and A3 cannot do .*; .*, or run eagerly"):
        compiled(call, None)(*args, **kwargs)  # type: ignore[operator]
