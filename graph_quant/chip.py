"""Which chip the rules and lowerings are for: they are those of Ascend A2 and A3, and other chips have more."""

from __future__ import annotations

import torch_npu


def is_950() -> bool:
    """Whether this process runs on Ascend 950."""
    name = str(torch_npu.npu.get_device_name())
    return "Ascend950" in name or "Ascend910_95" in name


def is_310p() -> bool:
    """Whether this process runs on Ascend 310P."""
    return "Ascend310P" in str(torch_npu.npu.get_device_name())


def is_a3() -> bool:
    """Whether this process runs on Atlas A3, or a host that stands for it."""
    return "Ascend910_93" in str(torch_npu.npu.get_device_name())


def has_other_kernels() -> bool:
    """Whether this process runs on Ascend 950 or 310P: what is refused here is left to upstream there."""
    return is_950() or is_310p()
