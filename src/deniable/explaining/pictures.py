"""Pictures for files, drawn with Matplotlib (extra `plot`) and without a display."""

from __future__ import annotations

from pathlib import Path

from deniable.accounting.theorems.compare import Comparison, draw_comparison
from deniable.errors import InvalidArgument, MissingExtra


def save_comparison(comparison: Comparison, path: Path) -> None:
    """ε against the number of steps under every theorem, as a picture; the file's ending names its format."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingExtra("matplotlib", "plot") from None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    draw_comparison(comparison, axes)
    try:
        figure.savefig(path)
    except (ValueError, OSError) as failure:
        raise InvalidArgument(
            "--plot", str(path), "a file to write, ending in .png, .svg or .pdf", str(failure)
        ) from None
