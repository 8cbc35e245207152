"""What PostgreSQL means otherwise, and where it would fail: the rules by which bounded SQL is written for it.

- Its float operations raise on overflow and underflow. They are guarded so that they give ±inf and 0, as IEEE 754 does.
- It has no TRY_CAST. Casts that may fail are guarded by the range of their target; casts that read or write texts are
  refused, because engines differ in which texts they read.
- Sums of 64-bit numbers are `numeric`, exact, without shifts.
- Whether texts are equal depends on collations: every text column is read under "C", letter by letter.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    is_number,
    microseconds,
    named,
    table_rule,
    templated,
)
from deniable.query.schema import Table

_MAX, _TINY = "CAST('1.7976931348623157e308' AS DOUBLE PRECISION)", "CAST('5e-324' AS DOUBLE PRECISION)"
_INF = "CAST('Infinity' AS DOUBLE PRECISION)"
_SIGNED = f"CASE WHEN (:x < 0) = (:y < 0) THEN {_INF} ELSE -{_INF} END"
_FINITE = f"ABS(:x) < {_INF} AND ABS(:y) < {_INF}"

# Each ends in the operation itself where it cannot raise. `:x >= fl(MAX − :y)` and its like leave a unit in the last
# place to rounding, so a result next to the largest float may come out infinite.
_ADD = (
    f"CASE WHEN {_FINITE} AND (:x < 0) = (:y < 0) AND ABS(:x) >= {_MAX} - ABS(:y) "
    f"THEN CASE WHEN :x > 0 THEN {_INF} ELSE -{_INF} END ELSE :x + :y END"
)
_MULTIPLY = (
    f"CASE WHEN NOT ({_FINITE}) OR :x = 0 OR :y = 0 THEN :x * :y "
    f"WHEN ABS(:x) >= 1 AND ABS(:y) >= 1 THEN CASE WHEN ABS(:x) >= {_MAX} / ABS(:y) THEN {_SIGNED} ELSE :x * :y END "
    f"WHEN ABS(:x) < 1 AND ABS(:y) < 1 AND ABS(:x) <= {_TINY} / ABS(:y) THEN 0 ELSE :x * :y END"
)
_DIVIDE = (
    f"CASE WHEN NOT ({_FINITE}) OR :x = 0 THEN :x / :y "
    f"WHEN ABS(:y) < 1 AND ABS(:x) >= {_MAX} * ABS(:y) THEN {_SIGNED} "
    f"WHEN ABS(:y) > 1 AND ABS(:x) <= {_TINY} * ABS(:y) THEN 0 ELSE :x / :y END"
)
_ROUND = "TRUNC({0}) + CASE WHEN ABS({0} - TRUNC({0})) >= 0.5 THEN SIGN({0}) ELSE 0 END"
_HALF = 4294967296

_PARTS: Mapping[type[exp.Expr], str] = {
    exp.Year: "YEAR", exp.Quarter: "QUARTER", exp.Month: "MONTH", exp.Week: "WEEK", exp.Day: "DAY",
    exp.DayOfYear: "DOY", exp.DayOfWeek: "DOW", exp.DayOfWeekIso: "ISODOW", exp.Hour: "HOUR", exp.Minute: "MINUTE",
}  # fmt: skip
_MONTHS = "EXTRACT(YEAR FROM {0}) * {1} + EXTRACT({2} FROM {0})"
_DIFFERENCES = {
    "YEAR": "EXTRACT(YEAR FROM :y) - EXTRACT(YEAR FROM :x)",
    "QUARTER": f"({_MONTHS.format(':y', 4, 'QUARTER')}) - ({_MONTHS.format(':x', 4, 'QUARTER')})",
    "MONTH": f"({_MONTHS.format(':y', 12, 'MONTH')}) - ({_MONTHS.format(':x', 12, 'MONTH')})",
    "WEEK": "(CAST(:y AS DATE) - CAST(:x AS DATE)) / 7",
    "DAY": "CAST(:y AS DATE) - CAST(:x AS DATE)",
    "HOUR": "FLOOR(EXTRACT(EPOCH FROM :y) / 3600) - FLOOR(EXTRACT(EPOCH FROM :x) / 3600)",
    "MINUTE": "FLOOR(EXTRACT(EPOCH FROM :y) / 60) - FLOOR(EXTRACT(EPOCH FROM :x) / 60)",
    "SECOND": "FLOOR(EXTRACT(EPOCH FROM :y)) - FLOOR(EXTRACT(EPOCH FROM :x))",
}


class PostgresWriter(SqlWriter):
    """Writes for PostgreSQL. `sources` says what stands for each table; parameters are numbered as they occur."""

    dialect = "postgres"
    engine = "PostgreSQL"

    def __init__(self, tables: Mapping[str, Table], sources: Mapping[str, str]) -> None:
        super().__init__(tables, sources)
        self.parameters: list[str] = []

    def bound(self, template: str, parts: Mapping[str, exp.Expr]) -> exp.Expr:
        # OFFSET 0 keeps the planner from putting the parts back in, several times each.
        listed = ", ".join(f":{name} AS {name}" for name in parts)
        body = self.inner(template, parts)
        return self.build(f"(SELECT :body FROM (SELECT {listed} OFFSET 0) AS q)", body=body, **parts)

    def number(self, name: str) -> int:
        """The number of a parameter."""
        if name not in self.parameters:
            self.parameters.append(name)
        return self.parameters.index(name) + 1


def _parameter(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    if not isinstance(writer, PostgresWriter):
        raise TypeError("parameters are numbered by a PostgresWriter")
    return exp.Parameter(this=exp.Literal.number(writer.number(node.name)))


def _literal(writer: SqlWriter, node: exp.Expr) -> exp.Expr | None:
    """A number with decimals is `numeric` to PostgreSQL; here it is a float."""
    if writer.type(node) != DOUBLE:
        return None
    return writer.build(f"CAST('{node.this}' AS DOUBLE PRECISION)")


def _cast(writer: SqlWriter, node: exp.Expr) -> exp.Expr | None:
    target, given, inner = writer.type(node), writer.type(node.this), node.this
    if isinstance(inner, exp.Parameter) or (target, given) == (TEXT, TEXT) or is_moment(node):
        return None
    if not (target == DOUBLE and isinstance(inner, exp.Literal)):
        check_texts(writer, node)
    total = isinstance(node, exp.TryCast)
    if target == DOUBLE and given == BOOLEAN:
        return writer.build("CAST(CAST(:x AS INT) AS DOUBLE PRECISION)", x=inner)
    if target == DOUBLE and (given == DECIMAL or (given is None and total)):
        return writer.once(_NUMERIC, inner)
    most = _most(inner)
    if target == WHOLE and given == DOUBLE and most is not None and most < 2**62:
        return writer.build(f"CAST(:x AS {_name(node)})", x=inner)
    if target == WHOLE and given in (DOUBLE, DECIMAL):
        return writer.once(
            # The cast rounds; next to a float, the upper end is 2⁶³.
            f"CASE WHEN :x >= -9223372036854775808 AND :x < 9223372036854775807.5 THEN CAST(:x AS {_name(node)}) END",
            inner,
        )
    if target == BOOLEAN and given == WHOLE:
        return writer.build("(:x <> 0)", x=inner)
    if target == TIMESTAMP and (given == DATE or (given is None and total)):
        return writer.once("CASE WHEN :x < CAST('294276-01-01' AS DATE) THEN CAST(:x AS TIMESTAMP) END", inner)
    known = {
        DOUBLE: (DOUBLE, WHOLE, HUGE, TEXT), WHOLE: (WHOLE, BOOLEAN, HUGE), HUGE: (WHOLE, HUGE),
        DATE: (DATE, TIMESTAMP), TEXT: (WHOLE, BOOLEAN, HUGE), BOOLEAN: (BOOLEAN,), TIMESTAMP: (TIMESTAMP,),
    }  # fmt: skip
    if given is not None and given not in known.get(target or "", ()):
        raise writer.refused(node)
    if target == WHOLE and given == BOOLEAN:
        return writer.build(f"CAST(CAST(:x AS INT) AS {_name(node)})", x=inner)
    return writer.build(f"CAST(:x AS {_name(node)})" + (' COLLATE "C"' if target == TEXT else ""), x=inner)


_NUMERIC = (
    f"CASE WHEN :x = 'NaN' THEN CAST('NaN' AS DOUBLE PRECISION) WHEN :x > 1.7e308 THEN {_INF} "
    f"WHEN :x < -1.7e308 THEN -{_INF} WHEN ABS(:x) < 1e-300 THEN 0 ELSE CAST(:x AS DOUBLE PRECISION) END"
)


def _name(node: exp.Expr) -> str:
    return str(_datatype(None, node.args["to"].copy()).sql(dialect="postgres"))


def _datatype(_writer: SqlWriter | None, node: exp.Expr) -> exp.Expr:
    if node.this == exp.DType.INT128:
        return exp.DataType.build("NUMERIC(38, 0)", dialect="postgres")
    return node


def is_moment(node: exp.Expr) -> bool:
    """Whether a node is a constant date or time."""
    return isinstance(node.this, exp.Literal) and node.this.is_string and node.args["to"].this is not exp.DType.DOUBLE


def _operation(template: str, *, negative: bool = False) -> Rule:
    """Addition, subtraction, multiplication or division of floats, without overflow and underflow."""

    def rule(writer: SqlWriter, node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Div):
            node.set("typed", True)
            node.set("safe", False)
        if writer.type(node) != DOUBLE or _is_harmless(node):
            return None
        y = exp.Neg(this=exp.paren(node.expression.copy())) if negative else node.expression
        return writer.once(template, node.this, y)

    return rule


def _is_harmless(node: exp.Expr) -> bool:
    """Whether the result neither overflows nor vanishes: of a value between constants, as on a grid; of x + 0."""
    second = _constant(node.expression)
    if isinstance(node, exp.Add | exp.Sub):
        return second == 0 or _most(node) is not None
    if isinstance(node, exp.Mul):
        return second is not None and abs(second) >= 1 and _most(node) is not None
    return second is not None and abs(second) == 1


def _most(node: exp.Expr) -> float | None:
    """The largest absolute value that a node can have, as far as constants in it tell; None beyond 1e300."""
    found: float | None = None
    constant = _constant(node)
    if constant is not None:
        found = abs(constant)
    elif isinstance(node, exp.Paren | exp.Floor):
        found = _most(node.this)
    elif isinstance(node, exp.Least) and isinstance(node.this, exp.Greatest) and len(node.expressions) == 1:
        ends = [_constant(part) for part in (*node.this.expressions, *node.expressions)]
        found = max((abs(end) for end in ends if end is not None), default=None) if None not in ends else None
    elif isinstance(node, exp.Add | exp.Sub | exp.Mul):
        one, other = _most(node.this), _most(node.expression)
        if one is not None and other is not None:
            found = one * other if isinstance(node, exp.Mul) else one + other
    return found if found is not None and found < 1e300 else None


def _constant(node: exp.Expr) -> float | None:
    if not is_number(node):
        return None
    sign = 1.0
    while not isinstance(node, exp.Literal):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    return sign * float(node.this)


def _rounded(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    """Half away from zero; to decimals by way of the whole number of them, as DuckDB does."""
    digits = node.args.get("decimals")
    if digits is None:
        return writer.once(_ROUND.format(":x"), node.this)
    unit = f"CAST('1e{digits.name}' AS DOUBLE PRECISION)"
    inner = _ROUND.format(f"(:x * {unit})")
    return writer.once(f"CASE WHEN ABS(:x) < 1e290 THEN ({inner}) / {unit} ELSE :x END", node.this)


def _power(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    exponent = _constant(node.expression)
    if exponent is None:
        return exp.Anonymous(this="POWER", expressions=[node.this.copy(), node.expression.copy()])
    n = int(exponent)
    if n < 2:
        return writer.build("POWER(:x, 0)" if n == 0 else "(:x)", x=node.this)
    most, least = 10 ** (308.2 / n), 10 ** (-323.2 / n)
    far = _INF if n % 2 == 0 else f"SIGN(:x) * {_INF}"
    return writer.once(
        f"CASE WHEN ABS(:x) > {most!r} AND ABS(:x) < {_INF} THEN {far} WHEN ABS(:x) < {least!r} THEN 0 "
        f"ELSE POWER(:x, {n}) END",
        node.this,
    )


def _exponential(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    nan = "CAST('NaN' AS DOUBLE PRECISION)"
    return writer.once(
        f"CASE WHEN :x = {nan} THEN :x WHEN :x > 709.7 THEN {_INF} WHEN :x < -708 THEN 0 ELSE EXP(:x) END", node.this
    )


def _remainder(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    if not (writer.integral(node.this) and writer.integral(node.expression)):
        raise writer.refused(node, "it has a remainder of whole numbers only; ROUND or FLOOR both sides")
    return writer.once(
        "CASE WHEN ABS(:x) < 9.2e18 AND ABS(:y) < 9.2e18 "  # what 64 bits hold
        "THEN CAST(MOD(CAST(:x AS BIGINT), CAST(:y AS BIGINT)) AS DOUBLE PRECISION) END",
        node.this,
        node.expression,
    )


def _difference(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    template = f"CAST({_DIFFERENCES[node.args['unit'].name.upper()]} AS BIGINT)"
    return writer.once(template, node.expression, node.this)


def _part(writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    return writer.build(f"CAST(EXTRACT({_PARTS[type(node)]} FROM :x) AS BIGINT)", x=node.this)


def _several(_writer: SqlWriter, node: exp.Expr) -> exp.Expr:
    """UNNEST of a list, or of 0, 1, …"""
    inner = node.this
    if isinstance(inner, exp.GenerateSeries):
        last = exp.Literal.number(int(inner.args["end"].name) - 1)
        return exp.Anonymous(this="GENERATE_SERIES", expressions=[exp.Literal.number(0), last])
    return exp.Anonymous(this="UNNEST", expressions=[inner.copy()])


def _like(writer: SqlWriter, node: exp.Expr) -> exp.Expr | None:
    """Without an escape: a backslash is a letter."""
    if isinstance(node.parent, exp.Escape):
        return None
    return exp.Escape(this=node.copy(), expression=exp.Literal.string(""))


_LOW = f"MOD(MOD(:x, {_HALF}) + {_HALF}, {_HALF})"

RULES: Mapping[type[exp.Expr], Rule] = {
    exp.Table: table_rule,
    exp.Placeholder: _parameter,
    exp.Literal: _literal,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.DataType: _datatype,
    exp.Add: _operation(_ADD),
    exp.Sub: _operation(_ADD, negative=True),
    exp.Mul: _operation(_MULTIPLY),
    exp.Div: _operation(_DIVIDE),
    exp.Mod: _remainder,
    exp.Round: _rounded,
    exp.Pow: _power,
    exp.Exp: _exponential,
    exp.Log: named("LOG", "expression"),
    exp.IsNan: templated("(:x = CAST('NaN' AS DOUBLE PRECISION))", "this"),
    exp.MD5: templated('MD5(:x) COLLATE "C"', "this"),
    exp.Like: _like,
    exp.StartsWith: named("STARTS_WITH", "this", "expression"),
    exp.Contains: templated("(STRPOS(:x, :y) > 0)", "this", "expression"),
    exp.Concat: named("CONCAT"),
    exp.Explode: _several,
    exp.Split: named("STRING_TO_ARRAY", "this", "expression"),
    exp.GenerateSeries: lambda _writer, _node: None,
    exp.BitwiseRightShift: templated(f"DIV(:x - {_LOW}, {_HALF})", "this"),
    exp.BitwiseAnd: templated(_LOW, "this"),
    exp.DateDiff: _difference,
    exp.Anonymous: microseconds("CAST(EXTRACT(EPOCH FROM :x) * 1000000 AS BIGINT)"),
    **dict.fromkeys(_PARTS, _part),
}  # fmt: skip
PostgresWriter.rules = RULES
