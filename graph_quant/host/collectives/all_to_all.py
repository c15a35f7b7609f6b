"""The collectives in which each rank has something for each."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .collective import Collective, Splits
from .fingerprint import Announced, room
from .gloo import Gloo
from .memory import as_bytes, check_pairs, shared
from .splits import elements_of_ranks


def all_to_all_single(
    group: Gloo, output: Tensor, given: Tensor, takes: Sequence[int], sends: Sequence[int]
) -> Collective:
    """Exchange rows: `sends[i]` of them go to rank i, `takes[i]` come from it; all the same number where empty."""
    name = "all_to_all_single"
    check_pairs(name, [output], [given])
    ranks, rank, size = group.size(), group.rank(), given.dtype.itemsize
    out_rows, in_rows = elements_of_ranks(name, output, takes, ranks), elements_of_ranks(name, given, sends, ranks)
    to, of = as_bytes(shared(output)), as_bytes(shared(given))
    out_bytes, in_bytes = [count * size for count in out_rows], [count * size for count in in_rows]

    def settle(rows: Sequence[Tensor], splits: Splits) -> None:
        for part, row, counts in zip(to.split(out_bytes), rows, splits, strict=True):
            begin = sum(counts[:rank]) * size
            part.copy_(row[begin : begin + part.numel()])

    call = Announced(name, given.dtype, 0, 0, tuple(in_rows), tuple(out_rows))
    move = lambda gloo: _done(gloo.alltoall_base(to, of, out_bytes, in_bytes))  # noqa: E731
    return Collective(call, [output, given], [of], settle, move)


def all_to_all(group: Gloo, outputs: Sequence[Tensor], givens: Sequence[Tensor]) -> Collective:
    """Exchange tensors: the i-th goes to rank i."""
    name = "all_to_all"
    check_pairs(name, outputs, givens)
    data, of = [as_bytes(shared(output)) for output in outputs], [as_bytes(shared(given)) for given in givens]
    sends, takes = tuple(given.numel() for given in givens), tuple(output.numel() for output in outputs)
    rank, size = group.rank(), givens[0].dtype.itemsize

    def settle(rows: Sequence[Tensor], splits: Splits) -> None:
        for part, row, counts in zip(data, rows, splits, strict=True):
            begin = sum(room(count * size) for count in counts[:rank])
            part.copy_(row[begin : begin + part.numel()])

    def move(gloo: Gloo) -> None:
        to = torch.empty(sum(part.numel() for part in data), dtype=torch.uint8)
        out_bytes, in_bytes = [part.numel() for part in data], [part.numel() for part in of]
        gloo.alltoall_base(to, torch.cat(of), out_bytes, in_bytes).wait()
        for part, came in zip(data, to.split(out_bytes), strict=True):
            part.copy_(came)

    return Collective(Announced(name, givens[0].dtype, 0, 0, sends, takes), [*outputs, *givens], of, settle, move)


def _done(work: torch.distributed.Work) -> None:
    work.wait()
