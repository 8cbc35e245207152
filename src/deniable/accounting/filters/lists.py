"""The fixed list of filters that a budget is kept by.

A `SumFilter` is one filter: it adds up one number of every event and accepts while the total stays within its limit. A
`Family` is a list of sums that share one split of every event (see `costs`), a cap on the events' own δ, and a share of
the budget's δ for each conversion. A family certifies (ε, cap + sum of its shares); a list of families certifies
(ε, sum over families); `docs/ledger.md` has the proof. Limits and shares are computed once, when a ledger is created,
and stored with it.

How an (ε, δ) budget divides its δ: half is the cap of the basic filter, which needs no share; an eighth each goes to
the Gaussian filter, the zCDP filter, all Rényi orders together, and the events' own δ beside zCDP and Rényi. A request
that comes first and does not fit so may choose the basic filter alone with all of δ: the choice is made before anything
is known about the data.

>>> from deniable.guarantees import ApproxDP, PureDP
>>> [family.name for family in filters_for(ApproxDP(3, 1e-6)).families]
['basic', 'gaussian', 'concentrated']
>>> filters_for(PureDP(1)).families[0].sums[0].limit
Fraction(1, 1)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from deniable._checks import read_fraction
from deniable.conversions.formulas import (
    gaussian_keeps,
    gaussian_limit,
    renyi_limit,
    rho_keeps,
    rho_limit,
)
from deniable.errors import InvalidArgument, NotSupported
from deniable.guarantees import GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP

Kind = Literal["epsilon", "rho", "renyi", "truncated", "mu_squared"]
"""What a sum adds up. `truncated` is ρ for orders below `order`."""


@dataclass(frozen=True)
class SumFilter:
    """One filter: a total of one number, and the limit it must stay within."""

    kind: Kind
    limit: Fraction
    share: Fraction = Fraction(0)
    order: Fraction | None = None


@dataclass(frozen=True)
class Family:
    """Sums over one split of every event; `cap` bounds the total of the events' own δ."""

    name: str
    sums: tuple[SumFilter, ...]
    cap: Fraction = Fraction(0)

    @property
    def delta(self) -> Fraction:
        """The δ that this family certifies."""
        return self.cap + sum((s.share for s in self.sums), Fraction(0))

    @property
    def orders(self) -> tuple[Fraction, ...]:
        """The Rényi orders among the sums, in their order."""
        return tuple(s.order for s in self.sums if s.kind == "renyi" and s.order is not None)


@dataclass(frozen=True)
class Filters:
    """The families of one budget, and the family that a first request may choose instead of them."""

    families: tuple[Family, ...]
    alone: Family | None = None

    @property
    def delta(self) -> Fraction:
        """The δ that is certified, whichever way the first request chose."""
        listed = sum((f.delta for f in self.families), Fraction(0))
        return listed if self.alone is None else max(listed, self.alone.delta)

    def to_plain(self) -> dict[str, Any]:
        """As JSON: fractions are strings."""
        families = [_plain_family(f) for f in self.families]
        return {"families": families, "alone": None if self.alone is None else _plain_family(self.alone)}

    @staticmethod
    def from_plain(found: dict[str, Any]) -> Filters:
        """What `to_plain` wrote."""
        alone = found["alone"]
        return Filters(tuple(map(_built_family, found["families"])), None if alone is None else _built_family(alone))


def basic(budget: PureDP | ApproxDP) -> Filters:
    """The basic filter alone, with all of δ for the events' own: Σε ≤ ε and Σδ ≤ δ."""
    delta = budget.delta if isinstance(budget, ApproxDP) else Fraction(0)
    return Filters((_basic(budget.epsilon, delta),))


def filters_for(budget: Guarantee) -> Filters:
    """The list for a budget of any kind. Its numbers must be within what floats hold: limits are found by them."""
    _check_size(budget)
    match budget:
        case PureDP():
            return basic(budget)
        case ApproxDP(epsilon=epsilon, delta=delta):
            if not delta or not epsilon or delta == 1:
                return basic(budget)
            return Filters(tuple(_families(epsilon, delta)), alone=_basic(epsilon, delta))
        case ZCDP(rho=rho):
            return Filters((Family("zCDP", (SumFilter("rho", rho),)),))
        case ApproxZCDP(rho=rho, delta=delta):
            return Filters((Family("approximate zCDP", (SumFilter("rho", rho),), cap=delta),))
        case TCDP(rho=rho, omega=omega):
            return Filters((Family("tCDP", (SumFilter("truncated", rho, order=omega),)),))
        case RDP(order=order, epsilon=epsilon):
            return Filters((Family("Rényi", (SumFilter("renyi", epsilon, order=order),)),))
        case GDP(mu=mu):
            return Filters((Family("gaussian", (SumFilter("mu_squared", mu * mu),)),))
    raise NotSupported(f"a ledger cannot hold a budget of kind {type(budget).__name__}; use PureDP, ApproxDP or ZCDP.")


def _check_size(budget: Guarantee) -> None:
    for name, value in vars(budget).items():
        if isinstance(value, Fraction) and value and not 1 / _FARTHEST <= value <= _FARTHEST:
            raise InvalidArgument(name, value, "a number between 1e-300 and 1e300, for a budget")


