"""The kinds of guarantee. Definitions hold for *both* orders of every pair of neighbours, for all sets of outputs.

With P and Q the output laws on neighbours, L = ln P/Q the loss, D_α the Rényi divergence (Mironov's scale):

| kind | promise |
|---|---|
| `PureDP(ε)` | P(S) ≤ e^ε Q(S) for every set S |
| `ApproxDP(ε, δ)` | P(S) ≤ e^ε Q(S) + δ for every set S |
| `ZCDP(ρ)` | D_α ≤ ρα for every α > 1 (Bun–Steinke 2016) |
| `ApproxZCDP(ρ, δ)` | the same after conditioning on events of probability at least 1 − δ on each side |
| `TCDP(ρ, ω)` | D_α ≤ ρα for 1 < α < ω (Bun–Dwork–Rothblum–Steinke 2018) |
| `RDP(α, ε)` | D_α ≤ ε at this one order (Mironov 2017) |
| `GDP(μ)` | no test beats the one between N(0, 1) and N(μ, 1) (Dong–Roth–Su 2019) |
| `FDP(f)` | no test has a false-negative rate below f at any false-positive rate (Dong–Roth–Su 2019) |

>>> RDP(order=8, epsilon=0.25)
RDP(order=8, epsilon=0.25)
>>> print(GDP(0.5))
μ ≤ 0.50, one record added or removed
>>> Guarantee.from_json(ApproxDP(1, 1e-6).to_json())
ApproxDP(epsilon=1, delta=1e-06)
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Self

from deniable import _checks
from deniable._checks import Number, shown
from deniable._forms import Plain, plain_number
from deniable._notebook import Shown
from deniable._signatures import public
from deniable.errors import InvalidArgument
from deniable.guarantees.printing import cost_line, figures, rounded_up, small
from deniable.guarantees.reading import parse, read_form
from deniable.guarantees.tradeoff import TradeOff
from deniable.numerics.rounding import typed_above
from deniable.units import RECORD, AnyRelation, Relation, Unit, change_text, one_relation, one_unit


@dataclass(frozen=True, init=False, eq=True, repr=False)
class Guarantee(Shown, Plain):
    """What is promised, to whom. Subclasses hold the numbers, which are exact fractions."""

    relation: Relation
    unit: Unit

    def _store(self, *, relation: AnyRelation, unit: Unit | str, **numbers: Any) -> None:
        """Set the fields of a frozen guarantee, once, from its constructor."""
        for name, value in (*numbers.items(), ("relation", Relation.of(relation)), ("unit", Unit.of(unit))):
            object.__setattr__(self, name, value)

    @property
    def numbers(self) -> dict[str, Any]:
        """The parameters alone, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("relation", "unit")}

    @property
    def figures(self) -> str:
        """ "ε = 0.5, δ = 1e-6": the numbers as one would type them, cut downwards when long."""
        return figures(self.numbers)

    @property
    def neighbours(self) -> str:
        """ "one patient added or removed"."""
        return change_text(self.unit, self.relation)

    def about(self, unit: Unit | str) -> Self:
        """The same promise, said of a named unit."""
        return replace(self, unit=self.unit.named(unit, doing="restate"))

    def to_dict(self) -> dict[str, Any]:
        numbers = {name: _plain(value) for name, value in self.numbers.items()}
        unit = {} if self.unit == RECORD else {"unit": self.unit.plain}
        return {"kind": type(self).__name__, **numbers, "relation": self.relation.value, **unit}

    @staticmethod
    def kinds() -> dict[str, type[Guarantee]]:
        """Every kind of guarantee by its name."""
        return {kind.__name__: kind for kind in Guarantee.__subclasses__()}

    @staticmethod
    def from_dict(form: dict[str, Any]) -> Guarantee:
        """The guarantee that `to_dict` described."""
        guarantee = read_form(form, {**Guarantee.kinds(), "TradeOff": TradeOff})
        if not isinstance(guarantee, Guarantee):
            raise InvalidArgument("text", "…", "a guarantee's JSON, as guarantee.to_json() writes it")
        return guarantee

    @staticmethod
    def from_json(text: str) -> Guarantee:
        """The guarantee that `to_json` wrote."""
        return Guarantee.from_dict(parse(text, what="a guarantee's JSON, as guarantee.to_json() writes it"))

    def __le__(self, other: object) -> bool:
        """At most the other's cost, in every number. Only guarantees of one kind, unit and relation compare."""
        if not isinstance(other, Guarantee) or type(other) is not type(self):
            return NotImplemented
        one_relation(self.relation, other.relation, doing="compare")
        one_unit(other.unit, self.unit, doing="compare")
        return self._costs_at_most(other)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Guarantee) or type(other) is not type(self):
            return NotImplemented
        return self <= other and not other <= self

    def _costs_at_most(self, other: Self) -> bool:
        mine, theirs = self.numbers, other.numbers
        return all(mine[name] <= theirs[name] for name in mine)

    def __repr__(self) -> str:
        parts = [f"{n}={shown(v) if isinstance(v, Fraction) else repr(v)}" for n, v in self.numbers.items()]
        if self.relation is not Relation.ADD_REMOVE:
            parts.append(f"relation={self.relation.name}")
        if self.unit != RECORD:
            name = self.unit.column or self.unit.noun
            parts.append(f"unit={(name if self.unit.members == 1 else self.unit)!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _plain(value: Any) -> Any:
    """A number that has no short decimal is rounded up, so that no promise reads as a stronger one."""
    if isinstance(value, Plain):
        return value.to_dict()
    number = plain_number(value)
    return typed_above(value) if isinstance(number, str) else number


@dataclass(frozen=True, init=False, repr=False)
class PureDP(Guarantee):
    """ε-differential privacy."""

    epsilon: Fraction

    @public
    def __init__(
        self, epsilon: Number, *, relation: AnyRelation = Relation.ADD_REMOVE, unit: Unit | str = RECORD
    ) -> None:
        self._store(epsilon=_checks.nonnegative("epsilon", epsilon), relation=relation, unit=unit)

    def __str__(self) -> str:
        return cost_line(self.epsilon, 0, self.neighbours)


@dataclass(frozen=True, init=False, repr=False)
class ApproxDP(Guarantee):
    """(ε, δ)-differential privacy."""

    epsilon: Fraction
    delta: Fraction

    @public
    def __init__(
        self, epsilon: Number, delta: Number, *, relation: AnyRelation = Relation.ADD_REMOVE, unit: Unit | str = RECORD
    ) -> None:
        self._store(
            epsilon=_checks.nonnegative("epsilon", epsilon),
            delta=_checks.probability("delta", delta),
            relation=relation,
            unit=unit,
        )

    def __str__(self) -> str:
        return cost_line(self.epsilon, self.delta, self.neighbours)


@dataclass(frozen=True, init=False, repr=False)
class ZCDP(Guarantee):
    """ρ-zero-concentrated differential privacy."""

    rho: Fraction

    @public
    def __init__(self, rho: Number, *, relation: AnyRelation = Relation.ADD_REMOVE, unit: Unit | str = RECORD) -> None:
        self._store(rho=_checks.nonnegative("rho", rho), relation=relation, unit=unit)

    def __str__(self) -> str:
        return f"ρ ≤ {rounded_up(self.rho)}, {self.neighbours}"


@dataclass(frozen=True, init=False, repr=False)
class ApproxZCDP(Guarantee):
    """δ-approximate ρ-zCDP."""

    rho: Fraction
    delta: Fraction

    @public
    def __init__(
        self, rho: Number, delta: Number, *, relation: AnyRelation = Relation.ADD_REMOVE, unit: Unit | str = RECORD
    ) -> None:
        self._store(
            rho=_checks.nonnegative("rho", rho), delta=_checks.probability("delta", delta), relation=relation, unit=unit
        )

    def __str__(self) -> str:
        return f"ρ ≤ {rounded_up(self.rho)}, δ = {small(self.delta)}, {self.neighbours}"


@dataclass(frozen=True, init=False, repr=False)
class TCDP(Guarantee):
    """(ρ, ω)-truncated concentrated differential privacy: more orders promise more."""

    rho: Fraction
    omega: Fraction

    @public
    def __init__(
        self, rho: Number, omega: Number, *, relation: AnyRelation = Relation.ADD_REMOVE, unit: Unit | str = RECORD
    ) -> None:
        self._store(
            rho=_checks.nonnegative("rho", rho), omega=_checks.order("omega", omega), relation=relation, unit=unit
        )

    def _costs_at_most(self, other: TCDP) -> bool:
        return self.rho <= other.rho and self.omega >= other.omega

    def __str__(self) -> str:
        return f"ρ ≤ {rounded_up(self.rho)} for orders below {_checks.shown(self.omega)}, {self.neighbours}"


@dataclass(frozen=True, init=False, repr=False)
class RDP(Guarantee):
    """(α, ε)-Rényi differential privacy at one order α, in Mironov's scale: D_α ≤ ε."""

    order: Fraction
    epsilon: Fraction

    @public
    def __init__(
        self, order: Number, epsilon: Number, *, relation: AnyRelation = Relation.ADD_REMOVE, unit: Unit | str = RECORD
    ) -> None:
        self._store(
            order=_checks.order("order", order),
            epsilon=_checks.nonnegative("epsilon", epsilon),
            relation=relation,
            unit=unit,
        )

    def _costs_at_most(self, other: RDP) -> bool:
        # D_α does not decrease in α, so a bound at a higher order promises more.
        return self.order >= other.order and self.epsilon <= other.epsilon

    def __str__(self) -> str:
        return f"Rényi ε ≤ {rounded_up(self.epsilon)} at order {_checks.shown(self.order)}, {self.neighbours}"


@dataclass(frozen=True, init=False, repr=False)
class GDP(Guarantee):
    """μ-Gaussian differential privacy."""

    mu: Fraction

    @public
    def __init__(self, mu: Number, *, relation: AnyRelation = Relation.ADD_REMOVE, unit: Unit | str = RECORD) -> None:
        self._store(mu=_checks.nonnegative("mu", mu), relation=relation, unit=unit)

    def __str__(self) -> str:
        return f"μ ≤ {rounded_up(self.mu)}, {self.neighbours}"


@dataclass(frozen=True, init=False, repr=False)
class FDP(Guarantee):
    """f-differential privacy: the trade-off function of both orders of every pair of neighbours is at or above f."""

    tradeoff: TradeOff

    @public
    def __init__(
        self, tradeoff: TradeOff, *, relation: AnyRelation = Relation.ADD_REMOVE, unit: Unit | str = RECORD
    ) -> None:
        _checks.member("tradeoff", tradeoff, TradeOff, remedy="For example TradeOff([(0, 1), (0.25, 0.25), (1, 0)]).")
        self._store(tradeoff=tradeoff, relation=relation, unit=unit)

    def _costs_at_most(self, other: FDP) -> bool:
        # Both orders of the pair are promised, so what counts is the symmetrised function.
        return self.tradeoff.symmetrized() >= other.tradeoff.symmetrized()

    def __str__(self) -> str:
        corners = len(self.tradeoff.corners)
        advantage = rounded_up(self.tradeoff.symmetrized().advantage)
        return f"advantage of any test ≤ {advantage} (trade-off function of {corners} corners), {self.neighbours}"


def read_promise(
    name: str,
    promise: object,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    relation: AnyRelation | None = None,
) -> Guarantee:
    """The promise that a call states: its long form, a guarantee, or its short form, `epsilon` and `delta`.

    Args:
        name: what the promise is in the call: "budget", "target" or "claim".
        promise: the long form, or None.
        epsilon: the short form; with `delta` it is `ApproxDP`, without it `PureDP`.
        delta: of the short form.
        relation: of the short form; ADD_REMOVE if it is left out.

    >>> read_promise("budget", None, epsilon=1)
    PureDP(epsilon=1)
    >>> read_promise("budget", 1)
    Traceback (most recent call last):
    ...
    deniable.errors.InvalidArgument: budget must be a guarantee; got budget=1. Write epsilon=1, or budget=dn.PureDP(1).
    """
    relation = Relation.of(relation or Relation.ADD_REMOVE)
    if promise is None:
        if epsilon is None:
            remedy = f"For example epsilon=1, delta=1e-6, or {name}=dn.ApproxDP(1, 1e-6)."
            raise InvalidArgument(name, promise, "given, or epsilon instead", remedy)
        return PureDP(epsilon, relation=relation) if not delta else ApproxDP(epsilon, delta, relation=relation)
    if epsilon is not None or delta is not None:
        extra = "epsilon" if epsilon is not None else "delta"
        raise InvalidArgument(extra, epsilon if epsilon is not None else delta, f"left out where {name} is given")
    if isinstance(promise, Guarantee):
        return promise
    example = f"Write epsilon={promise}, or {name}=dn.PureDP({promise})." if isinstance(promise, int | float) else ""
    raise InvalidArgument(name, promise, "a guarantee", example or f"For example {name}=dn.ApproxDP(1, 1e-6).")
