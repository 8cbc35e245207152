"""Finding bad neighbours: boundary values, empty data, duplicates, extreme magnitudes.

A `Search` knows what one record looks like and lists pairs that have broken mechanisms before. Replays and pilot runs
choose among them; the pair that is chosen is then tested on fresh runs only, so the choice costs runs, not confidence.

>>> from deniable.units import ADD_REMOVE
>>> pairs = Search(Numbers(0, 10), size=3).pairs(ADD_REMOVE)
>>> len(pairs), pairs[0].name, pairs[0].first, pairs[0].second
(21, 'empty data, and a record at the upper bound', [], [10.0])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from deniable import _checks
from deniable._checks import Number
from deniable.auditing.neighbours import Pair
from deniable.errors import InvalidArgument
from deniable.units import AnyRelation, Relation


class RecordKind(Protocol):
    """What one record may be."""

    def typical(self) -> Any:
        """A record in the middle."""
        ...

    def extremes(self) -> list[tuple[str, Any]]:
        """Named records at the edge of what is declared, and beyond it; the most telling first."""
        ...

    def blank(self) -> Any:
        """The record of somebody who is blanked out."""
        ...


@dataclass(frozen=True)
class Numbers:
    """Numbers within declared bounds; a mechanism must also survive numbers beyond them."""

    low: float
    high: float
    beyond: bool = True
    """Whether to try numbers beyond the bounds, infinities and NaN."""

    def __init__(self, low: Number, high: Number, *, beyond: bool = True) -> None:
        bottom, top = float(_checks.number("low", low)), float(_checks.number("high", high))
        if bottom >= top:
            raise InvalidArgument("low", low, "below high")
        for name, value in (("low", bottom), ("high", top), ("beyond", beyond)):
            object.__setattr__(self, name, value)

    def typical(self) -> float:
        """The middle."""
        return (self.low + self.high) / 2

    def extremes(self) -> list[tuple[str, Any]]:
        """Bounds, zero, and what lies beyond."""
        found: list[tuple[str, Any]] = [("at the upper bound", self.high), ("at the lower bound", self.low)]
        if self.low < 0 < self.high:
            found.append(("at zero", 0.0))
        if self.beyond:
            wide = self.high - self.low
            found += [
                ("just above the upper bound", self.high + wide),
                ("far above the upper bound", 1e15 * max(1.0, abs(self.high))),
                ("far below the lower bound", -1e15 * max(1.0, abs(self.low))),
                ("that is infinite", math.inf),
                ("that is NaN", math.nan),
            ]
        return found

    def blank(self) -> float:
        """Zero, or the bound next to it."""
        return min(max(0.0, self.low), self.high)


@dataclass(frozen=True)
class Categories:
    """One of some keys; a mechanism must also survive a key that is none of them."""

    keys: tuple[Any, ...]
    beyond: bool = True

    def __init__(self, keys: Sequence[Any], *, beyond: bool = True) -> None:
        if not len(keys):
            raise InvalidArgument("keys", keys, "at least one key")
        object.__setattr__(self, "keys", tuple(keys))
        object.__setattr__(self, "beyond", beyond)

    def typical(self) -> Any:
        """The first key."""
        return self.keys[0]

    def extremes(self) -> list[tuple[str, Any]]:
        """The last key, the first, an unknown one, none."""
        found = [("with the last key", self.keys[-1]), ("with the first key", self.keys[0])]
        return found + ([("with an unknown key", "never declared"), ("without a key", None)] if self.beyond else [])

    def blank(self) -> Any:
        """None."""
        return None


@dataclass(frozen=True)
class Booleans(Categories):
    """True or False."""

    def __init__(self) -> None:
        super().__init__((False, True), beyond=False)


@dataclass(frozen=True)
class TableRows:
    """Records of named columns, each of its own kind."""

    columns: Mapping[str, RecordKind] = field(hash=False)

    def typical(self) -> dict[str, Any]:
        """Every column in the middle."""
        return {name: kind.typical() for name, kind in self.columns.items()}

    def extremes(self) -> list[tuple[str, Any]]:
        """One column extreme, the others in the middle."""
        return [
            (f"whose {name} is {words}", {**self.typical(), name: value})
            for name, kind in self.columns.items()
            for words, value in kind.extremes()
        ]

    def blank(self) -> dict[str, Any]:
        """Every column blank."""
        return {name: kind.blank() for name, kind in self.columns.items()}


@dataclass(frozen=True)
class Search:
    """Pairs to try for data sets of one kind of record.

    `base` is a data set to vary besides the made-up ones; `size` is how many records the made-up ones have; `most` cuts
    the list.
    """

    records: RecordKind
    size: int = 12
    base: Sequence[Any] | None = field(default=None, repr=False)
    most: int = 48

    def pairs(self, relation: AnyRelation) -> list[Pair]:
        """Neighbours under a relation, the most telling first."""
        relation = Relation.of(relation)
        extremes = self.records.extremes()
        found = []
        for words, record in extremes:
            for name, base in self._bases(relation):
                if relation is Relation.ADD_REMOVE:
                    found.append(Pair(list(base), [*base, record], name=f"{name}, and a record {words}"))
                else:
                    other = self.records.blank() if relation is Relation.ZERO_OUT else extremes[1][1]
                    if _same(other, record):
                        other = extremes[0][1]
                    pair = Pair([*base[:-1], other], [*base[:-1], record], name=f"{name}, one replaced by one {words}")
                    found.append(pair)
        return [pair for pair in found if not _same(pair.first, pair.second)][: self.most]

    def _bases(self, relation: Relation) -> list[tuple[str, list[Any]]]:
        typical = self.records.typical()
        edge = self.records.extremes()[-1 if isinstance(self.records, TableRows) else 1][1]
        several = ("equal records", [typical] * self.size)
        found = [several, ("records at an edge", [edge] * self.size)]
        if relation is Relation.ADD_REMOVE:
            found.insert(0, ("empty data", []))
        if self.base is not None:
            found.append(("the given data", list(self.base)))
        return found


def _same(one: Any, other: Any) -> bool:
    """Whether two inputs look the same; NaN is like NaN."""
    return repr(one) == repr(other)
