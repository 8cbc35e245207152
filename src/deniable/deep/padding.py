"""Rows of different lengths: padded to one of a few lengths that the plan's owner states in public.

A batch that is padded to its longest row lets one unit change what the model sees of the others, and its shape tells
how long that row is. Here each unit goes to the least length of a stated list that holds its rows, and what is longer
than the last of them is cut. Units of one length run together. All lengths are proved before the charge, so none of
them is a surprise that a unit brings.

>>> pad(Padding(lengths=(4, 8), values={"ids": 0}), [{"ids": [5, 6, 7, 8, 9], "label": 1}])
[{'ids': tensor([5, 6, 7, 8, 9, 0, 0, 0]), 'label': 1}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deniable import _checks
from deniable.errors import DataError, InvalidArgument


@dataclass(frozen=True, init=False)
class Padding:
    """The lengths that rows are padded to, and what the columns that vary in length are filled up with.

    Args:
        lengths: In ascending order. A unit takes the least that holds its longest row; beyond the last, rows are cut.
        values: The number behind a column's end: by name where rows are mappings, `{"input_ids": 0, "labels": -100}`,
            by place where they are tuples, `{0: 0}`. A row's columns grow along their first axis.
    """

    lengths: tuple[int, ...]
    values: tuple[tuple[str | int, float], ...]

    def __init__(self, *, lengths: Sequence[int], values: Mapping[str, float] | Mapping[int, float]) -> None:
        if not isinstance(lengths, tuple | list | range) or not lengths:
            raise InvalidArgument("lengths", lengths, "a list of whole numbers", "For example (32, 64, 128).")
        read = tuple(_checks.count("lengths", each) for each in lengths)
        if list(read) != sorted(set(read)):
            raise InvalidArgument("lengths", lengths, "in ascending order, each once", "For example (32, 64, 128).")
        names = isinstance(values, Mapping) and bool(values)
        if not names or not all(isinstance(each, str | int) and not isinstance(each, bool) for each in values):
            raise InvalidArgument("values", values, "a number for each column that is padded", 'As {"input_ids": 0}.')
        if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in values.values()):
            raise InvalidArgument("values", values, "numbers", 'As {"input_ids": 0, "labels": -100}.')
        object.__setattr__(self, "lengths", read)
        object.__setattr__(self, "values", tuple(values.items()))


def pad(rule: Padding, items: Sequence[Any], *, length: int | None = None) -> list[Any]:
    """The rows of one unit with every column that varies as a tensor of one length: the given one, or the least that
    holds them. Raises where a row lacks such a column."""
    columns = [[_sequence(_column(item, name)) for name, _ in rule.values] for item in items]
    longest = max((len(each) for row in columns for each in row), default=0)
    if length is None:
        length = next((each for each in rule.lengths if each >= longest), rule.lengths[-1])
    return [
        _with(item, {name: _filled(each, length, fill) for (name, fill), each in zip(rule.values, row, strict=True)})
        for item, row in zip(items, columns, strict=True)
    ]


def _column(item: Any, name: str | int) -> Any:
    if isinstance(item, Mapping) != isinstance(name, str):
        raise DataError("padding names columns of mappings, and places of tuples")
    return item[name]


def _sequence(value: Any) -> Tensor:
    found = torch.as_tensor(value)
    if not found.dim():
        raise DataError("a column that is padded is a sequence")
    return found


def _filled(values: Tensor, length: int, fill: float) -> Tensor:
    out = values.new_full((length, *values.shape[1:]), fill)
    out[: len(values)] = values[:length]
    return out


def _with(item: Any, columns: Mapping[str | int, Tensor]) -> Any:
    if isinstance(item, Mapping):
        return {**item, **{str(name): each for name, each in columns.items()}}
    out = list(item)
    for place, each in columns.items():
        out[int(place)] = each
    return tuple(out)
