"""Propose-test-release: run a base algorithm only where the data make it safe, after a private test that they do.

The base algorithm A is (ε_A, δ_A)-indistinguishable on *safe* data: for every D in SAFE and every neighbour D′.
`distance` counts how many units must change before the data are no longer safe; any function that is 0 on unsafe data
and moves by at most 1 between neighbours will do, so a lower bound that is cheap to compute is as sound. The test
draws discrete Laplace noise X of scale 1/ε_T and passes if distance + X ≥ m, with m the smallest integer for which
Pr[X ≥ m] ≤ δ_T. If it fails, the release is None.

This is (ε_T + ε_A, max(δ_T, δ_A))-DP (Dwork and Lei 2009): on unsafe data anything but None is released with
probability at most δ_T, and None is ε_T-indistinguishable; on safe data the test and A compose. The distance itself
is never released.

>>> from deniable.guarantees import PureDP
>>> def largest(data, source): return max(data)
>>> m = propose_test_release(base=largest, distance=lambda data: 40, promise=PureDP(0), epsilon=1, delta=1e-6)
>>> m.event
Claimed(ApproxDP(epsilon=1, delta=1e-06))
>>> m([1, 2, 3]), m.needed(0.95)
(3, 16)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from deniable import _checks, _values, noise
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events import Claimed, DiscreteLaplace, Event
from deniable.guarantees import ApproxDP, PureDP
from deniable.mechanisms import records, tails
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Source

_FURTHEST = float(1 << 62)
"""No data set has so many units."""


@dataclass(frozen=True, repr=False)
class ProposeTestRelease(Mechanism):
    """A base algorithm behind a private test of its safety."""

    base: Callable[[Any, Source | None], Any] = field(compare=False)
    distance: Callable[[Any], int] = field(compare=False)
    promise: PureDP | ApproxDP
    epsilon: Fraction
    delta: Fraction

    @property
    def event(self) -> Event:
        return Claimed(whole(self.promise, self.epsilon, self.delta))

    def __call__(self, data: Any, /, *, source: Source | None = None) -> Any:
        """What the base algorithm releases, or None if the test failed."""
        data = records.repeatable(data)
        return self.base(data, source) if passes(self.distance(data), self.epsilon, self.delta, source) else None

    def needed(self, confidence: Number = Fraction(19, 20)) -> int:
        """The distance from which on there is an answer with this probability."""
        return needed(self.epsilon, self.delta, confidence)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """0: the test adds nothing to the error of the base algorithm, whose own statement holds for its answers."""
        failure(confidence)
        return 0.0


def propose_test_release(
    *,
    base: Callable[[Any, Source | None], Any],
    distance: Callable[[Any], int],
    promise: PureDP | ApproxDP,
    epsilon: Number,
    delta: Number,
) -> ProposeTestRelease:
    """A `base(data, source)` that keeps `promise` where `distance(data)` is positive, behind a test of cost (ε, δ)."""
    if not isinstance(promise, PureDP | ApproxDP):
        raise InvalidArgument("promise", promise, "a PureDP or ApproxDP: what the base algorithm keeps on safe data")
    return ProposeTestRelease(
        base, distance, promise,
        _checks.positive("epsilon", epsilon),
        _checks.inner_probability("delta", delta, remedy="The test must be allowed to fail: for example delta=1e-6."),
    )  # fmt: skip


def whole(promise: PureDP | ApproxDP, epsilon: Fraction, delta: Fraction) -> ApproxDP:
    """The promise of test and release together."""
    base = promise.delta if isinstance(promise, ApproxDP) else Fraction(0)
    return ApproxDP(epsilon + promise.epsilon, max(delta, base), relation=promise.relation, unit=promise.unit)


def passes(distance: int, epsilon: Fraction, delta: Fraction, source: Source | None) -> bool:
    """The test. The noise is that of a count with this ε. A distance is rounded down; what is no number is 0."""
    found = _values.number(distance)
    units = 0 if math.isnan(found) or found < 0 else math.floor(min(found, _FURTHEST))
    drawn = noise.discrete_laplace(DiscreteLaplace(1 / epsilon).scale, source=source)
    return units + int(drawn) >= tails.laplace_threshold(1 / epsilon, delta)


def needed(epsilon: Fraction, delta: Fraction, confidence: Number) -> int:
    """The distance d with Pr[d + X ≥ m] ≥ confidence: X ≤ m − d − 1 fails, and −X has the law of X."""
    bar = tails.laplace_threshold(1 / epsilon, delta)
    return max(bar - 1 + tails.laplace_threshold(1 / epsilon, failure(confidence)), 0)
