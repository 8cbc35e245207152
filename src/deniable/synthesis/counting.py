"""Exact marginals of a private table, from its engine: one GROUP BY each, over the rows that count.

The rows that count have a unit, pass WHERE, and hold a listed value in every column that has no code for missing ones.
Of a unit with more than m of them, m stay. Which ones is decided as in queries (`query.choice`): by a keyed hash of the
unit's own rows, one key for all marginals of a run, so that all of them are of the same rows. A unit adds at most m
to the cells of each marginal, and what it adds depends on its own rows alone. `contributions` says what follows.

A statement computes every row's codes once and then groups them once for every marginal asked of it. Its answer is one
list of cells: the marginals lie one behind the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InvalidArgument, QueryError
from deniable.query import bounding, choice
from deniable.query.bounding import Bounded
from deniable.query.choice import ONE_ROW, AtMost, Base
from deniable.query.engines.base import Engine
from deniable.query.expressions import expression, named_column
from deniable.query.planning import PlanningContext
from deniable.query.reading import ParsedQuery, Statement, parse_query, read
from deniable.query.schema import Column, ColumnKind
from deniable.query.values import name as sql_name
from deniable.query.values import quoted
from deniable.synthesis.domain import Attribute, Clique, Domain

AT_ONCE = 120
"""Marginals of one statement, at most."""

MOST_CELLS = 1 << 23
"""Cells of all marginals of one release, at most."""

_CLAUSES = ("group", "having", "order", "limit", "offset")


@dataclass(frozen=True)
class RowSource:
    """The rows that are asked: a table of the session, what is joined to it, the condition, and the columns that a
    SELECT names."""

    question: ParsedQuery
    columns: dict[str, Column] = field(hash=False)
    """Named by the SELECT list; empty where a table was named."""
    items: dict[str, Any] = field(hash=False, repr=False)
    """The terms of the SELECT list, by the names of their columns."""

    def column(self, name: str) -> Column:
        """The column that a caller names."""
        known = {each.casefold(): column for each, column in self.columns.items()}
        if not known:
            return named_column(self.question.scope, name)
        if name.casefold() not in known:
            raise InvalidArgument("columns", name, f"columns of the SELECT list: {', '.join(self.columns)}")
        return known[name.casefold()]


def read_source(text: str, context: PlanningContext) -> RowSource:
    """The table or the SELECT that a caller names: `"visits"`, or `"SELECT city, age FROM visits WHERE age > 17"`."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgument("table", text, "the name of a table, or a SELECT of its columns")
    if any(table.name.casefold() == text.strip().casefold() for table in context.tables):
        question = read(parse_query(f"SELECT COUNT(*) FROM {quoted(text.strip())}"), context.tables)
        found = RowSource(question, {}, {})
    else:
        found = _selected(text, context)
    unit = context.ledger.unit
    for join in found.question.all_joins:
        if unit.column is None and join.table.public and context.engine.look(join.repeats)[0][0]:
            raise QueryError(
                f"the public table {join.table.name} has several rows for one key, so a row would count several times, "
                "and this ledger protects single rows; join a table with one row per key"
            )
    return found


def _selected(text: str, context: PlanningContext) -> RowSource:
    statement = parse_query(text)
    tree = statement.tree
    if statement.google is not None:
        raise QueryError("a synthetic table is made of SELECT columns FROM table WHERE condition; leave the rest out")
    for clause in _CLAUSES:
        if tree.args.get(clause):
            raise QueryError(f"a synthetic table is made of rows, so {clause.upper()} is not supported; leave it out")
    counted = tree.copy().select("COUNT(*)", append=False, dialect="duckdb")
    question = read(Statement(text, counted), context.tables)
    columns: dict[str, Column] = {}
    items: dict[str, Any] = {}
    for item in tree.expressions:
        column = expression(question.scope, item.unalias())
        name = item.alias or column.name
        if name.casefold() in {known.casefold() for known in columns}:
            raise QueryError(f"the SELECT list has two columns {name}; rename one with AS")
        columns[name] = replace(column, name=name, sql=sql_name(column))
        items[name] = item
    return RowSource(question, columns, items)


def unit_column(source: RowSource, context: PlanningContext) -> Column | None:
    """The column that says whose a row is; None where every row is a unit of its own."""
    return source.question.unit_column(context.ledger.unit)


