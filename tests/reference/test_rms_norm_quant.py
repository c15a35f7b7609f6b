"""npu_rms_norm_quant against PyTorch's own quantisation, which divides by the scale."""

import pytest
import torch
import torch_npu


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [0.2, 0.5, 0.01, 3.0])
def test_divides_by_scale(scale: float, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    x, gamma, beta = (torch.randn(*shape, generator=generator).to(dtype) for shape in ((4, 16), (16,), (16,)))
    scales, offset = torch.tensor([scale]).to(dtype), torch.tensor([-3], dtype=torch.int8)
    normed = torch.nn.functional.rms_norm(x.float(), (16,), gamma.float(), 1e-6) + beta.float()
    expected = torch.quantize_per_tensor(normed, scales.item(), -3, torch.qint8).int_repr()
    result = torch_npu.npu_rms_norm_quant(x.npu(), gamma.npu(), beta.npu(), scales.npu(), offset.npu()).cpu()
    assert (result.int() - expected.int()).abs().max() <= 1  # the kernel rounds to float16 first
