"""The sparse vector technique: which of a stream of queries exceed a threshold, paying only for those that do.

`above_threshold` answers yes or no. `reusable_holdout` is its use for adaptive analysis (Thresholdout): answers come
from a training set, and from the holdout only where the two disagree.

>>> m = above_threshold(threshold=100, sensitivity=1, epsilon=1, step=1)
>>> len(m([0] * 10)) <= 10
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from deniable import _checks, _values, noise
from deniable._checks import Number
from deniable._signatures import limit_sizes
from deniable.errors import DataError, InvalidArgument
from deniable.events import Claimed, DiscreteLaplace, Event
from deniable.guarantees import PureDP
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import AdditiveNoise, Statistic, check_relation, fit
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


_LARGEST_HOLDOUT = 1 << 30
"""So that a sum of records in steps of 2⁻²⁰ is exact in a float."""

_UNIT_GRID = grids.make_grid((0, 1), None)
"""The grid of a query's value for one record."""


@dataclass(frozen=True, repr=False)
class ReusableHoldout(Mechanism):
    """Thresholdout: means over a training set, checked against a private holdout of n records."""

    size: int
    threshold: Fraction
    epsilon: Fraction
    positives: int
    noise: AdditiveNoise = field(repr=False)

    @property
    def event(self) -> Event:
        return Claimed(PureDP(self.epsilon, relation=Relation.REPLACE))

    @property
    def comparison(self) -> AboveThreshold:
        """The sparse vector technique that compares n times the gap with n times the threshold, for half of ε."""
        return above_threshold(
            threshold=self.threshold * self.size, sensitivity=1, epsilon=self.epsilon / 2, positives=self.positives,
            step=_UNIT_GRID.step, relation=Relation.REPLACE,
        )  # fmt: skip

    def start(self, *, source: Source | None = None) -> HoldoutRun:
        """A run to which queries come one at a time, each allowed to depend on the answers so far."""
        return HoldoutRun(self, source)

    def __call__(self, queries: object, /, *, source: Source | None = None) -> list[float]:
        """The answers to a list of pairs: a query's values on the holdout, and its mean on the training set."""
        pairs = list(queries) if isinstance(queries, list | tuple) else []
        if not pairs or any(not isinstance(pair, list | tuple) or len(pair) != 2 for pair in pairs):
            raise InvalidArgument("queries", _checks.type_of(queries), "a list of pairs: (values, training mean)")
        run = self.start(source=source)
        answers = []
        for values, training in pairs:
            if run.over:
                break
            answers.append(run(values, training=training))
        return answers

    def error(self, confidence: Number = Fraction(19, 20), *, queries: int | None = None) -> float:
        """A bound on |answer − mean over the holdout| for all `queries` answers of a run."""
        risk = failure(confidence)
        compared = self.comparison.error(1 - Fraction(risk) / 2, queries=queries)
        drawn = self.noise.radius(discrete.each_of(risk / 2, self.positives)) * _UNIT_GRID.step
        return float_above(max(self.threshold + Fraction(compared) / self.size, drawn / self.size) + _UNIT_GRID.step)


class HoldoutRun:
    """One pass of Thresholdout. It holds a noisy threshold, which is secret."""

    def __init__(self, mechanism: ReusableHoldout, source: Source | None) -> None:
        self._mechanism, self._source = mechanism, source
        self._comparison = mechanism.comparison.start(source=source)

    @property
    def over(self) -> bool:
        """Whether the last answer from the holdout was given."""
        return self._comparison.over

    def __call__(self, values: object, *, training: Number) -> float:
        """The mean over the training set, or a noisy mean over the holdout where the two are, noisily, far apart.

        Args:
            values: the query's value for each record of the holdout, between 0 and 1; a missing one counts as 0.
            training: the query's mean over the training set, which is not protected.
        """
        m, step = self._mechanism, _UNIT_GRID.step
        public = _checks.between("training", training, low=0, high=1, expected="a mean between 0 and 1")
        if self.over:
            raise DataError(f"this run gave its {m.positives} answers from the holdout; start another and pay for it")
        numbers = records.read_numbers(values)
        records.check_length(numbers, m.size, what="holdout")
        total = _UNIT_GRID.total(_UNIT_GRID.place(numbers))
        gap = abs(total - math.floor(public * m.size / step + Fraction(1, 2)))
        if not self._comparison(float(gap * step)):
            return float(public)
        mean = m.noise.release_one(total, self._source) * step / m.size
        return grids.nearest_float(min(max(mean, Fraction(0)), Fraction(1)))

    def __repr__(self) -> str:
        return f"<a run of {self._mechanism!r}>"


@limit_sizes
def reusable_holdout(
    *,
    size: int,
    threshold: Number,
    epsilon: Number,
    positives: int = 1,
    relation: AnyRelation = Relation.REPLACE,
) -> ReusableHoldout:
    """A holdout that may be asked again and again: Thresholdout (Dwork et al. 2015).

    An analyst chooses queries, each the mean of a function into [0, 1], after seeing earlier answers, and overfits
    whatever set answers them. Here the training set answers, in public. The private holdout only checks: the sparse
    vector technique compares the distance of the two means with a threshold, and where it is exceeded, at most
    `positives` times, the holdout's own mean is released with Laplace noise.

    One record moves n times the gap by at most 1, and n times the holdout's mean by at most 1. Half of ε pays for the
    comparisons, half for the c noisy means of scale 2c/(εn). This is Algorithm 1 of Lyu, Su and Li (2017) with its
    numeric answers, which is (ε₁ + ε₂ + ε₃)-DP; the threshold's noise need not be drawn again after a positive answer,
    as in the first version. Privacy bounds how far answers can stray from the population: `textbook.transfer_bound`.

    Args:
        size: the number of records of the holdout, which is public.
        threshold: the gap between the two means that is let pass.
        epsilon: the privacy budget ε of one run; charge `event` before it starts.
        positives: how many answers may come from the holdout.
        relation: REPLACE.

    >>> m = reusable_holdout(size=10_000, threshold=0.05, epsilon=2, positives=5)
    >>> m.event, round(m.error(0.95, queries=1000), 3)
    (Claimed(PureDP(epsilon=2, relation=REPLACE)), 0.066)
    >>> run = m.start()
    >>> run([1] * 5000 + [0] * 5000, training=0.51)
    0.51
    """
    relation = Relation.of(relation)
    check_relation(relation, Relation.REPLACE, why="The number of records in the holdout is public.")
    exact_epsilon = _checks.positive("epsilon", epsilon)
    public_n = _checks.count("size", size)
    if public_n > _LARGEST_HOLDOUT:
        raise InvalidArgument("size", size, f"at most {_LARGEST_HOLDOUT:,}")
    most = _checks.count("positives", positives)
    width = _UNIT_GRID.highest - _UNIT_GRID.lowest
    (additive_noise,) = fit(
        [Statistic(width)], epsilon=exact_epsilon / 2 / most, delta=Fraction(0), relation=Relation.REPLACE
    )
    return ReusableHoldout(
        size=public_n,
        threshold=_checks.between("threshold", threshold, low=0, high=1, expected="between 0 and 1"),
        epsilon=exact_epsilon,
        positives=most,
        noise=additive_noise,
    )
