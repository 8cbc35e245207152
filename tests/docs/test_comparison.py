"""docs/comparison.md says what was measured: every figure of its tables stands in the newest results of that bench."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
TABLES = re.findall(r"<!-- figures: (\w+) -->\n\n((?:\|.*\n)+)", PAGE)
FIGURE = re.compile(r"\d+\.\d+|\d+(?=×)")


def results(room: str) -> str:
    """The newest results of a bench."""
    return max((ROOT / "bench" / "results").glob(f"{room}-20*.md")).read_text(encoding="utf-8")


def test_there_are_tables() -> None:
    assert {room for room, _ in TABLES} == {"accounting", "noise", "query", "deep", "learning"}


@pytest.mark.parametrize(("room", "table"), TABLES)
def test_every_figure_was_measured(room: str, table: str) -> None:
    body = "\n".join(table.splitlines()[2:])
    figures = set(FIGURE.findall(body))
    assert len(figures) > 5
    assert sorted(figures - set(FIGURE.findall(results(room)))) == []


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(tests/[^`]+)`", PAGE))
    assert named
    assert all((ROOT / path).exists() for path in named)


def test_every_bench_that_is_named_exists() -> None:
    assert all((ROOT / "bench" / f"{room}.py").exists() for room in re.findall(r"make bench ROOM=(\w+)", PAGE))
