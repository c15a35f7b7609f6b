"""Each collective: what the other ranks are told about it, and how its data comes where it belongs."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributed import GatherOptions, ScatterOptions

from .collective import Collective, Splits, pieces
from .fingerprint import Announced, form, places
from .gloo import Gloo
from .memory import as_bytes, check_dense, check_pairs, shared
from .splits import check_parts


def barrier() -> Collective:
    """Wait for all: that they agree to is all there is."""
    return Collective(Announced("barrier"))


def all_gather(outputs: Sequence[Tensor], given: Tensor) -> Collective:
    """Gather into a list; where sizes differ, each rank broadcasts its part."""
    name = "all_gather"
    check_pairs(name, outputs, [given] * len(outputs))
    sizes = tuple(output.numel() for output in outputs)
    data, own = [as_bytes(shared(output)) for output in outputs], as_bytes(shared(given))

    def settle(rows: Sequence[Tensor], _: Splits) -> None:
        for part, row in zip(data, rows, strict=True):
            part.copy_(row[: part.numel()])

    def move(gloo: Gloo) -> None:
        if len(set(sizes)) == 1:
            gloo.allgather(data, own).wait()
            return
        data[gloo.rank()].copy_(own)
        for rank, part in enumerate(data):
            if part.numel():
                gloo.broadcast(part, rank).wait()

    call = Announced(name, given.dtype, 0, 0, (given.numel(),) * len(outputs), sizes)
    return Collective(call, [*outputs, given], [own], settle, move)


def all_gather_into_tensor(group: Gloo, outputs: Sequence[Tensor], givens: Sequence[Tensor]) -> Collective:
    """Gather into tensors, one part after the other."""
    name = "all_gather_into_tensor"
    check_pairs(name, outputs, givens)
    for output, given in zip(outputs, givens, strict=True):
        check_parts(name, output, given, group.size())
    data = [as_bytes(shared(given)) for given in givens]
    wholes = [list(as_bytes(shared(output)).chunk(group.size())) for output in outputs]

    def settle(rows: Sequence[Tensor], _: Splits) -> None:
        for whole, parts in zip(wholes, pieces(rows, data), strict=True):
            for to, part in zip(whole, parts, strict=False):
                to.copy_(part)

    def move(gloo: Gloo) -> None:
        for whole, given in zip(wholes, data, strict=True):
            gloo.allgather(whole, given).wait()

    call = Announced(name, givens[0].dtype, sum(map(Tensor.numel, givens)), form=form(givens))
    return Collective(call, [*outputs, *givens], data, settle, move)


def broadcast(group: Gloo, tensor: Tensor, root: int) -> Collective:
    """Give all ranks what the root has."""
    check_dense("broadcast", [tensor])
    data = as_bytes(shared(tensor))

    def settle(rows: Sequence[Tensor], _: Splits) -> None:
        data.copy_(rows[root][: data.numel()])

    call = Announced("broadcast", tensor.dtype, tensor.numel(), root)
    given = [data] if group.rank() == root else []
    return Collective(call, [tensor], given, settle, lambda gloo: _done(gloo.broadcast(data, root)))


def gather(outputs: Sequence[Tensor], given: Tensor, root: int) -> Collective:
    """Give the root what all ranks have."""
    check_pairs("gather", outputs, [given] * len(outputs))
    _check_sizes("gather", outputs, given)
    data, own = [as_bytes(shared(output)) for output in outputs], as_bytes(shared(given))
    options = GatherOptions()
    options.rootRank = root

    def settle(rows: Sequence[Tensor], _: Splits) -> None:
        for part, row in zip(data, rows, strict=False):
            part.copy_(row[: part.numel()])

    call = Announced("gather", given.dtype, given.numel(), root)
    move = lambda gloo: _done(gloo.gather([data] if data else [], [own], options))  # noqa: E731
    return Collective(call, [*outputs, given], [own], settle, move)


def scatter(group: Gloo, output: Tensor, givens: Sequence[Tensor], root: int) -> Collective:
    """Give each rank its part of what the root has."""
    check_pairs("scatter", [output] * len(givens), givens)
    check_dense("scatter", [output])
    _check_sizes("scatter", givens, output)
    data, own = [as_bytes(shared(given)) for given in givens], as_bytes(shared(output))
    options = ScatterOptions()
    options.rootRank = root
    place = places([own] * group.size())[group.rank()]

    def settle(rows: Sequence[Tensor], _: Splits) -> None:
        own.copy_(rows[root][place : place + own.numel()])

    call = Announced("scatter", output.dtype, output.numel(), root)
    move = lambda gloo: _done(gloo.scatter([own], [data] if data else [], options))  # noqa: E731
    return Collective(call, [output, *givens], data, settle, move)


def _check_sizes(name: str, parts: Sequence[Tensor], own: Tensor) -> None:
    if wrong := [part.numel() for part in parts if part.numel() != own.numel()]:
        raise RuntimeError(f"hccl {name}: all parts must be of one size, got {wrong[0]} and {own.numel()} elements")


def _done(work: torch.distributed.Work) -> None:
    work.wait()
