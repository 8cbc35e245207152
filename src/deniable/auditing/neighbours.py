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
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._signatures import public
from deniable.auditing.outputs import read_output
from deniable.errors import InvalidArgument, UnitMismatch
from deniable.units import RECORD, AnyRelation, Relation, Unit

Keys: TypeAlias = NDArray[np.uint64]


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


class ChangedPlace(NamedTuple):
    """Where one data set has a record that the other has not."""

    place: int
    second_is_longer: bool


def place_of_change(first: Any, second: Any) -> ChangedPlace | None:
    """The place of the one record more; None where the data sets differ in another way."""
    before, after = _table(first), _table(second)
    if before is None or after is None or abs(len(before) - len(after)) != 1:
        return None
    one, two = _differing_parts(before, after)
    if {len(one), len(two)} != {0, 1}:
        return None
    least = min(len(before), len(after))
    return ChangedPlace(_alike(before.part(range(least)), after.part(range(least))), len(after) > len(before))


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
    tables, parts = (before, after), _differing_parts(before, after)
    if unit.column is None:
        one, two = (table.part(part) for table, part in zip(tables, parts, strict=True))
    else:
        one, two = _rows_of_owners(tables, parts, unit.column)
    bags = _bag(one, unit), _bag(two, unit)
    return (bags[0] - bags[1]).total(), (bags[1] - bags[0]).total()


@dataclass(frozen=True)
class _Table:
    """Records as columns of one length; without names, one column of records as they are."""

    columns: dict[str | None, Any]

    def __len__(self) -> int:
        return next((len(column) for column in self.columns.values()), 0)

    def part(self, rows: range) -> _Table:
        """Some rows in a row."""
        return _Table({name: column[rows.start : rows.stop] for name, column in self.columns.items()})

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


def _differing_parts(one: _Table, two: _Table) -> tuple[range, range]:
    """The rows of both tables between those with which they begin and end alike: neighbours mostly have one left."""
    if one.columns.keys() != two.columns.keys():
        return range(len(one)), range(len(two))
    least = min(len(one), len(two))
    front = _alike(one.part(range(least)), two.part(range(least)))
    ends = [table.part(range(len(table) - least + front, len(table))) for table in (one, two)]
    backwards = [_Table({name: column[::-1] for name, column in end.columns.items()}) for end in ends]
    back = _alike(*backwards)
    return range(front, len(one) - back), range(front, len(two) - back)


def _rows_of_owners(tables: tuple[_Table, _Table], parts: tuple[range, range], column: str) -> tuple[_Table, _Table]:
    """All rows of the units that have a row that the other table lacks; the other units have the same rows in both.

    Rows are compared by keys of 64 bits, in arrays. A unit may be kept for nothing, because objects that are equal and
    not the same have different keys; so the rows that are kept are compared by value afterwards.
    """
    columns = _columns(tables, column)
    if columns is None or tables[0].columns.keys() != tables[1].columns.keys():
        return tables
    owners = _column_keys(*columns)
    known = {column: tuple(keys[part.start : part.stop] for keys, part in zip(owners, parts, strict=True))}
    differing = tables[0].part(parts[0]), tables[1].part(parts[1])
    lacking = _keys_in_one_only(*_row_keys(differing, known))
    wanted = np.unique(np.concatenate([keys[which] for keys, which in zip(known[column], lacking, strict=True)]))
    found = []
    for table, keys in zip(tables, owners, strict=True):
        kept = np.isin(keys, wanted)
        found.append(_Table({name: _filtered(part, kept) for name, part in table.columns.items()}))
    return found[0], found[1]


def _columns(tables: tuple[_Table, _Table], name: str) -> tuple[Any, Any] | None:
    """The values of a column in both tables; of mappings, what each has there. None if a table lacks it."""
    found = []
    for table in tables:
        if None not in table.columns:
            if name not in table.columns:
                return None
            found.append(table.columns[name])
        elif all(issubclass(kind, Mapping) for kind in set(map(type, table.columns[None]))):
            try:
                found.append([row[name] for row in table.columns[None]])
            except KeyError:
                return None
        else:
            return None
    return found[0], found[1]


