"""npugraph_ex and mode "reduce-overhead": captured graphs of compiled functions give the bits of eager execution."""

from __future__ import annotations

import signal
import sys

import pytest
import torch
import torch_npu
import torchair
from torch import Tensor


def reduce_overhead() -> object:
    config = torchair.CompilerConfig()
    config.mode = "reduce-overhead"
    return torchair.get_npu_backend(compiler_config=config)


BACKENDS = {"npugraph_ex": lambda: "npugraph_ex", "reduce-overhead": reduce_overhead}


class Step(torch.nn.Module):
    """A decoding step: it quantises, computes and adds to a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(16, 16, dtype=torch.float16))

    def forward(self, x: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        quantised, scale = torch_npu.npu_dynamic_quant(x)
        cache.add_(quantised)
        hidden = torch.nn.functional.linear(x, self.weight)
        return torch.nn.functional.silu(hidden).view(-1, 4, 4).transpose(1, 2) + 1, scale


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", list(BACKENDS))
@torch.no_grad
def test_calls_are_bitwise_equal_to_eager(backend: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    model = Step().npu()
    compiled = torch.compile(model, backend=BACKENDS[backend](), fullgraph=True, dynamic=dynamic)
    cache, expected_cache = torch.zeros(2, 6, 16).npu()
    for rows in (6, 6, 4, 6) if dynamic else (6, 6):
        x = torch.randn(rows, 16, dtype=torch.float16).npu()
        got = [result.clone() for result in compiled(x, cache[:rows])]
        want = model(x, expected_cache[:rows])
        assert all(torch.equal(one, other) for one, other in zip(got, want, strict=True))
        assert torch.equal(cache, expected_cache)


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_operands_that_share_memory_are_not_overwritten(backend: str) -> None:
    """TorchAir makes operators in-place where nothing reads the memory later, but the operator itself may."""
    torch._dynamo.reset()

    def differences(x: Tensor) -> Tensor:
        padded = torch.cat([x[:, :1] - 1, x], -1)
        return padded[:, 1:] - padded[:, :-1]

    x = torch.arange(12.0).view(2, 6).npu() ** 2
    assert torch.equal(torch.compile(differences, backend=BACKENDS[backend](), fullgraph=True)(x), differences(x))


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_tensors_assembled_from_views_are_whole(backend: str) -> None:
    """TorchAir read a view for the tensor that a slice_scatter assembles from it, as in this gradient."""
    torch._dynamo.reset()

    def pad(x: Tensor) -> Tensor:
        return torch.nn.functional.pad(x, (1, 1), mode="circular") * torch.arange(6.0, device="npu")

    x, y = (torch.arange(4.0).view(1, 1, 4).npu().requires_grad_() for _ in range(2))
    torch.compile(pad, backend=BACKENDS[backend](), fullgraph=True)(x).sum().backward()
    pad(y).sum().backward()
    assert torch.equal(x.grad, y.grad)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_sizes_may_be_multiplied_with_fractions(backend: str) -> None:
    torch._dynamo.reset()

    def enlarge(x: Tensor) -> Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=1.7)

    compiled = torch.compile(enlarge, backend=BACKENDS[backend](), fullgraph=True, dynamic=True)
    for width in (5, 10):
        x = torch.randn(1, 2, width).npu()
        assert torch.equal(compiled(x), enlarge(x))


@pytest.mark.parametrize("backend", list(BACKENDS))
@torch.no_grad
def test_results_of_several_sizes_may_be_kept(backend: str) -> None:
    """Outputs that are kept and returned again must not be freed twice by a later capture."""
    torch._dynamo.reset()
    model = torch.nn.Linear(4, 4).npu()
    compiled = torch.compile(model, backend=BACKENDS[backend](), fullgraph=True, dynamic=True)
    kept = []
    for rows in (1, 3, 7, 3, 2, 1, 7, 5):
        x = torch.randn(rows, 4).npu()
        kept.append(compiled(x))
        assert torch.equal(kept[-1], model(x))


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_changed_number_changes_the_result(backend: str) -> None:
    """Numbers are inputs on the CPU, which TorchAir frees, writes over, and takes for constants of a captured graph."""
    torch._dynamo.reset()

    def scaled(x: Tensor, number: float, tensor: Tensor) -> Tensor:
        return torch.relu(x * number) + tensor

    compiled = torch.compile(scaled, backend=BACKENDS[backend](), fullgraph=True, dynamic=True)
    x, tensors = torch.randn(4, 8).npu(), [torch.tensor(1.0), torch.tensor(7.0)]
    for number, tensor in ((2.0, 0), (3.5, 0), (3.5, 1), (2.0, 0)):
        assert torch.equal(compiled(x, number, tensors[tensor]), scaled(x, number, tensors[tensor]))
    assert [tensor.item() for tensor in tensors] == [1.0, 7.0]


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_mutated_input_can_be_a_new_tensor_at_the_same_address(backend: str) -> None:
    torch._dynamo.reset()

    def double(x: Tensor) -> Tensor:
        return x.mul_(2) + 1

    compiled = torch.compile(double, backend=BACKENDS[backend]())
    addresses = set()
    for value in range(4):
        x = torch.full((6, 8), float(value)).npu()
        addresses.add(x.data_ptr())
        assert torch.equal(compiled(x).cpu(), torch.full((6, 8), 2.0 * value + 1))
        assert torch.equal(x.cpu(), torch.full((6, 8), 2.0 * value))
        del x
    assert len(addresses) < 4, "the allocator gives freed memory again"


@pytest.mark.parametrize("backend", list(BACKENDS))
@torch.no_grad
def test_weight_can_be_a_new_tensor_at_an_earlier_address(backend: str) -> None:
    torch._dynamo.reset()
    layer = torch.nn.Linear(8, 8).npu()
    compiled = torch.compile(layer, backend=BACKENDS[backend]())
    x = torch.randn(4, 8).npu()
    addresses = []
    for _ in range(3):
        assert torch.equal(compiled(x), layer(x))
        addresses.append(layer.weight.data_ptr())
        layer.weight.data = torch.randn(8, 8).npu()
    assert addresses[0] == addresses[2]


@pytest.mark.filterwarnings("ignore:Because acl graph fixes")
def test_each_gear_is_captured_and_other_sizes_are_refused() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.relu(x) * 2, backend=reduce_overhead(), fullgraph=True, dynamic=True)
    for rows in (2, 4, 2):
        x = torch.randn(rows, 3).npu()
        torchair.inference.set_dim_gears(x, {0: [2, 4]})
        assert torch.equal(compiled(x).clone(), torch.relu(x) * 2)
    other = torch.randn(3, 3).npu()
    torchair.inference.set_dim_gears(other, {0: [2, 4]})
    with pytest.raises(Exception, match="The index 3 of the current tensor shape is not within the range"):
        compiled(other)


class OnTwoStreams(torch.nn.Module):
    """Streams and events as scripts write them, and as PyTorch traces them."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.stream = torch.npu.Event(), torch.npu.Stream()

    def forward(self, x: Tensor) -> Tensor:
        doubled, ended = x * 2, torch.npu.Event()
        self.began.record()
        with torch.npu.stream(self.stream):
            self.began.wait(self.stream)
            positive = doubled.relu()
            doubled.record_stream(self.stream)
            ended.record(self.stream)
        ended.wait()
        return positive + self.waiting_for_each_other(x)

    def waiting_for_each_other(self, x: Tensor) -> Tensor:
        stream, caller = torch.npu.Stream(), torch.npu.current_stream()
        stream.wait_stream(caller)
        with torch.npu.stream(stream):
            shifted = x + 1
            event = stream.record_event()
        caller.wait_event(event)
        caller.wait_stream(stream)
        return shifted


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_streams_and_events_are_captured(backend: str) -> None:
    torch._dynamo.reset()
    model = OnTwoStreams()
    compiled = torch.compile(model, backend=BACKENDS[backend](), fullgraph=True, dynamic=False)
    for _ in range(2):
        x = torch.randn(3, 3).npu()
        assert torch.equal(compiled(x), model(x))