def certify(filters: Filters, budget: Guarantee) -> None:
    """Refuse filters that do not keep a budget, wherever they come from: every limit, share and cap is proved again.

    >>> certify(filters_for(PureDP(1)), PureDP(2))
    >>> certify(filters_for(PureDP(2)), PureDP(1))
    Traceback (most recent call last):
    ...
    deniable.errors.InvalidArgument: filters must be filters that keep the budget; got filters='basic'.
    """
    delta = budget.delta if isinstance(budget, ApproxDP | ApproxZCDP) else Fraction(0)
    families = filters.families if filters.alone is None else (*filters.families, filters.alone)
    for family in families:
        # These two sums split events in their own way, so neither shares a family with another.
        single = not isinstance(budget, ApproxDP) or any(s.kind in ("epsilon", "mu_squared") for s in family.sums)
        counted = len(family.sums) == 1 if single else bool(family.sums)
        if not counted or family.cap < 0 or not all(_keeps(each, budget) for each in family.sums):
            raise InvalidArgument("filters", family.name, "filters that keep the budget")
    several = isinstance(budget, ApproxDP)
    if not filters.families or filters.delta > delta or (len(families) > 1 and not several):
        raise InvalidArgument("filters", "...", "filters that keep the budget, with its δ and no more")


def _keeps(each: SumFilter, budget: Guarantee) -> bool:
    """Whether a sum within its limit, with its share of δ, keeps the budget's promise but for the events' own δ."""
    if each.share < 0 or each.limit < 0:
        return False
    match each.kind, budget:
        case "epsilon", PureDP(epsilon=epsilon) | ApproxDP(epsilon=epsilon):
            return each.limit <= epsilon
        case "rho", ZCDP(rho=rho) | ApproxZCDP(rho=rho):
            return each.limit <= rho
        case "truncated", TCDP(rho=rho, omega=omega):
            return each.limit <= rho and each.order == omega
        case "renyi", RDP(order=order, epsilon=epsilon):
            return each.limit <= epsilon and each.order == order
        case "mu_squared", GDP(mu=mu):
            return each.limit <= mu * mu
    if not isinstance(budget, ApproxDP) or not each.share:
        return False
    match each:
        case SumFilter(kind="rho", order=None):
            return rho_keeps(each.limit, budget.epsilon, each.share)
        case SumFilter(kind="mu_squared", order=None):
            return gaussian_keeps(each.limit, budget.epsilon, each.share)
        case SumFilter(kind="renyi", order=Fraction() as order):
            return order > 1 and each.limit <= renyi_limit(budget.epsilon, each.share, order)
    return False


def _basic(epsilon: Fraction, cap: Fraction) -> Family:
    return Family("basic", (SumFilter("epsilon", epsilon),), cap=cap)


def _families(epsilon: Fraction, delta: Fraction) -> Iterable[Family]:
    """The families of an (ε, δ) budget with 0 < δ < 1."""
    yield _basic(epsilon, delta / 2)
    part = delta / 8
    mu_squared = gaussian_limit(epsilon, part)
    if mu_squared > 0:
        yield Family("gaussian", (SumFilter("mu_squared", mu_squared, share=part),))
    sums = [SumFilter("rho", rho_limit(epsilon, part), share=part)]
    orders = renyi_orders(epsilon, part)
    each = part / len(orders)
    sums += [SumFilter("renyi", renyi_limit(epsilon, each, order), share=each, order=order) for order in orders]
    useful = tuple(s for s in sums if s.limit > 0)
    if useful:
        yield Family("concentrated", useful, cap=part)


def renyi_orders(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, ...]:
    """Four whole orders, a factor 2 apart, around 1 + 2 ln(1/δ)/ε, where Gaussian-like steps convert best."""
    best = 1 + 2 * _log2(1 / delta) * Fraction(7, 10) / epsilon
    found = (round(best * factor) for factor in (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4)))
    return tuple(sorted({Fraction(min(max(order, 2), MOST)) for order in found}))


_FARTHEST = Fraction(10**300)
"""Of the numbers of a budget."""
MOST = 4096
"""The highest order that is used: the binomial sum of the sampled Gaussian has that many terms."""


def _log2(x: Fraction) -> Fraction:
    """About log₂ x; the orders need no more."""
    return Fraction(x.numerator.bit_length() - x.denominator.bit_length())


def _plain_family(family: Family) -> dict[str, Any]:
    sums = [
        {
            "kind": s.kind,
            "limit": str(s.limit),
            "share": str(s.share),
            "order": None if s.order is None else str(s.order),
        }
        for s in family.sums
    ]
    return {"name": family.name, "cap": str(family.cap), "sums": sums}


def _built_family(found: dict[str, Any]) -> Family:
    sums = tuple(
        SumFilter(
            s["kind"],
            read_fraction(s["limit"]),
            read_fraction(s["share"]),
            None if s["order"] is None else read_fraction(s["order"]),
        )
        for s in found["sums"]
    )
    return Family(found["name"], sums, read_fraction(found["cap"]))
