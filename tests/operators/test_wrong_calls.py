"""Every rule of the constraint table refuses its wrong call, eagerly and when traced, naming the argument."""

import os
from functools import partial
from pathlib import Path

import pytest
import torch
from graph_quant import chip, meta
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from operators.matmul import test_grouped_matmul_950 as grouped_matmul_950
from support.all_calls import WRONG, WRONG_950, WRONG_EAGERLY, WRONG_FORMATS, WRONG_VALUES, Call
from support.stated_rules import refusing_lines, rules_without_a_call

# Families whose tables have a wrong call for each rule, and files whose rules are covered by another test instead.
FAMILIES = ("matmul", "moe")
COVERED_BY = {
    "matmul/add_quant_matmul.py": "test_add_quant_matmul.py",
    "matmul/dual_level_quant_matmul.py": "test_dual_level_quant_matmul.py",
    "matmul/grouped_matmul_950.py": "test_grouped_matmul_950.py",
    "matmul/grouped_matmul_swiglu_quant_950.py": "test_grouped_matmul_swiglu_quant_950.py",
    "matmul/matmul_add_fp32.py": "test_atb.py",
    "matmul/quant_conv2d.py": "test_quant_conv2d.py",
    "matmul/quant_matmul_950.py": "test_quant_matmul_950.py",
    "matmul/transpose_quant_batchmatmul.py": "test_transpose_quant_batchmatmul.py",
    "matmul/weight_quant_950.py": "test_weight_quant_batchmatmul_950.py",
    "moe/fused_add_topk_div.py": "test_atb.py",
    "moe/group_topk.py": "test_atb.py",
}
BY_OPERATOR: dict[str, list[Call]] = {}
for wrong in WRONG:
    BY_OPERATOR.setdefault(wrong.op, []).append(wrong)


def assert_names_argument(call: Call, message: str) -> None:
    refusal = next((line for line in message.splitlines() if f"{call.title}: " in line), "")
    assert refusal, f"{call}: {message}"
    words = refusal[refusal.index(f"{call.title}: ") + len(call.title) + 2 :]
    assert call.argument in words
    assert "got " in words or "None" in words


def refused(call: Call, device: str) -> str:
    args, kwargs = call.on(device)
    with pytest.raises(RuntimeError) as refusal:
        call.overload(*args, **kwargs)
    return str(refusal.value)


# One test per operator: there are thousands of calls.
@pytest.mark.parametrize("op", BY_OPERATOR)
def test_refused_eagerly_and_on_meta_tensors(op: str) -> None:
    for call in BY_OPERATOR[op]:
        for device in ("cpu", "npu", "meta"):
            try:
                message = refused(call, device)
            except pytest.fail.Exception:
                pytest.fail(f"{call} on {device} is not refused")
            assert_names_argument(call, message)


# One trace per operator: making a trace takes longer than all its calls.
@pytest.mark.parametrize("op", BY_OPERATOR)
def test_refused_when_traced(op: str) -> None:
    calls = BY_OPERATOR[op]
    leaves, form = tree_flatten([call.on("npu") for call in calls])
    indices = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    refused = []

    def make_calls(*tensors: torch.Tensor) -> None:
        inputs = {**dict(enumerate(leaves)), **dict(zip(indices, tensors, strict=True))}
        for call, (args, kwargs) in zip(calls, tree_unflatten(list(inputs.values()), form), strict=True):
            with pytest.raises(RuntimeError) as refusal:
                call.overload(*args, **kwargs)
            assert_names_argument(call, str(refusal.value))
            refused.append(call)

    make_fx(make_calls, tracing_mode="symbolic")(*(leaves[index] for index in indices))
    assert refused == calls


# Compiling takes a hundred times as long as tracing, and uses the same code: one call of every third operator.
COMPILED = [calls[-1] for calls in BY_OPERATOR.values()]


@pytest.mark.parametrize("call", COMPILED if "GRAPH_QUANT_EXAMPLES" in os.environ else COMPILED[::3], ids=str)
def test_refused_when_compiled(call: Call) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda *args, **kwargs: call.overload(*args, **kwargs), backend="npu", fullgraph=True)
    args, kwargs = call.on("npu")
    with pytest.raises(Exception) as refusal:  # noqa: PT011 (Dynamo wraps the error in one of its own)
        compiled(*args, **kwargs)
    assert_names_argument(call, str(refusal.value))


@pytest.mark.parametrize("call", WRONG_EAGERLY, ids=str)
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_mixed_dtypes_are_refused_eagerly_and_not_by_inference(call: Call, device: str) -> None:
    args, kwargs = call.on(device)
    with pytest.raises(RuntimeError, match=r"when run eagerly.*a graph converts it") as refusal:
        call.overload(*args, **kwargs)
    assert_names_argument(call, str(refusal.value))
    args, kwargs = call.on("meta")
    call.overload(*args, **kwargs)


@pytest.mark.parametrize("call", WRONG_VALUES, ids=str)
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_index_values_are_refused_in_calls_with_data(call: Call, device: str) -> None:
    args, kwargs = call.on(device)
    with pytest.raises(RuntimeError) as refusal:
        call.overload(*args, **kwargs)
    assert_names_argument(call, str(refusal.value))


@pytest.mark.parametrize("call", WRONG_VALUES, ids=str)
def test_index_values_are_not_read_by_inference(call: Call) -> None:
    args, kwargs = call.on("meta")
    call.overload(*args, **kwargs)


@pytest.mark.parametrize("call", WRONG_FORMATS, ids=str)
def test_formats_are_refused_eagerly_and_in_captures(call: Call) -> None:
    """The CPU and traced tensors have no storage format."""
    assert_names_argument(call, refused(call, "npu"))
    args, kwargs = call.on("npu")
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError) as refusal, torch.npu.graph(graph):
        call.overload(*args, **kwargs)
    assert_names_argument(call, str(refusal.value))
    for device in ("cpu", "meta"):
        args, kwargs = call.on(device)
        call.overload(*args, **kwargs)


def plan(call: Call) -> None:
    """Evaluate the rules of a wrong call."""
    record = meta.RECORDS[meta.full(call.op)]
    if any(call is wrong for wrong in WRONG_FORMATS):
        call.overload(*call.on("npu")[0], **call.on("npu")[1])
    with chip.use(chip.ASCEND_950 if any(call is wrong for wrong in WRONG_950) else chip.A2):
        record.plan(record.bind(*call.on("cpu")))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_rule_refuses_a_call_of_the_tables(family: str) -> None:
    folder = Path(meta.__file__).parent
    calls = [call for call in (*WRONG, *WRONG_EAGERLY, *WRONG_FORMATS, *WRONG_950) if is_of(family, call)]
    refused = set().union(*(refusing_lines(partial(plan, call)) for call in calls))
    if family == "matmul":
        with chip.use(chip.ASCEND_950):
            refused = refused.union(*map(refusing_lines, grouped_matmul_950.wrong_calls()))
    modules = (folder / family).glob("*.py")
    checked = (module for module in modules if f"{family}/{module.name}" not in COVERED_BY)
    assert rules_without_a_call(checked, refused) == []


def is_of(family: str, call: Call) -> bool:
    rules = meta.RECORDS[meta.full(call.op)].rules
    return rules is not None and f".{family}." in rules.__module__
