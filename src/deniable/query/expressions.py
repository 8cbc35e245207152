"""Expressions and conditions, read off the tree into total SQL: whatever a row holds, the answer is a value or NULL.

An expression becomes a `Column` like any other: arithmetic, CASE, casts, functions of numbers, texts and dates. A
failure (a division by 0, a cast that does not fit, a logarithm of −1) is NULL, for that row alone. A derived column
knows what its values lie between, when declared bounds of its inputs tell (see `ranges`), so that SUM(price * items)
needs bounds of price and of items only. It knows the list of its values, when the SQL itself gives it (CASE with
constants, a month, a bucket), so that GROUP BY needs no keys. A condition becomes SQL that is true, false or NULL.

Everything that is understood is written out again from what was understood; nothing of the analyst's SQL reaches the
engine as text. `READERS` says which function reads which node. A node, or a part of a node, that is not understood is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from sqlglot import exp

from deniable.errors import DataError, QueryError
from deniable.query import ranges, times
from deniable.query import values as constants
from deniable.query.functions import (
    FUNCTIONS,
    LONGEST,
    MOST_TEXTS,
    NUMBER,
    TEXT,
    TYPES,
    apply,
    calendar,
    derive,
)
from deniable.query.parsing import parse_expression
from deniable.query.ranges import Range
from deniable.query.schema import Column, ColumnKind
from deniable.query.scope import Scope, bare, is_literal, owner_column, same_ids, shown, written
from deniable.query.values import Value, column_as, common_type, literal, meeting_type, name, quoted, read_text

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

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_CONDITIONS = (
    *COMPARISONS, exp.And, exp.Or, exp.Not, exp.Between, exp.In, exp.Is, exp.Like, exp.ILike, exp.Escape,
    exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip
_WHAT = "compare a column with a number, a text or a date"


def expression(scope: Scope, node: exp.Expr) -> Column:
    """A column, a constant, a derived column or a condition."""
    node = bare(node)
    if id(node) in scope.known:
        return scope.known[id(node)]
    if is_literal(node) and not isinstance(node, exp.Null):
        return constant(written(node), scope.value(node))
    reader = READERS.get(type(node))
    if reader is not None:
        return reader(scope, node)
    if isinstance(node, exp.AggFunc):
        raise scope.refuse(
            node, f"{shown(node)} is not supported here; an aggregate stands in SELECT, HAVING or ORDER BY"
        )
    raise _unknown(scope, node)


def named_column(scope: Scope, text: str | Column) -> Column:
    """The column or expression that a key of `bounds` or `keys` names."""
    if isinstance(text, Column):
        return text
    for named in scope.tables:
        if isinstance(text, str) and named.table.has(text):
            return named.column(named.table.find(text))
    node = parse_expression(text) if isinstance(text, str) else None
    if node is None:
        return scope.table.find(str(text))  # which says that there is none
    if isinstance(node, exp.Column) and not node.table:
        return scope.table.find(node.name)
    return expression(scope, node)


def with_ranges(scope: Scope, declared: Mapping[str | Column, Range]) -> Scope:
    """The scope with the ranges of columns and expressions, each under its SQL; a text that names none is passed
    over."""
    found: dict[str, Range] = {}
    for key, range in declared.items():
        with suppress(DataError, QueryError):
            found[name(named_column(scope, key))] = range
    return replace(scope, ranges=found)


def _unknown(scope: Scope, node: exp.Expr) -> QueryError:
    return scope.refuse(node, f"{shown(node)} is not supported; docs/query.md lists what a column can be made of")


def whole_number(scope: Scope, node: exp.Expr, part: exp.Expr, *, most: int, least: int = 0) -> int:
    """A whole number that a function needs as a constant."""
    value = scope.value(part) if is_literal(part) else None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise scope.refuse(part, f"{shown(node)} needs a whole number from {least} to {most} here")
    return value


def _negative(scope: Scope, node: exp.Neg) -> Column:
    return _arithmetic(scope, node, exp.Sub, constant("0", 0), number(scope, node.this))


def _operation(scope: Scope, node: exp.Expr) -> Column:
    scope.only(node, "this", "expression", "typed", "safe")
    if isinstance(node, exp.Add | exp.Sub):
        moved = _moved(scope, node)
        if moved is not None:
            return moved
    return _arithmetic(scope, node, type(node), number(scope, node.this), number(scope, node.expression))


def number(scope: Scope, node: exp.Expr) -> Column:
    """An expression that is a number."""
    found = expression(scope, node)
    if not found.kind.numeric:
        raise scope.refuse(node, f"{found.name} holds {found.held}; {NUMBER} is needed here{number_of(found)}")
    return found


def _arithmetic(scope: Scope, node: exp.Expr, operator: type[exp.Expr], one: Column, other: Column) -> Column:
    left, right = real(one), real(other)
    whole = one.kind is other.kind is ColumnKind.INTEGER
    first, second = scope.range(one), scope.range(other)
    if operator is exp.Div:
        return derive(scope, node, ColumnKind.REAL, f"{left} / NULLIF({right}, 0)", ranges.over(first, second))
    if operator is exp.Mod:
        sql, range = f"MOD({left}, NULLIF({right}, 0))", ranges.remainder(first, second)
    else:
        sign, rule = _SUMS[operator]
        sql, range = f"{left} {sign} {right}", rule(first, second)
    if whole:
        return derive(scope, node, ColumnKind.INTEGER, f"TRY_CAST({sql} AS BIGINT)", range)
    return derive(scope, node, ColumnKind.REAL, sql, range)


def _power(scope: Scope, node: exp.Expr) -> Column:
    scope.only(node, "this", "expression")
    base, exponent = number(scope, node.this), whole_number(scope, node, node.expression, most=64)
    range = ranges.power(scope.range(base), exponent)
    return derive(scope, node, ColumnKind.REAL, f"POWER({real(base)}, {exponent})", range)


def _rounded(scope: Scope, node: exp.Round) -> Column:
    scope.only(node, "this", "decimals")
    inner = number(scope, node.this)
    if node.args.get("decimals") is None:
        range = ranges.whole(scope.range(inner), down=True, up=True)
        return derive(scope, node, ColumnKind.INTEGER, f"TRY_CAST(ROUND({real(inner)}) AS BIGINT)", range)
    digits = whole_number(scope, node, node.args["decimals"], most=15)
    unit = Fraction(1, 10**digits)
    found = scope.range(inner)
    range = None if found is None else (found[0] // unit * unit, -(-found[1] // unit) * unit)
    return derive(scope, node, ColumnKind.REAL, f"ROUND({real(inner)}, {digits})", range)


def _cast(scope: Scope, node: exp.Cast) -> Column:
    scope.only(node, "this", "to", "safe")
    inner, target = expression(scope, node.this), node.to.this.name
    if target not in _CASTS or inner.kind is ColumnKind.OTHER:
        raise scope.refuse(node, f"{shown(node)} is not supported; cast to BIGINT, DOUBLE, TEXT, DATE or TIMESTAMP")
    kind = _CASTS[target]
    found = scope.range(inner) if kind.numeric and inner.kind.numeric else None
    range = ranges.whole(found, down=True, up=True) if kind is ColumnKind.INTEGER else found
    value = name(inner)
    if inner.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP) and kind is ColumnKind.TEXT:
        # Engines fail to write times that are far from our days.
        value = f"TRY_CAST({calendar(column_as(inner, 'TIMESTAMP'))} AS {TYPES[inner.kind]})"
    return derive(scope, node, kind, f"TRY_CAST({value} AS {TYPES[kind]})", range)


def _case(scope: Scope, node: exp.Expr) -> Column:
    """CASE WHEN … THEN … ELSE … END, CASE x WHEN … and IF(condition, one, other)."""
    if isinstance(node, exp.If):
        scope.only(node, "this", "true", "false")
        branches, default = [node], node.args.get("false")
    else:
        scope.only(node, "this", "ifs", "default")
        branches, default = node.args["ifs"], node.args.get("default")
    tests = []
    for branch in branches:
        simple = isinstance(node, exp.Case) and node.this is not None
        tests.append(condition(scope, exp.EQ(this=node.this, expression=branch.this) if simple else branch.this))
    outcomes = [branch.args["true"] for branch in branches]
    outcomes += [default] if default is not None else []
    values, kind, range, domain = _alike(scope, node, outcomes)
    pairs = "".join(f" WHEN {test} THEN {value}" for test, value in zip(tests, values, strict=False))
    rest = f" ELSE {values[-1]}" if default is not None else ""
    return derive(scope, node, kind, f"CASE{pairs}{rest} END", range, domain=domain)


def _several(scope: Scope, node: exp.Expr) -> Column:
    """COALESCE, LEAST and GREATEST, all of which pass over NULL."""
    scope.only(node, "this", "expressions", "ignore_nulls")
    values, kind, range, domain = _alike(scope, node, [node.this, *node.expressions])
    if not isinstance(node, exp.Coalesce) and kind is ColumnKind.REAL:
        # NaN is the largest number to the engine; here it is no value.
        values = [f"CASE WHEN ISNAN({value}) THEN NULL ELSE {value} END" for value in values]
    return derive(scope, node, kind, f"{node.key.upper()}({', '.join(values)})", range, domain=domain)


def _nullif(scope: Scope, node: exp.Nullif) -> Column:
    scope.only(node, "this", "expression")
    same = condition(scope, exp.EQ(this=node.this, expression=node.expression))
    (value,), kind, range, domain = _alike(scope, node, [node.this])
    return derive(scope, node, kind, f"CASE WHEN {same} THEN NULL ELSE {value} END", range, domain=domain)


def _alike(
    scope: Scope, node: exp.Expr, outcomes: Sequence[exp.Expr]
) -> tuple[list[str], ColumnKind, Range, tuple[Any, ...] | None]:
    """Expressions of which the answer is one, in one type; the hull of their ranges; the list of their values."""
    outcomes = [bare(outcome) for outcome in outcomes]
    nulls = [isinstance(outcome, exp.Null) for outcome in outcomes]
    found = [None if null else expression(scope, o) for o, null in zip(outcomes, nulls, strict=True)]
    columns = [column for column in found if column is not None]
    kinds = {column.kind for column in columns}
    if kinds == {ColumnKind.INTEGER, ColumnKind.REAL}:
        kinds = {ColumnKind.REAL}
    elif kinds == {ColumnKind.TEXT, ColumnKind.UNTYPED}:
        kinds = {ColumnKind.TEXT}
    if len(kinds) != 1 or ColumnKind.OTHER in kinds:
        raise scope.refuse(node, f"the outcomes of {shown(node)} must be of one kind: numbers, texts or dates")
    (kind,) = kinds
    # Two expressions of one kind may still have two types; the common one is wide enough for both.
    type = TYPES[kind]
    values = ["NULL" if column is None else _in_type(column, type) for column in found]
    lists = [column.domain for column in columns]
    domain = tuple(dict.fromkeys(v for few in lists if few is not None for v in few)) if all(lists) else None
    return values, kind, ranges.hull(*(scope.range(column) for column in columns)), domain


def _bucket(scope: Scope, node: exp.WidthBucket) -> Column:
    """WIDTH_BUCKET(x, low, high, n): n buckets of one width, 0 below them, n + 1 from high on."""
    scope.only(node, "this", "min_value", "max_value", "num_buckets")
    low, high = (scope.value(node.args[end]) for end in ("min_value", "max_value"))
    if not isinstance(low, int | Fraction) or not isinstance(high, int | Fraction) or low >= high:
        raise scope.refuse(node, "WIDTH_BUCKET needs two numbers, the lower first, as its ends")
    many = whole_number(scope, node, node.args["num_buckets"], most=100_000, least=1)
    x = real(number(scope, node.this))
    width = (Fraction(high) - low) / many
    near = f"LEAST(GREATEST({x}, {_double(low - width)}), {_double(high)})"
    place = f"TRY_CAST(FLOOR(({near} - {_double(low)}) / {_double(width)}) AS BIGINT) + 1"
    # NaN is above all numbers to the engine, and no value here.
    sql = f"CASE WHEN {x} <= 'Infinity'::DOUBLE THEN LEAST(GREATEST({place}, 0), {many + 1}) END"
    bounds = (Fraction(0), Fraction(many + 1))
    return derive(scope, node, ColumnKind.INTEGER, sql, bounds, domain=tuple(range(many + 2)))


def _function(scope: Scope, node: exp.Expr) -> Column:
    function = FUNCTIONS[type(node)]
    scope.only(node, *function.parts, "decimals", "big_int", "is_string")
    given = [node.args[part] for part in function.parts if node.args.get(part) is not None]
    if len(given) < len(function.parts):
        raise scope.refuse(node, f"{shown(node)} lacks an argument")
    sql, found = [], []
    for part, takes in zip(given, function.takes, strict=True):
        column = number(scope, part) if takes == NUMBER else None
        found.append(scope.range(column) if column is not None else None)
        sql.append(
            real(column)
            if column is not None
            else text_sql(scope, part)
            if takes == TEXT
            else times.moment(scope, part, expression(scope, part))
        )
    return apply(scope, node, function, sql, found)


def text_sql(scope: Scope, node: exp.Expr) -> str:
    """An expression that is a text, as SQL."""
    found = expression(scope, node)
    if found.kind not in (ColumnKind.TEXT, ColumnKind.UNTYPED):
        raise scope.refuse(
            node, f"{found.name} holds {found.kind.value}; {TEXT} is needed here, as in CAST({found.name} AS TEXT)"
        )
    return name(found)


def _joined(scope: Scope, node: exp.Expr) -> Column:
    """|| and CONCAT. What comes out is cut, so that nesting them cannot fill the memory."""
    if isinstance(node, exp.DPipe):
        scope.only(node, "this", "expression", "safe")
        whole = f"{text_sql(scope, node.this)} || {text_sql(scope, node.expression)}"
    else:
        scope.only(node, "expressions", "safe", "coalesce")
        if len(node.expressions) > MOST_TEXTS:
            raise scope.refuse(node, f"CONCAT of more than {MOST_TEXTS} texts is not supported")
        whole = f"CONCAT({', '.join(text_sql(scope, part) for part in node.expressions)})"
    return derive(scope, node, ColumnKind.TEXT, f"LEFT({whole}, {LONGEST})")


def tupled(scope: Scope, node: exp.Expr, parts: Sequence[exp.Expr]) -> Column:
    """Several expressions as one text, which differs where one of them does, and is NULL where one of them is: what
    COUNT(DISTINCT a, b) tells apart. Each text is preceded by its length, so that ('a', 'bc') is not ('ab', 'c')."""
    if len(parts) > MOST_TEXTS:
        raise scope.refuse(node, f"COUNT(DISTINCT …) of more than {MOST_TEXTS} columns is not supported")
    texts = []
    for part in parts:
        column = expression(scope, part)
        if column.kind is ColumnKind.OTHER:
            raise scope.refuse(node, f"{shown(node)} is not supported: column {column.name} is of type {column.type}")
        text = name(_as_text(scope, part, column))
        texts += [f"TRY_CAST(LENGTH({text}) AS VARCHAR)", "':'", text]
    return derive(scope, node, ColumnKind.TEXT, f"LEFT({' || '.join(texts)}, {LONGEST})")


def _as_text(scope: Scope, node: exp.Expr, column: Column) -> Column:
    """A value as a text: NaN is none, −0.0 is 0, and times outside of the calendar are none."""
    if column.kind in (ColumnKind.TEXT, ColumnKind.UNTYPED):
        return column
    if column.kind is ColumnKind.REAL:
        value = column_as(column, "DOUBLE")
        value = f"CASE WHEN ISNAN({value}) THEN NULL ELSE {value} + 0 END"
    elif column.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
        value = f"TRY_CAST({calendar(column_as(column, 'TIMESTAMP'))} AS {TYPES[column.kind]})"
    else:
        value = name(column)
    return derive(scope, node, ColumnKind.TEXT, f"TRY_CAST({value} AS VARCHAR)")


def _replaced(scope: Scope, node: exp.Replace) -> Column:
    """REPLACE with constants, by a text that is not longer: nesting it must not fill the memory either."""
    scope.only(node, "this", "expression", "replacement")
    old, new = (node.args.get(part) for part in ("expression", "replacement"))
    pair = [scope.value(part) if part is not None and is_literal(part) else None for part in (old, new)]
    if not all(isinstance(text, str) for text in pair) or len(str(pair[1]).encode()) > len(str(pair[0]).encode()):
        raise scope.refuse(node, "REPLACE needs two texts, the second not longer than the first")
    given = ", ".join(literal(str(text), "VARCHAR") for text in pair)
    return derive(scope, node, ColumnKind.TEXT, f"REPLACE({text_sql(scope, node.this)}, {given})")


def _piece(scope: Scope, node: exp.Expr) -> Column:
    """SUBSTRING, LEFT and RIGHT with constant positions."""
    if isinstance(node, exp.Substring):
        scope.only(node, "this", "start", "length", "zero_start")
        places = [node.args["start"]] + ([node.args["length"]] if node.args.get("length") is not None else [])
    else:
        scope.only(node, "this", "expression", "negative_length_returns_empty")
        places = [node.expression]
    numbers = ", ".join(str(whole_number(scope, node, place, most=LONGEST)) for place in places)
    return derive(scope, node, ColumnKind.TEXT, f"{node.key.upper()}({text_sql(scope, node.this)}, {numbers})")


def _trimmed(scope: Scope, node: exp.Trim) -> Column:
    scope.only(node, "this")
    return derive(scope, node, ColumnKind.TEXT, f"TRIM({text_sql(scope, node.this)})")


def _date_part(scope: Scope, node: exp.Anonymous) -> Column:
    """DATE_PART('month', x), which sqlglot does not know."""
    if str(node.this).upper() != "DATE_PART" or len(node.expressions) != 2:
        raise _unknown(scope, node)
    part, moment = node.expressions
    return times.part_of_time(scope, node, part, expression(scope, moment))


def _extracted(scope: Scope, node: exp.Extract) -> Column:
    return times.part_of_time(scope, node, node.this, expression(scope, node.expression))


def _truncated(scope: Scope, node: exp.Expr) -> Column:
    return times.truncated(scope, node, expression(scope, node.this))


def _difference(scope: Scope, node: exp.DateDiff) -> Column:
    scope.only(node, "this", "expression", "unit", "date_part_boundary")
    unit = str(node.args["unit"].this).upper() if node.args.get("unit") is not None else "DAY"
    # sqlglot keeps the later time first.
    return times.difference(scope, node, expression(scope, node.expression), expression(scope, node.this), unit)


def _formatted(scope: Scope, node: exp.TimeToStr) -> Column:
    return times.formatted(scope, node, expression(scope, node.this))


def _moved(scope: Scope, node: exp.Expr) -> Column | None:
    """A date or time moved by an INTERVAL, a date by a number of days, the days between two dates; None where both
    sides are numbers."""
    sides = [bare(side) for side in (node.this, node.expression)]
    if isinstance(sides[0], exp.Interval) and isinstance(node, exp.Add):
        sides.reverse()
    sign = "-" if isinstance(node, exp.Sub | exp.DateSub) else "+"
    if isinstance(sides[1], exp.Interval):
        return times.shifted(scope, node, expression(scope, sides[0]), sign, *times.interval(scope, sides[1]))
    if isinstance(sides[0], exp.Interval):
        raise scope.refuse(node, f"{shown(node)} is not supported; write a date first, then INTERVAL")
    columns = [expression(scope, side) for side in sides]
    kinds = [column.kind for column in columns]
    if kinds[0] is ColumnKind.DATE and is_literal(sides[1]) and kinds[1] is ColumnKind.INTEGER:
        days = whole_number(scope, node, sides[1], least=-times.MOST_STEPS, most=times.MOST_STEPS)
        return times.shifted(scope, node, columns[0], sign, days, "DAY")
    if kinds[0] is kinds[1] is ColumnKind.DATE and isinstance(node, exp.Sub):
        return times.difference(scope, node, columns[1], columns[0])
    if ColumnKind.DATE in kinds or ColumnKind.TIMESTAMP in kinds:
        raise scope.refuse(
            node, f"{shown(node)} is not supported; add an INTERVAL to a time, or write DATE_DIFF('day', one, other)"
        )
    return None


def _date_moved(scope: Scope, node: exp.Expr) -> Column:
    """DATE_ADD(day, INTERVAL 3 DAY) and DATE_SUB."""
    scope.only(node, "this", "expression", "unit")
    if not isinstance(node.expression, exp.Interval):
        raise scope.refuse(node, f"{shown(node)} is not supported; write DATE_ADD(day, INTERVAL '3' DAY)")
    amount, unit = times.interval(scope, node.expression)
    sign = "-" if isinstance(node, exp.DateSub) else "+"
    return times.shifted(scope, node, expression(scope, node.this), sign, amount, unit)


def condition(scope: Scope, node: exp.Expr) -> str:
    """A condition as total SQL, in brackets where it needs them."""
    node = bare(node)
    if isinstance(node, exp.And | exp.Or):
        scope.only(node, "this", "expression")
        word = " AND " if isinstance(node, exp.And) else " OR "
        return "(" + word.join(condition(scope, part) for part in node.flatten()) + ")"
    if isinstance(node, exp.Not):
        scope.only(node, "this")
        return f"(NOT {condition(scope, node.this)})"
    if type(node) in COMPARISONS:
        scope.only(node, "this", "expression")
        return _comparison(scope, node, node.this, COMPARISONS[type(node)], node.expression)
    if isinstance(node, exp.Between):
        scope.only(node, "this", "low", "high")
        low = _comparison(scope, node, node.this, ">=", node.args["low"])
        return f"({low} AND {_comparison(scope, node, node.this, '<=', node.args['high'])})"
    if isinstance(node, exp.In):
        return _membership(scope, node)
    if isinstance(node, exp.Like | exp.ILike | exp.Escape):
        return _like(scope, node)
    if isinstance(node, exp.Is):
        return _is(scope, node)
    if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        same = _same(scope, node)
        return same if isinstance(node, exp.NullSafeEQ) else f"(NOT {same})"
    if isinstance(node, exp.Boolean):
        return "TRUE" if node.this else "FALSE"
    if is_literal(node):
        raise scope.refuse(node, f"{shown(node)} is not true or false; {_WHAT}")
    return _flag(scope, node)


def _condition_column(scope: Scope, node: exp.Expr) -> Column:
    return derive(scope, node, ColumnKind.BOOLEAN, condition(scope, node), domain=(True, False))


def _is(scope: Scope, node: exp.Is) -> str:
    """IS NULL, IS TRUE and IS FALSE, which are never NULL themselves."""
    scope.only(node, "this", "expression")
    if isinstance(node.expression, exp.Null):
        return f"({name(expression(scope, node.this))} IS NULL)"
    if not isinstance(node.expression, exp.Boolean):
        raise scope.refuse(node, "IS is supported with NULL, TRUE and FALSE only; compare with =")
    inner = condition(scope, node.this)
    return f"COALESCE({inner}, FALSE)" if node.expression.this else f"(NOT COALESCE({inner}, TRUE))"


def _same(scope: Scope, node: exp.Expr) -> str:
    """IS NOT DISTINCT FROM: equal, or both NULL."""
    scope.only(node, "this", "expression")
    sides = [bare(side) for side in (node.this, node.expression)]
    present = [side for side in sides if not isinstance(side, exp.Null)]
    if len(present) < 2:
        return f"({name(expression(scope, present[0]))} IS NULL)" if present else "TRUE"
    equal = _comparison(scope, node, node.this, "=", node.expression)
    missing = [f"{name(expression(scope, side))} IS NULL" for side in sides if not is_literal(side)]
    both = " AND ".join(missing) if len(missing) == 2 else "FALSE"
    return f"COALESCE({equal}, {both})"


def _flag(scope: Scope, node: exp.Expr) -> str:
    found = expression(scope, node)
    if found.kind is not ColumnKind.BOOLEAN:
        what = f"column {found.name}" if isinstance(node, exp.Column) else found.name
        raise scope.refuse(node, f"{what} is not true or false; {_WHAT}")
    return name(found)


def _like(scope: Scope, node: exp.Expr) -> str:
    """LIKE and ILIKE, with or without ESCAPE. ILIKE compares both sides in small letters."""
    escape = ""
    if isinstance(node, exp.Escape):
        scope.only(node, "this", "expression")
        letter = scope.value(node.expression) if is_literal(node.expression) else None
        node = bare(node.this)
        if not isinstance(letter, str) or len(letter) != 1 or letter in "%_" or not isinstance(node, exp.Like):
            raise scope.refuse(node, "ESCAPE is supported with one letter, after LIKE 'pattern'")
        escape = f" ESCAPE {literal(letter, 'VARCHAR')}"
    scope.only(node, "this", "expression", "negate")
    value = scope.value(node.expression) if is_literal(node.expression) else None
    if not isinstance(value, str):
        raise scope.refuse(node, f"{node.key.upper()} is supported with a text as its pattern only")
    if escape and not _is_escaped(value, escape[-2]):
        raise scope.refuse(node, "the letter after ESCAPE stands before %, _ or itself only")
    pattern, text = literal(value, "VARCHAR"), text_sql(scope, node.this)
    if isinstance(node, exp.ILike):
        text, pattern = f"LOWER({text})", f"LOWER({pattern})"
    found = f"({text} LIKE {pattern}{escape})"
    return f"(NOT {found})" if node.args.get("negate") else found


def _is_escaped(pattern: str, letter: str) -> bool:
    """Whether every escape of a pattern is before a letter that needs one: engines fail otherwise, or differ."""
    return not set(re.sub(f"{re.escape(letter)}[%_{re.escape(letter)}]", "", pattern)) & {letter}


def _comparison(scope: Scope, node: exp.Expr, left: exp.Expr, sign: str, right: exp.Expr) -> str:
    left, right = bare(left), bare(right)
    if is_literal(left):
        left, right, sign = right, left, MIRRORED[sign]
    if is_literal(left):
        raise scope.refuse(node, f"{shown(node)} compares two values; {_WHAT}")
    if is_literal(right):
        return f"({_met(scope, right, expression(scope, left), scope.value(right), sign)})"
    return f"({_compared(scope, node, expression(scope, left), sign, expression(scope, right))})"


def _met(scope: Scope, node: exp.Expr, column: Column, value: Value, sign: str) -> str:
    type, constant = _constant(scope, node, column, value)
    return f"{column_as(column, type)} {sign} {constant}"


def _constant(
    scope: Scope, node: exp.Expr, column: Column, value: Value, write: Callable[[Value, str], str] = literal
) -> tuple[str, str]:
    """The type in which a column and a value are compared, and the value in it, as SQL or as `write` has it."""
    try:
        if isinstance(value, str) and column.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
            value = read_text(column, value)
        type = meeting_type(column, value)
        return type, write(value, type)
    except ValueError as misfit:
        raise scope.refuse(node, str(misfit)) from None


def _compared(scope: Scope, node: exp.Expr, one: Column, sign: str, other: Column) -> str:
    """Two expressions, compared in a type that both have."""
    type = common_type(one, other)
    if type is None:
        raise scope.refuse(
            node,
            f"columns {one.name} ({one.kind.value}) and {other.name} ({other.kind.value}) cannot be compared; "
            "compare columns of one type (a CSV file has no types, Parquet has), or CAST one of them",
        )
    if type == "DOUBLE":
        return f"{real(one)} {sign} {real(other)}"
    return f"{column_as(one, type)} {sign} {column_as(other, type)}"


def _membership(scope: Scope, node: exp.In) -> str:
    if node.args.get("query") is not None:
        return _in_subquery(scope, node)
    if not node.expressions:
        raise scope.refuse(node, "IN is supported with a list of values only, or with (SELECT …)")
    scope.only(node, "this", "expressions")
    column = expression(scope, node.this)
    # One list per type in which the column is compared: engines look a value up in a list, and try a chain of OR.
    lists: dict[str, dict[str, None]] = {}
    for item in node.expressions:
        type, text = _constant(scope, item, column, scope.value(item), constants.plain_text)
        lists.setdefault(type, {})[text] = None
    parts = [f"{column_as(column, type)} IN ({constants.listed(tuple(texts), type)})" for type, texts in lists.items()]
    return "(" + " OR ".join(parts) + ")"


def _in_subquery(scope: Scope, node: exp.In) -> str:
    """IN (SELECT column FROM …): values of a public table; or people, of whom a private table has rows.

    For people, the id of who is protected is compared with the ids of a private table. Whether a row of p stays is then
    a function of p's rows in both tables, as in a join on the ids (see `scope`). Any other column of a private table
    would let one person decide about the rows of others.
    """
    scope.only(node, "this", "query")
    if scope.subquery is None:
        raise scope.refuse(node, "IN is supported with a list of values only")
    column, table = expression(scope, node.this), scope.subquery(node.args["query"])
    if len(table.columns) != 1:
        raise scope.refuse(node, "IN (SELECT …) needs a subquery with one column")
    theirs = replace(table.columns[0], sql=f"q.{quoted(table.columns[0].name)}")
    where = ""
    if not table.public:
        mine = owner_column(scope.table)
        unit = table.unit
        ids = mine is not None and unit is not None and name(scope.tables[0].column(mine)) == name(column)
        if not ids or unit is None or unit.name != table.columns[0].name or not same_ids(column, unit):
            raise scope.refuse(
                node,
                "IN (SELECT …) is supported for a public table, and for the id of who is protected in both: another "
                "column of a private table would let one person decide about the rows of others",
            )
        where = f" WHERE {name(theirs)} IS NOT NULL"
    both_untyped = column.kind is theirs.kind is ColumnKind.UNTYPED
    type = "VARCHAR" if both_untyped else common_type(column, theirs)
    if type is None:
        raise scope.refuse(
            node, f"{column.name} ({column.kind.value}) and {theirs.name} ({theirs.kind.value}) cannot be compared"
        )
    values = f"SELECT {column_as(theirs, type)} FROM ({table.sql}) AS q{where}"
    return f"({column_as(column, type)} IN ({values}))"


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


READERS: dict[type[exp.Expr], Callable[[Scope, Any], Column]] = {
    exp.Column: lambda scope, node: scope.column(node),
    exp.Neg: _negative,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod), _operation),
    exp.Pow: _power,
    exp.Round: _rounded,
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    **dict.fromkeys((exp.Case, exp.If), _case),
    **dict.fromkeys((exp.Coalesce, exp.Least, exp.Greatest), _several),
    exp.Nullif: _nullif,
    exp.Extract: _extracted,
    exp.Anonymous: _date_part,
    **dict.fromkeys((exp.TimestampTrunc, exp.DateTrunc), _truncated),
    exp.DateDiff: _difference,
    **dict.fromkeys((exp.DateAdd, exp.DateSub), _date_moved),
    exp.TimeToStr: _formatted,
    **dict.fromkeys((exp.DPipe, exp.Concat), _joined),
    exp.Replace: _replaced,
    **dict.fromkeys((exp.Substring, exp.Left, exp.Right), _piece),
    exp.Trim: _trimmed,
    exp.WidthBucket: _bucket,
    **dict.fromkeys(FUNCTIONS, _function),
    **dict.fromkeys(_CONDITIONS, _condition_column),
}
"""What reads each kind of node. A function whose arguments are all expressions is an entry of `functions.FUNCTIONS`."""
