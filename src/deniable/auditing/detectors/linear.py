"""Detectors of a shift: a linear score of the numbers, read by a logistic curve or by bins.

Only rounds with the structure that is most frequent so far are judged. Where an output has several numbers, their
weights are those of the ridge discriminant (covariance in full up to `FULL` numbers, its diagonal beyond), learnt on
one half of the past; how the score is read is learnt on the other half, so that weights that fit their own half by
chance are not believed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deniable.auditing.detectors.base import Floats, Worlds, low_bits
from deniable.auditing.detectors.past import Past
from deniable.auditing.outputs import Output

FULL = 64
"""Up to how many numbers the whole covariance is used."""

LEAST = 4
"""Fewer past rounds in one world say nothing."""


class _Scored:
    """A detector that reads a linear score; the subclass says how."""

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


class Logistic(_Scored):
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
