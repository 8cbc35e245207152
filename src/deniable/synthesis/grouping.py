"""Which cells of a column are told apart in larger marginals: those that its own noisy counts can tell from nothing.

A marginal of two columns is measured with the same noise in every cell, so its error grows with the number of cells,
also of those that are empty in the data. Every column has been measured by itself before. Where a noisy count is below
`RARE` standard deviations of its noise, the cell is merged with others before larger marginals are measured (MST does
the same: McKenna, Miklau and Sheldon 2021); the column's own counts say how a merged cell is divided.

- *Bins* are merged with their neighbours, until together they rise above their noise.
- *Categories* that are rare become one cell.
- The cell of missing values stays by itself, among bins.

The merging depends on what was released alone, so it costs nothing. A row lies in one merged cell as it lies in one
cell, so it moves a merged marginal no further: sums of cells increase neither the L1 nor, of a unit's corners
(`contributions`), the L2 distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable.synthesis.domain import Attribute

RARE = 2.0
"""Standard deviations of noise below which a count is taken for rare."""

Number = TypeVar("Number", bound=np.number[Any])
Groups: TypeAlias = NDArray[np.int64]
"""For every code of a column the number of its merged cell, 0, 1, …"""


def group_codes(attribute: Attribute, counts: NDArray[np.float64], scale: float) -> Groups:
    """The merged cells of a column, by its noisy counts and the standard deviation of their noise."""
    if attribute.edges is None:
        return _merge_rare(counts, scale)
    inner = _merge_neighbours(counts[: attribute.listed], scale)
    return np.append(inner, inner[-1] + 1) if attribute.missing else inner


def _merge_rare(counts: NDArray[np.float64], scale: float) -> Groups:
    rare = counts < RARE * scale
    groups = np.cumsum(~rare) - 1
    groups[rare] = np.count_nonzero(~rare)
    return groups


def _merge_neighbours(counts: NDArray[np.float64], scale: float) -> Groups:
    """Runs of bins whose sum rises above the noise of the sum; the last ones join the run before them."""
    groups = np.zeros(len(counts), dtype=np.int64)
    number, first = 0, 0
    for place in range(len(counts)):
        groups[place] = number
        if counts[first : place + 1].sum() >= RARE * scale * (place + 1 - first) ** 0.5:
            number, first = number + 1, place + 1
    return np.minimum(groups, max(number - 1, 0))


def merge_cells(table: NDArray[Number], groups: Sequence[Groups | None]) -> NDArray[Number]:
    """A marginal with merged cells: what lies in them is added up."""
    for place, one in enumerate(groups):
        if one is not None:
            merged = np.zeros((int(one.max()) + 1, *np.delete(table.shape, place)), dtype=table.dtype)
            np.add.at(merged, one, np.moveaxis(table, place, 0))
            table = np.moveaxis(merged, 0, place)
    return table


def spread_cells(values: NDArray[np.float64], groups: Sequence[Groups | None]) -> NDArray[np.float64]:
    """Numbers of merged cells, for every cell within them."""
    for place, one in enumerate(groups):
        if one is not None:
            values = values.take(one, axis=place)
    return values
