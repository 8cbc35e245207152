"""Units in parts of one form, read here or ahead of time in processes of their own.

A *part* is some units of one form. Columns in memory are one part, cut on the device; of other datasets every unit is
read by itself, and units of one form are joined. What cannot be read is in no part.

*Workers.* With `num_workers` a torch `DataLoader` reads the units of coming steps while the model works. Its batch
sampler is the plan's: it draws the batch of a step when a worker is free, in the order of the steps and from the same
source, so a run with workers takes the steps that it would have taken without. A draw depends on no row, so drawing
early changes nothing; what was drawn and not used, because a run was interrupted, was never seen.

*No row decides.* A row may end the process that reads it (a fault in a library, no memory left). The units that this
process was reading are then read again, each in a process of its own, and the one that ends it again contributes
nothing. On every rank a step has the same number of slices, so that ranks draw together.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch.utils.data import DataLoader

from deniable import _checks
from deniable.deep.clipping.forms import Form
from deniable.deep.data import Indices, Rows, filled, moved
from deniable.errors import InvalidArgument

Lines = list[list[int]]
"""The rows of some units, a list per unit, −1 for none."""


@dataclass(frozen=True)
class Loading:
    """How rows are read: by how many processes, how many microbatches ahead for each, and into which memory."""

    num_workers: int = 0
    prefetch_factor: int = 2
    pin_memory: bool | None = None
    """None: where the model is on a GPU."""

    def __post_init__(self) -> None:
        if isinstance(self.num_workers, bool) or not isinstance(self.num_workers, int) or self.num_workers < 0:
            raise InvalidArgument("num_workers", self.num_workers, "a whole number, 0 to read in this process")
        _checks.count("prefetch_factor", self.prefetch_factor)
        if self.pin_memory not in (None, True, False):
            raise InvalidArgument("pin_memory", self.pin_memory, "True, False or None")


class Chunk(NamedTuple):
    """Rows of some units, each with the same number of places; `mask` is False where a place is empty."""

    batch: tuple[Any, Any]
    mask: Tensor
    units: int
    """How many units there are; behind them everything is masked."""


class UnitsOfOneForm(ABC):
    """Some units of one form."""

    units: int

    @abstractmethod
    def chunk(self, start: int, stop: int, *, fill: int | None, device: torch.device) -> Chunk:
        """The units from `start` to before `stop` on a device, filled up to `fill` units where that is given."""


class StoredUnits(UnitsOfOneForm):
    """Units whose rows are columns in memory."""

    def __init__(self, rows: Rows, places: Indices) -> None:
        self._rows, self._places, self.units = rows, places, len(places)

    def chunk(self, start: int, stop: int, *, fill: int | None, device: torch.device) -> Chunk:
        places = self._places[start:stop]
        many = len(places)
        if fill is not None and many < fill:
            places = np.concatenate([places, np.full((fill - many, places.shape[1]), -1, dtype=np.int64)])
        flat = places.reshape(-1)
        # An empty place repeats a row that is there anyway; the mask takes it out of every sum.
        rows = np.where(flat < 0, flat.max(initial=0), flat)
        batch = moved(self._rows.take(rows), device)
        return Chunk(batch, torch.from_numpy(flat >= 0).to(device), many)


class ReadUnits(UnitsOfOneForm):
    """Units that were read one by one."""

    def __init__(self, batch: tuple[Any, Any], mask: Tensor) -> None:
        self._batch, self._mask, self.units = batch, mask, len(mask)

    def chunk(self, start: int, stop: int, *, fill: int | None, device: torch.device) -> Chunk:
        units, width = self._mask[start:stop], self._mask.shape[1]
        missing = max(0, (fill or 0) - len(units))

        def cut(each: Any) -> Any:
            if not isinstance(each, Tensor):
                return each
            own = each[start * width : stop * width] if len(units) < self.units else each
            return torch.cat([own, *[own[:width]] * missing]) if missing else own

        mask = torch.cat([units, units.new_zeros(missing, width)]) if missing else units
        batch = moved(tree_map(cut, self._batch), device)
        return Chunk(batch, mask.reshape(-1).to(device, non_blocking=True), len(units))


def read_parts(rows: Rows, lines: Lines) -> list[tuple[Any, Tensor]]:
    """Units of a dataset that is not in memory, those of one form together: batches, and masks [units, places]."""
    groups: dict[Form, tuple[list[Any], list[list[bool]]]] = {}
    for line in lines:
        own = [row for row in line if row >= 0]
        batch = rows.read(own) if own else None
        if batch is None or isinstance(batch, Exception):
            continue
        group = groups.setdefault(Form.of(batch), ([], []))
        group[0].append(filled(batch, len(line)))
        group[1].append([at < len(own) for at in range(len(line))])
    return [(_joined(batches), torch.tensor(masks)) for batches, masks in groups.values()]


def _joined(batches: list[Any]) -> Any:
    """Batches of one form as one."""
    leaves, trees = zip(*(tree_flatten(batch) for batch in batches), strict=True)
    joined = [torch.cat(each) if isinstance(each[0], Tensor) else each[0] for each in zip(*leaves, strict=True)]
    return tree_unflatten(joined, trees[0])


def parts_here(rows: Rows, places: Indices, *, size: int) -> Iterator[UnitsOfOneForm]:
    """The units at `places` (a line per unit, −1 for none), read in this process, `size` of them at a time."""
    if rows.in_memory:
        if len(places):
            yield StoredUnits(rows, places)
        return
    for start in range(0, len(places), size):
        for batch, mask in read_parts(rows, places[start : start + size].tolist()):
            yield ReadUnits(batch, mask)


class StepDraw(NamedTuple):
    """The units of one step (from 0), and the rows of those that this rank works on."""

    step: int
    units: Indices
    places: Indices
    most: int
    """How many units the rank with the most of them works on."""


class _SliceReader:
    """What a worker holds: the rows. A slice of units is its index."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __getitems__(self, lines: Lines) -> list[tuple[Any, Tensor]]:
        return read_parts(self._rows, lines)


