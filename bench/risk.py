"""Excess empirical risk against n, d and ε, next to its theorems: `make bench ROOM=risk`.

*Hard instance* (Bassily–Smith–Thakurta 2014): the linear loss −⟨θ, x⟩ over the unit ball, records ±v with a surplus of
M = √(d ln(1/δ))/ε in favour of v. It is the least signal that noise of this privacy hides half-way, so the excess is
noise, whatever the method, and must fall like √d/(εn).

*Benign data*: logistic loss on separated Gaussians.

The textbook theorem runs with its own step, noise and number of steps (n² gradients); phased SGD takes n. Averages
are over 100 seeds. The table and the slopes go to bench/results/risk-<date>.md, the picture to docs/learning-risk.png.
"""

from __future__ import annotations

import argparse
import datetime
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deniable.guarantees import ApproxDP
from deniable.learning.losses import LinearLoss, Logistic
from deniable.learning.optimizers import Data, GradientDescent, PhasedSGD, Plan, Task, TextbookGradientDescent
from deniable.learning.table import Table
from deniable.units import REPLACE

HERE = Path(__file__).resolve().parent
DELTA = 1e-5


@dataclass(frozen=True)
class Linear(LinearLoss):
    """−m: the loss on which the lower bound is proved."""

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 1e-9

    def values(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return -margins

    def residuals(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return np.full(np.shape(margins), -1.0)


def hard(n: int, d: int, epsilon: float) -> tuple[Data, float]:
    """Records ±v and the least average loss, at θ = v."""
    surplus = min(n, 2 * round(math.sqrt(d * math.log(1 / DELTA)) / (2 * epsilon)))
    signs = np.where(np.arange(n) < (n + surplus) // 2, 1.0, -1.0)
    rows = np.outer(signs, np.full(d, 1 / math.sqrt(d)))
    data = Data(Table.place(rows, norm=1.0), np.zeros(n))
    return data, -float(np.linalg.norm(data.table.points().mean(axis=0)))


def excess(plan: Plan, data: Data, least: float, seeds: int) -> np.ndarray:
    loss = plan.task.linear
    found = [float(np.mean(loss.values(data.table.margins(plan.run(data)), data.labels))) for _ in range(seeds)]
    return np.array(found) - least


def task(loss: LinearLoss, n: int, d: int, epsilon: float) -> Task:
    return Task(loss, d, ApproxDP(epsilon, DELTA, relation=REPLACE), size=n, radius=1.0)


def slope(x: list[float], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


SWEEPS = {
    "n": ([(n, 10, 1.0) for n in (250, 500, 1000, 2000)], -1.0),
    "d": ([(1000, d, 1.0) for d in (5, 10, 20, 40, 80)], 0.5),
    "ε": ([(1000, 10, epsilon) for epsilon in (0.25, 0.5, 1.0, 2.0)], -1.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    lines = [f"# Excess risk, {datetime.date.today()}", "", f"Averages over {options.seeds} seeds, δ = {DELTA:g}.", ""]
    lines += ["| sweep | n | d | ε | textbook | tight, 50 steps | phased | 8LR√(d ln 1/δ)/(εn) | gradients n², n |"]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    curves: dict[str, list[tuple[float, float, float, float]]] = {}
    notes, worst = [], 0.0
    for name, (cases, theory) in SWEEPS.items():
        points = []
        for n, d, epsilon in cases:
            data, least = hard(n, d, epsilon)
            goal = task(Linear(), n, d, epsilon)
            textbook = TextbookGradientDescent().plan(goal)
            start = time.perf_counter()
            one = float(excess(textbook, data, least, options.seeds).mean())
            took = time.perf_counter() - start
            tight = GradientDescent(steps=50, momentum=0.0, average=1.0, learning_rate=0.2)
            two = float(excess(tight.plan(goal), data, least, options.seeds).mean())
            phased = float(excess(PhasedSGD().plan(goal), data, least, max(5, options.seeds // 10)).mean())
            worst = max(worst, one / textbook.risk)
            points.append(({"n": n, "d": d, "ε": epsilon}[name], one, two, textbook.risk))
            lines.append(
                f"| {name} | {n} | {d} | {epsilon:g} | {one:.4f} | {two:.4f} | {phased:.4f} | {textbook.risk:.4f} "
                f"| {textbook.steps * n:,}, {n:,} |"
            )
            print(lines[-1], f"{took:.1f} s", flush=True)
        curves[name] = points
        x = [point[0] for point in points]
        found = [slope(x, [point[k] for point in points]) for k in (1, 2)]
        notes.append(
            f"slope in {name}: textbook {found[0]:+.3f}, tight {found[1]:+.3f} (theory {theory:+.1f}); "
            f"off by {100 * abs(found[0] / theory - 1):.1f} % and {100 * abs(found[1] / theory - 1):.1f} %"
        )
        print(notes[-1], flush=True)
    notes.append(f"largest mean excess ÷ bound: {worst:.3f}")
    notes += benign(options.seeds)
    print("\n".join(notes[-4:]))
    options.out.mkdir(parents=True, exist_ok=True)
    lines += ["", *(f"- {note}" for note in notes), ""]
    (options.out / f"risk-{datetime.date.today()}.md").write_text("\n".join(lines), encoding="utf-8")
    draw(curves)


def benign(seeds: int) -> list[str]:
    """Logistic loss, two separated Gaussians: noise is paid once, and more records help at once."""
    generator, found = np.random.default_rng(0), []
    for n in (500, 2000):
        rows = generator.normal(size=(n, 10)) * 0.2
        labels = np.where(np.arange(n) % 2, 1.0, -1.0)
        rows[:, 0] += 0.5 * labels
        data = Data(Table.place(rows, norm=1.0), labels)
        goal = task(Logistic(), n, 10, 1.0)
        grid = np.linspace(0, 1, 41)
        least = min(float(np.mean(Logistic().values(data.table.margins(g * np.eye(10)[0]), labels))) for g in grid)
        one = float(excess(TextbookGradientDescent().plan(goal), data, least, max(5, seeds // 10)).mean())
        two = float(excess(GradientDescent().plan(goal), data, least, max(5, seeds // 10)).mean())
        bound = TextbookGradientDescent().plan(goal).risk
        found.append(f"benign, n = {n}: textbook {one:.4f}, tight {two:.4f}, bound {bound:.4f}")
    return found


def draw(curves: dict[str, list[tuple[float, float, float, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True)
    for axis, (name, points) in zip(axes, curves.items(), strict=True):
        x = [point[0] for point in points]
        for k, label, style in ((3, "bound", "k--"), (1, "textbook", "o-"), (2, "tight noise", "s-")):
            axis.loglog(x, [point[k] for point in points], style, label=label)
        axis.set_xlabel(name)
        axis.grid(True, which="both", alpha=0.3)
    axes[0].set_ylabel("mean excess risk")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(HERE.parent / "docs" / "learning-risk.png", dpi=90)


if __name__ == "__main__":
    main()
