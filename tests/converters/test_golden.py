"""The GE graph of every operator and destination, with sizes known and unknown, as text to read in review.

`GRAPH_QUANT_UPDATE_GOLDEN=1 pytest tests/converters/test_golden.py` writes the files anew.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu

from support.calls import INT4, packed
from support.lowering import lower, text
from support.tensors import ends, f16, f32, i8, i32, small32

FOLDER = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("GRAPH_QUANT_UPDATE_GOLDEN"))
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def group_quant(kind: torch.dtype) -> Case:
    def call(x: torch.Tensor, scale: torch.Tensor, group_index: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_group_quant(x, scale, group_index, offset=offset, dst_dtype=kind)

    return call, (f16(6, 16), f32(4, 16), ends(1, 4, 4, 6), f32(1))


def quantize(kind: torch.dtype, axis: int, div_mode: bool, scales: torch.Tensor, zeros: torch.Tensor) -> Case:
    def call(x: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_quantize(x, scales, zero_points, kind, axis, div_mode)

    return call, (f16(2, 3, 16), scales, zeros)


def dynamic(symmetric: bool, kind: torch.dtype, mode: str) -> Case:
    op = torch_npu.npu_dynamic_quant if symmetric else torch_npu.npu_dynamic_quant_asymmetric
    return lambda x: op(x, dst_type=kind, quant_mode=mode), (f16(2, 3, 16),)


def matmul(*args: torch.Tensor, **options: Any) -> Case:
    return lambda x1, x2, scale: torch_npu.npu_quant_matmul(x1, x2, scale, **options), args


def matmul_of_params(x1: torch.Tensor, x2: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    return torch_npu.npu_quant_matmul(x1, x2, torch_npu.npu_trans_quant_param(scale, offset))


A, B = i8(4, 32), i8(32, 16)
CASES: dict[str, Case] = {
    "group_quant-int8": group_quant(torch.int8),
    "group_quant-int4": group_quant(INT4),
    "quantize_multiplying-int8": quantize(torch.qint8, -1, False, f16(16), f16(16)),
    "quantize_multiplying-int4": quantize(INT4, -2, False, f32(3), f32(3)),
    "quantize_dividing-int8": quantize(torch.qint8, -1, True, f32(16), small32(16)),
    "quantize_dividing-uint8": quantize(torch.quint8, 1, True, f32(3), small32(3)),
    "quantize_dividing-int32": quantize(torch.qint32, 0, True, f32(1), small32(1)),
    "trans_quant_param-output": (torch_npu.npu_trans_quant_param, (f32(1), f32(16))),
    "trans_quant_param-matmul": (matmul_of_params, (A, B, f32(16), f32(16))),
    **{
        f"dynamic_quant{'' if symmetric else '_asymmetric'}-{name}-{mode}": dynamic(symmetric, kind, mode)
        for symmetric in (True, False)
        for name, kind in (("int8", torch.int8), ("int4", INT4))
        for mode in ("pertoken", "pertensor", "perchannel")
        if (name, mode) != ("int4", "perchannel")
    },
    "quant_matmul-int8": matmul(A, B, f32(16)),
    "quant_matmul-float16": matmul(A, B, packed(16), output_dtype=torch.float16),
    "quant_matmul-bfloat16": matmul(A, B, f32(16), output_dtype=torch.bfloat16),
    "quant_matmul-int32": matmul(A, B, f32(16), output_dtype=torch.int32),
    "quant_matmul-int4": matmul(i32(4, 2), i32(16, 3), packed(24), output_dtype=torch.float16),
    "quant_matmul-int4-view": (
        lambda x1, x2, scale: torch_npu.npu_quant_matmul(x1, x2.t(), scale, output_dtype=torch.float16),
        (i32(4, 2), i32(24, 2), packed(24)),
    ),
}
NODES = {"int8": 1, "uint8": 1, "int32": 1, "int4": 4}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sizes", ["static", "dynamic"])
def test_golden(name: str, sizes: str) -> None:
    function, args = CASES[name]
    graph = text(lower(function, *args, dynamic=sizes == "dynamic"))
    golden = FOLDER / f"{name}-{sizes}.txt"
    if UPDATE:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(graph)
    assert graph == golden.read_text()


def test_every_golden_file_has_its_case() -> None:
    expected = {f"{name}-{sizes}.txt" for name in CASES for sizes in ("static", "dynamic")}
    assert {path.name for path in FOLDER.iterdir()} == expected


@pytest.mark.parametrize("name", ["group_quant", "quantize_multiplying", "dynamic_quant", "dynamic_quant_asymmetric"])
@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("sizes", ["static", "dynamic"])
def test_node_counts(name: str, kind: str, sizes: str) -> None:
    mode = "-pertoken" if name.startswith("dynamic") else ""
    lines = (FOLDER / f"{name}-{kind}{mode}-{sizes}.txt").read_text().splitlines()
    computing = [line for line in lines if " = " in line and "Cast(" not in line.replace("Bitcast(", "")]
    assert len(computing) == NODES[kind]
