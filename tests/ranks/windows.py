"""Run by both of two ranks: tokens written into windows of other ranks, compared with the layout as NumPy states it."""

import time
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch_npu

BATCH, TOKENS, CHOSEN, EXPERTS, SHARED, WIDTH = 1, 3, 2, 3, 1, 1056
SLOTS = CHOSEN + SHARED
ATTENTION, FFN = 1, 0


def windows() -> None:
    with patch.object(torch_npu.npu, "get_device_name", lambda *_: "Ascend910_9392"):
        for check in (floats, quantised, back, refusals):
            check(dist.get_rank())


def group_with_windows(size: int) -> tuple[dist.ProcessGroup, Any, str]:
    group = dist.new_group([0, 1])
    backend = group._get_backend(torch.device("npu"))
    backend._window_register_and_exchange(size, [1 - dist.get_rank()])
    return group, backend, backend.get_hccl_comm_name(dist.get_rank())


def given(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    x = torch.randn(1, TOKENS, WIDTH).to(dtype)
    ids = torch.tensor([[[2, 0], [1, 2], [0, 1]]], dtype=torch.int32)
    table = torch.tensor([[[1, 0, 4], [1, 0, 5], [1, 0, 6], [1, 0, 7]]], dtype=torch.int32)
    return x, ids, table


def send(x: torch.Tensor, ids: torch.Tensor, table: torch.Tensor, name: str, width: int, **more: Any) -> None:
    zero = torch.zeros(1, dtype=torch.int32, device="npu")
    torch_npu.npu_attention_to_ffn(
        x.npu(), zero, zero, zero, ids.npu(), table.npu(), name, 2, [1, BATCH, 2 + TOKENS * SLOTS],
        [1, BATCH, TOKENS, SLOTS, width], [BATCH, TOKENS, SLOTS], EXPERTS, **more,
    )  # fmt: skip


def wait_for(flag: torch.Tensor) -> None:
    while int(flag) != 1:
        time.sleep(0.001)


def tables(backend: Any, width: int, dtype: Any) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    window = backend._get_window_mem()
    info = window[: 4 * (2 + TOKENS * SLOTS)].view(torch.int32)
    wait_for(info[0])
    whole = window.cpu().numpy()
    size = TOKENS * SLOTS * width * np.dtype(dtype).itemsize
    return info.cpu().numpy(), whole[512 : 512 + size].view(dtype).reshape(TOKENS, SLOTS, width), info


def floats(rank: int) -> None:
    """Twice: the second call waits until the first tokens are taken."""
    group, backend, name = group_with_windows(1 << 16)
    x, ids, table = given(torch.float16)
    if rank == ATTENTION:
        send(x, ids, table, name, WIDTH)
        send(-x, ids, table, name, WIDTH, active_mask=torch.tensor([[True, True, False]]).npu())
    else:
        for sign, sent in ((1, 3), (-1, 2)):
            info, data, flags = tables(backend, WIDTH, np.float16)
            experts = [[*(4 + ids[0, token].numpy()), 7] for token in range(TOKENS)]
            assert info.tolist() == [1, 0, *np.ravel(experts)]
            for token in range(sent):
                for slot in range(SLOTS):
                    assert np.array_equal(data[token, slot], sign * x[0, token].numpy()), (token, slot)
            flags[0] = 0
        assert np.array_equal(data[2, 0], x[0, 2].numpy())  # it was left out
    dist.barrier(group)
    dist.destroy_process_group(group)


def quantised(rank: int) -> None:
    """In eager mode, from a GE graph and from a captured graph, whose first run and replay send once each."""
    group, backend, name = group_with_windows(1 << 16)
    x, ids, table = given(torch.bfloat16)
    torch.manual_seed(4)
    scales = torch.rand(1, EXPERTS + SHARED, WIDTH) + 0.5
    wide = WIDTH + 128
    if rank == ATTENTION:

        def sent(x: torch.Tensor) -> torch.Tensor:
            send(x, ids, table, name, wide, scales=scales, quant_mode=2, sync_flag=1)
            return x + 1

        ids, table, scales, x = ids.npu(), table.npu(), scales.npu(), x.npu()
        for call in (sent, *(torch.compile(sent, backend=name, dynamic=False) for name in ("npu", "npugraph_ex"))):
            for sign in (1, -1):
                assert torch.equal(call(sign * x), sign * x + 1)
    else:
        for sign in (1, -1) * 3:
            _, data, flags = tables(backend, wide, np.int8)
            for token in range(TOKENS):
                for slot in range(SLOTS):
                    expert = int(ids[0, token, slot]) if slot < CHOSEN else EXPERTS
                    row = sign * x[0, token].float().numpy() * scales[0, expert].numpy()
                    factor = np.float32(127) / np.abs(row).max()
                    assert np.array_equal(data[token, slot, :WIDTH], np.rint(row * factor).astype(np.int8))
                    assert data[token, slot, WIDTH : WIDTH + 4].view(np.float32)[0] == np.float32(1) / factor
            flags[0] = 0
    dist.barrier(group)
    dist.destroy_process_group(group)


def back(rank: int) -> None:
    group, backend, name = group_with_windows(1 << 16)
    torch.manual_seed(5)
    x = torch.randn(4, 1024).to(torch.float16)
    tokens, slots = [2, 0, 1, 1], [1, 0, 2, 0]
    if rank == FFN:
        indices = [torch.tensor(values, dtype=torch.int32).npu() for values in ([0] * 4, [0] * 4, tokens, slots)]
        count, ranks = torch.tensor([3]).npu(), torch.tensor([ATTENTION], dtype=torch.int32).npu()
        torch_npu.npu_ffn_to_attention(
            x.npu(), *indices, count, name, 2, [1, TOKENS, SLOTS], [1, TOKENS, SLOTS, 1040], attn_rank_table=ranks
        )
        dist.barrier(group)
    else:
        dist.barrier(group)
        whole = backend._get_window_mem().cpu().numpy()
        info = whole[: 4 * TOKENS * SLOTS].view(np.int32).reshape(TOKENS, SLOTS)
        data = whole[512 : 512 + 2 * TOKENS * SLOTS * 1040].view(np.float16).reshape(TOKENS, SLOTS, 1040)
        expected = np.zeros((TOKENS, SLOTS, 1040), np.float16)
        flags = np.zeros((TOKENS, SLOTS), np.int32)
        for row, (token, slot) in enumerate(zip(tokens[:3], slots[:3], strict=True)):
            expected[token, slot, :1024], flags[token, slot] = x[row].numpy(), 1
        assert np.array_equal(info, flags)
        assert np.array_equal(data, expected)
    dist.destroy_process_group(group)


def refusals(rank: int) -> None:
    """Calls that would write to wrong addresses on a device are refused."""
    group, backend, name = group_with_windows(1 << 12)
    x, ids, table = given(torch.float16)
    other = 1 - rank
    table[..., 1] = other
    refused_calls = {
        "window of rank": lambda: send(x, ids, table, name, WIDTH, ffn_start_rank_id=other),
        "expert_ids must be": lambda: send(x, ids + 2, table, name, WIDTH, ffn_start_rank_id=other),
        "expert_rank_table must count": lambda: send(x, ids, table * 0, name, WIDTH, ffn_start_rank_id=other),
        "expert_rank_table must name": lambda: send(x, ids, table, name, WIDTH, ffn_start_rank_id=rank),
        "registers its window once": lambda: backend._window_register_and_exchange(64, [other]),
        "no group of this process": lambda: send(x, ids, table, "another", WIDTH),
    }
    for words, call in refused_calls.items():
        with pytest.raises(RuntimeError, match=words):
            call()
    dist.barrier(group)
    dist.destroy_process_group(group)
