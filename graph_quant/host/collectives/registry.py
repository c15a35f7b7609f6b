"""Puts the backend in HCCL's place: its creator, and c10d's operators on npu tensors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed import Backend, ProcessGroup, Work

from . import moves
from .backend import HostHccl

_library = torch.library.Library("c10d", "IMPL")
# Of a backend, torch keeps the C++ half only.
_backends: dict[str, HostHccl] = {}


def register() -> None:
    """Let groups of the backend hccl be made on the host, and serve c10d's operators on npu tensors."""
    Backend._plugins["HCCL"] = Backend._plugins["HCCL"]._replace(creator_fn=_create)
    for name, kernel in _KERNELS.items():
        _library.impl(name, kernel, "PrivateUse1", allow_override=True)


def _create(options: Any, _: object) -> HostHccl:
    name = options.group_id
    made = HostHccl(options.store, options.group_rank, options.group_size, options.timeout, name)
    _backends[name] = made
    return made


def _hccl(group: Any) -> HostHccl:
    backend = ProcessGroup.unbox(group)._get_backend(torch.device("npu"))
    backend = getattr(backend, "wrapped_pg", backend)
    if not isinstance(backend, HostHccl):
        raise RuntimeError(f"npu tensors on the host need a group of the backend hccl, got {backend.name()}")
    return backend


def _boxed(work: Work) -> Any:
    return Work.boxed(work)


def _all_reduce(tensors: list[Tensor], group: Any, op: Any, _: object, async_op: bool = True, timeout: int = -1) -> Any:
    work = _hccl(group).perform(moves.reduced(tensors, op.op()), tensors, not async_op, timeout)
    return tensors, _boxed(work)


def _all_reduce_coalesced(tensors: list[Tensor], group: Any, op: Any, async_op: bool = True, timeout: int = -1) -> Any:
    return _boxed(_hccl(group).perform(moves.reduced(tensors, op.op()), tensors, not async_op, timeout))


def _reduce(
    tensors: list[Tensor], group: Any, op: Any, root: int, _: int, async_op: bool = True, timeout: int = -1
) -> Any:
    plan = moves.reduced(tensors, op.op(), "reduce", root)
    return _boxed(_hccl(group).perform(plan, tensors, not async_op, timeout))


def _broadcast(tensors: list[Tensor], group: Any, root: int, _: int, async_op: bool = True, timeout: int = -1) -> Any:
    work = _hccl(group).perform(moves.broadcast(tensors[0], root), tensors, not async_op, timeout)
    return tensors, _boxed(work)


def _all_gather(
    outputs: list[list[Tensor]], inputs: list[Tensor], group: Any, async_op: bool = True, timeout: int = -1
) -> Any:
    work = _hccl(group).perform(moves.all_gather(outputs[0], inputs[0]), outputs[0], not async_op, timeout)
    return outputs, _boxed(work)


def _all_gather_base(output: Tensor, given: Tensor, group: Any, async_op: bool = True, timeout: int = -1) -> Any:
    plan = moves.all_gather_into_tensor([output], [given])
    return output, _boxed(_hccl(group).perform(plan, [output], not async_op, timeout))


def _all_gather_many(outputs: list[Tensor], inputs: list[Tensor], group: Any, async_op: bool = True) -> Any:
    return _boxed(_hccl(group).perform(moves.all_gather_into_tensor(outputs, inputs), outputs, not async_op))


def _reduce_scatter(
    outputs: list[Tensor], inputs: list[list[Tensor]], group: Any, op: Any, async_op: bool = True, timeout: int = -1
) -> Any:
    if len({given.numel() for given in inputs[0]}) != 1:
        raise RuntimeError(
            f"hccl reduce_scatter: tensors must have one size, got {[tuple(t.size()) for t in inputs[0]]}"
        )
    whole = torch.cat([given.reshape(-1) for given in inputs[0]])
    plan = moves.reduce_scatter(outputs, [whole], op.op(), "reduce_scatter")
    return outputs, _boxed(_hccl(group).perform(plan, outputs, not async_op, timeout))


def _reduce_scatter_base(
    output: Tensor, given: Tensor, group: Any, op: Any, async_op: bool = True, timeout: int = -1
) -> Any:
    plan = moves.reduce_scatter([output], [given], op.op(), "reduce_scatter_tensor")
    return output, _boxed(_hccl(group).perform(plan, [output], not async_op, timeout))


def _reduce_scatter_many(
    outputs: list[Tensor], inputs: list[Tensor], group: Any, op: Any, async_op: bool = True, timeout: int = -1
) -> Any:
    plan = moves.reduce_scatter(outputs, inputs, op.op(), "reduce_scatter_tensor")
    return _boxed(_hccl(group).perform(plan, outputs, not async_op, timeout))


def _gather(
    outputs: list[list[Tensor]], inputs: list[Tensor], group: Any, root: int, async_op: bool = True, timeout: int = -1
) -> Any:
    kept = outputs[0] if outputs else []
    return _boxed(_hccl(group).perform(moves.gather(kept, inputs[0], root), kept, not async_op, timeout))


def _scatter(
    outputs: list[Tensor], inputs: list[list[Tensor]], group: Any, root: int, async_op: bool = True, timeout: int = -1
) -> Any:
    plan = moves.scatter(outputs[0], inputs[0] if inputs else [], root)
    return outputs, _boxed(_hccl(group).perform(plan, outputs, not async_op, timeout))


def _all_to_all_base(
    output: Tensor,
    given: Tensor,
    group: Any,
    takes: list[int],
    sends: list[int],
    async_op: bool = True,
    timeout: int = -1,
) -> Any:
    hccl = _hccl(group)
    plan = moves.all_to_all_single(output, given, takes, sends, hccl.size())
    return _boxed(hccl.perform(plan, [output], not async_op, timeout))


def _all_to_all(
    outputs: list[Tensor], inputs: list[Tensor], group: Any, async_op: bool = True, timeout: int = -1
) -> Any:
    return outputs, _boxed(_hccl(group).perform(moves.all_to_all(outputs, inputs), outputs, not async_op, timeout))


def _barrier(_: Tensor, group: Any, __: list[int], async_op: bool = True, timeout: int = -1) -> Any:
    return _boxed(_hccl(group).perform(moves.barrier(), [], not async_op, timeout))


def _send(tensors: list[Tensor], group: Any, target: int, tag: int) -> Any:
    return _boxed(_hccl(group).post("send", tensors[0], target, tag))


def _recv(tensors: list[Tensor], group: Any, source: int, tag: int) -> Any:
    return _boxed(_hccl(group).post("recv", tensors[0], source, tag))


def _recv_any(tensors: list[Tensor], group: Any, tag: int) -> Any:
    return _boxed(_hccl(group).post("recv", tensors[0], None, tag))


_KERNELS: dict[str, Callable[..., Any]] = {
    "allreduce_": _all_reduce,
    "allreduce_coalesced_": _all_reduce_coalesced,
    "reduce_": _reduce,
    "broadcast_": _broadcast,
    "allgather_": _all_gather,
    "_allgather_base_": _all_gather_base,
    "allgather_into_tensor_coalesced_": _all_gather_many,
    "reduce_scatter_": _reduce_scatter,
    "_reduce_scatter_base_": _reduce_scatter_base,
    "reduce_scatter_tensor_coalesced_": _reduce_scatter_many,
    "gather_": _gather,
    "scatter_": _scatter,
    "alltoall_base_": _all_to_all_base,
    "alltoall_": _all_to_all,
    "barrier": _barrier,
    "send": _send,
    "recv_": _recv,
    "recv_any_source_": _recv_any,
}
