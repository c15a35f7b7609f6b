"""Settings: an environment variable sets a value for a process, a context manager for a block of code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, NamedTuple, TypeVar

Choice = TypeVar("Choice")


class Setting(Generic[Choice]):
    """A setting. ``parse`` converts a text, given with the name of its source, or raises; "" is the default."""

    def __init__(self, variable: str, parse: Callable[[str, str], Choice]) -> None:
        self.variable = variable
        self._parse = parse
        self._chosen: ContextVar[Choice] = ContextVar(variable)

    def current(self) -> Choice:
        """Return the value in effect."""
        chosen = self._chosen.get(None)
        return self._parse(os.environ.get(self.variable, ""), self.variable) if chosen is None else chosen

    @contextmanager
    def use(self, text: str, source: str) -> Iterator[None]:
        """Use ``text`` inside the block."""
        token = self._chosen.set(self._parse(text, source))
        try:
            yield
        finally:
            self._chosen.reset(token)


class Variable(NamedTuple):
    """An environment variable: its values, its default and what it does."""

    name: str
    values: str
    default: str
    meaning: str


# Every variable that the package reads; docs/environment.md is written from this table.
VARIABLES = (
    Variable(
        "GRAPH_QUANT_HOST",
        "auto, on, off",
        "auto",
        "Whether the host NPU stands in for CANN: where the dynamic loader finds no CANN runtime, always, or never.",
    ),
    Variable(
        "GRAPH_QUANT_ENGINE",
        "eager, inductor",
        "eager",
        "How the host runs GE graphs: node by node, which starts at once, or compiled for the CPU, which runs faster.",
    ),
    Variable(
        "GRAPH_QUANT_PASSES",
        "on, off, or names of passes separated by commas",
        "on",
        "Which passes over GE graphs run.",
    ),
    Variable(
        "GRAPH_QUANT_FUSE",
        "on, off, or names of fusions separated by commas",
        "off",
        "Which subgraphs of ATen operators become fused npu operators, which round differently.",
    ),
    Variable(
        "GRAPH_QUANT_DUMP",
        "a folder",
        "",
        "Where the GE graph of each compiled function is written, named after it. `graph-quant run --dump` sets it.",
    ),
    Variable(
        "GRAPH_QUANT_VERIFY",
        "a folder",
        "",
        "Where the processes of vLLM write how their graphs compare with eager execution, step by step. "
        "`graph-quant run --verify` sets it.",
    ),
    Variable(
        "GRAPH_QUANT_TRACEBACK",
        "on, off",
        "off",
        "Whether a refused call that ends a script of `graph-quant run` prints its whole traceback. "
        "`graph-quant run --traceback` sets it.",
    ),
    Variable(
        "GRAPH_QUANT_SOC",
        "a chip that torch_npu knows, such as Ascend910_9392",
        "Ascend910B3",
        "The chip that the host NPU reports. Operators that are not described for it are refused by name.",
    ),
    Variable(
        "GRAPH_QUANT_DEVICES",
        "1 to 64",
        "LOCAL_WORLD_SIZE, else 1",
        "The number of npu devices on the host.",
    ),
    Variable(
        "GRAPH_QUANT_MEMORY",
        "a size such as 16GiB",
        "64GiB, or the machine's memory if that is less",
        "The memory that each device reports. It is reserved, and the machine's is used where a program writes to it.",
    ),
    Variable(
        "GRAPH_QUANT_TRITON_CORES",
        "1 or more",
        "those of the chip",
        "The cube cores that Triton's driver reports, with two vector cores for each. Kernels start a program for each "
        "core, which the host runs one after another: with 1, vLLM is several times as fast.",
    ),
    Variable(
        "GRAPH_QUANT_CANN",
        "a version such as 9.1 or 9.1.0",
        "what the installed torch_npu was released for",
        "The release of CANN that the host reports and whose rules it follows. Calls that a later one is the first to "
        "take are refused, and say so; no result changes.",
    ),
    Variable(
        "GRAPH_QUANT_WARNINGS",
        "on, off",
        "on",
        "Whether calls that a device takes and that are nearly always mistakes are warned of, each once.",
    ),
    Variable(
        "GRAPH_QUANT_REPORTS",
        "a folder",
        "",
        "Set by `graph-quant verify --ranks` for the ranks that it starts: where they leave their reports.",
    ),
)
# Variables of other projects that the package reads, sets or refuses.
OTHER_VARIABLES = (
    Variable(
        "INF_NAN_MODE_FORCE_DISABLE",
        "unset, 0",
        "",
        "Saturating overflow. Refused when set: the host computes infinities and NaN, as A2 and A3 do by default.",
    ),
    Variable(
        "TASK_QUEUE_ENABLE",
        "0",
        "",
        "torch_npu's task queue. The host sets 0 while torch_npu starts, because the host computes every call at once.",
    ),
    Variable(
        "TORCH_COMPILE_DEBUG",
        "1",
        "",
        "PyTorch's debug output. TorchAir then writes the graph after each pass, those of this package included.",
    ),
    Variable(
        "TORCH_NPU_USE_COMPATIBLE_IMPL",
        "1",
        "",
        "torch_npu's switch for collectives as PyTorch has them. Without it a group does not gather to one rank.",
    ),
    Variable(
        "RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE",
        "numbers",
        "",
        "torch.distributed's variables, set by torchrun or `graph-quant run --ranks`. A rank uses `npu:LOCAL_RANK`.",
    ),
)
