"""What Spark means otherwise, and where it would fail: the rules by which bounded SQL is written for it.

- Casts of floats to whole numbers cut off; here they take the nearest. FLOOR and CEIL give 64-bit numbers, and wrong
  ones beyond them; here they give floats.
- Sums of 64-bit numbers fail when they overflow; values are added up as decimals of 38 digits.
- TIMESTAMP is an instant in a zone; times are TIMESTAMP_NTZ here, and the session that runs the SQL is in UTC.
- Casts that read or write texts are refused, because engines differ in which texts they read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp

from deniable.query.engines.remote import (
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    HUGE,
    TEXT,
    TIMESTAMP,
    WHOLE,
    Rule,
    SqlWriter,
    check_texts,
    microseconds,
    named,
    table_rule,
    templated,
)
from deniable.query.schema import Table

_HALF = 4294967296
_LOW = f"PMOD(:x, {_HALF})"
_MICROS = "UNIX_MICROS(CAST({0} AS TIMESTAMP))"
_PARTS = {
    exp.Year: "YEAR(:x)", exp.Quarter: "QUARTER(:x)", exp.Month: "MONTH(:x)", exp.Week: "WEEKOFYEAR(:x)",
    exp.Day: "DAY(:x)", exp.DayOfYear: "DAYOFYEAR(:x)", exp.DayOfWeek: "(DAYOFWEEK(:x) - 1)",
    exp.DayOfWeekIso: "(WEEKDAY(:x) + 1)", exp.Hour: "HOUR(:x)", exp.Minute: "MINUTE(:x)",
}  # fmt: skip
_TYPES = {
    "DOUBLE": "DOUBLE", "BIGINT": "BIGINT", "HUGEINT": "DECIMAL(38, 0)", "VARCHAR": "STRING", "BOOLEAN": "BOOLEAN",
    "DATE": "DATE", "TIMESTAMP": "TIMESTAMP_NTZ",
}  # fmt: skip
_SUMMED = re.compile(r"v\d+")
_ESCAPES = "\x01\x02\x03!^~#@"


class Step(NamedTuple):
    """One statement; the answer of one with a name is read under that name."""

    name: str
    text: str
    tree: exp.Expr
    parameters: tuple[str, ...]


class SparkWriter(SqlWriter):
    """Writes for Spark. `sources` says what stands for each table; a list of keys is a view of its own name."""

    dialect = "spark"
    engine = "Spark"

    def __init__(self, tables: Mapping[str, Table], sources: Mapping[str, str]) -> None:
        super().__init__(tables, sources)
        self.shared: list[str] = []
        """Steps that are computed once, if they are read several times."""

    def steps(self, text: str) -> list[Step]:
        """The statements of a bounded query: first those whose answer several others read, then the query itself."""
        tree = self.tree(text)
        part = "with_" if tree.args.get("with_") is not None else "with"
        steps = list(tree.args[part].expressions) if tree.args.get(part) is not None else []
        read = Counter(node.name for node in tree.find_all(exp.Table) if node.args.get("db") is None)
        found: list[Step] = []
        for name in [step.alias for step in steps if step.alias in self.shared and read[step.alias] > 1]:
            place = next(i for i, step in enumerate(steps) if step.alias == name)
            query = exp.select("*").from_(exp.to_table(name))
            query.set(part, exp.With(expressions=[step.copy() for step in steps[: place + 1]]))
            found.append(self._step(name, query))
            steps.pop(place)
        if found:
            tree.set(part, exp.With(expressions=steps) if steps else None)
        return [*found, self._step("", tree)]

    def _step(self, name: str, tree: exp.Expr) -> Step:
        parameters = dict.fromkeys(node.name for node in tree.find_all(exp.Placeholder))
        return Step(name, self.text(tree), tree, tuple(parameters))

    def bound(self, template: str, parts: Mapping[str, exp.Expr]) -> exp.Expr:
        listed = ", ".join(f":{name} AS {name}" for name in parts)
        return self.build(
            f"ELEMENT_AT(TRANSFORM(ARRAY(STRUCT({listed})), q -> :body), 1)", body=self.inner(template, parts), **parts
        )


def _cast(writer: SqlWriter, node: exp.Expr) -> exp.Expr | None:
    target, given, inner = writer.type(node), writer.type(node.this), node.this
    if isinstance(inner, exp.Placeholder):
        return None if node.args["to"].this is exp.DType.ARRAY else writer.build("CAST(:x AS STRING)", x=inner)
    if isinstance(inner, exp.Literal) and inner.is_string:
        # A constant too: one in a branch of CASE would fail for the rows that take it.
        return writer.build(f"TRY_CAST(:x AS {_TYPES[target or '']})", x=inner)
    check_texts(writer, node)
    if target == DOUBLE and given == BOOLEAN:
        return writer.build("CAST(CAST(:x AS INT) AS DOUBLE)", x=inner)
    if target == WHOLE and given == DOUBLE:
        return writer.build("TRY_CAST(NULLIF(RINT(:x), 9223372036854775808e0) AS BIGINT)", x=inner)
    if target == WHOLE and given == DECIMAL:
        return writer.build("TRY_CAST(ROUND(:x) AS BIGINT)", x=inner)
    if target == BOOLEAN and given == WHOLE:
        return writer.build("(:x <> 0)", x=inner)
    known = {
        DOUBLE: (DOUBLE, WHOLE, HUGE, DECIMAL), WHOLE: (WHOLE, BOOLEAN, HUGE), HUGE: (WHOLE, HUGE), BOOLEAN: (BOOLEAN,),
        DATE: (DATE, TIMESTAMP), TEXT: (TEXT, WHOLE, BOOLEAN, HUGE), TIMESTAMP: (TIMESTAMP, DATE),
    }  # fmt: skip
    if given is not None and given not in known.get(target or "", ()):
        raise writer.refused(node)
    return writer.build(f"TRY_CAST(:x AS {_TYPES[target or '']})", x=inner)


def _division(_writer: SqlWriter, node: exp.Expr) -> None:
    node.set("typed", True)
    node.set("safe", False)


def _rounded(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    """Half away from zero; to decimals by way of the whole number of them, as DuckDB does."""
    digits = node.args.get("decimals")
    if digits is None:
        return writer.build("ROUND(:x)", x=node.this)
    unit = f"1e{digits.name}"
    return writer.once(f"CASE WHEN ABS(:x) < 1e290 THEN ROUND(:x * {unit}) / {unit} ELSE :x END", node.this)


def _whole(name: str) -> Rule:
    """FLOOR or CEIL, as a float: from 2⁵³ on, all floats are whole."""

    def rule(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
        return writer.once(f"CASE WHEN ABS(:x) < 9e15 THEN CAST({name}(:x) AS DOUBLE) ELSE :x END", node.this)

    return rule


def _piece(_writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    """SUBSTRING. A start of 0 is the place before the first letter."""
    start, length = int(node.args["start"].name), node.args.get("length")
    parts = [node.this.copy(), exp.Literal.number(max(start, 1))]
    if length is not None:
        parts.append(exp.Literal.number(max(int(length.name) - (start == 0), 0)))
    return exp.Anonymous(this="SUBSTRING", expressions=parts)


def _like(writer: SqlWriter, node: exp.Expr) -> exp.Expr | None:
    """Without an escape: it is a letter that the pattern does not have."""
    if isinstance(node.parent, exp.Escape):
        return None
    free = [letter for letter in _ESCAPES if letter not in node.expression.name]
    if not free:
        raise writer.refused(node, "its pattern has all letters that could escape others")
    return exp.Escape(this=node.copy(), expression=exp.Literal.string(free[0]))


def _keys(writer: SqlWriter, node: exp.Expr) -> exp.Expr | None:
    """A list of keys: SELECT UNNEST(CAST($keys_1 AS …[])) AS k, UNNEST(RANGE(…)) AS i."""
    lists = [found for found in node.find_all(exp.Explode) if isinstance(found.this, exp.Cast)]
    if node.args.get("from_") is not None or node.args.get("from") is not None or not lists:
        return None
    cast = lists[0].this
    inner = cast.to.expressions[0]
    types = {exp.DType.DOUBLE: "DOUBLE", exp.DType.BIGINT: "BIGINT", exp.DType.INT128: "DECIMAL(38, 0)"}
    types |= {exp.DType.BOOLEAN: "BOOLEAN", exp.DType.DATE: "DATE", exp.DType.TIMESTAMPNTZ: "TIMESTAMP_NTZ"}
    types |= {exp.DType.TIMESTAMP: "TIMESTAMP_NTZ"}
    return writer.build(f"SELECT CAST(k AS {types.get(inner.this, 'STRING')}) AS k, i FROM {cast.this.name}")


def _split(_writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    """Spark splits by a regular expression; one letter in square brackets is the letter."""
    between = exp.Literal.string(f"[{node.expression.name}]")
    return exp.Anonymous(this="SPLIT", expressions=[node.this.copy(), between])


def _several(_writer: SqlWriter, node: exp.Expr) -> exp.Expr | None:
    if isinstance(node.this, exp.Array | exp.Anonymous):
        return exp.Anonymous(this="EXPLODE", expressions=[node.this.copy()])
    return None  # of keys: see `_keys`


def _sum(writer: SqlWriter, node: exp.Expr) -> exp.Expr | None:
    column = isinstance(node.this, exp.Column) and _SUMMED.fullmatch(node.this.name)
    if column or writer.type(node.this) == WHOLE:
        return writer.build("SUM(CAST(:x AS DECIMAL(38, 0)))", x=node.this)
    return None


def _window(_writer: SqlWriter, node: exp.Expr) -> None:
    """ROW_NUMBER needs an order; within equal rows any is one."""
    if isinstance(node.this, exp.RowNumber) and node.args.get("order") is None:
        first = node.args["partition_by"][0].copy()
        node.set("order", exp.Order(expressions=[exp.Ordered(this=first, nulls_first=True)]))


def _step(writer: SqlWriter, node: exp.Expr) -> None:
    """Spark computes a step as often as it is read. One that others may share is a statement of its own if they do."""
    if node.args.get("materialized") is not False and isinstance(writer, SparkWriter):
        writer.shared.append(node.alias)
    node.set("materialized", None)


def _truncated(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    unit = node.args["unit"].name.upper()
    if unit in ("HOUR", "MINUTE"):
        return writer.build(f"CAST(DATE_TRUNC('{unit}', :x) AS TIMESTAMP_NTZ)", x=node.this)
    return writer.build("CAST(:x AS DATE)" if unit == "DAY" else f"TRUNC(CAST(:x AS DATE), '{unit}')", x=node.this)


def _difference(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    unit = node.args["unit"].name.upper()
    days = "DATEDIFF(CAST(:y AS DATE), CAST(:x AS DATE))"
    seconds = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
    if unit in seconds:
        size = seconds[unit] * 1_000_000
        ends = [f"({m} - PMOD({m}, {size})) DIV {size}" for m in (_MICROS.format(":y"), _MICROS.format(":x"))]
        return writer.once(f"({ends[0]}) - ({ends[1]})", node.expression, node.this)
    templates = {
        "YEAR": "YEAR(:y) - YEAR(:x)",
        "QUARTER": "YEAR(:y) * 4 + QUARTER(:y) - YEAR(:x) * 4 - QUARTER(:x)",
        "MONTH": "YEAR(:y) * 12 + MONTH(:y) - YEAR(:x) * 12 - MONTH(:x)",
        "WEEK": f"{days} DIV 7",
        "DAY": days,
    }
    return writer.once(f"CAST({templates[unit]} AS BIGINT)", node.expression, node.this)


def _joined(_writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    """CONCAT, which passes over NULL."""
    parts = [exp.Literal.string(""), *(part.copy() for part in node.expressions)]
    return exp.Anonymous(this="CONCAT_WS", expressions=parts)


SparkWriter.rules = {
    exp.Table: table_rule,
    exp.Select: _keys,
    exp.CTE: _step,
    exp.Window: _window,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Div: _division,
    exp.Round: _rounded,
    exp.Floor: _whole("FLOOR"),
    exp.Ceil: _whole("CEIL"),
    exp.Sign: lambda writer, node: writer.once("CASE WHEN ISNAN(:x) THEN 0e0 ELSE SIGN(:x) END", node.this),
    exp.Log: named("LOG10", "expression"),
    exp.IsNan: named("ISNAN", "this"),
    exp.MD5: named("MD5", "this"),
    exp.Like: _like,
    exp.Substring: _piece,
    exp.Left: named("LEFT", "this", "expression"),
    exp.Right: named("RIGHT", "this", "expression"),
    exp.StartsWith: named("STARTSWITH", "this", "expression"),
    exp.Contains: named("CONTAINS", "this", "expression"),
    exp.Concat: _joined,
    exp.Explode: _several,
    exp.Split: _split,
    exp.Sum: _sum,
    exp.BitwiseRightShift: templated(f"((:x - {_LOW}) DIV {_HALF})", "this"),
    exp.BitwiseAnd: templated(_LOW, "this"),
    exp.TimestampTrunc: _truncated,
    exp.DateDiff: _difference,
    exp.Anonymous: microseconds(_MICROS.format(":x")),
    **{node: templated(template, "this") for node, template in _PARTS.items()},
}
