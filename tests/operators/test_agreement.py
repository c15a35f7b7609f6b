"""Generated calls of every operator, valid and wrong: inference and eager execution agree on all.

They agree on shape, dtype and strides, and on the words of a refusal. Calls are drawn near the rules'
edges: sizes from a handful of values, so that they match about as often as not, and dtypes with a wrong one
now and then.
"""

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from support.all_calls import CALLS, overload
from support.call_strategies import outcome, run
from support.refusals import is_of_eager_execution, is_of_values


@pytest.mark.parametrize("op", CALLS)
def test_inference_agrees_with_eager_execution(op: str) -> None:
    def agrees(call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        eager = outcome(overload(op), *call)
        with FakeTensorMode() as mode:
            args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, call)
            inferred = outcome(overload(op), args, kwargs)
        if is_of_eager_execution(eager):
            return
        if is_of_values(eager):
            assert inferred == eager or not isinstance(inferred, str), (
                "values of an index are for eager execution to refuse"
            )
        else:
            assert inferred == eager

    run(agrees, CALLS[op])
