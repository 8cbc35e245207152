"""Detectors: what guesses the world from an output, having seen past rounds only.

| detector | sees |
|---|---|
| `Bins`, `LogisticScore` | a shift of the numbers; `Bins(bits=True)` the lowest set bit of the first |
| `RegionTree` | any region of numbers, labels and structure; with `bits=True` also the lowest set bits of floats |
| `Atoms` | repeated whole outputs, structures (types, lengths, keys, crashes), or all text |

A detector can only cost power, never validity: the wealth it bets with is fair whatever it says.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable.auditing.outputs import Output

__all__ = ["Atoms", "Bins", "Detector", "LogisticScore", "RegionTree", "bit_detectors", "value_detectors"]


Floats: TypeAlias = NDArray[np.float64]
Worlds: TypeAlias = NDArray[np.bool_]

MISSING = -2e300
"""What a table holds where an output has no such number."""


class Detector(Protocol):
    """Guesses the world from an output, having seen past rounds only."""

    @property
    def name(self) -> str:
        """The name under which a won bet is reported."""
        ...

    def learn(self, outputs: Sequence[Output], worlds: Worlds) -> None:
        """More past rounds; `worlds[i]` says whether round i ran on D′."""
        ...

    def posterior(self, outputs: Sequence[Output]) -> Floats:
        """The estimated P(D′ | output) of rounds not learnt yet, each strictly between 0 and 1."""
        ...


class Codes:
    """Whole numbers for labels, in the order in which they were first met."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, label: Hashable, *, new: bool) -> int:
        """The code of a label; −1 for one never met, unless it is to be remembered."""
        if new and label not in self._known:
            self._known[label] = len(self._known)
        return self._known.get(label, -1)


def table(outputs: Sequence[Output], width: int) -> Floats:
    """The first `width` numbers of every output, one row each."""
    if outputs and all(len(output.numbers) == width for output in outputs):
        return np.stack([output.numbers for output in outputs])
    rows = np.full((len(outputs), width), MISSING)
    for row, output in zip(rows, outputs, strict=True):
        size = min(width, len(output.numbers))
        row[:size] = output.numbers[:size]
    return rows


def low_bits(numbers: Floats) -> Floats:
    """The exponent of the lowest set bit of each float: 0.75 = 3·2⁻² has −2. Zero has 0.

    A sum of floats is a multiple of its terms' last places, so which exponents are reachable may tell the terms
    (Mironov 2012).
    """
    mantissa, exponent = np.frexp(numbers)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    with np.errstate(divide="ignore"):
        return np.where(whole == 0, 0.0, exponent - 53 + np.log2(lowest))