def test_npugraph_ex_takes_weights_of_8_bits_and_activations_of_16() -> None:
    torch._dynamo.reset()
    x, scale = torch.randn(4, 64).half().npu(), torch.rand(16).half().npu()
    weight = torch.randint(-127, 128, (64, 16), dtype=torch.int8).npu()
    compiled = torch.compile(torch.ops.npu.npu_weight_quant_batchmatmul, backend="npugraph_ex", fullgraph=True)
    assert torch.equal(compiled(x, weight, scale), torch.ops.npu.npu_weight_quant_batchmatmul(x, weight, scale))


def test_static_kernels_are_refused_in_one_line() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        torch.relu, backend="npugraph_ex", options={"static_kernel_compile": True}, fullgraph=True, dynamic=False
    )
    with pytest.raises(RuntimeError, match="static_kernel_compile, which compiles kernels for a device, needs an NPU"):
        compiled(torch.ones(3).npu())


def test_signal_handlers_are_kept() -> None:
    import npugraph_ex

    assert npugraph_ex.compile_fx is not None
    handler = vars(sys.modules["torch_npu.dynamo.npugraph_ex"])["_signal_handler"]
    assert signal.getsignal(signal.SIGINT) is not handler
    assert signal.getsignal(signal.SIGTERM) is not handler


def test_process_can_use_both_compilers(run_python) -> None:
    code = """
import graph_quant, torch, torch_npu
x = torch.ones(2).npu()
for number, backend in enumerate(("npugraph_ex", "npu")):
    assert torch.compile(lambda x: x + number, backend=backend)(x).tolist() == [1.0 + number] * 2
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_pattern_example_is_a_valid_call() -> None:
    from npugraph_ex.patterns.add_rms_norm_quant import _get_inputs

    *_, scales, zero_points = _get_inputs()
    assert zero_points.size() == scales.size()
    assert zero_points.dtype is torch.int32
