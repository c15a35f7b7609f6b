"""torch_npu's and TorchAir's own handling of the operators, put back for a comparison."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from graph_quant import meta

# Where upstream keeps them: the inference by function, the converters by module.
_INFERENCE = {
    "npu_group_quant": "npu_group_quant_meta",
    "npu_quantize": "npu_quantize_meta",
    "npu_trans_quant_param": "npu_trans_quant_param_meta",
    "npu_dynamic_quant": "npu_dynamic_quant",
    "npu_dynamic_quant_asymmetric": "npu_dynamic_quant_asymmetric",
    "npu_quant_matmul": "npu_quant_matmul_meta",
}
_CONVERTERS = ("npu_group_quant", "quantized", "transquantparam", "npu_dynamic_quant", "quantmatmul")


@contextmanager
def upstream() -> Iterator[None]:
    """Let upstream infer and lower the operators inside the block; this project's own come back after it."""
    import torchair  # noqa: F401  (its import registers this project's converters)
    from torch_npu.op_plugin.meta import _meta_registrations

    operators = {name: getattr(torch.ops.npu, name).default for name in _INFERENCE}
    ours = {name: operator._ge_converter for name, operator in operators.items()}
    meta.unregister()
    with torch.library._scoped_library("npu", "IMPL") as library:
        for name, function in _INFERENCE.items():
            library.impl(name, getattr(_meta_registrations, function), "Meta", allow_override=True)
        for module in _CONVERTERS:
            importlib.reload(importlib.import_module(f"torchair._ge_concrete_graph.ge_converter.custom.{module}"))
        try:
            yield
        finally:
            for name, operator in operators.items():
                operator._ge_converter = ours[name]
    meta.register()
