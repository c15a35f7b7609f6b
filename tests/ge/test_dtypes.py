"""GE's dtypes have the numbers that TorchAir uses, and one name each."""

from __future__ import annotations

import pytest
import torch
import torchair  # noqa: F401 (its modules are importable once it is)
from graph_quant.ge import dtypes
from graph_quant.ge.values import from_attr, from_desc, ge_dtype_name
from torchair._ge_concrete_graph.ge_ir_pb2 import DataType as ProtoDataType
from torchair.ge._ge_graph import DataType

ATTRIBUTES = {name: number for name, number in vars(DataType).items() if name.startswith("DT_") and name != "DT_MAX"}


def test_the_numbers_are_torchairs() -> None:
    assert len(ATTRIBUTES) > 30
    assert {name: dtypes.TO_ATTRIBUTE[dtypes.of_registration(name)] for name in ATTRIBUTES} == ATTRIBUTES
    protos = dict(ProtoDataType.items())
    assert {name: dtypes.TO_DESC[dtypes.of_registration(name)] for name in protos} == protos


def test_both_numberings_lead_to_one_torch_dtype() -> None:
    for word, number in dtypes.TO_DESC.items():
        if word not in dtypes.TO_ATTRIBUTE:
            continue
        try:
            stored = from_desc(number)
        except TypeError:
            with pytest.raises(TypeError, match=str(dtypes.TO_ATTRIBUTE[word])):
                from_attr(dtypes.TO_ATTRIBUTE[word])
            continue
        assert from_attr(dtypes.TO_ATTRIBUTE[word]) == stored
        assert stored.itemsize * 8 == max(dtypes.BITS[word], 8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.uint64, torch.float8_e8m0fnu, torch.complex64])
def test_dtype_names_round_trip(dtype: torch.dtype) -> None:
    assert from_desc(dtypes.TO_DESC[ge_dtype_name(dtype)]) == dtype
