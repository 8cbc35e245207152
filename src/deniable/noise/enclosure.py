"""Certified integer bounds of exp and log: the arithmetic behind every draw.

An enclosure of a real number r at `bits` is a pair of integers with ``low <= r * 2**bits <= high``. Everything is
computed in Python's big integers with the rounding written out, so no answer depends on a floating-point unit or a
mathematics library. More bits give a narrower pair: `high - low` is at most 2 for exp and 4 for log.

The two series, each used where its remainder is elementary:

- ``exp(-y)`` for 0 <= y < 1/64 alternates with decreasing terms, so its remainder is smaller than the first omitted
  term (Leibniz); larger arguments are halved first and squared afterwards.
- ``log(m) = 2 atanh((m-1)/(m+1))`` for 1 <= m < 2 has terms in z = (m-1)/(m+1) <= 1/3 that shrink ninefold.

>>> exp_neg(1, 1, bits=20)  # 2**20 / e = 385749.8
(385749, 385750)
>>> log(3, 1, bits=20)  # 2**20 * log 3 = 1151977.8
(1151977, 1151980)

`is_below` decides whether a uniform real number lies below a threshold. The uniform number U is known by its leading
bits, the threshold by enclosures of any width. The first word nearly always decides. When the threshold falls inside
the cell of width 2**-bits that the word names, U gets another word and the comparison is repeated. So the answer has
exactly the probability of the threshold.

>>> from deniable.noise.enclosure import exp_neg
>>> is_below(0, 64, lambda bits: exp_neg(3, 1, bits=bits), word_bits=64, source=None)   # decided without more bits
True
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from deniable.noise.source import Source


def ceil_div(numerator: int, denominator: int) -> int:
    """The quotient rounded up, for a positive denominator."""
    return -(-numerator // denominator)


def ceil_shift(value: int, bits: int) -> int:
    """``value / 2**bits`` rounded up."""
    return -(-value >> bits)


def product(one: tuple[int, int], other: tuple[int, int], bits: int) -> tuple[int, int]:
    """The enclosure of a product of two non-negative numbers."""
    return one[0] * other[0] >> bits, ceil_shift(one[1] * other[1], bits)


def exp_neg(numerator: int, denominator: int, *, bits: int) -> tuple[int, int]:
    """Bounds of ``exp(-numerator/denominator) * 2**bits`` for a non-negative argument; `high - low <= 2`."""
    if numerator == 0:
        return 1 << bits, 1 << bits
    if numerator > bits * denominator:
        return 0, 1  # exp(-bits) < 2**-bits
    # After `halvings` the argument is below 2**-6. Each squaring at most doubles the absolute error, and adds one unit.
    halvings = max(0, (numerator // denominator + 1).bit_length() + 6)
    if numerator << 6 < denominator:
        halvings = 0
    guard = halvings + bits.bit_length() + 6
    fixed = bits + guard
    argument = (numerator << fixed) // (denominator << halvings)
    total = term = 1 << fixed
    step = 0
    while term:
        step += 1
        term = (term * argument >> fixed) // step
        total += -term if step & 1 else term
    # Each computed term is below its true value by less than 2 units, and so is the remainder; cutting the argument to
    # `fixed` bits moves exp by less than one unit more.
    slack = 2 * step + 4
    low, high = total - slack, min(total + slack, 1 << fixed)
    for _ in range(halvings):
        low, high = low * low >> fixed, ceil_shift(high * high, fixed)
    return low >> guard, ceil_shift(high, guard)


@lru_cache(maxsize=64)
def _log_two(bits: int) -> tuple[int, int]:
    return _log_reduced(2, 1, bits)


def _log_reduced(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Bounds of ``log(numerator/denominator) * 2**bits`` for a ratio in [1, 2]."""
    guard = bits.bit_length() + 6
    fixed = bits + guard
    root = ((numerator - denominator) << fixed) // (numerator + denominator)
    square = root * root >> fixed
    power, total, order = root, 0, 1
    while power:
        total += power // order
        power = power * square >> fixed
        order += 2
    # log m = 2 atanh(z). Cutting z, z**2 and each power loses less than 3 units of a power, 4 of a term once divided;
    # the terms left out start below 3 units and shrink ninefold, which adds less than 4. All cuts are downwards.
    slack = 2 * (4 * (order // 2 + 1) + 4)
    return 2 * total >> guard, ceil_shift(2 * total + slack, guard)


def log(numerator: int, denominator: int, *, bits: int) -> tuple[int, int]:
    """Bounds of ``log(numerator/denominator) * 2**bits`` for a positive ratio; `high - low <= 4`."""
    shift = numerator.bit_length() - denominator.bit_length()
    if (numerator << max(-shift, 0)) < (denominator << max(shift, 0)):
        shift -= 1
    low, high = _log_reduced(numerator << max(-shift, 0), denominator << max(shift, 0), bits)
    if shift == 0:
        return low, high
    # `extra` bits keep the error of `shift * log 2` below one unit.
    extra = abs(shift).bit_length() + 2
    two_low, two_high = _log_two(bits + extra)
    if shift > 0:
        return low + (shift * two_low >> extra), high + ceil_shift(shift * two_high, extra)
    return low + (shift * two_high >> extra), high + ceil_shift(shift * two_low, extra)


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
