"""Probability laws on 0, 1, 2, ... given by certified bounds of their weights.

A law says, at any precision, how large each weight is and how much lies beyond the last one listed. It need not be
normalised. `Weights` is finite and arbitrary; `Run` is a stretch of a geometric law; `Ladder` is a law on all
integers, decreasing on both sides, cut into rungs of equal length.

>>> bounds = Ladder(Fraction(1, 2), degree=1).enclose(30)
>>> bounds.low[0], bounds.low[1]   # exp(0), exp(-1/2): the rungs that start at 0 and at -1
(1073741824, 651257336)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Protocol

from deniable.noise.enclosure import ceil_div, exp_neg, product


@dataclass(frozen=True)
class Bounds:
    """``low[k] <= weight[k] * f <= high[k]`` for a common factor f, and all further weights add up to at most tail / f.

    The factor is 2**bits or more. Only ratios of weights matter, so it is not kept.
    """

    low: list[int]
    high: list[int]
    tail: int


class Law(Protocol):
    """Weights on 0, 1, 2, ..., known to any precision. `count` is None for an infinite law."""

    @property
    def count(self) -> int | None: ...

    def enclose(self, bits: int) -> Bounds: ...


@dataclass(frozen=True)
class Weights:
    """``multiples[k] * exp(-below[k] * unit)`` for whole numbers ``below[k] >= 0``; a multiple may be 0."""

    below: tuple[int, ...]
    unit: Fraction
    multiples: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.below)

    def enclose(self, bits: int) -> Bounds:
        # Room for what powers lose, and for a large multiple of a small weight, which must keep its precision.
        bits += 24 + max(self.multiples).bit_length()
        powers = _Powers(self.unit, bits)
        seen: dict[int, tuple[int, int]] = {}
        low, high = [], []
        for below, multiple in zip(self.below, self.multiples, strict=True):
            pair = seen.get(below)
            if pair is None:
                pair = seen[below] = powers(below)
            low.append(multiple * pair[0])
            high.append(multiple * pair[1])
        return Bounds(low, high, 0)


class _Powers:
    """Bounds of ``exp(-n * unit)`` for many n: a product over the digits of n to base 256."""

    def __init__(self, unit: Fraction, bits: int) -> None:
        self.unit, self.bits = unit, bits
        self._furthest = bits * unit.denominator // unit.numerator  # beyond it exp(-n * unit) < exp(-bits) < 2**-bits
        self._digits: list[list[tuple[int, int]]] = []

    def __call__(self, n: int) -> tuple[int, int]:
        if n > self._furthest:
            return 0, 1
        found, place = (1 << self.bits, 1 << self.bits), 0
        while n:
            if place == len(self._digits):
                self._digits.append(_geometric(self.unit * 256**place, 256, self.bits))
            found = product(found, self._digits[place][n & 255], self.bits)
            n, place = n >> 8, place + 1
        return found


@dataclass(frozen=True)
class Run:
    """``exp(-k * step)`` for 0 <= k < count."""

    step: Fraction
    count: int

    def enclose(self, bits: int) -> Bounds:
        pairs = _geometric(self.step, self.count, bits)
        return Bounds([low for low, _ in pairs], [high for _, high in pairs], 0)


def _geometric(step: Fraction, count: int, bits: int) -> list[tuple[int, int]]:
    ratio = exp_neg(step.numerator, step.denominator, bits=bits)
    pairs = [(1 << bits, 1 << bits)]
    for _ in range(count - 1):
        pairs.append(product(pairs[-1], ratio, bits))
    return pairs


@dataclass(frozen=True)
class Ladder:
    """The weights of a law on all integers at the foot of each rung.

    The law is ``exp(-rate * |x|**degree)``, degree 1 or 2. Rung ``2 q`` starts at ``x = q * length`` and climbs up;
    rung ``2 q + 1`` starts at ``x = -1 - q * length`` and climbs down. Together the rungs hold each integer once.
    """

    rate: Fraction
    degree: int
    length: int = 1

    count = None

    def foot(self, rung: int) -> int:
        """|x| where the rung starts."""
        return (rung >> 1) * self.length + (rung & 1)

    def enclose(self, bits: int) -> Bounds:
        rungs = self._rungs(bits)
        up, down = (self._side(side, rungs, bits) for side in (0, 1))
        low = [pair[0] for both in zip(up, down, strict=True) for pair in both]
        high = [pair[1] for both in zip(up, down, strict=True) for pair in both]
        # Beyond the list, each rung weighs at most exp(-fall) times the one before, on both sides, and so all of them
        # 2 weight / (1 - exp(-fall)) at most; and 1 - exp(-fall) >= fall / (1 + fall).
        edge = self.rate * self.foot(2 * rungs) ** self.degree
        fall = self.rate * self.foot(2 * rungs + 2) ** self.degree - edge
        weight = exp_neg(edge.numerator, edge.denominator, bits=bits)[1]
        tail = ceil_div(2 * weight * (fall.numerator + fall.denominator), fall.numerator)
        return Bounds(low, high, tail)

    def _rungs(self, bits: int) -> int:
        """How many rungs on each side carry a weight above about 2**-bits."""
        reach = Fraction(7 * (bits + 4), 10) / self.rate  # |x|**degree where the weight is 2**-(1.01 bits + 4)
        rungs = reach // self.length**self.degree
        return (isqrt(rungs) if self.degree == 2 else rungs) + 2

    def _side(self, side: int, rungs: int, bits: int) -> list[tuple[int, int]]:
        """Weights at ``x = q * length + side`` for q = 0, 1, ..., by the recurrence of a polynomial exponent."""
        if self.degree == 1:
            first = exp_neg(side * self.rate.numerator, self.rate.denominator, bits=bits)
            return [product(first, pair, bits) for pair in _geometric(self.rate * self.length, rungs, bits)]
        # (q L + s)**2 grows by L**2 + 2 L s first, and that growth grows by 2 L**2 each time.
        square = self.length**2
        weight, ratio, change = (
            exp_neg(n * self.rate.numerator, self.rate.denominator, bits=bits)
            for n in (side, square + 2 * self.length * side, 2 * square)
        )
        pairs = [weight]
        for _ in range(rungs - 1):
            pairs.append(product(pairs[-1], ratio, bits))
            ratio = product(ratio, change, bits)
        return pairs
