"""Reading the units that a sampler drew: random access, collation, padding to a fixed shape with a mask.

A dataset is columns in memory (tensors or NumPy arrays, in a tuple or by name; a file mapped by NumPy too), or any
map-style dataset whose rows are (x, y) or mappings, those of Hugging Face among them; `collate` turns a list of its
items into a batch, as in a torch `DataLoader`. Of a mapping, the column `label` is y, and the model is called with the
others by name. Only rows that were drawn are read. When several rows belong to one person, `people` says whose each
row is.

*A unit is read by itself.* `collate` sees the rows of one unit, never those of two: a batch that is padded to its
longest row, or mixed in any other way, would let one unit change what the model sees of the others. Units whose
batches have the same form (shapes and types) then run together. What cannot be read, because the dataset, the
collation or the form of the result fails, contributes nothing: no row decides whether a step succeeds.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils._pytree import tree_map
from torch.utils.data import IterableDataset, TensorDataset, default_collate

from deniable import noise
from deniable.deep.clipping.forms import Form
from deniable.deep.clipping.passes import row_count
from deniable.deep.padding import Padding, pad
from deniable.errors import DataError, InvalidArgument
from deniable.noise import Source

Indices = NDArray[np.int64]
Collate = Callable[[list[Any]], Any]
Columns = tuple[Tensor, ...] | dict[str, Tensor]

SPREAD = 16
"""Units whose form is looked at before a run, where nobody says what it is."""

LABELS = ("labels", "label", "y")
"""The names of the column that the loss compares with, where nobody says one; the first that is there."""


class Rows:
    """Random access to the rows of a dataset."""

    def __init__(
        self,
        dataset: Any,
        *,
        collate: Collate | None = None,
        label: str | None = None,
        padding: Padding | None = None,
    ) -> None:
        if collate is not None and not callable(collate):
            raise InvalidArgument("collate", type(collate).__name__, "a function of a list of items")
        if label is not None and not isinstance(label, str):
            raise InvalidArgument("label", label, "the name of the column that the loss compares with")
        if padding is not None and not isinstance(padding, Padding):
            raise InvalidArgument("padding", padding, "a dn.deep.Padding")
        if isinstance(dataset, TensorDataset):
            dataset = dataset.tensors
        self._label, self._padding = label, padding
        self._columns = self._stored(dataset)
        """The columns of data in memory, in a tuple or by name."""
        if self._columns is not None and (collate is not None or padding is not None):
            raise InvalidArgument(
                "collate" if collate is not None else "padding", "...", "left out for tensors, which are whole columns",
                "Give a map-style dataset of single rows.",
            )  # fmt: skip
        if self._columns is None and (
            isinstance(dataset, IterableDataset | Mapping)
            or not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"))
        ):
            raise DataError(
                "a private batch is drawn at random, so the dataset needs len() and [index]; got"
                f" {type(dataset).__name__}. Give tensors or arrays, in a tuple or by name, or a map-style dataset, not"
                " a loader or a stream."
            )
        self._dataset, self._collate = dataset, collate or default_collate

    def _stored(self, dataset: Any) -> Columns | None:
        """Tensors and arrays as tensors, if the dataset is a tuple, a list or a mapping of them."""
        named = isinstance(dataset, Mapping)
        if not (named or isinstance(dataset, tuple | list)) or not len(dataset):
            return None
        given = list(dataset.values()) if named else list(dataset)
        whole = [isinstance(each, Tensor | np.ndarray) for each in given]
        if not all(whole):
            if named or (isinstance(dataset, tuple) and any(hasattr(each, "shape") for each in given)):
                raise DataError(
                    "columns are tensors or NumPy arrays, all of them; turn frames and lists into tensors with"
                    " torch.as_tensor"
                )
            return None
        columns = [_tensor(each) for each in given]
        if len(columns) < 2 or any(not each.dim() for each in columns) or len({len(each) for each in columns}) > 1:
            raise DataError("a dataset of columns is (x, y) or (x1, x2, ..., y), all with the same number of rows")
        if not named:
            return tuple(columns)
        found = dict(zip(dataset, columns, strict=True))
        _pair(found, self._label)  # refuses where no column is the label
        return found

    def __len__(self) -> int:
        return len(_leaves(self._columns)[0]) if self._columns is not None else len(self._dataset)

    @property
    def in_memory(self) -> bool:
        """Whether the rows are tensors."""
        return self._columns is not None

    @property
    def lengths(self) -> tuple[int | None, ...]:
        """The lengths that rows are padded to; None where they come as they are."""
        return (None,) if self._padding is None else self._padding.lengths

    def form(self, device: torch.device) -> Form | None:
        """What is public about tensors: shapes and types. None for other datasets, whose rows would have to be read."""
        if self._columns is None:
            return None
        return Form.of(moved(self._chosen(lambda column: column[:0]), device))

    def take(self, rows: Indices) -> tuple[Any, Any]:
        """The batch (x, y) of some rows of tensors, of which there is at least one."""
        if self._columns is None:
            raise TypeError("rows of a dataset that is not in memory are read unit by unit")
        first, last = int(rows[0]), int(rows[-1])
        if last - first + 1 == rows.size and (np.diff(rows) == 1).all():  # a stretch: no copy, as for full batches
            return self._chosen(lambda column: column[first : last + 1])
        place = torch.from_numpy(rows).to(_leaves(self._columns)[0].device)
        return self._chosen(lambda column: column[place])

    def _chosen(self, choose: Callable[[Tensor], Tensor]) -> tuple[Any, Any]:
        """The batch (x, y) of what is chosen of every column."""
        if isinstance(self._columns, dict):
            return _pair({name: choose(each) for name, each in self._columns.items()}, self._label)
        return _pair(tuple(map(choose, self._columns or ())), None)

    def read(self, rows: Sequence[int], *, length: int | None = None) -> tuple[Any, Any] | Exception:
        """The batch of one unit's rows, or why it cannot be read; padded to a length, where one is given."""
        if self._columns is not None:
            return self.take(np.asarray(rows, dtype=np.int64))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # who sees that a row was warned of knows something about it
                return self._collated(rows, length)
        except KeyboardInterrupt:
            raise
        except Exception as error:  # noqa: BLE001  whatever one row does to the user's code
            return error
        except BaseException as error:  # noqa: BLE001  libraries written in Rust panic so, and a row may ask to exit
            return DataError(f"a row could not be read ({type(error).__name__})")

    def _collated(self, rows: Sequence[int], length: int | None) -> tuple[Any, Any]:
        if hasattr(self._dataset, "__getitems__"):
            items = self._dataset.__getitems__(list(rows))
        else:
            items = [self._dataset[row] for row in rows]
        if self._padding is not None:
            items = pad(self._padding, items, length=length)
        if self._collate is default_collate:
            items = [_with_tensors(item) for item in items]
        batch: tuple[Any, Any] = tree_map(_strided, plain(_pair(self._collate(items), self._label)))
        if row_count(batch) != len(rows):
            raise DataError("collate must return one row for each item")
        Form.of(batch)
        return batch


