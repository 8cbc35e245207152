"""Objective perturbation with approximate minima: the minimiser of a sum that has a random linear term.

J(θ) = Σ φ(⟨row, θ⟩, y) + (λ/2)|θ|² + ⟨b, θ⟩, φ convex and twice differentiable with |φ′||row| ≤ L and φ″|row|² ≤ β. The
exact minimiser and b determine each other: b = −∇(Σφ)(θ) − λθ. When a record is added or removed, b at a given θ moves
by φ′·row, and the volume factor det(∂b/∂θ) changes by at most 1 + β/λ (the record's Hessian has rank one), so the
privacy loss is at most c = ln(1 + β/λ) plus that of b. (Chaudhuri–Monteleoni–Sarwate 2011 and Kifer–Smith–Thakurta
2012, with corrected constants: under exchange the factor is (1 + β/λ)², not 1 + 2β/λ.)

* δ > 0: b ~ N(0, s²I). The loss is dominated by U = c + m²/2 + m|Z|, m = L/s, Z ~ N(0, 1); hence
  δ ≤ 2[Φ(m/2 − (ε − c)/m) − e^{ε−c}Φ(−m/2 − (ε − c)/m)] for ε ≥ c + m²/2: twice the curve of a Gaussian pair at ε − c.
  The tail of b enters in one dimension only because the gradient's direction, the row, does not depend on θ: so one
  margin per record.
* δ = 0: Laplace b, density ∝ exp(−γ|b|₁) with γ√d·L + c = ε, since |row|₁ ≤ √d. (Density ∝ exp(−γ|b|₂), as in the
  paper, would be shorter by √2, but has no exact sampler here.)

Exchange is two steps: (ε, δ) becomes (2ε, (1 + e^ε)δ).

*Approximate minima* (Iyengar et al. 2019). A program finds a point with |∇J| ≤ τ, within τ/λ of the minimiser; noise
for a sensitivity of 2τ/λ is added to it: Gaussian, or Laplace for δ = 0. τ is reached on all data (`minimum`).

*The noise b is discrete*, and no further than e from a continuous one: moving b by e moves ∇J by e, so |e| is part of
τ. Normal b is a random rounding of a continuous Gaussian (see `privacy`) and is moved by more than 240 grid steps in
no coordinate but with probability below 10⁻³⁴⁰, which doubles the leak. Laplace b is s·g·⌊X⌋ for an exponential X and
a sign s: a geometric number, moved by at most one step, always.

Preconditions: one margin; φ twice differentiable, Lipschitz everywhere; λ > 0 with ln(1 + β/λ) < ε; weights at most
1. Utility: excess ≤ (λR²/2 + |b|²/(2λ))/n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable import noise
from deniable._checks import positive
from deniable._progress import Tracker, silent
from deniable.errors import InvalidArgument
from deniable.events import Claimed, DiscreteLaplace, Event
from deniable.guarantees import ApproxDP, PureDP
from deniable.learning.optimizers.base import Array, Data, Method, MethodPlan, Task, steady
from deniable.learning.optimizers.minimum import DEFAULT_RATIO, minimisable, minimise, placed_on, placing, reachable
from deniable.learning.optimizers.whole import Slope
from deniable.learning.privacy import add_gaussian, gaussian_event, multiplier
from deniable.noise import Source
from deniable.noise.discrete import LEAK, SPREAD
from deniable.numerics import normal
from deniable.numerics.exact import whole_root_above
from deniable.numerics.rounding import float_below
from deniable.units import Relation

SHARE = Fraction(1, 200)
"""The part of ε and of δ that pays for the noise on the inexact minimiser."""

CURVATURE_SHARE = 0.1
"""The part of ε that the default λ gives to ln(1 + β/λ)."""

_GRID = 1 << 50
_LAST_GRID = 1 << 20
_ROUNDED = {"normal": 240, "laplace": 1}  # grid steps; 240 is 40 r


@dataclass(frozen=True)
class ObjectivePerturbation(Method):
    """Noise in the objective."""

    name: ClassVar[str] = "objective"
    theorem: ClassVar[str] = "objective perturbation with approximate minima (Iyengar et al. 2019; corrected constants)"

    strength: float | None = None
    """λ; default: the task's own, or β/(e^{ε/10} − 1) or β/1000 if that is larger."""

    def __post_init__(self) -> None:
        if self.strength is not None:
            positive("strength", self.strength)

    def plan(self, task: Task) -> ObjectivePlan:
        loss = steady(task, self)
        if loss.outputs != 1:
            raise self.refuse("it is proved for one margin per record; a joint multinomial model has several.")
        if not loss.twice_differentiable:
            raise self.refuse(f"{type(loss).__name__} is not twice differentiable.")
        first, last = _split(task)
        one = _halved(first)
        curved = min(CURVATURE_SHARE * float(one.epsilon), math.log1p(1 / DEFAULT_RATIO))
        least = loss.smoothness / math.expm1(curved)
        strength = self.strength if self.strength is not None else max(task.regularization, least)
        minimisable(task, self, strength=strength)
        constants = {"lipschitz": loss.lipschitz, "smoothness": loss.smoothness, "strength": strength}
        d = task.parameters
        if isinstance(one, PureDP):
            law, scale = "laplace", laplace_scale(one, parameters=d, **constants)
        else:
            # What the integers leak is taken out of δ; both sides of an exchange leak once.
            kept = ApproxDP(one.epsilon, one.delta - 2 * LEAK * d, relation=one.relation)
            law, scale = "normal", noise_scale(kept, **constants)
        squares = (2 if law == "laplace" else 1) * d * scale**2  # E|b|²
        tolerance = max(2e-6 * max(strength, 0.5) / math.sqrt(d), reachable(task, slope=9 * scale * d))
        rounded = _ROUNDED[law] * math.sqrt(d) * scale / _GRID * (1 + 1e-9)
        # The two minimisers that the last noise must hide are 2(τ + |e|)/λ apart whatever the relation.
        apart = 2 * (tolerance + rounded) / strength * (1 + 1e-12)
        risk = (strength * task.reach**2 / 2 + squares / (2 * strength)) / task.size
        event = Claimed(first) + _last_event(last, task)
        return ObjectivePlan(task, event, risk, law, strength, scale, tolerance, apart, last)


