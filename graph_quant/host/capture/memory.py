"""Whose memory an address is."""

import torch


def belongs_to_a_graph(address: int) -> bool:
    """Tell whether an address lies in a pool of captured graphs: those keep their memory while they live."""
    for segment in torch.npu.memory_snapshot():  # type: ignore[attr-defined]
        if segment["address"] <= address < segment["address"] + segment["total_size"]:
            return bool(segment["segment_pool_id"] != (0, 0))
    return False
