"""The engine: operators relative to their memory traffic, imports relative to lowering, and the cost of a call.

Every figure is a ratio, or a difference, of times taken alternately in one run. The limit of an operator is a copy
with the same traffic: as many bytes read and written as the operator reads and writes.

    python benchmarks/run.py engine
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import graph_quant  # noqa: F401 (before torch: it makes torch_npu loadable)
import torch
import torch_npu
import torchair
from graph_quant.host.engine import HostGraph, import_graph, use
from graph_quant.reference.quant.dynamic_quant_asymmetric import dynamic_quant_asymmetric
from graph_quant.reference.quant.quantize import quantize

SIZE, GROUPS = 4096, 16
INT4 = torch.quint4x2
Function = Callable[..., Any]

OPERATORS: dict[str, Function] = {
    "group_quant int8": lambda x, s, g: torch_npu.npu_group_quant(x, s, g, dst_dtype=torch.int8),
    "group_quant int4": lambda x, s, g: torch_npu.npu_group_quant(x, s, g, dst_dtype=INT4),
    "quantize int8": lambda x, s, _: torch_npu.npu_quantize(x, s[0], None, torch.qint8, -1, False),
    "quantize int4": lambda x, s, _: torch_npu.npu_quantize(x, s[0], None, INT4, -1, False),
    "dynamic_asymmetric int8": lambda x, *_: torch_npu.npu_dynamic_quant_asymmetric(x),
    "dynamic_asymmetric int4": lambda x, *_: torch_npu.npu_dynamic_quant_asymmetric(x, dst_type=INT4),
}
# Bounds as multiples of the limit: inductor, eager.
BARS = {
    "group_quant int8": (5, 25),
    "group_quant int4": (10, 60),
    "quantize int8": (5, 25),
    "quantize int4": (10, 60),
    "dynamic_asymmetric int8": (8, 40),
    "dynamic_asymmetric int4": (12, 70),
}


def measure() -> dict[str, Any]:
    """Return all figures, with their bounds."""
    return {
        "operators": operator_costs(),
        "quant_matmul": matmul_cost(),
        "import": import_costs(),
        "call": call_cost(),
    }


def _alternating(functions: dict[str, Callable[[], object]], rounds: int, repeat: int = 1) -> dict[str, float]:
    """Return the minimum seconds of each function; rounds alternate, so that all see the same machine load.

    One thread is timed by what the processor gave it, which does not count the turns of others.
    """
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = clock()
            for _ in range(repeat):
                function()
            taken[name].append((clock() - start) / repeat)
    return {name: min(times) for name, times in taken.items()}


def _compiled(function: Function, engine: str, inputs: tuple[Any, ...], *, dynamic: bool | None = False) -> Function:
    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)
    with use(engine):
        compiled(*inputs)
    return compiled


def _copy_of(traffic: int) -> Callable[[], object]:
    source, target = torch.zeros(traffic // 2, dtype=torch.uint8), torch.zeros(traffic // 2, dtype=torch.uint8)
    return lambda: target.copy_(source)


def _traffic(values: Any) -> int:
    tensors = values if isinstance(values, (tuple, list)) else (values,)
    return sum(tensor.nbytes for tensor in tensors)


def _naive(name: str, x: torch.Tensor, scale: torch.Tensor, ends: torch.Tensor) -> Callable[[], object]:
    """Return the operator in plain eager torch, one step for each line."""
    low, high = (-8, 7) if name.endswith("int4") else (-128, 127)

    def stored(values: torch.Tensor) -> torch.Tensor:
        whole = torch.nan_to_num(values).round().clamp(low, high).to(torch.int32)
        if high == 127:
            return whole.to(torch.int8)
        shifts = torch.arange(0, 32, 4, dtype=torch.int32)
        return ((whole & 15).reshape(x.size(0), -1, 8) << shifts).sum(-1).to(torch.int32)

    def group() -> torch.Tensor:
        rows = torch.searchsorted(ends, torch.arange(x.size(0)), right=True)
        return stored(x.float() * scale.float()[rows])

    def dynamic() -> tuple[torch.Tensor, ...]:
        wide = x.float()
        step = ((wide.amax(-1) - wide.amin(-1)) / (high - low)).clamp_min(1e-12)
        offset = high - wide.amax(-1) / step
        return stored(wide * (1 / step).unsqueeze(-1) + offset.unsqueeze(-1)), step, offset

    if name.startswith("group"):
        return group
    return dynamic if name.startswith("dynamic") else lambda: stored(x.float() * scale[0].float())


def operator_costs(rounds: int = 40) -> dict[str, dict[str, float]]:
    """Each operator by both engines, in units of its limit."""
    torch.manual_seed(0)
    x, scale = torch.randn(SIZE, SIZE).half(), torch.rand(GROUPS, SIZE).half() * 8
    ends = torch.arange(1, GROUPS + 1) * (SIZE // GROUPS)
    inputs = (x, scale, ends)
    figures = {}
    for name, function in OPERATORS.items():
        eager, inductor = (_compiled(function, engine, inputs) for engine in ("eager", "inductor"))
        functions = {
            "limit": _copy_of(_traffic((x, scale)) + _traffic(eager(*inputs))),
            "inductor": functools.partial(inductor, *inputs),
            "eager": functools.partial(eager, *inputs),
            "naive": _naive(name, *inputs),
        }
        times = _alternating(functions, rounds)
        limit = times["limit"]
        figures[name] = {
            "inductor / limit": round(times["inductor"] / limit, 2),
            "inductor bar": BARS[name][0],
            "eager / limit": round(times["eager"] / limit, 2),
            "eager bar": BARS[name][1],
            "naive / inductor": round(times["naive"] / times["inductor"], 1),
            "naive bar": 10,
        }
    return figures


def matmul_cost(rounds: int = 3) -> dict[str, float]:
    """npu_quant_matmul 512x4096x4096 by both engines, in units of torch._int_mm."""
    torch.manual_seed(0)
    x1 = torch.randint(-128, 128, (512, SIZE), dtype=torch.int8)
    x2 = torch.randint(-128, 128, (SIZE, SIZE), dtype=torch.int8)
    scale = torch.rand(SIZE).bfloat16()

    def function(x1: torch.Tensor, x2: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_quant_matmul(x1, x2, scale, output_dtype=torch.bfloat16)

    inputs = (x1, x2, scale)
    functions: dict[str, Callable[[], object]] = {"_int_mm": lambda: torch._int_mm(x1, x2)}
    for engine in ("inductor", "eager"):
        functions[engine] = functools.partial(_compiled(function, engine, inputs), *inputs)
    times = _alternating(functions, rounds)
    return {
        "inductor / _int_mm": round(times["inductor"] / times["_int_mm"], 2),
        "eager / _int_mm": round(times["eager"] / times["_int_mm"], 2),
        "bar": 2,
    }


def import_costs(sizes: tuple[int, ...] = (500, 2000, 8000)) -> dict[str, dict[str, float]]:
    """Import of a lowered graph against TorchAir's own time to lower it."""
    figures = {}
    for size in sizes:
        lowering, ge_graph = _lower(size)
        times = _alternating({"import": functools.partial(import_graph, ge_graph)}, 3)
        figures[f"{len(ge_graph.op)} nodes"] = {
            "import / lowering": round(times["import"] / lowering, 3),
            "bar": 2,
            "import us per node": round(times["import"] / len(ge_graph.op) * 1e6, 1),
        }
    return figures


