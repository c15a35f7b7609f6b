"""The models that vLLM serves, each with a small configuration, and the modes of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..recipes.configurations import RECIPES

EAGER = "eager"
# With the fusions that vllm-ascend makes in graphs, which round differently; other modes are without.
FUSED = "FULL_DECODE_ONLY, fused"
# Eager execution behind the OpenAI API, and the same with 1,000 requests more, whose memory is measured.
SERVER = "vllm serve"
LONG_SERVER = "vllm serve, 1,000 requests"
SERVERS = (SERVER, LONG_SERVER)
PROMPTS = ("The quick brown fox", "Hello", "In the beginning was the word, and the word was with")
_SHORT = (EAGER, "FULL_DECODE_ONLY")
_CAPTURED = ("PIECEWISE", "FULL", "FULL_DECODE_ONLY")
_UNFUSED = {"ascend_compilation_config": {"fuse_norm_quant": False, "fuse_qknorm_rope": False, "fuse_muls_add": False}}
# The most tokens of a step. vLLM runs a step of that many tokens at its start, and Triton's kernels are slow.
_LIMITS = {"max_model_len": 512, "max_num_seqs": 4, "max_num_batched_tokens": 128}


@dataclass(frozen=True)
class Model:
    """A small model, and what it is asked.

    ``scheme`` is that of its linears in a checkpoint of msModelSlim, None without quantisation. ``letters`` are those
    that a grammar allows in the answers. ``adapted`` are the prompts that are answered with a LoRA adapter. Prompts
    are asked in ``rounds``; ``counter`` is a metric of vLLM that is positive where the feature was used. ``drafts``
    adds the layer by which DeepSeek's models guess the token after the next.
    """

    config: Mapping[str, Any]
    scheme: str | None = None
    modes: tuple[str, ...] = (EAGER, *_CAPTURED, FUSED, *SERVERS)
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    unquantised: tuple[str, ...] = ("kv_b_proj",)  # linears that are not quantised
    prompts: tuple[str, ...] = PROMPTS
    embeds: bool = False
    letters: str = ""
    adapted: tuple[int, ...] = ()
    rounds: int = 1
    counter: str = ""
    drafts: bool = False

    @property
    def rounds_inputs(self) -> bool:
        """Whether linears round their inputs."""
        return self.scheme not in (None, "W8A16")


def options_of(model: Model, mode: str) -> dict[str, Any]:
    """Return the arguments of ``vllm.LLM``."""
    chosen: dict[str, Any] = {"enforce_eager": True}
    if mode not in (EAGER, *SERVERS):
        chosen = {"compilation_config": {"cudagraph_mode": mode.partition(",")[0]}}
        chosen["additional_config"] = {} if mode == FUSED else _UNFUSED
    quantised = {"quantization": "ascend"} if model.scheme else {}
    counted = {"disable_log_stats": False} if model.counter else {}
    return {**_LIMITS, **quantised, **counted, **chosen, **model.options}


def _config(recipe: str, **changes: Any) -> dict[str, Any]:
    return {**RECIPES[recipe].config, **changes}


_QWEN3 = _config("qwen3")
_QWEN3_MOE = _config("qwen3_moe")
_DEEPSEEK = _config("deepseek_r1")
_DEEPSEEK_V3_2 = _config("deepseek_v3_2_exp", architectures=["DeepseekV32ForCausalLM"])
_QWEN3_NEXT = {
    **{key: value for key, value in _QWEN3_MOE.items() if key != "rope_theta"},
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "shared_expert_intermediate_size": 128,
    "layer_types": ["linear_attention", "full_attention"],
    "full_attention_interval": 2,
    "partial_rotary_factor": 0.25,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25},
}
_GPT_OSS = _config("gpt_oss")
_TWO, _TWO_DEVICES = {"tensor_parallel_size": 2}, {"GRAPH_QUANT_DEVICES": "2"}
_NGRAM = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
_MTP = {"method": "mtp", "num_speculative_tokens": 1}
_DRAFTED = "vllm:spec_decode_num_draft_tokens"
# Longer than a block of the cache, which has 128 tokens.
_PREFIX = "Call me Ishmael. Some years ago, never mind how long precisely, having little or no money in my purse, " * 2
_LORA = {"enable_lora": True, "max_lora_rank": 8, "max_loras": 1}
MODELS = {
    "qwen3-bf16": Model(_QWEN3),
    "qwen3-w8a8-dynamic": Model(_QWEN3, "W8A8_DYNAMIC", _SHORT),
    "qwen3-w8a8-static": Model(_QWEN3, "W8A8", _SHORT),
    "qwen3-w8a16": Model(_QWEN3, "W8A16", _SHORT),
    "qwen3_moe-bf16": Model(_QWEN3_MOE, None, _SHORT),
    "qwen3_moe-w8a8-dynamic": Model(_QWEN3_MOE, "W8A8_DYNAMIC", _SHORT),
    "qwen3_moe-w4a8": Model(_QWEN3_MOE, "W4A8_DYNAMIC", _SHORT),
    "deepseek_v3-bf16": Model(_DEEPSEEK, None, _SHORT),
    "deepseek_v3-w8a8-dynamic": Model(_DEEPSEEK, "W8A8_DYNAMIC", _SHORT),
    "deepseek_v3_2-bf16": Model(_DEEPSEEK_V3_2, None, _SHORT),
    "qwen3_next-bf16": Model(_QWEN3_NEXT, None, _SHORT),
    "gpt_oss-bf16": Model(_GPT_OSS, None, _SHORT),
    "qwen3-bf16, embedding": Model(_QWEN3, None, _SHORT, {"runner": "pooling", "convert": "embed"}, embeds=True),
    "qwen3-bf16, two ranks": Model(_QWEN3, None, _SHORT, _TWO, _TWO_DEVICES),
    "qwen3_moe-w8a8-dynamic, two ranks share experts": Model(
        _QWEN3_MOE, "W8A8_DYNAMIC", _SHORT, {**_TWO, "enable_expert_parallel": True}, _TWO_DEVICES
    ),
    "qwen3-bf16, two stages": Model(_QWEN3, None, _SHORT, {"pipeline_parallel_size": 2}, _TWO_DEVICES),
    "qwen3-bf16, two copies": Model(
        _QWEN3, None, (SERVER,), {"data_parallel_size": 2, "api_server_count": 1}, _TWO_DEVICES
    ),
    "qwen3-bf16, chunked prefill": Model(_QWEN3, None, _SHORT, {"max_num_batched_tokens": 16}),
    "qwen3-bf16, prefix caching": Model(
        _QWEN3,
        None,
        _SHORT,
        prompts=tuple(_PREFIX + prompt for prompt in PROMPTS),
        rounds=2,
        counter="vllm:prefix_cache_hits",
    ),
    "qwen3-bf16, n-gram speculation": Model(_QWEN3, None, _SHORT, {"speculative_config": _NGRAM}, counter=_DRAFTED),
    "deepseek_v3-bf16, MTP speculation": Model(
        _DEEPSEEK, None, (EAGER,), {"speculative_config": _MTP}, counter=_DRAFTED, drafts=True
    ),
    "qwen3-bf16, LoRA": Model(_QWEN3, None, _SHORT, _LORA, adapted=(0, 2)),
    "qwen3-bf16, structured output": Model(_QWEN3, None, _SHORT, letters="abcdef"),
}
