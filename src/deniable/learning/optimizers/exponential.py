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
theorem's draw, rounded to the lattice. What was planned for w is charged: the lemma of `enlarge_mu` turns it into μ. In
float64 w grows with the number of records, which nobody knows. So w is bounded in the run, and where it exceeds the
plan H is computed in integers, on a lattice as fine as is needed, and the point drawn is rounded to the coarser lattice
that is always returned.

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
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable._progress import Tracker, silent
from deniable.events import Claimed
from deniable.guarantees import GDP, ApproxDP
from deniable.learning.losses.base import LinearLoss, PointLoss
from deniable.learning.optimizers.base import Array, Data, Method, MethodPlan, Task
from deniable.learning.privacy import enlarge_mu, largest_mu, round_down
from deniable.learning.table import ONE, parts
from deniable.noise import Source
from deniable.numerics.rounding import float_below

FloatArray: TypeAlias = NDArray[np.float64]

LATTICE = 52
"""What is returned is on a lattice of 2⁵² points along each side; their positions in [−1, 1] are exact floats."""

_SLACK = 1e-3
_FINEST = 50
_MOST = 6000
_WASTE = 3.0
_PATIENCE = 16  # proposals before the cells are looked at again
_STEPS = 20  # floors are rounded down to multiples of 2⁻²⁰


@dataclass(frozen=True)
class LatticePoint:
    """A point of the lattice of 2^bits points along each side, by its numbers from 0."""

    steps: tuple[int, ...]
    bits: int
    side: float

    def floats(self) -> FloatArray:
        """The middle of its cell in the lattice of 2⁵²; exact, times the side, where that is its own lattice."""
        coarse = [step >> (self.bits - LATTICE) for step in self.steps]
        return self.side * (np.array([2 * step + 1 for step in coarse], dtype=np.float64) * 2.0**-LATTICE - 1)

    def numerators(self) -> tuple[list[int], int]:
        """Its exact coordinates, over 2 to a power: numerators and the power."""
        whole, parts = self.side.as_integer_ratio()
        return [(2 * step + 1 - (1 << self.bits)) * whole for step in self.steps], self.bits + parts.bit_length() - 1


def draw(
    height: Callable[[LatticePoint], Fraction],
    outline: Callable[[FloatArray], tuple[float, FloatArray]],
    *,
    side: float,
    dimensions: int,
    bits: int = LATTICE,
    slack: float = _SLACK,
    source: Source | None = None,
) -> FloatArray:
    """A point of [−side, side]^d: one of 2^bits along each side with probability ∝ e^{−height}, on the lattice of 2⁵².

    `outline` gives height and gradient to within the slack: it shapes the cells, and no probability.

    An exact draw from a density ∝ e^{−Ĥ} on the lattice of a cube, for a convex H and its computed values Ĥ.

    The cube is cut into cells, finer where the density is large. A convex H lies above its tangent at a cell's centre,
    so in a cell of half-width h it is at least l = H(centre) − h·|∇H|₁. A cell is chosen with probability ∝
    volume·e^{−l} (`noise.Categorical`, exact), a lattice point in it uniformly, and it is accepted with probability
    e^{−(Ĥ(point) − l)} (`noise.bernoulli_exp`, exact): accepted points have mass ∝ e^{−Ĥ}, whatever the cells are. l is
    lowered by a slack that is above the rounding of tangents, which the caller bounds. (A height that is not convex,
    and lies below a floor, counts as that floor.)

    How long it takes depends on the data, as with every minimiser; what comes out does not reveal it.

    >>> import numpy as np
    >>> from deniable.noise import InsecureSource
    >>> bowl = lambda t: float(50 * t @ t)
    >>> height = lambda point: Fraction(bowl(point.floats()))
    >>> at = draw(height, lambda t: (bowl(t), 100 * t), side=1.0, dimensions=2, source=InsecureSource(1))
    >>> bool(np.abs(at).max() < 0.6)
    True
    """
    cells = _Cells(outline, side, dimensions)
    cells.refine()
    source = source or noise.secure()
    while True:
        floors = [math.floor(floor * 2.0**_STEPS) for floor in (cells.floors - max(slack, _SLACK)).tolist()]
        finest = int(cells.levels.max())
        chooser = noise.Categorical(
            [-floor for floor in floors],
            rate=Fraction(1, 1 << _STEPS),
            multiples=[1 << (dimensions * (finest - int(level))) for level in cells.levels],
        )
        rejected = np.zeros(len(floors), dtype=bool)
        for chosen in chooser.draw(_PATIENCE, source):
            inside = bits - int(cells.levels[chosen])
            steps = tuple((int(i) << inside) + noise.uniform(1 << inside, source=source) for i in cells.corners[chosen])
            point = LatticePoint(steps, bits, side)
            above = height(point) - Fraction(floors[chosen], 1 << _STEPS)
            if noise.bernoulli_exp(max(above, Fraction(0)), source=source):
                return point.floats()
            rejected[chosen] = True
        # Cells that only a rejected point could tell to be poor. What is accepted later has the same law.
        cells.cut(rejected & (cells.levels < _FINEST))


