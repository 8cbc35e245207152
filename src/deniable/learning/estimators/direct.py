"""Estimators that are a few noisy sums and no descent: covariance, principal components, scaling, naive Bayes, k-means.

All columns have declared `bounds` and are read on [−1, 1]. Sums are exact integers with exact Gaussian noise;
everything after is computed from them. δ must be above 0.

*One record's length.* Covariance: the second moment of (x/√d, 1)/√2 as in `optimizers.whitening`, length at most 1, and
√2 for an exchange. Sums by group (a class, a cluster): a record is in one group with (√a, √b·x/√d, √c·x²/√d), a + b + c
= 1, so its length is at most 1 for all groups at once. Exchanging two records of one group moves x by up to 2 and x² by
up to 1: 4b + c; of two groups: 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, ClusterMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from deniable import _checks
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.learning.declared import declared_classes
from deniable.learning.estimators.base import Array, PrivateEstimator
from deniable.learning.optimizers.base import Data, Method
from deniable.learning.optimizers.statistics import second_moments
from deniable.learning.preprocessing import ranges
from deniable.learning.privacy import add_gaussian, gaussian_event, largest_mu, make_target, round_up
from deniable.learning.reading import counted_weights, read_labels, read_rows
from deniable.learning.surroundings import warn_of_fitted_steps
from deniable.learning.table import ONE, IntegerTable, exact_sum, parts
from deniable.noise import Source
from deniable.noise.source import fixed_numbers
from deniable.units import Relation

_BLOCK = 1 << 18
FLOOR = 0.003
"""The least variance of a column on [−1, 1]: noise may leave less, or nothing."""


@dataclass(frozen=True)
class NoisySums:
    """One Gaussian release: `ratio` is its noise in lengths of a record; 0 without privacy."""

    ratio: Fraction
    source: Source | None

    def add(self, sums: NDArray[Any], *, unit: int, factor: Fraction | int = 1) -> NDArray[np.float64]:
        """Integer sums in units of 1/`unit`, with noise; a coordinate counts 1/√factor in a record's length."""
        if not self.ratio:
            return np.asarray(sums, dtype=np.float64) / unit
        found = add_gaussian(np.asarray(sums), bound=unit, ratio=self.ratio, factor=factor, source=self.source)
        return np.asarray(found / unit)

    def deviation(self, factor: Fraction | int = 1) -> float:
        """The noise of one coordinate."""
        return float(self.ratio) * math.sqrt(factor)


@dataclass(kw_only=True, eq=False, repr=False)
class DirectEstimator(PrivateEstimator):
    """What they share: declared bounds, one charge, noisy sums.

    bounds : one pair (low, high) for all columns, or a pair for each. What lies outside counts as the nearer end, what
        is no number as the middle.

    `data_norm` and `solver` are left alone: the bounds say how long a row is, and there is one way to do it.
    """

    bounds: Any = None

    def _methods(self) -> Sequence[Method]:
        return ()

    def _scaled(self, X: Any, *, reset: bool) -> Array:
        """The columns on [−1, 1]."""
        self._check_beyond()
        table = X.toarray() if hasattr(X, "tocsr") else X
        rows = read_rows(self, table, reset=reset, missing=np.nan, declared=self.bounds)
        if reset:
            low, high = ranges(self.bounds, rows.shape[1])
            self._middle, self._half = (low + high) / 2, (high - low) / 2
        low, high = self._middle - self._half, self._middle + self._half
        scaled = np.clip((np.clip(rows, low, high) - self._middle) / self._half, -1.0, 1.0)
        return np.asarray(np.nan_to_num(scaled, nan=0.0))

    def _pay(self, rows: int, releases: Callable[[float, Relation], tuple[list[Fraction], Event]]) -> list[NoisySums]:
        """Charge for the releases that a μ allows, before any record is read."""
        relation = self._relation()
        if self.data_norm is not None:
            raise InvalidArgument("data_norm", self.data_norm, "left out", "It follows from the declared bounds.")
        if self.solver != "auto":
            raise InvalidArgument("solver", self.solver, "'auto'", "There is one way to fit this.")
        if self.source is not None and not isinstance(self.source, Source):
            raise InvalidArgument("source", self.source, "a source of random bits", "Leave it out but in tests.")
        self._known = 0 if self.size is None else _checks.count("size", self.size)
        if relation is Relation.REPLACE:
            self._known = rows
            if not rows:
                raise InvalidArgument("X", "a table without rows", "one record or more, as relation='replace' counts")
        warn_of_fitted_steps(self)
        self.noise_number_, self._spread = None, None
        if not self._private:
            if self.ledger is not None:
                raise InvalidArgument("epsilon", self.epsilon, "finite where a ledger is charged")
            ratios, _ = releases(1.0, relation)
            self._record(None, None, rows)
            return [NoisySums(Fraction(0), None) for _ in ratios]
        ratios, event = releases(largest_mu(make_target(self.epsilon, self.delta, relation)), relation)
        self._charge(event)
        self._record(event, None, self._known)
        return [NoisySums(ratio, self.source) for ratio in ratios]

    def _counted(self, count: float, noise: NoisySums, factor: Fraction | int) -> float:
        """The number of records: public, or counted, and no less than its noise."""
        size = float(self._known) or max(count, 2 * noise.deviation(factor), 1.0)
        self.size_ = round(size)
        return size


