"""Where a column meets a typed value: which type they are compared in, and SQL for both sides that cannot fail.

A comparison must be total: whatever a row holds, the engine answers true, false or NULL. So a column is never cast but
by TRY_CAST, and only into a type that the value, known before any data are read, already has.

>>> untyped = Column("age", ColumnKind.UNTYPED, "VARCHAR")
>>> column_as(untyped, meeting_type(untyped, 65)), literal(65, "DOUBLE")
('TRY_CAST(t."age" AS DOUBLE)', '65.0e0')
>>> meeting_type(Column("city", ColumnKind.TEXT, "VARCHAR"), 65)
Traceback (most recent call last):
...
ValueError: column city holds text; write the value in quotation marks
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from fractions import Fraction
from typing import TypeAlias

from sqlglot import exp

from deniable.query.schema import Column, ColumnKind

Value: TypeAlias = int | Fraction | str | bool | date | datetime
"""What a query or a key may be compared with."""

_BIGINT, _HUGEINT = 1 << 63, 1 << 127
_TYPED = {ColumnKind.BOOLEAN: "BOOLEAN", ColumnKind.DATE: "DATE", ColumnKind.TIMESTAMP: "TIMESTAMP"}
_HINTS = {
    ColumnKind.INTEGER: "write a number",
    ColumnKind.REAL: "write a number",
    ColumnKind.TEXT: "write the value in quotation marks",
    ColumnKind.BOOLEAN: "write TRUE or FALSE",
    ColumnKind.DATE: "write a date, as in DATE '2026-01-31'",
    ColumnKind.TIMESTAMP: "write a time, as in TIMESTAMP '2026-01-31 12:00:00'",
}


def name(column: Column) -> str:
    """A column in SQL: an expression as it stands, else a column of the queried table, which is called t."""
    return column.sql if column.sql is not None else f"t.{quoted(column.name)}"


def quoted(identifier: str) -> str:
    """Any name in SQL, quoted."""
    return '"' + identifier.replace('"', '""') + '"'


def is_unicode(text: str) -> bool:
    """Whether an engine can take a text. Python's texts may hold half of a surrogate pair, which UTF-8 cannot."""
    return text.isascii() or text.encode("utf-8", "replace").decode("utf-8") == text


def meeting_type(column: Column, value: Value) -> str:
    """The type in which a column and a value are compared; ValueError says why there is none."""
    kind = column.kind
    if isinstance(value, bool):
        if kind in (ColumnKind.BOOLEAN, ColumnKind.UNTYPED):
            return "BOOLEAN"
    elif isinstance(value, int | Fraction):
        if kind is ColumnKind.INTEGER and isinstance(value, int) and -_HUGEINT < value < _HUGEINT:
            return "BIGINT" if -_BIGINT < value < _BIGINT and not column.wide else "HUGEINT"
        if kind.numeric:
            return "DOUBLE"
    elif isinstance(value, datetime):
        if kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TEXT, ColumnKind.UNTYPED):
            return "TIMESTAMP"
    elif isinstance(value, date):
        if kind in (ColumnKind.DATE, ColumnKind.TEXT, ColumnKind.UNTYPED):
            return "DATE"
        if kind is ColumnKind.TIMESTAMP:
            return "TIMESTAMP"
    elif kind in (ColumnKind.TEXT, ColumnKind.UNTYPED):
        return "VARCHAR"
    hint = _HINTS.get(kind, "it can only be counted")
    raise ValueError(f"column {column.name} holds {column.held}; {hint}")


def common_type(one: Column, other: Column) -> str | None:
    """The type in which two columns are compared: that of the typed one where the other is untyped."""
    kinds = {one.kind, other.kind}
    if ColumnKind.OTHER in kinds or kinds == {ColumnKind.UNTYPED}:
        return None
    if kinds == {ColumnKind.INTEGER}:
        return "HUGEINT"
    if kinds <= {ColumnKind.INTEGER, ColumnKind.REAL, ColumnKind.UNTYPED}:
        return "DOUBLE"
    kinds -= {ColumnKind.UNTYPED}
    if kinds == {ColumnKind.DATE, ColumnKind.TIMESTAMP}:
        return "TIMESTAMP"
    types = {
        ColumnKind.TEXT: "VARCHAR",
        ColumnKind.BOOLEAN: "BOOLEAN",
        ColumnKind.DATE: "DATE",
        ColumnKind.TIMESTAMP: "TIMESTAMP",
    }
    return types.get(kinds.pop()) if len(kinds) == 1 else None


