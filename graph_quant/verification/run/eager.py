"""Runs the graph that Dynamo captured, which is the function as written, eagerly on copies of its inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx

from ..compare.source import Line, line_of
from .intermediates import to_host

Digest = tuple[str, tuple[int, ...], bytes]  # dtype, shape, content


def digest(tensor: Tensor) -> Digest:
    """A digest of a tensor: equal for equal dtype, shape and bits."""
    values = to_host(tensor).resolve_conj().resolve_neg().contiguous()
    content = values.reshape(-1).view(torch.uint8).numpy().data
    return str(tensor.dtype), tuple(tensor.shape), hashlib.blake2b(content, digest_size=16).digest()


class Eager(fx.Interpreter):
    """One eager run. ``digests`` are of its results, by the name of the node, in execution order."""

    def __init__(self, module: fx.GraphModule, *, keeps_digests: bool) -> None:
        super().__init__(module)
        self._keeps_digests = keeps_digests
        self.digests: dict[str, Digest] = {}
        self.lines: dict[str, Line | None] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if not self._keeps_digests:
            return result
        if n.op not in ("placeholder", "output") and isinstance(result, Tensor) and result.layout is torch.strided:
            self.digests[n.name] = digest(result)
            self.lines[n.name] = line_of(n.stack_trace)
        return result


def copy_written(inputs: Sequence[Any], written: Collection[int] | None) -> list[Any]:
    """The inputs, with copies of those that are written to (None: of all) and of those that share their memory."""
    tensors = {index: value for index, value in enumerate(inputs) if isinstance(value, Tensor)}
    wanted = {_memory(tensors[index]) for index in (tensors if written is None else written) if index in tensors}
    copies: dict[int, torch.UntypedStorage] = {}
    copied = list(inputs)
    for index, tensor in tensors.items():
        memory = _memory(tensor)
        if memory in wanted:
            if memory not in copies:
                copies[memory] = tensor.untyped_storage().clone()
            copy = (
                tensor.detach()
                .new_empty(0)
                .set_(copies[memory], tensor.storage_offset(), tensor.size(), tensor.stride())
            )
            copied[index] = copy.requires_grad_(tensor.requires_grad)
    return copied


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


@contextmanager
def preserve_global_state() -> Iterator[None]:
    """Restore the RNG states and the gradient mode after the block."""
    states = torch.get_rng_state(), torch.npu.get_rng_state()  # type: ignore[attr-defined]
    with torch.set_grad_enabled(torch.is_grad_enabled()):
        try:
            yield
        finally:
            torch.set_rng_state(states[0])
            torch.npu.set_rng_state(states[1])  # type: ignore[attr-defined]
