"""quantize_: replaced and refused modules, and GE graphs of quantised models bitwise equal to eager mode."""

from pathlib import Path

import pytest
import torch
import torchair
from graph_quant import dumps
from graph_quant.nn import (
    W4A4,
    W4A8,
    W4A16,
    W8A16,
    DynamicW8A8,
    DynamicW8A8Linear,
    Recipe,
    StaticW8A8,
    StaticW8A8Linear,
    W4A4Linear,
    observe,
    quantize_,
)
from torch import nn

from support.experts import Experts


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(32, 40), nn.ReLU(), nn.Sequential(nn.Linear(40, 16, bias=False)), nn.Linear(16, 8))


def test_the_filter_selects_modules_by_name() -> None:
    net = model().half().eval()
    assert quantize_(net, DynamicW8A8(), lambda module, _: module.out_features != 8) == ["0", "2.0"]
    assert isinstance(net[0], DynamicW8A8Linear)
    assert isinstance(net[2][0], DynamicW8A8Linear)
    assert isinstance(net[3], nn.Linear)
    assert quantize_(net, W4A4()) == ["3"]
    assert isinstance(net[3], W4A4Linear)
    assert not net[0].training
    assert "in_features=32, out_features=40, bias=True" in str(net)


def test_observe_records_every_call_and_removes_its_hooks() -> None:
    net = model().half()
    with observe(net, lambda _, name: name == "0") as seen, torch.no_grad():
        net(torch.full((3, 32), -2.0).half())
        net(torch.eye(32).half())
    assert list(seen.ranges) == ["0"]
    assert seen.ranges["0"].low.tolist() == [-2.0] * 32
    assert seen.ranges["0"].high.tolist() == [1.0] * 32
    assert not net[0]._forward_pre_hooks


def test_static_needs_observations() -> None:
    net = model().half()
    with observe(net, lambda _, name: name == "0") as seen, torch.no_grad():
        net(torch.randn(4, 32).half())
    with pytest.raises(ValueError, match=r"StaticW8A8: 2.0 was not observed; run the model on samples under observe"):
        quantize_(net, StaticW8A8(), observations=seen)
    assert isinstance(net[0], nn.Linear), "nothing is replaced where one module is refused"
    assert quantize_(net, StaticW8A8(), lambda _, name: name == "0", observations=seen) == ["0"]
    assert isinstance(net[0], StaticW8A8Linear)


