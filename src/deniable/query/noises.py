"""Which noise the measures of a plan get: its law, what it is charged as, and the threshold of private keys.

A cost buys an *amount*, which is divided over the measures of a plan in proportion to their shares. There are three
forms of noise, each with an amount of its own. For a measure that one unit moves by Δ₁ in L1 and by Δ₂ in L2
(`measures.Move`):

| form | amount | noise | proof |
|---|---|---|---|
| `LAPLACE` | ε | discrete Laplace, scale Δ₁/ε | Ghosh, Roughgarden, Sundararajan 2009; ε add up |
| `CONCENTRATED` | ρ | discrete Gaussian, σ = Δ₂/√(2ρ) | Canonne, Kamath and Steinke 2020 (see below); ρ add up |
| `SMOOTHED` | μ² | discrete Gaussian, σ² = τ² + 36 with τ = Δ₂/μ | `noise.discrete` (see below); μ² add up |

A vector of integers with independent discrete Gaussian noise is Δ₂²/(2σ²)-zCDP in any dimension: each number that
moves by d costs ρ = d²/(2σ²) (their Theorem 4), and the ρ of independent numbers add up (Bun and Steinke 2016, Lemma
2.3). The smoothed form keeps the promise of normal noise of deviation τ, whose curve for a vector is that of one number
which moves by Δ₂, but for a leak of 2·10⁻³⁰⁸ per number that changes.

The first is charged as `DiscreteLaplace`, the second as `DiscreteGaussian`, the third as `Gaussian` with its leak.
Under an (ε, δ) cost the third needs less noise than the second as soon as σ is above about 17, because normal noise has
an exact curve; in zCDP the second needs less. `fit` makes the noise of every form that the cost allows, and `planning`
takes the one with the smallest error.

**Scales.** Every scale is rounded up, and the event states the scale that is drawn (τ where the form is smoothed). The
sensitivity in the event is a fraction that is not below √(Δ₂²), and Δ₂² is a whole number. So what is charged is at
most what was bought, in exact fractions.

**Private keys.** A group is shown if its noisy number of units reaches a threshold T. With Laplace noise that is
`mechanisms.stability_histogram`. With Gaussian noise: let p = Pr[1 + X ≥ T], and T so large that 1 − (1 − p)^K ≤ δ for
the K groups that a unit may have. Let S be the groups that only the one unit has. They are all hidden with probability
at least 1 − δ, independently of the other groups. So the law of the output is a mixture P = (1 − δ)P′ + δP″, where P′
is the law of the other groups alone. There the units' numbers of both neighbours differ by at most 1 in at most K
groups (2K where a unit is replaced), and noise of the same form makes P′ and its counterpart Q′ as close as its amount
says. This is what δ-approximate zCDP means (Bun and Steinke 2016, Definition 8.1), and what the ledger's filters add
up.

>>> from deniable.query.measures import Move
>>> LAPLACE.noise(Move(sensitivity=365, squared=365, reach=365, coordinates=365), Fraction(1)).scale
Fraction(365, 1)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from operator import add
from statistics import NormalDist
from typing import Any, NamedTuple

from numpy.typing import NDArray

from deniable import noise
from deniable.errors import InvalidArgument
from deniable.events import Claimed, DiscreteGaussian, DiscreteLaplace, Event, Gaussian
from deniable.guarantees import ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.noise.discrete import LEAK, SPREAD
from deniable.numerics import discrete
from deniable.numerics.exact import root_above, short_above, short_below
from deniable.numerics.roots import bisect
from deniable.query.measures import Measure, Move
from deniable.units import Relation

_FIGURES = 12
"""Digits of a Gaussian scale."""

_LARGEST_SCALE = 10**250
"""Noise beyond this would not fit a float."""

_HELD_BACK = Fraction(999, 1000)
"""The part of δ that Gaussian noise is scaled to: the rest covers the roundings of the accountant that confirms it."""


@dataclass(frozen=True)
class IntegerNoise(ABC):
    """The law of independent noise on whole numbers."""

    scale: Fraction

    @abstractmethod
    def draw(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """Fresh noise."""

    @abstractmethod
    def radius(self, failure: Fraction) -> int:
        """An m with Pr[|X| > m] ≤ failure."""

    @abstractmethod
    def threshold(self, tail: float) -> int:
        """An m ≥ 1 with Pr[X ≥ m] ≤ tail."""

    @abstractmethod
    def sum_radius(self, weights: tuple[tuple[float, int], ...], failure: Fraction) -> float:
        """A t with Pr[Σ wᵢXᵢ > t] ≤ failure for independent Xᵢ; `weights` are (weight, how many)."""

    @abstractmethod
    def mixture_radius(self, failure: Fraction) -> int:
        """An m with Pr[|(1 − p)X − pY| > m] ≤ failure for independent X and Y, whatever p between 0 and 1."""


class LaplaceIntegers(IntegerNoise):
    """Discrete Laplace noise: Pr[x] ∝ exp(−|x|/scale)."""

    name = "discrete Laplace"

    def draw(self, shape: tuple[int, ...]) -> NDArray[Any]:
        return noise.discrete_laplace(self.scale, shape)

    def radius(self, failure: Fraction) -> int:
        return discrete.laplace_radius(self.scale, failure)

    def threshold(self, tail: float) -> int:
        return discrete.laplace_threshold(self.scale, tail)

    def sum_radius(self, weights: tuple[tuple[float, int], ...], failure: Fraction) -> float:
        return discrete.laplace_sum_radius(self.scale, weights, failure)

    def mixture_radius(self, failure: Fraction) -> int:
        # X = ⌊E⌋ − ⌊E′⌋ for two exponential variables of this scale, and E − E′ is Laplace: X is within 1 of it. A
        # mixture of two Laplace variables reaches no further than one of them, because their density is symmetric and
        # its logarithm concave (Proschan 1965, Theorem 2.3).
        return 1 + math.ceil(-math.log(float(failure)) * float(self.scale) * (1 + 1e-9))


class GaussianIntegers(IntegerNoise):
    """Discrete Gaussian noise: Pr[x] ∝ exp(−x²/(2 scale²))."""

    name = "discrete Gaussian"

    def draw(self, shape: tuple[int, ...]) -> NDArray[Any]:
        return noise.discrete_gaussian(self.scale, shape)

    def radius(self, failure: Fraction) -> int:
        return _gaussian_radius(self.scale, failure)

    def threshold(self, tail: float) -> int:
        return discrete.gaussian_threshold(self.scale, tail)

    def sum_radius(self, weights: tuple[tuple[float, int], ...], failure: Fraction) -> float:
        return discrete.gaussian_sum_radius(self.scale, weights, failure)

    def mixture_radius(self, failure: Fraction) -> int:
        if self.scale < 1:
            return self.radius(failure / 2)  # both within it
        # X lies below a normal variable of deviation σ ≥ 1, plus 1, in the order of cumulative probabilities:
        # Pr[X ≥ k] ≤ Pr[N ≥ k − 1] for k ≥ 1 (Canonne, Kamath and Steinke 2020), and Pr[X ≥ k] ≥ Pr[N ≥ k] there, which
        # is the same for the other k: the sum of a falling function exceeds its integral by more than the 2e^(−2π²σ²)
        # by which the sum over all integers exceeds σ√(2π). So a mixture lies below a normal variable of deviation σ at
        # most, plus 1.
        return 1 + math.ceil(-NormalDist().inv_cdf(float(failure) / 2) * float(self.scale) * (1 + 1e-9))


@lru_cache(maxsize=1024)
def _gaussian_radius(scale: Fraction, failure: Fraction) -> int:
    return discrete.gaussian_radius(scale, float(failure))


class KeyThreshold(NamedTuple):
    """The smallest noisy number of units with which a group is shown, and the δ that this costs."""

    threshold: int
    delta: Fraction


@dataclass(frozen=True)
class MeasureNoise:
    """The noise of one measure: its part of the amount, how far a unit moves the measure, the law, and what is charged.
    With a `threshold`, the measure is the number of units that decides which groups are shown."""

    measure: Measure
    amount: Fraction
    move: Move
    law: IntegerNoise
    event: Event
    threshold: KeyThreshold | None = None

    @property
    def scale(self) -> Fraction:
        """The scale of the noise, in steps of the measure's grid."""
        return self.law.scale

    def added(self, exact: NDArray[Any]) -> NDArray[Any]:
        """A measure with fresh noise."""
        return noise.add(exact, self.law.draw(exact.shape))


