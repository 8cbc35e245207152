"""PostgreSQL as the home of tables: what is opened, what is refused, what stays inside, what a failure says."""

from __future__ import annotations

from collections.abc import Generator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import deniable as dn
from deniable.errors import DataError, NotSupported, QueryError
from deniable.query import AtMost
from deniable.query.engines.postgres import PostgreSQL

KEPT = AtMost(groups=1, rows=2)


@pytest.fixture(scope="module")
def home(postgres: Any) -> Generator[tuple[Any, str]]:
    """A database with a table of 600 visits by 200 patients, and its address."""
    import psycopg

    dsn = postgres.database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE visits (patient_id TEXT, city VARCHAR(20), cost NUMERIC, at TIMESTAMP)")
        connection.execute(
            "INSERT INTO visits SELECT 'p' || i % 200, CASE WHEN i % 200 < 50 THEN 'Bern' ELSE 'Basel' END, i % 7, "
            "TIMESTAMP '2026-01-01' + i * INTERVAL '1 hour' FROM generate_series(0, 599) AS i"
        )
        connection.execute("CREATE TABLE cities (city TEXT, canton TEXT)")
        connection.execute("INSERT INTO cities VALUES ('Bern', 'BE'), ('Basel', 'BS')")
        yield connection, dsn


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    dn.Ledger.create(tmp_path / "l", unit="patient_id", budget=dn.ApproxDP(50, 1e-3))
    return tmp_path / "l"


def url(dsn: str) -> str:
    import psycopg

    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    return f"postgresql:///{parts['dbname']}?host={parts['host']}&user={parts['user']}"


@pytest.mark.parametrize("given", ["url", "connection"])
def test_a_session_asks_where_the_table_is(home: tuple[Any, str], ledger: Path, given: str) -> None:
    connection, dsn = home
    data = {"visits": url(dsn) if given == "url" else connection}
    with dn.Session(data, ledger=ledger, public={"cities": connection}) as session:
        plan = session.plan(
            "SELECT canton, COUNT(*) AS n, AVG(cost) AS c, MEDIAN(cost) AS m FROM visits JOIN cities USING (city) "
            "WHERE at < TIMESTAMP '2026-02-01 00:00:00' GROUP BY canton",
            epsilon=40, bounds={"cost": (0, 6)}, per_unit=KEPT,
        )  # fmt: skip
        assert "COLLATE" in plan.explain()
        release = plan.run()
    assert release.columns["canton"] == ["BE", "BS"]
    # At most 2 visits of each; scale 2·2/10 and less, so 20 off has probability below e^-49.
    assert [abs(n - true) < 20 for n, true in zip(release.columns["n"], (100, 300), strict=True)] == [True, True]


def test_a_fixed_key_keeps_the_rows_that_duckdb_keeps(home: tuple[Any, str], tmp_path: Path) -> None:
    """Two of a patient's three visits stay. Noise of scale 2·6 / 1000: 0.5 off has probability below e^-40."""
    rows = home[0].execute("SELECT patient_id, city, CAST(cost AS DOUBLE PRECISION) FROM visits").fetchall()
    here = pa.table(dict(zip(("patient_id", "city", "cost"), map(list, zip(*rows, strict=True)), strict=True)))

    def answered(data: Any, key: int) -> list[int]:
        with dn.Session({"visits": data}, ledger=ledger, choice_key=key) as session:
            release = session.sql(
                "SELECT city, SUM(cost) AS s FROM visits GROUP BY city",
                epsilon=1000, bounds={"cost": (0, 6)}, keys={"city": ["Bern", "Basel"]}, per_unit=KEPT,
            )  # fmt: skip
        return [round(s) for s in release.columns["s"]]

    ledger = dn.Ledger.create(tmp_path / "l", unit="patient_id", budget=dn.PureDP(10_000))
    assert answered(home[0], 7) == answered(here, 7) != answered(here, 8)


