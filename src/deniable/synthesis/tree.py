"""A junction tree: the distribution with given log-potentials on sets of columns, and its marginals, exactly.

The sets of columns that potentials are on span a graph; it is triangulated by greedy elimination (the smallest new
clique first), and its maximal cliques are joined by a spanning tree with the largest separators. On that tree two
passes of messages give the marginal of every clique and log Z (Lauritzen and Spiegelhalter 1988, in Hugin's form).

Potentials are logarithms, so that none overflows; −∞ forbids a cell. Each clique is scaled by its largest potential
before it is exponentiated, and each message by its largest entry, and log Z keeps account of both.

**All pairs.** Two columns that share no clique have a marginal too. P(xᵢ, S) is carried along the tree from separator
to separator, for all columns i behind it at once: a matrix with a row for every code. Where the tree opens into a new
column j, one multiplication by P(xⱼ | S) gives all pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable.synthesis.domain import Clique

Floats: TypeAlias = NDArray[np.float64]


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _mask(clique: Iterable[int]) -> int:
    return sum(1 << place for place in clique)


@lru_cache(maxsize=1 << 18)
def _cells(sizes: tuple[int, ...], mask: int) -> int:
    return prod(sizes[place] for place in _bits(mask))


def eliminate(sizes: tuple[int, ...], graph: Sequence[int]) -> list[int]:
    """The maximal cliques of a triangulation, as bit masks; `graph` has the mask of every column's neighbours."""
    adjacent = list(graph)
    left = set(range(len(sizes)))
    cost = {place: _cells(sizes, adjacent[place] | 1 << place) for place in left}
    found: list[int] = []
    while left:
        place = min(left, key=lambda one: (cost[one], one))
        around = adjacent[place]
        clique = around | 1 << place
        if not any(clique & known == clique for known in found):
            found.append(clique)
        left.remove(place)
        for other in _bits(around):
            adjacent[other] = (adjacent[other] | around) & ~(1 << place | 1 << other)
            cost[other] = _cells(sizes, adjacent[other] | 1 << other)
    return found


def neighbours(columns: int, cliques: Iterable[Clique]) -> list[int]:
    """The graph that some sets of columns span."""
    graph = [0] * columns
    for clique in cliques:
        mask = _mask(clique)
        for place in clique:
            graph[place] |= mask & ~(1 << place)
    return graph


def tree_cells(sizes: tuple[int, ...], graph: Sequence[int]) -> int:
    """How many cells the cliques of the tree would have together."""
    return sum(_cells(sizes, mask) for mask in eliminate(sizes, graph))


@dataclass(frozen=True)
class _Edge:
    """How a clique hangs on its parent: their separator, and the axes that sums and products run over."""

    parent: int
    separator: Clique
    own_axes: tuple[int, ...]
    """Axes of the clique that are not in the separator."""
    own_shape: tuple[int, ...]
    """The separator, broadcast to the clique."""
    parent_axes: tuple[int, ...]
    parent_shape: tuple[int, ...]


