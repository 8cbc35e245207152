"""The report as a person sees it: in a browser, at phone and desktop width."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deniable.events import Claimed, DiscreteLaplace, Event, Gaussian, Laplace
from deniable.explaining.report import Entry, Report, edge_sentences
from deniable.guarantees import ApproxDP, PureDP
from deniable.units import Unit
from tests.explaining.looking import OUTSIDE, OVERLAPS, REPORT, WIDTHS, keep

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


CONSISTENT = replace(REPORT, verdict="consistent", by=None, lower=0.31, curve=())


def _report() -> Report:
    entries = [
        Entry(f"2026-11-{day:02d}T09:00:00Z", "ann", f"visits by city, week {day}", DiscreteLaplace(8, sensitivity=4))
        for day in range(1, 15)
    ]
    entries.append(Entry("2026-11-14T10:00:00Z", None, "model", Gaussian(4).sampled(rate=0.01) * 100))
    return Report.about(
        ApproxDP(3, 1e-6, unit="patient_id"),
        entries=entries,
        audits=[CONSISTENT],
        curator="a hospital",
        use="<planning>",
    )


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page, _ = _report().write(tmp_path_factory.mktemp("report") / "report.html")
    return page


def _open(browser: Browser, file: Path, width: int) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(file.as_uri())
    return page


@pytest.mark.parametrize("device", WIDTHS)
def test_nothing_overflows_or_overlaps(browser: Browser, page_file: Path, device: str) -> None:
    page = _open(browser, page_file, WIDTHS[device])
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[device]
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(OUTSIDE) == []
    keep(page, f"report-{device}")
    page.close()


def test_the_page_asks_nobody(browser: Browser, page_file: Path) -> None:
    asked: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    assert asked == [page_file.as_uri()]
    assert page.evaluate("document.scripts.length") == 0
    page.close()


def test_the_page_says_what_it_must(page_file: Path) -> None:
    text = page_file.read_text(encoding="utf-8")
    for expected in (
        "ε ≤ 3.00, δ = 1e-6, one patient added or removed",
        "a hospital",
        "&lt;planning&gt;",
        "visits by city, week 14",
        "DiscreteLaplace(scale=8, sensitivity=4)",
        "consistent",
        "Which records were sampled must stay secret",
        "one in 1,000",
    ):
        assert expected in text
    assert "<planning>" not in text


def test_the_registry_entry() -> None:
    found = json.loads(json.dumps(_report().to_registry()))
    assert found["curator"] == "a hospital"
    assert found["unit"] == {"column": "patient_id", "noun": "patient"}
    assert found["relation"] == "ADD_REMOVE"
    assert found["parameters"] == {"epsilon": "3", "delta": "1e-06"}
    assert found["releases"] == 15
    assert found["audits"] == 1
    assert found["implementation"]["name"] == "deniable"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Claimed(PureDP(1)), "whoever made it"),
        ((Gaussian(1).sampled(rate=0.1) * 3) + Laplace(1), "sampled must stay secret"),
        (Gaussian(1), "floating point"),
    ],
)
def test_edges_are_those_that_were_met(event: Event, words: str) -> None:
    assert any(words in line for line in edge_sentences([event], Unit.of("patient_id")))
    assert edge_sentences([DiscreteLaplace(1)], Unit.of("patient_id")) == []
    assert len(edge_sentences([DiscreteLaplace(1)], Unit.of("row"))) == 1


def test_a_refuted_audit_says_so_first(tmp_path: Path) -> None:
    page, _ = Report.about(REPORT).write(tmp_path / "audit.html")
    text = page.read_text(encoding="utf-8")
    assert "Refuted: ε ≤ 1.00" in text
    assert text.index("has refuted this promise") < text.index("possible reports would lead")
    assert "audited: ε ≥ 1.50 at δ = 0" in text
