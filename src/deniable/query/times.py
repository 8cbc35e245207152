"""Dates and times as total SQL: their parts, what lies between two, what comes after an INTERVAL, and their text.

A time is read as TIMESTAMP within the years 1 to 9999, which every engine's calendar can handle; outside it is NULL, as
is a time that an INTERVAL moves out of them.
"""

from __future__ import annotations

import re

from sqlglot import exp

from deniable.query.functions import DIFFERENCES, PARTS, TIME, TRUNCATED, TYPES, apply, calendar, derive
from deniable.query.schema import Column, ColumnKind
from deniable.query.scope import Scope, is_literal, shown
from deniable.query.values import column_as, literal

_STEPS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
MOST_STEPS = 10_000
"""How many units of time an INTERVAL may have: the sum stays within what every engine can hold."""


def moment(scope: Scope, node: exp.Expr, found: Column) -> str:
    """A date or a time, as SQL that is NULL outside the years 1 to 9999; `node` is where it stands."""
    if found.kind not in (ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.UNTYPED):
        raise scope.refuse(node, f"{found.name} holds {found.held}; {TIME} is needed here")
    return calendar(column_as(found, "TIMESTAMP"))


def part_of_time(scope: Scope, node: exp.Expr, part: exp.Expr, of: Column) -> Column:
    """EXTRACT(part FROM time)."""
    scope.only(node, "this", "expression", "expressions")
    word = str(part.this).upper()
    if word not in PARTS:
        raise scope.refuse(node, f"{word} of a date is not supported; the parts are {', '.join(PARTS)}")
    return apply(scope, node, PARTS[word], [moment(scope, node, of)], [None])


def truncated(scope: Scope, node: exp.Expr, of: Column) -> Column:
    """DATE_TRUNC(unit, time)."""
    scope.only(node, "this", "unit", "input_type_preserved")
    unit = str(node.args["unit"].this).upper()
    if unit not in TRUNCATED:
        raise scope.refuse(node, f"DATE_TRUNC to {unit} is not supported; the units are {', '.join(TRUNCATED)}")
    kind = ColumnKind.TIMESTAMP if unit in ("HOUR", "MINUTE") else ColumnKind.DATE
    cut = f"DATE_TRUNC('{unit}', {moment(scope, node, of)})"
    return derive(scope, node, kind, f"TRY_CAST({cut} AS {TYPES[kind]})")


def difference(scope: Scope, node: exp.Expr, start: Column, end: Column, unit: str = "DAY") -> Column:
    """How many ends of a unit of time lie between two times."""
    if unit not in DIFFERENCES:
        raise scope.refuse(node, f"DATE_DIFF in {unit} is not supported; the units are {', '.join(DIFFERENCES)}")
    ends = ", ".join(moment(scope, node, column) for column in (start, end))
    return derive(scope, node, ColumnKind.INTEGER, f"DATE_DIFF('{unit}', {ends})")


def interval(scope: Scope, node: exp.Interval) -> tuple[int, str]:
    """The amount and the unit of an INTERVAL."""
    scope.only(node, "this", "unit")
    amount, unit = node.this, node.args.get("unit")
    word = str(unit.this).upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    number = str(amount.this).strip() if isinstance(amount, exp.Literal) else ""
    if word not in _STEPS or not re.fullmatch(r"[+-]?\d{1,5}", number) or abs(int(number)) > MOST_STEPS:
        raise scope.refuse(
            node,
            f"{shown(node)} is not supported; write INTERVAL '3' DAY, with a whole number up to {MOST_STEPS:,} and "
            f"one of {', '.join(_STEPS)}",
        )
    return int(number), word


def shifted(scope: Scope, node: exp.Expr, of: Column, sign: str, amount: int, unit: str) -> Column:
    """A time moved by some units; a date stays a date where the unit is a day or more."""
    kind = ColumnKind.DATE if of.kind is ColumnKind.DATE else ColumnKind.TIMESTAMP
    if unit in ("HOUR", "MINUTE", "SECOND"):
        kind = ColumnKind.TIMESTAMP
    if amount < 0:
        sign, amount = {"+": "-", "-": "+"}[sign], -amount
    amount, unit = (3 * amount, "MONTH") if unit == "QUARTER" else (amount, unit)
    amount, unit = (7 * amount, "DAY") if unit == "WEEK" else (amount, unit)
    moved = calendar(f"({moment(scope, node, of)} {sign} INTERVAL '{amount}' {unit})")
    return derive(scope, node, kind, f"TRY_CAST({moved} AS {TYPES[kind]})")


_FORMATS = {
    "Y": ("YEAR", 4), "m": ("MONTH", 2), "d": ("DAY", 2), "H": ("HOUR", 2), "M": ("MINUTE", 2), "j": ("DAYOFYEAR", 3),
}  # fmt: skip


def formatted(scope: Scope, node: exp.TimeToStr, of: Column) -> Column:
    """STRFTIME(time, format), put together from parts of the time: engines have formats of their own."""
    scope.only(node, "this", "format")
    given = node.args.get("format")
    value = scope.value(given) if given is not None and is_literal(given) else None
    pieces = re.findall(r"%.|[^%]+|%$", value) if isinstance(value, str) else []
    if not pieces or any(piece[0] == "%" and piece[1:] not in (*_FORMATS, "%") for piece in pieces):
        listed = " ".join(f"%{letter}" for letter in _FORMATS)
        raise scope.refuse(node, f"{shown(node)} is not supported; a format is made of {listed} and other letters")
    at, texts = moment(scope, node, of), list[str]()
    for piece in pieces:
        if piece[0] == "%" and piece != "%%":
            part, width = _FORMATS[piece[1]]
            texts.append(f"RIGHT('{'0' * width}' || TRY_CAST({part}({at}) AS VARCHAR), {width})")
        else:
            texts.append(literal("%" if piece == "%%" else piece, "VARCHAR"))
    return derive(scope, node, ColumnKind.TEXT, " || ".join(texts))
