"""Which SQL is understood: `make bench ROOM=language`.

Two lists of forms, over tables of our own: those that the tests of SmartNoise SQL ask privately (its rewriter, reader,
HAVING, ORDER BY, TOP and validation tests), and those of GoogleSQL's pages on differential privacy. Each form is
planned, charged and run on a small table; a form that does not run is listed with the reason that was given, before any
charge. The forms are written anew, with our names of tables and columns; what is kept is which words of SQL they use,
and where.

The figures go to bench/results: language-<date>.md and the history.
"""

# ruff: noqa: E501  (a form is one line)
from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import history
import numpy as np
import pyarrow as pa

import deniable as dn
from deniable.errors import DeniableError

SMARTNOISE = """
SELECT COUNT(*) AS c FROM people
SELECT COUNT(*) AS c, married AS m FROM people GROUP BY married ORDER BY c
SELECT COUNT(*) AS c, married AS m FROM people GROUP BY married ORDER BY c DESC
SELECT COUNT(*) * 5 AS c, married AS m FROM people GROUP BY married ORDER BY c DESC
SELECT COUNT(*) AS c FROM people WHERE age > 90 AND educ = 8
SELECT COUNT(*) AS c FROM people WHERE age > 80 GROUP BY educ
SELECT COUNT(*) AS c FROM people WHERE age > 100
SELECT SUM(age) AS c FROM people WHERE age > 100
SELECT SUM(age) AS age_total FROM people
SELECT POWER(SUM(age), 2) AS age_total FROM people
SELECT (SUM(age)) AS age_total FROM people
SELECT ((SUM(age))) AS age_total FROM people
SELECT COUNT(*) AS c FROM people GROUP BY married
SELECT AVG(age) AS age_total FROM people
SELECT VARIANCE(age) AS age_total FROM people
SELECT STDDEV(age) AS age_total FROM people
SELECT COUNT(*) AS count_all FROM people
SELECT AVG(age) FROM people
SELECT COUNT(*) FROM people
SELECT age, SUM(income) AS s FROM people GROUP BY age HAVING age > 5 AND COUNT(*) > 7 OR NOT (age < 5)
SELECT age, sex, SUM(income) AS s FROM people GROUP BY age, sex ORDER BY age, s, sex DESC LIMIT 10
SELECT COUNT(*) AS n, SUM(income) AS s, AVG(income) AS a, VARIANCE(income) AS v, STDDEV(income) AS d FROM people
SELECT (VAR(age)) AS my_var, married FROM people GROUP BY married
SELECT age, sex, SUM(income) AS s, SUM(age) AS a FROM people GROUP BY age, sex HAVING NOT (sex = TRUE) ORDER BY s, sex DESC LIMIT 10
SELECT married, SUM(income) AS s, SUM(age) AS a FROM people GROUP BY married HAVING married
SELECT SUM(age) FROM people
SELECT COUNT(*), VAR(age) AS var_age FROM people
SELECT married, educ, income, AVG(age) FROM people GROUP BY married, educ, income
SELECT TOP 5 educ, AVG(income) FROM people GROUP BY educ
SELECT COUNT(married), AVG(age) FROM people
SELECT 3 AS three, married, educ, AVG(income) FROM people GROUP BY educ, married
SELECT 3 AS three, p.married, educ, AVG(income) FROM people AS p GROUP BY educ, married
SELECT p.married, AVG(age) AS aa FROM people AS p GROUP BY married
SELECT educ FROM people GROUP BY educ
SELECT SUM(age) AS age FROM people
SELECT (SUM(age)) AS age FROM people
SELECT SUM(age) * 1 AS age FROM people
SELECT SUM(age), COUNT(*) FROM people
SELECT PI(), RAND(), POWER(AVG(age), 2) FROM people
SELECT PI(), POWER(AVG(age), 2) FROM people
SELECT SUM(income) AS income FROM people WHERE sex = TRUE
SELECT AVG(income) AS income FROM people GROUP BY married
SELECT educ, SUM(income) AS t, AVG(income) AS a, AVG(age) FROM people WHERE married = TRUE GROUP BY educ
SELECT educ, SUM(income) AS income FROM people WHERE educ IN (2, 3) GROUP BY educ ORDER BY educ DESC
SELECT COUNT(DISTINCT pid) AS n, age, income FROM people WHERE age > 55 GROUP BY age, income
SELECT COUNT(DISTINCT pid) AS pid FROM people GROUP BY married
SELECT COUNT(DISTINCT pid) AS pid FROM people
SELECT SUM(age) FROM people GROUP BY married, CASE WHEN age > 90 THEN 1 ELSE 0 END
SELECT SUM(crashes) AS crashes FROM devices WHERE region = 'LATAM'
SELECT AVG(temperature) AS temperature FROM devices GROUP BY refurbished
SELECT building, SUM(crashes) AS t, AVG(crashes) AS a, AVG(temperature) FROM devices WHERE refurbished = TRUE GROUP BY building
SELECT COUNT(pid) AS devices FROM devices
SELECT SUM(temperature), SUM(temperature), SUM(crashes), COUNT(building) FROM devices GROUP BY region
SELECT AVG(temperature) AS t, region, building, refurbished FROM devices WHERE temperature > 53.1 GROUP BY refurbished, region, building
SELECT COUNT(pid) AS n, region, building, refurbished FROM devices WHERE temperature > 53.1 GROUP BY region, building, refurbished
SELECT COUNT(pid) AS n, region, refurbished, building, AVG(temperature) AS t FROM devices WHERE temperature > 53.1 GROUP BY region, refurbished, building ORDER BY region, refurbished, building DESC
SELECT SUM(crashes) AS crashes, COUNT(pid) AS devices FROM devices
SELECT SUM(crashes) AS crashes FROM devices
SELECT COUNT(crashes) AS crashes FROM devices
SELECT region, SUM(crashes) AS crashes FROM devices WHERE region IN ('LATAM', 'EMEA') GROUP BY region ORDER BY region DESC
SELECT COUNT(DISTINCT pid) AS n, region, building, refurbished FROM devices WHERE temperature > 53.1 GROUP BY region, building, refurbished
SELECT COUNT(DISTINCT pid) AS did FROM devices GROUP BY refurbished
SELECT region, refurbished, AVG(temperature) FROM devices GROUP BY region, refurbished ORDER BY refurbished, region
SELECT COUNT(pid) AS n, region, refurbished, AVG(temperature) AS t FROM devices GROUP BY region, refurbished ORDER BY region, refurbished DESC
SELECT maker, trial, COUNT(pid) AS n, SUM(crashes) FROM (SELECT crashes, x.* FROM devices JOIN (SELECT pid, maker, trial FROM (census JOIN rollouts USING (pid)) AS q) AS x USING (pid)) AS z GROUP BY maker, trial ORDER BY maker, trial
SELECT trial, COUNT(pid) AS n, AVG(temperature) FROM (SELECT d.*, x.trial, x.maker FROM devices AS d JOIN (SELECT pid, maker, trial FROM (census JOIN rollouts USING (pid)) AS q) AS x USING (pid)) AS z GROUP BY trial ORDER BY trial
SELECT maker, AVG(temperature) FROM census JOIN devices USING (pid) GROUP BY maker ORDER BY maker
SELECT SUM(crashes), trial FROM census JOIN devices USING (pid) JOIN rollouts USING (pid) GROUP BY trial ORDER BY trial
SELECT heat, COUNT(pid) FROM (SELECT pid, CASE WHEN temperature < 42 THEN 'Cold' WHEN temperature > 51 THEN 'Hot' ELSE 'Medium' END AS heat FROM devices) AS tc GROUP BY heat ORDER BY heat
SELECT POWER(COUNT(pid) / 10000, 2) AS n, region FROM devices GROUP BY region
SELECT SQRT(AVG(crashes * crashes) - AVG(crashes) * AVG(crashes)) FROM devices
SELECT age, sex, COUNT(*) AS n, SUM(income) AS income FROM people GROUP BY age, sex HAVING income > 100000
SELECT age, sex, COUNT(*) AS n, SUM(income) AS income FROM people GROUP BY age, sex HAVING sex = 1
SELECT age, sex, COUNT(*) AS n, SUM(income) AS income FROM people GROUP BY age, sex HAVING income > 100000 OR sex = 1
SELECT age, COUNT(*) FROM people GROUP BY age HAVING age < 30 OR age > 60
SELECT age * 1000 AS age, COUNT(*) FROM people GROUP BY age HAVING age < 30000 OR age > 60000
SELECT age AS age, COUNT(*) FROM people GROUP BY age HAVING age * 1000 < 30000 OR age * 2 > 120
SELECT age, COUNT(*) AS n FROM people GROUP BY age HAVING (age < 30 OR age > 60) AND n > 10
SELECT age, COUNT(*) * 1000 AS n FROM people GROUP BY age HAVING (age < 30 OR age > 60) AND n > 10000
SELECT age, COUNT(*) AS n FROM people GROUP BY age HAVING (age < 30 OR age > 60) AND n * 100 / 2 > 500
SELECT age, married, COUNT(*) AS n, SUM(income) AS i FROM people GROUP BY age, married HAVING married = 1
SELECT age, married, COUNT(*) AS n, SUM(income) AS i FROM people GROUP BY age, married HAVING n > 10 OR married = 1
SELECT age, married, COUNT(*) AS n, SUM(income) AS i FROM people GROUP BY age, married HAVING n > 10 OR married
SELECT age, married, COUNT(*) AS n, SUM(income) AS i FROM people GROUP BY age, married HAVING married = 0
SELECT age, married, COUNT(*) AS n, SUM(income) AS i FROM people GROUP BY age, married HAVING NOT married
SELECT age, married, COUNT(*) AS n, SUM(income) AS i FROM people GROUP BY age, married HAVING n > 10 OR NOT married
SELECT educ, COUNT(*) FROM people GROUP BY educ HAVING COUNT(*) > 50
SELECT educ, COUNT(DISTINCT pid) AS n FROM people GROUP BY educ HAVING COUNT(DISTINCT pid) > 50
SELECT educ, COUNT(DISTINCT pid) AS n FROM people GROUP BY educ HAVING n > 50
SELECT educ, COUNT(DISTINCT pid) AS n FROM people GROUP BY educ HAVING COUNT(*) > 50
SELECT educ, COUNT(*) FROM people GROUP BY educ HAVING (COUNT(*) / CAST(educ AS INTEGER)) > 5
SELECT sex AS educ, educ AS sex, COUNT(*) AS n FROM people GROUP BY sex, educ HAVING sex > 2
SELECT educ AS sex, sex AS educ, COUNT(*) AS n FROM people GROUP BY sex, educ HAVING educ > 2
SELECT sex AS gender, educ FROM people GROUP BY sex, educ ORDER BY sex DESC
SELECT sex AS gender, educ AS sex FROM people GROUP BY sex, educ ORDER BY gender DESC
SELECT sex AS gender, educ AS sex FROM people GROUP BY sex, educ ORDER BY (CAST(gender AS INTEGER) + 5) DESC
SELECT sex AS gender, educ AS sex FROM people GROUP BY sex, educ ORDER BY sex DESC
SELECT sex AS gender, educ AS sex FROM people GROUP BY sex, educ ORDER BY (CAST(gender AS INTEGER) * -1) DESC, educ ASC
SELECT educ FROM people GROUP BY educ ORDER BY CAST(educ AS INTEGER) DESC
SELECT educ FROM people GROUP BY educ ORDER BY CAST(educ AS VARCHAR) DESC
SELECT educ, COUNT(DISTINCT pid) AS n FROM people GROUP BY educ ORDER BY COUNT(pid) DESC
SELECT TOP 5 educ, COUNT(*) AS n FROM people GROUP BY educ ORDER BY n DESC
SELECT educ, COUNT(*) AS n FROM people GROUP BY educ LIMIT 4
SELECT TOP 20 age, married, COUNT(*) AS n, SUM(income) AS i FROM people GROUP BY age, married ORDER BY married, age DESC
SELECT age, married, COUNT(*) AS n, SUM(income) AS i FROM people GROUP BY age, married ORDER BY married, age DESC LIMIT 10
SELECT age, married, COUNT(*) AS n, SUM(income) AS i FROM people GROUP BY age, married ORDER BY i DESC LIMIT 50
SELECT sex, COUNT(*) AS n, COUNT(*) AS foo FROM people GROUP BY sex ORDER BY sex
SELECT day, SUM(income), clock FROM people GROUP BY day, clock ORDER BY day DESC, clock
SELECT region, SUM(DISTINCT crashes), AVG(temperature), COUNT(ALL building) FROM devices GROUP BY region
SELECT AVG(*) AS n FROM devices GROUP BY region, building
SELECT COUNT(DISTINCT pid) AS n FROM (SELECT pid, SUM(income) AS s FROM people GROUP BY pid) AS x ORDER BY n ASC
SELECT COUNT(*) AS n, SUM(income) AS s FROM people ORDER BY 2 * s / ((n + 300.11) / 2) DESC
SELECT CASE WHEN SUM(age) > 1 THEN 'x' ELSE 'y' END AS c, STDEV(age), LN(COUNT(*)), CEIL(COUNT(*)), LOG2(COUNT(*)) FROM people
SELECT region, SUM(c) AS crashes FROM (SELECT pid, region, SUM(crashes) AS c FROM (SELECT pid, region, CASE WHEN crashes < 0 THEN 0 WHEN crashes > 10 THEN 10 ELSE crashes END AS crashes FROM devices WHERE region IN ('LATAM', 'EMEA')) AS clamped GROUP BY pid, region) AS per_key GROUP BY region ORDER BY region DESC
"""

