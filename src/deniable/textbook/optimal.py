"""Optimal composition: no bound that uses (ε, δ) alone can be smaller (Kairouz–Oh–Viswanath 2015).

k adaptive (ε, δ)-DP steps are dominated by k runs of randomized response that fails with probability δ, and that
mechanism is one of them. So the exact curve is, with q = 1/(1 + e^ε) the probability of a lie and j the number of lies,

    δ_total(ε̃) = 1 − (1 − δ)^k·(1 − δ_RR(ε̃)),    δ_RR(ε̃) = Σ_j P[Bin(k, q) = j]·(1 − e^{ε̃ − (k−2j)ε})₊.

All terms are positive: nothing cancels. For k beyond 10⁶ the sum runs over blocks of j; inside a block the masses,
which are log-concave, lie below the geometric sequence through the first two, so the sum over blocks is an upper end.

>>> from deniable.guarantees import ApproxDP
>>> profile = repeat_optimal(ApproxDP(0.1, 1e-8), count=10)
>>> round(profile.epsilon(1e-5), 6)
0.993754
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from deniable import _checks
from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP, Bracket, Profile, PureDP
from deniable.numerics.discrete import log_masses, mass_error
from deniable.numerics.roots import border
from deniable.numerics.rounding import MACHINE_EPSILON, above, below, float_above, float_below, fraction_above
from deniable.textbook.composition import delta_of, failure, together

if TYPE_CHECKING:
    from deniable.numerics.discrete import Floats


_ONE_BY_ONE = 10**6
"""Up to this many steps the lies are counted one by one."""

_BLOCKS = 2**11
"""Beyond that, this many blocks make a standard deviation."""


def repeat_optimal(guarantee: PureDP | ApproxDP, *, count: int) -> Profile:
    """The curve of k steps, each known by (ε, δ) alone. Exact; an upper bound within 1e-6 beyond 10⁶ steps."""
    times = _checks.count("count", count)
    curve = Responses(float_above(guarantee.epsilon), times, failure([(delta_of(guarantee), times)]))
    return Profile(curve, guarantee.relation, guarantee.unit)


def optimal_corner(guarantee: PureDP | ApproxDP, *, count: int, index: int) -> ApproxDP:
    """The i-th promise ((k − 2i)ε, δ_i) of Theorem 3.3, i = 0 … ⌊k/2⌋: the corners of the optimal trade-off. Exact."""
    times = _checks.count("count", count)
    place = _checks.count("index", index, least=0)
    if 2 * place > times:
        raise InvalidArgument("index", index, f"at most count/2 = {times // 2}")
    epsilon = (times - 2 * place) * guarantee.epsilon
    delta = repeat_optimal(guarantee, count=times).delta_bracket(Fraction(float_below(epsilon))).upper
    return ApproxDP(epsilon, min(fraction_above(delta), Fraction(1)), relation=guarantee.relation, unit=guarantee.unit)


@dataclass(frozen=True)
class Responses:
    """The curve of k runs of randomized response that fail together with probability `fail`."""

    epsilon: float
    count: int
    fail: Fraction

    @property
    def method(self) -> str:
        """The theorem."""
        return "optimal composition (Kairouz–Oh–Viswanath 2015)"

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Ends of δ_total(ε̃)."""
        ends = [self.fail + (1 - self.fail) * Fraction(end) for end in lies(self.epsilon, self.count, epsilon)]
        return Bracket(max(float_below(ends[0]), 0.0), min(float_above(ends[1]), 1.0))

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Ends of the smallest ε̃ with δ_total(ε̃) ≤ δ."""
        allowed = _checks.exact(delta)
        if allowed >= 1:
            return Bracket(0.0, 0.0)
        if allowed < self.fail:
            return Bracket(math.inf, math.inf)
        share = (allowed - self.fail) / (1 - self.fail)
        most = above(self.count * self.epsilon, ulps=1)
        if share == 0 or most == 0:
            return Bracket(below(most, ulps=2), most)
        under, over = float_below(share), float_above(share)
        upper = border(lambda e: lies(self.epsilon, self.count, e).upper <= under, most, relative=4 * MACHINE_EPSILON)[
            1
        ]
        lower = border(lambda e: lies(self.epsilon, self.count, e).lower <= over, most, relative=4 * MACHINE_EPSILON)[0]
        return Bracket(min(lower, upper), upper)


def lies(step: float, count: int, epsilon: float) -> Bracket:
    """Ends of δ_RR(ε̃) for k runs of randomized response with parameter `step`."""
    import numpy as np

    if step == 0 or epsilon >= above(count * step, ulps=1):
        return Bracket(0.0, 0.0)
    if step > 700:
        # Lies are rarer than e^{−700}: δ_RR ≤ 1 − e^{ε̃−kε}, and the weights are at least that of one lie.
        most = above(-math.expm1(epsilon - count * step))
        return Bracket(0.0, min(most, 1.0))
    lie, truth = 1 / (1 + math.exp(step)), 1 / (1 + math.exp(-step))
    mean, spread = count * lie, math.sqrt(count * lie * truth)
    last = min(math.floor((count - epsilon / step) / 2) + 2, count)
    top = min(last, math.ceil(mean + 12 * spread) + 12)
    bottom = max(0, min(top, math.floor(mean)) - math.ceil(12 * spread) - 60)
    block = 1 if count <= _ONE_BY_ONE else max(1, math.ceil(spread / _BLOCKS))
    # Blocks up to the last few lies, which are counted one by one: there the weight reaches 0.
    edge = bottom + max(0, (top + 1 - bottom) // block - 2) * block if block > 1 else bottom
    starts = np.concatenate([np.arange(bottom, edge, block), np.arange(edge, top + 1)]).astype(float)
    sizes = np.where(starts < edge, float(block), 1.0)
    masses = np.exp(log_masses(count, lie, starts, failure=truth))
    losses = (count - 2 * starts) * step - epsilon
    value, rounding = _weighted(masses, losses, sizes, _log_ratios(count, starts, step), step)
    # A loss is known to an ulp of its largest term and moves its weight by at most that much.
    size = float(np.max(np.abs(count - 2 * starts))) * step + epsilon
    rounding += 8 * MACHINE_EPSILON * size * float(np.sum(masses * sizes))
    error = max(mass_error(count, lie, at) for at in (float(bottom), float(top), min(max(mean, bottom), top)))
    left_out = _tail(count, lie, truth, bottom - 1, up=False)
    if top < last:
        left_out += _tail(count, lie, truth, top + 1, up=True)
    upper = value * (1 + error) + rounding + left_out
    lower = value * (1 - error) - rounding if block == 1 else 0.0
    return Bracket(max(lower, 0.0), min(above(upper), 1.0))


def _log_ratios(count: int, starts: Any, step: float) -> Floats:
    """ln of mass(j + 1)/mass(j) = ln((k − j)/(j + 1)) − ε."""
    import numpy as np

    found: Floats = np.log(np.maximum(count - starts, 0.5) / (starts + 1)) - step
    return found


def _weighted(masses: Floats, losses: Floats, sizes: Floats, ratios: Floats, step: float) -> tuple[float, float]:
    """Σ mass·(1 − e^{−loss})₊ over blocks, from above, and what rounding may have taken away."""
    import numpy as np

    weights = -np.expm1(-np.maximum(losses, 0.0))
    if float(np.max(sizes)) == 1:
        return float(np.sum(masses * weights)), 0.0
    plain = _geometric(ratios, sizes)
    tilted = _geometric(ratios + 2 * step, sizes) * np.exp(-np.maximum(losses, 0.0))
    # A block that ends below loss 0 has a difference of two geometric sums; the few others get their largest weight.
    whole = losses > 2 * step * sizes
    terms = masses * np.where(whole, plain - tilted, plain * weights)
    rounding = float(np.sum(masses * np.where(whole, plain + tilted, plain))) * 2.0**-46
    return float(np.sum(terms)), rounding


def _geometric(log_ratios: Floats, sizes: Floats) -> Floats:
    """1 + r + … + r^{n−1}."""
    import numpy as np

    safe = np.where(np.abs(log_ratios) < 1e-12, 1e-12, log_ratios)
    found: Floats = np.expm1(sizes * safe) / np.expm1(safe)
    return found


def _tail(count: int, lie: float, truth: float, start: int, *, up: bool) -> float:
    """P[Bin ≥ start] or P[Bin ≤ start], bounded by the geometric series from there outward."""
    if start < 0 or start > count:
        return 0.0
    ratio = (count - start) * lie / ((start + 1) * truth) if up else start * truth / ((count - start + 1) * lie)
    if ratio >= 1:
        return 1.0
    log = float(log_masses(count, lie, [start], failure=truth)[0])
    return math.exp(log) / (1 - ratio) * (1 + mass_error(count, lie, float(start)))


def compose_optimal(parts: Sequence[PureDP | ApproxDP], *, points: int = 2**14) -> Profile:
    """The curve of steps known by (ε_i, δ_i) alone, fixed in advance. Exact up to the rounding of ε_i to a grid.

    Optimal composition of steps with different (ε_i, δ_i).

    The exact optimum is #P-hard (Murtagh–Vadhan 2016). Every (ε_i, δ_i)-DP step is dominated by randomized response
    that fails with probability δ_i; replacing ε_i by a larger one dominates it further, by a smaller one less. So every
    ε_i is rounded up to a grid for the upper end and down for the lower, and the numbers of grid steps are convolved:
    all masses are positive, and sums of n of them are off by n units in the last place. Where the ε_i lie on a common
    grid of at most `points` steps, both ends agree.

    >>> from deniable.guarantees import PureDP
    >>> parts = [PureDP(e) for e in (0.1, 0.3, 0.05, 0.2, 0.4, 0.1)] * 2
    >>> round(compose_optimal(parts).epsilon(1e-3), 5)
    1.97195
    """
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
