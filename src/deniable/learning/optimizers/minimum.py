"""Minimisers with a certificate: a point where the gradient is provably short, found on every data set.

Methods that add noise to a minimiser are proved for the exact one. For a λ-strongly convex sum, a point with |∇J| ≤ τ
is within τ/λ of it, so what matters is a bound on the gradient that holds in real arithmetic. Whether such a point is
found must not depend on the records: a refusal would tell about them. So three ways are gone, one after the other:

1. Newton's method in float64. Its point is certified by a gradient that is summed in blocks, whose sums are added with
   compensation, and enlarged by a bound on the error of such sums in any order within a block (Higham 2002, eq. 3.5
   and 4.8).
2. Where float64 cannot tell, because there are far more records than were declared or θ is very long, or where Newton's
   method has stopped short: Newton's method with gradients in integers of any length (`whole`).
3. Where that stops short as well: accelerated gradient descent in integers, which is proved to arrive (`whole`).

The loss must be smooth. Which way was gone changes the point within the tolerance, which the noise covers, and the
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers.base import Data, Method, Task
from deniable.learning.optimizers.whole import Slope, WholeObjective, descend
from deniable.learning.table import ONE, parts
from deniable.numerics.exact import whole_root_above

Array = NDArray[Any]

_DENSE, _MOST_OUTPUTS = 700, 20
"""Up to so many parameters and outputs Newton's steps are solved with the whole Hessian, beyond it by conjugation."""

_ROUNDS = 200
_HALVINGS = 60
_IDLE = 4  # whole steps that did not shorten the gradient: floating point cannot do more
_BLOCK = 1 << 8
_HELD = 1 << 22  # numbers that are held at a time
_UNIT = 2.0**-52


