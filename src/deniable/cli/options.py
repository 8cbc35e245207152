"""Readers of options: tables, bounds, keys, limits, errors and weights, as people type them. Numbers stay exact.

>>> bounds(["cost=0:5000"])
{'cost': (Decimal('0'), Decimal('5000'))}
>>> keys(["city=Bern,Basel"])
{'city': ['Bern', 'Basel']}
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.errors import InvalidArgument

if TYPE_CHECKING:
    from deniable.query import AtMost
    from deniable.synthesis import ColumnBins

PRIVATE = "private"
"""The word for bounds and limits that a query finds privately."""


def bounds(texts: Sequence[str]) -> dict[str, tuple[Decimal, Decimal]]:
    """`cost=0:5000` for each column."""
    parsed_bounds = {}
    for text in texts:
        column, equals, span = text.partition("=")
        low, colon, high = span.partition(":")
        try:
            parsed_bounds[column] = (Decimal(low), Decimal(high))
        except InvalidOperation:
            equals = ""
        if not (column and equals and colon):
            raise InvalidArgument("--bounds", text, "of the form COLUMN=LOW:HIGH", "For example --bounds cost=0:5000.")
    return parsed_bounds


def bounds_or_private(texts: Sequence[str]) -> dict[str, tuple[Decimal, Decimal] | str] | str:
    """`cost=0:5000` or `cost=private` for each column, or `private` for all columns."""
    if list(texts) == [PRIVATE]:
        return PRIVATE
    private_texts = [text for text in texts if text.partition("=")[2] == PRIVATE]
    fixed = bounds([text for text in texts if text not in private_texts])
    return {**fixed, **{text.partition("=")[0]: PRIVATE for text in private_texts}}


def tables(texts: Sequence[str], *, option: str = "--table", without: Container[str] = ()) -> dict[str, str]:
    """`visits.parquet`, which names its table, or `visits=2026/*.parquet`, or a table of an engine elsewhere; a DuckDB
    file without a name stands for all its tables, but for those `without`."""
    from deniable.query.engines.databases import is_database, tables_of
    from deniable.query.engines.files import table_name

    paths: dict[str, str] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if text.startswith("spark:"):
            name, path = text.removeprefix("spark:").rpartition(".")[2], text
        elif text.startswith(("postgresql://", "postgres://")):
            raise InvalidArgument(option, text, "a table's name before the database", "Write visits=postgresql://...")
        # A path that exists may hold an equals sign.
        elif equals and not Path(text).exists():
            pass
        elif is_database(text):
            known = tables_of(text)
            if not known:
                raise InvalidArgument(option, text, "a database with tables", "Views are not read.")
            _add(paths, {each: text for each in known if each not in without}, option)
            continue
        else:
            name, path = table_name(text), text
        _add(paths, {name: path}, option)
    return paths


def _add(paths: dict[str, str], more: Mapping[str, str], option: str) -> None:
    for name, path in more.items():
        if name in paths:
            raise InvalidArgument(option, path, "a table of a new name", "Write NAME=FILE.")
        paths[name] = path


def errors(texts: Sequence[str]) -> Decimal | dict[str, Decimal] | None:
    """`50` for every aggregate, or `visits=50` for each."""
    if len(texts) == 1 and "=" not in texts[0]:
        return _decimal("--error", texts[0])
    return _numbers_by_name("--error", texts) if texts else None


def weights(texts: Sequence[str]) -> dict[str, Decimal] | None:
    """`visits=2` for each aggregate whose weight is not 1."""
    return _numbers_by_name("--weights", texts) if texts else None


def per_unit(
    groups: int | None, rows: int | None, word: str | None, *, total: int | None = None
) -> AtMost | str | None:
    """The limits, or the word that asks for limits found privately."""
    if word is not None:
        if word != PRIVATE or (groups, rows, total) != (None, None, None):
            raise InvalidArgument(
                "--per-unit", word, "private, and without --groups-per-unit and --rows-per-unit", "Give one of the two."
            )
        return word
    if (groups, rows, total) == (None, None, None):
        return None
    if groups is None or rows is None:
        missing = "--groups-per-unit" if groups is None else "--rows-per-unit"
        raise InvalidArgument(
            missing, None, "given together with its twin", "For example --groups-per-unit 2 --rows-per-unit 4."
        )
    from deniable.query import AtMost

    return AtMost(groups=groups, rows=rows, total=total)


def _numbers_by_name(option: str, texts: Sequence[str]) -> dict[str, Decimal]:
    numbers = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not (name and equals):
            raise InvalidArgument(option, text, "of the form NAME=NUMBER", f"For example {option} visits=2.")
        numbers[name] = _decimal(option, number)
    return numbers


def _decimal(option: str, text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise InvalidArgument(option, text, "a number") from None


def keys(texts: Sequence[str]) -> dict[str, list[str]]:
    """`city=Bern,Basel`, or `city=@cities.txt` with one key per line."""
    keys_by_column = {}
    for text in texts:
        column, equals, key_text = text.partition("=")
        if not (column and equals and key_text):
            raise InvalidArgument(
                "--keys", text, "of the form COLUMN=KEY,KEY,... or COLUMN=@FILE", "For example --keys city=Bern,Basel."
            )
        keys_by_column[column] = _lines(key_text[1:]) if key_text.startswith("@") else key_text.split(",")
    return keys_by_column


def bins(texts: Sequence[str]) -> dict[str, ColumnBins | str]:
    """`age=0:100:10`, or `day=2026-01-01:2027-01-01:30`, or `age=private`, for each column."""
    from deniable.synthesis import ColumnBins

    bins_by_column: dict[str, ColumnBins | str] = {}
    for text in texts:
        column, equals, span = text.partition("=")
        parts = span.split(":")
        if column and equals and span == PRIVATE:
            bins_by_column[column] = PRIVATE
            continue
        if not (column and equals and len(parts) == 3):
            raise InvalidArgument(
                "--bins", text, "of the form COLUMN=LOW:HIGH:STEP", "For example --bins age=0:100:10."
            )
        bins_by_column[column] = ColumnBins.steps(_end(parts[0]), _end(parts[1]), _decimal("--bins", parts[2]))
    return bins_by_column


def _end(text: str) -> Decimal | date:
    """The end of a bin: a number or a day."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return _decimal("--bins", text)


def text_at(option: str, path: Path, expected: str) -> str:
    """The text of a file that an option names. It may be the wrong file, with private data, so no message quotes it.

    Bytes that are not UTF-8 become question marks, so that no record of a table decides what the message says.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as failure:
        raise InvalidArgument(option, str(path), expected, f"{failure.strerror}.") from None


def _lines(path: str) -> list[str]:
    try:
        return [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line]
    except (OSError, UnicodeDecodeError) as failure:
        why = failure.strerror if isinstance(failure, OSError) else "It is not UTF-8"
        raise InvalidArgument("--keys", f"@{path}", "a readable file with one key per line", f"{why}.") from None
