"""The regularised exponential mechanism, with an exact sampler in up to three dimensions.

θ is drawn with density ∝ exp(−H(θ)) on the cube |θ_j| ≤ S, where

    H(θ) = κ·Σ loss + (m/2)|θ|².

*Privacy* (Gopi–Lee–Liu 2022): for m-strongly convex H and H′ on a convex set, with H − H′ G-Lipschitz there, no test
between P ∝ e^{−H} and Q ∝ e^{−H′} beats that between N(0, 1) and N(G/√m, 1). A record changes H by a κL-Lipschitz
function, 2κL when exchanged: the draw is sides·κL/√m-GDP. Neither smoothness nor a minimiser is needed; the hinge and
the geometric median have corners.

*Proof.* Put s = G/√m. The logarithm ℓ of Q's density by P's is G-Lipschitz. P is a 1/√m-Lipschitz image of a standard
normal vector (Caffarelli's contraction theorem, 2000), so by the Gaussian isoperimetric inequality (Borell 1975;
Sudakov–Tsirelson 1974) ℓ under P has the law of k(Z), Z ~ N(0, 1), with k nondecreasing and s-Lipschitz. ℓ is
sufficient, so the pair (P, Q) is as hard to tell apart as φ(z)dz from e^{k(z)}φ(z)dz, and as k does not decrease, sets
{Z > a} are the best tests. Write e^{k(z)} = e^{h(z)}·e^{sz − s²/2}: h does not increase, and E e^h = 1 under N(s, 1).
The power of {Z > a} is E[e^h; Z > a] ≤ E[e^h]·P[Z > a] = Φ(s − a) under N(s, 1), since one factor falls and the other
grows (Chebyshev's association inequality). That is the power against N(s, 1) itself. ∎

*The sampler* is rejection, and exact but for the rounding of H (`cells`): a point of a fine lattice is accepted with
probability proportional to e^{−Ĥ}, |Ĥ − H| ≤ w in all of the point's lattice cell. So its law is within e^{±2w} of the
theorem's draw, rounded to the lattice. w is certified in the run, for rows, sums and lattice at hand; it must not
exceed what was planned for, and what was planned for is charged: the lemma of `closeness` turns it into μ.

Beyond three dimensions the cells become too many, and a Markov chain has no certified distance: refused.

*Utility*: excess ≤ (d/κ + (m/κ)|θ*|²/2)/n, least at m = 2d/R².

Preconditions: δ > 0; at most three parameters; a convex loss that is L-Lipschitz on the cube; weights at most 1.

>>> from deniable.learning.losses import Distance
>>> plan = RegularisedExponential().plan(Task(Distance(), 2, ApproxDP(1, 1e-6), size=1000, radius=1.0))
>>> print(plan.event.guarantee)
μ ≤ 0.24, one record added or removed
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from deniable.errors import NotSupported
from deniable.events import Claimed
from deniable.guarantees import GDP, ApproxDP
from deniable.guarantees.rounding import float_below
from deniable.learning.closeness import enlarged
from deniable.learning.losses.base import LinearLoss, PointLoss
from deniable.learning.optimizers.base import Array, Data, Method, Plan, Task
from deniable.learning.optimizers.cells import LATTICE, draw
from deniable.learning.privacy import largest_mu, rounded_down
from deniable.learning.progress import Tracker, silent
from deniable.noise import Source

MOST = {1: 10**6, 2: 10**5, 3: 2 * 10**4}
"""The most records for which the sampler is offered, by the number of parameters."""

_CLOSENESS = 1e-6
_HALF_ULP = 2.0**-53


@dataclass(frozen=True)
class RegularisedExponential(Method):
    """One draw from exp(−H)."""

    name: ClassVar[str] = "exponential"
    theorem: ClassVar[str] = "regularised exponential mechanism (Gopi–Lee–Liu 2022), exact sampler"
    limited: ClassVar[bool] = True

    def plan(self, task: Task) -> ExponentialPlan:
        loss, d = task.loss, task.parameters
        if isinstance(loss, LinearLoss) and loss.outputs != 1:
            raise self.refuse("it needs one margin per record.")
        if d not in MOST:
            raise self.refuse(f"its sampler is certified for at most {max(MOST)} numbers, and this model has {d}.")
        if not isinstance(task.target, ApproxDP):
            raise self.refuse("a Gaussian trade-off needs delta > 0.")
        # A linear model's loss that is Lipschitz for margins up to its `reach` is so where |θ| is at most that.
        known = getattr(loss, "reach", None) if isinstance(loss, LinearLoss) else None
        if not loss.everywhere and known is None:
            raise self.refuse(f"{type(loss).__name__} is Lipschitz on a bounded set only.")
        reach = task.reach if loss.everywhere or known is None else min(task.reach, float(known))
        side = reach if loss.everywhere else reach / math.sqrt(d)
        promised = rounded_down(largest_mu(task.target))
        stated = float_below(promised)
        # What the sampler may be off by, and what is left for the draw itself.
        closeness = _CLOSENESS * stated * min(1.0, stated) * math.exp(-stated * stated / 8)
        mu = stated * (1 - 1e-5)
        if enlarged(mu, closeness) > stated:
            raise self.refuse("epsilon leaves no room for the distance of its sampler.")
        bend = 2 * d / reach**2
        pull = loss.lipschitz * task.sides / mu
        # κ·sides·L = μ√(bend + κ·regularization), solved for κ and rounded down.
        half = task.regularization / (2 * pull**2)
        heat = (half + math.sqrt(half**2 + bend / pull**2)) * (1 - 1e-12)
        convexity = bend + heat * task.regularization
        risk = (d / heat + convexity / heat * reach**2 / 2) / task.size
        plan = ExponentialPlan(
            task, Claimed(GDP(promised, relation=task.relation)), risk, side, heat, convexity, closeness
        )
        if task.size > MOST[d] or plan.distance(2 * task.size + 1000, 2.0 * task.size + 1000) > closeness:
            raise self.refuse(f"its sampler reads every record thousands of times; {MOST[d]} records are the most.")
        return plan


@dataclass(frozen=True)
class ExponentialPlan(Plan):
    """One run."""

    side: float
    heat: float
    convexity: float
    closeness: float

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task, zero = self.task, np.zeros(self.task.columns)
        records = Records(task.loss, data)
        if self.distance(data.table.count, math.fsum(np.abs(records.values(zero)))) > self.closeness:
            raise NotSupported("the sampler's distance is above what was planned for, so nothing was released.")

        def height(theta: Array) -> float:
            return self.heat * math.fsum(records.values(theta)) + self.convexity / 2 * float(theta @ theta)

        def outline(theta: Array) -> tuple[float, Array]:
            value, slope = records.sums(theta)
            return (
                self.heat * value + self.convexity / 2 * float(theta @ theta),
                self.heat * slope + self.convexity * theta,
            )

        return task.project(draw(height, outline, side=self.side, dimensions=task.columns, source=source))

    def distance(self, size: int, start: float) -> float:
        """How far, in |ln|, the sampler's law is from the theorem's: twice a bound on |Ĥ − H| over a lattice cell.

        `start` is Σ|loss| at 0. A value is off by 16 roundings of itself and by what its margin or distance is off,
        d + 4 roundings of |θ| + 1; sums are rounded once, products a few times. H changes by its Lipschitz constant
        times half a lattice cell, of which the position is rounded once more.
        """
        d, loss = self.task.columns, self.task.loss
        far = self.side * math.sqrt(d)
        total = start + size * loss.lipschitz * far
        single = 16 * total + size * loss.lipschitz * (d + 4) * (far + 1)
        height = self.heat * total + self.convexity * far * far / 2
        rounded = (self.heat * single + 8 * height) * _HALF_ULP
        steep = self.heat * size * loss.lipschitz + self.convexity * far
        return 2 * (rounded + steep * far * (2.0**-LATTICE + _HALF_ULP)) * (1 + 1e-9)


class Records:
    """The losses of all records at one θ."""

    def __init__(self, loss: LinearLoss | PointLoss, data: Data) -> None:
        self._loss, self._data, self._rows = loss, data, data.table.points()

    def values(self, theta: Array) -> Array:
        """Every record's loss, times its weight."""
        loss, data = self._loss, self._data
        if isinstance(loss, LinearLoss):
            return data.weighted(loss.values(self._rows @ theta, data.labels))
        return data.weighted(loss.values(theta, self._rows))

    def sums(self, theta: Array) -> tuple[float, Array]:
        """The sum of the losses and its gradient, added up in any order."""
        loss, data = self._loss, self._data
        if isinstance(loss, LinearLoss):
            margins = self._rows @ theta
            slopes = data.weighted(loss.residuals(margins, data.labels))
            return float(data.weighted(loss.values(margins, data.labels)).sum()), np.asarray(slopes @ self._rows)
        return float(self.values(theta).sum()), np.asarray(data.weighted(loss.gradients(theta, self._rows)).sum(axis=0))
