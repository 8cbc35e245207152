"""A number or a vector that the caller computed, with Laplace or Gaussian noise.

The caller states the sensitivity: how far one unit can move the answer. The answer is rounded to a grid, the rounding
is added to the sensitivity, and discrete noise is added to the integers. `classic_scale` and `analytic_scale` give the
noise of the textbooks, to compare with.

>>> m = laplace(sensitivity=1, epsilon=0.5, step=1)
>>> m.event, m.statement(0.95)
(DiscreteLaplace(scale=2), 'with probability 95 % the error is at most 6')
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from deniable import _checks, _values
from deniable._checks import Number
from deniable._signatures import limit_sizes
from deniable.errors import InvalidArgument
from deniable.mechanisms import grids
from deniable.mechanisms.additive import AdditiveMechanism, AdditiveNoise, Statistic, check_budget, fit
from deniable.mechanisms.base import failure
from deniable.noise import Source
from deniable.numerics.exact import root_above
from deniable.numerics.normal import largest_mu
from deniable.numerics.rounding import float_above
from deniable.units import AnyRelation, Relation


@limit_sizes
def analytic_scale(*, sensitivity: Number, epsilon: Number, delta: Number) -> float:
    """The smallest σ of a continuous Gaussian that is (ε, δ)-DP: Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ) ≤ δ."""
    exact_sensitivity = _checks.positive("sensitivity", sensitivity)
    exact_delta = _checks.inner_probability("delta", delta)
    return float(exact_sensitivity) / largest_mu(float(_checks.positive("epsilon", epsilon)), float(exact_delta))


@limit_sizes
def classic_scale(*, sensitivity: Number, epsilon: Number, delta: Number) -> float:
    """Δ·√(2 ln(1.25/δ))/ε, for 0 < ε < 1."""
    exact_sensitivity = _checks.positive("sensitivity", sensitivity)
    exact_epsilon = _checks.between(
        "epsilon", epsilon, low=0, high=1, open_low=True, open_high=True,
        expected="above 0 and below 1 for the classic formula",
        remedy="Beyond that it is not a theorem; gaussian(...) has no such limit.",
    )  # fmt: skip
    exact_delta = _checks.inner_probability("delta", delta)
    return float(exact_sensitivity) * math.sqrt(2 * math.log(1.25 / float(exact_delta))) / float(exact_epsilon)


_SCALAR_STEPS = 1 << 20
_VECTOR_STEPS = 1 << 10


@dataclass(frozen=True, repr=False)
class AnswerMechanism(AdditiveMechanism):
    """A computed number or vector, with noise. `laplace` and `gaussian` make these."""

    sensitivity: Fraction
    norm: float
    dimension: int | None
    epsilon: Fraction
    delta: Fraction
    step: Fraction
    noise: AdditiveNoise = field(repr=False)

    def __call__(self, value: Any, /, *, source: Source | None = None) -> Any:
        """The answer with noise: a number, or a vector of `dimension` numbers.

        What is no finite number counts as 0; with `step=1`, so does what is no whole number.
        """
        if self.dimension is None:
            scalar = grids.check_scalar(value)
            steps = [_values.whole(scalar) if self.step == 1 else grids.round_to_step(scalar, self.step)]
        elif self.step == 1:
            steps = grids.read_integers(value, size=self.dimension)
        else:
            steps = grids.round_vector(value, self.step, size=self.dimension)
        noisy = self.noise.release(steps, source)
        if self.dimension is None:
            return grids.from_steps(noisy[0], self.step, self.noise.unit)
        return grids.array_from_steps(noisy, self.step, self.noise.unit)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the largest error of any coordinate, rounding included."""
        rounding = Fraction(0) if self.step == 1 else self.step / 2
        return float_above(self.noise.radius(failure(confidence)) * self.step + rounding)


class LaplaceMechanism(AnswerMechanism):
    """An answer with discrete Laplace noise."""


