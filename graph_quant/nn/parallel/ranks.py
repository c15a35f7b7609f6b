"""The ranks that share a module, and their collectives, which are traceable and become graph nodes."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce


class Ranks:
    """A process group, as parallel modules use it."""

    def __init__(self, group: ProcessGroup | None = None) -> None:
        if not dist.is_initialized():
            raise RuntimeError("parallelize_: torch.distributed must be initialised first (init_process_group)")
        group = group or dist.group.WORLD
        assert group is not None
        self.group = group
        self.rank, self.count = dist.get_rank(group), dist.get_world_size(group)

    def part(self, name: str, size: int, unit: int = 1) -> slice:
        """Return this rank's slice of ``size`` elements, a multiple of ``unit`` long."""
        if size % (self.count * unit):
            of_units = f", in units of {unit}" if unit > 1 else ""
            raise ValueError(f"parallelize_: {name} must split evenly over {self.count} ranks{of_units}, got {size}")
        length = size // self.count
        return slice(self.rank * length, (self.rank + 1) * length)

    def all_reduce(self, x: Tensor) -> Tensor:
        """Return the sum of ``x`` over all ranks."""
        return all_reduce(x, "sum", self.group) + 0  # waits: the result of the functional collective is asynchronous

    def all_gather(self, x: Tensor) -> Tensor:
        """Concatenate the tensors of all ranks along the last dimension."""
        if self.count == 1:
            return x
        parts = all_gather_tensor(x.unsqueeze(0).contiguous(), 0, self.group)
        return torch.cat(list(parts.unbind(0)), -1)
