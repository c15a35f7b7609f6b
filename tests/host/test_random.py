"""Random numbers on npu:0 come from the NPU's generators, and leave the CPU's alone."""

import threading

import pytest
import torch
from graph_quant.host.device import registry
from graph_quant.host.device.dropout import COMPOSED
from torch.nn import functional


def test_dropout_in_several_threads_repeats_no_mask_and_leaves_the_cpu_alone() -> None:
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
def test_the_gradient_of_dropout_is_its_mask(probability) -> None:
    x = torch.ones(100, device="npu", requires_grad=True)
    result = functional.dropout(x, probability)
    result.sum().backward()
    assert torch.equal(x.grad.cpu(), result.detach().cpu())
    assert functional.dropout(x, probability, training=False).detach().tolist() == [1.0] * 100


def test_attention_with_dropout_draws_from_the_npu() -> None:
    x = torch.randn(1, 2, 4, 8).npu()
    before = torch.get_rng_state()
    results = []
    for _ in range(2):
        torch.npu.manual_seed(5)
        results.append(functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5).cpu())
    assert torch.equal(*results)
    assert torch.equal(torch.get_rng_state(), before)


def test_no_operator_draws_from_the_cpu_generator() -> None:
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
