"""HAVING, ORDER BY, LIMIT and OFFSET: what is done to a release after the noise. It sees released columns only, so it
costs nothing. Rows that are chosen because their noisy number is large are chosen for their noise as well: the
intervals of a release that HAVING or LIMIT has cut hold for each group, not for the groups that came out on top.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from deniable.query.predicates import COMPARISONS, MIRRORED, Reader
from deniable.query.scope import bare, is_literal, shown

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
    """Reads what follows GROUP BY. `outputs` tells which node of the SELECT list is released under which name, and
    whether it is a key."""

    def __init__(self, reader: Reader, outputs: Sequence[tuple[exp.Expr, str, bool]]) -> None:
        self.reader, self.outputs = reader, outputs

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
        self.reader.only(clause, "expression")
        value = self.reader.value(clause.expression) if is_literal(clause.expression) else None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.reader.refuse(clause, f"{clause.key.upper()} needs a whole number, 0 or more")
        return value

    def _term(self, node: exp.Expr) -> tuple[str, bool]:
        self.reader.only(node, "this", "desc", "nulls_first")
        inner = bare(node.this)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            place = self.reader.value(inner)
            if not isinstance(place, int) or not 1 <= place <= len(self.outputs):
                raise self.reader.refuse(inner, f"ORDER BY {shown(inner)} is not a place in the SELECT list")
            return self.outputs[place - 1][1], bool(node.args.get("desc"))
        return self._output(inner)[0], bool(node.args.get("desc"))

    def _output(self, node: exp.Expr) -> tuple[str, bool]:
        """The released column that a node names or repeats."""
        node = bare(node)
        if isinstance(node, exp.Column) and not node.table:
            for _, name, key in self.outputs:
                if name.casefold() == node.name.casefold():
                    return name, key
        for other, name, key in self.outputs:
            if other == node:
                return name, key
        names = ", ".join(name for _, name, _ in self.outputs)
        raise self.reader.refuse(node, f"{shown(node)} is not released; after GROUP BY only {names} can be used")

    def _test(self, node: exp.Expr) -> Test:
        node = bare(node)
        if isinstance(node, exp.And | exp.Or):
            self.reader.only(node, "this", "expression")
            parts = [self._test(part) for part in node.flatten()]
            combine = np.logical_and if isinstance(node, exp.And) else np.logical_or
            return lambda columns: np.asarray(combine.reduce([part(columns) for part in parts]))
        if isinstance(node, exp.Not):
            self.reader.only(node, "this")
            inner = self._test(node.this)
            return lambda columns: ~inner(columns)
        if isinstance(node, exp.Between):
            self.reader.only(node, "this", "low", "high")
            low = self._comparison(node, node.this, ">=", node.args["low"])
            high = self._comparison(node, node.this, "<=", node.args["high"])
            return lambda columns: low(columns) & high(columns)
        if isinstance(node, exp.In) and node.expressions:
            self.reader.only(node, "this", "expressions")
            tests = [self._comparison(node, node.this, "=", item) for item in node.expressions]
            return lambda columns: np.asarray(np.logical_or.reduce([test(columns) for test in tests]))
        if type(node) in COMPARISONS:
            self.reader.only(node, "this", "expression")
            return self._comparison(node, node.this, COMPARISONS[type(node)], node.expression)
        raise self.reader.refuse(node, f"{shown(node)} is not supported in HAVING; compare a released column")

    def _comparison(self, node: exp.Expr, left: exp.Expr, sign: str, right: exp.Expr) -> Test:
        if is_literal(left):
            left, right, sign = right, left, MIRRORED[sign]
        if not is_literal(right):
            raise self.reader.refuse(node, f"{shown(node)} is not supported in HAVING; compare with a value")
        (name, key), value, compare = self._output(left), self.reader.value(right), _SIGNS[sign]
        if not key and not isinstance(value, int | Fraction):
            raise self.reader.refuse(right, f"{name} is a number; compare it with one")
        against = float(value) if isinstance(value, Fraction) else value
        if key:  # a key of another type than the value is equal to none of them
            return lambda columns: np.array(
                [_same_kind(v, against) and compare(v, against) for v in columns[name]], bool
            )
        return lambda columns: np.array([compare(v, against) for v in columns[name]], bool)


def _same_kind(one: object, other: object) -> bool:
    numbers = (int, float)
    return type(one) is type(other) or (isinstance(one, numbers) and isinstance(other, numbers))
