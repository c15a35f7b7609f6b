"""Calls of npu_moe_update_expert."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly, tensor
from support.call_table import Case, Statement, bad, good
from support.tensors import f16, f32, f64

OP = "moe_update_expert"
IDS = torch.tensor([[0, 2], [1, 0], [2, 1]], dtype=torch.int32)
TABLE = torch.tensor([[2, 5, 7, 0], [1, 3, 0, 0], [3, 1, 2, 4]], dtype=torch.int32)
TURNS = {"balance_mode": 1}
SCALES, LEAST = torch.tensor([[0.5, 0.25], [0.75, 0.0], [0.5, 0.5]]), torch.tensor([0.5, 0.25])
PRUNED = {**TURNS, "expert_scales": SCALES, "pruning_threshold": LEAST}
GOOD = [
    good(OP, "by rank", IDS, TABLE, local_rank_id=3, world_size=4),
    good(OP, "by turns", IDS.long(), TABLE, **TURNS),
    good(OP, "pruned", IDS, TABLE, **PRUNED),
    good(OP, "half scales, active tokens", IDS, TABLE, **TURNS, expert_scales=SCALES.half(),
         pruning_threshold=LEAST[None], active_mask=torch.tensor([True, True, False])),
    good(OP, "views", IDS.t().contiguous().t(), TABLE.t().contiguous().t(), **TURNS),
]  # fmt: skip
WRONG = [
    bad(OP, "expert_ids", "int16", IDS.to(torch.int16), TABLE, **TURNS),
    bad(OP, "expert_ids", "one dimension", IDS[0], TABLE, **TURNS),
    bad(OP, "eplb_table", "int64", IDS, TABLE.long(), **TURNS),
    bad(OP, "eplb_table", "three dimensions", IDS, TABLE[None], **TURNS),
    bad(OP, "expert_ids.size(0)", "no tokens", IDS[:0], TABLE, **TURNS),
    bad(OP, "expert_ids.size(0)", "too many tokens", IDS[:1].repeat(513, 1), TABLE, **TURNS),
    bad(OP, "expert_ids.size(1)", "too many choices", IDS[:, :1].repeat(1, 17), TABLE.repeat(6, 1), **TURNS),
    bad(OP, "expert_ids.size(1)", "more choices than experts", IDS.repeat(1, 2), TABLE, **TURNS),
    bad(OP, "eplb_table.size(0)", "too many experts", IDS, TABLE[:1].repeat(1024, 1), **TURNS),
    bad(OP, "eplb_table.size(1)", "counts alone", IDS, TABLE[:, :1], **TURNS),
    bad(OP, "eplb_table.size(1)", "more replicas than ranks", IDS, TABLE, local_rank_id=0, world_size=2),
    bad(OP, "balance_mode", "2", IDS, TABLE, balance_mode=2),
    bad(OP, "world_size", "not given", IDS, TABLE, local_rank_id=0),
    bad(OP, "local_rank_id", "after the last", IDS, TABLE, local_rank_id=4, world_size=4),
    bad(OP, "expert_scales and pruning_threshold", "scales alone", IDS, TABLE, **TURNS, expert_scales=SCALES),
    bad(OP, "expert_scales", "float64", IDS, TABLE, **PRUNED | {"expert_scales": f64(3, 2)}),
    bad(OP, "expert_scales", "one dimension", IDS, TABLE, **PRUNED | {"expert_scales": SCALES[0]}),
    bad(OP, "expert_scales.size(1)", "one choice", IDS, TABLE, **PRUNED | {"expert_scales": SCALES[:, :1]}),
    bad(OP, "expert_scales", "a mask alone", IDS, TABLE, **TURNS, active_mask=torch.ones(3, dtype=torch.bool)),
    bad(OP, "active_mask", "numbers", IDS, TABLE, **PRUNED, active_mask=torch.ones(3, dtype=torch.int8)),
    bad(OP, "active_mask", "two dimensions", IDS, TABLE, **PRUNED, active_mask=torch.ones(3, 1, dtype=torch.bool)),
    bad(OP, "active_mask.size(0)", "two tokens", IDS, TABLE, **PRUNED, active_mask=torch.ones(2, dtype=torch.bool)),
    bad(OP, "pruning_threshold", "float16", IDS, TABLE, **PRUNED | {"pruning_threshold": LEAST.half()}),
    bad(OP, "pruning_threshold", "none", IDS, TABLE, **PRUNED | {"pruning_threshold": torch.tensor(0.5)}),
    bad(OP, "pruning_threshold.size(-1)", "one", IDS, TABLE, **PRUNED | {"pruning_threshold": LEAST[:1]}),
    bad(OP, "pruning_threshold.size(0)", "two rows", IDS, TABLE, **PRUNED | {"pruning_threshold": LEAST.repeat(2, 1)}),
]
WRONG_VALUES = [
    bad(OP, "expert_ids[0][1]", "no such expert", torch.tensor([[0, 3]]), TABLE, **TURNS),
    bad(OP, "eplb_table[1][0]", "no replica", IDS, TABLE * torch.tensor([[1], [0], [1]], dtype=torch.int32), **TURNS),
    bad(OP, "active_mask[2]", "active after one that is not", IDS, TABLE, **PRUNED,
        active_mask=torch.tensor([True, False, True])),
]  # fmt: skip


def golden() -> Case:
    return lambda ids, table, scales, least: torch_npu.npu_moe_update_expert(
        ids, table, expert_scales=scales, pruning_threshold=least, balance_mode=1
    ), (IDS, TABLE, SCALES, LEAST)


GOLDEN = {OP: golden()}


def expected(ids: torch.Tensor, table: torch.Tensor, **options: Any) -> list[Any]:
    """Choice by choice, as in the document's code; sums of sixteenths are exact."""
    rows, replicas = table.tolist(), np.zeros(tuple(ids.shape), ids.numpy().dtype)
    stays = np.zeros(tuple(ids.shape), bool)
    for token, experts in enumerate(ids.tolist()):
        for choice, expert in enumerate(experts):
            count, *all_replicas = rows[expert]
            share = -(-options["world_size"] // count)
            index = options["local_rank_id"] // share if options["balance_mode"] == 0 else token % count
            replicas[token, choice] = all_replicas[index if count > 1 else 0]
            if options.get("expert_scales") is not None:
                scales = options["expert_scales"][token].double()
                enough = scales[choice] >= scales.sum() * options["pruning_threshold"].double().flatten()[choice]
                active = options.get("active_mask")
                stays[token, choice] = bool(enough) and (active is None or bool(active[token]))
    return [replicas, stays]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    experts, ranks = draw(st.integers(2, 5)), draw(st.integers(3, 6))
    tokens, chosen = draw(st.integers(1, 5)), draw(st.integers(1, 2))
    table = torch.randint(32, (experts, 4), dtype=torch.int32)
    table[:, 0] = torch.randint(1, 4, (experts,))
    ids = torch.randint(experts, (tokens, chosen), dtype=draw(st.sampled_from([torch.int32, torch.int64])))
    options: dict[str, Any] = {"balance_mode": draw(st.sampled_from([0, 1])), "world_size": ranks}
    options["local_rank_id"] = draw(st.integers(0, ranks - 1))
    if draw(st.booleans()):
        options["expert_scales"] = (torch.randint(17, (tokens, chosen)) / 16).to(
            draw(st.sampled_from([torch.float32, torch.float16]))
        )
        options["pruning_threshold"] = torch.randint(5, draw(st.sampled_from([(chosen,), (1, chosen)]))) / 4
        if draw(st.booleans()):
            options["active_mask"] = torch.arange(tokens) < draw(st.integers(0, tokens))
    return (ids, table), options


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    ids = tensor(draw, (2, 1), torch.int32)
    table = torch.ones(draw(st.sampled_from([2, 3])), 3, dtype=mostly(draw, torch.int32, st.just(torch.int64)))
    return (ids, table), {
        "balance_mode": mostly(draw, 1, st.just(0)),
        "expert_scales": draw(st.sampled_from([None, f16(2, 1), f32(1)])),
    }


CALLS = {f"npu_{OP}": calls()}
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data())}
