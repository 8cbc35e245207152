"""Answers of the form f(data) + c·noise: the laws of the two worlds, and what they cost.

If f, c and the scale asked from the sampler are known in both worlds, so are the laws P and Q of that output number: a
lower bound on the mechanism's curve without any statistics, since looking at some numbers of an output is
post-processing. δ(ε) is at least Σ (P(cell) − e^ε Q(cell))₊ over any cells, in either order.

Where the form comes from decides what it is worth. Traced noise (`tracing`) gives it exactly, for every value of the
noise. A fit to a few replays (`fit_laws`) is a lead: it chooses what the game looks at, and proves nothing.

>>> measured = Measured("laplace", shifts=np.array([2.0]), spread=np.array([1.0]))   # twice the scale, same spread
>>> round(measured.delta(1.0), 3), round(measured.epsilon(0.0), 3)
(0.393, 2.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deniable.auditing.recording import Draw
from deniable.numerics.discrete import gaussian_cumulative, laplace_cumulative
from deniable.numerics.normal import delta_bracket, epsilon_bracket
from deniable.numerics.roots import bisect

Floats = NDArray[np.float64]

_SHRUNK = 1 - 1e-9
"""Measured shifts are believed up to rounding: a correct mechanism on its boundary is not refuted by an ulp."""

_EXACT = 1e-5
"""How nearly an answer must follow its noise."""

_ROUNDING = 4e-16
"""What one cell's mass may owe to rounding."""

_PAIRS = 250_000
"""How many (number, draw) pairs are tried at most."""


