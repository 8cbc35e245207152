"""A small publication for the tests: its TOML in parts, a folder with its data, and its ledger's charges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deniable.guarantees import ApproxDP
from deniable.ledger import Ledger
from deniable.query import Publication

HEAD = """
title = "Visits, 2026"
ledger = "hospital.ledger"
epsilon = 1
[data]
visits = "visits.csv"
"""
ALL = """
[tables.all]
sql = "SELECT COUNT(*) AS n FROM visits"
per_unit = {groups = 1, rows = 2}
weight = 3
"""
CITIES = """
[tables.by_city]
title = "Costs by city"
sql = '''
SELECT city, SUM(cost) AS total
FROM visits GROUP BY city'''
keys.city = "cities.txt"
bounds.cost = [0, 0.5]
per_unit = {groups = 2, rows = 2}
"""
EXACT = """
[tables.exact]
sql = "SELECT COUNT(*) AS n FROM visits"
per_unit = {groups = 1, rows = 1}
error = 30
"""


@pytest.fixture(name="home")
def _home(tmp_path: Path) -> Path:
    (tmp_path / "visits.csv").write_text("patient_id,city,cost\n1,Bern,0.25\n1,Basel,7\n2,Bern,0.5\n", encoding="utf-8")
    (tmp_path / "cities.txt").write_text("Bern\nBasel\n", encoding="utf-8")
    Ledger.create(tmp_path / "hospital.ledger", unit="patient_id", budget=ApproxDP(3, 1e-6)).close()
    return tmp_path


@pytest.fixture(name="publication")
def _publication(home: Path) -> Iterator[Callable[[str], Publication]]:
    opened: list[Publication] = []

    def read(text: str) -> Publication:
        (home / "tables.toml").write_text(text, encoding="utf-8")
        opened.append(Publication.read(home / "tables.toml"))
        return opened[-1]

    yield read
    for each in opened:
        each.close()


def charges(home: Path, name: str = "hospital.ledger") -> list[Any]:
    with Ledger.open(home / name) as ledger:
        return list(ledger.charges())
