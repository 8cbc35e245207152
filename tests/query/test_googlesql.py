"""GoogleSQL's WITH DIFFERENTIAL_PRIVACY: read exactly, computed per person as BigQuery does, or refused by position."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Generator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deniable as dn
from deniable.errors import InvalidArgument, QueryError
from deniable.query import AtMost
from deniable.query.googlesql import form
from tests.query.conftest import plainly

PROFESSORS = pa.table(
    {
        "id": [101, 102, 103, 104, 105, 101, 102, 101, 101],
        "item": ["pencil", "pen", "pen", "pencil", "pen", "pencil", "pencil", "pen", "scissors"],
        "quantity": [24, 15, 12, 40, 30, 60, None, 5, 8],
        "price": [0.5, math.nan, 1.5, math.inf, 2.0, 0.25, 1e300, -3.0, None],
    }
)
OPTIONS = "OPTIONS(epsilon=10, delta=.01, max_groups_contributed=3, privacy_unit_column=id)"
ITEMS = {"item": ["pencil", "pen", "scissors"]}


@pytest.fixture
def session(tmp_path: Path) -> Generator[dn.Session]:
    dn.Ledger.create(tmp_path / "l", unit="id", budget=dn.ApproxDP(50, 0.1))
    with dn.Session({"professors": PROFESSORS}, ledger=tmp_path / "l") as found:
        yield found


def exact(plan: Any, *, key: tuple[int, int] = (1, 2)) -> dict[str, list[float]]:
    """The measures before noise, in units of the data, by name."""
    totals = plan.engine.run(plan.bounded, groups=plan.groups, key=key)
    measures = (measure for one in getattr(plan, "answer", plan).aggregates for measure in plainly(one).measures)
    return {measure.name: [float(x * measure.step) for x in measure.of(totals).tolist()] for measure in measures}


def test_options_become_the_request(session: dn.Session) -> None:
    plan = session.plan(
        "select with differential_privacy options(epsilon = 0.1, delta = 1e-7, privacy_unit_column = ID,\n"
        "  max_groups_contributed = 2)\n  item, count(*, contribution_bounds_per_group => (0, 3)) n from professors "
        "group by item"
    )
    assert plan.cost == dn.ApproxDP(Fraction(1, 10), Fraction(1, 10**7), unit=plan.cost.unit)
    assert plan.answer.limits == AtMost(groups=2, rows=1)
    assert [part.move.sensitivity for part in plan.noises] == [2 * 3, 2]


def test_counts_and_sums_are_clamped_per_person_and_group(session: dn.Session) -> None:
    """Person 101 asked for pencils twice, 84 in all."""
    plan = session.plan(
        f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} item, "
        "SUM(quantity, contribution_bounds_per_group => (0, 50)) AS s, "
        "COUNT(*, contribution_bounds_per_group => (0, 1)) AS n, "
        "COUNT(quantity, contribution_bounds_per_group => (0, 100)) AS m, "
        "AVG(quantity, contribution_bounds_per_group => (0, 41)) AS a FROM professors GROUP BY item",
        keys=ITEMS,
    )
    found = exact(plan)
    assert found["SUM(SUM(quantity) per id)"] == [50 + 40, 15 + 12 + 30 + 5, 8]
    assert found["SUM(COUNT(*) per id)"] == [3, 4, 1]
    assert found["SUM(COUNT(quantity) per id)"] == [3, 4, 1]
    assert found["COUNT(AVG(quantity) per id)"] == [2, 4, 1]
    centre = 20.5
    means = [[41 - centre, 40 - centre], [15 - centre, 12 - centre, 30 - centre, 5 - centre], [8 - centre]]
    assert found["SUM(AVG(quantity) per id - 20.5)"] == pytest.approx([sum(group) for group in means], abs=1e-6)


def test_values_that_are_none_or_infinite(session: dn.Session) -> None:
    """NaN and NULL are no values; a person without values has no sum, and counts as 0."""
    plan = session.plan(
        f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} SUM(price, contribution_bounds_per_group => (-1, 4)) AS s, "
        "COUNT(price, contribution_bounds_per_group => (0, 9)) AS n FROM professors"
    )
    found = exact(plan)
    # 101: 0.5 + 0.25 - 3; 102: 1e300; 103: 1.5; 104: inf; 105: 2
    assert found["SUM(SUM(price) per id)"] == pytest.approx([-1 + 4 + 1.5 + 4 + 2], abs=1e-6)
    assert found["SUM(COUNT(price) per id)"] == [3 + 1 + 1 + 1 + 1]


def test_a_release_is_charged_what_was_stated(session: dn.Session) -> None:
    release = session.sql(
        f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} item, COUNT(*, contribution_bounds_per_group => (0, 3)) AS n "
        "FROM professors GROUP BY item"
    )
    assert (release.cost.epsilon, release.cost.delta) == (10, Fraction(1, 100))  # type: ignore[union-attr]
    assert "n_low" in release.columns


def test_bounds_per_row_take_five_rows(session: dn.Session) -> None:
    plan = session.plan(
        f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} item, "
        "PERCENTILE_CONT(quantity, 0.5, contribution_bounds_per_row => (0, 100)) AS m, "
        "VAR_POP(quantity, contribution_bounds_per_row => (0, 100)) AS v FROM professors GROUP BY item",
        keys=ITEMS,
    )
    assert plan.answer.limits == AtMost(groups=3, rows=5)
    assert plan.cost.epsilon == 10
    assert plan.cost.delta == Fraction(1, 100), "all groups are declared: it serves the noise, which is smaller so"
    assert plan.noise.form.name == "gaussian"


@pytest.mark.parametrize(
    ("call", "expression"),
    [
        ("VAR_POP(ROUND(price, 1)", "ROUND(price, 1)"),
        ("PERCENTILE_CONT(COALESCE(quantity, 3), 0.5", "COALESCE(quantity, 3)"),
        ("STDDEV_POP(CASE WHEN item = 'a, (b' THEN price END", "CASE WHEN item = 'a, (b' THEN price END"),
        ("VAR_POP((LEAST(price, LEAST(2, quantity)))", "LEAST(price, LEAST(2, quantity))"),
        ("VAR_POP(`price`", "price"),
    ],
)
def test_bounds_per_row_are_those_of_the_whole_argument(session: dn.Session, call: str, expression: str) -> None:
    plan = session.plan(
        f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} {call}, contribution_bounds_per_row => (0, 5)) AS v "
        "FROM professors"
    )
    function, level = call.partition("(")[0], ", 0.5" if call.startswith("PERCENTILE") else ""
    sql = f"SELECT {function.replace('PERCENTILE', 'QUANTILE')}({expression}{level}) AS v FROM professors"
    plain, wider = (
        session.plan(sql, epsilon=10, bounds={expression: (0, high)}, per_unit=AtMost(groups=1, rows=5))
        for high in (5, 6)
    )
    assert plan.bounded.text == plain.bounded.text != wider.bounded.text


def test_one_expression_has_one_pair_of_bounds(session: dn.Session) -> None:
    first, second = "contribution_bounds_per_row => (0, {})", "contribution_bounds_per_row => (0, 5)"
    calls = f"VAR_POP(price, {first}) AS a, STDDEV_POP(PRICE, {second}) AS b"
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} {calls} FROM professors"
    session.plan(sql.format(5))
    with pytest.raises(QueryError, match="two contribution bounds"):
        session.plan(sql.format(6))


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ('WHERE item <> """pen"""', "a quotation mark"),
        ("WHERE item <> r'pen'", "read otherwise in plain SQL"),
        ("WHERE item <> 'a\\nb'", "a backslash"),
        ("WHERE item <> 'a' # comment", "a comment of GoogleSQL"),
        ("/* unclosed", "a quotation mark or comment is not closed"),
        ("WHERE item <> 'unclosed", "a quotation mark or comment is not closed"),
        ("HAVING COUNT(*, contribution_bounds_per_group => (0, 4)) > 1", "calls of the SELECT list"),
    ],
)
def test_what_plain_sql_reads_otherwise_is_refused(session: dn.Session, rest: str, said: str) -> None:
    call = "COUNT(*, contribution_bounds_per_group => (0, 3)) AS n"
    with pytest.raises(QueryError, match=said):
        session.plan(f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} {call} FROM professors {rest}")


def test_names_and_texts_are_quoted_as_googlesql_does(session: dn.Session) -> None:
    plan = session.plan(
        f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} `item`, COUNT(*, contribution_bounds_per_group => (0, 3)) AS n "
        'FROM `professors` WHERE item <> "pen" GROUP BY `item`',
        keys=ITEMS,
    )
    assert exact(plan)["SUM(COUNT(*) per id)"] == [4, 0, 1]


rows = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3, None]), st.sampled_from(["a", "b", "c"]),
        st.one_of(st.none(), st.sampled_from([math.nan, math.inf, -math.inf, 0.1, 1e300]), st.floats(-9, 9)),
    ),
    max_size=20,
)  # fmt: skip


@settings(max_examples=20)
@given(rows, st.integers(1, 3), st.randoms(use_true_random=False))
def test_people_are_added_up_and_nobody_matters_more_than_planned(
    tmp_path_factory: pytest.TempPathFactory, found: list[tuple[Any, ...]], groups: int, random: Any
) -> None:
    """The oracle of test_sensitivity: under one key, the answer is the sum of what each person gives alone."""
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY "
        f"OPTIONS(epsilon=1, privacy_unit_column=id, max_groups_contributed={groups}) g, "
        "SUM(x, contribution_bounds_per_group => (-2, 5)) AS s, "
        "COUNT(x, contribution_bounds_per_group => (1, 3)) AS n, "
        "AVG(x, contribution_bounds_per_group => (0, 4)) AS a FROM t GROUP BY g"
    )
    ledger = dn.Ledger.create(tmp_path_factory.mktemp("l") / "l", unit="id", budget=dn.PureDP(5))

    def vectors(some: list[tuple[Any, ...]]) -> tuple[list[Any], Any]:
        random.shuffle(some)
        columns = list(zip(*some, strict=True)) or [(), (), ()]
        table = pa.table(
            {
                "id": pa.array(columns[0], pa.int64()),
                "g": pa.array(columns[1], pa.string()),
                "x": pa.array(columns[2], pa.float64()),
            }
        )
        with dn.Session({"t": table}, ledger=ledger) as session:
            plan = session.plan(sql, keys={"g": ["a", "b", "c"]})
            totals = plan.engine.run(plan.bounded, groups=3, key=(8, 9))
            return [part.measure.of(totals) for part in plan.noises], plan

    whole, plan = vectors(list(found))
    alone = [vectors([row for row in found if row[0] == person])[0] for person in (1, 2, 3)]
    for i, noise in enumerate(plan.noises):
        assert (sum(share[i] for share in alone) == whole[i]).all()
        assert max(abs(share[i]).sum() for share in alone) <= noise.move.reach
    if groups == 3:
        sums = defaultdict[Any, list[float]](list)
        for person, group, x in found:
            if person is not None and x is not None and not math.isnan(x):
                sums[group, person].append(min(max(x, -1e15), 1e15))
        step = float(plan.noises[0].measure.step)
        for g, group in enumerate("abc"):
            expected = sum(min(max(math.fsum(values), -2), 5) for (where, _), values in sums.items() if where == group)
            assert float(whole[0][g]) * step == pytest.approx(expected, abs=1e-5)


REFUSED = [
    ("OPTIONS(epsilon=1, privacy_unit_column=id, max_rows_contributed=5) COUNT(*)", "max_rows_contributed", 77),
    ("OPTIONS(epsilon=1, privacy_unit_column=id, min_privacy_units_per_group=0) COUNT(*)", "whole number, 1 or", 105),
    ("OPTIONS(epsilon=1, group_selection_strategy=GAUSSIAN_THRESHOLD) COUNT(*)", "the strategies are LAPLACE", 78),
    ("OPTIONS(epsilon=1, group_selection_strategy=PUBLIC_GROUPS) item, COUNT(*) ", "needs keys that are known", None),
    ("OPTIONS(epsilon=1, privacy_unit_column=id, k_threshold=5) COUNT(*)", "follows from epsilon and delta", 77),
    ("COUNT(*)", "needs OPTIONS", 13),
    ("OPTIONS(epsilon=1) ANON_MEDIAN(price)", "ANON_MEDIAN is not supported", 53),
    ("OPTIONS(epsilon=1) ROUND(price CLAMPED BETWEEN 0 AND 1)", "CLAMPED in ROUND is not supported", 65),
    ("OPTIONS(epsilon=1) ANON_SUM(price CLAMPED BETWEEN 2 AND 1)", "the lower one first", None),
    ("OPTIONS(epsilon=1) SUM(price) / COUNT(*)", "not supported in this form", 53),
    ("OPTIONS(privacy_unit_column=id) COUNT(*)", "epsilon is missing", None),
    ("OPTIONS(epsilon=1, epsilon=2, privacy_unit_column=id) COUNT(*)", "epsilon is given twice", 53),
    ("OPTIONS(epsilon=@e, privacy_unit_column=id) COUNT(*)", "not a number|not expected", None),
    (
        "OPTIONS(epsilon=1, privacy_unit_column=price) COUNT(*, contribution_bounds_per_group => (0, 1))",
        "ledger protects id",
        None,
    ),
    (
        "OPTIONS(epsilon=1, privacy_unit_column=id) SUM(price, contribution_bounds_per_row => (0, 1))",
        "of SUM is not",
        None,
    ),
    (
        "OPTIONS(epsilon=1, privacy_unit_column=id) SUM(price, report_format => (0, 1))",
        "report_format of SUM .* intervals of its own",
        None,
    ),
    (
        "OPTIONS(epsilon=1, privacy_unit_column=id) SUM(price, contribution_bounds_per_group => (1, 0))",
        "lower one first",
        None,
    ),
    (
        "OPTIONS(epsilon=1, privacy_unit_column=id) COUNT(*, contribution_bounds_per_group => (0, 1)), "
        "PERCENTILE_CONT(price, 0.5, contribution_bounds_per_row => (0, 1))",
        "ask two queries",
        None,
    ),
    ("OPTIONS(epsilon=1, privacy_unit_column=id) COUNT(DISTINCT item)", "no form per person", None),
    ("OPTIONS(epsilon=1, privacy_unit_column=id) APPROX_QUANTILES(price, 4)", "APPROX_QUANTILE.* is not supported", 77),
    ("OPTIONS(epsilon=1, privacy_unit_column=id", "FROM is not expected here", 76),
]


@pytest.mark.parametrize(("text", "said", "column"), REFUSED)
def test_what_differs_is_refused_by_name_and_position(
    session: dn.Session, text: str, said: str, column: int | None
) -> None:
    grouped = " GROUP BY item" if " item," in text else ""
    with pytest.raises(QueryError, match=said) as caught:
        session.plan(f"SELECT WITH DIFFERENTIAL_PRIVACY {text} FROM professors{grouped}")
    if column is not None:
        assert caught.value.column == column


@pytest.mark.parametrize(
    ("sql", "said", "column"),
    [
        (
            "SELECT WITH aggregation_threshold OPTIONS(threshold=5) COUNT(*) FROM professors",
            "WITH aggregation_threshold is not supported",
            13,
        ),
        (
            f"WITH p AS (SELECT * FROM professors) SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} COUNT(*) FROM p",
            "within another one",
            50,
        ),
    ],
)
def test_other_forms_are_refused_by_name_and_position(session: dn.Session, sql: str, said: str, column: int) -> None:
    with pytest.raises(QueryError, match=said) as caught:
        session.plan(sql)
    assert caught.value.column == column


def test_a_text_may_name_the_forms(session: dn.Session) -> None:
    plan = session.plan(
        "SELECT COUNT(*) AS n FROM professors WHERE item <> 'WITH ANONYMIZATION'",
        epsilon=1, per_unit=AtMost(groups=1, rows=9),
    )  # fmt: skip
    assert exact(plan)["COUNT(*)"] == [9]


def test_what_is_left_out_is_the_ledgers_or_found(session: dn.Session) -> None:
    """The unit is the ledger's, one group of a unit counts, and bounds are found with a tenth of ε."""
    plan = session.plan(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) item, "
        "COUNT(*, contribution_bounds_per_group => (0, 1)) FROM professors GROUP BY item"
    )
    assert getattr(plan, "answer", plan).limits == AtMost(groups=1, rows=1)
    found = session.plan(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=10, privacy_unit_column=members.id) COUNT(*) AS n, "
        "AVG(quantity) AS q FROM (SELECT * FROM professors) AS members"
    )
    assert [survey.column.name for survey in found.bounds] == ["COUNT(*) per id", "AVG(quantity) per id"]
    assert found.cost.epsilon == 10
    release = found.run()
    assert set(release.columns) == {"n", "n_low", "n_high", "q", "q_low", "q_high"}
    rows = session.plan("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) VAR_POP(quantity) AS v FROM professors")
    assert [survey.column.name for survey in rows.bounds] == ["quantity"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ANON_SUM(quantity CLAMPED BETWEEN 0 AND 50)", "SUM(quantity, contribution_bounds_per_group => (0, 50))"),
        ("ANON_COUNT(* CLAMPED BETWEEN 0 AND 2)", "COUNT(*, contribution_bounds_per_group => (0, 2))"),
        ("ANON_AVG(price CLAMPED BETWEEN -1 AND 2)", "AVG(price, contribution_bounds_per_group => (-1, 2))"),
        ("ANON_VAR_POP(price CLAMPED BETWEEN 0 AND 2)", "VAR_POP(price, contribution_bounds_per_row => (0, 2))"),
        (
            "ANON_PERCENTILE_CONT(price, 0.5 CLAMPED BETWEEN 0 AND 2)",
            "PERCENTILE_CONT(price, 0.5, contribution_bounds_per_row => (0, 2))",
        ),
    ],
)
def test_the_old_form_means_the_same(session: dn.Session, old: str, new: str) -> None:
    rest = "FROM professors GROUP BY item"
    anonymous = "SELECT WITH ANONYMIZATION OPTIONS(epsilon=10, delta=.01, kappa=3) item"
    first = session.plan(f"{anonymous}, {old} AS x {rest}", keys=ITEMS)
    second = session.plan(f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} item, {new} AS x {rest}", keys=ITEMS)
    assert first.bounded.text == second.bounded.text
    assert first.event == second.event


