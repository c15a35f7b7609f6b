"""Engines pad a batch of packed sequences with sequences without keys, whose results nobody reads."""

from typing import Any

import pytest
import torch
import torch_npu

TABLE = torch.ones(2048, 2048, dtype=torch.bool).triu(1).npu()
BLOCKS = torch.arange(4, dtype=torch.int32)[:, None].npu()
HEADS = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "TND", "scale": 0.2}


def half(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))).half().npu()


def attend(query: torch.Tensor, cache: torch.Tensor, ends: list[int], lengths: list[int], **options: Any) -> Any:
    sequences = {"actual_seq_lengths": ends, "actual_seq_lengths_kv": lengths, "block_table": BLOCKS[: len(ends)]}
    mask = {"atten_mask": TABLE, "sparse_mode": 3}
    return torch_npu.npu_fused_infer_attention_score(
        query, cache, cache, **HEADS, **sequences, **{**mask, **options}, block_size=16, softmax_lse_flag=True
    )


@pytest.mark.parametrize("options", [{}, {"atten_mask": None, "sparse_mode": 0}, {"sparse_mode": 4}])
def test_their_results_are_zeros(options: dict[str, Any]) -> None:
    query, cache = half(5, 4, 32), half(4, 16, 64)
    padded, padded_lse = attend(query, cache, [1, 3, 4, 5], [5, 9, 0, 0], **options)
    result, lse = attend(query[:3], cache, [1, 3], [5, 9], **options)
    assert torch.equal(padded[:3], result)
    assert torch.equal(padded_lse[:3], lse)
    assert not padded[3:].any()
    assert padded_lse[3:].isposinf().all()


def test_a_sink_does_not_change_them() -> None:
    sink = torch.ones(4, dtype=torch.bfloat16, device="npu")
    result, lse = torch_npu.npu_fused_infer_attention_score_v2(
        half(2, 4, 32).bfloat16(), half(3, 2, 32).bfloat16(), half(3, 2, 32).bfloat16(), num_query_heads=4,
        num_key_value_heads=2, input_layout="TND", atten_mask=TABLE, sparse_mode=3, learnable_sink=sink,
        actual_seq_qlen=[1, 2], actual_seq_kvlen=[3, 3], return_softmax_lse=True,
    )  # fmt: skip
    assert result[0].all()
    assert not result[1].any()
    assert lse[1].isposinf().all()


def test_replays_take_them() -> None:
    query, cache = half(2, 4, 32), half(2, 16, 64)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        result, _ = attend(query, cache, [1, 2], [3, 4])
    graph.update(cpu_update_input=[{"actual_seq_lengths": [1, 2], "actual_seq_lengths_kv": [7, 0]}])
    graph.replay()
    expected, _ = attend(query, cache, [1, 2], [7, 0])
    assert torch.equal(result, expected)
    assert not result[1].any()


@pytest.mark.parametrize(
    ("change", "lengths"),
    [({}, [5, 1]), ({"inner_precise": 1}, [5, 0]), ({"quant_scale2": torch.ones(1, device="npu")}, [5, 0])],
    ids=["fewer keys than queries", "another kernel", "an int8 result"],
)
def test_what_kernels_refuse(change: dict[str, Any], lengths: list[int]) -> None:
    with pytest.raises(RuntimeError):
        attend(half(3, 4, 32), half(2, 16, 64), [1, 3], lengths, **change)
