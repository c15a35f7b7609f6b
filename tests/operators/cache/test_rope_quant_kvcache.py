"""npu_rope_quant_kvcache and its dequantising form write their caches in place although their schemas do not say so."""

from typing import Any

import pytest
import torch

from operators.cache.rope_quant_kvcache import DEQUANT, OFFSETS, PAGE, PLAIN, SCALED, call, expected, positions
from support.call_table import overload
from support.tensors import bf16, f16, f32, on, small32

CALLS = [
    (PLAIN, call(), OFFSETS),
    (PLAIN, call(f16, rank=2, indices=positions(7, 3)), {**PAGE, "kv_output": True}),
    (DEQUANT, call(small32, f16), {**SCALED, "bias": small32(256), "kv_output": True}),
    (DEQUANT, call(small32, bf16), {**SCALED, "bias": f16(256), "activation_scale": f32(2, 3)}),
]


def run(op: str, args: Any, options: Any) -> Any:
    return overload(f"npu_{op}")(*args, **options)


def calls_on_npu() -> list[Any]:
    return [
        (op, on("npu", args), {name: on("npu", value) for name, value in options.items()})
        for op, args, options in CALLS
    ]


def test_caches_are_written_and_returned_eagerly_and_in_a_graph() -> None:
    eager, compiled = calls_on_npu(), calls_on_npu()
    results = [run(*item) for item in eager]
    torch._dynamo.reset()
    graph = torch.compile(lambda calls: [run(*item) for item in calls], backend="npu", fullgraph=True)
    for (_, args, options), (_, others, _), one, other in zip(eager, compiled, results, graph(compiled), strict=True):
        wanted = len(one) if options.get("kv_output") else 1
        assert [item.numel() for item in one[wanted:3]] == [0] * (3 - wanted)
        for mine, theirs in zip(one, other, strict=True):
            assert torch.equal(mine, theirs)
        for index in (3, 4):
            assert torch.equal(args[index], one[index])
            assert torch.equal(others[index], one[index])


@pytest.mark.parametrize(("op", "args", "options"), CALLS, ids=lambda tensor: tensor if isinstance(tensor, str) else "")
def test_inference_agrees_with_execution(op: str, args: Any, options: Any) -> None:
    inferred = run(op, on("meta", args), {name: on("meta", tensor) for name, tensor in options.items()})
    computed = run(op, [tensor.clone() if isinstance(tensor, torch.Tensor) else tensor for tensor in args], options)
    assert [(tensor.shape, tensor.dtype) for tensor in inferred] == [
        (tensor.shape, tensor.dtype) for tensor in computed
    ]


def test_caches_equal_those_of_the_statement() -> None:
    op, args, options = CALLS[2]
    _, _, _, k_cache, v_cache = expected(*args, **options)
    fresh = [argument.clone() if isinstance(argument, torch.Tensor) else argument for argument in args]
    run(op, fresh, options)
    assert torch.equal(fresh[3], k_cache)
    assert torch.equal(fresh[4], v_cache)
