"""Groups that are found in the data: which are shown, what they cost, and that nothing else shows through.

Statistical tests alarm falsely with probability at most 1e-7 each.
"""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from deniable.errors import InvalidArgument, QueryError
from deniable.events import Claimed
from deniable.guarantees import ApproxDP, PureDP
from deniable.query import AtMost
from deniable.query.measures import Measure, UnitCounts
from deniable.units import Relation

ONE = AtMost(groups=1, rows=1)


def people(groups: dict[Any, int], *, rows: int = 1) -> pa.Table:
    """So many people in each group, with `rows` rows each."""
    names = [name for name, many in groups.items() for _ in range(many)]
    return pa.table(
        {"person": np.repeat(np.arange(len(names)), rows), "g": np.repeat(np.array(names, dtype=object), rows)}
    )


def test_the_plan_says_so(make_plan: Any) -> None:
    plan = make_plan(people({"a": 2}), "SELECT g, COUNT(*) AS n FROM t GROUP BY g", delta=1e-6, per_unit=ONE)
    assert plan.groups is None
    assert plan.keys[0].private
    part = plan.threshold
    assert part.measure == UnitCounts(None, noun="person")
    assert part.amount == Fraction(1, 2), "the keys count as one more aggregate"
    assert plan.event == plan.noises[0].event + Claimed(ApproxDP(Fraction(1, 2), 1e-6))
    assert plan.cost == ApproxDP(1, 1e-6, unit="person")
    assert "g: found in the data; a group is released if its noisy number of persons is at least" in str(plan)
    assert "which costs δ = 1e-6" in str(plan)
    plan.engine.close()


def test_a_release_without_groups_says_so(make_plan: Any) -> None:
    """At ε = 20 and δ = 10⁻⁹ one person reaches the threshold with probability 10⁻⁹."""
    plan = make_plan(
        people({"a": 1}), "SELECT g, COUNT(*) AS n FROM t GROUP BY g", delta=1e-9, epsilon=20, per_unit=ONE
    )
    release = plan.run()
    assert release.rows == ()
    assert str(release).splitlines()[1] == "no group is released; the plan says how many persons a group needs"
    assert "no group is released" in release._repr_html_()
    plan.engine.close()


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("groups", "delta"), [(1, 1e-6), (3, 1e-6), (3, 1e-2), (50, 1e-9)])
def test_the_threshold_hides_what_one_person_has(make_plan: Any, relation: Relation, groups: int, delta: float) -> None:
    """All of a person's own groups stay hidden with probability 1 − δ: by the exact law of the noise."""
    plan = make_plan(
        people({"a": 2}), "SELECT g, COUNT(*) AS n FROM t GROUP BY g", delta=delta, relation=relation,
        per_unit=AtMost(groups=groups, rows=2), epsilon=2,
    )  # fmt: skip
    part = plan.threshold
    changed = groups * (2 if relation is Relation.REPLACE else 1)
    assert (part.scale, part.move.sensitivity) == (changed, changed), "ε′ is 1"
    with mpmath.workdps(40):
        r = mpmath.exp(-mpmath.mpf(1) / changed)

        def hidden(threshold: int) -> Any:
            return (1 - r ** (threshold - 1) / (1 + r)) ** groups

        assert hidden(part.threshold.threshold) >= 1 - mpmath.mpf(delta)
        assert hidden(part.threshold.threshold - 1) < 1 - mpmath.mpf(delta) * (1 - mpmath.mpf("1e-6"))
    plan.engine.close()


def test_groups_are_shown_at_the_rate_of_the_law(make_plan: Any) -> None:
    """2,000 groups of 24 people near the threshold are shown as often as the law says; 2,000 of one person never."""
    groups = {f"crowd {i}": 24 for i in range(2000)} | {f"lone {i}": 1 for i in range(2000)}
    plan = make_plan(
        people(groups), "SELECT g, COUNT(DISTINCT person) AS p FROM t GROUP BY g", delta=1e-9, per_unit=ONE, epsilon=1
    )
    part = plan.threshold
    assert plan.noises == (part,), "the number of people is measured once"
    assert part.amount == 1
    threshold = part.threshold.threshold
    release = plan.run()
    names = [row["g"] for row in release.rows]
    assert not any(name.startswith("lone") for name in names), "each would be with probability 1e-9"
    assert names == sorted(names), "in the order of the keys, not of the data"
    r = np.exp(-1 / float(part.scale))
    missing = threshold - 24  # Pr[24 + X ≥ T]
    shown = r**missing / (1 + r) if missing > 0 else 1 - r ** (1 - missing) / (1 + r)
    assert 0.01 < shown < 0.999
    assert stats.binomtest(len(names), 2000, shown).pvalue > 1e-7
    values = np.array([row["p"].value for row in release.rows])
    assert values.min() >= threshold
    plan.engine.close()


def test_other_measures_are_taken_of_shown_groups(make_plan: Any) -> None:
    """The noise of COUNT(*) in shown groups is that of the plan, independent of the choice."""
    plan = make_plan(
        people({f"g{i}": 40 for i in range(3000)}, rows=2), "SELECT g, COUNT(*) AS n FROM t GROUP BY g",
        delta=1e-6, per_unit=AtMost(groups=1, rows=2), epsilon=2,
    )  # fmt: skip
    noise = np.array(plan.run().columns["n"]) - 80
    assert len(noise) == 3000
    scale = float(plan.noises[0].scale)
    assert scale == 2
    assert abs(np.abs(noise).mean() - 1 / np.sinh(1 / scale)) < 5.4 * scale / np.sqrt(3000)
    assert abs(noise.mean()) < 5.4 * scale * np.sqrt(2 / 3000)
    plan.engine.close()


