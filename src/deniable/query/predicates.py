"""WHERE, rewritten so that it cannot fail: comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL over columns and literals.

Everything that is understood is written out again from what was understood; nothing of the analyst's SQL reaches the
engine as text. A node, or a part of a node, that is not in this file is refused.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from deniable.errors import DataError, QueryError
from deniable.query.parsing import refusal
from deniable.query.schema import Column, Kind, Table
from deniable.query.values import Value, column_as, literal, meeting_type, name, read_text

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_DIGITS = 400
_WHAT = "compare a column with a number, a text or a date"


class Reader:
    """Reads the columns and conditions of one query over one table; `alias` is what the query calls the table."""

    def __init__(self, table: Table, *, alias: str, sql: str) -> None:
        self.table, self.alias, self.sql = table, alias, sql

    def refuse(self, node: exp.Expr, message: str) -> QueryError:
        """A refusal at the node's place."""
        return refusal(node, message, self.sql)

    def only(self, node: exp.Expr, *known: str) -> None:
        """Refuse a node that says more than what is read from it."""
        for part, value in node.args.items():
            if value not in (None, False, []) and part not in known and not part.startswith("_"):
                raise self.refuse(node, f"{part.replace('_', ' ')} in {node.key.upper()} is not supported")

    def column(self, node: exp.Expr) -> Column:
        """The table's column that a node names."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise self.refuse(node, f"{shown(node)} is not supported here; name a column of {self.table.name}")
        self.only(node, "this", "table")
        if node.table and node.table.casefold() != self.alias.casefold():
            raise self.refuse(node, f"{node.table} is not the table of this query, {self.alias}")
        try:
            return self.table.find(node.name)
        except DataError as missing:
            raise self.refuse(node, str(missing).rstrip(".")) from None

    def condition(self, node: exp.Expr) -> str:
        """A condition as total SQL, in brackets where it needs them."""
        if isinstance(node, exp.Paren):
            self.only(node, "this")
            return self.condition(node.this)
        if isinstance(node, exp.And | exp.Or):
            self.only(node, "this", "expression")
            word = " AND " if isinstance(node, exp.And) else " OR "
            return "(" + word.join(self.condition(part) for part in node.flatten()) + ")"
        if isinstance(node, exp.Not):
            self.only(node, "this")
            return f"(NOT {self.condition(node.this)})"
        if type(node) in _COMPARISONS:
            self.only(node, "this", "expression")
            return self._comparison(node, node.this, _COMPARISONS[type(node)], node.expression)
        if isinstance(node, exp.Between):
            self.only(node, "this", "low", "high")
            low = self._comparison(node, node.this, ">=", node.args["low"])
            return f"({low} AND {self._comparison(node, node.this, '<=', node.args['high'])})"
        if isinstance(node, exp.In):
            return self._membership(node)
        if isinstance(node, exp.Is):
            self.only(node, "this", "expression")
            if not isinstance(node.expression, exp.Null):
                raise self.refuse(node, "IS is supported with NULL only; compare with =")
            return f"({name(self.column(_bare(node.this)))} IS NULL)"
        if isinstance(node, exp.Boolean):
            return "TRUE" if node.this else "FALSE"
        if isinstance(node, exp.Column):
            return self._flag(node)
        raise self.refuse(node, f"{shown(node)} is not supported in WHERE; {_WHAT}")

    def _flag(self, node: exp.Expr) -> str:
        column = self.column(node)
        if column.kind is not Kind.BOOLEAN:
            raise self.refuse(node, f"column {column.name} is not true or false; {_WHAT}")
        return name(column)

    def _comparison(self, node: exp.Expr, left: exp.Expr, sign: str, right: exp.Expr) -> str:
        left, right = _bare(left), _bare(right)
        if isinstance(left, exp.Column) and isinstance(right, exp.Column):
            return self._two_columns(node, left, sign, right)
        if isinstance(right, exp.Column):
            left, right, sign = right, left, _MIRRORED[sign]
        column, value = self.column(left), self.value(right)
        return f"({self._met(right, column, value, sign)})"

    def _met(self, node: exp.Expr, column: Column, value: Value, sign: str) -> str:
        try:
            if isinstance(value, str) and column.kind in (Kind.DATE, Kind.TIMESTAMP):
                value = read_text(column, value)
            type = meeting_type(column, value)
            return f"{column_as(column, type)} {sign} {literal(value, type)}"
        except ValueError as misfit:
            raise self.refuse(node, str(misfit)) from None

    def _two_columns(self, node: exp.Expr, left: exp.Expr, sign: str, right: exp.Expr) -> str:
        one, other = self.column(left), self.column(right)
        if one.kind.numeric and other.kind.numeric and Kind.UNTYPED not in (one.kind, other.kind):
            type = "HUGEINT" if one.kind is other.kind is Kind.INTEGER else "DOUBLE"
            return f"({column_as(one, type)} {sign} {column_as(other, type)})"
        if one.kind is other.kind and one.kind not in (Kind.UNTYPED, Kind.OTHER):
            if one.kind is Kind.TIMESTAMP:
                return f"({column_as(one, 'TIMESTAMP')} {sign} {column_as(other, 'TIMESTAMP')})"
            return f"({name(one)} {sign} {name(other)})"
        raise self.refuse(
            node,
            f"columns {one.name} ({one.kind.value}) and {other.name} ({other.kind.value}) cannot be compared; "
            "compare columns of one type (a CSV file has no types, Parquet has)",
        )

    def _membership(self, node: exp.In) -> str:
        self.only(node, "this", "expressions")
        column = self.column(_bare(node.this))
        parts = [self._met(item, column, self.value(item), "=") for item in node.expressions]
        if not parts:
            raise self.refuse(node, "IN is supported with a list of values only")
        return "(" + " OR ".join(parts) + ")"

    def value(self, node: exp.Expr) -> Value:
        """The value that a literal means."""
        node = _bare(node)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
            number = self.value(node.this)
            return -number if isinstance(number, int | Fraction) else number
        if isinstance(node, exp.Literal):
            return str(node.this) if node.is_string else self._number(node)
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Null):
            raise self.refuse(node.parent or node, "comparing with NULL is never true; write IS NULL")
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
            return self._moment(node)
        raise self.refuse(node, f"{shown(node)} is not supported in WHERE; {_WHAT}")

    def _number(self, node: exp.Expr) -> int | Fraction:
        text = str(node.this)
        try:
            found = Decimal(text)
        except InvalidOperation:
            raise self.refuse(node, f"{text[:40]} is not a number") from None
        # Exponents are cut before they are multiplied out: 1e999999999 would not fit in memory.
        if not found.is_finite() or not -_DIGITS < found.adjusted() < _DIGITS or len(text) > _DIGITS:
            raise self.refuse(node, f"{text[:40]} is out of the range of numbers")
        exact = Fraction(found)
        return exact.numerator if exact.denominator == 1 else exact

    def _moment(self, node: exp.Cast) -> date | datetime:
        self.only(node, "this", "to")
        target, text = node.to.this, str(node.this.this)
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


def shown(node: exp.Expr) -> str:
    """A piece of the analyst's SQL in a sentence."""
    text = " ".join(node.sql(dialect="duckdb", comments=False).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _bare(node: exp.Expr | None) -> exp.Expr:
    """A node without its brackets."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node if node is not None else exp.Null()
