"""Marginals in the residual basis: many tables of counts that agree with one another, with exact variances.

The residual of a set τ of columns is the τ-marginal, centred along every axis: what its own sub-marginals do not tell.
Residuals of different sets are independent pieces, and every marginal is a sum of the residuals of its subsets:

    μ_γ = Σ_{τ ⊆ γ} r_τ ⊗ Π_{j ∈ γ−τ} 1/n_j        (n_j: the number of codes of column j)

Each residual is measured once, so marginals that are put together from them agree wherever they overlap (Xiao, He,
Zhang and Kifer 2023, ResidualPlanner). Centring along an axis of n codes is (n·I − J)/n, with J all ones. So Π n_i
times a residual is a whole number in every cell, and so is any multiple; noise is added to these whole numbers, and the
result is divided and centred again, which is free and removes the noise that no residual can have.

**One event.** The noise is the discrete Gaussian of variance τ² + 36, which is a post-processing of continuous Gaussian
noise of variance τ² but for a leak of 10⁻³⁰⁸ for each number (`noise.discrete`). With continuous noise, all residuals
together are one Gaussian mechanism: of scale 1 and sensitivity √(Σ D²_τ/τ²), where D_τ is how far a unit moves r_τ.

**Sensitivity.** One row moves r_τ by Π‖e_a − 1/n‖ = √c_τ in L2, with c_τ = Π_{i∈τ}(1 − 1/n_i): the same for every row.
Replaced rows move it by ‖C(e_a − e_b)‖, whose square is 2c_τ − 2Π⟨…⟩. The product has a factor 1 − 1/n_i where the rows
agree and −1/n_i where they differ; it is least where they differ in the axis with the fewest codes alone, where it is
−c_τ/(n_min − 1). So the square is at most 2c_τ·n_min/(n_min − 1), and for τ = ∅ it is 1, since a unit that
replaces another may have other rows that count. All times m² for m rows (`contributions`).

**Variances.** Noise of variance s²_τ on r_τ before it is centred adds s²_τ·c_τ·Π_{j∈γ−τ} 1/n_j² to every cell of μ_γ.
The s²_τ that minimise Σ_γ w_γ·(sum of variances of γ) at a given cost are proportional to √(D²_τ/v_τ), v_τ being
Σ_{γ⊇τ} w_γ Π_{i∈τ}(n_i − 1) Π_{j∈γ−τ} 1/n_j (Cauchy-Schwarz); w_γ = 1/√(cells of γ), so that no table
wins by its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable.events import Claimed, Event, Gaussian
from deniable.guarantees import ApproxDP
from deniable.noise.discrete import LEAK, SPREAD
from deniable.numerics.exact import short_above
from deniable.synthesis.contributions import UnitContribution
from deniable.synthesis.domain import Clique

SMOOTH = 1 << 12
"""The grid is so fine that the noise has at least this scale on it: 36 more of variance is then next to nothing."""


@dataclass(frozen=True)
class Residual:
    """One residual: which columns, the grid on which it is whole, and the noise that is added there."""

    columns: Clique
    shape: tuple[int, ...]
    times: int
    """What makes a residual whole: a multiple of P."""
    spread: Fraction
    """τ²: the variance of the continuous Gaussian noise that the noise stands for, on the grid."""
    move: Fraction
    """How far one unit moves the residual in L2, squared, on the grid."""

    @property
    def cost(self) -> Fraction:
        """The squared ratio of sensitivity and noise: these add up to that of all residuals together."""
        return self.move / self.spread

    @property
    def variance(self) -> float:
        """s²: the variance of the noise of the residual, before it is centred; the discrete law has at most that."""
        return float((self.spread + SPREAD) / self.times**2)

    def measure(self, marginal: NDArray[np.int64]) -> NDArray[np.float64]:
        """The noisy residual, from the exact marginal of its columns."""
        exact = centre_whole(marginal) * (self.times // prod(self.shape))
        noisy = noise.add(exact, noise.discrete_gaussian(size=exact.shape, variance=self.spread + SPREAD))
        return centre(noisy.astype(np.float64) / self.times)


def centre_whole(marginal: NDArray[np.int64]) -> NDArray[np.int64]:
    """P times the residual of a marginal, exactly."""
    found = np.asarray(marginal, dtype=np.int64)
    for axis, size in enumerate(found.shape):
        found = size * found - found.sum(axis=axis, keepdims=True)
    return found


def centre(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values without their means along every axis."""
    for axis in range(values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def squared_move(shape: Sequence[int], contribution: UnitContribution) -> Fraction:
    """How far one unit moves a residual in L2, squared."""
    share = prod((1 - Fraction(1, size) for size in shape), start=Fraction(1))
    if contribution.replaced and shape:
        least = min(shape)
        share *= Fraction(2 * least, least - 1)
    return share * contribution.rows**2


def closure(cliques: Iterable[Clique], sizes: Sequence[int]) -> list[Clique]:
    """All subsets of some sets of columns, small ones first. Those with a column of one code have residual 0."""
    found = {subset for clique in cliques for size in range(len(clique) + 1) for subset in combinations(clique, size)}
    return sorted((one for one in found if all(sizes[i] > 1 for i in one)), key=lambda one: (len(one), one))


def plan_residuals(
    cliques: Sequence[Clique],
    sizes: Sequence[int],
    contribution: UnitContribution,
    *,
    unit_scale: Fraction,
    weights: Mapping[Clique, float] | None = None,
) -> tuple[Residual, ...]:
    """The residuals of some marginals, with noise whose cost is that of a Gaussian of `unit_scale` on sensitivity 1."""
    value: dict[Clique, float] = dict.fromkeys(closure(cliques, sizes), 0.0)
    for clique in dict.fromkeys(cliques):
        cells = prod(sizes[i] for i in clique)
        weight = (weights or {}).get(clique, 1.0) / sqrt(cells)
        for size in range(len(clique) + 1):
            for subset in combinations(clique, size):
                if subset in value:
                    rest = prod(sizes[j] for j in clique if j not in subset)
                    value[subset] += weight * prod(sizes[i] - 1 for i in subset) / rest
    moved = {one: squared_move([sizes[i] for i in one], contribution) for one in value}
    spread = {one: sqrt(float(moved[one]) / value[one]) for one in value}
    cost = sum(float(moved[one]) / spread[one] for one in value)
    found = []
    for one in value:
        shape = tuple(sizes[i] for i in one)
        variance = spread[one] * cost * float(unit_scale) ** 2
        times = prod(shape)
        while times**2 * variance < SMOOTH**2:
            times *= 2
        found.append(Residual(one, shape, times, short_above(times**2 * variance, figures=8), moved[one] * times**2))
    return tuple(found)


def composed(residuals: Sequence[Residual], contribution: UnitContribution, *, unit_scale: Fraction) -> Event:
    """What measuring all of them does to the data: one Gaussian, and what the discrete law may leak beside it."""
    if sum(residual.cost for residual in residuals) > 1 / unit_scale**2:
        raise ValueError("the residuals move further than the Gaussian that stands for them allows")
    leak = LEAK * sum(prod(residual.shape) for residual in residuals)
    relation = contribution.relation
    return Gaussian(unit_scale, 1, relation) + Claimed(ApproxDP(0, leak, relation=relation))


def rebuild(
    clique: Clique, sizes: Sequence[int], residuals: Mapping[Clique, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """The marginal of some columns, from the residuals of all their subsets."""
    found = np.zeros(tuple(sizes[i] for i in clique))
    for size in range(len(clique) + 1):
        for subset in combinations(clique, size):
            if subset in residuals:
                axes = tuple(sizes[i] if i in subset else 1 for i in clique)
                rest = prod(sizes[j] for j in clique if j not in subset)
                found = found + residuals[subset].reshape(axes) / rest
    return found


def cell_variance(clique: Clique, sizes: Sequence[int], variances: Mapping[Clique, float]) -> float:
    """The variance of every cell of a marginal."""
    total = 0.0
    for size in range(len(clique) + 1):
        for subset in combinations(clique, size):
            if subset in variances:
                centred = prod(1 - 1 / sizes[i] for i in subset)
                rest = prod(sizes[j] for j in clique if j not in subset)
                total += variances[subset] * centred / rest**2
    return total
