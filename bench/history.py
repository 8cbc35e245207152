"""What benchmarks measured, over time: bench/results/history.jsonl, one figure per line, only ever added to.

A benchmark calls `add` for each figure and `keep` for its report. `ratio` says how many times better ours is than the
peer: above 1 we are ahead, whether the figure is a speed, a time or an error.

    python bench/history.py                 # the newest figure of each metric
    python bench/history.py --page          # writes them into docs/benchmarks.md, and draws docs/benchmarks.svg

Imported by scripts that also run inside a peer's environment: the standard library only, matplotlib to draw.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
HISTORY = HERE / "results" / "history.jsonl"
PAGE, PICTURE = HERE.parent / "docs" / "benchmarks.md", HERE.parent / "docs" / "benchmarks.svg"
START, END = "<!-- made by bench/history.py -->", "<!-- end -->"


@dataclass(frozen=True)
class Figure:
    """One figure of one run."""

    date: str
    commit: str
    machine: str
    bench: str
    metric: str
    value: float
    unit: str
    peer: str | None = None
    ratio: float | None = None

    @property
    def name(self) -> tuple[str, str, str]:
        """What is the same from run to run."""
        return self.bench, self.metric, self.peer or ""


def add(
    bench: str,
    metric: str,
    value: float,
    unit: str,
    *,
    peer: str | None = None,
    ratio: float | None = None,
    machine: str | None = None,
    path: Path = HISTORY,
) -> Figure:
    """Append one figure; the date, the commit and the machine are filled in."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
    figure = Figure(now, commit(), machine or this_machine(), bench, metric, _short(value), unit, peer, _short(ratio))
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(figure), ensure_ascii=False) + "\n")
    return figure


def keep(bench: str, text: str, *, folder: Path = HISTORY.parent) -> Path:
    """Write a report beside the earlier ones: a second one of the same day gets a letter."""
    day = datetime.now(UTC).date()
    for letter in ("", *"bcdefghijklmnopqrstuvwxyz"):
        path = folder / f"{bench}-{day}{letter}.md"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text if text.endswith("\n") else text + "\n")
        except FileExistsError:
            continue
        return path
    raise SystemExit(f"{folder} holds 26 reports of {bench} from {day}")


def read(path: Path = HISTORY) -> list[Figure]:
    """All figures, oldest first."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return sorted((Figure(**json.loads(line)) for line in lines), key=lambda figure: figure.date)


def newest(figures: Iterable[Figure]) -> list[Figure]:
    """The last figure of each metric, by bench and in the order in which the bench measures them."""
    last = {figure.name: figure for figure in figures}
    return sorted(last.values(), key=lambda figure: figure.bench)


def table(figures: Iterable[Figure]) -> str:
    """The newest figures, as Markdown."""
    lines = ["| bench | metric | value | peer | times better | measured |", "|---|---|---|---|---|---|"]
    for figure in newest(figures):
        ratio = "" if figure.ratio is None else f"{figure.ratio:,.0f}" if figure.ratio >= 100 else f"{figure.ratio:.3g}"
        value = f"{figure.value:.4g} {figure.unit}".strip()
        lines.append(
            f"| {figure.bench} | {figure.metric} | {value} | {figure.peer or ''} | {ratio} | {figure.date[:10]} |"
        )
    return "\n".join(lines)


def page(text: str, figures: Iterable[Figure]) -> str:
    """The page with its table as it is made from the figures."""
    before, _, rest = text.partition(START)
    return f"{before}{START}\n\n{table(figures)}\n\n{END}{rest.partition(END)[2]}"


def series(figures: Iterable[Figure]) -> dict[str, list[tuple[str, float, float, float]]]:
    """By bench and peer: (date, geometric mean, least, largest) of the ratios known on that date.

    A run may measure a part of its bench. What it leaves out keeps its last ratio, so that the mean does not jump.
    """
    known: dict[str, dict[str, float]] = {}
    found: dict[str, list[tuple[str, float, float, float]]] = {}
    for figure in figures:
        if figure.ratio is None or not figure.ratio > 0:
            continue
        name = f"{figure.bench}: {figure.peer}"
        ratios = known.setdefault(name, {})
        ratios[figure.metric] = figure.ratio
        point = (figure.date, statistics.geometric_mean(ratios.values()), min(ratios.values()), max(ratios.values()))
        line = found.setdefault(name, [])
        if line and line[-1][0] == figure.date:
            line.pop()
        line.append(point)
    return found


def draw(figures: Iterable[Figure], path: Path) -> None:
    """How many times better than each peer, by date: the mean over all metrics, and at its end their range."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "deniable", "font.size": 9}
    import matplotlib.dates
    import matplotlib.pyplot as plt

    lines = sorted(series(figures).items(), key=lambda item: item[1][-1][1])
    picture, axis = plt.subplots(figsize=(9, 1.5 + 0.3 * len(lines)), layout="constrained")
    axis.set_yscale("log")
    colors = plt.get_cmap("tab10")
    for place, (_, points) in enumerate(lines):
        days = matplotlib.dates.date2num([datetime.fromisoformat(date) for date, *_ in points])
        _, _, least, largest = points[-1]
        axis.plot(days, [mean for _, mean, _, _ in points], ".-", color=colors(place % 10), linewidth=1.2)
        axis.vlines(days[-1], least, largest, color=colors(place % 10), linewidth=0.6)
    axis.axhline(1, color="gray", linewidth=0.8, linestyle="--")
    low, high = (math.log(end) for end in axis.get_ylim())
    height = -1.0
    for place, (name, points) in enumerate(lines):
        mean = points[-1][1]
        height = max((math.log(mean) - low) / (high - low), height + 0.9 / max(len(lines), 12))
        words, where = f"{name}, {mean:.3g}×", (1.01, height)
        axis.annotate(words, where, xycoords="axes fraction", color=colors(place % 10), va="center", fontsize=8)
    axis.xaxis.set_major_formatter(matplotlib.dates.ConciseDateFormatter(matplotlib.dates.AutoDateLocator()))
    axis.set_ylabel("times better than the peer")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    picture.savefig(path, metadata={"Date": None})
    plt.close(picture)


def commit() -> str:
    """The commit that is measured; with a plus sign, and what was changed since."""
    asked = ["git", "describe", "--always", "--dirty=+"]
    done = subprocess.run(asked, cwd=HERE, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def this_machine() -> str:
    """Cores, processor, system, Python and load."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores, {model}, {platform.system()}; Python {platform.python_version()}; load {load:.1f}"


def _short(value: float | None) -> Any:
    """Four significant digits: what a benchmark can know."""
    return None if value is None else float(f"{value:.4g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks.md and docs/benchmarks.svg")
    given = parser.parse_args()
    figures = read()
    if given.page:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")
        draw(figures, PICTURE)
    else:
        print(table(figures))


if __name__ == "__main__":
    main()
