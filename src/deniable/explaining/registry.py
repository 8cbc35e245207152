"""A deployment in the form that registries of differential privacy ask for: one JSON object, no private value in it.

The entries follow what such registries have in common (Dwork, Kohli and Mulligan 2019, "an epsilon registry"): who
curates the data, for what use, who is protected against what, the parameters, how they were accounted for, and by what
software.
"""

from __future__ import annotations

from fractions import Fraction
from importlib.metadata import version
from typing import Any

from deniable._checks import shown
from deniable.explaining.odds import success
from deniable.explaining.subjects import Subject


def registry(subject: Subject, *, curator: str, use: str, releases: int, audits: int) -> dict[str, Any]:
    """The registry's entry for a subject."""
    guarantee = subject.guarantee
    return {
        "curator": curator,
        "use": use,
        "title": subject.title,
        "unit": subject.unit.plain,
        "relation": subject.relation.name,
        "model": "central",
        "guarantee": None if guarantee is None else type(guarantee).__name__,
        "parameters": {} if guarantee is None else {k: _plain(v) for k, v in guarantee.numbers.items()},
        "accounting": {
            "method": subject.profile.method,
            "covers": "this release" if subject.own else "what is released under this promise",
        },
        "risk": {"best_guess_at_even_odds": success(subject.profile), "advantage": subject.profile.advantage},
        "releases": releases,
        "audits": audits,
        "implementation": {"name": "deniable", "version": version("deniable")},
        "facts": dict(subject.facts),
    }


def _plain(value: object) -> str:
    return shown(value) if isinstance(value, Fraction) else str(value)
