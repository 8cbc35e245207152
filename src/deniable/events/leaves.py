"""The mechanisms themselves: one randomised step on all of the data.

Sensitivities are stated under the event's relation. For a vector, `sensitivity` is the L1 norm (Laplace) or the L2 norm
(Gaussian) of the largest change, and `coordinates` is how many numbers one unit may change.

>>> Laplace(scale=2)
Laplace(scale=2)
>>> DiscreteLaplace(scale=10, sensitivity=3, coordinates=3)
DiscreteLaplace(scale=10, sensitivity=3, coordinates=3)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable import _checks
from deniable._checks import Number
from deniable._signatures import public
from deniable.errors import InvalidArgument
from deniable.events.base import Event
from deniable.guarantees import Guarantee
from deniable.units import AnyRelation, Relation, Unit


@dataclass(frozen=True, init=False, repr=False)
class Noise(Event, family=True):
    """Independent noise of one scale, added to a number or a vector.

    `reach`, under REPLACE only, is how far a unit's presence moves the answer from its absence. Poisson sampling needs
    it: a vector clipped to norm C has sensitivity 2C and reach C, a sum over [0, b] has sensitivity b and reach b.
    """

    scale: Fraction
    sensitivity: Fraction = Fraction(1)
    relation: Relation = Relation.ADD_REMOVE
    reach: Fraction | None = None
    coordinates: int = 1

    @public
    def __init__(
        self,
        scale: Number,
        sensitivity: Number = 1,
        relation: AnyRelation = Relation.ADD_REMOVE,
        *,
        reach: Number | None = None,
        coordinates: int = 1,
    ) -> None:
        relation = Relation.of(relation)
        if type(self) is Noise:
            raise TypeError("Noise is a family; say which: Gaussian, Laplace, DiscreteGaussian or DiscreteLaplace")
        far = None if reach is None else _checks.positive("reach", reach)
        moved = _checks.positive("sensitivity", sensitivity)
        if far is not None and relation is not Relation.REPLACE:
            elsewhere = "Elsewhere it is the sensitivity."
            raise InvalidArgument("reach", reach, "left out unless relation=REPLACE", elsewhere)
        if far is not None and 2 * far < moved:
            twice = "Two units differ by at most two reaches."
            raise InvalidArgument("reach", reach, "at least half the sensitivity", twice)
        self._store(
            scale=_checks.positive("scale", scale),
            sensitivity=moved,
            relation=relation,
            reach=far,
            coordinates=_checks.count("coordinates", coordinates),
        )


class Gaussian(Noise):
    """Normal noise of standard deviation `scale`; `sensitivity` in L2. It is (sensitivity/scale)-GDP, exactly."""


class Laplace(Noise):
    """Laplace noise, density ∝ exp(−|x|/scale); `sensitivity` in L1. It is (sensitivity/scale)-DP."""


class DiscreteGaussian(Noise):
    """Integer noise, mass ∝ exp(−x²/(2 scale²)), on integer answers; `sensitivity` in L2."""


class DiscreteLaplace(Noise):
    """Integer noise, mass ∝ exp(−|x|/scale), on integer answers; `sensitivity` in L1, a whole number."""

    @public
    def __init__(
        self,
        scale: Number,
        sensitivity: Number = 1,
        relation: AnyRelation = Relation.ADD_REMOVE,
        *,
        reach: Number | None = None,
        coordinates: int = 1,
    ) -> None:
        relation = Relation.of(relation)
        if _checks.positive("sensitivity", sensitivity).denominator != 1:
            raise InvalidArgument("sensitivity", sensitivity, "a whole number: the noise is added to integers")
        super().__init__(scale, sensitivity, relation, reach=reach, coordinates=coordinates)


@dataclass(frozen=True, init=False, repr=False)
class GaussianMixture(Event):
    """Normal noise of deviation `scale` on an answer that a unit moves by a random amount, drawn in secret.

    With probability `probabilities[i]` the unit moves it by at most `sensitivities[i]` (L2). The draw depends on
    nobody's data. A sensitivity of 0 is the case that the unit is not in the step at all.

    >>> GaussianMixture(scale=1, sensitivities=(0, 1, 2), probabilities=(0.81, 0.18, 0.01))
    GaussianMixture(scale=1, sensitivities=(0, 1, 2), probabilities=(0.81, 0.18, 0.01))
    """

    scale: Fraction
    sensitivities: tuple[Fraction, ...]
    probabilities: tuple[Fraction, ...]
    relation: Relation = Relation.ADD_REMOVE

    @public
    def __init__(
        self,
        scale: Number,
        sensitivities: Iterable[Number],
        probabilities: Iterable[Number],
        relation: AnyRelation = Relation.ADD_REMOVE,
    ) -> None:
        relation = Relation.of(relation)
        if relation is Relation.REPLACE:
            raise InvalidArgument("relation", relation, "ADD_REMOVE or ZERO_OUT", "Use .to_replace() for REPLACE.")
        moved = [_checks.nonnegative("sensitivities", each) for each in sensitivities]
        weights = [_checks.probability("probabilities", each) for each in probabilities]
        if len(moved) != len(weights) or not moved:
            raise InvalidArgument("probabilities", tuple(weights), "one for each sensitivity")
        if sum(weights) != 1:
            raise InvalidArgument(
                "probabilities", tuple(map(_checks.shown, weights)), "numbers that add up to exactly 1"
            )
        merged: dict[Fraction, Fraction] = {}
        for far, weight in sorted(zip(moved, weights, strict=True)):
            if weight:
                merged[far] = merged.get(far, Fraction(0)) + weight
        if not max(merged):
            raise InvalidArgument(
                "sensitivities", tuple(map(_checks.shown, moved)), "one above 0, of positive probability"
            )
        self._store(
            scale=_checks.positive("scale", scale),
            sensitivities=tuple(merged),
            probabilities=tuple(merged.values()),
            relation=relation,
        )

    def __repr__(self) -> str:
        parts = [f"scale={_checks.shown(self.scale)}"]
        for name in ("sensitivities", "probabilities"):
            values = ", ".join(map(_checks.shown, getattr(self, name)))
            parts.append(f"{name}=({values}{',' if len(getattr(self, name)) == 1 else ''})")
        if self.relation is not Relation.ADD_REMOVE:
            parts.append(f"relation={self.relation!r}")
        return f"GaussianMixture({', '.join(parts)})"


@dataclass(frozen=True, init=False, repr=False)
class RandomizedResponse(Event):
    """A category reported truly with probability e^ε/(e^ε + k − 1), else one of the k − 1 others, uniformly."""

    epsilon: Fraction
    categories: int = 2
    relation: Relation = Relation.REPLACE

    @public
    def __init__(self, epsilon: Number, categories: int = 2, relation: AnyRelation = Relation.REPLACE) -> None:
        relation = Relation.of(relation)
        if relation is not Relation.REPLACE:
            raise InvalidArgument(
                "relation", relation, "REPLACE", "Everybody answers; what may change is what a person answers."
            )
        self._store(
            epsilon=_checks.positive("epsilon", epsilon),
            categories=_checks.count("categories", categories, least=2),
            relation=relation,
        )


@dataclass(frozen=True, init=False, repr=False)
class ExponentialMechanism(Event):
    """One candidate chosen with probability ∝ exp(ε·utility/(2Δ)); `epsilon` is the guarantee.

    Its loss has range at most ε (Durfee–Rogers 2019), which is more than ε-DP and is what the accountant uses.
    """

    epsilon: Fraction
    relation: Relation = Relation.ADD_REMOVE

    @public
    def __init__(self, epsilon: Number, relation: AnyRelation = Relation.ADD_REMOVE) -> None:
        relation = Relation.of(relation)
        self._store(epsilon=_checks.positive("epsilon", epsilon), relation=relation)


@dataclass(frozen=True, init=False, repr=False)
class Claimed(Event):
    """Something of which only a guarantee is known. The accountant uses the best bound that the guarantee allows."""

    guarantee: Guarantee

    @public
    def __init__(self, guarantee: Guarantee) -> None:
        _checks.member("guarantee", guarantee, Guarantee, remedy="For example Claimed(PureDP(1)).")
        self._store(guarantee=guarantee)

    @property
    def relation(self) -> Relation:
        return self.guarantee.relation

    @property
    def unit(self) -> Unit:
        return self.guarantee.unit

    def __repr__(self) -> str:
        return f"Claimed({self.guarantee!r})"


@dataclass(frozen=True, init=False, repr=False)
class Correlated(Event, family=True):
    """Gaussian noise correlated over the steps of one run, in which a unit takes part by a public pattern.

    Such a run is post-processing of C·x + z, with x the clipped contributions of all steps, C the strategy and z normal
    of standard deviation `scale` × clip: one Gaussian step. A unit moves C·x by at most `contribution_squared`^½ clips
    when it is there or not; replacing it by another moves it by at most twice that.
    """

    scale: Fraction

    @property
    @abstractmethod
    def contribution_squared(self) -> Fraction:
        """max |C·u|² over all that one unit may contribute, in units of clip²."""

    def _store(self, **values: Any) -> None:
        if (relation := values["relation"]) is Relation.ADD_REMOVE:
            raise InvalidArgument("relation", relation, "ZERO_OUT or REPLACE", "The order of steps is public.")
        super()._store(**values)


@dataclass(frozen=True, init=False, repr=False)
class TreeGaussian(Correlated):
    """All prefix sums of `steps` clipped contributions by a binary tree, normal noise `scale` × clip in every node.

    A unit takes part in at most `participations` steps, each in a tree of its own (the tree is restarted).
    """

    scale: Fraction
    steps: int
    participations: int = 1
    relation: Relation = Relation.ZERO_OUT

    @public
    def __init__(
        self, scale: Number, steps: int, participations: int = 1, relation: AnyRelation = Relation.ZERO_OUT
    ) -> None:
        relation = Relation.of(relation)
        self._store(
            scale=_checks.positive("scale", scale),
            steps=_checks.count("steps", steps),
            participations=_checks.count("participations", participations),
            relation=relation,
        )

    @property
    def nodes(self) -> int:
        """How many nodes of one tree a step can touch: floor(log2 steps) + 1."""
        return self.steps.bit_length()

    @property
    def contribution_squared(self) -> Fraction:
        """Each participation is a leaf of a tree of its own and touches at most `nodes` nodes of it (Honaker 2015)."""
        return Fraction(self.participations * self.nodes)


@dataclass(frozen=True, init=False, repr=False)
class MatrixGaussian(Correlated):
    """The matrix mechanism over `steps` steps: noise C⁻¹z on clipped sums, z normal of deviation `scale` × clip.

    `sensitivity` is a proven bound on |C·u| over all u with rows of norm at most 1 in at most `participations` steps,
    any two of them at least `separation` steps apart, and 0 elsewhere (`strategies.sensitivity`), or over
    those of these patterns that the run's public order allows. It is one unit's contribution whatever the relation;
    under REPLACE the accountant counts it twice.

    >>> MatrixGaussian(scale=4, sensitivity=1.5, steps=1000, participations=3, separation=300)
    MatrixGaussian(scale=4, sensitivity=1.5, steps=1000, participations=3, separation=300)
    """

    scale: Fraction
    sensitivity: Fraction
    steps: int
    participations: int = 1
    separation: int = 1
    relation: Relation = Relation.ZERO_OUT

    @public
    def __init__(
        self,
        scale: Number,
        sensitivity: Number,
        steps: int,
        participations: int = 1,
        separation: int = 1,
        relation: AnyRelation = Relation.ZERO_OUT,
    ) -> None:
        relation = Relation.of(relation)
        apart, times = _checks.count("separation", separation), _checks.count("participations", participations)
        fits = 1 + (_checks.count("steps", steps) - 1) // apart
        if times > fits:
            raise InvalidArgument(
                "participations", participations, f"at most {fits}", f"{apart} steps apart, no more fit into {steps}."
            )
        self._store(
            scale=_checks.positive("scale", scale),
            sensitivity=_checks.positive("sensitivity", sensitivity),
            steps=_checks.count("steps", steps),
            participations=times,
            separation=apart,
            relation=relation,
        )

    @property
    def contribution_squared(self) -> Fraction:
        """The square of what was stated."""
        return self.sensitivity**2
