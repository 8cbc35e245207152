"""Excess risk against n, d and ε, next to its theorems: `make bench ROOM=risk`.

*Hard instance* (Bassily–Smith–Thakurta 2014): the linear loss −⟨θ, x⟩ over the unit ball, records ±v with a surplus of
M = √(d ln(1/δ))/ε in favour of v. It is the least signal that noise of this privacy hides half-way, so the excess is
noise, whatever the method, and must fall like √d/(εn).

*Benign data*: logistic loss on two separated Gaussians. Excess empirical risk of the methods for ERM, and excess
population risk of phased SGD, on 100,000 fresh records, next to the rate LR(1/√n + √(d ln(1/δ))/(εn)) of stochastic
convex optimisation (a rate: its constant is taken as 1).

The textbook theorem runs with its own step, noise and number of steps (n² gradients); "tight" is the same descent with
exact noise, 50 steps, and the step that the noise allows; phased SGD takes n gradients. All averages are over the same
number of seeds. The table, the slopes and the largest ratio to the bound go to bench/results/risk-<date>.md, the
pictures to docs/learning-risk.png and docs/learning-benign.png.
"""

from __future__ import annotations

import argparse
import datetime
import math
from dataclasses import dataclass
from pathlib import Path

import history
import numpy as np

from deniable.guarantees import ApproxDP
from deniable.learning.losses import LinearLoss, Logistic
from deniable.learning.optimizers import Data, GradientDescent, MethodPlan, PhasedSGD, Task, TextbookGradientDescent
from deniable.learning.table import IntegerTable
from deniable.units import REPLACE

HERE = Path(__file__).resolve().parent
DELTA = 1e-5
SWEEPS = {
    "n": ([(n, 10, 1.0) for n in (250, 500, 1000, 2000)], -1.0),
    "d": ([(1000, d, 1.0) for d in (5, 10, 20, 40, 80)], 0.5),
    "ε": ([(1000, 10, epsilon) for epsilon in (0.25, 0.5, 1.0, 2.0)], -1.0),
}


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


@dataclass(frozen=True)
class Point:
    """One setting: mean excess of the methods, and what their theorems say."""

    n: int
    d: int
    epsilon: float
    textbook: float
    tight: float
    phased: float
    bound: float
    rate: float
    steps: int

    def at(self, axis: str) -> float:
        return float({"n": self.n, "d": self.d, "ε": self.epsilon}[axis])

    def row(self, name: str) -> str:
        return (
            f"| {name} | {self.n} | {self.d} | {self.epsilon:g} | {self.textbook:.4f} | {self.tight:.4f} "
            f"| {self.phased:.4f} | {self.bound:.4f} | {self.rate:.4f} | {self.steps * self.n:,}, {self.n:,} |"
        )


