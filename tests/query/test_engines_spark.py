"""Spark as the home of tables: what is opened, refused, left behind. `test_engines_alike` has the rest."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import deniable as dn
from deniable.errors import DataError
from deniable.query import AtMost

pytestmark = pytest.mark.xdist_group("spark")

KEPT = AtMost(groups=1, rows=2)


@pytest.fixture(scope="module")
def visits(spark: Any) -> Generator[Any]:
    """600 visits by 200 patients, as a view of the catalog, too."""
    frame = spark.sql(
        "SELECT CONCAT('p', id % 200) AS patient_id, IF(id % 200 < 50, 'Bern', 'Basel') AS city, id % 7 AS cost, "
        "TIMESTAMP '2026-01-01 12:00:00' AS at FROM RANGE(600)"
    )
    frame.createOrReplaceTempView("visits")
    yield frame
    spark.catalog.dropTempView("visits")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    dn.Ledger.create(tmp_path / "l", unit="patient_id", budget=dn.ApproxDP(50, 1e-3))
    return tmp_path / "l"


def test_a_session_asks_where_the_table_is(visits: Any, ledger: Path, tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text("city,canton\nBern,BE\nBasel,BS\n")
    public = {"cities": tmp_path / "cities.csv"}
    with dn.Session({"visits": visits}, ledger=ledger, public=public) as session:
        release = session.sql(
            "SELECT canton, COUNT(*) AS n, AVG(cost) AS c FROM visits JOIN cities USING (city) GROUP BY canton",
            epsilon=40, bounds={"cost": (0, 6)}, per_unit=KEPT,
        )  # fmt: skip
    assert release.columns["canton"] == ["BE", "BS"]
    # At most 2 visits of each; scale 2·2/20 and less, so 20 off has probability below e^-90.
    assert [abs(n - true) < 20 for n, true in zip(release.columns["n"], (100, 300), strict=True)] == [True, True]


def test_the_table_is_read_once_and_its_rows_move_once(visits: Any, ledger: Path) -> None:
    """Sums and averages are one statement: one scan, one move of rows to their person, one of totals to their group."""
    with dn.Session({"visits": visits}, ledger=ledger) as session:
        plan = session.plan(
            "SELECT city, SUM(cost) AS s, AVG(cost) AS a FROM visits GROUP BY city",
            epsilon=1, bounds={"cost": (0, 6)}, keys={"city": ["Bern", "Basel"]}, per_unit=KEPT,
        )  # fmt: skip
        engine: Any = plan.engine
        assert [step.name for step in engine._write(plan.bounded)] == [""]
        assert engine.written(plan.bounded).count("global_temp") == 1
        frame = engine._statement(plan.bounded, [], key=(1, 2))
        assert frame._jdf.queryExecution().executedPlan().toString().count("Exchange hashpartitioning") == 2


def test_tables_are_named_in_several_ways(visits: Any, spark: Any, ledger: Path) -> None:
    ibis = pytest.importorskip("ibis", reason="needs ibis; run: pip install 'deniable[ibis]'")
    backend = ibis.pyspark.connect(spark)
    for data in ({"visits": spark}, "spark:visits", {"visits": "spark:visits"}, backend.table("visits")):
        with dn.Session(data, ledger=ledger) as session:
            assert session.tables[0].names == ("patient_id", "city", "cost", "at")
            assert session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1, per_unit=KEPT).cost.epsilon == 1


def test_views_are_dropped_and_settings_left(visits: Any, spark: Any, ledger: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")  # Ibis sets it in the session it is given
    with dn.Session({"visits": visits}, ledger=ledger):
        assert [t.name for t in spark.catalog.listTables("global_temp") if t.name.startswith("deniable")]
    assert not [t.name for t in spark.catalog.listTables("global_temp") if t.name.startswith("deniable")]
    assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"


def test_what_is_not_there_is_said(spark: Any, ledger: Path) -> None:
    with pytest.raises(DataError, match="Spark has no table nothing"):
        dn.Session({"nothing": spark}, ledger=ledger)
    with pytest.raises(DataError, match="name those to ask"):
        dn.Session(spark, ledger=ledger)


def test_a_missing_java_is_one_sentence(monkeypatch: pytest.MonkeyPatch, ledger: Path) -> None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    class Builder:
        def getOrCreate(self) -> None:
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(SparkSession, "builder", Builder())
    with pytest.raises(DataError, match="Java is missing; run: apt-get install default-jre-headless"):
        dn.Session("spark:visits", ledger=ledger)


def test_a_failure_after_the_charge_quotes_no_row(spark: Any, ledger: Path) -> None:
    """A DataFrame that fails on a row: docs/engines.md says that it must not, and this is what happens if it does."""
    frame = spark.sql("SELECT 'secret' AS patient_id, CAST(RAISE_ERROR('secret') AS INT) AS x FROM RANGE(1)")
    with dn.Session({"visits": frame}, ledger=ledger) as session:
        plan = session.plan("SELECT SUM(x) AS s FROM visits", epsilon=1, bounds={"x": (0, 1)}, per_unit=KEPT)
        with pytest.raises(DataError, match="the charge stands") as caught:
            plan.run()
    assert "secret" not in str(caught.value)


def test_rows_that_differ_each_time_are_refused(spark: Any, ledger: Path) -> None:
    for column in ("RAND() AS x", "RAND(1) AS x", "UUID() AS x"):
        frame = spark.sql(f"SELECT CAST(id AS STRING) AS patient_id, {column} FROM RANGE(5)")
        with pytest.raises(DataError, match="other rows each time"):
            dn.Session({"visits": frame}, ledger=ledger)


def test_a_text_that_looks_like_a_variable_is_a_text(spark: Any, ledger: Path) -> None:
    name = "${spark.app.name}"
    frame = spark.createDataFrame([("p", name)], "patient_id STRING, city STRING")
    with dn.Session({"visits": frame}, ledger=ledger) as session:
        plan = session.plan(f"SELECT COUNT(*) AS n FROM visits WHERE city = '{name}'", epsilon=1, per_unit=KEPT)
        assert plan.engine.run(plan.bounded, groups=1, key=(1, 2)).rows.tolist() == [1]


@pytest.mark.parametrize("type_", ["DOUBLE", "BIGINT", "DATE", "TIMESTAMP", "BOOLEAN"])
def test_a_constant_that_does_not_fit_its_cast_is_null_and_tells_of_no_row(
    visits: Any, ledger: Path, type_: str
) -> None:
    """Spark computes a branch of CASE for the rows that take it. Were its cast to fail, so would a query, exactly if
    there is such a row."""
    with dn.Session({"visits": visits}, ledger=ledger) as session:
        for city in ("Bern", "Nowhere"):
            plan = session.plan(
                f"SELECT COUNT(CASE WHEN city = '{city}' THEN TRY_CAST('secret' AS {type_}) END) AS n FROM visits",
                epsilon=1, per_unit=KEPT,
            )  # fmt: skip
            totals = plan.engine.run(plan.bounded, groups=1, key=(1, 2))
            assert [int(found[0]) for found in totals.counts.values()] == [0]
