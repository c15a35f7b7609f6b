"""What the model examples share: a decoder with random weights, quantised, compiled to one GE graph and checked.

The compiled function takes any number of new tokens and a KV cache of fixed size, so that one graph serves prompts of
every length and, with one token, the decode steps that follow.
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
from torch.fx.experimental import _config as shape_config
from transformers import AttentionInterface, AutoModelForCausalLM, PretrainedConfig, StaticCache

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
    """One prompt length: whether prefill and the decode step after it are equal to eager mode, bit for bit."""

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
    """What happened to a model."""

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
        return self.graphs - 1

    @property
    def bit_equal(self) -> bool:
        return all(run.is_equal for run in self.runs)


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float, **_: Any
) -> tuple[Tensor, None]:
    """Attention of one sequence, by bmm: torch.matmul asks whether there is one token, and so takes two graphs."""
    heads = [each[0].repeat_interleave(module.num_key_value_groups, 0) for each in (key, value)]
    scores = torch.bmm(query[0], heads[0].mT) * scaling + mask[0]
    shares = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    together = torch.bmm(shares, heads[1]).transpose(0, 1).clone(memory_format=torch.contiguous_format)
    return together.unsqueeze(0), None


AttentionInterface.register("one_graph", attention)


def make_model(config: PretrainedConfig, dtype: torch.dtype) -> nn.Module:
    """A model of ``config`` with random weights, on the NPU. Nothing is downloaded."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="one_graph")
    return model.eval().to(DEVICE)  # type: ignore[no-any-return]


def make_cache(model: Any) -> StaticCache:
    """An empty KV cache for one sequence."""
    config = model.config
    cache = StaticCache(config=config, max_cache_len=CACHE_LENGTH)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache.early_initialization(1, config.num_key_value_heads, head_dim, model.dtype, DEVICE)
    for layer in cache.layers:
        torch._dynamo.mark_static(layer.keys)
        torch._dynamo.mark_static(layer.values)
    return cache


def step(model: Any, tokens: Tensor, cache: StaticCache) -> Tensor:
    """The logits of ``tokens`` (1, new), which follow what the cache holds and are added to it."""
    positions = torch.arange(tokens.size(1), device=tokens.device) + cache.get_seq_length()
    hidden = torch.arange(CACHE_LENGTH, device=tokens.device) > positions.unsqueeze(1)
    # A mask made here instead of by transformers, whose code asks whether there is one token and so takes two graphs.
    mask = torch.zeros(hidden.shape, dtype=model.dtype, device=tokens.device)
    mask = mask.masked_fill(hidden, torch.finfo(model.dtype).min)
    output = model(
        input_ids=tokens,
        position_ids=positions.unsqueeze(0),
        attention_mask=mask[None, None],
        past_key_values=cache,
    )
    return output.logits  # type: ignore[no-any-return]


def prompt(length: int, vocabulary: int, seed: int = 0) -> Tensor:
    """Random tokens."""
    generator = torch.Generator().manual_seed(1000 * seed + length)
    return one_sequence(torch.randint(vocabulary, (1, length), generator=generator).to(DEVICE))


def one_sequence(tokens: Tensor) -> Tensor:
    """``tokens``, of which only the number is dynamic."""
    torch._dynamo.mark_static(tokens, 0)
    return tokens


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
        # It compares sizes while lowering, and would compile again for as many tokens as there are heads.
        config.experimental_config.enable_view_optimize = False
        backend = torchair.get_npu_backend(compiler_config=config)

        def counting(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            report.graphs += 1
            return backend(module, inputs)

        torch._dynamo.reset()
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=counting)
        # Without these, one token gets a graph of its own, and the model's float constants become inputs.
        with shape_config.patch(backed_size_oblivious=True), torch._dynamo.config.patch(specialize_float=True):
            begin = time.perf_counter()
            compiled(quantised, prompt(lengths[0], 2), make_cache(quantised))
            report.compile_seconds = time.perf_counter() - begin
            report.runs = [_compare(model, quantised, compiled, length) for length in lengths]
        graph = dumps.load(next(Path(folder).glob("dynamo_optimized_graph_*.txt")))
        report.findings = [finding for finding in graph.lint() if finding.rule.severity > Severity.NOTE]
    report.nodes = len(graph.nodes)
    report.types = Counter(node.type for node in graph.nodes.values())
    read = [node.proto.input_desc[1].dtype for node in graph.nodes.values() if node.type in MATMULS]
    report.matmuls, report.integer_matmuls = len(read), sum(dtype in INTEGERS for dtype in read)
    return report


def _compare(model: Any, quantised: nn.Module, compiled: Callable[..., Tensor], length: int) -> Run:
    tokens = prompt(length, model.config.vocab_size)
    float_cache, eager_cache, graph_cache = (make_cache(each) for each in (model, quantised, quantised))
    exact, eager = step(model, tokens, float_cache), step(quantised, tokens, eager_cache)
    graph = compiled(quantised, tokens, graph_cache)
    following = one_sequence(exact[:, -1:].argmax(-1))
    exact_next, eager_next = step(model, following, float_cache), step(quantised, following, eager_cache)
    graph_next = compiled(quantised, following, graph_cache)
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
        f"{report.graphs} GE graph of {report.nodes} nodes, compiled in {report.compile_seconds:.1f} s; "
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
