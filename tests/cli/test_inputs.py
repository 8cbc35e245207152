"""Files at the command line: folders, patterns, encodings, `deniable convert`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

ASK = ["--epsilon", "0.1", "--groups-per-unit", "1", "--rows-per-unit", "1", "--ledger", "hospital.ledger"]


@pytest.fixture(name="years")
def _years(hospital: Callable) -> Callable:
    """A folder of two files, in the encoding of Windows."""
    Path("years").mkdir()
    for year in (2025, 2026):
        Path(f"years/{year}.csv").write_bytes(f"patient_id,city\np{year},Zürich\n".encode("cp1252"))
    return hospital


@pytest.mark.parametrize(("place", "table"), [("years", "years"), ("years/*.csv", "years"), ("visits=years", "visits")])
def test_several_files(years: Callable, place: str, table: str) -> None:
    ran = years("query", place, f"SELECT COUNT(*) AS n FROM {table}", "--encoding", "cp1252", *ASK)
    assert ran.code == 0, ran.err
    assert "n_low" in ran.out.splitlines()[0]


def test_another_encoding(years: Callable) -> None:
    ran = years("query", "years", "SELECT COUNT(*) AS n FROM years", *ASK)
    assert ran.code == 1
    assert ran.err == (
        "deniable: 2025.csv, line 2: bytes that are not UTF-8; if the file is in another encoding, say so: "
        "--encoding cp1252\n"
    )
    ran = years("query", "years", "SELECT COUNT(*) AS n FROM years", "--encoding", "utf-7", *ASK)
    assert (ran.code, ran.out) == (1, "")
    assert "an encoding of text that Python knows" in ran.err


def test_convert(years: Callable) -> None:
    words = ["convert", "years", "all.parquet", "--encoding", "cp1252"]
    ran = years(*words)
    assert (ran.code, ran.out, ran.err) == (0, "all.parquet: written\n", "")
    assert years("query", "all.parquet", "SELECT COUNT(*) AS n FROM all", *ASK).code == 1, "ALL is a word of SQL"
    assert (
        years("query", "visits=all.parquet", "SELECT COUNT(*) AS n FROM visits WHERE city = 'Zürich'", *ASK).code == 0
    )
    again = years(*words)
    assert again.code == 1
    assert (
        again.err
        == "deniable: all.parquet exists already; nothing was written. Choose another name, or give --force.\n"
    )
    ran = years(*words, "--force", "--json")
    assert (ran.code, json.loads(ran.out)) == (0, {"file": "all.parquet"})


def test_convert_refuses_a_file_with_its_line(years: Callable) -> None:
    Path("stray.csv").write_text('patient_id,note\n1,a 5" SECRET\n')
    ran = years("convert", "stray.csv", "out.parquet")
    assert ran.code == 1
    assert ran.err.startswith("deniable: stray.csv, line 2: a quote stands inside a field")
    assert "SECRET" not in ran.err
    assert not Path("out.parquet").exists()


def test_a_publication_of_several_files(years: Callable) -> None:
    for given in ('"years"', '"years/*.csv"', '["years/2025.csv", "years/2026.csv"]'):
        Path("tables.toml").write_text(
            f"""
ledger = "hospital.ledger"
epsilon = 0.1
encoding = "cp1252"
[data]
visits = {given}
[tables.n]
sql = "SELECT COUNT(*) AS n FROM visits WHERE city = 'Zürich'"
per_unit = {{groups = 1, rows = 1}}
""",
            encoding="utf-8",
        )
        ran = years("publish", "tables.toml", "--out", "release", "--dry-run")
        assert ran.code == 0, ran.err
    text = Path("tables.toml").read_text(encoding="utf-8").replace('encoding = "cp1252"', "")
    Path("tables.toml").write_text(text, encoding="utf-8")
    ran = years("publish", "tables.toml", "--out", "release", "--dry-run")
    assert ran.code == 1
    assert (
        'line 2: bytes that are not UTF-8; if the file is in another encoding, say so: encoding = "cp1252"' in ran.err
    )