DP = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon={e}, delta=.01, max_groups_contributed=1, privacy_unit_column=pid) "
PLAIN = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon={e}, delta=.01, privacy_unit_column=pid) "
OLD = "SELECT WITH ANONYMIZATION OPTIONS(epsilon={e}, delta=.01, max_groups_contributed=1) "
BY = " FROM devices GROUP BY building"
WITHOUT = "1e20"


def google() -> list[str]:
    """The forms of GoogleSQL's pages: each aggregate with noise and (by a huge ε) without, in the form of today and in
    the old one; clamping; the clause itself."""
    found = []
    for call in ("AVG(crashes CLAMPED BETWEEN 0 AND 100)", "COUNT(*)", "COUNT(building CLAMPED BETWEEN 0 AND 100)"):
        found.append(f"{OLD.format(e=10)} building, ANON_{call} x{BY}")
    for call in ("AVG(crashes)", "COUNT(*)", "COUNT(building CLAMPED BETWEEN 0 AND 100)", "SUM(crashes)"):
        found.append(f"{OLD.format(e=WITHOUT)} building, ANON_{call} x{BY}")
    for call in (
        "PERCENTILE_CONT(crashes, 0.5",
        "QUANTILES(crashes, 4",
        "STDDEV_POP(crashes",
        "SUM(crashes",
        "VAR_POP(crashes",
    ):
        found.append(f"{OLD.format(e=10)} building, ANON_{call} CLAMPED BETWEEN 0 AND 100) x{BY}")
    group = "contribution_bounds_per_group => (0, 100)"
    for call in (f"AVG(crashes, {group})", "COUNT(*)", f"COUNT(building, {group})", f"SUM(crashes, {group})"):
        found.append(f"{DP.format(e=10)} building, {call} x{BY}")
    for call in ("AVG(crashes)", "COUNT(*)", f"COUNT(building, {group})", "SUM(crashes)"):
        found.append(f"{DP.format(e=WITHOUT)} building, {call} x{BY}")
    for call in ("PERCENTILE_CONT(crashes, 0.5", "VAR_POP(crashes"):
        found.append(f"{DP.format(e=10)} building, {call}, contribution_bounds_per_row => (0, 100)) x{BY}")
    for ends in ("(0,100)", "(50,100)"):
        found.append(f"{PLAIN.format(e=WITHOUT)} building, AVG(crashes, contribution_bounds_per_group=>{ends}) x{BY}")
    for ends in ("0 AND 100", "50 AND 100"):
        found.append(f"{OLD.format(e=WITHOUT)} building, AVG(crashes CLAMPED BETWEEN {ends}) x{BY}")
    found.append(f"{PLAIN.format(e=1.09)} building, COUNT(*) FROM devices")
    found.append(
        f"{PLAIN.format(e=1.09).replace('=pid', '=members.pid')} building, COUNT(*) FROM (SELECT * FROM devices) AS members"
    )
    found.append(f"{PLAIN.format(e=1)} building, COUNT(crashes){BY}")
    found.append(f"{DP.format(e=10).replace('=1,', '=2,')} building, AVG(crashes, {group}) AS x{BY}")
    found.append(f"{DP.format(e=WITHOUT).replace('=1,', '=2,')} building, AVG(crashes, {group}) AS x{BY}")
    found.append(f"{DP.format(e=10)} building, AVG(crashes, {group}) AS x{BY}")
    found.append(
        f"{DP.format(e=10).replace('=1,', '=2,')} building, COUNT(crashes, {group}) AS x{BY} ORDER BY building"
    )
    found.append(
        f"{OLD.format(e=10)} building, ANON_AVG(crashes CLAMPED BETWEEN 0 AND 100) x FROM devices, census GROUP BY building"
    )
    found.append(f"{PLAIN.format(e=1)} region, COUNT(*) AS n FROM devices JOIN census USING (pid) GROUP BY region")
    found.append(
        f"{PLAIN.format(e=1).replace('delta=.01', 'min_privacy_units_per_group=5, delta=.01')} building, COUNT(*) AS n{BY}"
    )
    found.append(
        f"{PLAIN.format(e=1).replace('delta=.01', 'max_rows_contributed=5, delta=.01')} building, COUNT(*) AS n{BY}"
    )
    return found


