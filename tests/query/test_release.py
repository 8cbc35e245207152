"""What is released: the law of the noise, the coverage of the intervals, and the forms of the answer.

Statistical tests here alarm falsely with probability at most 1e-7 each.
"""

from __future__ import annotations

import datetime
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP, Guarantee, PureDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Release, Session
from deniable.query.planning import QueryPlan

GROUPS = 20_000
ALARM = 1e-7


@pytest.fixture(scope="module")
def many(make_plan: Any) -> QueryPlan:
    """20,000 declared groups; every tenth has one person with 3 rows."""
    people = range(0, GROUPS, 10)
    table = pa.table(
        {
            "person": [p for p in people for _ in range(3)],
            "g": [p for p in people for _ in range(3)],
            "x": [2, 4, 9] * len(people),
        }
    )
    plan: QueryPlan = make_plan(
        table,
        "SELECT g, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM t GROUP BY g",
        epsilon=Fraction(3, 2),
        bounds={"x": (0, 10)},
        keys={"g": range(GROUPS)},
        per_unit=AtMost(groups=1, rows=3),
    )
    return plan


@pytest.fixture(scope="module")
def released(many: QueryPlan) -> dict[str, np.ndarray]:
    return {name: np.array(column) for name, column in many.run().columns.items()}


def truth(present: Any, absent: Any) -> np.ndarray:
    found = np.full(GROUPS, absent)
    found[::10] = present
    return found


def test_the_noise_has_the_planned_law(many: QueryPlan, released: dict[str, np.ndarray]) -> None:
    """Chi-square of the count's noise against the discrete Laplace law of the plan's scale."""
    scale = float(many.noises[0].scale)
    assert scale == 3 / 0.5
    noise = released["n"] - truth(3, 0)
    edge = 30
    cells = np.clip(noise, -edge, edge)
    inner = np.exp(-np.abs(np.arange(-edge, edge + 1)) / scale) * (1 - np.exp(-1 / scale)) / (1 + np.exp(-1 / scale))
    inner[[0, -1]] = np.exp(-edge / scale) / (1 + np.exp(-1 / scale))
    observed = np.bincount(cells + edge, minlength=2 * edge + 1)
    assert inner.sum() == pytest.approx(1)
    assert stats.chisquare(observed, inner * GROUPS).pvalue > ALARM


def test_the_noise_of_sums_has_the_planned_scale(many: QueryPlan, released: dict[str, np.ndarray]) -> None:
    """The mean of |noise| is close to the scale: for Laplace its standard error is scale / sqrt(n)."""
    scale = float(many.noises[1].scale)
    assert scale == 30 / 1
    size = np.abs(released["s"] - truth(15, 0)).mean()
    assert abs(size - scale) < 5.4 * scale / np.sqrt(GROUPS) + 0.01


def test_the_noise_of_different_measures_is_independent(released: dict[str, np.ndarray]) -> None:
    """Correlation of two independent columns: about normal with standard deviation 1/sqrt(n)."""
    one, other = released["n"] - truth(3, 0), released["s"] - truth(15, 0)
    assert abs(np.corrcoef(one, other)[0, 1]) < 5.5 / np.sqrt(GROUPS)
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 5.5 / np.sqrt(GROUPS)


@pytest.mark.parametrize(("name", "present"), [("n", 3), ("s", 15), ("m", 5.0)])
def test_intervals_cover(released: dict[str, np.ndarray], name: str, present: float) -> None:
    """At least 95 % of the intervals hold the truth: a binomial count is below by 5.4 deviations once in 1e7."""
    true = truth(present, 5.0 if name == "m" else 0)
    inside = (released[f"{name}_low"] <= true) & (true <= released[f"{name}_high"])
    value = (
        released[name] if name == "m" else np.maximum(released[name], 0)
    )  # a value may be negative, its ends are not
    ordered = (released[f"{name}_low"] <= value) & (value <= released[f"{name}_high"])
    assert inside.mean() > 0.95 - 5.4 * np.sqrt(0.95 * 0.05 / GROUPS)
    assert ordered.all()
    if name != "m":
        assert released[f"{name}_low"].min() == 0
        missed = inside[true > 0].mean()
        assert missed < 0.97, "an interval that is much too wide is a mistake as well"


