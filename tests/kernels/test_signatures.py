"""Every kernel declares the inputs and attributes that GE registers for its op type, by the same names."""

from __future__ import annotations

import inspect

import pytest
from graph_quant.ge import facts
from graph_quant.host.kernels import KERNELS, SIZE_KERNELS
from torchair._ge_concrete_graph import ge_apis
from torchair._ge_concrete_graph.graph_pass import _get_output_to_input_ref_idx
from torchair.ge._ge_graph import OpDef

# These name the inputs of their nodes otherwise than the parameters of TorchAir's functions.
OWN_NAMES = ("Foreach", "BatchNormV3", "GeluQuant")
# Attributes that CANN registers and TorchAir's functions leave out, or name otherwise; all have defaults.
_EXPERTS = {"comm_alg", "zero_expert_num", "copy_expert_num", "const_expert_num"}
NEWER = {
    "DynamicMxQuant": {"blocksize"},  # TorchAir registers block_size, and writes blocksize
    "GroupNormSilu": {"activate_silu"},
    "QuantUpdateScatter": {"reciprocal_scale"},
    "RecurrentGatedDeltaRule": {"scale_value"},
    "MoeDistributeCombine": _EXPERTS,
    "MoeDistributeDispatch": _EXPERTS,
}
REGISTERED = sorted(name for name in KERNELS if hasattr(ge_apis, name) and not name.startswith(OWN_NAMES))


def test_most_kernel_types_are_registered_in_ge() -> None:
    assert len(REGISTERED) > 200
    assert set(SIZE_KERNELS) <= set(KERNELS)


def _signature(op_type: str) -> tuple[list[tuple[str, str]], set[str]]:
    """Inputs with their kinds, and attributes, of TorchAir's generated function for an op type."""
    inputs, attributes = [], set()
    for key, parameter in inspect.signature(getattr(ge_apis, op_type)).parameters.items():
        name = key.removesuffix("_changed_as_is_python_key")
        annotation = str(parameter.annotation)
        if parameter.kind is parameter.KEYWORD_ONLY:
            attributes.add(name)
        elif "Optional" in annotation:
            inputs.append((name, "optional"))
        else:
            inputs.append((name, "dynamic" if "List" in annotation else "required"))
    return inputs, attributes


@pytest.mark.parametrize("op_type", REGISTERED)
def test_a_kernels_signature_matches_ge(op_type: str) -> None:
    inputs, attributes = _signature(op_type)
    kernel, kinds = KERNELS[op_type], dict(inputs)
    for declared in kernel.inputs:
        if declared.name not in kinds:
            assert declared.is_optional, f"{op_type} has no input {declared.name}"
            continue
        assert declared.is_dynamic == (kinds[declared.name] == "dynamic"), declared.name
        if kinds[declared.name] == "optional":
            assert declared.is_optional, declared.name
    newer = {"quant_mode", "dst_type_max"} | NEWER.get(op_type, set())
    assert {name for name, _ in kernel.attributes} <= attributes | newer
    required = {name for name, kind in inputs if kind == "required"}.difference(facts(op_type).idle)
    assert required <= {declared.name for declared in kernel.inputs}


def test_nodes_that_write_an_input_return_it() -> None:
    """TorchAir removes the copies around these nodes, so their kernels must write in place."""
    node = OpDef()
    for op_type in KERNELS:
        node.type = op_type
        if _get_output_to_input_ref_idx(node):
            assert KERNELS[op_type].may_alias, op_type
