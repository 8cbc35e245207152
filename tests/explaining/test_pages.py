"""The report as a person sees it: in a browser, at phone and desktop width."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from deniable.accounting import account
from deniable.accounting.theorems import compare_theorems
from deniable.descriptions import Description
from deniable.events import Claimed, DiscreteLaplace, Event, Gaussian, Laplace
from deniable.explaining import curves
from deniable.explaining.edges import edges_met
from deniable.explaining.figures import Figure, Interval
from deniable.explaining.icons import icon_array
from deniable.explaining.odds import odds
from deniable.explaining.report import Entry, Report
from deniable.explaining.svg import COLOURS, INK, render
from deniable.guarantees import ApproxDP, PureDP
from deniable.units import Unit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PHONE, DESKTOP = 390, 1280

OVERLAPS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg[role=img]")) {
    const boxes = [...svg.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
      const [a, p] = boxes[i], [b, q] = boxes[j];
      const across = p.left < q.right - 1 && q.left < p.right - 1;
      if (across && p.top < q.bottom - 3 && q.top < p.bottom - 3) found.push([a, b]);
    }
  }
  return found;
}"""

OUTSIDE = """() => [...document.querySelectorAll("svg[role=img]")].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter(t => {
    const box = t.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
  }).map(t => t.textContent);
})"""


class _Audit:
    def describe(self) -> Description:
        facts = (("verdict", "consistent"), ("ε ≥", "0.31 at 99 % confidence"))
        return Description("audit of visits by city", PureDP(0.5), facts)


def _report() -> Report:
    entries = [
        Entry(f"2026-11-{day:02d}T09:00:00Z", "ann", f"visits by city, week {day}", DiscreteLaplace(8, sensitivity=4))
        for day in range(1, 15)
    ]
    entries.append(Entry("2026-11-14T10:00:00Z", None, "model", Gaussian(4).sampled(rate=0.01) * 100))
    return Report.about(
        ApproxDP(3, 1e-6, unit="patient_id"), entries=entries, audits=[_Audit()], curator="a hospital", use="<planning>"
    )


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page, _ = _report().write(tmp_path_factory.mktemp("report") / "report.html")
    return page


def _open(browser: Browser, file: Path, width: int) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(file.as_uri())
    return page


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_nothing_overflows_or_overlaps(browser: Browser, page_file: Path, width: int) -> None:
    page = _open(browser, page_file, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(OUTSIDE) == []
    if folder := os.environ.get("DENIABLE_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"report-{width}.png", full_page=True)
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


FIGURES: dict[str, Figure] = {
    "trade-off": curves.tradeoff_figure({"Laplace": account(Laplace(2))}, audited={"Laplace": lambda a: 1 - a}),
    "profile": curves.profile_figure({"Gaussian": account(Gaussian(1))}),
    "belief": curves.belief_figure(account(Gaussian(1))),
    "comparison": curves.comparison_figure(compare_theorems(PureDP(0.1), counts=[1, 10, 100, 1000], delta=1e-3)),
    "charges": curves.charges_figure({f"2026-11-{day:02d}": day for day in range(1, 29)}),
    "values": curves.intervals_figure("visits", [Interval("a long name for a ward <1>", 3, 1, 5)], x_label="visits"),
    "odds": icon_array(odds(account(Laplace(2)))),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_picture_has_words_and_stays_inside(browser: Browser, name: str) -> None:
    drawn = render(FIGURES[name])
    tree = ElementTree.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    assert tree.findtext(f"{space}title") == FIGURES[name].title
    assert (tree.findtext(f"{space}desc") or "") == FIGURES[name].alt != ""
    page = browser.new_page(viewport={"width": PHONE, "height": 800})
    page.set_content(drawn)
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(OUTSIDE) == []
    page.close()


def test_the_icon_array_counts() -> None:
    drawn = render(FIGURES["odds"])
    assert drawn.count(f'fill="{COLOURS[0]}"') == 39 + 61
    part = render(icon_array(odds(account(Laplace(1000)))))
    assert re.findall(r'width="(\d+\.\d+)" height="20"', part)[-1] == "0.36"  # 50.02 of 100: two hundredths of a person


def test_contrast_on_white() -> None:
    """WCAG 2: text and lines at 4.5 to 1 or more."""
    for colour in (*COLOURS, INK):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert 1.05 / (light + 0.05) >= 4.5, colour


def test_the_drawn_trade_off_never_promises_more_than_the_profile() -> None:
    profile = account(Gaussian(1))
    (line, _) = curves.tradeoff_figure({"g": profile}).lines
    for rate, missed in zip(line.xs, line.ys, strict=True):
        assert missed <= profile.tradeoff(rate) + 1e-12
        assert missed >= profile.tradeoff(rate) - 0.02


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Claimed(PureDP(1)), "whoever made it"),
        ((Gaussian(1).sampled(rate=0.1) * 3) + Laplace(1), "sampled must stay secret"),
        (Gaussian(1), "floating point"),
    ],
)
def test_edges_are_those_that_were_met(event: Event, words: str) -> None:
    assert any(words in line for line in edges_met([event], Unit.of("patient_id")))
    assert edges_met([DiscreteLaplace(1)], Unit.of("patient_id")) == []
    assert len(edges_met([DiscreteLaplace(1)], Unit.of("row"))) == 1


@pytest.mark.parametrize("name", FIGURES)
def test_matplotlib_draws_the_same_figures(name: str, tmp_path: Path) -> None:
    from deniable.explaining.plots import save

    save(FIGURES[name], tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000
