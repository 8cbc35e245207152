"""A query is parsed once: whatever a plan needs, it reads off the tree of the analyst's text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from sqlglot.parser import Parser

import deniable as dn
from deniable.query import AtMost
from deniable.query.parsing import parse_expression

VISITS = pa.table({"person": [1, 1, 2], "city": ["a", "b", "a"], "cost": [1.0, 2.5, 3.0], "age": [4, 5, 6]})
KEYS, BOUNDS, KEPT = {"city": ["a", "b"]}, {"cost": (0, 9), "age": (0, 99)}, AtMost(groups=2, rows=3)
GOOGLE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, privacy_unit_column=person, max_groups_contributed=2) "
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "epsilon": ("SELECT city, COUNT(*) AS n FROM t GROUP BY city", {"epsilon": 1, "keys": KEYS, "per_unit": KEPT}),
    "an error": (
        "SELECT city, SUM(cost) AS s, COUNT(*) AS n FROM t GROUP BY city",
        {"error": 9, "bounds": BOUNDS, "keys": KEYS, "per_unit": KEPT},
    ),
    "an expression": (
        "SELECT SUM(cost * age) AS s FROM t WHERE age > 2",
        {"epsilon": 1, "bounds": {**BOUNDS, "cost * age": (0, 5)}, "per_unit": KEPT},
    ),
    "surveys": (
        "SELECT SUM(cost) AS s, MEDIAN(age) AS m, COUNT(*) AS n FROM t",
        {"epsilon": 1, "bounds": "private", "per_unit": "private", "diagnose": 0.1},
    ),
    "GoogleSQL": (
        GOOGLE + "city, SUM(cost, contribution_bounds_per_group => (0, 5)) AS s FROM t GROUP BY city",
        {"keys": KEYS},
    ),
}


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Generator[Counter[str]]:
    """How often each text was parsed."""
    sqlglot.transpile("SELECT 1", read="duckdb", write="duckdb")  # sqlglot parses pieces of its own when it is loaded
    counts, parse = Counter[str](), Parser.parse

    def counting(self: Parser, tokens: Any, sql: str | None = None) -> Any:
        counts[str(sql)] += 1
        return parse(self, tokens, sql)

    monkeypatch.setattr(Parser, "parse", counting)
    parse_expression.cache_clear()
    yield counts
    parse_expression.cache_clear()


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("choice_key", [None, 7])
def test_a_plan_parses_its_text_once(
    tmp_path: Path, parsed: Counter[str], question: str, choice_key: int | None
) -> None:
    sql, options = QUESTIONS[question]
    ledger = dn.Ledger.create(tmp_path / "l", unit="person", budget=dn.PureDP(100))
    with dn.Session({"t": VISITS}, ledger=ledger, choice_key=choice_key) as session:
        plan = session.plan(sql, **options)
        plan.explain()
        plan.run()
    assert len(parsed) == 1 + ("cost * age" in options.get("bounds", ()))
    assert set(parsed.values()) == {1}
