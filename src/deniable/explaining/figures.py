"""What a picture shows, before anybody draws it: labels, numbers, and the words for those who cannot see it.

`svg` draws a figure for a page, `plots` draws it with Matplotlib for a notebook or a paper. Neither computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Line:
    """One curve. `dashed` marks an estimate or a reference, which promises nothing."""

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    dashed: bool = False


@dataclass(frozen=True)
class LineFigure:
    """Curves over two axes. A range of None is taken from the lines."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
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
