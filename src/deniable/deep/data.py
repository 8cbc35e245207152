"""Reading the units that a sampler drew: random access, collation, padding to a fixed shape with a mask.

A dataset is a tuple of tensors, a `TensorDataset`, or any map-style dataset of (x, y); `collate` turns a list of its
items into a batch (x, y), as in a torch `DataLoader`. When several rows belong to one person, `people` says whose
each row is.

*A unit is read by itself.* `collate` sees the rows of one unit, never those of two: a batch that is padded to its
longest row, or mixed in any other way, would let one unit change what the model sees of the others. Units whose
batches have the same form (shapes and types) then run together. What cannot be read, because the dataset, the
collation or the form of the result fails, contributes nothing: no row decides whether a step succeeds.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch.utils.data import IterableDataset, TensorDataset, default_collate

from deniable import noise
from deniable.deep.clipping.forms import Form
from deniable.deep.clipping.passes import row_count
from deniable.errors import DataError
from deniable.noise import Source

Indices = NDArray[np.int64]
Collate = Callable[[list[Any]], Any]

SPREAD = 16
"""Units whose form is looked at before a run, where nobody says what it is."""


class Chunk(NamedTuple):
    """Rows of some units, each with the same number of places; `mask` is False where a place is empty."""

    batch: tuple[Any, Any]
    mask: Tensor
    units: int
    """How many units there are; behind them everything is masked."""


class Rows:
    """Random access to the rows of a dataset."""

    def __init__(self, dataset: Any, *, collate: Collate | None = None) -> None:
        if isinstance(dataset, TensorDataset):
            dataset = dataset.tensors
        self._columns: tuple[Tensor, ...] | None = None
        if isinstance(dataset, tuple | list) and dataset and all(isinstance(column, Tensor) for column in dataset):
            self._columns = tuple(dataset)
            if (
                len(dataset) < 2
                or any(not column.dim() for column in dataset)
                or len({len(column) for column in dataset}) > 1
            ):
                raise DataError("a dataset of tensors is (x, y) or (x1, x2, ..., y), all with the same number of rows")
        elif isinstance(dataset, tuple) and any(hasattr(column, "shape") for column in dataset):
            raise DataError(
                "a tuple is (x, y) or (x1, x2, ..., y), and all of it tensors; turn arrays and frames into tensors with"
                " torch.as_tensor"
            )
        elif isinstance(dataset, IterableDataset) or not (
            hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        ):
            raise DataError(
                "a private batch is drawn at random, so the dataset needs len() and [index]; got"
                f" {type(dataset).__name__}. Give a tuple of tensors or a map-style dataset, not a loader or a stream."
            )
        self._dataset, self._collate = dataset, collate or default_collate

    def __len__(self) -> int:
        return len(self._columns[0]) if self._columns is not None else len(self._dataset)

    @property
    def in_memory(self) -> bool:
        """Whether the rows are tensors."""
        return self._columns is not None

    def form(self, device: torch.device) -> Form | None:
        """What is public about tensors: shapes and types. None for other datasets, whose rows would have to be read."""
        if self._columns is None:
            return None
        return Form.of(moved(_pair(tuple(column[:0] for column in self._columns)), device))

    def take(self, rows: Indices) -> tuple[Any, Any]:
        """The batch (x, y) of some rows of tensors, of which there is at least one."""
        if self._columns is None:
            raise TypeError("rows of a dataset that is not in memory are read unit by unit")
        first, last = int(rows[0]), int(rows[-1])
        if last - first + 1 == rows.size and (np.diff(rows) == 1).all():  # a stretch: no copy, as for full batches
            return _pair(tuple(column[first : last + 1] for column in self._columns))
        place = torch.from_numpy(rows).to(self._columns[0].device)
        return _pair(tuple(column[place] for column in self._columns))

    def read(self, rows: Sequence[int]) -> tuple[Any, Any] | Exception:
        """The batch of one unit's rows, or why it cannot be read."""
        if self._columns is not None:
            return self.take(np.asarray(rows, dtype=np.int64))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # who sees that a row was warned of knows something about it
                return self._collated(rows)
        except KeyboardInterrupt:
            raise
        except Exception as error:  # noqa: BLE001  whatever one row does to the user's code
            return error
        except BaseException as error:  # noqa: BLE001  libraries written in Rust panic so, and a row may ask to exit
            return DataError(f"a row could not be read ({type(error).__name__})")

    def _collated(self, rows: Sequence[int]) -> tuple[Any, Any]:
        if hasattr(self._dataset, "__getitems__"):
            items = self._dataset.__getitems__(list(rows))
        else:
            items = [self._dataset[row] for row in rows]
        batch: tuple[Any, Any] = tree_map(_strided, plain(_pair(self._collate(items))))
        if row_count(batch) != len(rows):
            raise DataError("collate must return one row for each item")
        Form.of(batch)
        return batch