@limit_sizes
def laplace(
    *,
    sensitivity: Number,
    epsilon: Number,
    norm: float = 1,
    dimension: int | None = None,
    step: Number | None = None,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> LaplaceMechanism:
    """The Laplace mechanism: an answer plus discrete Laplace noise of scale Δ₁/ε, ε-differentially private.

    Theorem 3.6 of Dwork and Roth (2014), in its integer form by Ghosh, Roughgarden and Sundararajan (2009).
    `sensitivity` is how far one unit can move the answer, a promise of the caller about the function that computed it.
    For a vector it is stated in L1, L2 or L∞ and turned into L1: Δ₁ ≤ √d·Δ₂ and Δ₁ ≤ d·Δ∞.

    Real answers are rounded to a grid of about a millionth of the sensitivity (a thousandth of its d-th part for
    vectors), and the rounding is charged. With `step=1` answers are whole numbers and nothing is lost.

    Args:
        sensitivity: how far one unit can move the answer, in `norm`; a promise of the caller.
        epsilon: the privacy budget ε of one release.
        norm: the norm of the sensitivity of a vector: 1, 2 or math.inf.
        dimension: the length of a vector; None for one number.
        step: the grid that answers are rounded to, a power of two; 1 for integers, a millionth of Δ by default.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> m = laplace(sensitivity=1, epsilon=0.5, step=1)
    >>> m.event
    DiscreteLaplace(scale=2)
    >>> m.statement(0.95)
    'with probability 95 % the error is at most 6'
    >>> isinstance(m(1000), int)
    True
    """
    relation = Relation.of(relation)
    exact_epsilon, _ = check_budget(epsilon, 0)
    return LaplaceMechanism(**_fields(sensitivity, norm, dimension, exact_epsilon, Fraction(0), step, relation))


def _fields(
    sensitivity: Number,
    norm: float,
    dimension: int | None,
    epsilon: Fraction,
    delta: Fraction,
    step: Number | None,
    relation: Relation,
) -> dict[str, Any]:
    """The fields of an `AnswerMechanism`."""
    exact_sensitivity = _checks.positive(
        "sensitivity", sensitivity, remedy="An answer that nobody can change needs no noise."
    )
    if norm not in (1, 2, math.inf):
        raise InvalidArgument("norm", norm, "1, 2 or math.inf")
    size = 1 if dimension is None else _checks.count("dimension", dimension)
    statistic, grid = _statistic(exact_sensitivity, norm, dimension, epsilon, step, pure=not delta)
    (additive_noise,) = fit([statistic], epsilon=epsilon, delta=delta, relation=relation)
    return {
        "sensitivity": exact_sensitivity, "norm": norm, "dimension": None if dimension is None else size,
        "epsilon": epsilon, "delta": delta, "step": grid, "noise": additive_noise,
    }  # fmt: skip


def _statistic(
    sensitivity: Fraction, norm: float, dimension: int | None, epsilon: Fraction, step: Number | None, *, pure: bool
) -> tuple[Statistic, Fraction]:
    """The answer in steps: how far it moves, and the step."""
    size = dimension or 1
    root = root_above(Fraction(size))
    if step is not None and grids.check_power_of_two("step", step) == 1:
        # Integers differ by integers: the fraction of a sensitivity is never used.
        if norm == math.inf:
            sensitivity = Fraction(math.floor(sensitivity))
        l1, l2 = _norms(sensitivity, norm, size)
        if math.floor(l1) == 0:
            raise InvalidArgument(
                "sensitivity", sensitivity, "1 or more with step=1", "Integers that differ, differ by 1."
            )
        return Statistic(1, size, math.floor(l1), l2**2, size), Fraction(1)
    if dimension is None:
        grid = grids.step_below(sensitivity / _SCALAR_STEPS) if step is None else grids.check_power_of_two("step", step)
        steps = math.floor(sensitivity / grid) + 1
        return (Statistic(steps) if step is None else Statistic(1, 1, steps, Fraction(steps) ** 2)), grid
    l1, l2 = _norms(sensitivity, norm, size)
    if step is not None:
        grid = grids.check_power_of_two("step", step)
    else:
        # Rounding adds d steps in L1 and √d in L2; keep that below a thousandth, and below the noise.
        share = l1 / size if pure else l2 / root
        grid = grids.step_below(share * min(Fraction(1), 1 / epsilon) / _VECTOR_STEPS)
    l1_steps = math.floor(l1 / grid) + size
    return Statistic(1, size, l1_steps, (l2 / grid + root) ** 2, size), grid


def _norms(sensitivity: Fraction, norm: float, size: int) -> tuple[Fraction, Fraction]:
    """L1 and L2 sensitivity from the stated one."""
    root = root_above(Fraction(size))
    if norm == 1:
        return sensitivity, sensitivity
    if norm == 2:
        return sensitivity * root, sensitivity
    return sensitivity * size, sensitivity * root


class GaussianMechanism(AnswerMechanism):
    """An answer with discrete Gaussian noise."""


@limit_sizes
def gaussian(
    *,
    sensitivity: Number,
    epsilon: Number,
    delta: Number,
    norm: float = 2,
    dimension: int | None = None,
    step: Number | None = None,
    relation: AnyRelation = Relation.ADD_REMOVE,
) -> GaussianMechanism:
    """The Gaussian mechanism: an answer plus discrete Gaussian noise, (ε, δ)-differentially private.

    With noise of scale σ and L2 sensitivity Δ it is Δ²/(2σ²)-zCDP (Canonne, Kamath and Steinke 2020, Theorem 4). σ is
    the smallest that the accountant confirms for (ε, δ); see `calibration`. A vector's sensitivity is stated in L2, or
    in L1 (Δ₂ ≤ Δ₁) or L∞ (Δ₂ ≤ √d·Δ∞). Rounding is as in `laplace`.

    Args:
        sensitivity: how far one unit can move the answer, in `norm`; a promise of the caller.
        epsilon: the privacy budget ε of one release.
        delta: the δ of (ε, δ)-DP, above 0.
        norm: the norm of the sensitivity of a vector: 1, 2 or math.inf.
        dimension: the length of a vector; None for one number.
        step: the grid that answers are rounded to, a power of two; 1 for integers, a millionth of Δ by default.
        relation: what may change between neighbours: ADD_REMOVE, REPLACE or ZERO_OUT.

    >>> m = gaussian(sensitivity=1, epsilon=1, delta=1e-6, step=1)
    >>> m.event
    DiscreteGaussian(scale=4.2...)
    >>> m.error(0.95) < 10
    True
    """
    relation = Relation.of(relation)
    _checks.inner_probability("delta", delta, remedy="laplace(...) needs no delta.")
    epsilon, delta = check_budget(epsilon, delta)
    return GaussianMechanism(**_fields(sensitivity, norm, dimension, epsilon, delta, step, relation))
