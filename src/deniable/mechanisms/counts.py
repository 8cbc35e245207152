"""Counts with noise: one count, a histogram of public or unknown keys, and weighted counts.

One unit moves a count by at most 1. How many counts it moves decides the noise: `partition` says it for counts over
disjoint cells, `_matrix_sensitivity` for the rows of a matrix.

>>> histogram(keys=["A", "B", "O"], epsilon=1).statement(0.95)
'with probability 95 % the error is at most 4'
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deniable import _checks
from deniable._checks import Number
from deniable._signatures import limit_sizes
from deniable.errors import DataError, InvalidArgument
from deniable.events import Claimed, DiscreteLaplace, Event
from deniable.guarantees import ApproxDP
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import AdditiveMechanism, AdditiveNoise, Statistic, add_noise, check_budget, fit
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Source
from deniable.numerics import discrete
from deniable.numerics.rounding import float_above
from deniable.units import AnyRelation, Relation


@dataclass(frozen=True, repr=False)
class Count(AdditiveMechanism):
    """A count, as an integer; it may come out negative (see `nonnegative`)."""

    epsilon: Fraction
    delta: Fraction
    noise: AdditiveNoise = field(repr=False)

    def __call__(self, flags: object, /, *, source: Source | None = None) -> int:
        """The noisy number of records that are True (or a number but 0); missing ones are not counted."""
        return int(self.noise.release_one(int(records.read_flags(flags).sum()), source))

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on |release − count|."""
        return float_above(self.noise.radius(failure(confidence)))


@limit_sizes
def count(*, epsilon: Number, delta: Number = 0, relation: AnyRelation = Relation.ADD_REMOVE) -> Count:
    """How many records satisfy a condition. One unit moves a count by at most 1, under every relation.

    Args:
        epsilon: the privacy budget ε of one release.
        delta: 0 for Laplace noise and pure ε-DP; positive for Gaussian noise and (ε, δ)-DP.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> m = count(epsilon=0.5)
    >>> m.event
    DiscreteLaplace(scale=2)
    >>> m.error(0.95)
    6.0
    >>> isinstance(m([True, False, None, True]), int)
    True
    """
    relation = Relation.of(relation)
    epsilon, delta = check_budget(epsilon, delta)
    reach = 1 if relation is Relation.REPLACE else None
    (additive_noise,) = fit([Statistic(1, reach=reach)], epsilon=epsilon, delta=delta, relation=relation)
    return Count(epsilon, delta, additive_noise)


