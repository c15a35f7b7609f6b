"""Calls on Ascend 950: that eager execution, meta tensors, compiled and captured graphs agree bit for bit."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from graph_quant.destination import Refusal
from graph_quant.host.engine import use

Operator = Callable[..., Any]


def on_device(value: Any, device: str) -> Any:
    """Tensors, also in lists and dictionaries, on ``device``."""
    if isinstance(value, dict):
        return {key: on_device(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [on_device(item, device) for item in value]
    return value.to(device) if isinstance(value, torch.Tensor) else value


def as_list(results: Any) -> list[torch.Tensor]:
    """One result or several as a list."""
    return [results] if isinstance(results, torch.Tensor) else list(results)


def same_bits(ours: Any, theirs: Any) -> bool:
    """Whether results have the same shapes, dtypes and bits."""
    pairs = list(zip(as_list(ours), as_list(theirs), strict=True))
    return all((one.dtype, one.shape) == (other.dtype, other.shape) for one, other in pairs) and all(
        torch.equal(one.cpu().contiguous().view(torch.uint8), other.cpu().contiguous().view(torch.uint8))
        if one.dim()
        else torch.equal(one.cpu(), other.cpu())
        for one, other in pairs
    )


def run_in_every_mode(
    operator: Operator, calls: Sequence[tuple[Sequence[Any], dict[str, Any]]], engine: str = "eager"
) -> list[list[torch.Tensor]]:
    """The results of eager calls, after meta tensors, one compiled graph and a captured one agreed with them."""
    for args, options in calls:
        eager = as_list(operator(*on_device(args, "npu"), **on_device(options, "npu")))
        meta = as_list(operator(*on_device(args, "meta"), **on_device(options, "meta")))
        for one, other in zip(eager, meta, strict=True):
            assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
    inputs = [on_device(args, "npu") for args, _ in calls]
    options_on_npu = [on_device(options, "npu") for _, options in calls]

    def run(inputs: list[Any]) -> list[list[torch.Tensor]]:
        return [as_list(operator(*args, **options)) for args, options in zip(inputs, options_on_npu, strict=True)]

    eager_results = run(inputs)
    torch._dynamo.reset()
    with use(engine):
        compiled = torch.compile(run, backend="npu", fullgraph=True, dynamic=True)(inputs)
    graph = torch.npu.NPUGraph()  # type: ignore[attr-defined]
    with torch.npu.graph(graph):  # type: ignore[attr-defined]
        captured = run(inputs)
    graph.replay()
    for index, results in enumerate(eager_results):
        assert same_bits(compiled[index], results), f"compiled, call {index}"
        assert same_bits(captured[index], results), f"captured, call {index}"
    return [on_device(results, "cpu") for results in eager_results]


def assert_refused(operator: Operator, message: str, args: Sequence[Any], options: dict[str, Any]) -> None:
    """Assert that a call is refused with ``message``, eagerly and on meta tensors."""
    for device in ("npu", "meta"):
        with pytest.raises(Refusal) as refused:
            operator(*on_device(args, device), **on_device(options, device))
        assert message in str(refused.value), str(refused.value)
