"""A refused call raises `Refusal` with the rule first: eagerly, traced, in a compiled graph and in a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant.refusals import Refusal
from torch import Tensor


def quantise(x: Tensor, scale: Tensor, ends: Tensor) -> Tensor:
    return torch_npu.npu_group_quant(x * 2, scale, ends, dst_dtype=torch.int8)


def replay(x: Tensor, scale: Tensor, ends: Tensor) -> None:
    graph, valid = torch.npu.NPUGraph(), torch.tensor([4, 8], device="npu")
    with torch.npu.graph(graph):
        quantise(x, scale, valid)
    valid.copy_(ends)
    graph.replay()


ROUTES: dict[str, Callable[..., Any]] = {
    "eager": quantise,
    "npu": torch.compile(quantise, backend="npu"),
    "npugraph_ex": torch.compile(quantise, backend="npugraph_ex"),
    "replay": replay,
}
RULES = {
    "shape": (7, [4, 8], "npu_group_quant: scale.size(1) must equal x.size(1), got 7 and 16"),
    "value": (16, [4, 9], "npu_group_quant: group_index[1] must lie in [0, 8], the rows of x, got 9"),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("rule", RULES)
def test_every_route_raises_the_rule_first(route: str, rule: str) -> None:
    width, ends, message = RULES[rule]
    x, scale = torch.ones(8, 16, device="npu"), torch.ones(2, width, device="npu")
    with pytest.raises(Refusal) as caught:
        ROUTES[route](x, scale, torch.tensor(ends, device="npu"))
    assert str(caught.value).splitlines()[0] == message
    assert caught.value.code == 161002
    assert any("161002" in note for note in getattr(caught.value, "__notes__", ["161002"]))


def test_dynamos_explanation_follows_the_rule() -> None:
    x, scale = torch.ones(8, 16, device="npu"), torch.ones(2, 7, device="npu")
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError) as caught:
        ROUTES["npu"](x, scale, torch.tensor([4, 8], device="npu"))
    assert "from user code" in str(caught.value)
    assert "torch_npu.npu_group_quant(x * 2, scale, ends" in str(caught.value)


def test_other_errors_of_traced_code_are_none() -> None:
    def multiply(x: Tensor) -> Tensor:
        return x @ torch.ones(3, 3, device=x.device)

    try:
        raise Refusal("an earlier one, which is handled")
    except Refusal:
        with pytest.raises(torch._dynamo.exc.TorchRuntimeError) as caught:
            torch.compile(multiply, backend="npu")(torch.ones(2, 2, device="npu"))
    assert not isinstance(caught.value, Refusal)
