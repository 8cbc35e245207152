"""What engines elsewhere share: what they know of tables, copies of public ones, and answers as arrays.

Public tables are read once, when a session is opened, into a DuckDB of our own: what a plan is told about them (their
keys, whether a key repeats) stays true, and asking them needs no rights in the database. They travel with every query.

Bounded SQL in another engine's words: the tree is read, each node is known or refused, and some are written anew.

Bounded SQL is written by this library, in DuckDB's dialect, from a small vocabulary (`bounding`, `choice`, `functions`,
`surveys`). sqlglot reads it into a tree and writes the tree in the other dialect. Where an engine would mean something
else by the same words, or could fail where DuckDB gives NULL, a `SqlWriter` has a rule that replaces the node. A node
that is not in the vocabulary is refused, as is one for which the engine has no equal: both before anything is charged.

Types matter to some rules: the division of two floats may overflow, a cast depends on what is cast. They follow from
the columns of the tables and from the vocabulary, bottom up; None means a type that no rule asks for.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp

from deniable.errors import DataError, NotSupported
from deniable.query.bounding import Bounded
from deniable.query.engines.duckdb import DuckDB
from deniable.query.functions import calendar
from deniable.query.schema import Column, ColumnKind, Table
from deniable.query.values import quoted

DOUBLE, WHOLE, HUGE, DECIMAL, TEXT, BOOLEAN, DATE, TIMESTAMP = (
    "DOUBLE", "BIGINT", "HUGEINT", "DECIMAL", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP",
)  # fmt: skip

_TYPES = {
    exp.DType.DOUBLE: DOUBLE, exp.DType.FLOAT: DOUBLE, exp.DType.BIGINT: WHOLE, exp.DType.INT: WHOLE,
    exp.DType.INT128: HUGE, exp.DType.TEXT: TEXT, exp.DType.VARCHAR: TEXT, exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.DATE: DATE, exp.DType.TIMESTAMP: TIMESTAMP, exp.DType.TIMESTAMPNTZ: TIMESTAMP,
}  # fmt: skip
"""The types that casts may name."""

_KINDS = {
    ColumnKind.INTEGER: WHOLE, ColumnKind.TEXT: TEXT, ColumnKind.UNTYPED: TEXT, ColumnKind.BOOLEAN: BOOLEAN,
    ColumnKind.DATE: DATE, ColumnKind.TIMESTAMP: TIMESTAMP,
}  # fmt: skip

_PLAIN = (
    exp.Select, exp.From, exp.Join, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Alias, exp.Where,
    exp.Group, exp.Order, exp.Ordered, exp.With, exp.CTE, exp.Subquery, exp.Union, exp.Having, exp.Paren, exp.And,
    exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.Null, exp.Between, exp.Like, exp.In,
    exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Least, exp.Greatest, exp.Cast, exp.TryCast, exp.DataType,
    exp.Literal, exp.Boolean, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Count, exp.Sum, exp.Min,
    exp.Max, exp.Distinct, exp.Star, exp.Window, exp.RowNumber, exp.DenseRank, exp.Abs, exp.Sign, exp.Floor, exp.Ceil,
    exp.Round, exp.Sqrt, exp.Ln, exp.Exp, exp.Pow, exp.Log, exp.Upper, exp.Lower, exp.Length, exp.StartsWith,
    exp.Contains, exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfYear, exp.DayOfWeek, exp.DayOfWeekIso,
    exp.Hour, exp.Minute, exp.TimestampTrunc, exp.DateDiff, exp.Substring, exp.Left, exp.Right, exp.Trim, exp.Replace,
    exp.Concat, exp.DPipe, exp.Placeholder, exp.IsNan, exp.MD5, exp.Explode, exp.GenerateSeries, exp.Array,
    exp.BitwiseRightShift, exp.BitwiseAnd, exp.Var, exp.Escape, exp.Interval,
)  # fmt: skip
"""The vocabulary of bounded SQL, but for EPOCH_US, which sqlglot does not know."""

_NUMBERS = (exp.Sqrt, exp.Ln, exp.Exp, exp.Pow, exp.Log, exp.Floor, exp.Ceil, exp.Round, exp.Mod, exp.Div, exp.Abs)
_WHOLES = (
    exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.DayOfYear, exp.DayOfWeek, exp.DayOfWeekIso, exp.Hour,
    exp.Minute, exp.DateDiff, exp.Length, exp.Count,
)  # fmt: skip
_TEXTS = (exp.Upper, exp.Lower, exp.Substring, exp.Left, exp.Right, exp.Trim, exp.Replace, exp.Concat, exp.DPipe)
_SAME = (exp.Paren, exp.Least, exp.Greatest, exp.Coalesce, exp.Nullif, exp.Neg, exp.Min, exp.Max)

Rule = Callable[["SqlWriter", exp.Expr], exp.Expr | None]


class SqlWriter(ABC):
    """Writes bounded SQL over some tables for one engine."""

    dialect: ClassVar[str]
    engine: ClassVar[str]
    """Its name in messages."""
    rules: ClassVar[Mapping[type[exp.Expr], Rule]]
    """What is written anew, by kind of node; a rule may return None, and the node stays."""

    def __init__(self, tables: Mapping[str, Table], sources: Mapping[str, str]) -> None:
        self._tables, self._sources = tables, sources
        self._types: dict[int, str | None] = {}
        self._integral: set[int] = set()
        self._read: dict[int, exp.Expr] = {}

    def text(self, tree: exp.Expr, *, pretty: bool = False) -> str:
        """A tree in the engine's dialect. What runs is not pretty: sqlglot writes line breaks in texts by a word of its
        own there, which an analyst may write, too."""
        return tree.sql(dialect=self.dialect, identify=True, pretty=pretty, unsupported_level=sqlglot.ErrorLevel.RAISE)

    def tree(self, text: str) -> exp.Expr:
        """The SQL as a tree of the engine's own functions; NotSupported names what the engine has no equal for."""
        tree: exp.Expr = sqlglot.parse_one(text, read="duckdb")
        aliases = self._aliases(tree)
        nodes = list(tree.walk(bfs=False))
        self._read = {id(node): read for node, read in zip(nodes, tree.copy().walk(bfs=False), strict=True)}
        # Inputs come before what is made of them, but for columns of a subquery: those are known after it was read.
        for node in [*reversed(nodes)] * (1 + max(map(_depth, tree.find_all(exp.Subquery)), default=0)):
            self._types[id(node)] = self._type(node, aliases)
            if self._is_integral(node):
                self._integral.add(id(node))
        for node in reversed(nodes):
            rule = self.rules.get(type(node))
            if rule is None and type(node) not in _PLAIN:
                raise self.refused(node)
            found = rule(self, node) if rule is not None else None
            if found is not None:
                self._types[id(found)] = self._types[id(node)]
                (self._integral.add if id(node) in self._integral else self._integral.discard)(id(found))
                node.replace(found)
        return tree

    def source(self, table: Table) -> str:
        """What stands for a table after FROM."""
        return self._sources[table.name]

    def table(self, name: str) -> exp.Expr:
        """What stands for a table after FROM, as a node."""
        found = _parsed(f"SELECT * FROM {self.source(self._tables[name])} AS x", self.dialect).find(exp.From)
        place: exp.Expr = found.this.copy()  # type: ignore[union-attr]
        return place

    def refused(self, node: exp.Expr, why: str = "") -> NotSupported:
        """What cannot be written, in a sentence."""
        shown = " ".join(self._read.get(id(node), node).sql(dialect="duckdb").split())
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return NotSupported(f"{shown} is not supported on {self.engine}{'; ' + why if why else ''}")

    def type(self, node: exp.Expr) -> str | None:
        """The type of a node of the tree that was read."""
        return self._types.get(id(node))

    def integral(self, node: exp.Expr) -> bool:
        """Whether a float is a whole number, as made from one."""
        return id(node) in self._integral

    def build(self, template: str, **parts: exp.Expr) -> exp.Expr:
        """A piece of SQL of the other dialect, with nodes in place of its :names."""
        tree = _parsed(template, self.dialect)
        return exp.replace_placeholders(tree, **{name: part.copy() for name, part in parts.items()})

    def inner(self, template: str, parts: Mapping[str, exp.Expr]) -> exp.Expr:
        """A piece of SQL whose :names are columns of q."""
        return self.build(template, **{name: exp.column(name, table="q") for name in parts})

    def once(self, template: str, x: exp.Expr, y: exp.Expr | None = None) -> exp.Expr:
        """A piece of SQL that names x and y several times, while each is computed once."""
        parts = {"x": x} | ({"y": y} if y is not None else {})
        if any(part.find(exp.AggFunc) is not None for part in parts.values()):
            return self.build(f"({template})", **parts)  # an aggregate must stay where its rows are
        columns = [isinstance(part, exp.Column) for part in parts.values()]
        if any(columns) and all(
            column or is_number(part) for column, part in zip(columns, parts.values(), strict=True)
        ):
            return self.build(f"({template})", **parts)
        return self.bound(template, parts)

    @abstractmethod
    def bound(self, template: str, parts: Mapping[str, exp.Expr]) -> exp.Expr:
        """A piece of SQL whose :names are computed beforehand."""

    def _is_integral(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Paren | exp.Nullif):
            return id(node.this) in self._integral
        return isinstance(node, exp.Cast) and self.type(node) == DOUBLE and self.type(node.this) == WHOLE

    def _aliases(self, tree: exp.Expr) -> dict[str, Table]:
        """The tables of the session by the names they have in bounded SQL, where each has one."""
        nodes = [n for n in tree.find_all(exp.Table) if n.args.get("db") is not None and n.name in self._tables]
        found = {node.alias: self._tables[node.name] for node in nodes}
        for node in nodes:
            outer = node.find_ancestor(exp.Subquery)
            while outer is not None:  # a joined private table: see `scope`
                # The table of people (`googlesql`) is called t like the one in it, and has columns of that one alone.
                found.setdefault(outer.alias, self._tables[node.name])
                outer = outer.find_ancestor(exp.Subquery)
        return found

    def _type(self, node: exp.Expr, aliases: Mapping[str, Table]) -> str | None:
        if isinstance(node, exp.Column):
            source = _source(node)
            if isinstance(source, exp.Subquery):
                return self._types.get(id(_selected(source, node.name)))
            table = aliases.get(node.table) if source is None else self._tables.get(source.name)
            column = table.find(node.name) if table is not None and table.has(node.name) else None
            if column is None:
                return None
            if column.kind is ColumnKind.REAL:
                return DECIMAL if column.type.startswith("DECIMAL") else DOUBLE
            return _KINDS.get(column.kind)
        if isinstance(node, exp.Cast):
            return _TYPES.get(node.to.this)
        if isinstance(node, exp.Literal):
            return TEXT if node.is_string else DOUBLE if {"e", ".", "E"} & set(node.this) else WHOLE
        if isinstance(node, _SAME):
            inner = [self._types[id(part)] for part in (node.this, *node.expressions) if isinstance(part, exp.Expr)]
            return next((type for type in inner if type is not None), None)
        if isinstance(node, exp.Case):
            outcomes = [branch.args["true"] for branch in node.args["ifs"]]
            outcomes += [node.args["default"]] if node.args.get("default") is not None else []
            inner = [self._types[id(part)] for part in outcomes]
            return next((type for type in inner if type is not None), None)
        if isinstance(node, exp.Add | exp.Sub | exp.Mul):
            if isinstance(node.expression, exp.Interval):
                return TIMESTAMP
            both = {self._types[id(node.this)], self._types[id(node.expression)]}
            return DOUBLE if DOUBLE in both else WHOLE if both == {WHOLE} else None
        if isinstance(node, _NUMBERS):
            return DOUBLE
        if isinstance(node, exp.TimestampTrunc):
            return TIMESTAMP
        if isinstance(node, (*_WHOLES, exp.Sign)):
            return DOUBLE if isinstance(node, exp.Sign) else WHOLE
        if isinstance(node, (*_TEXTS, exp.MD5)):
            return TEXT
        if isinstance(node, exp.Boolean | exp.Predicate | exp.Not | exp.And | exp.Or | exp.StartsWith | exp.Contains):
            return BOOLEAN
        return None


