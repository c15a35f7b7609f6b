"""Suites: tests, documents, layers, recipes and engines in the user's checkouts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from .documents import Example, examples


@dataclass(frozen=True)
class Job:
    """One process: a program, perhaps of several ranks, or a file of tests."""

    suite: str
    name: str
    code: str = ""
    ranks: Example | None = None
    tests: Path | None = None
    environment: tuple[tuple[str, str], ...] = ()  # for tests of another chip or CANN
    sample: int | None = None  # run this many evenly spaced tests
    unskips: bool = False  # run the tests that unittest.skip leaves out, and only these
    folder: Path | None = None
    recipe: tuple[str, int] | None = None  # its name, and the number of ranks
    engine_model: str = ""


@dataclass(frozen=True)
class Suite:
    """A part of a checkout.

    ``patterns`` select test files, of which ``sample`` tests each are run, or with a slash at their end folders that
    run as one; ``recipes`` are models, ``layers`` a project with quantised layers, ``engine_models`` those that an
    engine serves; otherwise it has documents with examples, with ``of_ranks`` those for several ranks. Only files that
    contain ``mentioning`` are run, in ``environment``. With ``unskips``, the tests that ``unittest.skip`` leaves out
    are run, and only these: of operators that the project's own CANN does not have yet.
    """

    name: str
    checkout: str
    root: str
    patterns: tuple[str, ...] = ()
    sample: int | None = None
    mentioning: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    recipes: tuple[tuple[str, int], ...] = ()
    layers: str = ""
    engine_models: tuple[str, ...] = ()
    of_ranks: bool = False
    unskips: bool = False

    def jobs(self, checkouts: Path) -> Iterator[Job]:
        """Yield the jobs in a fixed order."""
        root = checkouts / self.checkout / self.root
        if self.recipes:
            yield from (
                Job(self.name, title(name, ranks), folder=root, recipe=(name, ranks)) for name, ranks in self.recipes
            )
            return
        if self.engine_models:
            yield from (Job(self.name, name, engine_model=name) for name in self.engine_models)
            return
        if self.layers:
            from . import layers  # imports torch, which nothing else here needs

            yield from (Job(self.name, case, code=self._program(checkouts, case)) for case in layers.CASES[self.layers])
            return
        if not self.patterns:
            for example in examples(root):
                if example.of_ranks == self.of_ranks:
                    yield Job(self.name, example.name, example.code, example if example.of_ranks else None)
            return
        for path in _matching(root, self.patterns):
            text = "" if path.is_dir() else path.read_text(encoding="utf-8")
            if self.mentioning in text:
                # Ranks that use a device each without checking the device count would wait for a missing one.
                devices = _DEVICES if "set_device(rank" in text and "MultiNPU" not in text else ()
                # Tests with process pools hang in a forked process, so they get a new one.
                apart = _TWO_DEVICES if "multiprocessing import Pool" in text else ()
                yield Job(
                    self.name,
                    str(path.relative_to(root)),
                    tests=path,
                    environment=self.environment + devices if self.environment else apart,
                    sample=self.sample,
                    unskips=self.unskips,
                    folder=checkouts / self.checkout,
                )

    def _program(self, checkouts: Path, case: str) -> str:
        called = f"check({self.layers!r}, Path({str((checkouts / self.checkout).resolve())!r}), {case!r})"
        return f"from pathlib import Path\nfrom compat.layers import check\nprint({called})\n"

    def is_available(self, checkouts: Path) -> bool:
        """Whether the checkout exists, and for an engine vLLM."""
        return (checkouts / self.checkout / self.root).is_dir() and (not self.engine_models or bool(find_spec("vllm")))


_DEVICES = (("GRAPH_QUANT_DEVICES", "16"),)
_TWO_DEVICES = (("GRAPH_QUANT_DEVICES", "2"),)
# The environment that selects A3 as the host's chip.
A3 = {"GRAPH_QUANT_SOC": "Ascend910_9392"}


def title(recipe: str, ranks: int) -> str:
    """Return the name of a recipe in the table, without its mode."""
    return f"{recipe}, {ranks} rank{'s' * (ranks != 1)}"


def _matching(root: Path, patterns: Iterable[str]) -> list[Path]:
    matches = {
        path
        for pattern in patterns
        for path in root.glob(pattern)
        if path.is_file() or (pattern.endswith("/") and any(path.rglob("test_*.py")))
    }
    return sorted(path for path in matches if not re.search(r"conftest|__init__", path.name))


# Models with experts require groups of ranks, so they run with at least two ranks.
_RECIPES = (
    *((name, ranks) for ranks in (1, 2) for name in ("qwen3", "qwen3-w8a8")),
    *((name, 2) for name in ("qwen3_moe", "deepseek_r1", "deepseek_r1-w8a8", "deepseek_r1-w4a8", "deepseek_r1-w8a8c8")),
    *((name, 2) for name in ("deepseek_v3_2_exp", "deepseek_v3_2_exp-w4a8", "glm_5", "longcat_flash", "kimi_k2")),
    *((name, 2) for name in ("kimi_k2_thinking", "hy3", "qwen3_5", "gemma_4", "step3p7_flash", "longcat_flash_lite")),
    *((name, 1) for name in ("gpt_oss", "pangu_7b")),
)
_ENGINE_MODELS = (
    *("qwen3-bf16", "qwen3-w8a8-dynamic", "qwen3-w8a8-static", "qwen3-w8a16"),
    *("qwen3_moe-bf16", "qwen3_moe-w8a8-dynamic", "qwen3_moe-w4a8"),
    *("deepseek_v3-bf16", "deepseek_v3-w8a8-dynamic", "deepseek_v3_2-bf16"),
    *("qwen3_next-bf16", "gpt_oss-bf16", "qwen3-bf16, embedding"),
    *("qwen3-bf16, two ranks", "qwen3_moe-w8a8-dynamic, two ranks share experts"),
    *("qwen3-bf16, two stages", "qwen3-bf16, two copies"),
    *("qwen3-bf16, chunked prefill", "qwen3-bf16, prefix caching", "qwen3-bf16, n-gram speculation"),
    *("deepseek_v3-bf16, MTP speculation", "qwen3-bf16, LoRA", "qwen3-bf16, structured output"),
)
SUITES = (
    Suite("documents", "op-plugin", "docs/zh/custom_APIs"),
    Suite("documents-ranks", "op-plugin", "docs/zh/custom_APIs", of_ranks=True),
    Suite("op-plugin", "op-plugin", "test/test_custom_ops", ("test_*.py",)),
    Suite(
        "op-plugin-a3",
        "op-plugin",
        "test/test_custom_ops",
        ("test_*.py",),
        mentioning="Ascend910_93",
        environment=tuple(A3.items()),
    ),
    Suite(
        "op-plugin-cann9",
        "op-plugin",
        "test/test_custom_ops",
        ("test_*.py",),
        mentioning="9.0.0",
        environment=(("GRAPH_QUANT_CANN", "9.0.0"),),
    ),
    Suite(
        "op-plugin-skipped",
        "op-plugin",
        "test/test_custom_ops",
        ("test_*.py",),
        mentioning="unittest.skip(",
        unskips=True,
    ),
    *(
        Suite(
            f"op-plugin-ranks{of}",
            "op-plugin",
            "test/test_custom_ops",
            ("test_*.py",),
            mentioning="skipIfUnsupportMultiNPU",
            environment=(("GRAPH_QUANT_DEVICES", "16"), *chip.items()),
        )
        for of, chip in (("", {}), ("-a3", A3))
    ),
    Suite("torchair-captured", "torchair", "npugraph_ex/tests", ("smoke/*_test.py", "st/*_test.py")),
    Suite("torchair-smoke", "torchair", "tests/smoke", ("*aclgraph*_test.py",)),
    Suite("pytorch", "pytorch", "test", ("npu/test_*graph*.py", "test_npu_format*.py", "custom_ops/test_*.py")),
    Suite("pytorch-ops", "pytorch", "test", ("test_ops.py",), sample=127),
    Suite("recipes", "cann-recipes-infer", "", recipes=_RECIPES),
    Suite("sglang-layers", "sglang", "python/sglang/srt/hardware_backend/npu", layers="sglang"),
    Suite("vllm-ascend", "vllm-ascend", "tests/ut", ("test_*.py", "*/")),
    Suite("vllm-engine", "vllm-ascend", "vllm_ascend", engine_models=_ENGINE_MODELS),
    Suite("vllm-ascend-layers", "vllm-ascend", "vllm_ascend/quantization/methods", layers="vllm-ascend"),
)
