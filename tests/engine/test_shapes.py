"""Sizes stay Python integers from Shape to Reshape, so that a dynamic graph is one trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from graph_quant.ge import values
from graph_quant.host.engine import HostGraph
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

Compile = Callable[..., Any]


def attention_like(x: torch.Tensor) -> torch.Tensor:
    batch, length, width = x.shape
    heads = x.view(batch, length, 4, width // 4).transpose(1, 2)
    scores = heads @ heads.transpose(-1, -2) / (width // 4) ** 0.5
    mask = torch.full((length, length), float("-inf")).triu(1)
    joined = torch.softmax(scores + mask, -1) @ heads
    return joined.transpose(1, 2).reshape(batch, length, width)[:, : length - 1]


def test_one_graph_runs_every_shape(compile_npu: Compile, loaded_graphs: list[HostGraph]) -> None:
    compiled = compile_npu(attention_like)
    for batch, length, width in ((2, 5, 8), (3, 7, 16), (4, 9, 32)):
        x = torch.randn(batch, length, width)
        torch.testing.assert_close(compiled(x), attention_like(x), rtol=1e-5, atol=1e-6)
    assert len(loaded_graphs) == 1


def test_no_size_becomes_a_tensor(compile_npu: Compile, loaded_graphs: list[HostGraph]) -> None:
    compile_npu(attention_like)(torch.randn(2, 5, 8))
    module = loaded_graphs[0].module
    assert module is not None
    targets = {node.target for node in module.graph.nodes if node.op == "call_function"}
    assert values.to_sizes not in targets
    types = {node.meta["ge"].type for node in module.graph.nodes if "ge" in node.meta}
    assert "Reshape" in types
    for node in module.graph.nodes:
        if node.target is values.to_tensor:
            assert "Reshape" not in {user.meta["ge"].type for user in node.users}


def test_imported_graph_traces_with_symbols(compile_npu: Compile, loaded_graphs: list[HostGraph]) -> None:
    """A fake run with symbolic sizes gives the symbolic shape of the result."""
    x = torch.randn(2, 5, 8)
    compile_npu(attention_like)(x)
    module = loaded_graphs[0].module
    assert module is not None
    environment = ShapeEnv()
    with FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True) as mode:
        fake = mode.from_tensor(x, symbolic_context=_all_dynamic(3))
        arguments = [
            fake if node.meta["ge"].proto.output_desc[0].attr["_meta"].s.startswith(b"Tensor") else None
            for node in module.graph.nodes
            if node.op == "placeholder"
        ]
        sizes = iter(_sizes_for(module, fake))
        (result,) = module(*[next(sizes) if argument is None else argument for argument in arguments])
    assert all(isinstance(size, torch.SymInt) for size in result.shape)
    assert [int(size) for size in result.shape] == [2, 4, 8]


def _all_dynamic(rank: int) -> Any:
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

    return StatelessSymbolicContext([DimDynamic.DYNAMIC] * rank)


def _sizes_for(module: torch.fx.GraphModule, fake: torch.Tensor) -> list[Any]:
    """The symbols behind each placeholder that takes sizes, by the shape that TorchAir saw."""
    by_hint = {2: fake.shape[0], 5: fake.shape[1], 8: fake.shape[2]}
    sizes: list[Any] = []
    for node in module.graph.nodes:
        if node.op != "placeholder":
            continue
        desc = node.meta["ge"].proto.output_desc[0]
        if desc.attr["_meta"].s.startswith(b"Tensor"):
            continue
        assert not desc.shape.dim, "only single symbols are expected here"
        sizes.append(by_hint[(2, 5, 8)[len(sizes) % 3]])
    return sizes
