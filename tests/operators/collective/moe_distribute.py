"""Wrong calls of npu_moe_distribute_dispatch and _combine; allowed ones are in `ranks/experts.py`."""

from typing import Any

import torch

from support.call_table import Call, bad
from support.tensors import bf16, f16, f32, i32

X, IDS, GROUP, FIRST = f16(4, 64), i32(4, 2), ("a group", 2, 0, 8), ("a group", 8, 0, 8)
ROWS, WEIGHTS, INFO = f16(32, 64), f32(4, 2), i32(4096)


def i64(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.int64)


def true(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.bool)


def _of_both(op: str, group: tuple[Any, ...], x: torch.Tensor, *more: Any, **options: Any) -> list[Call]:
    """Wrong calls of dispatch and combine."""
    ranks = group[1]

    def wrong(argument: str, label: str, *other: Any, ids: torch.Tensor = IDS, **changed: Any) -> Call:
        return bad(op, argument, label, x, ids, *more, *(other or group), **{**options, **changed})

    return [
        wrong("ep_world_size", "one rank", "a group", 1, 0, 8),
        wrong("ep_world_size", "nine ranks on A2", "a group", 9, 0, 9),
        wrong("ep_rank_id", "a rank too many", "a group", ranks, ranks, 8),
        wrong("moe_expert_num", "no expert", "a group", ranks, 0, 0),
        wrong("moe_expert_num", "three experts for two ranks", "a group", ranks, 0, 3),
        wrong("tp_world_size", "tensor parallel", tp_world_size=2),
        wrong("expert_shard_type", "shared last", expert_shard_type=1),
        wrong("shared_expert_rank_num", "a rank for shared", shared_expert_rank_num=1),
        wrong("shared_expert_num", "two shared", shared_expert_num=2),
        wrong("expert_ids", "expert_ids int64", ids=i64(4, 2)),
        wrong("expert_ids", "expert_ids of one dimension", ids=i32(4)),
        wrong("expert_ids.size(0)", "no token", ids=i32(0, 2)),
        wrong("expert_ids.size(0)", "257 tokens", ids=i32(257, 2)),
        wrong("expert_ids.size(1)", "no expert of a token", ids=i32(4, 0)),
        wrong("expert_ids.size(1)", "nine of eight experts", ids=i32(4, 9)),
        wrong("global_bs", "fewer than none", global_bs=-2),
        wrong("global_bs", "seven tokens for two ranks", global_bs=7),
    ]


def _masks(op: str, *inputs: Any, **options: Any) -> list[Call]:
    return [
        bad(op, "x_active_mask", "a mask of numbers", *inputs, x_active_mask=i32(4), **options),
        bad(op, "x_active_mask", "a mask of three dimensions", *inputs, x_active_mask=true(4, 2, 1), **options),
        bad(op, "x_active_mask.size(0)", "a short mask", *inputs, x_active_mask=true(3), **options),
        bad(op, "x_active_mask.size(1)", "a narrow mask", *inputs, x_active_mask=true(4, 1), **options),
    ]


def _dispatch(op: str, group: tuple[Any, ...]) -> list[Call]:
    return [
        *_of_both(op, group, X),
        bad(op, "x", "x float32", f32(4, 64), IDS, *group),
        bad(op, "x", "x of one dimension", f16(64), IDS, *group),
        bad(op, "x.size(0)", "more tokens than choices", f16(5, 64), IDS, *group),
        bad(op, "x.size(1)", "16 wide", f16(4, 16), IDS, *group),
        bad(op, "x.size(1)", "48 wide", f16(4, 48), IDS, *group),
        bad(op, "x.size(1)", "7200 wide", f16(4, 7200), IDS, *group),
        bad(op, "quant_mode", "static", X, IDS, *group, quant_mode=1),
        bad(op, "scales", "scales of nothing quantised", X, IDS, *group, scales=f32(8, 64)),
        bad(op, "scales", "scales float16", X, IDS, *group, scales=f16(8, 64), quant_mode=2),
        bad(op, "scales", "scales of one dimension", X, IDS, *group, scales=f32(64), quant_mode=2),
        bad(op, "scales.size(0)", "an expert too few", X, IDS, *group, scales=f32(7, 64), quant_mode=2),
        bad(op, "scales.size(1)", "narrow scales", X, IDS, *group, scales=f32(8, 32), quant_mode=2),
        bad(op, "expert_scales", "weights float16", X, IDS, *group, expert_scales=f16(4, 2)),
        bad(op, "expert_scales.size(1)", "narrow weights", X, IDS, *group, expert_scales=f32(4, 1)),
        bad(op, "expert_token_nums_type", "2", X, IDS, *group, expert_token_nums_type=2),
    ]


