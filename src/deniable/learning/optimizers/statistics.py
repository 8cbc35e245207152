"""One noisy release of a sum, and everything else computed from it: means, and linear regression by second moments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable._checks import positive
from deniable._progress import Tracker, silent
from deniable.events import DiscreteLaplace, Event
from deniable.guarantees import PureDP
from deniable.learning.losses import HalfSquare, Squared
from deniable.learning.optimizers.base import Array, Data, Method, MethodPlan, Task
from deniable.learning.privacy import add_gaussian, gaussian_event, multiplier
from deniable.learning.table import ONE, exact_sum, parts
from deniable.noise import Source
from deniable.numerics.exact import whole_root_above
from deniable.units import Relation


@dataclass(frozen=True)
class NoisySum(Method):
    """One noisy sum.

    The mean of points: their sum with noise once, divided by the number of records.

    Points of norm at most 1 are integers; their sum gets discrete Gaussian noise (δ > 0), or discrete Laplace noise for
    the L1 sensitivity √d (δ = 0). Under REPLACE two points may be 2 apart. Half the squared distance is minimised by
    the mean, so the excess risk is half the squared noise, d·(sides/(nμ))²/2.
    """

    name: ClassVar[str] = "sum"
    theorem: ClassVar[str] = "the Gaussian or Laplace mechanism"

    def plan(self, task: Task) -> NoisySumPlan:
        if not isinstance(task.loss, HalfSquare):
            raise self.refuse("the sum determines the mean only.")
        d = task.columns
        if isinstance(task.target, PureDP):
            bound = _laplace_bound(task)
            ratio = 1 / task.target.epsilon
            event: Event = DiscreteLaplace(bound * ratio, bound, task.relation, coordinates=d)
            length = math.sqrt(2 * d) * float(bound * ratio) / (ONE * ONE)
        else:
            ratio = multiplier(task.target) * task.sides
            event = gaussian_event(ratio, draws=d, relation=task.relation)
            length = math.sqrt(d) * float(ratio)
        return NoisySumPlan(task, event, (length / task.size) ** 2 / 2, ratio)


def _laplace_bound(task: Task) -> int:
    """The L1 sensitivity of the integer sum: √d, rounded up, times its L2 sensitivity."""
    return task.sides * ONE * ONE * whole_root_above(task.columns)


@dataclass(frozen=True)
class NoisySumPlan(MethodPlan):
    """One run."""

    ratio: Fraction

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task, d = self.task, self.task.columns
        weights = np.ones(data.table.count) if data.weights is None else data.weights
        sums = data.table.sums(np.trunc(weights * (1 << 16)).astype(np.int64))  # |row|·weight ≤ 2³²
        if isinstance(task.target, PureDP):
            drawn = noise.discrete_laplace(_laplace_bound(task) * self.ratio, d, source=source)
            noisy = noise.add(sums, drawn).astype(np.float64)
        else:
            noisy = add_gaussian(sums, bound=ONE * ONE, ratio=self.ratio, source=source)
        return task.project(noisy / (ONE * ONE * task.size))


_ROOT_TWO = Fraction(14143, 10000)
_BLOCK = 1 << 19
"""Rows per product: entries of at most 2³³ add up below 2⁵³."""


@dataclass(frozen=True)
class SufficientStatistics(Method):
    """Least squares on noisy second moments.

    Linear regression from noisy second moments.

    With v = (row, y/|y|max), Σ vv' holds all that least squares needs. One record moves its upper triangle by at most
    |v|² in L2, because |upper(vv')|² = (|v|⁴ + Σ v_i⁴)/2 ≤ |v|⁴. Exchanging two moves it by at most √2·|v|², because
    ⟨upper(vv'), upper(ww')⟩ = ((v·w)² + Σ v_i²w_i²)/2 ≥ 0. The triangle is a sum of integers, gets Gaussian noise once,
    and everything after is free (McSherry–Mironov 2009; Wang 2018 calls it sufficient-statistics perturbation).

    The solution is a ridge whose strength λ + √(2d)·(noise per entry) is the size of the noise matrix's spectrum, so
    that a useless answer shrinks to 0, the middle of the label's range.

    Preconditions: squared loss; δ > 0; no sample weights above 1.
    """

    name: ClassVar[str] = "statistics"
    theorem: ClassVar[str] = "Gaussian noise on second moments (McSherry–Mironov 2009)"

    shrink: float = 2.0
    """How many times the noise matrix's spectral size is added to the diagonal."""

    def __post_init__(self) -> None:
        positive("shrink", self.shrink)

    def plan(self, task: Task) -> StatisticsPlan:
        if not isinstance(task.loss, Squared):
            raise self.refuse("second moments determine least squares only.")
        draws = (task.columns + 1) * (task.columns + 2) // 2
        apart = _ROOT_TWO if task.relation is Relation.REPLACE else Fraction(1)
        ratio = multiplier(task.target) * apart
        event = gaussian_event(ratio, draws=draws, relation=task.relation, sensitivity=apart)
        noise = 2 * float(ratio)  # |v|² ≤ 2
        ridge = task.regularization + self.shrink * noise * math.sqrt(2 * task.columns)
        # (A + E + λ)⁻¹(b + e) with |E| ≤ λ: shrinkage λR²/2 and noise |e + Eθ|²/(2λ), both over n.
        wrong = task.columns * noise**2 * (1 + task.reach) ** 2
        risk = (ridge * task.reach**2 / 2 + wrong / (2 * ridge)) / task.size
        return StatisticsPlan(task, event, risk, ratio, ridge)


@dataclass(frozen=True)
class StatisticsPlan(MethodPlan):
    """One run."""

    ratio: Fraction
    ridge: float

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        d = self.task.columns
        found = second_moments(data, [np.trunc(np.clip(data.labels, -1, 1) * ONE)])
        sums = np.zeros((d + 1, d + 1), dtype=np.int64)
        sums[:d, :d], sums[:d, d], sums[d, d] = found.second, found.products[0], found.squares[0]
        upper = np.triu_indices(d + 1)
        bound = 2 * ONE * ONE  # |v|² in integers
        noisy = np.zeros((d + 1, d + 1))
        noisy[upper] = add_gaussian(sums[upper], bound=bound, ratio=self.ratio, source=source) / (ONE * ONE)
        noisy = np.triu(noisy) + np.triu(noisy, 1).T
        try:
            values, vectors = np.linalg.eigh(noisy[:d, :d])
        except np.linalg.LinAlgError:  # it did not converge: the noise is free to be forgotten
            return np.zeros(d)
        held = np.maximum(values, 0.0) + self.ridge
        return self.task.project(vectors @ ((vectors.T @ noisy[:d, d]) / held))


@dataclass(frozen=True)
class IntegerMoments:
    """Exact sums over integer records, in units of 2⁻³²; every |row|² and |column|² is at most 2³²."""

    second: NDArray[np.int64]
    """Σ zz′, or its diagonal alone."""

    products: NDArray[np.int64]
    """Σ z·(column), a row for every column beside the table."""

    squares: NDArray[np.int64]
    """Σ (column)²."""


def second_moments(data: Data, beside: Sequence[Array], *, diagonal: bool = False) -> IntegerMoments:
    """Exact moments of the rows and of integer columns beside them. A weight multiplies all of them by its root.

    Roots of weights are cut to whole numbers with the values, so no record counts more than it would alone.
    """
    rows: Any = data.table.rows
    columns = np.column_stack(beside) if beside else np.zeros((data.table.count, 0))
    if data.weights is not None and (data.weights != 1).any():
        roots = np.sqrt(data.weights)
        columns = np.trunc(columns * roots[:, None])
        if isinstance(rows, np.ndarray):
            rows = np.trunc(rows * roots[:, None])
        else:
            rows = rows.multiply(roots[:, None]).tocsr()
            rows.data = np.trunc(rows.data)

    def inner(part: slice) -> NDArray[np.int64]:
        block = rows[part]
        if diagonal:
            found = block.multiply(block).sum(axis=0) if not isinstance(block, np.ndarray) else (block * block).sum(0)
        else:
            found = block.T @ block
        return np.asarray(found if isinstance(found, np.ndarray) else found.toarray()).astype(np.int64)

    slices = list(parts(data.table.count, _BLOCK))
    return IntegerMoments(
        exact_sum(inner(part) for part in slices),
        exact_sum(np.asarray(rows[part].T @ columns[part]).T.astype(np.int64) for part in slices),
        exact_sum((columns[part] * columns[part]).sum(axis=0).astype(np.int64) for part in slices),
    )
