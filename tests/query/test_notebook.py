"""Plans and releases in a notebook: self-contained, well formed, and nothing that was typed becomes markup."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Session

HOSTILE = "<script>alert('x')</script>"
VOID = {"br", "hr", "line", "circle"}


class Page(HTMLParser):
    """Every tag, its attributes and the text; fails on a tag that is not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    frame = pd.DataFrame({"person": [1, 2, 3], HOSTILE: ["a", HOSTILE, "b"], "cost": [1.0, 2.0, 3.0]})
    with (
        Ledger.create(tmp_path / "t.ledger", unit="person", budget=PureDP(100)) as ledger,
        Session({"t": frame}, ledger=ledger) as found,
    ):
        yield found


@pytest.fixture
def plan(session: Session) -> Callable[..., Any]:
    def made(keys: list[str], **given: Any) -> Any:
        named = '"' + HOSTILE + '"'
        return session.plan(
            f"SELECT {named}, COUNT(*) AS n, AVG(cost) AS mean FROM t GROUP BY {named}",
            epsilon=1,
            keys={HOSTILE: keys},
            bounds={"cost": (0, 5)},
            per_unit=AtMost(groups=1, rows=1),
            **given,
        )

    return made


def test_views_are_whole_and_harmless(plan: Callable[..., Any]) -> None:
    planned = plan(["a", HOSTILE], diagnose=0.1)
    release = planned.run()
    for text in (planned._repr_html_(), plan(["a"])._repr_html_(), release._repr_html_()):
        page = Page(text)
        assert not {"script", "link", "img", "iframe", "style"} & set(page.tags)
        assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href")]
        assert HOSTILE in "".join(page.text), "shown as text"
    assert page.tags.count("svg") == 4, "a bar for every value of the release"


def test_a_release_shows_what_it_prints(plan: Callable[..., Any]) -> None:
    release = plan(["a", "b"], diagnose=0.1).run()
    text = "".join(Page(release._repr_html_()).text)
    for row in release.rows:
        assert str(row["n"].value) in text
        assert f"{row['n'].low} to {row['n'].high}" in text
    for name, fact in release.facts:
        assert name in text
        assert fact in text
    assert "privacy noise and limits, for all but at most" in text


def test_a_plan_shows_what_it_prints(plan: Callable[..., Any]) -> None:
    planned = plan(["a", "b"], diagnose=0.1)
    text = " ".join(Page(planned._repr_html_()).text)
    for part in ("ε ≤ 1.00, δ = 0, one person added or removed", "COUNT(*)", "in a group of 1,000 values", "WITH base"):
        assert part in text


def test_many_rows_are_cut(plan: Callable[..., Any]) -> None:
    release = plan([str(i) for i in range(100)]).run()
    assert "… and 40 more rows" in release._repr_html_()
    assert release._repr_html_().count("<svg") == 120
