"""What a query may name: the columns of its one private table, and of the public tables joined to it.

`Scope` finds columns, reads literals, and refuses. Every function that reads a part of the tree takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from deniable.errors import DataError, QueryError
from deniable.query.parsing import refusal
from deniable.query.ranges import Range
from deniable.query.schema import Column, Table
from deniable.query.values import Value, quoted
from deniable.query.values import name as sql_name

FIRST = "t"
"""What the bounded SQL calls the first table, which is private."""

_DIGITS = 400
_LARGEST = 308  # powers of ten that a float holds


@dataclass(frozen=True)
class Named:
    """A table under the name that the query gives it, and the name that the bounded SQL gives it."""

    table: Table
    alias: str
    short: str
    merged: frozenset[str] = frozenset()
    """Columns, by folded name, that USING made one with those of an earlier table."""

    def column(self, column: Column) -> Column:
        """A column of the table as the query sees it. One of a public table says where its values are listed."""
        plain = quoted(column.name)
        if not self.table.public:
            return column if self.short == FIRST else replace(column, sql=f"{self.short}.{plain}")
        listing = f"SELECT DISTINCT {plain} FROM {relation(self.table)} WHERE {plain} IS NOT NULL ORDER BY 1"
        return replace(column, sql=f"{self.short}.{plain}", listing=listing)


@dataclass(frozen=True)
class Scope:
    """The tables of one query, and the ranges that are declared for their columns."""

    sql: str
    tables: tuple[Named, ...]
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """The declared ranges, by the SQL of the column or expression."""

    @property
    def table(self) -> Table:
        """The private table."""
        return self.tables[0].table

    def refuse(self, node: exp.Expr, message: str) -> QueryError:
        """A refusal at the node's place."""
        return refusal(node, message, self.sql)

    def only(self, node: exp.Expr, *known: str) -> None:
        """Refuse a node that says more than what is read from it."""
        for part, value in node.args.items():
            if value not in (None, False, []) and part not in known and not part.startswith("_"):
                raise self.refuse(node, f"{part.replace('_', ' ')} in {node.key.upper()} is not supported")

    def column(self, node: exp.Expr) -> Column:
        """The column that a node names."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise self.refuse(node, f"{shown(node)} is not supported here; name a column of {self.table.name}")
        self.only(node, "this", "table")
        known = ", ".join(named.alias for named in self.tables)
        if node.table:
            tables = [named for named in self.tables if named.alias.casefold() == node.table.casefold()]
            if not tables:
                raise self.refuse(node, f"{node.table} is not a table of this query, which reads {known}")
        else:
            having = [named for named in self.tables if named.table.has(node.name)]
            tables = [named for named in having if node.name.casefold() not in named.merged] or [self.tables[0]]
        if len(tables) > 1:
            raise self.refuse(node, f"column {node.name} is in several tables; write {known} before it, with a dot")
        return self._found(node, tables[0])

    def _found(self, node: exp.Column, named: Named) -> Column:
        try:
            found = named.table.find(node.name)
        except DataError as missing:
            text = f"; the text is written '{node.name}'" if node.this.args.get("quoted") else ""
            raise self.refuse(node, str(missing).rstrip(".") + text) from None
        if found.fragile:
            raise self.refuse(
                node,
                f"column {found.name} is of type {found.type}, which cannot be asked: some values fail when they are "
                "read; make them numbers before they come here",
            )
        return named.column(found)

    def range(self, column: Column) -> Range:
        """What a column's values lie between: computed for an expression, declared for a column."""
        if column.low is not None and column.high is not None:
            return column.low, column.high
        return self.ranges.get(sql_name(column))

    def value(self, node: exp.Expr) -> Value:
        """The value that a literal means."""
        node = bare(node)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
            number = self.value(node.this)
            return -number if isinstance(number, int | Fraction) else number
        if isinstance(node, exp.Literal):
            return str(node.this) if node.is_string else self._number(node)
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Null):
            raise self.refuse(node.parent or node, "comparing with NULL is never true; write IS NULL")
        if is_literal(node):
            return self._moment(node)
        raise self.refuse(node, f"{shown(node)} is not a value; write a number, a text or a date")

    def _number(self, node: exp.Expr) -> int | Fraction:
        text = str(node.this)
        try:
            found = Decimal(text)
        except InvalidOperation:
            raise self.refuse(node, f"{text[:40]} is not a number") from None
        # Exponents are cut before they are multiplied out: 1e999999999 would not fit in memory.
        if not found.is_finite() or not -_DIGITS < found.adjusted() < _LARGEST or len(text) > _DIGITS:
            raise self.refuse(node, f"{text[:40]} is out of the range of numbers")
        exact = Fraction(found)
        return exact.numerator if exact.denominator == 1 else exact

    def _moment(self, node: exp.Expr) -> date | datetime:
        self.only(node, "this", "to")
        target, text = node.args["to"].this, str(node.this.this)
        try:
            if target == exp.DataType.Type.DATE:
                return date.fromisoformat(text)
            if target in (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ):
                found = datetime.fromisoformat(text)
                if found.tzinfo is None:
                    return found
        except ValueError:
            pass
        raise self.refuse(node, f"{shown(node)} is not a date or a time without zone; write DATE '2026-01-31'")


def relation(table: Table) -> str:
    """A table in SQL, with its schema, so that no step of the bounded SQL can take its name."""
    return f"temp.main.{quoted(table.name)}"


def is_literal(node: exp.Expr) -> bool:
    """Whether a node is a value as such: 3, −3, 'a', TRUE, DATE '2026-01-31'."""
    node = bare(node)
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal) and not node.this.is_string
    if type(node) is exp.Cast:
        moments = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ)
        return isinstance(node.this, exp.Literal) and node.this.is_string and node.to.this in moments
    return isinstance(node, exp.Literal | exp.Boolean | exp.Null)


def written(node: exp.Expr) -> str:
    """A piece of the analyst's SQL on one line."""
    return " ".join(node.sql(dialect="duckdb", comments=False).split())


def shown(node: exp.Expr) -> str:
    """A piece of the analyst's SQL in a sentence, cut where it is long."""
    text = written(node)
    return text if len(text) <= 60 else text[:57] + "..."


def bare(node: exp.Expr | None) -> exp.Expr:
    """A node without its brackets."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node if node is not None else exp.Null()
