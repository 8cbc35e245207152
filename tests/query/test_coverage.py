"""Intervals hold the truth of the table without the units beyond the limits, and say how many these are.

Intervals are asked for at a confidence of 1 − 10⁻⁶, and about 150 of them are checked: the tests fail by chance at most
twice in ten thousand runs. `bench/coverage.py` has twenty shapes of tables, and 95 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deniable.query import AtMost
from deniable.query.diagnosis import BeyondSurvey
from deniable.query.planning import PlanningContext
from deniable.query.release import Release
from deniable.query.staging import plan_query
from deniable.units import Relation, Unit
from tests.query.conftest import NoLedger, UnboundDuckDB

SURE = 1 - 1e-6
GROUPS = ["a", "b", "c"]
GROUPED = (
    "SELECT g, COUNT(*) AS n, COUNT(x) AS m, SUM(x) AS s, AVG(x) AS a, STDDEV_POP(x) AS d, MEDIAN(x) AS q, "
    "COUNT(DISTINCT y) AS u, COUNT(DISTINCT person) AS p FROM t GROUP BY g"
)


def table(shape: str) -> pd.DataFrame:
    """400 people of one shape."""
    random = np.random.default_rng([len(shape), ord(shape[0])])
    rows = {
        "three rows": np.full(400, 3),
        "geometric": random.geometric(0.3, 400),
        "one owns half": np.array([*np.full(399, 3), 1200]),
    }[shape]
    person = np.repeat(np.arange(400), rows)
    size = len(person)
    x = np.where(random.random(size) < 0.05, np.nan, np.round(random.lognormal(3, 1, size), 2))
    group = random.choice([*GROUPS, "elsewhere"], size)
    return pd.DataFrame({"person": person, "g": group, "x": x, "y": random.integers(0, 300, size)})


@pytest.fixture
def ask() -> Iterator[Any]:
    """Asks one question of one table, under a relation."""
    engines = []

    def run(frame: pd.DataFrame, sql: str, *, relation: Relation = Relation.ADD_REMOVE, **given: Any) -> Release:
        engines.append(engine := UnboundDuckDB())
        context = PlanningContext((engine.add("t", frame),), engine, NoLedger(Unit.of("person"), relation))
        return plan_query(sql, context, confidence=SURE, **given).run()

    yield run
    for engine in engines:
        engine.close()


def beyond(frame: pd.DataFrame, limits: AtMost, bounds: dict[str, tuple[float, float]]) -> set[int]:
    """The people who own more than that, in the rows that count."""
    frame = frame[frame["g"].isin(GROUPS)]
    shares = frame.groupby(["person", "g"]).size().groupby("person")
    found = (shares.max() > limits.rows) | (shares.size() > limits.groups)
    if limits.total is not None:
        found |= shares.sum() > limits.total
    for column, (low, high) in bounds.items():
        ends = frame.groupby("person")[column].agg(["min", "max"])
        found |= (ends["min"] < low) | (ends["max"] > high)
    return set(found.index[found])


def truths(frame: pd.DataFrame, group: str) -> dict[str, float]:
    rows = frame[frame["g"] == group]
    x = rows["x"].dropna()
    return {
        "n": len(rows), "m": len(x), "s": x.sum(), "a": x.mean(), "d": x.std(ddof=0), "q": x.median(),
        "u": rows["y"].nunique(), "p": rows["person"].nunique(),
    }  # fmt: skip


def misses(frame: pd.DataFrame, release: Release, out: set[int]) -> list[tuple[str, str]]:
    """The intervals that do not hold the truth of the table without some people."""
    kept = frame[~frame["person"].isin(out)]
    return [
        (row["g"], name)
        for row in release.rows
        for name, truth in truths(kept, row["g"]).items()
        if not row[name].low - 1e-6 * abs(truth) <= truth <= row[name].high + 1e-6 * abs(truth)
    ]


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE], ids=["add", "replace"])
@pytest.mark.parametrize("shape", ["three rows", "geometric", "one owns half"])
def test_with_nothing_stated(ask: Any, shape: str, relation: Relation) -> None:
    frame = table(shape)
    release = ask(frame, GROUPED, epsilon=8, keys={"g": GROUPS}, relation=relation)
    found = release.found
    out = beyond(frame, found.limits, {name: (float(low), float(high)) for name, (low, high) in found.bounds.items()})
    assert len(out) <= release.beyond.most
    assert misses(frame, release, out) == []
    assert f"for all but at most {release.beyond.most:,} persons" in str(release)


LIMITS = [
    AtMost(groups=1, rows=9), AtMost(groups=3, rows=1), AtMost(groups=2, rows=2), AtMost(groups=3, rows=9, total=3),
]  # fmt: skip


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_with_limits_that_cut_deep(ask: Any, limits: AtMost) -> None:
    """Most people are beyond some limit or bound. Intervals for the noise alone miss what intervals hold."""
    frame = table("geometric")
    release = ask(frame, GROUPED, epsilon=40, keys={"g": GROUPS}, per_unit=limits, bounds={"x": (5, 60)}, cover=0.3)
    out = beyond(frame, limits, {"x": (5, 60)})
    assert 100 < len(out) <= release.beyond.most < len(out) + 5
    assert misses(frame, release, out) == []
    assert len(misses(frame, release.noise_only, out)) > 6
    assert release.noise_only.covers == "privacy noise only"
    assert release.noise_only.columns["n"] == release.columns["n"], "the values are the same"


@pytest.mark.parametrize("limits", [*LIMITS, None], ids=str)
def test_with_people_beyond_left_out(ask: Any, limits: AtMost | None) -> None:
    """The intervals are those of the noise: for the table without the people beyond, whose bounds are stated."""
    frame = table("geometric")
    release = ask(
        frame,
        GROUPED,
        epsilon=40,
        keys={"g": GROUPS},
        per_unit=limits,
        bounds={"x": (5, 60)},
        cover=0.3,
        leave_out=True,
    )
    out = beyond(frame, limits or release.found.limits, {"x": (5, 60)})
    assert 100 < len(out) <= release.beyond.most < len(out) + 5
    assert misses(frame, release, out) == []
    assert misses(frame, release.noise_only, out) == []
    assert "are left out" in release.covers


def test_nobody_moves_an_answer_further_than_its_limits(ask: Any) -> None:
    """With next to no noise, every person in turn is taken out of a table that they are far beyond, or within."""
    random = np.random.default_rng(5)
    person = np.repeat(np.arange(12), random.integers(1, 9, 12))
    frame = pd.DataFrame(
        {"person": person, "g": random.choice(GROUPS, len(person)), "x": random.integers(-9, 30, len(person))}
    )
    given = {"keys": {"g": GROUPS}, "per_unit": AtMost(groups=2, rows=3), "bounds": {"x": (-5, 20)}, "cover": 0}
    asked = "SELECT g, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY g"
    whole, out = (
        ask(frame, asked, epsilon=10**6, leave_out=True, **given),
        beyond(frame, given["per_unit"], given["bounds"]),
    )
    assert 2 < len(out) < 10
    for one in range(12):
        other = ask(frame[frame["person"] != one], asked, epsilon=10**6, leave_out=True, **given)
        for name, most in (("n", 6), ("s", 120)):
            moved = sum(abs(a - b) for a, b in zip(whole.columns[name], other.columns[name], strict=True))
            assert moved < (0.5 if one in out else most + 0.5)


def test_the_sample_of_a_mode(ask: Any) -> None:
    frame = pd.DataFrame({"person": [*range(60), *[999] * 50], "c": ["b"] * 60 + ["a"] * 50})
    sql, keys = "SELECT MODE(c) AS m FROM t", {"c": ["a", "b"]}
    release = ask(frame, sql, epsilon=9000, keys=keys, per_unit=AtMost(groups=1, rows=100))
    assert release.columns["m_among"] == ["b"]
    wide = ask(frame, sql, epsilon=9000, keys=keys, per_unit=AtMost(groups=1, rows=45))
    assert wide.columns["m_among"] == ["a, b"], "one person is beyond, and may have brought 45 rows to either"
    assert wide.noise_only.columns["m_among"] == ["b"]


def test_the_bound_fails_as_rarely_as_it_says() -> None:
    """The noise is below −t with probability at most α, and m is as small as that allows."""
    from fractions import Fraction

    from deniable.query.bounding import Bounded

    for epsilon, failure in ((Fraction(1, 10), Fraction(1, 40)), (Fraction(2), Fraction(1, 1000))):
        survey = BeyondSurvey(Bounded("", {}, ()), epsilon, Relation.ADD_REMOVE)
        slack = survey.read(np.array([100]), failure=failure, in_part=True).most - 100
        fall = float(np.exp(-float(epsilon)))
        beyond_slack = [fall ** (slack + more) / (1 + fall) for more in (1, 0)]
        assert beyond_slack[0] <= failure < beyond_slack[1], "Pr[X ≤ −slack − 1] ≤ α, and one less would be too few"
    assert survey.read(np.array([-100]), failure=failure, in_part=True).most == 0
