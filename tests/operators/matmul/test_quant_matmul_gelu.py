"""The kernels' approximation of GELU in npu_quant_matmul_gelu, compared with GELU."""

import torch
import torch_npu


def test_the_polynomial_approximates_the_error_function() -> None:
    """One row of products, 1 * x, in steps of 1/32 from -4 to 4; float16 rounds them to 2**-11 of themselves."""
    columns = torch.arange(-128, 128).to(torch.int8)[None]
    one = torch.ones(1, 1, dtype=torch.int8)
    result = torch_npu.npu_quant_matmul_gelu(one, columns, torch.ones(1), torch.tensor([1 / 32]))
    exact = torch.nn.functional.gelu(columns.double() / 32)
    assert torch.all((result - exact).abs() <= exact.abs() * 2**-11 + 1e-6)
