"""npu_rope_quant_kvcache and its dequantising form write their caches in place though their schemas do not say so."""

from typing import Any

import pytest
import torch

from operators.cache.rope_quant_kvcache import DEQUANT, OFFSETS, PAGE, PLAIN, SCALED, call, expected, places
from support.call_table import overload
from support.tensors import bf16, f16, f32, on, small32

CALLS = [
    (PLAIN, call(), OFFSETS),
    (PLAIN, call(f16, rank=2, indices=places(7, 3)), {**PAGE, "kv_output": True}),
    (DEQUANT, call(small32, f16), {**SCALED, "bias": small32(256), "kv_output": True}),
    (DEQUANT, call(small32, bf16), {**SCALED, "bias": f16(256), "activation_scale": f32(2, 3)}),
]


def made(op: str, args: Any, options: Any) -> Any:
    return overload(f"npu_{op}")(*args, **options)


def given() -> list[Any]:
    return [
        (op, on("npu", args), {name: on("npu", value) for name, value in options.items()})
        for op, args, options in CALLS
    ]


def test_caches_are_written_and_given_back_and_a_graph_does_the_same() -> None:
    eager, compiled = given(), given()
    results = [made(*each) for each in eager]
    torch._dynamo.reset()
    graph = torch.compile(lambda calls: [made(*each) for each in calls], backend="npu", fullgraph=True)
    for (_, args, options), (_, others, _), one, other in zip(eager, compiled, results, graph(compiled), strict=True):
        wanted = len(one) if options.get("kv_output") else 1
        assert [each.numel() for each in one[wanted:3]] == [0] * (3 - wanted)
        for mine, theirs in zip(one, other, strict=True):
            assert torch.equal(mine, theirs)
        for index in (3, 4):
            assert torch.equal(args[index], one[index])
            assert torch.equal(others[index], one[index])


@pytest.mark.parametrize(("op", "args", "options"), CALLS, ids=lambda tensor: tensor if isinstance(tensor, str) else "")
def test_inference_agrees(op: str, args: Any, options: Any) -> None:
    inferred = made(op, on("meta", args), {name: on("meta", tensor) for name, tensor in options.items()})
    computed = made(op, [tensor.clone() if isinstance(tensor, torch.Tensor) else tensor for tensor in args], options)
    assert [(tensor.shape, tensor.dtype) for tensor in inferred] == [
        (tensor.shape, tensor.dtype) for tensor in computed
    ]


def test_keys_and_values_are_those_of_the_statement() -> None:
    op, args, options = CALLS[2]
    _, _, _, k_cache, v_cache = expected(*args, **options)
    fresh = [argument.clone() if isinstance(argument, torch.Tensor) else argument for argument in args]
    made(op, fresh, options)
    assert torch.equal(fresh[3], k_cache)
    assert torch.equal(fresh[4], v_cache)
