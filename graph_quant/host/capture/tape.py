"""The kernels of captured graphs, ready to run again on the addresses they were captured with."""

import atexit
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes

from . import runtime
from .memory import belongs_to_a_graph

Step = Callable[[], object]


class Entry(NamedTuple):
    """One call on a tape."""

    operator: str
    run: Step
    tensors: tuple[Tensor, ...]  # the npu tensors whose memory it uses; seen when it is noted down, not kept


class Watched(NamedTuple):
    """Memory that a graph uses and does not own."""

    storage: StorageWeakRef
    address: int
    use: str


class Tape:
    """The kernels of one captured graph."""

    def __init__(self) -> None:
        self.operators: list[str] = []
        self.steps: list[Step] = []
        self.watched: dict[int, Watched] = {}

    def put(self, place: int, entry: Entry) -> None:
        """Note a kernel down: a new one at the end, or another one for a place there is."""
        if place == len(self.steps):
            self.operators.append(entry.operator)
            self.steps.append(entry.run)
        else:
            self.steps[place] = entry.run
        for tensor in entry.tensors:
            self._watch(tensor, entry.operator)

    def _watch(self, tensor: Tensor, operator: str) -> None:
        storage = tensor.untyped_storage()
        # Only storages that own their memory can tell that it was freed; those made over an address cannot grow.
        if storage._cdata not in self.watched and storage.nbytes() and storage.resizable():
            use = f"{operator} uses a tensor of {tensor.dtype} and shape {tuple(tensor.size())}"
            self.watched[storage._cdata] = Watched(StorageWeakRef(storage), storage.data_ptr(), use)

    def check_memory(self) -> None:
        """Raise if a tensor from outside of the graph has been freed since the capture."""
        for key, watched in list(self.watched.items()):
            if not watched.storage.expired():
                continue
            again = given.get(watched.address)
            if again is not None and not again.expired():
                self.watched[key] = watched._replace(storage=again)
            elif belongs_to_a_graph(watched.address):
                del self.watched[key]
            else:
                raise RuntimeError(f"replay: {watched.use} that was freed after the capture")

    def run(self, first: int, last: int) -> None:
        """Run some kernels, in the order of the capture."""
        if first == 0:
            self.check_memory()
        steps = self.steps if first == 0 and last == len(self.steps) else self.steps[first:last]
        done = first
        # What was captured in inference mode may be replayed outside of it, where its tensors could not be written.
        with torch._C._AutoDispatchBelowAutograd(), torch._C._InferenceMode(True):
            try:
                for step in steps:
                    step()
                    done += 1
            except Exception as error:
                raise RuntimeError(f"replay: {self.operators[done]} (kernel {done}): {error}") from error


tapes: dict[int, Tape] = {}
# What was given where a tensor of a capture had been, by its address.
given: dict[int, StorageWeakRef] = {}


def rebind_address(tensor: Tensor) -> None:
    """Let the next replay take ``tensor`` for one that was captured at the same address and is gone."""
    storage = tensor.untyped_storage()
    given[storage.data_ptr()] = StorageWeakRef(storage)


def put(place: runtime.Place, entry: Entry) -> None:
    """Note a kernel down on the tape of its graph."""
    tape = tapes.get(place.model)
    if tape is None:
        tape = tapes[place.model] = Tape()
    tape.put(place.kernel, entry)


def _replay(model: int, first: int, last: int) -> int:
    try:
        if torch._C._len_torch_dispatch_stack():
            with _disable_current_modes():
                tapes[model].run(first, last)
        else:
            tapes[model].run(first, last)
    except Exception as error:
        status: int = runtime.library.host_failed(str(error).encode())
        return status
    return 0


def _forget(model: int) -> None:
    tapes.pop(model, None)


runtime.serve(_replay, _forget)
atexit.register(runtime.stop_serving)