class JunctionTree:
    """The tree of some sets of columns; every one of them lies in one of its cliques.

    Args:
        sizes: how many codes each column has.
        cliques: the sets of columns that potentials are on.
    """

    def __init__(self, sizes: Sequence[int], cliques: Iterable[Clique]) -> None:
        self.sizes = tuple(sizes)
        masks = eliminate(self.sizes, neighbours(len(self.sizes), cliques))
        self.cliques: list[Clique] = []
        self.edges: list[_Edge | None] = []
        left = sorted(masks, key=lambda mask: -_cells(self.sizes, mask))
        near = dict.fromkeys(left, (-1, -1))  # the best separator so far, and on which clique
        while left:
            mask = max(left, key=lambda one: near[one][0])
            left.remove(mask)
            place, clique = len(self.cliques), tuple(_bits(mask))
            self.edges.append(self._edge(clique, near[mask][1]) if self.cliques else None)
            self.cliques.append(clique)
            for other in left:
                shared = (other & mask).bit_count()
                if shared > near[other][0]:
                    near[other] = (shared, place)
        self._masks = [_mask(clique) for clique in self.cliques]

    def _edge(self, clique: Clique, parent: int) -> _Edge:
        above = self.cliques[parent]
        separator = tuple(place for place in clique if place in above)
        return _Edge(
            parent,
            separator,
            tuple(axis for axis, place in enumerate(clique) if place not in separator),
            tuple(self.sizes[place] if place in separator else 1 for place in clique),
            tuple(axis for axis, place in enumerate(above) if place not in separator),
            tuple(self.sizes[place] if place in separator else 1 for place in above),
        )

    @property
    def cells(self) -> int:
        """How many cells the cliques have together."""
        return sum(prod(self.shape(clique)) for clique in self.cliques)

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """The shape of a marginal."""
        return tuple(self.sizes[place] for place in clique)

    def home(self, clique: Clique) -> int | None:
        """The smallest clique that holds some columns; None where there is none."""
        mask = _mask(clique)
        homes = [place for place, known in enumerate(self._masks) if known & mask == mask]
        return min(homes, key=lambda place: _cells(self.sizes, self._masks[place]), default=None)

    def spread(self, home: int, clique: Clique) -> tuple[int, ...]:
        """The shape in which a marginal is added to the clique that is its home."""
        return tuple(self.sizes[place] if place in clique else 1 for place in self.cliques[home])

    def infer(self, potentials: Sequence[Floats]) -> tuple[list[Floats], float]:
        """The marginal of every clique, and log Z; log Z is −∞ where all cells are forbidden."""
        total = 0.0
        beliefs: list[Floats] = []
        for potential in potentials:
            top = float(potential.max())
            if top == -np.inf:
                return [np.zeros_like(potential) for potential in potentials], -np.inf
            beliefs.append(np.exp(potential - top))
            total += top
        upward: list[Floats] = [np.ones(())] * len(beliefs)
        for place in range(len(beliefs) - 1, 0, -1):
            edge = self.edges[place]
            if edge is None:
                continue
            sums = add_up(beliefs[place], edge.own_axes)
            top = float(sums.max())
            if top <= 0:
                return [np.zeros_like(potential) for potential in potentials], -np.inf
            upward[place] = sums
            total += log(top)
            beliefs[edge.parent] *= (sums / top).reshape(edge.parent_shape)
        whole = float(beliefs[0].sum())
        if whole <= 0:
            return [np.zeros_like(potential) for potential in potentials], -np.inf
        total += log(whole)
        beliefs[0] /= whole
        for place in range(1, len(beliefs)):
            edge = self.edges[place]
            if edge is None:
                continue
            sums = add_up(beliefs[edge.parent], edge.parent_axes)
            beliefs[place] *= ratio(sums, upward[place]).reshape(edge.own_shape)
        return beliefs, total

    def marginal(self, beliefs: Sequence[Floats], home: int, clique: Clique) -> Floats:
        """The marginal of columns that lie in one clique."""
        axes = tuple(axis for axis, place in enumerate(self.cliques[home]) if place not in clique)
        return add_up(beliefs[home], axes)

    def pairs(self, beliefs: Sequence[Floats]) -> dict[Clique, Floats]:
        """The marginal of every two columns."""
        return _Pairs(self, beliefs).all()


def add_up(values: Floats, axes: Sequence[int]) -> Floats:
    """Values summed over some axes, the longest one first. NumPy's own sums are slow where few numbers lie together, so
    these are multiplications by ones."""
    found, sizes = np.ascontiguousarray(values), list(values.shape)
    for axis in sorted(axes, key=lambda one: -values.shape[one]):
        size, inner = sizes[axis], prod(sizes[axis + 1 :])
        if inner <= _TOGETHER:
            found = found.reshape(-1, size * inner) @ _ones(size, inner)
        else:
            found = found.reshape(-1, size, inner).sum(axis=1)
        sizes[axis] = 1
    return found.reshape([size for axis, size in enumerate(values.shape) if axis not in axes])


_TOGETHER = 16


@lru_cache(maxsize=1 << 10)
def _ones(size: int, inner: int) -> Floats:
    return np.tile(np.eye(inner), (size, 1))


