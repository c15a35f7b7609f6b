"""The pattern with which TorchAir looks for add_rms_norm followed by a quantisation."""

from types import ModuleType

import torch


def mend_example(module: ModuleType) -> None:
    """Give the pattern's example as many zero points as scales: one for 16 scales is no call of npu_quantize."""
    example = module._get_inputs

    def mended() -> tuple[torch.Tensor, ...]:
        *others, scales, zero_points = example()
        return (*others, scales, torch.ones_like(scales, dtype=zero_points.dtype))

    vars(module)["_get_inputs"] = mended
