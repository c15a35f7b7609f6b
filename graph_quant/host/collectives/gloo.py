"""Gloo, as the collectives use it."""

from typing import Any, TypeAlias

from torch.distributed import ProcessGroupGloo

Gloo: TypeAlias = Any  # a ProcessGroupGloo; torch's stubs leave its collectives out
plain_gloo: Any = ProcessGroupGloo  # for its own methods, which HostHccl overrides
