"""`account`: from an event to its privacy curve.

The event is folded (`fold`), and the first engine that applies answers:

1. a closed form (`closed`),
2. the contour integral (`contour`), where it can prove a narrow bracket,
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

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from deniable import _checks
from deniable.accounting.closed import GaussianCurve, LeakyCurve, NoCost, RenyiCurve, ResponseCurve, SingleCurve
from deniable.accounting.contour import NotCertified, contour_curve
from deniable.accounting.fold import Folded, fold
from deniable.accounting.grid import Direction, GridCurve
from deniable.accounting.pairs import Directions, attained, laws, normal_law, renyi_law
from deniable.events import Claimed, Event, RandomizedResponse
from deniable.guarantees import Bracket, Curve, Profile, PureDP
from deniable.units import RECORD, Unit

_MOST_TERMS = 4096
"""Binomial sums up to this many terms."""


def account(event: Event, *, unit: Unit | str = RECORD) -> Profile:
    """The privacy curve of an event, with a proven bracket around every value."""
    _checks.member("event", event, Event, remedy="For example Gaussian(scale=1.1).sampled(rate=0.01) * 1000.")
    return Profile(_curve(event), event.relation, Unit.of(unit))


@lru_cache(maxsize=256)
def _curve(event: Event) -> Curve:
    """Curves are computed, cached, never stored."""
    return curve(fold(event))


def curve(folded: Folded) -> Curve:
    """The curve of a folded event."""
    if folded.leaks:
        rest = Folded(folded.relation, folded.mu_squared, folded.steps, (), folded.renyi, folded.tight)
        return LeakyCurve(curve(rest), folded.leaks)
    of_bound = "" if attained(folded) else " of the bound"
    if not folded.steps and not folded.renyi:
        if not folded.mu_squared:
            return NoCost()
        return GaussianCurve(folded.mu_squared, f"closed form (Gaussian){of_bound}")
    if not folded.steps and not folded.mu_squared:
        return RenyiCurve(folded.renyi)
    if len(folded.steps) == 1 and not folded.mu_squared and not folded.renyi:
        (step, count) = folded.steps[0]
        response = _response(step)
        if response is not None and count <= _MOST_TERMS:
            return ResponseCurve(response, count, f"closed form (binomial sum){of_bound}")
        if count == 1:
            return SingleCurve(laws(step), f"closed form (one step){of_bound}")
    return _FirstOf(folded, of_bound)


def _response(step: Event) -> Fraction | None:
    """ε₀ of a step whose pair is binary randomized response."""
    if isinstance(step, RandomizedResponse) and step.categories == 2:
        return step.epsilon
    if isinstance(step, Claimed) and isinstance(step.guarantee, PureDP):
        return step.guarantee.epsilon
    return None


def grid_curve(folded: Folded, *, of_bound: str = "") -> GridCurve:
    """The grid engine for a folded event without leaks."""
    parts: list[tuple[Directions, int]] = [(laws(step), count) for step, count in folded.steps]
    if folded.mu_squared:
        parts.append(((normal_law(folded.mu_squared),), 1))
    if folded.renyi:
        parts.append(((renyi_law(folded.renyi),), 1))
    sides = max(len(found) for found, _ in parts)
    directions = tuple(
        Direction.of([found[min(side, len(found) - 1)] for found, _ in parts], [count for _, count in parts])
        for side in range(sides)
    )
    return GridCurve(directions, f"grid{of_bound}")


@dataclass(frozen=True)
class _FirstOf:
    """The contour integral where it answers, the grid elsewhere. Engines are built when they are first needed."""

    folded: Folded
    of_bound: str

    @cached_property
    def _contour(self) -> Curve | None:
        return contour_curve(self.folded)

    @cached_property
    def _grid(self) -> GridCurve:
        return grid_curve(self.folded, of_bound=self.of_bound)

    @property
    def method(self) -> str:
        """The engine that answers; the grid steps in where the contour integral proves no narrow bracket."""
        if self._contour is None:
            return self._grid.method
        return f"{self._contour.method}{self.of_bound}, else grid"

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε)."""
        if self._contour is not None:
            try:
                return self._contour.delta_bracket(epsilon)
            except NotCertified:
                pass
        return self._grid.delta_bracket(epsilon)

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around ε(δ)."""
        if self._contour is not None:
            try:
                return self._contour.epsilon_bracket(delta)
            except NotCertified:
                pass
        return self._grid.epsilon_bracket(delta)