class People:
    """Which rows are whose. Without ids every row is a unit of its own; a row without an id belongs to nobody."""

    def __init__(self, rows: int, *, ids: ArrayLike | None = None, rows_per_unit: int = 1) -> None:
        self._most = rows_per_unit
        if ids is None:
            self._order, self._starts = np.arange(rows), np.arange(rows + 1)
            return
        whose = _numbered(ids, rows)
        order = np.argsort(whose, kind="stable")
        self._order = order[int((whose < 0).sum()) :]
        counts = np.bincount(whose[whose >= 0]) if self._order.size else np.empty(0, np.int64)
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def places(self) -> tuple[Indices, Indices]:
        """The rows, unit by unit, and where each unit begins among them."""
        return self._order, self._starts

    def rows(self, units: Indices, source: Source) -> Indices:
        """Rows of each unit, a line per unit, −1 where there is none; of too many, a random choice."""
        if self._most == 1 and len(self) == len(self._order):
            return self._order[units][:, None]
        out = np.full((units.size, self._most), -1, dtype=np.int64)
        for line, unit in zip(out, units, strict=True):
            own = self._order[self._starts[unit] : self._starts[unit + 1]]
            if own.size > self._most:
                own = own[noise.permutation(own.size, source=source)[: self._most]]
            line[: own.size] = own
        return out


def _numbered(ids: Any, rows: int) -> Indices:
    """The number of each row's person, −1 where there is no id. Every value is an id of its own; none is refused."""
    given = ids.detach().cpu().numpy() if isinstance(ids, Tensor) else ids
    shape = np.shape(given) if hasattr(given, "shape") else (len(given),) if hasattr(given, "__len__") else None
    if shape != (rows,):
        raise DataError("people must name who each row is about: one id for every row of the dataset")
    kind = getattr(getattr(given, "dtype", None), "kind", "O")
    if isinstance(given, np.ndarray) and kind in "iubUS":
        found: Indices = np.unique(given, return_inverse=True)[1].astype(np.int64)
        return found
    numbers: dict[Any, int] = {}
    return np.array([_number(each, numbers) for each in given], dtype=np.int64).reshape(rows)


def _number(value: Any, numbers: dict[Any, int]) -> int:
    """The number of an id; −1 for None, NaN, NaT and NA, and for what can be neither compared nor printed."""
    try:
        missing = value is None or bool(value != value)
    except Exception:  # noqa: BLE001  pandas.NA has no truth value, neither has an array; an object may do anything
        missing = type(value).__name__ == "NAType"
    if missing:
        return -1
    try:
        return numbers.setdefault((_sort(value), value), len(numbers))
    except Exception:  # noqa: BLE001  a list or a dictionary
        try:
            return numbers.setdefault((type(value), repr(value)), len(numbers))
        except Exception:  # noqa: BLE001  whose it is cannot be told
            return -1


def _sort(value: Any) -> type:
    """Numbers that are equal are one id, whatever their type; 1 and "1" are two."""
    return float if isinstance(value, bool | int | float | np.number | np.bool_) else type(value)


def forms_of(rows: Rows, people: People, source: Source, device: torch.device) -> list[Form]:
    """The forms of some units of a dataset that is not in memory, the most frequent first; no value is kept.

    Raises DataError where none of them can be read. Nobody is read where there is nobody. That most units have one form
    is taken to be public, as the columns of a table are; a unit with another form, or that cannot be read, decides
    nothing as long as there are others.
    """
    if not len(people):
        return []
    some = np.unique(np.linspace(0, len(people) - 1, SPREAD).astype(np.int64))
    found: Counter[Form] = Counter()
    for line in people.rows(some, source):
        own = [int(row) for row in line if row >= 0]
        batch = rows.read(own)
        if not isinstance(batch, Exception):
            found[Form.of(moved(_filled(batch, len(line)), device))] += 1
    if not found:
        raise DataError(
            "no row of the dataset could be read as (x, y), tensors with one entry per item first. Look at"
            " collate([dataset[0]]), or dataset[0] without a collate."
        )
    return sorted(found, key=lambda form: (-found[form], repr(form)))