def hard(n: int, d: int, epsilon: float) -> tuple[Data, float]:
    """Records ±v and the least average loss, at θ = v."""
    surplus = min(n, 2 * round(math.sqrt(d * math.log(1 / DELTA)) / (2 * epsilon)))
    signs = np.where(np.arange(n) < (n + surplus) // 2, 1.0, -1.0)
    # Shuffled: the blocks of phased SGD hold one part each of a sequence that must look alike everywhere.
    np.random.default_rng(n + d).shuffle(signs)
    rows = np.outer(signs, np.full(d, 1 / math.sqrt(d)))
    data = Data(IntegerTable.place(rows, norm=1.0), np.zeros(n))
    return data, -float(np.linalg.norm(data.table.points().mean(axis=0)))


def gaussians(n: int, d: int, seed: int) -> Data:
    generator = np.random.default_rng(seed)
    labels = np.where(np.arange(n) % 2, 1.0, -1.0)
    rows = generator.normal(size=(n, d)) * 0.2
    rows[:, 0] += 0.5 * labels
    order = generator.permutation(n)
    return Data(IntegerTable.place(rows[order], norm=1.0), labels[order])


def average(theta: np.ndarray, data: Data, loss: LinearLoss) -> float:
    return float(np.mean(loss.values(data.table.margins(theta), data.labels)))


def least(data: Data, loss: LinearLoss) -> float:
    """The least average loss in the unit ball."""
    from scipy.optimize import minimize

    ball = {"type": "ineq", "fun": lambda theta: 1 - theta @ theta, "jac": lambda theta: -2 * theta}
    found = minimize(lambda theta: average(theta, data, loss), np.zeros(data.table.columns), constraints=ball)
    return float(found.fun)


def excess(plan: MethodPlan, data: Data, floor: float, seeds: int, *, on: Data | None = None) -> float:
    """The mean over seeds of the average loss above its least value, on these or on other data."""
    found = [average(plan.run(data), on or data, plan.task.linear) for _ in range(seeds)]
    return float(np.mean(found)) - floor


def measured(loss: LinearLoss, data: Data, floor: float, epsilon: float, seeds: int, *, fresh: Data | None) -> Point:
    n, d = data.table.count, data.table.columns
    task = Task(loss, d, ApproxDP(epsilon, DELTA, relation=REPLACE), size=n, radius=1.0)
    textbook, phased = TextbookGradientDescent().plan(task), PhasedSGD().plan(task)
    tight = GradientDescent(steps=50, momentum=0.0, average=1.0)
    noise = float(tight.plan(task).ratio) / n
    allowed = GradientDescent(steps=50, momentum=0.0, average=1.0, learning_rate=1 / (noise * math.sqrt(50 * d)))
    rate = 1 / math.sqrt(n) + math.sqrt(d * math.log(1 / DELTA)) / (epsilon * n)
    elsewhere = floor if fresh is None else least(fresh, loss)
    return Point(
        n, d, epsilon,
        excess(textbook, data, floor, seeds),
        excess((allowed if isinstance(loss, Linear) else GradientDescent()).plan(task), data, floor, seeds),
        excess(phased, data, elsewhere, seeds, on=fresh),
        textbook.risk, 2 * rate, textbook.steps,
    )  # fmt: skip


def slope(x: list[float], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    head = (
        "n | d | ε | textbook | tight | phased | 8LR√(d ln 1/δ)/(εn) | LR(1/√n + √(d ln 1/δ)/(εn)) | gradients n², n |"
    )
    lines = [f"# Excess risk, {datetime.date.today()}", "", f"Averages over {options.seeds} seeds, δ = {DELTA:g}.", ""]
    lines += [f"| sweep | {head}", "|---" * 10 + "|"]
    curves: dict[str, list[Point]] = {}
    notes = []
    for name, (cases, theory) in SWEEPS.items():
        points = []
        for n, d, epsilon in cases:
            data, floor = hard(n, d, epsilon)
            points.append(measured(Linear(), data, floor, epsilon, options.seeds, fresh=None))
            lines.append(points[-1].row(name))
            print(lines[-1], flush=True)
        curves[name] = points
        x = [point.at(name) for point in points]
        for method in ("textbook", "tight"):
            found = slope(x, [getattr(point, method) for point in points])
            off = 100 * abs(found / theory - 1)
            notes.append(f"slope in {name}, {method}: {found:+.3f} (theory {theory:+.1f}), off by {off:.1f} %")
            print(notes[-1], flush=True)
            history.add("risk", f"slope in {name}, {method}", found, f"theory {theory:+.1f}")
    population = gaussians(100_000, 10, seed=1)
    easy = []
    for n in (250, 500, 1000, 2000):
        data = gaussians(n, 10, seed=n)
        easy.append(measured(Logistic(), data, least(data, Logistic()), 1.0, options.seeds, fresh=population))
        lines.append(easy[-1].row("benign, n"))
        print(lines[-1], flush=True)
    for kind, points in (("hard", [p for part in curves.values() for p in part]), ("benign", easy)):
        worst = max(max(p.textbook, p.tight) / p.bound for p in points)
        notes.append(f"{kind}: largest mean excess ÷ bound {worst:.3f}; phased ÷ rate at most "
                     f"{max(p.phased / p.rate for p in points):.3f}")  # fmt: skip
    lines += ["", *(f"- {note}" for note in notes), ""]
    print("\n".join(notes[-2:]))
    options.out.mkdir(parents=True, exist_ok=True)
    history.keep("risk", "\n".join(lines), folder=options.out)
    draw(curves, "learning-risk.png")
    draw({"n": easy}, "learning-benign.png")


def draw(curves: dict[str, list[Point]], name: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    styles = {"bound": "k--", "rate": "k:", "textbook": "o-", "tight": "s-", "phased": "^-"}
    words = {"bound": "8LR√(d ln 1/δ)/(εn)", "rate": "SCO rate", "phased": "phased SGD"}
    figure, axes = plt.subplots(1, len(curves), figsize=(1.2 + 3.4 * len(curves), 3.6), sharey=True, squeeze=False)
    for axis, (along, points) in zip(axes[0], curves.items(), strict=True):
        x = [point.at(along) for point in points]
        for field, style in styles.items():
            axis.loglog(x, [getattr(point, field) for point in points], style, label=words.get(field, field))
        axis.set_xticks(x, [f"{value:g}" for value in x])
        axis.set_xticks([], minor=True)
        axis.set_xlabel(along)
        axis.grid(True, which="both", alpha=0.3)
    axes[0][0].set_ylabel("mean excess risk")
    figure.legend(
        *axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=5 if len(curves) > 1 else 2
    )
    figure.tight_layout(rect=(0, 0, 1, 0.9 if len(curves) > 1 else 0.78))
    figure.savefig(HERE.parent / "docs" / name, dpi=90)


if __name__ == "__main__":
    main()