def ratio(top: Floats, bottom: Floats) -> Floats:
    """top/bottom, and 0 where bottom is 0."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


@dataclass(frozen=True)
class _Carried:
    """P(xᵢ, S) for the columns behind a separator: one matrix, with a row for every code of each column."""

    columns: tuple[int, ...]
    separator: Clique
    rows: Floats


class _Pairs:
    """The marginals of all pairs of columns of one distribution."""

    def __init__(self, tree: JunctionTree, beliefs: Sequence[Floats]) -> None:
        self._tree, self._beliefs = tree, beliefs
        self._children: list[list[int]] = [[] for _ in tree.cliques]
        for place, edge in enumerate(tree.edges):
            if edge is not None:
                self._children[edge.parent].append(place)

    def all(self) -> dict[Clique, Floats]:
        tree = self._tree
        found: dict[Clique, Floats] = {}
        for place, clique in sorted(enumerate(tree.cliques), key=lambda one: self._beliefs[one[0]].size):
            for first in clique:
                for second in clique:
                    if first < second and (first, second) not in found:
                        found[first, second] = tree.marginal(self._beliefs, place, (first, second))
        upward: dict[int, _Carried] = {}
        for place in range(len(tree.cliques) - 1, 0, -1):
            inner = [upward[child] for child in self._children[place]]
            upward[place] = self._carry(place, self._edge(place).separator, inner)
        downward: dict[int, _Carried] = {}
        for place in range(1, len(tree.cliques)):
            edge = self._edge(place)
            inner = [upward[child] for child in self._children[edge.parent] if child != place]
            inner += [downward[edge.parent]] if edge.parent in downward else []
            downward[place] = self._carry(edge.parent, edge.separator, inner)
            self._meet(place, downward[place], found)
        return found

    def _edge(self, place: int) -> _Edge:
        edge = self._tree.edges[place]
        if edge is None:
            raise TypeError("the root of a tree hangs on nothing")
        return edge

    def _carry(self, place: int, separator: Clique, inner: Sequence[_Carried]) -> _Carried:
        """What is behind a clique and in it, as seen from one of its separators."""
        tree, clique = self._tree, self._tree.cliques[place]
        columns: list[int] = []
        rows: list[Floats] = []
        for column in clique:
            if column not in separator:
                both = tuple(sorted((column, *separator)))
                joint = tree.marginal(self._beliefs, place, both)
                columns.append(column)
                rows.append(np.moveaxis(joint, both.index(column), 0).reshape(tree.sizes[column], -1))
        for carried in inner:
            if carried.columns:
                columns += carried.columns
                rows.append(self._pass(place, carried, separator))
        width = prod(tree.shape(separator))
        return _Carried(tuple(columns), separator, np.concatenate(rows) if rows else np.zeros((0, width)))

    def _pass(self, place: int, carried: _Carried, separator: Clique) -> Floats:
        """P(xᵢ, S) from one separator S of a clique to another."""
        tree, before = self._tree, carried.separator
        common = tuple(one for one in before if one in separator)
        gone = tuple(one for one in before if one not in separator)
        new = tuple(one for one in separator if one not in before)
        union = tuple(sorted({*before, *separator}))
        joint = tree.marginal(self._beliefs, place, union)
        joint = joint.transpose([union.index(one) for one in (*common, *gone, *new)])
        joint = joint.reshape(prod(tree.shape(common)), prod(tree.shape(gone)), prod(tree.shape(new)))
        given = ratio(joint, np.broadcast_to(joint.sum(axis=2, keepdims=True), joint.shape))
        many = len(carried.rows)
        rows = carried.rows.reshape(many, *tree.shape(before))
        rows = rows.transpose([0, *(1 + before.index(one) for one in (*common, *gone))])
        rows = rows.reshape(many, given.shape[0], given.shape[1]).transpose(1, 0, 2)
        found = np.matmul(rows, given).transpose(1, 0, 2).reshape(many, *tree.shape(common), *tree.shape(new))
        order = (*common, *new)
        return np.asarray(found.transpose([0, *(1 + order.index(one) for one in separator)]).reshape(many, -1))

    def _meet(self, place: int, carried: _Carried, found: dict[Clique, Floats]) -> None:
        """The pairs of a column that is new in a clique and of those behind it."""
        tree, separator = self._tree, carried.separator
        for column in tree.cliques[place]:
            if column in separator:
                continue
            both = tuple(sorted((column, *separator)))
            joint = tree.marginal(self._beliefs, place, both)
            joint = np.moveaxis(joint, both.index(column), -1).reshape(-1, tree.sizes[column])
            given = ratio(joint, np.broadcast_to(joint.sum(axis=1, keepdims=True), joint.shape))
            pairs = carried.rows @ given
            start = 0
            for other in carried.columns:
                part = pairs[start : start + tree.sizes[other]]
                start += tree.sizes[other]
                if other < column:
                    found.setdefault((other, column), part)
                elif other > column:
                    found.setdefault((column, other), part.T)
