"""The table of rules in docs/query.md, line by line: every line has a test here, and every test a line."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from deniable.errors import QueryError
from deniable.query import AtMost
from deniable.query.planning import QueryPlan

WIDE = AtMost(groups=100, rows=100)
ALL = (
    "COUNT(*) AS n, COUNT(x) AS c, SUM(x) AS s, AVG(x) AS m, VAR_POP(x) AS v, STDDEV(x) AS sd, MEDIAN(x) AS q, "
    "MIN(x) AS lo, MAX(x) AS hi, COUNT(DISTINCT x) AS d, COUNT(DISTINCT person) AS p"
)
RULES: dict[str, Callable[..., None]] = {}


def rule(line: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def known(test: Callable[..., None]) -> Callable[..., None]:
        RULES[line] = test
        return test

    return known


class Ask:
    """Queries with so much ε that the noise is 0."""

    def __init__(self, make_plan: Callable[..., QueryPlan], folder: Path) -> None:
        self.make_plan, self.folder = make_plan, folder

    def __call__(self, data: Any, sql: str, **options: Any) -> list[dict[str, Any]]:
        plan = self.make_plan(data, sql, **{"epsilon": 10**40, "per_unit": WIDE, **options})
        try:
            columns = plan.run().columns
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        finally:
            plan.engine.close()

    def one(self, data: Any, sql: str, **options: Any) -> Any:
        (row,) = self(data, sql, **options)
        return next(iter(row.values()))


def numbers(values: list[Any], type: pa.DataType | None = None) -> pa.Table:
    return pa.table({"person": pa.array(range(len(values)), pa.int64()), "x": pa.array(values, type or pa.float64())})


@rule("NULL and NaN")
def _(ask: Ask) -> None:
    (row,) = ask(numbers([1.0, None, math.nan, 3.0]), f"SELECT {ALL} FROM t", bounds={"x": (0, 10, 1)})
    found = {name: round(row[name], 6) for name in ("n", "c", "s", "m", "v", "q", "d")}
    assert found == {"n": 4, "c": 2, "s": 4, "m": 2.0, "v": 1.0, "q": pytest.approx(2, abs=1), "d": 2}


@rule("±inf, out of bounds")
def _(ask: Ask) -> None:
    (row,) = ask(numbers([math.inf, -math.inf, 1e300, -7.0, 5.0]), f"SELECT {ALL} FROM t", bounds={"x": (0, 10, 1)})
    assert (row["c"], row["s"], row["q"], row["lo"], row["hi"]) == (5, 25, 5, 0, 10)


@rule("an expression that fails (division by 0, a cast that does not fit, LN of −1)")
def _(ask: Ask) -> None:
    sql = "SELECT COUNT(1 / x) AS a, COUNT(CAST(x * 1e30 AS INT)) AS b, COUNT(LN(x)) AS c, COUNT(*) AS n FROM t"
    (row,) = ask(numbers([0.0, -1.0, 2.0]), sql)
    assert (row["a"], row["b"], row["c"], row["n"]) == (2, 1, 1, 3)


@rule("whole numbers in expressions")
def _(ask: Ask) -> None:
    data = numbers([2**62, 3, -(2**63)], pa.int64())
    assert ask.one(data, "SELECT COUNT(x * 4) AS n FROM t") == 1
    assert ask.one(data, "SELECT SUM(x + 1) AS n FROM t", bounds={"x": (0, 5)}) == 6 + 4 + 1


@rule("rounding")
def _(ask: Ask) -> None:
    assert ask.one(numbers([2.44, 2.46]), "SELECT SUM(x) AS s FROM t", bounds={"x": (0, 10, 0.1)}) == pytest.approx(4.9)
    assert ask.one(numbers([2.5], pa.float64()), "SELECT SUM(x) AS s FROM t", bounds={"x": (0, 5000)}) == 2.5
    assert ask.one(numbers([2, 5], pa.int8()), "SELECT SUM(x) AS s FROM t", bounds={"x": (0, 100)}) == 7
    assert ask.one(numbers([2.9] * 9), "SELECT MEDIAN(x) AS q FROM t", bounds={"x": (0, 5000)}) == 2


@rule("empty group, empty table")
def _(ask: Ask) -> None:
    sql = f"SELECT k, {ALL}, MODE(k) AS mo FROM t GROUP BY k"
    for values in ([], [7]):
        table = numbers(values, pa.int32()).append_column("k", pa.array(["a"] * len(values), pa.string()))
        limits = AtMost(groups=1, rows=1)
        # So sure that none of the intervals is cut short by its noise, but for a probability below 1e-6.
        sure = {"epsilon": 5, "confidence": 0.99999999}
        rows = ask(table, sql, bounds={"x": (0, 10)}, keys={"k": ["a", "b"]}, per_unit=limits, **sure)
        empty = rows[1]
        assert abs(empty["s"]) < 20 * 10 * 11 / 5, "20 scales: e^-20"
        for name, low, high in (("m", 0, 10), ("v", 0, 25), ("q", 0, 10), ("lo", 0, 10), ("hi", 0, 10)):
            assert (empty[f"{name}_low"], empty[f"{name}_high"]) == (low, high)
            assert low <= empty[name] <= high
        assert empty["mo"] in ("a", "b")
        assert empty["mo_among"] == "a, b"


@rule("a count below 0")
def _(ask: Ask) -> None:
    keys = {"x": range(400)}
    rows = ask(numbers([], pa.int32()), "SELECT x, COUNT(*) AS n FROM t GROUP BY x", keys=keys, epsilon=1)
    assert min(row["n"] for row in rows) < 0, "all of 400 noises would be 0 or more with probability 2^-380"


@rule("a row without a person (NULL, NaN id)")
def _(ask: Ask) -> None:
    data = pa.table({"person": [1.0, None, math.nan, 2.0], "x": [1, 1, 1, 1]})
    (row,) = ask(data, f"SELECT {ALL} FROM t", bounds={"x": (0, 10)})
    assert (row["n"], row["p"], row["s"], row["d"]) == (2, 2, 2, 1)


@rule("a row with an undeclared key, or NULL")
def _(ask: Ask) -> None:
    data = pa.table({"person": [1, 1, 1], "k": ["z", None, "a"]})
    found = ask(
        data, "SELECT k, COUNT(*) AS n FROM t GROUP BY k", keys={"k": ["a", "b"]}, per_unit=AtMost(groups=1, rows=1)
    )
    assert [(row["k"], row["n"]) for row in found] == [("a", 1), ("b", 0)]


@rule("more groups or rows than the limits")
def _(ask: Ask) -> None:
    data = pa.table({"person": [1] * 12, "k": list("aaabbbcccddd"), "x": range(12)})
    options = {"keys": {"k": list("abcd")}, "per_unit": AtMost(groups=2, rows=2), "bounds": {"x": (0, 20)}}
    choices = set()
    for _ in range(8):
        found = ask(data, "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k", **options)
        assert sorted(row["n"] for row in found) == [0, 0, 2, 2]
        choices.add(tuple(row["s"] for row in found))
    assert len(choices) > 1, "54 choices: all 8 alike has probability 54^-7"


@rule("a value of the wrong type")
def _(ask: Ask) -> None:
    (ask.folder / "t.csv").write_text("person,x\n1,5\n2,many\n3,\n4,7\n")
    (row,) = ask(ask.folder / "t.csv", f"SELECT {ALL} FROM t", bounds={"x": (0, 10, 1)})
    assert (row["n"], row["c"], row["s"], row["m"], row["lo"], row["hi"]) == (4, 2, 12, 6.0, 5, 7)


@rule("overflow")
def _(ask: Ask) -> None:
    data = numbers([2**63 - 1, -(2**63)] * 2, pa.int64())
    bounds = {"x": (-(2**52), 2**52, 1)}
    assert ask.one(data, "SELECT SUM(x) AS s FROM t", bounds=bounds) == 0
    assert ask.one(data, "SELECT SUM(x) AS s FROM t WHERE x > 0", bounds=bounds) == 2**53
    wide = {"x": (-(10**9), 10**9)}
    assert ask.one(data, "SELECT VAR_POP(x) AS v FROM t", bounds=wide) == pytest.approx(1e18)
    assert ask.one(numbers([1e308] * 4), "SELECT SUM(x * x) AS s FROM t", bounds={"x * x": (0, 1e15)}) == 4e15


@rule("strings")
def _(ask: Ask) -> None:
    data = pa.table({"person": range(4), "x": ["a", "A", "a ", ""]})
    found = ask(data, "SELECT x, COUNT(*) AS n FROM t GROUP BY x", keys={"x": ["a", "A", "a ", ""]})
    assert [row["n"] for row in found] == [1, 1, 1, 1]
    assert ask.one(data, "SELECT COUNT(*) AS n FROM t WHERE x = 'a'") == 1
    assert ask.one(data, "SELECT COUNT(DISTINCT x) AS n FROM t") == 4
    assert ask.one(data, "SELECT COUNT(DISTINCT TRIM(LOWER(x))) AS n FROM t") == 2
    long = numbers(["x" * 9000], pa.string())
    assert ask.one(long, "SELECT SUM(LENGTH(x || x)) AS n FROM t", bounds={"LENGTH(x || x)": (0, 20_000)}) == 10_000


@rule("CSV")
def _(ask: Ask) -> None:
    (ask.folder / "t.csv").write_text('person,x,k\n1,5,"a,b"\n2,007,a\n3,1e1,"b"\n')
    place = ask.folder / "t.csv"
    assert ask.one(place, "SELECT SUM(x) AS s FROM t", bounds={"x": (0, 100, 1)}) == 22
    assert ask.one(place, "SELECT COUNT(*) AS n FROM t WHERE x = '007'") == 1
    assert [row["n"] for row in ask(place, "SELECT k, COUNT(*) AS n FROM t GROUP BY k", keys={"k": ["a,b", "c"]})] == [
        1,
        0,
    ]
    assert ask.one(place, "SELECT SUM(x * 2) AS s FROM t", bounds={"x": (0, 100, 1)}) == 44


@rule("pandas columns of Python objects")
def _(ask: Ask) -> None:
    data = pd.DataFrame({"person": [1, 2, 3, 4], "x": pd.Series([5, "7", None, [1]], dtype=object)})
    assert ask.one(data, "SELECT COUNT(x) AS n FROM t") == 2
    assert ask.one(data, "SELECT SUM(x) AS s FROM t", bounds={"x": (0, 10, 1)}) == 12
    assert ask.one(data, "SELECT COUNT(*) AS n FROM t WHERE x = '5'") == 1


@rule("categories, enums, UUIDs")
def _(ask: Ask) -> None:
    data = pd.DataFrame({"person": [1, 2, 3], "x": pd.Categorical(["b", "a", "b"])})
    assert [row["n"] for row in ask(data, "SELECT x, COUNT(*) AS n FROM t GROUP BY x", keys={"x": ["a", "b"]})] == [
        1,
        2,
    ]
    assert ask.one(data, "SELECT MODE(x) AS m FROM t", keys={"x": ["a", "b"]}) == "b"


@rule("bytes that are not UTF-8 in a text of Parquet, Arrow or pandas")
def _(ask: Ask) -> None:
    raw = pa.array([b"a", b"\xff"], pa.binary())
    data = pa.table({"person": [1, 2], "x": pa.Array.from_buffers(pa.string(), 2, raw.buffers())})
    assert ask.one(data, "SELECT COUNT(UPPER(x)) AS n FROM t") == 2
    assert ask.one(data, "SELECT COUNT(*) AS n FROM t WHERE x = 'a'") == 1


@rule("dates, times")
def _(ask: Ask) -> None:
    days = [date(2026, 1, 31), date(2026, 2, 1), date(9999, 12, 31), None]
    data = numbers(days, pa.date32())
    for text in ("x >= DATE '2026-02-01'", "x >= '2026-02-01'", "x > TIMESTAMP '2026-01-31 12:00:00'"):
        assert ask.one(data, f"SELECT COUNT(*) AS n FROM t WHERE {text}") == 2
    assert [row["n"] for row in ask(data, "SELECT MONTH(x) AS k, COUNT(*) AS n FROM t GROUP BY k")][:2] == [1, 1]
    far = pa.array([2_147_000_000, -2_000_000, 20_000] * 9, pa.int32()).cast(pa.date32())
    table = pa.table({"person": range(27), "x": far})
    assert ask.one(table, "SELECT COUNT(x) AS n FROM t") == 27
    assert ask.one(table, "SELECT COUNT(YEAR(x)) AS n FROM t") == 9
    assert [row["x"] for row in ask(table, "SELECT x, COUNT(*) AS n FROM t GROUP BY x", delta=0.1)] == [
        date(2024, 10, 4)
    ]


@rule("times with a zone")
def _(ask: Ask) -> None:
    moment = datetime(2025, 12, 31, 23, 30, tzinfo=UTC)
    data = numbers([moment, None], pa.timestamp("us", "Europe/Zurich"))
    assert ask.one(data, "SELECT COUNT(*) AS n FROM t WHERE x < DATE '2026-01-01'") == 1
    assert ask.one(data, "SELECT COUNT(*) AS n FROM t WHERE HOUR(x) = 23") == 1


@rule("lists, structs, blobs")
def _(ask: Ask) -> None:
    for fragile in (pa.duration("s"), pa.time64("us"), pa.list_(pa.timestamp("ms", "UTC"))):
        for condition in ("", " WHERE x IS NOT NULL"):
            with pytest.raises(QueryError, match="cannot be asked: some values fail when they are read"):
                ask(numbers([None], fragile), f"SELECT COUNT({'*' if condition else 'x'}) AS n FROM t{condition}")
    data = pa.table({"person": [1, 2], "x": pa.array([b"a", None], pa.binary())})
    assert ask.one(data, "SELECT COUNT(x) AS n FROM t") == 1
    for sql in (
        "SELECT COUNT(*) AS n FROM t WHERE x > DATE '2026-01-01'",
        "SELECT x, COUNT(*) AS n FROM t GROUP BY x",
        "SELECT COUNT(DISTINCT x) AS n FROM t",
        "SELECT COUNT(YEAR(x)) AS n FROM t",
        "SELECT COUNT(CAST(x AS TEXT)) AS n FROM t",
    ):
        with pytest.raises(QueryError):
            ask(data, sql)


@rule("names")
def _(ask: Ask) -> None:
    data = pa.table({"person": [1, 2], 'My "x"': [3, 4], "Cost": [5, 6]})
    assert ask.one(data, 'SELECT SUM("my ""X""" + COST) AS s FROM T', bounds={'My "x"': (0, 9), "cost": (0, 9)}) == 18


def lines() -> list[str]:
    """The first cells of the table of rules."""
    page = (Path(__file__).parents[2] / "docs" / "query.md").read_text(encoding="utf-8")
    rules = page[page.index("## Rules") : page.index("## Why it is private")]
    table = [line.split("|")[1].strip() for line in rules.splitlines() if line.startswith("| ")]
    return table[1:]


def test_every_line_has_a_test() -> None:
    assert lines() == list(RULES)


@pytest.mark.parametrize("line", list(RULES))
def test_rule(make_plan: Any, tmp_path: Path, line: str) -> None:
    RULES[line](Ask(make_plan, tmp_path))