def rounding(size: int, loss: LinearLoss, *, columns: int, length: float, pull: float) -> float:
    """What floating point may add to the norm of a gradient that sums `size` rows of norm at most 1 in blocks.

    Terms: |row|·|residual| ≤ L each, added up within a block; the blocks' sums with compensation, which loses a few
    roundings of the total and, of the second order, one for every 2⁵² blocks. Residuals: 64 roundings each, and one for
    every output. Margins: columns + 2 roundings of |θ|, and 8 of the label's size 1, which move a residual by β times
    that. `pull` is the length of what is added besides, λθ and the slope. Twice all of that.
    """
    second = (size // _BLOCK + 1) * _UNIT
    terms = loss.lipschitz * size * (_BLOCK + 72 + loss.outputs + second)
    margins = loss.smoothness * size * ((columns + 2) * length + 8)
    return float((terms + margins + pull * (8 + second)) * _UNIT)


def reachable(task: Task, *, slope: float = 0.0) -> float:
    """A tolerance that float64 reaches for about as many records as are publicly known: the fast way is then enough.

    It is public, and nothing depends on it but time: with other data the minimum is found in integers. At the minimum
    |λθ| ≤ nL + |slope|.
    """
    size, loss = 2 * task.size + 1000, task.linear
    pull = 2 * (size * loss.lipschitz + slope)
    return 8 * rounding(size, loss, columns=task.columns, length=10 * max(1.0, task.reach), pull=pull)


DEFAULT_RATIO, LEAST_RATIO = 1e-3, 1e-5
"""λ over β: the least that a method chooses by itself, and the least that it takes. The time depends on it."""


def minimisable(task: Task, method: Method, *, strength: float) -> LinearLoss:
    """The loss, if its minimum is found on all data: it gives its derivatives in integers, and λ is not tiny."""
    loss = task.linear
    least = LEAST_RATIO * loss.smoothness
    if not least <= strength <= 1e100:
        raise method.refuse(f"a minimum is found in bounded time with a regularization between {least:.3g} and 1e100.")
    if type(loss).whole_residuals is LinearLoss.whole_residuals:
        raise method.refuse(
            f"{type(loss).__name__} has no `whole_residuals`, without which a minimum may not be found on some data."
        )
    return loss


_FURTHEST = 2.0**52


def placed_on(theta: Array, step: float) -> NDArray[np.int64]:
    """θ in whole steps; values beyond 2⁵² steps are moved to there, which brings neighbours no further apart.

    Within them θ was rounded to float64 by at most half a step, the quotient is off by another half and the rounding by
    a third: two points come to lie at most 3√d steps further apart than they were (`placing`).
    """
    return np.rint(np.clip(theta / step, -_FURTHEST, _FURTHEST)).astype(np.int64)


def placing(parameters: int) -> int:
    """How many steps `placed_on` may add to a distance: 3√d, rounded up."""
    return whole_root_above(9 * parameters)


def minimise(
    data: Data,
    loss: LinearLoss,
    *,
    strength: float,
    tolerance: float,
    slope: Slope | None = None,
    origin: Array | None = None,
) -> Array:
    """z with |∇(Σ loss(origin + z) + (strength/2)|z|² + ⟨slope, z⟩)| ≤ tolerance, rounded to float64; on all data."""
    shape = (data.table.columns,) if loss.outputs == 1 else (data.table.columns, loss.outputs)
    base = np.zeros(shape) if origin is None else origin
    fixed = Slope(np.zeros(shape, dtype=object), 1.0) if slope is None else slope
    objective = Objective(data, loss, strength, fixed.floats(), base)
    at = objective.newton(tolerance)
    if objective.certified(at, tolerance):
        return at
    return _in_integers(objective, fixed, at, tolerance)


def _in_integers(objective: Objective, slope: Slope, start: Array, tolerance: float) -> Array:
    """The same in integers: Newton's steps while they halve the gradient, then a descent that is proved to arrive."""
    whole = WholeObjective(
        objective.data, objective.loss, objective.strength, slope, objective.base, tolerance=tolerance
    )
    at = whole.placed(start)
    gradient, margins = whole.evaluate(at)
    for _ in range(_ROUNDS):
        if whole.certified(gradient):
            return whole.floats(at)
        step = objective.newton_step(margins, whole.slope_of(gradient))
        if step is None:
            break
        search = LineSearch(float(np.sum(step * whole.slope_of(gradient))))
        while search.open:
            moved = at - whole.placed(search.scale * step)
            found, margins = whole.evaluate(moved)
            search.judge(float(np.sum(step * whole.slope_of(found))))
        at, gradient = moved, found
    return whole.floats(descend(whole, at, gradient))


class LineSearch:
    """How far to go along a Newton step: until the slope along it is a quarter of what it was, on either side.

    The function is convex, so the slope falls steadily along the step, from `steep` on. It is known far better than
    values are.
    """

    def __init__(self, steep: float) -> None:
        self._steep, self._short, self._long = steep, 0.0, 0.0
        self._left = _HALVINGS
        self.scale, self.open = 1.0, True

    def judge(self, slope: float) -> None:
        """Say the slope at `scale`: positive if the step may be longer. Sets the next `scale`, or closes the search."""
        self._left -= 1
        if slope < -self._steep / 4:
            self._long = self.scale
        elif slope > self._steep / 4 and self._long:
            self._short = self.scale
        else:
            self.open = False
        if not self._left:
            self.open = False
        if self.open:
            self.scale = (self._short + self._long) / 2


class Objective:
    """J(z) = Σ loss(base + z) + (strength/2)|z|² + ⟨slope, z⟩ in float64."""

    def __init__(self, data: Data, loss: LinearLoss, strength: float, slope: Array, base: Array) -> None:
        self.data, self.loss, self.strength, self.base = data, loss, strength, base
        self._slope = slope
        self._rows = data.table.rows * (1.0 / ONE)

    def gradient(self, at: Array) -> Array:
        """∇J, added up in any order."""
        return np.asarray(self._rows.T @ self._residuals(at)) + self.strength * at + self._slope

    def certified(self, at: Array, tolerance: float) -> bool:
        """Whether |∇J| ≤ tolerance in real arithmetic. Where it says so, that is proved."""
        gradient, error = self.measure(at)
        return float(np.linalg.norm(gradient)) * (1 + 1e-9) + error <= tolerance

    def measure(self, at: Array) -> tuple[Array, float]:
        """∇J, and a bound on how far it is from the real one."""
        residuals = self._residuals(at)
        total, lost = self.strength * at + self._slope, np.zeros(at.shape)
        for part in parts(self.data.table.count, _BLOCK):
            term = np.asarray(self._rows[part].T @ residuals[part])
            added = total + term
            # The error of one addition, exactly (Knuth's TwoSum).
            back = added - total
            lost += (total - (added - back)) + (term - back)
            total = added
        error = rounding(
            self.data.table.count,
            self.loss,
            columns=self.data.table.columns,
            length=float(np.linalg.norm(self.base) + np.linalg.norm(at)),
            pull=self.strength * float(np.linalg.norm(at)) + float(np.linalg.norm(self._slope)),
        )
        return total + lost, error

    def newton(self, tolerance: float) -> Array:
        """Damped Newton steps from 0, as far as floating point goes."""
        at = np.zeros(self.base.shape)
        here = self.gradient(at)
        idle = 0
        for _ in range(_ROUNDS):
            if float(np.linalg.norm(here)) <= tolerance / 8 or idle == _IDLE:
                break
            step = self.newton_step(self._margins(at), here)
            if step is None:
                break
            search = LineSearch(float(np.sum(step * here)))
            while search.open:
                there = self.gradient(at - search.scale * step)
                search.judge(float(np.sum(step * there)))
            idle += search.scale == 1 and float(np.linalg.norm(there)) >= float(np.linalg.norm(here))
            at, here = at - search.scale * step, there
        return at

    def newton_step(self, margins: Array, gradient: Array) -> Array | None:
        """H⁻¹·gradient where the records have these margins; None where floating point cannot say."""
        try:
            dense = gradient.size <= _DENSE and self.loss.outputs <= _MOST_OUTPUTS
            flat = (self._solved if dense else self._conjugate)(margins, gradient)
        except np.linalg.LinAlgError:
            return None
        return flat.reshape(gradient.shape) if np.isfinite(flat).all() else None

    def _margins(self, at: Array) -> Array:
        return np.asarray(self._rows @ (self.base + at))

    def _residuals(self, at: Array) -> Array:
        return self.data.weighted(self.loss.residuals(self._margins(at), self.data.labels))

    def _bends(self, margins: Array) -> Iterator[tuple[slice, Array]]:
        """The second derivatives of the records, some at a time: (records, outputs, outputs)."""
        outputs = self.loss.outputs
        for part in parts(len(margins), max(1, _HELD // outputs**2)):
            bends = self.loss.curvatures(margins[part], self.data.labels[part]).reshape(-1, outputs, outputs)
            yield part, bends if self.data.weights is None else bends * self.data.weights[part][:, None, None]

    def _solved(self, margins: Array, gradient: Array) -> Array:
        """By the whole Hessian."""
        outputs, columns = self.loss.outputs, self.data.table.columns
        hessian = np.zeros((columns, outputs, columns, outputs))
        for part, bends in self._bends(margins):
            rows = self._rows[part]
            for a in range(outputs):
                for b in range(a + 1):
                    weights = bends[:, a, b][:, None]
                    scaled = rows * weights if isinstance(rows, np.ndarray) else rows.multiply(weights).tocsr()
                    product = rows.T @ scaled
                    hessian[:, a, :, b] += product if isinstance(product, np.ndarray) else product.toarray()
        for a in range(outputs):
            for b in range(a):
                hessian[:, b, :, a] = hessian[:, a, :, b]
        flat = hessian.reshape(gradient.size, gradient.size)
        return np.linalg.solve(flat + self.strength * np.eye(gradient.size), gradient.reshape(-1))

    def _conjugate(self, margins: Array, gradient: Array) -> Array:
        """By conjugate gradients."""

        def times(flat: Array) -> Array:
            moves = np.asarray(self._rows @ flat.reshape(gradient.shape))
            bent = self.data.weighted(self.loss.curvatures_times(margins, self.data.labels, moves))
            return np.asarray(self._rows.T @ bent).reshape(-1) + self.strength * flat

        solution, left = np.zeros(gradient.size), gradient.reshape(-1).copy()
        direction, square = left.copy(), float(left @ left)
        goal = square * 1e-16
        for _ in range(min(gradient.size, 500)):
            if square <= goal:
                break
            image = times(direction)
            length = square / float(direction @ image)
            solution, left = solution + length * direction, left - length * image
            before, square = square, float(left @ left)
            direction = left + (square / before) * direction
        return solution
