"""A fused graph is within the bounds of its fusions, and the fusion that is not is named."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch_npu
from graph_quant import fusions, verification, verify
from graph_quant.fusions import apply
from graph_quant.fusions.record import Leaves
from graph_quant.fusions.rewriter import Rewriter
from graph_quant.verification import Status
from torch import Tensor
from torch.fx import Node

from support.tensors import bf16


def block(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    wide = (x + residual).float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return torch_npu.npu_dynamic_quant(weight * wide.to(x.dtype))


def inputs() -> tuple[Tensor, ...]:
    return bf16(6, 64).npu(), bf16(6, 64).npu(), bf16(64).npu()


def wrong(rewriter: Rewriter, root: Node, leaves: Leaves) -> bool:
    """A norm with another epsilon."""
    with rewriter.before(root, root):
        norm = rewriter.call(torch.ops.npu.npu_rms_norm.default, leaves["x"], leaves["weight"], 1.0)
        rewriter.replace(root, rewriter.result(norm, 0))
    return True


def test_rounding_of_fusions_is_accepted_and_nodes_are_exact() -> None:
    with fusions.use("on"):
        report = verify(block, *inputs())
    assert report.ok
    assert {node.status for node in report.nodes} == {Status.EQUAL}
    assert "Norm" in report.nodes[0].ge_types
    assert Status.CLOSE in {output.status for output in report.outputs}


def test_thresholds_take_precedence() -> None:
    with fusions.use("on"):
        assert not verify(block, *inputs(), max_error=0).ok


def test_wrong_fusion_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(apply.FUSIONS, "rms_norm", dataclasses.replace(apply.FUSIONS["rms_norm"], rewrite=wrong))
    with fusions.use("rms_norm"):
        report = verify(block, *inputs())
    assert not report.ok
    (broken,) = report.passes
    assert str(broken).startswith("fusion ")
    assert "rms_norm differs by" in str(broken)


def test_captured_graph_is_within_its_fusions() -> None:
    torch._dynamo.reset()
    with fusions.use("on"), verification.capture() as report:
        torch.compile(block, backend="npugraph_ex", fullgraph=True)(*inputs())
    assert report.ok
    assert not report.passes
    assert Status.CLOSE in {output.status for output in report.outputs}
