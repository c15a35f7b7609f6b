"""Calls as public model code makes them, in its sizes: eagerly, and all of them in one graph."""

from collections.abc import Callable
from typing import Any

import torch
import torch_npu
import torchair


def experts(k: int, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(k + count)
    return torch.randint(count, (32, k), generator=generator, dtype=torch.int32)


def route(k: int, count: int, kind: int = 1, scale: bool = False) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def call(x: torch.Tensor, chosen: torch.Tensor, smooth: torch.Tensor | None) -> Any:
        return torch_npu.npu_moe_init_routing_v2(
            x,
            chosen,
            scale=smooth,
            active_num=32 * k,
            expert_num=count,
            expert_tokens_num_type=kind,
            expert_tokens_num_flag=True,
            active_expert_range=[0, count],
            quant_mode=1 if scale else -1,
        )

    return call, (torch.randn(32, 256).bfloat16(), experts(k, count), torch.rand(count, 256) if scale else None)


def gate(count: int, k: int, **options: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def call(x: torch.Tensor, bias: torch.Tensor) -> Any:
        return torch_npu.npu_moe_gating_top_k(x, k, bias=bias, **options)

    return call, (torch.randn(32, count), torch.randn(count))


def combine(k: int, skip: bool, dtype: torch.dtype, named: bool, mode: int) -> tuple[Callable[..., Any], Any]:
    def call(rows: torch.Tensor, skip: Any, scales: torch.Tensor, order: torch.Tensor, chosen: Any) -> Any:
        return torch_npu.npu_moe_finalize_routing(rows, skip, None, None, scales, order, chosen, drop_pad_mode=mode)

    order = torch.randperm(32 * k, generator=torch.Generator().manual_seed(k)).to(torch.int32)
    skipped = torch.randn(32, 256).bfloat16() if skip else None
    rows, scales = torch.randn(32 * k, 256).bfloat16(), torch.rand(32, k).to(dtype)
    return call, (rows, skipped, scales, order, experts(k, 8) if named else None)


def reorder(dtype: torch.dtype, scales: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def call(tokens: torch.Tensor, counts: torch.Tensor, per_token: torch.Tensor | None) -> Any:
        return torch_npu.npu_moe_re_routing(tokens, counts, per_token_scales=per_token)

    return call, ((torch.randn(256, 256) * 9).to(dtype), COUNTS.reshape(1, 256), torch.rand(256) if scales else None)


def made(op: Callable[..., Any], *args: Any, **options: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return lambda *inputs: op(*inputs, **options), args


def activate(rows: int, width: int, groups: torch.Tensor | None) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Quantised SwiGLU between the products of all experts, or of one expert that all tokens share."""

    def call(x: torch.Tensor, weight_scale: Any, token_scale: Any, smooth: Any, groups: Any) -> Any:
        options = {"group_index": groups, "activate_left": True, "quant_mode": 1}
        scales = {"weight_scale": weight_scale, "activation_scale": token_scale, "quant_scale": smooth}
        return torch_npu.npu_dequant_swiglu_quant(x, **scales, **options)

    x = torch.randint(-9999, 9999, (rows, width), dtype=torch.int32)
    shape, smooth = ((width, 1), (width // 2,)) if groups is None else ((256, width), (256, width // 2))
    return call, (x, torch.rand(shape) / 99, torch.rand(rows), torch.rand(smooth), groups)


COUNTS = torch.bincount(experts(8, 256).reshape(-1), minlength=256)
SPARSE = torch.stack((COUNTS.argsort(descending=True), COUNTS.sort(descending=True).values), 1)
ROWS = torch.arange(128, dtype=torch.int32).reshape(4, 32).t().contiguous()
BATCH = {"perm_x2": [0, 1, 2], "perm_y": [1, 0, 2]}
SIGMOID = {"group_select_mode": 1, "norm_type": 1, "routed_scaling_factor": 2.5}
CALLS = [
    gate(256, 8, k_group=4, group_count=8, **SIGMOID),
    gate(256, 8, **SIGMOID),
    gate(768, 12, routed_scaling_factor=6.0),
    route(8, 256, scale=True),
    route(8, 256, kind=2, scale=True),
    route(8, 256),
    route(8, 384),
    route(12, 512, scale=True),
    route(12, 512),
    route(4, 8),
    reorder(torch.int8, True),
    reorder(torch.bfloat16, True),
    reorder(torch.bfloat16, False),
    combine(8, True, torch.bfloat16, False, 2),
    combine(4, False, torch.bfloat16, True, 0),
    combine(12, False, torch.bfloat16, False, 2),
    combine(4, False, torch.float32, True, 2),
    activate(32, 1024, None),
    activate(256, 128, COUNTS),
    activate(256, 64, SPARSE),
    made(torch_npu.npu_swiglu, torch.randn(32, 1024).bfloat16()),
    made(torch_npu.npu_swiglu, torch.randn(1, 16, 1024).bfloat16()),
    made(torch_npu.npu_moe_gating_top_k_softmax, torch.randn(32, 8).bfloat16(), k=4),
    made(torch_npu.npu_moe_gating_top_k_softmax, torch.randn(32, 8), k=4),
    made(torch_npu.npu_moe_init_routing, torch.randn(32, 256).bfloat16(), ROWS, experts(4, 8), active_num=32),
    made(torch_npu.npu_moe_compute_expert_tokens, experts(4, 8).reshape(-1).sort().values, 8),
    made(
        torch_npu.npu_transpose_batchmatmul,
        torch.randn(4, 2, 512).bfloat16(),
        torch.randn(4, 512, 128).bfloat16(),
        perm_x1=[0, 1, 2],
        **BATCH,
    ),
    made(
        torch_npu.npu_transpose_batchmatmul,
        torch.randn(4, 2, 128).bfloat16().transpose(0, 1),
        torch.randn(4, 128, 512).bfloat16(),
        perm_x1=[1, 0, 2],
        **BATCH,
    ),
    made(torch_npu.npu_convert_weight_to_int4pack, torch.randint(-8, 8, (96, 128), dtype=torch.int32)),
]


def test_graph_gives_the_bits_of_eager_execution() -> None:
    def run(inputs: list[tuple[Any, ...]]) -> list[Any]:
        return [call(*args) for (call, _), args in zip(CALLS, inputs, strict=True)]

    on_npu = [tuple(value.npu() if isinstance(value, torch.Tensor) else value for value in args) for _, args in CALLS]
    torch._dynamo.reset()
    compiled = torch.compile(run, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=False)
    eager, graph = (torch.utils._pytree.tree_leaves(function(on_npu)) for function in (run, compiled))
    assert len(eager) == len(graph) == 3 * 3 + 7 * 4 + 3 * 4 + 4 + 3 * 2 + 2 + 2 * 3 + 3 + 1 + 2 + 1
    for one, other in zip(eager, graph, strict=True):
        assert torch.equal(one.cpu(), other.cpu())
