"""Operators that need more than a CPU kernel: scalar arguments, CPU indices, missing CPU kernels, gradients."""

import copy

import pytest
import torch
import torch_npu
from graph_quant.host.device import missing_cpu_kernels, registry
from torch import Tensor
from torch_npu.op_plugin.atb import _atb_ops

NUMBER_FIRST = {
    "bitwise_and": lambda x: torch.bitwise_and(2, x),
    "bitwise_left_shift": lambda x: torch.bitwise_left_shift(1, x),
    "zeta": lambda x: torch.special.zeta(2, x),
    "xlog1py": lambda x: torch.special.xlog1py(2, x),
    "chebyshev x": lambda x: torch.special.chebyshev_polynomial_t(2.0, x),
    "chebyshev n": lambda x: torch.special.chebyshev_polynomial_t(x, 2),
    "remainder": lambda x: torch.remainder(7, x),
    "pow": lambda x: torch.pow(2, x),
}


@pytest.mark.parametrize("operator", NUMBER_FIRST.values(), ids=NUMBER_FIRST)
def test_number_is_accepted_for_a_tensor(operator) -> None:
    x = torch.tensor([1, 2, 3])
    for _ in range(2):
        actual, expected = operator(x.npu()), operator(x)
        assert actual.device.type == "npu"
        assert actual.dtype == expected.dtype
        assert torch.equal(actual.cpu(), expected)


