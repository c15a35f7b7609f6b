"""All-reduce, reduce and reduce-scatter."""

from collections.abc import Sequence

from torch import Tensor

from .collective import Collective, Splits, parts_by_tensor
from .fingerprint import Fingerprint, layout_hash
from .gloo import Gloo
from .memory import check_dense, check_pairs, cpu_view
from .reduce_ops import KINDS, all_reduce, checked_kind, combine
from .splits import check_parts, elements_per_rank


def reduce(
    group: Gloo, tensors: Sequence[Tensor], operation: int, name: str = "all_reduce", root: int | None = None
) -> Collective:
    """All-reduce; with a `root`, a reduce whose result only the root keeps."""
    check_dense(name, tensors)
    kinds = [checked_kind(name, operation, tensor.dtype) for tensor in tensors]
    data = [cpu_view(tensor) for tensor in tensors]
    keeps = root in (None, group.rank())

    def copy_inline(rows: Sequence[Tensor], _: Splits) -> None:
        for tensor, kind, parts in zip(data, kinds, parts_by_tensor(rows, data), strict=True):
            if keeps:
                combine(tensor, parts, kind)

    def transfer(gloo: Gloo) -> None:
        for tensor, kind in zip(data, kinds, strict=True):
            all_reduce(gloo, tensor if keeps else tensor.clone(), kind)

    detail = KINDS.index(kinds[0]) + (0 if root is None else len(KINDS) * root)
    call = Fingerprint(name, tensors[0].dtype, sum(map(Tensor.numel, tensors)), detail, layout=layout_hash(tensors))
    return Collective(call, tensors, data, copy_inline, transfer)


def reduce_scatter(
    group: Gloo,
    outputs: Sequence[Tensor],
    sources: Sequence[Tensor],
    operation: int,
    name: str,
    splits: Sequence[int] = (),
) -> Collective:
    """Reduce tensors and keep this rank's part: the rows of `splits`, or an equal share."""
    check_pairs(name, outputs, sources)
    kind, rank = checked_kind(name, operation, sources[0].dtype, bool(splits)), group.rank()
    counts = [_counts(name, output, source, splits, group) for output, source in zip(outputs, sources, strict=True)]
    data = [cpu_view(source).view(-1) for source in sources]
    kept = [cpu_view(output).view(-1) for output in outputs]

    def copy_inline(rows: Sequence[Tensor], _: Splits) -> None:
        for to, count, parts in zip(kept, counts, parts_by_tensor(rows, data), strict=True):
            combine(to, [part.split(count)[rank] for part in parts], kind)

    def transfer(gloo: Gloo) -> None:
        for to, count, source in zip(kept, counts, data, strict=True):
            whole = source.clone()
            all_reduce(gloo, whole, kind)
            to.copy_(whole.split(count)[rank])

    sizes = tuple(counts[0]) if splits else ()
    # Announced as what this rank sends to each rank: matching `takes` then imply equal splits on all ranks.
    call = Fingerprint(
        name,
        sources[0].dtype,
        sum(map(Tensor.numel, sources)),
        KINDS.index(kind),
        sizes,
        sizes and (sizes[rank],) * len(sizes),
        layout_hash(sources),
    )
    return Collective(call, [*outputs, *sources], data, copy_inline, transfer)


def _counts(name: str, output: Tensor, source: Tensor, splits: Sequence[int], group: Gloo) -> list[int]:
    """Return how many elements of a tensor each rank keeps."""
    if not splits:
        check_parts(name, source, output, group.size())
        return [output.numel()] * group.size()
    counts = elements_per_rank(name, source, splits, group.size())
    if output.numel() != counts[group.rank()]:
        raise RuntimeError(
            f"hccl {name}: the output must hold {counts[group.rank()]} elements, as the splits {list(splits)} say "
            f"for rank {group.rank()}, got {output.numel()}"
        )
    return counts
