"""Runs a dump on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import fx

from ...ge import first_line
from ...host.engine import EAGER, GraphError, RecordingInterpreter, import_graph, make_callable
from ..errors import DumpError, renamed_argument
from .replay_inputs import MOST_BYTES, make_inputs

if TYPE_CHECKING:
    from ..dump import Dump

Tensors = dict[str, torch.Tensor]


def to_fx(dump: Dump) -> fx.GraphModule:
    """Import a dump as an FX module of host kernels."""
    for node in dump.order:
        if node.type == "ConstPlaceHolder":
            # It refers to memory by address, which is invalid in any other process.
            raise DumpError(f"{node.name}: its data stayed in the process that wrote the dump; it cannot be replayed")
        if node.type in ("Data", "RefData") and "index" not in node.proto.attr:
            raise DumpError(f"{node.name}: this input has no index")
        if node.type in ("Data", "RefData") and not node.proto.output_desc:
            raise DumpError(f"{node.name}: this input has no desc, so its dtype and shape are not known")
    try:
        return import_graph(dump.graph_def)
    except (GraphError, TypeError, ValueError, RuntimeError, LookupError, SyntaxError) as error:
        raise DumpError(f"the host cannot run this graph: {first_line(error)}") from error


@renamed_argument("given", "inputs")
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
    """Run a dump on the host.

    Args:
        dump: The dump.
        inputs: Tensors by the names of the graph's Data nodes. Missing ones are generated.
        seed: The seed of generated inputs.
        sizes: Sizes of symbols; others are chosen.
        engine: ``eager`` or ``inductor``.
        trace: Whether to return every intermediate result too; runs eagerly.
        most_bytes: The limit for each result, and for all generated inputs together.

    Returns:
        The outputs as ``output0`` and so on; with ``trace`` also each result as ``node:index``.

    Raises:
        DumpError: If the graph cannot be run, or an input does not fit.
        SizeError: If a size is not possible.
        TooLargeError: If a tensor exceeds ``most_bytes``.
        MissingInputError: If an input cannot be generated.

    Examples:
        >>> replay(load("graph.txt"), sizes={"s0": 16})["output0"].shape
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
    """Read a safetensors file.

    Args:
        path: The file.

    Returns:
        The tensors by name.

    Raises:
        DumpError: If the file cannot be read, or safetensors is not installed.

    Examples:
        >>> replay(dump, read_tensors("inputs.safetensors"))
    """
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
    """Write a safetensors file.

    Args:
        tensors: The tensors by name.
        path: The file.

    Raises:
        DumpError: If the file cannot be written, or safetensors is not installed.

    Examples:
        >>> write_tensors(replay(dump), "outputs.safetensors")
    """
    try:
        from safetensors import SafetensorError
        from safetensors.torch import save_file
    except ImportError:
        raise DumpError("replay needs the safetensors package: pip install safetensors") from None
    try:
        save_file(tensors, path)
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise DumpError(f"{path}: the results cannot be written: {first_line(error)}") from None
