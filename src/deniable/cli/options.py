"""What people type for bounds and keys, read exactly.

>>> bounds(["cost=0:5000"])
{'cost': (Decimal('0'), Decimal('5000'))}
>>> keys(["city=Bern,Basel"])
{'city': ['Bern', 'Basel']}
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

from deniable.errors import InvalidArgument


def bounds(given: Sequence[str]) -> dict[str, tuple[Decimal, Decimal]]:
    """`cost=0:5000` for each column."""
    found = {}
    for text in given:
        column, equals, span = text.partition("=")
        low, colon, high = span.partition(":")
        try:
            found[column] = (Decimal(low), Decimal(high))
        except InvalidOperation:
            equals = ""
        if not (column and equals and colon):
            raise InvalidArgument("--bounds", text, "of the form COLUMN=LOW:HIGH", "For example --bounds cost=0:5000.")
    return found


def keys(given: Sequence[str]) -> dict[str, list[str]]:
    """`city=Bern,Basel`, or `city=@cities.txt` with one key per line."""
    found = {}
    for text in given:
        column, equals, listed = text.partition("=")
        if not (column and equals and listed):
            raise InvalidArgument(
                "--keys", text, "of the form COLUMN=KEY,KEY,... or COLUMN=@FILE", "For example --keys city=Bern,Basel."
            )
        found[column] = _lines(listed[1:]) if listed.startswith("@") else listed.split(",")
    return found


def _lines(path: str) -> list[str]:
    try:
        return [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line]
    except OSError as failure:
        raise InvalidArgument("--keys", f"@{path}", "a readable file with one key per line", str(failure)) from None
