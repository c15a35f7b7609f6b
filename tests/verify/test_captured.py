"""verify of graphs that npugraph_ex captures: against eager execution, and pass by pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
from graph_quant.verification import capture
from torch import Tensor, fx


def quantised(x: Tensor) -> Tensor:
    y, scale = torch_npu.npu_dynamic_quant(x + 1)
    return y.float() * scale.unsqueeze(1)


def run(**options: Any) -> Tensor:
    torch._dynamo.reset()
    compiled = torch.compile(quantised, backend="npugraph_ex", options=options, fullgraph=True, dynamic=False)
    result: Tensor = compiled(torch.randn(4, 16, dtype=torch.float16).npu())
    return result


def test_a_captured_graph_is_compared_with_eager_execution() -> None:
    with capture() as report:
        run()
    report.check()
    assert [output.status.name for output in report.outputs] == ["EQUAL"]
    assert report.passes == []
    assert report.verdict() == "equal: 1 output in 1 captured graph on the host NPU, bit for bit"


def test_the_compiler_is_watched_in_a_new_process(run_python) -> None:
    """Where nothing was compiled yet, a package of a compiler is a stand-in."""
    code = """
import graph_quant, torch, torch_npu
from graph_quant.verification import capture
with capture() as report:
    torch.compile(lambda x: x + 1, backend="npugraph_ex", fullgraph=True)(torch.ones(2).npu())
print(report.verdict())
"""
    assert run_python(code).stdout == "equal: 1 output in 1 captured graph on the host NPU, bit for bit\n"


def test_the_pass_that_changes_a_result_is_named() -> None:
    def add_one_more(gm: fx.GraphModule, _inputs: Any, _config: Any) -> None:
        for node in gm.graph.nodes:
            if node.target is torch.ops.aten.add.Tensor:
                node.args = (node.args[0], node.args[1] + 1)
        gm.recompile()

    with capture() as report:
        run(post_grad_custom_pre_pass=lambda *_: None, post_grad_custom_post_pass=add_one_more)
    assert not report.ok
    assert [changed.name for changed in report.passes] == ["post_grad_custom_post_pass"]
    with pytest.raises(Exception, match="the compiler's pass post_grad_custom_post_pass changes what the graph gives"):
        report.check()
