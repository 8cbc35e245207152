"""The domain: which columns a table has, and into which of finitely many cells every value of a column falls.

A domain is public. It is declared column by column (`ColumnCategories`, `ColumnBins`), or follows from a column's
type (true or false). Every value that a row may hold has one code, by a rule that no value can break:

| the row holds | its code |
|---|---|
| one of the categories, or a number or date in a bin | the place of the category or the bin |
| a number or date below the first edge, or above the last | the first bin, or the last |
| nothing, NaN, a text that is no number, a value that is not listed | the last code, called missing |

A column that is declared with `missing=False` has no such code: rows without a listed value are left out of the table.

>>> ColumnBins.steps(0, 100, 25).edges
(0, 25, 50, 75, 100)
>>> ColumnCategories(["f", "m"]).values
('f', 'm')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from math import ceil, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._remedies import example
from deniable._signatures import public_class
from deniable.errors import InvalidArgument
from deniable.noise.source import UnprotectedNumbers
from deniable.query.grids import BinNumber, Distinct
from deniable.query.keys import declare
from deniable.query.schema import Column, ColumnKind
from deniable.query.values import column_as, literal, name

MOST_VALUES = 10_000
"""Cells of one column, at most."""

PRIVATE = "private"
"""What a caller writes in place of categories that are to be found in the data."""

Edge: TypeAlias = int | Fraction | date | datetime
Clique: TypeAlias = tuple[int, ...]
"""Places of columns in a domain, ascending: which columns a marginal is of."""

_BINNED = (ColumnKind.INTEGER, ColumnKind.REAL, ColumnKind.UNTYPED, ColumnKind.DATE, ColumnKind.TIMESTAMP)


@public_class
@dataclass(frozen=True)
class ColumnCategories:
    """The values of a column, from public knowledge; any other value counts as missing.

    Args:
        values: the public list of values, each once.
        missing: whether missing and unlisted values are a category of their own; without it such rows are left out.
    """

    values: tuple[Any, ...]
    missing: bool

    def __init__(self, values: Iterable[Any], *, missing: bool = True) -> None:
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise InvalidArgument("values", values, "a list of categories", "For example ColumnCategories(['f', 'm']).")
        object.__setattr__(self, "values", tuple(values))
        object.__setattr__(self, "missing", _truth("missing", missing))


@public_class
@dataclass(frozen=True)
class ColumnBins:
    """Half-open bins [e₀, e₁), [e₁, e₂), … of numbers or dates; what lies outside counts in the first or last one.

    Args:
        edges: ascending numbers, dates or times, from public knowledge: the ends of the bins.
        missing: whether rows without a value are a bin of their own; without it such rows are left out.
    """

    edges: tuple[Edge, ...]
    missing: bool

    def __init__(self, edges: Iterable[Any], *, missing: bool = True) -> None:
        if isinstance(edges, str | bytes | Mapping) or not isinstance(edges, Iterable):
            raise InvalidArgument(
                "edges", edges, "a list of ascending edges", "For example ColumnBins([0, 18, 65, 120])."
            )
        ends = tuple(_edge(edge) for edge in edges)
        kinds = {_scale(edge) for edge in ends}
        if len(ends) < 2 or len(kinds) > 1 or any(a >= b for a, b in pairwise(ends)):  # type: ignore[operator]
            raise InvalidArgument("edges", list(ends), "two or more ascending edges of one kind")
        if len(ends) > MOST_VALUES:
            raise InvalidArgument("edges", f"{len(ends)} edges", f"at most {MOST_VALUES} edges", "Take wider bins.")
        object.__setattr__(self, "edges", ends)
        object.__setattr__(self, "missing", _truth("missing", missing))

    @classmethod
    def steps(cls, low: Any, high: Any, step: Any, *, missing: bool = True) -> ColumnBins:
        """ColumnBins of one width from `low` to `high`; the last one may be narrower.

        Args:
            low: the first edge.
            high: the last edge.
            step: the width of a bin; days or a `timedelta` between dates.
            missing: whether rows without a value are a bin of their own.
        """
        first, last = _edge(low), _edge(high)
        width: Any = step
        if isinstance(first, date) and not isinstance(step, timedelta):
            width = timedelta(days=int(_checks.positive("step", step)))
        elif not isinstance(step, timedelta):
            width = _whole(_checks.positive("step", step))
        if isinstance(first, date) is not isinstance(width, timedelta) or width <= type(width)(0):
            raise InvalidArgument("step", step, "a width above 0, of the same kind as the edges")
        if _scale(first) != _scale(last) or not first < last:  # type: ignore[operator]
            raise InvalidArgument("low", low, "below high")
        count = -((first - last) // width)  # type: ignore[operator]
        if count > MOST_VALUES:
            raise InvalidArgument("step", step, f"wide enough for at most {MOST_VALUES} bins", "Take wider bins.")
        return cls([*(first + i * width for i in range(int(count))), last], missing=missing)


Declared: TypeAlias = ColumnCategories | ColumnBins | Sequence[Any] | range | str


def _truth(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(what, value, "True or False")
    return value


def _edge(edge: object) -> Edge:
    if isinstance(edge, datetime) and edge.tzinfo is not None:
        raise InvalidArgument("edges", edge, "times without a zone, in UTC where the column has zones")
    if isinstance(edge, date):
        return edge
    return _whole(_checks.number("edges", edge, expected="finite numbers, dates or times"))  # type: ignore[arg-type]


def _whole(number: Fraction) -> int | Fraction:
    return number.numerator if number.denominator == 1 else number


def _scale(edge: Edge) -> type:
    """Numbers, dates and times are told apart."""
    return type(edge) if isinstance(edge, date) else Fraction


@dataclass(frozen=True)
class Attribute:
    """One column of a domain: how a row's code is read in SQL, how many codes there are, and what they mean."""

    name: str
    column: Column
    values: tuple[Any, ...] | None
    """The categories; None for bins."""
    edges: tuple[Edge, ...] | None
    missing: bool
    reading: BinNumber | Distinct = field(repr=False)
    """What the engine reads of a row: the place of its value, or NULL."""

    @property
    def listed(self) -> int:
        """How many codes stand for values."""
        return len(self.values) if self.values is not None else len(self.edges or ()) - 1

    @property
    def size(self) -> int:
        """How many codes there are, with the one for missing values."""
        return self.listed + self.missing

    @property
    def labels(self) -> tuple[str, ...]:
        """Every code in words: a category, "[0, 25)", "missing"."""
        if self.values is not None:
            shown = [str(value) for value in self.values]
        else:
            ends = [_shown(edge) for edge in self.edges or ()]
            shown = [f"[{a}, {b})" for a, b in pairwise(ends)]
        return (*shown, *(["missing"] if self.missing else []))

    def code(self, value: object) -> int:
        """The code of a public value: of a category, of a number or date that lies in a bin, of None for missing."""
        if value is None and self.missing:
            return self.listed
        if self.values is not None:
            for place, known in enumerate(self.values):
                if known == value and isinstance(known, bool) == isinstance(value, bool):
                    return place
        elif value is not None:
            edges, point = self.edges or (), _edge(value)
            if _scale(point) == _scale(edges[0]):
                return sum(point >= edge for edge in edges[1:-1])  # type: ignore[operator]
        raise InvalidArgument(self.name, value, f"a value of the column {self.name}", "See the plan's domain.")

    def decode(self, codes: NDArray[np.int64], random: UnprotectedNumbers) -> list[Any]:
        """A value for every code: its category, or a number or date drawn evenly from its bin; None where missing."""
        if self.values is not None:
            known = [*self.values, None]
            return [known[code] for code in codes.tolist()]
        found = np.full(len(codes), None, dtype=object)
        for place in range(self.listed):
            here = np.flatnonzero(codes == place)
            if here.size:
                found[here] = self._draw_values(place, len(here), random)
        return list(found.tolist())

    def _draw_values(self, place: int, count: int, random: UnprotectedNumbers) -> list[Any]:
        edges = self.edges or ()
        low: Any = edges[place]
        high: Any = edges[place + 1]
        if isinstance(low, datetime):
            steps = random.integers(0, int((high - low) / timedelta(microseconds=1)), count).tolist()
            return [low + timedelta(microseconds=step) for step in steps]
        if isinstance(low, date):
            return [low + timedelta(days=step) for step in random.integers(0, (high - low).days, count).tolist()]
        if self.column.kind is ColumnKind.INTEGER:
            first = ceil(low)
            return [first + step for step in random.integers(0, max(1, ceil(high) - first), count).tolist()]
        return [float(low) + place * (float(high) - float(low)) for place in random.random(count).tolist()]


