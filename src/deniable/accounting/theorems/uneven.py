"""Optimal composition of steps with different (ε_i, δ_i).

The exact optimum is #P-hard (Murtagh–Vadhan 2016). Every (ε_i, δ_i)-DP step is dominated by randomized response that
fails with probability δ_i; replacing ε_i by a larger one dominates it further, by a smaller one less. So every ε_i is
rounded up to a grid for the upper end and down for the lower, and the numbers of grid steps are convolved: all masses
are positive, and sums of n of them are off by n units in the last place. Where the ε_i lie on a common grid of at most
`points` steps, both ends agree.

>>> from deniable.guarantees import PureDP
>>> parts = [PureDP(e) for e in (0.1, 0.3, 0.05, 0.2, 0.4, 0.1)] * 2
>>> round(compose_optimal(parts).epsilon(1e-3), 5)
1.97195
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from deniable import _checks
from deniable.accounting.theorems.advanced import failure
from deniable.accounting.theorems.basic import delta_of, together
from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP, Bracket, Profile, PureDP
from deniable.numerics.roots import border
from deniable.numerics.rounding import MACHINE_EPSILON, above, below, float_above, float_below

if TYPE_CHECKING:
    from deniable.numerics.discrete import Floats


def compose_optimal(parts: Sequence[PureDP | ApproxDP], *, points: int = 2**14) -> Profile:
    """The curve of steps known by (ε_i, δ_i) alone, fixed in advance. Exact up to the rounding of ε_i to a grid."""
    first = together(parts)
    most = _checks.count("points", points, least=2)
    if len(parts) * most > 2**32:
        raise InvalidArgument("points", points, f"at most {2**32 // len(parts)} for {len(parts)} steps")
    epsilons = Counter(part.epsilon for part in parts if part.epsilon)
    grid = _grid(epsilons, most)
    failed = failure([(delta_of(part), 1) for part in parts])
    ends = (_Lattice.of(epsilons, grid, up=False), _Lattice.of(epsilons, grid, up=True))
    return Profile(_Uneven(ends[0], ends[1], failed), first.relation, first.unit)


def _grid(epsilons: Counter[Fraction], most: int) -> Fraction:
    """A common divisor of all ε_i if it is coarse enough, else a fraction of their sum."""
    total = sum((e * n for e, n in epsilons.items()), Fraction(0))
    if not total:
        return Fraction(1)
    bottom = math.lcm(*(e.denominator for e in epsilons))
    common = Fraction(math.gcd(*(int(e * bottom) for e in epsilons)), bottom)
    return common if total / common <= most else total / most


@dataclass(frozen=True)
class _Lattice:
    """Loss (U − 2s)·g with the masses of s under the truth."""

    masses: Floats = field(compare=False)
    grid: Fraction
    units: int
    steps: int

    @classmethod
    def of(cls, epsilons: Counter[Fraction], grid: Fraction, *, up: bool) -> _Lattice:
        import numpy as np

        rounded = Counter[int]()
        for epsilon, times in epsilons.items():
            rounded[math.ceil(epsilon / grid) if up else math.floor(epsilon / grid)] += times
        total = sum(units * times for units, times in rounded.items())
        masses = np.zeros(total + 1)
        masses[0] = 1.0
        reached = 0
        for units, times in sorted(rounded.items()):
            odds = math.exp(-float(units * grid))
            truth, lie = 1 / (1 + odds), odds / (1 + odds)
            for _ in range(times if units else 0):
                before = masses[: reached + 1].copy()
                masses[: reached + 1] *= truth
                masses[units : reached + units + 1] += lie * before
                reached += units
        return cls(masses, grid, total, sum(rounded.values()))

    def delta(self, epsilon: float) -> Bracket:
        """Ends of Σ mass·(1 − e^{ε̃−loss})₊."""
        import numpy as np

        losses = (self.units - 2 * np.arange(self.units + 1)) * float(self.grid) - epsilon
        value = float(np.sum(self.masses * -np.expm1(-np.maximum(losses, 0.0))))
        size = self.units * float(self.grid) + epsilon
        error = MACHINE_EPSILON * (8 * self.steps + 64)
        shift = 4 * MACHINE_EPSILON * size * float(np.sum(self.masses[losses > -1e-9 * (1 + size)]))
        return Bracket(max(value * (1 - error) - shift, 0.0), min(value * (1 + error) + shift, 1.0))


@dataclass(frozen=True)
class _Uneven:
    """A curve between two lattices."""

    low: _Lattice
    high: _Lattice
    fail: Fraction

    @property
    def method(self) -> str:
        return "optimal composition of unequal steps, ε rounded to a grid"

    @property
    def _least(self) -> Fraction:
        """`fail` was rounded up by less than a part in a trillion; lower ends take that back."""
        return self.fail * (1 - Fraction(1, 10**12))

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Ends of δ(ε̃)."""
        lower = self._least + (1 - self.fail) * Fraction(self.low.delta(epsilon).lower)
        upper = self.fail + (1 - self.fail) * Fraction(self.high.delta(epsilon).upper)
        return Bracket(max(float_below(lower), 0.0), min(float_above(upper), 1.0))

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Ends of the smallest ε̃ with δ(ε̃) ≤ δ."""
        allowed = _checks.exact(delta)
        if allowed >= 1:
            return Bracket(0.0, 0.0)
        if allowed < self._least:
            return Bracket(math.inf, math.inf)
        most = float_above(self.high.units * self.high.grid)
        least = float_below(self.low.units * self.low.grid)
        share, larger = ((allowed - fail) / (1 - fail) for fail in (self.fail, self._least))
        if share == larger == 0:
            return Bracket(below(least, ulps=1), most)
        upper = math.inf if share < 0 else most
        if share > 0:
            under = float_below(share)
            upper = border(lambda e: self.high.delta(e).upper <= under, above(most, ulps=2))[1]
        over = float_above(larger)
        lower = border(lambda e: self.low.delta(e).lower <= over, above(most, ulps=2))[0]
        return Bracket(min(lower, upper), upper if share < 0 else min(upper, most))
