"""Reading the rows that a sampler drew: random access, collation, padding to a fixed shape with a mask.

A dataset is a tuple of tensors, a `TensorDataset`, or any map-style dataset of (x, y); `collate` turns a list of its
items into a batch (x, y), as in a torch `DataLoader`. When several rows belong to one person, `people` says whose each
row is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset, default_collate

from deniable import noise
from deniable.errors import DataError
from deniable.noise import Source

Indices = NDArray[np.int64]
Collate = Callable[[list[Any]], Any]


class Chunk(NamedTuple):
    """Rows of some units, each with the same number of places; `mask` is False where a place is empty."""

    batch: tuple[Any, Any]
    mask: Tensor


class Rows:
    """Random access to the rows of a dataset."""

    def __init__(self, dataset: Any, *, collate: Collate | None = None) -> None:
        if isinstance(dataset, TensorDataset):
            dataset = dataset.tensors
        self._columns: tuple[Tensor, ...] | None = None
        if isinstance(dataset, tuple | list) and dataset and all(isinstance(column, Tensor) for column in dataset):
            self._columns = tuple(dataset)
            if len(dataset) < 2 or len({len(column) for column in dataset}) > 1:
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

    def take(self, rows: Indices) -> tuple[Any, Any]:
        """The batch (x, y) of some rows, of which there is at least one."""
        if self._columns is not None:
            first, last = int(rows[0]), int(rows[-1])
            if last - first + 1 == rows.size and (np.diff(rows) == 1).all():  # a stretch: no copy, as for full batches
                return _pair(tuple(column[first : last + 1] for column in self._columns))
            place = torch.from_numpy(rows).to(self._columns[0].device)
            return _pair(tuple(column[place] for column in self._columns))
        if hasattr(self._dataset, "__getitems__"):
            return _pair(self._collate(self._dataset.__getitems__(rows.tolist())))
        return _pair(self._collate([self._dataset[row] for row in rows.tolist()]))


class People:
    """Which rows are whose. Without ids every row is a unit of its own."""

    def __init__(self, rows: int, *, ids: ArrayLike | None = None, rows_per_unit: int = 1) -> None:
        self._most = rows_per_unit
        if ids is None:
            self._order, self._starts = np.arange(rows), np.arange(rows + 1)
            return
        given = np.asarray(ids)
        if given.shape != (rows,):
            raise DataError("people must name who each row is about: one id for every row of the dataset")
        _, whose = np.unique(given, return_inverse=True)
        self._order = np.argsort(whose, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(whose))]).astype(np.int64)

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


def chunk(rows: Rows, places: Indices, *, units: int | None, device: torch.device) -> Chunk:
    """The rows at `places` (a line per unit, −1 for none) on a device, padded to `units` lines where that is given."""
    if units is not None and len(places) < units:
        places = np.concatenate([places, np.full((units - len(places), places.shape[1]), -1, dtype=np.int64)])
    flat = places.reshape(-1)
    # An empty place repeats a row that is there anyway; the mask takes it out of every sum.
    filled = np.where(flat < 0, flat.max(initial=0), flat)
    batch = rows.take(filled)
    return Chunk((moved(batch[0], device), moved(batch[1], device)), torch.from_numpy(flat >= 0).to(device))


def moved(value: Any, device: torch.device) -> Any:
    """A tensor, or tensors in tuples, lists and mappings, on a device."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {name: moved(each, device) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return tuple(moved(each, device) for each in value)
    return value


def _pair(batch: Any) -> tuple[Any, Any]:
    """(x, y), where several inputs before y become a tuple."""
    if not isinstance(batch, Sequence) or len(batch) < 2:
        raise DataError("a batch must be (x, y): inputs of the model, and what the loss compares its output with")
    return (batch[0] if len(batch) == 2 else tuple(batch[:-1])), batch[-1]
