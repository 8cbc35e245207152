"""Released cells and what is known of them: arithmetic of numbers with intervals, and of values that may be others.

The interval of a result holds the true result whenever the intervals of all its inputs hold theirs: a rule of interval
arithmetic for each operation, rounded outward. An input that stands twice is taken as two, which makes the interval
wider than it needs to be, never narrower. Where a divisor may be 0 nothing is known, and the interval says so.

Every operation is total. What has no value (a division by 0, a root of −1) is None, which is NULL.

>>> plus(Span(3, 1, 5), Span(10, 9, 11))
Span(value=13, low=10, high=16)
>>> over(Span(3, 1, 5), Span(0, -1, 1))
Span(value=None, low=-inf, high=inf)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from datetime import date, datetime
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple, TypeAlias

INFINITE = math.inf


class Span(NamedTuple):
    """A number, None where it is NULL, and what the true one lies between."""

    value: int | float | None
    low: int | float
    high: int | float


class Pick(NamedTuple):
    """A text, a date or a truth value, None where it is NULL, and all that it may be in truth."""

    value: Any
    can: frozenset[Any]


Cell: TypeAlias = Span | Pick
NOTHING = Span(None, -INFINITE, INFINITE)


def exact(value: Any) -> Cell:
    """A cell that is known: a key, a constant, or a released number that is taken as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Pick(value, frozenset([value]))
    return NOTHING if isinstance(value, float) and math.isnan(value) else Span(value, value, value)


def plus(one: Span, other: Span) -> Span:
    """The sum of two numbers."""
    return _spanned(operator.add, one, other, [(one.low, other.low)], [(one.high, other.high)])


def minus(one: Span, other: Span) -> Span:
    """The difference of two numbers."""
    return _spanned(operator.sub, one, other, [(one.low, other.high)], [(one.high, other.low)])


def times(one: Span, other: Span) -> Span:
    """The product of two numbers: its extremes are at corners."""
    corners = list(product(one[1:], other[1:]))
    return _spanned(_product, one, other, corners, corners)


def over(one: Span, other: Span) -> Span:
    """The quotient of two numbers; unknown where the divisor may be 0."""
    if other.low <= 0 <= other.high:
        return Span(_tried(_quotient, one.value, other.value), -INFINITE, INFINITE)
    corners = list(product(one[1:], other[1:]))
    return _spanned(_quotient, one, other, corners, corners)


def remainder(one: Span, other: Span) -> Span:
    """What is left of a division, on the dividend's side."""
    if one.low == one.high and other.low == other.high:
        return exact(_tried(_rest, one.value, other.value)) if one.value is not None else NOTHING  # type: ignore[return-value]
    most = max(abs(other.low), abs(other.high))
    low, high = (0 if one.low >= 0 else -most), (0 if one.high <= 0 else most)
    return Span(_tried(_rest, one.value, other.value), low, high)


def power(one: Span, other: Span) -> Span:
    """A power. Of a number that may be negative, only whole powers are known."""
    value = _tried(_raised, one.value, other.value)
    if other.low != other.high or (one.low < 0 and not float(other.low).is_integer()):
        return Span(value, -INFINITE, INFINITE)
    if one.low <= 0 <= one.high and other.low < 0:
        return Span(value, -INFINITE, INFINITE)
    ends: list[int | float] = [one.low, one.high]
    ends += [0] if one.low < 0 < one.high else []
    corners = [(end, other.low) for end in ends]
    return _ended(value, _raised, corners, corners)


def rising(
    function: Callable[[Any], Any], least: float = -INFINITE, *, precise: bool = False
) -> Callable[[Span], Span]:
    """An increasing function, which has no value below `least`; `precise` where it makes no rounding error."""

    def apply(one: Span) -> Span:
        value = None if one.value is None or one.value < least else _tried(function, one.value)
        low, high = (_tried(function, max(end, least)) for end in (one.low, one.high))
        if one.high < least or low is None or high is None:
            low = -INFINITE if low is None or one.high < least else low
            high = INFINITE if high is None or one.high < least else high
        if not precise:
            low, high = low - abs(low) * 1e-14 if math.isfinite(low) else low, _above(high)
        return Span(value, low, high)

    return apply


def _above(high: float) -> float:
    return high + abs(high) * 1e-14 if math.isfinite(high) else high


def magnitude(one: Span) -> Span:
    """|x|."""
    far, near = max(abs(one.low), abs(one.high)), min(abs(one.low), abs(one.high))
    return Span(None if one.value is None else abs(one.value), 0 if one.low <= 0 <= one.high else near, far)


def to_digits(digits: int) -> Callable[[Any], Any]:
    """Rounding to some decimals, halves away from 0, as SQL rounds."""

    def apply(value: Any) -> Any:
        if isinstance(value, int) or not math.isfinite(value):
            return value
        whole = math.floor(abs(Fraction(value)) * 10**digits + Fraction(1, 2))
        found = math.copysign(1, value) * Fraction(whole, 10**digits) if digits else whole * (1 if value >= 0 else -1)
        return float(found) if digits else int(found)

    return apply


def round_down(value: Any) -> Any:
    """The whole number below."""
    return value if not math.isfinite(value) else math.floor(value)


def round_up(value: Any) -> Any:
    """The whole number above."""
    return value if not math.isfinite(value) else math.ceil(value)


def sign_of(value: Any) -> int:
    """−1, 0 or 1."""
    return int(value > 0) - int(value < 0)


def _product(one: Any, other: Any) -> Any:
    return 0 if one == 0 or other == 0 else one * other


