"""Process groups as operators and graphs use them: by name, on CPU tensors that alias npu memory."""

from collections.abc import Callable, Sequence

from torch import Tensor

from . import all_to_all, gather_scatter, reductions
from .backend import HostHccl
from .reduce_ops import NUMBERS

# By GE's names; GE has no average.
_REDUCTIONS = {"prod" if kind == "product" else kind: number for kind, number in NUMBERS.items() if kind != "avg"}


class HostGroup:
    """A group of the backend hccl; results are new tensors."""

    def __init__(self, hccl: HostHccl) -> None:
        self._hccl = hccl

    @property
    def rank(self) -> int:
        """Rank of this process in the group."""
        return int(self._hccl.rank())

    @property
    def ranks(self) -> int:
        """Number of ranks in the group."""
        return int(self._hccl.size())

    def all_reduce(self, x: Tensor, reduction: str) -> Tensor:
        """Return ``x`` reduced over all ranks."""
        total = x.clone()
        self._hccl.run_and_wait(reductions.reduce(self._hccl, [total], _operation(reduction)))
        return total

    def all_gather(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """Return the rows of all ranks, in rank order."""
        self._check("all_gather", rows)
        gathered = x.new_empty((sum(rows), *x.shape[1:]))
        self._hccl.run_and_wait(gather_scatter.all_gather(gathered.split(list(rows)), x))
        return gathered

    def reduce_scatter(self, x: Tensor, reduction: str, rows: Sequence[int]) -> Tensor:
        """Return this rank's rows of the sum or other reduction over all ranks."""
        self._check("reduce_scatter", rows)
        kept = x.new_empty((rows[self.rank], *x.shape[1:]))
        name = "reduce_scatter_tensor"
        self._hccl.run_and_wait(reductions.reduce_scatter(self._hccl, [kept], [x], _operation(reduction), name, rows))
        return kept

    def broadcast(self, x: Tensor, root: int) -> Tensor:
        """Return the root's tensor."""
        result = x.clone()
        self._hccl.run_and_wait(gather_scatter.broadcast(self._hccl, result, root))
        return result

    def all_to_all(self, x: Tensor, sends: Sequence[int], takes: Sequence[int]) -> Tensor:
        """Return the rows that all ranks send to this one."""
        received = x.new_empty((sum(takes), *x.shape[1:]))
        self._hccl.run_and_wait(all_to_all.all_to_all_single(self._hccl, received, x, takes, sends))
        return received

    def send(self, x: Tensor, target: int, tag: int) -> None:
        """Send ``x`` to rank ``target``."""
        self._hccl.post("send", x, target, tag).wait()

    def receive(self, into: Tensor, source: int, tag: int) -> Tensor:
        """Receive ``into`` from rank ``source``, and return it."""
        self._hccl.post("recv", into, source, tag).wait()
        return into

    def window(self, rank: int) -> Tensor:
        """Return the bytes of another rank's window."""
        return self._hccl.windows.of(rank)

    @property
    def limit(self) -> float:
        """Timeout of a wait for other ranks, in seconds."""
        return self._hccl.limit.total_seconds()

    def _check(self, name: str, rows: Sequence[int]) -> None:
        if len(rows) != self.ranks:
            raise RuntimeError(f"hccl {name}: the group has {self.ranks} ranks, got rows for {len(rows)}")


def _operation(reduction: str) -> int:
    if reduction not in _REDUCTIONS:
        raise RuntimeError(f"hccl: the reduction must be one of {', '.join(_REDUCTIONS)}, got {reduction!r}")
    return _REDUCTIONS[reduction]


def group_finder(backends: dict[str, HostHccl]) -> Callable[[str], HostGroup | None]:
    """Return a function that finds a group of this process by name."""

    def find(name: str) -> HostGroup | None:
        for hccl in backends.values():
            if hccl.get_hccl_comm_name() == name:
                return HostGroup(hccl)
        return None

    return find
