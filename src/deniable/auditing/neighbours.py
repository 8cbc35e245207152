"""Two neighbouring inputs, checked against the claim's relation, and suggestions for tables.

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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._signatures import public
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
        counts = _differing(self.first, self.second, unit)
        if counts is None:
            return self
        more, fewer = counts
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


class Change(NamedTuple):
    """Where one data set has a record that the other has not."""

    place: int
    second_is_longer: bool


def place_of_change(first: Any, second: Any) -> Change | None:
    """The place of the one record more; None where the data sets differ in another way."""
    before, after = _table(first), _table(second)
    if before is None or after is None or abs(len(before) - len(after)) != 1:
        return None
    one, two = _without_common_ends(before, after)
    if {len(one), len(two)} != {0, 1}:
        return None
    least = min(len(before), len(after))
    return Change(_alike(before.part(0, least), after.part(0, least)), len(after) > len(before))


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


def _differing(first: Any, second: Any, unit: Unit) -> tuple[int, int] | None:
    """How many units are in the first only, and in the second only; None where the data are no tables of records."""
    before, after = _table(first), _table(second)
    if before is None or after is None:
        return None
    one, two = _without_common_ends(before, after)
    if unit.column is not None:
        one, two = _rows_of_owners((before, after), (one, two), unit.column)
    bags = _bag(one, unit), _bag(two, unit)
    return (bags[0] - bags[1]).total(), (bags[1] - bags[0]).total()


@dataclass(frozen=True)
class _Table:
    """Records as columns of one length; without names, one column of records as they are."""

    columns: dict[str | None, Any]

    def __len__(self) -> int:
        return next((len(column) for column in self.columns.values()), 0)

    def part(self, start: int, stop: int) -> _Table:
        """Some rows in a row."""
        return _Table({name: column[start:stop] for name, column in self.columns.items()})

    def rows(self) -> list[Any]:
        """The records, one by one."""
        if None in self.columns:
            return list(self.columns[None])
        lists = [list(column) for column in self.columns.values()]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*lists, strict=True)]


def _table(data: Any) -> _Table | None:
    """The records of lists, arrays, tables of columns and frames."""
    if isinstance(data, list | tuple):
        return _Table({None: data})
    if isinstance(data, np.ndarray):
        return _Table({None: data}) if data.ndim else None
    if isinstance(data, Mapping):
        columns = dict(data)
        if any(not isinstance(column, list | tuple | np.ndarray) for column in columns.values()):
            return None
        if len({len(column) for column in columns.values()}) > 1:
            return None
        return _Table(columns)
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):
        return _Table({str(name): np.asarray(data[name]) for name in data.columns})
    return None


def _without_common_ends(one: _Table, two: _Table) -> tuple[_Table, _Table]:
    """Both tables without the rows that they begin and end with alike: neighbours mostly have one row left."""
    if one.columns.keys() != two.columns.keys():
        return one, two
    least = min(len(one), len(two))
    front = _alike(one.part(0, least), two.part(0, least))
    ends = [table.part(len(table) - least + front, len(table)) for table in (one, two)]
    backwards = [_Table({name: column[::-1] for name, column in end.columns.items()}) for end in ends]
    back = _alike(*backwards)
    return one.part(front, len(one) - back), two.part(front, len(two) - back)


def _rows_of_owners(
    tables: tuple[_Table, _Table], differing: tuple[_Table, _Table], column: str
) -> tuple[_Table, _Table]:
    """All rows of the units that have a row in the part where the tables differ; the others have the same rows."""
    if any(column not in table.columns for table in tables):
        return tables
    owners = [set(_plain_list(table.columns[column])) for table in differing]
    rows = [Counter(zip(*map(_plain_list, table.columns.values()), strict=True)) for table in differing]
    names = list(differing[0].columns)
    place = names.index(column)
    if names == list(differing[1].columns):
        owners = [{row[place] for row in a - b} for a, b in (rows, rows[::-1])]
    wanted = owners[0] | owners[1]
    found = []
    for table in tables:
        kept = np.fromiter(
            (each in wanted for each in _plain_list(table.columns[column])), dtype=bool, count=len(table)
        )
        found.append(_Table({name: _filtered(part, kept) for name, part in table.columns.items()}))
    return found[0], found[1]


def _plain_list(column: Any) -> list[Any]:
    """A column's values, each as something that can be looked up."""
    values = column.tolist() if isinstance(column, np.ndarray) else list(column)
    return [each if isinstance(each, Hashable) else repr(each) for each in values]


def _alike(one: _Table, two: _Table) -> int:
    """How many rows from the start on are equal; columns are compared as arrays where they are arrays."""
    least = len(one)
    for name, column in one.columns.items():
        least = min(least, _equal_start(column[:least], two.columns[name][:least]))
    return least


