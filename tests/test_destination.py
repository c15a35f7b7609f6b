"""Destinations: their storage, and their GE numbers, which are TorchAir's."""

import pytest
import torch
import torchair  # noqa: F401 (its modules are importable once it is)
from graph_quant import destination
from torchair._ge_concrete_graph.ge_ir_pb2 import DataType as ProtoDataType
from torchair.ge._ge_graph import DataType, torch_dtype_to_value

GE_NAMES = {
    destination.INT8: "DT_INT8",
    destination.UINT8: "DT_UINT8",
    destination.INT32: "DT_INT32",
    destination.INT4: "DT_INT4",
    destination.FLOAT16: "DT_FLOAT16",
    destination.BFLOAT16: "DT_BF16",
    destination.FLOAT32: "DT_FLOAT",
    destination.E4M3: "DT_FLOAT8_E4M3FN",
    destination.E5M2: "DT_FLOAT8_E5M2",
    destination.HIFLOAT8: "DT_HIFLOAT8",
}


@pytest.mark.parametrize("candidate", destination.ALL, ids=lambda candidate: candidate.name)
def test_ge_numbers_match_torchair(candidate: destination.Destination) -> None:
    assert candidate.ge_attr == getattr(DataType, GE_NAMES[candidate])
    assert candidate.ge_desc == ProtoDataType.Value(GE_NAMES[candidate])


@pytest.mark.parametrize("number", destination.SCALAR_TYPES)
def test_scalar_types_match_torch(number: int) -> None:
    assert torch_dtype_to_value(destination.SCALAR_TYPES[number]) == number


@pytest.mark.parametrize(
    ("spellings", "expected"),
    [
        ((None, torch.int8, torch.qint8, 1, 12), destination.INT8),
        ((torch.uint8, torch.quint8, 0, 13), destination.UINT8),
        ((torch.int32, torch.qint32, 3, 14), destination.INT32),
        ((torch.quint4x2, 16), destination.INT4),
        ((torch.float8_e4m3fn, 24, 292), destination.E4M3),
        ((torch.float8_e5m2, 23, 291), destination.E5M2),
        ((290,), destination.HIFLOAT8),
    ],
)
def test_spellings(spellings: tuple[object, ...], expected: destination.Destination) -> None:
    for spelling in spellings:
        assert destination.find(spelling) is expected  # type: ignore[arg-type]


def test_int4_is_int32_at_an_eighth_of_the_width() -> None:
    assert destination.INT4.storage is torch.int32
    assert destination.INT4.stored_shape((3, 2, 24)) == (3, 2, 3)
    assert destination.INT8.stored_shape((3, 2, 24)) == (3, 2, 24)


@pytest.mark.parametrize(
    ("requested", "named"),
    [
        (torch.quint8, "torch.quint8"),
        (23, "torch.float8_e5m2"),
        (290, "torch_npu.hifloat8"),
        (999, "number 999"),
    ],
)
def test_refusal_names_requested_and_accepted_dtypes(requested: object, named: str) -> None:
    with pytest.raises(RuntimeError, match=f"npu_x: dst must be one of torch.int8, torch.qint8, got .*{named}"):
        destination.resolve("npu_x", "dst", requested, (destination.INT8,))  # type: ignore[arg-type]
