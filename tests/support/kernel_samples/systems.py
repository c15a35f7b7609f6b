"""Linear systems, matrix decompositions, special functions, and unique."""

from __future__ import annotations

import math
import random

import numpy as np
import torch

from support.kernel_samples.base import Case, kernel_sample, plain, shape, size, whole

# The allowed deviation between NumPy's routines in float64 and those of float32.
FAR = 4000.0


def _positive(count: int = 12) -> torch.Tensor:
    return torch.rand(count) * 3 + 0.5


def _of(function: object, *tensors: torch.Tensor) -> torch.Tensor:
    """Apply a Python function elementwise."""
    rows = zip(*(tensor.tolist() for tensor in tensors), strict=True)
    return torch.tensor([function(*row) for row in rows])  # type: ignore[operator]


def _series(x: float, order: int) -> float:
    """A modified Bessel function, scaled, by its series."""
    terms = [(x / 2) ** (2 * k + order) / (math.factorial(k) * math.factorial(k + order)) for k in range(30)]
    return sum(terms) * math.exp(-abs(x))


@kernel_sample("BesselI0e")
def bessel_i0e(_chance: random.Random) -> Case:
    x = plain([9])
    return Case([x], {}, _of(lambda value: _series(value, 0), x), bound=8)


@kernel_sample("BesselI1e")
def bessel_i1e(_chance: random.Random) -> Case:
    x = plain([9])
    return Case([x], {}, _of(lambda value: _series(value, 1), x), bound=8)


@kernel_sample("Ndtri")
def ndtri(_chance: random.Random) -> Case:
    x = torch.rand(9) * 0.8 + 0.1
    return Case([x], {}, math.sqrt(2) * torch.erfinv(2 * x.double() - 1).float(), bound=16)


def _gamma_part(a: float, x: float) -> float:
    """The lower incomplete gamma function by its series."""
    terms, term = 0.0, 1 / a
    for k in range(1, 200):
        terms, term = terms + term, term * x / (a + k)
    return terms * math.exp(-x + a * math.log(x) - math.lgamma(a))


@kernel_sample("Igamma")
def igamma(_chance: random.Random) -> Case:
    a, x = _positive(), _positive()
    return Case([a, x], {}, _of(_gamma_part, a, x), bound=16)


@kernel_sample("Igammac")
def igammac(_chance: random.Random) -> Case:
    a, x = _positive(), _positive()
    return Case([a, x], {}, _of(lambda a, x: 1 - _gamma_part(a, x), a, x), bound=16)


@kernel_sample("Zeta")
def zeta(_chance: random.Random) -> Case:
    x = torch.tensor([2.0, 4.0])
    return Case([x, torch.ones(2)], {}, torch.tensor([math.pi**2 / 6, math.pi**4 / 90]), bound=8)


@kernel_sample("Gcd")
def gcd(chance: random.Random) -> Case:
    kind = chance.choice((torch.int32, torch.int64, torch.uint8))
    x1, x2 = (torch.randint(0, 60, [7]).to(kind) for _ in range(2))
    return Case([x1, x2], {}, torch.from_numpy(np.gcd(x1.numpy(), x2.numpy())))


@kernel_sample("NextAfter")
def next_after(_chance: random.Random) -> Case:
    x1, x2 = plain([9]), plain([9])
    return Case([x1, x2], {}, torch.from_numpy(np.nextafter(x1.numpy(), x2.numpy())))


@kernel_sample("CumulativeLogsumexp")
def cumulative_logsumexp(chance: random.Random) -> Case:
    exclusive, reverse = chance.random() < 0.5, chance.random() < 0.5
    x = plain([3, 5])
    summed = np.logaddexp.accumulate(x.double().numpy()[:, :: -1 if reverse else 1], 1)
    if exclusive:
        summed = np.concatenate([np.full((3, 1), -np.inf), summed[:, :-1]], 1)
    expected = torch.from_numpy(summed[:, :: -1 if reverse else 1].copy()).float()
    return Case([x, size(1)], {"exclusive": exclusive, "reverse": reverse}, expected, bound=8)


@kernel_sample("Conj")
def conjugate(chance: random.Random) -> Case:
    x = torch.complex(plain(sizes := shape(chance)), plain(sizes))
    return Case([x], {}, torch.complex(x.real, -x.imag))


