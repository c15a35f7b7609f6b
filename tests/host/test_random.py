"""Random operators on npu:0 use the NPU's generators, and do not advance the CPU's."""

import re
import threading

import pytest
import torch
from graph_quant.host.device import registry
from graph_quant.host.device.random_ops import COMPOSED
from torch.nn import functional


def test_dropout_in_threads_repeats_no_mask_and_keeps_cpu_generator() -> None:
    x = torch.ones(256, device="npu")
    masks: list[tuple[float, ...]] = []
    before = torch.get_rng_state()
    drawn_by_cpu: list[float] = []

    def work() -> None:
        for _ in range(25):
            masks.append(tuple(functional.dropout(x, 0.5).tolist()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    drawn_by_cpu = [torch.rand(()).item() for _ in range(200)]
    for thread in threads:
        thread.join()
    assert len(set(masks)) == len(masks) == 100
    torch.set_rng_state(before)
    assert drawn_by_cpu == [torch.rand(()).item() for _ in range(200)]


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_gradient_of_dropout_is_its_mask(probability) -> None:
    x = torch.ones(100, device="npu", requires_grad=True)
    result = functional.dropout(x, probability)
    result.sum().backward()
    assert torch.equal(x.grad.cpu(), result.detach().cpu())
    assert functional.dropout(x, probability, training=False).detach().tolist() == [1.0] * 100


def test_attention_dropout_uses_npu_generator() -> None:
    x = torch.randn(1, 2, 4, 8).npu()
    before = torch.get_rng_state()
    results = []
    for _ in range(2):
        torch.npu.manual_seed(5)
        results.append(functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5).cpu())
    assert torch.equal(*results)
    assert torch.equal(torch.get_rng_state(), before)


def test_no_operator_uses_cpu_generator() -> None:
    """PyTorch tags what draws; it is given a generator, is composed here, or drops with a probability of its own."""
    seeded = []
    for name in registry._names("PrivateUse1"):
        if name.startswith("aten::") and "schema: (none)" not in torch._C._dispatch_dump(name):
            op = registry.overload(name)
            if torch.Tag.nondeterministic_seeded in op.tags:
                seeded.append((name, {argument.name for argument in op._schema.arguments}))
    assert len(seeded) > 30
    left = {
        name
        for name, arguments in seeded
        if not arguments & {"generator", "dropout", "dropout_p"} and name not in COMPOSED
    }
    assert left == set()


SAMPLERS = {
    "even": torch.rand_like,
    "between": lambda x: torch.empty_like(x).uniform_(-1, 3),
    "normal": lambda x: torch.randn(x.shape, device=x.device),
    "moved": lambda x: torch.empty_like(x).normal_(5, 2),
    "around": lambda x: torch.normal(x, 2.0),
    "as wide": lambda x: torch.normal(1.0, x.abs()),
    "waits": lambda x: torch.empty_like(x).exponential_(2),
    "tries": lambda x: torch.empty_like(x).geometric_(0.3),
    "powers": lambda x: torch.empty_like(x).log_normal_(),
    "rays": lambda x: torch.empty_like(x).cauchy_(),
    "coins": lambda x: torch.bernoulli(x.sigmoid()),
    "fair coins": lambda x: torch.full_like(x, 7).bernoulli_(),
    "fewer coins": lambda x: torch.empty_like(x).bernoulli_(0.1),
    "dice": lambda x: torch.randint(1, 7, x.shape, device=x.device),
    "large dice": lambda x: torch.randint(-5, 2**60, x.shape, device=x.device),
    "order": lambda x: torch.randperm(x.size(0), device=x.device),
    "chosen": lambda x: torch.multinomial(x.softmax(-1), 3),
    "chosen again": lambda x: torch.multinomial(x.softmax(-1), 9, replacement=True),
    "dropped": lambda x: functional.dropout(x, 0.3),
    "rows dropped": lambda x: functional.dropout1d(x, 0.3),
    "leaky": lambda x: functional.rrelu(x, training=True),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.4),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_graph_samples_equal_eager_samples(name) -> None:
    """With each call and each seed, also where the seed is set after the graph was compiled."""
    torch._dynamo.reset()
    x = torch.randn(17, 8, generator=torch.Generator().manual_seed(1)).npu()
    compiled = torch.compile(SAMPLERS[name], backend="npu", fullgraph=True, dynamic=True)
    outcomes = []
    for function in (compiled, SAMPLERS[name]):
        results = []
        for seed in (3, 4):
            torch.manual_seed(seed)
            results += [function(x).cpu(), function(x).cpu()]
        outcomes.append([*results, torch.npu.get_rng_state().cpu()])
    assert all(map(torch.equal, *outcomes))
    numbers = [tuple(sample.flatten().tolist()) for sample in outcomes[0][:4]]
    assert len(set(numbers)) == 4


@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_gradients_of_dropout_in_a_graph(kind) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(functional.dropout, backend="npu", fullgraph=True, dynamic=True)
    outcomes = []
    for function in (compiled, functional.dropout):
        x = torch.ones(17, 9, dtype=kind, device="npu", requires_grad=True)
        torch.manual_seed(5)
        result = function(x, 0.3)
        (result * torch.arange(9, device="npu")).sum().backward()
        outcomes.append((result.detach().cpu(), x.grad.cpu()))
    assert all(map(torch.equal, *outcomes))


def test_large_random_integers_are_uniform_in_all_bits() -> None:
    """The share of ones of each bit of 20,000 samples has a standard deviation of 2^-8."""
    torch.manual_seed(6)
    for bits in (20, 31, 48, 62):
        drawn = torch.randint(0, 2**bits, (20_000,), device="npu").cpu()
        shares = torch.stack([(drawn >> bit & 1).double().mean() for bit in range(bits)])
        assert (shares - 0.5).abs().max() < 2**-6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.bernoulli_(1.5), "in [0, 1]"),
        (lambda x: torch.bernoulli(x * 2), "p_in"),
        (lambda x: x.uniform_(2, 1), "range"),
        (lambda x: x.exponential_(-1), "lambda"),
        (lambda x: x.geometric_(0), "(0, 1)"),
        (lambda x: x.normal_(0, -1), "std"),
        (lambda x: torch.multinomial(-x, 1), "< 0"),
        (lambda x: torch.multinomial(x, 9), "without replacement"),
        (lambda x: torch.multinomial(x * 0, 1), "<= 0"),
        (lambda x: torch.randint(3, 3, (2,), device=x.device), "from"),
    ],
)
def test_invalid_distribution_parameters_are_refused(call, message) -> None:
    with pytest.raises(RuntimeError, match=re.escape(message)):
        call(torch.ones(4, device="npu"))


@pytest.mark.parametrize("dynamic", [False, True])
def test_empty_random_result_advances_generator_in_graph(dynamic: bool) -> None:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        nothing = x[:0]
        drawn = torch.rand_like(nothing), torch.randperm(0, device=x.device), torch.bernoulli(nothing)
        return *drawn, torch.nn.functional.dropout(nothing, 0.5), torch.rand_like(x)

    torch._dynamo.reset()
    x, results = torch.ones(3, 4).npu(), []
    for function in (call, torch.compile(call, backend="npu", fullgraph=True, dynamic=dynamic)):
        torch.manual_seed(1)
        results.append(function(x)[-1])
    assert torch.equal(*results)
