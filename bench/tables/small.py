"""Public tables for learning: scikit-learn's own, made-up ones, and files of a folder; all on declared ranges.

Ranges are round numbers outside the minima and maxima, or the documented ones. A user must have such ranges from
elsewhere. Every table says what an estimator must be told, and nothing else: norm, classes or label bounds.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tables import adult


@dataclass(frozen=True)
class BenchTable:
    """Rows, labels and what is declared about them."""

    name: str
    rows: np.ndarray
    labels: np.ndarray
    norm: float
    classes: tuple[Any, ...] = ()
    bounds: tuple[float, float] | None = None
    goals: dict[float, float] = field(default_factory=dict)
    """Accuracy to reach, or RMSE not to exceed, by ε; None where nobody set one."""

    columns: Any = None
    """What an additive model is told: bounds, or `Columns` for what `frame` makes; None to leave it out."""

    additive_goals: dict[float, float] = field(default_factory=dict)
    frame: Callable[[np.ndarray], Any] = np.asarray
    test: tuple[np.ndarray, np.ndarray] | None = None
    """A test part of its own; else a quarter is held out, another one for every split."""

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Training rows and labels, test rows and labels."""
        if self.test is not None:
            return self.rows, self.labels, *self.test
        from sklearn.model_selection import train_test_split

        stratify = self.labels if self.classes else None
        train, test, known, truth = train_test_split(
            self.rows, self.labels, test_size=0.25, random_state=seed, stratify=stratify
        )
        return train, known, test, truth


