"""Which groups are released: those of declared keys, or those that the data have, behind a threshold.

Declared keys all appear in the release, in the declared order, also those that no row has; rows with another key are
left out. So the list of groups tells nothing about the data. It must come from public knowledge: a list of districts,
the wards of the hospital, the months of a year. It is known without being stated for a column of a public table, and
for an expression that lists its own values (CASE with constants, a month, a bucket).

Keys of a column of GROUP BY that are neither are *private*: the groups are found in the data, and a group is released
if enough people have it (see `answering`).

>>> city = Column("city", ColumnKind.TEXT, "VARCHAR")
>>> declare(city, ["Bern", "Basel"]).values
('Bern', 'Basel')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

from deniable import _checks
from deniable._remedies import example
from deniable.errors import DataError, InvalidArgument, QueryError
from deniable.query.expressions import named_column
from deniable.query.functions import calendar
from deniable.query.reading import ParsedQuery, is_key
from deniable.query.schema import Column, ColumnKind
from deniable.query.scope import Named
from deniable.query.values import Value, column_as, is_unicode, meeting_type, name, plain_text, read_text

MOST_GROUPS = 10_000_000
"""Groups of one query, at most: every one of them is released."""


@dataclass(frozen=True)
class Keys:
    """The keys of one column, the type they are compared in, and their text in that type; None where they are found."""

    column: Column
    values: tuple[Any, ...] | None
    type: str
    texts: tuple[str, ...] | None = field(repr=False)

    @property
    def private(self) -> bool:
        """Whether the keys are found in the data."""
        return self.values is None

    @cached_property
    def run(self) -> tuple[int, int] | None:
        """The first and the last of keys that are whole numbers in a row, as years or ages are."""
        if self.values is None or self.type != "BIGINT" or self.column.kind is not ColumnKind.INTEGER:
            return None
        first, last = self.values[0], self.values[-1]
        small = max(abs(first), abs(last)) < 1 << 31
        return (first, last) if small and self.values == tuple(range(first, last + 1)) else None


def declare(column: Column, given: object) -> Keys:
    """Check and convert the keys declared for one column."""
    what = f"keys[{column.name!r}]"
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidArgument(what, given, "a list of keys", example("keys", {column.name: ["a", "b"]}))
    shown: tuple[Any, ...] = tuple(given)
    if not {type(key) for key in shown} <= {int, str}:
        shown = tuple(_plain(key) for key in shown)
    if not shown:
        raise InvalidArgument(what, [], "a list with at least one key")
    values, type_, texts = _written(what, column, shown)
    if len(set(texts)) < len(texts):
        counted = Counter(texts)
        again = next(key for key, text in zip(shown, texts, strict=True) if counted[text] > 1)
        raise InvalidArgument(what, again, "without repetition", "A key is released once.")
    if not is_unicode("".join(texts)):
        odd = next(text for text in texts if not is_unicode(text))
        raise InvalidArgument(what, ascii(odd), "texts of Unicode letters", "Half of a surrogate pair is none.")
    return Keys(column, values, type_, texts)


def _written(what: str, column: Column, shown: tuple[Any, ...]) -> tuple[tuple[Any, ...], str, tuple[str, ...]]:
    """Keys as values that the column may hold, the type they are compared in, and their texts in it."""
    kinds = {type(key) for key in shown}
    if kinds == {str} and column.kind in (ColumnKind.TEXT, ColumnKind.UNTYPED):
        return shown, "VARCHAR", shown
    values = shown if kinds == {int} else tuple(_value(what, column, key) for key in shown)
    # Of whole numbers the ends tell the type of all; there may be a million of them.
    telling = {min(values), max(values)} if kinds == {int} else values
    try:
        type_ = _joined({meeting_type(column, value) for value in telling})
        if kinds == {int} and type_ in ("BIGINT", "HUGEINT"):
            return values, type_, tuple(map(str, values))
        texts = tuple(plain_text(value, type_) for value in values)
    except ValueError as misfit:
        raise InvalidArgument(what, list(shown), "keys that the column can hold", _sentence(misfit)) from None
    return tuple(float(value) if isinstance(value, Fraction) else value for value in values), type_, texts


Look = Callable[[str], Sequence[tuple[Any, ...]]]
"""Runs SQL over public tables."""


class DeclaredKeys:
    """What a caller said about keys: `keys={"city": [...], "year": "years.year"}`, or `keys="cities.name"` alone.

    A name is that of a column where it is grouped, or else of an output. A text in place of a list names a column of a
    public table, whose values `look` lists.
    """

    def __init__(self, given: object, question: ParsedQuery, look: Look) -> None:
        self._look, self._given = look, dict[str, object]()
        if isinstance(given, str) and len(question.groups) == 1:
            self._given[name(question.groups[0])] = given
        elif isinstance(given, Mapping):
            aliases = {output.name.casefold(): output.column for output in question.outputs if is_key(output)}
            used = _used(question)
            for key, keys in given.items():
                place = self._place(key, question, aliases, used)
                if place not in used:
                    remedy = f"To keep only some rows, write WHERE {key} IN …."
                    raise InvalidArgument("keys", key, "for columns of GROUP BY or of MODE", remedy)
                if place in self._given:
                    raise InvalidArgument("keys", key, "given once for each column", "Two names mean this one.")
                self._given[place] = keys
        elif given is not None:
            raise InvalidArgument(
                "keys", given, "a mapping from column to keys", example("keys", {"city": ["Bern", "Basel"]})
            )
        self._question = question

    @staticmethod
    def _place(key: Any, question: ParsedQuery, aliases: Mapping[str, Column], used: set[str]) -> str:
        """The SQL of what a key of `keys` names: a column, as in GROUP BY, or else an output."""
        alias = aliases.get(str(key).casefold())
        try:
            column = name(named_column(question.scope, key))
            place = question.renamed.get(column, column)
        except (DataError, QueryError):
            if alias is None:
                raise
            place = ""
        return place if alias is None or place in used else name(alias)

    def of(self, column: Column | None) -> Keys | None:
        """The declared or known keys of a column."""
        if column is None:
            return None
        given = self._given.get(name(column))
        if isinstance(given, str):
            return declare(column, self._listed(column, given))
        if given is not None:
            return declare(column, given)
        if column.listing is not None:
            return declare(column, [row[0] for row in self._look(column.listing)])
        return declare(column, column.domain) if column.domain is not None else None

    def groups(self) -> tuple[Keys, ...]:
        """The keys of every grouped column."""
        keys = tuple(self.of(column) or unknown(column) for column in self._question.groups)
        total = prod(len(k.values) for k in keys if k.values is not None)
        if total > MOST_GROUPS:
            raise InvalidArgument(
                "keys", f"{total} combinations", f"at most {MOST_GROUPS} groups in all", "Declare fewer keys."
            )
        return keys

    def _listed(self, column: Column, text: str) -> list[object]:
        """The values of a column of a public table."""
        place, _, field = text.rpartition(".")
        for table in self._question.tables:
            if table.public and table.name.casefold() == place.casefold() and table.has(field):
                found = Named(table, table.name, "p").column(table.find(field))
                return [row[0] for row in self._look(str(found.listing))]
        raise InvalidArgument(
            f"keys[{column.name!r}]", text, "a list of keys, or table.column of a public table",
            example("keys", {column.name: ["a", "b"]}),
        )  # fmt: skip


def _used(question: ParsedQuery) -> set[str]:
    """The columns whose keys matter: keys of another one would be passed over in silence."""
    modes = (output.column for output in question.aggregates if output.function == "mode")
    return {name(column) for column in (*question.groups, *modes) if column is not None}


def unknown(column: Column) -> Keys:
    """Private keys of a column, as SQL that gives values which can be told apart, and shown."""
    types = {ColumnKind.INTEGER: "BIGINT", ColumnKind.REAL: "DOUBLE", ColumnKind.BOOLEAN: "BOOLEAN"}
    if column.kind in types:
        type = types[column.kind]
        sql = name(column) if column.type == type else f"TRY_CAST({name(column)} AS {type})"
        return Keys(replace(column, sql=sql, type=type), None, type, None)
    if column.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
        type = column.kind.name
        sql = f"TRY_CAST({calendar(column_as(column, 'TIMESTAMP'))} AS {type})"
        return Keys(replace(column, sql=sql, type=type), None, type, None)
    return Keys(column, None, "VARCHAR", None)


def _plain(key: object) -> object:
    """A key without its NumPy, pandas or Polars wrapping."""
    if type(key) in (int, str):
        return key
    as_py = getattr(key, "as_py", None)
    if callable(as_py):
        return as_py()
    item = getattr(key, "item", None)
    if callable(item) and not isinstance(key, str | int | float):
        key = item()
    to_python = getattr(key, "to_pydatetime", None)
    return to_python() if callable(to_python) else key


def _value(what: str, column: Column, key: object) -> Value:
    """A key as a value that the column may hold."""
    if type(key) is int or (type(key) is str and column.kind in (ColumnKind.TEXT, ColumnKind.UNTYPED)):
        return key
    expected = f"a list of {column.kind.value}"
    if isinstance(key, str) and column.kind not in (ColumnKind.TEXT, ColumnKind.UNTYPED):
        try:
            return read_text(column, key)
        except ValueError as misfit:
            raise InvalidArgument(what, key, expected, _sentence(misfit)) from None
    if isinstance(key, datetime) and (key != key or key.tzinfo is not None):
        raise InvalidArgument(what, key, expected, "A key is a time without a zone, in UTC where the column has zones.")
    if isinstance(key, bool | str | date | datetime):
        return key
    try:
        number = _checks.number(what, key)  # type: ignore[arg-type]
    except InvalidArgument:
        raise InvalidArgument(what, key, expected, "A missing value cannot be a key.") from None
    return number.numerator if number.denominator == 1 else number


def _sentence(misfit: ValueError) -> str:
    text = str(misfit)
    return f"{text[:1].upper()}{text[1:]}."


def _joined(types: set[str]) -> str:
    """The one type that holds all keys of a column."""
    if types <= {"BIGINT", "HUGEINT"}:
        return "HUGEINT" if "HUGEINT" in types else "BIGINT"
    if len(types) > 1:
        raise ValueError(f"the keys are of different types: {', '.join(sorted(types))}")
    return types.pop()
