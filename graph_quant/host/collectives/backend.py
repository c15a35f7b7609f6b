"""The backend hccl of a group on the host: HCCL's calls on npu tensors, carried by Gloo."""

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
from .fingerprint import Announcements, Told
from .gloo import Gloo
from .memory import check_dense, shared
from .point_to_point import Mailbox, Message, Post
from .windows import Windows
from .work import DONE, AsyncWork, JoinedWork, Queue, finished


class HostHccl(ProcessGroupGloo):
    """Gloo between the ranks of a group, for tensors in the memory of the host NPU."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, name: str) -> None:
        super().__init__(store, rank, size, timeout)
        self._name, self.limit, self._queue, self._table = name, timeout, Queue(), Announcements(size)
        self._coalesced: list[Work] | None = None
        self._failures = Failures(store, name, rank, size)
        self._one_at_a_time = Lock()
        self._mail = Mailbox()
        self.windows = Windows(store, name, rank, size, timeout)

    def name(self) -> str:
        """Return what torch_npu calls the backend, not what carries it."""
        return "hccl"

    def end(self) -> None:
        """Refuse all that is asked for after this: the group is destroyed."""
        self._failures.end()
        self._queue.end()
        self.windows.end()

    def settle(self) -> None:
        """Return when all that was asked for has ended, well or badly."""
        self._queue.settle()

    def start_coalescing(self) -> None:
        """From here on, what is asked for becomes one work."""
        self._coalesced = []

    def end_coalescing(self) -> Work:
        """Return the work of all that was asked for since ``start_coalescing``."""
        works, self._coalesced = self._coalesced, None
        if works is None:
            raise RuntimeError("hccl: _end_coalescing must come after _start_coalescing")
        return JoinedWork(works)

    def _kept(self, work: Work) -> Work:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def perform(self, plan: Collective, results: list[Tensor], now: bool = False, timeout: int = -1) -> Work:
        """Run a collective in its turn: before this returns, or while the caller goes on; noted down in a capture."""
        self._failures.check(plan.call.name)
        limit = timedelta(milliseconds=timeout) if timeout > 0 else self.limit
        if recording.recording[0]:
            noted = replace(plan, tensors=())
            later = self._later(plan.call.name, lambda hccl: hccl._in_turn(noted, limit))
            if recording.record_task(f"hccl::{plan.call.name}", later, plan.tensors, results):
                return finished(results)
        if self._queue.is_here():
            self._run(plan, limit)
            return self._kept(finished(results))
        if now and self._coalesced is None and self._queue.is_idle():
            self._run(plan, limit)
            return DONE
        work = self._queue.submit(AsyncWork(lambda: self._run(plan, limit), plan.call.name, results, plan.tensors))
        if now and self._coalesced is None:
            work.wait()
        return self._kept(work)

    def _later(self, name: str, run: Callable[["HostHccl"], object]) -> Callable[[], None]:
        """Return what a tape keeps of a call: no npu tensors, whose memory is the graph's, and not the group.

        A group whose threads live on when it was destroyed may end the process badly.
        """
        group, failures = ref(self), self._failures

        def later() -> None:
            failures.check(name)
            hccl = group()
            if hccl is None:
                raise RuntimeError(f"hccl {name}: the group that this was captured with is gone")
            run(hccl)

        return later

    def carry_out(self, plan: Collective) -> None:
        """Run a collective in its turn, before this returns."""
        self._in_turn(plan, self.limit)

    def _in_turn(self, plan: Collective, limit: timedelta) -> None:
        self._failures.check(plan.call.name)
        if self._queue.is_here() or self._queue.is_idle():
            self._run(plan, limit)
        else:
            self._queue.submit(AsyncWork(lambda: self._run(plan, limit), plan.call.name, [], plan.tensors)).wait()

    def _run(self, plan: Collective, limit: timedelta) -> None:
        try:
            with self._one_at_a_time:
                told = Told((), None)
                if self.size() > 1:
                    told = self._table.exchange(self, plan.call, plan.given, limit)
                plan.finish(self, told)
        except RuntimeError as error:
            if str(error).startswith("hccl "):
                raise
            raise RuntimeError(self._failures.explain(plan.call.name, str(error), limit)) from None

    def post(self, name: str, tensor: Tensor, peer: int, tag: int = 0) -> Work:
        """Start to send or receive; only nodes of graphs have tags, which must fit."""
        check_dense(name, [tensor])
        if peer == self.rank():
            raise RuntimeError(f"hccl {name}: rank {peer} cannot send to or receive from itself")

        data = shared(tensor)
        if recording.recording[0]:
            later = self._later(name, lambda hccl: hccl._posted(Post(name, data, data, peer, tag)).wait())
            if recording.record_task(f"hccl::{name}", later, [tensor], [tensor]):
                return finished([tensor])
        return self._kept(self._posted(Post(name, data, tensor, peer, tag)))

    def _posted(self, post: Post) -> Work:
        self._failures.check(post.name)
        what = f"{post.name} ({'to' if post.sends else 'from'} rank {post.peer})"
        explain = partial(self._failures.explain, what)
        return Message(post, self.rank(), self._mail.start(super(), post), explain, self.limit)

    # What torch_npu asks of the backend itself.

    def get_hccl_comm_name(self, *_: object, **__: object) -> str:
        """Return the name by which operators know this group."""
        return f"host_hccl_{self._name}"

    def _delete_tcpstore_key(self) -> None:
        """Forget HCCL's keys in the store, of which there are none."""

    def abort_hccl_comm(self, reason: str) -> None:
        """Start over with the same ranks: Gloo's links stay as long as they are good, and are not made anew."""
        self.settle()
        self._failures.check(f"abort_hccl_comm ({reason})")

    def resume_hccl_comm(self, _: int) -> None:
        """Go on after an abort."""
        self._failures.check("resume_hccl_comm")

    def _window_register_and_exchange(self, size: int, peers: Sequence[int]) -> None:
        """Make memory that ``peers`` write to, and find theirs."""
        self._failures.check("_window_register_and_exchange")
        self.windows.open(size, peers)

    def _get_window_mem(self) -> Tensor:
        """Return the memory that other ranks write to."""
        return self.windows.own()

    def batch_isend_irecv(self, kinds: Sequence[str], tensors: Sequence[Tensor], peers: Sequence[int]) -> Work:
        """Start all of them, and return one work for all. In a batch, HCCL lets a rank give itself something."""
        posts = list(zip(kinds, tensors, peers, strict=True))
        _give_oneself([post for post in posts if post[2] == self.rank()])
        others = [post for post in posts if post[2] != self.rank()]
        return JoinedWork(
            [self.post("send" if kind == "isend" else "recv", tensor, peer) for kind, tensor, peer in others]
        )

    def allgather(self, outputs: Any, inputs: Any, *options: Any, **more: Any) -> Work:
        """Gather npu tensors of perhaps different sizes."""
        if isinstance(inputs, Tensor) or inputs[0].device.type == "cpu":
            gloo: Gloo = super()
            return cast("Work", gloo.allgather(outputs, inputs, *options, **more))
        return self.perform(gather_scatter.all_gather(outputs[0], inputs[0]), outputs[0])

    def all_gather_into_tensor_uneven(self, output: Tensor, given: Tensor, sizes: Sequence[int], *_: object) -> Work:
        """Gather rows, from each rank as many as `sizes` says."""
        parts = list(output.split(list(sizes))) if sizes else list(output.chunk(self.size()))
        return self.perform(gather_scatter.all_gather(parts, given), [output])

    def reduce_scatter_tensor_uneven(self, output: Tensor, given: Tensor, sizes: Sequence[int], options: Any) -> Work:
        """Reduce rows, of which each rank keeps as many as `sizes` says."""
        name, operation = "reduce_scatter_tensor", int(options.reduceOp.op)
        return self.perform(reductions.reduce_scatter(self, [output], [given], operation, name, sizes), [output])

    def alltoallvc(self, output: Tensor, given: Tensor, counts: Sequence[int]) -> Work:
        """Exchange elements by the matrix of counts that all ranks pass."""
        ranks, rank = self.size(), self.rank()
        sends = list(counts[rank * ranks : (rank + 1) * ranks])
        plan = all_to_all.all_to_all_single(self, output.view(-1), given.view(-1), counts[rank::ranks], sends)
        return self.perform(plan, [output])


def _give_oneself(posts: Sequence[tuple[str, Tensor, int]]) -> None:
    """Copy what a rank sends to what it receives from itself, the first to the first."""
    gives, takes = ([tensor for kind, tensor, _ in posts if (kind == "isend") is sends] for sends in (True, False))
    fit = [(give.dtype, give.numel()) for give in gives] == [(take.dtype, take.numel()) for take in takes]
    if not fit:
        raise RuntimeError(
            "hccl batch_isend_irecv: what a rank sends to itself must be what it receives from itself, "
            f"got {[tuple(give.size()) for give in gives]} and {[tuple(take.size()) for take in takes]}"
        )
    for give, take in zip(gives, takes, strict=True):
        take.copy_(give.view_as(take))
