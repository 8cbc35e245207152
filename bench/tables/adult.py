"""Adult (UCI): its files, its code book, and maps from its columns to rows of a known greatest norm."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Rows: TypeAlias = tuple[np.ndarray, float]
"""Rows and the norm they are declared to have."""

CATEGORICAL = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
)
COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip


def adult(folder: Path) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Training and test columns and labels."""
    parts: list[Any] = []
    for name in ("adult.data", "adult.test"):
        lines = [line.strip().rstrip(".").split(", ") for line in (folder / name).read_text().splitlines()]
        table = np.array([line for line in lines if len(line) == 15])
        parts += [{column: table[:, j] for j, column in enumerate(COLUMNS)}, (table[:, 14] == ">50K").astype(int)]
    return tuple(parts)  # type: ignore[return-value]


def categories(folder: Path) -> dict[str, list[str]]:
    """The code book: adult.names."""
    found = {}
    for line in (folder / "adult.names").read_text().splitlines():
        name, _, values = line.partition(":")
        if name in CATEGORICAL:
            found[name] = [value.strip().rstrip(".") for value in values.split(",")]
    return found


# How much an indicator of a group may count: all alike, or less for groups that are large or repeat another column.
SHARES = {
    "even": {},
    "lean": {"native-country": 0.25, "race": 0.25, "education": 0.25, "workclass": 0.25},
}
STEPS = {"10": (10, 10, 2500, 250), "5": (5, 5, 2500, 250)}


def indicators(columns: dict[str, np.ndarray], book: dict[str, list[str]], shares: dict[str, float]) -> Rows:
    """99 indicators of categories, and their greatest norm."""
    from deniable.learning import CategoryEncoder

    parts = [
        shares.get(name, 1.0)
        * CategoryEncoder(categories=[book[name]]).fit_transform(columns[name][:, None].astype(object))
        for name in CATEGORICAL
    ]
    return np.hstack(parts), math.sqrt(sum(shares.get(name, 1.0) ** 2 for name in CATEGORICAL))


def numbers(columns: dict[str, np.ndarray], stretch: float, *, hours: bool = True) -> Rows:
    """Five numbers (or four, without the hours) on public ranges, times `stretch`.

    The norm is that of all at their ends but gains and losses, of which most people have neither.
    """
    n = {name: columns[name].astype(float) for name in COLUMNS if name not in CATEGORICAL}
    spread = [(n["age"] - 50) / 50, (n["education-num"] - 8.5) / 7.5]
    if hours:
        spread.append((n["hours-per-week"] - 50) / 50)
    rare = [n["capital-gain"] / 10_000, n["capital-loss"] / 2_500]
    return stretch * np.clip(np.column_stack([*spread, *rare]), -1, 1), stretch * math.sqrt(len(spread))


def bins(columns: dict[str, np.ndarray], steps: tuple[int, int, int, int]) -> Rows:
    """Indicators of bins of age, hours, gains and losses at multiples of round steps."""
    from deniable.learning import BinEncoder

    age, hours, gain, loss = steps
    edges = {
        "age": range(age, 80, age), "hours-per-week": range(hours, 80, hours),
        "capital-gain": [1, *range(gain, 20_001, gain)], "capital-loss": [1, *range(loss, 3_001, loss)],
    }  # fmt: skip
    parts = [BinEncoder(edges=[list(cuts)]).fit_transform(columns[name][:, None]) for name, cuts in edges.items()]
    return np.hstack(parts), 2.0


def beside(*parts: Rows) -> Rows:
    """Columns side by side; squared norms add up."""
    return np.hstack([rows for rows, _ in parts]), math.sqrt(sum(norm * norm for _, norm in parts))


def plain(columns: dict[str, np.ndarray], book: dict[str, list[str]], *, hours: bool = True) -> dict[str, Rows]:
    """104 columns: indicators of categories and five numbers (four where the hours are what is predicted)."""
    return {
        f"{share} x{stretch:g}": beside(indicators(columns, book, shares), numbers(columns, stretch, hours=hours))
        for share, shares in SHARES.items()
        for stretch in (1.0, 2.0)
    }


def rich(columns: dict[str, np.ndarray], book: dict[str, list[str]]) -> dict[str, Rows]:
    """The same with bins."""
    return {
        f"{share} {step}": beside(indicators(columns, book, shares), numbers(columns, 1.0), bins(columns, steps))
        for share, shares in SHARES.items()
        for step, steps in STEPS.items()
    }


def folder() -> Path | None:
    named = os.environ.get("DENIABLE_DATA")
    if not named or not (Path(named) / "adult" / "adult.data").exists():
        print("skipped Adult: set DENIABLE_DATA to a folder that holds adult/adult.data, adult.test and adult.names")
        return None
    return Path(named) / "adult"
