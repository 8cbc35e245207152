"""A sqlglot tree, read into a `Question`: which aggregates of which columns, by which groups, under which condition.

The walk is a whitelist. Each clause, each node and each part of a node is either understood or refused by name and
position.

>>> visits = Table("visits", (Column("city", Kind.TEXT, "VARCHAR"), Column("cost", Kind.REAL, "DOUBLE")))
>>> question = read("SELECT city, AVG(cost) FROM visits WHERE cost > 0 GROUP BY city", (visits,))
>>> [output.name for output in question.outputs], question.where
(['city', 'avg_cost'], '(t."cost" > 0.0e0)')
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from deniable.errors import QueryError
from deniable.query.parsing import parse, refusal
from deniable.query.predicates import Reader, shown
from deniable.query.schema import Column, Kind, Table, listed

FUNCTIONS: dict[type[exp.Expr], str] = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg"}
"""The aggregates that are known, by the node that stands for them."""

_CLAUSES = ("expressions", "from", "from_", "where", "group")


@dataclass(frozen=True)
class KeyOutput:
    """A column of the answer that holds a group's key."""

    name: str
    column: Column


@dataclass(frozen=True)
class AggregateOutput:
    """A column of the answer that holds a released number: `function` of `column`, or of the rows when it is None."""

    name: str
    function: str
    column: Column | None

    @property
    def text(self) -> str:
        """ "AVG(cost)"."""
        return f"{self.function.upper()}({self.column.name if self.column else '*'})"


@dataclass(frozen=True)
class Question:
    """What a query asks."""

    table: Table
    outputs: tuple[KeyOutput | AggregateOutput, ...]
    groups: tuple[Column, ...]
    where: str | None
    """The condition as total SQL."""

    @property
    def aggregates(self) -> tuple[AggregateOutput, ...]:
        """The outputs that are released numbers."""
        return tuple(output for output in self.outputs if isinstance(output, AggregateOutput))


def read(sql: str, tables: tuple[Table, ...]) -> Question:
    """What a SQL text asks of one of these tables."""
    try:
        return _question(sql, parse(sql), tables)
    except RecursionError:
        raise QueryError("the SQL is nested too deeply; write a shorter condition") from None


def _question(sql: str, tree: exp.Select, tables: tuple[Table, ...]) -> Question:
    for clause, value in tree.args.items():
        if value not in (None, False, []) and clause not in _CLAUSES:
            parts = [
                part for part in (value if isinstance(value, list) else [value]) if isinstance(part, exp.Expression)
            ]
            raise refusal(
                parts[0] if parts else tree, f"{clause.strip('_').replace('_', ' ').upper()} is not supported", sql
            )
    reader = _reader(sql, tree, tables)
    where = tree.args.get("where")
    group = tree.args.get("group")
    groups = _groups(reader, group) if group is not None else ()
    outputs = tuple(_output(reader, node, groups) for node in tree.expressions)
    _check_outputs(reader, tree, outputs, groups)
    return Question(reader.table, outputs, groups, reader.condition(where.this) if where is not None else None)


def _reader(sql: str, tree: exp.Select, tables: tuple[Table, ...]) -> Reader:
    """The one table that the query reads."""
    origin = tree.args.get("from_") or tree.args.get("from")
    known = listed(tuple(table.name for table in tables))
    if origin is None:
        raise refusal(tree, f"FROM is missing; the tables are {known}", sql)
    node = origin.this
    if isinstance(node, exp.Subquery | exp.Select):
        raise refusal(node, "a subquery is not supported; name a table", sql)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise refusal(node, f"{shown(node)} is not a table; the tables are {known}", sql)
    alias = node.args.get("alias")
    for found, parts in ((node, ("this", "alias")), (alias, ("this",))):
        for part, value in found.args.items() if found is not None else ():
            if value not in (None, False, []) and part not in parts:
                what = {"db": "a schema name", "catalog": "a schema name", "joins": "a join"}.get(part, part)
                raise refusal(node, f"{what} with a table is not supported; name one table of {known}", sql)
    for table in tables:
        if table.name.casefold() == node.name.casefold():
            return Reader(table, alias=node.alias or table.name, sql=sql)
    raise refusal(node, f"there is no table {node.name}; the tables are {known}", sql)


def _groups(reader: Reader, clause: exp.Group) -> tuple[Column, ...]:
    """The columns of GROUP BY."""
    reader.only(clause, "expressions")
    found: list[Column] = []
    for node in clause.expressions:
        column = reader.column(node)
        if column.kind is Kind.OTHER:
            raise reader.refuse(node, f"GROUP BY {column.name} is not supported: it is of type {column.type}")
        if column in found:
            raise reader.refuse(node, f"column {column.name} stands twice in GROUP BY")
        found.append(column)
    return tuple(found)


def _output(reader: Reader, node: exp.Expr, groups: tuple[Column, ...]) -> KeyOutput | AggregateOutput:
    """One item of the SELECT list."""
    alias = None
    if isinstance(node, exp.Alias):
        reader.only(node, "this", "alias")
        alias, node = node.alias, node.this
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        column = reader.column(node)
        if column not in groups:
            raise reader.refuse(
                node, f"column {column.name} is neither grouped nor aggregated; add it to GROUP BY or aggregate it"
            )
        return KeyOutput(alias or column.name, column)
    if type(node) in FUNCTIONS:
        return _aggregate(reader, node, alias)
    if isinstance(node, exp.Star):
        raise reader.refuse(node, "SELECT * would release rows; ask for aggregates, for example COUNT(*)")
    known = ", ".join(name.upper() for name in FUNCTIONS.values())
    raise reader.refuse(node, f"{shown(node)} is not supported; the aggregates are {known} of a column")


def _aggregate(reader: Reader, node: exp.Expr, alias: str | None) -> AggregateOutput:
    function = FUNCTIONS[type(node)]
    reader.only(node, "this", "big_int")
    inner = node.this
    if function == "count" and isinstance(inner, exp.Star):
        reader.only(inner)
        return AggregateOutput(alias or "count", function, None)
    if inner is None or isinstance(inner, exp.Star | exp.Literal):
        remedy = "write COUNT(*) or COUNT(column)" if function == "count" else f"write {function.upper()}(column)"
        raise reader.refuse(node, f"{shown(node)} is not supported; {remedy}")
    column = reader.column(inner)
    if function != "count" and not column.kind.numeric:
        raise reader.refuse(node, f"{function.upper()} needs numbers; column {column.name} holds {column.kind.value}")
    return AggregateOutput(alias or f"{function}_{column.name}", function, column)


def _check_outputs(
    reader: Reader, tree: exp.Select, outputs: tuple[KeyOutput | AggregateOutput, ...], groups: tuple[Column, ...]
) -> None:
    """Every group can be told from the others, every name means one thing, and something is asked."""
    if not any(isinstance(output, AggregateOutput) for output in outputs):
        raise reader.refuse(tree, "nothing is aggregated; ask for COUNT(*), COUNT, SUM or AVG")
    selected = {output.column for output in outputs if isinstance(output, KeyOutput)}
    for column in groups:
        if column not in selected:
            raise reader.refuse(
                tree.args["group"], f"column {column.name} is grouped but not selected; add it to the SELECT list"
            )
    taken: set[str] = set()
    for output, node in zip(outputs, tree.expressions, strict=True):
        names = [output.name]
        if isinstance(output, AggregateOutput):
            names += [f"{output.name}_low", f"{output.name}_high"]
        for found in names:
            if found.casefold() in taken:
                raise reader.refuse(node, f"the answer would have two columns {found}; rename one with AS")
            taken.add(found.casefold())