def _equal_start(one: Any, two: Any) -> int:
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray) and one.dtype.kind in "biufcMmSU":
        if one.dtype != two.dtype or one.shape != two.shape:
            return 0
        missing = (one != one) & (two != two)  # NaN is like NaN
        different = ~((one == two) | missing).reshape(len(one), -1).all(axis=1) if len(one) else np.zeros(0, dtype=bool)
        return int(np.argmax(different)) if different.any() else len(one)
    for place, (a, b) in enumerate(zip(one, two, strict=True)):
        if a is not b and not (type(a) is type(b) and isinstance(a, _PLAIN) and a == b):
            return place
    return len(one)


_PLAIN = (int, float, str, bytes, bool)


def _bag(table: _Table, unit: Unit) -> Counter[Hashable]:
    """The units of a data set with how often each occurs."""
    rows = table.rows()
    named = unit.column is not None and all(isinstance(row, Mapping) and unit.column in row for row in rows)
    if not named:
        return Counter(_key(row) for row in rows)
    owned: dict[Hashable, list[Hashable]] = {}
    for row in rows:
        owned.setdefault(_key(row[unit.column]), []).append(_key(row))
    return Counter((owner, tuple(sorted(keys, key=repr))) for owner, keys in owned.items())


def _key(row: Any) -> Hashable:
    """A record as a key: what it shows, compared by value."""
    return read_output(row).atom


@public
def neighbours_of(table: Any, *, unit: str = "row", most: int = 12) -> tuple[Pair, ...]:
    """Pairs to try on a real table: the table, and the table without one unit that is likely to stand out.

    Those are the unit with most rows, units with the largest and the smallest value of each numeric column, units with
    the rarest value of each other column, and the first and the last unit. The units are removed with all their rows.

    Args:
        table: a pandas or polars frame, an Arrow table, a dict of columns, a list of dicts, or an array of rows.
        unit: "row", or the column that says whose row it is.
        most: how many pairs at most.

    >>> pairs = neighbours_of({"id": [1, 1, 2, 3], "cost": [5.0, 6.0, 90.0, 2.0]}, unit="id")
    >>> [pair.name for pair in pairs]
    ['without the unit with most rows', 'without the largest cost', 'without the smallest cost']
    >>> pairs[1].second
    {'id': [1, 1, 3], 'cost': [5.0, 6.0, 2.0]}
    """
    given = table.to_pydict() if hasattr(table, "to_pydict") else table
    records = isinstance(given, list) and bool(given) and all(isinstance(row, Mapping) for row in given)
    read = _table({name: [row.get(name) for row in given] for name in given[0]} if records else given)
    if read is None or not len(read):
        raise InvalidArgument("table", type(table).__name__, "a table with rows")
    if unit != "row" and unit not in read.columns:
        raise InvalidArgument("unit", unit, 'a column of the table, or "row"')
    owners = np.arange(len(read)) if unit == "row" else _codes(read.columns[unit])
    pairs: dict[bytes, Pair] = {}
    for name, row in _telling_rows(read, owners, unit):
        kept = owners != owners[row]
        pairs.setdefault(kept.tobytes(), Pair(given, _filtered(given, kept), name=f"without {name}"))
    return tuple(pairs.values())[: _checks.count("most", most)]


def _telling_rows(table: _Table, owners: NDArray[np.int64], unit: str) -> list[tuple[str, int]]:
    """Rows whose owners stand out, with what they stand out by."""
    found: list[tuple[str, int]] = []
    if unit != "row":
        found.append(("the unit with most rows", int(np.argmax(np.bincount(owners)[owners]))))
    for name, column in table.columns.items():
        values = np.asarray(column)
        if name == unit or values.ndim != 1:
            continue
        word = "value" if name is None else name
        if values.dtype.kind in "biuf":
            ordered = np.where(np.isfinite(values.astype(float)), values.astype(float), np.nan)
            if np.isfinite(ordered).any():
                found += [
                    (f"the largest {word}", int(np.nanargmax(ordered))),
                    (f"the smallest {word}", int(np.nanargmin(ordered))),
                ]
        else:
            codes = _codes(column)
            found.append((f"the rarest {word}", int(np.argmin(np.bincount(codes)[codes]))))
    return [*found, ("the first row", 0), ("the last row", len(table) - 1)] if unit == "row" else found


def _codes(column: Any) -> NDArray[np.int64]:
    """Whole numbers for values, in the order in which they come."""
    known: dict[Hashable, int] = {}
    return np.array(
        [known.setdefault(each if isinstance(each, Hashable) else repr(each), len(known)) for each in column]
    )


def _filtered(table: Any, kept: NDArray[np.bool_]) -> Any:
    """The rows that are kept, in the form of the table."""
    if isinstance(table, np.ndarray):
        return table[kept]
    if isinstance(table, list | tuple):
        return type(table)(row for row, keep in zip(table, kept, strict=True) if keep)
    if isinstance(table, Mapping):
        return {name: _filtered(column, kept) for name, column in table.items()}
    return table.filter(kept) if hasattr(table, "with_columns") else table[kept]
