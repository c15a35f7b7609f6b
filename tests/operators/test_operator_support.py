"""What runs where, over all operators that TorchAir or this package lowers."""

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
    graph_only = {each.name for each in operators if each.graph and not each.eager}
    assert graph_only == EAGER_ELSEWHERE


def test_what_runs_eagerly_and_is_lowered_runs_in_a_graph(operators: list[operator_support.OperatorSupport]) -> None:
    told = [each for each in operators if each.missing != (operator_support.UNKNOWN,)]
    assert [each.name for each in told if each.eager and each.lowered_by and not each.graph] == []


def test_what_every_lowering_refuses_is_lowered_by_nobody(operators: list[operator_support.OperatorSupport]) -> None:
    refused = {each.name for each in operators if each.eager and not each.lowered_by}
    assert {"npu::npu_all_to_all_matmul", "npu::npu_matmul_all_to_all"} <= refused


def test_every_family_is_there(operators: list[operator_support.OperatorSupport]) -> None:
    families = {each.family for each in operators if each.eager}
    assert families >= {"quant", "matmul", "activation", "moe", "norm", "rope", "cache", "attention"}


def test_a_node_without_a_kernel_is_named(operators: list[operator_support.OperatorSupport]) -> None:
    (barrier,) = [each for each in operators if each.name == "npu::_npu_distribute_barrier"]
    assert (barrier.graph, barrier.missing) == (False, ("DistributeBarrier",))
