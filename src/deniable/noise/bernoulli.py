"""Coins with an exact bias: a rational number p, or exp(-x) for a rational x.

A word of 64 bits that lies wholly below the bias is heads; one wholly above is tails. The one word whose interval
contains the bias is extended by further words until it is decided (see `enclosure.is_below`).

>>> from deniable.noise.source import InsecureSource
>>> bernoulli(1, 3), bernoulli(0)
(array([ True,  True,  True]), False)
>>> int(bernoulli_exp(1, 10_000, source=InsecureSource(3)).sum())   # 10000 / e = 3679
3765
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import overload

import numpy as np
from numpy.typing import NDArray

from deniable._checks import Number, nonnegative, probability
from deniable.noise.enclosure import Enclosure, ceil_div, ceil_shift, exp_neg, is_below, take
from deniable.noise.shapes import Shape, Size, fill
from deniable.noise.source import Source, secure

_MARGIN = 16


class Coin:
    """Heads with the probability that an enclosure describes. `word_bits` below 64 serves tests."""

    def __init__(self, bias: Enclosure, *, word_bits: int = 64) -> None:
        self.bias, self.word_bits = bias, word_bits
        low, high = bias(word_bits + _MARGIN)
        self._heads = low >> _MARGIN  # words below this are heads
        self._tails = ceil_shift(high, _MARGIN)  # words from this on are tails

    def toss(self, size: int, source: Source) -> NDArray[np.bool_]:
        words = source.words(size) >> np.uint64(64 - self.word_bits)
        heads = words <= np.uint64(self._heads - 1) if self._heads else np.zeros(size, dtype=np.bool_)
        if self._tails > self._heads:
            open_ = (words >= np.uint64(self._heads)) & (words <= np.uint64(self._tails - 1))
            for index in np.flatnonzero(open_):
                heads[index] = self._settle(int(words[index]), source)
        return heads

    def toss_one(self, source: Source) -> bool:
        word = take(source, self.word_bits)
        if word < self._heads:
            return True
        return word < self._tails and self._settle(word, source)

    def _settle(self, word: int, source: Source) -> bool:
        return is_below(word, self.word_bits, self.bias, word_bits=self.word_bits, source=source)


def rational(p: Fraction) -> Enclosure:
    """The enclosure of a rational number."""
    return lambda bits: ((p.numerator << bits) // p.denominator, ceil_div(p.numerator << bits, p.denominator))


def exponential(x: Fraction) -> Enclosure:
    """The enclosure of exp(-x)."""
    return lambda bits: exp_neg(x.numerator, x.denominator, bits=bits)


@lru_cache(maxsize=256)
def _rational_coin(p: Fraction) -> Coin:
    return Coin(rational(p))


@lru_cache(maxsize=256)
def _exponential_coin(x: Fraction) -> Coin:
    return Coin(exponential(x))


@overload
def bernoulli(p: Number, size: None = None, *, source: Source | None = None) -> bool: ...
@overload
def bernoulli(p: Number, size: Shape, *, source: Source | None = None) -> NDArray[np.bool_]: ...
def bernoulli(p: Number, size: Size = None, *, source: Source | None = None) -> NDArray[np.bool_] | bool:
    """True with probability p, exactly.

    Args:
        p: the probability; a float means its shortest decimal.
        size: None for one bool, else the shape of an array.
        source: where random bits come from; the operating system, if it is left out.
    """
    return _toss(_rational_coin(probability("p", p)), size, source)


@overload
def bernoulli_exp(x: Number, size: None = None, *, source: Source | None = None) -> bool: ...
@overload
def bernoulli_exp(x: Number, size: Shape, *, source: Source | None = None) -> NDArray[np.bool_]: ...
def bernoulli_exp(x: Number, size: Size = None, *, source: Source | None = None) -> NDArray[np.bool_] | bool:
    """True with probability exp(-x), exactly.

    Args:
        x: at least 0.
        size: None for one bool, else the shape of an array.
        source: where random bits come from; the operating system, if it is left out.
    """
    return _toss(_exponential_coin(nonnegative("x", x)), size, source)


def _toss(coin: Coin, size: Size, source: Source | None) -> NDArray[np.bool_] | bool:
    source = source or secure()
    return fill(size, lambda: coin.toss_one(source), lambda many: coin.toss(many, source))