INDEX = torch.tensor([0, 2])
MIXED = {
    "index_select": lambda x: x.index_select(0, INDEX),
    "index_add_": lambda x: x.index_add_(0, INDEX.npu(), torch.ones(2)),
    "index_copy_": lambda x: x.index_copy_(0, INDEX, torch.ones(2)),
    "index_fill_": lambda x: x.index_fill_(0, INDEX, 1.0),
    "index_reduce_": lambda x: x.index_reduce_(0, INDEX, torch.ones(2), "prod"),
    "values of index_put_": lambda x: x.index_put_((INDEX,), torch.ones(2)),
    "indexed": lambda _: torch.ones(3)[INDEX.npu()],
    "indexed and written": lambda _: torch.ones(3).index_put_((INDEX.npu(),), torch.ones(2)),
    "operand beside an empty out=": lambda x: torch.add(x, torch.ones(3), out=torch.empty(0, device="npu")),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("operator", MIXED.values(), ids=MIXED)
def test_tensors_of_two_devices_are_refused(operator) -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        operator(torch.ones(3, device="npu"))


def test_indices_can_be_on_the_cpu() -> None:
    x = torch.arange(3.0, device="npu")
    assert x[INDEX].tolist() == [0, 2]
    assert x[torch.tensor([True, False, True])].tolist() == [0, 2]
    assert x.index_put_((INDEX,), torch.tensor(7.0)).tolist() == [7, 1, 7]
    x[INDEX] = torch.zeros(2, device="npu")
    assert x.tolist() == [0, 1, 0]


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("make", [Tensor.to_sparse, Tensor.to_sparse_csr, Tensor.to_sparse_csc])
def test_creating_sparse_tensors_is_refused(make) -> None:
    with pytest.raises(NotImplementedError, match="sparse tensors are not supported on the host NPU"):
        make(torch.eye(3)).npu()


def test_every_registered_operator_is_implemented_or_refused() -> None:
    registered = registry._names("PrivateUse1")
    own = {name for name in registered if "\nPrivateUse1: registered at ../torch_npu" in torch._C._dispatch_dump(name)}
    assert registry._without_cpu_kernel(own) == set(), "operators whose kernel would call CANN"


def test_operators_without_cpu_kernel_are_refused_by_name() -> None:
    x = torch.ones(2, 3, 4, device="npu")
    with pytest.raises(NotImplementedError, match="aten::batch_norm_stats cannot run on the host NPU"):
        torch.batch_norm_stats(x, 1e-5)
    stats = torch.ones(3, device="npu")
    with pytest.raises(NotImplementedError, match="aten::batch_norm_backward_reduce cannot run on the host NPU"):
        torch.batch_norm_backward_reduce(x, x, stats, stats, stats, True, True, True)


@pytest.mark.parametrize("name", ["_npu_flash_attention_v3", "_npu_paged_attention_splitfuse_v2"])
def test_atb_operators_are_refused_by_name(name) -> None:
    with pytest.raises(NotImplementedError, match=f"atb::{name} cannot run on the host NPU"):
        getattr(torch_npu, name)(torch.ones(2, device="npu"))
    with pytest.raises(NotImplementedError, match=f"atb::{name} cannot run on the host NPU"):
        getattr(_atb_ops, name)(torch.ones(2, device="npu"))


def test_engines_may_load_atb_early() -> None:
    """vllm-ascend's worker imports this function by name and calls it."""
    assert _atb_ops._register_atb_extensions() is None


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_products_with_float32_results(half) -> None:
    x1, x2, bias = torch.randn(4, 64).to(half), torch.randn(64, 5).to(half), torch.randn(4, 5)
    exact = x1.double() @ x2.double()
    rounding = 64 * 2**-24 * (x1.double().abs() @ x2.double().abs()) + 1e-6
    product = torch.mm(x1.npu(), x2.npu(), out_dtype=torch.float32).cpu()
    assert product.dtype == torch.float32
    assert ((product - exact).abs() <= rounding).all(), "no rounding to half on the way"
    total = torch.addmm(bias.npu(), x1.npu(), x2.npu(), out_dtype=torch.float32, beta=0.5, alpha=2).cpu()
    assert ((total - (bias.double() * 0.5 + exact * 2)).abs() <= 3 * rounding).all()
    batched = torch.bmm(x1[None].npu(), x2[None].npu(), out_dtype=torch.float32).cpu()
    assert torch.equal(batched[0], product)
    with pytest.raises(RuntimeError, match=r"aten::mm.dtype: out_dtype must be the inputs' own, or float32 for halves"):
        torch.mm(x1.float().npu(), x2.float().npu(), out_dtype=half)


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (2, 4, 5)), ((7, 1, 3, 4), (2, 4, 5))])
def test_matmul_backward(shapes) -> None:
    x1, x2 = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
    product = x1 @ x2
    gradient = torch.randn_like(product)
    expected = torch.autograd.grad(product, (x1, x2), gradient)
    actual = missing_cpu_kernels._matmul_backward(gradient, x1.detach(), x2.detach(), [True, True])
    for left, right in zip(expected, actual, strict=True):
        torch.testing.assert_close(right, left)
    only = torch.ops.aten.matmul_backward(gradient.npu(), x1.detach().npu(), x2.detach().npu(), [False, True])
    assert only[0] is None
    torch.testing.assert_close(only[1].cpu(), expected[1])


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}])
def test_rnn_gradients_match_cpu(layer, options) -> None:
    on_cpu = layer(3, 4, **options)
    on_npu = copy.deepcopy(on_cpu).npu()
    x = torch.randn(5, 2, 3)
    expected, actual = on_cpu(x)[0], on_npu(x.npu())[0]
    assert torch.equal(actual.cpu(), expected)
    expected.sum().backward()
    actual.sum().backward()
    for left, right in zip(on_cpu.parameters(), on_npu.parameters(), strict=True):
        assert torch.equal(right.grad.cpu(), left.grad)


def test_rnn_dropout_uses_npu_generator() -> None:
    layer = torch.nn.LSTM(3, 4, num_layers=3, dropout=0.5, bidirectional=True).npu()
    x = torch.randn(5, 2, 3).npu()
    before = torch.get_rng_state()
    torch.npu.manual_seed(1)
    first, (hidden, cell) = layer(x)
    torch.npu.manual_seed(1)
    assert torch.equal(layer(x)[0].cpu(), first.cpu())
    assert not torch.equal(layer(x)[0].cpu(), first.cpu())
    assert (hidden.shape, cell.shape) == ((6, 2, 4), (6, 2, 4))
    assert torch.equal(torch.get_rng_state(), before)
    layer.eval()
    assert torch.equal(layer(x)[0].cpu(), copy.deepcopy(layer).cpu()(x.cpu())[0])


