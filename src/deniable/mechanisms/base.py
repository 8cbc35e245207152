"""What every mechanism can do: release, say its event, and say its accuracy before it runs.

A mechanism is a frozen value. Its fields are public parameters; data arrive as the argument of a call and are never
kept or printed. `mechanism.event` is what the accountant and the ledger see; the noise that a call draws is read off
that same event, so the two cannot drift apart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

from deniable import _checks
from deniable._checks import Number
from deniable.events import Event
from deniable.noise import Source
from deniable.numerics.exact import short_above
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class Mechanism(ABC):
    """A randomised answer with a known cost and a known accuracy."""

    registry: ClassVar[dict[str, type[Mechanism]]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not cls.__name__.startswith("_"):
            Mechanism.registry[cls.__name__] = cls

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one call does to the data."""

    @abstractmethod
    def __call__(self, data: Any, /, *, source: Source | None = None) -> Any:
        """One release. `source=None` is the operating system's randomness; tests pass another."""

    @abstractmethod
    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the error that holds with at least this probability, whatever the data."""

    @property
    def relation(self) -> Relation:
        """What may change between neighbours."""
        return self.event.relation

    def statement(self, confidence: Number = Fraction(19, 20), **assumptions: Any) -> str:
        """The accuracy in words: "with probability 95 % the error is at most 5.99"."""
        bound = self.error(confidence, **assumptions)
        chance = f"{float(_checks.exact(confidence) * 100):.6g} %"
        return f"with probability {chance} the error is at most {round_up_text(bound)}"

    def __repr__(self) -> str:
        # The relation that was stated is a field by another name, since every mechanism has one by its event.
        parameters = {f.name.replace("stated", "relation"): getattr(self, f.name) for f in fields(self) if f.repr}
        parts = [f"{name}={_format_field(value)}" for name, value in parameters.items()]
        return f"{type(self).__name__}({', '.join(parts)})"


def _format_field(value: object) -> str:
    if isinstance(value, Fraction):
        return _checks.shown(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_format_field, value)) + ("," if len(value) == 1 else "") + ")"
    return getattr(value, "__qualname__", "") if callable(value) and not isinstance(value, Mechanism) else repr(value)


def failure(confidence: Number) -> float:
    """The probability with which a statement may fail: 1 − confidence."""
    return float(1 - _checks.inner_probability("confidence", confidence, remedy="For example 0.95."))


def round_up_text(value: float) -> str:
    """Three significant digits, rounded up.

    >>> round_up_text(5.991), round_up_text(0.00123456), round_up_text(400.0)
    ('6', '0.00124', '400')
    """
    if value <= 0 or not math.isfinite(value):
        return f"{value:.3g}"
    return f"{float(short_above(value * (1 - 1e-12), figures=3)):.3g}"
