"""A small table with everything a row may hold, and sessions over it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import deniable as dn
from deniable.synthesis import ColumnBins

ROWS: dict[str, list[Any]] = {
    "who": [1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 8],
    "sex": ["f", "m", None, "x", "f", "m", "m", "f", "f", "", "m", "m"],
    "age": [0.0, 9.9, 10.0, math.nan, math.inf, -math.inf, 1e300, -0.0, 25.0, 39.9, 40.0, None],
    "grade": [1, 2, 3, 99, -5, 2, 2, 1, 3, 3, 2, 1],
    "married": [True, False, None, True, False, True, True, False, None, True, False, True],
    "day": [datetime.date(2026, 1, 1 + day) for day in range(12)],
}
COLUMNS: dict[str, Any] = {
    "sex": ["f", "m"],
    "age": ColumnBins.steps(0, 40, 10),
    "grade": range(1, 4),
    "married": None,
    "day": ColumnBins.steps(datetime.date(2026, 1, 3), datetime.date(2026, 1, 11), 4),
}
CODES = {
    "sex": [0, 1, 2, 2, 0, 1, 1, 0, 0, 2, 1, 1],
    "age": [0, 0, 1, 4, 3, 0, 3, 0, 2, 3, 3, 4],
    "grade": [0, 1, 2, 2, 0, 1, 1, 0, 2, 2, 1, 0],
    "married": [1, 0, 2, 1, 0, 1, 1, 0, 2, 1, 0, 1],
    "day": [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1],
}
"""What the rule of `domain` says about every value above."""


def frame() -> pd.DataFrame:
    columns: dict[str, Any] = {name: pd.Series(values) for name, values in ROWS.items()}
    columns["age"] = pd.Series(ROWS["age"], dtype="float64")
    columns["married"] = pd.Series(ROWS["married"], dtype="boolean")
    columns["day"] = pd.Series(ROWS["day"], dtype=pd.ArrowDtype(pa.date32()))
    return pd.DataFrame(columns)


@contextmanager
def session(folder: Path, data: pd.DataFrame | None = None, *, unit: str = "row", **terms: Any) -> Iterator[dn.Session]:
    budget = dn.ApproxDP(terms.pop("epsilon", 100), 1e-6, **terms)
    ledger = dn.Ledger.create(folder / f"{unit}.ledger", unit=unit, budget=budget)
    with dn.Session({"people": frame() if data is None else data}, ledger=ledger) as opened:
        yield opened


def tabulated(codes: np.ndarray, places: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """The marginal of some columns of a matrix of codes."""
    found = np.zeros(shape, dtype=np.int64)
    np.add.at(found, tuple(codes[:, place] for place in places), 1)
    return found
