"""verify: what is compared, and how it is reported."""

import contextlib
import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_npu
import torchair
from graph_quant.verification import Report, Status, VerificationError, capture, verify
from graph_quant.verification.compare.operators import is_random
from graph_quant.verification.run import graph as graph_level
from torch import Tensor, fx, nn
from torch._dynamo.backends.common import aot_autograd


def statuses(report: Report) -> dict[str, Status]:
    return {node.fx: node.status for node in report.nodes}


def linear(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    codes, token_scale = torch_npu.npu_dynamic_quant(x)
    product = torch_npu.npu_quant_matmul(codes, weight, scale, pertoken_scale=token_scale, output_dtype=torch.float16)
    return torch.relu(product)


@pytest.fixture
def inputs() -> tuple[Tensor, ...]:
    return (
        torch.randn(4, 32, dtype=torch.float16).npu(),
        torch.randint(-9, 9, (32, 16), dtype=torch.int8).npu(),
        torch.rand(16).npu() * 0.01,
    )


@pytest.fixture
def off_by_one(break_kernel: Callable[..., None]) -> None:
    """A fault: one code of npu_dynamic_quant is too large by one."""

    def faulty(original: Any, *args: Any, **attributes: Any) -> tuple[Tensor, Tensor]:
        codes, scale = original(*args, **attributes)
        codes[0, 0] += 1
        return codes, scale

    break_kernel("DynamicQuant", faulty)


@pytest.mark.usefixtures("off_by_one")
def test_a_node_that_inherits_an_error_is_not_blamed(inputs: tuple[Tensor, ...]) -> None:
    report = verify(linear, *inputs)
    assert statuses(report) == {
        "npu_dynamic_quant[0]": Status.DIFFERS,
        "npu_dynamic_quant[1]": Status.EQUAL,
        "npu_quant_matmul": Status.INHERITED,
        "relu": Status.INHERITED,
    }
    assert [output.status for output in report.outputs] == [Status.DIFFERS]
    codes = report.nodes[0].difference
    assert (codes.differing, codes.max_error, codes.mean_error) == (1, 1, 1 / 128)


@pytest.mark.usefixtures("off_by_one")
def test_thresholds(inputs: tuple[Tensor, ...]) -> None:
    assert verify(linear, *inputs, max_error=1).ok
    assert verify(linear, *inputs, min_sqnr=20).ok
    assert not verify(linear, *inputs, max_error=0.5).ok
    assert not verify(linear, *inputs, max_error=1, min_sqnr=100).ok
    with pytest.raises(
        VerificationError, match=r"different: 3 of 4 .*npu_dynamic_quant\[0\] .*test_verify.py:\d+: codes"
    ):
        verify(linear, *inputs).check()


@pytest.mark.parametrize("dynamic", [False, True])
def test_intermediates_as_outputs_of_a_second_graph(
    inputs: tuple[Tensor, ...], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, dynamic: bool
) -> None:
    """The method for devices that do not run the graph node by node."""
    monkeypatch.setattr(graph_level, "runs_node_by_node", lambda _: False)
    report = verify(linear, *inputs, dynamic=dynamic)
    report.check()
    assert len(report.nodes) == 4
    request.getfixturevalue("off_by_one")
    faulty = verify(linear, *inputs, dynamic=dynamic)
    assert faulty.first_divergence is not None
    assert faulty.first_divergence.fx == "npu_dynamic_quant[0]"
    assert faulty.first_divergence.ge_types == "DynamicQuant"


class Counter(nn.Module):
    """Writes to a buffer and to an input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: Tensor, cache: Tensor) -> Tensor:
        self.total += x
        cache[1:3] = x[:2]
        return self.total * cache


@pytest.mark.parametrize("recordable", [True, False])
def test_inputs_and_buffers_that_are_written_to(monkeypatch: pytest.MonkeyPatch, recordable: bool) -> None:
    monkeypatch.setattr(graph_level, "runs_node_by_node", lambda _: recordable)
    module, x, cache = Counter().npu(), torch.randn(4).npu(), torch.zeros(4).npu()
    report = verify(module, x, cache)
    report.check()
    assert torch.equal(cache.cpu(), torch.zeros(4))
    assert torch.equal(module.total.cpu(), torch.zeros(4)), "the module is left as it was"
    written = [output.name for output in report.outputs if output.name.endswith("after the call")]
    assert written == ["input[1] after the call", "total after the call"]


def test_what_the_script_gets_is_compared_and_not_only_a_second_graph(
    break_kernel: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph with extra outputs is right, the original graph is not."""
    monkeypatch.setattr(graph_level, "runs_node_by_node", lambda _: False)
    ran = []

    def wrong_the_second_time(original: Any, x: Tensor) -> Tensor:
        ran.append(x)
        return original(x) + (len(ran) - 1)

    break_kernel("Relu", wrong_the_second_time)
    torch._dynamo.reset()
    with capture() as report:
        torch.compile(torch.relu, backend="npu")(torch.ones(3).npu())
    assert len(ran) == 2
    assert {node.status for node in report.nodes} == {Status.EQUAL}
    assert not report.ok
    (against_fx,), (against_eager,) = report.graphs[0].outputs, report.outputs
    assert against_fx.status is against_eager.status is Status.DIFFERS
    assert report.verdict().startswith("different: graph_")


def test_a_view_that_a_graph_returns_is_compared(break_kernel: Callable[..., None]) -> None:
    """It has no GE node of its own until the end of the graph."""
    break_kernel("Transpose", lambda original, x, *rest, **attributes: original(x, *rest, **attributes) + 1)
    report = verify(lambda x: x.relu().t(), torch.ones(2, 3).npu())
    assert not report.ok
    assert [output.status for output in report.outputs] == [Status.DIFFERS]


def test_a_written_input_is_compared(break_kernel: Callable[..., None]) -> None:
    def store(x: Tensor, cache: Tensor) -> Tensor:
        y = x + 1
        cache.copy_(x * 2)
        return y

    assert verify(store, torch.ones(3).npu(), torch.zeros(3).npu()).ok
    break_kernel("Mul", lambda original, *inputs, **attributes: original(*inputs, **attributes) + 1)
    for recorded in (store, lambda x, cache: store(x, cache)):
        report = verify(recorded, torch.ones(3).npu(), torch.zeros(3).npu())
        assert {output.name: output.status for output in report.outputs} == {
            "output": Status.EQUAL,
            "input[1] after the call": Status.DIFFERS,
        }


def enlarge(image: Tensor) -> Tensor:
    scaled = image * 2
    return nn.functional.interpolate(scaled, scale_factor=1.7, mode="bilinear")


@pytest.fixture
def rounding_otherwise() -> Iterator[None]:
    """Lets the device interpolate as the CPU does, unlike its decomposition in a graph."""

    def enlarged(image: Tensor, *args: Any) -> Tensor:
        return torch.ops.aten.upsample_bilinear2d(image.cpu(), *args).npu()

    library = torch.library.Library("aten", "IMPL", "PrivateUse1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a kernel already
        library.impl("upsample_bilinear2d", enlarged)
    yield
    library._destroy()


@pytest.mark.usefixtures("rounding_otherwise")
def test_the_reference_is_eager_and_decomposition_that_differs_from_it_is_said() -> None:
    image = torch.randn(1, 3, 11, 13, generator=torch.Generator().manual_seed(0)).npu()
    compiled = torch.compile(enlarge, backend="npu")
    with capture() as captured:
        result = compiled(image)
    assert not torch.equal(result, enlarge(image)), "this example needs an operator that decomposes to other bits"
    for report in (captured, verify(enlarge, image)):
        assert {node.status for node in report.nodes} == {Status.EQUAL}
        assert not report.ok
        (decomposition,) = report.decompositions
        assert str(decomposition).startswith("eager and its decomposition differ at interpolate (")
        assert decomposition.line is not None
        assert decomposition.line.code.startswith("return nn.functional.interpolate")
        with pytest.raises(VerificationError, match=r"although every node .* eager and its decomposition differ at"):
            report.check()
    assert verify(enlarge, image, min_sqnr=100).ok


class Keeper(nn.Module):
    """Writes to a parameter, replaces a buffer and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(3))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.weight.add_(x)
        self.seen = self.seen + x
        self.calls += 1
        return x * self.weight + self.seen


@pytest.mark.parametrize(
    "reach", [lambda m: m, lambda m: m.forward, lambda m: lambda x: m(x)], ids=["module", "method", "closure"]
)
def test_a_module_is_left_as_it_was(reach: Callable[[nn.Module], Callable[..., Any]]) -> None:
    module = Keeper().npu()
    report = verify(reach(module), torch.randn(3).npu())
    report.check()
    assert [output.name for output in report.outputs] == ["output", "weight after the call", "seen after the call"]
    assert module.weight.tolist() == [1, 1, 1]
    assert module.seen.tolist() == [0, 0, 0]
    assert module.calls == 0


def test_a_node_is_named_by_its_module() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.SiLU())).npu()
    report = verify(net, torch.randn(3, 4).npu())
    modules = {node.op: node.module for graph in report.graphs for node in graph.nodes}
    assert modules["aten.addmm.default"] == "0"
    assert modules["aten.silu.default"] == "1.0"
    assert "module 1.0" in next(node for node in report.graphs[0].nodes if node.module == "1.0").describe()


def test_running_statistics_are_left_as_they_were_also_where_it_stops() -> None:
    net = nn.Sequential(nn.BatchNorm1d(4)).npu()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    for inputs in ((torch.randn(5, 4).npu(),), (torch.randn(5, 3).npu(),)):
        with contextlib.suppress(RuntimeError):
            verify(net, *inputs)
        assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_attention_without_dropout_is_compared() -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return torch_npu.npu_fusion_attention(query, key, value, 2, "BSH")[0]

    report = verify(attend, *(torch.randn(1, 16, 32, dtype=torch.float16).npu() for _ in range(3)))
    of_attention = {status for name, status in statuses(report).items() if "npu_fusion_attention" in name}
    assert of_attention == {Status.EQUAL}
    assert report.ok


@pytest.mark.parametrize(
    ("operator", "keywords", "expected"),
    [
        ("npu.npu_fusion_attention", {}, False),
        ("npu.npu_fusion_attention", {"keep_prob": 1.0}, False),
        ("npu.npu_fusion_attention", {"keep_prob": 0.5}, True),
        ("aten.scaled_dot_product_attention", {}, False),
        ("aten.scaled_dot_product_attention", {"dropout_p": 0.1}, True),
        ("aten.rand", {}, True),
        ("aten.mul.Tensor", {}, False),
    ],
)
def test_which_operators_are_random(operator: str, keywords: dict[str, float], expected: bool) -> None:
    namespace, name, *overload = operator.split(".")
    packet = getattr(getattr(torch.ops, namespace), name)
    node = fx.Graph().call_function(getattr(packet, overload[0] if overload else "default"), (), keywords)
    assert is_random(node) is expected


def test_random_numbers_are_not_compared() -> None:
    def noisy(x: Tensor) -> Tensor:
        return (x + torch.rand(64, device="npu")) * 2

    report = verify(noisy, torch.ones(64).npu())
    assert report.ok
    by_node = statuses(report)
    assert by_node.pop("rand") is Status.RANDOM
    assert set(by_node.values()) == {Status.EQUAL}
    assert report.outputs[0].status is Status.RANDOM
    assert [output.status for output in report.graphs[0].outputs] == [Status.EQUAL], "with the graph's own numbers"
    assert report.verdict().endswith("; 1 result and 1 output could not be compared")


def test_an_operator_that_the_reference_lacks() -> None:
    def spread(grad: Tensor, index: Tensor) -> Tensor:
        return torch.ops.npu.npu_gather_backward(grad, [3, 8], 1, index, False) * 2

    grad, index = torch.randn(3, 2).npu(), torch.tensor([[0, 3], [1, 1], [7, 2]]).npu()
    with capture() as report:
        result = torch.compile(spread, backend=torchair.get_npu_backend())(grad, index)
    by_node = statuses(report)
    assert report.ok
    assert by_node["npu_gather_backward"] is Status.UNKNOWN
    assert by_node["mul"] is Status.EQUAL
    assert torch.equal(result.cpu(), torch.zeros(3, 8).scatter_add(1, index.cpu(), grad.cpu()) * 2)


def test_every_graph_of_a_function_that_breaks() -> None:
    def broken(x: Tensor) -> Tensor:
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return torch.sigmoid(y)

    report = verify(broken, torch.randn(4).npu())
    assert [[node.fx for node in graph.nodes] for graph in report.graphs] == [["relu"], ["sigmoid"]]


def test_forward_and_backward_of_captured_code() -> None:
    x = torch.randn(3, 4).npu().requires_grad_()
    with capture() as report:
        torch.compile(lambda x: torch.sigmoid(x).sum(), backend=torchair.get_npu_backend())(x).backward()
    report.check()
    assert len(report.graphs) == 2
    expected = torch.sigmoid(x.detach().cpu())
    torch.testing.assert_close(x.grad.cpu(), expected * (1 - expected))


def test_captured_calls() -> None:
    function = lambda x: x + 1  # noqa: E731
    for calls, expected in ((1, 1), (2, 2), (None, 3)):
        torch._dynamo.reset()
        with capture(calls=calls) as report:
            compiled = torch.compile(function, backend="npu")
            for _ in range(3):
                assert torch.equal(compiled(torch.ones(2).npu()).cpu(), torch.full((2,), 2.0))
        assert [graph.call for graph in report.graphs] == list(range(1, expected + 1))
        assert report.calls_beyond == 3 - expected
    assert report.verdict() == "equal: 3 results in 3 calls of 1 graph on the host NPU, bit for bit"


def test_it_can_be_repeated_without_limit() -> None:
    x = torch.ones(2).npu()
    with torch._dynamo.config.patch(recompile_limit=2):
        assert all(verify(torch.relu, x, progress=False).ok for _ in range(4))


def test_nothing_to_verify() -> None:
    with pytest.raises(VerificationError, match="nothing in it was compiled"):
        verify(lambda x: x, torch.ones(2).npu())


def test_json(inputs: tuple[Tensor, ...]) -> None:
    document = json.loads(verify(linear, *inputs).to_json())
    assert document["ok"] is True
    nodes = document["graphs"][0]["nodes"]
    assert [node["ge"][0]["type"] for node in nodes] == ["DynamicQuant", "DynamicQuant", "QuantBatchMatmulV3", "Relu"]
    assert nodes[0]["quantised"]["destination"] == "int8"
    assert sum(nodes[0]["quantised"]["histogram"]["graph"]) == 4 * 32
    assert nodes[0]["line"]["code"].startswith("codes, token_scale =")
    assert nodes[0]["sqnr_db"] == "inf"


def test_saturation_counts_both_bounds() -> None:
    def saturating(x: Tensor, scale: Tensor) -> Tensor:
        return torch_npu.npu_quantize(x, scale, None, torch.quint4x2, -1, False)

    x = torch.tensor([[-99, -8, -7, 0, 6, 7, 8, 99]] * 2, dtype=torch.float32).npu()
    report = verify(saturating, x, torch.ones(1).npu())
    distribution = report.nodes[0].distribution
    assert distribution is not None
    assert distribution.destination.name == "int4"
    assert distribution.saturation == (10 / 16, 10 / 16)
    assert distribution.graph == (4, 2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 2, 6)


def test_memory_that_nothing_was_written_to_is_not_compared() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        rows = x.new_empty(2, 3)
        rows[0] = x
        rows[1] = x + 1
        return rows

    torch.full((2, 3), 7.0).npu()  # leaves values in memory that an empty tensor may get
    report = verify(function, torch.ones(3).npu(), progress=False)
    report.check()


def _wrong_from(first: int) -> Callable[..., Any]:
    """A kernel that is off by one in one element, starting with its ``first`` call."""
    calls = iter(range(1, 1000))

    def replacement(kernel: Callable[..., Tensor], *args: Any, **attributes: Any) -> Tensor:
        result = kernel(*args, **attributes).clone()
        result.view(-1)[-1] += next(calls) >= first
        return result

    return replacement


def test_a_backward_graph_is_compared_in_every_call(break_kernel: Callable[..., None]) -> None:
    break_kernel("TanhGrad", _wrong_from(2))
    weight = torch.randn(4, 4).npu().requires_grad_()
    with capture() as report:
        step = torch.compile(lambda x: torch.tanh(x @ weight).sum(), backend=torchair.get_npu_backend())
        for _ in range(2):
            step(torch.randn(4, 4).npu()).backward()
    assert all(graph.ok for graph in report.graphs)
    assert not report.ok
    assert "call 2 output" in report.verdict()


def test_graphs_of_another_backend_are_compared_in_every_call(break_kernel: Callable[..., None]) -> None:
    break_kernel("Relu", _wrong_from(2))
    torch._dynamo.reset()
    with capture() as report:
        step = torch.compile(torch.relu, backend=aot_autograd(fw_compiler=torchair.get_compiler()))
        for _ in range(3):
            step(torch.randn(3).npu())
    assert report.calls_beyond == 2
    assert len([output for output in report.outputs if output.status is Status.DIFFERS]) == 2


def _stops(*_: Any, **__: Any) -> Tensor:
    raise ValueError("no such thing")


@pytest.mark.parametrize("before", [0, 1])
def test_a_graph_that_stops_where_eager_does_not_is_different(break_kernel: Callable[..., None], before: int) -> None:
    step = torch.compile(torch.sigmoid, backend=torchair.get_npu_backend())
    with capture() as report:
        for _ in range(before):
            step(torch.randn(3).npu())
        torch._dynamo.reset()
        break_kernel("Sigmoid", _stops)
        with contextlib.suppress(Exception):
            step(torch.randn(3).npu())
    assert not report.ok
    assert "it stops, eager does not: " in report.outputs[-1].difference.mismatch


class _Kept:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda y, compiled: (y, 1 if compiled else 2), "output[1]"),
        (lambda y, compiled: (y, "compiled" if compiled else "eager"), "output[1]"),
        (lambda y, compiled: (y, 0.0 if compiled else -0.0), "output[1]"),
        (lambda y, compiled: _Kept(y + compiled), "output.value"),
        (lambda y, compiled: {"a": _Kept([y + compiled])}, "output['a'].value[0]"),
        (lambda y, compiled: (y, 3) if compiled else (y,), "output[1]"),
    ],
)
def test_results_other_than_tensors_are_compared(make: Callable[[Tensor, bool], Any], named: str) -> None:
    def function(x: Tensor) -> Any:
        y = torch.relu(x)
        return make(y, torch.compiler.is_compiling())

    report = verify(function, torch.ones(3).npu())
    assert [output.name for output in report.outputs if output.status is Status.DIFFERS] == [named]
    assert f"different: {named}" in report.verdict()
    assert "differs" in report.to_json()


def test_what_both_draw_alike_is_compared_in_every_call(break_kernel: Callable[..., None]) -> None:
    break_kernel("Relu", _wrong_from(2))
    with capture() as report:
        noisy = torch.compile(lambda x: (x + torch.rand_like(x), torch.relu(x)), backend="npu")
        for _ in range(3):
            noisy(torch.ones(64).npu())
    wrong = [output.name for output in report.outputs if output.status is Status.DIFFERS]
    assert [name.partition(" ")[2] for name in wrong] == ["call 2 output[1]", "call 3 output[1]"]


def test_calls_that_draw_other_random_numbers_are_said_not_to_be_compared() -> None:
    with capture() as report:
        noisy = torch.compile(lambda x: (x + torch.randn_like(x)).normal_() * 2, backend="npu")
        for _ in range(3):
            noisy(torch.ones(64).npu())
    assert report.ok
    assert report.verdict().endswith("could not be compared; nor 2 more calls")


def test_where_nothing_could_be_compared_nothing_is_called_equal() -> None:
    report = verify(torch.rand_like, torch.ones(64).npu())
    assert not report.compared
    assert report.verdict().startswith("nothing could be compared: ")


def test_the_verdict_counts_what_was_compared() -> None:
    def sample(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x) + torch.rand_like(x), x * 2

    report = verify(sample, torch.ones(4, 8).npu())
    random = sum(node.status is Status.RANDOM for node in report.nodes)
    assert report.verdict() == (
        f"equal: {len(report.nodes) - random} results in 1 graph on the host NPU, bit for bit; "
        f"{random} result and 1 output could not be compared"
    )
    assert random == 1
    assert report.to_html().count("<circle") == 2 * len(report.nodes)


def test_a_page_without_errors_shows_magnitudes() -> None:
    report = verify(lambda x: (x * 8, x / 16), torch.ones(4, 8).npu())
    assert [node.difference.magnitude for node in report.nodes] == [8.0, 0.0625]
    page = report.to_html()
    assert "Largest value along the graph; every result has equal bits" in page
    assert page.count("<circle") == 2
    assert "equal bits; values up to 8" in page
