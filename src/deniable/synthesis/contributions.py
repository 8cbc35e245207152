"""How far one unit moves a marginal, what noise that needs, and which ε and δ a release is calibrated to.

A unit adds at most m rows (`counting`). Let x be what it adds to the cells of one marginal, as a vector: x ≥ 0 and its
entries add up to at most m. Two neighbours differ by x when a unit is added, removed or blanked out, and by x − y when
one is replaced. Norms are convex, so they are largest at the corners of these sets, where all m rows share a cell:

| | added, removed, blanked out | replaced |
|---|---|---|
| L1 of a marginal | m | 2m |
| L2² of a marginal | m² | 2m² |

A residual (`residuals`) is a linear image C of a marginal, and the same corners decide: C·m·e_a, or C·m·(e_a − e_b).

Discrete Gaussian noise of variance σ² on whole numbers of L2 sensitivity D costs ρ = D²/(2σ²) of zCDP (Canonne, Kamath
and Steinke 2020, Theorem 4), the exponential mechanism with parameter ε costs ρ = ε²/8 (Cesar and Rogers 2021). Costs
in zCDP add up, also where a step is chosen by what earlier steps released, as long as their sum stays within a number
that was fixed beforehand (Whitehouse, Ramdas, Rogers and Wu 2023). That number is what `Claimed(ZCDP(ρ))` charges.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from deniable import _checks
from deniable._checks import Number
from deniable._remedies import example
from deniable.calibration import calibrate
from deniable.errors import InvalidArgument, QueryError
from deniable.events import Claimed, Event, Gaussian
from deniable.guarantees import ZCDP, ApproxDP, ApproxZCDP
from deniable.numerics.exact import short_above, short_below
from deniable.query.planning import PlanningContext
from deniable.units import Relation

_SMALLEST = Fraction(1, 10**6)
"""An ε below this would need noise that no table shows through."""


@dataclass(frozen=True)
class UnitContribution:
    """At most this many rows of one unit, under a relation."""

    rows: int
    relation: Relation

    @property
    def replaced(self) -> bool:
        """Whether a neighbour has another unit in the place of one."""
        return self.relation is Relation.REPLACE

    @property
    def l1(self) -> int:
        """How far one unit moves a marginal in L1."""
        return 2 * self.rows if self.replaced else self.rows

    @property
    def l2_squared(self) -> int:
        """How far one unit moves a marginal in L2, squared."""
        return 2 * self.rows**2 if self.replaced else self.rows**2

    def rho(self, variance: Fraction) -> Fraction:
        """What measuring one marginal with noise of this variance costs."""
        return Fraction(self.l2_squared) / (2 * variance)

    def variance(self, rho: Fraction) -> Fraction:
        """The variance of the noise that a marginal needs, rounded up to a short decimal."""
        return short_above(Fraction(self.l2_squared) / (2 * rho))


def read_target(epsilon: Number | None, delta: Number | None, context: PlanningContext) -> ApproxDP:
    """The ε and δ that a release is calibrated to; δ is the ledger's if it is not given."""
    if epsilon is None:
        raise InvalidArgument("epsilon", None, "given", example("epsilon", 1.0))
    exact = _checks.positive("epsilon", epsilon, remedy=example("epsilon", 1.0))
    if exact < _SMALLEST:
        raise InvalidArgument("epsilon", epsilon, f"at least {float(_SMALLEST):g}", example("epsilon", 1.0))
    if delta is not None:
        share = _checks.inner_probability("delta", delta, remedy=example("delta", 1e-9))
    else:
        left = getattr(context.ledger, "budget", None) or context.ledger.remaining(who=context.who)
        if not isinstance(left, ApproxDP | ApproxZCDP) or not left.delta:
            raise QueryError(
                "Gaussian noise needs a δ, and this ledger has none; give delta=1e-9, or use a ledger whose "
                "budget has a δ"
            )
        share = left.delta
    ledger = context.ledger
    return ApproxDP(exact, share, relation=ledger.relation, unit=ledger.unit)


@lru_cache(maxsize=256)
def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ρ, to five digits, of which ρ-zCDP proves (ε, δ)-DP."""

    def event(rho: float) -> Event:
        return Claimed(ZCDP(short_below(rho, figures=5)))

    return short_below(calibrate(event, ApproxDP(epsilon, delta), tolerance=1e-5).value, figures=5)


@lru_cache(maxsize=256)
def least_scale(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The least standard deviation, to five digits, with which Gaussian noise on sensitivity 1 is (ε, δ)-DP."""

    def event(scale: float) -> Event:
        return Gaussian(short_above(scale, figures=5))

    return short_above(calibrate(event, ApproxDP(epsilon, delta), tolerance=1e-5).value, figures=5)
