"""Curves with a closed form.

| composition | curve |
|---|---|
| nothing | δ = 0 |
| Gaussians, merged to one μ | δ(ε) = Φ̄(a) − e^ε Φ̄(b), a = ε/μ − μ/2, b = a + μ (Balle–Wang 2018, Thm 8) |
| k times ε₀-DP or binary randomized response | Σ_j C(k, j)(p^{k−j}q^j − e^ε p^j q^{k−j})₊ (KOV 2015, Thm 3.3) |
| Rényi promises only | the conversion of Canonne–Kamath–Steinke 2020, an upper bound |
| a single step | P[L > ε] − e^ε Q[L > ε] of its dominating pair |
| any of these with leaks | δ′ = 1 − (1 − δ)·Π(1 − δ_i) |

Each value carries a bound on its own rounding; ε(δ) is found by bisection on the proven ends, never on an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from deniable._checks import exact
from deniable.accounting.pairs.bounds import renyi_profile
from deniable.accounting.pairs.law import Array, Law
from deniable.accounting.pairs.normal import NormalLaw
from deniable.guarantees import Bracket, Curve, Guarantee, LossOdds
from deniable.guarantees.profile import odds_of
from deniable.numerics import normal
from deniable.numerics.arrays import UNIT
from deniable.numerics.roots import border, crossing
from deniable.numerics.rounding import float_above, float_below, root_of

_MOST_TERMS = 4096
"""Binomial sums up to this many terms."""

_CLOSE = 2e-15
"""How close the two sides of a crossing come, relatively."""


def inverted(delta_bracket: Callable[[float], Bracket], delta: float, *, largest: float = math.inf) -> Bracket:
    """Both ends of the smallest ε with δ(ε) ≤ delta, from proven ends of δ alone; `largest` is a pure ε, if there is
    one.
    """
    if delta_bracket(0.0).upper <= delta:
        return Bracket(0.0, 0.0)
    high = min(1.0, largest)
    while high < min(largest, 1e300) and delta_bracket(high).upper > delta:
        high = min(high * 4, largest)
    if delta_bracket(high).upper > delta:
        upper = largest
    else:
        upper = crossing(lambda e: delta_bracket(e).upper <= delta, 0.0, high, relative=_CLOSE)[1]
    top = upper if upper < math.inf else 1e300
    if delta_bracket(top).lower > delta:
        return Bracket(top, upper)
    return Bracket(border(lambda e: not delta_bracket(e).lower > delta, top, relative=_CLOSE)[0], upper)


def odds_of_law(law: Law) -> LossOdds:
    """P[L > 0] and Q[L > 0] of one step, with the law's own errors: asked a little earlier and a little later."""
    slip = law.location(0.0)
    ends = [law.above(np.array([place])) for place in (slip, -slip)]
    (p_low, q_low), (p_high, q_high) = ((float(p[0]), float(q[0])) for p, q in ends)
    off = law.relative + 2 * slip
    lost = law.infinite + law.vanishing
    return LossOdds(
        Bracket(max(0.0, p_low * (1 - off) - lost), min(1.0, p_high * (1 + off) + lost)),
        Bracket(max(0.0, q_low * (1 - off) - lost), min(1.0, q_high * (1 + off) + lost)),
    )


@dataclass(frozen=True)
class NoCost:
    """Nothing touched the data."""

    method: str = "nothing to account for"

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Zero."""
        return Bracket(0.0, 0.0)

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Zero."""
        return Bracket(0.0, 0.0)

    def odds(self) -> tuple[LossOdds, ...]:
        """The loss is 0."""
        return (LossOdds(Bracket(0.0, 0.0), Bracket(0.0, 0.0)),)


@dataclass(frozen=True)
class GaussianCurve:
    """N(μ, 1) against N(0, 1)."""

    mu_squared: Fraction
    method: str = "closed form (Gaussian)"

    @cached_property
    def _mu(self) -> float:
        return root_of(self.mu_squared)

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε)."""
        return normal.delta_bracket(self._mu, epsilon)

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around ε(δ)."""
        return normal.epsilon_bracket(self._mu, delta)

    def odds(self) -> tuple[LossOdds, ...]:
        """Φ(μ/2) and Φ(−μ/2)."""
        return (odds_of_law(NormalLaw(self._mu)),)


