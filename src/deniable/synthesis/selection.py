"""Which marginals are measured, and with how much noise: MST and AIM, within one ρ that was charged beforehand.

Both measure every column by itself first. Then they choose larger marginals by the exponential mechanism, among public
candidates r, by how far the model is off: the score |M_r(D) − n·p_r|₁, where p is the model of what was measured so
far. Adding or removing one unit moves M_r(D) by L1 at most, so it moves every score by that much, whatever the model.

- *MST* (McKenna, Miklau and Sheldon 2021) chooses a spanning tree of pairs, edge by edge, and measures its edges.
- *AIM* (McKenna, Mullins, Sheldon and Miklau 2022) goes on in rounds: choose one, measure it, fit the model anew. The
  score of a candidate is reduced by the error that its own noise would bring, and weighted by how much of the workload
  it touches. A candidate that would make the junction tree too large for the share of ρ spent so far is left out. Where
  a measurement told nothing new (the model moved by less than its noise), later rounds have half the noise: annealing.

**Cells.** What the columns' own counts cannot tell from nothing is not told apart in larger marginals (`grouping`).

**Exact.** A score is a whole number. Counts are multiplied by 256, and the model's marginal is rounded to whole numbers
on that grid before it is compared: it is public, so rounding it changes no sensitivity. The choice itself is drawn
exactly (`mechanisms.exponential`), and noise is an exact discrete Gaussian.

**Cost.** `Spending` pays for every step before it is taken, in exact fractions, and refuses what exceeds ρ. Which steps
are taken depends on earlier noisy answers; that their sum never exceeds ρ does not (`contributions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import pi, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable.events import DiscreteGaussian, Event, ExponentialMechanism
from deniable.mechanisms import exponential
from deniable.numerics.exact import root_above, short_above, short_below
from deniable.synthesis.contributions import UnitContribution
from deniable.synthesis.domain import Clique, Domain
from deniable.synthesis.fitting import Measurement, Model, fit
from deniable.synthesis.grouping import Groups, group_codes, merge_cells
from deniable.synthesis.tree import Floats, neighbours, tree_cells

GRID = 256
"""Counts are compared with the model in steps of 1/256 of a row."""

_LEAST_ALONE, _MOST_ALONE = Fraction(1, 8), Fraction(2, 5)

_FLOATS_ABOVE = 1 + 1e-9
"""More than what floats may be off, so that no step ever costs more than its share."""

SELECTION = Fraction(1, 10)
"""The share of a round that goes to choosing."""

LARGE_NOISE = 0.01
"""The share of all rows above which the noise of one cell is large."""

Counts = Mapping[Clique, NDArray[np.int64]]
Forbidden = Mapping[Clique, NDArray[np.bool_]]


@dataclass(frozen=True)
class SpentStep:
    """One look at the data: what it was, and what it cost in zCDP."""

    event: Event
    rho: Fraction


@dataclass
class Spending:
    """Pays for every step out of a ρ that the ledger was charged for, and takes it."""

    exact: Counts = field(repr=False)
    contribution: UnitContribution
    rho: Fraction
    steps: list[SpentStep] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    spent: Fraction = Fraction(0)
    """What all steps cost together."""
    groups: tuple[Groups | None, ...] | None = field(default=None, repr=False)
    """Per column the cells that larger marginals tell apart; all of them, as long as nothing is known."""
    _merged: dict[Clique, NDArray[np.int64]] = field(default_factory=dict, repr=False)

    @property
    def left(self) -> Fraction:
        """What may still be spent."""
        return self.rho - self.spent

    def pay(self, event: Event, rho: Fraction) -> None:
        """Record a step before it is taken."""
        if rho > self.left:
            raise ValueError("a step would cost more than what was charged for all of them")
        self.spent += rho
        self.steps.append(SpentStep(event, rho))

    def scale(self, rho: Fraction) -> Fraction:
        """The standard deviation with which measuring a marginal costs at most ρ."""
        return short_above(sqrt(self.contribution.l2_squared / (2 * float(rho))) * _FLOATS_ABOVE, figures=8)

    def grouping(self, clique: Clique) -> tuple[Groups | None, ...] | None:
        """Which cells of a marginal are counted together: none of a column by itself."""
        if self.groups is None or len(clique) == 1:
            return None
        return tuple(self.groups[place] for place in clique)

    def cells(self, clique: Clique) -> int:
        """How many cells of a marginal are told apart."""
        return prod(self._counted(clique).shape)

    def _counted(self, clique: Clique) -> NDArray[np.int64]:
        """The exact marginal in the cells that are told apart."""
        groups = self.grouping(clique)
        if groups is None:
            return self.exact[clique]
        if clique not in self._merged:
            self._merged[clique] = merge_cells(self.exact[clique], groups)
        return self._merged[clique]

    def measure(self, clique: Clique, scale: Fraction) -> Measurement:
        """A marginal with noise."""
        contribution = self.contribution
        moved = root_above(Fraction(contribution.l2_squared))
        exact = self._counted(clique)
        event = DiscreteGaussian(scale, moved, contribution.relation, coordinates=exact.size)
        self.pay(event, Fraction(contribution.l2_squared) / (2 * scale**2))
        noisy = noise.add(exact, noise.discrete_gaussian(scale, exact.shape)).astype(np.float64)
        found = Measurement(clique, noisy, float(scale) ** 2, self.grouping(clique))
        self.measurements.append(found)
        return found

    def epsilon(self, rho: Fraction) -> Fraction:
        """The ε of an exponential mechanism that costs at most ρ."""
        return short_below(sqrt(8 * float(rho)) / _FLOATS_ABOVE, figures=8)

    def select(self, candidates: Sequence[Candidate], marginals: Mapping[Clique, Floats], epsilon: Fraction) -> Clique:
        """One of the candidates, by its score against marginals of the model, in rows."""
        relation = self.contribution.relation
        largest = max(candidate.weight for candidate in candidates)
        chooser = exponential(
            candidates=len(candidates),
            sensitivity=largest * self.contribution.l1 * GRID,
            epsilon=epsilon,
            step=1,
            relation=relation,
        )
        self.pay(ExponentialMechanism(epsilon, relation), epsilon**2 / 8)
        scores = [self._score(candidate, marginals[candidate.columns]) for candidate in candidates]
        return candidates[chooser(scores)].columns

    def _score(self, candidate: Candidate, model: Floats) -> int:
        groups = self.grouping(candidate.columns)
        expected = model if groups is None else merge_cells(model, groups)
        distance = np.abs(self._counted(candidate.columns) * GRID - np.rint(expected * GRID).astype(np.int64)).sum()
        return candidate.weight * (int(distance) - candidate.penalty)


@dataclass(frozen=True)
class Candidate:
    """A marginal that may be chosen: its weight, and what its own noise would bring, on the grid."""

    columns: Clique
    weight: int
    penalty: int = 0


def share_alone(columns: int) -> Fraction:
    """The share of ρ for the columns by themselves in AIM: more, the more of them there are, since each is measured."""
    return min(max(Fraction(columns, 40), _LEAST_ALONE), _MOST_ALONE)


def measure_columns(spending: Spending, domain: Domain, rho: Fraction) -> None:
    """Every column by itself: shares of ρ in proportion to n^(2/3), which minimises Σ n·s at fixed Σ 1/s²."""
    parts = [size ** (2 / 3) for size in domain.sizes]
    for place, part in enumerate(parts):
        spending.measure((place,), spending.scale(short_below(float(rho) * part / sum(parts), figures=6)))
    measured = zip(domain.attributes, spending.measurements, strict=True)
    spending.groups = tuple(group_codes(attribute, one.values, one.scale) for attribute, one in measured)


def run_mst(spending: Spending, domain: Domain, *, forbidden: Forbidden) -> Model:
    """A spanning tree of pairs: a third of ρ each for the columns, for choosing, and for measuring the edges."""
    sizes, columns = domain.sizes, len(domain.sizes)
    third = spending.left / 3
    measure_columns(spending, domain, third if columns > 1 else spending.left)
    model = fit(sizes, spending.measurements, forbidden=forbidden)
    if columns == 1:
        return model
    rows = {pair: model.marginal(pair) * model.size for pair in _pairs_of(domain)}
    component = list(range(columns))
    epsilon = spending.epsilon(third / (columns - 1))
    edges = []
    for _ in range(columns - 1):
        open_pairs = [Candidate(pair, 1) for pair in rows if component[pair[0]] != component[pair[1]]]
        first, second = spending.select(open_pairs, rows, epsilon)
        edges.append((first, second))
        component = [component[first] if one == component[second] else one for one in component]
    scale = spending.scale(short_below(spending.left / (columns - 1), figures=6))
    for edge in edges:
        spending.measure(edge, scale)
    return fit(sizes, spending.measurements, forbidden=forbidden, start=model.potentials)


def run_aim(
    spending: Spending,
    domain: Domain,
    candidates: Sequence[Candidate],
    *,
    cells: int,
    forbidden: Forbidden,
    progress: Callable[[float], None] | None = None,
) -> Model:
    """Rounds of choosing and measuring until ρ is spent; the junction tree has at most `cells` cells."""
    sizes, rho = domain.sizes, spending.left
    whole = float(rho)
    measure_columns(spending, domain, rho * share_alone(len(sizes)))
    model = fit(sizes, spending.measurements, forbidden=forbidden)
    share = spending.left / _planned_rounds(spending, model.size, len(sizes))
    scale = spending.scale(short_below(share * (1 - SELECTION), figures=6))
    epsilon = spending.epsilon(share * SELECTION)
    trees = _TreeSizes(sizes, forbidden)
    larger = [candidate for candidate in candidates if len(candidate.columns) > 1]
    while larger:
        cost = Fraction(spending.contribution.l2_squared) / (2 * scale**2) + epsilon**2 / 8
        last = spending.left < 2 * cost
        if last:
            scale = spending.scale(short_below(spending.left * (1 - SELECTION), figures=6))
            epsilon = spending.epsilon(spending.left * SELECTION)
        allowed = cells if last else int(cells * min(1.0, 1 - float(spending.left) / whole))
        noise_error = sqrt(2 / pi) * float(scale)
        open_now = [
            Candidate(one.columns, one.weight, round(noise_error * spending.cells(one.columns) * GRID))
            for one in candidates
            if trees.fits(one.columns, allowed)
        ]
        before = _marginals(model, [one.columns for one in open_now])
        chosen = spending.select(open_now, before, epsilon)
        spending.measure(chosen, scale)
        trees.add(chosen)
        model = fit(sizes, spending.measurements, forbidden=forbidden, start=model.potentials, steps=25)
        if progress is not None:
            progress(1 - float(spending.left) / whole)
        if last:
            break
        moved = spending.measurements[-1].merge(model.marginal(chosen) * model.size - before[chosen])
        if float(np.abs(moved).sum()) <= noise_error * spending.cells(chosen):
            scale, epsilon = short_above(scale / 2, figures=8), short_below(epsilon * 2, figures=8)
    return fit(sizes, spending.measurements, forbidden=forbidden, start=model.potentials)


def _planned_rounds(spending: Spending, rows: float, columns: int) -> int:
    """By how many rounds what is left is divided at first: four for each column, and down to one where the noise of a
    round would be large beside the noisy number of rows: such rounds would tell nothing but that they did."""
    rounds = 4 * columns
    while rounds > columns and float(spending.scale(spending.left / rounds)) > LARGE_NOISE * rows:
        rounds //= 2
    return rounds


def _pairs_of(domain: Domain) -> list[Clique]:
    return list(combinations(range(len(domain.sizes)), 2))


def _marginals(model: Model, cliques: Sequence[Clique]) -> dict[Clique, Floats]:
    """Marginals of the model in rows: pairs all at once."""
    pairs = model.tree.pairs(model.beliefs) if any(len(clique) == 2 for clique in cliques) else {}
    return {clique: (pairs[clique] if clique in pairs else model.marginal(clique)) * model.size for clique in cliques}


class _TreeSizes:
    """How large the junction tree would be with one more set of columns. A set that adds no edge changes nothing."""

    def __init__(self, sizes: tuple[int, ...], forbidden: Forbidden) -> None:
        self._sizes = sizes
        self._graph = neighbours(len(sizes), forbidden)
        self._known: dict[Clique, int] = {}
        self._now = tree_cells(sizes, self._graph)

    def add(self, clique: Clique) -> None:
        """The set is part of the tree from now on."""
        graph = self._joined(clique)
        if graph != self._graph:
            self._graph, self._known = graph, {}
            self._now = tree_cells(self._sizes, graph)

    def fits(self, clique: Clique, allowed: int) -> bool:
        """Whether the tree stays within a size. What is in the tree already always does."""
        if clique not in self._known:
            graph = self._joined(clique)
            self._known[clique] = 0 if graph == self._graph else tree_cells(self._sizes, graph)
        return self._known[clique] <= max(allowed, 0)

    def _joined(self, clique: Clique) -> list[int]:
        mask = sum(1 << place for place in clique)
        return [
            around | (mask & ~(1 << place)) if mask >> place & 1 else around for place, around in enumerate(self._graph)
        ]
