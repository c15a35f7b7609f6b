"""Compiled functions: outputs, in-place updates, views, devices, training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from torch._dynamo.utils import counters

Compile = Callable[..., Any]
DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])


@DEVICES
def test_several_outputs_and_an_input_returned(compile_npu: Compile, device: str) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total = x + 1
        return total, x, total, total.t()

    x = torch.arange(6.0).reshape(2, 3).to(device)
    results = compile_npu(function)(x)
    assert all(result.device.type == device for result in results)
    assert results[1] is x or results[1].data_ptr() == x.data_ptr()
    for result, expected in zip(results, function(torch.arange(6.0).reshape(2, 3)), strict=True):
        torch.testing.assert_close(result.cpu(), expected, check_stride=False)


@DEVICES
def test_input_updated_in_place(compile_npu: Compile, device: str) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        y.mul_(2)
        return x * 10

    x, y = torch.ones(3).to(device), torch.full((3,), 2.0).to(device)
    result = compile_npu(function)(x, y)
    assert x.tolist() == [3.0] * 3
    assert y.tolist() == [4.0] * 3
    assert result.tolist() == [30.0] * 3


def test_inputs_that_swap_values(compile_npu: Compile) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> None:
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)

    x, y = torch.ones(3), torch.zeros(3)
    compile_npu(function)(x, y)
    assert (x.tolist(), y.tolist()) == ([0.0] * 3, [1.0] * 3)


def test_module_buffer_counts_calls(compile_npu: Compile) -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + self.calls

    module = Counter()
    compiled = compile_npu(module)
    assert [compiled(torch.zeros(2)).tolist() for _ in range(3)] == [[1, 1], [2, 2], [3, 3]]
    assert module.calls.tolist() == [3, 3]


@DEVICES
def test_reference_operator_updates_a_cache_in_place(compile_npu: Compile, device: str) -> None:
    """TorchAir leaves no copy before or after Scatter: it has to write into the input itself."""

    def function(cache: torch.Tensor, index: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        torch_npu.scatter_update_(cache, index, value, -2)
        return value + 1

    cache = torch.zeros(2, 1, 4, 2).to(device)
    index, value = torch.tensor([1, 3]).to(device), torch.ones(2, 1, 1, 2).to(device)
    compile_npu(function)(cache, index, value)
    assert cache.cpu().nonzero()[:, [0, 2]].tolist() == [[0, 1], [0, 1], [1, 3], [1, 3]]


def test_results_do_not_share_memory_with_inputs(compile_npu: Compile) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.clone(), (x * 1).reshape(-1)

    x = torch.ones(2, 2)
    copied, flat = compile_npu(function)(x)
    copied.zero_()
    flat.zero_()
    assert x.tolist() == [[1, 1], [1, 1]]


def test_constant_result_is_fresh_each_time(compile_npu: Compile) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((3,), 7.0), x + 1

    compiled = compile_npu(function)
    compiled(torch.ones(2))[0].zero_()
    assert compiled(torch.ones(2))[0].tolist() == [7.0] * 3


def test_transposed_and_sliced_inputs(compile_npu: Compile) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x[1:, ::2] + x[:-1, 1::2]

    base = torch.arange(24.0).reshape(4, 6)
    torch.testing.assert_close(compile_npu(function)(base.t()[:5, :4]), function(base.t()[:5, :4]))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_zero_size_tensors(compile_npu: Compile, shape: tuple[int, int]) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + 1, x.sum(0), torch.cat([x, x]), x.reshape(-1)

    x = torch.empty(shape)
    for result, expected in zip(compile_npu(function)(x), function(x), strict=True):
        torch.testing.assert_close(result, expected)


def test_scalars_and_symbols_as_inputs(compile_npu: Compile) -> None:
    def function(x: torch.Tensor, count: int, factor: float) -> tuple[torch.Tensor, int]:
        return x.expand(count, x.size(0)) * factor, count + x.size(0)

    compiled = compile_npu(function)
    for count in (2, 5, 7):
        result, size = compiled(torch.ones(3), count, 0.5)
        assert result.shape == (count, 3)
        assert size == count + 3
        assert result.sum().item() == count * 1.5


@DEVICES
def test_int4_round_trip_through_a_matmul(compile_npu: Compile, device: str) -> None:
    """Identity weights give back the quantised rows."""

    def function(x: torch.Tensor, scale: torch.Tensor, weight: torch.Tensor, ones: torch.Tensor) -> torch.Tensor:
        quantised = torch_npu.npu_quantize(x, scale, None, torch.quint4x2, -1, False)
        params = torch_npu.npu_trans_quant_param(ones)
        return torch_npu.npu_quant_matmul(quantised, weight, params, output_dtype=torch.float16)

    rows = torch.arange(-8, 8, dtype=torch.float16).repeat(2, 4)
    weight = torch.zeros(64, 8, dtype=torch.int32)
    for column in range(64):
        weight[column, column // 8] = 1 << (4 * (column % 8))
    arguments = [tensor.to(device) for tensor in (rows, torch.ones(1).half(), weight, torch.ones(64))]
    result = compile_npu(function)(*arguments)
    assert torch.equal(result.cpu().float(), rows.float())


def test_uint64_parameters_reach_the_caller_as_int64(compile_npu: Compile) -> None:
    def function(scale: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_trans_quant_param(scale)

    result = compile_npu(function)(torch.tensor([1.0, -2.0]))
    assert result.dtype == torch.int64
    assert [value & 0xFFFFFFFF for value in result.tolist()] == [0x3F800000, 0xC0000000]
    assert all(value >> 46 == 1 for value in result.tolist())


def test_random_numbers_follow_the_seed(compile_npu: Compile) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.rand(10_000, device=x.device)

    compiled = compile_npu(function)
    x = torch.ones(1).npu()
    torch.npu.manual_seed(7)
    first, second = compiled(x).cpu(), compiled(x).cpu()
    assert not torch.equal(first, second)
    assert abs(first.mean().item() - 0.5) < 0.02
    assert abs(first.var().item() - 1 / 12) < 0.01
    torch._dynamo.reset()
    torch.npu.manual_seed(7)
    assert torch.equal(compile_npu(function)(x).cpu(), first)


@DEVICES
def test_training_step_gives_the_gradients_of_eager(compile_npu: Compile, device: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.LayerNorm(5), torch.nn.Linear(5, 2))
    x = torch.randn(3, 6)
    model(x).pow(2).mean().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    model = model.to(device)
    compile_npu(model, dynamic=False)(x.to(device)).pow(2).mean().backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad.cpu(), gradient, rtol=1e-4, atol=1e-6)


def test_factories_on_the_npu_stay_there(compile_npu: Compile) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.arange(4, device="npu"), x + 1

    created, result = compile_npu(function)(torch.ones(2))
    assert created.device.type == "npu"
    assert result.device.type == "cpu"
    assert created.cpu().tolist() == [0, 1, 2, 3]


def test_an_input_is_assigned_its_own_transpose(compile_npu: Compile) -> None:
    """The result has the address of the input, with other strides."""

    def function(a: torch.Tensor) -> torch.Tensor:
        a.copy_(a.t().clone())
        return a + 1

    a = torch.arange(9.0).reshape(3, 3).npu()
    expected = a.cpu().t()
    result = compile_npu(function)(a)
    assert torch.equal(a.cpu(), expected)
    assert torch.equal(result.cpu(), expected + 1)


def test_a_cache_is_updated_with_and_without_inference_mode(compile_npu: Compile) -> None:
    def function(cache: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, at, new)
        return cache.sum()

    cache, new = torch.zeros(8, 4).npu(), torch.ones(2, 4).npu()
    compiled = compile_npu(function)
    with torch.inference_mode():
        assert compiled(cache, torch.tensor([1, 2]).npu(), new).item() == 8
    assert compiled(cache, torch.tensor([2, 3]).npu(), new).item() == 12
    assert cache.cpu().sum(1).tolist() == [0, 4, 4, 4, 0, 0, 0, 0]


def test_operators_between_graphs_run_eagerly() -> None:
    """After a graph break Dynamo inspects every called Python function, including the host's kernels."""
    torch._dynamo.reset()
    counters.clear()

    def function(x: torch.Tensor) -> tuple[object, ...]:
        doubled = x * 2
        indices = torch.nonzero(doubled)
        return indices, torch_npu.npu_dynamic_quant(x.half())

    compiled = torch.compile(function, backend="npu")
    for rows in (2, 3):
        x = torch.arange(8.0 * rows).view(rows, 8).npu()
        indices, quantised = compiled(x)
        assert torch.equal(indices.cpu(), (x.cpu() * 2).nonzero())
        assert all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(quantised, function(x)[1], strict=True))
    graphs = 2  # before the break and after it
    assert counters["stats"]["unique_graphs"] <= 2 * graphs  # static sizes first, then dynamic ones