def one_release(apart: float, draws: int) -> Callable[[float, Relation], tuple[list[Fraction], Event]]:
    """A single release with the whole budget; `apart` is how far an exchange moves it, in lengths of a record."""

    def plan(mu: float, relation: Relation) -> tuple[list[Fraction], Event]:
        far = round_up(apart * (1 + 1e-12)) if relation is Relation.REPLACE else Fraction(1)
        ratio = round_up(float(far) / mu * (1 + 1e-12))
        return [ratio], gaussian_event(ratio, draws=draws, relation=relation, sensitivity=far)

    return plan


# second moments


@dataclass(kw_only=True, eq=False, repr=False)
class Covariance(DirectEstimator):
    """Covariances and correlations of all pairs of columns, by one noisy second moment (Dwork et al. 2014).

    `covariance_`, `correlation_` and `location_` (the means) are in the columns' units. `deviation_` is the standard
    deviation of the noise of every covariance.

    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(5000, 2)); X[:, 1] = 0.7 * X[:, 0]
    >>> model = Covariance(epsilon=2, delta=1e-6, bounds=(-1, 1)).fit(X)
    >>> bool(model.correlation_[0, 1] > 0.9)
    True
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        rows = self._scaled(X, reset=True)
        d = rows.shape[1]
        weights = counted_weights(np.ones(len(rows), dtype=bool), sample_weight)
        (noise,) = self._pay(len(rows), one_release(math.sqrt(2), (d + 1) * (d + 2) // 2))
        table = IntegerTable.place(rows, norm=math.sqrt(d), intercept=1.0)
        sums, above = second_moments(Data(table, weights=weights), []).second, np.triu_indices(d + 1, 1)
        unit = ONE * ONE
        second = np.diag(noise.add(np.diagonal(sums), unit=unit))
        second[above] = noise.add(sums[above], unit=unit, factor=Fraction(1, 2))
        second = second + np.triu(second, 1).T
        share = (math.floor(ONE / math.sqrt(2)) / ONE) ** 2
        size = self._counted(second[-1, -1] / share, noise, 4)
        center = second[:d, -1] / (math.sqrt(share) * size)
        spread = 2 * d * (second[:d, :d] / size - np.outer(center, center))
        values, vectors = np.linalg.eigh(spread) if np.isfinite(spread).all() else (np.zeros(d), np.eye(d))
        spread = (vectors * np.maximum(values, 0.0)) @ vectors.T
        deviations = np.sqrt(np.maximum(np.diagonal(spread), FLOOR))
        self.location_ = self._middle + self._half * np.clip(center * math.sqrt(2 * d), -1, 1)
        self.covariance_ = spread * np.outer(self._half, self._half)
        self.correlation_ = np.clip(spread / np.outer(deviations, deviations), -1, 1)
        np.fill_diagonal(self.correlation_, 1.0)
        far = 2 * d * noise.deviation() / size * (np.eye(d) + (1 - np.eye(d)) / math.sqrt(2))
        self.deviation_ = far * np.outer(self._half, self._half)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class PCA(TransformerMixin, Covariance):  # type: ignore[misc]
    """Principal components of the noisy covariance.

    `components_`, `explained_variance_` and `explained_variance_ratio_` as in scikit-learn; `n_components` of them.

    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(5000, 1)) * [1.0, 0.5]
    >>> model = PCA(n_components=1, epsilon=2, delta=1e-6, bounds=(-1, 1)).fit(X)
    >>> model.transform(X).shape
    (5000, 1)
    """

    n_components: int | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        if self.n_components is not None:
            _checks.count("n_components", self.n_components)
        super().fit(X, y, sample_weight)
        values, vectors = np.linalg.eigh(self.covariance_)
        kept = slice(None, None, -1)
        values, vectors = np.maximum(values[kept], 0.0), vectors[:, kept]
        vectors = vectors * np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))] < 0, -1, 1)
        most = len(values) if self.n_components is None else min(self.n_components, len(values))
        self.components_, self.explained_variance_ = vectors.T[:most], values[:most]
        self.explained_variance_ratio_ = values[:most] / max(float(values.sum()), 1e-300)
        return self

    def transform(self, X: Any) -> Array:
        """Coordinates along the components, of rows moved into the bounds."""
        check_is_fitted(self)
        rows = self._middle + self._half * self._scaled(X, reset=False)
        return np.asarray((rows - self.location_) @ self.components_.T)


# sums by group


GROUP = (Fraction(1, 10), Fraction(1, 2), Fraction(2, 5))
"""How count, Σx and Σx² share a record's squared length: means matter most, and counts are large."""


