"""npu_quant_matmul on Ascend 950: what may be passed, and what comes back.

x1 (…, m, k) and x2 (…, k, n) of two to six dimensions are both int8, both int32 holding int4, both float8 (e4m3 and
e5m2 may be mixed), both HiFloat8 (x1_dtype and x2_dtype 290), or both float4 (296), two to a byte: along k of x1 and n
of x2, or, in a transposed view, along the other dimension. A float8_e4m3fn x1 may also be beside a float4 x2.

======== ============================ ====================== ========================== =============================
form     scale                        pertoken_scale         bias                       results
======== ============================ ====================== ========================== =============================
int8     packed (1,) or (n,)          none                   int32                      int8, float16, bfloat16
int8     float, bfloat16 (1,) or (n,) none                   int32, float32, bfloat16   bfloat16; int32 (bias int32)
int8/4   float32 (1,) or (n,)         float32 (m,)           int32, float32, float16    float16
int8/4   float, bfloat16 (1,) or (n,) float32 (m,)           int32, float32, bfloat16   bfloat16
int4     packed (1,) or (n,)          none                   int32                      float16, bfloat16
float8   packed (1,) or (n,)          none                   float32                    float16, bfloat16, float32
float8   float32 (1,) or (n,)         float32 (1,) or (m,)   float32                    float16, bfloat16, float32
float8   float32 blocks of 128, 128   float32 blocks of      none                       float16, bfloat16, float32
                                      128 or 1, 128
int8     float32 blocks of 128, 128   float32 1, 128         float32                    bfloat16
MX       float8_e8m0fnu               float8_e8m0fnu         float32                    float16, bfloat16, float32
         (…, ceil(k/64), n, 2)        (…, m, ceil(k/64), 2)
======== ============================ ====================== ========================== =============================

float8 stands for HiFloat8 too, except in MX. A float32 scale where a packed one is needed is packed. MX with a float8
x1 and a float4 x2 takes matrices alone, x2 as a transposed view, k a multiple of 8, and a bias (1, n) of the result's
dtype. FRACTAL_NZ but for int8, int4 weights of int8 rows, scales for groups of int4, and y_scale are not described yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.destination import BFLOAT16, FLOAT16, FLOAT32, INT8, INT32, Destination
from graph_quant.formats import ND, storage_format
from graph_quant.meta.matmul.shapes import broadcast, check_bias, check_depth, is_transposed
from graph_quant.meta.rules import Rules, Size
from graph_quant.narrow_floats import E2M1, E4M3, NUMBERS, find_format
from graph_quant.reference.matmul.narrow_products import HIFLOAT8
from graph_quant.reference.matmul.quant_matmul_950 import INT4, INTEGERS, K_BLOCK, N_BLOCK, NarrowForm
from graph_quant.refusals import UndescribedError
from torch import Tensor

HIFLOAT8_NUMBER, E8M0_NUMBERS = 290, (44, 293)
_BYTES = (torch.uint8, torch.int8)
_FLOATS = (FLOAT16, BFLOAT16, FLOAT32)
_FLOAT_SCALES = (torch.float32, torch.bfloat16)
_LARGEST_GROUP = 65535
_PAIRS = 2
_MX_BLOCK, _MX_PAIR = 32, 64


@dataclass(frozen=True)
class Product:
    """The sizes of a product, and what it is of."""

    form: NarrowForm
    m: Size
    k: Size
    n: Size
    shape: tuple[Size, ...]


def describe_operand(rules: Rules, argument: str, x: Tensor, requested: int | torch.dtype | None) -> str:
    """GE's name of the dtype of an operand, which may be carried in bytes."""
    if requested is None:
        if x.dtype == torch.int32:
            return INT4
        known = find_format(x.dtype)
        accepted = "torch.int8, torch.int32, torch.float8_e4m3fn or torch.float8_e5m2"
        if known is None and x.dtype != torch.int8:
            rules.refuse(f"{argument} must be {accepted}, or have {argument}_dtype, got {x.dtype}")
        return "int8" if known is None else known.name
    target = find_format(requested)
    name = HIFLOAT8 if requested == HIFLOAT8_NUMBER else (target.name if target else "")
    is_known = name in (HIFLOAT8, E2M1.name, *(known.name for known in NUMBERS.values() if known.dtype is not None))
    if not is_known:
        rules.refuse(
            f"{argument}_dtype must be torch_npu.hifloat8, torch.float8_e5m2, torch.float8_e4m3fn or "
            f"torch_npu.float4_e2m1fn_x2, got {requested}"
        )
    own = (target.dtype,) if target is not None and target.dtype is not None else ()
    rules.dtype(argument, x, (*_BYTES, *own), f" for {argument}_dtype {name}")
    return name


