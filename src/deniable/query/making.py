"""What every reader of expressions makes: a derived column, with its SQL, its range and the list of its values."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from deniable.query.functions import Function
from deniable.query.ranges import Range
from deniable.query.schema import Column, Kind
from deniable.query.scope import Scope, is_literal, shown, written

TYPES = {
    Kind.INTEGER: "BIGINT",
    Kind.REAL: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.UNTYPED: "VARCHAR",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}
"""The type of a derived column of each kind."""

MOST_SQL = 100_000
"""Characters of SQL that one expression may become."""


class Maker(Scope):
    """Makes derived columns."""

    def made(
        self,
        node: exp.Expr,
        kind: Kind,
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