@dataclass(frozen=True)
class GroupSums:
    """Noisy sums of the records of every group, on [−1, 1]."""

    counts: NDArray[np.float64]
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def measure(cls, rows: Array, groups: Array, weights: Array, count: int, noise: NoisySums) -> GroupSums:
        """Exact integer sums of the rows of every group, and noise."""
        d = rows.shape[1]
        whole = np.trunc(rows * ONE)

        def total(values: NDArray[np.int64], group: int) -> NDArray[np.int64]:
            chosen = values[groups == group]
            return exact_sum(chosen[part].sum(axis=0) for part in parts(len(chosen), _BLOCK))

        shares = np.trunc(weights * ONE).astype(np.int64)
        first = np.trunc(whole * weights[:, None]).astype(np.int64)
        second = np.trunc(whole * whole * weights[:, None]).astype(np.int64)
        counts, sums, squares = (
            np.array([total(values, group) for group in range(count)]) for values in (shares[:, None], first, second)
        )
        part, middle, last = GROUP
        return cls(
            noise.add(counts[:, 0], unit=ONE, factor=1 / part),
            noise.add(sums, unit=ONE, factor=d / middle),
            noise.add(squares, unit=ONE * ONE, factor=d / last),
        )


GROUP_APART = math.sqrt(4 * GROUP[1] + GROUP[2])
"""How far an exchange moves the sums by group: within one group; between two it is √2."""


