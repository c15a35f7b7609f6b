"""Barrier, all-gather, broadcast, gather and scatter."""

from collections.abc import Sequence

from torch import Tensor
from torch.distributed import GatherOptions, ScatterOptions

from .collective import Collective, Splits, parts_by_tensor
from .fingerprint import Fingerprint, layout_hash, offsets
from .gloo import Gloo
from .memory import as_bytes, check_dense, check_pairs, cpu_view
from .splits import check_parts


def barrier() -> Collective:
    """Wait for all ranks. The exchange of fingerprints does that, and there is no data to move."""
    return Collective(Fingerprint("barrier"))


def all_gather(outputs: Sequence[Tensor], source: Tensor) -> Collective:
    """All-gather into a list of tensors. If sizes differ, each rank broadcasts its part."""
    name = "all_gather"
    check_pairs(name, outputs, [source] * len(outputs))
    sizes = tuple(output.numel() for output in outputs)
    data, own = [as_bytes(cpu_view(output)) for output in outputs], as_bytes(cpu_view(source))

    def copy_inline(rows: Sequence[Tensor], _: Splits) -> None:
        for part, row in zip(data, rows, strict=True):
            part.copy_(row[: part.numel()])

    def transfer(gloo: Gloo) -> None:
        if len(set(sizes)) == 1:
            gloo.allgather(data, own).wait()
            return
        data[gloo.rank()].copy_(own)
        for rank, part in enumerate(data):
            if part.numel():
                gloo.broadcast(part, rank).wait()

    call = Fingerprint(name, source.dtype, 0, 0, (source.numel(),) * len(outputs), sizes)
    return Collective(call, [*outputs, source], [own], copy_inline, transfer)


def all_gather_into_tensor(group: Gloo, outputs: Sequence[Tensor], sources: Sequence[Tensor]) -> Collective:
    """All-gather into tensors that hold the parts of all ranks in order."""
    name = "all_gather_into_tensor"
    check_pairs(name, outputs, sources)
    for output, source in zip(outputs, sources, strict=True):
        check_parts(name, output, source, group.size())
    data = [as_bytes(cpu_view(source)) for source in sources]
    wholes = [list(as_bytes(cpu_view(output)).chunk(group.size())) for output in outputs]

    def copy_inline(rows: Sequence[Tensor], _: Splits) -> None:
        for whole, parts in zip(wholes, parts_by_tensor(rows, data), strict=True):
            for to, part in zip(whole, parts, strict=False):
                to.copy_(part)

    def transfer(gloo: Gloo) -> None:
        for whole, source in zip(wholes, data, strict=True):
            gloo.allgather(whole, source).wait()

    call = Fingerprint(name, sources[0].dtype, sum(map(Tensor.numel, sources)), layout=layout_hash(sources))
    return Collective(call, [*outputs, *sources], data, copy_inline, transfer)


def broadcast(group: Gloo, tensor: Tensor, root: int) -> Collective:
    """Broadcast the root's tensor to all ranks."""
    check_dense("broadcast", [tensor])
    data = as_bytes(cpu_view(tensor))

    def copy_inline(rows: Sequence[Tensor], _: Splits) -> None:
        data.copy_(rows[root][: data.numel()])

    call = Fingerprint("broadcast", tensor.dtype, tensor.numel(), root)
    inputs = [data] if group.rank() == root else []
    return Collective(call, [tensor], inputs, copy_inline, lambda gloo: gloo.broadcast(data, root).wait())


def gather(outputs: Sequence[Tensor], source: Tensor, root: int) -> Collective:
    """Gather the tensors of all ranks to the root."""
    check_pairs("gather", outputs, [source] * len(outputs))
    _check_sizes("gather", outputs, source)
    data, own = [as_bytes(cpu_view(output)) for output in outputs], as_bytes(cpu_view(source))
    options = GatherOptions()
    options.rootRank = root

    def copy_inline(rows: Sequence[Tensor], _: Splits) -> None:
        for part, row in zip(data, rows, strict=False):
            part.copy_(row[: part.numel()])

    call = Fingerprint("gather", source.dtype, source.numel(), root)
    transfer = lambda gloo: gloo.gather([data] if data else [], [own], options).wait()  # noqa: E731
    return Collective(call, [*outputs, source], [own], copy_inline, transfer)


def scatter(group: Gloo, output: Tensor, sources: Sequence[Tensor], root: int) -> Collective:
    """Scatter the root's tensors, one to each rank."""
    check_pairs("scatter", [output] * len(sources), sources)
    check_dense("scatter", [output])
    _check_sizes("scatter", sources, output)
    data, own = [as_bytes(cpu_view(source)) for source in sources], as_bytes(cpu_view(output))
    options = ScatterOptions()
    options.rootRank = root
    start = offsets([own] * group.size())[group.rank()]

    def copy_inline(rows: Sequence[Tensor], _: Splits) -> None:
        own.copy_(rows[root][start : start + own.numel()])

    call = Fingerprint("scatter", output.dtype, output.numel(), root)
    transfer = lambda gloo: gloo.scatter([own], [data] if data else [], options).wait()  # noqa: E731
    return Collective(call, [output, *sources], data, copy_inline, transfer)


def _check_sizes(name: str, parts: Sequence[Tensor], own: Tensor) -> None:
    if wrong := [part.numel() for part in parts if part.numel() != own.numel()]:
        raise RuntimeError(f"hccl {name}: all parts must be of one size, got {wrong[0]} and {own.numel()} elements")
