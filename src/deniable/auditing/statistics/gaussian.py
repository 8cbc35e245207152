"""GDP: one number, μ, from the whole trade-off curve (Nasr et al. 2023).

μ-GDP implies Φ⁻¹(1 − FPR) − Φ⁻¹(FNR) ≤ μ, so with both *upper* ends of the errors the left side is a lower bound on μ:
the mechanism is not μ′-GDP for any smaller μ′. That needs no assumption. Reading an ε off it does: that the mechanism's
curve is Gaussian. It says something even where δ exceeds the observed error, and far more with few runs.

>>> notes = Counts(true_positives=4922, positives=100_000, false_positives=174, negatives=100_000)
>>> mu = mu_lower(notes, confidence=1 - 1e-10).value
>>> round(mu, 4), round(gdp_epsilon(mu, delta=1e-5), 2), round(claimed_mu(0.21, 1e-5), 4)
(1.0806, 4.79, 0.0641)
"""

from __future__ import annotations

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.statistics.clopper_pearson import error_rates
from deniable.auditing.statistics.counts import FIXED, Bound, Counts
from deniable.conversions import gaussian_claim_to_gdp
from deniable.guarantees import ApproxDP
from deniable.numerics.normal import epsilon_bracket


def mu_lower(counts: Counts, *, confidence: Number = 0.95) -> Bound:
    """The mechanism is not μ-GDP for any μ below this, with the stated confidence."""
    from scipy import stats

    level = float(1 - _checks.inner_probability("confidence", confidence))
    false_positive, false_negative = error_rates(counts, level=level)
    value = max(0.0, float(stats.norm.isf(false_positive) - stats.norm.ppf(false_negative)))
    return Bound(value, True, f"μ ≥ {value:.4f} but for a chance of {level:.2g}", FIXED)


def gdp_epsilon(mu: float, *, delta: Number) -> float:
    """ε at δ of exactly μ-GDP, the lower end: what a bound on μ means *if* the mechanism's curve is Gaussian."""
    return epsilon_bracket(float(_checks.nonnegative("mu", mu)), float(_checks.probability("delta", delta))).lower


def claimed_mu(epsilon: Number, delta: Number) -> float:
    """The μ of a Gaussian claim that was stated as (ε, δ)."""
    return float(gaussian_claim_to_gdp(ApproxDP(epsilon, delta)).mu)
