"""The collectives that reduce: over all ranks, for the root, or each rank its part."""

from collections.abc import Sequence

from torch import Tensor

from .collective import Collective, Splits, pieces
from .fingerprint import Announced, form
from .gloo import Gloo
from .memory import check_dense, check_pairs, shared
from .reduce_ops import KINDS, all_reduce, combine, named
from .splits import check_parts, elements_of_ranks


def reduced(
    group: Gloo, tensors: Sequence[Tensor], operation: int, name: str = "all_reduce", root: int | None = None
) -> Collective:
    """all_reduce, and reduce where only the root keeps the result."""
    check_dense(name, tensors)
    kinds = [named(name, operation, tensor.dtype) for tensor in tensors]
    data = [shared(tensor) for tensor in tensors]
    keeps = root in (None, group.rank())

    def settle(rows: Sequence[Tensor], _: Splits) -> None:
        for tensor, kind, parts in zip(data, kinds, pieces(rows, data), strict=True):
            if keeps:
                combine(tensor, parts, kind)

    def move(gloo: Gloo) -> None:
        for tensor, kind in zip(data, kinds, strict=True):
            all_reduce(gloo, tensor if keeps else tensor.clone(), kind)

    detail = KINDS.index(kinds[0]) + (0 if root is None else len(KINDS) * root)
    call = Announced(name, tensors[0].dtype, sum(map(Tensor.numel, tensors)), detail, form=form(tensors))
    return Collective(call, tensors, data, settle, move)


def reduce_scatter(
    group: Gloo,
    outputs: Sequence[Tensor],
    givens: Sequence[Tensor],
    operation: int,
    name: str,
    splits: Sequence[int] = (),
) -> Collective:
    """Reduce tensors, of which each rank keeps its part: the rows of `splits`, or as many as every other."""
    check_pairs(name, outputs, givens)
    kind, rank = named(name, operation, givens[0].dtype, bool(splits)), group.rank()
    counts = [_counts(name, output, given, splits, group) for output, given in zip(outputs, givens, strict=True)]
    data = [shared(given).view(-1) for given in givens]
    kept = [shared(output).view(-1) for output in outputs]

    def settle(rows: Sequence[Tensor], _: Splits) -> None:
        for to, count, parts in zip(kept, counts, pieces(rows, data), strict=True):
            combine(to, [part.split(count)[rank] for part in parts], kind)

    def move(gloo: Gloo) -> None:
        for to, count, given in zip(kept, counts, data, strict=True):
            whole = given.clone()
            all_reduce(gloo, whole, kind)
            to.copy_(whole.split(count)[rank])

    sizes = tuple(counts[0]) if splits else ()
    # Told to all as what this rank sends to each; that all split alike follows from what each takes.
    call = Announced(
        name,
        givens[0].dtype,
        sum(map(Tensor.numel, givens)),
        KINDS.index(kind),
        sizes,
        sizes and (sizes[rank],) * len(sizes),
        form(givens),
    )
    return Collective(call, [*outputs, *givens], data, settle, move)


def _counts(name: str, output: Tensor, given: Tensor, splits: Sequence[int], group: Gloo) -> list[int]:
    """Elements of a tensor for each rank."""
    if not splits:
        check_parts(name, given, output, group.size())
        return [output.numel()] * group.size()
    counts = elements_of_ranks(name, given, splits, group.size())
    if output.numel() != counts[group.rank()]:
        raise RuntimeError(
            f"hccl {name}: the output must hold {counts[group.rank()]} elements, as the splits {list(splits)} say "
            f"for rank {group.rank()}, got {output.numel()}"
        )
    return counts