def test_a_database_alone_stands_for_its_tables(home: tuple[Any, str], tmp_path: Path) -> None:
    ledger = dn.Ledger.create(tmp_path / "l", unit="city", budget=dn.PureDP(1))
    with dn.Session(url(home[1]), ledger=ledger) as session:
        assert [table.name for table in session.tables] == ["cities", "visits"]


def test_private_keys_come_with_their_types(home: tuple[Any, str], ledger: Path) -> None:
    with dn.Session({"visits": home[0]}, ledger=ledger) as session:
        release = session.sql(
            "SELECT DATE_TRUNC('day', at) AS day, city, COUNT(*) AS n FROM visits GROUP BY day, city",
            epsilon=40, delta=1e-4, per_unit=AtMost(groups=30, rows=30),
        )  # fmt: skip
    assert set(release.columns["city"]) <= {"Bern", "Basel"}
    assert all(str(day).startswith("2026-01") for day in release.columns["day"])


def test_surveys_and_diagnosis_run_there(home: tuple[Any, str], ledger: Path) -> None:
    with dn.Session({"visits": home[0]}, ledger=ledger) as session:
        release = session.sql(
            "SELECT SUM(cost) AS s FROM visits", epsilon=30, bounds="private", per_unit="private", diagnose=0.1
        )
    assert release.found is not None
    assert release.found.limits is not None


def test_the_owners_connection_is_left_alone(home: tuple[Any, str], ledger: Path) -> None:
    """A session has a connection of its own: an open transaction of the owner's is not seen, and not ended."""
    import psycopg

    with psycopg.connect(home[1]) as mine:
        mine.execute("INSERT INTO visits VALUES ('new', 'Bern', 1, NULL)")
        with dn.Session({"visits": mine}, ledger=ledger) as session:
            plan = session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1, per_unit=AtMost(groups=1, rows=100))
            assert plan.engine.run(plan.bounded, groups=1, key=(1, 2)).rows.tolist() == [600]
        assert mine.execute("SELECT COUNT(*) FROM visits").fetchone() == (601,)
        mine.rollback()


def test_it_only_reads(home: tuple[Any, str]) -> None:
    engine = PostgreSQL(home[1])
    with pytest.raises(DataError, match="SQLSTATE 25006"):
        engine._fetched("CREATE TABLE more (x INT)", ())
    engine.close()


def test_views_are_refused(home: tuple[Any, str], ledger: Path) -> None:
    home[0].execute("CREATE VIEW seen AS SELECT * FROM visits")
    try:
        with pytest.raises(DataError, match=r"no table seen .* views and foreign tables cannot be asked"):
            dn.Session({"seen": home[0]}, ledger=ledger)
    finally:
        home[0].execute("DROP VIEW seen")


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE parent (patient_id TEXT); CREATE FOREIGN TABLE part () INHERITS (parent) SERVER afar",
        "CREATE TABLE parent (patient_id TEXT) PARTITION BY LIST (patient_id); CREATE TABLE half PARTITION OF parent "
        "FOR VALUES IN ('a', 'b') PARTITION BY LIST (patient_id); "
        "CREATE FOREIGN TABLE part PARTITION OF half FOR VALUES IN ('a') SERVER afar",
    ],
)
def test_tables_with_a_foreign_part_are_refused(home: tuple[Any, str], ledger: Path, made: str) -> None:
    connection = home[0]
    connection.execute("CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER afar FOREIGN DATA WRAPPER nothing")
    try:
        connection.execute(made)
        with pytest.raises(DataError, match="partition or child of parent is a foreign table"):
            dn.Session({"parent": connection}, ledger=ledger)
        with pytest.raises(DataError, match="partition or child of parent is a foreign table"):
            dn.Session({"visits": connection}, ledger=ledger, public={"parent": connection})
    finally:
        connection.execute("DROP TABLE IF EXISTS parent CASCADE; DROP FOREIGN DATA WRAPPER nothing CASCADE")


