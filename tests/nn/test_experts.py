"""Quantised experts: against NumPy from the float weights, against float, against each other, and how much they do."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from graph_quant.nn import (
    W4A8,
    W4A16,
    W8A16,
    DynamicW8A8,
    DynamicW8A8Experts,
    QuantisedExperts,
    Range,
    Recipe,
    StaticW8A8,
    StaticW8A8Experts,
    W4A8Experts,
    W4A16Experts,
    W8A16Experts,
    observe,
    quantize_,
)
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from support.experts import Experts, ListedExperts, dynamic_row, listed, mixture, static_row, tokens_for, w4a8_row

HALVES = [torch.float16, torch.bfloat16]
# Each recipe with the signal to noise that int8 or int4 leaves.
RECIPES: dict[str, tuple[Recipe, float]] = {
    "dynamic": (DynamicW8A8(), 28),
    "dynamic, smooth": (DynamicW8A8(smooth=0.5), 32),
    "static": (StaticW8A8(), 24),
    "static, smooth": (StaticW8A8(smooth=0.5), 28),
    "static, symmetric": (StaticW8A8(smooth=0.5, symmetric=True), 28),
    "w4a8": (W4A8(group_size=64), 11),
    "w4a8 by channel": (W4A8(group_size=None), 11),
    "w8a16": (W8A16(), 34),
    "w4a16": (W4A16(group_size=32), 12),
    "w4a16 by channel": (W4A16(group_size=None), 11),
}


def decibels(exact: Tensor, got: Tensor) -> float:
    noise = (got.double() - exact.double()).square().sum() / exact.double().square().sum()
    return float(-10 * noise.log10())


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_dynamic_int8_agrees_with_numpy(dtype: torch.dtype, device: str) -> None:
    experts = Experts(dtype, inside=96)
    inputs = tokens_for(experts, 9)
    quantised = DynamicW8A8Experts.from_float(experts).to(device)
    got = quantised(*(tensor.to(device) for tensor in inputs)).cpu()
    assert torch.equal(got, mixture(dynamic_row, experts, *inputs))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_int4_weights_and_int8_rows_agree_with_numpy(dtype: torch.dtype) -> None:
    experts = Experts(dtype, hidden=128, inside=64)
    inputs = tokens_for(experts, 5)
    got = W4A8Experts.from_float(experts, group_size=64)(*inputs)
    assert torch.equal(got, mixture(w4a8_row, experts, *inputs))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_static_int8_agrees_with_numpy(dtype: torch.dtype) -> None:
    experts = Experts(dtype)
    inputs = tokens_for(experts, 9)
    low, high = inputs[0].min().item(), inputs[0].max().item()
    seen = [
        Range(torch.full((4, 64), lowest), torch.full((4, 64), most)) for lowest, most in ((low, high), (-3.0, 2.0))
    ]
    got = StaticW8A8Experts.from_float(experts, *seen)(*inputs)
    assert torch.equal(got, mixture(static_row(low, high, 3.0), experts, *inputs))


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_weight_only_experts_equal_dequantised_float_experts(bits: int, dtype: torch.dtype) -> None:
    experts = Experts(dtype, hidden=64, inside=96)
    inputs = tokens_for(experts, 9)
    restored = copy.deepcopy(experts)
    for name in ("gate_up_proj", "down_proj"):
        weight, length = getattr(experts, name).detach().float(), 64 if bits == 8 else 32
        groups = weight.unflatten(-1, (-1, length)) if bits == 4 else weight.unsqueeze(-2)
        scale = (groups.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)).to(dtype).float()
        getattr(restored, name).data = ((groups / scale).round() * scale).to(dtype).flatten(-2)
    kind = W8A16Experts.from_float(experts) if bits == 8 else W4A16Experts.from_float(experts, group_size=32)
    # Sums in another order, and what is gated rounded once and not thrice.
    unit = torch.finfo(dtype).eps
    torch.testing.assert_close(kind(*inputs), restored(*inputs), rtol=4 * unit, atol=8 * unit)


@pytest.mark.parametrize("name", RECIPES)
def test_quantised_experts_are_close_to_float(name: str) -> None:
    recipe, expected = RECIPES[name]
    for dtype, act_fn in ((torch.float16, nn.functional.gelu), (torch.bfloat16, nn.functional.silu)):
        model = nn.ModuleDict({"experts": Experts(dtype, hidden=64, inside=64, act_fn=act_fn)})
        # Two of four experts are seen, so that the others get the ranges of all.
        inputs = tokens_for(model["experts"], 24, among=2)
        with observe(model) as seen, torch.no_grad():
            exact = model["experts"](*inputs)
        assert quantize_(model, recipe, observations=seen, types=(Experts,)) == ["experts"]
        assert isinstance(model["experts"], QuantisedExperts)
        got = model["experts"](*inputs)
        assert got.dtype == dtype
        assert decibels(exact, got) > expected


def test_rows_that_the_fused_kernel_does_not_support_are_quantised_in_steps() -> None:
    experts = Experts(torch.bfloat16, experts=2, hidden=64, inside=40)
    inputs = tokens_for(experts, 9)
    whole = [Range(-torch.full((2, width), 9.0), torch.full((2, width), 9.0)) for width in (64, 40)]
    exact = experts(*inputs).detach()
    for quantised in (
        DynamicW8A8Experts.from_float(experts, *whole, smooth=0.5),
        DynamicW8A8Experts.from_float(experts),
    ):
        assert decibels(exact, quantised(*inputs)) > 27


def test_an_expert_without_tokens_gets_the_range_of_all() -> None:
    model = nn.ModuleDict({"experts": Experts(torch.float16)})
    with observe(model) as seen, torch.no_grad():
        for chosen in ([0, 1], [2, 1]):
            model["experts"](torch.randn(5, 64).half(), torch.tensor([chosen] * 5), torch.ones(5, 2))
    entering = seen.ranges["experts.gate_up"]
    assert entering.low[3].isinf().all()
    assert (entering.low[:3] <= entering.high[:3]).all()
    assert torch.equal(entering.overall.low, entering.low[:3].amin(0))
    quantised = StaticW8A8Experts.from_float(model["experts"], entering, seen.ranges["experts.down"])
    assert quantised.down_step.isfinite().all()
    assert quantised.down_step[3] == quantised.down_step.max()


class Counting(TorchDispatchMode):
    """Counts the multiplications of grouped products by their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.products = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.npu.npu_grouped_matmul.default:
            rows = int(kwargs["group_list"].sum())
            assert rows <= args[0][0].size(0)
            packed = 8 if args[1][0].dtype == torch.int32 else 1
            self.products += rows * args[1][0].size(1) * args[1][0].size(2) * packed
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("experts", [4, 16])
@pytest.mark.parametrize("name", ["dynamic", "w4a8", "w4a16"])
def test_work_is_proportional_to_rows_not_experts(name: str, experts: int) -> None:
    model = nn.ModuleDict({"experts": Experts(torch.bfloat16, experts=experts)})
    quantize_(model, RECIPES[name][0], types=(Experts,))
    for tokens in (1, 12):
        with Counting() as counted:
            model["experts"](*tokens_for(Experts(torch.bfloat16, experts=experts), tokens))
        assert counted.products == tokens * 2 * (64 * 128 + 64 * 64)


