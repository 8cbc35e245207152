"""Excel workbooks as tables: the cells of the only sheet, written down as CSV, and read like CSV from there on.

A cell's type is a property of the cell, not of the column, so no type is kept: what a cell holds is written as a text,
and a column is read as what a query compares it with. Numbers are written as they are, times in ISO form, an empty cell
as nothing; a formula counts as the value that was saved with it. The first row holds the names.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from deniable._files import replacing
from deniable.errors import DataError, NotSupported

_MISSING = "{} is an Excel file, which needs openpyxl; run: pip install 'deniable[excel]', or save it as CSV or Parquet"


def write_csv(path: Path, folder: Path) -> Path:
    """The table of a workbook as a CSV file in a folder of ours."""
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise NotSupported(_MISSING.format(path.name)) from None
    place = folder / f"{path.stem}.csv"
    try:
        with warnings.catch_warnings():  # about cells, which are somebody's
            warnings.simplefilter("ignore")
            workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                sheets = list(workbook.sheetnames)
                if len(sheets) == 1:
                    with (
                        replacing(place, private=True) as beside,
                        beside.open("w", newline="", encoding="utf-8") as file,
                    ):
                        csv.writer(file, lineterminator="\n").writerows(_rows(workbook.worksheets[0].values))
            finally:
                workbook.close()
    except Exception:  # noqa: BLE001  openpyxl raises what it meets: of zip, of XML, of a date that is none
        raise DataError(f"{path.name} could not be read as an Excel file; save it as CSV or Parquet") from None
    if len(sheets) != 1:
        raise DataError(f"{path.name} has {len(sheets)} sheets; save the one to ask in a file of its own")
    return place


def _rows(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[str]]:
    """The rows of a sheet as texts, each as wide as the first; rows without any value are passed over."""
    width = 0
    for row in rows:
        texts = [_text(value) for value in row]
        if not width:
            while texts and not texts[-1]:
                texts.pop()
            width = len(texts)
        if any(texts):
            yield [*texts[:width], *[""] * (width - len(texts))]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date | time) else str(value)