class NoiseForm(ABC):
    """One way to make measures private; the table of the module lists them."""

    name: str
    """What the caller says: "laplace" or "gaussian"."""
    symbol: str
    """What the amount is called in print."""
    key: str
    """What it is called in plain data."""
    words: str

    @abstractmethod
    def total(self, cost: Guarantee, *, keys: bool) -> Fraction | None:
        """The amount that a cost buys, `keys` saying whether a part of its δ goes to private keys; None where this form
        cannot keep the promise."""

    @abstractmethod
    def noise(self, move: Move, amount: Fraction) -> IntegerNoise:
        """The noise of a measure that gets an amount."""

    @abstractmethod
    def event(self, move: Move, amount: Fraction, relation: Relation) -> Event:
        """What adding it is charged as, but for a leak."""

    def leak(self, moves: Sequence[Move]) -> Fraction:
        """The δ of the noise itself."""
        return Fraction(0)

    def key_delta(self, cost: Guarantee) -> Fraction:
        """The part of a cost's δ that private keys get."""
        delta = getattr(cost, "delta", Fraction(0))
        return Fraction(delta)

    def keys(
        self, measure: Measure, move: Move, amount: Fraction, *, groups: int, delta: Fraction, relation: Relation
    ) -> MeasureNoise:
        """The noise of the number of units, and the threshold, where a unit may have this many groups."""
        law = self.noise(move, amount)
        # Rounded down a little, so that the threshold can only be higher than needed.
        shown = -math.expm1(math.log1p(-float(delta)) / groups) * (1 - 1e-9)
        threshold = KeyThreshold(1 + law.threshold(shown), delta)
        return MeasureNoise(measure, amount, move, law, self.event(move, amount, relation), threshold)


