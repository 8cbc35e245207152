"""How far a synthetic table is from the data: a paid check of the finished table, and what can be said without it.

**Paid check.** Let Z be the finished table, scaled to the noisy number n of rows. Z is fixed by then, so the distance
|M_r(D) − M_r(Z)|₁ of a marginal moves by at most as much as M_r(D) does when a unit is added, removed or replaced: by
L1 (`contributions`). All R distances together are a vector of L2 sensitivity √R·L1, and their sum has sensitivity R·L1.
Both get discrete Gaussian noise, each for half of the check's ρ. Nothing is assumed about how Z was made: the distance
holds the noise of the measurements, what the model leaves out, and the rounding to rows.

**Intervals.** The noise X is whole, with P[|X| ≥ k] ≤ P[|N(0, σ²)| ≥ k − 1] for whole k (Canonne, Kamath and Steinke
2020, Proposition 25), so z·σ + 1 grid steps hold it with the stated probability. The marginal of Z is rounded to the
grid, by half a step in every cell at most: that is added. So an interval covers with at least its confidence.

Distances are in rows. As a share, the total variation |…|₁/(2n), they are divided by the noisy n.

**Without it.** For a marginal that was measured there is the noise of its measurement, which says nothing about what
the model did with it. For all others nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable.events import DiscreteGaussian
from deniable.numerics.exact import root_above, short_above
from deniable.synthesis.domain import Clique, Domain
from deniable.synthesis.fitting import Measurement
from deniable.synthesis.marginals import normal_radius
from deniable.synthesis.selection import GRID, Counts, Spending

MOST_CHECKED = 5000
"""Marginals that a check looks at, at most."""


@dataclass(frozen=True)
class ErrorStatement:
    """How far a marginal of the table is from the data, in rows, summed over its cells; and what that covers."""

    columns: tuple[str, ...]
    distance: float | None
    """The estimate; None where nothing was looked at."""
    low: float
    high: float
    """The ends of its interval; `high` is infinite where nothing is proved."""
    share: float | None
    """The upper end as the share of rows that would have to move: the total variation, by the noisy number of rows."""
    covers: str

    def __str__(self) -> str:
        what = " × ".join(self.columns)
        if self.distance is None:
            return f"{what}: unknown; {self.covers}"
        upto = "?" if self.share is None else f"{100 * self.share:.2g} %"
        return (
            f"{what}: {self.distance:.4g} rows off ({self.low:.4g} to {self.high:.4g}), at most {upto} of the rows "
            f"misplaced; {self.covers}"
        )


@dataclass(frozen=True, eq=False)
class TableCheck:
    """Noisy distances between the finished table and the data, by marginal, and their noisy mean."""

    distances: Mapping[Clique, float] = field(repr=False)
    scale: float
    """The standard deviation of the noise of one distance, in rows."""
    mean: float
    mean_scale: float
    """The mean distance of the pairs, and the standard deviation of its noise."""
    size: float
    """The noisy number of rows that shares are of."""

    def radius(self, confidence: Fraction) -> float:
        """How far the noise of one distance reaches, in rows, with this probability at least."""
        return self.scale * normal_radius(confidence) + 1 / GRID

    @property
    def mean_share(self) -> float:
        """The mean total variation over all marginals that were checked."""
        return max(0.0, self.mean) / (2 * self.size)


def checked_cliques(domain: Domain) -> list[Clique]:
    """All columns and pairs; of very wide tables the columns alone."""
    columns: list[Clique] = [(place,) for place in range(len(domain.sizes))]
    pairs: list[Clique] = list(combinations(range(len(domain.sizes)), 2))
    return columns + pairs if len(columns) + len(pairs) <= MOST_CHECKED else columns


def take_check(
    spending: Spending, cliques: Sequence[Clique], codes: NDArray[np.int64], domain: Domain, size: float
) -> TableCheck:
    """Spend what is left on the distances of some marginals of a finished table."""
    contribution = spending.contribution
    exact = distances(spending.exact, cliques, codes, domain, size)
    many, half = len(cliques), spending.left / 2
    moved = Fraction((GRID * contribution.l1) ** 2 * many)
    scale = short_above(sqrt(float(moved) / (2 * float(half))) * (1 + 1e-9), figures=8)
    relation = contribution.relation
    spending.pay(DiscreteGaussian(scale, root_above(moved), relation, coordinates=many), moved / (2 * scale**2))
    noisy = noise.add(np.array(exact, dtype=np.int64), noise.discrete_gaussian(scale, (many,)))
    whole = Fraction(GRID * contribution.l1 * many)
    mean_scale = short_above(float(whole) / sqrt(2 * float(half)) * (1 + 1e-9), figures=8)
    spending.pay(DiscreteGaussian(mean_scale, whole, relation), whole**2 / (2 * mean_scale**2))
    total = sum(exact) + int(noise.discrete_gaussian(mean_scale))
    return TableCheck(
        {clique: float(value) / GRID for clique, value in zip(cliques, noisy.tolist(), strict=True)},
        float(scale) / GRID,
        total / (many * GRID),
        float(mean_scale) / (many * GRID),
        size,
    )


def distances(
    exact: Counts, cliques: Sequence[Clique], codes: NDArray[np.int64], domain: Domain, size: float
) -> list[int]:
    """The exact distances between the marginals of the data and of rows that are scaled to a size, in grid steps."""
    found = []
    for clique in cliques:
        table = tabulate(codes, clique, domain) * (size / max(1, len(codes)))
        found.append(int(np.abs(exact[clique] * GRID - np.rint(table * GRID).astype(np.int64)).sum()))
    return found


def tabulate(codes: NDArray[np.int64], clique: Clique, domain: Domain) -> NDArray[np.int64]:
    """A marginal of rows of codes."""
    shape = domain.shape(clique)
    flat = np.ravel_multi_index(tuple(codes[:, place] for place in clique), shape)
    return np.bincount(flat, minlength=domain.cells(clique)).reshape(shape)


PROVED = "noise, model and rounding, by the paid check"
UNCHECKED = "nothing is proved about it: no check of these columns was paid for"


def statement(
    clique: Clique,
    domain: Domain,
    check: TableCheck | None,
    measured: Mapping[Clique, Measurement],
    *,
    confidence: Fraction,
) -> ErrorStatement:
    """What is known about one marginal of a table."""
    names = domain.named(clique)
    if check is not None and clique in check.distances:
        distance = check.distances[clique]
        radius = check.radius(confidence) + domain.cells(clique) / (2 * GRID)
        low, high = max(0.0, distance - radius), max(0.0, distance + radius)
        return ErrorStatement(names, max(0.0, distance), low, high, high / (2 * check.size), PROVED)
    if check is not None:
        inner = [part for part in check.distances if set(part) <= set(clique)]
        radius = check.radius(1 - (1 - confidence) / max(1, len(inner)))
        lows = [check.distances[part] - radius - domain.cells(part) / (2 * GRID) for part in inner]
        low = max(lows, default=0.0)
        why = "at least this far off, by the columns and pairs in it; nothing is proved from above"
        return ErrorStatement(names, None, max(0.0, low), float("inf"), None, why)
    if clique in measured:
        cells, scale = measured[clique].values.size, measured[clique].scale
        mean, spread = sqrt(2 / np.pi) * scale * cells, sqrt(1 - 2 / np.pi) * scale * sqrt(cells)
        radius = spread * normal_radius(confidence)
        why = "the noise of its measurement alone: not what merging rare cells, the model and the rounding to rows did"
        return ErrorStatement(names, mean, max(0.0, mean - radius), mean + radius, None, why)
    return ErrorStatement(names, None, 0.0, float("inf"), None, UNCHECKED)
