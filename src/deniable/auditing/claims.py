"""What is attacked: a claim as lines P(S) ≤ e^ε Q(S) + δ that every correct mechanism obeys, in both orders.

`PureDP` and `ApproxDP` are one line. Any other guarantee, an event and a `Profile` are a curve δ(ε); a few of its lines
are taken, from ε = 0 (the total variation) to where δ is too small for runs to see. Every δ is the proven *upper* end
of the curve, so a true claim never breaks a line (Dong–Roth–Su 2019, Prop. 2.12: a trade-off function is the supremum
of its lines).

>>> from deniable.guarantees import GDP, ApproxDP
>>> Claim.of(ApproxDP(0.21, 1e-5)).lines
(Line(epsilon=0.21, delta=1e-05, orders=(True, True)),)
>>> claim = Claim.of(GDP(1))
>>> round(claim.mu, 9), len(claim.lines), round(claim.lines[0].delta, 4)
(1.0, 6, 0.3829)
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from deniable import _checks
from deniable._checks import Number
from deniable.accounting.accountant import account
from deniable.accounting.closed import GaussianCurve
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event, Noise
from deniable.guarantees import ApproxDP, Guarantee, Profile, PureDP
from deniable.numerics.rounding import above
from deniable.units import Relation, Unit

Claimable: TypeAlias = Guarantee | Event | Profile

CURVE_DELTA = 1e-5
"""Where the ε of a curve is stated when the caller names no δ."""

_SHARES = (0.4, 0.1, 0.02, 0.003)
"""Lines of a curve between ε = 0 and its tail: where δ has fallen to these shares of δ(0)."""

_APART = 0.08
"""Lines nearer than this share of the largest ε say the same."""


class Line(NamedTuple):
    """P(S) ≤ e^ε Q(S) + δ for every set S of outputs, in the orders given: P on D′ and Q on D, and the other way."""

    epsilon: float
    delta: float
    orders: tuple[bool, bool] = (True, True)


@dataclass(frozen=True)
class Claim:
    """A stated promise and the lines by which it is tested."""

    stated: Claimable
    profile: Profile
    delta: float
    lines: tuple[Line, ...]
    mu: float | None
    """The μ of a claim that is exactly Gaussian; None otherwise."""

    _epsilons: dict[float, float] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, stated: Claimable, *, delta: Number | None = None) -> Claim:
        """Read a guarantee, an event or a profile; `delta` is where ε is stated."""
        if not isinstance(stated, Guarantee | Event | Profile):
            raise InvalidArgument("claim", stated, "a guarantee, an event or a profile", "For example claim=PureDP(1).")
        read = _read.__wrapped__ if isinstance(stated, Profile) else _read  # a profile's curve may be unhashable
        return read(stated, None if delta is None else _checks.probability("delta", delta))

    @property
    def epsilon(self) -> float:
        """The claimed ε at `delta`; infinite when the claim says nothing there."""
        return self.epsilon_at(self.delta)

    def epsilon_at(self, delta: float) -> float:
        """The claimed ε at a δ. Engines are slow, audits ask again and again: answers are kept."""
        if delta not in self._epsilons:
            self._epsilons[delta] = self.profile.epsilon(delta)
        return self._epsilons[delta]

    @property
    def relation(self) -> Relation:
        """What may change between neighbours."""
        return self.profile.relation

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        return self.profile.unit

    @property
    def noise(self) -> Noise | None:
        """The additive noise that the claim describes, if it is one such event."""
        return self.stated if isinstance(self.stated, Noise) else None

    @property
    def guarantee(self) -> Guarantee:
        """The claim as a guarantee: itself, or its (ε, δ) at `delta`."""
        if isinstance(self.stated, Guarantee):
            return self.stated
        epsilon = self.epsilon
        if math.isinf(epsilon):
            raise InvalidArgument("delta", self.delta, "a δ at which the claim has a finite ε")
        return ApproxDP(math.nextafter(epsilon, math.inf), self.delta, relation=self.relation, unit=self.unit)

    def __str__(self) -> str:
        return self.profile.cost(self.delta) if not isinstance(self.stated, Guarantee) else str(self.stated)


@lru_cache(maxsize=64)
def _read(stated: Claimable, delta: Fraction | None) -> Claim:
    if isinstance(stated, Profile):
        profile = stated
    else:
        profile = account(stated if isinstance(stated, Event) else Claimed(stated))
    if delta is not None:
        at = float(delta)
    elif isinstance(stated, ApproxDP):
        at = float(stated.delta)
    else:
        at = 0.0 if math.isfinite(profile.epsilon(0)) else CURVE_DELTA
    return Claim(stated, profile, at, _lines(stated, profile), _mu(profile))


@lru_cache(maxsize=256)
def gaussian_lines(mu: float) -> tuple[Line, ...]:
    """Lines of μ-GDP."""
    return _curve_lines(Profile(GaussianCurve(Fraction(mu) ** 2), Relation.ADD_REMOVE))


def _lines(stated: Claimable, profile: Profile) -> tuple[Line, ...]:
    if isinstance(stated, PureDP):
        return (Line(float(stated.epsilon), 0.0),)
    if isinstance(stated, ApproxDP):
        return (Line(float(stated.epsilon), float(stated.delta)),)
    return _curve_lines(profile)


def _curve_lines(profile: Profile) -> tuple[Line, ...]:
    """A few lines of a curve, from ε = 0 to its tail."""
    most = profile.delta(0)
    if most == 0:
        return (Line(0.0, 0.0),)
    wanted = [most * share for share in _SHARES] + [CURVE_DELTA, 0.0]
    places = sorted(e for e in {profile.epsilon(d) for d in wanted if d < most} if math.isfinite(e))
    apart = [e for e, after in itertools.pairwise([*places, math.inf]) if after - e > _APART * places[-1]]
    return tuple(Line(e, profile.delta(e)) for e in (0.0, *apart))


def _mu(profile: Profile) -> float | None:
    """μ of a Gaussian curve, rounded up."""
    curve = profile.curve
    return above(math.sqrt(curve.mu_squared)) if isinstance(curve, GaussianCurve) else None
