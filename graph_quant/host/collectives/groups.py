"""Groups as operators and graphs use them: by name, on CPU tensors over the memory of npu tensors."""

from collections.abc import Callable, Sequence

from torch import Tensor

from . import all_to_all, gather_scatter, reductions
from .backend import HostHccl
from .reduce_ops import NUMBERS

# By GE's names, which has no average.
_REDUCTIONS = {"prod" if kind == "product" else kind: number for kind, number in NUMBERS.items() if kind != "avg"}


class HostGroup:
    """A group of the backend hccl; results are new tensors."""

    def __init__(self, hccl: HostHccl) -> None:
        self._hccl = hccl

    @property
    def rank(self) -> int:
        """The place of this rank in the group."""
        return int(self._hccl.rank())

    @property
    def ranks(self) -> int:
        """How many ranks the group has."""
        return int(self._hccl.size())

    def all_reduce(self, x: Tensor, reduction: str) -> Tensor:
        """Return what all ranks have, reduced."""
        reduced = x.clone()
        self._hccl.carry_out(reductions.reduced(self._hccl, [reduced], _operation(reduction)))
        return reduced

    def all_gather(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """Return the rows of all ranks."""
        self._check("all_gather", rows)
        gathered = x.new_empty((sum(rows), *x.shape[1:]))
        self._hccl.carry_out(gather_scatter.all_gather(gathered.split(list(rows)), x))
        return gathered

    def reduce_scatter(self, x: Tensor, reduction: str, rows: Sequence[int]) -> Tensor:
        """Return the rows of this rank, reduced over all."""
        self._check("reduce_scatter", rows)
        kept = x.new_empty((rows[self.rank], *x.shape[1:]))
        name = "reduce_scatter_tensor"
        self._hccl.carry_out(reductions.reduce_scatter(self._hccl, [kept], [x], _operation(reduction), name, rows))
        return kept

    def broadcast(self, x: Tensor, root: int) -> Tensor:
        """Return what the root has."""
        given = x.clone()
        self._hccl.carry_out(gather_scatter.broadcast(self._hccl, given, root))
        return given

    def all_to_all(self, x: Tensor, sends: Sequence[int], takes: Sequence[int]) -> Tensor:
        """Return the rows that each rank has for this one."""
        came = x.new_empty((sum(takes), *x.shape[1:]))
        self._hccl.carry_out(all_to_all.all_to_all_single(self._hccl, came, x, takes, sends))
        return came

    def send(self, x: Tensor, target: int, tag: int) -> None:
        """Give a rank x."""
        self._hccl.post("send", x, target, tag).wait()

    def receive(self, into: Tensor, source: int, tag: int) -> Tensor:
        """Return what a rank gives."""
        self._hccl.post("recv", into, source, tag).wait()
        return into

    def window(self, rank: int) -> Tensor:
        """Return the bytes of another rank's window."""
        return self._hccl.windows.of(rank)

    @property
    def limit(self) -> float:
        """How many seconds a rank waits for another."""
        return self._hccl.limit.total_seconds()

    def _check(self, name: str, rows: Sequence[int]) -> None:
        if len(rows) != self.ranks:
            raise RuntimeError(f"hccl {name}: the group has {self.ranks} ranks, got rows for {len(rows)}")


def _operation(reduction: str) -> int:
    if reduction not in _REDUCTIONS:
        raise RuntimeError(f"hccl: the reduction must be one of {', '.join(_REDUCTIONS)}, got {reduction!r}")
    return _REDUCTIONS[reduction]


def finder(backends: dict[str, HostHccl]) -> Callable[[str], HostGroup | None]:
    """Return how a group is found among those of this process."""

    def find(name: str) -> HostGroup | None:
        for hccl in backends.values():
            if hccl.get_hccl_comm_name() == name:
                return HostGroup(hccl)
        return None

    return find