def read_text(column: Column, text: str) -> Value:
    """A text as the value that a column of this kind would hold; ValueError if it does not read as one."""
    try:
        if column.kind is ColumnKind.INTEGER:
            return int(text)
        if column.kind is ColumnKind.REAL:
            return Fraction(text)
        if column.kind is ColumnKind.BOOLEAN:
            return {"true": True, "false": False}[text.strip().lower()]
        if column.kind is ColumnKind.DATE:
            return date.fromisoformat(text)
        if column.kind is ColumnKind.TIMESTAMP:
            found = datetime.fromisoformat(text)
            if found.tzinfo is None:
                return found
            hint = "write the time without its zone, in UTC where the column has zones"
        else:
            return text
    except (ValueError, KeyError, ZeroDivisionError):
        hint = _HINTS[column.kind]
    raise ValueError(f"column {column.name} holds {column.kind.value}; {hint}")


def column_as(column: Column, type: str) -> str:
    """A column's value in a type of `meeting_type`: its own, a wider one, or TRY_CAST."""
    plain = (
        (type in ("BIGINT", "HUGEINT") and column.kind is ColumnKind.INTEGER)
        or (type == "VARCHAR" and column.kind in (ColumnKind.TEXT, ColumnKind.UNTYPED))
        or (type == column.type == _TYPED.get(column.kind))
        or type == column.type == "DOUBLE"
    )
    return name(column) if plain else f"TRY_CAST({name(column)} AS {type})"


def plain_text(value: Value, type: str) -> str:
    """A value as text from which a cast to its type gives it back; ValueError when it is too large for the type."""
    if type == "DOUBLE" and isinstance(value, int | Fraction):
        try:
            return repr(float(value))
        except OverflowError:
            raise ValueError("the number is too large") from None
    if type == "TIMESTAMP" and isinstance(value, date):
        return value.isoformat(sep=" ") if isinstance(value, datetime) else f"{value.isoformat()} 00:00:00"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def literal(value: Value, type: str) -> str:
    """A value in SQL, in a type of `meeting_type`."""
    return _literal(plain_text(value, type), type)


def _literal(text: str, type: str) -> str:
    """A value in SQL, from its plain text."""
    if type in ("BIGINT", "HUGEINT", "BOOLEAN"):
        return text
    if type == "DOUBLE":
        return double(float(text))
    string = exp.Literal.string(text).sql(dialect="duckdb")
    return string if type == "VARCHAR" else f"{type} {string}"


_LONG = 50
"""Values from which a list is written as one text."""
_SEPARATORS = "|;~\x1f\x1e\x1d"


def listed(texts: Sequence[str], type: str) -> str:
    """Values in SQL that may stand in IN (…), from their plain texts.

    A long list is one text that the engine splits. DuckDB takes time that grows faster than a list of constants, and
    parsers have one word to read in place of a hundred thousand.

    >>> listed(["1", "2"], "BIGINT")
    '1, 2'
    """
    apart = next((letter for letter in _SEPARATORS if all(letter not in text for text in texts)), None)
    if len(texts) < _LONG or apart is None:
        return ", ".join(_literal(text, type) for text in texts)
    whole, between = (_literal(text, "VARCHAR") for text in (apart.join(texts), apart))
    return f"SELECT CAST(k AS {type}) FROM (SELECT UNNEST(STRING_SPLIT({whole}, {between})) AS k) AS one"


def double(value: float) -> str:
    """A finite float in SQL. The exponent keeps the engine from reading it as a decimal type."""
    if not math.isfinite(value):
        raise ValueError("the number is too large")
    text = repr(value)
    return text if "e" in text else f"{text}e0"
