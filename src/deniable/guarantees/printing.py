"""One printed form for every cost, always rounded toward caution.

>>> cost_line("2.38168972", "1e-5", "one record added or removed")
'ε ≤ 2.39, δ = 1e-5, one record added or removed'
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from deniable._checks import Number, exact, shown
from deniable.numerics.exact import short_below

_CEILING = Context(prec=60, rounding=ROUND_CEILING)


def _decimal_above(value: Fraction) -> Decimal:
    """A 60-digit decimal that is not below an exact number."""
    return _CEILING.divide(Decimal(value.numerator), Decimal(value.denominator))


def rounded_up(value: Number | str, *, decimals: int = 2) -> str:
    """A cost with two decimals, or two significant digits when it is small, never below the value.

    >>> rounded_up(0.5), rounded_up(2.3816), rounded_up(0.01234), rounded_up(0), rounded_up(1e-9)
    ('0.50', '2.39', '0.013', '0', '1e-9')
    >>> rounded_up(800), rounded_up(1.2345e60)
    ('800.00', '1.3e60')
    """
    if isinstance(value, float) and value == math.inf:
        return "∞"
    decimal = _decimal_above(Fraction(value) if isinstance(value, str) else exact(value))
    if decimal == 0:
        return "0"
    if abs(decimal) < Decimal("1e-3") or decimal.adjusted() >= 15:
        return small(decimal)
    digits = decimals
    if abs(decimal) < Decimal(10) ** (1 - decimals):
        digits = -decimal.adjusted() + 1
    step = Decimal(1).scaleb(-digits)
    return f"{decimal.quantize(step, context=_CEILING):f}"


def small(value: Number | str) -> str:
    """A probability or a tiny cost with two significant digits, rounded up.

    >>> small(1e-6), small(9.8487e-06), small(0), small(0.25)
    ('1e-6', '9.9e-6', '0', '0.25')
    """
    decimal = _decimal_above(Fraction(value) if isinstance(value, str) else exact(value))
    if decimal == 0:
        return "0"
    step = Decimal(1).scaleb(decimal.adjusted() - 1)
    up = decimal.quantize(step, context=_CEILING).normalize()
    if -3 <= up.adjusted() < 15:
        return f"{up:f}"
    digits = "".join(map(str, up.as_tuple().digits))
    return f"{digits[0]}{'.' + digits[1:] if digits[1:] else ''}e{up.adjusted()}"


LETTERS = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ", "omega": "ω", "order": "order"}


def figures(numbers: Mapping[str, Fraction]) -> str:
    """Numbers as a person would type them, with Greek letters. A long number is cut to six figures, downwards.

    >>> figures({"epsilon": Fraction(1, 3), "delta": Fraction("1e-6")})
    'ε = 0.333333, δ = 1e-6'
    >>> figures({"order": Fraction(8), "epsilon": Fraction(1, 2)})
    'ε = 0.5 at Rényi order 8'
    """
    text = ", ".join(f"{LETTERS[name]} = {_number_text(value)}" for name, value in numbers.items() if name != "order")
    return f"{text} at Rényi order {_number_text(numbers['order'])}" if "order" in numbers else text


def _number_text(value: Fraction) -> str:
    text = shown(value)
    if len(text) > 12 or "/" in text:
        text = shown(short_below(value, figures=6))
    return text.replace("e-0", "e-")


def cost_line(epsilon: Number | str, delta: Number | str, neighbours: str) -> str:
    """`ε ≤ 0.50, δ = 0, one patient added or removed`: the one line for every cost."""
    return f"ε ≤ {rounded_up(epsilon)}, δ = {small(delta)}, {neighbours}"