class _Laplace(NoiseForm):
    name, symbol, key, words = "laplace", "ε", "epsilon", LaplaceIntegers.name

    def total(self, cost: Guarantee, *, keys: bool) -> Fraction | None:
        if isinstance(cost, PureDP | ApproxDP):
            return cost.epsilon
        return pure_within(cost.rho) if isinstance(cost, ZCDP | ApproxZCDP) else None

    def noise(self, move: Move, amount: Fraction) -> IntegerNoise:
        return LaplaceIntegers(Fraction(move.sensitivity) / amount)

    def event(self, move: Move, amount: Fraction, relation: Relation) -> Event:
        return DiscreteLaplace(
            Fraction(move.sensitivity) / amount,
            move.sensitivity,
            relation,
            reach=move.reach if relation is Relation.REPLACE else None,
            coordinates=move.coordinates,
        )

    def keys(
        self, measure: Measure, move: Move, amount: Fraction, *, groups: int, delta: Fraction, relation: Relation
    ) -> MeasureNoise:
        from deniable.mechanisms.counts import StabilityHistogram  # loads scipy, which few queries need

        found = StabilityHistogram(amount, delta, groups, relation)
        threshold = KeyThreshold(found.threshold, delta)
        return MeasureNoise(measure, amount, move, LaplaceIntegers(found.noise.scale), found.event, threshold)


class _Gaussian(NoiseForm):
    name, words = "gaussian", GaussianIntegers.name

    def key_delta(self, cost: Guarantee) -> Fraction:
        """Of an (ε, δ) cost one half; the noise needs the other."""
        delta = super().key_delta(cost)
        return delta / 2 if isinstance(cost, ApproxDP) else delta

    def _noise_delta(self, cost: ApproxDP, *, keys: bool) -> Fraction:
        return cost.delta * _HELD_BACK / (2 if keys else 1)


class _Concentrated(_Gaussian):
    symbol, key = "ρ", "rho"

    def total(self, cost: Guarantee, *, keys: bool) -> Fraction | None:
        from deniable.conversions.formulas import rho_limit

        if isinstance(cost, ApproxDP) and cost.delta:
            return rho_limit(cost.epsilon, self._noise_delta(cost, keys=keys)) or None
        return cost.rho if isinstance(cost, ZCDP | ApproxZCDP) else None

    def noise(self, move: Move, amount: Fraction) -> IntegerNoise:
        return GaussianIntegers(_scale(move, 2 * amount))

    def event(self, move: Move, amount: Fraction, relation: Relation) -> Event:
        sensitivity = root_above(Fraction(move.squared))
        return DiscreteGaussian(_scale(move, 2 * amount), sensitivity, relation, coordinates=move.coordinates)