def _row_keys(tables: tuple[_Table, _Table], known: Mapping[str, tuple[Keys, ...]]) -> tuple[Keys, Keys]:
    """A key for every row of both tables; the keys of some columns are known."""
    keys = [np.zeros(len(table), dtype=np.uint64) for table in tables]
    for place, name in enumerate(tables[0].columns):
        columns = known.get(name or "") or _column_keys(*(table.columns[name] for table in tables))
        for total, column in zip(keys, columns, strict=True):
            total += _mixed(column + np.uint64(place))
    return keys[0], keys[1]


def _column_keys(one: Any, two: Any) -> tuple[Keys, Keys]:
    """A key for every value of a column in two tables: equal values of one type have equal keys.

    NaN is like NaN in columns of floats. Objects that are not plain have a key by what they are, not by value.
    """
    columns = [column.tolist() if _is_boxed(column) else column for column in (one, two)]
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    if len(arrays) == 2 and len({(array.dtype, array.shape[1:]) for array in arrays}) == 1:
        return _array_keys(arrays[0]), _array_keys(arrays[1])
    columns = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
    kinds = {kind for column in columns for kind in set(map(type, column))}
    if kinds in ({int}, {float}, {bool}):
        arrays = [np.asarray(column) for column in columns]
        if {array.dtype.str for array in arrays} in ({"<i8"}, {"<f8"}, {"|b1"}):  # no integers beyond 64 bits
            return _array_keys(arrays[0]), _array_keys(arrays[1])
    key = hash if kinds in ({str}, {bytes}) else id if not kinds & set(_PLAIN) else _object_key
    keys = [np.fromiter(map(key, column), dtype=np.int64, count=len(column)).view(np.uint64) for column in columns]
    return keys[0], keys[1]


def _is_boxed(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind not in "biufcMmSU"


def _array_keys(values: NDArray[Any]) -> Keys:
    """A key for every row of an array."""
    if values.dtype.kind in "fc":
        values = np.where(values == values, values, np.nan)
    width = values.dtype.itemsize
    flat = (
        np.ascontiguousarray(values).reshape(len(values), -1) if values.size else np.zeros((len(values), 0), np.uint8)
    )
    pieces = flat.view(np.uint64 if width % 8 == 0 else np.uint32 if width % 4 == 0 else np.uint8)
    keys = np.zeros(len(values), dtype=np.uint64)
    for piece in pieces.T:
        keys = _mixed(keys + piece.astype(np.uint64))
    return keys


def _object_key(value: Any) -> int:
    """A key of one object: by value for plain ones, else by what it is."""
    kind = type(value)
    return hash((kind, value)) if kind in _PLAIN else hash((None, id(value)))


def _mixed(keys: Keys) -> Keys:
    """Keys with all their bits spread (the finisher of SplitMix64)."""
    keys = (keys + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    keys ^= keys >> np.uint64(31)
    keys *= np.uint64(0x94D049BB133111EB)
    keys ^= keys >> np.uint64(29)
    return keys


def _keys_in_one_only(one: Keys, two: Keys) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows have a key that comes more often in one table than in the other."""
    values, signs = np.concatenate([one, two]), np.repeat(np.array([1, -1]), [len(one), len(two)])
    if not len(values):
        return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
    order = np.argsort(values)
    first = np.flatnonzero(np.concatenate([[True], np.diff(values[order]) != 0]))
    uneven = values[order][first[np.add.reduceat(signs[order], first) != 0]]
    return np.isin(one, uneven), np.isin(two, uneven)


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
        return type(table)(map(table.__getitem__, np.flatnonzero(kept).tolist()))
    if isinstance(table, Mapping):
        return {name: _filtered(column, kept) for name, column in table.items()}
    return table.filter(kept) if hasattr(table, "with_columns") else table[kept]
