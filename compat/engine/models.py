"""The models that vLLM serves, each with a small configuration, and the modes of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..recipes.configurations import RECIPES

EAGER = "eager"
# With the fusions that vllm-ascend makes in graphs, which round differently; other modes are without.
FUSED = "FULL_DECODE_ONLY, fused"
# Eager execution behind the OpenAI API.
SERVER = "vllm serve"
_SHORT = (EAGER, "FULL_DECODE_ONLY")
_CAPTURED = ("PIECEWISE", "FULL", "FULL_DECODE_ONLY")
_UNFUSED = {"ascend_compilation_config": {"fuse_norm_quant": False, "fuse_qknorm_rope": False, "fuse_muls_add": False}}
# The most tokens of a step. vLLM runs a step of that many tokens at its start, and Triton's kernels are slow.
_LIMITS = {"max_model_len": 512, "max_num_seqs": 4, "max_num_batched_tokens": 128}


@dataclass(frozen=True)
class Model:
    """A small model. ``scheme`` is that of its linears in a checkpoint of msModelSlim, None without quantisation."""

    config: Mapping[str, Any]
    scheme: str | None = None
    modes: tuple[str, ...] = (EAGER, *_CAPTURED, FUSED, SERVER)
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    unquantised: tuple[str, ...] = ("kv_b_proj",)  # linears that are not quantised


def options_of(model: Model, mode: str) -> dict[str, Any]:
    """Return the arguments of ``vllm.LLM``."""
    chosen: dict[str, Any] = {"enforce_eager": True}
    if mode not in (EAGER, SERVER):
        chosen = {"compilation_config": {"cudagraph_mode": mode.partition(",")[0]}}
        chosen["additional_config"] = {} if mode == FUSED else _UNFUSED
    quantised = {"quantization": "ascend"} if model.scheme else {}
    return {**_LIMITS, **quantised, **chosen, **model.options}


def _config(recipe: str, **changes: Any) -> dict[str, Any]:
    return {**RECIPES[recipe].config, **changes}


_QWEN3 = _config("qwen3")
_QWEN3_MOE = _config("qwen3_moe")
_DEEPSEEK = _config("deepseek_r1")
_TWO, _TWO_DEVICES = {"tensor_parallel_size": 2}, {"GRAPH_QUANT_DEVICES": "2"}
_NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
MODELS = {
    "qwen3-bf16": Model(_QWEN3),
    "qwen3-w8a8-dynamic": Model(_QWEN3, "W8A8_DYNAMIC", _SHORT),
    "qwen3-w8a8-static": Model(_QWEN3, "W8A8", _SHORT),
    "qwen3_moe-bf16": Model(_QWEN3_MOE, None, _SHORT),
    "qwen3_moe-w8a8-dynamic": Model(_QWEN3_MOE, "W8A8_DYNAMIC", _SHORT),
    "deepseek_v3-bf16": Model(_DEEPSEEK, None, _SHORT),
    "deepseek_v3-w8a8-dynamic": Model(_DEEPSEEK, "W8A8_DYNAMIC", _SHORT),
    "qwen3-bf16, two ranks": Model(_QWEN3, None, _SHORT, _TWO, _TWO_DEVICES),
    "qwen3_moe-w8a8-dynamic, two ranks share experts": Model(
        _QWEN3_MOE, "W8A8_DYNAMIC", _SHORT, {**_TWO, "enable_expert_parallel": True}, _TWO_DEVICES
    ),
    "qwen3-bf16, chunked prefill": Model(_QWEN3, None, (EAGER,), {"max_num_batched_tokens": 16}),
    "qwen3-bf16, n-gram speculation": Model(_QWEN3, None, (EAGER,), {"speculative_config": _NGRAM}),
}
