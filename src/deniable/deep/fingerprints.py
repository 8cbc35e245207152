"""Whether two data sets are the same rows in the same order: a digest of each part, compared in memory.

Two things count on it. Ranks that are trusted work on parts of one batch, so unit i must be the same unit on all of
them. A fixed order is about places, so the data may not move under it.

Tensors are read whole. Of any other data set `SPREAD` rows are read, evenly over its length, and twice: a part that
comes out differently is changed at random (augmentation, masking), and is not compared. Labels usually still are.

A digest tells one guess of the data from another, so it is as private as they are. It goes to ranks that hold the same
rows, and never into a file.

>>> one, two = Rows((torch.arange(4), torch.zeros(4))), Rows((torch.tensor([1, 0, 2, 3]), torch.zeros(4)))
>>> differ([fingerprint(one, People(4)), fingerprint(two, People(4))])
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deniable.deep.data import Indices, People, Rows

SPREAD = 32
"""Rows of a data set that is not in memory."""
_STRETCH = 2**16
"""Rows that are digested at once."""

Fingerprint = tuple[str | None, ...]
"""Digests of: whose each row is, inputs, labels. None where it changes from one reading to the next."""


def fingerprint(rows: Rows, people: People) -> Fingerprint:
    """The digests of a data set."""
    order, starts = people.places
    whose = hashlib.sha256(f"{len(rows)}".encode())
    for places in (order, starts):
        whose.update(places.astype(np.int64).tobytes())
    return (whose.hexdigest(), *_contents(rows))


def differ(found: Sequence[Fingerprint]) -> bool:
    """Whether a part that everybody could digest is not the same for all."""
    return any(None not in part and len(set(part)) > 1 for part in zip(*found, strict=True))


def _contents(rows: Rows) -> tuple[str | None, str | None]:
    if not len(rows):
        return None, None
    if rows.in_memory:
        stretches = np.array_split(np.arange(len(rows)), -(-len(rows) // _STRETCH))
        return _digests(rows, stretches)
    spread = [np.unique(np.linspace(0, len(rows) - 1, SPREAD).astype(np.int64))]
    once, again = _digests(rows, spread), _digests(rows, spread)
    inputs, labels = (one if one == two else None for one, two in zip(once, again, strict=True))
    return inputs, labels


def _digests(rows: Rows, stretches: Sequence[Indices]) -> tuple[str, str]:
    """Of the inputs and of the labels."""
    inputs, labels = hashlib.sha256(), hashlib.sha256()
    for batch in _batches(rows, stretches):
        if isinstance(batch, Exception):  # a row that cannot be read is alike in this alone
            inputs.update(b"unread")
            continue
        _update(inputs, batch[0])
        _update(labels, batch[1])
    return inputs.hexdigest(), labels.hexdigest()


def _batches(rows: Rows, stretches: Sequence[Indices]) -> Iterator[tuple[Any, Any] | Exception]:
    """Tensors by stretches, other data row by row."""
    for stretch in stretches:
        if rows.in_memory:
            yield rows.take(stretch)
        else:
            yield from (rows.read([row]) for row in stretch.tolist())


def _update(digest: Any, value: Any) -> None:
    """Numbers, text, and tensors in tuples, lists and mappings; anything else has no bytes to compare."""
    if isinstance(value, Tensor):
        digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    elif isinstance(value, Mapping):
        for name, each in value.items():
            digest.update(repr(name).encode())
            _update(digest, each)
    elif isinstance(value, tuple | list):
        for each in value:
            _update(digest, each)
    elif isinstance(value, str | int | float):
        digest.update(repr(value).encode())