@dataclass(kw_only=True, eq=False, repr=False)
class StandardScaler(OneToOneFeatureMixin, TransformerMixin, DirectEstimator):  # type: ignore[misc]
    """Means and deviations of columns, privately: `mean_`, `scale_`, and rows in those units.

    scikit-learn's `StandardScaler` before a private model makes the whole not private; this one has a price of its own,
    which adds to the model's. With declared ranges `RangeScaler` costs nothing and is usually enough.

    >>> X = np.random.default_rng(0).uniform(0, 10, size=(5000, 2))
    >>> model = StandardScaler(epsilon=1, delta=1e-6, bounds=(0, 10)).fit(X)
    >>> bool(abs(model.transform(X).std() - 1) < 0.1)
    True
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        rows = self._scaled(X, reset=True)
        weights = counted_weights(np.ones(len(rows), dtype=bool), sample_weight)
        (noise,) = self._pay(len(rows), one_release(GROUP_APART, 2 * rows.shape[1] + 1))
        found = GroupSums.measure(rows, np.zeros(len(rows), dtype=int), weights, 1, noise)
        size = self._counted(float(found.counts[0]), noise, 1 / GROUP[0])
        center = np.clip(found.sums[0] / size, -1, 1)
        spread = np.clip(found.squares[0] / size - center * center, FLOOR, 1)
        self.mean_ = self._middle + self._half * center
        self.scale_ = self._half * np.sqrt(spread)
        return self

    def transform(self, X: Any) -> Array:
        """Columns with the noisy mean taken off, in noisy deviations; values outside the bounds count as the ends."""
        check_is_fitted(self)
        return np.asarray((self._middle + self._half * self._scaled(X, reset=False) - self.mean_) / self.scale_)


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianNB(ClassifierMixin, DirectEstimator):  # type: ignore[misc]
    """Naive Bayes with normal columns: counts, means and variances of every class in one release.

    classes : all labels that may occur.

    Class means are shrunk to the grand mean, and variances to the pooled one, by as much as noise speaks in them. The
    model assumes independent, normal columns; on indicators of categories logistic regression is better.

    >>> X = np.array([[-1.0], [1.0]] * 500) + 0.1; y = np.array([0, 1] * 500)
    >>> model = GaussianNB(epsilon=1, delta=1e-6, bounds=(-2, 2), classes=[0, 1]).fit(X, y)
    >>> float(model.score(X, y))
    1.0
    """

    classes: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        labels, known = declared_classes(self.classes)
        rows = self._scaled(X, reset=True)
        codes = known.codes(read_labels(y, len(rows)))
        weights = counted_weights(codes >= 0, sample_weight)
        d, k = rows.shape[1], len(labels)
        (noise,) = self._pay(len(rows), one_release(GROUP_APART, k * (2 * d + 1)))
        found = GroupSums.measure(rows, np.maximum(codes, 0), weights, k, noise)
        deviation = noise.deviation(1 / GROUP[0])
        counts = np.maximum(found.counts, max(deviation, 1.0))
        total = self._counted(float(counts.sum()), noise, 1 / GROUP[0])
        grand = np.clip(found.sums.sum(axis=0) / total, -1, 1)
        means = np.clip(found.sums / counts[:, None], -1, 1)
        unsure = (noise.deviation(d / GROUP[1]) / counts[:, None]) ** 2
        between = np.maximum(np.mean((means - grand) ** 2 - unsure, axis=0), 1e-6)
        means = grand + (means - grand) * between / (between + unsure)
        pooled = np.clip(found.squares.sum(axis=0) / total - (counts[:, None] * means**2).sum(axis=0) / total, FLOOR, 1)
        spread = found.squares / counts[:, None] - means**2
        doubt = (noise.deviation(d / GROUP[2]) / counts[:, None]) ** 2
        variances = np.clip((spread * pooled**2 + pooled * doubt) / (pooled**2 + doubt), FLOOR, 1)
        self.classes_, self.class_prior_ = labels, counts / counts.sum()
        self.theta_ = self._middle + self._half * means
        self.var_ = variances * self._half**2
        return self

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of the probability of every class."""
        check_is_fitted(self)
        rows = self._scaled(X, reset=False)
        means, variances = (self.theta_ - self._middle) / self._half, self.var_ / self._half**2
        joint = np.column_stack(
            [
                np.log(prior) - 0.5 * (np.log(v).sum() + _column_total((rows - m) ** 2 / v))
                for prior, m, v in zip(self.class_prior_, means, variances, strict=True)
            ]
        )
        top = joint.max(axis=1, keepdims=True)
        return np.asarray(joint - top - np.log(_column_total(np.exp(joint - top)))[:, None])

    def predict_proba(self, X: Any) -> Array:
        """The probability of every class."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Array:
        """The likeliest class of every row."""
        return np.asarray(self.classes_[self.predict_log_proba(X).argmax(axis=1)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy. It is an exact statistic of these records, without noise; 0 where no record counts."""
        found = declared_classes(self.classes_)[1].codes(self.predict(X))
        codes = declared_classes(self.classes_)[1].codes(read_labels(y, len(found)))
        weights = counted_weights(np.ones(len(found), dtype=bool), sample_weight)
        total = float(weights.sum())
        return float((weights * (found == codes)).sum() / total) if total else 0.0


def _column_total(values: Array) -> Array:
    """Sums over columns, one after the other: the same bits for a row wherever it stands."""
    total = np.zeros(len(values))
    for column in values.T:
        total += column
    return total


# clusters


LLOYD_STEPS = 6
"""Steps of k-means: most of the gain comes in the first few, and every further one makes all noisier."""

BALL_SHARE = Fraction(1, 10)
"""The part of μ² for mean and radius of all points, from which starts and clips are taken."""

STEP = (Fraction(3, 20), Fraction(17, 20))
"""How the count and Σ(x − c)/R share a record's squared length in a step."""

REACH = 1.75
"""R, the longest move of a centre that one point may ask for, in root mean square radii."""


