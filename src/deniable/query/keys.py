"""Declared keys: which groups are released, fixed before any data are read.

All declared keys appear in the release, in the declared order, also those that no row has; rows with another key are
left out. So the list of groups tells nothing about the data. It must come from public knowledge: a list of districts,
the wards of the hospital, the months of a year.

>>> city = Column("city", Kind.TEXT, "VARCHAR")
>>> declare(city, ["Bern", "Basel"]).values
('Bern', 'Basel')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from math import prod
from typing import Any

from deniable import _checks
from deniable.errors import InvalidArgument, QueryError
from deniable.query.schema import Column, Kind, Table
from deniable.query.values import Value, meeting_type, plain_text, read_text

MOST_GROUPS = 10_000_000
"""Groups of one query, at most: every one of them is released."""


@dataclass(frozen=True)
class Keys:
    """The declared keys of one column, the type they are compared in, and their text in that type."""

    column: Column
    values: tuple[Any, ...]
    type: str
    texts: tuple[str, ...] = field(repr=False)


def declare(column: Column, given: object) -> Keys:
    """Check and convert the keys declared for one column."""
    what = f"keys[{column.name!r}]"
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidArgument(what, given, "a list of keys", f"For example keys={{{column.name!r}: ['a', 'b']}}.")
    shown = tuple(_plain(key) for key in given)
    if not shown:
        raise InvalidArgument(what, [], "a list with at least one key")
    values = tuple(_value(what, column, key) for key in shown)
    try:
        types = {meeting_type(column, value) for value in values}
        type = _joined(types)
        texts = tuple(plain_text(value, type) for value in values)
    except ValueError as misfit:
        raise InvalidArgument(what, list(shown), "keys that the column can hold", _sentence(misfit)) from None
    seen: set[str] = set()
    for key, text in zip(shown, texts, strict=True):
        if text in seen:
            raise InvalidArgument(what, key, "without repetition", "A key is released once.")
        seen.add(text)
    return Keys(column, tuple(float(value) if isinstance(value, Fraction) else value for value in values), type, texts)


def collect(groups: Sequence[Column], given: Mapping[str, object] | None, table: Table) -> tuple[Keys, ...]:
    """The keys of every grouped column; a column without is refused."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidArgument(
            "keys", given, "a mapping from column to keys", "For example keys={'city': ['Bern', 'Basel']}."
        )
    found = {table.find(name): keys for name, keys in (given or {}).items()}
    for column in groups:
        if column not in found:
            raise QueryError(
                f"GROUP BY {column.name} needs its keys declared: which groups there are must not come from the data; "
                f"give keys={{{column.name!r}: [...]}} with the public list of values"
            )
    keys = tuple(declare(column, found[column]) for column in groups)
    total = prod(len(k.values) for k in keys)
    if total > MOST_GROUPS:
        raise InvalidArgument(
            "keys", f"{total} combinations", f"at most {MOST_GROUPS} groups in all", "Declare fewer keys."
        )
    return keys


def _plain(key: object) -> object:
    """A key without its NumPy, pandas or Polars wrapping."""
    if type(key) in (int, str):
        return key
    item = getattr(key, "item", None)
    if callable(item) and not isinstance(key, str | int | float):
        key = item()
    to_python = getattr(key, "to_pydatetime", None)
    return to_python() if callable(to_python) else key


def _value(what: str, column: Column, key: object) -> Value:
    """A key as a value that the column may hold."""
    if type(key) is int or (type(key) is str and column.kind in (Kind.TEXT, Kind.UNTYPED)):
        return key
    expected = f"a list of {column.kind.value}"
    if isinstance(key, str) and column.kind not in (Kind.TEXT, Kind.UNTYPED):
        try:
            return read_text(column, key)
        except ValueError as misfit:
            raise InvalidArgument(what, key, expected, _sentence(misfit)) from None
    if isinstance(key, datetime) and (key != key or key.tzinfo is not None):
        raise InvalidArgument(what, key, expected, "A missing time or one with a zone cannot be a key.")
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
