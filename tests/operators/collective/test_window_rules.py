"""Wrong calls on A3 of operators that write into windows; allowed calls are in `ranks/windows.py`."""

from typing import Any

import pytest
import torch
import torch_npu

from support.tensors import bf16, f16, f32, i32


def i64(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.int64)


def true(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.bool)


TO_FFN: dict[str, Any] = {
    "x": f16(1, 2, 1024), "session_id": i32(1), "micro_batch_id": i32(1), "layer_id": i32(1),
    "expert_ids": i32(1, 2, 2), "expert_rank_table": i32(1, 5, 3), "group": "group", "world_size": 2,
    "ffn_token_info_table_shape": [1, 1, 8], "ffn_token_data_shape": [1, 1, 2, 3, 1024],
    "attn_token_info_table_shape": [1, 2, 3], "moe_expert_num": 4,
}  # fmt: skip
TO_ATTENTION: dict[str, Any] = {
    "x": f16(4, 1024), "session_ids": i32(4), "micro_batch_ids": i32(4), "token_ids": i32(4),
    "expert_offsets": i32(4), "actual_token_num": i64(1), "group": "group", "world_size": 2,
    "token_info_table_shape": [1, 2, 3], "token_data_shape": [1, 2, 3, 1024],
}  # fmt: skip
WRONG_TO_FFN: list[tuple[str, dict[str, Any]]] = [
    ("group", {"group": ""}),
    ("world_size", {"world_size": 769}),
    ("moe_expert_num", {"moe_expert_num": 0}),
    ("quant_mode", {"quant_mode": 1}),
    ("sync_flag", {"sync_flag": 2}),
    ("ffn_start_rank_id must be from", {"ffn_start_rank_id": 2}),
    ("ffn_start_rank_id must leave room", {"ffn_start_rank_id": 2, "world_size": 3}),
    ("x must be", {"x": f32(1, 2, 1024)}),
    ("x must have", {"x": f16(2, 1024)}),
    ("x.size(0)", {"x": f16(2, 2, 1024)}),
    ("x.size(1) must be at least", {"x": f16(1, 0, 1024)}),
    ("x.size(1) must be at most", {"x": f16(1, 513, 1024)}),
    ("x.size(2) must be at least", {"x": bf16(1, 2, 1023)}),
    ("x.size(2) must be at most", {"x": bf16(1, 2, 8193)}),
    ("session_id must be", {"session_id": i64(1)}),
    ("micro_batch_id must have", {"micro_batch_id": i32(1, 1)}),
    ("layer_id.size(0)", {"layer_id": i32(2)}),
    ("expert_ids must be", {"expert_ids": i64(1, 2, 2)}),
    ("expert_ids must have", {"expert_ids": i32(2, 2)}),
    ("expert_ids.size(1)", {"expert_ids": i32(1, 3, 2)}),
    ("expert_ids.size(2) must be at least", {"expert_ids": i32(1, 2, 0)}),
    ("expert_ids.size(2) must be at most", {"expert_ids": i32(1, 2, 5)}),
    ("expert_rank_table must be", {"expert_rank_table": i64(1, 5, 3)}),
    ("expert_rank_table must have", {"expert_rank_table": i32(5, 3)}),
    ("expert_rank_table.size(0)", {"expert_rank_table": i32(2, 5, 3)}),
    ("expert_rank_table.size(1) must be at least", {"expert_rank_table": i32(1, 3, 3)}),
    ("expert_rank_table.size(1) must allow", {"expert_rank_table": i32(1, 9, 3)}),
    ("expert_rank_table.size(2)", {"expert_rank_table": i32(1, 5, 2)}),
    ("scales must be None", {"scales": f32(1, 5, 1024)}),
    ("scales must be torch.float32", {"scales": f16(1, 5, 1024), "quant_mode": 2}),
    ("scales must have", {"scales": f32(5, 1024), "quant_mode": 2}),
    ("scales.size(1)", {"scales": f32(1, 4, 1024), "quant_mode": 2}),
    ("scales.size(2)", {"scales": f32(1, 5, 512), "quant_mode": 2}),
    ("active_mask must be", {"active_mask": i32(1, 2)}),
    ("active_mask must have", {"active_mask": true(2)}),
    ("active_mask.size(1)", {"active_mask": true(1, 3)}),
    ("ffn_token_info_table_shape must have", {"ffn_token_info_table_shape": [1, 1]}),
    ("ffn_token_data_shape must have", {"ffn_token_data_shape": [1, 1, 2, 3]}),
    ("ffn_token_data_shape must count", {"ffn_token_data_shape": [2, 1, 2, 3, 1024]}),
    ("ffn_token_info_table_shape[0]", {"ffn_token_info_table_shape": [2, 1, 8]}),
    ("ffn_token_info_table_shape[1] must equal", {"ffn_token_info_table_shape": [1, 2, 8]}),
    ("ffn_token_info_table_shape[2]", {"ffn_token_info_table_shape": [1, 1, 7]}),
    ("ffn_token_data_shape[2]", {"ffn_token_data_shape": [1, 1, 3, 3, 1024]}),
    ("ffn_token_data_shape[3]", {"ffn_token_data_shape": [1, 1, 2, 2, 1024]}),
    ("ffn_token_data_shape[4] must be at least 1024", {"ffn_token_data_shape": [1, 1, 2, 3, 1000]}),
    ("ffn_token_data_shape[4] must be at least 1152", {"quant_mode": 2}),
    ("attn_token_info_table_shape", {"attn_token_info_table_shape": [1, 2, 2]}),
]
WRONG_TO_ATTENTION: list[tuple[str, dict[str, Any]]] = [
    ("group", {"group": "g" * 128}),
    ("world_size", {"world_size": 1}),
    ("x must be", {"x": f32(4, 1024)}),
    ("x must have", {"x": f16(1, 4, 1024)}),
    ("x.size(1) must be at least", {"x": f16(4, 1000)}),
    ("session_ids must be", {"session_ids": i64(4)}),
    ("micro_batch_ids must have", {"micro_batch_ids": i32(4, 1)}),
    ("token_ids.size(0)", {"token_ids": i32(3)}),
    ("expert_offsets.size(0)", {"expert_offsets": i32(5)}),
    ("actual_token_num must be", {"actual_token_num": i32(1)}),
    ("actual_token_num must have", {"actual_token_num": i64(1, 1)}),
    ("actual_token_num.size(0)", {"actual_token_num": i64(2)}),
    ("attn_rank_table must be", {"attn_rank_table": i64(1)}),
    ("attn_rank_table must have", {"attn_rank_table": i32(1, 1)}),
    ("attn_rank_table.size(0)", {"attn_rank_table": i32(2)}),
    ("token_info_table_shape must have", {"token_info_table_shape": [1, 2]}),
    ("token_data_shape must have", {"token_data_shape": [1, 2, 3]}),
    ("token_info_table_shape[2]", {"token_data_shape": [1, 2, 4, 1024]}),
    ("token_info_table_shape[0]", {"token_info_table_shape": [2, 2, 3], "token_data_shape": [2, 2, 3, 1024]}),
    ("token_data_shape[1]", {"token_info_table_shape": [1, 513, 3], "token_data_shape": [1, 513, 3, 1024]}),
    ("token_data_shape[2]", {"token_info_table_shape": [1, 2, 0], "token_data_shape": [1, 2, 0, 1024]}),
    ("token_data_shape[3] must be at most", {"token_data_shape": [1, 2, 3, 8321]}),
    ("token_data_shape[3] must be at least 2048", {"x": f16(4, 2048)}),
]


