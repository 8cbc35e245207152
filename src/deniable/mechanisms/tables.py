"""Tables of counts over several public attributes, and what may be done to any noisy table for free.

>>> m = contingency(attributes={"sex": ["f", "m"], "smoker": [False, True]}, epsilon=1)
>>> nonnegative(m({"sex": ["f", "m", "m"], "smoker": [True, True, None]})).shape
(2, 2)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deniable import _checks
from deniable._checks import Number
from deniable._signatures import limit_sizes
from deniable.errors import InvalidArgument
from deniable.mechanisms import grids, records
from deniable.mechanisms.additive import AdditiveMechanism, AdditiveNoise, check_budget, fit
from deniable.mechanisms.base import failure
from deniable.mechanisms.counts import check_keys, partition
from deniable.noise import Source
from deniable.numerics.rounding import float_above
from deniable.units import AnyRelation, Relation

Attributes: TypeAlias = tuple[tuple[str, tuple[Hashable, ...]], ...]

MOST_CELLS = 1 << 24
"""Cells a table may have."""


@dataclass(frozen=True, repr=False)
class Contingency(AdditiveMechanism):
    """A table with one axis per attribute, in the order given, and one noisy count per cell."""

    epsilon: Fraction
    delta: Fraction
    attributes: Attributes
    noise: AdditiveNoise = field(repr=False)

    def __call__(self, table: object, /, *, source: Source | None = None) -> NDArray[np.int64]:
        """The noisy counts of a table given by columns: a mapping from attribute to values, or a data frame."""
        columns = dict(zip(self._names, records.read_columns(table, self._names), strict=True))
        cells = tabulate(columns, self.attributes)
        noisy = self.noise.release(cells.reshape(-1).tolist(), source)
        return grids.array_from_steps(noisy, Fraction(1), self.noise.unit).reshape(cells.shape)

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.attributes)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest error of any cell."""
        return float_above(self.noise.radius(failure(confidence)))


