"""Discrete noise on the integers: the discrete Laplace and the discrete Gaussian law, drawn exactly.

>>> isinstance(int(discrete_laplace(2)), int), discrete_gaussian(2.5, 3).shape
(True, (3,))

**Integer noise instead of the continuous Gaussian.** How much wider it must be, and how far the two laws then differ:
let the sum x be an integer and let Y = x + N(0, τ²). Round Y at random to the integer k with probability
exp(−(k − Y)²/(2r²))/Z(Y). By Poisson summation Z(Y) = r√(2π)(1 + η(Y)) with |η| ≤ η₀ = 2 Σ_{j≥1} exp(−2π²r²j²). The
product of two Gaussians integrates to one of variance σ² = τ² + r², so the law P̃ of k and the discrete Gaussian P of
variance σ² around x satisfy (1 − η₀)/(1 + η₀) ≤ P/P̃ ≤ (1 + η₀)/(1 − η₀) at every integer. P̃ is a post-processing of
N(0, τ²): P promises what the Gaussian of variance τ² promises, but for a factor e^{±c}, c = 2.1η₀, per number drawn.

Where only a sum over a *sample* of the records gets noise, or a minimisation runs on it, read the factor as a leak:
P ≥ (1 − 2η₀)·P̃ says that a mechanism which gives itself away with probability 2η₀ and otherwise rounds the continuous
answer can imitate P, on both neighbours at once. So δ grows by `LEAK` per number drawn.

>>> round(float(LEAK) * 1e308)
2
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import isqrt
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from deniable._checks import Number, positive
from deniable.errors import InvalidArgument
from deniable.noise.enclosure import exp_neg, is_below, product, take
from deniable.noise.laws import DrawTable, Ladder, Run
from deniable.noise.shapes import Shape, Size, fill
from deniable.noise.source import Source, secure

_LAPLACE_RUNGS = 256  # leading parts per sign, at most
_DIGITS = 10  # binary digits per table, at most
_NATS = 45  # exp(-45) < 2**-64: what lies further out is left to refinement
FITS = 1 << 62
"""Magnitudes below this stay int64, so that adding a value of like size cannot overflow."""


class DiscreteLaplaceSampler:
    """Draws exactly from the discrete Laplace law of one scale: Pr[X = x] proportional to exp(-|x| / scale).

    `discrete_laplace` caches recent samplers.

    An integer is its sign and the binary digits of ``y = x`` (x >= 0) or ``y = -1 - x`` (x < 0). Its weight, ``exp(-(y
    + [x < 0]) / scale)``, is a product over the sign, the leading part of y and its digits, so these are independent:
    the sign and the leading part are drawn from one table, each group of lower digits from another. Nothing is
    rejected, and every draw reads the same number of words (one per table) but for refinements (see `laws.DrawTable`).

    This is the two-sided geometric mechanism of Ghosh, Roughgarden and Sundararajan (2009): added to an integer of
    sensitivity D it is (D / scale)-differentially private.

    >>> from deniable.noise.source import InsecureSource
    >>> discrete_laplace(3, 6, source=InsecureSource(1)).dtype
    dtype('int64')
    """

    def __init__(self, scale: Fraction, *, word_bits: int = 64) -> None:
        self.scale = scale
        self.low_bits = (_NATS * scale // _LAPLACE_RUNGS).bit_length()
        groups = -(-self.low_bits // _DIGITS)
        edges = [self.low_bits * g // groups for g in range(groups, -1, -1)] if groups else []
        self._top = DrawTable(Ladder(1 / scale, degree=1, length=1 << self.low_bits), word_bits=word_bits)
        self._low = [
            (high - low, DrawTable(Run((1 << low) / scale, 1 << (high - low)), word_bits=word_bits))
            for high, low in pairwise(edges)
        ]
        # In int64 all arithmetic on table outcomes stays below 2**62; refined ones are checked when they occur.
        self.wide = self.low_bits + (2 * _LAPLACE_RUNGS).bit_length() > 61

    def draw_one(self, source: Source) -> int:
        rung = self._top.draw_one(source)
        y = rung >> 1
        for width, table in self._low:
            y = y << width | table.draw_one(source)
        return ~y if rung & 1 else y

    def draw(self, size: int, source: Source) -> NDArray[Any]:
        if self.wide:
            return np.array([self.draw_one(source) for _ in range(size)], dtype=object)
        rungs = self._top.draw(size, source)
        far = bool(size) and int(rungs.max()) >> 1 >= FITS >> self.low_bits
        y = rungs.astype(object) if far else rungs
        signs = -(y & 1)
        y = y >> 1
        for width, table in self._low:
            y = (y << width) | table.draw(size, source)
        return y ^ signs


@lru_cache(maxsize=64, typed=True)
def _laplace_sampler(scale: Number) -> DiscreteLaplaceSampler:
    return DiscreteLaplaceSampler(positive("scale", scale))


@overload
def discrete_laplace(scale: Number, size: None = None, *, source: Source | None = None) -> int: ...
@overload
def discrete_laplace(scale: Number, size: Shape, *, source: Source | None = None) -> NDArray[Any]: ...
def discrete_laplace(scale: Number, size: Size = None, *, source: Source | None = None) -> NDArray[Any] | int:
    """Discrete Laplace noise of exactly this scale: an integer, or an int64 array of shape `size`.

    No value is ever wrapped or clipped. An array that holds a magnitude of 2**62 or more has dtype object and holds
    Python integers: every array at scales from about 2**54 on; at smaller ones that has probability below exp(-256).

    Args:
        scale: the b of exp(-abs(x)/b); a float means its shortest decimal.
        size: None for one integer, else the shape of an array.
        source: where random bits come from; the operating system, if it is left out.
    """
    sampler = _laplace_sampler(scale if isinstance(scale, Hashable) else positive("scale", scale))
    source = source or secure()
    return fill(size, lambda: sampler.draw_one(source), lambda many: sampler.draw(many, source))


_GAUSSIAN_RUNGS = 1024  # rungs per sign within reach, at most
_REACH = 90  # squared, in sigmas: exp(-45) < 2**-64, so what lies further out is left to refinement
_GUARD = 40


class DiscreteGaussianSampler:
    """Draws exactly from the discrete Gaussian of one variance: Pr[X = x] proportional to exp(-x**2 / (2 sigma**2)).

    `discrete_gaussian` caches recent samplers.

    The integers are cut into rungs of length L, a power of two about sigma / 100 (see `laws.Ladder`). A rung is drawn
    from a table by the weight at its foot c, an offset r on it uniformly, and the proposal is accepted with probability

        exp(-((c + r)**2 - c**2) / (2 sigma**2)),

    which makes an accepted value exactly discrete Gaussian and happens in more than 98 of 100 cases. A word below a
    certified bound, tabulated per rung, accepts at once. Only about one draw in a hundred is compared with the
    exponential itself, in integers. For sigma up to about 100, L is 1 and a single look-up is the whole draw.

    A rejected proposal is dropped whole, so the number of words read is independent of the values returned. The law and
    its privacy are those of Canonne, Kamath and Steinke (2020), Definition 1 and Theorem 4: added to an integer of
    sensitivity D it is D**2 / (2 sigma**2)-zCDP.

    >>> from deniable.noise.source import InsecureSource
    >>> discrete_gaussian(variance=2, size=4, source=InsecureSource(1)).shape
    (4,)
    """

    def __init__(self, variance: Fraction, *, word_bits: int = 64, rungs: int = _GAUSSIAN_RUNGS) -> None:
        self.variance, self.word_bits = variance, word_bits
        self.low_bits = (isqrt(int(_REACH * variance)) // rungs).bit_length()
        self._length = 1 << self.low_bits
        self._law = Ladder(1 / (2 * variance), degree=2, length=self._length)
        self._table = DrawTable(self._law, word_bits=word_bits)
        self._sure_list = self._acceptance_bounds(2 * rungs) if self.low_bits else []
        self._sure = np.array(self._sure_list, dtype=np.uint64)
        self.wide = self.low_bits + (2 * rungs).bit_length() > 61

    def _acceptance_bounds(self, count: int) -> list[int]:
        """Per rung, the bound below which a word accepts every offset: a lower bound of the acceptance at the far end.

        At the far end r = L - 1 the exponent is ``(r**2 + 2 r s + 2 r L q) / (2 sigma**2)`` on rung ``2 q + s``, so
        the acceptances are a geometric sequence in q.
        """
        far, bits, rate = self._length - 1, self.word_bits + _GUARD, self._law.rate
        ratio = exp_neg(2 * far * self._length * rate.numerator, rate.denominator, bits=bits)
        sides = [exp_neg((far * far + 2 * far * side) * rate.numerator, rate.denominator, bits=bits) for side in (0, 1)]
        bounds = []
        for _ in range(count // 2):
            bounds += [low >> _GUARD for low, _ in sides]
            sides = [product(side, ratio, bits) for side in sides]
        return bounds

    def draw_one(self, source: Source) -> int:
        while True:
            rung = self._table.draw_one(source)
            if not self.low_bits:
                return ~(rung >> 1) if rung & 1 else rung >> 1
            offset = self._draw_offset(source)
            word = take(source, self.word_bits)
            sure = rung < len(self._sure_list) and word < self._sure_list[rung]
            if sure or self._accepts(rung, offset, word, source):
                y = (rung >> 1) << self.low_bits | offset
                return ~y if rung & 1 else y

    def _draw_offset(self, source: Source) -> int:
        """A uniform offset on the rung."""
        word, bits = source.word(), 64
        while bits < self.low_bits:
            word, bits = word << 64 | source.word(), bits + 64
        return word >> (bits - self.low_bits)

    def _accepts(self, rung: int, offset: int, word: int, source: Source) -> bool:
        rate = self._law.rate
        exponent = offset * (2 * self._law.foot(rung) + offset) * rate.numerator
        return is_below(
            word, self.word_bits, lambda bits: exp_neg(exponent, rate.denominator, bits=bits),
            word_bits=self.word_bits, source=source,
        )  # fmt: skip

    def draw(self, size: int, source: Source) -> NDArray[Any]:
        if self.wide:
            return np.array([self.draw_one(source) for _ in range(size)], dtype=object)
        if not self.low_bits:
            rungs = self._table.draw(size, source)
            return (rungs >> 1) ^ -(rungs & 1)
        draws = self._propose(size, source)
        while len(draws) < size:
            draws = np.concatenate([draws, self._propose(size - len(draws), source)])
        return draws

    def _propose(self, size: int, source: Source) -> NDArray[Any]:
        """Those of `size` proposals that are accepted."""
        rungs = self._table.draw(size, source)
        offsets = (source.words(size) >> np.uint64(64 - self.low_bits)).view(np.int64)
        words = source.words(size) >> np.uint64(64 - self.word_bits)
        accepted = words < self._sure.take(rungs, mode="clip")
        accepted &= rungs < len(self._sure)
        for i in np.flatnonzero(~accepted):
            accepted[i] = self._accepts(int(rungs[i]), int(offsets[i]), int(words[i]), source)
        rungs, offsets = rungs[accepted], offsets[accepted]
        if rungs.size and int(rungs.max()) >> 1 >= FITS >> self.low_bits:
            rungs = rungs.astype(object)
        return ((rungs >> 1) << self.low_bits | offsets) ^ -(rungs & 1)


@lru_cache(maxsize=64, typed=True)
def _gaussian_of_scale(scale: Number) -> DiscreteGaussianSampler:
    return DiscreteGaussianSampler(positive("scale", scale) ** 2)


@lru_cache(maxsize=64, typed=True)
def _gaussian_of_variance(variance: Number) -> DiscreteGaussianSampler:
    return DiscreteGaussianSampler(positive("variance", variance))


@overload
def discrete_gaussian(
    scale: Number | None = None, size: None = None, *, variance: Number | None = None, source: Source | None = None
) -> int: ...
@overload
def discrete_gaussian(
    scale: Number | None = None, *, size: Shape, variance: Number | None = None, source: Source | None = None
) -> NDArray[Any]: ...
@overload
def discrete_gaussian(scale: Number, size: Shape, *, source: Source | None = None) -> NDArray[Any]: ...
def discrete_gaussian(
    scale: Number | None = None, size: Size = None, *, variance: Number | None = None, source: Source | None = None
) -> NDArray[Any] | int:
    """Discrete Gaussian noise of the exact `scale` sigma, or of the exact `variance` sigma**2 (one of the two).

    An integer, or an int64 array of shape `size`. No value is ever wrapped or clipped: an array that holds a magnitude
    of 2**62 or more has dtype object and holds Python integers, as every array does at scales from about 2**56 on; at
    smaller ones that has probability below exp(-500). The true variance of this law is at most sigma**2.

    Args:
        scale: sigma; a float means its shortest decimal.
        size: None for one integer, else the shape of an array.
        variance: sigma**2, instead of `scale`.
        source: where random bits come from; the operating system, if it is left out.
    """
    if (scale is None) == (variance is None):
        raise InvalidArgument("scale", scale, "given, or variance, and not both")
    if scale is not None:
        sampler = _gaussian_of_scale(scale if isinstance(scale, Hashable) else positive("scale", scale))
    else:
        sampler = _gaussian_of_variance(variance if isinstance(variance, Hashable) else positive("variance", variance))
    source = source or secure()
    return fill(size, lambda: sampler.draw_one(source), lambda many: sampler.draw(many, source))


SPREAD = 36
"""r²: the integer noise needs so much more variance than the continuous Gaussian."""

LEAK = Fraction(2, 10**308)
"""2.1η₀ for r² = 36 is 4.2·exp(−72π²)·(1 + …) = 1.02·10⁻³⁰⁸; rounded up."""
