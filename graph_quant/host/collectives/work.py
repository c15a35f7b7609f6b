"""Work under way: one thread for each group runs its collectives in the order in which they were asked for."""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from queue import SimpleQueue
from threading import Event, Thread, current_thread
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]
from torch.distributed import Work

# torch keeps the C++ half of a work only; the Python half, which knows how to wait, lives until somebody has waited.
_not_waited_for: set[Work] = set()
# C++ may ask a work for its future right after it has waited for it.
_waited_for: deque[Work] = deque(maxlen=8)


class AsyncWork(Work):
    """A collective that another thread runs; whoever waits for it is told what went wrong."""

    def __init__(self, run: Callable[[], None], name: str, results: list[Tensor], keeps: Sequence[Tensor] = ()) -> None:
        super().__init__()
        self._run: Callable[[], None] | None = run
        self._name, self._results, self._keeps = name, results, keeps
        self._done = Event()
        self._error: Exception | None = None
        self._ended: torch.futures.Future[Any] = torch.futures.Future()
        self._future = self._ended.then(self._value)
        _not_waited_for.add(self)

    def _value(self, _: object) -> list[Tensor]:
        if self._error is not None:
            raise self._error
        return self._results

    def perform(self) -> None:
        """Run the collective, in the thread of its group."""
        try:
            if self._run is not None:
                self._run()
        except Exception as error:
            self._error = error
        self._run, self._keeps = None, ()
        self._done.set()
        self._ended.set_result(None)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return when the collective has ended; raise what it raised."""
        limit = timeout.total_seconds()
        if not self._done.wait(limit if limit > 0 else None):
            raise RuntimeError(f"hccl {self._name}: not every rank has arrived after {limit:g} s of waiting")
        _not_waited_for.discard(self)
        _waited_for.append(self)
        if self._error is not None:
            raise self._error
        self._future.wait()  # who has waited takes the future for completed
        return True

    def end(self) -> None:
        """Return when the collective has ended, well or badly."""
        self._done.wait()

    def synchronize(self) -> None:
        """Wait: memory is the only thing there is to synchronise with."""
        self.wait()

    def is_completed(self) -> bool:
        """Tell whether the collective has ended, well or badly."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Tell whether it has ended well."""
        return self._done.is_set() and self._error is None

    def result(self) -> list[Tensor]:
        """Return the tensors that the collective writes."""
        return self._results

    def get_future(self) -> "torch.futures.Future[Any]":
        """Return the future of the tensors that the collective writes."""
        return self._future


class JoinedWork(Work):
    """Several works, which whoever waits for this one waits for."""

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__()
        self._works = works
        _not_waited_for.add(self)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return when all have ended; raise what the first to fail raised."""
        _not_waited_for.discard(self)
        return all([work.wait(timeout) for work in self._works])

    def synchronize(self) -> None:
        """Wait: memory is the only thing there is to synchronise with."""
        self.wait()

    def is_completed(self) -> bool:
        """Tell whether all have ended, well or badly."""
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        """Tell whether all have ended well."""
        return all(work.is_success() for work in self._works)

    def result(self) -> list[Tensor]:
        """Return the tensors that they write."""
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self) -> "torch.futures.Future[Any]":
        """Return the future of the tensors that they write."""
        ended = torch.futures.collect_all([work.get_future() for work in self._works])
        return ended.then(lambda all_: [tensor for future in all_.value() for tensor in future.value()])


def finished(results: list[Tensor]) -> Work:
    """Return the work of a collective that has ended well."""
    future: torch.futures.Future[list[Tensor]] = torch.futures.Future()
    future.set_result(results)
    work: Work = _create_work_from_future(future)
    return work


# For callers that do nothing with it but wait.
DONE = finished([])


class Queue:
    """The collectives of a group, first come first served."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[AsyncWork | None] = SimpleQueue()
        self._last: AsyncWork | None = None
        self._thread: Thread | None = None
        self._performing = False

    def submit(self, work: AsyncWork) -> AsyncWork:
        """Let the group's thread perform a work after those before it."""
        self._last = work
        self._waiting.put(work)
        if self._thread is None:
            device = torch.npu.current_device()  # type: ignore[attr-defined]
            self._thread = Thread(target=self._serve, args=(device,), daemon=True, name="hccl")
            self._thread.start()
        return work

    def is_idle(self) -> bool:
        """Tell whether all that was asked for has ended, with what is chained to it."""
        return self._last is None or (self._last.is_completed() and not self._performing)

    def end(self) -> None:
        """Let the thread end after what was asked for: nothing more will be."""
        if self._thread is not None:
            self._waiting.put(None)

    def settle(self) -> None:
        """Return when all that was asked for has ended."""
        if self._last is not None and not self.is_here():
            self._last.end()

    def is_here(self) -> bool:
        """Tell whether this is the group's thread, in what is chained to a collective: it cannot wait for itself."""
        return current_thread() is self._thread

    def _serve(self, device: int) -> None:
        """Perform what comes; what is chained to its futures works on the rank's device here too."""
        torch.npu.set_device(device)  # type: ignore[attr-defined]
        while True:
            work = self._waiting.get()
            if work is None:
                return
            self._performing = True
            work.perform()
            self._performing = False
