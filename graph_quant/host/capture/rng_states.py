"""RNG states in a capture: the offset of a generator is known only when the graph is replayed.

A state that is taken while a stream is captured is a reference to the offset at that point of the replay; setting it
restores that offset, as activation checkpointing does before it recomputes.
"""

from __future__ import annotations

from typing import Any

import torch
import torch_npu
from torch import Tensor
from torch.accelerator._utils import _get_device_index

from .. import recording

_OFFSET = "_graph_quant_offset"


class _ReplayOffset:
    """The offset of a device's generator at one point of the last replay."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._offset = 0

    def save(self) -> None:
        self._offset = self._generator.get_offset()

    def restore(self) -> None:
        self._generator.set_offset(self._offset)


def patch() -> None:
    """Record in captures that a state is taken or set."""
    random = torch_npu.npu.random
    get_state, set_state = random.get_rng_state, random.set_rng_state

    def get_rng_state(device: Any = "npu") -> Tensor:
        state: Tensor = get_state(device)
        if recording.recording[0]:
            offset = _ReplayOffset(torch_npu.npu.default_generators[_get_device_index(device, optional=True)])
            if recording.record_task("get_rng_state", offset.save, [], []):
                setattr(state, _OFFSET, offset)
        return state

    def set_rng_state(new_state: Tensor, device: Any = "npu") -> None:
        offset: _ReplayOffset | None = getattr(new_state, _OFFSET, None)
        if recording.recording[0] and torch_npu.npu.is_current_stream_capturing():
            set_state(new_state, device)  # which refuses another seed
            if offset is None:
                raise NotImplementedError(
                    "set_rng_state in a capture takes states of the same capture on the host NPU, "
                    "got one that was taken before it"
                )
            recording.record_task("set_rng_state", offset.restore, [], [])
        elif offset is not None:
            raise RuntimeError("set_rng_state: a state that was taken in a capture can be set in this capture alone")
        else:
            set_state(new_state, device)

    for module in (random, torch_npu.npu):
        module.get_rng_state, module.set_rng_state = get_rng_state, set_rng_state