@limit_sizes
def contingency(
    *,
    attributes: Mapping[str, Iterable[Hashable]],
    epsilon: Number,
    delta: Number = 0,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> Contingency:
    """A contingency table: counts of every combination of the values of several public attributes.

    Every record falls into one cell, or nowhere if one of its values is not in the declared list, so the sensitivities
    are those of a histogram whatever the number of attributes. Its margins are free: sums of noisy cells.

    Args:
        attributes: the public list of values of each attribute, by its name.
        epsilon: the privacy budget ε of one release.
        delta: 0 for Laplace noise and pure ε-DP; positive for Gaussian noise and (ε, δ)-DP.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> m = contingency(attributes={"sex": ["f", "m"], "smoker": [False, True]}, epsilon=1)
    >>> m({"sex": ["f", "m", "m"], "smoker": [True, True, None]}).shape
    (2, 2)
    >>> m.event
    DiscreteLaplace(scale=1)
    """
    relation = Relation.of(relation)
    epsilon, delta = check_budget(epsilon, delta)
    domain = check_attributes(attributes)
    cells = count_cells(domain)
    (additive_noise,) = fit([partition(cells, relation)], epsilon=epsilon, delta=delta, relation=relation)
    return Contingency(epsilon, delta, domain, additive_noise)


def check_attributes(attributes: Mapping[str, Iterable[Hashable]]) -> Attributes:
    """Checks the attributes and their public lists of values."""
    if not isinstance(attributes, Mapping) or not attributes:
        raise InvalidArgument("attributes", attributes, "a mapping from attribute to its list of values")
    return tuple((name, check_keys(f"attributes[{name!r}]", values)) for name, values in attributes.items())


def count_cells(domain: Attributes) -> int:
    """The number of cells; refused if memory would not hold them."""
    cells = prod(len(values) for _, values in domain)
    if cells > MOST_CELLS:
        raise InvalidArgument("attributes", cells, f"at most {MOST_CELLS} cells", "Ask for marginals instead.")
    return cells


def tabulate(columns: Mapping[str, list[Hashable]], domain: Attributes) -> NDArray[np.int64]:
    """Exact counts of every cell. A record with an undeclared value in one of the attributes counts nowhere."""
    shape = tuple(len(values) for _, values in domain)
    flat = np.zeros(len(next(iter(columns.values()))), dtype=np.int64)
    inside = np.ones_like(flat, dtype=np.bool_)
    for name, values in domain:
        positions = records.find_key_positions(columns[name], values)
        inside &= positions >= 0
        flat = flat * len(values) + positions
    return np.bincount(flat[inside], minlength=prod(shape)).reshape(shape)


@dataclass(frozen=True, repr=False)
class Marginals(AdditiveMechanism):
    """A noisy table for every `ways` attributes. The tables need not agree: see `consistent`."""

    epsilon: Fraction
    delta: Fraction
    attributes: Attributes
    ways: int
    noise: AdditiveNoise = field(repr=False)

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """The attributes of each table."""
        return tuple(combinations((name for name, _ in self.attributes), self.ways))

    def __call__(self, table: object, /, *, source: Source | None = None) -> dict[tuple[str, ...], NDArray[np.int64]]:
        """The noisy counts, by the attributes of each table."""
        names = tuple(name for name, _ in self.attributes)
        columns = dict(zip(names, records.read_columns(table, names), strict=True))
        domain = dict(self.attributes)
        exact = [tabulate(columns, tuple((name, domain[name]) for name in chosen)) for chosen in self.tables]
        flat = [int(count) for cells in exact for count in cells.reshape(-1)]
        noisy = grids.array_from_steps(self.noise.release(flat, source), Fraction(1), self.noise.unit)
        ends = np.cumsum([cells.size for cells in exact])[:-1]
        parts = np.split(noisy, ends)
        return {
            chosen: part.reshape(cells.shape) for chosen, part, cells in zip(self.tables, parts, exact, strict=True)
        }

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest error of any cell of any table."""
        return float_above(self.noise.radius(failure(confidence)))


@limit_sizes
def marginals(
    *,
    attributes: Mapping[str, Iterable[Hashable]],
    ways: int = 1,
    epsilon: Number,
    delta: Number = 0,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> Marginals:
    """All k-way marginals of a table: for every k of its d attributes, the counts of their combinations.

    A record falls into one cell of each of the T = C(d, k) tables, so adding it changes T counts by 1 (L1 = T, L2 = √T)
    and replacing it changes 2T (L1 = 2T, L2 = √(2T)). Pure ε needs noise that grows with T; with δ > 0 Gaussian noise
    grows with √T. The means of d columns, the "one-way marginals" of numbers in [0, 1], are `column_means`.

    Args:
        attributes: the public list of values of each attribute, by its name.
        ways: how many attributes each table has.
        epsilon: the privacy budget ε of one release.
        delta: 0 for Laplace noise and pure ε-DP; positive for Gaussian noise and (ε, δ)-DP.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> attributes = {name: [0, 1] for name in "abcd"}
    >>> pure = marginals(attributes=attributes, ways=2, epsilon=1)
    >>> pure.event
    DiscreteLaplace(scale=6, sensitivity=6, coordinates=6)
    >>> sorted(pure({name: [0, 1, 1] for name in "abcd"}))[0]
    ('a', 'b')
    """
    relation = Relation.of(relation)
    epsilon, delta = check_budget(epsilon, delta)
    domain = check_attributes(attributes)
    way = _checks.count("ways", ways)
    if way > len(domain):
        raise InvalidArgument("ways", ways, f"at most the {len(domain)} attributes")
    sizes = [prod(len(values) for _, values in chosen) for chosen in combinations(domain, way)]
    if sum(sizes) > MOST_CELLS:
        raise InvalidArgument("attributes", sum(sizes), f"at most {MOST_CELLS} cells altogether", "Take fewer ways.")
    (additive_noise,) = fit(
        [partition(sum(sizes), relation, times=len(sizes))], epsilon=epsilon, delta=delta, relation=relation
    )
    return Marginals(epsilon, delta, domain, way, additive_noise)


@limit_sizes
def nonnegative(values: ArrayLike) -> NDArray[Any]:
    """Negative values as 0. Never further from nonnegative truths; but sums of many are pushed up, so sum first."""
    array = np.asarray(values)
    return np.asarray(np.maximum(array, np.zeros((), dtype=array.dtype)))


@limit_sizes
def simplex(values: ArrayLike, *, total: Number = 1) -> NDArray[np.float64]:
    """The nearest values that are nonnegative and add up to `total`: the Euclidean projection."""
    vector = np.asarray(values, dtype=np.float64)
    target = float(_checks.positive("total", total))
    if vector.ndim != 1 or not vector.size or not np.isfinite(vector).all():
        raise InvalidArgument("values", f"an array of shape {vector.shape}", "a vector of finite numbers")
    ordered = np.sort(vector)[::-1]
    excess = np.cumsum(ordered) - target
    # The first always is, but for a total that rounding loses beside it.
    last = max(np.flatnonzero(ordered * np.arange(1, vector.size + 1) > excess), default=0)
    return np.asarray(np.maximum(vector - excess[last] / (last + 1), 0.0))


@limit_sizes
def consistent(answers: ArrayLike, *, queries: ArrayLike, variances: ArrayLike | None = None) -> NDArray[np.float64]:
    """The nearest answers that some data could have: least squares over the cells, A·argmin ‖A·x − answers‖.

    `queries` is the matrix A from cells to answers, `variances` that of each answer's noise (equal if left out).
    Marginals, totals with their parts and trees of sums become consistent this way (Hay et al. 2010).
    """
    noisy = np.asarray(answers, dtype=np.float64)
    matrix = np.asarray(queries, dtype=np.float64)
    if noisy.ndim != 1 or matrix.ndim != 2 or len(matrix) != len(noisy):
        raise InvalidArgument(
            "queries", f"a matrix of shape {matrix.shape}", f"a matrix with {noisy.size} rows, one per answer"
        )
    spread = np.ones_like(noisy) if variances is None else np.asarray(variances, dtype=np.float64)
    if spread.shape != noisy.shape or not (spread > 0).all():
        raise InvalidArgument("variances", f"an array of shape {spread.shape}", "one positive number per answer")
    root = 1 / np.sqrt(spread)
    cells = np.linalg.lstsq(matrix * root[:, None], noisy * root, rcond=None)[0]
    return np.asarray(matrix @ cells)
