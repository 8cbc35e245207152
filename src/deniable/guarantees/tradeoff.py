"""Trade-off functions: the smallest false-negative rate that any test can have at a false-positive rate.

T(P, Q)(α) = inf {type-II error : type-I error ≤ α}. It is convex, continuous on (0, 1], does not increase, and lies at
or below 1 − α (Dong–Roth–Su 2019). A `TradeOff` is such a function with finitely many corners, held exactly, so
everything below is exact: value, inverse (T(Q, P) = T(P, Q)⁻¹: the two errors change places), symmetrisation, and the
convex conjugate that turns it into the curve δ(ε) = sup_α {1 − f(α) − e^ε α} (Prop. 2.12).

A function that promises less is *smaller*. A curved trade-off function is bounded from below by its supporting lines
(`TradeOff.of_lines`), never by its chords.

>>> half = TradeOff.of_lines([(2, 0)])          # ln 2 differential privacy: odds change by at most 2
>>> half.corners
((Fraction(0, 1), Fraction(1, 1)), (Fraction(1, 3), Fraction(1, 3)), (Fraction(1, 1), Fraction(0, 1)))
>>> half(Fraction(1, 10)), half.advantage, half.is_symmetric
(Fraction(4, 5), Fraction(1, 3), True)
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from deniable import _checks
from deniable._checks import Number
from deniable._forms import Plain, plain_number
from deniable.errors import InvalidArgument
from deniable.numerics.exact import bits_above, bits_below
from deniable.numerics.rounding import above, below, float_above, log_of

Corner: TypeAlias = tuple[Fraction, Fraction]
"""A false-positive rate and the false-negative rate there."""

Line: TypeAlias = tuple[Fraction, Fraction]
"""(m, c): the line y = c − m·x."""


_END: Corner = (Fraction(1), Fraction(0))

_READABLE = 12
"""A `repr` prints at most so many corners."""


@dataclass(frozen=True, init=False, repr=False)
class TradeOff(Plain):
    """A convex, non-increasing, piecewise linear function on [0, 1] with f(α) ≤ 1 − α, by its exact corners."""

    corners: tuple[Corner, ...]

    def __init__(self, corners: Iterable[tuple[Number, Number]]) -> None:
        points = [(_checks.probability("alpha", a), _checks.probability("beta", b)) for a, b in corners]
        turning_points = _without_straight(points)
        if len(turning_points) < 2 or turning_points[0][0] != 0 or turning_points[-1] != _END:
            raise InvalidArgument("corners", _code(points), "corners from (0, f(0)) to (1, 0)")
        slopes = [(b1 - b0) / (a1 - a0) for (a0, b0), (a1, b1) in _segments(turning_points)]
        if any(a + b > 1 for a, b in turning_points):
            raise InvalidArgument("corners", _code(points), "at or below 1 − α everywhere")
        if any(after < before for before, after in itertools.pairwise(slopes)) or slopes[-1] > 0:
            raise InvalidArgument("corners", _code(points), "convex and non-increasing")
        object.__setattr__(self, "corners", tuple(turning_points))

    @classmethod
    def of_lines(cls, bounds: Iterable[tuple[Number, Number]]) -> TradeOff:
        """The trade-off function of finitely many bounds P(S) ≤ odds·Q(S) + δ, given as pairs (odds ≥ 1, δ).

        f(α) = max over the pairs of max(0, 1 − δ − odds·α, (1 − δ − α)/odds); Wasserman–Zhou 2010, Kairouz–Oh–
        Viswanath 2015. With odds = e^ε rounded *up*, or δ rounded up, it is a valid lower bound.
        """
        lines: list[Line] = [(Fraction(0), Fraction(0))]
        for odds, delta in bounds:
            steep = _checks.between("odds", odds, low=1, expected="odds of 1 or more")
            missed = 1 - _checks.probability("delta", delta)
            lines += [(steep, missed), (1 / steep, missed / steep)]
        return cls(_envelope(lines))

    @classmethod
    def perfect(cls) -> TradeOff:
        """1 − α: nothing is learnt."""
        return cls([(0, 1), (1, 0)])

    def to_dict(self) -> dict[str, Any]:
        corners = [[plain_number(value) for value in corner] for corner in self.corners]
        return {"kind": "TradeOff", "corners": corners}

    def __call__(self, alpha: Number) -> Fraction:
        """The false-negative rate at a false-positive rate, exactly."""
        at = _checks.probability("alpha", alpha)
        index = max(bisect_left(self.corners, at, key=lambda corner: corner[0]), 1)
        (a0, b0), (a1, b1) = self.corners[index - 1], self.corners[index]
        return b0 + (b1 - b0) * (at - a0) / (a1 - a0)

    def inverse(self) -> TradeOff:
        """f⁻¹(y) = inf {α : f(α) ≤ y}: the trade-off of the same pair in the other order."""
        reached = [(b, a) for a, b in self.corners if b > 0]
        zero = min(a for a, b in self.corners if b == 0)
        swapped = [(Fraction(0), zero), *reversed(reached)]
        return TradeOff(swapped if swapped[-1][0] == 1 else [*swapped, _END])

    @property
    def is_symmetric(self) -> bool:
        """Whether f = f⁻¹: both orders of the pair are equally hard."""
        return self == self.inverse()

    def symmetrized(self) -> TradeOff:
        """max(f, f⁻¹): the trade-off function that a promise of f for *both* orders of every pair implies."""
        return TradeOff(_envelope([*self.lines, *self.inverse().lines]))

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines whose maximum is f, steepest first."""
        segments = _segments(self.corners)
        return tuple(((b0 - b1) / (a1 - a0), b0 + (b0 - b1) / (a1 - a0) * a0) for (a0, b0), (a1, b1) in segments)

    @property
    def atoms(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """A pair (P, Q) of finite distributions with this trade-off function: masses (p, q), most telling first."""
        first = ((Fraction(0), 1 - self.corners[0][1]),) if self.corners[0][1] < 1 else ()
        return first + tuple((a1 - a0, b0 - b1) for (a0, b0), (a1, b1) in _segments(self.corners))

    @property
    def advantage(self) -> Fraction:
        """max (1 − α − f(α)): the total variation distance, and δ(0)."""
        return self.delta_at(1)

    def delta_at(self, odds: Number) -> Fraction:
        """sup_α {1 − f(α) − odds·α}, exactly: δ at ε = ln odds, for the pair in this order."""
        steep = _checks.between("odds", odds, low=0, expected="odds of 0 or more")
        return max(1 - b - steep * a for a, b in self.corners)

    def delta(self, epsilon: Number) -> float:
        """δ(ε) by the convex conjugate, rounded up; for the pair in this order (symmetrise for both)."""
        loss = float(_checks.nonnegative("epsilon", epsilon))
        # δ falls as the odds grow, so odds rounded down (and cut at e^700) give an upper end.
        odds = Fraction(below(math.exp(min(loss, 700.0)))) if loss else Fraction(1)
        return float_above(self.delta_at(max(odds, Fraction(1))))

    def epsilon(self, delta: Number) -> float:
        """The smallest ε ≥ 0 with δ(ε) ≤ delta, rounded up; infinite when 1 − f(0) > delta."""
        allowed = _checks.probability("delta", delta)
        if 1 - self.corners[0][1] > allowed:
            return math.inf
        odds = max([(1 - b - allowed) / a for a, b in self.corners if a > 0], default=Fraction(1))
        return 0.0 if odds <= 1 else above(log_of(odds))

    def simplify(self, most: int, *, bits: int = 128) -> TradeOff:
        """A function at or below this one, with at most `most` lines whose numbers have a bounded length.

        The function is a maximum of lines. Omitting a line, lowering it or steepening it can only lower the maximum.
        """
        lines = self.lines
        if len(lines) <= most and max(a.denominator.bit_length() for a, _ in self.corners) <= 4 * bits:
            return self
        chosen = {round(i * (len(lines) - 1) / (most - 1)) for i in range(most)}
        chosen_lines = [lines[i] for i in sorted(chosen)]
        return TradeOff(_envelope([(bits_above(m, bits=bits), bits_below(c, bits=bits)) for m, c in chosen_lines]))

    def __ge__(self, other: TradeOff) -> bool:
        """Whether f ≥ g everywhere, so that f promises at least as much. Comparing at all corners decides it."""
        rates = {a for a, _ in (*self.corners, *other.corners)}
        return all(self(a) >= other(a) for a in rates)

    def __le__(self, other: TradeOff) -> bool:
        return other >= self

    def __repr__(self) -> str:
        """As code, or how many corners when there are too many to read."""
        few = len(self.corners) <= _READABLE
        return f"TradeOff({_code(self.corners)})" if few else f"<TradeOff of {len(self.corners)} corners>"


def lower_hull(points: Iterable[Corner]) -> list[Corner]:
    """The corners of the largest convex function at or below the given points."""
    hull: list[Corner] = []
    lowest: dict[Fraction, Fraction] = {}
    for a, b in points:
        lowest[a] = min(b, lowest.get(a, b))
    for a, b in sorted(lowest.items()):
        while len(hull) >= 2 and not _turns_up(hull[-2], hull[-1], (a, b)):
            hull.pop()
        hull.append((a, b))
    return hull


def _turns_up(one: Corner, two: Corner, three: Corner) -> bool:
    """Whether the slope grows at the middle corner."""
    return (two[1] - one[1]) * (three[0] - two[0]) < (three[1] - two[1]) * (two[0] - one[0])


def _segments(corners: Iterable[Corner]) -> list[tuple[Corner, Corner]]:
    return list(itertools.pairwise(corners))


def _without_straight(corners: list[Corner]) -> list[Corner]:
    """The corners in order, without those on a straight line, so that equal functions are equal values."""
    hull: list[Corner] = []
    for corner in sorted(set(corners)):
        if hull and hull[-1][0] == corner[0]:
            raise InvalidArgument("corners", _code(corners), "one value at every α")
        while len(hull) >= 2 and _straight(hull[-2], hull[-1], corner):
            hull.pop()
        hull.append(corner)
    return hull


def _straight(one: Corner, two: Corner, three: Corner) -> bool:
    return (two[1] - one[1]) * (three[0] - two[0]) == (three[1] - two[1]) * (two[0] - one[0])


def _envelope(lines: Iterable[Line]) -> list[Corner]:
    """The corners on [0, 1] of the maximum of lines y = c − m·x with m ≥ 0, the zero line among them or not."""
    highest: dict[Fraction, Fraction] = {Fraction(0): Fraction(0)}
    for m, c in lines:
        highest[m] = max(c, highest.get(m, c))
    chain: list[tuple[Line, Fraction]] = []  # a line, and the x from which it is the highest
    for m, c in sorted(highest.items(), reverse=True):
        start = Fraction(0)
        while chain:
            (m0, c0), since = chain[-1]
            start = (c0 - c) / (m0 - m)
            if start > since:
                break
            chain.pop()
            start = Fraction(0)
        chain.append(((m, c), max(start, Fraction(0))))
    corners = [(x, c - m * x) for (m, c), x in chain if x < 1]
    (m, c), _ = max((entry for entry in chain if entry[1] < 1), key=lambda entry: entry[1])
    return [*corners, (Fraction(1), c - m)]


def _code(corners: Iterable[Corner]) -> str:
    """Corners as code."""
    return "[" + ", ".join(f"({_checks.shown(a)}, {_checks.shown(b)})" for a, b in corners) + "]"
