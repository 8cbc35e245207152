"""`account`: from an event to its privacy curve.

The event is folded (`fold`), and the first engine that applies answers:

1. a closed form (`closed`),
2. the contour integral (`contour`), where it can prove a narrow bracket, or smoothed where losses have atoms,
3. the grid (`grid`), always.

`profile.method` says which. The lower end of a bracket belongs to the dominating pair. Where that pair is attained by
the step described, no better ε exists; where the event holds a claimed guarantee, a group bound or a shuffle bound,
the method says "of the bound", and the truth may be lower than the lower end.

>>> from deniable.events import Gaussian
>>> profile = account(Gaussian(scale=1) * 1000)
>>> profile.method
'closed form (Gaussian)'
>>> round(profile.epsilon(1e-5), 6)
633.929851
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache

from deniable import _checks
from deniable.accounting.closed import GaussianCurve, LeakyCurve, NoCost, RenyiCurve, SingleCurve
from deniable.accounting.contour import ContourCurve, NotCertified, contour_curve
from deniable.accounting.contour.gaussian import Normal
from deniable.accounting.contour.tables import LawSketch, TabledCurve, TabledSide
from deniable.accounting.filters.costs import total_cost
from deniable.accounting.fold import Folded, fold, gather, within_floats
from deniable.accounting.grid import GridCurve, GridDirection
from deniable.accounting.pairs import attained, directions, laws
from deniable.accounting.rules import rule_of
from deniable.events import Claimed, Event
from deniable.guarantees import Bracket, Curve, LossOdds, Profile
from deniable.guarantees.profile import odds_of
from deniable.numerics.rounding import float_above, root_of, typed_above
from deniable.units import RECORD, Unit

_WIDE, _LOOKS_BACK, _REMEMBERED = 0.5, 6, 256
"""When a bracket of δ is wide, relatively; how often ε is then halved; how many upper ends a curve remembers."""


_LOOSE, _HALVINGS = 1e-2, 8
"""When a bracket of ε from the grid is wide, relatively; how often it is then halved."""

_FEW, _MANY, _NARROW, _GOOD = 8, 50, 5e-7, 2e-5
"""Up to this many different steps, and up to this many in all, the grid is quick and comes before smoothing; from this
relative width of its bracket on, smoothing is asked as well, and from that of a table on the grid."""


def account(event: Event, *, unit: Unit | str = RECORD) -> Profile:
    """The privacy curve of an event, with a proven bracket around every value. `unit` names who it is about, where the
    event's own claims do not.
    """
    example = "For example Gaussian(scale=1.1).sampled(rate=0.01) * 1000; a promise goes in as Claimed(promise)."
    _checks.member("event", event, Event, remedy=example)
    return Profile(_curve(event), event.relation, event.unit.named(unit, doing="account for"))


@lru_cache(maxsize=256)
def _curve(event: Event) -> Curve:
    """Curves are computed, cached, never stored."""
    folded = fold(event)
    composed, own = curve(within_floats(folded)), total_cost(folded)
    return composed if own.epsilon is None else _Ending(composed, own.epsilon, own.delta)


def curve(folded: Folded) -> Curve:
    """The curve of a folded event."""
    if folded.leaks:
        rest = Folded(folded.relation, folded.mu_squared, folded.steps, (), folded.renyi, folded.tight)
        return LeakyCurve(curve(rest), folded.leaks)
    other = [(rule_of(step).alternative(step), step, count) for step, count in folded.steps]
    if sum(count for second, _, count in other if second is not None) > 1:
        return LeastOf(_curve_of(folded), curve(_alternative(folded, other)))
    return _curve_of(folded)


def _alternative(folded: Folded, steps: Iterable[tuple[Event | None, Event, int]]) -> Folded:
    """With every step that has a second bound replaced by that bound."""
    rest = gather(folded.relation, ((second or step, count) for second, step, count in steps))
    also = gather(folded.relation, ((Claimed(promise), count) for promise, count in (*rest.renyi, *folded.renyi)))
    return replace(rest, mu_squared=folded.mu_squared + rest.mu_squared, renyi=also.renyi)


def _curve_of(folded: Folded) -> Curve:
    """The first engine that applies."""
    of_bound = "" if attained(folded) else " of the bound"
    if not folded.steps and not folded.renyi:
        if not folded.mu_squared:
            return NoCost()
        return GaussianCurve(folded.mu_squared, f"closed form (Gaussian){of_bound}")
    if not folded.steps and not folded.mu_squared:
        return RenyiCurve(folded.renyi)
    if len(folded.steps) == 1 and not folded.mu_squared and not folded.renyi:
        (step, count) = folded.steps[0]
        closed = rule_of(step).closed(step, count, of_bound)
        if closed is not None:
            return closed
        if count == 1:
            return SingleCurve(laws(step), f"closed form (one step){of_bound}")
    return _FirstOf(folded, of_bound)


def tables_curve(folded: Folded, *, of_bound: str = "") -> TabledCurve:
    """The contour integral for a folded event without leaks, from the laws of its steps."""
    gaussian = ((Normal(float(folded.mu_squared)), 1),) if folded.mu_squared else ()
    sides = directions(replace(folded, mu_squared=Fraction(0)))
    return TabledCurve(
        tuple(TabledSide(tuple((LawSketch(law), count) for law, count in side), gaussian) for side in sides),
        f"contour integral of tables{of_bound}",
    )


def grid_curve(folded: Folded, *, of_bound: str = "") -> GridCurve:
    """The grid engine for a folded event without leaks."""
    sides = directions(folded)
    return GridCurve(
        tuple(GridDirection.of([law for law, _ in side], [count for _, count in side]) for side in sides),
        f"grid{of_bound}",
    )


@dataclass(frozen=True)
class _Ending:
    """A composition of steps with an ε, and perhaps a δ, of their own: from the sum of the ε on, δ is at most that of
    the δ (basic composition, as a ledger adds up).

    Here, too, a float means its shortest decimal: three steps of 0.1 end at 0.3.
    """

    curve: Curve
    epsilon: Fraction
    delta: Fraction

    @property
    def method(self) -> str:
        """The inner engine's."""
        return self.curve.method

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε)."""
        if _checks.exact(epsilon) < self.epsilon:
            return self.curve.delta_bracket(epsilon)
        return _capped(self.curve.delta_bracket(epsilon), float_above(self.delta)) if self.delta else Bracket(0.0, 0.0)

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around ε(δ)."""
        found = self.curve.epsilon_bracket(delta)
        return found if _checks.exact(delta) < self.delta else _capped(found, typed_above(self.epsilon))

    def odds(self) -> tuple[LossOdds, ...]:
        """The inner engine's."""
        return odds_of(self.curve)


