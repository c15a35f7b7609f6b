"""Convolutions of whole numbers, whose sums are exact: against float64, padded by hand, and autograd."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from support.kernel_samples.base import Case, sizes, trial, whole

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
        padded = functional.pad(x.double(), [each for two in pairs for each in two])
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
        [each for two in zip(before, after, strict=True) for each in two],
        [chance.randint(1, 2) for _ in range(rank)],
        groups,
    )


def _rank(op_type: str, rank: int) -> None:
    @trial(f"Conv{op_type}")
    def forward(chance: random.Random) -> Case:
        made = setting(chance, rank, even=False)
        expected = made.run(made.x, made.weight, made.bias).to(made.x.dtype)
        return Case([made.x, made.weight, made.bias], made.attributes, expected)

    @trial(f"Conv{op_type}BackpropInput")
    def input_grad(chance: random.Random) -> Case:
        made = setting(chance, rank, even=True)
        dy = whole(made.run(made.x, made.weight).shape, made.x.dtype)
        expected = _gradient(made, made.x, dy)
        return Case([sizes(made.x.shape), made.weight, dy], made.attributes, expected.to(made.x.dtype))

    @trial(f"Conv{op_type}BackpropFilter")
    def filter_grad(chance: random.Random) -> Case:
        made = setting(chance, rank, even=True)
        dy = whole(made.run(made.x, made.weight).shape, made.x.dtype, most=1)
        expected = _gradient(made, made.weight, dy)
        return Case([made.x, sizes(made.weight.shape), dy], made.attributes, expected.to(made.x.dtype))

    @trial(f"Conv{op_type}Transpose")
    def transposed(chance: random.Random) -> Case:
        """The gradient of a convolution by its input, plus a bias."""
        made = setting(chance, rank, even=True)
        image = made.x.new_zeros([max(made.x.size(0), 1), *made.x.shape[1:]])
        given = whole(made.run(image, made.weight).shape, made.x.dtype)
        bias = whole([image.size(1)], made.x.dtype) if chance.random() < 0.5 else None
        expected = _gradient(made._replace(x=image), image, given)
        if bias is not None:
            expected = expected + bias.double().reshape([1, -1] + [1] * rank)
        left = _left(made, given.shape[2:])
        asked: Sequence[int] = image.shape if chance.random() < 0.5 else [0] * image.dim()
        attributes = {**made.attributes, "output_padding": [0, 0, *left]}
        return Case([sizes(asked), given, made.weight, bias], attributes, expected.to(made.x.dtype))


def _gradient(made: Setting, by: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    x, weight = made.x.double(), made.weight.double()
    target = x if by is made.x else weight
    target.requires_grad_()
    return torch.autograd.grad(made.run(x, weight), target, dy.double())[0]


def _left(made: Setting, results: Sequence[int]) -> list[int]:
    """What the windows of a convolution leave of its input at the far end."""
    covered = [
        (count - 1) * made.stride[at] + made.dilation[at] * (made.weight.size(2 + at) - 1) + 1 - 2 * made.pads[2 * at]
        for at, count in enumerate(results)
    ]
    return [made.x.size(2 + at) - each for at, each in enumerate(covered)]


_rank("2D", 2)
_rank("3D", 3)