def test_refusals_name_the_module() -> None:
    with pytest.raises(ValueError, match=r"in_features must be a multiple of 8, got 4 \(1\)"):
        quantize_(nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 4)).half(), W4A4())
    with pytest.raises(ValueError, match="quantize_: W4A4 found no module to replace in ReLU"):
        quantize_(nn.ReLU(), W4A4())
    with pytest.raises(ValueError, match="model must contain the module to replace, got the Linear itself"):
        quantize_(nn.Linear(8, 8).half(), W4A4())
    for recipe in (DynamicW8A8, StaticW8A8):
        with pytest.raises(ValueError, match=r"smooth must lie in \[0, 1\], got 1.5"):
            recipe(smooth=1.5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("recipe", [DynamicW8A8(smooth=0.5), StaticW8A8(smooth=0.5), StaticW8A8(), W4A4()], ids=str)
def test_one_graph_is_bitwise_equal_to_eager_mode(recipe: Recipe, dtype: torch.dtype) -> None:
    check_one_graph(model().to(dtype).npu().eval(), recipe, 32)


def check_one_graph(net: nn.Module, recipe: Recipe, width: int) -> None:
    dtype, graphs = next(net.parameters()).dtype, []
    backend = torchair.get_npu_backend()

    def counting(module: torch.fx.GraphModule, inputs: list[object]) -> object:
        graphs.append(module)
        return backend(module, inputs)

    with torch.no_grad():
        with observe(net) as seen:
            net(torch.randn(2, 25, width).to(dtype).npu())
        quantize_(net, recipe, observations=seen, types=(Experts,))
        torch._dynamo.reset()
        compiled = torch.compile(net, backend=counting, fullgraph=True, dynamic=True)
        for length in (5, 2, 9, 33):
            x = torch.randn(2, length, width).to(dtype).npu()
            assert torch.equal(compiled(x), net(x))
    assert len(graphs) == 1


class Block(nn.Module):
    """Experts that the first channels choose, between two linears."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.before, self.after = (nn.Linear(64, 64).to(dtype) for _ in range(2))
        self.experts = Experts(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.before(x).reshape(-1, 64)
        shares, chosen = tokens[:, :4].float().softmax(-1).topk(2)
        return self.after(self.experts(tokens, chosen, shares)).view(x.shape)


@pytest.mark.parametrize(
    ("recipe", "dtype"),
    [
        (DynamicW8A8(smooth=0.5), torch.bfloat16),
        (StaticW8A8(smooth=0.5), torch.float16),
        (W4A8(64), torch.bfloat16),
        (W8A16(), torch.float16),
        (W4A16(32), torch.bfloat16),
    ],
    ids=str,
)
def test_linears_and_experts_in_one_graph(recipe: Recipe, dtype: torch.dtype) -> None:
    check_one_graph(Block(dtype).npu().eval(), recipe, 64)


def test_a_saved_model_loads() -> None:
    net = model().half()
    quantize_(net, DynamicW8A8())
    again = model().half()
    quantize_(again, DynamicW8A8())
    again.load_state_dict(net.state_dict())
    x = torch.randn(4, 32).half()
    assert torch.equal(again(x), net(x))


def test_a_module_with_two_names_is_replaced_once() -> None:
    net = model().half()
    net.add_module("again", net[0])
    net.add_module("block", nn.Sequential(net[2]))
    with pytest.warns(UserWarning, match=r"0 \(it is also again, which the filter leaves out\)"):
        assert quantize_(net, DynamicW8A8(), lambda _, name: name != "again") == ["2.0", "block.0.0", "3"]
    assert isinstance(net[0], nn.Linear)
    assert isinstance(net[2][0], DynamicW8A8Linear)
    assert net.block[0][0] is net[2][0]
    assert quantize_(net, DynamicW8A8()) == ["0", "again"]
    assert net.again is net[0]


class Doubling(nn.Linear):
    """A linear with its own forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


class Plain(nn.Linear):
    """A plain subclass of nn.Linear."""


def test_subclasses_are_not_replaced_and_are_listed() -> None:
    net = nn.Sequential(nn.Linear(8, 8), Doubling(8, 8), Plain(8, 8)).half()
    x, doubling = torch.randn(2, 8).half(), net[1]
    expected = doubling(x)
    with pytest.warns(UserWarning, match=r"quantize_ left as they were: 1 \(a Doubling may compute something of its"):
        replaced = quantize_(net, DynamicW8A8(), types=(Plain,))
    assert replaced == ["0", "2"]
    assert list(replaced.left) == ["1"]
    assert torch.equal(net[1](x), expected)
    with pytest.raises(ValueError, match=r"found no module to replace in Sequential; 1 is left: a Doubling may"):
        quantize_(net, DynamicW8A8())


@pytest.mark.parametrize("kind", ["MultiheadAttention", "TransformerEncoderLayer"])
def test_modules_that_read_the_weights_of_their_linears_still_work(kind: str) -> None:
    inner = nn.MultiheadAttention(16, 2) if kind == "MultiheadAttention" else nn.TransformerEncoderLayer(16, 2, 32)
    net = nn.ModuleDict({"inner": inner, "last": nn.Linear(16, 8)}).half().eval()
    x = torch.randn(3, 1, 16).half()
    arguments = (x, x, x) if kind == "MultiheadAttention" else (x,)
    with torch.no_grad():
        expected = net.inner(*arguments)
        with pytest.warns(UserWarning, match=f"{kind} reads its weight and does not call it|NonDynamicallyQuant"):
            replaced = quantize_(net, DynamicW8A8())
        assert replaced == ["last"]
        got = net.inner(*arguments)
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one, other)
    assert all(name.startswith("inner.") for name in replaced.left)


def test_modules_with_hooks_or_an_instance_forward_are_not_replaced() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)).half()
    net[0].register_forward_hook(lambda _module, _inputs, output: output + 1)
    net[1].forward = lambda x: x
    with pytest.warns(UserWarning, match=r"0 \(it has forward hooks.*1 \(its forward was replaced"):
        assert quantize_(net, DynamicW8A8()) == ["2"]


def test_a_weight_in_a_transposed_view_is_not_transposed_in_the_graph(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(32, 16)).half().npu().eval()
    quantize_(net, DynamicW8A8())
    config = torchair.CompilerConfig()
    config.debug.graph_dump.type, config.debug.graph_dump.path = "txt", str(tmp_path)
    backend = torchair.get_npu_backend(compiler_config=config)
    x = torch.randn(3, 32).half().npu()
    with torch.no_grad():
        torch._dynamo.reset()
        assert torch.equal(torch.compile(net, backend=backend, dynamic=True)(x), net(x))
    graph = dumps.load(next(tmp_path.glob("dynamo_optimized_graph_*.txt")))
    product = next(node for node in graph.nodes.values() if node.type == "QuantBatchMatmulV3")
    assert product.proto.attr["transpose_x2"].b
    assert graph.nodes[product.inputs[1].node].type == "Data"