def _capped(found: Bracket, upper: float) -> Bracket:
    """A bracket whose upper end another proof lowers."""
    return Bracket(min(found.lower, upper), min(found.upper, upper))


def _both(first: Bracket, second: Bracket) -> Bracket:
    """What two proofs of one number say together."""
    return _capped(Bracket(max(first.lower, second.lower), first.upper), second.upper)


@dataclass(frozen=True)
class LeastOf:
    """Two bounds on one composition: the smaller. Its lower end is about the smaller bound, not about the steps."""

    first: Curve
    second: Curve

    @property
    def method(self) -> str:
        """Both engines."""
        return f"least of {self.first.method} and {self.second.method}"

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε)."""
        return self._smaller(self.first.delta_bracket(epsilon), self.second.delta_bracket(epsilon))

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around ε(δ)."""
        return self._smaller(self.first.epsilon_bracket(delta), self.second.epsilon_bracket(delta))

    def _smaller(self, first: Bracket, second: Bracket) -> Bracket:
        """The smaller of two numbers that lie in brackets. A Rényi conversion is itself the bound, its upper end."""
        known = second.upper if isinstance(self.second, RenyiCurve) else second.lower
        return Bracket(min(first.lower, known), min(first.upper, second.upper))

    def odds(self) -> tuple[LossOdds, ...]:
        """Those of the first bound: the smaller of two curves belongs to no pair."""
        return odds_of(self.first)


