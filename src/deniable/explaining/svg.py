"""Figures as SVG, without scripts, fonts or network, with a title and a description for screen readers.

Colours have a contrast of at least 4.5 to 1 on white, and lines also differ by dash pattern. A picture by itself stands
on white. A page that can be dark adds `dark_rules`, which give each colour another one for a dark ground.
"""

from __future__ import annotations

import math
from functools import singledispatch

from deniable._escapes import escape_html
from deniable.explaining import figures
from deniable.explaining.figures import BarFigure, Figure, IconFigure, IntervalFigure, LineFigure, span

INK, PALE, GRID = "#1b1b1f", "#c9cbd6", "#e4e5ea"
COLOURS = ("#0b5cad", "#b03a00", "#00705a", "#7a3e9d", "#8a6100", "#a3195b", "#4b5563")
DASHES = ("", "7 3", "2 3", "9 3 2 3")
REFERENCE = COLOURS[-1]
"""Of dashed lines: references and estimates look alike in every picture."""

DARK = {
    **dict(zip((INK, PALE, GRID), ("#ececf1", "#5b6070", "#363a44"), strict=True)),
    **dict(zip(COLOURS, ("#78b4ff", "#ff9d6f", "#5ad1b4", "#cfa3ee", "#e3bd58", "#f793bf", "#adb4c1"), strict=True)),
}
"""The colours on a dark ground, by the colour on white."""

_WIDTH, _HEIGHT = 480, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 24, 40, 50
_LEGEND_LINE = 20


def dark_rules(scope: str) -> str:
    """CSS that gives the pictures inside `scope`, a selector, their colours on a dark ground.

    >>> print(dark_rules("body.dark").splitlines()[0])
    body.dark .dn-picture { fill: #ececf1; background: none !important }
    """
    inside = f"{scope} .dn-picture"
    rules = [
        f'{inside} [fill="{light}"] {{ fill: {dark} }} {inside} [stroke="{light}"] {{ stroke: {dark} }}'
        for light, dark in DARK.items()
    ]
    return "\n".join([f"{inside} {{ fill: {DARK[INK]}; background: none !important }}", *rules])


_FRAME = 'style="max-width:600px;width:100%;height:auto;background:#fff" '


def without_style(picture: str) -> str:
    """A rendered picture for a page whose policy allows no style but its own file's."""
    return picture.replace(_FRAME, "", 1)


@singledispatch
def render(figure: Figure) -> str:
    """The figure as one `<svg>` element that scales to its container."""
    raise TypeError(f"no picture for {type(figure).__name__}")


@render.register
def _lines(figure: LineFigure) -> str:
    xs = figure.x_range or span([x for line in figure.lines for x in line.xs])
    finite = [y for line in figure.lines for y in line.ys if math.isfinite(y)]
    ys = figure.y_range or span([y for y in finite if y > 0] if figure.log_y else [0.0, *finite])
    across = _Scale(*xs, _LEFT, _WIDTH - _RIGHT, figure.log_x)
    up = _Scale(*ys, _HEIGHT - _BOTTOM, _TOP, figure.log_y)
    parts = _axes(across, up, figure.x_label, figure.y_label)
    for number, line in enumerate(figure.lines):
        points = " ".join(
            f"{across(x):.1f},{up(y):.1f}"
            for x, y in zip(line.xs, line.ys, strict=True)
            if across.holds(x) and up.holds(y)
        )
        stroke = _stroke(number, dashed=line.dashed)
        y = _HEIGHT + 6 + _LEGEND_LINE * number
        if line.filled:
            area = f'fill="{COLOURS[number % len(COLOURS)]}" fill-opacity="0.35"'
            ground = f"{across(line.xs[-1]):.1f},{up(up.low):.1f} {across(line.xs[0]):.1f},{up(up.low):.1f}"
            parts.append(f'<polygon points="{points} {ground}" {area}/>')
            parts.append(f'<rect x="{_LEFT}" y="{y - 6}" width="34" height="12" {area}/>')
        else:
            parts.append(f'<polyline points="{points}" fill="none" stroke-width="2.2" {stroke}/>')
            parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + 34}" y1="{y}" y2="{y}" stroke-width="2.2" {stroke}/>')
        parts.append(_text(_LEFT + 42, y + 4, line.label))
    return _document(figure.title, figure.alt, parts, height=_HEIGHT + _LEGEND_LINE * len(figure.lines) + 4)


@render.register
def _icons(figure: IconFigure) -> str:
    side, gap = 20, 40
    start = (_WIDTH - len(figure.shares) * (10 * side + gap) + gap) / 2
    parts = []
    for number, (caption, share) in enumerate(figure.shares):
        left = start + number * (10 * side + gap)
        for person in range(100):
            x, y = left + person % 10 * side, _TOP + 8 + person // 10 * side
            filled = min(1.0, max(0.0, 100 * share - person))
            parts.append(_person(x, y, PALE))
            if filled:
                # The last person may be dark in part: the share need not be a whole number of people.
                dark = _person(0, 0, COLOURS[0])
                parts.append(f'<svg x="{x}" y="{y}" width="{18 * filled:.2f}" height="20">{dark}</svg>')
        parts.append(_text(left + 5 * side, _TOP + 10 * side + 30, caption, anchor="middle"))
    return _document(figure.title, figure.alt, parts, height=_TOP + 10 * side + 46)