class _Smoothed(_Gaussian):
    symbol, key = "μ²", "mu_squared"

    def total(self, cost: Guarantee, *, keys: bool) -> Fraction | None:
        from deniable.conversions.formulas import gaussian_limit

        if isinstance(cost, ApproxDP) and cost.delta:
            return gaussian_limit(cost.epsilon, self._noise_delta(cost, keys=keys)) or None
        return None

    def noise(self, move: Move, amount: Fraction) -> IntegerNoise:
        return GaussianIntegers(short_above(root_above(_scale(move, amount) ** 2 + SPREAD), figures=_FIGURES))

    def event(self, move: Move, amount: Fraction, relation: Relation) -> Event:
        sensitivity = root_above(Fraction(move.squared))
        return Gaussian(_scale(move, amount), sensitivity, relation, coordinates=move.coordinates)

    def leak(self, moves: Sequence[Move]) -> Fraction:
        return LEAK * sum(move.coordinates for move in moves)


LAPLACE, CONCENTRATED, SMOOTHED = _Laplace(), _Concentrated(), _Smoothed()
FORMS: tuple[NoiseForm, ...] = (LAPLACE, SMOOTHED, CONCENTRATED)
NOISES = ("laplace", "gaussian")
"""What a caller may force."""


def _scale(move: Move, squared: Fraction) -> Fraction:
    """At least the sensitivity over √squared, to a few digits."""
    return short_above(root_above(Fraction(move.squared)) * root_above(1 / squared), figures=_FIGURES)


def pure_within(rho: Fraction) -> Fraction:
    """The largest ε, to six figures and rounded down, for which ε-DP is ρ-zCDP."""
    from deniable.conversions.formulas import pure_rho

    high = max(Fraction(1), rho) * 2 + 1
    return short_below(bisect(lambda epsilon: pure_rho(epsilon) > rho, Fraction(0), high, turns=40)[0], figures=6)


@dataclass(frozen=True)
class PlanNoise:
    """The noise of all measures of a plan, in one form."""

    form: NoiseForm
    parts: tuple[MeasureNoise, ...]
    leak: Fraction
    relation: Relation

    @property
    def event(self) -> Event:
        """What running will do to the data."""
        events = [part.event for part in self.parts]
        # The Laplace threshold states its δ in its own event.
        hidden = [part.threshold.delta for part in self.parts if part.threshold and self.form is not LAPLACE]
        leaks = [*hidden, self.leak] if self.leak else hidden
        events += [Claimed(ApproxDP(0, leak, relation=self.relation)) for leak in leaks]
        return reduce(add, events)

    @property
    def laws(self) -> dict[Measure, IntegerNoise]:
        """The law of every measure."""
        return {part.measure: part.law for part in self.parts}


def fit(
    form: NoiseForm,
    amounts: Mapping[Measure, Fraction],
    moves: Mapping[Measure, Move],
    *,
    keys: Measure | None,
    groups: int,
    delta: Fraction,
    relation: Relation,
) -> PlanNoise:
    """Noise of one form for measures with their amounts; `keys` decides which groups are shown, at this δ, where a unit
    may have `groups` of them."""
    parts = []
    for measure, amount in amounts.items():
        move = moves[measure]
        law = form.noise(move, amount)
        if law.scale * max(measure.step, Fraction(1)) > _LARGEST_SCALE:
            raise InvalidArgument("epsilon", float(amount), f"large enough for noise below {_LARGEST_SCALE:.0e}")
        if measure == keys:
            parts.append(form.keys(measure, move, amount, groups=groups, delta=delta, relation=relation))
        else:
            parts.append(MeasureNoise(measure, amount, move, law, form.event(move, amount, relation)))
    return PlanNoise(form, tuple(parts), form.leak([part.move for part in parts]), relation)
