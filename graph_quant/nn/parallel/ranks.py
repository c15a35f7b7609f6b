"""The ranks that a module is shared among, and what they tell each other: traceable, and nodes of a graph."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce


class Ranks:
    """A group, as the modules that are shared among it use it."""

    def __init__(self, group: ProcessGroup | None = None) -> None:
        if not dist.is_initialized():
            raise RuntimeError("parallelize_: torch.distributed must be initialised first (init_process_group)")
        found = group or dist.group.WORLD
        assert found is not None
        self.group = found
        self.rank, self.count = dist.get_rank(found), dist.get_world_size(found)

    def part(self, name: str, size: int, unit: int = 1) -> slice:
        """The part of ``size`` that belongs to this rank, a multiple of ``unit``."""
        if size % (self.count * unit):
            of_units = f", in units of {unit}" if unit > 1 else ""
            raise ValueError(f"parallelize_: {name} must split evenly over {self.count} ranks{of_units}, got {size}")
        length = size // self.count
        return slice(self.rank * length, (self.rank + 1) * length)

    def sum(self, x: Tensor) -> Tensor:
        """What all ranks have, added up."""
        return all_reduce(x, "sum", self.group) + 0  # an asynchronous result becomes a plain one

    def joined(self, x: Tensor) -> Tensor:
        """The last dimensions of all ranks, one after the other."""
        if self.count == 1:
            return x
        parts = all_gather_tensor(x.unsqueeze(0).contiguous(), 0, self.group)
        return torch.cat(list(parts.unbind(0)), -1)