def test_a_part_that_turns_foreign_is_noticed_before_the_charge(home: tuple[Any, str], ledger: Path) -> None:
    connection = home[0]
    connection.execute("CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER afar FOREIGN DATA WRAPPER nothing")
    connection.execute("CREATE TABLE parent (patient_id TEXT); CREATE TABLE own () INHERITS (parent)")
    try:
        with dn.Session({"parent": connection}, ledger=ledger) as session:
            plan = session.plan("SELECT COUNT(*) AS n FROM parent", epsilon=1, per_unit=KEPT)
            before = session.ledger.remaining()
            connection.execute("CREATE FOREIGN TABLE part () INHERITS (parent) SERVER afar")
            with pytest.raises(DataError, match="has changed"):
                plan.run()
            assert session.ledger.remaining() == before
    finally:
        connection.execute("DROP TABLE IF EXISTS parent CASCADE; DROP FOREIGN DATA WRAPPER nothing CASCADE")


def test_public_tables_elsewhere_are_refused_in_a_sentence(home: tuple[Any, str], ledger: Path) -> None:
    """A public table of one database cannot travel to another one as it is."""
    rows = pa.table({"patient_id": ["a"], "city": ["Bern"]})
    with pytest.raises(DataError, match="a public table is in PostgreSQL, and the private tables are not; give it as"):
        dn.Session({"visits": rows}, ledger=ledger, public={"cities": home[0]})
    with duckdb.connect() as mine:
        mine.execute("CREATE TABLE cities (city TEXT)")
        with pytest.raises(DataError, match="a public table is in an open DuckDB connection"):
            dn.Session({"visits": home[0]}, ledger=ledger, public={"cities": mine})


def test_hidden_rows_and_missing_rights_are_refused(home: tuple[Any, str], ledger: Path) -> None:
    connection, dsn = home
    connection.execute("CREATE ROLE analyst LOGIN")
    connection.execute("CREATE TABLE hidden (patient_id TEXT)")
    connection.execute("ALTER TABLE hidden ENABLE ROW LEVEL SECURITY")
    theirs = dsn.replace("user=tester", "user=analyst")
    try:
        with pytest.raises(DataError, match="right to SELECT from hidden is missing"):
            _opened(theirs, ledger)
        connection.execute("GRANT SELECT ON hidden TO analyst")
        with pytest.raises(DataError, match="policy hides rows of hidden"):
            _opened(theirs, ledger)
    finally:
        connection.execute("DROP TABLE hidden")
        connection.execute("DROP ROLE analyst")


def _opened(dsn: str, ledger: Path) -> None:
    import psycopg

    with psycopg.connect(dsn) as connection:
        dn.Session({"hidden": connection}, ledger=ledger)


def test_functions_of_the_database_do_not_take_ours(home: tuple[Any, str], ledger: Path) -> None:
    """A function of the owner's with a built-in name is not called."""
    connection, _ = home
    connection.execute("CREATE FUNCTION public.md5(text) RETURNS text LANGUAGE sql AS $$ SELECT 'same' $$")
    connection.execute(
        "CREATE FUNCTION public.abs(double precision) RETURNS double precision LANGUAGE sql AS $$ SELECT 1e9::float8 $$"
    )
    try:
        with dn.Session({"visits": connection}, ledger=ledger) as session:
            plan = session.plan(
                "SELECT SUM(ABS(cost)) AS s FROM visits",
                epsilon=1,
                bounds={"cost": (0, 6)},
                per_unit=AtMost(groups=1, rows=9),
            )
            totals = plan.engine.run(plan.bounded, groups=1, key=(1, 2))
            step = plan.noises[0].measure.step
            assert plan.noises[0].measure.of(totals)[0] * step == sum(i % 7 for i in range(600))
    finally:
        connection.execute("DROP FUNCTION public.md5(text), public.abs(double precision)")


