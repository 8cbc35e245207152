"""The number n of records: public under REPLACE and ZERO_OUT, where it is stated, and private under ADD_REMOVE.

>>> stated(1000, Relation.REPLACE), stated(None, Relation.ADD_REMOVE)
(1000, None)
"""

from __future__ import annotations

from collections.abc import Sized

from deniable import _checks
from deniable.errors import DataError, InvalidArgument
from deniable.units import Relation


def stated(n: int | None, relation: Relation, *, least: int = 1) -> int | None:
    """The public number of records, or None where it is private."""
    if relation is Relation.ADD_REMOVE:
        if n is not None:
            raise InvalidArgument(
                "n", n, "left out under ADD_REMOVE", "There it is private; with relation=REPLACE it is public."
            )
        return None
    if n is None:
        raise InvalidArgument("n", n, "the public number of records", f"Under {relation.name} it is public; say it.")
    return _checks.count("n", n, least=least)


def held(values: Sized, n: int, *, what: str) -> None:
    """Refuse data of another length than the public one."""
    if len(values) != n:
        raise DataError(f"this {what} is over n={n} records, which is public; the values have another length")


def planned(n: int | None, *, what: str) -> int:
    """The number of values to state an accuracy for, where the real one is private."""
    if n is None:
        raise InvalidArgument("n", n, "the number of values to plan for", f"The accuracy of this {what} depends on it.")
    return _checks.count("n", n)
