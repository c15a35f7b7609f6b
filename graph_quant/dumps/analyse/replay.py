"""Runs a dump on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import fx

from ...ge import first_line
from ...host.engine import EAGER, GraphError, RecordingInterpreter, import_graph, make_callable
from ..errors import DumpError
from .replay_inputs import MOST_BYTES, make_inputs

if TYPE_CHECKING:
    from ..dump import Dump

Tensors = dict[str, torch.Tensor]


def to_fx(dump: Dump) -> fx.GraphModule:
    """The dump as a module of host kernels."""
    for node in dump.order:
        if node.type == "ConstPlaceHolder":
            # It names memory by address, which means nothing, or worse, in any other process.
            raise DumpError(f"{node.name}: its data stayed in the process that wrote the dump; it cannot be replayed")
        if node.type in ("Data", "RefData") and "index" not in node.proto.attr:
            raise DumpError(f"{node.name}: this input has no index")
        if node.type in ("Data", "RefData") and not node.proto.output_desc:
            raise DumpError(f"{node.name}: this input has no desc, so its dtype and shape are not known")
    try:
        return import_graph(dump.graph_def)
    except (GraphError, TypeError, ValueError, RuntimeError, LookupError, SyntaxError) as error:
        raise DumpError(f"the host cannot run this graph: {first_line(error)}") from error


def replay(
    dump: Dump,
    inputs: Mapping[str, torch.Tensor] | None = None,
    *,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    engine: str = EAGER,
    trace: bool = False,
    most_bytes: int = MOST_BYTES,
) -> Tensors:
    """The outputs as ``output0`` and so on, and with ``trace`` every result of every node as ``node:index``.

    Results, and inputs that are made up, of more than ``most_bytes`` are refused.
    """
    module = to_fx(dump)
    arguments = make_inputs(dump, inputs or {}, sizes or {}, seed, most_bytes)
    results: Tensors = {}
    try:
        if trace:
            recorder = RecordingInterpreter(module)
            outputs = recorder.run(*arguments)
            results.update({f"{node}:{index}": tensor for (node, index), tensor in recorder.recorded.items()})
        else:
            outputs = make_callable(module, engine)(*arguments)
    except Exception as error:
        raise DumpError(f"the graph stops: {first_line(error)}") from error
    results.update({f"output{index}": output for index, output in enumerate(outputs)})
    # safetensors stores each tensor on its own and refuses shared memory.
    return {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in results.items()}


def read_tensors(path: str) -> Tensors:
    """The tensors of a safetensors file."""
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise DumpError("replay needs the safetensors package: pip install safetensors") from None
    try:
        tensors: Tensors = load_file(path)
        return tensors
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise DumpError(f"{path}: this is not a safetensors file: {first_line(error)}") from None


def write_tensors(tensors: Tensors, path: str) -> None:
    """Store tensors at ``path``."""
    try:
        from safetensors import SafetensorError
        from safetensors.torch import save_file
    except ImportError:
        raise DumpError("replay needs the safetensors package: pip install safetensors") from None
    try:
        save_file(tensors, path)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise DumpError(f"{path}: the results cannot be written: {first_line(error)}") from None