def check_operands(
    rules: Rules, x1: Tensor, x2: Tensor, x1_dtype: int | torch.dtype | None, x2_dtype: int | torch.dtype | None
) -> Product:
    """The sizes of the product of two operands that go together."""
    one = describe_operand(rules, "x1", x1, x1_dtype)
    other = describe_operand(rules, "x2", x2, x2_dtype)
    is_float8 = one.startswith("float8")
    if one == "int8" and other == INT4:
        raise UndescribedError(f"{rules.op}: int4 x2 beside int8 x1 is not described for Ascend 950 yet")
    rules.require(
        other == one or (is_float8 and other.startswith("float8")) or (one, other) == (E4M3.name, E2M1.name),
        lambda: f"x2 must be {'float8' if is_float8 else one} as x1 is, got {one} and {other}",
    )
    if other != "int8" and storage_format(x2) not in (None, ND):
        raise UndescribedError(f"{rules.op}: {other} x2 in FRACTAL_NZ is not described for Ascend 950 yet")
    rules.rank("x1", x1, 2, 6)
    rules.rank("x2", x2, 2, None if one == INT4 else 6, why=" when it holds int4" if one == INT4 else "")
    rules.not_empty("x1", x1)
    rules.not_empty("x2", x2)
    if one in INTEGERS:
        if one == INT4:
            rules.require(
                not is_transposed(x1),
                lambda: f"x1 must not be a transposed view beside int4 x2, got strides {list(x1.stride())}",
            )
        along_k, n = check_depth(rules, x1, x2, one == INT4)
        form, m, k = NarrowForm(one, other, x2_along_k=along_k), x1.size(-2), x2.size(-2)
    else:
        along_m = one == E2M1.name and is_transposed(x1)
        along_k = other == E2M1.name and is_transposed(x2)
        form = NarrowForm(one, other, x1_along_m=along_m, x2_along_k=along_k)
        m = x1.size(-2) * (_PAIRS if along_m else 1)
        k = x1.size(-1) * (_PAIRS if one == E2M1.name and not along_m else 1)
        n = x2.size(-1) * (_PAIRS if other == E2M1.name and not along_k else 1)
        rules.equal("k of x2", x2.size(-2) * (_PAIRS if along_k else 1), "k of x1", k)
    return Product(form, m, k, n, (*broadcast(rules, x1.shape[:-2], x2.shape[:-2]), m, n))


def is_codes(rules: Rules, argument: str, scale: Tensor | None, requested: int | torch.dtype | None) -> bool:
    """Whether a scale holds codes of float8_e8m0fnu."""
    if scale is None:
        rules.require(requested is None, lambda: f"{argument}_dtype must be None without {argument}, got {requested}")
        return False
    if requested is None:
        return scale.dtype == torch.float8_e8m0fnu
    rules.require(
        requested in (*E8M0_NUMBERS, torch.float8_e8m0fnu),
        lambda: f"{argument}_dtype must be torch_npu.float8_e8m0fnu or None, got {requested}",
    )
    rules.dtype(argument, scale, (torch.uint8, torch.int8, torch.float8_e8m0fnu), " for float8_e8m0fnu")
    return True


