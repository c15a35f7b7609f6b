"""The passes on TorchAir's graphs: they are on by default, can be selected, and verification names a wrong one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
from graph_quant import passes
from graph_quant.cli import main
from graph_quant.passes import casts
from graph_quant.verification import verify

from support.lowering import lower, types


def quantised_product(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    codes, token_scale = torch_npu.npu_dynamic_quant(x, dst_type=torch.quint4x2)
    rows = codes.view(-1, codes.size(-1))
    return torch_npu.npu_quant_matmul(
        rows, weight, scale, pertoken_scale=token_scale.view(-1), output_dtype=torch.bfloat16
    )


@pytest.fixture(scope="module")
def int4_call() -> tuple[Any, ...]:
    x = torch.randn(2, 3, 64).to(torch.bfloat16).npu()
    torch._dynamo.mark_static(x, 2)  # as the hidden size, which a layer's weights determine
    weight = torch_npu.npu_convert_weight_to_int4pack(torch.randint(-8, 8, (64, 32), dtype=torch.int32).npu())
    return quantised_product, x, weight, torch.rand(32).to(torch.bfloat16).npu()


def test_int4_from_quantisation_to_product_is_never_packed(int4_call: tuple[Any, ...]) -> None:
    before, after = (types(lower(*int4_call, dynamic=True, through=selection)) for selection in ("off", "on"))
    assert before.count("Bitcast") == 3
    assert after.count("Bitcast") == 1, "the weight's"
    assert after.count("QuantBatchMatmulV3") == 1
    assert "Shape" not in after
    function, *inputs = int4_call
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="npu", fullgraph=True, dynamic=True)
    assert torch.equal(compiled(*inputs), function(*inputs))


def rounded(x: torch.Tensor) -> torch.Tensor:
    return x.half().float() + 1


def test_verification_names_the_pass_that_changes_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(64)
    assert verify(rounded, x, progress=False).ok
    monkeypatch.setitem(casts.LOSSLESS_CASTS, "float32", ("float16", "float64"))
    report = verify(rounded, x, progress=False)
    assert not report.ok
    assert [changed.name.split()[0] for changed in report.passes] == ["casts"]
    with passes.use("constants,dce"):
        assert verify(rounded, x, progress=False).ok


def test_inspect_compares_before_and_after(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from google.protobuf import text_format

    path = tmp_path / "graph.txt"
    path.write_text(text_format.MessageToString(lower(rounded, torch.randn(4))))
    assert main(["inspect", str(path), "--passes", "on"]) == 0
    printed = capsys.readouterr().out
    assert "nodes before" in printed
    assert "pass casts: 0 results replaced" in printed
    assert main(["inspect", str(path), "--passes", "fusion"]) == 2
    assert "--passes: must be on, off or some of constants" in capsys.readouterr().err
