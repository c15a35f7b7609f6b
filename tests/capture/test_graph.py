"""torch.npu.graph: capturing computes nothing, a replay computes on the captured addresses."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest
import torch
import torch_npu  # noqa: F401
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def captured(function, *args):
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        results = function(*args)
    return graph, results


def test_capture_computes_nothing_and_replay_does() -> None:
    x, cache = torch.randn(4, 8).npu(), torch.zeros(4, 8).npu()

    def step(x: Tensor) -> Tensor:
        cache.add_(x)
        return torch.relu(x) @ x.t() + 1.5

    before = x.clone()
    graph, result = captured(step, x)
    assert torch.equal(x, before)
    assert not cache.any()
    for _ in range(2):
        x.copy_(torch.randn(4, 8))
        kept = cache.clone()
        graph.replay()
        assert torch.equal(cache, kept + x)
        assert torch.equal(result, torch.relu(x) @ x.t() + 1.5)


def factors(x: Tensor) -> tuple[Tensor, Tensor]:
    factored, pivots, _ = torch.linalg.lu_factor_ex(x)
    return factored, pivots


def scaled(tensors: list[Tensor]) -> list[Tensor]:
    torch._foreach_mul_(tensors, 0.9)
    return tensors


CALLS = {
    "views": lambda x: x.t().reshape(2, -1)[:, 1:].contiguous(),
    "several results": lambda x: x.topk(3),
    "a list of results": lambda x: [part * 2 for part in x.split(3, dim=1)],
    "numbers": lambda x: (x * 2, x.int() + 2.5, x.int() * 3, x > 0.5),
    "half precision": lambda x: torch.nn.functional.linear(x.half(), x.half()[:4]),
    "an index": lambda x: x[torch.ones(3, dtype=torch.long, device=x.device)],
    "out=": lambda x: torch.add(x, 1, out=torch.empty(0, device=x.device)),
    "no statistics": lambda x: torch.native_batch_norm(x, None, None, x[0], x[1] ** 2, False, 0.1, 1e-5),
    "statistics": lambda x: torch.native_layer_norm(x.half(), (8,), x[0].half(), None, 1e-5),
    "bags": lambda x: torch.embedding_bag(x, torch.ones(4, dtype=torch.long, device=x.device), (x[0, :2] * 0).long()),
    "a conjugate": lambda x: torch.linalg.lu_solve(*factors(x[:, :6] * 1j), x.t() * (1 + 1j), left=False),
    "a reduction": lambda x: torch.nn.functional.layer_norm(x, (8,)).std(0),
    "cumulative extremes": lambda x: (*x.cummax(1), *x.cummin(0)),
    "bags in bfloat16": lambda x: torch.nn.functional.embedding_bag(
        torch.ones(4, 5, dtype=torch.long, device=x.device), x.bfloat16(), mode="sum"
    ),
    # Eager mode computes these otherwise than the CPU's kernels.
    "alpha": lambda x: (
        torch.add(x.half(), x.half().flip(0), alpha=0.1),
        x.bfloat16().sub_(x.bfloat16().flip(0), alpha=0.1),
        torch.add(x.half(), x.half().flip(0), alpha=0.1, out=torch.empty(0, dtype=torch.half, device=x.device)),
    ),
    "lists and numbers": lambda x: scaled([x.half(), x.bfloat16()]),
    "volumes": lambda x: torch.nn.functional.avg_pool3d(x.half().view(1, 1, 3, 4, 4), 2),
    "a grid": lambda x: torch.nn.functional.grid_sample(
        x.half().view(1, 1, 6, 8), x.half().view(1, 4, 6, 2), align_corners=False
    ),
    "a power": lambda x: (x.abs() ** 1.3, torch._foreach_pow([x.abs()], 0.7)[0]),
    "frequencies": lambda x: torch.view_as_real(torch.fft.fft(x[:, :7] + 0j)),
    "a convolution": lambda x: torch.nn.functional.conv2d(x.half().view(1, 3, 4, 4), x.half()[:3, :3].view(3, 3, 1, 1)),
    "strided elements": lambda x: (x[:, ::2].sigmoid(), x.t().logsumexp(0), torch.nn.functional.gelu(x[:, 1::3])),
    "groups": lambda x: torch.nn.functional.group_norm(x.half().view(2, 4, 6), 2),
    "a division": lambda x: (x * 9).int().div(-1, rounding_mode="trunc"),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_replay_is_bitwise_equal_to_eager(name: str) -> None:
    x = torch.randn(6, 8).npu()
    graph, results = captured(CALLS[name], x)
    x.copy_(torch.randn(6, 8))
    graph.replay()
    expected = CALLS[name](x)
    for got, want in zip(as_list(results), as_list(expected), strict=True):
        assert (got.dtype, got.size(), got.stride()) == (want.dtype, want.size(), want.stride())
        assert torch.equal(got, want)


def test_graph_captured_in_inference_mode_is_replayed_outside_of_it() -> None:
    with torch.inference_mode():
        x = torch.randn(3, 4).npu()
        graph, result = captured(lambda: torch.relu(x).add_(1))
        x.copy_(torch.randn(3, 4))
    graph.replay()
    assert torch.equal(result, torch.relu(x) + 1)


def as_list(results: object) -> list[Tensor]:
    return [results] if isinstance(results, Tensor) else list(results)


@pytest.mark.parametrize(
    "compute",
    [torch.nn.functional.linear, lambda x, weight: torch.matmul(x[None], weight.t()), lambda x, weight: x @ weight[0]],
    ids=["linear", "matmul", "vector"],
)
def test_products_captured_in_inference_mode_have_eager_bits(compute: Callable[..., torch.Tensor]) -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(rows, 256, generator=generator).bfloat16().npu() for rows in (17, 1024))
    with torch.inference_mode():
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            captured = compute(x, weight)
        graph.replay()
        assert torch.equal(captured, compute(x, weight))
    assert torch.equal(captured, compute(x, weight))


def test_replay_samples_equal_eager_samples() -> None:
    def draw(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.rand_like(x), torch.nn.functional.dropout(x, 0.5)

    x = torch.ones(3, 5).npu()
    graph, results = captured(draw, x)
    torch.npu.manual_seed(7)
    replayed = []
    for _ in range(2):
        graph.replay()
        replayed += [result.clone() for result in results]
    torch.npu.manual_seed(7)
    expected = [*draw(x), *draw(x)]
    assert all(torch.equal(got, want) for got, want in zip(replayed, expected, strict=True))
    assert not torch.equal(replayed[0], replayed[2])


def test_replay_restores_a_captured_rng_state() -> None:
    def draw() -> tuple[Tensor, ...]:
        before = torch.rand(8, device="npu")
        state = torch.npu.get_rng_state()
        first = torch.nn.functional.dropout(torch.ones(8, device="npu"), 0.5)
        torch.npu.set_rng_state(state)
        return before, first, torch.rand(8, device="npu"), torch.rand(8, device="npu")

    graph, results = captured(draw)
    for seed in (3, 4):
        torch.npu.manual_seed(seed)
        graph.replay()
        after = torch.rand(8, device="npu")
        torch.npu.manual_seed(seed)
        expected = [*draw(), torch.rand(8, device="npu")]
        assert all(torch.equal(got, want) for got, want in zip([*results, after], expected, strict=True))


def test_captured_checkpoint_recomputes_the_same_values() -> None:
    x = torch.ones(8).npu().requires_grad_()

    def gradient() -> Tensor:
        result = checkpoint(lambda x: x * torch.rand_like(x), x, use_reentrant=False)
        return torch.autograd.grad(result.sum(), x)[0]

    graph, result = captured(gradient)
    torch.npu.manual_seed(5)
    graph.replay()
    torch.npu.manual_seed(5)
    assert torch.equal(result, gradient())


def test_rng_states_cannot_cross_a_capture() -> None:
    outside, inside = torch.npu.get_rng_state(), []
    with pytest.raises(NotImplementedError, match="got one that was taken before it"):
        captured(lambda: torch.npu.set_rng_state(outside))
    captured(lambda: inside.append(torch.npu.get_rng_state()))
    with pytest.raises(RuntimeError, match="can be set in this capture alone"):
        torch.npu.set_rng_state(inside[0])


def test_cpu_scalar_is_read_at_capture() -> None:
    x, number = torch.ones(3).npu(), torch.tensor(2.0)
    graph, result = captured(lambda: x * number)
    number.fill_(5.0)
    graph.replay()
    assert result.tolist() == [2.0, 2.0, 2.0]


def test_graphs_share_a_pool() -> None:
    x = torch.ones(1000).npu()
    first, one = captured(lambda: x + 1)
    second = torch.npu.NPUGraph()
    with torch.npu.graph(second, pool=first.pool()):
        two = one * 2
    assert second.pool() == first.pool()
    first.replay()
    second.replay()
    assert torch.equal(two, torch.full_like(two, 4.0))


def test_forked_and_joined_streams_replay_in_order() -> None:
    x, side = torch.ones(5).npu(), torch.npu.Stream()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        main = torch.npu.current_stream()
        doubled = x * 2
        side.wait_stream(main)
        with torch.npu.stream(side):
            assert torch.npu.is_current_stream_capturing()
            squared = doubled * doubled
        main.wait_stream(side)
        total = squared + x
    assert not torch.npu.is_current_stream_capturing()
    x.fill_(3)
    graph.replay()
    assert total.tolist() == [39.0] * 5


def test_graphed_callables_train_like_the_module() -> None:
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).npu()
    graphed = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).npu()
    graphed.load_state_dict(plain.state_dict())
    graphed = torch.npu.make_graphed_callables(graphed, (torch.randn(3, 4).npu(),))
    for _ in range(2):
        x = torch.randn(3, 4).npu()
        results = []
        for model in (plain, graphed):
            model.zero_grad()
            results.append(model(x))
            results[-1].square().sum().backward()
        assert torch.equal(*results)
        for want, got in zip(plain.parameters(), graphed.parameters(), strict=True):
            assert torch.equal(want.grad, got.grad)


def test_saved_norms_of_weights_have_the_dtype_of_eager_mode() -> None:
    """PyTorch infers them in half precision; the CPU's are float32, and its gradient takes no others."""
    direction, magnitude = torch.randn(5, 6).half().npu(), torch.randn(5, 1).half().npu()

    def norm() -> list[torch.Tensor]:
        result, norms = torch.ops.aten._weight_norm_interface(direction, magnitude, 0)
        grads = torch.ops.aten._weight_norm_interface_backward(result, direction, magnitude, norms, 0)
        return [result, norms, *grads]

    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        captured = norm()
    graph.replay()
    for result, expected in zip(captured, norm(), strict=True):
        assert result.dtype == expected.dtype
        assert torch.equal(result, expected)