def _shown(edge: Edge) -> str:
    return f"{float(edge):g}" if isinstance(edge, Fraction) else str(edge)


def attribute(name: str, column: Column, declared: object) -> Attribute:
    """A column with what was declared for it. Reads no row."""
    if column.kind is ColumnKind.OTHER:
        raise InvalidArgument("columns", name, "columns that can be compared", f"{name} is of type {column.type}.")
    if declared is None:
        if column.kind is not ColumnKind.BOOLEAN:
            raise InvalidArgument(
                "columns", name, "given with its categories or bins",
                example("columns", {name: ["a", "b"]}),
            )  # fmt: skip
        declared = ColumnCategories([False, True])
    if isinstance(declared, range):
        stop = declared.start + len(declared) * declared.step
        if declared.step < 1 or not len(declared):
            raise InvalidArgument("columns", {name: declared}, "an ascending range of whole numbers")
        declared = ColumnBins([*declared, stop])
    if isinstance(declared, ColumnBins):
        return _binned(name, column, declared)
    if isinstance(declared, str):
        raise InvalidArgument("columns", {name: declared}, f'categories, bins, or the word "{PRIVATE}"')
    if not isinstance(declared, ColumnCategories):
        declared = ColumnCategories(declared)  # type: ignore[arg-type]
    keys = declare(column, declared.values)
    values, texts = keys.values or (), keys.texts or ()
    if len(values) > MOST_VALUES:
        raise InvalidArgument("columns", f"{len(values)} categories", f"at most {MOST_VALUES} of a column")
    reading = BinNumber(column, None, values, texts, keys.type)
    return Attribute(name, column, tuple(values), None, declared.missing, reading)