@dataclass(frozen=True, eq=False)
class _FirstOf:
    """The contour integral where it answers, the grid elsewhere. Engines are built when they are first needed."""

    folded: Folded
    of_bound: str
    known: dict[float, float] = field(default_factory=dict)
    """Upper ends of δ that were proven, by ε: δ falls, so each holds at every larger ε too."""

    @cached_property
    def _contour(self) -> ContourCurve | None:
        return contour_curve(self.folded)

    @cached_property
    def _tables(self) -> TabledCurve | None:
        many = len(self.folded.steps) > _FEW and sum(count for _, count in self.folded.steps) >= _MANY
        return tables_curve(self.folded, of_bound=self.of_bound) if self._contour is None and many else None

    @cached_property
    def _grid(self) -> GridCurve:
        return grid_curve(self.folded, of_bound=self.of_bound)

    @cached_property
    def _variation(self) -> float:
        """At least δ(0): distances in total variation add up."""
        parts = [count * rule_of(step).variation(step) for step, count in self.folded.steps]
        parts += [1.0] * len(self.folded.renyi)
        return (math.fsum(parts) + 0.5 * root_of(self.folded.mu_squared)) * (1 + 1e-12)

    @property
    def method(self) -> str:
        """The engine that answers; the grid steps in where the contour integral proves no narrow bracket."""
        if self._tables is not None:
            return f"{self._tables.method}, else grid"
        if self._contour is None:
            return self._grid.method
        return f"{self._contour.method}{self.of_bound}, else grid"

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε). Where they are far apart, a smaller ε may know better."""
        found, earlier = self._delta(epsilon), epsilon
        for _ in range(_LOOKS_BACK if epsilon else 0):
            earlier /= 2
            if found.width <= _WIDE * found.upper or self._delta(earlier).width <= _WIDE * self.known[earlier]:
                break
        best = min(upper for place, upper in self.known.items() if place <= epsilon)
        return Bracket(min(found.lower, best), best)

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around ε(δ). Where they are far apart, δ at points between them may know better."""
        if self._variation <= delta:
            return Bracket(0.0, 0.0)
        bracket = self._first(lambda engine: engine.epsilon_bracket(delta))
        if self._contour is not None or not bracket.width > _LOOSE * bracket.upper or bracket.upper == math.inf:
            return bracket
        low, high, known = bracket.lower, bracket.upper, bracket.lower
        for turn in range(_HALVINGS):
            middle = (low + high) / 2
            between = self._grid.delta_bracket(middle)
            low, high = (low, middle) if between.upper <= delta else (middle, high)
            known = max(known, middle) if between.lower > delta else known
            if turn == 1 and Bracket(known, high) == bracket:  # two points that prove nothing
                break
        return Bracket(known, high)

    def odds(self) -> tuple[LossOdds, ...]:
        """Of the first engine that proves them."""
        if self._contour is not None:
            with suppress(NotCertified):
                return self._contour.odds()
        return self._grid.odds()

    def _first(self, ask: Callable[[Curve], Bracket]) -> Bracket:
        if self._tables is not None:
            with suppress(NotCertified):
                found = ask(self._tables)
                if len(self.folded.steps) > 2 * _FEW or found.width <= _GOOD * found.upper:
                    return found
                return _both(found, ask(self._grid))
        if self._contour is None:
            return ask(self._grid)
        with suppress(NotCertified):
            return ask(self._contour)
        if len(self.folded.steps) > _FEW:
            with suppress(NotCertified):
                return ask(self._contour.smoothed)
        found = ask(self._grid)
        if found.width > _NARROW * found.upper and len(self.folded.steps) <= _FEW:
            with suppress(NotCertified):
                return _both(found, ask(self._contour.smoothed))
        return found

    def _delta(self, epsilon: float) -> Bracket:
        found = self._first(lambda engine: engine.delta_bracket(epsilon))
        if len(self.known) >= _REMEMBERED:
            self.known.pop(next(iter(self.known)))
        self.known[epsilon] = found.upper
        return found
