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
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
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
    tables = _tables(first, second)
    if tables is None or abs(len(tables[0]) - len(tables[1])) != 1:
        return None
    before, after = tables
    one, two = _differing_parts(before, after)
    if {len(one), len(two)} != {0, 1}:
        return None
    least = min(len(before), len(after))
    return ChangedPlace(_alike(before, after, least), len(after) > len(before))


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
    tables = _tables(first, second)
    if tables is None:
        return None
    parts = _differing_parts(*tables)
    one, two = _rows_that_count(tables, parts, unit)
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
        if rows == range(len(self)):
            return self
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


def _tables(first: Any, second: Any) -> tuple[_Table, _Table] | None:
    """Both data sets as tables; None if one is no table. Records with the same fields in both become columns."""
    before, after = _table(first), _table(second)
    if before is None or after is None:
        return None
    if None in before.columns and None in after.columns:
        records = before.columns[None], after.columns[None]
        fields = next((tuple(row) for rows in records for row in rows[:1] if type(row) is dict), None)
        one, two = (_fields(rows, fields) if fields else None for rows in records)
        if one is not None and two is not None:
            return _Table(one), _Table(two)
    return before, after


def _fields(rows: Any, names: tuple[Any, ...]) -> dict[str | None, Any] | None:
    """The columns of dicts that have these fields and no other; None if one has not."""
    if set(map(type, names)) != {str}:
        return None
    try:
        if set(map(dict.__len__, rows)) - {len(names)}:
            return None
        return {name: list(map(itemgetter(name), rows)) for name in names}
    except (KeyError, TypeError):  # a field that is not there, or a row that is no dict
        return None


def _differing_parts(one: _Table, two: _Table) -> tuple[range, range]:
    """The rows of both tables between those with which they begin and end alike: neighbours mostly have one left."""
    if one.columns.keys() != two.columns.keys():
        return range(len(one)), range(len(two))
    least = min(len(one), len(two))
    front = _alike(one, two, least)
    back = _alike(one, two, least - front, step=-1)
    return range(front, len(one) - back), range(front, len(two) - back)


def _rows_that_count(tables: tuple[_Table, _Table], parts: tuple[range, range], unit: Unit) -> tuple[_Table, _Table]:
    """The rows that the other table lacks, or all rows of their units; everything else is the same in both tables.

    Rows are compared by keys of 64 bits, in arrays. A row may be kept for nothing, because objects that are equal and
    not the same have different keys; so the rows that are kept are compared by value afterwards.
    """
    differing = tables[0].part(parts[0]), tables[1].part(parts[1])
    if tables[0].columns.keys() != tables[1].columns.keys():
        return differing if unit.column is None else tables
    if unit.column is None:
        lacking = _keys_in_one_only(*_row_keys(differing, {}))
        one, two = (_filtered_table(table, which) for table, which in zip(differing, lacking, strict=True))
        return one, two
    columns = _columns(tables, unit.column)
    if columns is None:
        return tables
    owners = _column_keys(*columns)
    known = {unit.column: tuple(keys[part.start : part.stop] for keys, part in zip(owners, parts, strict=True))}
    lacking = _keys_in_one_only(*_row_keys(differing, known))
    wanted = np.unique(np.concatenate([keys[which] for keys, which in zip(known[unit.column], lacking, strict=True)]))
    one, two = (_filtered_table(table, np.isin(keys, wanted)) for table, keys in zip(tables, owners, strict=True))
    return one, two


def _filtered_table(table: _Table, kept: NDArray[np.bool_]) -> _Table:
    return _Table({name: _filtered(column, kept) for name, column in table.columns.items()})


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
    arrays = [column for column in (one, two) if isinstance(column, np.ndarray) and column.dtype.kind in "biufcMmSU"]
    if len(arrays) == 2 and len({(array.dtype, array.shape[1:]) for array in arrays}) == 1:
        return _array_keys(arrays[0]), _array_keys(arrays[1])
    first, second = (column.tolist() if isinstance(column, np.ndarray) else column for column in (one, two))
    return _keys(first), _keys(second)


def _keys(values: Sequence[Any]) -> Keys:
    """A key for every value: by value for numbers, texts and lists, tuples and dicts of them, else by what it is."""
    if len(values) and type(values[0]) is str:
        with suppress(TypeError):  # not only texts; to look at the types first would be one more pass
            return _keys_of_kind(values, str)
    kinds = set(map(type, values))
    if len(kinds) == 1:
        return _keys_of_kind(values, kinds.pop())
    names = np.fromiter(map(id, map(type, values)), dtype=np.int64, count=len(values))
    keys = np.empty(len(values), dtype=np.uint64)
    for kind in kinds:
        places = np.flatnonzero(names == id(kind))
        keys[places] = _keys_of_kind([values[i] for i in places.tolist()], kind)
    return keys


