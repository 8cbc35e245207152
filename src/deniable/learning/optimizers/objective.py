"""Objective perturbation with approximate minima: the minimiser of a sum that has a random linear term.

J(θ) = Σ φ(⟨row, θ⟩, y) + (λ/2)|θ|² + ⟨b, θ⟩ with b ~ N(0, s²I). For φ convex and twice differentiable with |φ′||row|
≤ L and φ″|row|² ≤ β, the privacy loss of the exact minimiser when a record is added or removed is dominated by

    U = c + m²/2 + m|Z|,   c = ln(1 + β/λ),   m = L/s,   Z ~ N(0, 1),

hence δ ≤ 2[Φ(m/2 − (ε − c)/m) − e^{ε−c}Φ(−m/2 − (ε − c)/m)] for ε ≥ c + m²/2: twice the curve of a Gaussian pair at ε
− c. (Chaudhuri–Monteleoni–Sarwate 2011 and Kifer–Smith–Thakurta 2012 with corrected constants. The tail of b enters
in one dimension only because the gradient's direction, the row, does not depend on θ: so one margin per record.)

A program finds a point with |∇J| ≤ τ, within τ/λ of the minimiser; Gaussian noise for a sensitivity of 2τ/λ is added to
it (Iyengar et al. 2019, approximate minima perturbation). If τ is not reached nothing is released.

*The noise b is discrete.* It is a random rounding of a continuous Gaussian (see `privacy`), and no coordinate is
moved by more than 240 grid steps but with probability 10⁻³⁴⁰. Moving b by e moves ∇J by e, so |e| ≤ 240·√d·g is part
of τ.

Under REPLACE the promise is that of two steps: (2ε, (1 + e^ε)δ).

Preconditions: one margin; φ twice differentiable, Lipschitz everywhere; λ > 0 with ln(1 + β/λ) < ε; weights at most
1; δ > 0. Utility: excess ≤ (λR²/2 + |b|²/(2λ))/n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from deniable import noise
from deniable._checks import positive
from deniable.conversions import normal
from deniable.errors import InvalidArgument
from deniable.events import Claimed
from deniable.guarantees import ApproxDP
from deniable.guarantees.rounding import float_below
from deniable.learning.optimizers.base import Array, Data, Method, Plan, Task, linear
from deniable.learning.optimizers.minimum import minimise, placed_on
from deniable.learning.privacy import SPREAD, add_gaussian, gaussian_event, leak, multiplier
from deniable.noise import Source
from deniable.units import Relation

SHARE = Fraction(1, 200)
"""The part of ε and of δ that pays for the noise on the inexact minimiser."""

CURVATURE_SHARE = 0.1
"""The part of ε that the default λ gives to ln(1 + β/λ)."""

_GRID = 1 << 50
_LAST_GRID = 1 << 20
_ROUNDED = 240  # grid steps: 40 r


@dataclass(frozen=True)
class ObjectivePerturbation(Method):
    """Noise in the objective."""

    name: ClassVar[str] = "objective"
    theorem: ClassVar[str] = "objective perturbation with approximate minima (Iyengar et al. 2019; corrected constants)"

    strength: float | None = None
    """λ; default: the task's own, or β/(e^{ε/10} − 1) if that is larger."""

    def __post_init__(self) -> None:
        if self.strength is not None:
            positive("strength", self.strength)

    def plan(self, task: Task) -> ObjectivePlan:
        loss = linear(task, self)
        if loss.outputs != 1:
            raise self.refuse("it is proved for one margin per record; a joint multinomial model has several.")
        if not loss.everywhere:
            raise self.refuse(f"{type(loss).__name__} is Lipschitz on a bounded set only.")
        if not loss.twice_differentiable or not loss.smooth:
            raise self.refuse(f"{type(loss).__name__} is not twice differentiable.")
        if not isinstance(task.target, ApproxDP):
            raise self.refuse("its Gaussian noise needs delta > 0.")
        target = task.target
        first = _halved(ApproxDP(target.epsilon * (1 - SHARE), target.delta * (1 - SHARE), relation=target.relation))
        last = ApproxDP(target.epsilon * SHARE, target.delta * SHARE, relation=target.relation)
        least = loss.smoothness / math.expm1(min(CURVATURE_SHARE * float(first.epsilon), 50.0))
        strength = self.strength if self.strength is not None else max(task.regularization, least)
        scale = noise_scale(first, lipschitz=loss.lipschitz, smoothness=loss.smoothness, strength=strength)
        d = task.parameters
        tolerance = max(2e-6 * strength, 1e-6) / math.sqrt(d)
        rounded = _ROUNDED * math.sqrt(d) * scale / _GRID * (1 + 1e-9)
        last_ratio = multiplier(last, draws=3 * d)
        promised = Claimed(ApproxDP(target.epsilon * (1 - SHARE), target.delta * (1 - SHARE), relation=target.relation))
        event = (
            promised
            + gaussian_event(last_ratio * task.sides, draws=d, relation=task.relation)
            + leak(2 * d, task.relation)
        )
        risk = (strength * task.reach**2 / 2 + d * scale**2 / (2 * strength)) / task.size
        # The two minimisers that the last noise must hide are 2(τ + |e|)/λ apart whatever the relation.
        apart = 2 * (tolerance + rounded) / strength * (1 + 1e-12)
        return ObjectivePlan(task, event, risk, strength, scale, tolerance, apart, last_ratio)


def noise_scale(target: ApproxDP, *, lipschitz: float, smoothness: float, strength: float) -> float:
    """s for an add/remove target, rounded up: m is the largest μ whose Gaussian pair has δ/2 at ε − ln(1 + β/λ)."""
    cost = math.log1p(smoothness / strength) * (1 + 1e-12)
    left = float_below(target.epsilon) - cost
    if left <= 0:
        least = smoothness / math.expm1(min(float(target.epsilon), 50.0))
        raise InvalidArgument(
            "regularization", strength, f"above {least:.4g}, or ln(1 + beta/regularization) alone exceeds epsilon"
        )
    m = normal.largest_mu(left * (1 - 1e-12), float_below(target.delta / 2)) * (1 - 1e-12)
    m = min(m, math.sqrt(2 * left) * (1 - 1e-12))  # the closed form needs ε − c ≥ m²/2
    return lipschitz / m * (1 + 1e-12)


def _halved(target: ApproxDP) -> ApproxDP:
    """The add/remove promise whose two steps make a replace promise: (ε/2, δ/(1 + e^{ε/2}))."""
    if target.relation is not Relation.REPLACE:
        return target
    half = target.epsilon / 2
    return ApproxDP(
        half, target.delta / Fraction(1 + math.exp(float(half)) * (1 + 1e-12)), relation=Relation.ADD_REMOVE
    )


@dataclass(frozen=True)
class ObjectivePlan(Plan):
    """One run."""

    strength: float
    scale: float
    tolerance: float
    apart: float
    last_ratio: Fraction

    def run(self, data: Data, *, source: Source | None = None) -> Array:
        task = self.task
        drawn = noise.discrete_gaussian(variance=_GRID**2 + SPREAD, size=task.shape, source=source)
        slope = drawn.astype(np.float64) * (self.scale / _GRID)
        theta = minimise(data, task.linear, strength=self.strength, slope=slope, tolerance=self.tolerance)
        step = self.apart / _LAST_GRID
        placed = placed_on(theta, step)
        bound = _LAST_GRID + math.isqrt(task.parameters - 1) + 1
        return task.project(add_gaussian(placed, bound=bound, ratio=self.last_ratio, source=source) * step)
