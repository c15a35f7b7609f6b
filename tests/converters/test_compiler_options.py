"""TorchAir's options: every kind of dump, every setting of dynamic, and the backend by its name."""

from pathlib import Path

import pytest
import torch
import torch_npu
import torchair
from torchair.configs.compiler_config import CompilerConfig

from support.all_calls import INT4
from support.tensors import f16


def quantise(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch_npu.npu_dynamic_quant_asymmetric(x, dst_type=INT4)


@pytest.mark.parametrize("dump", ["txt", "pbtxt", "py"])
@pytest.mark.parametrize("dynamic", [True, False, None])
def test_dumps(dump: str, dynamic: bool | None, tmp_path: Path) -> None:
    torch._dynamo.reset()
    config = CompilerConfig()
    config.debug.graph_dump.type = dump
    config.debug.graph_dump.path = str(tmp_path)
    backend = torchair.get_npu_backend(compiler_config=config)
    x = f16(6, 16).npu()
    compiled = torch.compile(quantise, backend=backend, dynamic=dynamic, fullgraph=True)
    for result, expected in zip(compiled(x), quantise(x), strict=True):
        assert torch.equal(result, expected)
    (written,) = tmp_path.glob(f"dynamo_optimized_graph_*.{dump}")
    content = written.read_text()
    assert "DynamicQuantV2" in content
    assert "Bitcast" in content


@pytest.mark.parametrize("dynamic", [True, False, None])
def test_backend_by_name(dynamic: bool | None) -> None:
    torch._dynamo.reset()
    x = f16(6, 16).npu()
    compiled = torch.compile(quantise, backend="npu", dynamic=dynamic, fullgraph=True)
    for result, expected in zip(compiled(x), quantise(x), strict=True):
        assert torch.equal(result, expected)
