"""No row makes an expression fail: random expressions over tables of what is hard to compute with, on every engine.

Were an expression to fail on a row, an analyst could put it into a branch of CASE that only one person's row takes, and
read that row off the failure. What an engine cannot say is refused by its plan, which looks at no row. About 15 s, and
ten on Spark, which is asked a fifth; `make soak` goes on with other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from deniable.errors import DeniableError
from deniable.query import AtMost
from tests.query.elsewhere import ask, in_duckdb, in_postgres, in_spark

ROWS = 60
WHOLE = [None, 0, 1, -1, 7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
REAL = [None, 0.0, -0.0, 0.5, -1.5, math.nan, math.inf, -math.inf, 1e308, -1e308, 800.0, 5e-324, 2.0**63, 1e15]
TEXT = [
    None,
    "",
    "a",
    "A",
    " ",
    "é",
    "ß",
    "\U0001f600",
    "'",
    "%",
    "_",
    "\\",
    "1",
    "1e400",
    "nan",
    "2026-02-30",
    "x" * 15_000,
]
DAYS = [None, date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)]
TIMES = [None, datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2026, 1, 31, 12, 0, 0, 500000)]
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "i": ("BIGINT", WHOLE),
    "s": ("INTEGER", [None, 0, 1, -1, 2**31 - 1, -(2**31)]),
    "x": ("DOUBLE", REAL),
    "m": ("DECIMAL(10, 2)", [None, Decimal("1.50"), Decimal("-99999999.99")]),
    "t": ("VARCHAR", TEXT),
    "b": ("BOOLEAN", [None, True, False]),
    "d": ("DATE", DAYS),
    "at": ("TIMESTAMP", TIMES),
}
LEAVES = {
    "number": ["i", "s", "x", "m", "0", "1", "-1", "2.5", "1e300", "9223372036854775807"],
    "text": ["t", "t", "''", "'a'", "'1'", "'B%'"],
    "time": ["d", "at", "DATE '2026-01-31'", "TIMESTAMP '0001-01-01 00:00:00'", "DATE '9999-12-31'"],
    "flag": ["b", "b", "TRUE"],
}
FORMS = {
    "number": [
        "({number} + {number})", "({number} - {number})", "({number} * {number})", "({number} / {number})",
        "(-{number})", "({number} % {number})", "({number} ** 0)", "({number} ** 3)", "({number} ** 64)",
        "ABS({number})", "SQRT({number})", "EXP({number})", "LN({number})", "FLOOR({number})", "CEIL({number})",
        "SIGN({number})", "ROUND({number})", "ROUND({number}, 15)", "CAST({number} AS BIGINT)",
        "CAST({text} AS DOUBLE)", "CAST({flag} AS BIGINT)", "CASE WHEN {flag} THEN {number} ELSE {number} END",
        "COALESCE({number}, {number})",
        "LEAST({number}, {number})", "GREATEST({number}, {number})", "NULLIF({number}, {number})", "LENGTH({text})",
        "YEAR({time})", "WEEK({time})", "DAYOFYEAR({time})", "EXTRACT(isodow FROM {time})", "HOUR({time})",
        "DATE_DIFF('week', {time}, {time})", "DATE_DIFF('second', {time}, {time})",
        "DATE_DIFF('month', {time}, {time})", "WIDTH_BUCKET({number}, -5, 1e9, 7)", "TRY_CAST('x' AS DOUBLE)",
    ],
    "text": [
        "({text} || {text})", "CONCAT({text}, {text})", "UPPER({text})", "LOWER({text})", "TRIM({text})",
        "SUBSTRING({text}, 0, 2)", "SUBSTRING({text}, 3, 9999)", "LEFT({text}, 1)", "RIGHT({text}, 9999)",
        "REPLACE({text}, 'ab', 'a')", "CAST({number} AS TEXT)", "CAST({time} AS TEXT)", "COALESCE({text}, 'n')",
        "CASE WHEN {flag} THEN {text} END", "NULLIF({text}, {text})",
    ],
    "time": [
        "DATE_TRUNC('week', {time})", "DATE_TRUNC('year', {time})", "DATE_TRUNC('minute', {time})",
        "CAST({time} AS DATE)", "CAST({time} AS TIMESTAMP)", "TRY_CAST({text} AS DATE)", "COALESCE(at, at)",
    ],
    "flag": [
        "({number} < {number})", "({number} = {number})", "({text} >= {text})", "({time} <> {time})", "(NOT {flag})",
        "({flag} AND {flag})", "({flag} OR {flag})", "({number} IS NULL)", "({time} IS NULL)", "({text} LIKE 'B%')",
        "({number} IN (1, 2.5, 9223372036854775807))", "({number} BETWEEN -1 AND 1e300)", "CONTAINS({text}, {text})",
        "STARTS_WITH({text}, {text})", "({text} IN ('a', 'b'))",
    ],
}  # fmt: skip


def expression(random: Random, kind: str, depth: int) -> str:
    """A random expression of a kind."""
    if depth == 0 or random.random() < 0.25:
        return random.choice(LEAVES[kind])
    return filled(random, random.choice(FORMS[kind]), depth)


def filled(random: Random, form: str, depth: int) -> str:
    for part in LEAVES:
        while f"{{{part}}}" in form:
            form = form.replace(f"{{{part}}}", expression(random, part, depth - 1), 1)
    return form


def flat(random: Random) -> list[str]:
    """Every form, of every column that it can begin with."""
    found = {
        filled(random, form.replace(f"{{{part}}}", column, 1), 1)
        for form in (form for forms in FORMS.values() for form in forms)
        for part, leaves in LEAVES.items()
        for column in leaves
        if column in COLUMNS and f"{{{part}}}" in form
    }
    return sorted(found)


def counting(engine: Any, expressions: list[str]) -> Any:
    listed = ", ".join(f"COUNT({text}) AS n{i}" for i, text in enumerate(expressions))
    return ask(engine, f"SELECT {listed} FROM t", per_unit=AtMost(groups=1, rows=ROWS))


def check(engine: Any, expressions: list[str], *, at_once: int) -> None:
    asked: list[str] = []
    for text in expressions:
        try:
            counting(engine, [text])
        except DeniableError:
            continue
        asked.append(text)
    assert len(asked) > len(expressions) / 2
    for start in range(0, len(asked), at_once):
        plan = counting(engine, asked[start : start + at_once])
        found = plan.engine.run(plan.bounded, groups=1, key=(1, 2))
        assert all(0 <= int(count[0]) <= ROWS for count in found.counts.values())


@pytest.fixture(scope="module")
def engines(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    random = Random(1)
    data = {name: (type_, [random.choice(values) for _ in range(ROWS)]) for name, (type_, values) in COLUMNS.items()}
    tables: dict[str, Any] = {"t": {"person": ("BIGINT", list(range(ROWS))), **data}}

    def opened(name: str) -> Any:
        if name == "duckdb":
            return in_duckdb(tables, {})
        if name == "spark":
            return in_spark(request.getfixturevalue("spark"), tables, {})
        import psycopg

        dsn = request.getfixturevalue("postgres").database()
        with psycopg.connect(dsn, autocommit=True) as connection:
            return in_postgres(connection, dsn, tables, {})

    return opened


ENGINES = ["duckdb", "postgres", pytest.param("spark", marks=pytest.mark.xdist_group("spark"))]


@pytest.mark.parametrize("engine", ENGINES)
def test_no_row_makes_a_function_fail(engines: Callable[[str], Any], engine: str) -> None:
    with closing(engines(engine)) as opened:
        check(opened, flat(Random(7))[:: 5 if engine == "spark" else 1], at_once=40)


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_no_row_makes_an_expression_fail(engines: Callable[[str], Any], engine: str) -> None:
    random = Random(7)
    with closing(engines(engine)) as opened:
        check(opened, [expression(random, random.choice(list(FORMS)), 3) for _ in range(100)], at_once=8)


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
def test_no_row_makes_an_expression_fail_at_length(engines: Callable[[str], Any], engine: str) -> None:
    random = Random()
    with closing(engines(engine)) as opened:
        check(opened, [expression(random, random.choice(list(FORMS)), 3) for _ in range(2000)], at_once=8)
