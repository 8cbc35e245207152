"""How pages look: templates that escape everything, one style sheet, one script, charts as SVG.

The style sheet is that of the public page and the dashboard (`explaining.pages`), with what forms need. The policy of a
page lets it load these files and nothing else.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from deniable._checks import shown
from deniable._escapes import printable
from deniable.errors import MissingExtra
from deniable.explaining import pages as explaining_pages
from deniable.explaining.curves import intervals_figure
from deniable.explaining.figures import Interval
from deniable.explaining.svg import render as render_figure
from deniable.explaining.svg import without_style
from deniable.guarantees import Guarantee
from deniable.query import Release, Value
from deniable.service.app import HEADERS

try:
    import jinja2
    from markupsafe import Markup, escape
    from starlette.responses import Response
except ModuleNotFoundError as error:
    raise MissingExtra(error.name or "jinja2", "serve") from error

PAGE_HEADERS = {
    **HEADERS,
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    # With no-referrer a browser says not where its own forms come from.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Cookie",
}
MOST_ROWS, MOST_CELLS = 500, 4000
"""Of an answer's table on a page; its files have all."""
MOST_CHARTS, MOST_BARS = 6, 60
"""Charts on a page, and rows in a chart."""


class Asset(NamedTuple):
    """A file that pages load; its address changes with what is in it."""

    address: str
    type: str
    content: bytes


@cache
def assets() -> dict[str, Asset]:
    """The files that pages load, by name: the style sheet, the script and the icon."""
    folder = resources.files("deniable.service") / "assets"
    contents = {name: (folder / name).read_bytes() for name in ("pages.css", "pages.js", "icon.svg")}
    contents["pages.css"] = explaining_pages.STYLE.encode() + contents["pages.css"]
    types = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
    files: dict[str, Asset] = {}
    for name, content in contents.items():
        stem, _, ending = name.rpartition(".")
        address = f"/assets/{stem}-{hashlib.sha256(content).hexdigest()[:16]}.{ending}"
        files[stem if ending == "svg" else ending] = Asset(address, types[ending], content)
    return files


def _finalize(value: Any) -> Any:
    """What a template shows of a value: nothing invisible; a number with its thousands apart."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, Markup) else printable(value, lines=True)


def _exact(text: str) -> Markup:
    """What somebody typed, for them to go on with: as it is, but for markup."""
    return Markup(escape(text))


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("deniable.service", "templates"), autoescape=True, undefined=jinja2.StrictUndefined,
        finalize=_finalize, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(moment=moment, clock=clock, figures=figures, share=share, exact=_exact)
    environment.globals["assets"] = {name: asset.address for name, asset in assets().items()}
    return environment


def page(template: str, *, status: int = 200, **facts: Any) -> Response:
    """A page by its template."""
    text = _templates().get_template(template).render(**facts)
    return Response(text, status, media_type="text/html; charset=utf-8")


# numbers and times


def moment(seconds: float) -> str:
    """A time, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(seconds: float) -> str:
    """The time of the day."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S UTC")


def figures(promise: Mapping[str, Any] | None) -> str:
    """The numbers of a promise: "ε = 0.5, δ = 1e-6"."""
    return "–" if promise is None else Guarantee.from_dict(dict(promise)).figures


def share(rest: Mapping[str, Any], whole: Mapping[str, Any]) -> float:
    """Which part of a budget is left, between 0 and 1, by the first number that both state."""
    left, all_of_it = (Guarantee.from_dict(dict(each)).numbers for each in (rest, whole))
    name = next((name for name in all_of_it if name in left and all_of_it[name]), None)
    return 0.0 if name is None else min(1.0, max(0.0, float(left[name] / all_of_it[name])))


# answers


def _number(value: float, half: float) -> str:
    """A number to two digits of half its interval."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    digits = max(0, min(12, 1 - math.floor(math.log10(half)))) if 0 < half < math.inf else 2
    return f"{value:,.{digits}f}"


def _cells(value: Any) -> tuple[str, ...]:
    """What a table shows of one output of a row."""
    if not isinstance(value, tuple):
        return ("" if value is None else str(value),)
    if not isinstance(value, Value):
        return str(value[0]), f"may be {value[1]}"
    half = (value.high - value.low) / 2
    return _number(value.value, half), f"{_number(value.low, half)} to {_number(value.high, half)}"


def describe_answer(release: Release) -> dict[str, Any]:
    """What a page shows of a release: charts, a table, and what belongs to the numbers."""
    rows = release.rows[: min(MOST_ROWS, MOST_CELLS // max(1, len(release.columns)))]
    charts = _charts(release, rows)
    interval = f"{shown(release.confidence * 100)} % interval"
    head: list[tuple[str, bool]] = []
    for output in release.outputs:
        head += [(output, False)] if output in release.key_values else [(output, True), (interval, True)]
    return {
        "title": release.title,
        "head": head,
        "rows": [[cell for output in release.outputs for cell in _cells(row[output])] for row in rows],
        "more": len(release) - len(rows),
        "charts": charts[:MOST_CHARTS],
        "undrawn": max(0, len(charts) - MOST_CHARTS),
        "facts": release.facts,
        "why": release.why().splitlines(),
        "covers": release.covers,
        "cost": release.cost.to_dict(),
        "promise": str(release.cost),
    }


def _charts(release: Release, rows: Sequence[Mapping[str, Any]]) -> list[Markup]:
    """For each number its values with their intervals."""
    charts = []
    keys = list(release.key_values)
    for output in release.outputs:
        bars = [
            Interval(" · ".join(str(row[key]) for key in keys) or output, *map(float, row[output]))
            for row in rows[:MOST_BARS]
            if isinstance(row[output], Value) and all(math.isfinite(end) for end in row[output])
        ]
        if bars:
            title = f"{output} by {', '.join(keys)}" if keys else output
            label = f"{shown(release.confidence * 100)} % intervals"
            figure = intervals_figure(title if len(title) <= 50 else title[:49] + "…", bars, x_label=label)
            charts.append(Markup(without_style(render_figure(figure))))
    return charts
