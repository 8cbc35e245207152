"""From noisy marginals to a distribution: the model whose marginals explain them, and which is else as even as can be.

Let y_m = M_m·c + N(0, s²_m) be noisy marginals of the counts c = n·p. The model maximises

    κ·H(c) − Σ_m |M_m·c − y_m|²/(2s²_m),   H(c) = −Σ c·log(c/n),

over distributions p on the junction tree of the measured sets. Its dual is smooth, with one pass of inference for each
evaluation: F(θ) = n·log Z(θ) − Σ⟨θ_m, y_m⟩ + Σ(κs²_m/2)|θ_m|², whose gradient is n·M_m·p(θ) − y_m + κs²_m·θ_m; θ_m are
the log-potentials. κ → 0 is the estimator of McKenna, Sheldon and Miklau (2019), κ = 1 the mode under an even prior
over tables (cf. Räisä, Jälkö, Kaski and Honkela 2023). Here κ is `EVENNESS` divided by the geometric mean of the s_m.

It is minimised by L-BFGS in coordinates scaled by 1/√(max(y, 0) + κs² + 1), which is about the diagonal of the second
derivative. Everything here works on what was released: it costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, prod

import numpy as np
from numpy.typing import NDArray

from deniable.synthesis.domain import Clique
from deniable.synthesis.grouping import Groups, merge_cells, spread_cells
from deniable.synthesis.tree import Floats, JunctionTree, add_up

EVENNESS = 0.1
"""κ times the geometric mean of the scales."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A noisy marginal, and the variance of its noise in every cell."""

    columns: Clique
    values: Floats = field(repr=False)
    variance: float
    groups: tuple[Groups | None, ...] | None = field(default=None, repr=False)
    """Per column, which codes were counted together; None where all were told apart."""

    @property
    def scale(self) -> float:
        """The standard deviation of the noise."""
        return float(self.variance**0.5)

    def merge(self, marginal: Floats) -> Floats:
        """A marginal of these columns, in the cells that were counted."""
        return marginal if self.groups is None else merge_cells(marginal, self.groups)

    def spread(self, values: Floats) -> Floats:
        """Numbers of the cells that were counted, for every cell of the marginal."""
        return values if self.groups is None else spread_cells(values.reshape(self.values.shape), self.groups)


def merged(measurements: Sequence[Measurement]) -> list[Measurement]:
    """One measurement for each set of columns: repeated ones, of the same cells, are averaged by inverse variances."""
    found: dict[Clique, Measurement] = {}
    for one in measurements:
        other = found.get(one.columns)
        if other is not None:
            precision = 1 / one.variance + 1 / other.variance
            values = (one.values / one.variance + other.values / other.variance) / precision
            one = Measurement(one.columns, values, 1 / precision, one.groups)
        found[one.columns] = one
    return list(found.values())


