"""The same figures with Matplotlib (extra `plot`), on axes that the caller made or into a file."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import singledispatch
from typing import TYPE_CHECKING

from deniable import _files
from deniable._escapes import printable
from deniable.errors import InvalidArgument, MissingExtra
from deniable.explaining.figures import BarFigure, Figure, IconFigure, IntervalFigure, LineFigure, linear_ticks
from deniable.explaining.report import Answers, value_figures
from deniable.explaining.svg import COLOURS, DASHES, INK, PALE, REFERENCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMES = 4
"""How many bars have their name under them."""


@singledispatch
def draw(figure: Figure, axes: Axes) -> None:
    """Draw a figure on Matplotlib axes."""
    raise TypeError(f"no picture for {type(figure).__name__}")


@draw.register(LineFigure)
def _lines(figure: LineFigure, axes: Axes) -> None:
    for number, line in enumerate(figure.lines):
        dash = DASHES[2] if line.dashed else DASHES[number // len(COLOURS) % len(DASHES)]
        style = (0, tuple(map(float, dash.split()))) if dash else "-"
        colour = REFERENCE if line.dashed else COLOURS[number % len(COLOURS)]
        if line.filled:
            axes.fill_between(line.xs, line.ys, color=colour, alpha=0.35, label=_literal(line.label))
        else:
            axes.plot(line.xs, line.ys, color=colour, linestyle=style, label=_literal(line.label))
    if figure.log_x:
        axes.set_xscale("log")
    if figure.log_y:
        axes.set_yscale("log")
    if figure.x_range is not None:
        axes.set_xlim(*figure.x_range)
    if figure.y_range is not None:
        axes.set_ylim(*figure.y_range)
    axes.set(title=_literal(figure.title), xlabel=_literal(figure.x_label), ylabel=_literal(figure.y_label))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


@draw.register(IconFigure)
def _icons(figure: IconFigure, axes: Axes) -> None:
    for number, (caption, share) in enumerate(figure.shares):
        left = number * 12
        xs = [left + person % 10 for person in range(100)]
        ys = [-(person // 10) for person in range(100)]
        dark = [COLOURS[0] if person < round(100 * share) else PALE for person in range(100)]
        axes.scatter(xs, ys, c=dark, s=60)
        axes.text(left + 4.5, -10.4, _literal(caption), ha="center", va="top")
    axes.set_title(_literal(figure.title))
    axes.set_ylim(-12, 1)
    axes.axis("off")


@draw.register(IntervalFigure)
def _intervals(figure: IntervalFigure, axes: Axes) -> None:
    for number, row in enumerate(figure.rows):
        axes.plot([row.low, row.high], [number, number], color=COLOURS[0], linewidth=3)
        axes.plot([row.value], [number], "o", color=INK)
    axes.set_yticks(range(len(figure.rows)), [_literal(row.name) for row in figure.rows])
    axes.invert_yaxis()
    axes.set(title=_literal(figure.title), xlabel=_literal(figure.x_label))


@draw.register(BarFigure)
def _bars(figure: BarFigure, axes: Axes) -> None:
    axes.bar(range(len(figure.bars)), [value for _, value in figure.bars], color=COLOURS[0])
    every = math.ceil(len(figure.bars) / MOST_NAMES) or 1
    axes.set_xticks(range(0, len(figure.bars), every), [_literal(name) for name, _ in figure.bars[::every]])
    axes.set_yticks(linear_ticks(0, max((value for _, value in figure.bars), default=1), whole=True))
    axes.set(title=_literal(figure.title), ylabel=_literal(figure.y_label))


def draw_numbers(release: Answers, name: str, axes: Axes | None) -> Axes:
    """The released numbers of one name with their intervals, on these axes or on new ones."""
    if axes is None:
        try:
            from matplotlib.figure import Figure as Sheet
        except ModuleNotFoundError:
            raise MissingExtra("matplotlib", "plot") from None
        axes = Sheet(layout="constrained").subplots()
    for figure in value_figures(release):
        if figure.title == name or figure.title.startswith(f"{name} ("):
            draw(figure, axes)
            break
    return axes


def _literal(text: str) -> str:
    """The text as it stands: Matplotlib reads what is between two dollars as a formula."""
    return printable(text, lines=True).replace("$", r"\$")


def save(
    figure: Figure,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    inputs: Sequence[str | os.PathLike[str]] = (),
) -> None:
    """Write a figure to a file; its ending names the format: .png, .svg or .pdf.

    Args:
        figure: What is drawn.
        path: The file.
        overwrite: Replace the file if it exists.
        inputs: Files that the figure was made from; they are never replaced.
    """
    check_target(path, overwrite=overwrite, inputs=inputs)
    from matplotlib.figure import Figure as Sheet

    sheet = Sheet(figsize=(8, 5.5), layout="constrained")
    draw(figure, sheet.add_subplot())
    with _files.replacing(path, overwrite=overwrite, inputs=inputs) as beside:
        sheet.savefig(beside)


def check_target(
    path: str | os.PathLike[str], *, overwrite: bool = False, inputs: Sequence[str | os.PathLike[str]] = ()
) -> None:
    """Refuse what `save` would refuse; for callers that compute long before they draw."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ModuleNotFoundError:
        raise MissingExtra("matplotlib", "plot") from None
    if os.path.splitext(path)[1].lower().lstrip(".") not in FigureCanvasBase.filetypes:
        raise InvalidArgument("path", os.fspath(path), "a file's name that ends in .png, .svg or .pdf")
    _files.check_target(path, overwrite=overwrite, inputs=inputs)
