"""The dashboard of a ledger: what it says, what it leaves out, and how it looks on a phone and in the dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import deniable as dn
from deniable.events import DiscreteLaplace, Gaussian
from deniable.explaining.dashboard import dashboard_page
from tests.explaining.looking import OUTSIDE, OVERLAPS, WIDTHS, keep

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EVIL = "<script>alert('x')</script>&\"'"
QUERY = "SELECT city, COUNT(*) FROM visits WHERE name = 'Ann' GROUP BY city"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a ledger with two analysts, a query and somebody's script."""
    file = tmp_path_factory.mktemp("dashboard") / "visits.ledger"
    with dn.Ledger.create(file, unit="patient_id", budget=dn.ApproxDP(3, 1e-6)) as ledger:
        ledger.allot("ada", epsilon=1, delta=1e-7)
        ledger.allot("ben", epsilon=1)
        for number in range(40):
            ledger.charge(DiscreteLaplace(scale=100), purpose=f"visits by ward, week {number}", who="ada")
        ledger.charge(DiscreteLaplace(scale=20), purpose=QUERY, who="ben")
        ledger.charge(DiscreteLaplace(scale=200), purpose=EVIL, who="ben")
        return dashboard_page(ledger)


def test_it_says_what_is_left_and_who_charged(text: str) -> None:
    assert "<h1>Budget of visits</h1>" in text
    assert "ε ≤ 3.00, δ = 1e-6, one patient added or removed" in text
    assert "% of the budget is left" in text
    assert re.search(r'<td class="by">ada</td><td class="short">40</td>', text)
    assert re.search(r'<td class="by">ben</td><td class="short">2</td>', text)
    assert "12 earlier charges are not listed" in text
    assert "default-src 'none'" in text


def test_nothing_that_others_wrote_becomes_markup_and_queries_are_redacted(text: str) -> None:
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "Ann" not in text
    assert "WHERE … = …" in text


def test_an_empty_ledger_has_a_page(tmp_path: Path) -> None:
    with dn.Ledger.create(tmp_path / "new.ledger", unit="row", budget=dn.PureDP(1)) as ledger:
        page = dashboard_page(ledger, title="Ours")
    assert "<h1>Ours</h1>" in page
    assert "Nothing was charged yet." in page
    assert "100 % of the budget is left" in page


@pytest.mark.parametrize("budget", [dn.GDP(1), dn.ZCDP(0.5), dn.PureDP(2)])
def test_every_kind_of_budget(tmp_path: Path, budget: dn.guarantees.Guarantee) -> None:
    with dn.Ledger.create(tmp_path / "a.ledger", unit="row", budget=budget) as ledger:
        event = DiscreteLaplace(scale=10) if isinstance(budget, dn.PureDP) else Gaussian(scale=20)
        ledger.charge(event, purpose="one")
        assert "more questions like the last one" in dashboard_page(ledger)


def test_many_days_become_months(tmp_path: Path) -> None:
    from collections import Counter

    from deniable.explaining.dashboard import _by_month

    days = Counter({f"2026-{month:02d}-{day:02d}": 1 for month in (1, 2, 3) for day in range(1, 29)})
    assert _by_month(days) == {"2026-01": 28, "2026-02": 28, "2026-03": 28}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", WIDTHS)
def test_the_dashboard_in_a_browser(browser: Browser, text: str, device: str, scheme: str) -> None:
    page = browser.new_page(viewport={"width": WIDTHS[device], "height": 900}, color_scheme=scheme)
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.set_content(text)
    assert errors == []
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[device]
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(OUTSIDE) == []
    keep(page, f"dashboard-{scheme}-{device}")
    page.close()
