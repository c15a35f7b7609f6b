"""Every rule of the constraint table refuses its wrong call, eagerly and when traced, naming the argument."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from support.calls import WRONG, WRONG_EAGERLY, WRONG_VALUES, Call

BY_OPERATOR: dict[str, list[Call]] = {}
for each in WRONG:
    BY_OPERATOR.setdefault(each.op, []).append(each)


def assert_names_argument(call: Call, message: str) -> None:
    refusal = next((line for line in message.splitlines() if f"{call.title}: " in line), "")
    assert refusal, f"{call}: {message}"
    words = refusal[refusal.index(f"{call.title}: ") + len(call.title) + 2 :]
    assert call.argument in words
    assert "got " in words or "None" in words


# One test for the three devices: they are thousands of calls.
@pytest.mark.parametrize("call", WRONG, ids=str)
def test_refused_eagerly_and_on_meta_tensors(call: Call) -> None:
    for device in ("cpu", "npu", "meta"):
        args, kwargs = call.on(device)
        with pytest.raises(RuntimeError) as refusal:
            call.overload(*args, **kwargs)
        assert_names_argument(call, str(refusal.value))


# One trace an operator: making a trace takes longer than all its calls.
@pytest.mark.parametrize("op", BY_OPERATOR)
def test_refused_when_traced(op: str) -> None:
    calls = BY_OPERATOR[op]
    leaves, form = tree_flatten([call.on("npu") for call in calls])
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    refused = []

    def make_calls(*tensors: torch.Tensor) -> None:
        given = {**dict(enumerate(leaves)), **dict(zip(places, tensors, strict=True))}
        for call, (args, kwargs) in zip(calls, tree_unflatten(list(given.values()), form), strict=True):
            with pytest.raises(RuntimeError) as refusal:
                call.overload(*args, **kwargs)
            assert_names_argument(call, str(refusal.value))
            refused.append(call)

    make_fx(make_calls, tracing_mode="symbolic")(*(leaves[place] for place in places))
    assert refused == calls


# Compiling takes a hundred times as long as tracing, and goes the same way: one call an operator.
@pytest.mark.parametrize("call", [calls[-1] for calls in BY_OPERATOR.values()], ids=str)
def test_refused_when_compiled(call: Call) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda *args, **kwargs: call.overload(*args, **kwargs), backend="npu", fullgraph=True)
    args, kwargs = call.on("npu")
    with pytest.raises(Exception) as refusal:  # noqa: PT011 (Dynamo wraps the error in one of its own)
        compiled(*args, **kwargs)
    assert_names_argument(call, str(refusal.value))


@pytest.mark.parametrize("call", WRONG_EAGERLY, ids=str)
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_mixture_is_refused_eagerly_and_not_by_inference(call: Call, device: str) -> None:
    args, kwargs = call.on(device)
    with pytest.raises(RuntimeError, match=r"when run eagerly.*a graph converts it") as refusal:
        call.overload(*args, **kwargs)
    assert_names_argument(call, str(refusal.value))
    args, kwargs = call.on("meta")
    call.overload(*args, **kwargs)


@pytest.mark.parametrize("call", WRONG_VALUES, ids=str)
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_index_values_are_refused_where_data_is(call: Call, device: str) -> None:
    args, kwargs = call.on(device)
    with pytest.raises(RuntimeError) as refusal:
        call.overload(*args, **kwargs)
    assert_names_argument(call, str(refusal.value))


@pytest.mark.parametrize("call", WRONG_VALUES, ids=str)
def test_index_values_are_not_read_by_inference(call: Call) -> None:
    args, kwargs = call.on("meta")
    call.overload(*args, **kwargs)
