"""Dumps to test with: real ones, made by the real TorchAir while the tests run, and upstream's, kept as files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401  (first: it makes torch_npu and TorchAir load)
import pytest
import torch
import torch_npu

DATA = Path(__file__).parent / "data"
FORMATS = ("txt", "pbtxt", "py")
HALF = torch.float16


@dataclass
class Live:
    """A compiled call: its dumps by stage and format, what it was given and what it returned."""

    dumps: dict[str, dict[str, Path]] = field(default_factory=dict)
    inputs: list[torch.Tensor] = field(default_factory=list)
    outputs: list[torch.Tensor] = field(default_factory=list)
    graph: Any = None

    @property
    def txt(self) -> Path:
        return self.dumps["optimized"]["txt"]


class Block(torch.nn.Module):
    """A transformer block with a quantised feed-forward."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        for name, shape in (("up", (width, 2 * width)), ("down", (2 * width, width))):
            self.register_buffer(name, torch.randint(-128, 128, shape, dtype=torch.int8))
            self.register_buffer(f"{name}_scale", torch.rand(shape[1]) * 0.01)

    def linear(self, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        rows, pertoken = torch_npu.npu_dynamic_quant(x.reshape(-1, x.size(-1)).half())
        product = torch_npu.npu_quant_matmul(rows, weight, scale, pertoken_scale=pertoken, output_dtype=HALF)
        return product.reshape(*x.shape[:-1], weight.size(1)).float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        attention = torch.softmax(query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5, -1) @ value
        x = x + self.out(attention.transpose(1, 2).reshape(batch, length, width))
        hidden = torch.nn.functional.gelu(self.linear(self.norms[1](x), self.up, self.up_scale))
        return x + self.linear(hidden, self.down, self.down_scale)


def _group(**keywords: Any) -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    ends = torch.tensor([2, 2, 6], dtype=torch.int32)
    return (lambda x, s, g: torch_npu.npu_group_quant(x, s, g, **keywords)), (
        torch.randn(6, 16, dtype=HALF),
        torch.rand(3, 16, dtype=HALF) * 9,
        ends,
    )


def _int4_linear(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    rows, tokens = torch_npu.npu_dynamic_quant(x, dst_type=torch.quint4x2)
    return torch_npu.npu_quant_matmul(rows, weight, scale, pertoken_scale=tokens, output_dtype=HALF)


def cases() -> dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]:
    """A call for every operator of the package, and a block."""
    torch.manual_seed(0)
    wide, row = torch.randn(4, 24, dtype=HALF), torch.rand(24)
    whole = [torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((9, 32), (32, 16))]
    int4 = torch.quint4x2
    return {
        "group_quant": _group(),
        "group_quant_int4": _group(dst_dtype=int4),
        "quantize": (lambda x, s, z: torch_npu.npu_quantize(x, s, z, torch.qint8, -1, False), (wide.float(), row, row)),
        "quantize_int4": (lambda x, s: torch_npu.npu_quantize(x, s, None, int4, -1, False), (wide.float(), row)),
        "quantize_div": (lambda x, s: torch_npu.npu_quantize(x, s, None, torch.quint8, 1, True), (wide.float(), row)),
        "trans_quant_param": (lambda s, o: torch_npu.npu_trans_quant_param(s, o), (row, torch.randn(24) * 9)),
        "dynamic_quant": (lambda x: torch_npu.npu_dynamic_quant(x), (wide,)),
        "asymmetric": (lambda x, s: torch_npu.npu_dynamic_quant_asymmetric(x, smooth_scales=s), (wide, row.half())),
        "asymmetric_int4": (lambda x: torch_npu.npu_dynamic_quant_asymmetric(x, dst_type=int4), (wide,)),
        "quant_matmul": (
            lambda a, b, s: torch_npu.npu_quant_matmul(a, b, torch_npu.npu_trans_quant_param(s)),
            (*whole, torch.rand(16)),
        ),
        "int4_linear": (
            _int4_linear,
            (
                torch.randn(4, 128, dtype=HALF),
                torch.randint(-(2**31), 2**31, (128, 8), dtype=torch.int32),
                torch.rand(64),
            ),
        ),
        "block": (Block().eval().requires_grad_(False), (torch.randn(2, 10, 32),)),
    }


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Live]:
    """Every case, compiled and run once; TorchAir's own writer dumps each graph in its three formats."""
    with pytest.MonkeyPatch.context() as patch:
        return {name: _compile(*case, tmp_path_factory.mktemp(name), patch) for name, case in cases().items()}


def _compile(
    call: Callable[..., Any], arguments: tuple[torch.Tensor, ...], folder: Path, patch: pytest.MonkeyPatch
) -> Live:
    import torchair
    from graph_quant.host.engine.executor import HostGraph
    from torchair._ge_concrete_graph import fx2ge_converter, utils
    from torchair.configs.compiler_config import CompilerConfig

    result = Live()
    run = HostGraph.run

    def dump_all(path: str, graph: Any) -> None:
        stage = "optimized" if "optimized" in path else "original"
        result.dumps[stage] = {kind: folder / f"{stage}.{kind}" for kind in FORMATS}
        result.graph = graph
        for file in result.dumps[stage].values():
            utils.dump_graph(str(file), graph)

    def recording_run(self: HostGraph, inputs: Any, *rest: Any, **named: Any) -> Any:
        result.inputs = [tensor.detach().clone() for tensor in inputs]
        return run(self, inputs, *rest, **named)

    patch.setattr(fx2ge_converter, "dump_graph", dump_all)
    patch.setattr(HostGraph, "run", recording_run)
    config = CompilerConfig()
    config.debug.graph_dump.type = "txt"
    config.debug.graph_dump.path = str(folder)
    torch._dynamo.reset()
    backend = torchair.get_npu_backend(compiler_config=config)
    returned = torch.compile(call, fullgraph=True, dynamic=True, backend=backend)(*arguments)
    result.outputs = [returned] if isinstance(returned, torch.Tensor) else list(returned)
    patch.undo()
    return result


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: exit code, stdout, stderr."""
    from graph_quant.cli import main

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
