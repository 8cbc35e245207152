"""Noise added to integers: choosing it, drawing it, and saying how far it strays.

Every additive mechanism computes integers whose sensitivity it knows. `fit` chooses noise for them, and the
`AdditiveNoise` it returns holds the event and draws from exactly that event. Pure ε uses discrete Laplace noise of
scale Δ₁/ε; (ε, δ) uses discrete Gaussian noise.

A statistic that is an integer of large sensitivity D (a sum of finely placed records) is first rounded to multiples
of D/s, s a small power of two. Rounding half up commutes with shifts by whole multiples and is monotone, so the
rounded statistic has sensitivity s exactly: nothing is lost, and the event stays small enough for an exact account.

>>> from deniable.units import Relation
>>> counts = fit([Statistic(sensitivity=1)], epsilon=Fraction(1, 2), delta=Fraction(0), relation=Relation.ADD_REMOVE)[0]
>>> counts.event
DiscreteLaplace(scale=2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from deniable import _checks, noise
from deniable._checks import Number
from deniable.calibration import calibrate
from deniable.errors import InvalidArgument
from deniable.events import Composed, DiscreteGaussian, DiscreteLaplace, Event
from deniable.guarantees import ApproxDP
from deniable.mechanisms.base import Mechanism
from deniable.noise import Source
from deniable.numerics import discrete
from deniable.numerics.exact import root_above, short_above
from deniable.units import Relation

NoiseEvent: TypeAlias = DiscreteLaplace | DiscreteGaussian

_STEPS = 1 << 10
"""Steps within a rounded statistic's sensitivity, at most."""

_DIGITS = 7
"""Significant digits of a noise multiplier that is calibrated: a number that people can read."""

_WIDEST = 1 << 9
"""The scale, in steps, that rounding aims at: half a step is nothing beside it, and an exact account stays quick."""


@dataclass(frozen=True)
class Statistic:
    """The sensitivity of integers that are to get noise.

    Attributes:
        sensitivity: how far one unit moves each single number.
        size: how many numbers there are.
        l1: the sum of all changes, in multiples of `sensitivity`.
        l2_squared: the sum of the squared changes, in multiples of `sensitivity`².
        changes: how many numbers one unit changes.
        reach: under REPLACE, how far one unit's presence moves the answer from its absence.
        share: the part of the budget that these numbers get.
    """

    sensitivity: int
    size: int = 1
    l1: int = 1
    l2_squared: Fraction = Fraction(1)
    changes: int = 1
    reach: int | None = None
    share: Fraction = Fraction(1)


@dataclass(frozen=True)
class AdditiveNoise:
    """Noise for `size` integers that are rounded to multiples of `unit`. Samples are drawn from the law in `event`."""

    event: NoiseEvent
    unit: Fraction = Fraction(1)
    size: int = 1

    def release(self, values: Sequence[int], source: Source | None) -> list[Fraction]:
        """Noisy values, in the statistic's own units."""
        steps = values if self.unit == 1 else [math.floor(value / self.unit + Fraction(1, 2)) for value in values]
        return [step * self.unit for step in add_noise(steps, self.event, source)]

    def release_one(self, value: int, source: Source | None) -> Fraction:
        """One noisy value."""
        return self.release([value], source)[0]

    def radius(self, failure: float) -> Fraction:
        """A bound on the largest error of all `size` values, which fails with at most this probability."""
        distance = radius(self.event, failure, size=self.size) * self.unit
        return distance if self.unit == 1 else distance + self.unit / 2


class AdditiveMechanism(Mechanism):
    """A mechanism whose only randomness is its additive `noise`."""

    noise: AdditiveNoise

    @property
    def event(self) -> Event:
        return self.noise.event


def check_budget(epsilon: Number, delta: Number) -> tuple[Fraction, Fraction]:
    """ε and δ of a request as exact numbers."""
    exact_epsilon = _checks.positive(
        "epsilon", epsilon, remedy="For example 1; with 0 no answer may depend on the data."
    )
    exact_delta = _checks.between(
        "delta",
        delta,
        low=0,
        high=1,
        open_high=True,
        expected="0 (Laplace noise) or a probability below 1 (Gaussian noise)",
    )
    return exact_epsilon, exact_delta


def check_relation(relation: Relation, *supported: Relation, why: str) -> Relation:
    """Refuses a relation that a mechanism is not analysed under."""
    if relation not in supported:
        raise InvalidArgument("relation", relation, " or ".join(one.name for one in supported), why)
    return relation


def fit(
    statistics: Sequence[Statistic], *, epsilon: Fraction, delta: Fraction, relation: Relation
) -> tuple[AdditiveNoise, ...]:
    """Noise for statistics released together, each with its `share` of the budget; the shares add up to 1."""
    return _fit(tuple(statistics), epsilon, delta, relation)


