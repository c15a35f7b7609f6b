"""npu_prefetch, which changes no value: eagerly, in a graph, and its refusals."""

from typing import Any

import pytest
import torch
import torch_npu

from support.tensors import f16


def test_a_prefetch_changes_nothing_eagerly_and_in_a_graph() -> None:
    x, weight = f16(4, 16).npu(), f16(16, 8).npu()
    before = weight.clone()
    assert torch_npu.npu_prefetch(weight, None, 64) is None

    def call(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch_npu.npu_prefetch(weight, x, 10 * 1024, 16)
        return y @ weight

    wanted = call(x, weight)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(call, backend="npu", fullgraph=True)(x, weight), wanted)
    assert torch.equal(weight, before)


@pytest.mark.parametrize(("argument", "options"), [("max_size", (0,)), ("offset", (8, -1)), ("offset", (8, 128))])
@pytest.mark.parametrize("device", ["cpu", "npu", "meta"])
def test_a_wrong_prefetch_is_refused(argument: str, options: tuple[int, ...], device: str) -> None:
    weight: Any = f16(4, 16).to(device)
    with pytest.raises(RuntimeError, match=f"^npu_prefetch: {argument} must "):
        torch_npu.npu_prefetch(weight, None, *options)
