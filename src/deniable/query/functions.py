"""The functions of derived columns, each total: whatever a row holds, the answer is a value or NULL.

An entry says which parts of the sqlglot node are arguments and what they must hold, the SQL that runs, what comes out,
and what its values lie between. Numbers are computed as 64-bit floats, which never fail: ±inf is clamped later, NaN is
no value. Whole results come back as BIGINT, NULL beyond it. Times are read as TIMESTAMP within the years 1 to 9999.

`TextFunctions` reads functions that make texts, `TimeFunctions` those of dates and times. Both make a derived column
with its SQL, its range and the list of its values (`Maker`).

A new function is an entry here and a line in the oracle's list of expressions (tests/query).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlglot import exp

from deniable.query import ranges
from deniable.query.ranges import Range
from deniable.query.schema import Column, ColumnKind
from deniable.query.scope import Scope, is_literal, shown, written
from deniable.query.values import column_as, literal, name

TYPES = {
    ColumnKind.INTEGER: "BIGINT",
    ColumnKind.REAL: "DOUBLE",
    ColumnKind.TEXT: "VARCHAR",
    ColumnKind.UNTYPED: "VARCHAR",
    ColumnKind.BOOLEAN: "BOOLEAN",
    ColumnKind.DATE: "DATE",
    ColumnKind.TIMESTAMP: "TIMESTAMP",
}
"""The type of a derived column of each kind."""

MOST_SQL = 100_000
"""Characters of SQL that one expression may become."""


class Maker(Scope):
    """Makes derived columns."""

    def made(
        self,
        node: exp.Expr,
        kind: ColumnKind,
        sql: str,
        range: Range = None,
        *,
        domain: tuple[Any, ...] | None = None,
    ) -> Column:
        """The column that a node stands for; its SQL is put in brackets."""
        if len(sql) > MOST_SQL:
            raise self.refuse(node, f"{shown(node)} is nested too deeply; write a shorter expression")
        low, high = range if range is not None else (None, None)
        return Column(written(node), kind, TYPES[kind], f"({sql})", low, high, domain)

    def applied(self, node: exp.Expr, function: Function, given: list[str], found: list[Range]) -> Column:
        """A function of arguments whose SQL and ranges these are."""
        return self.made(
            node, function.kind, function.sql.format(*given), function.range(found), domain=function.domain
        )

    def whole(self, node: exp.Expr, part: exp.Expr, *, most: int, least: int = 0) -> int:
        """A whole number that a function needs as a constant."""
        value = self.value(part) if is_literal(part) else None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.refuse(part, f"{shown(node)} needs a whole number from {least} to {most} here")
        return value


NUMBER, TEXT, TIME = "a number", "a text", "a date or time"

Ranges = Callable[[Sequence[Range]], Range]


@dataclass(frozen=True)
class Function:
    """`takes` says what each argument must hold; `{0}`, `{1}` in `sql` are the arguments."""

    parts: tuple[str, ...]
    takes: tuple[str, ...]
    sql: str
    kind: ColumnKind
    range: Ranges = lambda given: None
    domain: tuple[int, ...] | None = None


def _real(sql: str, range: Ranges = lambda given: None) -> Function:
    return Function(("this",), (NUMBER,), sql, ColumnKind.REAL, range)


def _whole(sql: str, range: Ranges) -> Function:
    return Function(("this",), (NUMBER,), f"TRY_CAST({sql} AS BIGINT)", ColumnKind.INTEGER, range)


def _text(sql: str) -> Function:
    return Function(("this",), (TEXT,), sql, ColumnKind.TEXT)


def _test(sql: str) -> Function:
    return Function(("this", "expression"), (TEXT, TEXT), sql, ColumnKind.BOOLEAN)


def _part(name: str, low: int, high: int) -> Function:
    few = tuple(range(low, high + 1)) if high - low < 400 else None
    bounds = ranges.hull(ranges.point(low), ranges.point(high))
    return Function(("this",), (TIME,), f"{name}({{0}})", ColumnKind.INTEGER, lambda given: bounds, few)


ZERO = Fraction(0)

PARTS = {
    "YEAR": _part("YEAR", 1, 9999),
    "QUARTER": _part("QUARTER", 1, 4),
    "MONTH": _part("MONTH", 1, 12),
    "WEEK": _part("WEEK", 1, 53),
    "DAY": _part("DAY", 1, 31),
    "DAYOFYEAR": _part("DAYOFYEAR", 1, 366),
    "DOY": _part("DAYOFYEAR", 1, 366),
    "DAYOFWEEK": _part("DAYOFWEEK", 0, 6),
    "DOW": _part("DAYOFWEEK", 0, 6),
    "ISODOW": _part("ISODOW", 1, 7),
    "HOUR": _part("HOUR", 0, 23),
    "MINUTE": _part("MINUTE", 0, 59),
}
"""The parts of a date or time, by the word in EXTRACT(word FROM …); Sunday is day 0 of the week, and ISODOW's 7."""

