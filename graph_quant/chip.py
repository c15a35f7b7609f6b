"""The chip of this process. Rules and lowerings are those of A2 and A3; other chips support more."""

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
    """Whether this process runs on Atlas A3, or on a host device that reports it."""
    return "Ascend910_93" in str(torch_npu.npu.get_device_name())


def has_other_kernels() -> bool:
    """Whether this process runs on Ascend 950 or 310P, where calls that the rules refuse are left to upstream."""
    return is_950() or is_310p()