def _as_it_is(value: Any) -> Any:
    return value


def _begin_worker(files: list[tuple[int, int, int]], worker: int) -> None:
    """In a forked worker: let go of files whose lock is the trainer's, so that it ends when the trainer does."""
    for file, device, number in files:
        try:
            found = os.fstat(file)
        except OSError:
            continue
        if (found.st_dev, found.st_ino) == (device, number):
            os.close(file)


class Loader:
    """The batches of the coming steps, drawn and read ahead by workers."""

    def __init__(
        self,
        rows: Rows,
        draws: Iterator[StepDraw],
        *,
        size: int,
        loading: Loading,
        pin: bool,
        seed: int,
        locked: Callable[[], list[int]],
    ) -> None:
        """`draws` gives the steps in their order; `size` units are read at a time; `locked` says which open files are
        the trainer's alone."""
        self._rows, self._size, self._loading, self._pin = rows, size, loading, pin
        self._seed, self._locked = seed, locked
        self._drawn: deque[StepDraw] = deque()
        """Drawn for the workers, and not yet begun."""
        self._asked: deque[Lines] = deque()
        """Given to the workers, and not yet received, in this order."""
        self._left = 0
        """Slices of the step that was begun last, not yet received."""
        self._slices = self._cut(draws)
        self._loader: Iterator[Any] | None = self._start(())

    def _cut(self, draws: Iterator[StepDraw]) -> Iterator[Lines]:
        for draw in draws:
            self._drawn.append(draw)
            for slice in range(self._slices_of(draw)):
                yield draw.places[slice * self._size : (slice + 1) * self._size].tolist()

    def _slices_of(self, draw: StepDraw) -> int:
        """In how many slices a step is read; the same on every rank, so that ranks draw together."""
        return math.ceil(draw.most / self._size)

    def _start(self, again: tuple[Lines, ...]) -> Iterator[Any]:
        """New workers, which read some slices again and go on behind them."""
        self._seed += 1

        def next_slices() -> Iterator[Lines]:
            for lines in chain(again, self._slices):
                self._asked.append(lines)
                yield lines

        return self._workers(next_slices(), self._loading.num_workers, self._loading.prefetch_factor)

    def _workers(self, slices: Any, number: int, ahead: int) -> Iterator[Any]:
        held = []
        for file in self._locked():
            found = os.fstat(file)
            held.append((file, found.st_dev, found.st_ino))
        reader: Any = _SliceReader(self._rows)
        loader: DataLoader[Any] = DataLoader(
            reader,
            batch_sampler=slices,
            num_workers=number,
            prefetch_factor=ahead,
            pin_memory=self._pin,
            collate_fn=_as_it_is,
            worker_init_fn=partial(_begin_worker, held),
            generator=torch.Generator().manual_seed(self._seed),  # torch's own is for dropout
        )
        return iter(loader)

    def next(self) -> StepDraw | None:
        """The next step; None where there is none. What is left of the one before is dropped."""
        while self._left:
            self._receive()
        if not self._drawn:  # workers are always asked for more than was received, so nothing is left to draw
            return None
        draw = self._drawn.popleft()
        self._left = self._slices_of(draw)
        return draw

    def parts(self) -> Iterator[UnitsOfOneForm]:
        """The units of the step that was begun last."""
        while self._left:
            for batch, mask in self._receive():
                yield ReadUnits(batch, mask)

    def _receive(self) -> list[tuple[Any, Tensor]]:
        self._left -= 1
        try:
            if self._loader is None:
                raise RuntimeError("the workers have ended")
            found: list[tuple[Any, Tensor]] = next(self._loader)
        except Exception:  # noqa: BLE001  a worker ended, or sent what cannot be received: one unit may do that
            self._loader = None  # ends the workers that are left
            lines, *others = self._asked
            self._asked.clear()
            found = [part for line in lines for part in self._apart(line)]
            self._loader = self._start(tuple(others))
        else:
            self._asked.popleft()
        return found

    def _apart(self, line: list[int]) -> list[tuple[Any, Tensor]]:
        """One unit in a process of its own; nothing where it ends that."""
        try:
            found: list[tuple[Any, Tensor]] = next(self._workers([[line]], 1, 1))
        except Exception:  # noqa: BLE001  this unit did it, and it contributes nothing
            return []
        return found

    def close(self) -> None:
        """End the workers."""
        self._loader = None
