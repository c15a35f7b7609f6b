"""npu_moe_distribute_combine_add_rms_norm on A3: two ranks as threads, compared with NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu

from support.tensors import bf16, f16, f32, i32
from support.thread_ranks import ranks

RNG = np.random.default_rng(12)
RANKS, EXPERTS, TOKENS, CHOSEN, WIDTH = 2, 4, 3, 2, 1024


@pytest.fixture(autouse=True)
def on_a3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_npu.npu, "get_device_name", lambda *_: "Ascend910_9392")


def integers(*shape: int) -> np.ndarray:
    """Integers whose sums of squares are exact in any order."""
    return RNG.integers(-4, 5, shape).astype(np.float32)


def rounded(x: np.ndarray) -> np.ndarray:
    return torch.tensor(x).bfloat16().float().numpy()


def test_combined_rows_and_residual_are_normalised() -> None:
    x, residual, gamma = integers(RANKS, TOKENS, WIDTH), integers(RANKS, TOKENS, 1, WIDTH), integers(WIDTH)
    weights = RNG.integers(1, 4, (RANKS, TOKENS, CHOSEN)).astype(np.float32) / 16
    ids = np.array([[RNG.permutation(EXPERTS)[:CHOSEN] for _ in range(TOKENS)] for _ in range(RANKS)], np.int32)
    masks = [None, np.array([True, True, False])]

    def run(rank: int, name: str) -> Any:
        group, experts = (name, RANKS, rank, EXPERTS), torch.tensor(ids[rank])
        results = []
        for mask in masks:
            options = {} if mask is None else {"x_active_mask": torch.tensor(mask)}
            dispatched = torch_npu.npu_moe_distribute_dispatch_v2(
                torch.tensor(x[rank]).bfloat16(), experts, *group, **options
            )
            back = dispatched[0], experts, dispatched[2], dispatched[4], torch.tensor(weights[rank])
            added = torch.tensor(residual[rank]).bfloat16(), torch.tensor(gamma).bfloat16()
            call = torch_npu.npu_moe_distribute_combine_add_rms_norm
            results.append(call(*back, *added, *group, norm_eps=1e-5, **options))
        return results

    with ranks(RANKS) as by_all:
        answers = by_all(run)
    for rank in range(RANKS):
        total = residual[rank] + (x[rank] * weights[rank].sum(1)[:, None])[:, None]
        rstd = np.float32(1) / np.sqrt((total * total).sum(2, keepdims=True) / np.float32(WIDTH) + np.float32(1e-5))
        y = rounded(rounded(total * rstd) * gamma)
        for mask, (got_y, got_rstd, got_x) in zip(masks, answers[rank], strict=True):
            keep = np.ones(TOKENS, bool) if mask is None else mask
            assert np.array_equal(got_x.float().numpy(), rounded(total) * keep[:, None, None])
            assert np.array_equal(got_rstd.numpy(), rstd * keep[:, None, None])
            assert np.array_equal(got_y.float().numpy(), y * keep[:, None, None])
            assert (got_y.dtype, got_rstd.dtype, got_x.dtype) == (torch.bfloat16, torch.float32, torch.bfloat16)


RIGHT: dict[str, Any] = {
    "expand_x": bf16(8, WIDTH), "expert_ids": i32(3, 2), "expand_idx": i32(1024), "ep_send_counts": i32(4),
    "expert_scales": f32(3, 2), "residual_x": bf16(3, 1, WIDTH), "gamma": bf16(WIDTH), "group_ep": "group",
    "ep_world_size": 2, "ep_rank_id": 0, "moe_expert_num": 4,
}  # fmt: skip
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("activation_scale", {"activation_scale": f32(3)}),
    ("weight_scale", {"weight_scale": f32(3)}),
    ("group_list", {"group_list": i32(3)}),
    ("out_dtype", {"out_dtype": 1}),
    ("comm_quant_mode", {"comm_quant_mode": 2}),
    ("group_list_type", {"group_list_type": 1}),
    ("shared_expert_rank_num", {"shared_expert_rank_num": 1}),
    ("shared_expert_num", {"shared_expert_num": 2}),
    ("expand_x", {"expand_x": f16(8, WIDTH)}),
    ("expand_idx", {"expand_idx": f32(1024)}),
    ("comm_alg", {"comm_alg": "hierarchy"}),
    ("residual_x must be", {"residual_x": f16(3, 1, WIDTH)}),
    ("residual_x must have", {"residual_x": bf16(3, WIDTH)}),
    ("residual_x.size(0)", {"residual_x": bf16(2, 1, WIDTH)}),
    ("residual_x.size(1)", {"residual_x": bf16(3, 2, WIDTH)}),
    ("residual_x.size(2)", {"residual_x": bf16(3, 1, 512)}),
    ("gamma must be", {"gamma": f32(WIDTH)}),
    ("gamma must have", {"gamma": bf16(1, WIDTH)}),
    ("gamma.size(0)", {"gamma": bf16(512)}),
]


@pytest.mark.parametrize(("words", "change"), WRONG, ids=[words for words, _ in WRONG])
def test_wrong_calls_are_refused_by_name(words: str, change: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError) as raised:
        torch_npu.npu_moe_distribute_combine_add_rms_norm(**{**RIGHT, **change})
    assert f"npu_moe_distribute_combine_add_rms_norm: {words}" in str(raised.value)


def test_a2_has_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="npu_moe_distribute_combine_add_rms_norm: it must run on A3"):
        torch_npu.npu_moe_distribute_combine_add_rms_norm(**RIGHT)