FUNCTIONS: dict[type[exp.Expr], Function] = {
    exp.Abs: _real("ABS({0})", lambda given: ranges.magnitude(given[0])),
    exp.Sqrt: _real(
        "CASE WHEN {0} >= 0 THEN SQRT({0}) END", lambda given: ranges.rising(given[0], math.sqrt, least=ZERO)
    ),
    exp.Exp: _real("EXP({0})", lambda given: ranges.rising(given[0], math.exp)),
    exp.Ln: _real("CASE WHEN {0} > 0 THEN LN({0}) END", lambda given: ranges.rising(given[0], math.log)),
    exp.Floor: _whole("FLOOR({0})", lambda given: ranges.whole(given[0], down=True, up=False)),
    exp.Ceil: _whole("CEIL({0})", lambda given: ranges.whole(given[0], down=False, up=True)),
    exp.Sign: _whole("SIGN({0})", lambda given: ranges.hull(ranges.point(-1), ranges.point(1))),
    exp.Upper: _text("UPPER({0})"),
    exp.Lower: _text("LOWER({0})"),
    exp.Length: Function(("this",), (TEXT,), "LENGTH({0})", ColumnKind.INTEGER),
    exp.StartsWith: _test("STARTS_WITH({0}, {1})"),
    exp.Contains: _test("CONTAINS({0}, {1})"),
    exp.Year: PARTS["YEAR"],
    exp.Quarter: PARTS["QUARTER"],
    exp.Month: PARTS["MONTH"],
    exp.Week: PARTS["WEEK"],
    exp.Day: PARTS["DAY"],
    exp.DayOfMonth: PARTS["DAY"],
    exp.DayOfYear: PARTS["DAYOFYEAR"],
    exp.DayOfWeek: PARTS["DAYOFWEEK"],
    exp.Hour: PARTS["HOUR"],
    exp.Minute: PARTS["MINUTE"],
}
"""The functions whose arguments are all expressions, by the node that stands for them."""

TRUNCATED = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")
"""What DATE_TRUNC cuts to; up to a day the answer is a date, below it a time."""

DIFFERENCES = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
"""What DATE_DIFF counts."""


LONGEST = 10_000
"""Characters of a text that functions make, and the most that a constant may ask for."""

MOST_TEXTS = 20
"""Texts of one CONCAT."""


