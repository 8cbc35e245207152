"""Exact draws from a law by one table look-up.

A law with probabilities p_k (irrational, possibly infinitely many) is split into a part that one word can draw and
a remainder:

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
>>> Table(Ladder(Fraction(1), degree=1)).draw(5, InsecureSource(2)).shape
(5,)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from deniable.noise.comparison import take
from deniable.noise.laws import Law
from deniable.noise.source import Source, Words
from deniable.noise.uniform import below

REFINE = -1
_GUARD = 40  # bits of the weights beyond those of a word


class Table:
    """A law, ready to be drawn from. Tests force refinement by `word_bits` below 64: the leading bits of each word."""

    def __init__(self, law: Law, *, word_bits: int = 64) -> None:
        self.law, self.word_bits = law, word_bits
        bounds = law.enclose(word_bits + _GUARD)
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
        """What each word means: an outcome, or REFINE."""
        if self._to_word:
            words = words >> np.uint64(self._to_word)
        slots = (words >> np.uint64(self._to_slot)).view(np.int64)
        beyond = words >= self._cuts.take(slots, mode="wrap")
        slots <<= 1
        slots += beyond
        return self._outcomes.take(slots, mode="wrap")

    def draw(self, size: int, source: Source) -> NDArray[np.int64]:
        """Independent outcomes, one word each but for refinements."""
        found = self.look_up(source.words(size))
        if size and found.min() < 0:
            for place in np.flatnonzero(found < 0):
                found[place] = self.refine(source)
        return found

    def draw_one(self, source: Source) -> int:
        """One outcome, without the array machinery."""
        word = source.word() >> self._to_word
        slot = word >> self._to_slot
        found = self._outcome_list[2 * slot + (word >= self._cut_list[slot])]
        return found if found >= 0 else self.refine(source)

    def refine(self, source: Source) -> int:
        """An outcome of the remainders, which a word that means REFINE stands for."""
        prefix, bits = below(self.remainder, source), 0  # a uniform real number in [0, remainder), cut to `bits`
        while True:
            prefix = prefix << self.word_bits | take(source, self.word_bits)
            bits += self.word_bits
            found = self._locate(prefix, bits)
            if found is not None:
                return found

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
            bounds = self.law.enclose(self.word_bits + bits + _GUARD)
            sure = self._sure + [0] * (len(bounds.low) - len(self._sure))
            low, high = list(accumulate(bounds.low)), list(accumulate(bounds.high))
            self._sums[bits] = _Sums(low, high, list(accumulate(sure)), low[-1], high[-1] + bounds.tail)
        return self._sums[bits]


@dataclass(frozen=True)
class _Sums:
    """Running sums of weights, bounded, and of sure masses; and the bounds of the sum of all weights."""

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
