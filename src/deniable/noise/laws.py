"""Probability laws on 0, 1, 2, ... given by certified bounds of their weights.

A law gives, at any precision, bounds of each weight and of the sum of all weights beyond the last one listed. It need
not be normalised. `Weights` is finite and arbitrary; `Run` is a stretch of a geometric law; `Ladder` is a law on all
integers, decreasing on both sides, cut into rungs of equal length.

>>> bounds = Ladder(Fraction(1, 2), degree=1).enclose(30)
>>> bounds.low[0], bounds.low[1]   # exp(0), exp(-1/2): the rungs that start at 0 and at -1
(1073741824, 651257336)

**Exact draws by one table look-up.** A law with probabilities p_k (irrational, possibly infinitely many) is split into
a part that one word can draw and a remainder:

    p_k = m_k / 2**W + r_k / 2**W,     m_k = a certified integer lower bound of p_k * 2**W,   r_k >= 0.

A W-bit word is uniform on 2**W values. `m_k` of them mean k; the other ``R = 2**W - sum m_k`` mean "refine": then k is
drawn from the remainders r_k / R, by comparing a uniform real number with certified bounds of their sums, to as many
bits as that takes. The result has the probability p_k exactly; the precision of the table affects only how often the
slow path runs. R is at most the number of entries plus 2, so a thousand of them refine with a chance below 2**-53.

The words that mean k are laid out by Walker's alias method (Vose 1991) in integers: the leading bits of the word name
a slot, and the slot holds at most two outcomes divided by a cut. One look-up costs the same whatever it returns.

>>> from fractions import Fraction
>>> from deniable.noise.laws import Ladder
>>> from deniable.noise.source import InsecureSource
>>> DrawTable(Ladder(Fraction(1), degree=1)).draw(5, InsecureSource(2)).shape
(5,)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import isqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.noise.enclosure import ceil_div, exp_neg, product, take
from deniable.noise.source import Source, Words
from deniable.noise.uniform import below


@dataclass(frozen=True)
class Bounds:
    """``low[k] <= weight[k] * f <= high[k]`` for a common factor f, and all further weights add up to at most tail / f.

    The factor is 2**bits or more. Only ratios of weights matter, so it is not kept.
    """

    low: list[int]
    high: list[int]
    tail: int


class WeightLaw(Protocol):
    """Weights on 0, 1, 2, ..., known to any precision. `count` is None for an infinite law."""

    @property
    def count(self) -> int | None: ...

    def enclose(self, bits: int) -> Bounds: ...


@dataclass(frozen=True)
class Weights:
    """``multiples[k] * exp(-below[k] * unit)`` for whole numbers ``below[k] >= 0``; a multiple may be 0."""

    below: tuple[int, ...]
    unit: Fraction
    multiples: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.below)

    def enclose(self, bits: int) -> Bounds:
        # Extra bits for the error of the powers, and for the precision of a large multiple of a small weight.
        bits += 24 + max(self.multiples).bit_length()
        powers = _Powers(self.unit, bits)
        pairs: dict[int, tuple[int, int]] = {}
        low, high = [], []
        for gap, multiple in zip(self.below, self.multiples, strict=True):
            pair = pairs.get(gap)
            if pair is None:
                pair = pairs[gap] = powers(gap)
            low.append(multiple * pair[0])
            high.append(multiple * pair[1])
        return Bounds(low, high, 0)


class _Powers:
    """Bounds of ``exp(-n * unit)`` for many n: a product over the digits of n to base 256."""

    def __init__(self, unit: Fraction, bits: int) -> None:
        self.unit, self.bits = unit, bits
        self._furthest = bits * unit.denominator // unit.numerator  # beyond it exp(-n * unit) < exp(-bits) < 2**-bits
        self._digits: list[list[tuple[int, int]]] = []

    def __call__(self, n: int) -> tuple[int, int]:
        if n > self._furthest:
            return 0, 1
        pair, digit = (1 << self.bits, 1 << self.bits), 0
        while n:
            if digit == len(self._digits):
                self._digits.append(_geometric(self.unit * 256**digit, 256, self.bits))
            pair = product(pair, self._digits[digit][n & 255], self.bits)
            n, digit = n >> 8, digit + 1
        return pair


@dataclass(frozen=True)
class Run:
    """``exp(-k * step)`` for 0 <= k < count."""

    step: Fraction
    count: int

    def enclose(self, bits: int) -> Bounds:
        pairs = _geometric(self.step, self.count, bits)
        return Bounds([low for low, _ in pairs], [high for _, high in pairs], 0)


def _geometric(step: Fraction, count: int, bits: int) -> list[tuple[int, int]]:
    ratio = exp_neg(step.numerator, step.denominator, bits=bits)
    pairs = [(1 << bits, 1 << bits)]
    for _ in range(count - 1):
        pairs.append(product(pairs[-1], ratio, bits))
    return pairs


@dataclass(frozen=True)
class Ladder:
    """The weights of a law on all integers at the foot of each rung.

    The law is ``exp(-rate * |x|**degree)``, degree 1 or 2. Rung ``2 q`` starts at ``x = q * length`` and climbs up;
    rung ``2 q + 1`` starts at ``x = -1 - q * length`` and climbs down. Together the rungs hold each integer once.
    """

    rate: Fraction
    degree: int
    length: int = 1

    count = None

    def foot(self, rung: int) -> int:
        """|x| where the rung starts."""
        return (rung >> 1) * self.length + (rung & 1)

    def enclose(self, bits: int) -> Bounds:
        rungs = self._rungs(bits)
        up, down = (self._side(side, rungs, bits) for side in (0, 1))
        low = [pair[0] for both in zip(up, down, strict=True) for pair in both]
        high = [pair[1] for both in zip(up, down, strict=True) for pair in both]
        # Beyond the list, each rung weighs at most exp(-fall) times the one before, on both sides, and so all of them
        # 2 weight / (1 - exp(-fall)) at most; and 1 - exp(-fall) >= fall / (1 + fall).
        edge = self.rate * self.foot(2 * rungs) ** self.degree
        fall = self.rate * self.foot(2 * rungs + 2) ** self.degree - edge
        weight = exp_neg(edge.numerator, edge.denominator, bits=bits)[1]
        tail = ceil_div(2 * weight * (fall.numerator + fall.denominator), fall.numerator)
        return Bounds(low, high, tail)

    def _rungs(self, bits: int) -> int:
        """How many rungs on each side carry a weight above about 2**-bits."""
        reach = Fraction(7 * (bits + 4), 10) / self.rate  # |x|**degree where the weight is 2**-(1.01 bits + 4)
        rungs = reach // self.length**self.degree
        return (isqrt(rungs) if self.degree == 2 else rungs) + 2

    def _side(self, side: int, rungs: int, bits: int) -> list[tuple[int, int]]:
        """Weights at ``x = q * length + side`` for q = 0, 1, ..., by the recurrence of a polynomial exponent."""
        if self.degree == 1:
            first = exp_neg(side * self.rate.numerator, self.rate.denominator, bits=bits)
            return [product(first, pair, bits) for pair in _geometric(self.rate * self.length, rungs, bits)]
        # (q L + s)**2 grows by L**2 + 2 L s first, and that growth grows by 2 L**2 each time.
        square = self.length**2
        weight, ratio, change = (
            exp_neg(n * self.rate.numerator, self.rate.denominator, bits=bits)
            for n in (side, square + 2 * self.length * side, 2 * square)
        )
        pairs = [weight]
        for _ in range(rungs - 1):
            pairs.append(product(pairs[-1], ratio, bits))
            ratio = product(ratio, change, bits)
        return pairs


REFINE = -1
_TABLE_GUARD = 40  # bits of the weights beyond those of a word


class DrawTable:
    """A law as a table to draw from. Tests force refinement by `word_bits` below 64, the leading bits of a word."""

    def __init__(self, law: WeightLaw, *, word_bits: int = 64) -> None:
        self.law, self.word_bits = law, word_bits
        bounds = law.enclose(word_bits + _TABLE_GUARD)
        whole = sum(bounds.high) + bounds.tail
        self._sure = [(low << word_bits) // whole for low in bounds.low]
        self.remainder = (1 << word_bits) - sum(self._sure)
        masses = [(k, mass) for k, mass in enumerate(self._sure) if mass]
        if self.remainder:
            masses.append((REFINE, self.remainder))
        slot_bits, cuts, outcomes = _alias(masses, word_bits)
        self._to_word = 64 - word_bits
        self._to_slot = word_bits - slot_bits
        self._cut_list, self._outcome_list = cuts, outcomes
        self._cuts = np.array(cuts, dtype=np.uint64)
        self._outcomes = np.array(outcomes, dtype=np.int64)
        self._sums: dict[int, _Sums] = {}

    def look_up(self, words: Words) -> NDArray[np.int64]:
        """The outcome of each word, or REFINE."""
        if self._to_word:
            words = words >> np.uint64(self._to_word)
        slots = (words >> np.uint64(self._to_slot)).view(np.int64)
        beyond = words >= self._cuts.take(slots, mode="wrap")
        slots <<= 1
        slots += beyond
        return self._outcomes.take(slots, mode="wrap")

    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        """Independent outcomes. Each reads one word, and more only for a refinement."""
        outcomes = self.look_up(source.words(size))
        if size and outcomes.min() < 0:
            for index in np.flatnonzero(outcomes < 0):
                outcomes[index] = self.refine(source)
        return outcomes

    def draw_one(self, source: Source) -> int:
        """One outcome, without the array machinery."""
        word = source.word() >> self._to_word
        slot = word >> self._to_slot
        outcome = self._outcome_list[2 * slot + (word >= self._cut_list[slot])]
        return outcome if outcome >= 0 else self.refine(source)

    def refine(self, source: Source) -> int:
        """An outcome drawn from the remainders, for a word that means REFINE."""
        prefix, bits = below(self.remainder, source), 0  # a uniform real number in [0, remainder), cut to `bits`
        while True:
            prefix = prefix << self.word_bits | take(source, self.word_bits)
            bits += self.word_bits
            outcome = self._locate(prefix, bits)
            if outcome is not None:
                return outcome

    def _locate(self, prefix: int, bits: int) -> int | None:
        """The outcome whose stretch of remainders provably holds all of ``[prefix, prefix + 1) / 2**bits``, if any."""
        sums = self._sums_at(bits)
        for k, (low, high, sure) in enumerate(zip(sums.low, sums.high, sums.sure, strict=True)):
            # The stretch of k ends at 2**W * (weights up to k) / (all weights) - (sure masses up to k).
            if k + 1 == self.law.count:
                return k
            if (prefix + 1) * sums.whole_high <= ((low << self.word_bits) - sure * sums.whole_high) << bits:
                return k
            if prefix * sums.whole_low < ((high << self.word_bits) - sure * sums.whole_low) << bits:
                return None
        return None

    def _sums_at(self, bits: int) -> _Sums:
        if bits not in self._sums:
            bounds = self.law.enclose(self.word_bits + bits + _TABLE_GUARD)
            sure = self._sure + [0] * (len(bounds.low) - len(self._sure))
            low, high = list(accumulate(bounds.low)), list(accumulate(bounds.high))
            self._sums[bits] = _Sums(low, high, list(accumulate(sure)), low[-1], high[-1] + bounds.tail)
        return self._sums[bits]


@dataclass(frozen=True)
class _Sums:
    """Bounds of the running sums of weights, the running sums of sure masses, and bounds of the sum of all weights."""

    low: list[int]
    high: list[int]
    sure: list[int]
    whole_low: int
    whole_high: int


def _alias(masses: list[tuple[int, int]], word_bits: int) -> tuple[int, list[int], list[int]]:
    """Slots of equal capacity that hold the masses, at most two outcomes each.

    Returns the number of leading bits that name a slot, and per slot the first word of its second outcome and the two
    outcomes. Masses are positive integers with sum 2**word_bits, so there are at most that many.
    """
    slot_bits = (len(masses) - 1).bit_length()
    slots = 1 << slot_bits
    capacity = 1 << (word_bits - slot_bits)
    masses = masses + [(REFINE, 0)] * (slots - len(masses))
    small = [entry for entry in masses if entry[1] < capacity]
    large = [entry for entry in masses if entry[1] >= capacity]
    cuts, outcomes = [], []
    for slot in range(slots):
        # Sums stay equal to the free capacity, so a small one always has a large partner.
        if small:
            first, mass = small.pop()
            second, rest = large.pop()
            rest -= capacity - mass
            (large if rest >= capacity else small).append((second, rest))
        else:
            first, mass = large.pop()
            second = first
            if mass > capacity:
                large.append((first, mass - capacity))
                mass = capacity
        # A full slot would end at 2**word_bits in the last place; both its outcomes are the same, so any cut serves.
        cuts.append(slot * capacity + (mass if second != first else 0))
        outcomes += [first, second]
    return slot_bits, cuts, outcomes