def tables() -> dict[str, pa.Table]:
    """Two thousand rows of a thousand people, and tables about them."""
    random, size = np.random.default_rng(7), 2000
    pid = random.integers(0, 1000, size)
    flag = random.integers(0, 2, size).astype(bool)
    one = np.arange(1000)
    return {
        "people": pa.table(
            {
                "pid": pid, "age": random.integers(18, 95, size), "sex": random.integers(0, 2, size),
                "educ": random.integers(1, 14, size), "income": random.integers(0, 20, size) * 5000.0, "married": flag,
                "day": np.array("2026-01-01", "datetime64[D]") + random.integers(0, 9, size),
                "clock": random.choice(["10:40:07", "12:20:05"], size),
            }
        ),
        "devices": pa.table(
            {
                "pid": pid, "region": random.choice(["LATAM", "EMEA", "APAC"], size), "building": random.choice(["a", "b"], size),
                "refurbished": flag, "crashes": random.integers(0, 12, size), "temperature": random.normal(55, 5, size),
            }
        ),
        "census": pa.table({"pid": one, "maker": random.choice(["x", "y"], 1000)}),
        "rollouts": pa.table({"pid": one, "trial": random.choice(["A", "B"], 1000)}),
    }  # fmt: skip


BOUNDS = {
    "age": (0, 120), "income": (0, 100_000), "crashes": (0, 12), "temperature": (0, 100), "c": (0, 100), "s": (0, 10**6),
    "educ": (0, 20),
}  # fmt: skip