@kernel_sample("Angle")
def angle(chance: random.Random) -> Case:
    x = torch.complex(plain(sizes := shape(chance)), plain(sizes))
    return Case([x], {}, torch.from_numpy(np.asarray(np.angle(x.numpy()))).float(), bound=4)


def _matrices(chance: random.Random) -> torch.Tensor:
    """Symmetric matrices with eigenvalues of both signs and none near 0."""
    rows = chance.choice((1, 2, 4))
    x = whole([*[2] * chance.randint(0, 2), rows, rows])
    return x @ x.mT + torch.eye(rows) * 3


@kernel_sample("Cholesky")
def cholesky(chance: random.Random) -> Case:
    x = _matrices(chance)
    return Case([x], {}, torch.from_numpy(np.linalg.cholesky(x.double().numpy())).float(), bound=FAR)


@kernel_sample("MatrixInverse")
def inverse(chance: random.Random) -> Case:
    x = _matrices(chance).tril()
    adjoint = chance.random() < 0.5
    expected = np.linalg.inv((x.mT if adjoint else x).double().numpy())
    return Case([x], {"adjoint": adjoint}, torch.from_numpy(expected).float(), bound=FAR)


@kernel_sample("MatrixSolve")
def solve(chance: random.Random) -> Case:
    x = _matrices(chance).tril()
    solution, adjoint = whole([*x.shape[:-1], 3]), chance.random() < 0.5
    return Case([x, (x.mT if adjoint else x) @ solution], {"adjoint": adjoint}, solution, bound=FAR)


@kernel_sample("MatrixDeterminant")
def determinant(chance: random.Random) -> Case:
    x = _matrices(chance)
    return Case([x], {}, torch.from_numpy(np.asarray(np.linalg.det(x.double().numpy()))).float(), bound=FAR)


@kernel_sample("LogMatrixDeterminant")
def log_determinant(chance: random.Random) -> Case:
    x = _matrices(chance)
    expected = [torch.from_numpy(np.asarray(array)).float() for array in np.linalg.slogdet(x.double().numpy())]
    return Case([x], {}, expected, bound=FAR)


@kernel_sample("Qr")
def qr(chance: random.Random) -> Case:
    x, is_whole = plain([4, 2]), chance.random() < 0.5
    expected = np.linalg.qr(x.double().numpy(), "complete" if is_whole else "reduced")
    return Case([x], {"full_matrices": is_whole}, [torch.from_numpy(array).float() for array in expected], bound=FAR)


@kernel_sample("SelfAdjointEig")
def eigen(chance: random.Random) -> Case:
    values = torch.randperm(4).float() + 1
    order = values.argsort()
    is_asked = chance.random() < 0.5
    vectors = torch.eye(4)[:, order] if is_asked else torch.empty(0)
    return Case([torch.diag(values)], {"compute_v": is_asked}, [values[order], vectors], bound=4)


@kernel_sample("Svd")
def singular(chance: random.Random) -> Case:
    values = torch.randperm(4).float() + 1
    order = values.argsort(descending=True)
    is_asked = chance.random() < 0.5
    vectors = [torch.eye(4)[:, order]] * 2 if is_asked else [torch.empty(0)] * 2
    return Case([torch.diag(values)], {"compute_uv": is_asked}, [values[order], *vectors], bound=4)


@kernel_sample("UniqueWithCountsAndSorting")
def unique(_chance: random.Random) -> Case:
    x = whole([9], torch.int64)
    expected = np.unique(x.numpy(), return_inverse=True, return_counts=True)
    return Case([x], {"return_inverse": True, "return_counts": True}, [torch.from_numpy(array) for array in expected])


@kernel_sample("UniqueConsecutive")
def unique_consecutive(_chance: random.Random) -> Case:
    x = torch.randint(0, 2, [9])
    starts = np.flatnonzero(np.diff(x.numpy(), prepend=-1))
    inverse = torch.from_numpy(np.searchsorted(starts, np.arange(9), side="right") - 1)
    counts = torch.from_numpy(np.diff(starts, append=9))
    return Case([x], {"return_idx": True, "return_counts": True}, [x[torch.from_numpy(starts)], inverse, counts])
