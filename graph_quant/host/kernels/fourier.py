"""Fourier transforms along the last dimension, of contiguous inputs: strides affect the last bits."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ge import Sizes, kernel


@kernel("FFT")
def fft(x: Tensor) -> Tensor:
    return torch.fft.fft(x.contiguous())


@kernel("IFFT")
def inverse_fft(x: Tensor) -> Tensor:
    return torch.fft.ifft(x.contiguous())


@kernel("RFFT")
def real_fft(input: Tensor, fft_length: Sizes) -> Tensor:  # noqa: A002
    return torch.fft.rfft(input.contiguous(), fft_length.ints[0])


@kernel("IRFFT")
def inverse_real_fft(x: Tensor, fft_length: Sizes) -> Tensor:
    return torch.fft.irfft(x.contiguous(), fft_length.ints[0])