def no_categories(name: str, column: Column) -> Attribute:
    """A column without any category: every value counts as missing."""
    type_ = column.type if column.kind in (ColumnKind.BOOLEAN, ColumnKind.DATE, ColumnKind.TIMESTAMP) else "VARCHAR"
    return Attribute(name, column, (), None, True, BinNumber(column, None, (), (), type_))


def _binned(name: str, column: Column, bins: ColumnBins) -> Attribute:
    if column.kind not in _BINNED:
        raise InvalidArgument(
            "columns", {name: "bins"}, "for numbers, dates and times", f"{name} holds {column.kind.value}."
        )
    timed = column.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP)
    if column.kind is not ColumnKind.UNTYPED and isinstance(bins.edges[0], date) is not timed:
        raise InvalidArgument("columns", {name: "bins"}, f"edges of the kind of the column: {column.kind.value}")
    sql = _bin_number(column, bins.edges)
    number = Column(column.name, ColumnKind.INTEGER, "BIGINT", sql=sql)
    return Attribute(name, column, None, bins.edges, bins.missing, Distinct(number))


def _bin_number(column: Column, edges: tuple[Edge, ...]) -> str:
    """SQL of the number of a row's bin, or NULL: a balanced tree of comparisons, in which nothing can fail."""
    inner = edges[1:-1]
    if column.kind is ColumnKind.INTEGER:
        value, absent = name(column), f"{name(column)} IS NULL"
        shown = [str(ceil(edge)) for edge in inner]  # type: ignore[arg-type]
    elif isinstance(edges[0], date):
        type_ = "TIMESTAMP" if isinstance(edges[0], datetime) or column.kind is ColumnKind.TIMESTAMP else "DATE"
        value = column_as(column, type_)
        absent, shown = f"{value} IS NULL", [literal(edge, type_) for edge in inner]
    else:
        value = name(column) if column.type == "DOUBLE" else f"TRY_CAST({name(column)} AS DOUBLE)"
        absent = f"{value} IS NULL OR ISNAN({value})"
        shown = [literal(edge, "DOUBLE") for edge in inner]

    def tree(first: int, last: int) -> str:
        if first == last:
            return str(first)
        middle = (first + last) // 2
        return f"CASE WHEN {value} < {shown[middle]} THEN {tree(first, middle)} ELSE {tree(middle + 1, last)} END"

    return f"CASE WHEN {absent} THEN NULL ELSE {tree(0, len(inner))} END"


@dataclass(frozen=True)
class Domain:
    """The columns of a table, in order, with their codes."""

    attributes: tuple[Attribute, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each column has."""
        return tuple(attribute.size for attribute in self.attributes)

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """The shape of the marginal of some columns."""
        return tuple(self.attributes[place].size for place in clique)

    def cells(self, clique: Clique) -> int:
        """How many cells the marginal of some columns has."""
        return prod(self.shape(clique))

    def clique(self, names: Iterable[str], *, what: str = "columns") -> Clique:
        """The places of some columns, ascending; refused by name where one is unknown or comes twice."""
        if isinstance(names, str):
            names = (names,)
        places = []
        for one in names:
            if one not in self.names:
                raise InvalidArgument(what, one, f"columns of the table: {', '.join(self.names)}")
            places.append(self.names.index(one))
        if not places or len(set(places)) < len(places):
            raise InvalidArgument(what, list(names), "one or more different columns")
        return tuple(sorted(places))

    def named(self, clique: Clique) -> tuple[str, ...]:
        """The names of a marginal's columns."""
        return tuple(self.names[place] for place in clique)
