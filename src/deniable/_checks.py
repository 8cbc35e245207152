"""Argument checks, with one wording, and the meaning of a typed number.

A number that a person types is a decimal: `0.1` means one tenth, not the nearest binary fraction. `exact` gives that
meaning as a `Fraction`; every check returns it, so that sums of budgets are exact and three times 0.1 fits 0.3.

>>> exact(0.1) * 3 == exact(0.3)
True
>>> positive("epsilon", float("nan"))
Traceback (most recent call last):
...
deniable.errors.InvalidArgument: epsilon must be a positive number; got epsilon=nan.
"""

from __future__ import annotations

import math
import numbers
import sys
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import SupportsFloat, TypeAlias

from deniable._escapes import printable
from deniable._escapes import redacted as redacted
from deniable.errors import InvalidArgument, PrivacyWarning

Number: TypeAlias = int | float | Fraction | Decimal | SupportsFloat
"""What a caller may type; NumPy scalars included."""

LONGEST = 12_955
"""Bits of a number that is typed, some 3,900 digits. Longer ones could be computed with, and not be written down."""


def exact(value: Number) -> Fraction:
    """The exact meaning of a typed number: a float is its shortest decimal. ValueError if it is not finite."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, numbers.Integral):
        return Fraction(int(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"not finite: {value}")
        if abs(value.adjusted()) > LONGEST:  # its digits would fill the memory
            raise ValueError(f"too long: {value}")
        return Fraction(value)
    if isinstance(value, numbers.Real):
        if not math.isfinite(value):
            raise ValueError(f"not finite: {value}")
        return Fraction(str(value))
    raise TypeError(f"not a number: {value!r}")


def read_fraction(text: object) -> Fraction:
    """An exact decimal or fraction from its text. ValueError for any other, and for one that is too long to be meant.

    >>> read_fraction("1e-6"), read_fraction("2/3")
    (Fraction(1, 1000000), Fraction(2, 3))
    >>> read_fraction("1e999999999")
    Traceback (most recent call last):
    ...
    ValueError: too long: 1e999999999
    """
    if not isinstance(text, str):
        raise ValueError(f"not a number in text: {type_of(text)}")
    _, _, power = text.lower().partition("e")
    if len(text) > LONGEST or len(power.lstrip("+-0")) > 4:
        raise ValueError(f"too long: {text[:40]}")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError(f"not a number: {text[:40]}") from None


def shown(value: Fraction) -> str:
    """An exact number as a person would type it: a decimal when a short one exists, else a fraction."""
    if value.denominator == 1:
        return str(value.numerator) if abs(value) < 10**7 else _short(value)
    try:
        close = float(value)
    except OverflowError:
        return str(value)
    return repr(close) if close and Fraction(repr(close)) == value else str(value)


def _short(value: Fraction) -> str:
    """A large whole number, with its trailing zeros as an exponent."""
    digits = str(abs(value.numerator))
    stem = digits.rstrip("0")
    sign = "-" if value < 0 else ""
    return f"{sign}{stem}e{len(digits) - len(stem)}" if len(digits) - len(stem) >= 3 else f"{sign}{digits}"


def number(name: str, value: Number, *, expected: str = "a finite number", remedy: str = "") -> Fraction:
    """A finite number, exactly."""
    if isinstance(value, bool):
        raise InvalidArgument(name, value, expected, remedy)
    try:
        fraction = exact(value)
    except (TypeError, ValueError):
        raise InvalidArgument(name, value, expected, remedy) from None
    if max(fraction.numerator.bit_length(), fraction.denominator.bit_length()) > LONGEST:
        # Not shown: Python itself refuses to write it down.
        raise InvalidArgument(name, "...", f"{expected}, of at most 3,900 digits", remedy)
    return fraction


def positive(name: str, value: Number, *, remedy: str = "") -> Fraction:
    """A finite number above 0."""
    return between(name, value, low=0, open_low=True, expected="a positive number", remedy=remedy)


def nonnegative(name: str, value: Number, *, remedy: str = "") -> Fraction:
    """A finite number, 0 or more."""
    return between(name, value, low=0, expected="a number that is 0 or more", remedy=remedy)


def probability(name: str, value: Number, *, remedy: str = "") -> Fraction:
    """A number in [0, 1]."""
    return between(name, value, low=0, high=1, expected="a probability between 0 and 1", remedy=remedy)


def inner_probability(name: str, value: Number, *, remedy: str = "") -> Fraction:
    """A number in (0, 1)."""
    return between(
        name, value, low=0, high=1, open_low=True, open_high=True,
        expected="strictly between 0 and 1", remedy=remedy,
    )  # fmt: skip


def rate(name: str, value: Number, *, remedy: str = "") -> Fraction:
    """A sampling rate, in (0, 1]."""
    return between(name, value, low=0, high=1, open_low=True, expected="a rate above 0 and at most 1", remedy=remedy)


def order(name: str, value: Number) -> Fraction:
    """A Rényi order, above 1."""
    return between(name, value, low=1, open_low=True, expected="a Rényi order above 1")


def between(
    name: str,
    value: Number,
    *,
    low: Number | None = None,
    high: Number | None = None,
    open_low: bool = False,
    open_high: bool = False,
    expected: str,
    remedy: str = "",
) -> Fraction:
    """A finite number within an interval, exactly."""
    fraction = number(name, value, expected=expected, remedy=remedy)
    if low is not None and (fraction < exact(low) or (open_low and fraction == exact(low))):
        raise InvalidArgument(name, value, expected, remedy)
    if high is not None and (fraction > exact(high) or (open_high and fraction == exact(high))):
        raise InvalidArgument(name, value, expected, remedy)
    return fraction


def count(name: str, value: object, *, least: int = 1) -> int:
    """A whole number, `least` or more. 3.0 and 1e9 are whole; 1.5 and True are not."""
    expected = f"a whole number, {least} or more"
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal):
        raise InvalidArgument(name, value, expected)
    fraction = number(name, value, expected=expected)
    if fraction.denominator != 1 or fraction < least:
        raise InvalidArgument(name, value, expected)
    return fraction.numerator


def member(name: str, value: object, kind: type | tuple[type, ...], *, remedy: str = "") -> None:
    """Refuse a value of the wrong type."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise InvalidArgument(name, value, with_article(" or ".join(each.__name__ for each in kinds)), remedy)