def _combine(op: str, group: tuple[Any, ...]) -> list[Call]:
    inputs: dict[str, Any] = {"expand_scales": f32(32)}
    return [
        *_of_both(op, group, ROWS, INFO, i32(8), WEIGHTS, **inputs),
        bad(op, "expand_x", "rows float32", f32(32, 64), IDS, INFO, i32(8), WEIGHTS, *group, **inputs),
        bad(op, "expand_x.size(1)", "48 wide", f16(32, 48), IDS, INFO, i32(8), WEIGHTS, *group, **inputs),
        bad(op, "ep_send_counts", "counts int64", ROWS, IDS, INFO, i64(8), WEIGHTS, *group, **inputs),
        bad(op, "ep_send_counts", "counts of two dimensions", ROWS, IDS, INFO, i32(2, 4), WEIGHTS, *group, **inputs),
        bad(op, "expert_scales", "weights float16", ROWS, IDS, INFO, i32(8), f16(4, 2), *group, **inputs),
        bad(op, "expert_scales.size(0)", "short weights", ROWS, IDS, INFO, i32(8), f32(3, 2), *group, **inputs),
        bad(op, "expand_scales", "none on A2", ROWS, IDS, INFO, i32(8), WEIGHTS, *group),
        bad(op, "expand_scales", "float16", ROWS, IDS, INFO, i32(8), WEIGHTS, *group, expand_scales=f16(32)),
        bad(op, "expand_scales", "two dimensions", ROWS, IDS, INFO, i32(8), WEIGHTS, *group, expand_scales=f32(32, 1)),
        bad(op, "expand_scales.size(0)", "short", ROWS, IDS, INFO, i32(8), WEIGHTS, *group, expand_scales=f32(8)),
        bad(op, "shared_expert_x", "shared", ROWS, IDS, INFO, i32(8), WEIGHTS, *group, shared_expert_x=X, **inputs),
        bad(op, "comm_quant_mode", "int8", ROWS, IDS, INFO, i32(8), WEIGHTS, *group, comm_quant_mode=2, **inputs),
    ]