def _keys_of_kind(values: Sequence[Any], kind: type) -> Keys:
    if kind in (float, bool):
        keys = _array_keys(np.asarray(values))
    elif kind is int:
        keys = _whole_number_keys(values)
    elif kind in (list, tuple):
        keys = _joined_keys(_keys(list(chain.from_iterable(values))), list(map(len, values)))
    elif kind is dict:
        names = _keys(list(chain.from_iterable(values)))
        parts = _keys(list(chain.from_iterable(map(dict.values, values))))
        keys = _joined_keys(_mixed(names) + parts, list(map(len, values)), ordered=False)
    else:
        key = kind.__hash__ if kind in (str, bytes) else id
        keys = np.fromiter(map(key, values), dtype=np.int64, count=len(values)).view(np.uint64)
    return keys + np.uint64(id(kind))


def _whole_number_keys(values: Sequence[int]) -> Keys:
    try:
        return _array_keys(np.fromiter(values, dtype=np.int64, count=len(values)))
    except OverflowError:
        low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        keys = _array_keys(np.array([min(max(value, low), high) for value in values], dtype=np.int64))
        beyond = [place for place, value in enumerate(values) if not low <= value <= high]
        keys[beyond] = _keys_of_kind([hex(values[place]) for place in beyond], str)
        return keys


def _joined_keys(parts: Keys, lengths: list[int], *, ordered: bool = True) -> Keys:
    """A key for every sequence, from the keys of its parts, which lie one behind the other."""
    sizes = np.array(lengths, dtype=np.int64)
    ends = np.cumsum(sizes)
    if ordered:
        parts = parts + (np.arange(len(parts)) - np.repeat(ends - sizes, sizes)).astype(np.uint64)
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(_mixed(parts), dtype=np.uint64)])
    return _mixed(sums[ends] - sums[ends - sizes] + sizes.astype(np.uint64))


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


def _mixed(keys: Keys) -> Keys:
    """Keys with all their bits spread (the finisher of SplitMix64)."""
    keys = (keys + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    keys ^= keys >> np.uint64(31)
    keys *= np.uint64(0x94D049BB133111EB)
    keys ^= keys >> np.uint64(29)
    return keys


def _keys_in_one_only(one: Keys, two: Keys) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows have a key that comes more often in one table than in the other."""
    if not len(one) + len(two):
        return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
    last = np.uint64(1)
    values = np.concatenate([one | last, two & ~last])  # the last bit says whose key it is, so one sort is enough
    values.sort()
    first = np.flatnonzero(np.concatenate([[True], np.diff(values >> last) != 0]))
    signs = (values & last).astype(np.int64) * 2 - 1
    uneven = values[first[np.add.reduceat(signs, first) != 0]] | last
    return np.isin(one | last, uneven), np.isin(two | last, uneven)


def _alike(one: _Table, two: _Table, most: int, *, step: int = 1) -> int:
    """How many rows are equal from the start on, or from the end on with step −1; at most `most`."""
    for name, column in one.columns.items():
        most = min(most, _equal_start(column, two.columns[name], most, step))
    return most


def _equal_start(one: Any, two: Any, most: int, step: int) -> int:
    """The same for one column; columns are compared as arrays where they are arrays."""
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray) and one.dtype.kind in "biufcMmSU":
        if one.dtype != two.dtype or one.shape[1:] != two.shape[1:]:
            return 0
        one, two = one[::step][:most], two[::step][:most]
        missing = (one != one) & (two != two)  # NaN is like NaN
        same = one == two
        if one.dtype.kind == "f":
            same &= np.signbit(one) == np.signbit(two)  # 0.0 is not −0.0
        different = ~(same | missing).reshape(len(one), -1).all(axis=1) if len(one) else np.zeros(0, dtype=bool)
        return int(np.argmax(different)) if different.any() else most
    pairs = zip(one, two, strict=False) if step > 0 else zip(reversed(one), reversed(two), strict=False)
    for place, (a, b) in enumerate(islice(pairs, most)):
        if a is not b and not (type(a) is type(b) and isinstance(a, _PLAIN) and a == b and (a or str(a) == str(b))):
            return place  # 0.0 is not −0.0
    return most


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
