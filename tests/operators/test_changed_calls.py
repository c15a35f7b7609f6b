"""Allowed calls, with one change: meta tensors and the npu accept the same, and refuse it naming the operator.

Whether a change is still allowed is for the tables to say. What must not be is a call that passes inference and then
ends in an error of PyTorch's own, or gives another shape than was inferred: rules that leave something out do that.
"""

from itertools import chain
from random import Random

import pytest
import torch
from graph_quant.refusals import Refusal
from torch.utils._pytree import tree_leaves

from support.all_calls import GOOD, Call
from support.call_strategies import EXAMPLES
from support.mutated_calls import changed

OPERATORS = sorted({call.op for call in GOOD})
TRIED = EXAMPLES // 10
Layout = tuple[torch.Size, torch.dtype, tuple[int, ...]]


@pytest.mark.parametrize("op", OPERATORS)
def test_a_changed_call_is_inferred_as_it_is_computed(op: str) -> None:
    calls = list(chain.from_iterable(changed(call) for call in GOOD if call.op == op))
    for call in Random(op).sample(calls, min(TRIED, len(calls))):
        inferred, computed = (_outcome(call, device) for device in ("meta", "npu"))
        if isinstance(computed, Exception):
            assert isinstance(computed, (Refusal, TypeError)) or _is_named(call, computed), f"{call}: {computed!r}"
            # Data may be refused where the layout is right; then a rule of its own says so.
            assert isinstance(inferred, Exception) or isinstance(computed, Refusal), f"{call}: {computed!r}"
        else:
            assert inferred == computed, call


def _is_named(call: Call, error: Exception) -> bool:
    return f"{call.title}: " in str(error) or f"npu::{call.title}" in str(error)


def _outcome(call: Call, device: str) -> list[Layout] | Exception:
    args, kwargs = call.on(device)
    try:
        results = call.overload(*args, **kwargs)
    except Exception as error:
        return error
    return [
        (result.size(), result.dtype, result.stride())
        for result in tree_leaves(results)
        if isinstance(result, torch.Tensor)
    ]
