"""npu_format_cast on the host NPU."""

import torch
import torch_npu

from support.tensors import f32, i8


def test_weights_cast_to_nz_keep_values_and_answer_their_format() -> None:
    weight = i8(32, 16).npu()
    cast = torch_npu.npu_format_cast(weight, 29)
    assert torch_npu.get_npu_format(cast) == torch_npu.Format.FRACTAL_NZ
    assert torch_npu.get_npu_format(weight) == torch_npu.Format.ND
    assert torch.equal(cast.cpu(), weight.cpu())
    x, scale = i8(4, 32).npu(), f32(16).npu()
    for run in (torch_npu.npu_quant_matmul, torch.compile(torch_npu.npu_quant_matmul, backend="npu", fullgraph=True)):
        assert torch.equal(run(x, cast, scale), torch_npu.npu_quant_matmul(x, weight, scale))
    torch_npu.npu_format_cast_(weight, 29)
    assert torch_npu.get_npu_format(weight) == torch_npu.Format.FRACTAL_NZ
    assert torch.equal(cast.cpu(), weight.cpu())
