"""npu_kv_rmsnorm_rope_cache and its second version: argument rules and results.

kv is (B, 1, S, H) of float16 or bfloat16, not empty, cos and sin (B, 1, S, 64) of its dtype. Without v, H is 576: the
512 of gamma and 64 rotated channels. With v, (B, 1, S, 128), kv and gamma are 192 wide. The caches hold k (64 channels,
192 with v) and the latent part (512 channels, 128 with v), in the dtype of kv, or as int8 with a scale and, with v, an
optional offset. In mode Norm they are (B, 1, length, channels), int8 only with v, and index is (B, S). In the other
modes they are (blocks, block size, 1, channels), and index has a slot for each token, or in the BLK modes the first
slot of each block of a sequence.

On Ascend 950 the rotated width is even and kv as wide as gamma and the rotated channels together, in the modes without
NZ; caches that are quantised, and v, are not described.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.cache import kv_rmsnorm_rope_cache as reference
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

HALVES = (torch.float16, torch.bfloat16)
LATENT, ROPE = 512, 64
WITH_V, VALUE = 192, 128
_WRITTEN = 2  # both caches, which the functional form returns


def _check(
    rules: Rules,
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    caches: dict[str, tuple[Tensor, Tensor | None, Tensor | None]],
    v: Tensor | None,
    cache_mode: str,
) -> tuple[Result, Result]:
    if rules.chip is ASCEND_950:
        rules.require(v is None, lambda: "v must be None, it is not described for Ascend 950 yet, got a tensor")
        for name, (cache, _, _) in caches.items():
            rules.dtype(name, cache, (kv.dtype,), ", the dtype of kv; others are not described for Ascend 950 yet")
    may_have_any_width = rules.chip is ASCEND_950 and not cache_mode.endswith("NZ")
    rules.dtype("kv", kv, HALVES)
    rules.rank("kv", kv, 4)
    rules.not_empty("kv", kv)
    rules.equal("kv.size(1)", kv.size(1), "1", 1)
    rules.dtype("gamma", gamma, (kv.dtype,), ", the dtype of kv")
    rules.rank("gamma", gamma, 1)
    for name, coefficients in (("cos", cos), ("sin", sin)):
        rules.dtype(name, coefficients, (kv.dtype,), ", the dtype of kv")
        rules.rank(name, coefficients, 4)
        for dim in range(3):
            rules.equal(f"{name}.size({dim})", coefficients.size(dim), f"kv.size({dim})", kv.size(dim))
        if not may_have_any_width:
            rules.equal(f"{name}.size(3)", coefficients.size(3), "64", ROPE)
    if may_have_any_width:
        rules.equal("sin.size(3)", sin.size(3), "cos.size(3)", cos.size(3))
        rules.require(cos.size(3) % 2 == 0, lambda: f"cos.size(3) must be even, got {cos.size(3)}")
        widths: tuple[Size, Size] = cos.size(3), gamma.size(0)
        rules.equal("kv.size(3)", kv.size(3), "gamma.size(0) + cos.size(3)", sum(widths))
    else:
        widths = _widths(rules, kv, gamma, v)
    modes = reference.MODES
    rules.require(cache_mode in modes, lambda: f"cache_mode must be one of {', '.join(modes)}, got {cache_mode!r}")
    _check_index(rules, index, kv, caches["k_cache"][0], caches["ckv_cache"][0], cache_mode)
    for (name, (cache, scale, offset)), width in zip(caches.items(), widths, strict=True):
        _check_cache(rules, name, cache, kv, width, cache_mode)
        _check_parameters(rules, name, cache, scale, offset, width)
        if v is None:
            _check_latent_alone(rules, name, cache, offset, cache_mode)
    _check_ranks(rules, *(scale for _, scale, _ in caches.values()))
    shape = tuple(kv.shape[:3])
    return Result((*shape, widths[0]), kv.dtype), Result((*shape, widths[1]), kv.dtype)


def _check_index(rules: Rules, index: Tensor, kv: Tensor, k_cache: Tensor, ckv_cache: Tensor, cache_mode: str) -> None:
    """Check the slots, one per token or per block of a sequence, and that both caches have the same slots."""
    is_norm = cache_mode == reference.NORM
    rules.dtype("index", index, (torch.int64,))
    rules.rank("index", index, 2 if is_norm else 1)
    for name, cache in (("k_cache", k_cache), ("ckv_cache", ckv_cache)):
        rules.rank(name, cache, 4)
    for dim in (0, 2 if is_norm else 1):
        rules.equal(f"ckv_cache.size({dim})", ckv_cache.size(dim), f"k_cache.size({dim})", k_cache.size(dim))
    batches, length = kv.size(0), kv.size(2)
    if is_norm:
        rules.equal("index.size(0)", index.size(0), "kv.size(0)", batches)
        rules.equal("index.size(1)", index.size(1), "kv.size(2)", length)
    elif cache_mode in reference.BY_SLOT:
        rules.equal("index.size(0)", index.size(0), "the tokens of kv", batches * length)
    else:
        size = k_cache.size(1)
        rules.at_least("k_cache.size(1)", size, 1)
        rules.equal("index.size(0)", index.size(0), "the blocks of kv's sequences", batches * -(-length // size))


def _widths(rules: Rules, kv: Tensor, gamma: Tensor, v: Tensor | None) -> tuple[Size, Size]:
    if v is None:
        rules.equal("gamma.size(0)", gamma.size(0), "512", LATENT)
        rules.equal("kv.size(3)", kv.size(3), "576", LATENT + ROPE)
        return ROPE, LATENT
    rules.dtype("v", v, (kv.dtype,), ", the dtype of kv")
    rules.rank("v", v, 4)
    for dim in range(3):
        rules.equal(f"v.size({dim})", v.size(dim), f"kv.size({dim})", kv.size(dim))
    rules.equal("gamma.size(0)", gamma.size(0), "192, beside v", WITH_V)
    rules.equal("kv.size(3)", kv.size(3), "192, beside v", WITH_V)
    rules.equal("v.size(3)", v.size(3), "128", VALUE)
    return WITH_V, VALUE


def _check_cache(rules: Rules, name: str, cache: Tensor, kv: Tensor, width: Size, cache_mode: str) -> None:
    rules.dtype(name, cache, (kv.dtype, torch.int8))
    rules.equal(f"{name}.size(3)", cache.size(3), "the width of what it keeps", width)
    if cache_mode == reference.NORM:
        rules.equal(f"{name}.size(0)", cache.size(0), "kv.size(0)", kv.size(0))
        rules.equal(f"{name}.size(1)", cache.size(1), "1", 1)
    else:
        rules.equal(f"{name}.size(2)", cache.size(2), "1", 1)


def _check_parameters(
    rules: Rules, name: str, cache: Tensor, scale: Tensor | None, offset: Tensor | None, width: Size
) -> None:
    argument = "k_rope" if name == "k_cache" else "c_kv"
    rules.require(
        (scale is not None) == (cache.dtype == torch.int8),
        lambda: f"{argument}_scale must be given for a {name} of torch.int8 alone, got {name} of {cache.dtype}",
    )
    rules.require(offset is None or scale is not None, lambda: f"{argument}_offset needs {argument}_scale, got None")
    for kind, parameter in (("scale", scale), ("offset", offset)):
        if parameter is not None:
            full = f"{argument}_{kind}"
            rules.dtype(full, parameter, (torch.float32,))
            rules.rank(full, parameter, 1, 2)
            rules.equal(f"{full}.size(-1)", parameter.size(-1), "the width of what it scales", width)
            if parameter.dim() == 2:
                rules.equal(f"{full}.size(0)", parameter.size(0), "1", 1)


def _check_latent_alone(rules: Rules, name: str, cache: Tensor, offset: Tensor | None, cache_mode: str) -> None:
    """Without v the kernels support neither offsets nor int8 in mode Norm."""
    argument = "k_rope" if name == "k_cache" else "c_kv"
    rules.require(offset is None, lambda: f"{argument}_offset must be None without v, got a tensor")
    rules.require(
        cache_mode != reference.NORM or cache.dtype != torch.int8,
        lambda: f"{name} must not be torch.int8 in cache_mode Norm without v, got {cache.dtype}",
    )


def _check_ranks(rules: Rules, k_rope_scale: Tensor | None, c_kv_scale: Tensor | None) -> None:
    if k_rope_scale is not None and c_kv_scale is not None:
        rules.rank("c_kv_scale", c_kv_scale, k_rope_scale.dim(), why=", as k_rope_scale has")


@operator(
    "npu_kv_rmsnorm_rope_cache_v2",
    reference=reference.kv_rmsnorm_rope_cache_v2,
    results=lambda outputs: outputs[:-_WRITTEN],
    chips=A2_A3_950,
)
@operator(
    "npu_kv_rmsnorm_rope_cache_v2_functional",
    reference=reference.kv_rmsnorm_rope_cache_v2_functional,
    chips=A2_A3_950,
)
def kv_rmsnorm_rope_cache_v2(
    rules: Rules,
    kv: Tensor,
    gamma: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: Tensor,
    k_cache: Tensor,
    ckv_cache: Tensor,
    k_rope_scale: Tensor | None,
    c_kv_scale: Tensor | None,
    k_rope_offset: Tensor | None,
    c_kv_offset: Tensor | None,
    v: Tensor | None,
    epsilon: float,  # noqa: ARG001
    cache_mode: str,
    is_output_kv: bool,  # noqa: ARG001
    k_cache_dtype: int | None,
    ckv_cache_dtype: int | None,
) -> Plan:
    """Check a call and return its plan; only the functional form, which graphs use, returns the caches."""
    _refuse_950(rules, k_cache_dtype=k_cache_dtype, ckv_cache_dtype=ckv_cache_dtype)
    caches = {"k_cache": (k_cache, k_rope_scale, k_rope_offset), "ckv_cache": (ckv_cache, c_kv_scale, c_kv_offset)}
    outputs = _check(rules, kv, gamma, cos, sin, index, caches, v, cache_mode)
    return Plan((*outputs, _like(k_cache), _like(ckv_cache)))


def _like(cache: Tensor) -> Result:
    return Result(tuple(cache.shape), cache.dtype)


def _refuse_950(rules: Rules, **dtypes: int | None) -> None:
    for argument, value in dtypes.items():
        if value is not None:
            rules.refuse(f"{argument} is for Ascend 950, leave it None on A2 and A3, got {value}")


def _plan_first_version(rules: Rules, *values: Any) -> Plan:
    """Check a call of the first version, which has no cache dtypes and returns the caches first.

    It returns the caches themselves. In a graph they are other tensors, as the schema says.
    """
    assert kv_rmsnorm_rope_cache_v2.rules is not None
    outputs = kv_rmsnorm_rope_cache_v2.rules(rules, *values, None, None).results
    k_cache, ckv_cache = values[5:7]
    if isinstance(k_cache, FakeTensor):
        return Plan((_like(k_cache), _like(ckv_cache), *outputs))
    return Plan(("k_cache", "ckv_cache", *outputs))


operator("npu_kv_rmsnorm_rope_cache", reference=reference.kv_rmsnorm_rope_cache, chips=A2_A3_950)(
    with_signature(("rules", *kv_rmsnorm_rope_cache_v2.arguments[:-2]), _plan_first_version)
)