@dataclass(frozen=True)
class Counting:
    """How the marginals of a table are counted: its rows, its domain, its unit, and how many rows of one count."""

    source: RowSource
    domain: Domain
    unit: Column | None
    rows: int
    alike: bool
    """Whether rows are chosen as all engines can."""

    def statements(self, cliques: Sequence[Clique]) -> list[Bounded]:
        """The SQL that counts these marginals."""
        return [self._statement(batch) for batch in _batches(cliques)]

    def count(
        self, engine: Engine, cliques: Sequence[Clique], *, key: tuple[int, int]
    ) -> dict[Clique, NDArray[np.int64]]:
        """The exact marginals; the caller has charged for what it makes of them."""
        found: dict[Clique, NDArray[np.int64]] = {}
        for batch in _batches(cliques):
            sizes = [self.domain.cells(clique) for clique in batch]
            cells = engine.run(self._statement(batch), groups=sum(sizes), key=key).rows
            parts = np.split(cells, np.cumsum(sizes)[:-1])
            found |= {c: part.reshape(self.domain.shape(c)) for c, part in zip(batch, parts, strict=True)}
        return found

    @property
    def base(self) -> Base:
        """The rows that count, with the codes v1, v2, … of their columns."""
        attributes = self.domain.attributes
        readings = [attribute.reading for attribute in attributes]
        base = bounding.base(self.source.question, (), readings, unit=self.unit)
        codes, needed = [], []
        for value, attribute in zip(base.values, attributes, strict=True):
            codes.append(f"CAST({_code(value, attribute)} AS {self._type(attribute.size)})")
            needed += [] if attribute.missing else [f"({value}) IS NOT NULL"]
        kinds = {**base.kinds, **dict.fromkeys(base.names, ColumnKind.INTEGER)}
        return replace(base, values=tuple(codes), conditions=(*base.conditions, *needed), kinds=kinds)

    def _type(self, size: int) -> str:
        """The type of codes: a small one where the engine keeps the rows in memory."""
        if self.alike:
            return "BIGINT"
        return "UTINYINT" if size <= 1 << 8 else "SMALLINT" if size < 1 << 15 else "INTEGER"

    def _statement(self, cliques: Sequence[Clique]) -> Bounded:
        base, limits = self.base, AtMost(groups=1, rows=self.rows)
        readings = [attribute.reading for attribute in self.domain.attributes]
        every = (
            "rows AS (\n  SELECT * FROM base\n)" if self.alike else "rows AS MATERIALIZED (\n  SELECT * FROM base\n)"
        )
        plain = self._lines([base.step, every], cliques)
        lists = bounding.lists((), readings)
        if self.unit is None:
            return Bounded(plain, lists, ())
        steps = choice.portable_rows if self.alike else choice.rows
        easier = None if self.alike else choice.shortcut(base.step, base.by, plain, limits=limits, groups=1)
        return Bounded(self._lines(steps(base, limits=limits, groups=1), cliques), lists, (), easier)

    def _lines(self, steps: Sequence[str], cliques: Sequence[Clique]) -> str:
        """One GROUP BY for every marginal; a cell is numbered in the list of all of them."""
        lines, offset = [], 0
        for clique in cliques:
            number, stride = [f"CAST({offset} AS BIGINT)"], self.domain.cells(clique)
            for place in clique:
                stride //= self.domain.attributes[place].size
                number.append(f"CAST(v{place + 1} AS BIGINT) * {stride}")
            by = " GROUP BY " + ", ".join(f"v{place + 1}" for place in clique) if clique else ""
            lines.append(f"SELECT {' + '.join(number)} AS g, COUNT(*) AS n FROM rows{by}")
            offset += self.domain.cells(clique)
        listed, union = ",\n".join(steps), "\nUNION ALL ".join(lines)
        return f"WITH {listed}\nSELECT g, n FROM (\n{union}\n) AS cells"


def row_limit(per_unit: object, context: PlanningContext) -> int:
    """How many rows of one unit count."""
    unit = context.ledger.unit
    if per_unit is not None and not isinstance(per_unit, AtMost):
        raise InvalidArgument("per_unit", per_unit, "limits", "For example per_unit=dn.AtMost(groups=1, rows=4).")
    if unit.column is None:
        if per_unit not in (None, ONE_ROW):
            raise InvalidArgument(
                "per_unit", per_unit, "left out: this ledger protects single rows", "A row is one row."
            )
        return 1
    if per_unit is None:
        raise QueryError(
            f"one {unit.noun} may own many rows, and the noise must cover all that count; give "
            "per_unit=dn.AtMost(groups=1, rows=4), with a number that most people stay within, from what you know"
        )
    if per_unit.groups != 1:
        raise InvalidArgument("per_unit", per_unit, "one group: a table of rows has no groups", "Limit its rows.")
    return per_unit.within(1).rows


def _batches(cliques: Sequence[Clique]) -> Iterator[Sequence[Clique]]:
    for first in range(0, len(cliques), AT_ONCE):
        yield cliques[first : first + AT_ONCE]


def _code(value: str, attribute: Attribute) -> str:
    """A row's code: the place of its value, or the code of missing ones."""
    return f"COALESCE({value}, {attribute.listed})" if attribute.missing else value
