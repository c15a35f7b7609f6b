"""Messages between two ranks. Both exchange headers first, so that a mismatch is an error on both, not a wait.

HCCL matches the messages of two ranks in the order of the calls, whatever their tags.
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

# Gloo's slots for the sender's header, the receiver's header, and data.
_SENDER, _RECEIVER, _DATA = range(3)
_NUMBERS, _SIZES = 2**10, 2**20


@dataclass(frozen=True)
class PointToPoint:
    """One end of a message: ``name`` is send or recv, ``data`` a CPU view of the tensor ``kept``."""

    name: str
    data: Tensor
    kept: Tensor
    peer: int
    tag: int = 0  # of a node of a graph

    @property
    def sends(self) -> bool:
        """Whether this is the sending end."""
        return self.name == "send"

    def header(self) -> Tensor:
        """Dtype, elements and tag, as they are sent to the other end."""
        return torch.tensor([DTYPES.index(self.data.dtype), self.data.numel(), self.tag])

    def mismatch(self, rank: int, peer_header: Tensor) -> str | None:
        """Describe how the other end's message differs; None if it matches."""
        own, other = (_describe(header) for header in (self.header(), peer_header))
        if own == other:
            return None
        if self.sends:
            return f"rank {rank} sends {own} to rank {self.peer}, which takes {other}"
        return f"rank {self.peer} sends {other} to rank {rank}, which takes {own}"


def _describe(header: Tensor) -> str:
    dtype, elements, tag = header.tolist()
    return f"{elements} elements of {DTYPES[dtype]}" + f" (tag {tag})" * bool(tag)


class Mailbox:
    """Numbers the messages of a rank. Number and size choose the slot, so that messages cannot be mistaken."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()

    def start(self, gloo: Gloo, post: PointToPoint) -> "StartedMessage":
        """Start a message in the background."""
        own, peer_header, peer = post.header(), torch.empty(3, dtype=torch.int64), post.peer
        mine, others = (_SENDER, _RECEIVER) if post.sends else (_RECEIVER, _SENDER)
        works = [gloo.recv([peer_header], peer, others), gloo.send([own], peer, mine)]
        if post.data.numel():
            number = self._counts[post.name, peer] % _NUMBERS
            slot = _DATA + number * _SIZES + crc32(own.numpy().tobytes()) % _SIZES
            works.append((gloo.send if post.sends else gloo.recv)([as_bytes(post.data)], peer, slot))
        self._counts[post.name, peer] += 1
        return StartedMessage(own, peer_header, works)


@dataclass(frozen=True)
class StartedMessage:
    """A message under way: both headers, and Gloo's works, of which the first receives the peer's header."""

    own: Tensor  # kept for Gloo
    peer_header: Tensor
    works: list[Any]


class Message(AsyncWork):
    """A message under way. ``wait`` completes it in the caller's thread; queries of its state start a thread."""

    def __init__(
        self,
        post: PointToPoint,
        rank: int,
        started: StartedMessage,
        explain: Callable[[str, timedelta], str],
        limit: timedelta,
    ) -> None:
        super().__init__(self._finish, post.name, [post.kept], [post.kept])
        self._post, self._rank, self._explain, self._limit = post, rank, explain, limit
        self._started: StartedMessage | None = started
        self._free = Lock()

    def _finish(self) -> None:
        started, self._started = self._started, None  # Gloo's works keep their group's threads alive
        assert started is not None
        receive_header, *rest = started.works
        try:
            receive_header.wait(self._limit)
            if (mismatch := self._post.mismatch(self._rank, started.peer_header)) is None:
                for work in rest:
                    work.wait(self._limit)
                return
        except RuntimeError as error:
            raise RuntimeError(self._explain(str(error), self._limit)) from None
        raise RuntimeError(f"hccl {self._post.name}: {mismatch}")

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return when the message has been sent or received."""
        if self._free.acquire(blocking=False):
            self._limit = timeout if timeout > timedelta(0) else self._limit
            self.perform()
        return super().wait(timeout)

    def is_completed(self) -> bool:
        """Return whether the message has been sent or received, or has failed."""
        self._watch()
        return super().is_completed()

    def is_success(self) -> bool:
        """Return whether the message has been sent or received without an error."""
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
