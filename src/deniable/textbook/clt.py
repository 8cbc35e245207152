"""Central limit *estimates*. Nothing here is a guarantee, and nothing here is accepted by a ledger.

The sum of many small losses is nearly normal, so a composition is nearly μ-GDP (Dong–Roth–Su 2019, Theorem 3.4):

    μ ≈ 2 Σkl_i / √(Σκ₂ᵢ − Σkl_i²),    kl = −∫₀¹ ln|f′|,  κ₂ = ∫₀¹ ln²|f′|.

The estimate tends to be too small exactly where it matters, at small δ: `berry_esseen_gap` says how much of δ the
theorem leaves open. For DP-SGD with q = 0.01, σ = 0.8, 1000 steps and δ = 1e-5 the truth is ε = 3.14, the estimate
2.51.

>>> round(estimate_dpsgd_mu(rate=0.01, noise_multiplier=0.8, steps=1000), 3)
0.614
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.guarantees import TradeOff
from deniable.numerics import normal


@dataclass(frozen=True)
class Moments:
    """kl, κ₂ and the centred third absolute moment κ̄₃ of a trade-off function: moments of the loss."""

    kl: float
    second: float
    third: float


def moments_of(function: TradeOff) -> Moments:
    """The moments of a piecewise linear trade-off function, exactly up to rounding; infinite when f(0) < 1.

    −f′ is the ratio q/p on a segment of length p, so kl = Σ p·ln(p/q), the divergence of the first law from the second.
    """
    if any(p == 0 or q == 0 for p, q in function.atoms):
        return Moments(math.inf, math.inf, math.inf)
    losses = [(float(p), math.log(p / q)) for p, q in function.atoms]
    kl = math.fsum(p * loss for p, loss in losses)
    second = math.fsum(p * loss * loss for p, loss in losses)
    third = math.fsum(p * abs(loss - kl) ** 3 for p, loss in losses)
    return Moments(kl, second, third)


def gaussian_moments(mu: float) -> Moments:
    """G_μ: kl = μ²/2, κ₂ = μ² + μ⁴/4, κ̄₃ = μ³·√(8/π)."""
    return Moments(mu * mu / 2, mu * mu + mu**4 / 4, mu**3 * math.sqrt(8 / math.pi))


def estimate_mu(parts: Sequence[tuple[Moments, int]]) -> float:
    """μ ≈ 2Σkl/√(Σκ₂ − Σkl²) for parts with counts. An estimate; exact for Gaussians."""
    if not parts:
        raise InvalidArgument("parts", parts, "one part or more")
    drift = math.fsum(_checks.count("count", n) * m.kl for m, n in parts)
    spread = math.fsum(n * (m.second - m.kl * m.kl) for m, n in parts)
    if not math.isfinite(drift) or (spread <= 0 < drift):
        return math.inf
    return 2 * drift / math.sqrt(spread) if drift else 0.0


def berry_esseen_gap(parts: Sequence[tuple[Moments, int]]) -> float:
    """γ = 0.56·Σκ̄₃/(Σκ₂ − Σkl²)^{3/2}: the composition lies between G_μ(α + γ) − γ and G_μ(α − γ) + γ.

    For γ < ½ and γ ≤ α ≤ 1 − γ (Dong–Roth–Su 2019, Theorem 3.4). A statement about δ needs δ ≥ γ ~ 1/√k: useless for
    small δ.
    """
    spread = math.fsum(n * (m.second - m.kl * m.kl) for m, n in parts)
    return 0.56 * math.fsum(n * m.third for m, n in parts) / spread**1.5 if spread > 0 else math.inf


def estimate_epsilon(mu: float, *, delta: Number) -> float:
    """The ε of μ-GDP at a δ, for an estimated μ. An estimate."""
    if not mu >= 0:
        raise InvalidArgument("mu", mu, "a number that is 0 or more")
    allowed = float(_checks.inner_probability("delta", delta))
    return math.inf if math.isinf(mu) else normal.epsilon_bracket(mu, allowed).upper


def estimate_pure_mu(*, epsilon: Number, count: int) -> float:
    """2√k·sinh(ε/2) for k steps of ε-DP: randomized response has kl = ε·tanh(ε/2), κ₂ = ε². An estimate, about ε√k."""
    cost, times = float(_checks.nonnegative("epsilon", epsilon)), _checks.count("count", count)
    return 2 * math.sqrt(times) * math.sinh(cost / 2) if cost < 1400 else math.inf


def estimate_dpsgd_mu(*, rate: Number, noise_multiplier: Number, steps: int) -> float:
    """q·√(T(e^{1/s²} − 1)): Poisson sampling, ADD_REMOVE (Bu–Dong–Long–Su 2020). An estimate."""
    q, s = float(_checks.rate("rate", rate)), float(_checks.positive("noise_multiplier", noise_multiplier))
    times = _checks.count("steps", steps)
    if 1 / (s * s) > 700:
        return math.inf
    return q * math.sqrt(times * math.expm1(1 / (s * s)))


def estimate_dpsgd_batch_mu(*, batch: int, size: int, mu: Number, steps: int) -> float:
    """√2·c·√(e^{μ²}Φ(3μ/2) + 3Φ(−μ/2) − 2), c = (m/n)√T: uniform batches, REPLACE, each step μ-GDP. An estimate.

    Dong–Roth–Su 2019, section 5 (the limit for NoisySGD). The √2 belongs to it, and the root covers the whole bracket.
    """
    from scipy.special import ndtr

    drawn, people = _checks.count("batch", batch), _checks.count("size", size)
    step = float(_checks.positive("mu", mu))
    if drawn > people:
        raise InvalidArgument("batch", batch, f"at most size= {people}")
    if step * step > 700:
        return math.inf
    share = drawn / people * math.sqrt(_checks.count("steps", steps))
    inside = math.exp(step * step) * float(ndtr(1.5 * step)) + 3 * float(ndtr(-0.5 * step)) - 2
    return math.sqrt(2) * share * math.sqrt(max(inside, 0.0))
