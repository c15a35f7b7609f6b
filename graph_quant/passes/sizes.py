"""Sizes that are known as sums of products of symbols: equal ones compare equal, whatever computed them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

# A product of symbols (in order, with repetitions), and how often it is counted.
Term = tuple[tuple[str, ...], Fraction]
_NONE = Fraction(0)


@dataclass(frozen=True, slots=True)
class Size:
    """A polynomial. Its coefficients may be fractions: a size that a Reshape divides is divisible."""

    terms: frozenset[Term]

    @property
    def number(self) -> int | None:
        """The size where no symbol is in it."""
        if not self.terms:
            return 0
        (product, count), *more = self.terms
        return None if more or product or count.denominator > 1 else count.numerator

    @property
    def symbols(self) -> set[str]:
        """The symbols in it."""
        return {each for product, _ in self.terms for each in product}

    def is_positive(self, positive: frozenset[str]) -> bool:
        """Whether it is at least 1 whenever the ``positive`` symbols are and no other is negative."""
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
        """The quotient where ``other`` is a product that every term holds; None where it is not."""
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
    """A size that only its name tells from others."""
    return Size(frozenset([((name,), Fraction(1))]))


def product(sizes: Iterable[Size]) -> Size:
    """How many elements a shape has."""
    return math.prod(sizes, start=ONE)


ONE = number(1)
