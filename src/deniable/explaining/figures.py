"""Figures as data: labels, numbers, and a text for readers who cannot see the picture.

`svg` draws a figure for a page, `plots` draws it with Matplotlib for a notebook or a paper. Neither computes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class FigureLine:
    """One curve. `dashed` marks an estimate or a reference, which promises nothing; `filled` shades what is below."""

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    dashed: bool = False
    filled: bool = False


@dataclass(frozen=True)
class LineFigure:
    """Curves over two axes. A range of None is taken from the lines."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[FigureLine, ...]
    alt: str
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class IconFigure:
    """Rows of a hundred people; `shares` says which part of each is dark, with a caption under each."""

    title: str
    shares: tuple[tuple[str, float], ...]
    alt: str


class Interval(NamedTuple):
    """A released value and its interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class IntervalFigure:
    """Values with intervals, one row each."""

    title: str
    x_label: str
    rows: tuple[Interval, ...]
    alt: str


@dataclass(frozen=True)
class BarFigure:
    """Counts by name."""

    title: str
    y_label: str
    bars: tuple[tuple[str, float], ...]
    alt: str


Figure = LineFigure | IconFigure | IntervalFigure | BarFigure


def span(values: Sequence[float]) -> tuple[float, float]:
    """The smallest and the largest, never the same."""
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def linear_ticks(low: float, high: float, *, most: int = 6, whole: bool = False) -> list[float]:
    """At most `most` ticks between two ends: multiples of 1, 2 or 5 times a power of ten; whole numbers if `whole`.

    >>> linear_ticks(0, 37)
    [0.0, 10.0, 20.0, 30.0]
    >>> linear_ticks(0, 2), linear_ticks(0, 2, whole=True)
    ([0.0, 0.5, 1.0, 1.5, 2.0], [0.0, 1.0, 2.0])
    >>> logarithmic_ticks(0.02, 300)
    [0.1, 1.0, 10.0, 100.0]
    >>> [tick_label(v, log=True) for v in (0.01, 0.1, 1, 1000, 1e5)]
    ['1e-2', '0.1', '1', '1,000', '1e5']
    >>> [tick_label(v) for v in (0, 0.25, 1500, 1e-6, 2e7)]
    ['0', '0.25', '1,500', '1e-6', '2e7']
    """
    raw = max((high - low) / most, 1.0) if whole else (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def logarithmic_ticks(low: float, high: float, *, most: int = 7) -> list[float]:
    """Powers of ten between two positive ends, thinned to at most `most`."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / most))
    return [10.0**k for k in range(first, last + 1, step)]


def tick_label(value: float, *, log: bool = False) -> str:
    """The short text of a tick. On a logarithmic axis, small and large powers of ten have the same form."""
    if log and value and not 0.1 <= value < 1e4:
        return f"1e{round(math.log10(value))}"
    if value and (abs(value) < 1e-3 or abs(value) >= 1e6):
        mantissa, exponent = f"{value:.4g}".split("e") if "e" in f"{value:.4g}" else f"{value:.3e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:,.10g}"
