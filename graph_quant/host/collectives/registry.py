"""Registers the host backend as HCCL: its creator, and c10d's operators on npu tensors."""

import os
from collections.abc import Callable
from typing import Any

import torch
import torch_npu
from torch import Tensor
from torch.distributed import Backend, ProcessGroup, Work

from ...reference.collective.process_group import set_group_resolver
from ...releases.alternatives import implement, reduction
from . import all_to_all, gather_scatter, premul_sum, reductions
from .backend import HostHccl
from .groups import group_finder
from .store import listen_on_loopback

_library = torch.library.Library("c10d", "IMPL")
# torch keeps only the C++ half of a backend alive.
_backends: dict[str, HostHccl] = {}
_destroyed: set[str] = set()


def register() -> None:
    """Create groups of the backend hccl on the host, and implement c10d's operators on npu tensors."""
    Backend._plugins["HCCL"] = Backend._plugins["HCCL"]._replace(creator_fn=_create)
    set_group_resolver(group_finder(_backends))
    for name, kernel in _KERNELS.items():
        implement(_library, name, kernel, "PrivateUse1")
    _patch_coalescing()
    _patch_shutdown()
    _patch_synchronize()
    _unwrap_backends()
    listen_on_loopback()
    premul_sum.install(_backend)


def _create(options: Any, _: object) -> HostHccl:
    name = options.group_id
    hccl = HostHccl(options.store, options.group_rank, options.group_size, options.timeout, name)
    _backends[name] = hccl
    _destroyed.discard(name)
    return hccl


def _patch_coalescing() -> None:
    """Coalesce in this backend: Gloo cannot."""
    start, end = ProcessGroup._start_coalescing, ProcessGroup._end_coalescing

    def start_coalescing(group: ProcessGroup, device: torch.device) -> None:
        if torch.device(device).type == "npu":
            _backend(group).start_coalescing()
        else:
            start(group, device)

    def end_coalescing(group: ProcessGroup, device: torch.device) -> Work:
        is_npu = torch.device(device).type == "npu"
        return _backend(group).end_coalescing() if is_npu else end(group, device)

    ProcessGroup._start_coalescing = start_coalescing  # type: ignore[assignment, method-assign]
    ProcessGroup._end_coalescing = end_coalescing  # type: ignore[assignment, method-assign]


def _patch_shutdown() -> None:
    """End a backend when its group is destroyed: torch notifies only the C++ half."""
    ProcessGroup.shutdown = _wrap_shutdown(ProcessGroup.shutdown)  # type: ignore[assignment, method-assign]
    ProcessGroup.abort = _wrap_shutdown(ProcessGroup.abort)  # type: ignore[assignment, method-assign]


def _patch_synchronize() -> None:
    """Let torch.npu.synchronize wait for collectives too: on a device they run on streams, which it waits for."""
    synchronize = torch_npu._C._npu_synchronize

    def wait_for_all() -> None:
        synchronize()
        for hccl in list(_backends.values()):
            hccl.drain()

    torch_npu._C._npu_synchronize = wait_for_all


def _wrap_shutdown(end: Callable[[ProcessGroup], None]) -> Callable[[ProcessGroup], None]:
    def ended(group: ProcessGroup) -> None:
        name = group.group_name
        if name in _backends:
            _backends.pop(name).end()
            _destroyed.add(name)
        end(group)

    return ended


def _unwrap_backends() -> None:
    """Return this backend from a group also where torch wraps it to compare calls."""
    get = ProcessGroup._get_backend

    def get_backend(group: ProcessGroup, device: torch.device) -> Any:
        backend = get(group, device)
        inner = getattr(backend, "wrapped_pg", None)
        return inner if isinstance(inner, HostHccl) else backend

    ProcessGroup._get_backend = get_backend  # type: ignore[assignment, method-assign]


def _hccl(group: Any) -> HostHccl:
    return _backend(ProcessGroup.unbox(group))


def _backend(group: ProcessGroup) -> HostHccl:
    backend = group._get_backend(torch.device("npu"))
    if not isinstance(backend, HostHccl):
        if group.group_name in _destroyed:
            raise RuntimeError(f"hccl: group {group.group_name} was destroyed")
        raise RuntimeError(f"npu tensors on the host need a group of the backend hccl, got {backend.name()}")
    return backend


def _box(work: Work) -> Any:
    return Work.boxed(work)


def _perform_reduce(hccl: HostHccl, tensors: list[Tensor], op: Any, async_op: bool, timeout: int) -> Work:
    return hccl.perform(reductions.reduce(hccl, tensors, reduction(op)), tensors, not async_op, timeout)


def _all_reduce(tensors: list[Tensor], group: Any, op: Any, _: object, async_op: bool = True, timeout: int = -1) -> Any:
    work = _perform_reduce(_hccl(group), tensors, op, async_op, timeout)
    return tensors, _box(work)


def _all_reduce_coalesced(tensors: list[Tensor], group: Any, op: Any, async_op: bool = True, timeout: int = -1) -> Any:
    return _box(_perform_reduce(_hccl(group), tensors, op, async_op, timeout))


