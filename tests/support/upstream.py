"""torch_npu's own inference and converters, for a run that shows what the tests of defects catch.

`GRAPH_QUANT_TEST_UPSTREAM=1 pytest tests/converters/test_defects.py` puts them back in place of this
project's.
"""

import importlib
import os

import torch
import torchair  # noqa: F401 (registers this project's converters first)
from graph_quant import meta
from torch_npu.op_plugin.meta import _meta_registrations

SELECTED = bool(os.environ.get("GRAPH_QUANT_TEST_UPSTREAM"))
INFERENCE = {
    "npu_group_quant": "npu_group_quant_meta",
    "npu_quantize": "npu_quantize_meta",
    "npu_trans_quant_param": "npu_trans_quant_param_meta",
    "npu_dynamic_quant": "npu_dynamic_quant",
    "npu_dynamic_quant_asymmetric": "npu_dynamic_quant_asymmetric",
    "npu_quant_matmul": "npu_quant_matmul_meta",
}
CONVERTERS = ("npu_group_quant", "quantized", "transquantparam", "npu_dynamic_quant", "quantmatmul")
LIBRARY = torch.library.Library("npu", "IMPL")


def select() -> None:
    """Puts upstream's inference and converters in place of this project's."""
    for library in meta._libraries:
        library._destroy()
    for operator, function in INFERENCE.items():
        LIBRARY.impl(operator, getattr(_meta_registrations, function), "Meta", allow_override=True)
    for name in CONVERTERS:
        importlib.reload(importlib.import_module(f"torchair._ge_concrete_graph.ge_converter.custom.{name}"))
    assert "graph_quant" not in torch.ops.npu.npu_group_quant.default._ge_converter.__module__


if SELECTED:
    select()
