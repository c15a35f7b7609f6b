"""Matrix products of integers, which are exact in every order."""

from __future__ import annotations

import random

import numpy as np
import torch

from support.kernel_samples import base
from support.kernel_samples.base import FLOATS, Case, kernel_sample

KINDS = (torch.float32, torch.float16, torch.bfloat16, torch.int8)


def whole(sizes: list[int] | torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """Nonzero integers: the sign of a sum of zeros would depend on the order."""
    values = base.whole(sizes, dtype)
    return torch.where(values == 0, torch.ones_like(values), values)


def _product(chance: random.Random, batch: list[int], names: tuple[str, str]) -> Case:
    dtype = chance.choice(KINDS)
    m, k, n = (chance.choice((1, 2, 5, 0)) for _ in range(3))
    first, second = chance.random() < 0.5, chance.random() < 0.5
    other = [chance.choice((size, 1)) for size in batch][chance.randint(0, len(batch)) :]
    x1 = whole([*batch, k, m] if first else [*batch, m, k], dtype)
    x2 = whole([*other, n, k] if second else [*other, k, n], dtype)
    wide = np.int64 if dtype == torch.int8 else np.float64
    left, right = (operand.double().numpy().astype(wide) for operand in (x1, x2))
    total = np.matmul(left.swapaxes(-1, -2) if first else left, right.swapaxes(-1, -2) if second else right)
    inputs = [x1, x2]
    if chance.random() < 0.5:
        bias = whole([n], torch.int32 if dtype == torch.int8 else dtype)
        inputs.append(bias)
        total = total + bias.double().numpy().astype(wide)
    expected = torch.from_numpy(total).to(torch.int32 if dtype == torch.int8 else dtype)
    return Case(inputs, {names[0]: first, names[1]: second}, expected)


@kernel_sample("MatMul", "MatMulV2", "MatMulV3")
def matmul(chance: random.Random) -> Case:
    return _product(chance, [], ("transpose_x1", "transpose_x2"))


@kernel_sample("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(chance: random.Random) -> Case:
    batch = [chance.choice((1, 2, 3, 0)) for _ in range(chance.randint(0, 2))]
    return _product(chance, batch, ("adj_x1", "adj_x2"))


@kernel_sample("Dot")
def dot(chance: random.Random) -> Case:
    x = whole([chance.choice((0, 1, 7))], chance.choice(FLOATS[:2]))
    y = whole(x.shape, x.dtype)
    return Case([x, y], {}, torch.tensor(float((x.double() * y.double()).sum()), dtype=x.dtype))


@kernel_sample("MatrixTriangularSolve")
def solve_triangular(chance: random.Random) -> Case:
    batch, rows, columns = (
        [chance.choice((1, 3))] * chance.randint(0, 2),
        chance.choice((1, 2, 5)),
        chance.choice((1, 4)),
    )
    lower, adjoint = chance.random() < 0.5, chance.random() < 0.5
    # Unit triangular integer matrices, whose solutions are integers.
    triangle = whole([*batch, rows, rows], torch.float32).sign()
    triangle = (triangle.tril(-1) if lower else triangle.triu(1)) + torch.eye(rows)
    solution = whole([*batch, rows, columns], torch.float32)
    right = np.matmul((triangle.mT if adjoint else triangle).numpy(), solution.numpy())
    return Case([triangle, torch.from_numpy(right)], {"lower": lower, "adjoint": adjoint}, solution)
