"""Rules of added noise: Gaussian, Laplace, their discrete forms, and Gaussian noise that is correlated over steps.

For k units the sensitivity grows k-fold, by the triangle inequality. The pairs are proved in `pairs.normal`,
`pairs.laplace` and `pairs.discrete`, the transforms in `contour.gaussian`, `contour.laplace` and `contour.atoms`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from deniable.accounting.filters.costs import Cost, Orders, concentrated, pure
from deniable.accounting.rules import HUGE, TINY, Rule, revealing
from deniable.conversions import formulas
from deniable.events import (
    Claimed,
    Correlated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    MatrixGaussian,
    Noise,
)
from deniable.guarantees import ZCDP, PureDP
from deniable.numerics.exact import ceiling
from deniable.numerics.rounding import float_above
from deniable.units import Relation

if TYPE_CHECKING:
    from deniable.accounting.contour.atoms import FiniteAtoms, GaussianAtoms
    from deniable.accounting.contour.transform import Transform
    from deniable.accounting.pairs.law import Law
    from deniable.accounting.proof.transforms import BallTransform

Added = TypeVar("Added", bound=Noise)

_WIDEST = 500
"""Sampled discrete Gaussians of a larger scale have too many atoms, and are left to the grid."""


class NoiseRule(Rule[Added]):
    """What all added noise has in common."""

    def clamp(self, event: Added) -> Event:
        """By how far the answer moves in units of the scale."""
        moved, far = event.sensitivity / event.scale, (event.reach or event.sensitivity) / event.scale
        if max(moved, far) > HUGE:
            return revealing(event.relation)
        if all(TINY <= size <= HUGE for size in (moved, event.scale, event.sensitivity)):
            return event
        return self.promise(event, max(moved, TINY), None if event.reach is None else max(far, TINY))

    def promise(self, event: Added, moved: Fraction, reach: Fraction | None) -> Event:
        """An event of ordinary size that costs as much as noise whose answer moves by `moved` scales."""
        return type(event)(1, moved, event.relation, reach=reach, coordinates=event.coordinates)

    def attained(self, step: Added) -> bool:
        """The pair is the noise itself, moved."""
        return True

    def variation(self, step: Added) -> float:
        """Half the shift in units of the scale: an ε-DP step has tanh(ε/2) at most, and one of divergence μ²/2 has μ/2
        (Pinsker).
        """
        return min(0.5 * float_above(step.sensitivity / step.scale), 1.0)

    def replacing(self, event: Added) -> Event:
        """Each of two units moves the answer by its sensitivity at most."""
        reach = event.sensitivity
        return type(event)(event.scale, 2 * reach, Relation.REPLACE, reach=reach, coordinates=2 * event.coordinates)

    def proportion(self, event: Added) -> Fraction | None:
        return None if event.reach is None else event.sensitivity / event.reach


class _OnTheLine:
    """Noise with a density: equal steps in units of the sensitivity."""

    def canonical(self, event: Noise) -> Event:
        reach = None if event.reach is None else event.reach / event.sensitivity
        return type(event)(event.scale / event.sensitivity, 1, event.relation, reach=reach)


class GaussianRule(_OnTheLine, NoiseRule[Gaussian]):
    """All Gaussians of a composition are one: `fold` adds up μ², and `pairs`, `contour` and `proof` know the sum."""

    def squares(self, event: Gaussian) -> tuple[Fraction, Fraction]:
        reach = event.sensitivity if event.reach is None else event.reach
        return (event.sensitivity / event.scale) ** 2, (reach / event.scale) ** 2

    def group(self, event: Gaussian, members: int, relation: Relation) -> Iterator[tuple[Event, int]]:
        return _gaussians(self.squares(event)[0], members, relation)

    def laws(self, step: Gaussian) -> tuple[Law, ...]:
        return _normal(self.squares(step)[0])

    def sampled_cost(self, event: Gaussian, rate: Fraction, orders: Orders) -> Cost:
        # Mironov, Talwar and Zhang 2019, sections 3.1 to 3.3: exact at whole orders, and the larger of both directions.
        ratio = (event.sensitivity / event.scale) ** 2
        return Cost(renyi=tuple(ceiling(formulas.sampled_gaussian_divergence(ratio, rate, order)) for order in orders))


class CorrelatedRule(Rule[Correlated]):
    """A whole run of correlated Gaussian noise is one Gaussian step."""

    def squares(self, event: Correlated) -> tuple[Fraction, Fraction]:
        squared = event.contribution_squared / event.scale**2
        return (4 * squared if event.relation is Relation.REPLACE else squared), squared

    def group(self, event: Correlated, members: int, relation: Relation) -> Iterator[tuple[Event, int]]:
        return _gaussians(self.squares(event)[0], members, relation)

    def clamp(self, event: Correlated) -> Event:
        square = event.contribution_squared / event.scale**2
        if square > HUGE**2:
            return revealing(event.relation)
        return event if square >= TINY**2 else MatrixGaussian(HUGE, 1, 1, relation=event.relation)

    def laws(self, step: Correlated) -> tuple[Law, ...]:
        return _normal(self.squares(step)[0])

    def attained(self, step: Correlated) -> bool:
        return True

    def proportion(self, event: Correlated) -> Fraction:
        return Fraction(2)


def _gaussians(square: Fraction, members: int, relation: Relation) -> Iterator[tuple[Event, int]]:
    """μ² = a/b exactly, as a·b Gaussians of scale b."""
    a, b = square.as_integer_ratio()
    yield Gaussian(b, members, relation), a * b


def _normal(square: Fraction) -> tuple[Law, ...]:
    from deniable.accounting.pairs import normal_law

    return (normal_law(square),)


class LaplaceRule(_OnTheLine, NoiseRule[Laplace]):
    """Laplace noise, by ε = sensitivity/scale."""

    def group(self, event: Laplace, members: int, relation: Relation) -> Iterator[tuple[Event, int]]:
        yield Laplace(event.scale / (event.sensitivity * members), 1, relation), 1

    def laws(self, step: Laplace) -> tuple[Law, ...]:
        from deniable.accounting.pairs.laplace import LaplaceLaw

        return (LaplaceLaw(float(step.sensitivity / step.scale)),)

    def worst_placement(self, event: Laplace, rate: float) -> Law | None:
        from deniable.accounting.pairs.laplace import PlacedLaplaceLaw

        reach = event.reach or event.sensitivity
        return PlacedLaplaceLaw(rate, float(reach / event.scale), float(event.sensitivity / event.scale))

    def transforms(self, step: Laplace) -> tuple[Transform, Transform]:
        from deniable.accounting.contour.laplace import Laplacian

        one = Laplacian(float(step.sensitivity / step.scale))
        return one, one

    def balls(self, step: Laplace) -> tuple[BallTransform, BallTransform]:
        from deniable.accounting.proof.transforms import LaplaceBall

        one = LaplaceBall(step.sensitivity / step.scale)
        return one, one

    def cost(self, step: Laplace, orders: Orders) -> Cost:
        return pure(step.sensitivity / step.scale, orders)

    def sampled_transforms(self, event: Laplace, rate: Fraction) -> tuple[Transform, Transform]:
        from deniable.accounting.contour.laplace import SampledLaplacian

        epsilon, kept, rest = float(event.sensitivity / event.scale), float(rate), float(1 - rate)
        return (
            SampledLaplacian(epsilon, kept, rest, forward=True),
            SampledLaplacian(epsilon, kept, rest, forward=False),
        )

    def sampled_balls(self, event: Laplace, rate: Fraction) -> tuple[BallTransform, BallTransform]:
        from deniable.accounting.proof.transforms import SampledLaplaceBall

        epsilon = event.sensitivity / event.scale
        return SampledLaplaceBall(epsilon, rate, True), SampledLaplaceBall(epsilon, rate, False)


class DiscreteLaplaceRule(NoiseRule[DiscreteLaplace]):
    """Discrete Laplace noise: atoms on a lattice."""

    def promise(self, event: DiscreteLaplace, moved: Fraction, reach: Fraction | None) -> Event:
        return Claimed(PureDP(moved, relation=event.relation))

    def group(self, event: DiscreteLaplace, members: int, relation: Relation) -> Iterator[tuple[Event, int]]:
        yield DiscreteLaplace(event.scale, event.sensitivity * members, relation), 1

    def laws(self, step: DiscreteLaplace) -> tuple[Law, ...]:
        from deniable.accounting.pairs.discrete import LARGEST, discrete_laplace, randomized_response

        epsilon = step.sensitivity / step.scale
        if step.sensitivity < LARGEST and epsilon < 600:
            return (discrete_laplace(float(step.scale), int(step.sensitivity)),)
        return (randomized_response(float(epsilon)),)

    def attained(self, step: DiscreteLaplace) -> bool:
        """Not where the table would be too large, and randomized response stands in for it."""
        from deniable.accounting.pairs.discrete import LARGEST

        return step.sensitivity < LARGEST and step.sensitivity / step.scale < 600

    def worst_placement(self, event: DiscreteLaplace, rate: float) -> Law | None:
        from deniable.accounting.pairs.discrete import LARGEST, LaplaceTable, placed_pair

        here, there = _whole_places(event)
        if here == there or here - min(0, there) >= LARGEST:
            return None
        return placed_pair(LaplaceTable(float(event.scale), min(0, there), here), here, there, rate)

    def transforms(self, step: DiscreteLaplace) -> tuple[Transform, Transform]:
        from deniable.accounting.contour.atoms import discrete_laplace

        one = discrete_laplace(step.scale, int(step.sensitivity))
        return one, one

    def balls(self, step: DiscreteLaplace) -> tuple[BallTransform, BallTransform]:
        from deniable.accounting.proof.transforms import discrete_laplace_balls

        one = discrete_laplace_balls(step.scale, int(step.sensitivity))
        return one, one

    def sampled_transforms(self, event: DiscreteLaplace, rate: Fraction) -> tuple[Transform, Transform] | None:
        from deniable.accounting.contour.atoms import FiniteAtoms, discrete_laplace

        return _thinned(FiniteAtoms(discrete_laplace(event.scale, int(event.sensitivity))), rate)

    def cost(self, step: DiscreteLaplace, orders: Orders) -> Cost:
        return pure(step.sensitivity / step.scale, orders)


class DiscreteGaussianRule(NoiseRule[DiscreteGaussian]):
    """Discrete Gaussian noise: one number has a pair, several have the zCDP bound of CKS 2020, Thm 4."""

    def promise(self, event: DiscreteGaussian, moved: Fraction, reach: Fraction | None) -> Event:
        # Canonne–Kamath–Steinke 2020, Thm 4: (Δ/σ)²/2-zCDP, in any dimension.
        return Claimed(ZCDP(moved**2 / 2, relation=event.relation))

    def group(self, event: DiscreteGaussian, members: int, relation: Relation) -> Iterator[tuple[Event, int]]:
        """On integers a number moves by whole steps."""
        moved = event.sensitivity * members
        if event.coordinates * members == 1 or moved**2 < 2:
            # Either one number moves, or at most one can: two integers that both move have L2 distance √2 or more.
            if moved >= 1:
                yield DiscreteGaussian(event.scale, math.floor(moved), relation), 1
        else:
            yield Claimed(ZCDP(moved**2 / (2 * event.scale**2), relation=relation)), 1

    def laws(self, step: DiscreteGaussian) -> tuple[Law, ...]:
        from deniable.accounting.pairs import renyi_law
        from deniable.accounting.pairs.discrete import discrete_gaussian

        alone = step.coordinates == 1 or step.sensitivity**2 < 2
        law = discrete_gaussian(float(step.scale), math.floor(step.sensitivity)) if alone else None
        return (law or renyi_law(((ZCDP(step.sensitivity**2 / (2 * step.scale**2)), 1),)),)

    def attained(self, step: DiscreteGaussian) -> bool:
        """Not where the table would be too large, and the zCDP bound stands in for it."""
        from deniable.accounting.pairs.discrete import GaussianTable

        return GaussianTable.between(float(step.scale), 0, math.floor(step.sensitivity)) is not None

    def worst_placement(self, event: DiscreteGaussian, rate: float) -> Law | None:
        from deniable.accounting.pairs.discrete import GaussianTable, placed_pair

        here, there = _whole_places(event)
        if event.coordinates > 1 or here == there:
            return None
        table = GaussianTable.between(float(event.scale), min(0, there), here)
        return None if table is None else placed_pair(table, here, there, rate)

    def transforms(self, step: DiscreteGaussian) -> tuple[Transform, Transform] | None:
        from deniable.accounting.contour.gaussian import discrete_gaussian

        if step.sensitivity.denominator != 1 or step.coordinates != 1:
            return None
        one = discrete_gaussian(step.scale, int(step.sensitivity))
        return one, one

    def sampled_transforms(self, event: DiscreteGaussian, rate: Fraction) -> tuple[Transform, Transform] | None:
        from deniable.accounting.contour.atoms import GaussianAtoms

        if event.sensitivity.denominator != 1 or event.coordinates != 1 or event.scale > _WIDEST:
            return None
        return _thinned(GaussianAtoms(float(event.scale), int(event.sensitivity)), rate)

    def balls(self, step: DiscreteGaussian) -> tuple[BallTransform, BallTransform]:
        from deniable.accounting.proof.transforms import DiscreteGaussianBall

        one = DiscreteGaussianBall(step.scale, int(step.sensitivity))
        return one, one

    def cost(self, step: DiscreteGaussian, orders: Orders) -> Cost:
        # Canonne, Kamath and Steinke 2020, Theorem 4: an upper bound, met at whole orders.
        return concentrated((step.sensitivity / step.scale) ** 2 / 2, orders)


def _whole_places(event: Noise) -> tuple[int, int]:
    """Where a unit and its replacement move an integer answer at worst; they differ by two reaches at most."""
    reach = math.floor(event.reach or event.sensitivity)
    return reach, reach - min(math.floor(event.sensitivity), 2 * reach)


def _thinned(noise: FiniteAtoms | GaussianAtoms, rate: Fraction) -> tuple[Transform, Transform]:
    from deniable.accounting.contour.atoms import ThinnedAtoms

    forward, backward = (ThinnedAtoms(noise, float(rate), float(1 - rate), side) for side in (True, False))
    return forward, backward
