"""States of a generator in a capture: where it stands is known only when the graph is replayed.

A state that is taken while a stream is captured stands for the place where the replay then is, and setting it brings
the replay back there, as checkpoints do before they compute again.
"""

from __future__ import annotations

from typing import Any

import torch
import torch_npu
from torch import Tensor
from torch.accelerator._utils import _get_device_index

from .. import recording

_PLACE = "_graph_quant_place"


class _Place:
    """Where the generator of a device stood in the last replay."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._offset = 0

    def keep(self) -> None:
        self._offset = self._generator.get_offset()

    def go_back(self) -> None:
        self._generator.set_offset(self._offset)


def mend() -> None:
    """Note down that a state is taken or set."""
    random = torch_npu.npu.random
    take, put_back = random.get_rng_state, random.set_rng_state

    def get_rng_state(device: Any = "npu") -> Tensor:
        state: Tensor = take(device)
        if recording.recording[0]:
            place = _Place(torch_npu.npu.default_generators[_get_device_index(device, optional=True)])
            if recording.record_task("get_rng_state", place.keep, [], []):
                setattr(state, _PLACE, place)
        return state

    def set_rng_state(new_state: Tensor, device: Any = "npu") -> None:
        place: _Place | None = getattr(new_state, _PLACE, None)
        if recording.recording[0] and torch_npu.npu.is_current_stream_capturing():
            put_back(new_state, device)  # which refuses another seed
            if place is None:
                raise NotImplementedError(
                    "set_rng_state in a capture takes states of the same capture on the host NPU, "
                    "got one that was taken before it"
                )
            recording.record_task("set_rng_state", place.go_back, [], [])
        elif place is not None:
            raise RuntimeError("set_rng_state: a state that was taken in a capture can be set in this capture alone")
        else:
            put_back(new_state, device)

    for home in (random, torch_npu.npu):
        home.get_rng_state, home.set_rng_state = get_rng_state, set_rng_state
