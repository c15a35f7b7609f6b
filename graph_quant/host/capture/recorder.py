"""Records a kernel: its results are inferred from shapes, and nothing is computed.

Results are inferred on the meta device and allocated in the pool of the capture. The call is stored with CPU aliases
of its npu tensors, and runs when the graph is replayed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from . import copies
from .calls import Call, is_random
from .inference import MetaCall
from .runtime import RUNS, check_may_block, current_stream, in_branch, not_permitted, record_kernel, state_of
from .tape import Entry, put_entry

_NEEDS_VALUES = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})
# Calls that return a value to the CPU.
_BLOCKING = frozenset({"aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero"})


def record(op: OpOverload, eager: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Handle a call while some stream is captured: record it if that is the current stream, else run it."""
    stream = current_stream()
    state = state_of(stream)
    name = op.name()
    if state == RUNS:
        if name in _BLOCKING or (name in copies.COPIES and copies.is_blocking(args, kwargs)):
            check_may_block(name)
        return eager(*args, **kwargs)
    if torch.Tag.inplace_view in op.tags:  # changes the metadata of a tensor, and no memory
        return eager(*args, **kwargs)
    if name in _BLOCKING:
        raise not_permitted(name, "it needs a value on the CPU")
    copy = copies.COPIES.get(name)
    results, entry = _capture(op, name, args, kwargs) if copy is None else copy(*args, **kwargs)
    if entry is not None:
        written = [*npu_tensors(results), *written_arguments(op, args, kwargs)]
        put_entry(record_kernel(stream, state, name, _detail(entry, written)), entry._replace(results=tuple(written)))
    return results


def record_task(name: str, run: Callable[[], object], tensors: Sequence[Tensor], results: Sequence[Tensor]) -> bool:
    """Record a task that is no operator if the current stream is captured; return whether it is."""
    stream = current_stream()
    state = state_of(stream)
    if state == RUNS:
        return False
    entry = Entry(name, run, tuple(tensors))
    detail = _detail(entry, list(results))
    put_entry(record_kernel(stream, state, name, detail), entry._replace(results=tuple(results)))
    return True


def _capture(op: OpOverload, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Entry | None]:
    if is_random(op) and in_branch(current_stream()):
        raise RuntimeError(f"{name}: RNG op during graph capture but generator is not registered: it is in a branch")
    inference = MetaCall(op)
    try:
        results = inference.results(args, kwargs)
    except NotImplementedError as error:
        if _NEEDS_VALUES & set(op.tags):
            raise not_permitted(name, "its result's shape depends on values") from error
        raise NotImplementedError(f"{name} cannot be captured on the host NPU: {error}") from error
    except RuntimeError as error:
        if _NEEDS_VALUES & set(op.tags):
            raise not_permitted(name, "its result's shape depends on values") from error
        raise
    # PyTorch's schemas state what is written; some of torch_npu's operators write into arguments without saying so.
    if not inference.new_results and not op._schema.is_mutable and op.namespace == "aten":
        return results, None  # a view
    call = Call(op, args, kwargs)
    return results, Entry(name, call.step(inference.new_results), tuple(inference.tensors()))


def written_arguments(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Return the arguments that a call writes into."""
    values = [
        args[position] if position < len(args) else kwargs.get(argument.name)
        for position, argument in enumerate(op._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return npu_tensors(values)


def _detail(entry: Entry, written: list[Tensor]) -> str:
    """Return the tensors of a kernel as members of a JSON object."""
    inputs = ", ".join(dict.fromkeys(map(_described, entry.tensors)))
    outputs = ", ".join(dict.fromkeys(map(_described, written)))
    return f'"Inputs": [{inputs}], "Outputs": [{outputs}]'


def _described(tensor: Tensor) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f'{{"Address": {tensor.data_ptr()}, "Type": "{dtype}", "Shape": {list(tensor.size())}}}'


def npu_tensors(results: Any) -> list[Tensor]:
    """Return the npu tensors among some results."""
    if isinstance(results, Tensor):
        return [results] if results.device.type == "npu" else []
    return [tensor for item in results for tensor in npu_tensors(item)] if isinstance(results, (list, tuple)) else []
