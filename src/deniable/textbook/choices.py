"""Choices that the notes leave to the reader: the δ′ of advanced composition, L1 or L2 clipping, one record per step.

>>> from deniable.guarantees import ApproxDP
>>> target = ApproxDP(1, 1e-6)
>>> best = best_slack(target, count=100)
>>> split_variance(target, count=100, slack=5e-7) > split_variance(target, count=100, slack=best)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable

from deniable import _checks
from deniable._checks import Number
from deniable.accounting.accountant import account
from deniable.conversions import gaussian_claim_to_gdp
from deniable.events import Laplace, dpsgd
from deniable.guarantees import ApproxDP
from deniable.numerics.roots import lowest


def split_variance(target: ApproxDP, *, count: int, slack: Number) -> float:
    """The noise variance of each of k Gaussian queries of sensitivity 1, if (ε, δ) is split by advanced composition.

    Each is (ε₀, δ₀)-DP by the classic σ² = 2 ln(1.25/δ₀)/ε₀², with δ₀ = (δ − δ′)/k and ε₀√(2k ln(1/δ′)) = ε, where
    the notes leave out the term kε₀²/2. It is here to compare choices of δ′; `scale_per_query` composes Gaussians
    exactly.
    """
    times = _checks.count("count", count)
    allowed = float(
        _checks.between(
            "slack", slack, low=0, high=target.delta, open_low=True, open_high=True, expected="above 0 and below delta"
        )
    )
    each = (float(target.delta) - allowed) / times
    return 4 * times * math.log(1.25 / each) * math.log(1 / allowed) / float(target.epsilon) ** 2


def best_slack(target: ApproxDP, *, count: int) -> float:
    """The δ′ with which `split_variance` is least."""
    delta = float(target.delta)
    share, _ = lowest(lambda part: split_variance(target, count=count, slack=delta * part), 1e-6, 1 - 1e-6)
    return delta * share


def l1_wins_below(target: ApproxDP, *, steps: int = 1) -> float:
    """L1 clipping with Laplace noise beats L2 clipping with Gaussian noise where (‖g‖₁/‖g‖₂)² is below this.

    For a gradient that is not cut, the noise of a coordinate has standard deviation √2·b·‖g‖₁ against √T·‖g‖₂/μ, where
    b and μ meet the target over T steps by the accountant. (‖g‖₁/‖g‖₂)² counts the entries of g if they are equal, and
    is never below 1: where the answer is, L2 wins in every dimension.
    """
    times = _checks.count("steps", steps)
    mu = float(gaussian_claim_to_gdp(target).mu)
    epsilon, delta = float(target.epsilon), float(target.delta)

    def keeps(scale: float) -> bool:
        return account(Laplace(scale) * times).epsilon(delta) <= epsilon

    scale = _least(keeps, 1 / epsilon, times / epsilon)
    return times / (2 * scale**2 * mu**2)


def sampled_descent_error(target: ApproxDP, *, size: int, dimension: int, steps: int) -> float:
    """The bound √((2 + ds²)/T) on the excess risk, over LR, of T noisy steps that each read about one record.

    s is the noise multiplier that the accountant asks for at rate 1/n. Amplification needs a step that is private to
    begin with, so s never falls far below 1, and the bound approaches √d/(nμ) only after about n² steps: sampling alone
    is not one pass.
    """
    n, times = _checks.count("size", size, least=2), _checks.count("steps", steps)
    wide, epsilon, delta = _checks.count("dimension", dimension), float(target.epsilon), float(target.delta)

    def keeps(noise: float) -> bool:
        return account(dpsgd(noise_multiplier=noise, rate=1 / n, steps=times)).epsilon(delta) <= epsilon

    noise = _least(keeps, 0.3, 100.0)
    return math.sqrt((2 + wide * noise**2) / times)


def _least(keeps: Callable[[float], bool], low: float, high: float) -> float:
    """The least number that keeps the target, to three digits, by bisection on the logarithm; `high` is a guess."""
    while not keeps(high):
        low, high = high, 4 * high
    while high / low > 1.002:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