@dataclass(frozen=True)
class ResponseCurve:
    """k-fold binary randomized response."""

    epsilon: Fraction
    count: int
    method: str = "closed form (binomial sum)"

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """Losses (k − 2j)ε₀, largest first, and ln of their P-masses."""
        e, k = float(self.epsilon), self.count
        choose, logs = 1, []
        for j in range(k + 1):
            logs.append(math.log(choose) - j * e)
            choose = choose * (k - j) // (j + 1)
        losses = np.array([float((k - 2 * j) * self.epsilon) for j in range(k + 1)])
        return losses, np.array(logs) - k * math.log1p(math.exp(-e))

    @cached_property
    def largest(self) -> float:
        """kε₀, rounded up."""
        return float_above(self.epsilon * self.count)

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε): a sum of positive terms."""
        if epsilon >= self.largest:
            return Bracket(0.0, 0.0)
        losses, logs = self._table
        over = losses >= epsilon  # a loss that was rounded down to ε may lie above it
        with np.errstate(under="ignore"):
            terms = np.exp(logs[over]) * -np.expm1(epsilon - losses[over])
        value = math.fsum(terms)
        # ln C(k, j) and jε₀ are rounded once each; near a loss the factor 1 − e^{ε−l} is good to u·l/(l − ε).
        slip = 4 * UNIT * (1 + float(np.max(np.abs(losses)))) * math.fsum(np.exp(logs[over]))
        error = 8 * UNIT * (8 + self.count * (1 + float(self.epsilon))) * value + slip
        return Bracket(max(0.0, value - error), min(1.0, value + error))

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around ε(δ)."""
        if delta <= 0:
            return Bracket(float_below(self.epsilon * self.count), self.largest)
        return inverted(self.delta_bracket, delta, largest=self.largest)

    def odds(self) -> tuple[LossOdds, ...]:
        """Sums over the positive and, by symmetry, over the negative losses."""
        losses, logs = self._table
        error = 8 * UNIT * (8 + self.count * (1 + float(self.epsilon)))
        sums = (math.fsum(np.exp(logs[losses > 0])), math.fsum(np.exp(logs[losses < 0])))
        ends = [Bracket(max(0.0, x * (1 - error)), min(1.0, x * (1 + error))) for x in sums]
        return (LossOdds(ends[0], ends[1]),)


def response_curve(epsilon: Fraction, count: int, of_bound: str) -> ResponseCurve | None:
    """k-fold binary randomized response, unless it has too many terms."""
    return ResponseCurve(epsilon, count, f"closed form (binomial sum){of_bound}") if count <= _MOST_TERMS else None


@dataclass(frozen=True)
class RenyiCurve:
    """What Rényi promises say and nothing more: upper ends only."""

    promises: tuple[tuple[Guarantee, int], ...]
    method: str = "upper bound (Rényi conversion of Canonne–Kamath–Steinke)"

    @cached_property
    def _profile(self) -> Callable[[Array], Array]:
        return renyi_profile(self.promises)

    def delta_bracket(self, epsilon: float) -> Bracket:
        """0 and the bound."""
        return Bracket(0.0, float(self._profile(np.array([epsilon]))[0]))

    def epsilon_bracket(self, delta: float) -> Bracket:
        """0 and the bound."""
        if delta <= 0:
            return Bracket(0.0, math.inf)
        return Bracket(0.0, inverted(self.delta_bracket, delta).upper)


@dataclass(frozen=True)
class SingleCurve:
    """One step: the curve of its pair, the larger of both directions."""

    laws: tuple[Law, ...]
    method: str

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε)."""
        found = [_single(law, epsilon) for law in self.laws]
        return Bracket(max(b.lower for b in found), max(b.upper for b in found))

    @property
    def largest(self) -> float:
        """The largest loss; infinite when there is none."""
        return max(max(law.peak, 0.0) * (1 + 4 * UNIT) for law in self.laws)

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around ε(δ)."""
        if delta <= 0:
            return Bracket(0.0 if self.largest == math.inf else self.largest * (1 - 8 * UNIT), self.largest)
        return inverted(self.delta_bracket, delta, largest=self.largest)

    def odds(self) -> tuple[LossOdds, ...]:
        """From the law of the loss itself."""
        return tuple(map(odds_of_law, self.laws))


