"""The quality page of a synthetic table: one HTML file, without scripts, fonts or network.

Everything on it is made from what was released: noisy marginals, the rows, and the paid check. It shows a map of all
pairs (how far each is off, and which were measured), every column's noisy counts beside those of the rows, the pairs
that fit best and worst, and what the table should not be used for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from deniable._checks import shown
from deniable._escapes import escape_html
from deniable.synthesis.domain import Clique

if TYPE_CHECKING:
    from deniable.synthesis.table import SyntheticTable

_CELL, _LEFT, _TOP = 26, 150, 14
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1b1f}
table{border-collapse:collapse}td,th{padding:.15rem .7rem .15rem 0;text-align:left;vertical-align:top}
figure{margin:1rem 0}figcaption{color:#4b5563}svg{max-width:100%;height:auto}
"""
_LISTED = 8
_BARS = 24
"""Codes of one column that are drawn."""


def page(table: SyntheticTable) -> str:
    """The page of a table."""
    title = escape_html(f"Synthetic rows of {table.name}")
    parts = [
        f"<h1>{title}</h1>",
        f"<p>{len(table)} rows, {len(table.domain.names)} columns. Cost: {escape_html(table.cost)}.</p>",
        _facts((name, text) for name, text in table.facts if name != "not for"),
        "<h2>What not to use it for</h2>",
        "<ul>" + "".join(f"<li>{escape_html(text)}</li>" for name, text in table.facts if name == "not for") + "</ul>",
        "<h2>All pairs</h2>",
        _map(table),
        _extremes(table),
        "<h2>The columns</h2>",
        "<p>Dark: the noisy count that was measured. Light: the rows of the table.</p>",
        *(_bars(table, place) for place in range(len(table.domain.names))),
    ]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th>{escape_html(name)}</th><td>{escape_html(text)}</td></tr>" for name, text in facts)
    return f"<table>{rows}</table>"


def _share(table: SyntheticTable, clique: Clique) -> float | None:
    """The estimated share of rows that are misplaced in a marginal."""
    if table.check is None or clique not in table.check.distances:
        return None
    return max(0.0, table.check.distances[clique]) / (2 * table.check.size)


def _map(table: SyntheticTable) -> str:
    """A square for every pair: the darker, the further off; a ring where the pair was measured."""
    names = table.domain.names
    measured = {one.columns for one in table.measurements}
    shares = {(i, j): _share(table, (i, j)) for j in range(len(names)) for i in range(j)}
    known = [share for share in shares.values() if share is not None]
    worst = max([*known, 1e-12])
    parts = []
    for place, name in enumerate(names):
        y = _TOP + place * _CELL
        parts.append(_text(_LEFT - 8, y + 17, name, anchor="end"))
        x = _LEFT + place * _CELL
        parts.append(f'<g transform="translate({x + 10} {y + 20}) rotate(-40)">{_text(0, 0, name)}</g>')
    for (i, j), share in shares.items():
        x, y = _LEFT + i * _CELL, _TOP + j * _CELL
        fill = "#ffffff" if share is None else _shade(share / worst)
        words = "not checked" if share is None else f"{100 * share:.2g} % misplaced"
        told = "measured" if (i, j) in measured else "not measured"
        title = escape_html(f"{names[i]} × {names[j]}: {words}, {told}")
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_CELL - 2}" height="{_CELL - 2}" fill="{fill}" stroke="#c9cbd6">'
            f"<title>{title}</title></rect>"
        )
        if (i, j) in measured:
            middle = _CELL / 2 - 1
            parts.append(f'<circle cx="{x + middle}" cy="{y + middle}" r="6" fill="none" stroke="#1b1b1f"/>')
    side = _TOP + len(names) * _CELL + 10
    caption = (
        f"A ring: the pair was measured. Darkest: {100 * worst:.2g} % of the rows misplaced, by the paid check."
        if known
        else "A ring: the pair was measured. No check was paid for, so the pairs are not shaded."
    )
    return _figure("Pairs of columns", caption, parts, width=_LEFT + side + 130, height=side)


def _shade(part: float) -> str:
    """From pale to dark blue."""
    light, dark = (232, 240, 250), (11, 92, 173)
    red, green, blue = (round(a + (b - a) * min(1.0, part)) for a, b in zip(light, dark, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _extremes(table: SyntheticTable) -> str:
    """The pairs that fit best and worst, with their statements."""
    if table.check is None:
        return "<p>No check was paid for, so nothing is known about single pairs but the noise of those measured.</p>"
    pairs = sorted(
        (clique for clique in table.check.distances if len(clique) == 2), key=table.check.distances.__getitem__
    )
    if not pairs:
        return ""
    told = f"{shown(table.confidence * 100)} % each"
    lists = []
    for title, some in (("fit best", pairs[:_LISTED]), ("fit worst", pairs[::-1][:_LISTED])):
        items = "".join(f"<li>{escape_html(table.error(*table.domain.named(one)))}</li>" for one in some)
        lists.append(f"<h3>The pairs that {title} ({told})</h3><ul>{items}</ul>")
    return "".join(lists)


def _bars(table: SyntheticTable, place: int) -> str:
    """A column's noisy counts beside those of the rows."""
    one = table.domain.attributes[place]
    noisy = next(known for known in table.marginals.values() if known.columns == (place,))
    scaled = table.counts(one.name) * (table.model.size / max(1, len(table)))
    largest = max(float(noisy.values.max()), float(scaled.max()), 1.0)
    parts = []
    for code, label in enumerate(one.labels[:_BARS]):
        y = _TOP + code * 24
        parts.append(_text(_LEFT - 8, y + 14, label, anchor="end"))
        for offset, value, fill in ((0, float(noisy.values[code]), "#0b5cad"), (9, float(scaled[code]), "#9cc3ea")):
            width = max(0.0, value) / largest * 420
            parts.append(f'<rect x="{_LEFT}" y="{y + offset}" width="{width:.1f}" height="8" fill="{fill}"/>')
    more = f" The first {_BARS} of {one.size} codes." if one.size > _BARS else ""
    caption = f"Noise: a standard deviation of {noisy.scale:.3g} rows in each measured count.{more}"
    return _figure(one.name, caption, parts, width=_LEFT + 440, height=_TOP * 2 + min(_BARS, one.size) * 24)


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    short = text if len(text) <= 20 else text[:19] + "…"
    return f'<text x="{x}" y="{y}" font-size="12" text-anchor="{anchor}">{escape_html(short)}</text>'


def _figure(title: str, caption: str, parts: Sequence[str], *, width: float, height: float) -> str:
    inner = "".join(parts)
    return (
        f'<figure><svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img">'
        f"<title>{escape_html(title)}</title>{inner}</svg><figcaption>{escape_html(caption)}</figcaption></figure>"
    )