class _Cells:
    """A partition of the cube: levels, integer corners, and for each cell the height and the floor."""

    def __init__(self, outline: Callable[[FloatArray], tuple[float, FloatArray]], side: float, dimensions: int) -> None:
        self._outline, self._side, self._d = outline, side, dimensions
        self.levels = np.zeros(0, dtype=np.int64)
        self.corners = np.zeros((0, dimensions), dtype=np.int64)
        self.heights = self.floors = np.zeros(0)
        self._add(np.zeros(1, dtype=np.int64), np.zeros((1, dimensions), dtype=np.int64))

    def refine(self) -> None:
        """Cut the cells that waste most, until at most two of three proposals are expected to be rejected."""
        while len(self.levels) < _MOST:
            volumes = -self._d * math.log(2) * self.levels
            top = float(np.max(volumes - self.floors))
            offered, kept = (np.exp(volumes - found - top) for found in (self.floors, self.heights))
            waste = np.where(self.levels < _FINEST, offered - kept, 0.0)
            if float(offered.sum()) <= _WASTE * float(kept.sum()) or not waste.any():
                return
            self.cut(waste >= 0.1 * waste.max())

    def cut(self, chosen: NDArray[np.bool_]) -> None:
        """Halve some cells along every axis."""
        levels, corners = self.levels[chosen], self.corners[chosen]
        self.levels, self.corners = self.levels[~chosen], self.corners[~chosen]
        self.heights, self.floors = self.heights[~chosen], self.floors[~chosen]
        halves = np.stack(np.meshgrid(*[[0, 1]] * self._d, indexing="ij"), axis=-1).reshape(-1, self._d)
        self._add(np.repeat(levels + 1, len(halves)), (2 * corners[:, None, :] + halves[None]).reshape(-1, self._d))

    def _add(self, levels: NDArray[np.int64], corners: NDArray[np.int64]) -> None:
        widths = self._side * 2.0**-levels
        centres = (2 * corners + 1) * widths[:, None] - self._side
        outlines = [self._outline(centre) for centre in centres]
        heights = np.array([height for height, _ in outlines])
        tilts = np.array([float(np.abs(slope).sum()) for _, slope in outlines])
        self.levels, self.corners = np.append(self.levels, levels), np.vstack([self.corners, corners])
        self.heights, self.floors = (
            np.append(self.heights, heights),
            np.append(self.floors, heights - widths * tilts),
        )


MOST = {1: 10**6, 2: 10**5, 3: 2 * 10**4}
"""The most records for which the sampler is offered, by the number of parameters."""

_CLOSENESS = 1e-6
_HALF_ULP = 2.0**-53
_STEEPEST, _NARROWEST = 2.0**12, 2.0**80
"""What a record may change the height by, and how steep it may be: the finest cells are 2⁻⁵⁰ of the side."""
_HIGHEST = 1e6
_INTEGERS = 5000  # declared records for which integers are fast enough
_BLOCK = 1 << 8
_ROW_BITS = ONE.bit_length() - 1


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
        promised = round_down(largest_mu(task.target))
        stated = float_below(promised)
        # What the sampler may be off by, and what is left for the draw itself.
        closeness = _CLOSENESS * stated * min(1.0, stated) * math.exp(-stated * stated / 8)
        mu = stated * (1 - 1e-5)
        if enlarge_mu(mu, closeness) > stated:
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
        if task.size > MOST[d]:
            raise self.refuse(f"its sampler reads every record thousands of times; {MOST[d]} records are the most.")
        largest = 2 * task.size + 1000
        if task.size > _INTEGERS and plan.distance(largest, largest * _at_zero(task)) > closeness:
            raise self.refuse(
                "epsilon is so small that its heights would be computed in integers, and records are many."
            )
        if heat * loss.lipschitz * side > _STEEPEST or convexity * side**2 > _NARROWEST:
            raise self.refuse("its density is too narrow for its cells; the regularization is too strong.")
        if _at_zero(task) > _HIGHEST * (1 + loss.lipschitz):
            raise self.refuse(f"the values of {type(loss).__name__} at 0 are too large to tell its heights apart.")
        if type(loss).whole_value in (LinearLoss.whole_value, PointLoss.whole_value):
            raise self.refuse(
                f"{type(loss).__name__} has no `whole_value`, without which some data are beyond float64."
            )
        return plan


