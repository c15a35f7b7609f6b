"""Each fusion is compared with what it replaces, on the inputs of a call, and a wrong one is named."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch_npu
from graph_quant import fusions
from graph_quant.fusions import apply
from graph_quant.fusions.check import check_fusions
from graph_quant.fusions.record import Leaves
from graph_quant.fusions.rewriter import Rewriter
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from support.tensors import bf16


def block(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    wide = (x + residual).float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    gate, up = (weight * wide.to(x.dtype)).chunk(2, -1)
    return torch_npu.npu_dynamic_quant(torch.nn.functional.silu(gate) * up)


def exchanged(rewriter: Rewriter, root: Node, leaves: Leaves) -> bool:
    """Take gate for up."""
    with rewriter.before(root, root):
        silu = rewriter.call(torch.ops.aten.silu.default, leaves["up"])
        rewriter.replace(root, rewriter.call(torch.ops.aten.mul.Tensor, leaves["gate"], silu))
    return True


def test_right_fusions_are_within_their_bounds() -> None:
    inputs = (bf16(6, 64).npu(), bf16(6, 64).npu(), bf16(64).npu())
    graph = make_fx(block, tracing_mode="fake")(*inputs)
    assert not check_fusions(graph, fusions.NAMES, inputs)


def test_wrong_fusion_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = (bf16(6, 64).npu(), bf16(6, 64).npu(), bf16(64).npu())
    graph = make_fx(block, tracing_mode="fake")(*inputs)
    monkeypatch.setitem(apply.FUSIONS, "swiglu", dataclasses.replace(apply.FUSIONS["swiglu"], rewrite=exchanged))
    (deviation,) = check_fusions(graph, fusions.NAMES, inputs)
    assert deviation.finding.fusion == "swiglu"
    assert "of the largest value, more than 0.00781" in str(deviation)
