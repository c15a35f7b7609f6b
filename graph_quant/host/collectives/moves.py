"""Each collective: what the other ranks are told about it, and how Gloo carries it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.distributed import GatherOptions, ScatterOptions

from .agreement import Call
from .gloo import Gloo
from .memory import as_bytes, check_dense, shared
from .reduction import KINDS, all_reduce, named

Move = Callable[[Gloo], None]
Plan = tuple[Call, Move]


def barrier() -> Plan:
    """Wait for all: that they agree to is all there is."""
    return Call("barrier"), lambda _: None


def reduced(tensors: Sequence[Tensor], operation: int, name: str = "all_reduce", root: int | None = None) -> Plan:
    """all_reduce, and reduce where only the root keeps the result."""
    check_dense(name, tensors)
    kinds = [named(name, operation, tensor.dtype) for tensor in tensors]
    data = [shared(tensor) for tensor in tensors]

    def move(gloo: Gloo) -> None:
        for tensor, kind in zip(data, kinds, strict=True):
            whole = tensor if root in (None, gloo.rank()) else tensor.clone()
            all_reduce(gloo, whole, kind)

    detail = KINDS.index(kinds[0]) + (0 if root is None else len(KINDS) * root)
    return Call(name, tensors[0].dtype, sum(map(Tensor.numel, tensors)), detail), move


def all_gather(outputs: Sequence[Tensor], given: Tensor) -> Plan:
    """Gather into a list; where sizes differ, each rank broadcasts its part."""
    name = "all_gather"
    check_dense(name, [*outputs, given])
    sizes = tuple(output.numel() for output in outputs)
    data, own = [as_bytes(shared(output)) for output in outputs], as_bytes(shared(given))

    def move(gloo: Gloo) -> None:
        if len(set(sizes)) == 1:
            gloo.allgather(data, own).wait()
            return
        data[gloo.rank()].copy_(own)
        for rank, part in enumerate(data):
            if part.numel():
                gloo.broadcast(part, rank).wait()

    return Call(name, given.dtype, 0, 0, (given.numel(),) * len(outputs), sizes), move


def all_gather_into_tensor(outputs: Sequence[Tensor], givens: Sequence[Tensor]) -> Plan:
    """Gather into tensors, one part after the other."""
    name = "all_gather_into_tensor"
    check_dense(name, [*outputs, *givens])
    pairs = [(as_bytes(shared(output)), as_bytes(shared(given))) for output, given in zip(outputs, givens, strict=True)]

    def move(gloo: Gloo) -> None:
        for output, given in pairs:
            _check_parts(name, output, given, gloo)
            gloo.allgather(list(output.chunk(gloo.size())), given).wait()

    return Call(name, givens[0].dtype, sum(map(Tensor.numel, givens))), move


def reduce_scatter(outputs: Sequence[Tensor], givens: Sequence[Tensor], operation: int, name: str) -> Plan:
    """Reduce tensors, of which each rank keeps its part."""
    check_dense(name, [*outputs, *givens])
    kind = named(name, operation, givens[0].dtype)
    pairs = [(shared(output).view(-1), shared(given).view(-1)) for output, given in zip(outputs, givens, strict=True)]

    def move(gloo: Gloo) -> None:
        for output, given in pairs:
            _check_parts(name, given, output, gloo)
            whole = given.clone()
            all_reduce(gloo, whole, kind)
            output.copy_(whole.chunk(gloo.size())[gloo.rank()])

    return Call(name, givens[0].dtype, sum(map(Tensor.numel, givens)), KINDS.index(kind)), move


def _check_parts(name: str, whole: Tensor, part: Tensor, gloo: Gloo) -> None:
    if whole.numel() != part.numel() * gloo.size():
        ratio = f"got {whole.nbytes} and {part.nbytes} bytes for {gloo.size()} ranks"
        raise RuntimeError(f"hccl {name}: the whole must be as large as a part of each rank, {ratio}")


def broadcast(tensor: Tensor, root: int) -> Plan:
    """Give all ranks what the root has."""
    check_dense("broadcast", [tensor])
    data = as_bytes(shared(tensor))
    return Call("broadcast", tensor.dtype, tensor.numel(), root), lambda gloo: _done(gloo.broadcast(data, root))


def gather(outputs: Sequence[Tensor], given: Tensor, root: int) -> Plan:
    """Give the root what all ranks have."""
    check_dense("gather", [*outputs, given])
    data, own = [as_bytes(shared(output)) for output in outputs], as_bytes(shared(given))
    options = GatherOptions()
    options.rootRank = root
    call = Call("gather", given.dtype, given.numel(), root)
    return call, lambda gloo: _done(gloo.gather([data] if data else [], [own], options))


def scatter(output: Tensor, givens: Sequence[Tensor], root: int) -> Plan:
    """Give each rank its part of what the root has."""
    check_dense("scatter", [output, *givens])
    data, own = [as_bytes(shared(given)) for given in givens], as_bytes(shared(output))
    options = ScatterOptions()
    options.rootRank = root
    call = Call("scatter", output.dtype, output.numel(), root)
    return call, lambda gloo: _done(gloo.scatter([own], [data] if data else [], options))


def all_to_all_single(output: Tensor, given: Tensor, takes: Sequence[int], sends: Sequence[int], ranks: int) -> Plan:
    """Exchange rows: `sends[i]` of them go to rank i, `takes[i]` come from it; all the same number where empty."""
    name = "all_to_all_single"
    check_dense(name, [output, given])
    out_rows, in_rows = _rows(name, output, takes, ranks), _rows(name, given, sends, ranks)
    to, of = as_bytes(shared(output)), as_bytes(shared(given))
    return _exchange(name, given.dtype, to, of, out_rows, in_rows)


def _rows(name: str, tensor: Tensor, splits: Sequence[int], ranks: int) -> list[int]:
    """Elements for each rank."""
    rows = tensor.size(0) if tensor.dim() else 1
    if not splits:
        if rows % ranks:
            raise RuntimeError(f"hccl {name}: {rows} rows cannot be split evenly over {ranks} ranks")
        splits = [rows // ranks] * ranks
    if len(splits) != ranks or sum(splits) != rows:
        raise RuntimeError(f"hccl {name}: splits must be {ranks} and add up to {rows} rows, got {list(splits)}")
    return [rows_of_rank * (tensor.numel() // max(rows, 1)) for rows_of_rank in splits]


def all_to_all(outputs: Sequence[Tensor], givens: Sequence[Tensor]) -> Plan:
    """Exchange tensors: the i-th goes to rank i."""
    name = "all_to_all"
    check_dense(name, [*outputs, *givens])
    data = [as_bytes(shared(output)) for output in outputs]
    of = torch.cat([as_bytes(shared(given)) for given in givens])
    to = torch.empty(sum(part.numel() for part in data), dtype=torch.uint8)
    sends, takes = [given.numel() for given in givens], [output.numel() for output in outputs]
    call, exchange = _exchange(name, givens[0].dtype, to, of, takes, sends)

    def move(gloo: Gloo) -> None:
        exchange(gloo)
        for part, came in zip(data, to.split([part.numel() for part in data]), strict=True):
            part.copy_(came)

    return call, move


def _exchange(name: str, dtype: torch.dtype, to: Tensor, of: Tensor, takes: list[int], sends: list[int]) -> Plan:
    out_bytes, in_bytes = [count * dtype.itemsize for count in takes], [count * dtype.itemsize for count in sends]
    call = Call(name, dtype, 0, 0, tuple(sends), tuple(takes))
    return call, lambda gloo: _done(gloo.alltoall_base(to, of, out_bytes, in_bytes))


def _done(work: torch.distributed.Work) -> None:
    work.wait()