def _lower(size: int) -> tuple[float, Any]:
    """The seconds that TorchAir takes for a graph of ATen operators, and its GE graph."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    graph = torch.fx.Graph()
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(4, 4))
        value = graph.placeholder("x")
        value.meta["val"] = fake
        first = value
        for at in range(size):
            arguments = (value,) if at % 2 else (value, first)
            value = graph.call_function(torch.ops.aten.relu.default if at % 2 else torch.ops.aten.add.Tensor, arguments)
            value.meta["val"] = fake
        graph.output((value,))
        module = torch.fx.GraphModule(torch.nn.Module(), graph)
        compiler = torchair.get_compiler(torchair.CompilerConfig())
        start = time.perf_counter()
        compiled = compiler(module, [fake])
        return time.perf_counter() - start, compiled.runner.graph


def call_cost(rounds: int = 200) -> dict[str, dict[str, float]]:
    """Return the overhead of a compiled one-operator graph over its reference function.

    The whole call goes through Dynamo, AOTAutograd and TorchAir; the executor's own share is what the host adds.
    """
    x, scale = torch.randn(8, 16).half(), torch.rand(16).half()
    functions: dict[str, tuple[Function, Function]] = {
        "quantize (1 result)": (
            lambda x, s: torch_npu.npu_quantize(x, s, None, torch.qint8, -1, False),
            lambda x, s: quantize(x, s, None),
        ),
        "dynamic_asymmetric (3 results)": (
            lambda x, _: torch_npu.npu_dynamic_quant_asymmetric(x),
            lambda x, _: dynamic_quant_asymmetric(x),
        ),
    }
    figures = {}
    for name, (operator, reference) in functions.items():
        for device in ("cpu", "npu"):
            inputs = (x.to(device), scale.to(device))
            figures[f"{name}, {device}"] = _call_figures(operator, reference, inputs, rounds)
    return figures


def _call_figures(operator: Function, reference: Function, inputs: tuple[Any, ...], rounds: int) -> dict[str, float]:
    compiled = _compiled(operator, "eager", inputs, dynamic=None)
    functions = {
        "compiled": functools.partial(compiled, *inputs),
        "executor": _executor_alone(compiled, inputs),
        "reference": functools.partial(reference, *(tensor.cpu() for tensor in inputs)),
        "operator": functools.partial(operator, *inputs),
    }
    times = _alternating(functions, rounds, repeat=10)
    return {
        "more us": round((times["compiled"] - times["reference"]) * 1e6, 1),
        "bar": 150,
        "executor's own us": round((times["executor"] - times["reference"]) * 1e6, 1),
        "more than the eager operator us": round((times["compiled"] - times["operator"]) * 1e6, 1),
    }


def _executor_alone(compiled: Function, inputs: tuple[Any, ...]) -> Callable[[], object]:
    """Return TorchAir's call of the executor, to repeat it in isolation."""
    calls: list[functools.partial[Any]] = []
    run = HostGraph.run

    def note(graph: HostGraph, *args: Any, **kwargs: Any) -> Any:
        calls.append(functools.partial(run, graph, *args, **kwargs))
        return run(graph, *args, **kwargs)

    HostGraph.run = note  # type: ignore[method-assign]
    try:
        compiled(*inputs)
    finally:
        HostGraph.run = run  # type: ignore[method-assign]
    return calls[0]
