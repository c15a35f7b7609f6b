"""Asynchronous work: one thread for each group runs its collectives in the order of the calls."""

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

from .modes import Modes

# torch keeps only the C++ half of a Work alive. The Python half, which implements wait, is kept here until then.
_not_waited_for: set[Work] = set()
# C++ may ask a Work for its future right after it has waited for it.
_waited_for: deque[Work] = deque(maxlen=8)


class AsyncWork(Work):
    """A collective that another thread runs. ``wait`` raises its error."""

    def __init__(self, run: Callable[[], None], name: str, results: list[Tensor], keeps: Sequence[Tensor] = ()) -> None:
        super().__init__()
        self._run: Callable[[], None] | None = run
        self._name, self._results, self._keeps = name, results, keeps
        self._modes = Modes.current()
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
        """Run the collective and the callbacks of its future, in the modes of the thread that called it."""
        with self._modes.use():
            try:
                if self._run is not None:
                    self._run()
            except Exception as error:
                self._error = error
            self._run, self._keeps = None, ()
            self._done.set()
            self._ended.set_result(None)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return when the collective has ended; raise its error."""
        limit = timeout.total_seconds()
        if not self._done.wait(limit if limit > 0 else None):
            raise RuntimeError(f"hccl {self._name}: not every rank has arrived after {limit:g} s of waiting")
        _not_waited_for.discard(self)
        _waited_for.append(self)
        if self._error is not None:
            raise self._error
        self._future.wait()  # after wait, the future must be complete
        return True

    def end(self) -> None:
        """Return when the collective has ended, with or without an error."""
        self._done.wait()

    def synchronize(self) -> None:
        """Wait: on the host there is no stream to synchronise with."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether the collective has ended, with or without an error."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Return whether the collective has ended without an error."""
        return self._done.is_set() and self._error is None

    def result(self) -> list[Tensor]:
        """Return the tensors that the collective writes."""
        return self._results

    def get_future(self) -> "torch.futures.Future[Any]":
        """Return the future of the tensors that the collective writes."""
        return self._future


class JoinedWork(Work):
    """Several works as one."""

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__()
        self._works = works
        _not_waited_for.add(self)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return when all have ended; raise the first error."""
        _not_waited_for.discard(self)
        return all([work.wait(timeout) for work in self._works])

    def synchronize(self) -> None:
        """Wait: on the host there is no stream to synchronise with."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether all have ended, with or without an error."""
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        """Return whether all have ended without an error."""
        return all(work.is_success() for work in self._works)

    def result(self) -> list[Tensor]:
        """Return the tensors that the works write."""
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self) -> "torch.futures.Future[Any]":
        """Return the future of the tensors that the works write."""
        ended = torch.futures.collect_all([work.get_future() for work in self._works])
        return ended.then(lambda all_: [tensor for future in all_.value() for tensor in future.value()])


class CoalescedWork(JoinedWork):
    """The calls of a coalescing context as one. As torch_npu's, its future does not hold the tensors."""

    def get_future(self) -> "torch.futures.Future[Any]":
        """Return a future of no tensors."""
        return super().get_future().then(_without_tensors)


def _without_tensors(ended: "torch.futures.Future[Any]") -> list[Tensor]:
    ended.value()  # raises what the calls raised
    return []


def finished(results: list[Tensor]) -> Work:
    """Return a completed work."""
    future: torch.futures.Future[list[Tensor]] = torch.futures.Future()
    future.set_result(results)
    work: Work = _create_work_from_future(future)
    return work


# For callers that only wait.
DONE = finished([])


class Queue:
    """Runs the collectives of a group in the order of submission, in one thread."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[AsyncWork | None] = SimpleQueue()
        self._last: AsyncWork | None = None
        self._thread: Thread | None = None
        self._performing = False

    def submit(self, work: AsyncWork) -> AsyncWork:
        """Queue a work for the group's thread."""
        self._last = work
        self._waiting.put(work)
        if self._thread is None:
            device = torch.npu.current_device()  # type: ignore[attr-defined]
            self._thread = Thread(target=self._run_worker, args=(device,), daemon=True, name="hccl")
            self._thread.start()
        return work

    def is_idle(self) -> bool:
        """Return whether all submitted works have ended, with the callbacks of their futures."""
        return self._last is None or (self._last.is_completed() and not self._performing)

    def end(self) -> None:
        """End the thread after the submitted works."""
        if self._thread is not None:
            self._waiting.put(None)

    def drain(self) -> None:
        """Return when all submitted works have ended."""
        if self._last is not None and not self.is_worker_thread():
            self._last.end()

    def is_worker_thread(self) -> bool:
        """Return whether this is the group's thread, in a callback of a future: it cannot wait for itself."""
        return current_thread() is self._thread

    def _run_worker(self, device: int) -> None:
        """Perform submitted works. Callbacks of their futures run here too, and need the rank's device."""
        torch.npu.set_device(device)  # type: ignore[attr-defined]
        while True:
            work = self._waiting.get()
            if work is None:
                return
            self._performing = True
            work.perform()
            self._performing = False
