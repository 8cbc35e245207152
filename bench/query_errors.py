"""The expected errors of twelve questions, at ε = 1 on a ledger of (10, 1e-6): what the noise does, at 95 %.

    python bench/query_errors.py

Errors of averages and variances are those of groups of 10,000 values, and of medians in ranks. Nothing is charged.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import history
import pandas as pd

import deniable as dn

FRAME = pd.DataFrame({"person": [1, 2], "day": [0, 1], "city": [0, 1], "cost": [10.0, 20.0], "age": [30, 40]})
DAYS, CITIES = {"day": list(range(365))}, {"city": list(range(20))}
YEAR, FEW, MONTH = dn.AtMost(groups=365, rows=1), dn.AtMost(groups=2, rows=4), dn.AtMost(groups=30, rows=2)
QUESTIONS: tuple[tuple[str, str, dict[str, list[int]], dn.AtMost], ...] = (
    ("COUNT(*)", "", {}, dn.AtMost(groups=1, rows=1)),
    ("COUNT(*)", "day", DAYS, YEAR),
    ("COUNT(*)", "day", DAYS, MONTH),
    ("COUNT(*)", "city", CITIES, FEW),
    ("SUM(cost)", "city", CITIES, FEW),
    ("SUM(cost)", "day", DAYS, MONTH),
    ("AVG(cost)", "city", CITIES, FEW),
    ("AVG(cost)", "day", DAYS, MONTH),
    ("SUM(cost) AS s, COUNT(cost)", "city", CITIES, FEW),
    ("COUNT(*) AS n, SUM(cost) AS s, AVG(cost)", "city", CITIES, FEW),
    ("COUNT(*) AS n, SUM(cost) AS s, AVG(cost)", "day", DAYS, MONTH),
    ("MEDIAN(cost)", "day", DAYS, MONTH),
)


def main() -> None:
    """Print one line per question."""
    with tempfile.TemporaryDirectory() as folder:
        dn.Ledger.create(Path(folder) / "ledger", unit="person", budget=dn.ApproxDP(10, 1e-6))
        session = dn.Session({"t": FRAME}, ledger=Path(folder) / "ledger")
        for outputs, group, keys, limits in QUESTIONS:
            select, by = (f"{group}, ", f" GROUP BY {group}") if group else ("", "")
            sql = f"SELECT {select}{outputs} AS x FROM t{by}"
            bounds = {"cost": (0, 1000)} if "cost" in outputs else None
            plan = session.plan(sql, epsilon=1, bounds=bounds, keys=keys or None, per_unit=limits)
            errors = []
            for error in plan.error.values():
                ranks = getattr(error, "ranks", None)
                errors.append(f"{error(10_000):.4g}" if ranks is None else f"{ranks:.4g} in rank")
            what = re.sub(r" AS \w+", "", outputs) + (f" by {group}" if group else "")
            print(f"| {what} | {limits.groups} × {limits.rows} | {'; '.join(errors)} |")
            for name, error in plan.error.items():
                size = getattr(error, "ranks", None) or error(10_000)
                history.add("query_errors", f"{what}, {name}", float(size), "±")
        session.close()


if __name__ == "__main__":
    main()
