"""Defects of TorchAir's converters of ATen operators: calls whose results differ from eager mode's, or that fail.

`GRAPH_QUANT_TEST_UPSTREAM=1 pytest tests/converters/test_aten_defects.py` shows each of them fail on upstream.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchair
from torch.nn import functional

from support import upstream  # noqa: F401 (puts upstream in place when asked to)

LARGE = 2**24 + 1  # not representable in float32
Calls = dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]
X = torch.tensor([[-2.0, -0.5, 0.25], [1.5, 3.0, -1.0]])
COUNTS = torch.tensor([[1, 2, 3], [LARGE - 1, LARGE, 2]])
MANY = torch.linspace(-3, 3, 97).half()
SCALAR, ZERO = torch.tensor(3.0), torch.tensor(0)
IMAGE = torch.arange(1.0, 37.0).reshape(1, 1, 6, 6)

CASES: Calls = {
    "gelu with tanh": (lambda x: functional.gelu(x, approximate="tanh"), (X,)),
    "integers below a number": (lambda n: n < 2.5, (COUNTS,)),
    "integers not below a number": (lambda n: n >= 2.5, (COUNTS,)),
    "equality of integers and floats": (lambda n, x: n == x, (COUNTS, X)),
    "the index of a large integer": (lambda n: torch.argmax(n, 1, keepdim=True), (COUNTS,)),
    "rows by a mask": (lambda x: x[torch.tensor([False, True], device=x.device)], (X,)),
    "a bag of rows": (
        lambda n, rows: functional.embedding_bag(n, rows, mode="sum"),
        (torch.tensor([[0, 3], [1, 1]]), torch.arange(12.0).reshape(4, 3)),
    ),
    "a mean with its padding": (lambda x: functional.avg_pool2d(x, 3, 2, 1), (IMAGE.half(),)),
    "where maxima were": (lambda x: functional.max_pool2d(x, 2, return_indices=True)[1], (IMAGE,)),
    "a difference with a number": (lambda x: torch.sub(x, x + 1, alpha=0.1), (MANY,)),
    "a product with a number": (lambda x: torch.addcmul(x, x, x, value=0.1), (MANY,)),
    "a quotient with a number": (lambda x: torch.ops.aten.addcdiv(x, x * 7, x.abs() + 0.3, value=0.1), (MANY,)),
    "a multiple by a number": (lambda x: torch.ops.aten.mul.Scalar(x, 0.1), (MANY,)),
    "a multiple by a wider number": (lambda x: x * x.float().mean(), (MANY + 0.3,)),
    "a multiple by a count": (lambda x, n: x * n.max(), (MANY, COUNTS)),
    "a quotient by a number": (lambda x: x / 0.1, (MANY,)),
    "a quotient by a number, rounded down": (lambda x: torch.div(x, 0.1, rounding_mode="floor"), (MANY,)),
    "a transposed product, transposed back": (lambda x: (x.t() * 2).t().contiguous().view(-1), (X,)),
    "truth of bytes": (lambda x: torch.any(x), (torch.tensor([0, 3], dtype=torch.uint8),)),
    "a number scattered into a scalar": (lambda x, i: torch.scatter(x, 0, i, 2.0), (SCALAR, ZERO)),
    "a number added to a scalar": (lambda x, i: torch.scatter(x, -1, i, 2.0, reduce="add"), (SCALAR, ZERO)),
    "a number multiplied where indices are": (
        lambda x, i: torch.scatter(x, 0, i.reshape(1), 0.1, reduce="multiply"),
        (MANY, ZERO),
    ),
    "the mean of a scalar and another": (lambda x, i: torch.scatter_reduce(x, 0, i, x * 2, "mean"), (SCALAR, ZERO)),
    "the least of one": (
        lambda x, i: torch.scatter_reduce(x, 0, i.reshape(1), x * 2, "amin", include_self=False),
        (SCALAR, ZERO),
    ),
    "a scalar added into a scalar": (lambda x, i: torch.scatter_add(x, 0, i, x), (SCALAR, ZERO)),
    "a scalar sorted": (lambda x: torch.stack(torch.msort(x).sort(0)), (SCALAR,)),
    "elements by a scalar": (lambda x, i: torch.take(x, i - 1), (X, ZERO)),
    "logsumexp of a scalar": (lambda x: torch.logsumexp(x, 0, keepdim=True), (SCALAR.half(),)),
    "logsumexp of nothing": (lambda x: torch.logsumexp(x[:, :0], (0, -1), keepdim=True), (X,)),
    "logsumexp of no integers": (lambda n: torch.logsumexp(n[:, :0], 1), (COUNTS,)),
    "bounds that are one": (lambda x: functional.hardtanh(x, 0.0, 0.0), (torch.tensor([1.0, float("nan")]),)),
}
FACTOR = 0.7978845608028654


def test_a_module_attribute_is_multiplied_without_rounding() -> None:
    """With dynamic sizes, Dynamo makes such numbers inputs of the graph."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: FACTOR * x, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=True)
    assert torch.equal(compiled(MANY.npu()).cpu(), FACTOR * MANY)


def test_two_views_of_one_memory_see_each_others_writes() -> None:
    """With dynamic sizes, where strides are a tensor."""

    def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    torch._dynamo.reset()
    memory, expected = (torch.arange(32.0).reshape(8, 4) for _ in range(2))
    memory = memory.npu()
    compiled = torch.compile(write, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=True)
    assert torch.equal(compiled(memory[2:6], memory[4:8]).cpu(), write(expected[2:6], expected[4:8]))
    assert torch.equal(memory.cpu(), expected)


def test_strides_that_a_graph_does_not_know_are_refused() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: x.t().as_strided_scatter(x[:1, :2], (1, 2), (3, 1), 1),
        backend=torchair.get_npu_backend(),
        fullgraph=True,
    )
    with pytest.raises(Exception, match=r"aten\.as_strided_scatter is lowered for contiguous tensors alone"):
        compiled(X.npu())


@pytest.mark.parametrize("name", CASES)
def test_a_graph_gives_what_eager_mode_gives(name: str) -> None:
    function, inputs = CASES[name]
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(function, backend=torchair.get_npu_backend(), fullgraph=True)
        result = compiled(*(tensor.npu() for tensor in inputs)).cpu()
    expected = function(*inputs)
    assert result.dtype == expected.dtype
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
