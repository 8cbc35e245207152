"""What is explained: a promise, its curve, and the public facts that came with it.

Everything that can be explained becomes a `Subject`. An event or a profile brings a curve of its own. A guarantee, and
so a ledger's budget, brings the curve of the worst mechanism that it allows. Anything with `.describe()` speaks for
itself: a release, a fitted model, a training plan, an audit.

>>> from deniable.guarantees import PureDP
>>> subject(PureDP(0.5, unit="patient_id")).own
False
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from deniable.accounting import account
from deniable.descriptions import Description
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event
from deniable.explaining.audits import Audit
from deniable.guarantees import Guarantee, Profile
from deniable.units import Relation, Unit


@runtime_checkable
class Describable(Protocol):
    """Whatever gives a description of itself."""

    def describe(self) -> Description:
        """A title, a promise, public facts, and the curve where it is known."""
        ...


Explainable = Event | Guarantee | Profile | Description | Describable


@dataclass(frozen=True)
class Subject:
    """A promise with its curve; `own` when the curve is that of what was done, not of the worst allowed."""

    title: str
    guarantee: Guarantee | None
    profile: Profile
    own: bool
    facts: tuple[tuple[str, str], ...] = ()
    refuted: bool = False
    """Whether an audit has shown that the promise does not hold."""

    @property
    def relation(self) -> Relation:
        """What may change between neighbours."""
        return self.profile.relation

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        return self.profile.unit


def subject(given: Explainable) -> Subject:
    """The subject of an explanation, from anything that makes a promise."""
    if isinstance(given, Profile):
        return Subject("this privacy curve", None, given, own=_is_own(given))
    if isinstance(given, Event):
        profile = account(given)
        return Subject(repr(given), None, profile, own=_is_own(profile))
    if isinstance(given, Guarantee):
        return Subject(str(given), given, _worst(given), own=False)
    if isinstance(given, Audit):
        return replace(subject(given.describe()), refuted=given.verdict == "refuted")
    if not isinstance(given, Description) and isinstance(given, Describable):
        given = given.describe()
    if isinstance(given, Description):
        if given.profile is not None:
            return Subject(given.title, given.guarantee, given.profile, _is_own(given.profile), given.facts)
        return Subject(given.title, given.guarantee, _worst(given.guarantee), False, given.facts)
    raise InvalidArgument(
        "what is explained",
        type(given).__name__,
        "an event, a guarantee, a profile, or an object with .describe()",
        "A release, a fitted model, a training plan, an audit report and a ledger have it.",
    )


def _worst(guarantee: Guarantee) -> Profile:
    return account(Claimed(guarantee))


def _is_own(profile: Profile) -> bool:
    """The accountant says "of the bound" where the curve is not that of what was done."""
    return "of the bound" not in profile.method