@pytest.mark.parametrize("cast", [torch_npu.npu_dtype_cast, torch_npu._npu_dtype_cast])
def test_first_and_second_gradients_of_casts_match_cpu(cast) -> None:
    x, weight, direction = torch.randn(2, 3), torch.randn(2, 3).half(), torch.randn(2, 3)

    def gradients(cast, device: str) -> list[Tensor]:
        leaf, factor = x.to(device).requires_grad_(), weight.to(device).requires_grad_()
        (first,) = torch.autograd.grad(cast(leaf, torch.float16), leaf, factor, create_graph=True)
        (second,) = torch.autograd.grad(first, factor, direction.to(device))
        return [first.detach().cpu(), second.cpu()]

    for actual, expected in zip(gradients(cast, "npu"), gradients(Tensor.to, "cpu"), strict=True):
        assert actual.dtype == expected.dtype
        assert torch.equal(actual, expected)


def test_grad_outputof_a_cast_requires_grad_if_enabled() -> None:
    x = torch.randn(3, device="npu", requires_grad=True)
    y = torch_npu.npu_dtype_cast(x, torch.float16)
    grad_output = torch.ones_like(y)
    (plain,) = torch.autograd.grad(y, x, grad_output, retain_graph=True)
    (recorded,) = torch.autograd.grad(y, x, grad_output, create_graph=True)
    assert plain.grad_fn is None
    assert recorded.grad_fn is not None
    assert not grad_output.requires_grad


@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_backward_through_operator_without_grad_outputnames_it(device) -> None:
    x = torch.ones(2, 8, dtype=torch.float16, device=device, requires_grad=True)
    values, scale = torch_npu.npu_dynamic_quant(x)
    loss = (values.float() * scale[:, None]).sum()
    with pytest.raises(NotImplementedError, match="npu::npu_dynamic_quant has no gradient"):
        loss.backward()
    assert not values.requires_grad
    with torch.no_grad():
        assert not torch_npu.npu_dynamic_quant(x)[1].requires_grad


def test_graph_backward_through_operator_without_grad_outputnames_it() -> None:
    def quantise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, scale = torch_npu.npu_dynamic_quant(x)
        return (values.float() * scale[:, None]).sum() + x.float().sum(), scale

    torch._dynamo.reset()
    compiled = torch.compile(quantise, backend="npu", fullgraph=True)
    x = torch.randn(2, 8, dtype=torch.float16).npu().requires_grad_()
    loss, scale = compiled(x)
    expected = quantise(x)
    assert torch.equal(loss.cpu(), expected[0].cpu())
    assert torch.equal(scale.cpu(), expected[1].cpu())
    with pytest.raises(NotImplementedError, match="npu::npu_dynamic_quant has no gradient"):
        loss.backward()
    assert x.grad is None


def test_lists_are_copied_between_devices() -> None:
    sources = [torch.arange(3.0), torch.arange(4.0).npu()]
    targets = [torch.zeros(3).npu(), torch.zeros(4)]
    torch._foreach_copy_(targets, sources)
    assert [target.tolist() for target in targets] == [[0, 1, 2], [0, 1, 2, 3]]
    graph, kept = torch.npu.NPUGraph(), [torch.zeros(3).npu(), torch.zeros(4).npu()]
    ones = [torch.ones(3).npu(), torch.ones(4).npu()]
    with torch.npu.graph(graph):
        torch._foreach_copy_(kept, ones)
    assert kept[0].sum() == 0
    graph.replay()
    assert [tensor.sum().item() for tensor in kept] == [3, 4]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.uint8])
def test_median_of_empty_tensor_matches_cpu(dtype: torch.dtype) -> None:
    nothing = torch.empty(0, 3, dtype=dtype)
    torch.testing.assert_close(nothing.npu().median().cpu(), nothing.median(), rtol=0, atol=0, equal_nan=True)