@dataclass(frozen=True)
class Measured:
    """Both worlds' laws, number by number, in scales of the first world."""

    law: str
    shifts: Floats
    """How far f moves, in scales (for discrete noise: in lattice steps)."""

    spread: Floats
    """The second world's scale over the first's."""

    step: float = 1.0
    """For discrete noise: its scale in lattice steps."""

    @property
    def alike(self) -> bool:
        """Whether both worlds have the same scale."""
        return bool(np.allclose(self.spread, 1, rtol=1e-9, atol=0))

    @property
    def total(self) -> float:
        """The largest loss of Laplace noise: Σ |shift|, infinite where the scales differ."""
        if not self.alike:
            return math.inf
        return float(np.abs(self.shifts).sum()) / (self.step if self.law.startswith("discrete") else 1.0) * _SHRUNK

    @property
    def mu(self) -> float:
        """How far normal noise moves, in scales."""
        return float(np.sqrt((self.shifts**2).sum())) * _SHRUNK

    @cached_property
    def _cells(self) -> tuple[Floats, Floats]:
        """Masses of P and Q on cells, for the most telling number."""
        most = int(np.argmax(np.abs(self.shifts) + 1e3 * np.abs(np.log(self.spread))))
        return _masses(self.law, float(np.abs(self.shifts[most])) * _SHRUNK, float(self.spread[most]), self.step)

    def delta(self, epsilon: float) -> float:
        """A lower bound on δ(ε)."""
        if self.alike and self.law == "gaussian":
            return delta_bracket(self.mu, epsilon).lower
        p, q = self._cells
        odds = math.exp(min(epsilon, 700.0))
        found = max(float(np.maximum(a - odds * b, 0).sum()) for a, b in ((p, q), (q, p)))
        return max(0.0, found - (1 + odds) * len(p) * _ROUNDING)

    def epsilon(self, delta: float) -> float:
        """A lower bound on ε(δ)."""
        if delta == 0 and self.law in ("laplace", "discrete laplace"):
            return self.total
        if self.alike and self.law == "gaussian":
            return epsilon_bracket(self.mu, delta).lower
        if self.delta(0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while high < 600 and self.delta(high) > delta:
            low, high = high, 2 * high
        return bisect(lambda epsilon: self.delta(epsilon) <= delta, low, high)[0]

    def breaks(self, epsilon: float, delta: float) -> bool:
        """Whether these laws break the line P(S) ≤ e^ε Q(S) + δ for certain."""
        if delta == 0 and self.law in ("laplace", "discrete laplace") and self.total > epsilon:
            return True
        return self.delta(epsilon) > delta * (1 + 1e-6)


@dataclass(frozen=True)
class Laws:
    """Independent numbers of an output and their laws in the two worlds: centre + width · noise."""

    law: str
    places: NDArray[np.int64]
    """Which numbers of the output these are."""

    centres: tuple[Floats, Floats]
    widths: tuple[Floats, Floats]
    blur: Floats
    """What rounding, or the fit, may have added to the distance of the centres."""

    steps: tuple[Floats, Floats] | None = None
    """For discrete noise: the factors, by which the lattice is stretched. Widths are then factor · scale."""

    def measured(self) -> Measured | None:
        """Both laws in scales of the first world; None where discrete laws do not share a lattice."""
        (one, two), (width, other) = self.centres, self.widths
        moved = one - two
        moved = np.sign(moved) * np.maximum(np.abs(moved) - self.blur, 0)
        if self.steps is not None:
            factors, theirs = self.steps
            steps = (one - two) / factors
            scales = np.abs(width / factors)
            alike = np.allclose(factors, theirs, rtol=1e-9, atol=0) and np.ptp(scales) == 0
            if not alike or np.abs(steps - np.round(steps)).max() > _EXACT:
                return None
            return Measured(self.law, np.round(steps), other / width, float(scales[0]))
        # Scales that agree within a thousandth are taken to be equal: the factors carry rounding.
        spread = np.abs(other / width)
        return Measured(self.law, moved / np.abs(width), np.where(np.abs(np.log(spread)) < 1e-3, 1.0, spread))

    def log_odds(self, numbers: Floats) -> Floats:
        """ln of the second law's density over the first's, for rows of outputs' numbers."""
        parts = []
        for centre, width in zip(self.centres, np.abs(self.widths), strict=True):
            far = np.abs(numbers[:, self.places] - centre) / width
            density = -far if self.law.endswith("laplace") else -(far**2) / 2
            parts.append((density - np.log(width)).sum(axis=1))
        return np.asarray(parts[1] - parts[0])


def fit_laws(
    first: Sequence[tuple[Floats, Sequence[Draw]]], second: Sequence[tuple[Floats, Sequence[Draw]]]
) -> Laws | None:
    """The laws that replays (numbers of the output, draws) in two worlds suggest; None where y = f + c·z does not fit.

    A few replays are a sample: what fits here is a lead, and no proof.
    """
    one, two = _fitted(first), _fitted(second)
    if one is None or two is None or one.law != two.law or not np.array_equal(one.chosen, two.chosen):
        return None
    # One number for each draw: numbers that share their noise are read once.
    _, kept = np.unique(one.chosen, return_index=True)
    return Laws(
        one.law,
        kept.astype(np.int64),
        (one.answers[kept], two.answers[kept]),
        ((one.factors * one.scales)[kept], (two.factors * two.scales)[kept]),
        4 * (one.left[kept] + two.left[kept]),
        (one.factors[kept], two.factors[kept]) if one.law.startswith("discrete") else None,
    )


@dataclass(frozen=True)
class _Fit:
    """y_j = answers_j + factors_j · z_{chosen_j}, where z has the law and the scale asked for."""

    law: str
    chosen: NDArray[np.int64]
    factors: Floats
    scales: Floats
    answers: Floats
    left: Floats


def _fitted(replays: Sequence[tuple[Floats, Sequence[Draw]]]) -> _Fit | None:
    tables = [[draw for draw in draws if draw.law is not None] for _, draws in replays]
    laws = {draw.law for draw in tables[0]}  # empty where nothing was drawn
    shapes = {tuple((draw.label, draw.noise.size) for draw in table) for table in tables}
    if len(laws) != 1 or len(shapes) != 1 or len({len(numbers) for numbers, _ in replays}) != 1:
        return None
    y = np.stack([numbers for numbers, _ in replays])
    z = np.stack([np.concatenate([draw.noise for draw in table]) for table in tables])
    scales = np.concatenate([draw.scale for draw in tables[0]])
    found = _matched(y, z)
    if found is None:
        return None
    chosen, factors = found
    answers = y - factors * z[:, chosen]
    return _Fit(str(laws.pop()), chosen, factors, scales[chosen], answers[0], np.ptp(answers, axis=0))


def _matched(y: Floats, z: Floats) -> tuple[NDArray[np.int64], Floats] | None:
    """For each number the one draw that it follows, and by which factor; None if some number follows none."""
    dy, dz = y[1:] - y[0], z[1:] - z[0]
    count, draws = y.shape[1], z.shape[1]
    if not count or not draws:
        return None
    if count == draws:
        factors, fits = _follows(dy, dz)
        if fits.all():
            return np.arange(count), factors
    if count * draws > _PAIRS:
        return None
    chosen, found = np.zeros(count, dtype=np.int64), np.zeros(count)
    for j in range(count):
        factors, fits = _follows(dy[:, [j]], dz)
        (places,) = np.nonzero(fits)
        if len(places) != 1:  # none, or one cannot say which
            return None
        chosen[j], found[j] = places[0], factors[places[0]]
    return chosen, found


def _follows(dy: Floats, dz: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The factor of each column of dz in dy, and whether it explains dy up to rounding."""
    power = (dz**2).sum(axis=0)
    factors = (dy * dz).sum(axis=0) / np.where(power == 0, 1.0, power)
    left = np.abs(dy - factors * dz).max(axis=0)
    # Two different values of z at least, or any line would fit.
    told = (np.abs(dz) > 0).any(axis=0) & (np.ptp(dz, axis=0) > 0)
    return factors, (left <= _EXACT * np.abs(factors) * np.abs(dz).max(axis=0)) & (factors != 0) & told


def _masses(law: str, shift: float, spread: float, step: float) -> tuple[Floats, Floats]:
    """Cells' masses under the law at `shift` with scale `spread`, and at 0 with scale 1."""
    from scipy import stats

    levels = np.linspace(0, 1, 4001)[1:-1]
    if law in ("laplace", "gaussian"):
        noise = stats.laplace if law == "laplace" else stats.norm
        tails = np.array([1e-12, 1e-9, 1e-6, 1e-5])
        levels = np.concatenate([tails, levels, 1 - tails])
        edges = np.unique(np.concatenate([noise.ppf(levels), shift + spread * noise.ppf(levels), [0.0, shift]]))
        return _between(noise.cdf((edges - shift) / spread)), _between(noise.cdf(edges))
    far = int(shift + 45 * step * max(1.0, spread)) + 2
    edges = np.unique(np.round(np.concatenate([np.linspace(-far, far, 20_001), [0, -1, shift, shift - 1]])))
    shifted = edges - round(shift)
    if law == "discrete laplace":
        return _between(laplace_cumulative(shifted, 1 / (step * spread))), _between(laplace_cumulative(edges, 1 / step))
    return _between(gaussian_cumulative(shifted, step * spread)), _between(gaussian_cumulative(edges, step))


def _between(upto: Floats) -> Floats:
    return np.diff(np.concatenate([[0.0], upto, [1.0]]))
