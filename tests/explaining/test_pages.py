"""The report as a person sees it: in a browser, at phone and desktop width."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deniable.events import Claimed, DiscreteLaplace, Event, Gaussian, Laplace
from deniable.explaining.redaction import redact
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
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    return page


@pytest.mark.parametrize("device", WIDTHS)
def test_the_folded_page_and_the_dark_one(browser: Browser, page_file: Path, device: str) -> None:
    page = browser.new_page(viewport={"width": WIDTHS[device], "height": 900}, color_scheme="dark")
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[device]
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 23, 27)"
    assert not page.get_by_text("each charged before it was computed").is_visible()
    keep(page, f"report-dark-{device}")
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelectorAll('details[open]').length") == 1
    page.close()


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


QUERY = "SELECT city, COUNT(*) AS n FROM visits WHERE name = 'Ann Müller' AND \"secret col\" > 61.5 GROUP BY city"


def test_names_and_values_of_queries_are_left_out() -> None:
    entries = [Entry("2026-11-14T10:00:00Z", None, QUERY, DiscreteLaplace(8))]
    page = Report.about(ApproxDP(3, 1e-6, unit="patient_id"), entries=entries).to_html()
    for word in ("Ann", "Müller", "secret", "61.5", "visits", "city"):
        assert word not in page
    assert "counts from a table" in page
    assert "WHERE … = … AND … &gt; … GROUP BY …" in page
    full = Report.about(ApproxDP(3, 1e-6, unit="patient_id"), entries=entries, show_queries=True).to_html()
    assert "Ann Müller" in full


@pytest.mark.parametrize(
    "purpose",
    [
        "select 'it''s' as x from a -- Ann\n where 1e5=0x1F",
        "SELECT/*Ann*/'Ann",
        '(SELECT "Ann',
        "with Ann as (select 1) select `Ann`, $Ann, @Ann, Ann::text, [Ann], {Ann}, Ann\u0301, «Ann» from Ann",
        "SELECT E'\\'Ann' FROM x",
    ],
)
def test_nothing_of_a_query_slips_through(purpose: str) -> None:
    told = redact(purpose)
    assert "Ann" not in told
    assert not re.search(r"\d", told)
    assert set(re.findall(r"\w+", told.replace("…", " "))) <= {"SELECT", "AS", "FROM", "WHERE", "WITH"}


def test_a_purpose_in_words_is_not_a_query() -> None:
    assert redact("with care: visits of 2026") != "with care: visits of 2026"  # it might be one
    assert redact("selection of visits") == "selection of visits"


def test_the_page_opens_with_words_and_loads_nothing(page_file: Path) -> None:
    text = page_file.read_text(encoding="utf-8")
    assert text.index("<main>") < text.index("<h1>How one patient is protected") < text.index("random noise")
    assert text.index("possible reports") < text.index("What was published") < text.index("<summary>Technical")
    assert "default-src 'none'" in text
    assert text.count("DiscreteLaplace(scale=8, sensitivity=4)") == 14
    sentences = re.findall(r"<p>(.*?)</p>", re.sub("<code>.*?</code>", "", text))
    assert len(sentences) == len(set(sentences))  # nothing is said twice
    assert text.count("<th ") == text.count('<th scope="')


def test_the_datasheet_answers_every_question() -> None:
    sheet = _report().datasheet()
    assert len(sheet) == 17
    assert all(question.endswith("?") and answer.endswith((".", ")")) for question, answer in sheet)
    assert ("How many releases does it cover so far?", "15, each charged before it was computed.") in sheet
    assert any("Gaussian" in answer and "DiscreteLaplace" in answer for _, answer in sheet)


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
