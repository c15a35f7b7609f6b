"""The table of operator support: which operators run eagerly, are lowered, and run in graphs."""

import pytest
from graph_quant import operator_support


@pytest.fixture(scope="module")
def operators() -> list[operator_support.OperatorSupport]:
    return operator_support.supported_operators()


# These go another way eagerly: format_cast is the device's own, the others belong to autograd, which calls ATen here.
# The document of quant_conv2d allows static graphs alone.
EAGER_ELSEWHERE = {
    "npu::npu_format_cast",
    "npu::npu_gather_backward",
    "npu::npu_quant_conv2d",
}


def test_what_runs_in_a_graph_runs_eagerly(operators: list[operator_support.OperatorSupport]) -> None:
    graph_only = {operator.name for operator in operators if operator.graph and not operator.eager}
    assert graph_only == EAGER_ELSEWHERE


def test_what_runs_eagerly_and_is_lowered_runs_in_a_graph(operators: list[operator_support.OperatorSupport]) -> None:
    known = [operator for operator in operators if operator.missing != (operator_support.UNKNOWN,)]
    assert [operator.name for operator in known if operator.eager and operator.lowered_by and not operator.graph] == []


def test_operators_refused_by_every_lowering_have_none(
    operators: list[operator_support.OperatorSupport],
) -> None:
    refused = {operator.name for operator in operators if operator.eager and not operator.lowered_by}
    assert {"npu::npu_all_to_all_matmul", "npu::npu_matmul_all_to_all"} <= refused


def test_every_family_is_listed(operators: list[operator_support.OperatorSupport]) -> None:
    families = {operator.family for operator in operators if operator.eager}
    assert families >= {"quant", "matmul", "activation", "moe", "norm", "rope", "cache", "attention"}


def test_a_node_without_a_kernel_is_named(operators: list[operator_support.OperatorSupport]) -> None:
    (barrier,) = [operator for operator in operators if operator.name == "npu::_npu_distribute_barrier"]
    assert (barrier.graph, barrier.missing) == (False, ("DistributeBarrier",))
