"""Operators beyond core ATen that models use are lowered, or refused with a workaround."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchair
from graph_quant.converters.decompositions import OUTSIDE
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

READING = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}


def compiled(function: Callable[..., Any], dynamic: bool = True) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=dynamic)


def agree(function: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool = True) -> None:
    """Assert that a graph on the device has the bits of eager mode on the CPU."""
    with torch._dynamo.config.patch(READING):
        actual = compiled(function, dynamic)(*(value.npu() for value in inputs))
    expected = function(*inputs)
    flat = [torch.utils._pytree.tree_leaves(value) for value in (expected, actual)]
    for index, (one, other) in enumerate(zip(*flat, strict=True)):
        assert one.dtype == other.dtype
        assert torch.equal(one, other.cpu()), (index, one, other)


def same_bits(function: Callable[..., Any], *inputs: torch.Tensor) -> Callable[..., Any]:
    """Assert that a graph has the bits of eager mode on the device, and is close to the CPU."""
    graph, on_device = compiled(function), [value.npu() for value in inputs]
    with torch._dynamo.config.patch(READING):
        results = [graph(*on_device), function(*on_device), function(*inputs)]
    flat = [torch.utils._pytree.tree_leaves(value) for value in results]
    for index, (one, other, third) in enumerate(zip(*flat, strict=True)):
        assert one.dtype == other.dtype == third.dtype
        assert torch.equal(one.nan_to_num(7), other.nan_to_num(7)), (index, one, other)
        torch.testing.assert_close(one.cpu(), third, equal_nan=True, rtol=1e-4, atol=1e-5, msg=str(index))
    return graph


def test_sorting_and_counting() -> None:
    def call(x: torch.Tensor, experts: torch.Tensor, bounds: torch.Tensor) -> Any:
        return [
            torch.histc(x, 4, -1, 1),
            torch.topk(x, 2, 0, largest=False),
            torch.topk(experts, 3),
            torch.sort(x, 0, descending=True),
            torch.argsort(experts, stable=True),
            torch.msort(x),
            torch.searchsorted(bounds, x),
            torch.searchsorted(bounds, x, right=True, out_int32=True),
            torch.bucketize(x, bounds),
            torch.bucketize(x, bounds, right=True, out_int32=True),
            functional.one_hot(experts, 8),
            x.masked_scatter(x > 0, torch.arange(20.0, device=x.device)),
            torch.cumprod(x, 1),
            torch.cummax(x, 1),
            torch.cummin(x, 0),
            torch.median(experts),
            torch.var_mean(x, 1)[0],
            torch.roll(x, 2, 1),
            torch.all(x > 0, 1),
            torch.logaddexp(x, x),
            bounds.reshape(int(bounds.size(0) ** 0.5), -1),
        ]

    agree(call, torch.randn(4, 5), torch.tensor([1, 7, 2, 2, 0, 7]), torch.tensor([-1.0, 0.0, 0.5, 2.0]))


def test_unbacked_sizes() -> None:
    def call(x: torch.Tensor, experts: torch.Tensor, count: torch.Tensor) -> Any:
        rows = count.item()
        torch._check(rows >= 0)
        torch._check(rows <= x.size(0))
        return [
            torch.nonzero(x > 0),
            torch.nonzero(x > 0)[:, 0] * 2 + 1,
            torch.where(x > 0),
            x[x > 0],
            torch.masked_select(x, x > 0),
            torch.bincount(experts),
            torch.bincount(experts, minlength=12),
            torch.repeat_interleave(experts, experts),
            torch.zeros(rows, device=x.device) + 1,
            (torch.zeros(rows, 3, device=x.device) + 1).sum(0),
            torch.arange(rows, device=x.device),
            x.narrow(0, 0, rows) * 2,
            x * rows,
        ]

    agree(call, torch.randn(4, 5), torch.tensor([1, 7, 2, 2, 0, 7]), torch.tensor(3))


def test_special_functions_and_indexing() -> None:
    def call(x: torch.Tensor, n: torch.Tensor, c: torch.Tensor) -> Any:
        positive, three = x.abs() + 0.1, torch.tensor([3, 0, 3]).to(x.device)
        return [
            [f(positive) for f in (torch.lgamma, torch.digamma, torch.i0, torch.special.i1, torch.special.i1e)],
            [torch.special.ndtri(x.sigmoid()), torch.special.entr(x), torch.polygamma(0, positive), torch.hypot(x, -x)],
            [torch.special.gammainc(positive, positive), torch.special.zeta(positive + 1.5, positive)],
            [torch.nextafter(x, -x), torch.frexp(x), torch.gcd(n, n.flip(0)), torch.lcm(n, n.flip(0))],
            [torch.logcumsumexp(x, 1), torch.mode(n, 1), torch.nanmedian(x.log(), 1).values, torch.nanmedian(x.log())],
            [torch.nonzero_static(n, size=9), x.put(three, x[0, :3], accumulate=True), torch.isclose(x, x + 1e-9)],
            [x.index_reduce(0, three, x[:3], how, include_self=False) for how in ("prod", "mean", "amax")],
            [torch.segment_reduce(x, how, lengths=three, unsafe=True) for how in ("sum", "mean", "max")],
            [torch.unique(n, return_inverse=True, return_counts=True), torch.unique_consecutive(n, dim=0)],
            [torch.tril_indices(3, 4, device=x.device), torch.bucketize(0.3, x[0].sort().values), torch.angle(x)],
            [torch.angle(c), torch.fft.hfft(c), torch.hamming_window(9, device=x.device)],
            [torch.stft(x.reshape(-1), 8, 2, window=torch.hann_window(8).to(x.device), return_complex=True)],
            functional.affine_grid(x.reshape(1, 3, 10)[..., :4], [1, 1, 2, 3, 5], align_corners=True),
            functional.multilabel_margin_loss(x, (n % 5).masked_fill(n == 0, -1)),
        ]

    numbers, whole = torch.linspace(-2, 3, 30).reshape(6, 5), torch.arange(30).reshape(6, 5) % 7
    same_bits(call, numbers, whole, torch.complex(numbers, numbers.flip(0)))


def test_linear_systems() -> None:
    def call(x: torch.Tensor, b: torch.Tensor) -> Any:
        linalg = torch.linalg
        factor = linalg.cholesky(x)
        solved = [linalg.solve(x, b), linalg.solve(x, b[..., 0])]
        values = [linalg.det(x), linalg.slogdet(x), linalg.eigh(x), linalg.eigvalsh(x), linalg.svd(x), linalg.qr(x)]
        of_factor = [torch.cholesky_solve(b, factor), torch.cholesky_inverse(factor), linalg.pinv(b)]
        return [factor, linalg.inv(x), solved, values, of_factor, linalg.matrix_norm(x, 2)]

    torch.manual_seed(0)
    x = torch.randn(2, 4, 4)
    graph = same_bits(call, x @ x.mT + torch.eye(4), torch.randn(2, 4, 3))
    with pytest.raises(RuntimeError, match=r"'Cholesky'.*not positive-definite"):
        graph(-torch.eye(4).expand(2, 4, 4).contiguous().npu(), torch.ones(2, 4, 3).npu())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            torch.matrix_exp,
            r"aten.linalg_matrix_exp.default is not lowered: no GE node is known for it; compute it out",
        ),
        (
            lambda x: functional.bilinear(x, x, x[None]),
            r"aten._trilinear.default is not lowered: write it with torch.e",
        ),
        (lambda x: functional.interpolate(x[None], scale_factor=1.1, mode="linear"), "trunc of sizes is not lowered"),
    ],
)
def test_operators_without_a_lowering_are_refused_in_one_line(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        compiled(call)(torch.randn(4, 4).npu())


def test_a_gradient_that_needs_missing_results_is_refused() -> None:
    with pytest.raises(Exception, match=r"factors beside the result of aten._linalg_det.default.*not lowered"):
        compiled(torch.linalg.det)(torch.eye(3).npu().requires_grad_())


def test_returning_a_data_dependent_number_is_refused() -> None:
    with (
        torch._dynamo.config.patch(READING),
        pytest.raises(Exception, match=r"return the tensor, and call item\(\) outside"),
    ):
        compiled(lambda x: x.sum().item() + 1)(torch.tensor([1, 2]).npu())


def test_cond_chooses_between_branches() -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> Any:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.amax() > 2, lambda x: x * 2, lambda x: x - 1, (x,))

        return torch.cond(x.sum() > 0, lambda x, y: (inner(x), y + 1), lambda x, y: (x.clone(), y - 1), (x, y))

    graph = compiled(call)
    for x in (torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.5]), torch.tensor([-1.0, -3.0])):
        y = torch.tensor([4.0, 5.0])
        for one, other in zip(call(x, y), graph(x.npu(), y.npu()), strict=True):
            assert torch.equal(one, other.cpu())


def test_scan_of_known_length() -> None:
    def call(x: torch.Tensor) -> Any:
        return scan(lambda carry, row: (carry + row, carry * row), x[0], x)

    agree(call, torch.randn(4, 5), dynamic=False)
    with pytest.raises(Exception, match="compile with dynamic=False, or call the graph in a loop"):
        compiled(call)(torch.randn(4, 5).npu())


def test_while_loop_is_refused_with_a_workaround() -> None:
    def call(x: torch.Tensor) -> Any:
        count = torch.zeros((), dtype=torch.int64, device=x.device)
        return while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x * 2), (count, x))

    with pytest.raises(Exception, match="while_loop is not lowered: loop in Python where the steps are counted"):
        compiled(call)(torch.randn(4).npu())


@pytest.mark.filterwarnings("ignore")
def test_checkpoints() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda x: torch.sin(x) * 2, x, use_reentrant=False)

    gradients = []
    for function, device in ((call, "cpu"), (compiled(call), "npu")):
        x = torch.linspace(-1, 1, 6).to(device).requires_grad_()
        function(x).sum().backward()
        assert x.grad is not None
        gradients.append(x.grad.cpu())
    assert torch.equal(*gradients)


def test_foreach_operators() -> None:
    def call(*tensors: torch.Tensor) -> Any:
        x, y, number = list(tensors[:2]), list(tensors[2:4]), tensors[4]
        positive = torch._foreach_abs(x)
        return [
            torch._foreach_neg(x),
            torch._foreach_sign(x),
            torch._foreach_sqrt(positive),
            torch._foreach_rsqrt(positive),
            torch._foreach_reciprocal(x),
            torch._foreach_add(x, number, alpha=2),
            torch._foreach_mul(x, number),
            torch._foreach_div(x, number),
            torch._foreach_lerp(x, y, [0.25, 0.75]),
            torch._foreach_clamp_min(x, y),
            torch._foreach_clamp_max(x, 0.5),
            torch._foreach_clamp_max(x, [0.5, -0.5]),
        ]

    agree(call, *(torch.randn(size) for size in ((3, 4), (5,)) * 2), torch.tensor(0.3))


def test_addcmul_with_a_value_is_that_of_eager_mode() -> None:
    """Dynamo would trace a product that it rounds first."""
    x, y, z = (torch.randn(200) for _ in range(3))
    actual = compiled(lambda x, y, z: z.clone().addcmul_(x, y, value=0.1))(x.npu(), y.npu(), z.npu())
    assert torch.equal(actual.cpu(), z.addcmul(x, y, value=0.1))


def test_experts_of_transformers_in_float32() -> None:
    """Integers, whose sums are exact in any order; the last row is in no group."""
    import transformers.integrations.moe  # noqa: F401

    product = torch.ops.transformers.grouped_mm_fallback
    inputs = torch.randint(-4, 5, (7, 8)).float(), torch.randint(-4, 5, (3, 8, 6)).float()
    ends = torch.tensor([2, 2, 6], dtype=torch.int32)
    results = []
    for function, device in ((product, "cpu"), (compiled(product), "npu")):
        rows, matrices = (tensor.clone().to(device).requires_grad_() for tensor in inputs)
        result = function(rows, matrices, ends.to(device))
        result.square().sum().backward()
        results.append([tensor.detach().cpu() for tensor in (result, rows.grad, matrices.grad)])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
    assert results[1][0][-1].count_nonzero() == 0


def test_operators_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator without a lowering is refused by name; a decomposition works even if the backend is older."""
    backend = torchair.get_npu_backend()

    @torch.library.custom_op("graph_quant_other::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    doubled.register_fake(torch.empty_like)
    x = torch.randn(3).npu()
    with pytest.raises(Exception, match="graph_quant_other::doubled has no converter, no decomposition and no GE oper"):
        torch.compile(lambda x: doubled(x), backend=backend, fullgraph=True)(x)
    monkeypatch.setitem(OUTSIDE, "graph_quant_other::doubled", lambda x: x + x)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(lambda x: doubled(x), backend=backend, fullgraph=True)(x), x * 2)


def test_the_root_of_a_size_is_exact() -> None:
    """float32 rounds the root of 4095 * 4095 - 1 up. Other fractions of sizes are refused: they may be off by one."""
    function = compiled(lambda x: torch.zeros(int(x.size(0) ** 0.5), device=x.device) + x[0])
    for size in (15, 16, 17, 4095**2 - 1, 4095**2):
        assert function(torch.zeros(size, dtype=torch.int8).npu()).size(0) == int(size**0.5)