def scaled(rows: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Columns from declared ranges to [−1, 1]."""
    return np.asarray(2 * np.clip((rows - np.array(low)) / (np.array(high) - np.array(low)), 0, 1) - 1)


def unit(rows: np.ndarray) -> np.ndarray:
    """Every row at length 1: a rule for the row alone."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def tables(folder: Path | None) -> Iterator[tuple[str, Callable[[], BenchTable]]]:
    """Names, and how to load each."""
    yield from (
        ("digits", digits), ("digits-range", digits_range), ("breast", breast), ("wine", wine), ("make_clf", made),
        ("make_clf5", made_five), ("illcond", uneven), ("diabetes", diabetes), ("friedman", friedman),
    )  # fmt: skip
    if folder is not None:
        yield "adult", lambda: adult_income(folder / "adult")
        yield "adult-hours", lambda: adult_hours(folder / "adult")
        yield "fmnist", lambda: fashion(folder / "fashion-mnist")


TEN = tuple(range(10))


def digits() -> BenchTable:
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    return BenchTable("digits", unit(rows), labels, 1.0, TEN, goals={0.1: 0.24, 0.5: 0.83, 1: 0.89, 3: 0.925})


def digits_range() -> BenchTable:
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    return BenchTable("digits-range", rows / 16, labels, 8.0, TEN, goals={0.1: 0.13, 0.5: 0.76, 1: 0.87, 3: 0.91})


def breast() -> BenchTable:
    from sklearn.datasets import load_breast_cancer

    rows, labels = load_breast_cancer(return_X_y=True)
    top = [30, 40, 200, 2600, 0.2, 0.4, 0.5, 0.25, 0.4, 0.1, 3, 5, 25, 550, 0.04, 0.15, 0.4, 0.06, 0.08, 0.03,
           40, 50, 260, 4300, 0.25, 1.1, 1.3, 0.3, 0.7, 0.21]  # fmt: skip
    return BenchTable("breast", scaled(rows, [0] * 30, top), labels, math.sqrt(30), (0, 1), goals={1: 0.92})


def wine() -> BenchTable:
    from sklearn.datasets import load_wine

    rows, labels = load_wine(return_X_y=True)
    low = [11, 0.5, 1, 10, 70, 0.9, 0.3, 0.1, 0.4, 1, 0.4, 1.2, 250]
    high = [15, 6, 3.5, 31, 165, 4, 5.5, 0.7, 4, 13, 1.8, 4.1, 1700]
    return BenchTable("wine", scaled(rows, low, high), labels, math.sqrt(13), (0, 1, 2), goals={1: 0.88})


def made() -> BenchTable:
    from sklearn.datasets import make_classification

    rows, labels = make_classification(
        5000, 20, n_informative=8, n_clusters_per_class=3, class_sep=1.0, flip_y=0.05, random_state=1
    )
    return BenchTable("make_clf", np.clip(rows / 6, -1, 1), labels, math.sqrt(20), (0, 1), columns=(-1, 1))


def made_five() -> BenchTable:
    from sklearn.datasets import make_classification

    rows, labels = make_classification(
        8000, 15, n_informative=8, n_classes=5, n_clusters_per_class=1, class_sep=1.2, random_state=2
    )
    return BenchTable("make_clf5", np.clip(rows / 6, -1, 1), labels, math.sqrt(15), tuple(range(5)), columns=(-1, 1))


def uneven() -> BenchTable:
    """Columns whose sizes fall from 1 to a tenth, and a label that depends on all of them alike."""
    generator = np.random.default_rng(5)
    mixed = generator.normal(size=(10_000, 40)) @ np.linalg.qr(generator.normal(size=(40, 40)))[0]
    rows = np.clip(mixed / 4 * np.geomspace(1, 0.1, 40), -1, 1)
    margin = mixed @ generator.normal(size=40) * 0.4
    labels = (generator.uniform(size=10_000) < 1 / (1 + np.exp(-margin))).astype(int)
    return BenchTable("illcond", rows, labels, math.sqrt(40), (0, 1))


def diabetes() -> BenchTable:
    from sklearn.datasets import load_diabetes

    rows, labels = load_diabetes(return_X_y=True, scaled=False)
    low, high = [18, 1, 15, 60, 90, 40, 20, 2, 3, 55], [80, 2, 45, 135, 305, 245, 100, 9.1, 6.2, 125]
    known = scaled(rows, low, high)
    return BenchTable("diabetes", known, labels, math.sqrt(10), bounds=(25, 346), goals={1: 63}, columns=(-1, 1))


def friedman() -> BenchTable:
    from sklearn.datasets import make_friedman1

    rows, labels = make_friedman1(6000, 10, noise=1.0, random_state=0)
    goals = {0.1: 2.8, 0.5: 2.63, 1: 2.62, 3: 2.61}
    bent = {"columns": (-1, 1), "additive_goals": {0.1: 2.8, 0.5: 1.80, 1: 1.73, 3: 1.69}}
    return BenchTable("friedman", 2 * rows - 1, labels, math.sqrt(10), bounds=(0, 30), goals=goals, **bent)


def adult_income(folder: Path) -> BenchTable:
    train, labels, test, truth = adult.adult(folder)
    book = adult.categories(folder)
    rows, norm = adult.plain(train, book)
    goals = {0.1: 0.837, 0.5: 0.845, 1: 0.847, 3: 0.848}
    columns, frame = adult_columns(book)
    bent = {"columns": columns, "frame": frame, "additive_goals": {0.1: 0.845, 0.5: 0.854, 1: 0.854, 3: 0.856}}
    seen = adult.plain(test, book)[0]
    return BenchTable("adult", rows, labels, norm, (0, 1), goals=goals, test=(seen, truth), **bent)


def adult_columns(book: dict[str, list[str]]) -> tuple[Any, Callable[[np.ndarray], Any]]:
    """Columns of the plain rows, and how to make a frame of them again."""
    from deniable.learning import Columns

    names = ("age", "education-num", "hours-per-week", "capital-gain", "capital-loss")

    def frame(rows: np.ndarray) -> dict[str, np.ndarray]:
        found, start = {}, 0
        for name in adult.CATEGORICAL:
            part = rows[:, start : start + len(book[name])]
            found[name] = np.where(part.any(axis=1), part.argmax(axis=1), -1)
            start += len(book[name])
        return found | dict(zip(names, rows[:, start:].T, strict=True))

    groups = {name: list(range(len(book[name]))) for name in adult.CATEGORICAL}
    return Columns({**groups, **dict.fromkeys(names[:3], (-1, 1)), **dict.fromkeys(names[3:], (0, 1))}), frame


def adult_hours(folder: Path) -> BenchTable:
    train, _, test, _ = adult.adult(folder)
    book = adult.categories(folder)
    rows, norm = adult.plain(train, book, hours=False)
    hours, truth = (part["hours-per-week"].astype(float) for part in (train, test))
    seen = adult.plain(test, book, hours=False)[0]
    return BenchTable("adult-hours", rows, hours, norm, bounds=(0, 100), test=(seen, truth))


def fashion(folder: Path) -> BenchTable:
    """The first 20,000 images, halved to 14 × 14, every row at length 1."""

    def read(name: str, skip: int, shape: tuple[int, ...]) -> np.ndarray:
        with gzip.open(folder / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=skip).reshape(shape)

    images = read("train-images-idx3-ubyte.gz", 16, (-1, 14, 2, 14, 2))[:20_000]
    rows = images.astype(np.float64).mean(axis=(2, 4)).reshape(-1, 196)
    labels = read("train-labels-idx1-ubyte.gz", 8, (-1,))[:20_000].astype(int)
    return BenchTable("fmnist", unit(rows), labels, 1.0, TEN, goals={0.1: 0.64, 0.5: 0.76, 1: 0.78, 3: 0.79})
