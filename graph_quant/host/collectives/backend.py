"""The backend hccl of a group on the host: HCCL's calls on npu tensors, implemented with Gloo."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from threading import Lock
from typing import Any, cast
from weakref import ref

from torch import Tensor
from torch.distributed import ProcessGroupGloo, Work

from .. import recording
from . import all_to_all, gather_scatter, reductions
from .collective import Collective
from .failures import Failures
from .fingerprint import ExchangeResult, FingerprintExchange
from .gloo import Gloo
from .memory import check_dense, cpu_view
from .point_to_point import Mailbox, Message, PointToPoint
from .windows import Windows
from .work import DONE, AsyncWork, CoalescedWork, JoinedWork, Queue, finished


class HostHccl(ProcessGroupGloo):
    """Gloo between the ranks of a group, for tensors in the memory of the host NPU."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, name: str) -> None:
        super().__init__(store, rank, size, timeout)
        self._name, self.limit, self._queue, self._table = name, timeout, Queue(), FingerprintExchange(size)
        self._coalesced: list[Work] | None = None
        self._messages: list[tuple[str, Tensor, int]] = []
        self._failures = Failures(store, name, rank, size)
        self._one_at_a_time = Lock()
        self._mail = Mailbox()
        self.windows = Windows(store, name, rank, size, timeout)

    def name(self) -> str:
        """Return the name that torch_npu gives the backend, not Gloo's."""
        return "hccl"

    def end(self) -> None:
        """Refuse all later calls: the group is destroyed."""
        self._failures.end()
        self._queue.end()
        self.windows.end()

    def drain(self) -> None:
        """Return when all submitted works have ended, with or without errors."""
        self._queue.drain()

    def start_coalescing(self) -> None:
        """Combine the following calls into one work."""
        self._coalesced = []

    def end_coalescing(self) -> Work:
        """Return one work for all calls since ``start_coalescing``."""
        works, self._coalesced = self._coalesced, None
        messages, self._messages = self._messages, []
        if works is None:
            raise RuntimeError("hccl: _end_coalescing must come after _start_coalescing")
        if messages:
            kinds, tensors, peers = zip(*messages, strict=True)
            works.append(self.batch_isend_irecv(kinds, tensors, peers))
        return CoalescedWork(works)

    def _track(self, work: Work) -> Work:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def perform(self, collective: Collective, results: list[Tensor], now: bool = False, timeout: int = -1) -> Work:
        """Run a collective after earlier ones, asynchronously unless ``now``; while capturing, record it."""
        self._failures.check(collective.call.name)
        limit = timedelta(milliseconds=timeout) if timeout > 0 else self.limit
        if recording.recording[0]:
            recorded = replace(collective, tensors=())
            task = self._replayable(collective.call.name, lambda hccl: hccl._run_in_order(recorded, limit))
            if recording.record_task(f"hccl::{collective.call.name}", task, collective.tensors, results):
                return finished(results)
        if self._queue.is_worker_thread():
            self._run(collective, limit)
            return self._track(finished(results))
        if now and self._coalesced is None and self._queue.is_idle():
            self._run(collective, limit)
            return DONE
        work = self._queue.submit(
            AsyncWork(lambda: self._run(collective, limit), collective.call.name, results, collective.tensors)
        )
        if now and self._coalesced is None:
            work.wait()
        return self._track(work)

    def _replayable(self, name: str, run: Callable[["HostHccl"], object]) -> Callable[[], None]:
        """Return the task that a tape keeps of a call. It holds neither npu tensors nor the group.

        The memory of the tensors is the graph's. The threads of a group that outlive it may crash the process.
        """
        group, failures = ref(self), self._failures

        def replay() -> None:
            failures.check(name)
            hccl = group()
            if hccl is None:
                raise RuntimeError(f"hccl {name}: the group that this was captured with is gone")
            run(hccl)

        return replay

    def run_and_wait(self, collective: Collective) -> None:
        """Run a collective after earlier ones, before this returns."""
        self._run_in_order(collective, self.limit)

    def _run_in_order(self, collective: Collective, limit: timedelta) -> None:
        self._failures.check(collective.call.name)
        if self._queue.is_worker_thread() or self._queue.is_idle():
            self._run(collective, limit)
        else:
            self._queue.submit(
                AsyncWork(lambda: self._run(collective, limit), collective.call.name, [], collective.tensors)
            ).wait()

    def _run(self, collective: Collective, limit: timedelta) -> None:
        try:
            with self._one_at_a_time:
                exchanged = ExchangeResult((), None)
                if self.size() > 1:
                    exchanged = self._table.exchange(self, collective.call, collective.inputs, limit)
                collective.finish(self, exchanged)
        except RuntimeError as error:
            if str(error).startswith("hccl "):
                raise
            raise RuntimeError(self._failures.explain(collective.call.name, str(error), limit)) from None

    def post(self, name: str, tensor: Tensor, peer: int, tag: int = 0) -> Work:
        """Start a send or receive. Only graph nodes have tags, which must match."""
        check_dense(name, [tensor])
        if self._coalesced is not None:
            self._messages.append(("isend" if name == "send" else "irecv", tensor, peer))
            return DONE
        if peer == self.rank():
            raise RuntimeError(f"hccl {name}: rank {peer} cannot send to or receive from itself")

        data = cpu_view(tensor)
        if recording.recording[0]:
            task = self._replayable(
                name, lambda hccl: hccl._start_message(PointToPoint(name, data, data, peer, tag)).wait()
            )
            if recording.record_task(f"hccl::{name}", task, [tensor], [tensor]):
                return finished([tensor])
        return self._track(self._start_message(PointToPoint(name, data, tensor, peer, tag)))

    def _start_message(self, post: PointToPoint) -> Work:
        self._failures.check(post.name)
        what = f"{post.name} ({'to' if post.sends else 'from'} rank {post.peer})"
        explain = partial(self._failures.explain, what)
        return Message(post, self.rank(), self._mail.start(super(), post), explain, self.limit)

    # Methods that torch_npu calls on the backend.

    def get_hccl_comm_name(self, *_: object, **__: object) -> str:
        """Return the name by which operators refer to this group."""
        return f"host_hccl_{self._name}"

    def _delete_tcpstore_key(self) -> None:
        """Do nothing: the host keeps no HCCL keys in the store."""

    def abort_hccl_comm(self, reason: str) -> None:
        """Drain the queue. Gloo's connections stay open, and are not made anew."""
        self.drain()
        self._failures.check(f"abort_hccl_comm ({reason})")

    def resume_hccl_comm(self, _: int) -> None:
        """Continue after an abort."""
        self._failures.check("resume_hccl_comm")

    def _window_register_and_exchange(self, size: int, peers: Sequence[int]) -> None:
        """Create a window that ``peers`` write to, and open theirs."""
        self._failures.check("_window_register_and_exchange")
        self.windows.open(size, peers)

    def _get_window_mem(self) -> Tensor:
        """Return the window that other ranks write to."""
        return self.windows.own()

    def batch_isend_irecv(self, kinds: Sequence[str], tensors: Sequence[Tensor], peers: Sequence[int]) -> Work:
        """Start all messages, and return one work for them. In a batch, HCCL lets a rank send to itself."""
        posts = list(zip(kinds, tensors, peers, strict=True))
        _copy_to_self([post for post in posts if post[2] == self.rank()])
        others = [post for post in posts if post[2] != self.rank()]
        return JoinedWork(
            [self.post("send" if kind == "isend" else "recv", tensor, peer) for kind, tensor, peer in others]
        )

    def allgather(self, outputs: Any, inputs: Any, *options: Any, **more: Any) -> Work:
        """Gather npu tensors, whose sizes may differ."""
        if isinstance(inputs, Tensor) or inputs[0].device.type == "cpu":
            gloo: Gloo = super()
            return cast("Work", gloo.allgather(outputs, inputs, *options, **more))
        return self.perform(gather_scatter.all_gather(outputs[0], inputs[0]), outputs[0])

    def all_gather_into_tensor_uneven(self, output: Tensor, source: Tensor, sizes: Sequence[int], *_: object) -> Work:
        """Gather rows, `sizes[i]` of them from rank i."""
        parts = list(output.split(list(sizes))) if sizes else list(output.chunk(self.size()))
        return self.perform(gather_scatter.all_gather(parts, source), [output])

    def reduce_scatter_tensor_uneven(self, output: Tensor, source: Tensor, sizes: Sequence[int], options: Any) -> Work:
        """Reduce rows; rank i keeps `sizes[i]` of them."""
        name, operation = "reduce_scatter_tensor", int(options.reduceOp.op)
        return self.perform(reductions.reduce_scatter(self, [output], [source], operation, name, sizes), [output])

    def alltoallvc(self, output: Tensor, source: Tensor, counts: Sequence[int]) -> Work:
        """Exchange elements by the matrix of counts that all ranks pass."""
        ranks, rank = self.size(), self.rank()
        sends = list(counts[rank * ranks : (rank + 1) * ranks])
        collective = all_to_all.all_to_all_single(self, output.view(-1), source.view(-1), counts[rank::ranks], sends)
        return self.perform(collective, [output])


def _copy_to_self(posts: Sequence[tuple[str, Tensor, int]]) -> None:
    """Copy what a rank sends to itself into what it receives from itself, in order."""
    gives, takes = ([tensor for kind, tensor, _ in posts if (kind == "isend") is sends] for sends in (True, False))
    fit = [(give.dtype, give.numel()) for give in gives] == [(take.dtype, take.numel()) for take in takes]
    if not fit:
        raise RuntimeError(
            "hccl batch_isend_irecv: what a rank sends to itself must be what it receives from itself, "
            f"got {[tuple(give.size()) for give in gives]} and {[tuple(take.size()) for take in takes]}"
        )
    for give, take in zip(gives, takes, strict=True):
        take.copy_(give.view_as(take))
