"""An odometer: a running upper bound on ε that holds at every time, beside the filters, which only say when to stop.

The analyst chooses every next event in the light of all answers, and may stop whenever they like, also because of what
the odometer reads. Let P and Q be the laws of all answers on two neighbours, in either order, and let the odometer,
which is started with δ before the first event, read ε_t after round t. For every stopping time τ and every set S of
transcripts up to τ,

    P(S) ≤ E_Q[e^(ε_τ); S] + δ.

So if the run stops only where the odometer reads at most ε, all answers together are (ε, δ)-DP.

Proof. Half of δ caps the total of the events' own δ; where it is passed, the odometer reads infinity for good. As for a
family of filters (docs/ledger.md), it is enough to prove the inequality with the other half, δ′, for the good parts of
all events. For them let L_t be the loss of the first t answers, and let r_ij bound the Rényi divergence of event i at
the fixed order 1 + λ_j. It is known before round i, so, with fixed weights w_j that sum to 1,

    M_t = Σ_j w_j e^(λ_j(L_t − R_tj)),    R_tj = Σ_{i≤t} r_ij,

is a non-negative supermartingale under P that starts at 1, and E_P[M_τ] ≤ 1 (optional stopping). A term whose event has
no finite divergence is left out from then on, which only makes M smaller. The odometer reads the least ε_t for which

    1 − e^(ε_t − y) ≤ δ′ Σ_j w_j e^(λ_j(y − R_tj))    for every number y,

or Σε if that is smaller: then L_t ≤ ε_t. Either way (1 − e^(ε_τ − L_τ))_+ ≤ δ′ M_τ, and
P(S) − E_Q[e^(ε_τ); S] ≤ E_P[(1 − e^(ε_τ − L_τ))_+] ≤ δ′. ∎

With one order this is the conversion of Canonne, Kamath and Steinke 2020 (Proposition 12), at every time. The mixture
over orders replaces the choice of one order, which would have to be made beforehand. Rogers, Roth, Ullman and Vadhan
2016 define odometers; Whitehouse, Ramdas, Rogers and Wu 2023, "Fully adaptive composition in differential privacy",
build them from mixtures, for the loss itself. The curve of what happened to be charged is no odometer: a test beats it.

>>> from deniable.events import Gaussian, Laplace
>>> from deniable.accounting.filters.totals import FilterEntry
>>> odometer = Odometer.start(Fraction(1, 10**6))
>>> float(odometer.epsilon)
0.0
>>> odometer = odometer.after(FilterEntry(Laplace(scale=4)))
>>> float(odometer.epsilon)
0.25
>>> round(float(odometer.after(FilterEntry(Gaussian(scale=10)), 4).epsilon), 3)
1.254
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from deniable.accounting.filters.costs import Cost, cost, pure, unknown
from deniable.accounting.filters.totals import FilterEntry, Tally
from deniable.errors import NotSupported
from deniable.numerics.exact import log_down, log_up, short_above
from deniable.numerics.roots import border

_WHOLE = (2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 24, 30, 38, 48, 60, 76, 96, 128, 192, 256, 512, 1024)
ORDERS = (Fraction(5, 4), Fraction(3, 2), *map(Fraction, _WHOLE))
"""The orders of the mixture, each with the same weight. The Rényi divergences of samples are exact at whole ones."""
WEIGHT = Fraction(1, len(ORDERS))
_PLACES = 2**40
"""Weights of orders are searched for in floats and rounded to multiples of 1/_PLACES."""


@dataclass(frozen=True)
class Odometer:
    """The totals of everything charged so far, and the δ that was fixed before the first charge."""

    delta: Fraction
    totals: Tally

    @classmethod
    def start(cls, delta: Fraction) -> Odometer:
        """The odometer before the first event. With δ = 0 it adds up ε."""
        return cls(delta, Tally(Fraction(0), (Fraction(0),) * (1 + len(ORDERS))))

    def after(self, entry: FilterEntry, count: int = 1) -> Odometer:
        """The odometer after an event, count times."""
        step = _cost(entry)
        return Odometer(self.delta, self.totals + Tally(step.delta, (step.epsilon, *step.renyi)).times(count))

    @property
    def epsilon(self) -> Fraction | None:
        """The reading, rounded up; None where no bound is known."""
        if self.totals.delta > self.delta / 2:
            return None
        plain, *divergences = self.totals.amounts
        mixed = _mixed_epsilon(divergences, self.delta / 2) if self.delta else None
        readings = [reading for reading in (plain, mixed) if reading is not None]
        return min(readings, default=None)


def _cost(entry: FilterEntry) -> Cost:
    """What an event adds. Each event has one split into a good part and a δ; an event that has no Rényi divergences of
    its own enters at the point of its curve at which it was charged.
    """
    try:
        own = cost(entry.event, ORDERS)
    except NotSupported:
        own = unknown(ORDERS)
    if entry.at is None or any(each is not None for each in own.renyi):
        return own
    return pure(entry.at.epsilon, ORDERS, entry.at.delta)


def _mixed_epsilon(divergences: list[Fraction | None], delta: Fraction) -> Fraction | None:
    """At least the least ε with 1 − e^(ε−y) ≤ δ Σ_j w_j e^(λ_j(y − R_j)) for every y.

    For any probabilities v_j the sum is at least exp(λy − B), with λ = Σv_jλ_j and B = Σv_j(λ_jR_j + ln(v_j/w_j)), by
    Jensen's inequality; and (1 − e^−x)e^−λx is at most c = λ^λ/(1 + λ)^(1+λ). So for every choice of v
    ε = (ln c + B + ln 1/δ)/λ is enough. The best v_j are proportional to w_j e^(λ_j(y−R_j)) at the y at which the
    inequality is met, where δ Σ w_j(1 + λ_j)e^(λ_j(y−R_j)) = 1. That y is searched for in floats; a poor search could
    only cost tightness.
    """
    known = [(order - 1, amount) for order, amount in zip(ORDERS, divergences, strict=True) if amount is not None]
    if not known:
        return None
    terms = [(float(rate), float(min(amount, _FAR))) for rate, amount in known]
    goal = -float(log_down(delta * WEIGHT))

    def exponents(y: float) -> list[float]:
        return [rate * (y - amount) for rate, amount in terms]

    def reaches(y: float) -> bool:
        powers = [x + math.log1p(rate) for x, (rate, _) in zip(exponents(y), terms, strict=True)]
        top = max(powers)
        return top + math.log(math.fsum(math.exp(x - top) for x in powers)) > goal

    highest = min(amount + goal / rate for rate, amount in terms)
    parts = exponents(border(reaches, highest + 1.0)[0])
    top = max(parts)
    rounded = [round(_PLACES * math.exp(x - top)) for x in parts]
    whole = sum(rounded)
    rate, bound = Fraction(0), -log_down(delta)
    for part, (order, amount) in zip(rounded, known, strict=True):
        if part:
            share = Fraction(part, whole)
            rate += share * order
            bound += share * (order * amount + log_up(share / WEIGHT))
    bound += rate * log_up(rate) - (1 + rate) * log_down(1 + rate)
    return short_above(max(Fraction(0), bound / rate), figures=12)


_FAR = Fraction(10**300)
