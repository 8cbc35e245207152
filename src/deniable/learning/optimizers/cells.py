"""An exact draw from a density ∝ e^{−Ĥ} on the lattice of a cube, for a convex H and its computed values Ĥ.

The cube is cut into cells, finer where the density is large. A convex H lies above its tangent at a cell's centre, so
in a cell of half-width h it is at least l = H(centre) − h·|∇H|₁. A cell is chosen with probability ∝ volume·e^{−l}
(`noise.Categorical`, exact), a lattice point in it uniformly, and it is accepted with probability e^{−(Ĥ(point) − l)}
(`noise.bernoulli_exp`, exact): accepted points have mass ∝ e^{−Ĥ}, whatever the cells are. l is lowered by a slack that
is above the rounding of tangents, which the caller bounds. (A height that is not convex, and lies below a floor, counts
as that floor.)

How long it takes depends on the data, as with every minimiser; what comes out does not reveal it.

>>> import numpy as np
>>> from deniable.noise import InsecureSource
>>> bowl = lambda t: float(50 * t @ t)
>>> height = lambda point: Fraction(bowl(point.floats()))
>>> at = draw(height, lambda t: (bowl(t), 100 * t), side=1.0, dimensions=2, source=InsecureSource(1))
>>> bool(np.abs(at).max() < 0.6)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable.noise import Source

Array: TypeAlias = NDArray[np.float64]

LATTICE = 52
"""What is returned is on a lattice of 2⁵² points along each side; their positions in [−1, 1] are exact floats."""

_SLACK = 1e-3
_FINEST = 50
_MOST = 6000
_WASTE = 3.0
_PATIENCE = 16  # proposals before the cells are looked at again
_STEPS = 20  # floors are rounded down to multiples of 2⁻²⁰


@dataclass(frozen=True)
class Point:
    """A point of the lattice of 2^bits points along each side, by its numbers from 0."""

    steps: tuple[int, ...]
    bits: int
    side: float

    def floats(self) -> Array:
        """The middle of its cell in the lattice of 2⁵²; exact, times the side, where that is its own lattice."""
        coarse = [step >> (self.bits - LATTICE) for step in self.steps]
        return self.side * (np.array([2 * step + 1 for step in coarse], dtype=np.float64) * 2.0**-LATTICE - 1)

    def numerators(self) -> tuple[list[int], int]:
        """Its exact coordinates, over 2 to a power: numerators and the power."""
        whole, parts = self.side.as_integer_ratio()
        return [(2 * step + 1 - (1 << self.bits)) * whole for step in self.steps], self.bits + parts.bit_length() - 1


def draw(
    height: Callable[[Point], Fraction],
    outline: Callable[[Array], tuple[float, Array]],
    *,
    side: float,
    dimensions: int,
    bits: int = LATTICE,
    slack: float = _SLACK,
    source: Source | None = None,
) -> Array:
    """A point of [−side, side]^d: one of 2^bits along each side with probability ∝ e^{−height}, on the lattice of 2⁵².

    `outline` gives height and gradient to within the slack: it shapes the cells, and no probability.
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
            point = Point(steps, bits, side)
            above = height(point) - Fraction(floors[chosen], 1 << _STEPS)
            if noise.bernoulli_exp(max(above, Fraction(0)), source=source):
                return point.floats()
            rejected[chosen] = True
        # Cells that only a rejected point could tell to be poor. What is accepted later has the same law.
        cells.cut(rejected & (cells.levels < _FINEST))


class _Cells:
    """A partition of the cube: levels, integer corners, and for each cell the height and the floor."""

    def __init__(self, outline: Callable[[Array], tuple[float, Array]], side: float, dimensions: int) -> None:
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