def test_quantiles_are_several_outputs(session: dn.Session) -> None:
    plan = session.plan(
        "SELECT WITH ANONYMIZATION OPTIONS(epsilon=5) ANON_QUANTILES(quantity, 4 CLAMPED BETWEEN 0 AND 100) AS q "
        "FROM professors"
    )
    answer = getattr(plan, "answer", plan)
    assert [a.name for a in answer.aggregates] == ["q_0", "q_25", "q_50", "q_75", "q_100"]
    assert len(answer.noises) == 1


@pytest.mark.parametrize(
    ("least", "expected"), [(2, ["PEN", "PENCIL"]), (4, ["PEN"]), (5, []), (1, ["PEN", "PENCIL", "SCISSORS"])]
)
def test_small_groups_are_left_out(tmp_path: Path, least: int, expected: list[str]) -> None:
    """min_privacy_units_per_group looks at the noisy number of units, which is measured and not shown. Keys that are
    expressions can be named after GROUP BY."""
    dn.Ledger.create(tmp_path / "l", unit="id", budget=dn.PureDP(10**12))
    with dn.Session({"professors": PROFESSORS}, ledger=tmp_path / "l") as session:
        release = session.sql(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1e9, max_groups_contributed=3, "
            f"min_privacy_units_per_group={least}) UPPER(item) AS what, "
            "COUNT(*, contribution_bounds_per_group => (0, 9)) AS n "
            "FROM professors GROUP BY UPPER(item) HAVING UPPER(item) <> 'x' ORDER BY UPPER(item)",
            keys={"what": ["PENCIL", "SCISSORS", "PEN"]},
        )
    assert release.columns["what"] == expected
    assert list(release.columns) == ["what", "n", "n_low", "n_high"]