@lru_cache(maxsize=256)
def _fit(
    statistics: tuple[Statistic, ...], epsilon: Fraction, delta: Fraction, relation: Relation
) -> tuple[AdditiveNoise, ...]:
    for statistic in statistics:
        if statistic.sensitivity <= 0:
            raise InvalidArgument(
                "sensitivity", statistic.sensitivity, "positive", "What no unit can change needs no noise."
            )
    if not delta:
        return tuple(_laplace(statistic, epsilon * statistic.share, relation) for statistic in statistics)

    def gaussians(multiplier: Fraction) -> tuple[AdditiveNoise, ...]:
        return tuple(_gaussian(statistic, multiplier, relation) for statistic in statistics)

    def event(multiplier: Fraction) -> Event:
        return compose_events([one.event for one in gaussians(multiplier)])

    multiplier = gaussian_multiplier(event, epsilon=epsilon, delta=delta, relation=relation)
    return gaussians(multiplier)


def gaussian_multiplier(
    event: Callable[[Fraction], Event], *, epsilon: Fraction, delta: Fraction, relation: Relation
) -> Fraction:
    """The smallest noise multiplier m, within a thousandth, for which the accountant confirms `event(m)`.

    One number of integer sensitivity is accounted exactly, vectors by the zCDP bound of Canonne, Kamath and Steinke
    (2020, Theorem 4 and Prop. 12).
    """

    def make_event(multiplier: float) -> Event:
        return event(short_above(multiplier, figures=_DIGITS))

    try:
        calibrated = calibrate(make_event, ApproxDP(epsilon, delta, relation=relation), tolerance=Fraction(1, 1000))
    except InvalidArgument as refusal:
        if refusal.name != "target":
            raise
        expected = f"one that Gaussian noise reaches at epsilon={_checks.shown(epsilon)}"
        raise InvalidArgument("delta", float(delta), expected, "Leave delta out for Laplace noise.") from None
    return short_above(calibrated.value, figures=_DIGITS)


def _laplace(statistic: Statistic, epsilon: Fraction, relation: Relation) -> AdditiveNoise:
    steps = _steps(statistic, Fraction(statistic.l1) / epsilon)
    total = steps * statistic.l1
    reach = None if statistic.reach is None else _reach(statistic.reach, statistic.sensitivity, steps)
    event = DiscreteLaplace(total / epsilon, total, relation, reach=reach, coordinates=statistic.changes)
    return AdditiveNoise(event, Fraction(statistic.sensitivity, steps), statistic.size)


def _gaussian(statistic: Statistic, multiplier: Fraction, relation: Relation) -> AdditiveNoise:
    l2 = root_above(statistic.l2_squared)
    ratio = multiplier * l2 * root_above(1 / statistic.share)
    steps = _steps(statistic, ratio)
    reach = None if statistic.reach is None else _reach(statistic.reach, statistic.sensitivity, steps)
    event = DiscreteGaussian(ratio * steps, steps * l2, relation, reach=reach, coordinates=statistic.changes)
    return AdditiveNoise(event, Fraction(statistic.sensitivity, steps), statistic.size)


def _steps(statistic: Statistic, ratio: Fraction) -> int:
    """The number of steps in a sensitivity: itself if it is small, else a power of two that keeps the scale small.

    The numbers of a vector are rounded one by one, which loses nothing either: each changes by at most `steps`.
    """
    steps = _STEPS
    while steps > 1 and ratio * steps > _WIDEST:
        steps //= 2
    return min(steps, statistic.sensitivity)


def _reach(reach: int, sensitivity: int, steps: int) -> int:
    """A reach in steps, rounded up."""
    return -(-reach * steps // sensitivity)


def compose_events(events: Sequence[Event]) -> Event:
    """One event, or the sum of several."""
    return events[0] if len(events) == 1 else Composed(events)


def add_noise(values: Sequence[int], event: NoiseEvent, source: Source | None) -> list[int]:
    """Integers with independent noise of the event's own law and scale."""
    if isinstance(event, DiscreteLaplace):
        samples = noise.discrete_laplace(event.scale, len(values), source=source)
    else:
        samples = noise.discrete_gaussian(event.scale, len(values), source=source)
    return [value + int(sample) for value, sample in zip(values, samples, strict=True)]


def radius(event: NoiseEvent, failure: float, *, size: int = 1) -> int:
    """An m such that `size` independent noises all lie within ±m, except with this probability."""
    tail = discrete.each_of(failure, size)
    if isinstance(event, DiscreteLaplace):
        return discrete.laplace_radius(event.scale, tail)
    return discrete.gaussian_radius(event.scale, tail)