def _at_zero(task: Task) -> float:
    """The largest loss at θ = 0 of a record with a label of ±1, or of a point of length 1."""
    if isinstance(task.loss, LinearLoss):
        return float(np.max(np.abs(task.loss.values(np.zeros(2), np.array([-1.0, 1.0])))))
    return float(np.max(np.abs(task.loss.values(np.zeros(task.columns), np.eye(task.columns)))))


@dataclass(frozen=True)
class ExponentialPlan(MethodPlan):
    """One run."""

    side: float
    heat: float
    convexity: float
    closeness: float

    def run(self, data: Data, *, source: Source | None = None, track: Tracker = silent) -> Array:
        task, count = self.task, data.table.count
        records = Records(task.loss, data)
        start = math.fsum(np.abs(records.values(np.zeros(task.columns))))
        whole = self.distance(count, start) > self.closeness
        bits, extra = self._precision(count) if whole else (0, 0)

        def height(point: LatticePoint) -> Fraction:
            if not whole:
                theta = point.floats()
                return Fraction(
                    self.heat * math.fsum(records.values(theta)) + self.convexity / 2 * float(theta @ theta)
                )
            entries, power = point.numerators()
            square = Fraction(sum(entry * entry for entry in entries), 4**power)
            total = Fraction(records.whole_sum(entries, power, bits), 1 << bits)
            return Fraction(self.heat) * total + Fraction(self.convexity) / 2 * square

        def outline(theta: Array) -> tuple[float, Array]:
            value, slope = records.sums(theta)
            return (
                self.heat * value + self.convexity / 2 * float(theta @ theta),
                self.heat * slope + self.convexity * theta,
            )

        return task.project(
            draw(
                height,
                outline,
                side=self.side,
                dimensions=task.columns,
                bits=LATTICE + extra,
                slack=self._slack(count, start),
                source=source,
            )
        )

    def _precision(self, size: int) -> tuple[int, int]:
        """Bits of the values, and of the lattice beyond its 2⁵², with which the distance is what was planned for.

        A sum of values is off by three multiples of 2^−bits for every record; H changes by its Lipschitz constant times
        half a cell, of √d·side/2^lattice. Each may be an eighth of the plan.
        """
        far = self.side * math.sqrt(self.task.columns)
        steep = self.heat * size * self.task.loss.lipschitz + self.convexity * far
        values = 3 * self.heat * max(size, 1) / (self.closeness / 8)
        cells = steep * far / (self.closeness / 8)
        return max(64, math.ceil(math.log2(values)) + 1), max(0, math.ceil(math.log2(cells)) + 1 - LATTICE)

    def _slack(self, size: int, start: float) -> float:
        """How far a tangent in float64, and its value at the far end of a cell, may be too high."""
        d, loss = self.task.columns, self.task.loss
        far = self.side * math.sqrt(d)
        total = start + size * loss.lipschitz * far
        sums = self.heat * (total + 2 * d * size * loss.lipschitz * (far + 1)) * (2 * _BLOCK + d + 32)
        return float((sums + 32 * self.convexity * (far + 1) ** 2) * 2.0**-51)

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
        """The sum of the losses and its gradient, added up in blocks and exactly between them."""
        loss, data = self._loss, self._data
        if isinstance(loss, LinearLoss):
            slopes = data.weighted(loss.residuals(self._rows @ theta, data.labels))
            blocks = [slopes[part] @ self._rows[part] for part in parts(len(self._rows), _BLOCK)]
        else:
            gradients = data.weighted(loss.gradients(theta, self._rows))
            blocks = [gradients[part].sum(axis=0) for part in parts(len(self._rows), _BLOCK)]
        return math.fsum(self.values(theta)), np.array([math.fsum(column) for column in np.array(blocks).T])

    def whole_sum(self, theta: list[int], power: int, bits: int) -> int:
        """The sum of the losses at θ = theta/2^power in multiples of 2^−bits, off by three for every record at most."""
        loss, data = self._loss, self._data
        table = data.table
        total = 0
        for part in parts(table.count, _BLOCK):
            block = table.rows[part]
            rows = (block if isinstance(block, np.ndarray) else block.toarray()).astype(np.int64).tolist()
            for i, row in enumerate(rows, start=part.start):
                if isinstance(loss, LinearLoss):
                    margin = sum(entry * at for entry, at in zip(row, theta, strict=True))
                    value = loss.whole_value([margin], power + _ROW_BITS, float(data.labels[i]), bits)
                else:
                    # Both over 2^unit, where unit is enough for a row's sixteen bits.
                    unit = max(power, _ROW_BITS)
                    up, down = unit - power, unit - _ROW_BITS
                    away = [(at << up) - (entry << down) for entry, at in zip(row, theta, strict=True)]
                    value = loss.whole_value(away, unit, bits)
                weight, one = (1, 1) if data.weights is None else float(data.weights[i]).as_integer_ratio()
                total += value * weight // one
        return total
