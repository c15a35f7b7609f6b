"""The examples that the operators' documents print, value for value."""

import re
import struct

import pytest
import torch
import torch_npu
from graph_quant import quant_params

from support.documents import (
    GROUP_QUANT,
    QUANTIZE_BFLOAT16,
    QUANTIZE_FLOAT16,
    QUANTIZE_FLOAT32,
    TRANS_QUANT_PARAM,
)


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e[-+]\d+)?", text)]


def tensor(text: str, *shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(numbers(text)).reshape(shape).to(dtype)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_group_quant(device: str) -> None:
    x = tensor(GROUP_QUANT["x"], 6, 4, dtype=torch.float16).to(device)
    scale = tensor(GROUP_QUANT["scale"], 4, 4, dtype=torch.float32).to(device)
    ends = torch.tensor([1, 4, 6, 6], dtype=torch.int32, device=device)
    offset = torch.tensor([-1.1658], device=device)
    y = torch_npu.npu_group_quant(x, scale, ends, offset=offset, dst_dtype=torch.qint8)
    assert y.dtype == torch.int8
    assert y.cpu().flatten().tolist() == numbers(GROUP_QUANT["y"])
    assert y.numel() == 24


@pytest.mark.parametrize(
    ("example", "shape", "dtype", "scale"),
    [
        (QUANTIZE_BFLOAT16, (1, 1, 12), torch.bfloat16, 0.1),
        (QUANTIZE_FLOAT32, (2, 3, 12), torch.float32, 3.0),
        (QUANTIZE_FLOAT16, (2, 3, 12), torch.float16, 3.0),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_quantize(
    example: dict[str, str], shape: tuple[int, ...], dtype: torch.dtype, scale: float, device: str
) -> None:
    x = tensor(example["x"], *shape, dtype=dtype).to(device)
    scales = torch.full((12,), scale, dtype=dtype, device=device)
    out = torch_npu.npu_quantize(x, scales, None, torch.qint8, -1, False)
    assert out.dtype == torch.int8
    assert out.cpu().flatten().tolist() == numbers(example["y"])
    assert out.numel() == {12: 12, 72: 72}[x.numel()]


def test_printed_parameters_decode_as_listed() -> None:
    params = torch.tensor([int(number) for number in numbers(TRANS_QUANT_PARAM)])
    assert params.numel() == 16
    scale, offset = quant_params.decode(params)
    expected = [1.0458984, -0.1161499, 0.0433655, 0.1741943]
    assert [f"{value:.7f}" for value in scale[:4].tolist()] == [f"{value:.7f}" for value in expected]
    assert offset[:4].tolist() == [1, 1, 1, -2]
    for word, scale_of_word, offset_of_word in zip(params.tolist(), scale.tolist(), offset.tolist(), strict=True):
        assert word >> 46 == 1
        assert struct.pack("<f", scale_of_word) == struct.pack("<I", word & 0xFFFFE000)
        assert (
            offset_of_word == int.from_bytes(((word >> 37) << 7 & 0xFFFF).to_bytes(2, "big"), "big", signed=True) >> 7
        )
        assert word & 0x1F00001FFF == 0


def test_printed_parameters_come_back_from_what_they_decode_to() -> None:
    params = torch.tensor([int(number) for number in numbers(TRANS_QUANT_PARAM)])
    scale, offset = quant_params.decode(params)
    for round_mode in (0, 1):
        again = torch_npu.npu_trans_quant_param(scale.npu(), offset.float().npu(), round_mode)
        assert again.tolist() == params.tolist()