def _single(law: Law, epsilon: float) -> Bracket:
    """P[L > ε] − e^ε Q[L > ε], with the law's own errors.

    A law's masses are right to a factor 1 ± relative at a loss within `location` of the one asked for, where e^loss may
    differ by the same amount. The curve falls, so asking a little earlier and a little later gives the two ends.
    """
    if epsilon >= law.high + law.location(abs(law.high)):
        return Bracket(0.0, law.infinite)
    slip = law.location(epsilon)
    near, far = law.above(np.array([epsilon - slip])), law.above(np.array([epsilon + slip]))
    upper = float(near[0][0]) * (1 + law.relative) - float(near[1][0]) * (1 - law.relative - 2 * slip)
    lower = float(far[0][0]) * (1 - law.relative) - float(far[1][0]) * (1 + law.relative + 2 * slip) - law.infinite
    return Bracket(min(max(lower, 0.0), 1.0), min(max(upper, 0.0), 1.0))


@dataclass(frozen=True)
class LeakyCurve:
    """A curve composed with leaks: 1 − δ′ = (1 − δ)·Π(1 − δ_i)."""

    curve: Curve
    leaks: tuple[tuple[Fraction, int], ...]

    @property
    def method(self) -> str:
        """The inner engine's."""
        return f"{self.curve.method}, with leaks"

    @cached_property
    def _kept(self) -> tuple[Fraction, Fraction]:
        """Π(1 − δ_i), rounded down and up; exact when the counts are small."""
        if sum(count for _, count in self.leaks) <= 64:
            exactly = math.prod(((1 - delta) ** count for delta, count in self.leaks), start=Fraction(1))
            return exactly, exactly
        if any(float_above(delta) >= 1 for delta, _ in self.leaks):
            return Fraction(0), Fraction(1, 1 << 53)
        exponent = math.fsum(count * math.log1p(-float_above(delta)) for delta, count in self.leaks)
        lost = -math.expm1(exponent)
        slip = 8 * UNIT * len(self.leaks)
        return 1 - min(Fraction(1), Fraction(lost) * Fraction(1 + slip)), 1 - Fraction(lost) * Fraction(1 - slip)

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ′(ε)."""
        inner = self.curve.delta_bracket(epsilon)
        low, high = self._kept
        return Bracket(
            float_below(1 - high + high * Fraction(inner.lower)), float_above(1 - low + low * Fraction(inner.upper))
        )

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around ε(δ′): the inner curve at what the leaks leave of δ′."""
        wanted = exact(delta)
        low, high = self._kept
        # (δ′ − leak)/(1 − leak), rounded down for the upper end of ε and up for the lower end.
        least = (wanted - (1 - low)) / low if low else Fraction(-1)
        most = (wanted - (1 - high)) / high if high else Fraction(-1)
        upper = math.inf if least < 0 else self.curve.epsilon_bracket(max(0.0, float_below(least))).upper
        lower = math.inf if most < 0 else self.curve.epsilon_bracket(float_above(most)).lower
        return Bracket(min(lower, upper), upper)

    def odds(self) -> tuple[LossOdds, ...]:
        """A leak tells P apart for certain: P[L > 0] = leak + (1 − leak)·P′[L > 0], Q[L > 0] = (1 − leak)·Q′[L > 0]."""
        low, high = self._kept
        return tuple(
            LossOdds(
                Bracket(
                    float_below(1 - high + high * Fraction(one.under_p.lower)),
                    float_above(1 - low + low * Fraction(one.under_p.upper)),
                ),
                Bracket(
                    float_below(low * Fraction(one.under_q.lower)), float_above(high * Fraction(one.under_q.upper))
                ),
            )
            for one in odds_of(self.curve)
        )