def chunks(
    rows: Rows, places: Indices, *, units: int | None, device: torch.device
) -> Iterator[tuple[Form, Chunk, list[int]]]:
    """The rows at `places` (a line per unit, −1 for none) on a device, in chunks of one form, with the lines of each;
    padded to `units` units where that is given. What cannot be read is in no chunk."""
    if rows.in_memory:
        part = chunk(rows, places, units=units, device=device)
        yield Form.of(part.batch), part, list(range(len(places)))
        return
    groups: dict[Form, tuple[list[int], list[Any], list[Tensor]]] = {}
    for at, line in enumerate(places):
        own = [int(row) for row in line if row >= 0]
        batch = rows.read(own) if own else None
        if batch is None or isinstance(batch, Exception):
            continue
        group = groups.setdefault(Form.of(batch), ([], [], []))
        group[0].append(at)
        group[1].append(_filled(batch, len(line)))
        group[2].append(torch.arange(len(line)) < len(own))
    for lines, batches, masks in groups.values():
        missing = max(0, (units or 0) - len(lines))
        whole = _joined([*batches, *batches[:1] * missing])
        mask = torch.cat([*masks, *[torch.zeros_like(masks[0])] * missing])
        batch = moved(whole, device)
        yield Form.of(batch), Chunk(batch, mask.to(device), len(lines)), lines


def chunk(rows: Rows, places: Indices, *, units: int | None, device: torch.device) -> Chunk:
    """The rows of tensors at `places` on a device, padded to `units` lines where that is given."""
    many = len(places)
    if units is not None and many < units:
        places = np.concatenate([places, np.full((units - many, places.shape[1]), -1, dtype=np.int64)])
    flat = places.reshape(-1)
    # An empty place repeats a row that is there anyway; the mask takes it out of every sum.
    filled = np.where(flat < 0, flat.max(initial=0), flat)
    batch = moved(rows.take(filled), device)
    return Chunk(batch, torch.from_numpy(flat >= 0).to(device), many)


def _filled(batch: tuple[Any, Any], many: int) -> Any:
    """A unit's batch with its first row repeated up to so many rows."""

    def filled(each: Any) -> Any:
        if not isinstance(each, Tensor) or each.shape[0] == many:
            return each
        return torch.cat([each, *[each[:1]] * (many - each.shape[0])])

    return tree_map(filled, batch)


def _joined(batches: list[Any]) -> Any:
    """Batches of one form as one."""
    leaves, forms = zip(*(tree_flatten(batch) for batch in batches), strict=True)
    joined = [torch.cat(each) if isinstance(each[0], Tensor) else each[0] for each in zip(*leaves, strict=True)]
    return tree_unflatten(joined, forms[0])


def _strided(value: Any) -> Any:
    """A tensor as one that every later operation takes: numbers in memory, without a gradient or a class of its own."""
    if not isinstance(value, Tensor):
        return value
    value = value.detach().as_subclass(Tensor)
    if value.layout != torch.strided or value.is_nested or value.is_quantized or value.is_meta:
        raise DataError("rows are dense tensors with their numbers in memory")
    return value


def plain(value: Any) -> Any:
    """The same in tuples and dictionaries, whatever sequences and mappings it came in."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return tuple(plain(each) for each in value) if isinstance(value, tuple | list) else value


def moved(value: Any, device: torch.device) -> Any:
    """Tensors in tuples, lists and mappings, on a device."""
    return tree_map(lambda each: each.to(device, non_blocking=True) if isinstance(each, Tensor) else each, plain(value))


def _pair(batch: Any) -> tuple[Any, Any]:
    """(x, y), where several inputs before y become a tuple."""
    if not isinstance(batch, Sequence) or len(batch) < 2:
        raise DataError("a batch must be (x, y): inputs of the model, and what the loss compares its output with")
    return (batch[0] if len(batch) == 2 else tuple(batch[:-1])), batch[-1]