def noise_scale(target: ApproxDP, *, lipschitz: float, smoothness: float, strength: float) -> float:
    """s for an add/remove target, rounded up: m is the largest μ whose Gaussian pair has δ/2 at ε − ln(1 + β/λ)."""
    left = _left(target, smoothness, strength)
    m = normal.largest_mu(left, float_below(target.delta / 2)) * (1 - 1e-12)
    m = min(m, math.sqrt(2 * left) * (1 - 1e-12))  # the closed form needs ε − c ≥ m²/2
    return lipschitz / m * (1 + 1e-12)


def laplace_scale(
    target: PureDP, *, parameters: int, lipschitz: float, smoothness: float, strength: float
) -> float:  # fmt: skip
    """1/γ for an add/remove target, rounded up: √d·L/(ε − ln(1 + β/λ))."""
    return math.sqrt(parameters) * lipschitz / _left(target, smoothness, strength) * (1 + 1e-12)


def _left(target: ApproxDP | PureDP, smoothness: float, strength: float) -> float:
    """ε − ln(1 + β/λ), rounded down."""
    left = (float_below(target.epsilon) - math.log1p(smoothness / strength) * (1 + 1e-12)) * (1 - 1e-12)
    if left <= 0:
        least = smoothness / math.expm1(min(float(target.epsilon), 50.0))
        raise InvalidArgument(
            "regularization", strength, f"above {least:.4g}, or ln(1 + beta/regularization) alone exceeds epsilon"
        )
    return left


def _split(task: Task) -> tuple[ApproxDP | PureDP, ApproxDP | PureDP]:
    """The target of the exact minimiser and that of the noise on the inexact one."""
    target, relation = task.target, task.relation
    if isinstance(target, PureDP):
        return (
            PureDP(target.epsilon * (1 - SHARE), relation=relation),
            PureDP(target.epsilon * SHARE, relation=relation),
        )
    return (
        ApproxDP(target.epsilon * (1 - SHARE), target.delta * (1 - SHARE), relation=relation),
        ApproxDP(target.epsilon * SHARE, target.delta * SHARE, relation=relation),
    )


def _halved(target: ApproxDP | PureDP) -> ApproxDP | PureDP:
    """The add/remove promise whose two steps make a replace promise: (ε/2, δ/(1 + e^{ε/2}))."""
    if target.relation is not Relation.REPLACE:
        return target
    half = target.epsilon / 2
    if isinstance(target, PureDP):
        return PureDP(half)
    return ApproxDP(half, target.delta / Fraction(1 + math.exp(float(half)) * (1 + 1e-12)))


def _last_bound(parameters: int) -> int:
    """How far apart two inexact minimisers are on the last grid."""
    return _LAST_GRID + placing(parameters)


def _last_laplace(last: PureDP, parameters: int) -> tuple[Fraction, int]:
    """Scale and L1 sensitivity of the last noise: √d times the distance, rounded up."""
    far = _last_bound(parameters) * whole_root_above(parameters)
    return far / last.epsilon, far


def _last_event(last: ApproxDP | PureDP, task: Task) -> Event:
    d = task.parameters
    if isinstance(last, PureDP):
        return DiscreteLaplace(*_last_laplace(last, d), task.relation, coordinates=d)
    return gaussian_event(multiplier(last) * task.sides, draws=d, relation=task.relation)


@dataclass(frozen=True)
class ObjectivePlan(MethodPlan):
    """One run."""

    law: str
    strength: float
    scale: float
    tolerance: float
    apart: float
    last: ApproxDP | PureDP

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task = self.task
        slope = self._slope(source)
        theta = minimise(data, task.linear, strength=self.strength, slope=slope, tolerance=self.tolerance)
        step = self.apart / _LAST_GRID
        placed = placed_on(theta, step)
        if isinstance(self.last, PureDP):
            drawn = noise.discrete_laplace(_last_laplace(self.last, task.parameters)[0], placed.shape, source=source)
            noisy = noise.add(placed, drawn).astype(np.float64)
        else:
            bound = _last_bound(task.parameters)
            noisy = add_gaussian(placed, bound=bound, ratio=multiplier(self.last), source=source)
        return task.project(noisy * step)

    def _slope(self, source: Source | None) -> Slope:
        shape = self.task.shape
        if self.law == "normal":
            drawn = noise.discrete_gaussian(variance=_GRID**2 + SPREAD, size=shape, source=source)
        else:
            # Given that it is not 0, a discrete Laplace number is a sign and one more than a geometric number.
            drawn = noise.discrete_laplace(_GRID, shape, source=source)
            while not drawn.all():
                drawn = np.where(drawn == 0, noise.discrete_laplace(_GRID, shape, source=source), drawn)
            drawn = drawn - np.sign(drawn)
        return Slope(drawn.astype(object), self.scale / _GRID)