class People:
    """Which rows are whose. Without ids every row is a unit of its own; a row without an id belongs to nobody. A row is
    read once for each of its augmentations."""

    def __init__(
        self, rows: int, *, ids: ArrayLike | None = None, rows_per_unit: int = 1, augmentations: int = 1
    ) -> None:
        self._most, self._times = rows_per_unit, augmentations
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
            return np.repeat(self._order[units][:, None], self._times, axis=1)
        out = np.full((units.size, self._most), -1, dtype=np.int64)
        for line, unit in zip(out, units, strict=True):
            own = self._order[self._starts[unit] : self._starts[unit + 1]]
            if own.size > self._most:
                own = own[noise.permutation(own.size, source=source)[: self._most]]
            line[: own.size] = own
        return np.repeat(out, self._times, axis=1)


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


def forms_of(rows: Rows, people: People, source: Source, device: torch.device) -> list[tuple[Form, ...]]:
    """The forms of some units of a dataset that is not in memory, the most frequent first; no value is kept. Where rows
    are padded to several lengths, a unit's form at each of them.

    Raises DataError where none of them can be read. Nobody is read where there is nobody. That most units have one form
    is taken to be public, as the columns of a table are; a unit with another form, or that cannot be read, decides
    nothing as long as there are others.
    """
    if not len(people):
        return []
    some = np.unique(np.linspace(0, len(people) - 1, SPREAD).astype(np.int64))
    found: Counter[tuple[Form, ...]] = Counter()
    for line in people.rows(some, source):
        own = [int(row) for row in line if row >= 0]
        batches = [rows.read(own, length=length) for length in rows.lengths]
        read = [filled(batch, len(line)) for batch in batches if not isinstance(batch, Exception)]
        if len(read) == len(batches):
            found[tuple(Form.of(moved(batch, device)) for batch in read)] += 1
    if not found:
        raise DataError(
            "no row of the dataset could be read as (x, y), tensors with one entry per item first. Look at"
            " collate([dataset[0]]), or dataset[0] without a collate; of a mapping, label= names the y."
        )
    return sorted(found, key=lambda forms: (-found[forms], repr(forms)))


