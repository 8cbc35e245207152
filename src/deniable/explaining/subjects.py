"""Subjects of explanations: a promise, its curve, and public facts.

Everything that can be explained becomes a `Subject`. An event or a profile has a curve of its own. A guarantee, such as
a ledger's budget, gets the curve of the worst mechanism that it allows. A release, a fitted model, a training plan or
an audit is described by its `describe()`.

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
    """A promise with its curve. `own`: the curve belongs to what was done, not to the worst mechanism allowed."""

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


def subject(what: Explainable) -> Subject:
    """The subject of an explanation, from anything that makes a promise."""
    if isinstance(what, Profile):
        return Subject("this privacy curve", None, what, own=_is_own(what))
    if isinstance(what, Event):
        profile = account(what)
        return Subject(repr(what), None, profile, own=_is_own(profile))
    if isinstance(what, Guarantee):
        return Subject(str(what), what, _worst(what), own=False)
    if isinstance(what, Audit):
        return replace(subject(what.describe()), refuted=what.verdict == "refuted")
    if not isinstance(what, Description) and isinstance(what, Describable):
        what = what.describe()
    if isinstance(what, Description):
        if what.profile is not None:
            return Subject(what.title, what.guarantee, what.profile, _is_own(what.profile), what.facts)
        return Subject(what.title, what.guarantee, _worst(what.guarantee), False, what.facts)
    raise InvalidArgument(
        "what is explained",
        type(what).__name__,
        "an event, a guarantee, a profile, or an object with .describe()",
        "A release, a fitted model, a training plan, an audit report and a ledger have it.",
    )


def _worst(guarantee: Guarantee) -> Profile:
    return account(Claimed(guarantee))


def _is_own(profile: Profile) -> bool:
    """Whether a curve belongs to what was done. Otherwise its method says that it is a bound, or of one."""
    return "bound" not in profile.method