def test_a_table_that_has_changed_is_refused_before_the_charge(home: tuple[Any, str], ledger: Path) -> None:
    connection, _ = home
    connection.execute("CREATE TABLE moving (patient_id TEXT, x INT)")
    try:
        with dn.Session({"moving": connection}, ledger=ledger) as session:
            plan = session.plan("SELECT SUM(x) AS s FROM moving", epsilon=1, bounds={"x": (0, 6)}, per_unit=KEPT)
            connection.execute("ALTER TABLE moving ALTER COLUMN x TYPE TEXT")
            before = session.ledger.remaining()
            with pytest.raises(DataError, match="has changed"):
                plan.run()
            assert session.ledger.remaining() == before
    finally:
        connection.execute("DROP TABLE moving")


def test_a_lost_connection_is_said_without_rows(home: tuple[Any, str], ledger: Path) -> None:
    connection, _ = home
    with dn.Session({"visits": connection}, ledger=ledger) as session:
        plan = session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1, per_unit=KEPT)
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
        with pytest.raises(DataError, match="PostgreSQL"):
            plan.run()


def test_settings_of_the_role_change_nothing(home: tuple[Any, str], ledger: Path) -> None:
    """An encoding that cannot hold a key, a limit on time, few digits, another path: keys come as they are."""
    connection, dsn = home
    connection.execute("CREATE TABLE keyed (patient_id TEXT, city TEXT, x FLOAT8)")
    connection.execute("INSERT INTO keyed SELECT i::text, '東京 ☃', 0.1::float8 + 0.2 FROM generate_series(1, 60) AS i")
    connection.execute("CREATE ROLE settled LOGIN")
    try:
        connection.execute("GRANT SELECT ON keyed TO settled")
        for setting in (
            "client_encoding = 'LATIN1'", "extra_float_digits = -10", "statement_timeout = '100ms'",
            "transform_null_equals = on", "lock_timeout = '1ms'", "datestyle = 'German'",
            "default_transaction_read_only = off", "default_transaction_isolation = 'read committed'",
        ):  # fmt: skip
            connection.execute(f"ALTER ROLE settled SET {setting}")
        theirs = url(dsn).replace("user=tester", "user=settled")
        with dn.Session({"keyed": theirs}, ledger=ledger) as session:
            sql = "SELECT city, x, COUNT(*) AS n FROM keyed GROUP BY city, x"
            (row,) = session.sql(sql, epsilon=10, delta=1e-4, per_unit=KEPT).rows
        assert (row["city"], row["x"]) == ("東京 ☃", 0.1 + 0.2)
    finally:
        connection.execute("DROP TABLE keyed")
        connection.execute("DROP OWNED BY settled")
        connection.execute("DROP ROLE settled")


def test_extreme_values_never_raise_after_the_charge(home: tuple[Any, str], ledger: Path) -> None:
    """Numerics beyond floats, infinite dates, and texts that only look alike."""
    connection, _ = home
    connection.execute("CREATE TABLE extreme (patient_id NUMERIC, x NUMERIC, d DATE, at TIMESTAMP, s CHAR(5))")
    connection.execute(
        "INSERT INTO extreme VALUES (1, 1e999, 'infinity', '-infinity', 'a'), "
        "(2, 'NaN', '5874897-12-31', 'infinity', 'b'), "
        "(9007199254740993, 1e-400, '4713-01-01 BC', '294276-12-31', ''), "
        "(9007199254740992, -1e999, NULL, NULL, NULL), ('NaN', 'Infinity', NULL, NULL, 'c')"
    )
    try:
        with dn.Session({"extreme": connection}, ledger=ledger) as session:
            plan = session.plan(
                "SELECT SUM(x) AS a, SUM(x * x) AS b, COUNT_IF(at > d) AS c, SUM(YEAR(d)) AS e, "
                "COUNT(DISTINCT at) AS f, COUNT_IF(s = 'a') AS g, SUM(DATE_DIFF('day', d, at)) AS h, "
                "SUM(x / x) AS i, COUNT(DISTINCT x) AS j "
                "FROM extreme",
                epsilon=1, per_unit=AtMost(groups=1, rows=1),
                bounds={"x": (0, 6), "x * x": (0, 9), "DATE_DIFF('day', d, at)": (-9, 9), "x / x": (0, 2)},
            )  # fmt: skip
            totals = plan.engine.run(plan.bounded, groups=1, key=(1, 2))
            # Ids beyond 2^53 stay apart; NaN is nobody.
            assert totals.rows.tolist() == [4]
    finally:
        connection.execute("DROP TABLE extreme")


