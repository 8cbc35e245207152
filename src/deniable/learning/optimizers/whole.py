"""The minimum of a smooth, strongly convex sum in whole numbers of any length: found on every data set, with a proof.

Nothing here is rounded but what is said: vectors are whole multiples of 2^−s, rows are integers already, margins and
sums are exact, and a residual is off by at most one multiple of 2^−b (`LinearLoss.whole_residuals`). s and b are set by
the number of records at hand and the tolerance, so that no number of records, no length of θ and no slope is too large.
It is slow, microseconds for every record and gradient, and taken only where float64 does not suffice.

`descend` is Nesterov's accelerated gradient descent, with a proof that allows for wrong gradients and rounded steps:

*Lemma.* Let f be λ-strongly convex and M-smooth, with minimiser x*, 0 < q ≤ √(λ/M) and μ = q²M. From x = z, repeat

    y = (x + qz)/(1 + q) + a,   g = ∇f(y) + e,   x ← y − g/M + b,   z ← (1 − q)z + qy − g/(qM) + c,

with |a|, |b|, |c| ≤ ν and |e| ≤ E. Put ε = E + 4Mν/q and Φ = f(x) − f(x*) + (μ/2)|z − x*|². Then after K rounds
Φ_K ≤ (1 − q/2)^K·Φ_0 + 8ε²/μ, and so |∇f(x_K)| ≤ √(2MΦ_K) ≤ √(2M(1 − q/2)^K·Φ_0) + 4ε/q.

*Proof.* First a = b = c = 0. By smoothness f(x⁺) ≤ f(y) − |g|²/(2M) + ⟨e, g⟩/M. Write w = (1 − q)(z − x*) + q(y − x*),
so z⁺ − x* = w − g/(qM), and (μ/2)|z⁺ − x*|² = (μ/2)|w|² − q⟨g, w⟩ + |g|²/(2M). Added up, with g/M − qw = −q(z⁺ − x*):

    f(x⁺) + (μ/2)|z⁺ − x*|²  ≤  f(y) + (μ/2)|w|² − q⟨∇f(y), w⟩ − q⟨e, z⁺ − x*⟩.

From f(x) ≥ f(y) + ⟨∇f(y), x − y⟩, from f(x*) ≥ f(y) + ⟨∇f(y), x* − y⟩ + (μ/2)|y − x*|², and from the convexity of the
square in w, the first three terms are at most (1 − q)f(x) + q·f(x*) + (1 − q)(μ/2)|z − x*|² minus
⟨∇f(y), (1 − q)(x − y) + q(x* − y) + qw⟩, and that vector is (1 − q)(x + qz − (1 + q)y) = 0. So
Φ⁺ ≤ (1 − q)Φ + qE|z⁺ − x*|.

With roundings, let Φ̂ be the potential after the round but for b and c. |x − x*| and |z − x*| are at most √(2Φ/μ), so
|y − x*| ≤ √(2Φ/μ) + ν, and a gradient is at most M times such a distance. Because of a, that vector is no longer 0:

    Φ̂ ≤ (1 − q)Φ + qE√(2Φ̂/μ) + Mν(√(2Φ/μ) + ν),      Φ⁺ ≤ Φ̂ + 2Mν√(2Φ̂/μ) + Mν².

Let Φ̄ be the larger of Φ and Φ̂. Since 3Mν ≤ q(ε − E) and 2Mν² ≤ qε²/μ, and by 2uv ≤ u²/2 + 2v²,

    Φ⁺ ≤ (1 − q)Φ + qε√(2Φ̄/μ) + qε²/μ ≤ (1 − q)Φ + (q/4)Φ̄ + 3qε²/μ,      and the same for Φ̂.

If Φ̄ = Φ this is at most (1 − q/2)Φ + 3qε²/μ. Else Φ̂ ≤ ((1 − q)Φ + 3qε²/μ)/(1 − q/4), and put into the bound on Φ⁺ that
gives Φ⁺ ≤ the same, at most (1 − q/2)Φ + 4qε²/μ. The geometric series gives the lemma; √(2M·8ε²/μ) = 4ε/q. ∎

From a point with gradient g_0 the start is Φ_0 ≤ |g_0|²/λ, since f(x) − f(x*) ≤ |g_0|²/(2λ) and |x − x*| ≤ |g_0|/λ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.learning.losses.base import LinearLoss
from deniable.learning.optimizers.base import Data
from deniable.learning.table import ONE, parts
from deniable.numerics.exact import whole_root_above

Array = NDArray[Any]
"""Here: arrays of Python's integers."""

