"""Deciding whether a uniform real number lies below a given real number.

The uniform number U is known by its leading bits; the other number by enclosures of any width. The first word nearly
always decides. When the threshold falls inside the cell of width 2**-bits that the word names, U is given another word
and the question asked again, so the answer has exactly the probability of the threshold, whatever its expansion.

>>> from deniable.noise.enclosure import exp_neg
>>> is_below(0, 64, lambda bits: exp_neg(3, 1, bits=bits), word_bits=64, source=None)   # decided without more bits
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from deniable.noise.source import Source

Enclosure: TypeAlias = Callable[[int], tuple[int, int]]
"""From a number of bits to integers ``low <= r * 2**bits <= high``."""

_GLANCE = 24  # leading bits that are tried first, because a coarse threshold is cheap and nearly always enough
_MARGIN = 16  # bits of the threshold beyond those of U: a wide enclosure is the reason for one extra word in 2**14


def take(source: Source, word_bits: int) -> int:
    """The leading `word_bits` of one word."""
    return source.word() >> (64 - word_bits)


def is_below(prefix: int, bits: int, threshold: Enclosure, *, word_bits: int, source: Source | None) -> bool:
    """Whether U < threshold, where ``prefix / 2**bits <= U < (prefix + 1) / 2**bits`` so far."""
    if bits > _GLANCE:
        low, high = threshold(_GLANCE)
        leading = prefix >> (bits - _GLANCE)
        if leading < low:
            return True
        if leading >= high:
            return False
    while True:
        low, high = threshold(bits + _MARGIN)
        if (prefix + 1) << _MARGIN <= low:
            return True
        if prefix << _MARGIN >= high:
            return False
        if source is None:
            raise TypeError("this comparison needs more bits and was given no source")
        prefix = prefix << word_bits | take(source, word_bits)
        bits += word_bits
