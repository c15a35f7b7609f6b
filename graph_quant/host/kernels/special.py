"""Special functions."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ge import Sizes, kernel


@kernel("BesselI0e")
def bessel_i0e(x: Tensor) -> Tensor:
    return torch.special.i0e(x)


@kernel("BesselI1e")
def bessel_i1e(x: Tensor) -> Tensor:
    return torch.special.i1e(x)


@kernel("Ndtri")
def ndtri(x: Tensor) -> Tensor:
    return torch.special.ndtri(x)


@kernel("Igamma", same=("a", "x"))
def gammainc(a: Tensor, x: Tensor) -> Tensor:
    return torch.special.gammainc(a, x)


@kernel("Igammac", same=("a", "x"))
def gammaincc(a: Tensor, x: Tensor) -> Tensor:
    return torch.special.gammaincc(a, x)


@kernel("Zeta", same=("x", "q"))
def zeta(x: Tensor, q: Tensor) -> Tensor:
    return torch.special.zeta(x, q)


@kernel("Gcd", same=("x1", "x2"))
def gcd(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.gcd(x1, x2)


@kernel("NextAfter", same=("x1", "x2"))
def next_after(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.nextafter(x1, x2)


@kernel("CumulativeLogsumexp")
def logcumsumexp(x: Tensor, axis: Sizes, *, exclusive: bool = False, reverse: bool = False) -> Tensor:
    along = axis.ints[0]
    values = x.flip(along) if reverse else x
    if exclusive:
        minus_infinity = torch.full_like(values.narrow(along, 0, 1), -torch.inf)
        values = torch.cat([minus_infinity, values.narrow(along, 0, values.size(along) - 1)], along)
    total = torch.logcumsumexp(values.contiguous(), along)
    return total.flip(along) if reverse else total


@kernel("Conj")
def conjugate(input: Tensor) -> Tensor:  # noqa: A002
    return input.conj().resolve_conj()


@kernel("Angle", idle=("Tout",))
def angle(input: Tensor) -> Tensor:  # noqa: A002
    return torch.angle(input)