def check_call(
    rules: Rules,
    sizes: Product,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    output: Destination,
    codes: Sequence[bool],
    group_sizes: Sequence[int] | None,
) -> tuple[NarrowForm, int]:
    """Check the scales and the bias of a call, and return its form and the node's group_size.

    ``codes`` says of scale and of pertoken_scale whether they hold codes of float8_e8m0fnu.
    """
    form = sizes.form
    is_mx = all(codes)
    rules.require(
        is_mx or not any(codes),
        lambda: f"scale and pertoken_scale must both be float8_e8m0fnu or both not, got {list(codes)}",
    )
    groups = list(group_sizes or (0, 0, 0))
    rules.require(
        len(groups) == 3 and all(0 <= size <= _LARGEST_GROUP for size in groups),
        lambda: f"group_sizes must have 3 elements from 0 to {_LARGEST_GROUP}, got {groups}",
    )
    if offset is not None:
        rules.require(
            form.x1 == form.x2 == "int8" and output is INT8 and pertoken_scale is None,
            lambda: f"offset is for int8 operands and results, got {form.x1} and {output.storage}",
        )
        rules.dtype("offset", offset, (torch.float32,))
        rules.rank("offset", offset, 1)
        rules.one_or("offset.size(0)", offset.size(0), "n", sizes.n)
    if is_mx or form.x2 == E2M1.name:
        return _check_mx(rules, sizes, x1, x2, scale, pertoken_scale, bias, output, is_mx, groups)
    if pertoken_scale is not None and pertoken_scale.dim() > 1:
        return form, _check_blocks(rules, sizes, x1, x2, scale, pertoken_scale, bias, output, groups)
    rules.require(groups == [0, 0, 0], lambda: f"group_sizes must be None for scales of one dimension, got {groups}")
    return _check_vectors(rules, sizes, scale, pertoken_scale, bias, output), 0


def _check_vectors(
    rules: Rules, sizes: Product, scale: Tensor, pertoken_scale: Tensor | None, bias: Tensor | None, output: Destination
) -> NarrowForm:
    form = sizes.form
    scales, biases, outputs = _accepted(form.x1, output, scale, pertoken_scale)
    tokens = "without" if pertoken_scale is None else "with"
    rules.one_of(
        "output_dtype", output.storage, [row.storage for row in outputs], f" for {form.x1} {tokens} pertoken_scale"
    )
    why = f" for {form.x1} and {output.storage} output {tokens} pertoken_scale"
    rules.dtype("scale", scale, scales, why)
    rules.rank("scale", scale, 1)
    rules.one_or("scale.size(0)", scale.size(0), "n", sizes.n)
    if pertoken_scale is not None:
        rules.dtype("pertoken_scale", pertoken_scale, (torch.float32,))
        rules.rank("pertoken_scale", pertoken_scale, 1)
        if form.x1 in INTEGERS:
            rules.equal("pertoken_scale.size(0)", pertoken_scale.size(0), "m", sizes.m)
        else:
            rules.one_or("pertoken_scale.size(0)", pertoken_scale.size(0), "m", sizes.m)
    if bias is not None:
        rules.dtype("bias", bias, biases, why)
        check_bias(rules, bias, sizes.shape, form.x1 == INT4)
    if scale.dtype == torch.float32 and torch.int64 in scales and output is not BFLOAT16:
        return _packing(form)
    return (
        _packing(form) if form.x1 not in INTEGERS and pertoken_scale is None and scale.dtype == torch.float32 else form
    )


