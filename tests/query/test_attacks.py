"""Ways to make one person count for more than the plan says, or to make a query fail after it was charged. Each was
found by an attack. At ε = 10⁵ the noise is 0 but for a probability below e^(−1000)."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.errors import DataError, InvalidArgument, QueryError
from deniable.guarantees import ApproxDP, PureDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Publication, Session

Opened = Callable[..., Session]
ONE = AtMost(groups=1, rows=1)
EXACT = 10**5


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    """Opens sessions on ledgers of their own, and closes both."""
    open_: list[Any] = []

    def opened(data: Any, *, unit: str = "row", budget: Any = None, **options: Any) -> Session:
        ledger = Ledger.create(tmp_path / f"{len(open_)}.ledger", unit=unit, budget=budget or PureDP(10**9))
        open_.append(ledger)
        session = Session(data, ledger=ledger, **options)
        open_.append(session)
        return session

    yield opened
    for found in reversed(open_):
        found.close()


@pytest.fixture
def connection() -> Any:
    with duckdb.connect() as found:
        yield found


def charges(session: Session) -> int:
    return len(list(session.ledger.charges()))


# One person counts for more than the plan says.


def test_a_collation_is_refused_because_one_row_would_have_several_keys(
    connection: duckdb.DuckDBPyConnection, opened: Opened
) -> None:
    connection.execute("CREATE TABLE visits (city VARCHAR COLLATE NOCASE)")
    with pytest.raises(DataError, match="collation"):
        opened(connection)


def test_a_default_collation_is_refused_and_a_later_one_has_no_effect(
    connection: duckdb.DuckDBPyConnection, opened: Opened
) -> None:
    connection.execute("CREATE TABLE visits AS SELECT 'bern' AS city FROM RANGE(100)")
    session = opened(connection)
    connection.execute("SET default_collation = 'nocase'")
    release = session.sql(
        "SELECT city, COUNT(*) AS n FROM visits GROUP BY city", epsilon=EXACT, keys={"city": ["bern", "Bern"]}
    )
    assert release.columns["n"] == [100, 0]
    with pytest.raises(DataError, match="default_collation"):
        opened(connection)


def test_macros_of_the_database_do_not_replace_built_in_functions(
    connection: duckdb.DuckDBPyConnection, opened: Opened
) -> None:
    connection.execute("CREATE TABLE visits AS SELECT 1 AS person, i % 3 AS g, 10 * i AS x FROM RANGE(1000) AS r(i)")
    session = opened(connection, unit="person")
    for name in ("least", "greatest", "hash", "xor", "min", "max", "sum", "count", "coalesce", "isnan", "row_number"):
        connection.execute(f"CREATE MACRO {name}(a) AS 77, (a, b) AS a")
    assert connection.execute("SELECT LEAST(5, 3)").fetchone() == (5,), "the attack works on its owner"
    for asked in (session, opened(connection, unit="person")):
        options: dict[str, Any] = {"epsilon": EXACT, "per_unit": ONE}
        found = asked.sql("SELECT COUNT(*) AS n, SUM(x) AS s FROM visits", bounds={"x": (0, 10)}, **options)
        assert found.columns["n"] == [1]
        assert 0 <= found.columns["s"][0] <= 10
        by_g = asked.sql("SELECT g, COUNT(*) AS n FROM visits GROUP BY g", keys={"g": [0, 1, 2]}, **options)
        assert sum(by_g.columns["n"]) == 1


def test_a_generated_column_is_refused_because_it_may_differ_at_each_reading(
    connection: duckdb.DuckDBPyConnection, opened: Opened
) -> None:
    connection.execute("CREATE TABLE visits (person INT, g INT AS (CAST(FLOOR(RANDOM() * 10) AS INT)))")
    with pytest.raises(DataError, match="generated"):
        opened(connection, unit="person")


def test_tables_of_one_name_in_two_schemas_are_refused(connection: duckdb.DuckDBPyConnection, opened: Opened) -> None:
    connection.execute("CREATE SCHEMA old; CREATE TABLE visits (a INT); CREATE TABLE old.visits (a INT)")
    with pytest.raises(DataError, match="several schemas"):
        opened(connection)


PLAN = """
ledger = "hospital.ledger"
epsilon = 1
[data]
visits = "visits.csv"
[tables.n]
sql = "SELECT COUNT(*) AS n FROM visits"
per_unit = {groups = 1, rows = 1}
"""


def test_a_finished_publication_cannot_be_resumed_for_a_second_draw(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("person\n1\n2\n")
    (tmp_path / "plan.toml").write_text(PLAN)
    with Ledger.create(tmp_path / "hospital.ledger", unit="person", budget=PureDP(9)) as ledger:
        with Publication.read(tmp_path / "plan.toml") as publication:
            made = publication.write(tmp_path / "release")
        (charge,) = ledger.charges()
        record = (made / "release.json").read_text()
        assert "id" not in json.loads(record)
        partial = tmp_path / "again.partial"
        partial.mkdir()
        known = {"id": str(charge.key).removeprefix("publish:"), "plan": json.loads(record)["plan"]}
        (partial / "begun.json").write_text(json.dumps(known))
        with Publication.read(tmp_path / "plan.toml") as publication:
            publication.write(tmp_path / "again")
        assert len(list(ledger.charges())) == 2, "what the ledger shows is no id that was paid for"
        partial = tmp_path / "third.partial"
        partial.mkdir()
        (partial / "release.json").write_text(record)
        with Publication.read(tmp_path / "plan.toml") as publication:
            third = publication.write(tmp_path / "third")
        assert [path.name for path in third.iterdir()] == ["release.json"], "nothing is drawn"


def test_a_public_table_that_grows_after_planning_makes_no_more_rows(tmp_path: Path, opened: Opened) -> None:
    places = tmp_path / "places.csv"
    places.write_text("city,canton\nBern,BE\n")
    session = opened({"visits": pd.DataFrame({"city": ["Bern"] * 100})}, public={"places": places})
    plan = session.plan("SELECT COUNT(*) AS n FROM visits JOIN places USING (city)", epsilon=EXACT)
    places.write_text("city,canton\n" + "Bern,BE\n" * 50)
    assert plan.run().columns["n"] == [100]


def test_a_public_table_of_a_database_is_copied(connection: duckdb.DuckDBPyConnection, opened: Opened) -> None:
    connection.execute("CREATE TABLE places AS SELECT 'Bern' AS city")
    visits = pd.DataFrame({"city": pd.Series(["Bern"] * 100, dtype="string")})
    session = opened({"visits": visits}, public={"places": connection})
    plan = session.plan("SELECT COUNT(*) AS n FROM visits JOIN places USING (city)", epsilon=EXACT)
    connection.execute("INSERT INTO places SELECT 'Bern' FROM RANGE(50)")
    assert plan.run().columns["n"] == [100]


def test_a_file_that_is_rewritten_is_refused_before_the_charge(tmp_path: Path, opened: Opened) -> None:
    visits = tmp_path / "visits.csv"
    visits.write_text("person,visit\n1,1\n1,2\n1,3\n")
    session = opened(visits, unit="person")
    visits.write_text("visit,person\n1,1\n2,1\n3,1\n")
    with pytest.raises(DataError, match=r"visits\.csv has changed"):
        session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=EXACT, per_unit=ONE)
    assert charges(session) == 0


# A query fails after it was charged.


@pytest.mark.parametrize("sql", ["WHERE c = '\ud800'", "WHERE c LIKE '\udfff%'"])
def test_half_a_surrogate_pair_in_sql_is_refused_before_the_charge(opened: Opened, sql: str) -> None:
    session = opened({"t": pd.DataFrame({"c": ["a"]})})
    with pytest.raises(QueryError, match="surrogate"):
        session.sql(f"SELECT COUNT(*) AS n FROM t {sql}", epsilon=1)
    assert charges(session) == 0


def test_half_a_surrogate_pair_in_keys_is_refused_before_the_charge(opened: Opened) -> None:
    session = opened({"t": pd.DataFrame({"c": ["a"]})})
    with pytest.raises(InvalidArgument, match="surrogate"):
        session.sql("SELECT c, COUNT(*) AS n FROM t GROUP BY c", epsilon=1, keys={"c": ["a", "\ud800"]})
    assert charges(session) == 0


def test_python_objects_beside_a_connection_have_no_guessed_type(
    connection: duckdb.DuckDBPyConnection, opened: Opened
) -> None:
    connection.execute("CREATE TABLE z (a INT)")
    frame = pd.DataFrame({"o": pd.Series([1] * 3000 + [b"x"], dtype=object)})
    session = opened({"z": connection, "t": frame})
    assert session.sql("SELECT COUNT(o) AS n FROM t", epsilon=EXACT).columns["n"] == [3001]


class Secretive:
    """An object that cannot be written down."""

    def __str__(self) -> str:
        raise RuntimeError("secret")

    __repr__ = __str__


def test_python_objects_that_cannot_be_written_down_are_no_value(opened: Opened) -> None:
    """Writing them would run code of their own, after the charge. A whole number of 5,000 digits is one as well."""
    held = [Secretive(), [Secretive()], {"a": 1}, 10**5000, object(), "a", 1, 1.5, pd.Timestamp("2026-01-01"), None]
    session = opened({"t": pd.DataFrame({"o": pd.Series(held, dtype=object)})})
    for what in ("o", "UPPER(o)", "DISTINCT o"):
        assert session.sql(f"SELECT COUNT({what}) AS n FROM t", epsilon=EXACT).columns["n"] == [4]


@pytest.mark.parametrize("odd", [None, float("nan"), "x", 2.5, pd.Timestamp("2026-01-01")])
def test_one_object_does_not_change_how_others_are_written(opened: Opened, odd: object) -> None:
    """Left to itself, pandas makes floats of whole numbers if one is missing: 1 would become 1.0 for everybody."""
    for held in ([1, 2, 2], [1, 2, 2, odd]):
        session = opened({"t": pd.DataFrame({"o": pd.Series(held, dtype=object)})})
        sql = "SELECT o, COUNT(*) AS n FROM t GROUP BY o"
        assert session.sql(sql, epsilon=EXACT, keys={"o": ["1", "2"]}).columns["n"] == [1, 2]


def test_settings_that_are_locked_are_refused(connection: duckdb.DuckDBPyConnection, opened: Opened) -> None:
    connection.execute("CREATE TABLE t (x INT); SET lock_configuration = true")
    with pytest.raises(DataError, match="lock_configuration"):
        opened(connection)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "pandas"])
@pytest.mark.parametrize("what", ["COUNT(c)", "COUNT(UPPER(c))", "COUNT(CAST(c AS BIGINT))", "COUNT(DISTINCT c)"])
def test_a_text_that_is_not_utf8_does_not_fail(tmp_path: Path, opened: Opened, kind: str, what: str) -> None:
    raw = pa.array([b"ok", b"\xff\xfe", b"7"], type=pa.binary())
    table = pa.table({"c": pa.Array.from_buffers(pa.string(), 3, raw.buffers())})
    pq.write_table(table, tmp_path / "t.parquet")
    frame = pd.DataFrame({"c": pd.Series(pd.arrays.ArrowExtensionArray(table.column("c")))})
    session = opened({"t": {"parquet": tmp_path / "t.parquet", "arrow": table, "pandas": frame}[kind]})
    expected = 1 if "BIGINT" in what else 3
    assert session.sql(f"SELECT {what} AS n FROM t", epsilon=EXACT).columns["n"] == [expected]


@pytest.mark.parametrize(
    "change", ["DROP TABLE t", "ALTER TABLE t DROP x", "ALTER TABLE t ALTER x TYPE VARCHAR", "close"]
)
def test_a_table_that_is_gone_is_refused_before_the_charge(
    connection: duckdb.DuckDBPyConnection, opened: Opened, change: str
) -> None:
    connection.execute("CREATE TABLE t (x INT, y INT)")
    session = opened(connection)
    plan = session.plan("SELECT SUM(x) AS n FROM t", epsilon=1, bounds={"x": (0, 1)})
    session.close() if change == "close" else connection.execute(change)
    with pytest.raises(DataError, match="closed, or a table is gone or has other columns"):
        plan.run()
    assert charges(session) == 0


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_far_from_our_days_does_not_fail(opened: Opened, unit: str) -> None:
    far = pa.array([0, 2**62, -(2**62)], pa.timestamp(unit))
    session = opened({"t": pa.table({"a": far})})
    for what in ("a", "CAST(a AS TEXT)", "CAST(a AS DATE)", "YEAR(a)", "DATE_TRUNC('week', a)"):
        found = session.sql(f"SELECT COUNT({what}) AS n FROM t", epsilon=EXACT).columns["n"][0]
        assert 1 <= found <= 3
    late = session.sql(
        "SELECT COUNT(*) AS n FROM t WHERE a < DATE '1970-01-02' AND a > DATE '1969-12-31'", epsilon=EXACT
    )
    assert late.columns["n"] == [1]


def test_a_delta_too_small_for_a_threshold_is_refused_before_the_charge(opened: Opened) -> None:
    session = opened({"t": pd.DataFrame({"c": ["a"] * 50})}, budget=ApproxDP(100, 0.5))
    with pytest.raises(InvalidArgument, match="1e-200"):
        session.sql("SELECT c, COUNT(*) AS n FROM t GROUP BY c", epsilon=1, delta=Fraction(1, 10**330))
    assert charges(session) == 0


def test_a_variance_with_noise_beyond_64_bits_does_not_fail(opened: Opened) -> None:
    session = opened({"t": pd.DataFrame({"person": [1], "x": [1.0]})}, unit="person", budget=ApproxDP(10, 0.5))
    release = session.sql(
        "SELECT x, VARIANCE(x) AS v FROM t GROUP BY x",
        epsilon=1e-9, delta=1e-6, bounds={"x": (0, 1)}, per_unit=AtMost(groups=9, rows=10**12),
    )  # fmt: skip
    assert release.columns["v"] == []


# Answers and refusals that are wrong.


def test_a_case_with_one_outcome_is_no_constant(opened: Opened) -> None:
    session = opened({"t": pd.DataFrame({"a": [1] * 10 + [9] * 90, "cost": [2] * 100})})
    bounds = {"a": (0, 10), "cost": (0, 10)}
    for expression in (
        "CASE WHEN a > 5 THEN 1 END * cost",
        "NULLIF(1, a) * cost",
        "COALESCE(CASE WHEN a > 5 THEN 2.0 END, 0)",
    ):
        found = session.sql(f"SELECT SUM({expression}) AS s FROM t", epsilon=EXACT, bounds=bounds).columns["s"]
        assert found == pytest.approx([180]), expression


def test_the_list_of_a_mode_keeps_its_name(opened: Opened) -> None:
    session = opened({"t": pd.DataFrame({"c": ["a"]})})
    with pytest.raises(QueryError, match="two columns m_among"):
        session.plan("SELECT MODE(c) AS m, COUNT(*) AS m_among FROM t", epsilon=1, keys={"c": ["a", "b"]})


@pytest.mark.parametrize("sql", ["COUNT(*) AS n FROM t HAVING n > {}.5", "SUM(x * {}) AS n FROM t"])
def test_a_number_beyond_floats_is_refused_where_it_stands(opened: Opened, sql: str) -> None:
    session = opened({"t": pd.DataFrame({"x": np.ones(3)})})
    with pytest.raises(QueryError, match="out of the range"):
        session.plan("SELECT " + sql.format("1" + "0" * 320), epsilon=1, bounds={"x": (0, 1)})


def test_a_first_line_that_may_be_a_row_is_not_shown(tmp_path: Path, opened: Opened) -> None:
    (tmp_path / "t.csv").write_text("P001,Alice,flu\n")
    with pytest.raises(DataError) as caught:
        opened(tmp_path / "t.csv", unit="person")
    assert "Alice" not in str(caught.value)


@pytest.mark.parametrize("line", ["P001,Alice,Alice", "P001,Alice,2026-01-31", "P001,Alice,alice"])
def test_a_first_line_with_a_name_twice_or_a_date_is_not_shown(tmp_path: Path, opened: Opened, line: str) -> None:
    """Column names are public, but a file may have no line of names."""
    (tmp_path / "t.csv").write_text(f"{line}\n")
    with pytest.raises(DataError, match=r"columns 2 and 3 of|a name has letters") as caught:
        opened(tmp_path / "t.csv")
    assert not any(part in str(caught.value) for part in ("Alice", "alice", "P001", "2026"))


@pytest.mark.parametrize("name", ["least", "greatest", "hash"])
def test_a_function_of_the_owners_under_a_built_in_name_is_refused(
    connection: duckdb.DuckDBPyConnection, opened: Opened, name: str
) -> None:
    """It would be called in place of the built-in one, and fail on some row after the charge."""
    connection.execute("CREATE TABLE t AS SELECT 1 AS person, 2.0::DOUBLE AS x")
    session = opened(connection, unit="person")
    plan = session.plan("SELECT SUM(x) AS s FROM t", epsilon=1, bounds={"x": (0, 5)}, per_unit=ONE)
    connection.create_function("mine", lambda one: one, ["DOUBLE"], "DOUBLE")
    plan.run()
    connection.create_function(name, lambda one, other: one / 0, ["DOUBLE", "DOUBLE"], "DOUBLE")
    for change in (lambda: None, lambda: connection.remove_function(name)):  # which removes the built-in one with it
        change()
        with pytest.raises(DataError, match=f"other functions under built-in names \\({name}\\)"):
            plan.run()
        with pytest.raises(DataError, match="other functions under built-in names"):
            opened(connection, unit="person")
    assert charges(session) == 1


@pytest.mark.parametrize(
    "setting",
    [
        "ieee_floating_point_ops = false", "integer_division = true", "default_order = 'DESC'",
        "default_null_order = 'NULLS_FIRST'", "max_execution_time = 1",
    ],
)  # fmt: skip
def test_settings_of_the_owners_do_not_change_an_answer(
    connection: duckdb.DuckDBPyConnection, opened: Opened, setting: str
) -> None:
    connection.execute(
        "CREATE TABLE t AS SELECT i % 500 AS person, i AS x, i % 7 AS y, (i % 3)::DOUBLE AS z FROM range(200000) r(i)"
    )
    sql = "SELECT SUM(x / y) AS s, COUNT_IF(EXP(z * 1e9) > 3) AS e, COUNT_IF(x / z > 0) AS n FROM t"
    found = []
    for change in ("", f"SET GLOBAL {setting}"):
        connection.execute(change or "SELECT 1")
        session = opened(connection, unit="person")
        plan = session.plan(sql, epsilon=1, bounds={"x / y": (0, 99)}, per_unit=AtMost(groups=1, rows=9))
        totals = plan.engine.run(plan.bounded, groups=1, key=(1, 2))
        found.append([part.measure.of(totals).tolist() for part in plan.noises])
    assert found[0] == found[1]