class Past:
    """The numbers of past rounds, by structure."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Floats]] = {}
        self._worlds: dict[str, list[Worlds]] = {}

    def add(self, outputs: Sequence[Output], worlds: Worlds) -> None:
        """More rounds."""
        places: dict[str, list[int]] = {}
        for place, output in enumerate(outputs):
            places.setdefault(output.structure, []).append(place)
        for structure, here in places.items():
            self._rows.setdefault(structure, []).append(np.stack([outputs[i].numbers for i in here]))
            self._worlds.setdefault(structure, []).append(worlds[here])

    def common(self) -> tuple[str, Floats, Worlds]:
        """The most frequent structure, its numbers, and their worlds."""
        structure = max(self._worlds, key=lambda name: sum(map(len, self._worlds[name])), default="")
        if not structure:
            return "", np.zeros((0, 0)), np.zeros(0, dtype=bool)
        rows, worlds = np.concatenate(self._rows[structure]), np.concatenate(self._worlds[structure])
        self._rows[structure], self._worlds[structure] = [rows], [worlds]
        return structure, rows, worlds


FULL = 64
"""Up to how many numbers the whole covariance is used."""

LEAST = 4
"""Fewer past rounds in one world say nothing."""


class _Scored:
    """A detector that reads a linear score; the subclass says how.

    Detectors of a shift: a linear score of the numbers, read by a logistic curve or by bins.

    Only rounds with the structure that is most frequent so far are judged. Where an output has several numbers, their
    weights are those of the ridge discriminant (covariance in full up to `FULL` numbers, its diagonal beyond), learnt
    on one half of the past; how the score is read is learnt on the other half, so that weights that fit their own half
    by chance are not believed.
    """

    name = ""

    def __init__(self, *, bits: bool = False) -> None:
        self._past = Past()
        self._bits = bits
        self._structure = ""
        self._stale = False
        self._weights: Floats = np.zeros(0)

    def learn(self, outputs: Sequence[Output], worlds: Worlds) -> None:
        """More past rounds."""
        self._past.add(outputs, worlds)
        self._stale = True

    def posterior(self, outputs: Sequence[Output]) -> Floats:
        """The belief, ½ for outputs of another structure."""
        if self._stale:
            self._fit()
            self._stale = False
        found = np.full(len(outputs), 0.5)
        places = [i for i, output in enumerate(outputs) if output.structure == self._structure]
        if places and self._weights.size:
            numbers = np.stack([outputs[i].numbers for i in places])
            found[places] = self._read(_scores(self._seen(numbers), self._weights))
        return found

    def _fit(self) -> None:
        structure, rows, worlds = self._past.common()
        rows = self._seen(rows)
        half = rows.shape[1] > 1  # one number needs no weights
        first, second = (slice(0, None, 2), slice(1, None, 2)) if half else (slice(None), slice(None))
        self._weights = np.zeros(0)
        few = min(worlds[first].sum(), (~worlds[first]).sum(), worlds[second].sum(), (~worlds[second]).sum())
        if rows.shape[1] == 0 or few < LEAST:
            return
        self._structure = structure
        self._weights = _discriminant(rows[first], worlds[first]) if half else np.ones(1)
        self._fit_scores(_scores(rows[second], self._weights), worlds[second])

    def _seen(self, rows: Floats) -> Floats:
        """What is scored: all numbers, or the lowest set bit of the first."""
        return low_bits(rows[:, :1]) if self._bits else rows

    def _fit_scores(self, scores: Floats, worlds: Worlds) -> None:
        raise TypeError(f"{type(self).__name__} does not say how it learns from scores")

    def _read(self, scores: Floats) -> Floats:
        raise TypeError(f"{type(self).__name__} does not say how it reads scores")


class Bins(_Scored):
    """The score cut into bins of equal mass; in each, the smoothed share of D′."""

    def __init__(self, count: int, *, bits: bool = False) -> None:
        super().__init__(bits=bits)
        self._count = count
        self.name = f"{count} bins of low bits" if bits else f"{count} bins"
        self._edges: Floats = np.zeros(0)
        self._shares: Floats = np.full(1, 0.5)

    def _fit_scores(self, scores: Floats, worlds: Worlds) -> None:
        count = min(self._count, max(2, len(scores) // 6))
        self._edges = np.unique(np.quantile(scores, np.arange(1, count) / count))
        bins = np.searchsorted(self._edges, scores)
        ones = np.bincount(bins[worlds], minlength=len(self._edges) + 1)
        total = np.bincount(bins, minlength=len(self._edges) + 1)
        self._shares = (ones + 0.5) / (total + 1)

    def _read(self, scores: Floats) -> Floats:
        return self._shares[np.searchsorted(self._edges, scores)]


class LogisticScore(_Scored):
    """P(D′ | score) = 1/(1 + e^{−a − b·score}), fitted by Newton's method with a unit ridge."""

    name = "logistic curve"

    def __init__(self) -> None:
        super().__init__()
        self._centre, self._spread = 0.0, 1.0
        self._curve: Floats = np.zeros(2)

    def _fit_scores(self, scores: Floats, worlds: Worlds) -> None:
        low, self._centre, high = np.quantile(scores, [0.16, 0.5, 0.84])
        self._spread = float(high - low) / 2 or 1.0
        features = self._features(scores)
        curve = np.zeros(2)
        for _ in range(12):
            chance = 1 / (1 + np.exp(-features @ curve))
            slope = features.T @ (worlds - chance) - curve
            bend = (features * (chance * (1 - chance))[:, None]).T @ features + np.eye(2)
            step = np.linalg.solve(bend, slope)
            curve = curve + step
            if np.abs(step).max() < 1e-6:
                break
        self._curve = curve

    def _features(self, scores: Floats) -> Floats:
        """1 and the standardised score, far scores pulled in."""
        return np.stack([np.ones(len(scores)), np.clip((scores - self._centre) / self._spread, -8, 8)], axis=1)

    def _read(self, scores: Floats) -> Floats:
        raw = np.clip(self._features(scores) @ self._curve, -12, 12)
        return np.asarray(1 / (1 + np.exp(-raw)))