@render.register
def _intervals(figure: IntervalFigure) -> str:
    longest = min(max([17, *(len(row.name) for row in figure.rows)]), 26)
    line, left = 26, 150 + 7 * (longest - 17)
    across = _Scale(*span([v for row in figure.rows for v in row[1:]]), left, _WIDTH - 24, False)
    bottom = _TOP + line * len(figure.rows)
    parts = []
    for value in figures.linear_ticks(across.low, across.high):
        x = across(value)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{bottom}" stroke="{GRID}"/>')
        parts.append(_text(x, bottom + 18, figures.tick_label(value), anchor="middle"))
    for number, row in enumerate(figure.rows):
        y = _TOP + line * number + line / 2
        parts.append(_text(left - 12, y + 4, _short(row.name, longest), anchor="end"))
        parts.append(
            f'<line x1="{across(row.low):.1f}" x2="{across(row.high):.1f}" y1="{y}" y2="{y}"'
            f' stroke="{COLOURS[0]}" stroke-width="3" stroke-linecap="round"/>'
        )
        parts.append(f'<circle cx="{across(row.value):.1f}" cy="{y}" r="5" fill="{INK}"/>')
    parts.append(_text((left + _WIDTH - 24) / 2, bottom + 40, figure.x_label, anchor="middle"))
    return _document(figure.title, figure.alt, parts, height=bottom + 52)


@render.register
def _bars(figure: BarFigure) -> str:
    up = _Scale(0, max((value for _, value in figure.bars), default=0) or 1, _HEIGHT - _BOTTOM, _TOP, False)
    parts = []
    for value in figures.linear_ticks(up.low, up.high, whole=True):
        y = up(value)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(_text(_LEFT - 8, y + 4, figures.tick_label(value), anchor="end"))
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(figure.bars))
    every = math.ceil(len(figure.bars) / 4)
    for number, (name, value) in enumerate(figure.bars):
        x = _LEFT + step * number
        wide = min(0.8 * step, 60)
        parts.append(
            f'<rect x="{x + (step - wide) / 2:.1f}" y="{up(value):.1f}" width="{wide:.1f}"'
            f' height="{up(0) - up(value):.1f}" fill="{COLOURS[0]}"/>'
        )
        if number % every == 0:
            parts.append(_text(x + step / 2, _HEIGHT - _BOTTOM + 20, name, anchor="middle"))
    parts.append(_text(_LEFT, _HEIGHT - 10, figure.y_label))
    return _document(figure.title, figure.alt, parts, height=_HEIGHT)


class _Scale:
    """Maps numbers to coordinates on the page."""

    def __init__(self, low: float, high: float, start: float, end: float, log: bool) -> None:
        self.low, self.high, self.log = low, high, log
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return self._start + (value - low) / (high - low) * (self._end - self._start)

    def holds(self, value: float) -> bool:
        return math.isfinite(value) and self.low <= value <= self.high

    @property
    def ticks(self) -> list[float]:
        ticks_inside = (
            figures.logarithmic_ticks(self.low, self.high) if self.log else figures.linear_ticks(self.low, self.high)
        )
        return ticks_inside or [self.low, self.high]

    def label(self, value: float) -> str:
        return figures.tick_label(value, log=self.log and math.log10(value).is_integer())


def _axes(across: _Scale, up: _Scale, x_label: str, y_label: str) -> list[str]:
    parts = []
    for value in across.ticks:
        x = across(value)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="{GRID}"/>')
        parts.append(_text(x, _HEIGHT - _BOTTOM + 18, across.label(value), anchor="middle"))
    for value in up.ticks:
        y = up(value)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(_text(_LEFT - 8, y + 4, up.label(value), anchor="end"))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, x_label, anchor="middle"))
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts.append(f'<g transform="rotate(-90 14 {middle})">{_text(14, middle, y_label, anchor="middle")}</g>')
    return parts


def _stroke(number: int, *, dashed: bool) -> str:
    if dashed:
        return f'stroke="{REFERENCE}" stroke-dasharray="{DASHES[2]}"'
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    return f'stroke="{COLOURS[number % len(COLOURS)]}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _person(x: float, y: float, colour: str) -> str:
    return (
        f'<g fill="{colour}"><circle cx="{x + 9}" cy="{y + 4.5}" r="4"/>'
        f'<path d="M{x + 2} {y + 19}v-4a6 5.5 0 0 1 14 0v4z"/></g>'
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape_html(words)}</text>'


def _short(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def _document(title: str, alt: str, parts: list[str], *, height: float) -> str:
    heading = escape_html(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img" class="dn-picture"'
        f' {_FRAME}font-family="system-ui, sans-serif"'
        f' font-size="13" fill="{INK}"><title>{heading}</title><desc>{escape_html(alt)}</desc>'
        f'<text x="{_WIDTH / 2}" y="22" text-anchor="middle" font-size="15" font-weight="600">{heading}</text>'
        f"{''.join(parts)}</svg>"
    )
