"""On Ascend 950 the kernels support modes as attributes, and calls that A2 and A3 refuse go to upstream."""

import pytest
import torch
import torch_npu
from graph_quant import chip

from support.all_calls import INT4
from support.lowering import lower, node, types
from support.tensors import f16


@pytest.fixture(autouse=True)
def on_950(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chip, "is_950", lambda: True)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("mode", ["pertensor", "perchannel"])
def test_modes_are_attributes(symmetric: bool, mode: str) -> None:
    op = torch_npu.npu_dynamic_quant if symmetric else torch_npu.npu_dynamic_quant_asymmetric
    graph = lower(lambda x: op(x, dst_type=INT4, quant_mode=mode, dst_type_max=6.0), f16(2, 3, 16))
    assert types(graph) == ["DynamicQuantV2", "Const", "Reshape", "Bitcast"]
    attributes = node(graph, "DynamicQuantV2").attr
    assert attributes["quant_mode"].s.decode() == mode
    assert attributes["is_symmetrical"].b is symmetric
    assert attributes["dst_type_max"].f == 6.0


def test_other_types_are_left_to_upstream() -> None:
    y, scale = torch_npu.npu_dynamic_quant(f16(6, 16).to("meta"), dst_type=torch.float8_e4m3fn)
    assert (y.dtype, scale.shape) == (torch.float8_e4m3fn, (6,))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("options", [{"quant_mode": "pertensor"}, {"dst_type_max": 100.0}], ids=str)
def test_a_graph_gives_the_bits_of_eager_execution(symmetric: bool, options: dict[str, object]) -> None:
    op = torch_npu.npu_dynamic_quant if symmetric else torch_npu.npu_dynamic_quant_asymmetric
    x = f16(2, 3, 16).npu()
    torch._dynamo.reset()
    results = torch.compile(lambda x: op(x, **options), backend="npu", fullgraph=True)(x)
    for one, other in zip(op(x, **options), results, strict=True):
        assert torch.equal(one.cpu(), other.cpu())
