"""Whether all ranks make the same call: they tell each other before data moves, so that none waits in vain."""

from dataclasses import dataclass
from datetime import timedelta

import torch

from .gloo import Gloo

NAMES = [
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_single",
    "barrier",
]
DTYPES = sorted({value for value in vars(torch).values() if isinstance(value, torch.dtype)}, key=str)


@dataclass(frozen=True)
class Call:
    """What a rank is about to do, as the others are told."""

    name: str
    dtype: torch.dtype = torch.uint8
    elements: int = 0
    detail: int = 0  # the reduction or the root
    sends: tuple[int, ...] = ()  # elements for each rank, where they may differ
    takes: tuple[int, ...] = ()  # elements from each rank

    def __str__(self) -> str:
        what = f"{self.name} of {self.dtype}, {self.elements} elements"
        return f"{what} (reduction or root {self.detail})" if self.detail else what

    def _row(self, ranks: int) -> list[int]:
        spare = (0,) * ranks
        numbers = [NAMES.index(self.name), DTYPES.index(self.dtype), self.elements, self.detail]
        return [*numbers, *(self.sends or spare), *(self.takes or spare)]

    def agree(self, gloo: Gloo, limit: timedelta) -> None:
        """Return when all ranks have come to this call; raise on every rank where their calls do not fit."""
        ranks = gloo.size()
        if ranks == 1:
            return
        mine = torch.tensor(self._row(ranks))
        rows = torch.empty(ranks, mine.numel(), dtype=mine.dtype)
        gloo.allgather(list(rows), mine, timeout=limit).wait()
        calls = [_call(row, ranks) for row in rows.tolist()]
        for rank, call in enumerate(calls):
            first = calls[0]
            if (call.name, call.dtype, call.elements, call.detail) != (
                first.name,
                first.dtype,
                first.elements,
                first.detail,
            ):
                raise RuntimeError(
                    f"hccl {self.name}: the ranks differ: rank 0 calls {first}, rank {rank} calls {call}"
                )
        for source, sender in enumerate(calls):
            for target, taker in enumerate(calls):
                if sender.sends[target] != taker.takes[source]:
                    raise RuntimeError(
                        f"hccl {self.name}: rank {source} sends {sender.sends[target]} elements to rank {target}, "
                        f"which takes {taker.takes[source]}"
                    )


def _call(row: list[int], ranks: int) -> Call:
    name, dtype, elements, detail, *splits = row
    return Call(NAMES[name], DTYPES[dtype], elements, detail, tuple(splits[:ranks]), tuple(splits[ranks:]))