def test_extreme_values_in_a_joined_form_per_person_never_raise(home: tuple[Any, str], tmp_path: Path) -> None:
    """The types of t are those of the private table, whatever is joined to it; and a cast of NUMERIC rounds."""
    connection, _ = home
    connection.execute("CREATE TABLE wide (id INT, k INT, x DOUBLE PRECISION, n NUMERIC)")
    connection.execute("INSERT INTO wide VALUES (2, 1, 1e200, 9223372036854775807.6), (3, 1, -1e200, 1e400)")
    ledger = dn.Ledger.create(tmp_path / "l", unit="id", budget=dn.PureDP(50))
    places = pa.table({"k": [1], "x": ["a"]})
    options = "OPTIONS(epsilon=1, privacy_unit_column=id)"
    with dn.Session({"wide": connection}, ledger=ledger, public={"places": places}) as session:
        for value in ("wide.x * wide.x", "CAST(wide.x AS BIGINT)", "CAST(n AS BIGINT)", "n * n"):
            for joined in ("", " JOIN places ON wide.k = places.k"):
                session.sql(
                    f"SELECT WITH DIFFERENTIAL_PRIVACY {options} "
                    f"SUM({value}, contribution_bounds_per_group => (0, 9)) AS s FROM wide{joined}"
                )


def test_whether_keys_repeat_is_asked_of_the_table_that_travels(home: tuple[Any, str], tmp_path: Path) -> None:
    """2⁵³ and 2⁵³ + 1 are two decimals and one float: a row joined to both would count twice."""
    connection, _ = home
    connection.execute("CREATE TABLE single (k DOUBLE PRECISION)")
    connection.execute("INSERT INTO single VALUES (9007199254740992)")
    keys = pa.array([Decimal(2**53), Decimal(2**53 + 1)], pa.decimal128(18, 0))
    ledger = dn.Ledger.create(tmp_path / "l", unit="row", budget=dn.PureDP(5))
    sql, public = "SELECT COUNT(*) AS n FROM single JOIN names ON single.k = names.k", {"names": pa.table({"k": keys})}
    with (
        dn.Session({"single": connection}, ledger=ledger, public=public) as session,
        pytest.raises(QueryError, match="several rows for one key"),
    ):
        session.plan(sql, epsilon=1)


def test_public_times_that_python_cannot_hold_do_not_become_others(home: tuple[Any, str], tmp_path: Path) -> None:
    """DuckDB gives infinity to Python as the last day of 9999, which a row may have: it would be joined to both."""
    connection, _ = home
    connection.execute("CREATE TABLE ends (day DATE, at TIMESTAMP)")
    connection.execute("INSERT INTO ends VALUES ('9999-12-31', '9999-12-31 23:59:59.999999'), ('infinity', 'infinity')")
    duckdb.sql(
        "SELECT UNNEST([DATE '9999-12-31', 'infinity', '20000-01-01']) AS day, "
        "UNNEST([TIMESTAMP '9999-12-31 23:59:59.999999', 'infinity', '20000-01-01']) AS at"
    ).write_parquet(str(tmp_path / "days.parquet"))
    ledger = dn.Ledger.create(tmp_path / "l", unit="row", budget=dn.PureDP(5))
    with dn.Session({"ends": connection}, ledger=ledger, public={"days": tmp_path / "days.parquet"}) as session:
        for column in ("day", "at"):
            plan = session.plan(f"SELECT COUNT(*) AS n FROM ends JOIN days ON ends.{column} = days.{column}", epsilon=1)
            assert plan.engine.run(plan.bounded, groups=1, key=(1, 2)).rows.tolist() == [1]


