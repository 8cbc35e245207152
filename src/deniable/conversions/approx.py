"""From (ε, δ)-differential privacy.

Every (ε, δ)-DP pair is a post-processing of randomized response that fails outright with probability δ (Kairouz–Oh–
Viswanath 2015, in the proof of Theorem 3.3; Murtagh–Vadhan 2016, section 3). With δ > 0 the loss is infinite with
probability δ, so no finite Rényi divergence and no finite μ exists: those arrows say so instead of returning a number.

>>> from deniable.guarantees import ApproxDP
>>> approx_to_total_variation(ApproxDP(1, 0.01))
0.467...
>>> approx_to_zcdp(ApproxDP(1, 1e-6))
Traceback (most recent call last):
...
deniable.errors.NoConversion: ...
"""

from __future__ import annotations

from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.conversions import pure
from deniable.errors import NoConversion
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Profile, PureDP, TradeOff
from deniable.numerics.rounding import float_above


def approx_to_profile(guarantee: ApproxDP) -> Profile:
    """δ(ε′) = δ + (1 − δ)·max(0, (e^ε − e^ε′)/(1 + e^ε)). Exact."""
    return pure.response_profile(guarantee, "randomized response that fails with probability δ")


def approx_to_approx(guarantee: ApproxDP, *, epsilon: Number) -> ApproxDP:
    """The same promise read at another ε′. Exact."""
    at = _checks.nonnegative("epsilon", epsilon)
    fail = guarantee.delta
    delta = fail + (1 - fail) * Fraction(pure.response_delta(guarantee.epsilon, at))
    return ApproxDP(at, min(delta, Fraction(1)), relation=guarantee.relation, unit=guarantee.unit)


def approx_to_fdp(guarantee: ApproxDP) -> FDP:
    """f(α) = max(0, 1 − δ − e^ε α, e^{−ε}(1 − δ − α)). Exact up to rounding e^ε up (Wasserman–Zhou 2010)."""
    lines = TradeOff.of_lines([(pure.odds_above(guarantee.epsilon), guarantee.delta)])
    return FDP(lines, relation=guarantee.relation, unit=guarantee.unit)


def approx_to_total_variation(guarantee: ApproxDP) -> float:
    """(e^ε − 1 + 2δ)/(e^ε + 1), rounded up. Exact: δ(0) of the worst mechanism."""
    return float_above(approx_to_approx(guarantee, epsilon=0).delta)


def approx_to_approx_zcdp(guarantee: ApproxDP) -> ApproxZCDP:
    """δ-approximate ε·tanh(ε/2)-zCDP. Upper bound: condition on the event, of probability 1 − δ, of not failing."""
    rho = pure.pure_to_zcdp(_without_delta(guarantee)).rho
    return ApproxZCDP(rho, guarantee.delta, relation=guarantee.relation, unit=guarantee.unit)


def approx_to_pure(guarantee: ApproxDP) -> PureDP:
    """Exact for δ = 0; otherwise it does not exist."""
    return _pure(guarantee, "PureDP")


def approx_to_zcdp(guarantee: ApproxDP) -> ZCDP:
    """Exact for δ = 0; otherwise it does not exist (`approx_to_approx_zcdp` does)."""
    return pure.pure_to_zcdp(_pure(guarantee, "ZCDP"))


def approx_to_tcdp(guarantee: ApproxDP, *, omega: Number) -> TCDP:
    """Exact for δ = 0; otherwise it does not exist."""
    return pure.pure_to_tcdp(_pure(guarantee, "TCDP"), omega=omega)


def approx_to_rdp(guarantee: ApproxDP, *, order: Number) -> RDP:
    """Exact for δ = 0; otherwise it does not exist."""
    return pure.pure_to_rdp(_pure(guarantee, "RDP"), order=order)


def approx_to_gdp(guarantee: ApproxDP) -> GDP:
    """Exact for δ = 0; otherwise it does not exist. For a Gaussian mechanism see `gdp.gaussian_claim_to_gdp`."""
    return pure.pure_to_gdp(_pure(guarantee, "GDP"))


def _without_delta(guarantee: ApproxDP) -> PureDP:
    return PureDP(guarantee.epsilon, relation=guarantee.relation, unit=guarantee.unit)


def _pure(guarantee: ApproxDP, kind: str) -> PureDP:
    """The promise without δ, or why it is no promise of the wanted kind."""
    if guarantee.delta > 0:
        raise NoConversion(
            f"ApproxDP with delta={_checks.shown(guarantee.delta)} implies no {kind}: the loss may be infinite with"
            " probability delta, and no finite ε, Rényi divergence or μ allows that."
            " Keep the (ε, δ) promise, or use approx_to_approx_zcdp or approx_to_profile."
        )
    return _without_delta(guarantee)