def test_grouped_products_are_bitwise_equal_to_eager() -> None:
    """ATen decomposes them into products, which sum in another order than GroupedMatmul."""

    def function(rows: torch.Tensor, experts: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.grouped_mm(rows, experts.transpose(-2, -1), offs=ends)

    compiled = torch.compile(function, backend="npu", fullgraph=True, dynamic=True)
    experts = torch.randn(4, 704, 128).bfloat16().npu()
    for middle in range(8):
        rows = torch.randn(14, 128).bfloat16().npu()
        ends = torch.tensor([middle, middle + 2, 12, 14], dtype=torch.int32).npu()
        assert torch.equal(function(rows, experts, ends).cpu(), compiled(rows, experts, ends).cpu())


def test_grouped_products_have_gradients() -> None:
    inputs = torch.randn(6, 16), torch.randn(2, 16, 8)
    on_npu, on_cpu = (
        [tensor.detach().clone().to(device).requires_grad_() for tensor in inputs] for device in ("npu", "cpu")
    )
    ends = torch.tensor([2, 6], dtype=torch.int32)
    torch.nn.functional.grouped_mm(*on_npu, offs=ends.npu()).backward(torch.ones(6, 8).npu())
    torch.nn.functional.grouped_mm(*on_cpu, offs=ends).backward(torch.ones(6, 8))
    for one, other in zip(on_npu, on_cpu, strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad)


VIEWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "flat": lambda y: (y, y.view(-1)),
    "turned": lambda y: (y.t(), y),
    "parts that overlap": lambda y: (y[:2], y[1:]),
    "halves": lambda y: (*y.chunk(2), y * 2),
    "repeated": lambda y: (y, y[:1].expand(4, 6), None),
    "strided": lambda y: (y.as_strided((2, 2), (1, 6), 3), y),
    "of what is turned itself": lambda y: (lambda z: (z, z.t().view(-1)))(y.t() + 1),
    "of two": lambda y: (lambda z: (y, z, z[0], y.view(-1)[3:], y))(y * 2),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_results_alias_each_other_as_in_eager_mode(compile_npu: Compile, name: str, dynamic: bool) -> None:
    """Writes to one result are visible in its aliases."""

    def function(x: torch.Tensor) -> Any:
        return VIEWS[name](x + 1)

    written = []
    for called in (compile_npu(function, dynamic=dynamic), function):
        results = [tensor for tensor in called(torch.arange(24.0).view(4, 6).npu()) if tensor is not None]
        states = [[(tensor.shape, tensor.tolist()) for tensor in results]]
        for number, result in enumerate(results):
            result.select(0, 0).fill_(100 + number)
            states.append([(tensor.shape, tensor.tolist()) for tensor in results])
        written.append(states)
    assert written[0] == written[1]


def _half(x: torch.Tensor) -> Any:
    first, second = x.chunk(2, -1)
    first.add_(1)
    return first, second


def _every_other(x: torch.Tensor) -> Any:
    pairs = x.view(x.size(0), x.size(1) // 2, 2)[:, :, 0]
    pairs.mul_(2)
    return pairs


def _written_back(x: torch.Tensor) -> Any:
    y = x + 1
    x.copy_(y)
    return y[: x.size(0) // 2], y


VIEWS_OF_INPUTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "of one that is written": _half,
    "of a view that is written": _every_other,
    "of one that is read": lambda x: (x[:, x.size(1) // 2 :], x * 2),
    "of none": _written_back,
}
LAYOUTS: tuple[Callable[[], torch.Tensor], ...] = (
    lambda: torch.arange(32.0).view(4, 8).npu(),
    lambda: torch.arange(48.0).view(6, 8).npu()[2:],
    lambda: torch.arange(64.0).view(4, 16).npu()[:, ::2],
)


def test_shuffled_channels_are_new_memory(compile_npu: Compile) -> None:
    """PyTorch's decomposition returns the input itself where a group has one channel."""
    x = torch.arange(16.0).view(1, 4, 2, 2).npu()
    result = compile_npu(lambda x: torch.nn.functional.channel_shuffle(x, 4))(x)
    assert torch.equal(result, x)
    assert result.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("name", VIEWS_OF_INPUTS)
def test_views_of_inputs_alias_them_as_in_eager_mode(compile_npu: Compile, name: str) -> None:
    """With dynamic sizes AOTAutograd expresses views by strides and offset, which a graph cannot."""
    function = VIEWS_OF_INPUTS[name]
    compiled = compile_npu(function, dynamic=True)
    # Other strides are another graph, which one of the functions shows for all.
    for layout in LAYOUTS if function is _half else LAYOUTS[:2]:
        states = []
        for called in (compiled, function):
            x = layout()
            returned = called(x)
            results = returned if isinstance(returned, tuple) else (returned,)
            states.append([tensor.tolist() for tensor in (*results, x)])
            for tensor in results:
                tensor.add_(100)
                states[-1] += [tensor.tolist(), x.tolist()]
        assert states[0] == states[1]
