"""Steps that are known by their tails alone, as points: the contour integral for every law.

A law tells P[L > l] and e^l·Q[L > l], whatever the step is: a batch without replacement, a promise on a sample, several
steps on one sample, a shuffle. Its outputs are put into cells of losses, once from above and once from below
(`grid.lattice`): *above* connects the dots, so that the curve of the result is nowhere lower than the law's; *below*
merges each cell, which is post-processing, so that it is nowhere higher. Either is a finite sum M(z) = Σ w e^{zl},
and the smoothed integral (`integral.SmoothedIntegral`) composes such sums.

δ(ε) = Σ w(1 − e^{ε−l})₊ needs of the weights only that they are not negative: neither w nor w·e^{−l} has to add up to
1, and the identities that need it (`transform.Points`) are not used. What rounding did to the tails moves the composed
curve by a factor and by a shift (`grid.lattice`), which are taken at the very end.

Cells are narrow where the tilted law has its mass: an error of width² × mass, summed over the cells, is least where
their density is the cube root of that of the mass. So a thousand cells serve losses of very different sizes, which
a lattice of one step does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from deniable.accounting.certificate import NotCertified, proven
from deniable.accounting.contour.curve import delta_on, epsilon_of, stays_below
from deniable.accounting.contour.search import saddle_at_delta, saddle_at_epsilon
from deniable.accounting.contour.transform import (
    ROUGH,
    Direction,
    LogMoments,
    Points,
    TiltedPoints,
    Transform,
    moments_far,
)
from deniable.accounting.grid.lattice import LossTable, table_above, table_below
from deniable.accounting.pairs.law import Array, Law
from deniable.guarantees import Bracket
from deniable.numerics.arrays import CALL, UNIT, Reals

_CELLS, _SURVEY, _TOGETHER = 1000, 160, 4
"""Cells of a table, and atoms of a law that is taken as it is; nodes of the first look at a law, on either side of 0;
points that count as one in an estimate."""

_SPARE_MASS = 1e-9
"""The part of δ that losses counted as infinite may cost, all steps together."""

_FAR = 1e-60
"""Losses with less mass than this are not looked at."""


@dataclass(frozen=True, eq=False)
class TableTransform:
    """M(z) = Σ w e^{zl} of a table."""

    table: LossTable
    lattice: None = None
    largest: float = math.inf

    @cached_property
    def points(self) -> Points:
        """The weights and losses as they are stored, exact by definition."""
        weight, none = np.log(self.table.mass), np.zeros(len(self.table.mass))
        return Points(weight, self.table.losses, CALL * np.abs(weight), none, none)

    @cached_property
    def _few(self) -> Points:
        """Every four points as one, where there are many."""
        each = _TOGETHER if len(self.table.mass) > 4 * _SURVEY else 1
        starts = np.arange(0, len(self.table.mass), each)
        mass = np.add.reduceat(self.table.mass, starts)
        loss = np.add.reduceat(self.table.mass * self.table.losses, starts) / mass
        none = np.zeros(len(mass))
        return Points(np.log(mass), loss, none, none, none)

    def moments(self, lambdas: Reals) -> LogMoments:
        """Estimates from a quarter of the points."""
        return moments_far(self._few, np.multiply.outer(lambdas, self._few.loss))

    def tilted(self, tilt: float, *, reach: float, digits: float) -> TiltedTable:
        """The points, tilted."""
        return TiltedTable(self.points, tilt, 0.0, self.table.mass)


@dataclass(frozen=True)
class TiltedTable(TiltedPoints):
    """A table on Re z = tilt."""

    mass: Reals

    @cached_property
    def _value(self) -> tuple[float, float]:
        """log M(λ) from M(λ) − 1 = (Σw − 1) + Σ w(e^{λl} − 1), summed exactly."""
        steps = self.tilt * self.points.loss
        if float((self.points.weight + steps).max()) > 2.0:
            return self._plain
        grown = self.mass * np.expm1(steps)
        minus = math.fsum([*self.mass.tolist(), -1.0, *grown.tolist()])
        # λl is rounded once, which moves e^{λl} by |λl| units
        moved = float(np.abs(steps) @ np.abs(grown + self.mass))
        error = 2 * CALL * float(np.abs(grown).sum()) + 2 * UNIT * moved
        if minus < -0.5:
            return self._plain
        value = math.log1p(minus)
        return value, 1.01 * (error + UNIT * abs(minus)) / (1 + minus) + CALL * abs(value)

    def decay(self, omegas: Reals, last: float) -> Reals:
        """Atoms on no lattice: nothing is claimed."""
        return np.zeros_like(omegas)


@dataclass(frozen=True, eq=False)
class LawSketch:
    """A law on a few hundred nodes: enough to choose a line and the cells by. It proves nothing."""

    law: Law

    @cached_property
    def _known(self) -> tuple[Array, Array] | None:
        """The losses and their masses, where there are finitely many."""
        known = self.law.atoms()
        return None if known is None or len(known[0]) < 2 else known[:2]

    @cached_property
    def exact(self) -> LossTable | None:
        """The law as it is, where it has few losses."""
        if self._known is None or len(self._known[0]) > _CELLS:
            return None
        return LossTable.of(self.law, *self._known)

    @cached_property
    def atoms(self) -> tuple[Array, Array]:
        """Nodes, from the lowest loss to the highest, and the masses that they get from above."""
        law = self.law
        if self.exact is not None:
            return self.exact.losses, self.exact.mass
        if self._known is not None:
            losses, mass = self._known
            starts = np.unique(np.searchsorted(losses, _refined(losses, mass, 2 * _SURVEY)))[:-1]
            return losses[np.append(starts[1:], len(losses)) - 1], np.maximum(np.add.reduceat(mass, starts), 1e-300)
        sizes = 2.0 ** np.arange(-60.0, 60.0)
        low, high = law.low, law.high
        if not math.isfinite(high):
            high = float(sizes[np.flatnonzero(law.above(sizes)[0] > _FAR + law.infinite).max(initial=0)] * 2)
        if not math.isfinite(low):
            low = -float(sizes[np.flatnonzero(law.below(-sizes)[0] > _FAR).max(initial=0)] * 2)
        size = max(abs(high), abs(low), 1e-300)
        spread = np.geomspace(1e-10 * size, size, _SURVEY)
        nodes = self._between(np.concatenate((-spread, [0.0], spread)), low, high)
        for _ in range(2):
            table = table_above(law, nodes)
            nodes = self._between(_refined(table.losses, table.mass, 2 * _SURVEY), low, high)
        table = table_above(law, nodes)
        return table.losses, table.mass

    def _between(self, nodes: Array, low: float, high: float) -> Array:
        known = np.concatenate((nodes, self.law.jumps[:64], [low, high]))
        inside = np.unique(known[(known >= low) & (known <= high)])
        # one node above the top, in case an atom is rounded to its far side
        return np.append(inside, high + 1e-6 * max(high, -low, 1e-300)) if high == self.law.high else inside

    def tables(self, tilt: float, lost: float, count: int) -> tuple[LossTable, LossTable]:
        """The law from above and from below, on cells that suit a line. Losses with mass `lost` count as infinite."""
        law = self.law
        if self.exact is not None:
            return self.exact, self.exact.less()
        losses, mass = self.atoms
        with np.errstate(all="ignore"):
            log_tilted = np.log(mass) + tilt * losses
            beyond = np.cumsum(mass[::-1])[::-1]
            last = max(int((beyond > lost).sum()), 2)
            # what lies below the first node is moved up to it, and counts with the tilt there
            moved = np.log(np.cumsum(mass)) + tilt * losses - log_tilted[:last].max()
            first = min(max(int((moved > math.log(1e-17 / count)).argmax()) - 1, 0), last - 2)
            tilted = np.exp(log_tilted[first:last] - log_tilted[:last].max())
        nodes = _refined(losses[first:last], tilted, _CELLS)
        if self._known is not None:
            places = np.searchsorted(self._known[0], nodes)
            nodes = self._known[0][np.unique(np.minimum(places, len(self._known[0]) - 1))]
        end = law.high if last == len(losses) else float(losses[last - 1])
        nodes = self._between(nodes, float(losses[first]), max(end, float(losses[first + 1])))
        return table_above(law, nodes), table_below(law, nodes)


def _refined(losses: Array, mass: Array, number: int) -> Array:
    """Nodes whose density is the cube root of that of the mass."""
    width = np.diff(losses)
    share = np.cbrt(0.5 * (mass[1:] + mass[:-1])) * np.cbrt(width) ** 2
    share = share + 0.05 * share.sum() / len(share)
    places = np.concatenate(([0.0], np.cumsum(share)))
    return np.asarray(np.interp(np.linspace(0.0, places[-1], number), places, losses))


@dataclass(frozen=True, eq=False)
class TabledSide:
    """One direction of a composition: laws with their counts, and all that is Gaussian as it is."""

    sketches: tuple[tuple[LawSketch, int], ...]
    exact: tuple[tuple[Transform, int], ...]
    kept: dict[tuple[float, float], tuple[Direction, Direction, float, float]] = field(default_factory=dict)

    def rough(self, log_delta: float) -> Direction:
        """The composition of the sketches, without losses too rare to matter to δ."""
        parts: list[tuple[Transform, int]] = list(self.exact)
        for sketch, count in self.sketches:
            losses, mass = sketch.atoms
            beyond = np.cumsum(mass[::-1])[::-1]
            last = max(int((beyond > self._lost(log_delta, count)).sum()), 2)
            parts.append(
                (TableTransform(LossTable(losses[:last], np.maximum(mass[:last], 1e-300), 0.0, 0.0, 0.0)), count)
            )
        return Direction(tuple(parts), smooth=True, spare=ROUGH)

    def _lost(self, log_delta: float, count: int) -> float:
        return _SPARE_MASS * math.exp(max(log_delta, -600.0)) / (count * len(self.sketches))

    def tables(self, tilt: float, log_delta: float) -> tuple[Direction, Direction, float, float]:
        """The composition from below and from above, and the factor (its logarithm) and the shift of rounding."""
        if (tilt, log_delta) not in self.kept:
            self.kept.clear()
            below, above = list(self.exact), list(self.exact)
            factor = shift = leak = 0.0
            for sketch, count in self.sketches:
                up, down = sketch.tables(tilt, self._lost(log_delta, count), count)
                above.append((TableTransform(up), count))
                below.append((TableTransform(down), count))
                factor += count * max(up.factor, down.factor)
                shift += count * max(up.shift, down.shift)
                leak += count * up.infinite
            leak = max(leak * (1 + 1e-9), 1e-300)
            self.kept[tilt, log_delta] = (
                Direction(tuple(below), smooth=True, leak=1e-300, spare=ROUGH),
                Direction(tuple(above), smooth=True, leak=leak, spare=ROUGH),
                factor * (1 + 1e-9),
                shift * (1 + 1e-9),
            )
        return self.kept[tilt, log_delta]

    @cached_property
    def largest(self) -> float:
        """An upper bound on the total loss."""
        if self.exact:
            return math.inf
        peaks = [n * max(s.law.peak + s.law.location(abs(s.law.peak)), 0.0) for s, n in self.sketches]
        return math.fsum(peaks) * (1 + 1e-12)

    def epsilon(self, delta: float, known: float) -> Bracket:
        """Proven ends around ε(δ); a direction that stays below what the other one has proven is not followed."""
        goal = math.log(delta)
        saddle = saddle_at_delta(self.rough(goal), goal)
        below, above, factor, shift = self.tables(saddle.tilt, goal)
        less, more = delta * math.exp(-factor) * (1 - 4 * UNIT), delta * math.exp(factor) * (1 + 4 * UNIT)
        if known > shift and stays_below(above, known - shift, less):
            return Bracket(0.0, known)
        upper = epsilon_of(above, less).upper + shift
        lower = epsilon_of(below, more).lower - shift
        return Bracket(max(min(lower, upper), 0.0), min(upper, self.largest))

    def delta(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε). What may be cut off depends on δ, which is what is asked: go down until it fits."""
        if epsilon >= self.largest:
            return Bracket(0.0, 0.0)
        goal = -2.0
        for _ in range(40):
            saddle = saddle_at_epsilon(self.rough(goal), epsilon)
            if saddle.log_delta >= goal - 2.0:
                break
            goal = max(saddle.log_delta, goal - 14.0)
        below, above, factor, shift = self.tables(saddle.tilt, goal)
        upper = delta_on(above, saddle_at_epsilon(above, max(epsilon - shift, 0.0))).upper * math.exp(factor)
        lower = delta_on(below, saddle_at_epsilon(below, epsilon + shift)).lower * math.exp(-factor)
        return Bracket(min(lower * (1 - 4 * UNIT), 1.0), min(upper * (1 + 4 * UNIT), 1.0))


@dataclass(frozen=True, eq=False)
class TabledCurve:
    """The larger of the directions."""

    sides: tuple[TabledSide, ...]
    method: str

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε)."""
        known = [proven(lambda side=side: side.delta(epsilon)) for side in self.sides]  # type: ignore[misc]
        return Bracket(max(one.lower for one in known), max(one.upper for one in known))

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around ε(δ)."""
        if not 0 < delta < 1:
            raise NotCertified("only between 0 and 1")
        lower = upper = 0.0
        for side in self.sides:
            one = proven(lambda side=side, low=lower: side.epsilon(delta, low))  # type: ignore[misc]
            lower, upper = max(lower, one.lower), max(upper, one.upper)
        return Bracket(lower, upper)
