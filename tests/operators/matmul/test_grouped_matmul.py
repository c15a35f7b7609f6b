"""npu_grouped_matmul as model code calls it: weights in FRACTAL_NZ, eagerly and in one graph."""

from typing import Any

import torch
import torch_npu
import torchair

from support.call_table import packed
from support.tensors import bf16, ends, f32, i8, i32

I64 = torch.int64
COUNTS = {"group_list": ends(3, 0, 5, 2, dtype=I64), "split_item": 3, "group_type": 0, "group_list_type": 1}
SPARSE = {**COUNTS, "group_list": torch.tensor([[2, 5], [0, 3], [1, 0], [3, 0]]), "group_list_type": 2}
TOKENS = {"scale": [bf16(4, 32)], "per_token_scale": [f32(10)], "tuning_config": [0], "output_dtype": 15}
W4A8 = {"bias": [f32(4, 64)], "scale": [packed(64, 4)[:, None]], "per_token_scale": [f32(10)], "output_dtype": 15}
W4A16 = {"antiquant_scale": [bf16(4, 2, 64)], "antiquant_offset": [bf16(4, 2, 64)], "output_dtype": 15}
CALLS: list[tuple[torch.Tensor, torch.Tensor, bool, dict[str, Any]]] = [
    (i8(10, 64), i32(4, 64, 8), True, {**W4A8, **COUNTS}),
    (i8(10, 32), i8(4, 32, 32), True, {"tuning_config": [0], "output_dtype": 3, **COUNTS}),
    (i8(10, 32), i8(4, 32, 32), True, {**TOKENS, **COUNTS}),
    (i8(10, 32), i8(4, 32, 32), True, {"tuning_config": [0], "output_dtype": 3, **SPARSE}),
    (i8(10, 32), i8(4, 32, 32), True, {**TOKENS, **SPARSE}),
    (bf16(10, 16), bf16(4, 16, 32), True, COUNTS),
    (
        bf16(10, 16),
        bf16(4, 16, 32),
        False,
        {"bias": [f32(4, 32)], **COUNTS, "group_list": ends(3, 3, 8, 10, dtype=I64), "group_list_type": 0},
    ),
    (bf16(10, 16), i32(4, 16, 8), False, {**W4A16, **COUNTS}),
]


def on_npu(value: Any) -> Any:
    if isinstance(value, list):
        return [on_npu(element) for element in value]
    return value.npu() if isinstance(value, torch.Tensor) else value


def test_calls_of_public_models() -> None:
    inputs = [
        (
            x.npu(),
            torch_npu.npu_format_cast(w.npu(), 29) if nz else w.npu(),
            {name: on_npu(option) for name, option in options.items()},
        )
        for x, w, nz, options in CALLS
    ]

    def run(inputs: list[Any]) -> list[torch.Tensor]:
        return [torch_npu.npu_grouped_matmul([x], [w], **options)[0] for x, w, options in inputs]

    eager = run(inputs)
    plain = [torch_npu.npu_grouped_matmul([x], [w], **options)[0] for x, w, _, options in CALLS]
    torch._dynamo.reset()
    graph = torch.compile(run, backend=torchair.get_npu_backend(), fullgraph=True)(inputs)
    for one, two, three in zip(plain, eager, graph, strict=True):
        assert torch.equal(one.view(torch.int8), two.cpu().view(torch.int8))
        assert torch.equal(one.view(torch.int8), three.cpu().view(torch.int8))


def test_x_is_unchanged_although_the_device_overwrites_it() -> None:
    x, w, _, options = CALLS[0]
    before = x.clone()
    torch_npu.npu_grouped_matmul([x], [w], **options)
    assert torch.equal(x, before)


def test_float_sums_stay_within_their_bound() -> None:
    """Sums of float32 in any order are off by no more than k times half a bit of the sum of magnitudes."""
    x, w = torch.randn(40, 300), torch.randn(3, 300, 20)
    y = torch_npu.npu_grouped_matmul([x], [w], group_list=torch.tensor([9, 9, 40]), split_item=3, group_type=0)[0]
    for rows, expert in ((slice(0, 9), 0), (slice(9, 40), 2)):
        exact = x[rows].double() @ w[expert].double()
        bound = (x[rows].abs().double() @ w[expert].abs().double()) * 300 * 2**-24
        assert ((y[rows] - exact).abs() <= bound).all()
