"""Products in half precision: large ones are computed in float32 and rounded once, eagerly and in graphs."""

from collections.abc import Callable

import pytest
import torch
import torchair
from graph_quant.host.engine import use
from graph_quant.reference.half_products import MAX_HALF_PRODUCT
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


def _layouts(x: Tensor) -> list[Tensor]:
    """The same matrix row-major, column-major and as a part of a wider one."""
    return [x, x.t().contiguous().t(), torch.cat([x, x], 1)[:, : x.size(1)]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("width", [48, WIDTH])
def test_every_form_has_the_bits_of_mm(width: int, dtype: torch.dtype) -> None:
    """Functional, out= and in-place, of any strides, batched, and captured."""
    sizes = (width, width), (width, width), (width,)
    x, w, b = (torch.randn(size, device="npu").to(dtype) for size in sizes)
    product, total = torch.mm(x, w), torch.addmm(b, x, w)
    for one, other in zip(_layouts(x), _layouts(w), strict=True):
        assert torch.equal(one @ other, product)
        assert torch.equal(linear(one, other.t(), b), total)
        assert torch.equal(torch.bmm(one[None], other[None], out=torch.empty_like(x[None]))[0], product)
        assert torch.equal(torch.addmm(b, one, other, out=torch.empty_like(x).t()), total)
    overlapping = x.clone()
    assert torch.equal(torch.mm(overlapping, w, out=overlapping), product)
    assert torch.equal(torch.mm(x, w, out=torch.empty(0, dtype=dtype, device="npu")), product)
    assert torch.equal(x.clone().addmm_(x, w), product + x)
    graph = torch.npu.NPUGraph()
    into, again = torch.empty_like(x), x.clone()
    with torch.npu.graph(graph):
        results = [x @ w, linear(x, w.t(), b), torch.bmm(x[None], w.t().contiguous().t()[None])[0]]
        results += [torch.mm(x, w, out=into), torch.mm(again, w, out=again)]
    again.copy_(x)
    graph.replay()
    for result, expected in zip(results, (product, total, product, product, product), strict=True):
        assert torch.equal(result, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_compiled_products_of_any_strides_are_bitwise_equal(dtype: torch.dtype) -> None:
    x, w, b = (torch.randn(size).to(dtype).npu() for size in ((9, 70), (70, 70), (70,)))

    def products(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
        layouts = _layouts(w)
        return [f(x, matrix, b) for f in (CASES["mm"], CASES["linear with bias"], CASES["bmm"]) for matrix in layouts]

    torch._dynamo.reset()
    with use("inductor"):
        compiled = torch.compile(products, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=False)
        results = compiled(x, w, b)
    for result, expected in zip(results, products(x, w, b), strict=True):
        assert torch.equal(result, expected)


def test_wrong_sizes_are_refused() -> None:
    x = torch.randn(3, 4).half().npu()
    for call in (lambda: x @ x, lambda: torch.addmm(x[0, :3], x, x.t()[:, :2]), lambda: torch.bmm(x[None], x.t())):
        with pytest.raises(RuntimeError, match=r"size|shape|3D"):
            call()