D, C, V2 = "moe_distribute_dispatch", "moe_distribute_combine", "_v2"
BACK: tuple[Any, ...] = (ROWS, IDS, INFO, i32(8), WEIGHTS, *GROUP)
BACK_OF_FIRST: tuple[Any, ...] = (*BACK[:5], *FIRST)
SCALES: dict[str, Any] = {"expand_scales": f32(32)}
WRONG = [
    *_dispatch(D, FIRST),
    bad(D, "x_active_mask", "without use", X, IDS, *FIRST, x_active_mask=true(4)),
    bad(D, "ep_world_size", "264 ranks", X, IDS, "a group", 264, 0, 264),
    bad(D, "moe_expert_num", "520 experts", X, IDS, "a group", 8, 0, 520),
    bad(D, "experts of a rank", "25 of a rank", X, IDS, "a group", 8, 0, 200),
    *_dispatch(D + V2, GROUP),
    *_masks(D + V2, X, IDS, *GROUP),
    bad(D + V2, "elastic_info", "fewer ranks", X, IDS, *GROUP, elastic_info=i32(12)),
    bad(D + V2, "performance_info", "times", X, IDS, *GROUP, performance_info=i64(2)),
    bad(D + V2, "y_dtype", "Ascend 950", X, IDS, *GROUP, y_dtype=1),
    bad(D + V2, "comm_alg", "two steps", X, IDS, *GROUP, comm_alg="hierarchy"),
    bad(D + V2, "zero_expert_num", "fewer than none", X, IDS, *GROUP, zero_expert_num=-1),
    bad(D + V2, "const_expert_num", "constants on A2", X, IDS, *GROUP, const_expert_num=1),
    bad(D + V2, "quant_mode", "int4 quantised", i32(4, 32), IDS, *GROUP, comm_alg="fullmesh", quant_mode=2),
    bad(D + V2, "scales", "int4 without scales", i32(4, 32), IDS, *GROUP, comm_alg="fullmesh"),
    bad(D + V2, "scales", "int4 scales float16", i32(4, 32), IDS, *GROUP, comm_alg="fullmesh", scales=f16(4)),
    bad(D + V2, "scales", "int4 scales of two", i32(4, 32), IDS, *GROUP, comm_alg="fullmesh", scales=f32(4, 1)),
    bad(D + V2, "scales.size(0)", "int4 scales short", i32(4, 32), IDS, *GROUP, comm_alg="fullmesh", scales=f32(3)),
    bad(D + V2, "x", "int4 by another algorithm", i32(4, 32), IDS, *GROUP, scales=f32(4)),
    *_combine(C, FIRST),
    bad(C, "x_active_mask", "without use", *BACK_OF_FIRST, x_active_mask=true(4), **SCALES),
    bad(C, "expand_idx", "indices int64", ROWS, IDS, i64(8), i32(8), WEIGHTS, *FIRST, **SCALES),
    bad(C, "activation_scale", "without use", *BACK_OF_FIRST, activation_scale=f32(4), **SCALES),
    bad(C, "weight_scale", "without use", *BACK_OF_FIRST, weight_scale=f32(4), **SCALES),
    bad(C, "group_list", "without use", *BACK_OF_FIRST, group_list=i64(4), **SCALES),
    bad(C, "out_dtype", "another", *BACK_OF_FIRST, out_dtype=1, **SCALES),
    bad(C, "group_list_type", "another", *BACK_OF_FIRST, group_list_type=1, **SCALES),
    *_combine(C + V2, GROUP),
    *_masks(C + V2, *BACK, **SCALES),
    bad(C + V2, "assist_info_for_combine", "int64", ROWS, IDS, i64(8), i32(8), WEIGHTS, *GROUP, **SCALES),
    bad(C + V2, "elastic_info", "fewer ranks", *BACK, elastic_info=i32(12), **SCALES),
    bad(C + V2, "performance_info", "times", *BACK, performance_info=i64(2), **SCALES),
    bad(C + V2, "comm_alg", "two steps", *BACK, comm_alg="hierarchy", **SCALES),
    bad(C + V2, "ori_x", "a copy of nothing", *BACK, copy_expert_num=1, **SCALES),
    bad(C + V2, "ori_x", "another dtype", *BACK, copy_expert_num=1, ori_x=bf16(4, 64), **SCALES),
    bad(C + V2, "ori_x", "three dimensions", *BACK, copy_expert_num=1, ori_x=f16(1, 4, 64), **SCALES),
    bad(C + V2, "ori_x.size(0)", "a token too few", *BACK, copy_expert_num=1, ori_x=f16(3, 64), **SCALES),
    bad(C + V2, "ori_x.size(1)", "narrow", *BACK, copy_expert_num=1, ori_x=f16(4, 32), **SCALES),
    bad(C + V2, "const_expert_num", "constants on A2", *BACK, const_expert_num=1, **SCALES),
]
