"""Plans and releases as HTML, for notebooks: one self-contained piece, no script, colours of the page it is in."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from deniable._escapes import escape_html
from deniable.query.explanation import Words

if TYPE_CHECKING:
    from deniable.query.release import Release

_FRAME = "font-family:system-ui,sans-serif;line-height:1.45;max-width:60rem"
_CELL = "padding:.15rem .8rem .15rem 0;border:0;background:none;vertical-align:middle"
_FAINT = "opacity:.65"
_BAR = 100


def plan_html(plan: Words) -> str:
    """A plan: the question, its rules, what is measured, the expected errors; the SQL folded away."""
    stages = "".join(
        f"<details><summary>SQL: {escape_html(what)}</summary>"
        f"<pre style='white-space:pre-wrap'>{escape_html(text)}</pre></details>"
        for what, text in plan.sql
    )
    return _framed(
        f"<pre style='margin:0 0 .6rem;white-space:pre-wrap'>{escape_html(plan.question)}</pre>",
        _facts(plan.facts),
        _table(plan.measured[0], plan.measured[1:], numbers={1, 2, 3}),
        _table(plan.errors[0], plan.errors[1:]),
        stages,
    )


def release_html(release: Release, shown: Sequence[Sequence[str]], *, names: Sequence[str], note: str) -> str:
    """A release: per number its value, its interval and a bar of it; below, the facts. `shown` holds the printed cells
    by row, `names` the released numbers; `note` follows the rows."""
    ends = {name + ending for name in names for ending in ("_low", "_high")}
    head = "".join(
        f"<th colspan='{3 if name in names else 1}' style='{_CELL};text-align:left;font-weight:600'>"
        f"{escape_html(name)}</th>"
        for name in release.columns
        if name not in ends
    )
    spans = {name: _span(release.columns, name) for name in names}
    body = []
    for place, row in enumerate(shown):
        cells = dict(zip(release.columns, row, strict=True))
        parts = []
        for name, cell in cells.items():
            if name in spans:
                low, high = escape_html(cells[f"{name}_low"]), escape_html(cells[f"{name}_high"])
                parts.append(_td(escape_html(cell), right=True))
                parts.append(_td(f"{low} to {high}", right=True, faint=True))
                parts.append(_td(_bar(release.columns, name, place, spans[name])))
            elif name not in ends:
                parts.append(_td(escape_html(cell)))
        body.append(f"<tr style='background:none'>{''.join(parts)}</tr>")
    below = f"<div style='{_FAINT}'>{escape_html(note)}</div>" if note else ""
    return _framed(_grid(head, "".join(body)), below, _facts(release.facts))


def _framed(*parts: str) -> str:
    return f"<div style='{_FRAME}'>{''.join(parts)}</div>"


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(
        f"<tr style='background:none'><td style='{_CELL};{_FAINT};text-align:left'>{escape_html(name)}</td>"
        f"<td style='{_CELL};text-align:left'>{escape_html(fact)}</td></tr>"
        for name, fact in facts
    )
    return f"<table style='border-collapse:collapse;border:0;margin:.4rem 0'>{rows}</table>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Container[int] = ()) -> str:
    """A table of text; the columns in `numbers` are set to the right."""
    head = "".join(
        f"<th style='{_CELL};text-align:{'right' if i in numbers else 'left'};font-weight:600'>{escape_html(name)}</th>"
        for i, name in enumerate(header)
    )
    lines = ("".join(_td(escape_html(cell), right=i in numbers) for i, cell in enumerate(row)) for row in rows)
    body = "".join(f"<tr style='background:none'>{line}</tr>" for line in lines)
    return _grid(head, body)


def _grid(head: str, body: str) -> str:
    return (
        "<table style='border-collapse:collapse;border:0;margin:.4rem 0'>"
        f"<thead><tr style='background:none;border-bottom:1px solid currentColor'>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _td(cell: str, *, right: bool = False, faint: bool = False) -> str:
    style = f"{_CELL};text-align:{'right' if right else 'left'};font-variant-numeric:tabular-nums;white-space:nowrap"
    return f"<td style='{style}{';' + _FAINT if faint else ''}'>{cell}</td>"


def _span(columns: dict[str, list[Any]], name: str) -> tuple[float, float]:
    """The range of the column's bars: from the least low end to the greatest high end, 0 included."""
    ends = [float(x) for ending in ("_low", "_high") for x in columns[name + ending] if math.isfinite(x)]
    return min([0.0, *ends]), max([0.0, *ends])


def _bar(columns: dict[str, list[Any]], name: str, place: int, span: tuple[float, float]) -> str:
    """One interval as a line with a dot at the value."""
    value, low, high = (float(columns[name + ending][place]) for ending in ("", "_low", "_high"))
    wide = span[1] - span[0]
    if not all(map(math.isfinite, (value, low, high))) or not wide > 0:
        return ""
    x, a, b = (4 + (_BAR - 8) * (min(max(end, span[0]), span[1]) - span[0]) / wide for end in (value, low, high))
    title = f"{escape_html(name)}: {low:g} to {high:g}, privacy noise only"
    return (
        f"<svg width='{_BAR}' height='14' role='img' aria-label='{title}'><title>{title}</title>"
        f"<line x1='{a:.1f}' x2='{b:.1f}' y1='7' y2='7' stroke='currentColor' stroke-width='2' opacity='.45'/>"
        f"<circle cx='{x:.1f}' cy='7' r='3' fill='currentColor'/></svg>"
    )