def _quotient(one: Any, other: Any) -> Any:
    return 0.0 if one == 0 and other != 0 else one / other


def _rest(one: Any, other: Any) -> Any:
    if isinstance(one, int) and isinstance(other, int):
        return int(math.copysign(1, one)) * (abs(one) % abs(other))
    return math.fmod(one, other)


def _raised(one: Any, other: Any) -> Any:
    return math.pow(one, other)


def _tried(function: Callable[..., Any], *given: Any) -> Any:
    """A value, or None where there is none."""
    if any(one is None for one in given):
        return None
    try:
        found = function(*given)
    except (ArithmeticError, ValueError):
        return None
    return None if isinstance(found, float) and math.isnan(found) else found


def _spanned(
    function: Callable[[Any, Any], Any],
    one: Span,
    other: Span,
    lows: Sequence[tuple[Any, Any]],
    highs: Sequence[tuple[Any, Any]],
) -> Span:
    return _ended(_tried(function, one.value, other.value), function, lows, highs)


def _ended(
    value: Any, function: Callable[[Any, Any], Any], lows: Sequence[tuple[Any, Any]], highs: Sequence[tuple[Any, Any]]
) -> Span:
    """A value with the ends that corners give, rounded outward; an end that has no value is infinite."""
    low, high = [_tried(function, *pair) for pair in lows], [_tried(function, *pair) for pair in highs]
    least = -INFINITE if None in low else min(low)
    most = INFINITE if None in high else max(high)
    slack = 4 if function is _raised else 1  # pow is right to a few units in the last place
    for _ in range(slack):
        least = math.nextafter(least, -INFINITE) if isinstance(least, float) and math.isfinite(least) else least
        most = math.nextafter(most, INFINITE) if isinstance(most, float) and math.isfinite(most) else most
    return Span(value, least, most)


_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def compared(one: Cell, sign: str, other: Cell) -> Pick:
    """A comparison: which of true and false it may be in truth, and what it is of the released numbers."""
    if isinstance(one, Span) and isinstance(other, Span):
        value = _tried(_SIGNS[sign], one.value, other.value)
        apart = one.high < other.low or other.high < one.low
        same = one.low == one.high == other.low == other.high
        can = {
            "=": (not apart, not same), "<>": (not same, not apart),
            "<": (one.low < other.high, one.high >= other.low), "<=": (one.low <= other.high, one.high > other.low),
            ">": (one.high > other.low, one.low <= other.high), ">=": (one.high >= other.low, one.low < other.high),
        }[sign]  # fmt: skip
        known = {truth for truth, possible in zip((True, False), can, strict=True) if possible}
        return Pick(value, frozenset(known | {value}))
    sides = [cell.can if isinstance(cell, Pick) else frozenset([cell.value]) for cell in (one, other)]
    pairs = product(*sides)
    return Pick(_met(one.value, sign, other.value), frozenset(_met(*(a, sign, b)) for a, b in pairs))


def _met(one: Any, sign: str, other: Any) -> bool | None:
    """Whether two values of one kind meet. A text that meets a number is read as one; others meet nothing."""
    if one is None or other is None:
        return None
    pair = [datetime(v.year, v.month, v.day) if type(v) is date else v for v in (one, other)]
    numbers = [isinstance(v, int | float) and not isinstance(v, bool) for v in pair]
    if any(numbers) and not all(numbers):
        pair = [v if number else as_number(v) for v, number in zip(pair, numbers, strict=True)]
        if None in pair:
            return None
    elif type(pair[0]) is not type(pair[1]) and not all(numbers):
        return False
    return bool(_SIGNS[sign](*pair))


def as_number(value: Any) -> int | float | None:
    """A key as a number: the text of a column without types is read."""
    if isinstance(value, str):
        found = _tried(float, value)
        return int(found) if found is not None and math.isfinite(found) and found.is_integer() else found
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None


def numbered(cell: Cell) -> Span:
    """A cell as a number."""
    if isinstance(cell, Span):
        return cell
    found = exact(as_number(cell.value))
    return found if isinstance(found, Span) and len(cell.can) == 1 else NOTHING


def chosen(tests: Sequence[Pick], outcomes: Sequence[Cell], default: Cell) -> Cell:
    """The first outcome whose test is true; in truth, any outcome whose test may be."""
    value, possible = default.value, []
    for test, outcome in zip(reversed(tests), reversed(outcomes), strict=True):
        value = outcome.value if test.value is True else value
    for test, outcome in zip(tests, outcomes, strict=True):
        possible += [outcome] if True in test.can else []
        if test.can == {True}:
            break
    else:
        possible.append(default)
    return joined(value, possible)


def joined(value: Any, possible: Sequence[Cell]) -> Cell:
    """A value that is one of several cells in truth."""
    spans = [cell for cell in possible if isinstance(cell, Span)]
    if spans:
        return Span(value, min(cell.low for cell in spans), max(cell.high for cell in spans))
    return Pick(value, frozenset().union({value}, *(cell.can for cell in possible if isinstance(cell, Pick))))


def both(cells: Sequence[Pick], *, every: bool) -> Pick:
    """AND of truth values, or OR where not `every`; unknown beats what does not decide."""
    decides = not every

    def of(values: Sequence[Any]) -> bool | None:
        return decides if decides in values else None if None in values else every

    return Pick(of([cell.value for cell in cells]), frozenset(of(some) for some in product(*(c.can for c in cells))))


def denied(cell: Pick) -> Pick:
    """NOT."""
    return Pick(_not(cell.value), frozenset(_not(truth) for truth in cell.can))


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth
