"""What is done to a release after the noise: computed outputs, HAVING, ORDER BY, LIMIT and OFFSET. All of it sees
released numbers and keys only, so it costs nothing. Rows that are chosen because their noisy number is large are chosen
for their noise as well: the intervals of a release that HAVING or LIMIT has cut hold for each group, not for the groups
that came out on top.

A name may be that of a column and of an output at once. As in SQL, HAVING means the column where it is grouped, and
ORDER BY means the output, unless the name stands within an expression. Expressions are found again by what they mean,
not by how they are written. An aggregate that stands in HAVING or ORDER BY alone is measured like those of the SELECT
list, and not shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from deniable.errors import QueryError
from deniable.query.association import Association, read_association
from deniable.query.cells import Cell, compared, exact, numbered
from deniable.query.expressions import expression
from deniable.query.formulas import KEY, VALUE, Leaf, RowFormula, connected, of_keys, read_formula, read_truth
from deniable.query.schema import AggregateOutput, Column, ColumnKind, KeyOutput
from deniable.query.scope import Scope, bare, is_literal, shown
from deniable.query.values import name as sql_name

ReadAggregate: TypeAlias = Callable[[exp.Expr], AggregateOutput | None]
"""Reads a node as an aggregate; None where it is none."""

Columns: TypeAlias = Mapping[Leaf, Sequence[Any]]
"""Released columns: the keys of every grouped column, and the value of every aggregate and computed output."""


@dataclass(frozen=True)
class ComputedKey(KeyOutput):
    """An output that follows from keys and constants."""

    formula: RowFormula = field(kw_only=True)


@dataclass(frozen=True)
class ComputedOutput:
    """An output that follows from released numbers, and perhaps keys."""

    name: str
    text: str
    formula: RowFormula
    parts: tuple[AggregateOutput, ...]
    """The aggregates that it is made of; the formula knows them by their names."""


Output: TypeAlias = KeyOutput | AggregateOutput | ComputedOutput


@dataclass(frozen=True)
class Finish:
    """Which rows of a release are shown, in which order."""

    having: RowFormula | None = None
    order: tuple[tuple[RowFormula, bool], ...] = ()
    """The first decides first; True for descending."""
    limit: int | None = None
    offset: int = 0
    hidden: tuple[AggregateOutput, ...] = ()
    """The aggregates that are measured for it and not shown."""

    def __bool__(self) -> bool:
        return self.having is not None or bool(self.order) or self.limit is not None or self.offset > 0

    def only_from(self, people: AggregateOutput, least: int) -> Finish:
        """The same, of groups whose number of people is `least` or more; it is measured, and not shown."""
        count, bound = _value(people.name, ColumnKind.INTEGER), exact(least)
        test = RowFormula(ColumnKind.BOOLEAN, lambda row: compared(count.evaluate(row), ">=", bound), count.leaves)
        having = test if self.having is None else connected([self.having, test], every=True)
        return replace(self, having=having, hidden=(*self.hidden, people))

    def rows(self, columns: Columns) -> NDArray[np.int64]:
        """The rows to show, in order, of the released columns."""
        size = len(next(iter(columns.values())))
        kept = list(range(size))
        if self.having is not None:
            kept = [row for row, cell in enumerate(evaluate(self.having, columns, size)) if cell.value is True]
        for formula, descending in reversed(self.order):  # sorting is stable, so the last key goes first
            values: list[Any] = [cell.value for cell in evaluate(formula, columns, size)]
            present = [row for row in kept if values[row] is not None]
            present.sort(key=lambda row: values[row], reverse=descending)
            kept = present + [row for row in kept if values[row] is None]
        last = None if self.limit is None else self.offset + self.limit
        return np.asarray(kept[self.offset : last], dtype=np.int64)


def evaluate(formula: RowFormula, columns: Columns, size: int) -> list[Cell]:
    """A formula in every row, of released columns that are taken as they are."""
    used = {leaf: columns[leaf] for leaf in formula.leaves}
    return [
        formula.evaluate({leaf: exact(values[row]) for leaf, values in used.items()})
        for row in range(size)
    ]  # fmt: skip


@dataclass
class Finisher:
    """Reads computed outputs, and what follows GROUP BY."""

    scope: Scope
    groups: tuple[Column, ...]
    aggregate: ReadAggregate
    outputs: tuple[Output, ...] = ()
    """The outputs that HAVING and ORDER BY may name."""
    hidden: list[AggregateOutput] = field(default_factory=list)

    def computed(self, node: exp.Expr, alias: str | None) -> Output:
        """An item of the SELECT list that is neither a grouped column nor an aggregate."""
        parts: dict[tuple[object, ...], AggregateOutput] = {}

        def find(node: exp.Expr) -> RowFormula | None:
            part = self.aggregate(node)
            if part is not None:
                _check_number(self.scope, node, part)
                part = parts.setdefault(meaning(part), replace(part, name=f"part {len(parts) + 1}"))
                return _value(part.name, _kind(part))
            linked = read_association(self.scope, node)
            if linked is None:
                return self._key(node) or self._unreleased(node)
            names = {
                letters: parts.setdefault(meaning(part), replace(part, name=f"part {len(parts) + 1}")).name
                for letters, part in linked.sums.items()
            }
            return _associated(linked, names)

        formula = read_formula(self.scope, node, find)
        name = alias or re.sub(r"\W+", "_", shown(node)).strip("_").lower()
        if of_keys(formula):
            column = Column(shown(node), formula.kind, "", shown(node))
            return ComputedKey(name, column, formula=formula)
        return ComputedOutput(name, shown(node), formula, tuple(parts.values()))

    def finish(self, tree: exp.Select) -> Finish:
        """The last clauses of a query."""
        having, order = tree.args.get("having"), tree.args.get("order")
        test = read_truth(self.scope, having.this, self._of_having) if having is not None else None
        terms = tuple(self._term(node) for node in order.expressions) if order is not None else ()
        limit, offset = self._whole(tree.args.get("limit")), self._whole(tree.args.get("offset")) or 0
        return Finish(test, terms, limit, offset, tuple(self.hidden))

    def _whole(self, clause: exp.Expr | None) -> int | None:
        if clause is None:
            return None
        self.scope.only(clause, "expression")
        value = self.scope.value(clause.expression) if is_literal(clause.expression) else None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.scope.refuse(clause, f"{clause.key.upper()} needs a whole number, 0 or more")
        return value

    def _term(self, node: exp.Expr) -> tuple[RowFormula, bool]:
        self.scope.only(node, "this", "desc", "nulls_first")
        inner, descending = bare(node.this), bool(node.args.get("desc"))
        if isinstance(inner, exp.Literal) and not inner.is_string:
            place = self.scope.value(inner)
            if not isinstance(place, int) or not 1 <= place <= len(self.outputs):
                raise self.scope.refuse(inner, f"ORDER BY {shown(inner)} is not a place in the SELECT list")
            return _of_output(self.outputs[place - 1]), descending
        return self._named(inner) or read_formula(self.scope, inner, self._of_having), descending

    def _of_having(self, node: exp.Expr) -> RowFormula | None:
        """What a node of HAVING, or of an expression in ORDER BY, means as a whole."""
        part = self.aggregate(node)
        if part is None:
            return self._key(node) or self._named(node) or self._unreleased(node)
        known = [*(output for output in self.outputs if isinstance(output, AggregateOutput)), *self.hidden]
        for output in known:
            if meaning(output) == meaning(part):
                return _of_output(output)
        _check_number(self.scope, node, part)
        taken = {output.name.casefold() for output in (*self.outputs, *self.hidden)}
        name = part.name
        while name.casefold() in taken:
            name += "_"
        self.hidden.append(replace(part, name=name))
        return _of_output(self.hidden[-1])

    def _named(self, node: exp.Expr) -> RowFormula | None:
        """The output that bears a name."""
        if not isinstance(node, exp.Column) or node.table:
            return None
        for output in self.outputs:
            if output.name.casefold() == node.name.casefold():
                return _of_output(output)
        return None

    def _key(self, node: exp.Expr) -> RowFormula | None:
        """The grouped column that a node repeats."""
        if is_literal(node) or not self.groups:
            return None
        try:
            wanted = sql_name(expression(self.scope, node))
        except QueryError:
            return None
        for column in self.groups:
            if sql_name(column) == wanted:
                return RowFormula(column.kind, lambda row: row[KEY, wanted], frozenset([(KEY, wanted)]), sure=True)
        return None

    def _unreleased(self, node: exp.Expr) -> RowFormula | None:
        """Refuse a column that is not released; None for what is no column."""
        if not isinstance(node, exp.Column):
            return None
        column = self.scope.column(node)
        if self.outputs:
            names = ", ".join(output.name for output in self.outputs)
            raise self.scope.refuse(node, f"{shown(node)} is not released; after GROUP BY only {names} can be used")
        raise self.scope.refuse(
            node, f"column {column.name} is neither grouped nor aggregated; add it to GROUP BY or aggregate it"
        )


def _associated(linked: Association, names: Mapping[str, str]) -> RowFormula:
    """The formula of a correlation or its like, over aggregates of these names."""
    return RowFormula(
        ColumnKind.REAL,
        lambda row: linked.of({letters: numbered(row[VALUE, name]) for letters, name in names.items()}),
        frozenset((VALUE, name) for name in names.values()),
    )


def _of_output(output: Output) -> RowFormula:
    if isinstance(output, ComputedKey):
        return output.formula
    if isinstance(output, KeyOutput):
        leaf = KEY, sql_name(output.column)
        return RowFormula(output.column.kind, lambda row: row[leaf], frozenset([leaf]), sure=True)
    return _value(output.name, output.formula.kind if isinstance(output, ComputedOutput) else _kind(output))


def _value(name: str, kind: ColumnKind) -> RowFormula:
    leaf = VALUE, name
    return RowFormula(kind, lambda row: row[leaf], frozenset([leaf]), sure=True)


def _kind(output: AggregateOutput) -> ColumnKind:
    """What an aggregate's values are."""
    if output.function == "mode" and output.column is not None:
        return output.column.kind
    whole = output.function == "count" or (output.function == "sum" and _is_whole(output.column))
    return ColumnKind.INTEGER if whole else ColumnKind.REAL


def _is_whole(column: Column | None) -> bool:
    return column is not None and column.kind is ColumnKind.INTEGER


def _check_number(scope: Scope, node: exp.Expr, output: AggregateOutput) -> None:
    if output.function == "mode":
        raise scope.refuse(node, f"{output.text} is not supported here; MODE is selected by itself")


def meaning(output: AggregateOutput) -> tuple[object, ...]:
    """What an aggregate is, whatever it is called."""
    place = None if output.column is None else sql_name(output.column)
    return output.function, place, output.level, output.distinct