class TextFunctions(Maker):
    """Reads functions of texts.

    Functions that make texts. None can make a long text of short ones: whether the engine has memory for a row must not
    depend on the row.
    """

    def texts(self, node: exp.Expr) -> str:
        """An expression that is a text, as SQL."""
        found = self.expression(node)
        if found.kind not in (ColumnKind.TEXT, ColumnKind.UNTYPED):
            raise self.refuse(
                node, f"{found.name} holds {found.kind.value}; {TEXT} is needed here, as in CAST({found.name} AS TEXT)"
            )
        return name(found)

    def _joined(self, node: exp.Expr) -> Column:
        """|| and CONCAT. What comes out is cut, so that nesting them cannot fill the memory."""
        if isinstance(node, exp.DPipe):
            self.only(node, "this", "expression", "safe")
            whole = f"{self.texts(node.this)} || {self.texts(node.expression)}"
        else:
            self.only(node, "expressions", "safe", "coalesce")
            if len(node.expressions) > MOST_TEXTS:
                raise self.refuse(node, f"CONCAT of more than {MOST_TEXTS} texts is not supported")
            whole = f"CONCAT({', '.join(self.texts(part) for part in node.expressions)})"
        return self.made(node, ColumnKind.TEXT, f"LEFT({whole}, {LONGEST})")

    def _replaced(self, node: exp.Replace) -> Column:
        """REPLACE with constants, by a text that is not longer: nesting it must not fill the memory either."""
        self.only(node, "this", "expression", "replacement")
        old, new = (node.args.get(part) for part in ("expression", "replacement"))
        pair = [self.value(part) if part is not None and is_literal(part) else None for part in (old, new)]
        if not all(isinstance(text, str) for text in pair) or len(str(pair[1]).encode()) > len(str(pair[0]).encode()):
            raise self.refuse(node, "REPLACE needs two texts, the second not longer than the first")
        given = ", ".join(literal(str(text), "VARCHAR") for text in pair)
        return self.made(node, ColumnKind.TEXT, f"REPLACE({self.texts(node.this)}, {given})")

    def _piece(self, node: exp.Expr) -> Column:
        """SUBSTRING, LEFT and RIGHT with constant positions."""
        if isinstance(node, exp.Substring):
            self.only(node, "this", "start", "length", "zero_start")
            places = [node.args["start"]] + ([node.args["length"]] if node.args.get("length") is not None else [])
        else:
            self.only(node, "this", "expression", "negative_length_returns_empty")
            places = [node.expression]
        numbers = ", ".join(str(self.whole(node, place, most=LONGEST)) for place in places)
        return self.made(node, ColumnKind.TEXT, f"{node.key.upper()}({self.texts(node.this)}, {numbers})")


class TimeFunctions(Maker):
    """Reads functions of dates and times.

    Parts of dates and times, cut times, and the time between two: NULL outside the years 1 to 9999.
    """

    def time(self, node: exp.Expr) -> str:
        """An expression that is a date or a time, as SQL that is NULL outside the years 1 to 9999."""
        found = self.expression(node)
        if found.kind not in (ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.UNTYPED):
            raise self.refuse(node, f"{found.name} holds {found.held}; {TIME} is needed here")
        return calendar(column_as(found, "TIMESTAMP"))

    def _extract(self, node: exp.Expr, part: exp.Expr, moment: exp.Expr) -> Column:
        self.only(node, "this", "expression", "expressions")
        word = str(part.this).upper()
        if word not in PARTS:
            raise self.refuse(node, f"{word} of a date is not supported; the parts are {', '.join(PARTS)}")
        return self.applied(node, PARTS[word], [self.time(moment)], [None])

    def _truncated(self, node: exp.Expr) -> Column:
        self.only(node, "this", "unit", "input_type_preserved")
        unit = str(node.args["unit"].this).upper()
        if unit not in TRUNCATED:
            raise self.refuse(node, f"DATE_TRUNC to {unit} is not supported; the units are {', '.join(TRUNCATED)}")
        kind = ColumnKind.TIMESTAMP if unit in ("HOUR", "MINUTE") else ColumnKind.DATE
        return self.made(node, kind, f"TRY_CAST(DATE_TRUNC('{unit}', {self.time(node.this)}) AS {TYPES[kind]})")

    def _difference(self, node: exp.DateDiff) -> Column:
        self.only(node, "this", "expression", "unit", "date_part_boundary")
        unit = str(node.args["unit"].this).upper() if node.args.get("unit") is not None else "DAY"
        if unit not in DIFFERENCES:
            raise self.refuse(node, f"DATE_DIFF in {unit} is not supported; the units are {', '.join(DIFFERENCES)}")
        # sqlglot keeps the later time first.
        start, end = self.time(node.expression), self.time(node.this)
        return self.made(node, ColumnKind.INTEGER, f"DATE_DIFF('{unit}', {start}, {end})")


def calendar(sql: str) -> str:
    """A timestamp that is NULL outside the years 1 to 9999, which every calendar function can handle."""
    ends = "TIMESTAMP '0001-01-01 00:00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
    return f"CASE WHEN {sql} BETWEEN {ends} THEN {sql} END"
