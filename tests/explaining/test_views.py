"""What a notebook shows: every central object, escaped, with words for every picture, at phone and desktop width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import deniable as dn
from deniable.descriptions import Description
from deniable.events import DiscreteLaplace, Event, Gaussian, Laplace
from deniable.explaining import views
from tests.explaining.looking import OUTSIDE, OVERLAPS, REPORT, WIDTHS, keep

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>&\"'"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[dn.Ledger]:
    """A ledger with a few charges."""
    with dn.Ledger.create(tmp_path / "visits.ledger", unit="patient_id", budget=dn.ApproxDP(3, 1e-6)) as made:
        made.charge(DiscreteLaplace(scale=16, sensitivity=8, coordinates=2), purpose="visits by city", who="ann")
        made.charge(DiscreteLaplace(scale=20, sensitivity=8), purpose="visits by ward", who="ben")
        made.charge(Gaussian(scale=20), purpose="model of returns")
        yield made


@pytest.fixture
def evil(tmp_path: Path) -> Iterator[dn.Ledger]:
    """A ledger in which somebody wrote what they should not."""
    with dn.Ledger.create(tmp_path / "evil.ledger", unit="patient_id", budget=dn.ApproxDP(3, 1e-6)) as made:
        for number in range(12):
            made.charge(DiscreteLaplace(scale=100), purpose=f"{EVIL} {number}", who=EVIL)
        yield made


def shown(ledger: dn.Ledger) -> dict[str, Any]:
    """One of each kind."""
    return {
        "a guarantee": dn.PureDP(0.5, unit="patient_id"),
        "a Gaussian promise": dn.GDP(1),
        "an event": Laplace(scale=2) * 3,
        "a curve": dn.account(Gaussian(scale=1)),
        "a ledger": ledger,
        "a training plan": dn.deep.Plan(size=600, batch=60, epochs=3, clip=1.0, target=dn.ApproxDP(3, 1e-5)),
        "an audit": REPORT,
        "an explanation": dn.explain(dn.PureDP(1), prior=0.1),
        "a description": ledger.describe(),
    }


@pytest.mark.parametrize("device", WIDTHS)
def test_views_in_a_browser(browser: Browser, ledger: dn.Ledger, device: str) -> None:
    page = browser.new_page(viewport={"width": WIDTHS[device], "height": 900})
    found = shown(ledger)
    cells = [f"<h3>{name}</h3><div id='{name[-5:]}'>{thing._repr_html_()}</div>" for name, thing in found.items()]
    page.set_content(f"<!doctype html><body style='margin:1rem'>{'<hr>'.join(cells)}")
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[device]
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(OUTSIDE) == []
    assert page.locator("svg[role=img]").count() >= 2 * len(found) - 2, "two each, and one of two of them"
    keep(page, f"notebook-{device}")
    if device == "desktop":
        keep(page.locator("#audit"), "audit")
    page.close()


def test_names_and_purposes_are_escaped(browser: Browser, evil: dn.Ledger) -> None:
    view = evil._repr_html_()
    assert view is not None
    page = browser.new_page()
    alarms: list[str] = []
    page.on("dialog", lambda dialog: (alarms.append(dialog.message), dialog.dismiss()))
    page.set_content(view)
    assert page.evaluate("document.scripts.length + document.images.length") == 0
    assert alarms == []
    page.close()
    assert "<script" not in view
    assert "<img" not in view
    assert view.count("&lt;script&gt;") >= 10
    assert "2 earlier charges are not shown" in view
    nasty = views.html(Description(EVIL, dn.PureDP(1), ((EVIL, EVIL),)))
    assert nasty is not None
    assert "<script" not in nasty
    assert "<img" not in nasty


def test_every_picture_of_a_view_has_words(ledger: dn.Ledger) -> None:
    for name, thing in shown(ledger).items():
        view = thing._repr_html_()
        pictures = view.count('role="img"')
        assert pictures, name
        assert len(re.findall(r"<title>[^<]+</title><desc>[^<]+</desc>", view)) == pictures, name


def test_a_view_says_what_is_promised(ledger: dn.Ledger) -> None:
    said = {name: thing._repr_html_() for name, thing in shown(ledger).items()}
    assert "ε ≤ 0.50, δ = 0, one patient added or removed" in said["a guarantee"]
    assert "Laplace(scale=2) * 3" in said["an event"]
    assert "ε ≤ 3.00, δ = 1e-6, one patient added or removed" in said["a ledger"]
    assert "An audit: refuted" in said["an audit"]
    assert "audited: ε ≥ 1.50 at δ = 0" in said["an audit"]


def test_what_cannot_be_accounted_is_left_to_its_text() -> None:
    class Unheard(Event):
        @property
        def relation(self) -> dn.Relation:
            return dn.ADD_REMOVE

    try:
        assert Unheard()._repr_html_() is None
    finally:
        del Event.registry["Unheard"]


def test_a_view_is_opened_when_a_notebook_asks_and_not_before() -> None:
    import subprocess
    import sys

    code = (
        "import sys, deniable as dn; p = dn.PureDP(1); assert 'deniable.explaining' not in sys.modules;"
        "p._repr_html_(); assert 'deniable.explaining.views' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("body", "system", "ink"),
    [
        ("<body>", "light", "rgb(27, 27, 31)"),
        ("<body>", "dark", "rgb(236, 236, 241)"),
        ("<body data-jp-theme-light='false'>", "light", "rgb(236, 236, 241)"),
        ("<body data-jp-theme-light='true'>", "dark", "rgb(27, 27, 31)"),
        ("<body class='vscode-dark'>", "light", "rgb(236, 236, 241)"),
        ("<body class='vscode-light'>", "dark", "rgb(27, 27, 31)"),
    ],
)
def test_pictures_follow_the_theme_of_the_notebook(browser: Browser, body: str, system: str, ink: str) -> None:
    page = browser.new_page(color_scheme=system)
    page.set_content(f"<!doctype html>{body}{dn.PureDP(1)._repr_html_()}")
    assert page.evaluate("getComputedStyle(document.querySelector('.dn-picture text')).fill") == ink
    page.close()
