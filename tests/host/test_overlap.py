"""Writes that overlap their inputs are refused on npu:0 as on every device of PyTorch."""

from collections.abc import Callable

import pytest
import torch
from graph_quant.host import alias
from torch import Tensor

OVERLAPPING: dict[str, Callable[[Tensor], object]] = {
    "add_": lambda a: a[1:].add_(a[:-1]),
    "add_ transposed": lambda a: a.view(3, 3).t().add_(a.view(3, 3)),
    "copy_": lambda a: a[1:].copy_(a[:-1]),
    "copy_ transposed": lambda a: a.view(3, 3).copy_(a.view(3, 3).t()),
    "out=": lambda a: torch.add(a[1:], 1, out=a[:-1]),
    "cumsum": lambda a: torch.cumsum(a[:-1], 0, out=a[1:]),
    "scatter_": lambda a: a.scatter_(0, torch.tensor([0, 1], device=a.device), a[1:3]),
    "index_put_": lambda a: a.index_put_((torch.tensor([0, 1], device=a.device),), a[1:3]),
    "index_add_": lambda a: a.index_add_(0, torch.tensor([0, 1], device=a.device), a[1:3]),
    "expanded": lambda a: a.expand(2, 9).add_(1),
}


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("write", OVERLAPPING.values(), ids=OVERLAPPING)
def test_overlapping_write_is_refused(write, device) -> None:
    with pytest.raises(RuntimeError, match=r"refers? to a single memory location|overlap"):
        write(torch.arange(9.0, device=device))


def test_adjacent_and_in_place_writes() -> None:
    for device in ("cpu", "npu"):
        a = torch.arange(8.0, device=device)
        a[:4].add_(a[4:])
        torch.mul(a[4:], 2, out=a[4:])
        a.t().add_(a)
        assert a.tolist() == [8, 12, 16, 20, 16, 20, 24, 28]


def test_overlap_is_detected_after_cache_eviction(monkeypatch) -> None:
    monkeypatch.setattr(alias, "_MAX_KEPT", 2)
    others = [torch.ones(2, device="npu") for _ in range(3)]
    a = torch.arange(9.0, device="npu")
    for other in others:
        other.add_(1)
        with pytest.raises(RuntimeError, match="single memory location"):
            a[1:].add_(a[:-1])


def test_memory_aliased_in_inference_mode_is_writable_after_it() -> None:
    cache = torch.zeros(4, device="npu")
    with torch.inference_mode():
        alias.kept_alias(cache).add_(1)
    alias.kept_alias(cache).add_(1)
    assert cache.tolist() == [2.0] * 4
