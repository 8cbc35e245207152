"""Sampling almost the right law, and what it costs: a little more μ.

*Lemma.* Let P̃ and P̃′ be the laws of a μ-GDP mechanism on neighbours, and let P and P′ be as close to them as
e^{−c} ≤ P/P̃ ≤ e^{c}, and likewise for P′, at every output. If c ≤ μ/20 and c ≤ μ²/40, then P against P′ is μ′-GDP for
every μ′ ≤ 2μ with μ′ ≥ μ + 6c·e^{μ′²/8}.

*Proof.* For ε ≥ 0, P(S) − e^ε P′(S) ≤ e^c(P̃(S) − e^{ε−2c}P̃′(S)), so the curve of the pair is at most e^c δ_μ(ε − 2c),
with δ_μ(ε) = Φ(−u) − e^ε Φ(−u − μ), u = ε/μ − μ/2. Write t = ε − 2c and u_t = t/μ − μ/2. δ_μ is convex in ε with
slope −e^ε Φ(−u − μ), and e^c − 1 ≤ 2c, so

    e^c δ_μ(t) − δ_μ(ε)  ≤  2c δ_μ(t) + 2c e^t Φ(−u_t − μ)  =  2c Φ(−u_t).

On the other side ∂δ_μ/∂μ = φ(u), so δ_μ′(ε) − δ_μ(ε) = ∫ φ(ε/s − s/2) ds over s from μ to μ′ = μ(1 + η). Both orders of
every pair of neighbours are meant, so ε ≥ 0 is enough (Dong–Roth–Su 2019, Prop. 2.12), and u ≥ −μ/2.

- u < μ′/2: for such s, −μ′/2 ≤ ε/s − s/2 ≤ μ′/2, so the integral is at least μη φ(μ′/2) ≥ 2c.
- u ≥ μ′/2: the argument ε/s − s/2 falls from u and stays above −μ/4, so the integrand is never below φ(u). From the
  middle on, s ≥ μ(1 + η/2), it is at most u(1 − η/3). Where uη/3 ≥ 2c/μ that is at most u_t, and u_t ≥ μ/4, so the
  upper half of the integral is at least (μη/2)φ(u_t). Elsewhere φ(u) ≥ e^{−12c²/(μ²η)}φ(u_t) ≥ 0.9 φ(u_t), because
  μη ≥ 6c and c ≤ μ/20. In either case the integral is at least 0.45 μη φ(u_t) ≥ 2.7c φ(u_t), and Φ(−u_t) ≤ 1.26 φ(u_t)
  for u_t ≥ 0. ∎ (That c ≤ 1, which e^c − 1 ≤ 2c needs, follows from μ′ ≤ 2μ.)

Integer noise is such a law (`privacy`), and so is a sampler whose density is known up to rounding (`exponential`).

>>> enlarged(0.5, 1e-9) - 0.5 < 1e-8
True
"""

from __future__ import annotations

import math

from deniable.errors import InvalidArgument


def enlarged(mu: float, closeness: float) -> float:
    """The μ′ of a mechanism that is within e^{±closeness} of a μ-GDP one at every output, rounded up."""
    if not 0 < mu <= 50:
        raise InvalidArgument("mu", mu, "above 0 and at most 50", "Choose a smaller epsilon; this one protects nobody.")
    if not 0 <= closeness <= min(mu / 20, mu * mu / 40):
        raise InvalidArgument("closeness", closeness, f"between 0 and min(mu/20, mu²/40) for mu={mu:g}")
    # Once around μ′ = μ + 6c·e^{μ′²/8}, from above: what comes out is enough if it is no more than what went in.
    start = min(2 * mu, (mu + 12 * closeness * math.exp(mu * mu / 8)) * (1 + 1e-12))
    found = (mu + 6 * closeness * math.exp(min(start * start / 8, 700.0))) * (1 + 1e-15)
    if not found <= start or start > 70:
        raise InvalidArgument("closeness", closeness, f"far smaller at mu={mu:g}")
    return found
