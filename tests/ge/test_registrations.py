"""GE's registrations, as TorchAir ships them."""

from __future__ import annotations

import inspect

import torchair  # noqa: F401 (its modules are importable once it is)
from graph_quant.ge.registrations import registration
from graph_quant.host.engine.ir import UNREGISTERED, registered_ir
from torchair._ge_concrete_graph import auto_generated_ge_raw_ops as generated

# In these, TorchAir's function and the registration differ in inputs, attributes or their order.
DIFFERENT = {
    "AttentionWorkerCombine", "BatchNormV3", "DequantRopeQuantKvcache", "DynamicQuantV2", "FlatQuant", "GatherD",
    "GeluQuant", "MoeDistributeCombineAddRmsNorm", "MoeDistributeCombineV2", "MoeFinalizeRoutingV2",
    "MoeGatingTopKSoftmaxV2", "QuantMax", "RecurrentGatedDeltaRule", "RotaryPositionEmbedding", "ScatterPaKvCache",
    "TomeMerge", "TomeUnmerge",
}  # fmt: skip


def test_they_name_the_inputs_of_torchairs_own_functions() -> None:
    """TorchAir generates a function from each registration: an independent reading of the same text."""
    compared, other = 0, []
    for name, function in vars(generated).items():
        registered = registration(name)
        if not inspect.isfunction(function) or registered is None or "REG_OP" not in (function.__doc__ or ""):
            continue
        parameters = inspect.signature(function).parameters.values()
        names = [parameter.name.removesuffix("_changed_as_is_python_key") for parameter in parameters]
        names = [
            parameter
            for parameter in names
            if parameter not in ("dependencies", "node_name") and "size_of_" not in parameter
        ]
        declared = [parameter.name for parameter in registered.inputs]
        compared += 1
        if names[: len(declared)] != declared or sorted(names[len(declared) :]) != sorted(
            parameter.name for parameter in registered.attributes
        ):
            other.append(name)
    assert compared > 1000
    assert set(other) == DIFFERENT


def test_the_form_of_torchairs_c_module() -> None:
    status, inputs, outputs, attributes = registered_ir("GroupQuant")
    assert status == "SUCCESS"
    assert inputs == [("x", "required"), ("scale", "required"), ("group_index", "required"), ("offset", "optional")]
    assert outputs == [("y", "required")]
    assert attributes == [("dst_type", "VT_INT")]
    assert registered_ir("Frobnicate") is UNREGISTERED


def test_dtypes_that_the_prototypes_leave_out() -> None:
    """CANN registers int32 with packed int4 for the weight; a misspelt ATTR of the prototype counts."""
    registered = registration("WeightQuantBatchMatmulV2")
    assert registered is not None
    assert {parameter.name: parameter.dtypes for parameter in registered.inputs}["weight"] == {"int4", "int8", "int32"}
    assert {parameter.name: parameter.default for parameter in registered.attributes}["dtype"] == "-1"