@pytest.mark.parametrize("name", ["dynamic", "static", "w4a8", "w8a16", "w4a16"])
def test_a_tokens_result_does_not_depend_on_other_tokens(name: str) -> None:
    model = nn.ModuleDict({"experts": Experts(torch.float16, hidden=128, inside=128)})
    hidden, index, shares = tokens_for(model["experts"], 6)
    with observe(model) as seen, torch.no_grad():
        model["experts"](hidden, index, shares)
    quantize_(model, RECIPES[name][0], observations=seen, types=(Experts,))
    together = model["experts"](hidden, index, shares)
    for token in range(6):
        alone = model["experts"](*(tensor[token : token + 1] for tensor in (hidden, index, shares)))
        if name.endswith("a16"):  # float products: some CPU kernels order their sums by the number of rows
            torch.testing.assert_close(together[token : token + 1], alone, rtol=2**-9, atol=2**-9)
        else:
            assert torch.equal(together[token : token + 1], alone)


@pytest.mark.parametrize("names", [("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2")], ids=str)
def test_a_list_of_experts_equals_stacked_experts(names: tuple[str, ...]) -> None:
    experts = Experts(torch.bfloat16)
    inputs = tokens_for(experts, 7)
    model = nn.ModuleDict({"experts": listed(experts, names)})
    with observe(model) as seen, torch.no_grad():
        model["experts"](*inputs)
    assert {"experts.gate_up", "experts.down", f"experts.0.{names[0]}"} <= set(seen.ranges)
    one_by_one = copy.deepcopy(model)
    assert len(quantize_(one_by_one, DynamicW8A8())) == 12, "each linear, since the list may compute something else"
    assert quantize_(model, DynamicW8A8(), types=(ListedExperts,)) == ["experts"]
    assert torch.equal(model["experts"](*inputs), DynamicW8A8Experts.from_float(experts)(*inputs))
    plain = nn.ModuleList(listed(experts, names))
    assert torch.equal(DynamicW8A8Experts.from_float(plain)(*inputs), model["experts"](*inputs))


