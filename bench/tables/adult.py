"""Adult (UCI): its files, its code book, and maps from its columns to rows of a known greatest norm."""

from __future__ import annotations

import math
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


def indicators(columns: dict[str, np.ndarray], book: dict[str, list[str]]) -> Rows:
    """99 indicators of categories, and their greatest norm: the root of the number of columns that they are made of."""
    from deniable.learning import CategoryEncoder

    parts = [
        CategoryEncoder(categories=[book[name]]).fit_transform(columns[name][:, None].astype(object))
        for name in CATEGORICAL
    ]
    return np.hstack(parts), math.sqrt(len(CATEGORICAL))


def numbers(columns: dict[str, np.ndarray], *, hours: bool = True) -> Rows:
    """Five numbers (or four, without the hours) on public ranges.

    The norm is that of all at their ends but gains and losses, of which most people have neither.
    """
    n = {name: columns[name].astype(float) for name in COLUMNS if name not in CATEGORICAL}
    spread = [(n["age"] - 50) / 50, (n["education-num"] - 8.5) / 7.5]
    if hours:
        spread.append((n["hours-per-week"] - 50) / 50)
    rare = [n["capital-gain"] / 10_000, n["capital-loss"] / 2_500]
    return np.clip(np.column_stack([*spread, *rare]), -1, 1), math.sqrt(len(spread))


def plain(columns: dict[str, np.ndarray], book: dict[str, list[str]], *, hours: bool = True) -> Rows:
    """104 columns: indicators of categories and five numbers (four where the hours are what is predicted)."""
    categories, spread = indicators(columns, book), numbers(columns, hours=hours)
    return np.hstack([categories[0], spread[0]]), math.hypot(categories[1], spread[1])
