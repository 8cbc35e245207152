"""How much discrete Gaussian noise an (ε, δ) promise needs, and what the textbook formulas would say.

`gaussian_multiplier` is what mechanisms use. The other two are about the continuous Gaussian, to compare with:
`analytic_scale` is exact for it (Balle and Wang 2018), `classic_scale` is the formula of Dwork and Roth (2014, Theorem
A.1), which is a theorem for 0 < ε < 1 only and is refused elsewhere: at ε = 10, δ = 1e-5 it falls short by a factor of
2.3 in δ.

>>> wanted = {"sensitivity": 1, "epsilon": 0.5, "delta": 1e-5}
>>> round(classic_scale(**wanted), 3), round(analytic_scale(**wanted), 3)
(9.69, 7.032)
>>> classic_scale(sensitivity=1, epsilon=1.5, delta=1e-5)
Traceback (most recent call last):
...
deniable.errors.InvalidArgument: epsilon must be ...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.calibration import calibrate
from deniable.conversions.normal import largest_mu
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.guarantees import ApproxDP
from deniable.units import Relation


def gaussian_multiplier(
    event: Callable[[Fraction], Event], *, epsilon: Fraction, delta: Fraction, relation: Relation
) -> Fraction:
    """The smallest noise multiplier m found, within a thousandth, for which the accountant confirms `event(m)`.

    One number of integer sensitivity is accounted exactly, vectors by the zCDP bound of Canonne, Kamath and Steinke
    (2020, Theorem 4 and Prop. 12).
    """

    def made(multiplier: float) -> Event:
        return event(short_above(Fraction(multiplier)))

    try:
        found = calibrate(made, ApproxDP(epsilon, delta, relation=relation), tolerance=Fraction(1, 1000))
    except InvalidArgument as refusal:
        if refusal.name != "target":
            raise
        expected = f"one that Gaussian noise reaches at epsilon={_checks.shown(epsilon)}"
        raise InvalidArgument("delta", float(delta), expected, "Leave delta out for Laplace noise.") from None
    return short_above(Fraction(found.value))


def short_above(value: Fraction) -> Fraction:
    """Seven significant digits, rounded up: noise parameters that people can read."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 6)
    return math.ceil(value / unit) * unit


def analytic_scale(*, sensitivity: Number, epsilon: Number, delta: Number) -> float:
    """The smallest σ of a continuous Gaussian that is (ε, δ)-DP: Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ) ≤ δ."""
    moved = _checks.positive("sensitivity", sensitivity)
    allowed = _checks.inner_probability("delta", delta)
    return float(moved) / largest_mu(float(_checks.positive("epsilon", epsilon)), float(allowed))


def classic_scale(*, sensitivity: Number, epsilon: Number, delta: Number) -> float:
    """Δ·√(2 ln(1.25/δ))/ε, for 0 < ε < 1."""
    moved = _checks.positive("sensitivity", sensitivity)
    wanted = _checks.between(
        "epsilon", epsilon, low=0, high=1, open_low=True, open_high=True,
        expected="above 0 and below 1 for the classic formula",
        remedy="Beyond that it is not a theorem; gaussian(...) has no such limit.",
    )  # fmt: skip
    allowed = _checks.inner_probability("delta", delta)
    return float(moved) * math.sqrt(2 * math.log(1.25 / float(allowed))) / float(wanted)