def test_averages_stay_within_bounds(released: dict[str, np.ndarray]) -> None:
    assert released["m"].min() >= 0
    assert released["m"].max() <= 10
    assert released["m_low"].min() >= 0
    assert released["m_high"].max() <= 10


def test_every_run_is_fresh(many: QueryPlan, released: dict[str, np.ndarray]) -> None:
    again = np.array(many.run().columns["n"])
    assert (again != released["n"]).mean() > 0.5


def test_the_split_is_exact(many: QueryPlan) -> None:
    """COUNT(*), SUM and AVG get a third each; SUM and AVG share a vector; ε = sensitivity/scale, added up exactly."""
    assert [n.measure.name for n in many.noises] == ["COUNT(*)", "SUM(x - 0), SUM(10 - x)"]
    assert [n.amount for n in many.noises] == [Fraction(1, 2), Fraction(1)]
    assert [n.move.sensitivity for n in many.noises] == [3, 30]
    assert sum(n.event.sensitivity / n.event.scale for n in many.noises) == many.cost.epsilon == Fraction(3, 2)


def test_weights_and_shared_measures(make_plan: Any) -> None:
    table = pa.table({"person": [1], "x": [1]})
    plan = make_plan(
        table,
        "SELECT COUNT(x) AS n, AVG(x) AS m, VAR_POP(x) AS v FROM t",
        epsilon=1,
        bounds={"x": (0, 10)},
        per_unit=AtMost(groups=5, rows=2),
        weights={"m": 3, "v": 3},
    )
    assert {n.measure.name: n.amount for n in plan.noises} == {
        "COUNT(x)": Fraction(1, 7) + Fraction(3, 14) + Fraction(1, 7),
        "SUM(x - 5)": Fraction(3, 14) + Fraction(1, 7),
        "SUM((x - 5)² - 12)": Fraction(1, 7),
    }
    assert plan.limits == AtMost(groups=1, rows=2), "one group is all there is"
    plan.engine.close()


def test_expected_errors(make_plan: Any) -> None:
    """COUNT: scale 4 → the 95 % margin; AVG: m / (n − k), at most the width."""
    table = pa.table({"person": [1], "x": [1.0]})
    plan = make_plan(
        table,
        "SELECT COUNT(*) AS n, AVG(x) AS m FROM t",
        bounds={"x": (0, 10, 1)},
        per_unit=AtMost(groups=1, rows=2),
    )
    count, average = plan.error["n"], plan.error["m"]
    assert count() == count(1000) == 12
    # Scale 2·10/(1/2) = 40; margins at 2.5 %: 40·ln 40 + 1, and 4.93·40/10 values.
    assert average(1000) == pytest.approx(149 / (1000 - 20), rel=0.002)
    assert average() == average(20) == 10
    assert str(count) == "± 12"
    plan.engine.close()


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**200), Fraction(1, 10**25), Fraction(1, 10**15), 10**6, 10**200])
def test_extreme_epsilons(make_plan: Any, epsilon: Fraction) -> None:
    """Noise beyond 64 bits, and no noise to speak of: values and intervals come out in order."""
    plan = make_plan(
        pa.table({"person": [1, 2], "x": [1.0, 4.0]}),
        "SELECT COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM t",
        epsilon=epsilon,
        bounds={"x": (0, 10)},
        per_unit=AtMost(groups=1, rows=1),
    )
    (row,) = plan.run().rows
    assert all(row[name].low <= max(row[name].value, 0) <= row[name].high for name in row)
    assert str(plan)
    if epsilon > 10**100:
        assert row["n"] == (2, 2, 2)
        assert row["s"].value == 5
        assert row["m"].value == pytest.approx(2.5)
    plan.engine.close()


def test_noise_that_is_no_number(make_plan: Any) -> None:
    with pytest.raises(InvalidArgument, match="epsilon must be large enough"):
        make_plan(
            pa.table({"person": [1]}),
            "SELECT COUNT(*) FROM t",
            epsilon=Fraction(1, 10**300),
            per_unit=AtMost(groups=1, rows=1),
        )