@pytest.mark.parametrize("name", ["dynamic, smooth", "static", "w4a8", "w4a16"])
def test_experts_can_be_saved_moved_and_loaded(name: str) -> None:
    model = nn.ModuleDict({"experts": Experts(torch.bfloat16)})
    inputs = tokens_for(model["experts"], 5)
    with observe(model) as seen, torch.no_grad():
        model["experts"](*inputs)
    others = copy.deepcopy(model)
    for parameter in others.parameters():
        parameter.data.mul_(2)
    for tensor in (model, others):
        quantize_(tensor, RECIPES[name][0], observations=seen, types=(Experts,))
    expected = model["experts"](*inputs)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    assert not torch.equal(others["experts"](*inputs), expected)
    others.load_state_dict(torch.load(file))
    assert torch.equal(others["experts"](*inputs), expected)
    assert torch.equal(others.npu()["experts"](*(tensor.npu() for tensor in inputs)).cpu(), expected)
    assert "experts=4, hidden=64, inside=64" in str(others)


def test_experts_on_the_meta_device_take_a_state_dict() -> None:
    experts = Experts(torch.bfloat16)
    inputs = tokens_for(experts, 5)
    quantised = DynamicW8A8Experts.from_float(experts)
    with torch.device("meta"):
        empty = DynamicW8A8Experts.from_float(Experts(torch.bfloat16))
    empty.load_state_dict(quantised.state_dict(), assign=True)
    assert torch.equal(empty(*inputs), quantised(*inputs))


def test_shared_experts_stay_shared() -> None:
    experts = Experts(torch.float16)
    model = nn.ModuleDict({"one": nn.Sequential(experts), "other": nn.Sequential(experts)})
    assert quantize_(model, DynamicW8A8(), types=(Experts,)) == ["one.0", "other.0"]
    assert model["one"][0] is model["other"][0]


class Biased(Experts):
    """Experts with transformers' attribute for biases."""

    has_gate, is_concatenated, has_bias, has_post_expert_norm = True, True, True, False


def test_invalid_experts_are_refused() -> None:
    with pytest.raises(TypeError, match=r"DynamicW8A8Experts: experts must have gate_up_proj, .* got Linear"):
        DynamicW8A8Experts.from_float(nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"the experts' weights must be torch.float16 or torch.bfloat16, got torch.fl"):
        W8A16Experts.from_float(Experts(torch.float32))
    with pytest.raises(TypeError, match="W4A8Experts: experts of Biased are not supported: they have biases"):
        W4A8Experts.from_float(Biased(torch.float16))
    experts = Experts(torch.float16, hidden=48, inside=64)
    wrong = Range(torch.zeros(8), torch.zeros(8))
    with pytest.raises(ValueError, match=r"gate_up_input must have the shape \(experts, k\), \[4, 48\], got \[8\]"):
        StaticW8A8Experts.from_float(experts, wrong, wrong)
    with pytest.raises(ValueError, match="DynamicW8A8Experts: gate_up_input needs the observed range, got None"):
        DynamicW8A8Experts.from_float(experts, smooth=0.5)
    with pytest.raises(ValueError, match="input channels must be a multiple of 64 and at most 18432, got 48"):
        W4A8Experts.from_float(experts)
    with pytest.raises(ValueError, match="group_size must divide the input channels, got 32 and 48"):
        W4A16Experts.from_float(experts, group_size=32)
    with pytest.raises(ValueError, match="W8A16Experts: group_size must be None for int8 experts, got 32"):
        W8A16Experts.from_float(experts, group_size=32)
    with pytest.raises(ValueError, match="output channels must be a multiple of 8, got 12"):
        W4A16Experts.from_float(Experts(torch.float16, hidden=16, inside=6))
    with pytest.raises(ValueError, match=r"StaticW8A8: experts.gate_up was not observed; run the model on samples"):
        quantize_(nn.ModuleDict({"experts": Experts(torch.float16)}), StaticW8A8(), types=(Experts,))


def test_experts_with_their_own_forward_are_not_replaced() -> None:
    with pytest.raises(ValueError, match=r"experts is left: a Experts may compute .*; types=\(Experts,\) replaces it"):
        quantize_(nn.ModuleDict({"experts": Experts(torch.float16)}), DynamicW8A8())
    model = nn.ModuleDict({"experts": Biased(torch.float16), "linear": nn.Linear(64, 64).half()})
    with pytest.warns(UserWarning, match=r"experts \(experts of Biased are not supported: they have biases\)"):
        assert quantize_(model, DynamicW8A8(), types=(Biased,)) == ["linear"]
