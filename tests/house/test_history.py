"""The history of benchmarks: figures are added and never lost, and the page shows what the history holds."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench import history

ROOT = Path(__file__).parents[2]
BENCHES = sorted(
    path.stem for path in (ROOT / "bench").glob("*.py") if path.stem not in ("deep_models", "history", "__init__")
)
FIRST = history.Figure("2026-01-01T00:00Z", "abc", "a machine", "noise", "laplace 1", 30.0, "M/s", "OpenDP", 100.0)


def test_every_line_of_the_history_is_a_figure() -> None:
    figures = history.read()
    assert len(figures) > 100
    for figure in figures:
        assert datetime.fromisoformat(figure.date) < datetime.now(UTC)
        assert figure.bench in BENCHES
        assert figure.machine
        assert (figure.peer is None) == (figure.ratio is None)
    names = [(figure.date, *figure.name) for figure in figures]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("bench", BENCHES)
def test_every_bench_adds_to_the_history(bench: str) -> None:
    text = (ROOT / "bench" / f"{bench}.py").read_text(encoding="utf-8")
    assert f'history.add("{bench}", ' in text or re.search(rf'history\.add\(\s*"{bench}", ', text)
    assert "write_text(text" not in text.replace("given.out.write_text(text)", ""), "history.keep overwrites nothing"


def test_figures_are_added_after_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(asdict(FIRST)) + "\n", encoding="utf-8")
    added = history.add("noise", "laplace 1", 31.23456, "M/s", peer="OpenDP", ratio=2 / 3, path=path)
    assert history.read(path) == [FIRST, added]
    assert (added.value, added.ratio) == (31.23, 0.6667)
    assert "core" in added.machine


def test_a_second_report_of_a_day_replaces_nothing(tmp_path: Path) -> None:
    paths = [history.keep("noise", text, folder=tmp_path) for text in ("one", "two\n", "three")]
    assert [path.read_text(encoding="utf-8") for path in paths] == ["one\n", "two\n", "three\n"]
    assert paths == sorted(paths), "the newest comes last, as tests/docs/test_comparison.py expects"


def test_the_page_shows_the_history() -> None:
    text = history.PAGE.read_text(encoding="utf-8")
    assert history.page(text, history.read()) == text, "run: python bench/history.py --page"
    picture = history.PICTURE.read_text(encoding="utf-8")
    assert all(name in picture for name in history.series(history.read()))


def test_the_table_has_the_newest_figures_only() -> None:
    later = replace(FIRST, date="2026-02-01T00:00Z", value=33.0)
    other = replace(FIRST, metric="gaussian 1", peer=None, ratio=None)
    lines = history.table([FIRST, other, later]).splitlines()[2:]
    assert lines == [
        "| noise | laplace 1 | 33 M/s | OpenDP | 100 | 2026-02-01 |",
        "| noise | gaussian 1 | 30 M/s |  |  | 2026-01-01 |",
    ]


def test_what_a_run_leaves_out_keeps_its_ratio() -> None:
    second = replace(FIRST, metric="laplace 2", ratio=25.0)
    later = replace(FIRST, date="2026-02-01T00:00Z", ratio=400.0)
    (points,) = history.series([FIRST, second, later]).values()
    assert [date for date, *_ in points] == [FIRST.date, later.date]
    assert points[0][1:] == pytest.approx((50.0, 25.0, 100.0))
    assert points[1][1:] == pytest.approx((100.0, 25.0, 400.0))


def test_the_picture_names_every_peer(tmp_path: Path) -> None:
    history.draw([FIRST, replace(FIRST, date="2026-02-01T00:00Z"), replace(FIRST, peer="another")], tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "noise: OpenDP" in text
    assert "noise: another" in text