def test_forms(make_plan: Any) -> None:
    table = pa.table({"person": [1, 2], "c": ["a", "b"], "x": [1.0, 2.0]})
    plan = make_plan(
        table,
        "SELECT SUM(x) AS s, c AS key, COUNT(*) AS n FROM t GROUP BY c",
        bounds={"x": (0, 10)},
        keys={"c": ["b", "a"]},
        per_unit=AtMost(groups=1, rows=1),
    )
    release = plan.run()
    names = ["s", "s_low", "s_high", "key", "n", "n_low", "n_high"]
    assert list(release.columns) == list(release.to_pandas().columns) == release.to_arrow().column_names == names
    assert [row["key"] for row in release.rows] == ["b", "a"]
    value = release.rows[0]["n"]
    assert value.low <= max(value.value, 0) <= value.high
    assert isinstance(value.value, int)
    assert release.to_csv().splitlines()[0] == ",".join(names)
    assert json.loads(release.to_json())["interval"] == "privacy noise only"
    assert json.loads(plan.to_json())["groups"] == 2
    text = str(release)
    assert "ε ≤ 1.00, δ = 0, one person added or removed" in text
    assert "95 % each, privacy noise only" in text
    assert "remaining  ε = 7" in text
    assert text.splitlines()[0].split() == names
    described = release.describe()
    assert described.title == "SUM(x), COUNT(*) of t by c"
    assert described.guarantee == release.cost
    plan.engine.close()


def test_a_long_release_is_cut_when_printed(many: QueryPlan) -> None:
    lines = str(many.run()).splitlines()
    assert len(lines) < 70
    assert f"… and {GROUPS - 60} more rows" in lines


def test_numbers_of_any_size_become_arrow(make_plan: Any) -> None:
    """With ε = 10⁻³⁰ the noise is beyond 64 bits but for a probability of 10⁻¹¹, at 10⁻⁶⁰ beyond 38 digits but for
    10⁻²²."""
    frame = pa.table({"person": [1], "x": [1]})
    for epsilon, kind in ((1, "int64"), (Fraction(1, 10**30), "decimal128(38, 0)"), (Fraction(1, 10**60), "double")):
        release = make_plan(
            frame, "SELECT COUNT(*) AS n FROM t", epsilon=epsilon, per_unit=AtMost(groups=1, rows=1)
        ).run()
        assert str(release.to_arrow().schema.field("n_high").type) == kind
        assert len(release.to_pandas()) == 1


def test_a_release_is_a_table_of_rows(tmp_path: Path) -> None:
    release = two_groups(tmp_path)
    assert len(release) == len(release.rows) == len(list(release)) == 2
    assert release["city"] == ["Bern", "Basel"]
    assert release["n_low"] == release.columns["n_low"]
    with pytest.raises(KeyError, match="no column 'town'; the columns are city, n, n_low, n_high"):
        release["town"]
    assert release.to_polars().columns == list(release.columns)
    assert release.spent == {"epsilon": 1.0}
    assert bool(release), "also where no group is released"


