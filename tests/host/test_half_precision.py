"""Products in half precision: large ones are computed in float32 and rounded once, eagerly and in graphs."""

from collections.abc import Callable

import pytest
import torch
import torchair
from graph_quant.reference.half_precision import MAX_HALF_PRODUCT
from torch import Tensor
from torch.nn.functional import linear

WIDTH = 320  # its cube is a large product
CASES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "mm": lambda x, w, _: x @ w,
    "linear": lambda x, w, _: linear(x.unsqueeze(0), w),
    "linear with bias": lambda x, w, b: linear(x, w, b),
    "bmm": lambda x, w, _: torch.bmm(x.expand(2, -1, -1), w.expand(2, -1, -1)),
    "matmul": lambda x, w, _: torch.matmul(x.expand(3, -1, -1), w.mT),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_large_products_are_rounded_once(name: str, dtype: torch.dtype) -> None:
    assert WIDTH**3 > MAX_HALF_PRODUCT
    inputs = [tensor.to(dtype) for tensor in (torch.randn(WIDTH, WIDTH), torch.randn(WIDTH, WIDTH), torch.randn(WIDTH))]
    expected = CASES[name](*(tensor.double() for tensor in inputs)).float()
    eager = CASES[name](*(tensor.npu() for tensor in inputs))
    assert eager.dtype == dtype
    # Half a unit in the last place for the one rounding, and a little for the sums in float32.
    torch.testing.assert_close(eager.cpu().float(), expected, rtol=0.51 * torch.finfo(dtype).eps, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [48, WIDTH])
def test_products_with_alpha_and_beta(width: int, dtype: torch.dtype) -> None:
    """The product is rounded as the matrices are, as on the device, and then the sum."""
    x, w, b = (
        tensor.to(dtype) for tensor in (torch.randn(width, width), torch.randn(width, width), torch.randn(width))
    )
    product = x.double() @ w.double()
    expected = 0.3 * b.double() + 2.1 * product
    eager = torch.addmm(b.npu(), x.npu(), w.npu(), beta=0.3, alpha=2.1)
    eps = torch.finfo(dtype).eps
    allowed = 0.51 * eps * (2.1 * product.abs() + expected.abs()) + 1e-3
    assert torch.all((eager.cpu().double() - expected).abs() <= allowed)
    batch = torch.baddbmm(b.npu(), x.npu()[None], w.npu()[None], beta=0.3, alpha=2.1)
    assert torch.equal(batch[0], eager)


@pytest.mark.parametrize("width", [48, WIDTH])
@pytest.mark.parametrize("name", ["mm", "linear", "linear with bias", "bmm"])
def test_graph_is_bitwise_equal_to_eager(name: str, width: int) -> None:
    inputs = [
        tensor.half().npu() for tensor in (torch.randn(width, width), torch.randn(width, width), torch.randn(width))
    ]
    torch._dynamo.reset()
    compiled = torch.compile(CASES[name], backend=torchair.get_npu_backend(), fullgraph=True, dynamic=False)
    assert torch.equal(compiled(*inputs), CASES[name](*inputs))


@pytest.mark.parametrize("dtypes", [(torch.float16, torch.float32), (torch.float32, torch.bfloat16)])
def test_mixed_operand_dtypes_give_the_first_dtype(dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    x, w = torch.randn(3, 4).to(dtypes[0]), torch.randn(4, 5).to(dtypes[1])
    expected = (x.float() @ w.float()).to(dtypes[0])
    assert torch.equal((x.npu() @ w.npu()).cpu(), expected)
    graph = torch.npu.NPUGraph()
    first, second = x.npu(), w.npu()
    with torch.npu.graph(graph):
        result = torch.mm(first, second)
    graph.replay()
    assert torch.equal(result.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradient_of_repeat_interleave_is_rounded_once(dtype: torch.dtype) -> None:
    """As RepeatInterleaveGrad does; a sum that is rounded after each of 300 terms stops growing."""
    grad, repeats = torch.rand(302).to(dtype), torch.tensor([300, 0, 2])
    x = torch.zeros(3, dtype=dtype).npu().requires_grad_()
    torch.repeat_interleave(x, repeats.npu()).backward(grad.npu())
    sums = [part.double().sum() for part in grad.split(repeats.tolist())]
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), torch.stack(sums).to(dtype), rtol=torch.finfo(dtype).eps, atol=0)
