"""Memory pools of captured graphs."""

import torch


def is_in_graph_pool(address: int) -> bool:
    """Whether an address lies in a memory pool of captured graphs, which keep their memory while they live."""
    for segment in torch.npu.memory_snapshot():  # type: ignore[attr-defined]
        if segment["address"] <= address < segment["address"] + segment["total_size"]:
            return bool(segment["segment_pool_id"] != (0, 0))
    return False
