"""What an attacker can come to believe, in numbers that are rounded against us.

With prior odds o and loss L, the posterior odds are o·e^L. Pure ε bounds L for every output. A curve with δ > 0 bounds
it for all but a stated share of the outputs (`Profile.posterior`). For Gaussian noise itself the quantile of
L ~ N(μ²/2, μ²) is exact, and smaller. It may not be quoted for everything that promises μ-GDP: merging outputs can
raise the chance that L exceeds a level, though it can raise no δ(ε).

>>> from deniable.accounting import account
>>> from deniable.events import Claimed, Gaussian
>>> from deniable.guarantees import GDP, PureDP
>>> [f"{b.most:.3f}" for b in beliefs(account(Claimed(PureDP(1))), prior=0.1, own=False)]
['0.232', '0.232', '0.232', '0.232']
>>> [f"{b.most:.3f}" for b in beliefs(account(Gaussian(scale=1)), prior=0.1, own=True)]
['1.000', '0.955', '0.801', '0.487']
>>> [f"{b.most:.3f}" for b in beliefs(account(Claimed(GDP(1))), prior=0.1, own=False)]
['1.000', '0.962', '0.838', '0.578']
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

from deniable import _checks
from deniable._checks import Number
from deniable.accounting.closed import GaussianCurve
from deniable.guarantees import Profile

FAILURES = (Fraction(0), Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 20))
"""Shares of possible outputs that a bound on beliefs may leave out."""

FALSE_POSITIVES = (Fraction(1, 1000), Fraction(1, 10**5))
"""Where to look: a test that accuses few innocents says more than one that is often right (Carlini et al. 2022)."""

_SLACK = 1 + 2.0**-40
"""More than the rounding of a dozen float operations and of the standard library's normal quantile."""


class Belief(NamedTuple):
    """The most that an attacker can come to believe, but for a share `failure` of the outputs."""

    failure: Fraction
    most: float


def beliefs(profile: Profile, *, prior: Number, own: bool) -> tuple[Belief, ...]:
    """The posterior bound for each share in `FAILURES`; the exact quantile where Gaussian noise itself was added."""
    found = []
    for failure in FAILURES:
        most = profile.posterior(prior, failure=failure)
        if own and failure and isinstance(profile.curve, GaussianCurve):
            most = min(most, gaussian_posterior(profile.curve.mu_squared, prior=prior, failure=failure))
        found.append(Belief(failure, most))
    return tuple(found)


def gaussian_posterior(mu_squared: Fraction, *, prior: Number, failure: Number) -> float:
    """The posterior at the upper quantile of the loss of Gaussian noise, L ~ N(μ²/2, μ²) when the person is in."""
    chance = float(_checks.inner_probability("prior", prior))
    tail = float(_checks.inner_probability("failure", failure))
    mu = math.sqrt(mu_squared) * _SLACK
    loss = (mu * mu / 2 - mu * NormalDist().inv_cdf(tail)) * _SLACK
    return min(1.0, _SLACK / (1 + (1 - chance) / chance * math.exp(-loss)))
