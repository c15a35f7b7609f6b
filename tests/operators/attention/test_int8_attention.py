"""Quantised attention without generated calls: its integers depend on the rounding of floats."""

import numpy as np
import torch

from operators.attention.fused_infer_attention_score import GQA, INT8
from operators.attention.fused_infer_attention_score_v2 import LATENT, NAME, NZ, NZ_ROPE, SCALES
from support.call_table import overload
from support.tensors import f16, f32, i8

FIRST = overload("npu_fused_infer_attention_score")


def test_int8_query_key_and_value_by_hand() -> None:
    query, key, value = i8(1, 4, 3, 32), i8(1, 2, 5, 32), i8(1, 2, 5, 32)
    scales = {name: float(scale) for name, scale in INT8.items()}
    out, _ = FIRST(query, key, value, **GQA, **INT8)
    q, k, v = query.double(), key.double().repeat_interleave(2, 1), value.double().repeat_interleave(2, 1)
    scores = (q @ k.mT * scales["dequant_scale1"]).half().double()
    scores = (scores * np.float32(0.2)).half().double()
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    integers = (weights.half().double() * scales["quant_scale1"]).round().clamp(-128, 127)
    sums = (integers @ v * scales["dequant_scale2"]).half().double()
    expected = (sums / weights.half().double().sum(-1, keepdim=True)).half()
    assert out.dtype == torch.float16
    torch.testing.assert_close(out, expected, rtol=2e-3, atol=0)


def test_int8_result_is_the_float_result_quantised() -> None:
    query, key, value = f16(1, 4, 3, 32), f16(1, 2, 5, 32), f16(1, 2, 5, 32)
    scale, offset = f32(4, 32).abs() * 9, f32(4, 32)
    exact, _ = FIRST(query.bfloat16(), key.bfloat16(), value.bfloat16(), **GQA)
    out, _ = FIRST(query.bfloat16(), key.bfloat16(), value.bfloat16(), **GQA, quant_scale2=scale, quant_offset2=offset)
    wanted = exact.float() * scale[None, :, None] + offset[None, :, None]
    # The float result was rounded to bfloat16 before it is scaled here: half a unit of 2**-8, and a rounding.
    bound = wanted.abs() * 2.0**-8 + 0.5 + 1e-3
    assert bool(((out.float() - wanted.clamp(-128, 127)).abs() <= bound).all())


def test_int8_latent_attention_by_hand() -> None:
    query = i8(3, 4, 512)
    out, _ = overload(f"npu_{NAME}")(query, NZ, NZ, **LATENT, **SCALES)
    rows = {0: (0, 1, 2, 9), 1: (1, 3, 1, 2)}  # start and stop in query, block, tokens of key
    factor = float(SCALES["dequant_scale_key"]) * 0.1
    for start, stop, block, length in rows.values():
        latent = NZ[block, 0].permute(1, 0, 2).reshape(128, 512)[:length].double()
        rope = NZ_ROPE[block, 0].permute(1, 0, 2).reshape(128, 64)[:length].double()
        for token in range(start, stop):
            seen = length - (stop - start) + (token - start) + 1
            scores = query[token].double() @ latent[:seen].T + LATENT["query_rope"][token].double() @ rope[:seen].T
            scores = scores * (SCALES["dequant_scale_query"][token].double() * factor)[:, None]
            weights = (scores - scores.amax(-1, keepdim=True)).exp()
            integers = (weights * 127).half().double().round()
            mean = integers @ latent[:seen] / weights.sum(-1, keepdim=True)
            expected = mean * float(SCALES["dequant_scale_value"]) / 127
            # Rounded once to bfloat16; a weight may fall on the other side of a half: one of 127 parts of a value.
            torch.testing.assert_close(
                out[:, token].double(), expected, rtol=2.0**-8, atol=float(expected.abs().max()) / 127
            )


def test_results_are_written_in_place() -> None:
    query, key, value = f16(1, 4, 3, 32).npu(), f16(1, 2, 5, 32).npu(), f16(1, 2, 5, 32).npu()
    expected, _ = FIRST(query, key, value, **GQA)
    workspace = torch.ops.npu._npu_fused_infer_attention_score_get_max_workspace(query, key, value, **GQA)
    out = [torch.empty_like(expected), torch.empty(0, device="npu")]
    returned = torch.ops.npu.npu_fused_infer_attention_score.out(query, key, value, **GQA, workspace=workspace, out=out)
    assert torch.equal(out[0], expected)
    assert returned[0].data_ptr() == out[0].data_ptr()