def filled(batch: tuple[Any, Any], many: int) -> Any:
    """A unit's batch with its first row repeated up to so many rows."""

    def repeat(each: Any) -> Any:
        if not isinstance(each, Tensor) or each.shape[0] == many:
            return each
        return torch.cat([each, *[each[:1]] * (many - each.shape[0])])

    return tree_map(repeat, batch)


def _strided(value: Any) -> Any:
    """A tensor as one that every later operation takes: numbers in memory, without a gradient or a class of its own.
    Anything else is a plain number or text, whose methods are nobody's own."""
    if not isinstance(value, Tensor):
        if type(value) not in (bool, int, float, complex, str, bytes, type(None)):
            raise DataError("rows are tensors, and numbers or text that all rows share")
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


def _pair(batch: Any, label: str | None) -> tuple[Any, Any]:
    """(x, y), where several inputs before y become a tuple; of a mapping, y is the column `label`."""
    if isinstance(batch, Mapping):
        names = LABELS if label is None else (label,)
        found = [name for name in names if name in batch]
        if not found or len(batch) < 2:
            raise DataError(
                f"a mapping holds inputs of the model and, under {' or '.join(names)}, what the loss compares its"
                " output with; label= says another name"
            )
        return {name: each for name, each in batch.items() if name != found[0]}, batch[found[0]]
    if not isinstance(batch, Sequence) or isinstance(batch, str) or len(batch) < 2:
        raise DataError("a batch must be (x, y): inputs of the model, and what the loss compares its output with")
    return (batch[0] if len(batch) == 2 else tuple(batch[:-1])), batch[-1]


def _with_tensors(item: Any) -> Any:
    """A mapping with its lists of numbers as tensors: those of Hugging Face hold lists."""
    if not isinstance(item, Mapping):
        return item
    return {name: torch.as_tensor(each) if isinstance(each, list) else each for name, each in item.items()}


def _leaves(columns: Columns) -> list[Tensor]:
    return list(columns.values() if isinstance(columns, dict) else columns)


def _tensor(column: Tensor | np.ndarray[Any, Any]) -> Tensor:
    """A column as a tensor, on the same memory; a file that is mapped stays one."""
    if isinstance(column, Tensor):
        return column
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of memory that may not be written to; nobody does
            return torch.from_numpy(column)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"a column has the type {column.dtype}, which no tensor has; change it with astype, to numbers"
        ) from error
