"""Convolutions of integers, whose sums are exact: against float64 with explicit padding, and autograd."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from support.kernel_samples.base import Case, kernel_sample, sizes, whole

KINDS = (torch.float32, torch.float16, torch.bfloat16)


class Setting(NamedTuple):
    x: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    stride: list[int]
    pads: list[int]
    dilation: list[int]
    groups: int

    @property
    def attributes(self) -> dict[str, Any]:
        """Strides and dilations with those of batch and channels, as GE has them."""
        return {
            "strides": [1, 1, *self.stride],
            "pads": self.pads,
            "dilations": [1, 1, *self.dilation],
            "groups": self.groups,
        }

    def run(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        rank = len(self.stride)
        pairs = [self.pads[2 * at : 2 * at + 2] for at in reversed(range(rank))]
        padded = functional.pad(x.double(), [side for two in pairs for side in two])
        call = {2: functional.conv2d, 3: functional.conv3d}[rank]
        bias = None if bias is None else bias.double()
        return call(padded, weight.double(), bias, self.stride, 0, self.dilation, self.groups)


def setting(chance: random.Random, rank: int, even: bool) -> Setting:
    dtype, groups = chance.choice(KINDS), chance.choice((1, 2))
    channels, results = groups * chance.randint(1, 2), groups * chance.randint(1, 2)
    window = [chance.randint(1, 3) for _ in range(rank)]
    before = [chance.randint(0, 2) for _ in range(rank)]
    after = before if even else [chance.randint(0, 2) for _ in range(rank)]
    images = [chance.randint(0, 2), channels, *(chance.randint(5, 6) for _ in range(rank))]
    return Setting(
        whole(images, dtype),
        whole([results, channels // groups, *window], dtype),
        whole([results], dtype) if chance.random() < 0.5 else None,
        [chance.randint(1, 2) for _ in range(rank)],
        [side for two in zip(before, after, strict=True) for side in two],
        [chance.randint(1, 2) for _ in range(rank)],
        groups,
    )


def _rank(op_type: str, rank: int) -> None:
    @kernel_sample(f"Conv{op_type}")
    def forward(chance: random.Random) -> Case:
        sample = setting(chance, rank, even=False)
        expected = sample.run(sample.x, sample.weight, sample.bias).to(sample.x.dtype)
        return Case([sample.x, sample.weight, sample.bias], sample.attributes, expected)

    @kernel_sample(f"Conv{op_type}BackpropInput")
    def input_grad(chance: random.Random) -> Case:
        sample = setting(chance, rank, even=True)
        dy = whole(sample.run(sample.x, sample.weight).shape, sample.x.dtype)
        expected = _gradient(sample, sample.x, dy)
        return Case([sizes(sample.x.shape), sample.weight, dy], sample.attributes, expected.to(sample.x.dtype))

    @kernel_sample(f"Conv{op_type}BackpropFilter")
    def filter_grad(chance: random.Random) -> Case:
        sample = setting(chance, rank, even=True)
        dy = whole(sample.run(sample.x, sample.weight).shape, sample.x.dtype, most=1)
        expected = _gradient(sample, sample.weight, dy)
        return Case([sample.x, sizes(sample.weight.shape), dy], sample.attributes, expected.to(sample.x.dtype))

    @kernel_sample(f"Conv{op_type}Transpose")
    def transposed(chance: random.Random) -> Case:
        """The gradient of a convolution by its input, plus a bias."""
        sample = setting(chance, rank, even=True)
        image = sample.x.new_zeros([max(sample.x.size(0), 1), *sample.x.shape[1:]])
        y = whole(sample.run(image, sample.weight).shape, sample.x.dtype)
        bias = whole([image.size(1)], sample.x.dtype) if chance.random() < 0.5 else None
        expected = _gradient(sample._replace(x=image), image, y)
        if bias is not None:
            expected = expected + bias.double().reshape([1, -1] + [1] * rank)
        left = _left(sample, y.shape[2:])
        input_size: Sequence[int] = image.shape if chance.random() < 0.5 else [0] * image.dim()
        attributes = {**sample.attributes, "output_padding": [0, 0, *left]}
        return Case([sizes(input_size), y, sample.weight, bias], attributes, expected.to(sample.x.dtype))


def _gradient(sample: Setting, by: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    x, weight = sample.x.double(), sample.weight.double()
    target = x if by is sample.x else weight
    target.requires_grad_()
    return torch.autograd.grad(sample.run(x, weight), target, dy.double())[0]


def _left(sample: Setting, results: Sequence[int]) -> list[int]:
    """The elements at the end of the input that no window covers."""
    covered = [
        (count - 1) * sample.stride[at]
        + sample.dilation[at] * (sample.weight.size(2 + at) - 1)
        + 1
        - 2 * sample.pads[2 * at]
        for at, count in enumerate(results)
    ]
    return [sample.x.size(2 + at) - length for at, length in enumerate(covered)]


_rank("2D", 2)
_rank("3D", 3)