def text(name: str, value: object, *, most: int, expected: str, remedy: str = "") -> str:
    """Text that can be stored and printed anywhere: not blank, at most `most` characters, and none that acts unseen.

    >>> text("purpose", "visits per city", most=100, expected="a few words")
    'visits per city'
    >>> text("purpose", "visits\\x1b[2J", most=100, expected="a few words")
    Traceback (most recent call last):
    ...
    deniable.errors.InvalidArgument: purpose must be a few words, without control characters; got purpose='visits...'.
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(name, value, expected, remedy)
    if len(value) > most:
        raise InvalidArgument(name, value, f"{expected}, of at most {most:,} characters", remedy)
    if printable(value) != value:
        raise InvalidArgument(name, value, f"{expected}, without control characters", remedy)
    return value


def type_of(value: object) -> str:
    """The type of a value in a sentence, where the value itself may be private.

    >>> type_of([]), type_of(3), type_of(None)
    ('a list', 'an int', 'None')
    """
    return "None" if value is None else with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """A noun with "a" or "an" before it."""
    return f"{'an' if noun[0] in 'aeiouAEIOU' or noun == 'ndarray' else 'a'} {noun}"


MOST_EXPOSED = Fraction(1, 10)
"""The largest product of δ and the number of units that is not warned of."""


def warn_of_delta(promise: object, *, size: int | None) -> None:
    """Warn where δ is large for the number of units: a promise with this δ allows `size × delta` of them to be exposed.

    A mechanism that publishes each unit's record with probability δ, and otherwise nothing, is (0, δ)-private. Call
    this wherever both numbers are known, with public numbers only: the warning must not depend on data.

    Args:
        promise: a guarantee, or a δ as a fraction; one without a δ says nothing.
        size: how many units there are, declared publicly; None if that is not known.

    >>> warn_of_delta(Fraction(1, 10**6), size=100_000)
    """
    delta = getattr(promise, "delta", promise)
    if size is None or not isinstance(delta, Fraction):
        return
    units = min(count("size", size), 10**300)  # more could not be printed
    if (exposed := delta * units) <= MOST_EXPOSED:
        return
    worse = ": at least one over their number, so it promises nothing to anybody in particular" if exposed >= 1 else ""
    warnings.warn(
        f"delta={float(delta):.3g} is large for {units:,} units{worse}. A mechanism that publishes every unit's record "
        f"with probability delta keeps it, and would publish {float(exposed):.2g} of them on average. "
        f"Choose delta={_power_of_ten_below(MOST_EXPOSED / units)} or less",
        PrivacyWarning,
        stacklevel=_depth_of_caller(),
    )


def _power_of_ten_below(number: Fraction) -> str:
    """The largest power of ten that is at most a number below 1, as a person types it."""
    return f"1e-{len(str(math.ceil(1 / number) - 1))}"


def _depth_of_caller() -> int:
    """The `stacklevel` of the first caller outside this package, as seen from the function that asks."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "deniable":
        frame, depth = frame.f_back, depth + 1
    return depth