@pytest.mark.parametrize(
    ("values", "type", "expected"),
    [
        (["b", "a", "a", None, ""], pa.string(), ["", "a", "b"]),
        ([2, 1, 1, None, -3], pa.int32(), [-3, 1, 2]),
        ([2**63 + 5, 1], pa.uint64(), [1]),
        ([0.0, -0.0, float("nan"), 1.5, None], pa.float64(), [0.0, 1.5]),
        ([True, False, None], pa.bool_(), [False, True]),
        ([date(2026, 1, 31), None, date(1, 1, 1)], pa.date32(), [date(1, 1, 1), date(2026, 1, 31)]),
        ([datetime(2026, 1, 31, 12, 30), None], pa.timestamp("ns"), [datetime(2026, 1, 31, 12, 30)]),
    ],
)  # fmt: skip
def test_kinds_of_keys(make_plan: Any, values: list[Any], type: pa.DataType, expected: list[Any]) -> None:
    """NULL and NaN are no keys, −0.0 is 0, whole numbers beyond 64 bits are left out; keys come back as they are."""
    many = 60
    table = pa.table({"person": range(many * len(values)), "g": pa.array(values * many, type)})
    plan = make_plan(table, "SELECT g, COUNT(*) AS n FROM t GROUP BY g", delta=1e-3, per_unit=ONE, epsilon=20)
    rows = plan.run().rows
    assert [row["g"] for row in rows] == expected
    assert all(isinstance(row["g"], expected[0].__class__) for row in rows)
    plan.engine.close()


def test_private_and_declared_keys_together(make_plan: Any) -> None:
    """Rows with undeclared keys are left out; the declared column decides first in the order."""
    table = pa.table({"person": range(400), "g": ["b", "a"] * 200, "year": [2021] * 100 + [2020] * 200 + [1999] * 100})
    plan = make_plan(
        table, "SELECT g, year, COUNT(*) AS n FROM t GROUP BY g, year", keys={"year": [2022, 2021, 2020]}, delta=1e-6,
        per_unit=ONE, epsilon=20,
    )  # fmt: skip
    found = [(row["g"], row["year"], row["n"].value) for row in plan.run().rows]
    assert [row[:2] for row in found] == [("a", 2021), ("b", 2021), ("a", 2020), ("b", 2020)]
    assert [row[2] for row in found] == pytest.approx([50, 50, 100, 100], abs=8)
    plan.engine.close()


def test_nothing_is_shown(make_plan: Any) -> None:
    """A table without rows, or with nobody in common, releases no row and prints."""
    for table in (people({}), people({"a": 1, "b": 1})):
        plan = make_plan(
            table.cast(pa.schema([("person", pa.int64()), ("g", pa.string())])),
            "SELECT g, COUNT(*) AS n, AVG(person) AS m, MEDIAN(person) AS q FROM t GROUP BY g HAVING n > 3 ORDER BY m",
            delta=1e-9, bounds={"person": (0, 10)}, per_unit=ONE,
        )  # fmt: skip
        release = plan.run()
        assert release.rows == ()
        assert str(release).startswith("g")
        assert release.to_csv() == "g,n,n_low,n_high,m,m_low,m_high,q,q_low,q_high\n"
        plan.engine.close()


def test_rows_as_units(make_plan: Any) -> None:
    """Where a row is a unit, the rows themselves are counted, and COUNT(*) is that same number."""
    plan = make_plan(
        people({"a": 200, "b": 1}), "SELECT g, COUNT(*) AS n FROM t GROUP BY g", unit="row", delta=1e-6, epsilon=1
    )
    assert plan.noises == (plan.threshold,)
    assert plan.threshold.measure == Measure(None)
    assert [row["g"] for row in plan.run().rows] == ["a"]
    plan.engine.close()


def test_delta(make_plan: Any) -> None:
    table, sql = people({"a": 2}), "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
    with pytest.raises(QueryError, match=r"GROUP BY g needs its keys declared.* cost a δ, and this ledger has none"):
        make_plan(table, sql, per_unit=ONE)
    with pytest.raises(InvalidArgument, match="delta must be left out: all keys are declared"):
        make_plan(table, sql, per_unit=ONE, keys={"g": ["a"]}, delta=1e-6)
    with pytest.raises(InvalidArgument, match="delta must be strictly between 0 and 1"):
        make_plan(table, sql, per_unit=ONE, delta=0)
    plan = make_plan(table, sql, per_unit=ONE, keys={"g": ["a"]})
    assert plan.cost == PureDP(1, unit="person")
    plan.engine.close()


def test_weights_of_keys(make_plan: Any) -> None:
    plan = make_plan(
        people({"a": 2}),
        "SELECT g, COUNT(*) AS n FROM t GROUP BY g",
        delta=1e-6,
        per_unit=ONE,
        weights={"n": 3, "keys": 1},
    )
    assert [part.amount for part in plan.noises] == [Fraction(3, 4), Fraction(1, 4)]
    plan.engine.close()
