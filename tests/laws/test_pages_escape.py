"""Whatever a name, a purpose or a key holds, the markup of every page, view and picture is the same.

A page made with a hostile text has the tags of the page made with a plain word, and no character that acts.
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import deniable as dn
from deniable.accounting.closed import ResponseCurve
from deniable.auditing.replay import Finding
from deniable.descriptions import Description
from deniable.events import Laplace
from deniable.explaining import plots
from deniable.explaining.figures import BarFigure, FigureLine, IconFigure, Interval, IntervalFigure, LineFigure
from deniable.explaining.report import Entry, Report
from deniable.explaining.svg import render
from deniable.explaining.writers import Participant
from deniable.ledger import Charge, Ledger
from deniable.query import AtMost, Publication, Session
from deniable.units import Unit
from tests.explaining.looking import REPORT
from tests.laws.hostile_texts import TEXTS, Structure, assert_plain

SOURCE = Path(__file__).parents[2] / "src" / "deniable"
PLAIN = "word"


@pytest.fixture(autouse=True, scope="module")
def curves() -> Iterator[None]:
    """Pages differ by their words alone: the numbers of a curve are computed once for all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResponseCurve, "epsilon_bracket", cache(ResponseCurve.epsilon_bracket))
        yield


def unit(text: str) -> Unit:
    return Unit(column=text, noun=text)


