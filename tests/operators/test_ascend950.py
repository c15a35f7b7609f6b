"""Ascend 950: operators that A2 and A3 have as well.

It computes what they do, and refuses what they refuse; what differs is in the tables: `GOOD_950`, `WRONG_950` and
`STATEMENTS_950`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from graph_quant import chip
from graph_quant.chip import A2, A2_A3_950, ASCEND_950
from graph_quant.meta import RECORDS, full
from graph_quant.refusals import Refusal
from hypothesis import reject
from torch.utils._pytree import tree_leaves

from operators.test_statements import assert_agrees_with_statement
from support.all_calls import GOOD, GOOD_950, STATEMENTS, STATEMENTS_950, WRONG, WRONG_950, Call, overload

SAMPLE = 4
# Eagerly their aclnn functions call other kernels on 950, which has none for their GE nodes.
ONLY_EAGER = ("npu_moe_token_permute", "npu_moe_token_unpermute")
# Their calls of 950 have tests of their own.
COVERED_BY_FILES = (
    "npu_add_rms_norm_dynamic_quant",
    "npu_add_rms_norm_quant",
    "npu_dequant_swiglu_quant",
    "npu_dynamic_block_quant",
    "npu_dynamic_quant",
    "npu_grouped_matmul",
    "npu_quant_matmul",
    "npu_quantize",
    "npu_rms_norm_quant",
    "npu_swiglu_quant",
    "npu_trans_quant_param",
    "npu_weight_quant_batchmatmul",
)


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def by_operator(calls: Iterable[Call]) -> dict[str, list[Call]]:
    grouped: dict[str, list[Call]] = {}
    for call in calls:
        if is_shared(call.op):
            grouped.setdefault(call.op, []).append(call)
    return grouped


def is_shared(op: str) -> bool:
    return RECORDS[full(op)].chips == A2_A3_950 and not op.startswith(COVERED_BY_FILES)


def run(call: Call, device: str) -> list[torch.Tensor]:
    args, kwargs = call.on(device)
    results = call.overload(*args, **kwargs)
    written = (args, kwargs) if call.overload._schema.is_mutable else ()
    return [leaf for leaf in tree_leaves((results, written)) if isinstance(leaf, torch.Tensor)]


def as_bits(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor's values, in which a NaN equals itself."""
    return tensor.cpu().contiguous().flatten().view(torch.uint8)


def assert_same_bits(call: Call, ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), str(call)
        assert torch.equal(as_bits(one), as_bits(other)), str(call)


def refusal(call: Call, device: str) -> str:
    try:
        run(call, device)
    except (Refusal, RuntimeError) as error:
        return str(error)
    return ""


OWN_RULES = by_operator(WRONG_950)


@pytest.mark.parametrize("op", by_operator(GOOD))
def test_calls_of_a2_have_its_results_or_break_a_rule_of_950(op: str) -> None:
    for call in by_operator(GOOD)[op]:
        message = refusal(call, "npu")
        if message:
            named = [wrong.argument for wrong in OWN_RULES.get(op, [])]
            assert any(argument in message for argument in named), f"{call}: {message}"
        elif op not in STATEMENTS_950:
            with chip.use(A2):
                expected = run(call, "npu")
            assert_same_bits(call, run(call, "npu"), expected)


@pytest.mark.parametrize("op", by_operator(WRONG))
def test_calls_that_a2_refuses_are_refused_or_computed(op: str) -> None:
    allowed = [call for call in by_operator(WRONG)[op] if not refusal(call, "npu")]
    assert not allowed or op in by_operator(GOOD_950), f"950 takes {', '.join(map(str, allowed))}"


@pytest.mark.parametrize("call", [call for calls in OWN_RULES.values() for call in calls], ids=str)
def test_rules_of_950_refuse_what_a2_takes(call: Call) -> None:
    for device in ("cpu", "npu", "meta"):
        message = refusal(call, device)
        assert f"{call.title}: " in message
        assert call.argument in message
        assert "got " in message
    with chip.use(A2):
        assert not refusal(call, "npu")


@pytest.mark.parametrize("call", [call for calls in by_operator(GOOD_950).values() for call in calls], ids=str)
def test_calls_of_950_alone(call: Call) -> None:
    results = run(call, "npu")
    for one, other in zip(run(call, "meta"), results, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    with chip.use(A2):
        assert f"{call.title}: " in refusal(call, "npu")


@pytest.mark.parametrize("op", [op for op in {**STATEMENTS, **STATEMENTS_950} if is_shared(op)])
def test_results_agree_with_the_statement(op: str) -> None:
    statement = {**STATEMENTS, **STATEMENTS_950}[op]

    def compute(*args: Any, **kwargs: Any) -> Any:
        try:
            return (statement.computed or overload(op))(*args, **kwargs)
        except RuntimeError as error:
            if "not described for Ascend 950 yet" not in str(error):
                raise
            return reject()

    assert_agrees_with_statement(op, replace(statement, computed=compute), SAMPLE)


def _in_graph(op: str) -> list[Call]:
    """One call that A2 takes as well, and all of 950 alone."""
    shared = [call for call in by_operator(GOOD).get(op, []) if not refusal(call, "meta")]
    return shared[:1] + by_operator(GOOD_950).get(op, [])


FAMILIES: dict[str, list[str]] = {}
for shared in {**by_operator(GOOD), **by_operator(GOOD_950)}:
    if shared in ONLY_EAGER:
        continue
    rules = RECORDS[full(shared)].rules
    assert rules is not None
    FAMILIES.setdefault(rules.__module__.split(".")[2], []).append(shared)


@pytest.mark.parametrize("op", ONLY_EAGER)
def test_operators_without_a_node_are_refused_in_graphs(op: str) -> None:
    call = by_operator(GOOD)[op][0]
    torch._dynamo.reset()
    compiled = torch.compile(lambda *args: call.overload(*args), backend="npu", fullgraph=True)
    with pytest.raises(Exception, match=r"no host kernel for MoeToken\w+ on Ascend 950"):
        compiled(*call.on("npu")[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_graphs_have_the_bits_of_eager_execution(family: str) -> None:
    calls = [call for op in FAMILIES[family] for call in _in_graph(op)]
    expected = [run(call, "npu") for call in calls]
    torch._dynamo.reset()

    def make_calls(arguments: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
        return [call.overload(*args, **kwargs) for call, (args, kwargs) in zip(calls, arguments, strict=True)]

    arguments = [call.on("npu") for call in calls]
    results = torch.compile(make_calls, backend="npu", fullgraph=True)(arguments)
    for call, result, wanted, inputs in zip(calls, results, expected, arguments, strict=True):
        written = inputs if call.overload._schema.is_mutable else ()
        leaves = [leaf for leaf in tree_leaves((result, written)) if isinstance(leaf, torch.Tensor)]
        assert_same_bits(call, leaves, wanted)
