"""Rows from a model: counts follow the probabilities as closely as whole rows can.

The cliques of the tree are drawn from its root on, each given the columns that are there already. Within the rows that
agree in those, a systematic sample of the conditional law is taken: with k rows, a cell of probability q gets k·q rows,
rounded up or down, and all k rows get a cell. So totals are kept, and rounding adds less than one row per cell where
independent draws would add √(k·q).

The model has new columns independent of the older ones that the clique does not hold. Shuffled rows would be so only up
to chance, √(k·q) again. So the k rows are sorted by some older columns, and places in the conditional law are handed
out in the order of the multiples of the golden ratio modulo 1, of which every stretch is spread evenly: all rows with
one older value get nearly their share of every new cell. A random rotation of the places makes each of them equally
likely for each row, so that on average nothing is tied to anything.

Rows of a synthetic table are drawn from what was released. Their number is free, and more rows do not know more.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from deniable.noise.source import UnprotectedNumbers
from deniable.synthesis.tree import Floats, JunctionTree

_GOLDEN = (sqrt(5) - 1) / 2
_MOST_KEY = 1 << 62


def sample(
    tree: JunctionTree, beliefs: Sequence[Floats], rows: int, *, random: UnprotectedNumbers
) -> NDArray[np.int64]:
    """Codes of as many rows, one column for each column of the domain."""
    codes = np.zeros((rows, len(tree.sizes)), dtype=np.int64)
    drawn: list[int] = []
    for place, clique in enumerate(tree.cliques):
        edge = tree.edges[place]
        separator = () if edge is None else edge.separator
        new = tuple(one for one in clique if one not in separator)
        if not new:
            continue
        axes = [clique.index(one) for one in (*separator, *new)]
        joint = beliefs[place].transpose(axes).reshape(int(np.prod(tree.shape(separator), dtype=np.int64)), -1)
        given = np.zeros(rows, dtype=np.int64)
        if separator:
            given += np.ravel_multi_index(tuple(codes[:, one] for one in separator), tree.shape(separator))
        older = [drawn[at] for at in random.permutation(len(drawn)).tolist() if drawn[at] not in separator]
        order = _sort_rows(given, len(joint), codes, older, tree.sizes)
        cells = _draw_cells(joint, given, order, random)
        codes[:, new] = np.array(np.unravel_index(cells, tree.shape(new))).T
        drawn += new
    return codes[random.permutation(rows)]


def _sort_rows(
    given: NDArray[np.int64], groups: int, codes: NDArray[np.int64], older: Sequence[int], sizes: Sequence[int]
) -> NDArray[np.int64]:
    """Rows by their given cell, then by as many older columns as fit into one number."""
    key, most = given.copy(), groups
    for column in older:
        most *= sizes[column]
        if most > _MOST_KEY:
            break
        key = key * sizes[column] + codes[:, column]
    return np.argsort(key, kind="stable")


def _draw_cells(
    joint: Floats, given: NDArray[np.int64], order: NDArray[np.int64], random: UnprotectedNumbers
) -> NDArray[np.int64]:
    """A cell for every row, systematically within the rows of one given cell, which `order` has side by side."""
    groups, width = joint.shape
    mass = joint.sum(axis=1, keepdims=True)
    # A given cell of probability 0 has rows only where rounding made some: they take an even law.
    law = np.where(mass > 0, joint / np.where(mass > 0, mass, 1.0), 1.0 / width)
    upto = np.cumsum(law, axis=1)
    upto[:, -1] = 1.0
    sizes = np.bincount(given, minlength=groups)
    starts = np.cumsum(sizes) - sizes
    sorted_groups = given[order]
    many = np.maximum(sizes[sorted_groups], 1)
    step = np.arange(len(given)) - starts[sorted_groups]
    spread = np.lexsort((step * _GOLDEN % 1, sorted_groups))
    place = np.empty(len(given), dtype=np.int64)
    place[spread] = step
    turn, offset = np.asarray(random.random(groups)), np.asarray(random.random(groups))
    place = (place + (turn[sorted_groups] * many).astype(np.int64)) % many
    at = (place + offset[sorted_groups]) / many
    edges = (upto + np.arange(groups)[:, None] * 2.0).reshape(-1)
    cells = np.searchsorted(edges, at + sorted_groups * 2.0, side="right") - sorted_groups * width
    found = np.empty(len(given), dtype=np.int64)
    found[order] = np.clip(cells, 0, width - 1)
    return found