@dataclass(frozen=True, repr=False)
class Histogram(AdditiveMechanism):
    """One noisy count per key of a public list."""

    epsilon: Fraction
    delta: Fraction
    keys: tuple[Hashable, ...]
    noise: AdditiveNoise = field(repr=False)

    def __call__(self, values: object, /, *, source: Source | None = None) -> dict[Hashable, int]:
        """The noisy count of each key, in the order of the list. Counts may come out negative."""
        noisy = self.noise.release(records.count_keys(values, self.keys), source)
        return {key: int(value) for key, value in zip(self.keys, noisy, strict=True)}

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest error of any count."""
        return float_above(self.noise.radius(failure(confidence)))


@limit_sizes
def histogram(
    *, keys: Iterable[Hashable], epsilon: Number, delta: Number = 0, relation: AnyRelation = Relation.ADD_REMOVE
) -> Histogram:
    """Counts of every key in a public list.

    A record has one key, so one unit moves one count by 1 if it is added, removed or blanked out (L1 = L2 = 1), and two
    counts by 1 if it is replaced (L1 = 2, L2 = √2). Noise of scale Δ₁/ε in each of k counts strays by at most about
    (Δ₁/ε)(ln k + t) in all of them with probability 1 − e^−t; `error` says it exactly. Keys that are not in the list
    count nowhere; for keys that are not known beforehand there is `stability_histogram`.

    Args:
        keys: the public list of keys; records with other keys count nowhere.
        epsilon: the privacy budget ε of one release.
        delta: 0 for Laplace noise and pure ε-DP; positive for Gaussian noise and (ε, δ)-DP.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> m = histogram(keys=["A", "B", "O"], epsilon=1)
    >>> sorted(m(["A", "A", "O", "X", None])) == ["A", "B", "O"]
    True
    >>> m.error(0.95), histogram(keys=["A", "B", "O"], epsilon=1, relation=Relation.REPLACE).event
    (4.0, DiscreteLaplace(scale=2, sensitivity=2, relation=REPLACE, reach=1, coordinates=2))
    """
    relation = Relation.of(relation)
    epsilon, delta = check_budget(epsilon, delta)
    key_list = check_keys("keys", keys)
    (additive_noise,) = fit([partition(len(key_list), relation)], epsilon=epsilon, delta=delta, relation=relation)
    return Histogram(epsilon, delta, key_list, additive_noise)


def partition(cells: int, relation: Relation, *, times: int = 1) -> Statistic:
    """The sensitivity of counts over `times` partitions of the records that have `cells` cells altogether."""
    if relation is not Relation.REPLACE:
        return Statistic(1, cells, times, Fraction(times), times)
    if cells == times:  # a single cell each: leaving it for nowhere is all that can happen
        return Statistic(1, cells, times, Fraction(times), times, reach=times)
    # A vector of `times` ones has L1 norm `times` and a smaller L2 norm: the larger one is a reach for both.
    return Statistic(1, cells, 2 * times, Fraction(2 * times), 2 * times, reach=times)


def check_keys(name: str, values: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """A public list of different keys."""
    if isinstance(values, str):
        raise InvalidArgument(name, values, "a list of keys", f"For one key write {name}=[{values!r}].")
    if not isinstance(values, Iterable):
        raise InvalidArgument(name, values, "a list of keys")
    key_list = tuple(values)
    all_usable = all(key is not None for key in records.read_keys(key_list))
    if not key_list or not all_usable or len(set(key_list)) != len(key_list):
        raise InvalidArgument(name, list(key_list), "one or more different keys, none of them None, NaN or unhashable")
    return key_list


@dataclass(frozen=True, repr=False)
class StabilityHistogram(Mechanism):
    """Noisy counts of the keys that enough units have."""

    epsilon: Fraction
    delta: Fraction
    per_unit: int
    stated: Relation

    @property
    def event(self) -> Event:
        return Claimed(ApproxDP(self.epsilon, self.delta, relation=self.stated))

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise of every count."""
        changed = self.per_unit * (2 if self.stated is Relation.REPLACE else 1)
        return DiscreteLaplace(changed / self.epsilon, changed, self.stated, coordinates=changed)

    @property
    def threshold(self) -> int:
        """The smallest noisy count that is shown."""
        rate = float(1 / self.noise.scale)
        # Rounded down a little, so that the threshold can only be higher than needed.
        show_probability = -math.expm1(math.log1p(-float(self.delta)) / self.per_unit) * (1 - 1e-9)
        return 1 + discrete.laplace_threshold(self.noise.scale, min(show_probability, -math.expm1(-rate) * (1 - 1e-9)))

    def __call__(self, values: object, /, *, source: Source | None = None) -> dict[Hashable, int]:
        """The noisy counts of the keys shown.

        With `per_unit=1` values are keys, one per unit; otherwise each is a collection of keys, of which the first
        `per_unit` different ones count, in the order of their printed form.
        """
        exact_counts = records.tally(key for keys in self._units(values) for key in keys)
        noisy = add_noise([count for _, count in exact_counts], self.noise, source)
        return {key: count for (key, _), count in zip(exact_counts, noisy, strict=True) if count >= self.threshold}

    def _units(self, values: object) -> Iterable[list[Hashable]]:
        if self.per_unit == 1:
            return ([key] for key in records.read_keys(values))
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise DataError("expected one collection of keys per unit")
        return (self._first_keys(unit) for unit in values)

    def _first_keys(self, unit: object) -> list[Hashable]:
        """The first `per_unit` keys of one unit. What is not a collection has no keys."""
        try:
            unit_keys = [] if isinstance(unit, str | bytes) else list(unit)  # type: ignore[call-overload]
        except Exception:  # noqa: BLE001  a record's own methods may raise anything, and whether they do is private
            return []
        return [key for key, _ in records.tally(records.read_keys(unit_keys))[: self.per_unit]]

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the noise of any one key, shown or not. Keys near the threshold show when their noise was high."""
        return float_above(Fraction(discrete.laplace_radius(self.noise.scale, failure(confidence))))

    def needed(self, confidence: Number = Fraction(19, 20)) -> int:
        """The count from which on a key is shown with this probability."""
        return self.threshold - 1 + discrete.laplace_threshold(self.noise.scale, failure(confidence))


@limit_sizes
def stability_histogram(
    *, epsilon: Number, delta: Number, per_unit: int = 1, relation: AnyRelation = Relation.ADD_REMOVE
) -> StabilityHistogram:
    """A histogram of keys that are not known beforehand: a key is shown only if its noisy count is well above 1.

    Every key that occurs gets its count plus discrete Laplace noise of scale t = K/ε, and is shown if that reaches a
    threshold T. A unit with at most c keys changes K = c counts when it is added or removed, and K = 2c when it is
    replaced. T is chosen by the exact tail: a key that only one unit has is shown with probability p = Pr[1 + X ≥ T],
    and T is the smallest integer with

        1 − (1 − p)^c ≤ δ     and     p ≤ 1 − e^{−1/t}.

    (ε, δ)-DP (Korolova, Kenthapadi, Mishra and Ntoulas 2009, for the idea). Proof: let j of the changed keys be ones
    that only the one unit has in D. With probability at least 1 − δ none of those is shown. On that event the outputs
    differ in keys that both data sets have, e^{1/t} each, and in keys new to D′, of which j′ are hidden there with
    probability (1 − p)^j′ ≥ e^{−j′/t}: altogether e^{K/t} = e^ε at most.

    Keys are shown in the order of their printed form, never in that of the data, and those that print differently are
    different keys, even if Python calls them equal (1 and True): which of them came first is one record's doing.

    Args:
        epsilon: the privacy budget ε of one release.
        delta: the probability, above 0, with which a key of one unit may be shown.
        per_unit: how many keys of one unit count.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> m = stability_histogram(epsilon=1, delta=1e-6)
    >>> m.threshold
    15
    >>> list(m(["flu"] * 1000 + ["gout"] + ["cold"] * 500))
    ['cold', 'flu']
    """
    relation = Relation.of(relation)
    return StabilityHistogram(
        epsilon=_checks.positive("epsilon", epsilon),
        delta=_checks.inner_probability("delta", delta, remedy="Keys that are not known beforehand need a delta."),
        per_unit=_checks.count("per_unit", per_unit),
        stated=relation,
    )


_WEIGHT_STEPS = 1 << 20
"""Steps of a weight within the largest one, where weights are not multiples of a coarser power of two."""


@dataclass(frozen=True, repr=False)
class LinearQueries(AdditiveMechanism):
    """Noisy answers to the rows of a public matrix."""

    epsilon: Fraction
    delta: Fraction
    keys: tuple[Hashable, ...]
    weights: tuple[tuple[int, ...], ...] = field(repr=False)
    step: Fraction
    noise: AdditiveNoise = field(repr=False)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The weights that are used, after rounding."""
        return np.array(self.weights, dtype=np.float64) * float(self.step)

    def __call__(self, values: object, /, *, source: Source | None = None) -> NDArray[Any]:
        """The noisy answers; a record whose key is not in the list counts for none."""
        counts = records.count_keys(values, self.keys)
        exact = [sum(w * c for w, c in zip(row, counts, strict=True)) for row in self.weights]
        return grids.array_from_steps(self.noise.release(exact, source), self.step, self.noise.unit)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest error of any answer, for the matrix as rounded (`matrix`)."""
        return float_above(self.noise.radius(failure(confidence)) * self.step)


@limit_sizes
def linear_queries(
    *,
    matrix: ArrayLike,
    keys: Iterable[Hashable],
    epsilon: Number,
    delta: Number = 0,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> LinearQueries:
    """Linear queries: weighted counts, all at once.

    A query gives every key of a public list a weight, and its answer is the sum of the weights of the records. With the
    queries as the rows of a matrix A, a record of key j moves the answers by column j: adding or removing it has the
    largest column norm as its sensitivity, replacing it the largest distance of two columns (a key outside the list is
    a column of zeros). Weights are rounded to a grid first; the matrix is public, so its sensitivity is computed
    exactly from what is used.

    Args:
        matrix: the weights: one row per query, one column per key.
        keys: the public list of keys; records with other keys count nowhere.
        epsilon: the privacy budget ε of one release.
        delta: 0 for Laplace noise and pure ε-DP; positive for Gaussian noise and (ε, δ)-DP.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> cumulative = linear_queries(matrix=[[1, 0, 0], [1, 1, 0], [1, 1, 1]], keys=["low", "middle", "high"], epsilon=1)
    >>> cumulative.event
    DiscreteLaplace(scale=3, sensitivity=3, coordinates=3)
    >>> cumulative(["low", "high", "high"]).shape
    (3,)
    """
    relation = Relation.of(relation)
    epsilon, delta = check_budget(epsilon, delta)
    key_list = check_keys("keys", keys)
    rows = np.asarray(matrix, dtype=np.float64)
    if (
        rows.ndim != 2
        or rows.shape[1] != len(key_list)
        or not rows.size
        or not np.isfinite(rows).all()
        or not rows.any()
    ):
        raise InvalidArgument(
            "matrix", f"shape {rows.shape}", f"finite weights, not all 0, one column for each of {len(key_list)} keys"
        )
    step = _weight_step(rows)
    weights = _integer_weights([grids.round_vector(row, step, size=len(key_list)) for row in rows])
    statistic = _matrix_sensitivity(weights, relation)
    (additive_noise,) = fit([statistic], epsilon=epsilon, delta=delta, relation=relation)
    return LinearQueries(epsilon, delta, key_list, tuple(map(tuple, weights.tolist())), step, additive_noise)


def _weight_step(rows: NDArray[np.float64]) -> Fraction:
    """The coarsest power of two that loses nothing, or else the one that cuts the largest weight into 2**20."""
    finest = grids.power_below(Fraction(float(np.abs(rows).max())) / _WEIGHT_STEPS)
    step = Fraction(1)
    while step > finest and not (rows / float(step) == np.rint(rows / float(step))).all():
        step /= 2
    return step if (rows / float(step) == np.rint(rows / float(step))).all() else finest


def _integer_weights(rows: list[list[int]]) -> NDArray[Any]:
    """Weights as machine integers where no difference or sum of them can leave their range, else as Python's."""
    largest = max(abs(weight) for row in rows for weight in row)
    return np.array(rows, dtype=np.int64 if 2 * largest * (len(rows) + 1) < 1 << 62 else object)


def _matrix_sensitivity(weights: NDArray[Any], relation: Relation) -> Statistic:
    """Sensitivities of integer weights, exactly."""
    columns = weights.T
    reach = max(int(np.abs(column).sum()) for column in columns)
    if relation is Relation.REPLACE:
        absent = np.zeros((1, columns.shape[1]), dtype=columns.dtype)
        all_columns = np.concatenate([columns, absent])
        changes = [np.abs(all_columns - column) for column in columns]
    else:
        changes = [np.abs(columns)]
    l1 = max(int(change.sum(axis=1).max()) for change in changes)
    l2_squared = max(int((change.astype(object) ** 2).sum(axis=1).max()) for change in changes)
    changed_answers = max(int((change != 0).sum(axis=1).max()) for change in changes)
    return Statistic(
        1,
        weights.shape[0],
        l1,
        Fraction(l2_squared),
        changed_answers,
        reach=reach if relation is Relation.REPLACE else None,
    )
