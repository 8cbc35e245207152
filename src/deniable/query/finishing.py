"""HAVING, ORDER BY, LIMIT and OFFSET: what is done to a release after the noise. It sees released columns only, so it
costs nothing. Rows that are chosen because their noisy number is large are chosen for their noise as well: the
intervals of a release that HAVING or LIMIT has cut hold for each group, not for the groups that came out on top.

A name may be that of a column and of an output at once. As in SQL, HAVING means the column where it is grouped, and
ORDER BY means the output. Expressions are found again by what they mean, not by how they are written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from deniable.errors import QueryError
from deniable.query.expressions import COMPARISONS, MIRRORED
from deniable.query.schema import AggregateOutput, Column, ColumnKind, KeyOutput
from deniable.query.scope import Scope, bare, is_literal, shown
from deniable.query.values import Value, meeting_type, read_text
from deniable.query.values import name as sql_name

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Test = Callable[[Mapping[str, Sequence[Any]]], NDArray[np.bool_]]


@dataclass(frozen=True)
class Finish:
    """Which rows of a release are shown, in which order."""

    having: Test | None = None
    order: tuple[tuple[str, bool], ...] = ()
    """Released columns, the first decides first; True for descending."""
    limit: int | None = None
    offset: int = 0

    def __bool__(self) -> bool:
        return self.having is not None or bool(self.order) or self.limit is not None or self.offset > 0

    def rows(self, columns: Mapping[str, Sequence[Any]]) -> NDArray[np.int64]:
        """The rows to show, in order, of the released columns."""
        size = len(next(iter(columns.values())))
        kept = np.arange(size) if self.having is None else np.flatnonzero(self.having(columns))
        found = kept.tolist()
        for name, descending in reversed(self.order):  # sorting is stable, so the last key goes first
            values = columns[name]
            found.sort(key=lambda row: values[row], reverse=descending)
        last = None if self.limit is None else self.offset + self.limit
        return np.asarray(found[self.offset : last], dtype=np.int64)


class Finisher:
    """Reads what follows GROUP BY. `outputs` are the released columns, and `meant` reads a node as one of them."""

    def __init__(
        self,
        scope: Scope,
        outputs: Sequence[KeyOutput | AggregateOutput],
        meant: Callable[[exp.Expr], KeyOutput | AggregateOutput],
    ) -> None:
        self.scope, self.outputs, self._meant = scope, outputs, meant

    def read(self, tree: exp.Select) -> Finish:
        """The last clauses of a query."""
        having, order = tree.args.get("having"), tree.args.get("order")
        return Finish(
            self._test(having.this) if having is not None else None,
            tuple(self._term(node) for node in order.expressions) if order is not None else (),
            self._whole(tree.args.get("limit")),
            self._whole(tree.args.get("offset")) or 0,
        )

    def _whole(self, clause: exp.Expr | None) -> int | None:
        if clause is None:
            return None
        self.scope.only(clause, "expression")
        value = self.scope.value(clause.expression) if is_literal(clause.expression) else None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.scope.refuse(clause, f"{clause.key.upper()} needs a whole number, 0 or more")
        return value

    def _term(self, node: exp.Expr) -> tuple[str, bool]:
        self.scope.only(node, "this", "desc", "nulls_first")
        inner = bare(node.this)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            place = self.scope.value(inner)
            if not isinstance(place, int) or not 1 <= place <= len(self.outputs):
                raise self.scope.refuse(inner, f"ORDER BY {shown(inner)} is not a place in the SELECT list")
            return self.outputs[place - 1].name, bool(node.args.get("desc"))
        found = self._named(inner) or self._repeated(inner) or self._missing(inner)
        return found.name, bool(node.args.get("desc"))

    def _named(self, node: exp.Expr) -> KeyOutput | AggregateOutput | None:
        """The output that bears a name."""
        if not isinstance(node, exp.Column) or node.table:
            return None
        return next((output for output in self.outputs if output.name.casefold() == node.name.casefold()), None)

    def _repeated(self, node: exp.Expr) -> KeyOutput | AggregateOutput | None:
        """The output whose column or aggregate a node repeats."""
        try:
            wanted = _meaning(self._meant(node))
        except QueryError:
            return None
        return next((output for output in self.outputs if _meaning(output) == wanted), None)

    def _missing(self, node: exp.Expr) -> KeyOutput | AggregateOutput:
        names = ", ".join(output.name for output in self.outputs)
        raise self.scope.refuse(node, f"{shown(node)} is not released; after GROUP BY only {names} can be used")

    def _test(self, node: exp.Expr) -> Test:
        node = bare(node)
        if isinstance(node, exp.And | exp.Or):
            self.scope.only(node, "this", "expression")
            parts = [self._test(part) for part in node.flatten()]
            combine = np.logical_and if isinstance(node, exp.And) else np.logical_or
            return lambda columns: np.asarray(combine.reduce([part(columns) for part in parts]))
        if isinstance(node, exp.Not):
            self.scope.only(node, "this")
            inner = self._test(node.this)
            return lambda columns: ~inner(columns)
        if isinstance(node, exp.Between):
            self.scope.only(node, "this", "low", "high")
            low = self._comparison(node, node.this, ">=", node.args["low"])
            high = self._comparison(node, node.this, "<=", node.args["high"])
            return lambda columns: low(columns) & high(columns)
        if isinstance(node, exp.In) and node.expressions:
            self.scope.only(node, "this", "expressions")
            tests = [self._comparison(node, node.this, "=", item) for item in node.expressions]
            return lambda columns: np.asarray(np.logical_or.reduce([test(columns) for test in tests]))
        if type(node) in COMPARISONS:
            self.scope.only(node, "this", "expression")
            return self._comparison(node, node.this, COMPARISONS[type(node)], node.expression)
        raise self.scope.refuse(node, f"{shown(node)} is not supported in HAVING; compare a released column")

    def _comparison(self, node: exp.Expr, left: exp.Expr, sign: str, right: exp.Expr) -> Test:
        if is_literal(left):
            left, right, sign = right, left, MIRRORED[sign]
        if not is_literal(right):
            raise self.scope.refuse(node, f"{shown(node)} is not supported in HAVING; compare with a value")
        inner = bare(left)
        output = self._repeated(inner) or self._named(inner) or self._missing(inner)
        name, value, compare = output.name, self.scope.value(right), _SIGNS[sign]
        if output.column is not None and (isinstance(output, KeyOutput) or output.function == "mode"):
            against = self._key(right, output.column, value)
            return lambda columns: np.array([_compared(v, compare, against) for v in columns[name]], bool)
        if isinstance(value, bool) or not isinstance(value, int | Fraction):
            raise self.scope.refuse(right, f"{name} is a number; compare it with one")
        number = float(value) if isinstance(value, Fraction) else value
        return lambda columns: np.array([compare(v, number) for v in columns[name]], bool)

    def _key(self, node: exp.Expr, column: Column, value: Value) -> Any:
        """A value as a key of a column would be, refused where the column holds nothing that it can be compared
        with."""
        try:
            if isinstance(value, str) and column.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
                value = read_text(column, value)
            meeting_type(column, value)
        except ValueError as misfit:
            raise self.scope.refuse(node, str(misfit)) from None
        return _comparable(value)


def _meaning(output: KeyOutput | AggregateOutput) -> tuple[object, ...]:
    """What an output holds, whatever it is called."""
    place = None if output.column is None else sql_name(output.column)
    if isinstance(output, KeyOutput):
        return "key", place
    return output.function, place, output.level, output.distinct


def _comparable(value: Any) -> Any:
    """A key or a value in the form in which both are compared: fractions as floats, dates as times."""
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value


def _compared(key: Any, compare: Callable[[Any, Any], Any], value: Any) -> bool:
    """Whether a key meets a value. The text of an untyped column is read as a number where it meets one; a key of
    another kind meets no value."""
    key = _comparable(key)
    if isinstance(key, str) and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            key = float(key)
        except ValueError:
            return False
    numbers = (int, float)
    alike = type(key) is type(value) or (isinstance(key, numbers) and isinstance(value, numbers))
    return alike and bool(compare(key, value))
