"""ATB's operators that select experts, compared with statements in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant.refusals import Refusal
from hypothesis import strategies as st

from support.call_strategies import Draw, run
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32


def ints(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def kept_groups(row: Any, groups: int, k: int, n: int) -> Any:
    """Which experts of a row belong to its k best groups: sums of their n largest, the first of equal ones."""
    parts = row.reshape(groups, -1)
    scores = np.zeros(groups, np.float32)
    for index in range(max(n, 1)):
        scores = scores + np.sort(parts, axis=1)[:, ::-1][:, index]
    best = np.argsort(-scores, kind="stable")[:k]
    return np.isin(np.repeat(np.arange(groups), parts.shape[1]), best)


@st.composite
def group_calls(draw: Draw) -> tuple[torch.Tensor, int, int, int]:
    groups, own = draw(st.sampled_from([(1, 4), (4, 1), (4, 3), (8, 4)]))
    x = draw(st.sampled_from([f16, bf16]))(3, groups * own)
    x = x.round() if draw(st.booleans()) else x
    return x, draw(st.integers(1, groups)), groups, draw(st.integers(0, own))


def test_all_but_the_best_groups_become_zero() -> None:
    def agrees(call: tuple[torch.Tensor, int, int, int]) -> None:
        x, k, groups, n = call
        wanted = floats(x).copy()
        for row in wanted:
            row[~kept_groups(row, groups, k, n)] = 0
        device = x.npu()
        assert torch_npu._npu_group_topk(device, k=k, group_num=groups, n=n) is None
        assert np.array_equal(floats(device.cpu()), wanted)

    run(agrees, group_calls())


@st.composite
def weighing_calls(draw: Draw) -> dict[str, Any]:
    groups, own = draw(st.sampled_from([(1, 32), (4, 3), (8, 4), (8, 32)]))
    make = draw(st.sampled_from([f16, bf16, f32]))
    arguments = {"x": make(5, groups * own), "add_num": make(groups * own), "group_num": groups}
    arguments |= {"group_topk": draw(st.integers(1, groups)), "n": draw(st.integers(1, min(own, 2)))}
    arguments |= {"k": draw(st.integers(1, groups * own)), "is_norm": draw(st.booleans()), "scale": 2.5}
    if draw(st.booleans()):
        copies = torch.tensor([draw(st.integers(0, 3)) for _ in range(groups * own)], dtype=torch.int32)
        table = torch.arange(groups * own * 3, dtype=torch.int32).reshape(-1, 3) + 100
        arguments |= {"mapping_num": copies, "mapping_table": table, "enable_expert_mapping": True}
    return arguments


def test_experts_are_chosen_with_add_num_and_weighted_without_it() -> None:
    def agrees(arguments: dict[str, Any]) -> None:
        weights, experts = torch_npu.atb.npu_fused_add_topk_div(
            **{name: value.npu() if isinstance(value, torch.Tensor) else value for name, value in arguments.items()},
            activation_type="activation_sigmoid",
        )
        # The bits of one sigmoid decide what is best: its own error is not the matter here.
        gates = arguments["x"].float().sigmoid().numpy()
        sums = gates + floats(arguments["add_num"])
        for token in range(gates.shape[0]):
            kept = kept_groups(sums[token], arguments["group_num"], arguments["group_topk"], arguments["n"])
            order = np.argsort(-np.where(kept, sums[token], 0), kind="stable")[: arguments["k"]]
            wanted = gates[token, order].astype(np.float64)
            if arguments["is_norm"]:
                wanted = wanted / wanted.sum() * 2.5
            # A sum of k weights and a quotient, each off by half a unit.
            np.testing.assert_allclose(weights[token].cpu(), wanted, rtol=(arguments["k"] + 3) * 2.0**-24)
            if arguments.get("enable_expert_mapping"):
                turns = [token % max(int(arguments["mapping_num"][expert]), 1) for expert in order]
                order = arguments["mapping_table"].numpy()[order, turns]
            assert experts[token].tolist() == order.tolist()

    run(agrees, weighing_calls())


def test_results_are_written_to_the_out_arguments() -> None:
    arguments = {"x": f16(2, 16), "add_num": f16(16), "group_num": 4, "group_topk": 2, "k": 3}
    y, indices = torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int32)
    results = torch.ops.atb.npu_fused_add_topk_div(**arguments, y=y, indices=indices)
    assert [result.data_ptr() for result in results] == [y.data_ptr(), indices.data_ptr()]
    for one, other in zip(results, torch.ops.atb.npu_fused_add_topk_div(**arguments), strict=True):
        assert torch.equal(one, other)


def group(**changed: Any) -> Any:
    arguments = {"self": f16(2, 12), "k": 1, "group_num": 4, "n": 2} | changed
    return torch.ops.atb._npu_group_topk(*arguments.values())


def weigh(**changed: Any) -> Any:
    arguments = {"x": f16(2, 16), "add_num": f16(16), "group_num": 4, "group_topk": 2, "n": 2, "k": 3}
    return torch.ops.atb.npu_fused_add_topk_div(**arguments | changed)


COPIES = {"mapping_num": ints(*[1] * 16), "mapping_table": ints(*[[1, 2]] * 16), "enable_expert_mapping": True}
WRONG: list[tuple[str, Any, dict[str, Any]]] = [
    ("self must be", group, {"self": f32(2, 12)}),
    ("self must have", group, {"self": f16(12)}),
    ("self.size(0)", group, {"self": f16(0, 12)}),
    ("self.size(1) must lie", group, {"self": f16(2, 1028)}),
    ("self.size(1) must lie", group, {"self": f16(2, 0)}),
    ("self.size(1) must be a multiple", group, {"self": f16(2, 10)}),
    ("group_num", group, {"group_num": 0}),
    ("k must lie", group, {"k": 0}),
    ("k must lie", group, {"k": 5}),
    ("n must be", group, {"n": 4}),
    ("the values of self", group, {"self": f16(2, 12).fill_(-torch.inf)}),
    ("the values of self", group, {"self": f16(2, 12).fill_(torch.nan)}),
    ("x must be", weigh, {"x": f16(2, 16).double()}),
    ("x must have", weigh, {"x": f16(16)}),
    ("add_num must be", weigh, {"add_num": f32(16)}),
    ("add_num must have", weigh, {"add_num": f16(1, 16)}),
    ("add_num.size(0)", weigh, {"add_num": f16(15)}),
    ("activation_type", weigh, {"activation_type": "activation_relu"}),
    ("group_num", weigh, {"group_num": 0}),
    ("group_topk must be at least", weigh, {"group_topk": 0}),
    ("group_topk must be at most", weigh, {"group_topk": 5}),
    ("n must be at least", weigh, {"n": 0}),
    ("n must be at most", weigh, {"n": 5}),
    ("k must be at least", weigh, {"k": 0}),
    ("k must be at most", weigh, {"k": 17}),
    ("x.size(1) must be a multiple", weigh, {"x": f16(2, 18), "add_num": f16(18)}),
    ("x.size(1) must be at most 32", weigh, {"x": f16(2, 36), "add_num": f16(36)}),
    ("x.size(1) must be at most 256", weigh, {"x": f16(2, 264), "add_num": f16(264), "group_num": 8}),
    ("mapping_num must be given", weigh, {"enable_expert_mapping": True}),
    ("mapping_table must be given", weigh, COPIES | {"mapping_table": None}),
    ("mapping_num must be", weigh, COPIES | {"mapping_num": ints(*[1] * 16).long()}),
    ("mapping_num must have", weigh, COPIES | {"mapping_num": ints(*[[1]] * 16)}),
    ("mapping_num.size(0)", weigh, COPIES | {"mapping_num": ints(1)}),
    ("mapping_num[1]", weigh, COPIES | {"mapping_num": ints(1, 3, *[1] * 14)}),
    ("mapping_num[0]", weigh, COPIES | {"mapping_num": ints(-1, *[1] * 15)}),
    ("mapping_table.size(0)", weigh, COPIES | {"mapping_table": ints([1, 2])}),
    ("mapping_table.size(1)", weigh, COPIES | {"mapping_table": torch.ones(16, 129, dtype=torch.int32)}),
    ("y must be", weigh, {"y": f16(2, 3), "indices": ints(*[[1, 2, 3]] * 2)}),
    ("y.size(0)", weigh, {"y": f32(1, 3), "indices": ints(*[[1, 2, 3]] * 2)}),
    ("indices must have", weigh, {"y": f32(2, 3), "indices": ints(1, 2, 3)}),
    ("indices.size(1)", weigh, {"y": f32(2, 3), "indices": ints(*[[1, 2]] * 2)}),
]


@pytest.mark.parametrize(("words", "call", "changed"), WRONG)
def test_wrong_calls_are_refused(words: str, call: Any, changed: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refusal:
        call(**changed)
    assert str(refusal.value).partition(": ")[2].startswith(words)
