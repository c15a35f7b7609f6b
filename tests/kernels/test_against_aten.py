"""Every kernel against ATen or NumPy: ranks 0 to 4, dtypes, zero sizes, broadcasting, axes from either end.

A sample runs with the other tests. ``GRAPH_QUANT_KERNEL_CASES=400 pytest tests/kernels/test_against_aten.py`` runs
more cases.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from graph_quant.ge.values import Sizes, to_tensor
from graph_quant.host.engine import import_graph
from graph_quant.host.kernels import KERNELS

from support.all_calls import GOOD, STATEMENTS
from support.kernel_samples import KERNEL_SAMPLES
from support.kernel_samples.operators import OF_OPERATORS, TESTED_SEPARATELY
from support.single_node_graph import SingleNodeGraph

TESTS = Path(__file__).parent.parent
CASES = int(os.environ.get("GRAPH_QUANT_KERNEL_CASES", "12"))


def several(results: Any) -> list[torch.Tensor]:
    items: Sequence[Any] = [results] if isinstance(results, torch.Tensor | Sizes) or results is None else results
    return [to_tensor(result) if isinstance(result, Sizes) else result for result in items if result is not None]


def agree(result: torch.Tensor, expected: torch.Tensor, bound: float) -> None:
    """Assert equal dtype, shape and bits, including signs of zeros; or values within the bound."""
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    if result.is_complex():
        return agree(torch.view_as_real(result), torch.view_as_real(expected), bound)
    assert torch.equal(result.isnan(), expected.isnan()), (result, expected)
    one, other = result.nan_to_num(nan=0.0), expected.nan_to_num(nan=0.0)
    if bound and expected.is_floating_point():
        largest = other.double().abs().max().item() if other.numel() else 0.0
        allowed = bound * torch.finfo(expected.dtype).eps * max(largest, 1.0)
        assert torch.all((one.double() - other.double()).abs() <= allowed), (result, expected)
        return None
    assert torch.equal(one, other), (result, expected)
    assert torch.equal(one.signbit(), other.signbit()), (result, expected)
    return None


def shares_memory(arguments: Sequence[Any], results: Sequence[torch.Tensor]) -> bool:
    inputs = [tensor for argument in arguments for tensor in several(argument) if isinstance(tensor, torch.Tensor)]
    begins = {tensor.untyped_storage().data_ptr() for tensor in inputs if tensor.numel()}
    return any(result.numel() and result.untyped_storage().data_ptr() in begins for result in results)


def test_every_kernel_has_samples() -> None:
    """Every type has samples here or, for an operator of this package, in its table of calls."""
    assert {*KERNEL_SAMPLES, *OF_OPERATORS} == set(KERNELS)
    assert not set(KERNEL_SAMPLES) & set(OF_OPERATORS)
    in_tables = {call.op for call in GOOD} & {*STATEMENTS}
    assert set(OF_OPERATORS.values()) <= {*in_tables, *TESTED_SEPARATELY}
    assert not in_tables & {*TESTED_SEPARATELY}
    assert all((TESTS / path).exists() for path in TESTED_SEPARATELY.values())


def test_operators_lower_to_the_declared_node_types() -> None:
    """The golden graphs show it, except for those without one and those that need several ranks."""
    graphs = "".join(path.read_text() for path in (TESTS / "converters" / "golden").iterdir())
    shown = {op_type for op_type in OF_OPERATORS if f"= {op_type}(" in graphs}
    assert {op_type for op_type in set(OF_OPERATORS) - shown if OF_OPERATORS[op_type] != "collectives"} == {
        "AddRmsNormCast",
        "AddRmsNormDynamicMxQuant",
        "AntiMxQuant",
        "Cmo",
        "DualLevelQuantBatchMatmul",
        "DynamicBlockMxQuant",
        "DynamicDualLevelMxQuant",
        "DynamicMxQuant",
        "DynamicMxQuantWithDualAxis",
        "FlashAttentionScoreGrad",
        "GemmaRmsNorm",
        "GroupedDynamicBlockQuant",
        "GroupedDynamicMxQuant",
        "InplaceAddRmsNorm",
        "QuantBatchMatmulInplaceAdd",
        "QuantMax",
        "RmsNormDynamicMxQuant",
        "RmsNormQuantV2",
        "RmsNormQuantV3",
        "SwigluGroupQuant",
        "SwigluGroupQuantGrad",
        "SwigluMxQuant",
        "SwigluMxQuantWithDualAxis",
        "TransposeQuantBatchMatMul",
    }


@pytest.mark.parametrize("op_type", KERNEL_SAMPLES)
def test_a_kernel_agrees_with_its_reference(op_type: str) -> None:
    chance = random.Random(op_type)
    torch.manual_seed(0)
    for _ in range(CASES):
        arguments, attributes, expected, bound = KERNEL_SAMPLES[op_type](chance)
        wanted = several(expected)
        try:
            results = several(KERNELS[op_type].function(*arguments, **attributes))
            assert len(results) == len(wanted)
            assert KERNELS[op_type].may_alias or not shares_memory(arguments, results), "undeclared memory of an input"
            for result, other in zip(results, wanted, strict=True):
                agree(result, other, bound)
        except Exception as error:
            raise AssertionError(f"{op_type}({arguments}, {attributes})") from error


@pytest.mark.parametrize("op_type", KERNEL_SAMPLES)
def test_a_graph_of_one_node_agrees_with_its_reference(op_type: str) -> None:
    """The engine reads the node, chooses its kernel by its inputs, and runs it."""
    chance = random.Random(op_type)
    torch.manual_seed(0)
    for _ in range(max(CASES // 6, 1)):
        arguments, attributes, expected, bound = KERNEL_SAMPLES[op_type](chance)
        whole = [expected] if isinstance(expected, torch.Tensor | Sizes) else list(expected or ())
        try:
            single = SingleNodeGraph(KERNELS[op_type], arguments, attributes, [output is not None for output in whole])
            results = import_graph(single.graph)(*single.inputs)
            for result, other in zip(results, several(expected), strict=True):
                agree(result, other, bound)
        except Exception as error:
            raise AssertionError(f"{op_type}({arguments}, {attributes})") from error