def _depth(node: exp.Expr) -> int:
    """In how many subqueries a subquery stands, itself among them."""
    outer = node.find_ancestor(exp.Subquery)
    return 1 if outer is None else 1 + _depth(outer)


def _source(node: exp.Column) -> exp.Table | exp.Subquery | None:
    """The table of the session, or the subquery, that a column's table is in the SELECT where the column stands."""
    select = node.find_ancestor(exp.Select)
    if select is None or not node.table:
        return None
    origin = select.args.get("from_") or select.args.get("from")
    places = [*([origin.this] if origin is not None else []), *(join.this for join in select.args.get("joins") or [])]
    for place in places:
        base = isinstance(place, exp.Table) and place.args.get("db") is not None
        if place.alias == node.table and (base or isinstance(place, exp.Subquery)):
            found: exp.Table | exp.Subquery = place
            return found
    return None


def _selected(subquery: exp.Subquery, name: str) -> exp.Expr | None:
    """What a subquery selects under a name."""
    inner = subquery.this
    while isinstance(inner, exp.Union):
        inner = inner.this
    for item in inner.expressions:
        if item.alias_or_name == name:
            found: exp.Expr = item.this if isinstance(item, exp.Alias) else item
            return found
    return None


@lru_cache(maxsize=1000)
def _parsed(template: str, dialect: str) -> exp.Expr:
    """The tree of a template, which is copied where it is used."""
    tree: exp.Expr = sqlglot.parse_one(template, read=dialect)
    return tree