def fresh(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


class Record:
    """A ledger that somebody filled with hostile purposes, whatever ledgers refuse by now."""

    def __init__(self, text: str, folder: Path) -> None:
        folder = fresh(folder)
        with Ledger.create(folder / "a.ledger", unit="row", budget=dn.PureDP(9)) as ledger:
            charge = ledger.charge(Laplace(scale=9), purpose=PLAIN, who=None)
            self.charge: Charge = charge._replace(purpose=text, who=text)
            self.description = replace(ledger.describe(), title=f"ledger {text}", facts=((text, text),))

    def describe(self) -> Description:
        return self.description

    def charges(self) -> list[Charge]:
        return [self.charge] * 3


def guarantee(text: str, _: Path) -> Any:
    return dn.PureDP(1, unit=unit(text))


def event(text: str, _: Path) -> Any:
    return dn.events.Claimed(dn.PureDP(1, unit=unit(text)))


def curve(text: str, _: Path) -> Any:
    return dn.account(Laplace(scale=1), unit=unit(text))


def ledger(text: str, folder: Path) -> Any:
    class View:
        def _repr_html_(self) -> Any:
            from deniable.explaining import views

            return views.html(Record(text, folder))

        __str__ = Record(text, folder).describe().__str__

    return View()


def description(text: str, _: Path) -> Any:
    return Description(text, dn.PureDP(1, unit=unit(text)), ((text, text),))


def training(text: str, _: Path) -> Any:
    target = dn.ApproxDP(3, 1e-5, unit=unit(text))
    return dn.deep.Plan(size=60, batch=60, epochs=3, clip=1.0, target=target, unit=unit(text))


def audit(text: str, _: Path) -> Any:
    finding = (Finding(text, text),)
    return replace(REPORT, claim=text, attack=text, pair=text, findings=finding, crashes=((text, 1, 2),), by=text)


def explanation(text: str, _: Path) -> Any:
    return dn.explain(dn.PureDP(1, unit=unit(text)), reader=Participant(observer=text, belief=text))


def _column(text: str) -> str:
    """The text as an engine takes it for the name of a column."""
    return text.replace("\0", "").replace("\n", " ").encode("utf-8", "replace").decode()


def _session(text: str, folder: Path) -> Session:
    ledger = Ledger.create(fresh(folder) / "q.ledger", unit="person", budget=dn.PureDP(100))
    frame = pd.DataFrame({"person": [1, 2], _column(text): ["a", "b"], "cost": [1.0, 2.0]})
    return Session({"t": frame}, ledger=ledger)


def _plan(text: str, folder: Path) -> Any:
    column = _column(text)
    name, key = column.replace('"', '""'), text.replace("\0", "").encode("utf-8", "replace").decode()
    return _session(text, folder).plan(
        f'SELECT "{name}", SUM(cost) AS "s{name}" FROM t GROUP BY "{name}"',
        epsilon=1, bounds={"cost": (0, 1)}, keys={column: [key, "a"]}, per_unit=AtMost(groups=1, rows=1),
    )  # fmt: skip


def query_plan(text: str, folder: Path) -> Any:
    return _plan(text, folder)


def release(text: str, folder: Path) -> Any:
    return _plan(text, folder).run()


def staged_plan(text: str, folder: Path) -> Any:
    session = _session(text, folder)
    return session.plan("SELECT SUM(cost) AS s FROM t", epsilon=1, bounds="private", per_unit=AtMost(groups=1, rows=1))


def _wide_session(text: str, folder: Path) -> Session:
    ledger = Ledger.create(fresh(folder) / "w.ledger", unit="person", budget=dn.ApproxDP(100, 1e-3))
    return Session({"t": pd.DataFrame({"person": [1, 2], "city": ["a", "b"], "ward": ["x", "y"]})}, ledger=ledger)


def _columns(text: str) -> dict[str, Any]:
    key = text.replace("\0", "").encode("utf-8", "replace").decode()
    columns = {"city": ["a", key], "ward": ["x", "y"]}
    return {"columns": columns, "epsilon": 5, "per_unit": AtMost(groups=1, rows=1)}


def marginals(text: str, folder: Path) -> Any:
    """The categories are typed by the caller, so they may be any text."""
    return _wide_session(text, folder).marginals("t", ["city"], **_columns(text)).run()


def synthetic_table(text: str, folder: Path) -> Any:
    return _wide_session(text, folder).synthesize("t", **_columns(text), rows=20).run()


def publication(text: str, folder: Path) -> Any:
    folder = fresh(folder)
    Ledger.create(folder / "p.ledger", unit="person", budget=dn.PureDP(100)).close()
    (folder / "t.csv").write_text("person,cost\n1,2\n", encoding="utf-8")
    title = text.encode("utf-8", "replace").decode()
    quoted = '"' + "".join(f"\\U{ord(each):08x}" for each in title) + '"'
    (folder / "tables.toml").write_text(
        f'title = {quoted}\nledger = "p.ledger"\nepsilon = 1\n[data]\nt = "t.csv"\n[tables.a]\ntitle = {quoted}\n'
        'sql = "SELECT COUNT(*) AS n FROM t"\nper_unit = {groups = 1, rows = 1}\n',
        encoding="utf-8",
    )
    return Publication.read(folder / "tables.toml")


def remote_plan(text: str, _: Path) -> Any:
    """What a service sends, which may be another's; the lines of a plan's text are its own."""
    from deniable.service.client import RemotePlan

    summary = {"cost": dn.PureDP(1).to_dict(), "error": {text: text}, "plan": text, "sql": text}
    return RemotePlan(None, {}, summary | {"text": text.replace("\n", " ")})  # type: ignore[arg-type]


VIEWS: dict[str, Callable[[str, Path], Any]] = {
    "Guarantee": guarantee,
    "Event": event,
    "Profile": curve,
    "LedgerRecord": ledger,
    "Description": description,
    "Plan": training,
    "AuditReport": audit,
    "Explanation": explanation,
    "QueryPlan": query_plan,
    "StagedPlan": staged_plan,
    "Release": release,
    "Publication": publication,
    "MarginalsRelease": marginals,
    "SyntheticTable": synthetic_table,
    "RemotePlan": remote_plan,
}


def test_every_view_is_listed() -> None:
    """Classes with a view of their own, or that of `_notebook.Shown`."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name != "Shown":
                own = any(isinstance(each, ast.FunctionDef) and each.name == "_repr_html_" for each in node.body)
                if own or any(ast.unparse(base) == "Shown" for base in node.bases):
                    found.add(node.name)
    assert found == set(VIEWS)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_words_as_words(name: str, tmp_path: Path) -> None:
    expected = Structure(VIEWS[name](PLAIN, tmp_path)._repr_html_()).found
    assert len(expected) > 1
    for label, text in TEXTS.items():
        shown = VIEWS[name](text, tmp_path)
        view = shown._repr_html_()
        assert Structure(view).found == expected, label
        assert_plain(view)
        assert_plain(str(shown))


@pytest.mark.parametrize("about", ["ledger", "audit"])
def test_a_report_shows_words_as_words(about: str, tmp_path: Path) -> None:
    def page(text: str) -> str:
        record = Record(text, tmp_path)
        entries = [Entry(charge.time, charge.who, charge.purpose, charge.event) for charge in record.charges()]
        what = record if about == "ledger" else audit(text, tmp_path)
        made = Report.about(what, entries=entries, audits=[audit(text, tmp_path)], curator=text, use=text)
        out = tmp_path / "page.html"
        written, entry = made.write(out, overwrite=True)
        assert_plain(entry.read_text(encoding="utf-8"))
        return written.read_text(encoding="utf-8")

    expected = Structure(page(PLAIN)).found
    for label, text in TEXTS.items():
        shown = page(text)
        assert Structure(shown).found == expected, label
        assert_plain(shown)


FIGURES: dict[str, Callable[[str], Any]] = {
    "lines": lambda text: LineFigure(text, text, text, (FigureLine(text, (0, 1), (0, 1)),), text),
    "icons": lambda text: IconFigure(text, ((text, 0.3), (text, 0.4)), text),
    "intervals": lambda text: IntervalFigure(text, text, (Interval(text, 1, 0, 2),), text),
    "bars": lambda text: BarFigure(text, text, ((text, 3), (text, 4)), text),
}


@pytest.mark.parametrize("kind", FIGURES)
def test_a_picture_shows_words_as_words(kind: str) -> None:
    from xml.etree import ElementTree

    expected = Structure(render(FIGURES[kind](PLAIN))).found
    for label, text in TEXTS.items():
        picture = render(FIGURES[kind](text))
        assert Structure(picture).found == expected, label
        assert_plain(picture)
        ElementTree.fromstring(picture)


@pytest.mark.parametrize("kind", FIGURES)
@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")
def test_matplotlib_draws_any_words(kind: str, tmp_path: Path) -> None:
    for text in TEXTS.values():
        plots.save(FIGURES[kind](text), tmp_path / "a.svg", overwrite=True)
        drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
        assert "<script>alert" not in re.sub(r"<!--.*?-->", "", drawn, flags=re.DOTALL)


def test_the_method_note_holds_words_as_words(tmp_path: Path) -> None:
    """No HTML, no link, no image, and no new line by somebody else's words."""

    def note(text: str) -> list[str]:
        with publication(text, tmp_path) as made:
            out = made.write(fresh(tmp_path) / "release")
        assert_plain((out / "release.json").read_text(encoding="utf-8"))
        return (out / "METHOD.md").read_text(encoding="utf-8").splitlines()

    expected = note(PLAIN)
    for label, text in TEXTS.items():
        lines = note(text)
        assert len(lines) == len(expected), label
        assert_plain("\n".join(lines))
        whole = "\n".join(lines)
        assert not re.search(r"(?<!\\)<", whole), label
        assert "](" not in whole, label


def test_one_module_escapes_for_pages() -> None:
    # The service's templates escape by themselves (tests/service/test_pages.py); what they are given is marked there.
    others = {SOURCE / "_escapes.py", SOURCE / "service" / "rendering.py"}
    for path in SOURCE.rglob("*.py"):
        if path not in others:
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"\bhtml\.escape\b|from html import|\bsaxutils\b|\bmarkupsafe\b", text), path
