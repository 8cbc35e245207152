"""`Description`: the public summary that every releasable object gives of itself by `describe()`.

It holds nothing private: a title, the promise, named public facts in reading order, and the curve of what was done
where it is known. Explanations and reports work from it alone.

>>> from deniable.guarantees import PureDP
>>> print(Description("visits by city", PureDP(0.5, unit="patient_id"), (("noise", "discrete Laplace"),)))
visits by city
ε ≤ 0.50, δ = 0, one patient added or removed
noise: discrete Laplace
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deniable._escapes import printable
from deniable._forms import Plain
from deniable._notebook import Shown
from deniable.guarantees import Guarantee, Profile


@dataclass(frozen=True)
class Description(Shown, Plain):
    """A title, what is promised, public facts by name, and the curve behind the promise where there is one."""

    title: str
    guarantee: Guarantee
    facts: tuple[tuple[str, str], ...] = ()
    profile: Profile | None = None

    def __post_init__(self) -> None:
        # Names of files, columns and keys, and purposes, are other people's words.
        object.__setattr__(self, "title", printable(self.title))
        facts = tuple((printable(name), printable(text)) for name, text in self.facts)
        object.__setattr__(self, "facts", facts)

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "guarantee": self.guarantee.to_dict(), "facts": dict(self.facts)}

    def __str__(self) -> str:
        lines = [self.title, str(self.guarantee), *(f"{name}: {text}" for name, text in self.facts)]
        return "\n".join(lines)