def test_graph_is_written_as_a_trace(tmp_path) -> None:
    import json

    x = torch.ones(2, 3).npu()
    graph, result = captured(lambda: (x + 1).relu())
    with pytest.warns(UserWarning, match="debug_dump"):
        graph.debug_dump(str(tmp_path / "tape.json"))
    tasks = json.loads((tmp_path / "tape.json").read_text())
    assert [task["name"] for task in tasks] == ["aten::add.Tensor", "aten::relu"]
    assert tasks[0]["args"]["Inputs"] == [{"Address": x.data_ptr(), "Type": "float32", "Shape": [2, 3]}]
    assert tasks[1]["args"]["Outputs"][0]["Address"] == result.data_ptr()
    if importlib.util.find_spec("torch_npu.npu._npugraph_utils"):  # it aligns the tasks of streams
        assert (tmp_path / "tape.aligned.json").exists()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(7, 33), (33,)])
@pytest.mark.parametrize("scalars", [{}, {"alpha": 2.5}, {"beta": 0.3}, {"beta": 0.3, "alpha": 2.5}, {"beta": 0}])
def test_all_forms_of_addmm_round_alike(dtype: torch.dtype, shape: tuple[int, ...], scalars: dict[str, float]) -> None:
    """Eagerly and captured, functional, in place and with ``out``: the product is rounded before the sum."""
    torch.manual_seed(0)
    x, x1, x2 = (torch.randn(sizes).to(dtype).npu() for sizes in (shape, (7, 300), (300, 33)))
    written, accumulated = torch.empty(7, 33, dtype=dtype, device="npu"), x.expand(7, 33).clone()

    def products() -> list[torch.Tensor]:
        functional = torch.addmm(x, x1, x2, **scalars)
        torch.addmm(x, x1, x2, **scalars, out=written)
        return [functional, written.clone(), accumulated.clone().addmm_(x1, x2, **scalars)]

    eager = products()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        captured = products()
    graph.replay()
    assert all(map(torch.equal, captured, eager))
    assert torch.equal(eager[0], eager[1])
    if dtype is torch.float32:  # a bias row of half precision is added before rounding
        assert torch.equal(eager[0], eager[2])