@pytest.mark.parametrize(
    "more", [{"epsilon": 1}, {"per_unit": AtMost(groups=1, rows=1)}, {"delta": 1e-6}, {"bounds": {"price": (0, 1)}}]
)
def test_what_the_text_states_is_not_stated_again(session: dn.Session, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="states it"):
        session.plan(
            f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS} COUNT(*, contribution_bounds_per_group => (0, 1)) "
            "FROM professors",
            **more,
        )


def test_positions_after_the_options_are_those_of_the_text(session: dn.Session) -> None:
    sql = (
        f"SELECT WITH DIFFERENTIAL_PRIVACY {OPTIONS}\n"
        "  COUNT(*, contribution_bounds_per_group => (0, 1)) AS n, SUM(nothing) FROM professors"
    )
    with pytest.raises(QueryError) as caught:
        session.plan(sql)
    line, column = caught.value.line, caught.value.column
    assert (line, column) == (2, sql.split("\n")[1].index("nothing") + 1)


@pytest.mark.parametrize("unit", ["value 2", "Group 1", "value_ 2"])
def test_no_column_takes_the_name_of_who_is_protected(tmp_path: Path, unit: str) -> None:
    """Person 7 is in four groups with four different sums; one of them counts."""
    visits = pa.table({unit: [7] * 4, "ward": [0, 1, 2, 3], "x": [1.0, 2.0, 3.0, 4.0]})
    dn.Ledger.create(tmp_path / "l", unit=unit, budget=dn.PureDP(5))
    options = f"OPTIONS(epsilon=1, max_groups_contributed=1, privacy_unit_column=`{unit}`)"
    with dn.Session({"visits": visits}, ledger=tmp_path / "l") as session:
        plan = session.plan(
            f"SELECT WITH DIFFERENTIAL_PRIVACY {options} CASE WHEN ward > 1 THEN 2 ELSE ward END AS w, "
            "COUNT(*, contribution_bounds_per_group => (0, 9)) AS n FROM visits GROUP BY w",
            keys={"w": [0, 1, 2]},
        )
        totals = plan.engine.run(plan.bounded, groups=plan.groups, key=(1, 2))
    assert totals.rows.sum() == 1


@pytest.mark.parametrize("key", ["quantity % 2", "odd"])
def test_keys_of_an_expression_are_declared_by_its_text_or_name(session: dn.Session, key: str) -> None:
    plan = session.plan(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, max_groups_contributed=2, privacy_unit_column=id) "
        "quantity % 2 AS odd, COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM professors GROUP BY odd",
        keys={key: [0, 1]},
    )
    assert (plan.groups, plan.cost) == (2, dn.PureDP(1, unit=plan.cost.unit))


def test_an_end_within_the_options_is_refused() -> None:
    with pytest.raises(QueryError, match="ends within"):
        form("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1,")


def test_plain_sql_is_left_alone() -> None:
    assert form("SELECT COUNT(*) FROM visits WHERE city = 'DIFFERENTIAL_PRIVACY'") is None
    assert form("SELECT COUNT(*) FROM visits WHERE city = 'DIFFERENTIAL_PRIVACY\\'") is None