@pytest.fixture(autouse=True)
def on_a3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_npu.npu, "get_device_name", lambda *_: "Ascend910_9392")


@pytest.mark.parametrize(
    ("name", "arguments", "wrong"),
    [("npu_attention_to_ffn", TO_FFN, WRONG_TO_FFN), ("npu_ffn_to_attention", TO_ATTENTION, WRONG_TO_ATTENTION)],
)
def test_wrong_calls_are_refused_by_name(name: str, arguments: dict[str, Any], wrong: list[Any]) -> None:
    operator = getattr(torch.ops.npu, name)
    for words, change in wrong:
        with pytest.raises(RuntimeError, match=f"{name}: ") as raised:
            operator(**{**arguments, **change})
        assert f"{name}: {words}" in str(raised.value), change


@pytest.mark.parametrize(
    ("name", "arguments"), [("npu_attention_to_ffn", TO_FFN), ("npu_ffn_to_attention", TO_ATTENTION)]
)
def test_allowed_call_looks_up_its_group(name: str, arguments: dict[str, Any]) -> None:
    on_meta = {key: value.to("meta") if isinstance(value, torch.Tensor) else value for key, value in arguments.items()}
    assert getattr(torch.ops.npu, name)(**on_meta) is None
    with pytest.raises(RuntimeError, match="no group of this process is named 'group'"):
        getattr(torch.ops.npu, name)(**arguments)