def test_a_release_is_drawn_with_its_intervals(tmp_path: Path) -> None:
    release = two_groups(tmp_path)
    axes = release.plot()
    drawn = [list(map(float, line.get_xdata())) for line in axes.lines]
    assert drawn[::2] == [
        [float(low), float(high)] for low, high in zip(release["n_low"], release["n_high"], strict=True)
    ]
    assert drawn[1::2] == [[float(n)] for n in release["n"]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Bern", "Basel"]
    with pytest.raises(InvalidArgument, match="one of the released numbers n"):
        release.plot("city")


def test_a_release_says_why_it_is_noisy(tmp_path: Path) -> None:
    """Twice the ε halves the noise, as it says; and so do half of the rows."""
    release = two_groups(tmp_path)
    assert "COUNT(*): one person may move it by 8, and noise of scale 8.89 hides that." in release.why()
    assert (
        "To halve it: twice the ε; or half of the rows that count, AtMost(groups=2, rows=2); or half" in release.why()
    )
    assert "noise of scale 4.44 " in two_groups(tmp_path, name="more", epsilon=2).why()
    assert "noise of scale 4.44 " in two_groups(tmp_path, name="fewer", per_unit=AtMost(groups=2, rows=2)).why()


def two_groups(folder: Path, *, name: str = "one", **given: Any) -> Release:
    """A release of two groups."""
    frame = pd.DataFrame({"person": [1, 1, 2], "city": ["Bern", "Bern", "Basel"]})
    asked = {"epsilon": 1, "keys": {"city": ["Bern", "Basel"]}, "per_unit": AtMost(groups=2, rows=4), **given}
    with (
        Ledger.create(folder / f"{name}.ledger", unit="person", budget=PureDP(9)) as ledger,
        Session({"t": frame}, ledger=ledger) as session,
    ):
        return session.sql("SELECT city, COUNT(*) AS n FROM t GROUP BY city", **asked)


def test_a_release_is_read_back_from_its_json(make_plan: Any) -> None:
    """Keys of every type, NULL and NaN, choices, whole numbers beyond 64 bits, private keys, no row at all."""
    frame = pd.DataFrame(
        {
            "person": [1, 2, 3],
            "d": [datetime.date(2026, 1, 31)] * 3,
            "at": pd.to_datetime(["2026-01-31 12:00:00.000001"] * 3),
            "x": [0.1, 2.0, 3.0],
            "ok": [True, False, True],
            "c": ["inf", "b", "\x1b"],
        }
    )
    days, times = [datetime.date(2026, 1, 31)], [datetime.datetime(2026, 1, 31, 12, 0, 0, 1)]
    limits: dict[str, Any] = {"per_unit": AtMost(groups=9, rows=1)}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("SELECT d, at, COUNT(*) AS n FROM t GROUP BY d, at", {"keys": {"d": days, "at": times}}),
        (
            "SELECT x, ok, SUM(x) AS s FROM t GROUP BY x, ok",
            {"keys": {"x": [0.1, 2], "ok": [True]}, "bounds": {"x": (0, 3)}},
        ),
        ("SELECT c, MODE(d) AS m FROM t GROUP BY c", {"keys": {"c": ["inf", "\x1b"], "d": days}}),
        ("SELECT COUNT(*) AS n FROM t", {"epsilon": Fraction(1, 10**30)}),
        (
            "SELECT ok, COUNT(*) / 0 AS r, AVG(x) AS m FROM t GROUP BY ok",
            {"keys": {"ok": [True]}, "bounds": {"x": (0, 3)}},
        ),
        ("SELECT d, COUNT(*) AS n FROM t GROUP BY d", {"epsilon": None, "cost": ApproxDP(1, 1e-9, unit="person")}),
        (
            "SELECT COUNT(*) AS n FROM t",
            {"unit": "row", "per_unit": None, "epsilon": Fraction(8, 1875), "confidence": 0.9},
        ),
    ]
    for sql, given in asked:
        plan = make_plan(frame, sql, **{**limits, **given})
        release = plan.run()
        back = Release.from_json(release.to_json())
        assert back.to_json() == release.to_json(), sql
        assert repr(back.rows) == repr(release.rows)
        assert [type(v) for row in back for v in row.values()] == [type(v) for row in release for v in row.values()]
        assert (str(back), back.facts, back.why(), back.spent) == (
            str(release), release.facts, release.why(), release.spent,
        )  # fmt: skip
        assert (back.event, back.confidence) == (release.event, release.confidence)
        assert back.cost == Guarantee.from_json(release.cost.to_json()) >= release.cost, "long fractions are rounded up"
        assert str(back.noise_only) == str(release.noise_only)
        assert str(back.describe()) == str(release.describe())
        assert back._repr_html_() == release._repr_html_()
        plan.engine.close()


def test_a_release_with_everything_that_was_found_is_read_back(tmp_path: Path) -> None:
    frame = pd.DataFrame({"person": [i // 3 for i in range(300)], "x": [float(i % 7) for i in range(300)]})
    with (
        Ledger.create(tmp_path / "one.ledger", unit="person", budget=PureDP(9)) as ledger,
        Session({"t": frame}, ledger=ledger) as session,
    ):
        release = session.sql("SELECT COUNT(*) AS n, SUM(x) AS s FROM t", epsilon=3, diagnose=0.2)
    assert None not in (release.found, release.beyond, release.findings)
    back = Release.from_json(release.to_json())
    assert back.to_json() == release.to_json()
    assert (back.found, back.beyond, back.findings) == (release.found, release.beyond, release.findings)
    assert (str(back), str(back.noise_only)) == (str(release), str(release.noise_only))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1}', '{"version": 1, "columns": 3}'])
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="a release's JSON"):
        Release.from_json(text)
