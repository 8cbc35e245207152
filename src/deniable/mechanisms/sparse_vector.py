"""The sparse vector technique: which of a stream of queries exceed a threshold, paying only for those that do.

>>> m = above_threshold(threshold=100, sensitivity=1, epsilon=1, step=1)
>>> len(m([0] * 10)) <= 10
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from deniable import _checks, _values, noise
from deniable._checks import Number
from deniable._signatures import limit_sizes
from deniable.errors import DataError, InvalidArgument
from deniable.events import Claimed, DiscreteLaplace, Event
from deniable.guarantees import PureDP
from deniable.mechanisms import grids
from deniable.mechanisms.base import Mechanism, failure
from deniable.mechanisms.selection import check_monotone
from deniable.noise import Source
from deniable.numerics import discrete
from deniable.numerics.rounding import float_above
from deniable.units import AnyRelation, Relation


@dataclass(frozen=True, repr=False)
class AboveThreshold(Mechanism):
    """Says for each query whether it reaches the threshold, until `positives` of them did."""

    threshold: Fraction
    sensitivity: Fraction
    epsilon: Fraction
    positives: int
    monotone: bool
    step: Fraction
    stated: Relation

    @property
    def event(self) -> Event:
        return Claimed(PureDP(self.epsilon, relation=self.stated))

    @property
    def steps(self) -> int:
        """The sensitivity of a query in steps of the grid."""
        return grids.sensitivity_in_steps(self.sensitivity, self.step)

    @property
    def noises(self) -> tuple[DiscreteLaplace, DiscreteLaplace]:
        """The noise of the threshold, and that of every query."""
        times = self.positives if self.monotone else 2 * self.positives
        # The best split is irrational; any split is private, so a short fraction near it will do.
        first = self.epsilon * Fraction(1 / (1 + times ** (2 / 3))).limit_denominator(10**6)
        return DiscreteLaplace(self.steps / first, self.steps), DiscreteLaplace(
            times * self.steps / (self.epsilon - first), times * self.steps
        )

    def start(self, *, source: Source | None = None) -> ThresholdRun:
        """A run to which queries come one at a time, each allowed to depend on the answers so far."""
        return ThresholdRun(self, source)

    def __call__(self, values: object, /, *, source: Source | None = None) -> list[bool]:
        """The answers to a list of query values, up to the last positive one that is allowed."""
        run = self.start(source=source)
        answers = []
        for value in grids.list_answers(values):
            if run.over:
                break
            answers.append(run(value))
        return answers

    def error(self, confidence: Number = Fraction(19, 20), *, queries: int | None = None) -> float:
        """A bound α for all `queries` answers: yes means value ≥ threshold − α, no means value ≤ threshold + α."""
        if queries is None:
            raise InvalidArgument(
                "queries", queries, "how many queries to plan for", "The accuracy is that of the worst."
            )
        query_count = _checks.count("queries", queries)
        risk = failure(confidence) / 2
        threshold, query = self.noises
        radius = discrete.laplace_radius(threshold.scale, risk) + discrete.laplace_radius(
            query.scale, discrete.each_of(risk, query_count)
        )
        return float_above(radius * self.step + (0 if self.step == 1 else self.step))


class ThresholdRun:
    """One pass of the sparse vector technique. It holds the noisy threshold, which is secret."""

    def __init__(self, mechanism: AboveThreshold, source: Source | None) -> None:
        self._mechanism, self._source = mechanism, source
        first, self._noise = mechanism.noises
        sample = noise.discrete_laplace(first.scale, source=source)
        self._threshold = math.floor(mechanism.threshold / mechanism.step + Fraction(1, 2)) + int(sample)
        self._left = mechanism.positives

    @property
    def over(self) -> bool:
        """Whether the last positive answer was given."""
        return self._left == 0

    def __call__(self, value: object) -> bool:
        """Whether a query's value is, noisily, at or above the threshold. What is no finite number counts as 0."""
        if self.over:
            raise DataError(
                f"this run gave its {self._mechanism.positives} positive answers; start another and pay for it"
            )
        step = self._mechanism.step
        steps = _values.whole(value) if step == 1 else grids.round_to_step(value, step)
        positive = steps + int(noise.discrete_laplace(self._noise.scale, source=self._source)) >= self._threshold
        self._left -= positive
        return positive

    def __repr__(self) -> str:
        return f"<a run of {self._mechanism!r}>"


@limit_sizes
def above_threshold(
    *,
    threshold: Number,
    sensitivity: Number,
    epsilon: Number,
    positives: int = 1,
    monotone: bool = False,
    step: Number | None = None,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> AboveThreshold:
    """Above threshold: which of a stream of queries exceed a threshold, paying only for those that do.

    The sparse vector technique in its correct form (Lyu, Su and Li 2017, Algorithm 1). The threshold gets noise of
    scale Δ/ε₁ once; every query gets fresh noise of scale 2cΔ/ε₂ (cΔ/ε₂ for monotone queries); the answer is only
    whether the noisy query reaches the noisy threshold; after c positive answers it stops. That is (ε₁ + ε₂)-DP. The
    split ε₁ : ε₂ = 1 : (2c)^(2/3), or 1 : c^(2/3), makes the comparison most accurate. Noise is discrete Laplace on the
    grid of the answers, for which the proof is the same: it shifts the threshold's noise by Δ steps and a query's by
    2Δ.

    What a broken variant gets wrong: no noise on the queries, noise without the factor c, a threshold without noise, or
    the noisy value that was compared being released.

    Args:
        threshold: the public value that queries are compared with.
        sensitivity: how far one unit can move any one query.
        epsilon: the privacy budget ε of one release.
        positives: how many positive answers one run gives.
        monotone: True halves the noise of queries that one unit moves the same way; refused under REPLACE.
        step: the grid that answers are rounded to, a power of two; 1 for integers, a millionth of Δ by default.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> m = above_threshold(threshold=100, sensitivity=1, epsilon=1, step=1)
    >>> m.event
    Claimed(PureDP(epsilon=1))
    >>> run = m.start()
    >>> [type(run(value)) for value in (3, 5)]
    [<class 'bool'>, <class 'bool'>]
    >>> len(m([0] * 10)) <= 10
    True
    """
    relation = Relation.of(relation)
    remedy = "Queries that nobody can change are public."
    exact_sensitivity, grid = grids.check_sensitivity(sensitivity, step, remedy=remedy)
    check_monotone(relation, what="query", monotone=monotone)
    return AboveThreshold(
        threshold=_checks.number("threshold", threshold),
        sensitivity=exact_sensitivity,
        epsilon=_checks.positive("epsilon", epsilon),
        positives=_checks.count("positives", positives),
        monotone=bool(monotone),
        step=grid,
        stated=relation,
    )
