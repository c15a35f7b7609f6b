"""npu_all_to_all_matmul, npu_matmul_all_to_all and its quantised form: in no graph of A2 and A3."""

from __future__ import annotations

from typing import NoReturn

from graph_quant.converters.lowering import lowers
from graph_quant.meta.rules import Refusal


@lowers("npu_all_to_all_matmul")
def refuse_all_to_all_matmul() -> NoReturn:
    """Refuse with the message of A3."""
    raise Refusal("npu_all_to_all_matmul: it must be called eagerly on A3, got a graph")


@lowers("npu_matmul_all_to_all")
def refuse_matmul_all_to_all() -> NoReturn:
    """Refuse with the message of A3."""
    raise Refusal("npu_matmul_all_to_all: it must be called eagerly on A3, got a graph")


@lowers("npu_quant_matmul_all_to_all")
def refuse_quant_matmul_all_to_all() -> NoReturn:
    """Refuse: on A2 only the eager call is documented."""
    raise Refusal("npu_quant_matmul_all_to_all: it must be called eagerly on A2, got a graph")
