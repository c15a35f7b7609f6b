"""Messages between two ranks: both tell each other what they send and take, so that neither gets or waits for another.

HCCL takes the messages of two ranks in the order of the calls, whatever their tags.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock, Thread
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from .fingerprint import DTYPES
from .gloo import Gloo
from .memory import as_bytes
from .work import AsyncWork

# Where Gloo keeps apart what the sender tells, what the taker tells, and data.
_SENDER, _TAKER, _DATA = range(3)
_NUMBERS, _SIZES = 2**10, 2**20


@dataclass(frozen=True)
class Post:
    """What one end of a message does: ``name`` is send or recv, ``data`` CPU memory, ``kept`` the tensor it is of."""

    name: str
    data: Tensor
    kept: Tensor
    peer: int
    tag: int = 0  # of a node of a graph

    @property
    def sends(self) -> bool:
        """Whether this is the end that gives."""
        return self.name == "send"

    def told(self) -> Tensor:
        """What the other end is told."""
        return torch.tensor([DTYPES.index(self.data.dtype), self.data.numel(), self.tag])

    def mistake(self, rank: int, heard: Tensor) -> str | None:
        """Say where the other end is about something else."""
        own, other = (_spelled(told) for told in (self.told(), heard))
        if own == other:
            return None
        if self.sends:
            return f"rank {rank} sends {own} to rank {self.peer}, which takes {other}"
        return f"rank {self.peer} sends {other} to rank {rank}, which takes {own}"


def _spelled(told: Tensor) -> str:
    dtype, elements, tag = told.tolist()
    return f"{elements} elements of {DTYPES[dtype]}" + f" (tag {tag})" * bool(tag)


class Mailbox:
    """The messages of a rank. Each goes by a number of its own and by its size: no other can come in its place."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()

    def start(self, gloo: Gloo, post: Post) -> "Started":
        """Start a message, which goes on while the caller does."""
        own, heard, peer = post.told(), torch.empty(3, dtype=torch.int64), post.peer
        mine, others = (_SENDER, _TAKER) if post.sends else (_TAKER, _SENDER)
        works = [gloo.recv([heard], peer, others), gloo.send([own], peer, mine)]
        if post.data.numel():
            number = self._counts[post.name, peer] % _NUMBERS
            slot = _DATA + number * _SIZES + crc32(own.numpy().tobytes()) % _SIZES
            works.append((gloo.send if post.sends else gloo.recv)([as_bytes(post.data)], peer, slot))
        self._counts[post.name, peer] += 1
        return Started(own, heard, works)


@dataclass(frozen=True)
class Started:
    """A message under way: what both ends tell, and Gloo's works, of which the first hears the other end."""

    own: Tensor  # kept for Gloo
    heard: Tensor
    works: list[Any]


class Message(AsyncWork):
    """A message under way. Whoever waits for it carries it to its end; who only looks has a thread do so."""

    def __init__(
        self, post: Post, rank: int, started: Started, explain: Callable[[str, timedelta], str], limit: timedelta
    ) -> None:
        super().__init__(self._finish, post.name, [post.kept], [post.kept])
        self._post, self._rank, self._explain, self._limit = post, rank, explain, limit
        self._started: Started | None = started
        self._free = Lock()

    def _finish(self) -> None:
        started, self._started = self._started, None  # Gloo's works keep the threads of their group
        assert started is not None
        hears, *rest = started.works
        try:
            hears.wait(self._limit)
            if (mistake := self._post.mistake(self._rank, started.heard)) is None:
                for work in rest:
                    work.wait(self._limit)
                return
        except RuntimeError as error:
            raise RuntimeError(self._explain(str(error), self._limit)) from None
        raise RuntimeError(f"hccl {self._post.name}: {mistake}")

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return when the message has come or gone."""
        if self._free.acquire(blocking=False):
            self._limit = timeout if timeout > timedelta(0) else self._limit
            self.perform()
        return super().wait(timeout)

    def is_completed(self) -> bool:
        """Tell whether the message has come or gone, or failed to."""
        self._watch()
        return super().is_completed()

    def is_success(self) -> bool:
        """Tell whether it has come or gone well."""
        self._watch()
        return super().is_success()

    def get_future(self) -> "torch.futures.Future[Any]":
        """Return the future of the tensor that is sent or received."""
        self._watch()
        return super().get_future()

    def _watch(self) -> None:
        if self._free.acquire(blocking=False):
            device = torch.npu.current_device()  # type: ignore[attr-defined]
            Thread(target=self._carry, args=(device,), daemon=True, name="hccl message").start()

    def _carry(self, device: int) -> None:
        torch.npu.set_device(device)  # type: ignore[attr-defined]
        self.perform()