_BLOCK = 1 << 12
_ROW_BITS = ONE.bit_length() - 1
_GUARD = 8  # bits beyond what the proof needs


@dataclass(frozen=True, eq=False)
class Slope:
    """A vector whose entries are whole multiples of a float, exactly."""

    multiples: Array
    step: float

    def floats(self) -> NDArray[np.float64]:
        """Rounded to float64, twice at most."""
        return np.asarray(self.multiples.astype(np.float64) * self.step)


class WholeObjective:
    """J(z) = Σ loss(base + z) + (strength/2)|z|² + ⟨slope, z⟩; z is given in whole multiples of 2^−s."""

    def __init__(
        self, data: Data, loss: LinearLoss, strength: float, slope: Slope, base: Array, *, tolerance: float
    ) -> None:
        self._data, self._loss = data, loss
        self.strength, self.tolerance = Fraction(strength), Fraction(tolerance)
        count, self.parameters = max(data.table.count, 1), base.size
        self.smoothness_bits = _bits(self.strength + Fraction(loss.smoothness) * count)  # 2^that is M
        # q = places/2^fraction, the largest such number with q² ≤ λ/M.
        ratio = self.strength / Fraction(2) ** self.smoothness_bits
        self.fraction = 16 + _bits(1 / ratio)
        self.places = math.isqrt(int(ratio * 4**self.fraction))
        rate = Fraction(self.places, 1 << self.fraction)
        # 4ε/q ≤ τ/4 for ε = E + 4Mν/q; half of it for the residuals, half for steps of ν = 2√d·2^−s.
        allowed = rate * self.tolerance / 32
        single = Fraction(2 * whole_root_above(loss.outputs) * count)  # one for the residual, one for its weight
        self._residual_bits = max(64, _bits(single / allowed) + _GUARD)
        length = 2 * whole_root_above(self.parameters)
        moved = Fraction(loss.smoothness) * count + 4 * Fraction(2) ** self.smoothness_bits / rate
        self.step_bits = max(64, _bits(length * moved / allowed) + _GUARD)
        self.error = single / 2**self._residual_bits + moved * length / 2**self.step_bits
        self.rate = rate
        self._base = self.placed(base)
        self._slope = [Fraction(int(multiple)) * Fraction(slope.step) for multiple in slope.multiples.reshape(-1)]
        widest = max((_bits(Fraction(part.denominator)) for part in (self.strength, *self._slope)), default=0)
        self.gradient_bits = max(self._residual_bits + _ROW_BITS, widest + self.step_bits + 2)
        self._constant = np.array([int(part * 2**self.gradient_bits) for part in self._slope], dtype=object)

    def placed(self, vector: Array) -> Array:
        """A float vector in whole multiples of 2^−s, rounded down."""
        flat = [int(Fraction(float(entry)) * 2**self.step_bits // 1) for entry in vector.reshape(-1)]
        return np.array(flat, dtype=object).reshape(vector.shape)

    def floats(self, at: Array) -> NDArray[np.float64]:
        """The nearest float64 to whole multiples of 2^−s."""
        return _floats(at, self.step_bits)

    def slope_of(self, gradient: Array) -> NDArray[np.float64]:
        """A gradient as float64."""
        return _floats(gradient, self.gradient_bits)

    def evaluate(self, at: Array) -> tuple[Array, NDArray[np.float64]]:
        """∇J in whole multiples of 2^−`gradient_bits`, off by at most `error`; and the records' margins, as floats."""
        table, bits = self._data.table, self._residual_bits
        theta = self._base + at
        unit = self.step_bits + _ROW_BITS
        total = np.zeros(at.shape, dtype=object)
        outputs, kept = self._loss.outputs, []
        for part in parts(table.count, _BLOCK):
            block = table.rows[part]
            rows = (block if isinstance(block, np.ndarray) else block.toarray()).astype(np.int64).astype(object)
            labels = self._data.labels[part].tolist()
            weights = None if self._data.weights is None else self._data.weights[part].tolist()
            residuals = np.zeros((len(labels), *at.shape[1:]), dtype=object)
            exact = np.dot(rows, theta).reshape(len(labels), outputs)
            kept.append(_floats(exact, unit))
            for i, margins in enumerate(exact.tolist()):
                whole = self._loss.whole_residuals(margins, unit, labels[i], bits)
                if weights is not None:
                    weight, parts_of_one = weights[i].as_integer_ratio()
                    whole = [number * weight // parts_of_one for number in whole]
                residuals[i] = whole[0] if at.ndim == 1 else whole
            total = total + np.dot(rows.T, residuals)
        pull = int(self.strength * 2 ** (self.gradient_bits - self.step_bits))  # exact: its denominator divides that
        sums = total * (1 << (self.gradient_bits - bits - _ROW_BITS))
        gradient = np.asarray(sums + at * pull + self._constant.reshape(at.shape))
        return gradient, np.concatenate(kept).reshape(table.count, *at.shape[1:])

    def length(self, gradient: Array) -> Fraction:
        """An upper bound of the norm of a gradient as it was computed."""
        square = sum(int(entry) ** 2 for entry in gradient.reshape(-1))
        return Fraction(math.isqrt(square) + 1, 1 << self.gradient_bits)

    def certified(self, gradient: Array) -> bool:
        """Whether |∇J| ≤ tolerance where this gradient was computed: proved, either way of rounding included."""
        return bool(self.length(gradient) + self.error <= self.tolerance)

    def rounds(self, gradient: Array) -> int:
        """K with √(2M(1 − q/2)^K·Φ_0) ≤ τ/4, from a point with this gradient."""
        steep = self.length(gradient) + self.error
        wanted = 2 * Fraction(2) ** self.smoothness_bits * steep**2 / self.strength / (self.tolerance / 4) ** 2
        logarithm = _bits(wanted) * math.log(2) if wanted > 1 else 0.0
        return math.ceil(2 / self.rate * Fraction(logarithm * (1 + 1e-9))) + 1


def descend(objective: WholeObjective, start: Array, gradient: Array) -> Any:
    """A point that is certified, by accelerated descent; `gradient` is that at the start."""
    one = 1 << objective.fraction
    # M ≥ λ, whose denominator is in `gradient_bits`: so this is not negative.
    shift = objective.gradient_bits + objective.smoothness_bits - objective.step_bits
    x = z = start
    for _ in range(objective.rounds(gradient)):
        y = (x * one + z * objective.places) // (one + objective.places)
        found, _ = objective.evaluate(y)
        if objective.certified(found):
            return y
        x = y - (found >> shift)
        away = (found * one // objective.places) >> shift
        z = (z * (one - objective.places) + y * objective.places) // one - away
    return x


def _floats(numbers: Array, bits: int) -> NDArray[np.float64]:
    flat = [int(number) / (1 << bits) for number in numbers.reshape(-1)]  # rounded correctly
    return np.array(flat, dtype=np.float64).reshape(numbers.shape)


def _bits(number: Fraction) -> int:
    """The least k with 2^k ≥ number, or one more; may be negative."""
    top, bottom = number.numerator.bit_length(), number.denominator.bit_length()
    return top - bottom + 1
