"""npu_all_to_all_matmul, npu_matmul_all_to_all and its quantised form: in no graph of A2 and A3."""

from __future__ import annotations

from typing import NoReturn

from graph_quant.converters.lowering import lowers
from graph_quant.meta.rules import Refusal


@lowers("npu_all_to_all_matmul")
def refuse_all_to_all_matmul() -> NoReturn:
    """What A3 says of it."""
    raise Refusal("npu_all_to_all_matmul: it must be called eagerly on A3, got a graph")


@lowers("npu_matmul_all_to_all")
def refuse_matmul_all_to_all() -> NoReturn:
    """What A3 says of it."""
    raise Refusal("npu_matmul_all_to_all: it must be called eagerly on A3, got a graph")


@lowers("npu_quant_matmul_all_to_all")
def refuse_quant_matmul_all_to_all() -> NoReturn:
    """What is known of A2 is the eager call."""
    raise Refusal("npu_quant_matmul_all_to_all: it must be called eagerly on A2, got a graph")
