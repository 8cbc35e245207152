"""Parts of dates and times, cut times, and the time between two: NULL outside the years 1 to 9999."""

from __future__ import annotations

from sqlglot import exp

from deniable.query.functions import DIFFERENCES, PARTS, TIME, TRUNCATED
from deniable.query.making import TYPES, Maker
from deniable.query.schema import Column, Kind
from deniable.query.values import column_as


class TimeFunctions(Maker):
    """Reads functions of dates and times."""

    def time(self, node: exp.Expr) -> str:
        """An expression that is a date or a time, as SQL that is NULL outside the years 1 to 9999."""
        found = self.expression(node)
        if found.kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.UNTYPED):
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
        kind = Kind.TIMESTAMP if unit in ("HOUR", "MINUTE") else Kind.DATE
        return self.made(node, kind, f"TRY_CAST(DATE_TRUNC('{unit}', {self.time(node.this)}) AS {TYPES[kind]})")

    def _difference(self, node: exp.DateDiff) -> Column:
        self.only(node, "this", "expression", "unit", "date_part_boundary")
        unit = str(node.args["unit"].this).upper() if node.args.get("unit") is not None else "DAY"
        if unit not in DIFFERENCES:
            raise self.refuse(node, f"DATE_DIFF in {unit} is not supported; the units are {', '.join(DIFFERENCES)}")
        # sqlglot keeps the later time first.
        start, end = self.time(node.expression), self.time(node.this)
        return self.made(node, Kind.INTEGER, f"DATE_DIFF('{unit}', {start}, {end})")


def calendar(sql: str) -> str:
    """A timestamp that is NULL outside the years 1 to 9999, which every calendar function can handle."""
    ends = "TIMESTAMP '0001-01-01 00:00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
    return f"CASE WHEN {sql} BETWEEN {ends} THEN {sql} END"
