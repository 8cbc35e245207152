"""Notebook views of a promise, an event, a curve, a ledger, a training plan or an audit: facts, then pictures.

A view never touches data. Names and purposes are other people's text and are escaped. Pictures have text alternatives.
An object whose cost cannot be computed has no view; the notebook then shows its text.

>>> from deniable.guarantees import PureDP
>>> view = html(PureDP(0.5, unit="patient_id"))
>>> "ε ≤ 0.50, δ = 0, one patient added or removed" in view, view.count('role="img"')
(True, 2)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from deniable._escapes import escape_html
from deniable.errors import DeniableError
from deniable.events import Event
from deniable.explaining.audits import Audit, audit_tradeoff
from deniable.explaining.curves import charges_figure, profile_figure, tradeoff_figure
from deniable.explaining.figures import Figure
from deniable.explaining.odds import icon_array, odds
from deniable.explaining.subjects import Explainable, Subject, subject
from deniable.explaining.svg import dark_rules, render
from deniable.explaining.texts import ENGLISH
from deniable.guarantees import Guarantee, Profile

MOST_CHARGES = 10
"""How many charges of a ledger are shown, the last ones."""

DELTAS = (1e-9, 1e-6, 1e-5)
"""Where ε is stated for a curve that needs a δ."""

DARK_PLACES = ('body[data-jp-theme-light="false"]', "body.vscode-dark", 'html[theme="dark"]')
"""Where a notebook is dark by its own setting: Jupyter, VS Code, Colab."""

_UNDECIDED = "body:not([data-jp-theme-light]):not(.vscode-light)"
STYLE = "\n".join(
    [
        *(dark_rules(f"{place} .dn-view") for place in DARK_PLACES),
        "@media (prefers-color-scheme: dark) {",
        dark_rules(f'html:not([theme="light"]) {_UNDECIDED} .dn-view'),
        "}",
    ]
)
"""Pictures follow the notebook's theme; where it has none, the system's. Text has the notebook's colour anyway."""

_FRAME = "font-family:system-ui,sans-serif;line-height:1.45;max-width:62rem"
_CELL = "padding:.15rem .9rem .15rem 0;border:0;background:none;vertical-align:top;text-align:left"
_ROW = "display:flex;flex-wrap:wrap;gap:1rem;margin-top:.6rem"


class ChargeView(Protocol):
    """What is shown of a charge."""

    @property
    def time(self) -> str:
        """When, in UTC."""
        ...

    @property
    def who(self) -> str | None:
        """The analyst who asked, if there are several."""
        ...

    @property
    def purpose(self) -> str:
        """What for."""
        ...

    @property
    def event(self) -> Event:
        """What was done."""
        ...


@runtime_checkable
class RecordView(Protocol):
    """What is shown of a ledger."""

    def charges(self) -> Iterable[ChargeView]:
        """Every charge, in order."""
        ...


def html(what: Explainable) -> str | None:
    """The view of an object; None, so that its text is shown, where its cost cannot be computed."""
    try:
        topic = subject(what)
        figures = _figures(what, topic)
    except DeniableError:
        return None
    parts = [f"<div style='font-weight:600'>{escape_html(topic.title)}</div>", _table(_facts(what, topic))]
    if isinstance(what, RecordView):
        parts.append(_charges(list(what.charges())))
    pictures = "".join(f"<div style='flex:1 1 20rem;max-width:30rem'>{render(figure)}</div>" for figure in figures)
    parts.append(f"<div style='{_ROW}'>{pictures}</div>")
    return f"<div class='dn-view' style='{_FRAME}'><style>{STYLE}</style>{''.join(parts)}</div>"


def _facts(what: Explainable, topic: Subject) -> list[tuple[str, str]]:
    """The promise, or ε at several δ for a curve without a promise; then the object's own facts."""
    if topic.guarantee is not None:
        name = "claimed" if isinstance(what, Audit) else "promise"
        promise = [] if isinstance(what, Guarantee) else [(name, str(topic.guarantee))]
    else:
        deltas = (0,) if math.isfinite(topic.profile.epsilon(0)) else DELTAS
        promise = [("cost", topic.profile.cost(delta)) for delta in deltas]
    # A promise is stated, not computed; only its pictures are computed.
    method_name = "computed by" if topic.guarantee is None else "drawn by"
    return [*promise, *topic.facts, (method_name, topic.profile.method)]


def _figures(what: Explainable, topic: Subject) -> list[Figure]:
    labels = ENGLISH.about(topic.unit).labels
    crowd = icon_array(odds(topic.profile), labels=labels)
    if isinstance(what, Audit):
        attack = audit_tradeoff(what, labels=labels)
        return [attack] if topic.refuted else [attack, crowd]
    if isinstance(what, RecordView):
        days = Counter(charge.time[:10] for charge in what.charges())
        return [crowd, charges_figure(days)] if days else [crowd]
    curve = {"this curve" if isinstance(what, Profile) else "no test is below": topic.profile}
    return [profile_figure(curve) if isinstance(what, Profile) else crowd, tradeoff_figure(curve, labels=labels)]


def _charges(charges: Sequence[ChargeView]) -> str:
    """The last charges as a table."""
    if not charges:
        return ""
    last = charges[-MOST_CHARGES:]
    named = ["who"] if any(charge.who for charge in last) else []
    rows = [(c.time[:16].replace("T", " "), *([c.who or ""] if named else []), c.purpose, repr(c.event)) for c in last]
    less = len(charges) - len(rows)
    note = f"<div style='opacity:.75'>{less:,} earlier charges are not shown</div>" if less else ""
    return _table(rows, head=("time (UTC)", *named, "purpose", "event")) + note


def _table(rows: Iterable[Sequence[str]], *, head: Sequence[str] = ()) -> str:
    # Facts break anywhere, to fit a phone; a table with a head is scrolled instead.
    first, other = "white-space:nowrap", "min-width:7rem" if head else "overflow-wrap:anywhere"
    lines = "".join(
        "<tr style='background:none'>"
        + "".join(f"<td style='{_CELL};{other if index else first}'>{escape_html(c)}</td>" for index, c in row)
        + "</tr>"
        for row in map(enumerate, rows)
    )
    names = "".join(f"<th style='{_CELL};font-weight:600'>{escape_html(name)}</th>" for name in head)
    above = f"<thead><tr style='background:none'>{names}</tr></thead>" if head else ""
    return (
        "<div style='overflow-x:auto'><table style='border-collapse:collapse;border:0;margin:.3rem 0'>"
        f"{above}<tbody>{lines}</tbody></table></div>"
    )
