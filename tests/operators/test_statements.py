"""Generated calls with data: results agree with an independent statement of each operator in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch

from support.all_calls import STATEMENTS, Statement, overload
from support.call_strategies import run


def arrays(results: Any) -> list[np.ndarray]:  # type: ignore[type-arg]
    listed = results if isinstance(results, (tuple, list)) else [results]
    return [
        result.float().numpy() if _is_half(result) else np.asarray(result) for result in listed if result is not None
    ]


def _is_half(result: Any) -> bool:
    return isinstance(result, torch.Tensor) and result.dtype in (torch.bfloat16, torch.float16)


@pytest.mark.parametrize("op", STATEMENTS)
def test_results_agree_with_the_statement(op: str) -> None:
    assert_agrees_with_statement(op, STATEMENTS[op], STATEMENTS[op].sample)


def assert_agrees_with_statement(op: str, statement: Statement, sample: int | None) -> None:
    compute = statement.computed or overload(op)

    def agrees(call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        args, kwargs = call
        expected = arrays(statement.expected(*args, **kwargs))
        computed = arrays(compute(*args, **kwargs))
        for one, other in zip(computed, expected, strict=True):
            assert one.shape == other.shape
            if statement.bound and one.dtype.kind == "f":
                largest = np.max(np.abs(other), initial=0.0, where=np.isfinite(other))
                np.testing.assert_allclose(one, other, rtol=0, atol=statement.bound * largest)
            else:
                np.testing.assert_array_equal(one, other)

    run(agrees, statement.calls, sample)