def _reduce(
    tensors: list[Tensor], group: Any, op: Any, root: int, _: int, async_op: bool = True, timeout: int = -1
) -> Any:
    hccl = _hccl(group)
    return _box(
        hccl.perform(reductions.reduce(hccl, tensors, reduction(op), "reduce", root), tensors, not async_op, timeout)
    )


def _broadcast(tensors: list[Tensor], group: Any, root: int, _: int, async_op: bool = True, timeout: int = -1) -> Any:
    hccl = _hccl(group)
    return tensors, _box(hccl.perform(gather_scatter.broadcast(hccl, tensors[0], root), tensors, not async_op, timeout))


def _all_gather(
    outputs: list[list[Tensor]], inputs: list[Tensor], group: Any, async_op: bool = True, timeout: int = -1
) -> Any:
    work = _hccl(group).perform(gather_scatter.all_gather(outputs[0], inputs[0]), outputs[0], not async_op, timeout)
    return outputs, _box(work)


def _all_gather_base(output: Tensor, source: Tensor, group: Any, async_op: bool = True, timeout: int = -1) -> Any:
    hccl = _hccl(group)
    collective = gather_scatter.all_gather_into_tensor(hccl, [output], [source])
    return output, _box(hccl.perform(collective, [output], not async_op, timeout))


def _all_gather_many(outputs: list[Tensor], inputs: list[Tensor], group: Any, async_op: bool = True) -> Any:
    hccl = _hccl(group)
    return _box(hccl.perform(gather_scatter.all_gather_into_tensor(hccl, outputs, inputs), outputs, not async_op))


def _reduce_scatter(
    outputs: list[Tensor], inputs: list[list[Tensor]], group: Any, op: Any, async_op: bool = True, timeout: int = -1
) -> Any:
    hccl, sizes = _hccl(group), [source.numel() for source in inputs[0]]
    whole = torch.cat([source.reshape(-1) for source in inputs[0]])
    splits = sizes if len(set(sizes)) > 1 else []
    collective = reductions.reduce_scatter(hccl, outputs, [whole], reduction(op), "reduce_scatter", splits)
    return outputs, _box(hccl.perform(collective, outputs, not async_op, timeout))


def _reduce_scatter_base(
    output: Tensor, source: Tensor, group: Any, op: Any, async_op: bool = True, timeout: int = -1
) -> Any:
    hccl = _hccl(group)
    collective = reductions.reduce_scatter(hccl, [output], [source], reduction(op), "reduce_scatter_tensor")
    return output, _box(hccl.perform(collective, [output], not async_op, timeout))


def _reduce_scatter_many(
    outputs: list[Tensor], inputs: list[Tensor], group: Any, op: Any, async_op: bool = True, timeout: int = -1
) -> Any:
    hccl = _hccl(group)
    collective = reductions.reduce_scatter(hccl, outputs, inputs, reduction(op), "reduce_scatter_tensor")
    return _box(hccl.perform(collective, outputs, not async_op, timeout))


def _gather(
    outputs: list[list[Tensor]], inputs: list[Tensor], group: Any, root: int, async_op: bool = True, timeout: int = -1
) -> Any:
    if os.environ.get("TORCH_NPU_USE_COMPATIBLE_IMPL") != "1":
        raise RuntimeError(
            "hccl gather: a group gathers to one rank only where TORCH_NPU_USE_COMPATIBLE_IMPL is 1; "
            "torch.distributed.gather does without"
        )
    kept = outputs[0] if outputs else []
    return _box(_hccl(group).perform(gather_scatter.gather(kept, inputs[0], root), kept, not async_op, timeout))


def _scatter(
    outputs: list[Tensor], inputs: list[list[Tensor]], group: Any, root: int, async_op: bool = True, timeout: int = -1
) -> Any:
    hccl = _hccl(group)
    collective = gather_scatter.scatter(hccl, outputs[0], inputs[0] if inputs else [], root)
    return outputs, _box(hccl.perform(collective, outputs, not async_op, timeout))


def _all_to_all_base(
    output: Tensor,
    source: Tensor,
    group: Any,
    takes: list[int],
    sends: list[int],
    async_op: bool = True,
    timeout: int = -1,
) -> Any:
    hccl = _hccl(group)
    collective = all_to_all.all_to_all_single(hccl, output, source, takes, sends)
    return _box(hccl.perform(collective, [output], not async_op, timeout))


def _all_to_all(
    outputs: list[Tensor], inputs: list[Tensor], group: Any, async_op: bool = True, timeout: int = -1
) -> Any:
    hccl = _hccl(group)
    return outputs, _box(hccl.perform(all_to_all.all_to_all(hccl, outputs, inputs), outputs, not async_op, timeout))


def _barrier(_: Tensor, group: Any, __: list[int], async_op: bool = True, timeout: int = -1) -> Any:
    return _box(_hccl(group).perform(gather_scatter.barrier(), [], not async_op, timeout))


def _send(tensors: list[Tensor], group: Any, target: int, _: int) -> Any:
    return _box(_hccl(group).post("send", tensors[0], target))


def _recv(tensors: list[Tensor], group: Any, source: int, _: int) -> Any:
    return _box(_hccl(group).post("recv", tensors[0], source))


def _recv_any(*_: object) -> Any:
    raise RuntimeError("hccl recv: HCCL needs the rank that a message comes from, got none")


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
