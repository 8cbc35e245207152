"""Reference values: 104 published or independently computed privacy numbers, each obtained by two methods.

`values.json` holds one case a line. A value is a decimal string of sixteen digits or more; every parameter is an exact
decimal. `unknown` says what was asked: `epsilon` (at `delta`), `delta` (at `epsilon`), `beta` (false negatives at
false-positive rate `alpha`) or `rdp` (at order `alpha`).

- gaussian: `noise_multiplier` is noise ÷ sensitivity under the case's relation. Poisson sampling under `replace` is of
  clipped vectors, so the reach is half the sensitivity.
- laplace: scale = sensitivity ÷ `epsilon0`; discrete_laplace: mass ∝ e^{−a|x|}; discrete_gaussian:
  mass ∝ e^{−x²/(2 sigma2)}.
- relation `any`: the same number under every relation.

Use `cases(...)` to choose and `Case.event` to get the event:

    @pytest.mark.parametrize("case", cases(family="laplace"), ids=str)
    def test_laplace(case): assert account(case.event).epsilon(case.delta) == pytest.approx(case.value, rel=1e-9)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    RandomizedResponse,
)
from deniable.guarantees import GDP, ApproxDP, PureDP
from deniable.units import Relation


@dataclass(frozen=True)
class Case:
    """One number that must come out."""

    id: str
    family: str
    relation: str
    unknown: str
    exact_value: Fraction
    relative_error: float
    parts: tuple[Mapping[str, Any], ...]
    epsilon: Fraction | None
    delta: Fraction | None
    alpha: Fraction | None
    directions: Mapping[str, str]

    @property
    def value(self) -> float:
        """The answer, as the nearest float."""
        return float(self.exact_value)

    @property
    def part(self) -> Mapping[str, Any]:
        """The only part of a case about one formula."""
        (only,) = self.parts
        return only

    @property
    def has_event(self) -> bool:
        """Whether the case is about something that was done, rather than about one conversion formula."""
        return self.unknown in ("epsilon", "delta", "beta") and all(part["kind"] in _EVENTS for part in self.parts)

    @property
    def event(self) -> Event:
        """The case as an event."""
        relation = Relation.ADD_REMOVE if self.relation == "any" else Relation(self.relation)
        if self.parts[0]["kind"] == "randomized_response" and self.relation == "any":
            relation = Relation.REPLACE
        total: Event | None = None
        for part in self.parts:
            step = _EVENTS[part["kind"]](part, relation)
            if part.get("sampling") == "poisson":
                step = step.sampled(rate=Fraction(part["q"]))
            elif part.get("sampling") == "without_replacement":
                step = step.sampled_without_replacement(batch=part["m"], size=part["n"])
            step = step * part["count"] if part.get("count", 1) > 1 else step
            total = step if total is None else total + step
        assert total is not None
        return total

    def __str__(self) -> str:
        return self.id


def _gaussian(part: Mapping[str, Any], relation: Relation) -> Event:
    reach = Fraction(1, 2) if relation is Relation.REPLACE else None
    return Gaussian(Fraction(part["noise_multiplier"]), 1, relation, reach=reach)


def _laplace(part: Mapping[str, Any], relation: Relation) -> Event:
    return Laplace(1 / Fraction(part["epsilon0"]), 1, relation)


def _discrete_laplace(part: Mapping[str, Any], relation: Relation) -> Event:
    return DiscreteLaplace(1 / Fraction(part["a"]), part["sensitivity"], relation)


def _discrete_gaussian(part: Mapping[str, Any], relation: Relation) -> Event:
    with localcontext(prec=60):
        scale = Fraction(Decimal(part["sigma2"]).sqrt())
    return DiscreteGaussian(scale, part["sensitivity"], relation)


def _randomized_response(part: Mapping[str, Any], relation: Relation) -> Event:
    epsilon = Fraction(part["epsilon0"])
    if relation is Relation.REPLACE:
        return RandomizedResponse(epsilon, part.get("k", 2))
    # Binary randomized response is the worst of all ε-DP steps, so the claim has the same curve under any relation.
    return Claimed(PureDP(epsilon, relation=relation))


def _gdp(part: Mapping[str, Any], relation: Relation) -> Event:
    return Claimed(GDP(Fraction(part["mu"]), relation=relation))


def _approximate(part: Mapping[str, Any], relation: Relation) -> Event:
    return Claimed(ApproxDP(Fraction(part["epsilon0"]), Fraction(part.get("delta0", "0")), relation=relation))


_EVENTS = {
    "gaussian": _gaussian,
    "laplace": _laplace,
    "discrete_laplace": _discrete_laplace,
    "discrete_gaussian": _discrete_gaussian,
    "randomized_response": _randomized_response,
    "gdp": _gdp,
    "eps_delta_dp": _approximate,
}


def _case(found: dict[str, Any]) -> Case:
    asked = {name: Fraction(found[name]) if name in found else None for name in ("epsilon", "delta", "alpha")}
    return Case(
        id=found["id"],
        family=found["family"],
        relation=found["relation"],
        unknown=found["unknown"],
        exact_value=Fraction(found["value"]),
        relative_error=found["relative_error"],
        parts=tuple(found["parts"]),
        directions=found.get("directions", {}),
        **asked,
    )


ALL: tuple[Case, ...] = tuple(map(_case, json.loads(Path(__file__).with_name("values.json").read_text())))
"""Every case."""


def cases(*, family: str | None = None, unknown: str | None = None, has_event: bool | None = None) -> list[Case]:
    """The cases of a family, that ask for an unknown, or that are about an event; never an empty list.

    `advanced_composition` states one theorem's answer, which the accountant should beat: it is no event's curve.
    """
    found = [
        case
        for case in ALL
        if (family is None or case.family == family)
        and (unknown is None or case.unknown == unknown)
        and (has_event is None or (case.has_event and case.family != "advanced_composition") == has_event)
    ]
    assert found, f"no reference case with family={family!r}, unknown={unknown!r}, has_event={has_event!r}"
    return found


def case(name: str) -> Case:
    """The case with this id."""
    (found,) = [c for c in ALL if c.id == name]
    return found
