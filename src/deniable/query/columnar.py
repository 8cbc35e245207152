"""Columns as a table of another library, and as CSV: what a release and a synthetic table share."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from deniable.errors import NotSupported


class Columnar(ABC):
    """Something with columns."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, list[Any]]:
        """The values by column, as many in each."""

    def to_pandas(self) -> Any:
        """A pandas DataFrame of `columns`."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise NotSupported("to_pandas() needs pandas, which is not installed; run: pip install pandas") from None
        return pandas.DataFrame(self.columns)

    def to_arrow(self) -> Any:
        """A pyarrow Table of `columns`; whole numbers beyond 64 bits are decimals, beyond 38 digits floats."""
        try:
            import pyarrow
        except ModuleNotFoundError:
            raise NotSupported("to_arrow() needs pyarrow, which is not installed; run: pip install pyarrow") from None
        return pyarrow.table({name: _arrow(pyarrow, column) for name, column in self.columns.items()})

    def to_csv(self) -> str:
        """The columns as CSV text, with a line of names; missing values are empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        return out.getvalue()

    def to_polars(self) -> Any:
        """A Polars DataFrame of `columns`."""
        try:
            import polars
        except ModuleNotFoundError:
            raise NotSupported("to_polars() needs polars, which is not installed; run: pip install polars") from None
        return polars.from_arrow(self.to_arrow())


def _arrow(pyarrow: Any, column: list[Any]) -> Any:
    """A column as an Arrow array, whatever the size of its numbers."""
    try:
        return pyarrow.array(column)
    except OverflowError:
        small = all(abs(value) < 10**38 for value in column)
        return (
            pyarrow.array([Decimal(value) for value in column], type=pyarrow.decimal128(38))
            if small
            else (pyarrow.array([float(value) for value in column]))
        )
