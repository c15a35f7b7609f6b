"""Matrix products of whole numbers, which are exact in every order."""

from __future__ import annotations

import random

import numpy as np
import torch

from support.kernel_samples import base
from support.kernel_samples.base import FLOATS, Case, trial

KINDS = (torch.float32, torch.float16, torch.bfloat16, torch.int8)


def whole(sizes: list[int] | torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """No zeros: of what sign a sum of zeros is, the order of the sum decides."""
    made = base.whole(sizes, dtype)
    return torch.where(made == 0, torch.ones_like(made), made)


def _product(chance: random.Random, batch: list[int], names: tuple[str, str]) -> Case:
    dtype = chance.choice(KINDS)
    m, k, n = (chance.choice((1, 2, 5, 0)) for _ in range(3))
    first, second = chance.random() < 0.5, chance.random() < 0.5
    other = [chance.choice((size, 1)) for size in batch][chance.randint(0, len(batch)) :]
    x1 = whole([*batch, k, m] if first else [*batch, m, k], dtype)
    x2 = whole([*other, n, k] if second else [*other, k, n], dtype)
    wide = np.int64 if dtype == torch.int8 else np.float64
    left, right = (each.double().numpy().astype(wide) for each in (x1, x2))
    total = np.matmul(left.swapaxes(-1, -2) if first else left, right.swapaxes(-1, -2) if second else right)
    given = [x1, x2]
    if chance.random() < 0.5:
        bias = whole([n], torch.int32 if dtype == torch.int8 else dtype)
        given.append(bias)
        total = total + bias.double().numpy().astype(wide)
    made = torch.from_numpy(total).to(torch.int32 if dtype == torch.int8 else dtype)
    return Case(given, {names[0]: first, names[1]: second}, made)


@trial("MatMul", "MatMulV2", "MatMulV3")
def matmul(chance: random.Random) -> Case:
    return _product(chance, [], ("transpose_x1", "transpose_x2"))


@trial("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(chance: random.Random) -> Case:
    batch = [chance.choice((1, 2, 3, 0)) for _ in range(chance.randint(0, 2))]
    return _product(chance, batch, ("adj_x1", "adj_x2"))


@trial("Dot")
def dot(chance: random.Random) -> Case:
    x = whole([chance.choice((0, 1, 7))], chance.choice(FLOATS[:2]))
    y = whole(x.shape, x.dtype)
    return Case([x, y], {}, torch.tensor(float((x.double() * y.double()).sum()), dtype=x.dtype))


@trial("MatrixTriangularSolve")
def solve_triangular(chance: random.Random) -> Case:
    batch, rows, columns = (
        [chance.choice((1, 3))] * chance.randint(0, 2),
        chance.choice((1, 2, 5)),
        chance.choice((1, 4)),
    )
    lower, adjoint = chance.random() < 0.5, chance.random() < 0.5
    # Whole numbers below a diagonal of ones: their solutions are whole.
    triangle = whole([*batch, rows, rows], torch.float32).sign()
    triangle = (triangle.tril(-1) if lower else triangle.triu(1)) + torch.eye(rows)
    solution = whole([*batch, rows, columns], torch.float32)
    right = np.matmul((triangle.mT if adjoint else triangle).numpy(), solution.numpy())
    return Case([triangle, torch.from_numpy(right)], {"lower": lower, "adjoint": adjoint}, solution)
