"""One number per person and group: what GoogleSQL aggregates, and clamps, before it adds up over people.

`SUM(x, contribution_bounds_per_group => (L, U))` adds up, over people, what each has in a group, clamped to [L, U];
COUNT likewise; AVG averages people's averages. That is a plain query over another table, which has one row per person
and group: its columns are the person, the keys of the group, and a value per aggregate. So the question is asked of
that table: the bounded SQL reads it in place of the private one, with one row per group of a person, and everything
else (limits on groups, noise, intervals) is as in any query. The sensitivity is groups · max(|L|, |U|).

**Others do not matter.** A row of that table is made of one person's rows. Floats are added up as whole numbers of the
grid's steps, so that the sum is exact and does not depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deniable.errors import QueryError
from deniable.noise import Grid
from deniable.query import grids
from deniable.query.googlesql import Ends
from deniable.query.outputs import AggregateOutput, KeyOutput
from deniable.query.schema import Column, ColumnKind
from deniable.query.values import double, name, quoted

if TYPE_CHECKING:
    from deniable.query.reading import ParsedQuery

_WIDEST = 1 << 50
"""Steps of the grid that one row's value may be away from 0."""


def derived(question: ParsedQuery, person: str, bounds: Sequence[Ends | None]) -> ParsedQuery:
    """The question of a GoogleSQL text as one over people; `bounds` are those of each output's call."""
    if not question.table.has(person):
        raise QueryError(f"privacy_unit_column={person} is not a column of {question.table.name}")
    unit = question.table.find(person)
    columns, grouped = {quoted(unit.name): name(unit)}, dict[str, Column]()
    group, value = question.table.unused("group"), question.table.unused("value")
    for i, column in enumerate(question.groups, start=1):
        plain = column.sql is None
        columns[quoted(column.name) if plain else f'"{group} {i}"'] = name(column)
        grouped[name(column)] = column if plain else replace(column, sql=f't."{group} {i}"')
    outputs: list[Any] = []
    for i, (output, ends) in enumerate(zip(question.outputs, bounds, strict=True), start=1):
        if isinstance(output, KeyOutput):
            outputs.append(replace(output, column=grouped[name(output.column)]))
            continue
        sql, column = _value(output, ends, unit, f'"{value} {i}"')
        columns[f'"{value} {i}"'] = sql
        outputs.append(replace(output, function="avg" if output.function == "avg" else "sum", column=column))
    listed = ",\n  ".join(f"{sql} AS {alias}" for alias, sql in columns.items())
    by = ", ".join([name(unit), *(name(column) for column in question.groups)])
    where = f"\nWHERE {question.where}" if question.where is not None else ""
    people = f"(\nSELECT {listed}\nFROM {question.source}{where}\nGROUP BY {by}\n) AS t"
    return replace(
        question,
        outputs=tuple(outputs),
        groups=tuple(grouped[name(column)] for column in question.groups),
        where=None,
        people=people,
        renamed={sql: name(column) for sql, column in grouped.items()},
    )


def _value(output: AggregateOutput, ends: Ends | None, unit: Column, alias: str) -> tuple[str, Column]:
    """A person's number in SQL, over the person's rows in a group; and the column that it becomes."""
    text, rows = output.text, output.column
    if output.function not in ("count", "sum", "avg") or output.distinct:
        raise QueryError(f"{text} has no form per person; the aggregates are COUNT, SUM and AVG")
    if ends is None:
        raise QueryError(
            f"{text} needs contribution_bounds_per_group => (low, high); where they are left out, GoogleSQL finds them "
            "in the data"
        )
    column = Column(f"{text} per {unit.name}", ColumnKind.REAL, "DOUBLE", f"t.{alias}", ends.low, ends.high)
    if output.function == "count":
        counted = "COUNT(*)" if rows is None else f"COUNT({grids.presence(rows)})"
        return counted, replace(column, kind=ColumnKind.INTEGER, type="BIGINT")
    if rows is None:
        raise QueryError(f"{text} needs a column")
    grid = grids.choose(rows, (ends.low, ends.high))
    steps = grids.place(rows, Grid(low=-_WIDEST * grid.step, high=_WIDEST * grid.step, step=grid.step))
    whole = f"TRY_CAST(SUM({steps}) AS DOUBLE)"
    if grid.step.denominator > 1:
        whole += f" / {double(float(grid.step.denominator))}"
    if grid.step.numerator > 1:
        whole += f" * {double(float(grid.step.numerator))}"
    if output.function == "avg":
        return f"{whole} / NULLIF(COUNT({steps}), 0)", column
    return whole, column
