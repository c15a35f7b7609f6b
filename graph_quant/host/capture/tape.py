"""The kernels of captured graphs, to be run again on the addresses they were captured with."""

import atexit
import threading
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes

from ...refusals import Refusal
from ..alias import as_cpu
from . import runtime
from .memory import is_in_graph_pool

Step = Callable[[], object]


class Entry(NamedTuple):
    """One call on a tape."""

    operator: str
    run: Step
    tensors: tuple[Tensor, ...]  # the npu tensors whose memory it uses; read when it is recorded, not kept
    results: tuple[Tensor, ...] = ()  # the npu tensors that it writes, where they are known


class Watched(NamedTuple):
    """A storage that a graph uses and does not own."""

    storage: StorageWeakRef
    address: int
    use: str


class Observers:
    """Who sees the results of replayed kernels; ``keeps_results`` must be set when the graph is captured."""

    def __init__(self) -> None:
        self.keeps_results = False
        self.current: Callable[[str, tuple[Tensor, ...]], None] | None = None


observers = Observers()


class Tape:
    """The kernels of one captured graph."""

    def __init__(self) -> None:
        self.operators: list[str] = []
        self.steps: list[Step] = []
        self.results: dict[int, tuple[Tensor, ...]] = {}  # CPU aliases by index, for observers
        self.watched: dict[int, Watched] = {}

    def put(self, index: int, entry: Entry) -> None:
        """Append a kernel, or replace the one at ``index``."""
        if index == len(self.steps):
            self.operators.append(entry.operator)
            self.steps.append(entry.run)
        else:
            self.steps[index] = entry.run
        if observers.keeps_results:
            self.results[index] = tuple(map(as_cpu, entry.results))
        for tensor in entry.tensors:
            self._watch(tensor, entry.operator)

    def _watch(self, tensor: Tensor, operator: str) -> None:
        storage = tensor.untyped_storage()
        # A freed storage can be detected only if it owns its memory; one made over an address is not resizable.
        if storage._cdata not in self.watched and storage.nbytes() and storage.resizable():
            use = f"{operator} uses a tensor of {tensor.dtype} and shape {tuple(tensor.size())}"
            self.watched[storage._cdata] = Watched(StorageWeakRef(storage), storage.data_ptr(), use)

    def check_memory(self) -> None:
        """Raise if a tensor from outside the graph has been freed, or moved by a resize, since the capture."""
        for key, watched in list(self.watched.items()):
            alive = torch.UntypedStorage._new_with_weak_ptr(watched.storage.cdata)
            if alive is not None and alive.data_ptr() == watched.address:
                continue
            if alive is not None and alive.nbytes() and not is_in_graph_pool(watched.address):
                raise RuntimeError(f"replay: {watched.use} that was moved after the capture")
            storage = rebound.get(watched.address)
            if storage is not None and not storage.expired():
                self.watched[key] = watched._replace(storage=storage)
            elif is_in_graph_pool(watched.address):
                del self.watched[key]
            else:
                raise RuntimeError(f"replay: {watched.use} that was freed after the capture")

    def run(self, first: int, last: int) -> None:
        """Run some kernels, in the order of the capture."""
        if first == 0:
            self.check_memory()
        steps = self.steps if first == 0 and last == len(self.steps) else self.steps[first:last]
        done = first
        # Tensors that were captured in inference mode cannot be written outside of it.
        with torch._C._AutoDispatchBelowAutograd(), torch._C._InferenceMode(True):
            try:
                for step in steps:
                    step()
                    if observers.current is not None:
                        observers.current(self.operators[done], self.results.get(done, ()))
                    done += 1
            except Refusal as error:
                position = f"replay: {self.operators[done]} (kernel {done})"
                raise Refusal(f"{error}\n{position}", error.code) from error
            except Exception as error:
                raise RuntimeError(f"replay: {self.operators[done]} (kernel {done}): {error}") from error


tapes: dict[int, Tape] = {}
_refused = threading.local()
# Storages that replace freed ones of a capture, by address.
rebound: dict[int, StorageWeakRef] = {}


def rebind_address(tensor: Tensor) -> None:
    """Let the next replay use ``tensor`` instead of a freed tensor that was captured at the same address."""
    storage = tensor.untyped_storage()
    rebound[storage.data_ptr()] = StorageWeakRef(storage)


def put_entry(kernel_id: runtime.KernelId, entry: Entry) -> None:
    """Put a kernel on the tape of its graph."""
    tape = tapes.get(kernel_id.model)
    if tape is None:
        tape = tapes[kernel_id.model] = Tape()
    tape.put(kernel_id.kernel, entry)


def _replay(model: int, first: int, last: int) -> int:
    try:
        if torch._C._len_torch_dispatch_stack():
            with _disable_current_modes():
                tapes[model].run(first, last)
        else:
            tapes[model].run(first, last)
    except Exception as error:
        if isinstance(error, Refusal):
            _refused.error = error
        status: int = runtime.library.host_failed(str(error).encode())
        return status
    return 0


def take_refusal() -> Refusal | None:
    """Return the refusal with which the last replay of this thread ended, once."""
    return vars(_refused).pop("error", None)


def _forget(model: int) -> None:
    tapes.pop(model, None)


runtime.set_hooks(_replay, _forget)
atexit.register(runtime.remove_hooks)
