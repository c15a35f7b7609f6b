"""npu_format_cast in a graph becomes Identity: GE chooses the layouts of a graph's tensors itself."""

from __future__ import annotations

from typing import Any

import torch
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

OPERATOR = torch.ops.npu.npu_format_cast.default


def convert(x: Tensor, acl_format: int, meta_outputs: Any = None, **_dtypes: Any) -> Tensor:  # noqa: ARG001
    """The GE node of one call."""
    return ge.Identity(x)
