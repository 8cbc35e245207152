"""Two neighbouring inputs, checked against the claim's relation.

Records are compared as a bag: under ADD_REMOVE one bag is the other and one record more; under REPLACE and ZERO_OUT the
bags have one size and differ in at most one record. Where the claim names an id column and the data have it, all
records of one unit count as one. Inputs that are no tables of records (a computed answer) cannot be checked here; say
so with `Pair(first, second, check=False)`.

>>> from deniable.units import ADD_REMOVE, REPLACE
>>> Pair([1, 2, 3], [1, 2]).checked(ADD_REMOVE).check
True
>>> Pair([1, 2, 3], [1, 2]).checked(REPLACE)
Traceback (most recent call last):
...
deniable.errors.UnitMismatch: neighbours must be neighbours under the claim's relation REPLACE ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deniable.auditing.outputs import read_output
from deniable.errors import InvalidArgument, UnitMismatch
from deniable.units import RECORD, AnyRelation, Relation, Unit


@dataclass(frozen=True)
class Pair:
    """Two neighbouring inputs. They are kept out of every message: data may be private."""

    first: Any = field(repr=False)
    second: Any = field(repr=False)
    check: bool = True
    name: str = "the given pair"

    def checked(self, relation: AnyRelation, unit: Unit = RECORD) -> Pair:
        """This pair, if it is one of neighbours under the relation."""
        relation = Relation.of(relation)
        if not self.check:
            return self
        bags = [_bag(data, unit) for data in (self.first, self.second)]
        if bags[0] is None or bags[1] is None:
            return self
        more, fewer = (bags[0] - bags[1]).total(), (bags[1] - bags[0]).total()
        if relation is Relation.ADD_REMOVE:
            fine = (more, fewer) in ((1, 0), (0, 1))
        else:
            fine = (more, fewer) in ((1, 1), (0, 0))
        if not fine:
            raise UnitMismatch(
                f"neighbours must be neighbours under the claim's relation {relation.name}"
                f" ({unit.one} {relation.verb}); {more} are in the first only, and {fewer} in the second only."
                " If they are computed answers and not records, pass Pair(first, second, check=False)."
            )
        return self


def pair_of(neighbours: Any) -> Pair:
    """A pair from what a caller gave."""
    if isinstance(neighbours, Pair):
        return neighbours
    if isinstance(neighbours, tuple | list) and len(neighbours) == 2:
        return Pair(neighbours[0], neighbours[1])
    raise InvalidArgument(
        "neighbours", type(neighbours).__name__, "a pair of inputs (d, d_prime), a Pair or a Search",
        "For example neighbours=(data, data[:-1]).",
    )  # fmt: skip


def _bag(data: Any, unit: Unit) -> Counter[Hashable] | None:
    """The records of a data set with how often each occurs, or None where it is no table."""
    rows = _rows(data)
    if rows is None:
        return None
    named = unit.column is not None and all(isinstance(row, Mapping) and unit.column in row for row in rows)
    if not named:
        return Counter(_key(row) for row in rows)
    owned: dict[Hashable, list[Hashable]] = {}
    for row in rows:
        owned.setdefault(_key(row[unit.column]), []).append(_key(row))
    return Counter((owner, tuple(sorted(keys, key=repr))) for owner, keys in owned.items())


def _rows(data: Any) -> list[Any] | None:
    """The records of lists, arrays, tables of columns and frames."""
    if isinstance(data, list | tuple):
        return list(data)
    if isinstance(data, np.ndarray):
        return list(data) if data.ndim else None
    if isinstance(data, Mapping):
        columns = {name: _rows(column) for name, column in data.items()}
        if any(column is None for column in columns.values()):
            return None
        names, lists = list(columns), [column or [] for column in columns.values()]
        if len({len(column) for column in lists}) > 1:
            return None
        return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):
        return _rows({str(name): np.asarray(data[name]) for name in data.columns})
    return None


def _key(row: Any) -> Hashable:
    """A record as a key: what it shows, compared by value."""
    return read_output(row).atom
