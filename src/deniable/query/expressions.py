"""Derived columns: arithmetic, CASE, casts, functions of numbers, texts and dates, written out again so that no row can
make them fail. A failure (a division by 0, a cast that does not fit, a logarithm of −1) is NULL, for that row alone.

An expression is read into a `Column` like any other. With it comes what its values lie between, when declared bounds of
its inputs tell (see `ranges`), so that SUM(price * items) needs bounds of price and of items only; and the list of its
values, when the SQL itself gives it (CASE with constants, a month, a bucket), so that GROUP BY needs no keys.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from sqlglot import exp

from deniable.query import ranges
from deniable.query.functions import FUNCTIONS, NUMBER, TEXT, TYPES, Function, TextFunctions, TimeFunctions, calendar
from deniable.query.ranges import Range
from deniable.query.schema import Column, ColumnKind
from deniable.query.scope import bare, is_literal, shown, written
from deniable.query.values import Value, column_as, literal, name

_BIGINT = 1 << 63
_CASTS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), ColumnKind.INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), ColumnKind.REAL),
    **dict.fromkeys(("VARCHAR", "TEXT"), ColumnKind.TEXT),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ"), ColumnKind.TIMESTAMP),
    "BOOLEAN": ColumnKind.BOOLEAN,
    "DATE": ColumnKind.DATE,
}
_NUMBERS = {
    ColumnKind.BOOLEAN: "; write CASE WHEN {column} THEN 1 ELSE 0 END, or COUNT_IF({column})",
    ColumnKind.TEXT: "; CAST({column} AS DOUBLE) reads numbers out of it",
    **dict.fromkeys((ColumnKind.DATE, ColumnKind.TIMESTAMP), "; write DATE_DIFF('day', DATE '2026-01-01', {column})"),
}
_SUMS: dict[type[exp.Expr], tuple[str, Callable[[Range, Range], Range]]] = {
    exp.Add: ("+", ranges.plus),
    exp.Sub: ("-", ranges.minus),
    exp.Mul: ("*", ranges.times),
}
_OPERATORS = (*_SUMS, exp.Div, exp.Mod)

ALONE = "an aggregate is selected by itself; HAVING compares it, and more can be computed from what is released"
"""What to do in place of computing with aggregates."""


class Expressions(TextFunctions, TimeFunctions):
    """Reads expressions over the columns in scope."""

    @abstractmethod
    def condition(self, node: exp.Expr) -> str:
        """A condition as total SQL."""

    def expression(self, node: exp.Expr) -> Column:
        """A column, a constant or a derived column."""
        node = bare(node)
        if is_literal(node) and not isinstance(node, exp.Null):
            return constant(written(node), self.value(node))
        if isinstance(node, exp.Column):
            return self.column(node)
        if isinstance(node, exp.Neg):
            return self._arithmetic(node, exp.Sub, constant("0", 0), self.number(node.this))
        if type(node) in _OPERATORS:
            self.only(node, "this", "expression", "typed", "safe")
            return self._arithmetic(node, type(node), self.number(node.this), self.number(node.expression))
        if isinstance(node, exp.Pow):
            return self._power(node)
        if isinstance(node, exp.Round):
            return self._rounded(node)
        if isinstance(node, exp.Cast):
            return self._cast(node)
        if isinstance(node, exp.Case | exp.If):
            return self._case(node)
        if isinstance(node, exp.Coalesce | exp.Least | exp.Greatest):
            return self._several(node)
        if isinstance(node, exp.Nullif):
            return self._nullif(node)
        if isinstance(node, exp.Extract):
            return self._extract(node, node.this, node.expression)
        if isinstance(node, exp.Anonymous) and str(node.this).upper() == "DATE_PART" and len(node.expressions) == 2:
            return self._extract(node, *node.expressions)
        if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
            return self._truncated(node)
        if isinstance(node, exp.DateDiff):
            return self._difference(node)
        if isinstance(node, exp.DPipe | exp.Concat):
            return self._joined(node)
        if isinstance(node, exp.Replace):
            return self._replaced(node)
        if isinstance(node, exp.Substring | exp.Left | exp.Right):
            return self._piece(node)
        if isinstance(node, exp.Trim):
            self.only(node, "this")
            return self.made(node, ColumnKind.TEXT, f"TRIM({self.texts(node.this)})")
        if isinstance(node, exp.WidthBucket):
            return self._bucket(node)
        if type(node) in FUNCTIONS:
            return self._function(node, FUNCTIONS[type(node)])
        if isinstance(node, exp.AggFunc):
            raise self.refuse(node, f"{shown(node)} is not supported here; {ALONE}")
        raise self.refuse(node, f"{shown(node)} is not supported; docs/query.md lists what a column can be made of")

    def number(self, node: exp.Expr) -> Column:
        """An expression that is a number."""
        found = self.expression(node)
        if not found.kind.numeric:
            raise self.refuse(node, f"{found.name} holds {found.held}; {NUMBER} is needed here{number_of(found)}")
        return found

    def _arithmetic(self, node: exp.Expr, operator: type[exp.Expr], one: Column, other: Column) -> Column:
        left, right = real(one), real(other)
        whole = one.kind is other.kind is ColumnKind.INTEGER
        first, second = self.range(one), self.range(other)
        if operator is exp.Div:
            return self.made(node, ColumnKind.REAL, f"{left} / NULLIF({right}, 0)", ranges.over(first, second))
        if operator is exp.Mod:
            sql, range = f"MOD({left}, NULLIF({right}, 0))", ranges.remainder(first, second)
        else:
            sign, rule = _SUMS[operator]
            sql, range = f"{left} {sign} {right}", rule(first, second)
        if whole:
            return self.made(node, ColumnKind.INTEGER, f"TRY_CAST({sql} AS BIGINT)", range)
        return self.made(node, ColumnKind.REAL, sql, range)

    def _power(self, node: exp.Expr) -> Column:
        self.only(node, "this", "expression")
        base, exponent = self.number(node.this), self.whole(node, node.expression, most=64)
        range = ranges.power(self.range(base), exponent)
        return self.made(node, ColumnKind.REAL, f"POWER({real(base)}, {exponent})", range)

    def _rounded(self, node: exp.Round) -> Column:
        self.only(node, "this", "decimals")
        inner = self.number(node.this)
        if node.args.get("decimals") is None:
            range = ranges.whole(self.range(inner), down=True, up=True)
            return self.made(node, ColumnKind.INTEGER, f"TRY_CAST(ROUND({real(inner)}) AS BIGINT)", range)
        digits = self.whole(node, node.args["decimals"], most=15)
        unit = Fraction(1, 10**digits)
        found = self.range(inner)
        range = None if found is None else (found[0] // unit * unit, -(-found[1] // unit) * unit)
        return self.made(node, ColumnKind.REAL, f"ROUND({real(inner)}, {digits})", range)

    def _cast(self, node: exp.Cast) -> Column:
        self.only(node, "this", "to", "safe")
        inner, target = self.expression(node.this), node.to.this.name
        if target not in _CASTS or inner.kind is ColumnKind.OTHER:
            raise self.refuse(node, f"{shown(node)} is not supported; cast to BIGINT, DOUBLE, TEXT, DATE or TIMESTAMP")
        kind = _CASTS[target]
        found = self.range(inner) if kind.numeric and inner.kind.numeric else None
        range = ranges.whole(found, down=True, up=True) if kind is ColumnKind.INTEGER else found
        value = name(inner)
        if inner.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP) and kind is ColumnKind.TEXT:
            # Engines fail to write times that are far from our days.
            value = f"TRY_CAST({calendar(column_as(inner, 'TIMESTAMP'))} AS {TYPES[inner.kind]})"
        return self.made(node, kind, f"TRY_CAST({value} AS {TYPES[kind]})", range)

    def _case(self, node: exp.Expr) -> Column:
        """CASE WHEN … THEN … ELSE … END, CASE x WHEN … and IF(condition, one, other)."""
        if isinstance(node, exp.If):
            self.only(node, "this", "true", "false")
            branches, default = [node], node.args.get("false")
        else:
            self.only(node, "this", "ifs", "default")
            branches, default = node.args["ifs"], node.args.get("default")
        tests = []
        for branch in branches:
            simple = isinstance(node, exp.Case) and node.this is not None
            tests.append(self.condition(exp.EQ(this=node.this, expression=branch.this) if simple else branch.this))
        outcomes = [branch.args["true"] for branch in branches]
        outcomes += [default] if default is not None else []
        values, kind, range, domain = self._alike(node, outcomes)
        pairs = "".join(f" WHEN {test} THEN {value}" for test, value in zip(tests, values, strict=False))
        rest = f" ELSE {values[-1]}" if default is not None else ""
        return self.made(node, kind, f"CASE{pairs}{rest} END", range, domain=domain)

    def _several(self, node: exp.Expr) -> Column:
        """COALESCE, LEAST and GREATEST, all of which pass over NULL."""
        self.only(node, "this", "expressions", "ignore_nulls")
        values, kind, range, domain = self._alike(node, [node.this, *node.expressions])
        if not isinstance(node, exp.Coalesce) and kind is ColumnKind.REAL:
            # NaN is the largest number to the engine; here it is no value.
            values = [f"CASE WHEN ISNAN({value}) THEN NULL ELSE {value} END" for value in values]
        return self.made(node, kind, f"{node.key.upper()}({', '.join(values)})", range, domain=domain)

    def _nullif(self, node: exp.Nullif) -> Column:
        self.only(node, "this", "expression")
        same = self.condition(exp.EQ(this=node.this, expression=node.expression))
        (value,), kind, range, domain = self._alike(node, [node.this])
        return self.made(node, kind, f"CASE WHEN {same} THEN NULL ELSE {value} END", range, domain=domain)

    def _alike(
        self, node: exp.Expr, outcomes: Sequence[exp.Expr]
    ) -> tuple[list[str], ColumnKind, Range, tuple[Any, ...] | None]:
        """Expressions of which the answer is one, in one type; the hull of their ranges; the list of their values."""
        outcomes = [bare(outcome) for outcome in outcomes]
        nulls = [isinstance(outcome, exp.Null) for outcome in outcomes]
        found = [None if null else self.expression(o) for o, null in zip(outcomes, nulls, strict=True)]
        columns = [column for column in found if column is not None]
        kinds = {column.kind for column in columns}
        if kinds == {ColumnKind.INTEGER, ColumnKind.REAL}:
            kinds = {ColumnKind.REAL}
        elif kinds == {ColumnKind.TEXT, ColumnKind.UNTYPED}:
            kinds = {ColumnKind.TEXT}
        if len(kinds) != 1 or ColumnKind.OTHER in kinds:
            raise self.refuse(node, f"the outcomes of {shown(node)} must be of one kind: numbers, texts or dates")
        (kind,) = kinds
        # Two expressions of one kind may still have two types; the common one is wide enough for both.
        type = TYPES[kind]
        values = ["NULL" if column is None else _in_type(column, type) for column in found]
        lists = [column.domain for column in columns]
        domain = tuple(dict.fromkeys(v for few in lists if few is not None for v in few)) if all(lists) else None
        return values, kind, ranges.hull(*(self.range(column) for column in columns)), domain

    def _bucket(self, node: exp.WidthBucket) -> Column:
        """WIDTH_BUCKET(x, low, high, n): n buckets of one width, 0 below them, n + 1 from high on."""
        self.only(node, "this", "min_value", "max_value", "num_buckets")
        low, high = (self.value(node.args[end]) for end in ("min_value", "max_value"))
        if not isinstance(low, int | Fraction) or not isinstance(high, int | Fraction) or low >= high:
            raise self.refuse(node, "WIDTH_BUCKET needs two numbers, the lower first, as its ends")
        many = self.whole(node, node.args["num_buckets"], most=100_000, least=1)
        x = real(self.number(node.this))
        width = (Fraction(high) - low) / many
        near = f"LEAST(GREATEST({x}, {_double(low - width)}), {_double(high)})"
        place = f"TRY_CAST(FLOOR(({near} - {_double(low)}) / {_double(width)}) AS BIGINT) + 1"
        # NaN is above all numbers to the engine, and no value here.
        sql = f"CASE WHEN {x} <= 'Infinity'::DOUBLE THEN LEAST(GREATEST({place}, 0), {many + 1}) END"
        bounds = (Fraction(0), Fraction(many + 1))
        return self.made(node, ColumnKind.INTEGER, sql, bounds, domain=tuple(range(many + 2)))

    def _function(self, node: exp.Expr, function: Function) -> Column:
        self.only(node, *function.parts, "decimals", "big_int", "is_string")
        given = [node.args[part] for part in function.parts if node.args.get(part) is not None]
        if len(given) < len(function.parts):
            raise self.refuse(node, f"{shown(node)} lacks an argument")
        sql, found = [], []
        for part, takes in zip(given, function.takes, strict=True):
            column = self.number(part) if takes == NUMBER else None
            found.append(self.range(column) if column is not None else None)
            sql.append(real(column) if column is not None else self.texts(part) if takes == TEXT else self.time(part))
        return self.applied(node, function, sql, found)


def constant(text: str, value: Value) -> Column:
    """A value as a column that holds it in every row."""
    if isinstance(value, bool):
        kind = ColumnKind.BOOLEAN
    elif isinstance(value, int | Fraction):
        kind = ColumnKind.INTEGER if isinstance(value, int) and -_BIGINT < value < _BIGINT else ColumnKind.REAL
    elif isinstance(value, date):
        kind = ColumnKind.TIMESTAMP if isinstance(value, datetime) else ColumnKind.DATE
    else:
        kind = ColumnKind.TEXT
    end = Fraction(value) if kind.numeric and isinstance(value, int | Fraction) else None
    type = TYPES[kind]
    return Column(text, kind, type, literal(value, type), end, end, (value,))


def number_of(column: Column) -> str:
    """How a number is made of a column that holds none, for a message."""
    return _NUMBERS.get(column.kind, "").format(column=column.name)


def real(column: Column) -> str:
    """A number as a 64-bit float, in SQL."""
    return column_as(column, "DOUBLE")


def _in_type(column: Column, type: str) -> str:
    if type == "DOUBLE":
        return real(column)
    return name(column) if column.type == type else f"TRY_CAST({name(column)} AS {type})"


def _double(value: Fraction | int) -> str:
    return literal(Fraction(value), "DOUBLE")
