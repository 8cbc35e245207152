"""What a lecture says, item by item, and what became of each item here.

A lecture is a list of sections, a section a list of items. An item is a definition, a theorem, an example, a number, a
picture or an exercise. `ours` computes our number when the pages are built (`python -m docs.notes.pages`), so a page
cannot hold a number that the code no longer gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """What became of an item."""

    FAITHFUL = "faithful"
    """The code does what the lecture says."""

    DIFFERS = "differs"
    """The lecture is wrong, and the code does what is right; the note is the erratum."""

    PARTIAL = "partial"
    """The code does a part; the note says which part is missing, and why."""

    LEFT_OUT = "left out"
    """No code; the note says why."""


FAITHFUL, DIFFERS, PARTIAL, LEFT_OUT = Verdict


@dataclass(frozen=True)
class Item:
    """One thing that a lecture says.

    Attributes:
        place: what the lecture calls it ("Lemma 5", "(11)"), or its kind where it has no number.
        says: the statement, in our words.
        verdict: what became of it.
        note: the erratum, the missing part or the reason, as the verdict asks.
        code: the function or class that carries it, under `deniable`.
        test: the test that proves it, under `tests`: file::function. It uses what `code` names.
        printed: the number or formula as the lecture prints it.
        ours: computes the number that belongs there.
        picture: draws it, as SVG.
    """

    place: str
    title: str
    says: str
    code: str = ""
    test: str = ""
    printed: str = ""
    ours: Callable[[], str] | None = None
    verdict: Verdict = FAITHFUL
    note: str = ""
    picture: Callable[[], str] | None = None


@dataclass(frozen=True)
class Section:
    """A heading of a lecture with its items."""

    heading: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Lecture:
    """A lecture with its sections, in order."""

    number: str
    title: str
    about: str
    sections: tuple[Section, ...]

    def items(self) -> Iterator[Item]:
        """All items, in order."""
        for section in self.sections:
            yield from section.items