@dataclass(kw_only=True, eq=False, repr=False)
class KMeans(ClusterMixin, TransformerMixin, DirectEstimator):  # type: ignore[misc]
    """Lloyd's algorithm with noisy sums (Su et al. 2016): `cluster_centers_`, `n_clusters` of them.

    A tenth of the budget finds the points' mean and radius; the centres start spread over that ball. Each of six steps
    adds up (x − centre), shortened to 1.75 radii, for every cluster at once, and moves each centre by as much of the
    mean as stands out of the noise.

    >>> X = np.array([[-0.8, 0.8], [0.8, -0.8]] * 2000)
    >>> model = KMeans(n_clusters=2, epsilon=2, delta=1e-6, bounds=(-1, 1)).fit(X)
    >>> model.predict(X[:2]).shape
    (2,)
    """

    n_clusters: int = 8

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit privately. Everything is checked before the ledger is charged; records are read after it."""
        k = _checks.count("n_clusters", self.n_clusters)
        rows = self._scaled(X, reset=True)
        d = rows.shape[1]
        weights = counted_weights(np.ones(len(rows), dtype=bool), sample_weight)

        def releases(mu: float, relation: Relation) -> tuple[list[Fraction], Event]:
            (ball,), first = one_release(GROUP_APART, 2 * d + 1)(mu * math.sqrt(BALL_SHARE), relation)
            each = mu * math.sqrt((1 - BALL_SHARE) / LLOYD_STEPS)
            far = round_up(math.sqrt(4 * STEP[1]) * (1 + 1e-12)) if relation is Relation.REPLACE else Fraction(1)
            ratio = round_up(float(far) / each * (1 + 1e-12))
            draws = LLOYD_STEPS * k * (d + 1)
            step = gaussian_event(ratio, draws=draws, relation=relation, sensitivity=far, steps=LLOYD_STEPS)
            return [ball, ratio], first + step

        ball, noise = self._pay(len(rows), releases)
        found = GroupSums.measure(rows, np.zeros(len(rows), dtype=int), weights, 1, ball)
        size = self._counted(float(found.counts[0]), ball, 1 / GROUP[0])
        center = np.clip(found.sums[0] / size, -1, 1)
        radius = math.sqrt(min(max(float((found.squares[0] / size - center**2).sum()), FLOOR * d), float(d)))
        centers = np.clip(center + radius * _directions(k, d), -1, 1)
        clip = REACH * radius
        for _ in range(LLOYD_STEPS):
            counts, moves = self._step(rows, weights, centers, clip, noise)
            trusted = np.maximum(counts, max(noise.deviation(1 / STEP[0]), 1.0))
            moves = clip * moves / trusted[:, None]
            unsure = d * (clip * noise.deviation(1 / STEP[1]) / trusted) ** 2
            length = np.maximum((moves**2).sum(axis=1), 1e-300)
            centers = np.clip(centers + moves * np.maximum(0.0, 1 - unsure / length)[:, None], -1, 1)
        self.cluster_centers_ = self._middle + self._half * centers
        return self

    def _step(
        self, rows: Array, weights: Array, centers: Array, clip: float, noise: NoisySums
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Noisy counts, and noisy sums of (x − centre)/clip, each shortened to length 1."""
        nearest = _nearest(rows, centers)
        counts, moves = [], []
        for group in range(len(centers)):
            chosen = nearest == group
            table = IntegerTable.place(rows[chosen] - centers[group], norm=clip)
            shares = np.trunc(weights[chosen] * ONE).astype(np.int64)
            moves.append(table.sums(shares))
            counts.append(int(shares.sum()))
        return (
            noise.add(np.array(counts), unit=ONE, factor=1 / STEP[0]),
            noise.add(np.array(moves), unit=ONE * ONE, factor=1 / STEP[1]),
        )

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and the nearest centre of every row. (`labels_` is not kept: it would be about private records.)"""
        return self.fit(X, y, sample_weight).predict(X)

    def predict(self, X: Any) -> Array:
        """The nearest centre of every row."""
        check_is_fitted(self)
        return _nearest(self._scaled(X, reset=False), (self.cluster_centers_ - self._middle) / self._half)

    def transform(self, X: Any) -> Array:
        """Distances to the centres, in the columns' units."""
        check_is_fitted(self)
        rows = self._middle + self._half * self._scaled(X, reset=False)
        return np.column_stack([np.sqrt(_column_total((rows - at) ** 2)) for at in self.cluster_centers_])


def _nearest(rows: Array, centers: Array) -> NDArray[np.int64]:
    """The nearest centre of every row, by sums in a fixed order: no row's place depends on another row."""
    distances = np.column_stack([_column_total((rows - center) ** 2) for center in centers])
    return np.asarray(distances.argmin(axis=1))


def _directions(count: int, columns: int) -> NDArray[np.float64]:
    """Unit vectors spread over the sphere, the same in every fit: farthest of many candidates, one after the other."""
    candidates = fixed_numbers(0).normal(size=(max(256, 8 * count), columns))
    candidates /= np.maximum(np.linalg.norm(candidates, axis=1, keepdims=True), 1e-12)
    kept = [0]
    for _ in range(count - 1):
        apart = np.min([((candidates - candidates[one]) ** 2).sum(axis=1) for one in kept], axis=0)
        kept.append(int(apart.argmax()))
    return np.asarray(candidates[kept])