def _scores(rows: Floats, weights: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.clip(np.nan_to_num(rows @ weights), -1e300, 1e300))


def _discriminant(rows: Floats, worlds: Worlds) -> Floats:
    """The weights of Fisher's discriminant, with a ridge of the mean variance."""
    typical = np.median(np.abs(rows), axis=0)
    rows = np.clip(rows, -1e6 * (typical + 1e-12), 1e6 * (typical + 1e-12))  # one absurd value must not decide alone
    one, zero = rows[worlds], rows[~worlds]
    apart = one.mean(axis=0) - zero.mean(axis=0)
    spread = (one.var(axis=0) * len(one) + zero.var(axis=0) * len(zero)) / len(rows)
    scale = np.sqrt(spread + 1e-12 * (typical**2 + 1e-300))
    if rows.shape[1] > FULL:
        return np.asarray(apart / scale**2)
    within = np.concatenate([one - one.mean(axis=0), zero - zero.mean(axis=0)]) / scale
    covariance = within.T @ within / len(rows) + np.eye(rows.shape[1]) * (1.0 / len(rows) + 1e-6)
    return np.asarray(np.linalg.solve(covariance, apart / scale) / scale)


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


class RegionTree:
    """An honest decision tree of limited depth.

    A small decision tree over everything an output shows: numbers, labels, structure and, if asked, low bits.

    Splits are chosen by entropy on one half of the past, and the shares in the leaves come from the other half (an
    "honest" tree, Athey–Imbens 2016): what fits by chance is not believed. Numbers are first cut at `CUTS` quantiles.
    """

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
        first = numbers[:, :4]
        lowest = low_bits(first)
        if not self._bits:  # the lowest bit of a whole number is part of its value
            return np.concatenate([numbers, codes, np.where(first == np.rint(first), lowest, 0.0)], axis=1)
        # Where the lowest bits are, and how many zeros end the number.
        return np.concatenate([numbers, codes, lowest, lowest - np.frexp(first)[1]], axis=1)

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


class Atoms:
    """How often each key came from each world.

    Counts of keys: whole outputs, or structures.

    The belief after n₁ of n rounds with a key were D′ is (n₁ + ½)/(n + 1), the estimate of Krichevsky and Trofimov; a
    key never met says nothing.
    """

    def __init__(self, key: Callable[[Output], Hashable], name: str) -> None:
        self._key, self.name = key, name
        self._counts: dict[Hashable, list[int]] = {}

    def learn(self, outputs: Sequence[Output], worlds: Worlds) -> None:
        """Count."""
        for output, world in zip(outputs, worlds.tolist(), strict=True):
            self._counts.setdefault(self._key(output), [0, 0])[world] += 1

    def posterior(self, outputs: Sequence[Output]) -> Floats:
        """The smoothed share of D′ among past rounds with the same key."""
        found = np.full(len(outputs), 0.5)
        for place, output in enumerate(outputs):
            seen = self._counts.get(self._key(output))
            if seen is not None:
                found[place] = (seen[1] + 0.5) / (seen[0] + seen[1] + 1)
        return found


def whole(output: Output) -> Hashable:
    """The output itself."""
    return output.atom


def structure(output: Output) -> Hashable:
    """Types, lengths, keys, dtypes, the name of an exception."""
    return output.structure


def text(output: Output) -> Hashable:
    """Everything but the numbers: the structure and all labels."""
    return output.structure, output.labels


def value_detectors() -> tuple[Detector, ...]:
    """Fresh detectors that look at values, and not at the low bits of floats."""
    return (
        Bins(4),
        Bins(16),
        LogisticScore(),
        RegionTree(),
        Atoms(whole, "repeated outputs"),
        Atoms(structure, "structure of the output"),
        Atoms(text, "text of the output"),
    )


def bit_detectors() -> tuple[Detector, ...]:
    """Fresh detectors that look at the low bits of floats, which have a verdict of their own."""
    return RegionTree(bits=True), Bins(32, bits=True)
