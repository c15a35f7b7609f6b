"""Shared by the model examples: a transformers decoder with random weights, quantised, compiled and checked.

The model is compiled unchanged: one GE graph runs prompts of every length, another the decode steps.
"""

from __future__ import annotations

import copy
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401  (before torch: it makes torch_npu loadable)
import torch
import torchair
from graph_quant import dumps
from graph_quant.dumps import Finding, Severity
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PretrainedConfig, StaticCache

DEVICE = torch.device("npu:0")
CACHE_LENGTH = 64
LENGTHS = (7, 1, 2, 3, 8, 12, 16, 24, 33, 48)
MATMULS = (
    *("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"),
    *("QuantBatchMatmulV3", "WeightQuantBatchMatmulV2", "GroupedMatmul"),
)
INTEGERS = (3, 7, 28)  # int8, int32 that holds int4, and int4 in GE's descriptions of tensors


@dataclass
class Run:
    """One prompt length: whether prefill and decode step are bitwise equal to eager mode."""

    length: int
    prefill_equal: bool
    decode_equal: bool
    cache_equal: bool
    prefill_sqnr: float
    decode_sqnr: float

    @property
    def is_equal(self) -> bool:
        return self.prefill_equal and self.decode_equal and self.cache_equal


@dataclass
class Report:
    """The results of one model."""

    name: str
    graphs: int = 0
    nodes: int = 0
    types: Counter[str] = field(default_factory=Counter)
    replaced: int = 0
    matmuls: int = 0
    integer_matmuls: int = 0
    findings: list[Finding] = field(default_factory=list)
    compile_seconds: float = 0.0
    runs: list[Run] = field(default_factory=list)

    @property
    def recompiles(self) -> int:
        """Graphs beyond the two for prompts and decode steps."""
        return self.graphs - 2

    @property
    def bit_equal(self) -> bool:
        return all(run.is_equal for run in self.runs)


def make_model(config: PretrainedConfig, dtype: torch.dtype) -> nn.Module:
    """A model of ``config`` with random weights, on the NPU. Nothing is downloaded."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    return model.eval().to(DEVICE)  # type: ignore[no-any-return]


def make_cache(model: Any) -> StaticCache:
    """An empty KV cache for one sequence."""
    config = model.config
    cache = StaticCache(config=config, max_cache_len=CACHE_LENGTH)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache.early_initialization(1, config.num_key_value_heads, head_dim, model.dtype, DEVICE)
    return cache


def step(model: Any, tokens: Tensor, cache: StaticCache) -> Tensor:
    """Return the logits of ``tokens`` (1, new), and append them to the cache."""
    return model(input_ids=tokens, past_key_values=cache).logits  # type: ignore[no-any-return]


def prompt(length: int, vocabulary: int, seed: int = 0) -> Tensor:
    """Random tokens."""
    generator = torch.Generator().manual_seed(1000 * seed + length)
    return torch.randint(vocabulary, (1, length), generator=generator).to(DEVICE)


def calibrate(model: nn.Module, prompts: int = 4, length: int = 48) -> None:
    """Runs ``model`` on prompts that the checks do not use."""
    vocabulary = model.get_parameter("model.embed_tokens.weight").size(0)
    for seed in range(1, prompts + 1):
        step(model, prompt(length, vocabulary, seed), make_cache(model))


@torch.no_grad()
def prove(
    name: str, model: nn.Module, quantise: Callable[[nn.Module], Sequence[str]], lengths: Sequence[int] = LENGTHS
) -> Report:
    """Quantises a copy of ``model``, compiles it, and compares it with eager mode at every length."""
    report = Report(name)
    quantised = copy.deepcopy(model)
    report.replaced = len(quantise(quantised))
    with tempfile.TemporaryDirectory() as folder:
        config = torchair.CompilerConfig()
        config.debug.graph_dump.type = "txt"
        config.debug.graph_dump.path = folder
        torch._dynamo.reset()
        backend = torchair.get_npu_backend(compiler_config=config)
        compiled = torch.compile(quantised, fullgraph=True, dynamic=True, backend=backend)
        begin = time.perf_counter()
        step(compiled, prompt(lengths[0], 2), make_cache(quantised))
        report.compile_seconds = time.perf_counter() - begin
        report.runs = [_compare(model, quantised, compiled, length) for length in lengths]
        files = sorted(Path(folder).glob("dynamo_optimized_graph_*.txt"))
        report.graphs, graph = len(files), dumps.load(files[0])
        report.findings = [finding for finding in graph.lint() if finding.rule.severity > Severity.NOTE]
    report.nodes = len(graph.nodes)
    report.types = Counter(node.type for node in graph.nodes.values())
    read = [node.proto.input_desc[1].dtype for node in graph.nodes.values() if node.type in MATMULS]
    report.matmuls, report.integer_matmuls = len(read), sum(dtype in INTEGERS for dtype in read)
    return report


def _compare(model: Any, quantised: nn.Module, compiled: nn.Module, length: int) -> Run:
    tokens = prompt(length, model.config.vocab_size)
    float_cache, eager_cache, graph_cache = (make_cache(decoder) for decoder in (model, quantised, quantised))
    exact, eager = step(model, tokens, float_cache), step(quantised, tokens, eager_cache)
    graph = step(compiled, tokens, graph_cache)
    following = exact[:, -1:].argmax(-1)
    exact_next, eager_next = step(model, following, float_cache), step(quantised, following, eager_cache)
    graph_next = step(compiled, following, graph_cache)
    caches_equal = all(
        torch.equal(one.keys, other.keys) and torch.equal(one.values, other.values)
        for one, other in zip(eager_cache.layers, graph_cache.layers, strict=True)
    )
    return Run(
        length,
        torch.equal(eager, graph),
        torch.equal(eager_next, graph_next),
        caches_equal,
        sqnr(exact, graph),
        sqnr(exact_next, graph_next),
    )


def sqnr(exact: Tensor, approximate: Tensor) -> float:
    """The signal to quantisation noise ratio in decibels."""
    signal, noise = exact.cpu().double(), (exact.cpu().double() - approximate.cpu().double())
    return float(10 * torch.log10(signal.square().sum() / noise.square().sum()))


def show(report: Report) -> None:
    """Prints the report."""
    console = Console()
    console.rule(report.name)
    console.print(
        f"{report.replaced} modules replaced: {report.integer_matmuls} of {report.matmuls} matmuls have integer weights"
    )
    console.print(
        f"{report.graphs} GE graphs, that of prompts {report.nodes} nodes, compiled in {report.compile_seconds:.1f} s; "
        f"{report.recompiles} recompiles over {len(report.runs)} prompt lengths, each with a decode step"
    )
    common = ", ".join(f"{count} {kind}" for kind, count in report.types.most_common(12))
    console.print(f"nodes by type: {common}, …")
    console.print(f"lint: {len(report.findings)} errors and warnings")
    table = Table("prompt", "prefill = eager", "decode = eager", "KV cache = eager", "SQNR prefill", "SQNR decode")
    for run in report.runs:
        table.add_row(
            str(run.length),
            *("every bit" if equal else "NO" for equal in (run.prefill_equal, run.decode_equal, run.cache_equal)),
            f"{run.prefill_sqnr:.1f} dB",
            f"{run.decode_sqnr:.1f} dB",
        )
    console.print(table)
