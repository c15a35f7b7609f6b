"""npu_mla_prolog_v3 and its functional form: rules and results. See ``mla_prolog_rules``."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.meta.attention import mla_prolog_rules
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.cache_slots import BY_BLOCK
from graph_quant.reference.attention.mla_prolog_node import reshape_results, write_caches
from torch import Tensor

NONE, UP, ALL = 0, 1, 2
NUMBERS = ("rmsnorm_epsilon_cq", "rmsnorm_epsilon_ckv", "qc_qr_scale", "kc_scale")
ARGUMENTS = (
    "token_x", "weight_dq", "weight_uq_qr", "weight_uk", "weight_dkv_kr", "rmsnorm_gamma_cq", "rmsnorm_gamma_ckv",
    "rope_sin", "rope_cos", "kv_cache", "kr_cache", "cache_index", "dequant_scale_x", "dequant_scale_w_dq",
    "dequant_scale_w_uq_qr", "dequant_scale_w_dkv_kr", "quant_scale_ckv", "quant_scale_ckr", "smooth_scales_cq",
    "actual_seq_len", "k_nope_clip_alpha", "rmsnorm_epsilon_cq", "rmsnorm_epsilon_ckv", "cache_mode",
    "query_norm_flag", "weight_quant_mode", "kv_cache_quant_mode", "query_quant_mode", "ckvkr_repo_mode",
    "quant_scale_repo_mode", "tile_size", "qc_qr_scale", "kc_scale", "token_x_dtype", "weight_dq_dtype",
    "weight_uq_qr_dtype", "weight_dkv_kr_dtype", "kv_cache_dtype",
)  # fmt: skip


def _check(rules: Rules, arguments: dict[str, Any]) -> tuple[Result, ...]:
    for name in ARGUMENTS[-5:]:
        if arguments[name] is not None:
            rules.refuse(f"{name} is of Ascend 950 and must be None, got {arguments[name]}")
    mla_prolog_rules.check(rules, arguments, mla_prolog_rules.ALL_MODES, is_third=True)
    _check_modes(rules, arguments)
    ends = arguments["actual_seq_len"]
    is_packed = arguments["token_x"].dim() == 2 and arguments["cache_mode"] in BY_BLOCK
    if is_packed:
        if ends is None:
            rules.refuse(f"actual_seq_len must be given in cache_mode {arguments['cache_mode']}, got None")
        rules.dtype("actual_seq_len", ends, (torch.int32,))
        rules.rank("actual_seq_len", ends, 1)
    return mla_prolog_rules.results(arguments, arguments["query_norm_flag"], no_scale=0)


def _check_modes(rules: Rules, arguments: dict[str, Any]) -> None:
    """The modes must agree with the dtypes."""
    is_full, is_up = arguments["token_x"].dtype == torch.int8, arguments["weight_uq_qr"].dtype == torch.int8
    is_latent = arguments["kv_cache"].dtype == torch.int8
    expected = {
        "weight_quant_mode": ALL if is_full else UP if is_up else NONE,
        "kv_cache_quant_mode": (1 if is_full else 2) if is_latent else 0,
        "query_quant_mode": int(is_full and is_latent),
        "ckvkr_repo_mode": 0,
        "quant_scale_repo_mode": 0,
    }
    for name, mode in expected.items():
        got = arguments[name]
        rules.require(got == mode, lambda: f"{name} must be {mode} for these dtypes, got {got}")  # noqa: B023
    if arguments["k_nope_clip_alpha"] is not None:
        rules.refuse("k_nope_clip_alpha must be None, for caches quantised by groups are not known here, got a tensor")


def _name_arguments(values: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(ARGUMENTS, values, strict=True))


def rules_in_place(rules: Rules, *values: Any) -> Plan:
    """The plan of a call that writes its caches."""
    return Plan(_check(rules, _name_arguments(values)))


def rules_functional(rules: Rules, *values: Any) -> Plan:
    """The plan of a call that returns new caches after the other results."""
    arguments = _name_arguments(values)
    caches = (Result(tuple(arguments[name].shape), arguments[name].dtype) for name in ("kv_cache", "kr_cache"))
    return Plan((*_check(rules, arguments), *caches))


def compute_in_place(**arguments: Any) -> tuple[Tensor, ...]:
    """Writes the caches, and returns the other results."""
    tensors = [arguments[name] for name in (*ARGUMENTS[:9], *ARGUMENTS[12:19])]
    numbers = [arguments[name] for name in NUMBERS]
    caches = arguments["kv_cache"], arguments["kr_cache"]
    where = arguments["cache_index"], arguments["actual_seq_len"], arguments["cache_mode"]
    computed = write_caches("npu_mla_prolog_v3", tensors, numbers, caches, *where)
    return reshape_results(computed, arguments["token_x"], arguments["query_norm_flag"])


def compute_functional(**arguments: Any) -> tuple[Tensor, ...]:
    """The results, followed by updated copies of the caches."""
    copies = {name: arguments[name].clone() for name in ("kv_cache", "kr_cache")}
    return (*compute_in_place(**{**arguments, **copies}), *copies.values())


operator("npu_mla_prolog_v3", reference=with_signature(ARGUMENTS, compute_in_place))(
    with_signature(("rules", *ARGUMENTS), rules_in_place)
)
operator("npu_mla_prolog_v3_functional", reference=with_signature(ARGUMENTS, compute_functional))(
    with_signature(("rules", *ARGUMENTS), rules_functional)
)
