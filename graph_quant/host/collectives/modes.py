"""The modes of a thread that other threads keep when they run its collectives."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

_AUTOCAST_DEVICES = ("npu", "cpu")


class Modes(NamedTuple):
    """Inference mode, grad mode, and per device type whether autocast is on and its dtype."""

    inference: bool
    grad: bool
    autocast: tuple[tuple[bool, torch.dtype], ...]

    @classmethod
    def current(cls) -> "Modes":
        """Return the modes of this thread."""
        autocast = tuple(
            (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in _AUTOCAST_DEVICES
        )
        return cls(torch.is_inference_mode_enabled(), torch.is_grad_enabled(), autocast)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Work in these modes inside the block."""
        outer = Modes.current()
        if outer == self:
            yield
            return
        with torch.inference_mode(self.inference), torch.set_grad_enabled(self.grad):
            self._set_autocast()
            try:
                yield
            finally:
                outer._set_autocast()

    def _set_autocast(self) -> None:
        for device, (enabled, dtype) in zip(_AUTOCAST_DEVICES, self.autocast, strict=True):
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
