"""Every rule of the constraint table refuses its wrong call, eagerly and when traced, naming the argument."""

import ast
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from graph_quant import meta
from graph_quant.refusals import Refusal
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from support.all_calls import WRONG, WRONG_EAGERLY, WRONG_FORMATS, WRONG_VALUES, Call

# Families whose tables have a wrong call for each rule, and files whose rules are covered by another test instead.
FAMILIES = ("matmul", "moe")
COVERED_BY = {
    "matmul/matmul_add_fp32.py": "test_atb.py",
    "matmul/quant_conv2d.py": "test_quant_conv2d.py",
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


def rules_of(module: Path) -> Iterator[ast.Call]:
    """The calls that state a rule."""
    for call in ast.walk(ast.parse(module.read_text())):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            owner = call.func.value
            if "rules" in (getattr(owner, "id", ""), getattr(owner, "attr", "")):
                yield call


def refusing_lines(call: Call) -> set[tuple[str, int]]:
    """The source lines of the records at which a wrong call was refused."""
    record = meta.RECORDS[meta.full(call.op)]
    try:
        if any(call is wrong for wrong in WRONG_FORMATS):
            call.overload(*call.on("npu")[0], **call.on("npu")[1])
        record.plan(record.bind(*call.on("cpu")))
    except Refusal as refusal:
        frames = traceback.walk_tb(refusal.__traceback__)
        return {(frame.f_code.co_filename, line) for frame, line in frames}
    return set()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_rule_refuses_a_call_of_the_tables(family: str) -> None:
    folder = Path(meta.__file__).parent
    refused = set().union(
        *(refusing_lines(call) for call in (*WRONG, *WRONG_EAGERLY, *WRONG_FORMATS) if is_of(family, call))
    )
    silent = [
        f"{module.name}:{rule.lineno}"
        for module in sorted((folder / family).glob("*.py"))
        if f"{family}/{module.name}" not in COVERED_BY
        for rule in rules_of(module)
        if not any((str(module), line) in refused for line in range(rule.lineno, (rule.end_lineno or 0) + 1))
    ]
    assert silent == []


def is_of(family: str, call: Call) -> bool:
    rules = meta.RECORDS[meta.full(call.op)].rules
    return rules is not None and f".{family}." in rules.__module__