def _accepted(
    x1: str, output: Destination, scale: Tensor, pertoken_scale: Tensor | None
) -> tuple[tuple[torch.dtype, ...], tuple[torch.dtype, ...], tuple[Destination, ...]]:
    """The dtypes of scale and bias, and the results, that go with an operand."""
    if x1 not in INTEGERS:
        packed = (torch.int64, torch.float32)
        return (packed if pertoken_scale is None else (torch.float32,)), (torch.float32,), _FLOATS
    if pertoken_scale is not None:
        if output is FLOAT16:
            return (torch.float32,), (torch.int32, torch.float16, torch.float32), (FLOAT16, BFLOAT16)
        return _FLOAT_SCALES, (torch.int32, torch.bfloat16, torch.float32), (FLOAT16, BFLOAT16)
    outputs = (FLOAT16, BFLOAT16) if x1 == INT4 else (INT8, FLOAT16, BFLOAT16, INT32)
    if output is INT32:
        return _FLOAT_SCALES, (torch.int32,), outputs
    if output is BFLOAT16 and x1 != INT4:
        float_biases = () if scale.dtype == torch.int64 else (torch.bfloat16, torch.float32)
        return (torch.int64, *_FLOAT_SCALES), (torch.int32, *float_biases), outputs
    return (torch.int64, torch.float32), (torch.int32,), outputs


def _packing(form: NarrowForm) -> NarrowForm:
    return NarrowForm(form.x1, form.x2, form.x1_along_m, form.x2_along_k, form.is_mx, packs_scale=True)


def _check_blocks(
    rules: Rules,
    sizes: Product,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    pertoken_scale: Tensor,
    bias: Tensor | None,
    output: Destination,
    groups: list[int],
) -> int:
    """Scales of blocks of 128 of k and n, and of 128 or 1 of m."""
    is_int8 = sizes.form.x1 == "int8"
    if sizes.form.x1 == INT4:
        raise UndescribedError(f"{rules.op}: scales for groups of int4 are not described for Ascend 950 yet")
    outputs = (BFLOAT16,) if is_int8 else _FLOATS
    rules.one_of("output_dtype", output.storage, [row.storage for row in outputs], " for scales of blocks")
    rules.dtype("scale", scale, (torch.float32,), " beside a pertoken_scale of blocks")
    rules.dtype("pertoken_scale", pertoken_scale, (torch.float32,))
    if is_int8:
        if bias is not None:
            rules.dtype("bias", bias, (torch.float32,), " for scales of blocks")
            check_bias(rules, bias, sizes.shape, False)
    elif bias is not None:
        rules.refuse(f"bias must be None for float8 with scales of blocks, got {list(bias.shape)}")
    k_blocks, n_blocks = (sizes.k + K_BLOCK - 1) // K_BLOCK, (sizes.n + N_BLOCK - 1) // N_BLOCK
    rules.rank("pertoken_scale", pertoken_scale, x1.dim(), why=", as x1 has")
    rules.rank("scale", scale, x2.dim(), why=", as x2 has")
    group_m = groups[0] or _divide(rules, "m", sizes.m, pertoken_scale.size(-2))
    group_n = groups[1] or _divide(rules, "n", sizes.n, scale.size(-1))
    group_k = groups[2] or _divide(rules, "k", sizes.k, pertoken_scale.size(-1))
    rules.one_of("group_sizes[0]", group_m, (1,) if is_int8 else (1, N_BLOCK), " for scales of blocks")
    rules.one_of("group_sizes[1]", group_n, (N_BLOCK,), " for scales of blocks")
    rules.one_of("group_sizes[2]", group_k, (K_BLOCK,), " for scales of blocks")
    m_blocks = (sizes.m + group_m - 1) // group_m
    rules.shape("pertoken_scale", pertoken_scale, (*x1.shape[:-2], m_blocks, k_blocks))
    rules.shape("scale", scale, (*x2.shape[:-2], k_blocks, n_blocks))
    _check_views(rules, ("x1", x1), ("pertoken_scale", pertoken_scale), 2)
    _check_views(rules, ("x2", x2), ("scale", scale), 2)
    return (int(group_m) << 32) | (N_BLOCK << 16) | K_BLOCK


def _divide(rules: Rules, name: str, size: Size, count: Size) -> Size:
    rules.at_least(f"the number of scales along {name}", count, 1)
    rules.require(
        size % count == 0,  # type: ignore[operator]
        lambda: f"{name} must be a multiple of the number of scales along it beside a 0 in group_sizes, got {size}",
    )
    return size // count


