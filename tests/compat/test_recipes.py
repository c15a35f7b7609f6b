"""The recipes' driver: quantised checkpoints, the operator of their extension, and routing."""

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from compat.outcome import Verdict
from compat.recipes import tiny
from compat.recipes.checkpoint import quantise
from compat.recipes.compare import outcomes
from compat.recipes.configurations import RECIPES
from compat.recipes.operators import named, to_markdown
from compat.recipes.routing import Routed, RoutingMismatchError, same_routing

LINEAR, EXPERT = "model.layers.0.self_attn.q_proj", "model.layers.1.mlp.experts.0.gate_proj"
KEPT = ("model.layers.0.input_layernorm.weight", "model.layers.0.self_attn.kv_b_proj.weight", "lm_head.weight")
CLIP = """
import graph_quant, torch, torch_npu
from graph_quant.start import stand_ins

stand_ins.load("custom_ops.custom_ops_lib")
torch.manual_seed(0)
x, counts, alpha = torch.randn(6, 64).bfloat16(), torch.tensor([2, 0, 3]), torch.tensor([0.5, 9.0, 1.0])
y, scale = torch.ops.custom.npu_swiglu_clip_quant(x.npu(), counts.npu(), alpha.npu(), activate_left=True)
gate, up = x.double().chunk(2, -1)
gated = gate / (1 + torch.exp(-gate)) * up
bound = gated.abs().amax(-1, keepdim=True) * alpha[[0, 0, 2, 2, 2, 2]].unsqueeze(-1)
wanted = gated.clamp(-bound, bound)
restored = y.cpu().double() * scale.cpu().double().unsqueeze(-1)
print("near:", bool(((restored - wanted)[:5].abs() <= bound[:5] / 127 * 0.51).all()))
print("bounded:", int(y[:2].abs().amax()), "rest:", int(y[5].abs().sum()), float(scale[5]))
for wrong in (x.half(), torch.zeros(6, 48).bfloat16()):
    try:
        torch.ops.custom.npu_swiglu_clip_quant(wrong.npu(), counts.npu(), alpha.npu())
    except RuntimeError as refusal:
        print(refusal)
"""


def test_quantised_checkpoints_equal_their_dequantised_copies(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    weights = {f"{LINEAR}.weight": torch.randn(8, 16), f"{EXPERT}.weight": torch.randn(8, 16)}
    others = {name: torch.randn(8) for name in KEPT}
    save_file(weights | others, plain / "model.safetensors")
    quantise(plain, tmp_path, expert_bits=4, has_int8_cache=True, unquantised=["kv_b_proj"])
    stored, meant = load_file(tmp_path / "model.safetensors"), load_file(plain / "model.safetensors")
    assert all(
        torch.equal(stored[name], tensor) and torch.equal(meant[name], tensor) for name, tensor in others.items()
    )
    linear = meant[f"{LINEAR}.weight"]
    assert torch.equal(stored[f"{LINEAR}.weight"] * stored[f"{LINEAR}.weight_scale"], linear)
    assert bool(((linear - weights[f"{LINEAR}.weight"]).abs() <= stored[f"{LINEAR}.weight_scale"] * 0.51).all())
    packed, expert = stored[f"{EXPERT}.weight"], meant[f"{EXPERT}.weight"]
    scale = stored[f"{EXPERT}.weight_scale"].to(torch.int32).view(torch.float32)
    integers = torch.stack([(packed << 4) >> 4, packed >> 4], 1).reshape(8, 16)
    assert torch.equal(integers * scale, expert)
    torch.testing.assert_close(stored[f"{EXPERT}.bias"], 8 * expert.sum(1))
    assert stored["model.layers.0.self_attn.ckv_scale"].shape == (1,)


def test_the_operator_of_the_extension(run_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run_python(CLIP)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "near: True",
        "bounded: 127 rest: 0 0.0",
        "npu_swiglu_clip_quant: x must be torch.bfloat16, got torch.float16",
        "npu_swiglu_clip_quant: x.size(1) must be a multiple of 64, got 48",
    ]


class TopRouter(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        best, chosen = x.topk(1, -1)
        return best, chosen


class Routing(nn.Module):
    """A router that chooses the index of the largest channel."""

    def __init__(self) -> None:
        super().__init__()
        self.router = TopRouter()

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.router(x)[1] + 1)


def test_only_ties_between_experts_follow_the_recipe() -> None:
    model, own = Routing(), torch.tensor([[1.0, 0.99], [0.2, 0.9]])
    rounded, experts = torch.tensor([[0.98, 0.99], [0.2, 0.9]]), torch.tensor([[1], [1]], dtype=torch.int32)
    with same_routing(model, [Routed(rounded, experts)], bound=0.05):
        assert torch.equal(model(own), own * 2)
    assert torch.equal(model(own), own * torch.tensor([[1], [2]]))
    for wrong, message in (
        (Routed(rounded, experts * 0), "with the same inputs transformers takes other experts"),
        (Routed(rounded * 1.2, experts), r"what the recipe routed is off by 0\.19\d of the largest"),
        (Routed(rounded, experts).of(0, 1), r"the recipe routed \(1, 2\), transformers \(2, 2\)"),
    ):
        with pytest.raises(RoutingMismatchError, match=message), same_routing(model, [wrong], bound=0.05):
            model(own)
    with (
        pytest.raises(RoutingMismatchError, match="the recipe routed 0 times, transformers 1"),
        same_routing(model, [], 0.05),
    ):
        pass


def test_the_operators_that_a_recipe_names_are_listed(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "y = torch_npu.npu_swiglu(x)\nz = torch.ops.npu.npu_x (y)\ntorch.ops.custom.own(z)\ntorch_npu.npu.device(0)\n"
    )
    names = named(tmp_path)
    assert names == {"npu_swiglu", "npu_x", "custom::own"}
    table = to_markdown({"one": names, "none": ()}, {"npu_swiglu"})
    assert table.splitlines()[2:] == ["| one | 3 | `custom::own`, `npu_x` |"]


def test_models_that_threads_write_at_once_have_the_same_weights(tmp_path: Path) -> None:
    jobs = 4
    started = Barrier(jobs)

    def write(job: int) -> dict[str, Tensor]:
        started.wait()
        tiny.write(RECIPES["qwen3"], "eager", tmp_path / str(job))
        return load_file(tmp_path / str(job) / "model.safetensors")

    with ThreadPoolExecutor(jobs) as pool:
        first, *others = pool.map(write, range(jobs))
    for other in others:
        assert first.keys() == other.keys()
        for name, weight in first.items():
            assert weight.dtype == other[name].dtype == torch.bfloat16
            assert torch.equal(weight, other[name]), name


def test_a_rerun_that_ends_badly_is_reported_as_such(tmp_path: Path) -> None:
    """A comparison that was never made must not be called a difference."""

    def run(arguments: list[str], folder: Path, environment: dict[str, str]) -> tuple[int | None, str]:
        if "RECIPE_FUSION" in environment:
            return None, ""
        logits = torch.full((2, 3), 2.0 if "eager" in str(folder) else 1.0)
        step = {"tokens": torch.zeros(4, dtype=torch.int64), "ends": [2, 4], "logits": logits, "routed": []}
        torch.save([step], f"{arguments[-1]}.0")
        return 0, ""

    by_mode = {ran.name.rpartition(", ")[2]: ran for ran in outcomes("step3p7_flash", 2, tmp_path, tmp_path, run)}
    assert by_mode["npugraph_ex"].verdict is Verdict.TIMED_OUT
    assert by_mode["npugraph_ex"].reason.endswith("the run without TorchAir's fusion by patterns timed out")
