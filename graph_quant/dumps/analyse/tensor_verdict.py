"""Compares a tensor of a device with the one that the host computes."""

from __future__ import annotations

import enum
import math

import torch

# Tolerance per element, relative to the element plus the root mean square of the result: a device sums in another
# order, and rounds partial sums to its own precision.
ROUNDING = {torch.float64: 2**-30, torch.float32: 2**-10, torch.float16: 2**-6, torch.bfloat16: 2**-4}
_MOST_STEPS = 1  # by which a quantised element may differ, if its sum is near a rounding boundary
_MOST_SHARE_OF_STEPS = 0.02


class Verdict(enum.Enum):
    """The outcome of comparing one node or call."""

    EQUAL = "equal bits"
    CLOSE = "within rounding"
    WRONG = "wrong"
    INHERITED = "wrong, as their inputs are"
    UNKNOWN = "not comparable"


def compare_tensors(name: str, device: torch.Tensor, expected: torch.Tensor) -> tuple[Verdict, str]:
    """Compare a device's tensor with the host's; also say where and by how much they differ."""
    if device.shape != expected.shape:
        return Verdict.WRONG, f"{name} has the shape {list(device.shape)}, the host {list(expected.shape)}"
    if device.dtype != expected.dtype:
        return Verdict.WRONG, f"{name} is {device.dtype}, the host's {expected.dtype}"
    if device.is_complex():
        device, expected = torch.view_as_real(device), torch.view_as_real(expected)
    # Compared before the conversion to float64, which rounds long integers.
    same = (device == expected) | (device.isnan() & expected.isnan())
    differing = int((~same).sum())
    if not differing:
        return (Verdict.EQUAL if _is_same_sign(device, expected) else Verdict.CLOSE), ""
    one, other = device.to(torch.float64), expected.to(torch.float64)
    error = torch.where(same, 0.0, (one - other).abs())
    if device.dtype in ROUNDING:
        finite = one.isfinite() & other.isfinite()
        usual = float(other[finite].square().mean().sqrt()) if bool(finite.any()) else 0.0
        far = ~(finite & (error <= ROUNDING[device.dtype] * (other.abs() + usual))) & ~same
    else:
        few = differing <= max(1, _MOST_SHARE_OF_STEPS * device.numel()) and device.element_size() == 1
        far = (error > _MOST_STEPS) if few and device.dtype != torch.bool else ~same
    if not bool(far.any()):
        return Verdict.CLOSE, ""
    position = int(far.reshape(-1).nonzero()[0])
    index = [int(part) for part in torch.unravel_index(torch.tensor(position), device.shape)]
    noise, signal = float(error.square().sum()), float(other.nan_to_num(posinf=0, neginf=0).square().sum())
    ratio = f", SQNR {10 * math.log10(signal / noise):.1f} dB" if signal > 0 and 0 < noise < math.inf else ""
    values = [float(tensor.reshape(-1)[position]) for tensor in (one, other)]
    there = f"at {index} the device has {values[0]:.7g}, the host {values[1]:.7g}"
    return Verdict.WRONG, f"{name} differs in {differing} of {device.numel()} elements; {there}{ratio}"


def _is_same_sign(device: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether equal values have equal signs: zeros may differ."""
    signs = [torch.signbit(tensor) & ~tensor.isnan() for tensor in (device, expected)]
    return torch.equal(*signs)