def total(measurements: Sequence[Measurement]) -> float:
    """The number of rows that the marginals agree on, at least 1: the mean of their sums, by inverse variances."""
    weights = np.array([1 / (one.variance * one.values.size) for one in measurements])
    sums = np.array([one.values.sum() for one in measurements])
    return max(1.0, float((weights * sums).sum() / weights.sum()))


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted distribution: the tree, the marginal of each of its cliques, its potentials, and the number of rows."""

    tree: JunctionTree
    beliefs: list[Floats] = field(repr=False)
    potentials: Mapping[Clique, Floats] = field(repr=False)
    size: float

    def marginal(self, clique: Clique) -> Floats:
        """The probabilities of some columns: of one clique, or of any two."""
        home = self.tree.home(clique)
        if home is not None:
            return self.tree.marginal(self.beliefs, home, clique)
        if len(clique) == 2:
            return self.tree.pairs(self.beliefs)[clique]
        return joint(self.tree, self.beliefs, clique)


def joint(tree: JunctionTree, beliefs: Sequence[Floats], clique: Clique) -> Floats:
    """The marginal of columns that no clique holds together: conditioned on each code of the first one in turn."""
    first, rest = clique[0], clique[1:]
    home = tree.home((first,))
    if home is None:
        raise ValueError("a column is in no clique of the tree")
    parts = []
    for code in range(tree.sizes[first]):
        given = condition(tree, beliefs, {first: code})
        inner, whole = given
        model = Model(tree, inner, {}, 1.0)
        parts.append(model.marginal(rest) * whole)
    return np.stack(parts)


def condition(tree: JunctionTree, beliefs: Sequence[Floats], known: Mapping[int, int]) -> tuple[list[Floats], float]:
    """The marginals of all cliques where some columns have known codes, and the probability of these."""
    logs = potentials_of(tree, beliefs)
    for column, code in known.items():
        home = tree.home((column,))
        if home is None:
            raise ValueError("a column is in no clique of the tree")
        allowed = np.full(tree.sizes[column], -np.inf)
        allowed[code] = 0.0
        logs[home] = logs[home] + allowed.reshape(tree.spread(home, (column,)))
    found, whole = tree.infer(logs)
    return found, exp(whole) if whole > -700 else 0.0


def potentials_of(tree: JunctionTree, beliefs: Sequence[Floats]) -> list[Floats]:
    """Log-potentials with these marginals: each clique given its separator."""
    logs = []
    for belief, edge in zip(beliefs, tree.edges, strict=True):
        with np.errstate(divide="ignore"):
            own = np.log(belief)
            if edge is not None:
                above = np.log(belief.sum(axis=edge.own_axes)).reshape(edge.own_shape)
                own = np.where(np.isneginf(own), -np.inf, own - np.where(np.isneginf(above), 0.0, above))
        logs.append(own)
    return logs


def fit(
    sizes: Sequence[int],
    measurements: Sequence[Measurement],
    *,
    forbidden: Mapping[Clique, NDArray[np.bool_]] | None = None,
    start: Mapping[Clique, Floats] | None = None,
    steps: int = 200,
    size: float | None = None,
) -> Model:
    """The model of some noisy marginals.

    Args:
        sizes: how many codes each column has.
        measurements: noisy marginals; every column is in one of them.
        forbidden: which cells of some marginals cannot occur.
        start: log-potentials to begin with, as of an earlier model.
        steps: steps of the descent, at most.
        size: the number of rows; the one that the marginals agree on, if not given.
    """
    known = merged(measurements)
    rows = total(known) if size is None else size
    barred = forbidden or {}
    tree = JunctionTree(sizes, [*(one.columns for one in known), *barred])
    route = _Route(tree, [one.columns for one in known])
    base = _barred(tree, barred)
    even = EVENNESS / exp(sum(log(one.scale) for one in known) / len(known))
    values = np.concatenate([one.values.reshape(-1) for one in known])
    ends = np.cumsum([one.values.size for one in known])[:-1]
    ridge = np.concatenate([np.full(one.values.size, even * one.variance) for one in known])
    scaling = 1 / np.sqrt(np.maximum(values, 0) + ridge + 1)
    first = np.concatenate([(start or {}).get(one.columns, np.zeros(one.values.shape)).reshape(-1) for one in known])

    def potentials(theta: Floats) -> list[Floats]:
        return route.potentials(
            base, [one.spread(part) for one, part in zip(known, np.split(theta, ends), strict=True)]
        )

    def loss(point: Floats) -> tuple[float, Floats]:
        theta = point * scaling
        beliefs, log_z = tree.infer(potentials(theta))
        marginals = zip(known, route.marginals(beliefs), strict=True)
        found = np.concatenate([one.merge(part).reshape(-1) for one, part in marginals])
        value = rows * log_z - float(theta @ values) + 0.5 * float((ridge * theta) @ theta)
        return value, (rows * found - values + ridge * theta) * scaling

    theta = minimise(loss, first / scaling, steps=steps) * scaling
    beliefs, _ = tree.infer(potentials(theta))
    parts = {
        one.columns: part.reshape(one.values.shape) for one, part in zip(known, np.split(theta, ends), strict=True)
    }
    return Model(tree, beliefs, parts, rows)


def minimise(loss: Callable[[Floats], tuple[float, Floats]], point: Floats, *, steps: int) -> Floats:
    """The minimum of a smooth convex function, given with its gradient, by L-BFGS with backtracking (Nocedal 1980)."""
    value, slope = loss(point)
    memory: deque[tuple[Floats, Floats, float]] = deque(maxlen=10)
    for _ in range(steps):
        direction = _newton_like(slope, memory)
        descent = float(slope @ direction)
        if descent >= 0:
            return point
        rate = 1.0 if memory else min(1.0, 1 / float(np.sqrt(slope @ slope)))
        for _ in range(30):
            next_point = point + rate * direction
            next_value, next_slope = loss(next_point)
            if next_value <= value + 1e-4 * rate * descent:
                break
            rate /= 2
        else:
            return point
        step, bend = next_point - point, next_slope - slope
        curvature = float(step @ bend)
        if curvature > 0:
            memory.append((step, bend, curvature))
        gained = value - next_value
        point, value, slope = next_point, next_value, next_slope
        if gained <= 1e-10 * max(1.0, abs(value)):
            break
    return point


def _newton_like(slope: Floats, memory: Sequence[tuple[Floats, Floats, float]]) -> Floats:
    """Minus the gradient times an estimate of the inverse second derivative, from the last steps."""
    found = -slope
    weights = []
    for step, bend, curvature in reversed(memory):
        weight = float(step @ found) / curvature
        weights.append(weight)
        found = found - weight * bend
    if memory:
        _, bend, curvature = memory[-1]
        found = found * (curvature / float(bend @ bend))
    for (step, bend, curvature), weight in zip(memory, reversed(weights), strict=True):
        found = found + (weight - float(bend @ found) / curvature) * step
    return found


class _Route:
    """How marginals of a tree are summed, and potentials spread, with few operations: a marginal is summed from the
    smallest other one that holds its columns, and from its clique of the tree where there is none."""

    def __init__(self, tree: JunctionTree, cliques: Sequence[Clique]) -> None:
        self._cliques = cliques
        self._shapes = [tree.shape(clique) for clique in cliques]
        self._order = sorted(range(len(cliques)), key=lambda place: -len(cliques[place]))
        self._larger: list[int | None] = []
        self._homes: list[int] = []
        self._axes: list[tuple[int, ...]] = []
        self._spreads: list[tuple[int, ...]] = []
        for clique in cliques:
            holders = [at for at, other in enumerate(cliques) if len(other) > len(clique) and set(clique) < set(other)]
            larger = min(holders, key=lambda at: prod(self._shapes[at]), default=None)
            home = tree.home(clique) or 0
            around = tree.cliques[home] if larger is None else cliques[larger]
            self._larger.append(larger)
            self._homes.append(home)
            self._axes.append(tuple(axis for axis, column in enumerate(around) if column not in clique))
            self._spreads.append(tuple(tree.sizes[column] if column in clique else 1 for column in around))

    def marginals(self, beliefs: Sequence[Floats]) -> list[Floats]:
        """The marginal of every set, in their order."""
        found: list[Floats] = [np.zeros(())] * len(self._cliques)
        for place in self._order:
            larger = self._larger[place]
            inside = beliefs[self._homes[place]] if larger is None else found[larger]
            found[place] = add_up(inside, self._axes[place])
        return found

    def potentials(self, base: Sequence[Floats], parts: Sequence[Floats]) -> list[Floats]:
        """Log-potentials of the tree's cliques: those of the sets, added to some that are there."""
        logs = [one.copy() for one in base]
        sums = [part.reshape(shape).copy() for part, shape in zip(parts, self._shapes, strict=True)]
        for place in reversed(self._order):
            larger = self._larger[place]
            target = logs[self._homes[place]] if larger is None else sums[larger]
            target += sums[place].reshape(self._spreads[place])
        return logs


def _barred(tree: JunctionTree, forbidden: Mapping[Clique, NDArray[np.bool_]]) -> list[Floats]:
    """Potentials that are −∞ in forbidden cells and 0 elsewhere."""
    logs = [np.zeros(tree.shape(clique)) for clique in tree.cliques]
    for clique, cells in forbidden.items():
        home = tree.home(clique)
        if home is not None:
            logs[home] = np.where(cells.reshape(tree.spread(home, clique)), -np.inf, logs[home])
    return logs


def possible(sizes: Sequence[int], forbidden: Mapping[Clique, NDArray[np.bool_]]) -> bool:
    """Whether some row has no forbidden cell."""
    tree = JunctionTree(sizes, [*((place,) for place in range(len(sizes))), *forbidden])
    return tree.infer(_barred(tree, forbidden))[1] > -np.inf
