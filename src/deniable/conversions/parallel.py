"""Parallel composition: different mechanisms on disjoint parts of the data.

A function of the unit alone, fixed without looking at the data, decides the part of a unit, and mechanism i sees only
part i. Under ADD_REMOVE one unit touches one part, so the worst part counts (McSherry 2009, Theorem 4). Under REPLACE a
unit may change inside one part, or leave part i and enter part j. The worse of the two cases counts; the second adds up
the *add/remove* promises of the two largest parts.

>>> from deniable.guarantees import PureDP
>>> from deniable.units import Relation
>>> parts = [PureDP(1), PureDP(0.5)]
>>> parallel(parts)
PureDP(epsilon=1)
>>> parallel_under_replace(parts, [PureDP(1.2, relation=Relation.REPLACE), PureDP(0.5, relation=Relation.REPLACE)])
PureDP(epsilon=1.5, relation=REPLACE)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

from deniable.errors import InvalidArgument, NoConversion
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, Guarantee, PureDP, TradeOff
from deniable.guarantees.tradeoff import lower_hull
from deniable.numerics.exact import root_above
from deniable.units import Relation, one_relation, one_unit, single

Kind = TypeVar("Kind", bound=Guarantee)


def parallel(parts: Sequence[Kind]) -> Kind:
    """The promise of mechanisms on disjoint parts, ADD_REMOVE or ZERO_OUT: the worst of them. Exact for pure DP."""
    first = _check_alike(parts)
    if first.relation is Relation.REPLACE:
        raise NoConversion(
            "under REPLACE a unit may leave one part and enter another, so the replace promises of the parts are not"
            " enough. Use parallel_under_replace with their add/remove promises as well."
        )
    return _worst(parts)


def parallel_under_replace(add_remove: Sequence[Kind], replaced: Sequence[Kind]) -> Kind:
    """The promise under REPLACE, from both promises of every part. Upper bound."""
    moved, inside = _check_alike(add_remove), _check_alike(replaced)
    if moved.relation is not Relation.ADD_REMOVE or inside.relation is not Relation.REPLACE:
        raise InvalidArgument("parts", code_of(add_remove, replaced), "ADD_REMOVE promises, then REPLACE promises")
    if type(moved) is not type(inside) or len(add_remove) != len(replaced):
        raise InvalidArgument("parts", code_of(add_remove, replaced), "two promises of one kind for every part")
    worst = _worst(replaced)
    if len(add_remove) == 1:
        return worst
    between: Kind = _TWO_LARGEST[type(moved)](add_remove)
    return _worst([worst, replace(between, relation=Relation.REPLACE)])


def code_of(*groups: Sequence[Guarantee]) -> str:
    """Promises as code, for a message."""
    return "; ".join(", ".join(map(repr, group)) for group in groups)


def _check_alike(parts: Sequence[Kind]) -> Kind:
    """The first of the parts, all of one kind, relation, unit and, for RDP, order."""
    if not parts:
        raise InvalidArgument("parts", parts, "one promise or more")
    first = parts[0]
    single(first.unit, doing="split")
    for part in parts[1:]:
        if type(part) is not type(first):
            raise InvalidArgument("parts", code_of(parts), "promises of one kind")
        one_relation(first.relation, part.relation, doing="compose")
        one_unit(first.unit, part.unit, doing="compose")
        if isinstance(first, RDP) and isinstance(part, RDP) and part.order != first.order:
            raise InvalidArgument("parts", code_of(parts), "promises at one order")
    if type(first) not in _TWO_LARGEST:
        raise NoConversion(f"there is no parallel rule for {type(first).__name__}")
    return first


def _worst(parts: Sequence[Kind]) -> Kind:
    """The weakest promise that all parts keep."""
    first = parts[0]
    if isinstance(first, FDP):
        corners = [corner for part in parts if isinstance(part, FDP) for corner in _both_orders(part).corners]
        return replace(first, tradeoff=TradeOff(lower_hull(corners)))
    numbers: dict[str, Any] = {name: max(part.numbers[name] for part in parts) for name in first.numbers}
    if isinstance(first, TCDP):
        numbers["omega"] = min(part.numbers["omega"] for part in parts)
    return replace(first, **numbers)


def _both_orders(part: FDP) -> TradeOff:
    return part.tradeoff.symmetrized()


def _sum_of_two(parts: Sequence[Any], name: str) -> Fraction:
    return sum(sorted((part.numbers[name] for part in parts), reverse=True)[:2], Fraction(0))


def _two_pure(parts: Sequence[PureDP]) -> PureDP:
    return replace(parts[0], epsilon=_sum_of_two(parts, "epsilon"))


def _two_approx(parts: Sequence[ApproxDP]) -> ApproxDP:
    delta = min(_sum_of_two(parts, "delta"), Fraction(1))
    return replace(parts[0], epsilon=_sum_of_two(parts, "epsilon"), delta=delta)


def _two_zcdp(parts: Sequence[ZCDP]) -> ZCDP:
    return replace(parts[0], rho=_sum_of_two(parts, "rho"))


def _two_tcdp(parts: Sequence[TCDP]) -> TCDP:
    return replace(parts[0], rho=_sum_of_two(parts, "rho"), omega=min(part.omega for part in parts))


def _two_rdp(parts: Sequence[RDP]) -> RDP:
    return replace(parts[0], epsilon=_sum_of_two(parts, "epsilon"))


def _two_gdp(parts: Sequence[GDP]) -> GDP:
    squares = sorted((part.mu**2 for part in parts), reverse=True)[:2]
    return replace(parts[0], mu=root_above(sum(squares, Fraction(0))))


def _two_fdp(parts: Sequence[FDP]) -> FDP:
    raise NoConversion(
        "leaving part i and entering part j composes two trade-off functions; compose them with"
        " textbook.compose_fdp and take the lowest, or state the parts as PureDP, ZCDP or GDP."
    )


_TWO_LARGEST: dict[type[Guarantee], Callable[[Any], Any]] = {
    PureDP: _two_pure,
    ApproxDP: _two_approx,
    ZCDP: _two_zcdp,
    TCDP: _two_tcdp,
    RDP: _two_rdp,
    GDP: _two_gdp,
    FDP: _two_fdp,
}
