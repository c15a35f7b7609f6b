"""Infers the results of a call from metadata, and allocates them."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...formats import keep_format, storage_format
from ..alias import NPU, check_index, extent
from ..device import mixed_devices_error
from .fake_cpu import NAMES as STATISTICS
from .fake_cpu import infer_on_cpu
from .runtime import not_permitted

# They return nothing, and PyTorch cannot infer them.
_WRITE_ALONE = frozenset(("aten::_cummax_helper", "aten::_cummin_helper"))
_META = torch.device("meta")


class NewResult(NamedTuple):
    """A result with new memory: its path among the results, and the npu tensor that was allocated for it."""

    path: tuple[int, ...]
    tensor: Tensor


class MetaCall:
    """One call on the meta device, and the npu tensors of its arguments and results."""

    def __init__(self, op: OpOverload) -> None:
        self.op = op
        self.new_results: list[NewResult] = []
        self._pairs: list[tuple[Tensor, Tensor]] = []  # npu, meta
        self._metas: dict[int, Tensor] = {}

    def results(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the results of a call on npu tensors; those in `new_results` have no values yet."""
        inferred = self._infer(tuple(map(self._meta, args)), {k: self._meta(value) for k, value in kwargs.items()})
        for npu, meta in self._pairs:
            _follow_resize(npu, meta)
        if isinstance(inferred, tuple):
            written = self._written(args, kwargs)
            results = [
                self._to_npu(r, (i,)) if w is None else w
                for i, (r, w) in enumerate(zip(inferred, written, strict=True))
            ]
            return tuple(results)
        if isinstance(inferred, Tensor):
            (written_to,) = self._written(args, kwargs)
            return self._to_npu(inferred, ()) if written_to is None else written_to
        return self._to_npu(inferred, ())

    def _infer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.op.name() in _WRITE_ALONE:
            return None
        return infer_on_cpu(self.op, args, kwargs) if self.op.name() in STATISTICS else self.op(*args, **kwargs)

    def tensors(self) -> list[Tensor]:
        """Return the npu tensors that were passed."""
        return [npu for npu, _ in self._pairs]

    def _meta(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._meta_tensor(value)
        if isinstance(value, (list, tuple)):
            return [self._meta(item) for item in value]
        if isinstance(value, torch.device) and value.type == "npu":
            check_index(value)
            return _META
        return None if isinstance(value, torch.Generator) else value

    def _meta_tensor(self, value: Tensor) -> Tensor:
        if value.is_cpu:
            if value.dim() and not self._takes_cpu_tensors():
                raise self._cpu_tensor_error()
            return value
        if value.is_meta:
            return value
        meta = self._metas.get(id(value))
        if meta is None:
            meta = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=_META)
            meta = meta.conj() if value.is_conj() else meta
            meta = torch._neg_view(meta) if value.is_neg() else meta
            keep_format(meta, storage_format(value))
            self._metas[id(value)] = meta
            self._pairs.append((value, meta))
        return meta

    def _takes_cpu_tensors(self) -> bool:
        """Whether the operator takes CPU tensors, such as lengths, beside npu tensors."""
        from graph_quant.meta.operator import RECORDS

        record = RECORDS.get(self.op.name())
        return record is not None and bool(record.on_any_device)

    def _cpu_tensor_error(self) -> RuntimeError:
        from ..device import allows_mixed_devices

        if allows_mixed_devices(self.op):
            return not_permitted(self.op.name(), "it copies a tensor from the CPU")
        return mixed_devices_error(self.op)

    def _written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor | None]:
        """Return, for each result, the argument that the call writes into and returns."""
        by_set: dict[frozenset[str], Tensor] = {}
        for position, argument in enumerate(self.op._schema.arguments):
            info = argument.alias_info
            if info is not None and info.is_write:
                value = args[position] if position < len(args) else kwargs.get(argument.name)
                if isinstance(value, Tensor):
                    by_set[frozenset(info.before_set)] = value
        infos = [result.alias_info for result in self.op._schema.returns]
        return [
            by_set.get(frozenset(info.before_set)) if info is not None and info.is_write else None for info in infos
        ]

    def _to_npu(self, result: Any, path: tuple[int, ...]) -> Any:
        if isinstance(result, (list, tuple)):
            return tuple(self._to_npu(item, (*path, i)) for i, item in enumerate(result))
        if not isinstance(result, Tensor):
            return result
        for npu, meta in self._pairs:
            if result is meta:
                return npu
            if result.untyped_storage()._cdata == meta.untyped_storage()._cdata:
                return _same_view(npu, meta, result)
        if result.layout is not torch.strided:
            raise NotImplementedError(f"{result.layout} tensors are not supported on the host NPU")
        memory = torch.empty(extent(result), dtype=result.dtype, device=NPU)
        tensor = memory.as_strided(result.size(), result.stride())
        self.new_results.append(NewResult(path, tensor))
        return tensor


def _same_view(npu: Tensor, meta: Tensor, meta_view: Tensor) -> Tensor:
    """Return the view of `npu` that corresponds to `meta_view`, a view of its meta tensor."""
    offset = (npu.storage_offset() * npu.itemsize) // meta_view.itemsize + meta_view.storage_offset()
    if meta_view.dtype == meta.dtype:
        view = npu.as_strided(meta_view.size(), meta_view.stride(), offset)
    else:
        view = torch.empty(0, dtype=meta_view.dtype, device=NPU)
        view.set_(npu.untyped_storage(), offset, meta_view.size(), meta_view.stride())  # type: ignore[call-overload]
    return view


def _follow_resize(npu: Tensor, meta: Tensor) -> None:
    """Resize an out= tensor of another size, as outside of a capture."""
    if npu.size() != meta.size():
        npu.resize_(extent(meta))
        npu.as_strided_(meta.size(), meta.stride())
