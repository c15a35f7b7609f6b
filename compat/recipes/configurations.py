"""The recipes, each with a small configuration of its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MODES = ("eager", "ge_graph", "npugraph_ex")


@dataclass(frozen=True)
class Recipe:
    """A small model of a recipe. ``model`` is its name in the recipes' runner."""

    model: str
    config: Mapping[str, Any]
    bits: tuple[int, int] | None = None  # of weights and activations
    kv_bits: int | None = None
    modes: tuple[str, ...] = MODES
    custom: Mapping[str, Any] = field(default_factory=dict)
    unquantised: tuple[str, ...] = ("kv_b_proj",)  # linears that are not quantised
    for_a3: bool = False  # by its README
    shares_experts: bool = False  # each rank has some experts, otherwise a part of every expert
    parallel: Mapping[str, int] = field(default_factory=dict)  # sizes of groups smaller than all ranks
    is_in_transformers: bool = True  # otherwise dummy weights, and only graphs are compared
    in_graphs: str = ""  # operators that the recipe uses in graphs only
    has_own_runner: bool = False  # in its folder, with its own settings format


_COMMON = {
    "vocab_size": 320,
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "torch_dtype": "bfloat16",
}
_QWEN3 = {
    **_COMMON,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "intermediate_size": 512,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "rope_theta": 1000000.0,
}
_QWEN3_MOE = {
    **_QWEN3,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 128,
    "num_experts": 8,
    "num_experts_per_tok": 4,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
# Experts of which all tokens have one, beside keys and values that are kept as one.
_SHARED_EXPERTS = {
    "intermediate_size": 512,
    "moe_intermediate_size": 64,
    "num_key_value_heads": 4,
    "num_nextn_predict_layers": 1,
    "n_shared_experts": 1,
    "n_routed_experts": 16,
    "routed_scaling_factor": 2.5,
    "kv_lora_rank": 512,
}
_DEEPSEEK = {
    **_COMMON,
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    **_SHARED_EXPERTS,
    "q_lora_rank": 256,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "qk_nope_head_dim": 128,
    "topk_method": "noaux_tc",
    "n_group": 8,
    "topk_group": 4,
    "num_experts_per_tok": 8,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 1,
    "norm_topk_prob": True,
    "scoring_func": "sigmoid",
    "rope_theta": 10000,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
        "type": "yarn",
    },
}
# What sends tokens to ranks that share experts takes no narrower ones.
_WIDE = {"hidden_size": 1024}
_DEEPSEEK_V3_2 = {
    **_DEEPSEEK,
    **_WIDE,
    "model_type": "deepseek_v32",
    "q_lora_rank": 1536,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 2048,
}
_GLM_5 = {
    **_COMMON,
    **_WIDE,
    "architectures": ["GlmMoeDsaForCausalLM"],
    "model_type": "glm_moe_dsa",
    **_SHARED_EXPERTS,
    "q_lora_rank": 2048,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "qk_nope_head_dim": 192,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "first_k_dense_replace": 1,
    "mlp_layer_types": ["dense", "sparse"],
    "moe_layer_freq": 1,
    "scoring_func": "sigmoid",
    "topk_method": "noaux_tc",
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_topk": 2048,
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
}
_LONGCAT = {
    **{key: value for key, value in _COMMON.items() if key != "num_hidden_layers"},
    **_WIDE,
    "architectures": ["LongcatFlashForCausalLM"],
    "model_type": "longcat_flash",
    "num_layers": 2,
    "num_key_value_heads": 4,
    "ffn_hidden_size": 512,
    "expert_ffn_hidden_size": 64,
    "kv_lora_rank": 512,
    "q_lora_rank": 256,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "qk_nope_head_dim": 128,
    "moe_topk": 8,
    "n_routed_experts": 16,
    "zero_expert_num": 8,
    "zero_expert_type": "identity",
    "routed_scaling_factor": 6.0,
    "rope_theta": 10000000.0,
    "num_nextn_predict_layers": 1,
    "mla_scale_q_lora": True,
    "mla_scale_kv_lora": True,
    "router_bias": False,
    "attention_method": "MLA",
}
_KIMI = {**_DEEPSEEK, "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0, "routed_scaling_factor": 2.827}
_GPT_OSS = {
    **_COMMON,
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "intermediate_size": 256,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "attention_bias": True,
    "num_local_experts": 8,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "rms_norm_eps": 1e-5,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 150000.0,
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    },
}
_HY3 = {
    **_COMMON,
    **_WIDE,
    "architectures": ["HYV3ForCausalLM"],
    "model_type": "hy_v3",
    "intermediate_size": 512,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "num_experts": 16,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "moe_intermediate_size": 64,
    "expert_hidden_dim": 64,
    "first_k_dense_replace": 1,
    "mlp_layer_types": ["dense", "sparse"],
    "num_nextn_predict_layers": 0,
    "rope_parameters": {"rope_theta": 11158840.0, "rope_type": "default"},
}
_QWEN3_5 = {
    **_COMMON,
    "architectures": ["Qwen3_5MoeForCausalLM"],
    "model_type": "qwen3_5_moe_text",
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 128,
    "num_experts": 8,
    "num_experts_per_tok": 4,
    "layer_types": ["linear_attention", "full_attention"],
    "full_attention_interval": 2,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000.0,
        "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10],
        "mrope_interleaved": True,
    },
}
_GEMMA_4 = {
    **_COMMON,
    **_WIDE,
    "architectures": ["Gemma4ForCausalLM"],
    "model_type": "gemma4_text",
    "intermediate_size": 512,
    "hidden_activation": "gelu_pytorch_tanh",
    "num_key_value_heads": 2,
    "num_global_key_value_heads": 2,
    "head_dim": 256,
    "global_head_dim": 512,
    "tie_word_embeddings": True,
    "sliding_window": 1024,
    "layer_types": ["sliding_attention", "full_attention"],
    "attention_k_eq_v": True,
    "enable_moe_block": True,
    "num_experts": 16,
    "top_k_experts": 8,
    "moe_intermediate_size": 64,
    "hidden_size_per_layer_input": 0,
    "final_logit_softcapping": 30.0,
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
    },
}
_LONGCAT_LITE = {
    **_LONGCAT,
    "architectures": ["LongcatCausalLM"],
    "model_type": "longcat_flash_ngram",
    "num_nextn_predict_layers": 0,
    "emb_neighbor_num": 4,
    "emb_split_num": 4,
    "ngram_vocab_size_ratio": 3,
    "rope_scaling": {"rope_type": "linear", "factor": 1.0},  # none: transformers 5 has no default for it to look up
}
_STEP = {
    **_COMMON,
    **_WIDE,
    "architectures": ["Step3p5ForCausalLM"],
    "model_type": "step3p5",
    "intermediate_size": 512,
    "num_attention_groups": 2,
    "head_dim": 128,
    "moe_intermediate_size": 64,
    "moe_num_experts": 16,
    "moe_top_k": 8,
    "share_expert_dim": 64,
    "moe_layers_enum": "1",
    "layer_types": ["full_attention", "sliding_attention"],
    "attention_other_setting": {
        "attention_type": "sliding_attention",
        "num_attention_heads": 6,
        "num_attention_groups": 2,
        "head_dim": 128,
    },
    "sliding_window": 32,
    "use_qk_norm": True,
    "use_head_wise_attn_gate": True,
    "use_moe_router_bias": True,
    "moe_router_activation": "sigmoid",
    "moe_router_scaling_factor": 3.0,
    "need_fp32_gate": True,
    "swiglu_limits": [0.0, 7.0],
    "swiglu_limits_shared": [0.0, 16.0],
    "rope_theta": [5000000.0, 10000.0],
    "partial_rotary_factors": [0.5, 1.0],
    "yarn_only_types": ["full_attention"],
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 2.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 32.0,
        "original_max_position_embeddings": 2048,
    },
}
# To transformers a Llama whose attention has biases.
_PANGU = {
    **_COMMON,
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "intermediate_size": 512,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "attention_bias": True,
    "rope_theta": 16000000.0,
    "rope_scaling": {"type": "linear", "factor": 1.0},  # none: the recipe looks for a type where transformers 5 has one
    "rms_norm_eps": 1e-5,
}
RECIPES = {
    "hy3": Recipe("hy3", _HY3, for_a3=True, shares_experts=True),
    "qwen3_5": Recipe("qwen3.5", _QWEN3_5, for_a3=True),
    "gemma_4": Recipe(
        "gemma_4",
        _GEMMA_4,
        for_a3=True,
        shares_experts=True,
        parallel={"attn_tp_size": 1, "dense_tp_size": 1},
        in_graphs="decodes with gelu and a product where npu_geglu is eagerly",
    ),
    "kimi_k2_thinking": Recipe(
        "kimi_k2_thinking", {**_KIMI, **_WIDE}, for_a3=True, shares_experts=True, parallel={"attn_tp_size": 1}
    ),
    "pangu_7b": Recipe("pangu_7b", _PANGU, modes=("eager", "ge_graph", "acl_graph"), has_own_runner=True),
    "gpt_oss": Recipe("gpt_oss", _GPT_OSS, modes=("eager",)),
    "kimi_k2": Recipe("kimi_k2", _KIMI, for_a3=True),
    "qwen3": Recipe("qwen3_8b", _QWEN3),
    "qwen3-w8a8": Recipe("qwen3_8b", _QWEN3, bits=(8, 8)),
    "qwen3_moe": Recipe("qwen3_moe", _QWEN3_MOE),
    "deepseek_r1": Recipe("deepseek_r1", _DEEPSEEK, for_a3=True),
    "deepseek_r1-w8a8": Recipe("deepseek_r1", _DEEPSEEK, bits=(8, 8), for_a3=True),
    "deepseek_r1-w4a8": Recipe("deepseek_r1", _DEEPSEEK, bits=(4, 8), for_a3=True),
    "deepseek_r1-w8a8c8": Recipe(
        "deepseek_r1", _DEEPSEEK, bits=(8, 8), kv_bits=8, custom={"enable_mla_prolog": True}, for_a3=True
    ),
    "deepseek_v3_2_exp": Recipe("deepseek_v3_2_exp", _DEEPSEEK_V3_2, for_a3=True, shares_experts=True),
    "deepseek_v3_2_exp-w4a8": Recipe(
        "deepseek_v3_2_exp",
        _DEEPSEEK_V3_2,
        bits=(4, 8),
        unquantised=("kv_b_proj", "kv_a_proj_with_mqa", "q_a_proj", "wk", "weights_proj"),
        for_a3=True,
        shares_experts=True,
    ),
    "glm_5": Recipe("glm_5", _GLM_5, for_a3=True, shares_experts=True, parallel={"attn_tp_size": 1}),
    "step3p7_flash": Recipe(
        "step3p7_flash",
        _STEP,
        modes=("eager", "npugraph_ex"),
        for_a3=True,
        shares_experts=True,
        parallel={"attn_tp_size": 1, "dense_tp_size": 1},
        is_in_transformers=False,
    ),
    "longcat_flash_lite": Recipe(
        "longcat_flash_lite",
        _LONGCAT_LITE,
        custom={"enable_moe_mc2_dispatch": True},  # its group is made eagerly where this is said, though it is used
        for_a3=True,
        shares_experts=True,
        is_in_transformers=False,
    ),
    "longcat_flash": Recipe(
        "longcat_flash", _LONGCAT, for_a3=True, shares_experts=True, parallel={"o_proj_tp_size": 2}
    ),
}
