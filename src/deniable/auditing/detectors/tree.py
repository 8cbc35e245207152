"""A small decision tree over everything an output shows: numbers, labels, structure and, if asked, low bits.

Splits are chosen by entropy on one half of the past, and the shares in the leaves come from the other half (an
"honest" tree, Athey–Imbens 2016): what fits by chance is not believed. Numbers are first cut at `CUTS` quantiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.auditing.detectors.base import Codes, Floats, Worlds, low_bits, table
from deniable.auditing.outputs import Output

CUTS = 31
WIDTH = 16
LABELS = 8


@dataclass(frozen=True)
class _Node:
    """A leaf with its belief, or a split with two sides."""

    belief: float
    column: int = -1
    cut: float = 0.0
    sides: tuple[_Node, _Node] | None = None


class Tree:
    """An honest decision tree of limited depth."""

    def __init__(self, *, bits: bool = False, depth: int = 4, least: int = 8) -> None:
        self._bits, self._depth, self._least = bits, depth, least
        self.name = "tree over low bits" if bits else "tree"
        self._structures, self._labels = Codes(), Codes()
        self._rows: list[Floats] = []
        self._worlds: list[Worlds] = []
        self._root: _Node | None = None

    def learn(self, outputs: Sequence[Output], worlds: Worlds) -> None:
        """More past rounds; the tree is grown when it is next asked."""
        self._rows.append(self._table(outputs, new=True))
        self._worlds.append(worlds)
        self._root = None

    def posterior(self, outputs: Sequence[Output]) -> Floats:
        """The belief of the leaf that each output falls into."""
        if not self._rows:
            return np.full(len(outputs), 0.5)
        if self._root is None:
            self._rows, self._worlds = [np.concatenate(self._rows)], [np.concatenate(self._worlds)]
            self._root = self._grown(self._rows[0], self._worlds[0])
        found = np.empty(len(outputs))
        _descend(self._root, self._table(outputs, new=False), np.arange(len(outputs)), found)
        return found

    def _table(self, outputs: Sequence[Output], *, new: bool) -> Floats:
        numbers = table(outputs, WIDTH)
        codes = np.full((len(outputs), LABELS + 1), -2.0)
        for row, output in zip(codes, outputs, strict=True):
            row[0] = self._structures.of(output.structure, new=new)
            for place, label in enumerate(output.labels[:LABELS], 1):
                row[place] = self._labels.of(label, new=new)
        parts = [numbers, codes]
        if self._bits:
            lowest = low_bits(numbers[:, :4])
            parts += [lowest, lowest - np.frexp(numbers[:, :4])[1]]  # where they are, and how many zeros end the number
        return np.concatenate(parts, axis=1)

    def _grown(self, rows: Floats, worlds: Worlds) -> _Node:
        varying = [c for c in range(rows.shape[1]) if rows[0, c] != rows[-1, c] or np.ptp(rows[:, c]) > 0]
        cuts, bins = {}, {}
        for column in varying:
            values = np.unique(rows[:, column])
            if len(values) > CUTS + 1:
                values = np.unique(np.quantile(rows[:, column], np.linspace(0, 1, CUTS + 2)))
            cuts[column] = (values[:-1] + values[1:]) / 2
            bins[column] = np.searchsorted(cuts[column], rows[:, column])
        odd = np.arange(len(rows)) % 2 == 1
        return self._node(np.arange(len(rows)), worlds, odd, cuts, bins, self._depth)

    def _node(
        self,
        places: NDArray[np.int64],
        worlds: Worlds,
        odd: Worlds,
        cuts: dict[int, Floats],
        bins: dict[int, NDArray[np.int64]],
        depth: int,
    ) -> _Node:
        judged = worlds[places[odd[places]]]
        leaf = _Node((judged.sum() + 0.5) / (len(judged) + 1.0))
        fitted = places[~odd[places]]
        if depth == 0 or len(fitted) < 2 * self._least:
            return leaf
        best, gained = None, 2.0  # nats: below this a split is noise
        for column, cut in cuts.items():
            gain, at = _best_cut(bins[column][fitted], worlds[fitted], len(cut) + 1, self._least)
            if gain > gained:
                best, gained = (column, at), gain
        if best is None:
            return leaf
        column, at = best
        right = bins[column][places] > at
        if odd[places[right]].sum() == 0 or odd[places[~right]].sum() == 0:
            return leaf
        sides = tuple(self._node(places[s], worlds, odd, cuts, bins, depth - 1) for s in (~right, right))
        return _Node(leaf.belief, column, float(cuts[column][at]), (sides[0], sides[1]))


def _best_cut(bins: NDArray[np.int64], worlds: Worlds, count: int, least: int) -> tuple[float, int]:
    """The cut that lowers the entropy most, and by how many nats; a side has at least `least` rounds."""
    ones = np.bincount(bins[worlds], minlength=count).cumsum()[:-1].astype(float)
    total = np.bincount(bins, minlength=count).cumsum()[:-1].astype(float)
    everything, all_ones = len(bins), float(worlds.sum())
    fits = (total >= least) & (everything - total >= least)
    if not fits.any():
        return 0.0, 0
    after = _entropy(ones, total) + _entropy(all_ones - ones, everything - total)
    gains = np.where(fits, _entropy(np.array(all_ones), np.array(float(everything))) - after, -1.0)
    at = int(np.argmax(gains))
    return float(gains[at]), at


def _entropy(ones: Floats, total: Floats) -> Floats:
    """−n₁ ln(n₁/n) − n₀ ln(n₀/n)."""
    from scipy.special import xlogy

    zeros = total - ones
    return np.asarray(xlogy(total, total) - xlogy(ones, ones) - xlogy(zeros, zeros))


def _descend(node: _Node, rows: Floats, places: NDArray[np.int64], found: Floats) -> None:
    if node.sides is None:
        found[places] = node.belief
        return
    right = rows[places, node.column] > node.cut
    _descend(node.sides[0], rows, places[~right], found)
    _descend(node.sides[1], rows, places[right], found)