def is_number(node: exp.Expr) -> bool:
    """Whether a node is a number as such, perhaps cast."""
    cast = False
    while isinstance(node, exp.Cast | exp.Paren | exp.Neg):
        cast = isinstance(node, exp.Cast) and node.to.this is exp.DType.DOUBLE
        node = node.this
    return isinstance(node, exp.Literal) and (not node.is_string or (cast and node.name[-1].isdigit()))


def table_rule(writer: SqlWriter, node: exp.Expr) -> exp.Expr | None:
    """A table of the session, which alone has a schema in bounded SQL."""
    if node.args.get("db") is None:
        return None
    place = writer.table(node.name)
    place.set("alias", node.args["alias"].copy())
    return place


def check_texts(writer: SqlWriter, node: exp.Expr) -> None:
    """Refuse a cast that reads or writes texts: engines differ in which texts they read, and in how they write."""
    target, given = writer.type(node), writer.type(node.this)
    if given == TEXT and target != TEXT:
        raise writer.refused(node, "which texts are numbers or dates differs between engines; use a typed column")
    if target == TEXT and given in (DOUBLE, DECIMAL, DATE, TIMESTAMP):
        raise writer.refused(node, "how it is written differs between engines; compare or group it as it is")


def microseconds(template: str) -> Rule:
    """EPOCH_US, which sqlglot does not know, as a piece of SQL over :x."""

    def rule(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
        if node.name.upper() != "EPOCH_US":
            raise writer.refused(node)
        return writer.build(template, x=node.expressions[0])

    return rule


def named(name: str, *parts: str) -> Rule:
    """A function under another name; its arguments are these parts of the node, or all of its expressions."""

    def rule(_writer: SqlWriter, node: exp.Expr) -> exp.Expr:
        given = [node.args[part] for part in parts] if parts else node.expressions
        return exp.Anonymous(this=name, expressions=[part.copy() for part in given])

    return rule


def templated(template: str, *parts: str) -> Rule:
    """A piece of SQL whose :x and :y are these parts of the node."""

    def rule(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
        return writer.build(template, **{name: node.args[part] for name, part in zip("xy", parts, strict=False)})

    return rule


MOST_PUBLIC = 1_000_000
"""Rows of a public table that may travel with a query."""

_SHIPPED = {
    ColumnKind.INTEGER: "BIGINT", ColumnKind.REAL: "DOUBLE", ColumnKind.TEXT: "VARCHAR", ColumnKind.UNTYPED: "VARCHAR",
    ColumnKind.BOOLEAN: "BOOLEAN", ColumnKind.DATE: "DATE", ColumnKind.TIMESTAMP: "TIMESTAMP",
}  # fmt: skip


class FetchedTable(NamedTuple):
    """A table that was fetched from an engine: the columns as they are known here, and their values."""

    columns: tuple[Column, ...]
    values: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, columns: tuple[Column, ...], rows: Sequence[Sequence[Any]]) -> FetchedTable:
        """A table of rows, of which there may be none."""
        return cls(columns, [list(values) for values in zip(*rows, strict=True)] or [[] for _ in columns])


class Copies(DuckDB):
    """Public tables, in a DuckDB of our own."""

    most_cursors = 1
    """Its tables are known to its first connection alone."""

    def keep(self, name: str, rows: FetchedTable) -> Table:
        """A copy of a table that was fetched."""
        check_size(name, len(rows.values[0]) if rows.values else 0)
        listed = ", ".join(
            f"CAST(UNNEST(CAST(${i} AS {_list_type(column)})) AS {column.type}) AS {quoted(column.name)}"
            for i, column in enumerate(rows.columns, start=1)
        )
        self._connection.execute(
            f"CREATE TEMP TABLE {quoted(name)} AS SELECT {listed}", [list(values) for values in rows.values]
        )
        return Table(name, rows.columns, public=True)

    def shipped(self, table: Table) -> FetchedTable:
        """A table as it travels: wide types, and NULL or a text for what cannot be compared.

        It is kept as it travels, too: whether keys repeat is asked of what is kept, and two decimals may be one float.
        """
        columns = tuple(
            Column(column.name, column.kind, _SHIPPED.get(column.kind, "VARCHAR")) for column in table.columns
        )
        listed = ", ".join(f"TRY_CAST({_within(c)} AS {c.type}) AS {quoted(c.name)}" for c in columns)
        known, place = quoted(table.name), f"temp.main.{quoted(table.name)}"
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {known} AS SELECT {listed} FROM {place}")
        found = self.look(f"SELECT * FROM {place}")
        check_size(table.name, len(found))
        return FetchedTable.of(columns, found)


class Remote(ABC):
    """An engine elsewhere: what it knows of tables, and copies of those that are public."""

    alike = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._copies = Copies()
        self._tables: dict[str, Table] = {}
        self._sources: dict[str, str] = {}
        """What stands for each table after FROM."""
        self._bound: set[str] = set()
        """Statements that the engine has bound, as they are in bounded SQL."""

    def add(self, name: str, data: Any, *, public: bool = False, unit: str | None = None) -> Table:
        self._tables[name] = self._public(name, data) if public else self._private(name, data)
        return self._tables[name]

    def look(self, sql: str) -> list[tuple[Any, ...]]:
        return self._copies.look(sql)

    def bind(self, bounded: Bounded) -> None:
        if bounded.text not in self._bound:
            self._bind(bounded)
            self._bound.add(bounded.text)

    @abstractmethod
    def _bind(self, bounded: Bounded) -> None:
        """Let the engine read a statement and plan it, without a row."""

    @abstractmethod
    def _private(self, name: str, data: Any) -> Table:
        """A table that stays where it is."""

    @abstractmethod
    def _fetched_rows(self, name: str, data: Any) -> FetchedTable | None:
        """All rows of a public table that this engine holds; None for data that are here."""

    @abstractmethod
    def _ship(self, name: str, rows: FetchedTable) -> None:
        """Make ready a public table that travels."""

    def _public(self, name: str, data: Any) -> Table:
        rows = self._fetched_rows(name, data)
        table = self._copies.add(name, data, public=True) if rows is None else self._copies.keep(name, rows)
        shipped = self._copies.shipped(table)
        self._ship(name, shipped)
        return Table(name, shipped.columns, public=True)


def check_size(name: str, rows: int) -> None:
    """Refuse a public table that is too large to travel."""
    if rows > MOST_PUBLIC:
        raise DataError(f"the public table {name} has {rows} rows; at most {MOST_PUBLIC} can travel with a query")


def arrays(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, NDArray[Any]]:
    """An engine's rows as the columns that `base.totals` reads: whole numbers, but for keys that were found."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {name: _array(name, values) for name, values in zip(names, columns, strict=True)}


def _array(name: str, values: Sequence[Any]) -> NDArray[Any]:
    if not (name[0] == "k" and name[1:].isdigit()):
        return np.array([int(value) for value in values], dtype=np.int64)
    if values and isinstance(values[0], date):
        return np.array(values, dtype="datetime64[us]")
    if values and isinstance(values[0], bool | int | float):
        return np.array(values)
    return np.array(values, dtype=object)


def _within(column: Column) -> str:
    """A column in SQL; a date or time outside of what Python can hold, as infinity is, is NULL."""
    if column.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
        return calendar(f"TRY_CAST({quoted(column.name)} AS TIMESTAMP)")
    return quoted(column.name)


def _list_type(column: Column) -> str:
    return f"{column.type}[]" if column.kind is not ColumnKind.OTHER else "VARCHAR[]"
