"""Symbolic sizes as polynomials: equal sizes compare equal, however they were computed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

# A monomial: symbols in order, with repetitions, and a coefficient.
Term = tuple[tuple[str, ...], Fraction]
_NONE = Fraction(0)


@dataclass(frozen=True, slots=True)
class Size:
    """A polynomial with rational coefficients: dividing a size by a number is exact, because Reshape requires it."""

    terms: frozenset[Term]

    @property
    def number(self) -> int | None:
        """The value of a size without symbols; None for others."""
        if not self.terms:
            return 0
        (product, count), *more = self.terms
        return None if more or product or count.denominator > 1 else count.numerator

    @property
    def symbols(self) -> set[str]:
        """The symbols that occur in the polynomial."""
        return {name for product, _ in self.terms for name in product}

    def is_positive(self, positive: frozenset[str]) -> bool:
        """Whether the size is at least 1 if the ``positive`` symbols are, and the other symbols are at least 0."""
        return all(count > 0 for _, count in self.terms) and any(
            positive.issuperset(product) for product, _ in self.terms
        )

    def __add__(self, other: Size) -> Size:
        return _sum([*self.terms, *other.terms])

    def __sub__(self, other: Size) -> Size:
        return _sum([*self.terms, *((product, -count) for product, count in other.terms)])

    def __mul__(self, other: Size) -> Size:
        return _sum(
            (tuple(sorted(one + two)), count * times) for one, count in self.terms for two, times in other.terms
        )

    def divided(self, other: Size) -> Size | None:
        """The quotient by a monomial that divides every term; None for other divisors."""
        if len(other.terms) != 1:
            return None
        ((divisor, times),) = other.terms
        quotient: list[Term] = []
        for product, count in self.terms:
            rest = Counter(product)
            rest.subtract(divisor)
            if min(rest.values(), default=0) < 0:
                return None
            quotient.append((tuple(sorted(rest.elements())), count / times))
        return _sum(quotient)


Sizes = tuple[Size, ...]


def _sum(terms: Iterable[Term]) -> Size:
    total: dict[tuple[str, ...], Fraction] = {}
    for product, count in terms:
        total[product] = total.get(product, _NONE) + count
    return Size(frozenset((product, count) for product, count in total.items() if count))


def number(value: int) -> Size:
    """A size without symbols."""
    return Size(frozenset([((), Fraction(value))] if value else ()))


def symbol(name: str) -> Size:
    """A size that is one symbol."""
    return Size(frozenset([((name,), Fraction(1))]))


def product(sizes: Iterable[Size]) -> Size:
    """The number of elements of a shape."""
    return math.prod(sizes, start=ONE)


ONE = number(1)