def test_what_cannot_be_sent_is_refused_beforehand(home: tuple[Any, str], ledger: Path) -> None:
    with dn.Session({"visits": home[0]}, ledger=ledger) as session:
        with pytest.raises(DataError, match="character 0"):
            session.plan(
                "SELECT city, COUNT(*) AS n FROM visits GROUP BY city", epsilon=1, keys={"city": ["a\0"]}, per_unit=KEPT
            )
        with pytest.raises(
            NotSupported, match=r"is not supported on PostgreSQL; it has a remainder of whole numbers only"
        ):
            session.plan("SELECT SUM(cost % 0.3) AS s FROM visits", epsilon=1, bounds={"cost": (0, 6)}, per_unit=KEPT)


def test_where_nobody_listens(ledger: Path) -> None:
    with pytest.raises(DataError, match="could not be reached") as caught:
        dn.Session({"visits": "postgresql://nobody:secret@127.0.0.1:1/nowhere"}, ledger=ledger)
    assert "secret" not in str(caught.value)


def test_tables_of_two_places_are_refused(home: tuple[Any, str], ledger: Path) -> None:
    frame = pa.table({"patient_id": ["a"]})
    with pytest.raises(DataError, match="like the other private tables"):
        dn.Session({"visits": home[0], "frame": frame}, ledger=ledger)


def test_an_ibis_table_is_asked_by_its_connection(home: tuple[Any, str], ledger: Path) -> None:
    ibis = pytest.importorskip("ibis", reason="needs ibis; run: pip install 'deniable[ibis]'")
    import psycopg

    parts = psycopg.conninfo.conninfo_to_dict(home[1])
    backend = ibis.postgres.connect(host=parts["host"], user=parts["user"], database=parts["dbname"])
    try:
        table = backend.table("visits")
        for data in (table, {"visits": table}, {"visits": backend}):
            with dn.Session(data, ledger=ledger) as session:
                plan = session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1, per_unit=KEPT)
                assert plan.engine.run(plan.bounded, groups=1, key=(1, 2)).rows.tolist() == [400]
        with pytest.raises(DataError, match="is not a table of its database"):
            dn.Session({"visits": table.filter(table.cost > 3)}, ledger=ledger)
    finally:
        backend.disconnect()


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # within Ibis
def test_an_ibis_table_in_duckdb(ledger: Path) -> None:
    ibis = pytest.importorskip("ibis", reason="needs ibis; run: pip install 'deniable[ibis]'")
    backend = ibis.duckdb.connect()
    backend.raw_sql("CREATE TABLE visits AS SELECT UNNEST(['a', 'b', 'b']) AS patient_id, 1 AS cost")
    with dn.Session(backend.table("visits"), ledger=ledger) as session:
        plan = session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1, per_unit=KEPT)
        assert plan.engine.run(plan.bounded, groups=1, key=(1, 2)).rows.tolist() == [3]


def test_a_public_table_is_read_from_its_own_database(home: tuple[Any, str], ledger: Path, postgres: Any) -> None:
    """Ours has a table of the same name, which nobody called public."""
    import psycopg

    connection, _ = home
    with psycopg.connect(postgres.database(), autocommit=True) as elsewhere:
        elsewhere.execute("CREATE TABLE cities (city TEXT, canton TEXT)")
        elsewhere.execute("INSERT INTO cities VALUES ('Bern', 'capital'), ('Basel', 'border')")
        public = {"cities": elsewhere}
        with dn.Session({"visits": connection}, ledger=ledger, public=public) as session:
            release = session.sql(
                "SELECT canton, COUNT(*) AS n FROM visits JOIN cities USING (city) GROUP BY canton",
                epsilon=1, per_unit=KEPT,
            )  # fmt: skip
    assert set(release.to_pandas()["canton"]) == {"capital", "border"}
