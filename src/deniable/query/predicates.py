"""Conditions, rewritten so that they cannot fail: comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL of expressions.

Everything that is understood is written out again from what was understood; nothing of the analyst's SQL reaches the
engine as text. A node, or a part of a node, that is not understood is refused.
"""

from __future__ import annotations

from sqlglot import exp

from deniable.query.expressions import Expressions, real
from deniable.query.schema import Column, ColumnKind
from deniable.query.scope import bare, is_literal, shown
from deniable.query.values import Value, column_as, literal, meeting_type, name, read_text

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_CONDITIONS = (
    *COMPARISONS, exp.And, exp.Or, exp.Not, exp.Between, exp.In, exp.Is, exp.Like, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip
_WHAT = "compare a column with a number, a text or a date"


class Reader(Expressions):
    """Reads the expressions and conditions of one query."""

    def condition(self, node: exp.Expr) -> str:
        """A condition as total SQL, in brackets where it needs them."""
        node = bare(node)
        if isinstance(node, exp.And | exp.Or):
            self.only(node, "this", "expression")
            word = " AND " if isinstance(node, exp.And) else " OR "
            return "(" + word.join(self.condition(part) for part in node.flatten()) + ")"
        if isinstance(node, exp.Not):
            self.only(node, "this")
            return f"(NOT {self.condition(node.this)})"
        if type(node) in COMPARISONS:
            self.only(node, "this", "expression")
            return self._comparison(node, node.this, COMPARISONS[type(node)], node.expression)
        if isinstance(node, exp.Between):
            self.only(node, "this", "low", "high")
            low = self._comparison(node, node.this, ">=", node.args["low"])
            return f"({low} AND {self._comparison(node, node.this, '<=', node.args['high'])})"
        if isinstance(node, exp.In):
            return self._membership(node)
        if isinstance(node, exp.Like):
            self.only(node, "this", "expression", "negate")
            found = f"({self.texts(node.this)} LIKE {self._pattern(node)})"
            return f"(NOT {found})" if node.args.get("negate") else found
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
            same = self._same(node)
            return same if isinstance(node, exp.NullSafeEQ) else f"(NOT {same})"
        if isinstance(node, exp.Boolean):
            return "TRUE" if node.this else "FALSE"
        if is_literal(node):
            raise self.refuse(node, f"{shown(node)} is not true or false; {_WHAT}")
        return self._flag(node)

    def expression(self, node: exp.Expr) -> Column:
        """An expression; a condition is one that is true or false."""
        node = bare(node)
        if type(node) in _CONDITIONS:
            return self.made(node, ColumnKind.BOOLEAN, self.condition(node), domain=(True, False))
        return super().expression(node)

    def _is(self, node: exp.Is) -> str:
        """IS NULL, IS TRUE and IS FALSE, which are never NULL themselves."""
        self.only(node, "this", "expression")
        if isinstance(node.expression, exp.Null):
            return f"({name(self.expression(node.this))} IS NULL)"
        if not isinstance(node.expression, exp.Boolean):
            raise self.refuse(node, "IS is supported with NULL, TRUE and FALSE only; compare with =")
        inner = self.condition(node.this)
        return f"COALESCE({inner}, FALSE)" if node.expression.this else f"(NOT COALESCE({inner}, TRUE))"

    def _same(self, node: exp.Expr) -> str:
        """IS NOT DISTINCT FROM: equal, or both NULL."""
        self.only(node, "this", "expression")
        sides = [bare(side) for side in (node.this, node.expression)]
        present = [side for side in sides if not isinstance(side, exp.Null)]
        if len(present) < 2:
            return f"({name(self.expression(present[0]))} IS NULL)" if present else "TRUE"
        equal = self._comparison(node, node.this, "=", node.expression)
        missing = [f"{name(self.expression(side))} IS NULL" for side in sides if not is_literal(side)]
        both = " AND ".join(missing) if len(missing) == 2 else "FALSE"
        return f"COALESCE({equal}, {both})"

    def _flag(self, node: exp.Expr) -> str:
        found = self.expression(node)
        if found.kind is not ColumnKind.BOOLEAN:
            what = f"column {found.name}" if isinstance(node, exp.Column) else found.name
            raise self.refuse(node, f"{what} is not true or false; {_WHAT}")
        return name(found)

    def _pattern(self, node: exp.Like) -> str:
        value = self.value(node.expression) if is_literal(node.expression) else None
        if not isinstance(value, str):
            raise self.refuse(node, "LIKE is supported with a text as its pattern only")
        return literal(value, "VARCHAR")

    def _comparison(self, node: exp.Expr, left: exp.Expr, sign: str, right: exp.Expr) -> str:
        left, right = bare(left), bare(right)
        if is_literal(left):
            left, right, sign = right, left, MIRRORED[sign]
        if is_literal(left):
            raise self.refuse(node, f"{shown(node)} compares two values; {_WHAT}")
        if is_literal(right):
            return f"({self._met(right, self.expression(left), self.value(right), sign)})"
        return f"({self.met(node, self.expression(left), sign, self.expression(right))})"

    def _met(self, node: exp.Expr, column: Column, value: Value, sign: str) -> str:
        type, constant = self._constant(node, column, value)
        return f"{column_as(column, type)} {sign} {constant}"

    def _constant(self, node: exp.Expr, column: Column, value: Value) -> tuple[str, str]:
        """The type in which a column and a value are compared, and the value in it."""
        try:
            if isinstance(value, str) and column.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
                value = read_text(column, value)
            type = meeting_type(column, value)
            return type, literal(value, type)
        except ValueError as misfit:
            raise self.refuse(node, str(misfit)) from None

    def met(self, node: exp.Expr, one: Column, sign: str, other: Column) -> str:
        """Two expressions, compared in a type that both have."""
        type = common_type(one, other)
        if type is None:
            raise self.refuse(
                node,
                f"columns {one.name} ({one.kind.value}) and {other.name} ({other.kind.value}) cannot be compared; "
                "compare columns of one type (a CSV file has no types, Parquet has), or CAST one of them",
            )
        if type == "DOUBLE":
            return f"{real(one)} {sign} {real(other)}"
        return f"{column_as(one, type)} {sign} {column_as(other, type)}"

    def _membership(self, node: exp.In) -> str:
        if not node.expressions:
            raise self.refuse(node, "IN is supported with a list of values only; a public table can be joined")
        self.only(node, "this", "expressions")
        column = self.expression(node.this)
        lists: dict[str, list[str]] = {}
        for item in node.expressions:
            type, value = self._constant(item, column, self.value(item))
            lists.setdefault(type, []).append(value)
        # One list per type in which the column is compared: engines look a value up in a list, and try a chain of OR.
        parts = [f"{column_as(column, type)} IN ({', '.join(values)})" for type, values in lists.items()]
        return "(" + " OR ".join(parts) + ")"


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
