"""Dequantised results are within half a step of the input, unless they saturated."""

import pytest
import torch
import torch_npu
from graph_quant import reference

from support.all_calls import INT4
from support.tensors import ends, f16, f32

KINDS = [(torch.int8, 0.5), (INT4, 0.5)]


@pytest.mark.parametrize(("kind", "step"), KINDS, ids=["int8", "int4"])
@pytest.mark.parametrize("mode", ["pertoken", "pertensor", "perchannel"])
def test_dynamic(kind: torch.dtype, step: float, mode: str) -> None:
    x = f16(4, 6, 16)
    y, scale, offset = torch_npu.npu_dynamic_quant_asymmetric(x, dst_type=kind, quant_mode=mode)
    back = reference.dynamic_quant_asymmetric.dequantise(y, scale, offset, mode)
    assert ((back - x.float()).abs() <= (step + 1e-3) * reference.dynamic.broadcast(scale, mode)).all()
    y, scale = torch_npu.npu_dynamic_quant(x, dst_type=kind, quant_mode=mode)
    back = reference.dynamic_quant.dequantise(y, scale, mode)
    assert ((back - x.float()).abs() <= (step + 1e-3) * reference.dynamic.broadcast(scale, mode)).all()


@pytest.mark.parametrize(("kind", "step"), KINDS, ids=["int8", "int4"])
def test_groups_and_axes(kind: torch.dtype, step: float) -> None:
    x, scale, index = f16(6, 16).clamp(-3, 3), torch.full((2, 16), 2.0), ends(2, 6)
    y = torch_npu.npu_group_quant(x, scale, index, offset=torch.ones(1), dst_dtype=kind)
    back = reference.group_quant.dequantise(y, scale, index, torch.ones(1))
    assert ((back - x.float()).abs() <= step / 2).all()
    y = torch_npu.npu_quantize(x.float(), scale[0], None, kind, -1, False)
    assert ((reference.quantize.dequantise(y, scale[0], None) - x.float()).abs() <= step / 2).all()


def test_dividing() -> None:
    x, scales = f32(6, 16), f32(6).abs() + 0.1
    y = torch_npu.npu_quantize(x, scales, None, torch.qint32, 0)
    back = reference.quantize.dequantise(y, scales, None, 0, divide=True, packed=False)
    assert ((back - x).abs() <= 0.5001 * scales[:, None]).all()


@pytest.mark.parametrize("kind", [torch.int8, torch.quint4x2])
def test_dequantise_inverts_quantisation(kind: torch.dtype) -> None:
    x = torch.linspace(-2, 2, 64).reshape(4, 16)
    steps = torch.full((16,), 2.0 ** (5 if kind is torch.int8 else 1))
    y = torch_npu.npu_quantize(x, steps, None, kind, -1, False)
    back = torch_npu.npu_anti_quant(y, 1 / steps)
    assert (back.float() - x).abs().max() <= 0.5 / steps[0] + 2**-10