def run(session: dn.Session, sql: str) -> str:
    """Why a form does not run; empty where it does."""
    options: dict[str, Any] = {}
    if "SELECT WITH" not in sql:
        named = {name: ends for name, ends in BOUNDS.items() if f"({name}" in sql or f"{name} " in sql}
        options = {"epsilon": 1, "delta": 1e-6, "bounds": named, "per_unit": dn.AtMost(groups=2, rows=2)}
        while True:
            try:
                session.sql(sql, **options)
            except DeniableError as refused:
                spare = next((name for name in options["bounds"] if f"no column {name}" in str(refused)), None)
                private = "delta" in options and "delta" in str(refused) and "left out" in str(refused)
                if spare is None and not private:
                    return str(refused)
                options = {k: v for k, v in options.items() if not (private and k == "delta")}
                options["bounds"] = {name: ends for name, ends in options["bounds"].items() if name != spare}
            else:
                return ""
    try:
        session.sql(sql)
    except DeniableError as refused:
        return str(refused)
    return ""


def main() -> None:
    lists = {"SmartNoise SQL's tests": SMARTNOISE.strip().splitlines()}
    lists["GoogleSQL's pages"] = google()
    lines, figures = ["# SQL that is understood", "", "Made by `make bench ROOM=language`.", ""], {}
    with tempfile.TemporaryDirectory() as folder:
        ledger = dn.Ledger.create(Path(folder) / "l", unit="pid", budget=dn.ApproxDP(10**24, 0.9))
        with dn.Session(tables(), ledger=ledger) as session:
            for name, forms in lists.items():
                reasons = {sql: run(session, sql) for sql in forms}
                refused = {sql: why for sql, why in reasons.items() if why}
                figures[name] = [len(reasons) - len(refused), len(reasons)]
                lines += [f"## {name}: {len(reasons) - len(refused)} of {len(reasons)} run", ""]
                lines += [f"- `{sql}`: {why}" for sql, why in refused.items()] + [""]
                print(f"{name}: {len(reasons) - len(refused)} of {len(reasons)} run", flush=True)
                for sql, why in refused.items():
                    print(f"  {sql[:150]}\n    {why[:200]}")
    history.keep("language", "\n".join(lines))
    for name, (runs, whole) in figures.items():
        history.add("language", f"forms of {name} that run", runs, f"of {whole}")


if __name__ == "__main__":
    main()
