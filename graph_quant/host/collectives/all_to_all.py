"""All-to-all exchanges."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .collective import Collective, Splits
from .fingerprint import Fingerprint, aligned_size
from .gloo import Gloo
from .memory import as_bytes, check_pairs, cpu_view
from .splits import elements_per_rank


def all_to_all_single(
    group: Gloo, output: Tensor, source: Tensor, takes: Sequence[int], sends: Sequence[int]
) -> Collective:
    """Exchange rows: `sends[i]` of them go to rank i, `takes[i]` come from it. Empty means equal parts."""
    name = "all_to_all_single"
    check_pairs(name, [output], [source])
    ranks, rank, size = group.size(), group.rank(), source.dtype.itemsize
    out_rows, in_rows = elements_per_rank(name, output, takes, ranks), elements_per_rank(name, source, sends, ranks)
    to, of = as_bytes(cpu_view(output)), as_bytes(cpu_view(source))
    out_bytes, in_bytes = [count * size for count in out_rows], [count * size for count in in_rows]

    def copy_inline(rows: Sequence[Tensor], splits: Splits) -> None:
        for part, row, counts in zip(to.split(out_bytes), rows, splits, strict=True):
            begin = sum(counts[:rank]) * size
            part.copy_(row[begin : begin + part.numel()])

    call = Fingerprint(name, source.dtype, 0, 0, tuple(in_rows), tuple(out_rows))
    transfer = lambda gloo: gloo.alltoall_base(to, of, out_bytes, in_bytes).wait()  # noqa: E731
    return Collective(call, [output, source], [of], copy_inline, transfer)


def all_to_all(group: Gloo, outputs: Sequence[Tensor], sources: Sequence[Tensor]) -> Collective:
    """Exchange tensors: the i-th input goes to rank i."""
    name = "all_to_all"
    check_pairs(name, outputs, sources)
    data, of = [as_bytes(cpu_view(output)) for output in outputs], [as_bytes(cpu_view(source)) for source in sources]
    sends, takes = tuple(source.numel() for source in sources), tuple(output.numel() for output in outputs)
    rank, size = group.rank(), sources[0].dtype.itemsize

    def copy_inline(rows: Sequence[Tensor], splits: Splits) -> None:
        for part, row, counts in zip(data, rows, splits, strict=True):
            begin = sum(aligned_size(count * size) for count in counts[:rank])
            part.copy_(row[begin : begin + part.numel()])

    def transfer(gloo: Gloo) -> None:
        to = torch.empty(sum(part.numel() for part in data), dtype=torch.uint8)
        out_bytes, in_bytes = [part.numel() for part in data], [part.numel() for part in of]
        gloo.alltoall_base(to, torch.cat(of), out_bytes, in_bytes).wait()
        for part, came in zip(data, to.split(out_bytes), strict=True):
            part.copy_(came)

    return Collective(
        Fingerprint(name, sources[0].dtype, 0, 0, sends, takes), [*outputs, *sources], of, copy_inline, transfer
    )