def _check_mx(
    rules: Rules,
    sizes: Product,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    output: Destination,
    is_mx: bool,
    groups: list[int],
) -> tuple[NarrowForm, int]:
    form = sizes.form
    is_mixed = form.x1 != form.x2 and form.x2 == E2M1.name
    if pertoken_scale is None and is_mixed:
        raise UndescribedError(f"{rules.op}: float4 x2 beside float8 x1 without MX scales is not described yet")
    if pertoken_scale is None or not is_mx:
        rules.refuse(f"scale and pertoken_scale must both be float8_e8m0fnu for {form.x1}, got {scale.dtype}")
    if form.x1 in (*INTEGERS, HIFLOAT8):
        rules.refuse(f"x1 must be float8 or float4 for scales of float8_e8m0fnu, got {form.x1}")
    outputs = (FLOAT16, BFLOAT16) if is_mixed else _FLOATS
    rules.one_of("output_dtype", output.storage, [row.storage for row in outputs], " for MX operands")
    if is_mixed:
        rules.rank("x1", x1, 2, why=" beside float4 x2")
        rules.rank("x2", x2, 2, why=" beside float8 x1")
        rules.require(not is_transposed(x1), lambda: f"x1 must not be a transposed view, got strides {x1.stride()}")
        rules.require(form.x2_along_k, lambda: f"x2 must be a transposed view of (n, k/2), got strides {x2.stride()}")
        rules.multiple("k", sizes.k, 8, " for float8 x1 and float4 x2")
    elif form.x1 == E2M1.name:
        rules.at_least("k", sizes.k, 3)
    pairs = (sizes.k + _MX_PAIR - 1) // _MX_PAIR
    rules.shape("pertoken_scale", pertoken_scale, (*x1.shape[:-2], sizes.m, pairs, 2))
    rules.shape("scale", scale, (*x2.shape[:-2], pairs, sizes.n, 2))
    group_k = groups[2] if groups[2] or is_mixed else _divide(rules, "k", sizes.k, 2 * pairs)
    rules.one_of("group_sizes[2]", group_k, (_MX_BLOCK,), " for MX operands")
    if not is_mixed:
        rules.one_of("group_sizes[0]", groups[0], (0, 1), " for MX operands")
        rules.one_of("group_sizes[1]", groups[1], (0, 1), " for MX operands")
    if bias is not None:
        if is_mixed:
            rules.dtype("bias", bias, (output.storage,), ", the dtype of the result")
            rules.shape("bias", bias, (1, sizes.n), ("1", "n"))
        else:
            rules.dtype("bias", bias, (torch.float32,), " for MX operands")
            check_bias(rules, bias, sizes.shape, False)
    _check_views(rules, ("x1", x1), ("pertoken_scale", pertoken_scale), 3)
    _check_views(rules, ("x2", x2), ("scale", scale), 3)
    mx = NarrowForm(form.x1, form.x2, form.x1_along_m, form.x2_along_k, is_mx=True)
    return mx, (1 << 32) | (1 << 16) | _MX_BLOCK


def _check_views(rules: Rules, operand: tuple[str, Tensor], scales: tuple[str, Tensor], inner: int) -> None:
    """Require that the scales of blocks are a transposed view where their operand is one, in an eager call."""
    (name, x), (scale_name, scale) = operand, scales
    first, x_sizes, sizes = scale.dim() - inner, x.shape[-2:], scale.shape[-inner:][:2]
    if not rules.is_eager or x_sizes == (1, 1) or sizes == (1, 1):
        return
    is_view = x.stride(-1) == x.stride(-2) * x_sizes[0]
    scale_is_view = scale.stride(first + 1) == scale.stride(first) * sizes[0]
    rules.require(
        is_view == scale_is_view,
        lambda: f"{scale_name} must be a transposed view exactly where {name} is, got strides {list(scale.stride())}",
    )
