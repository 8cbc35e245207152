"""Two runs: both neighbours once, on the same randomness, with the additive noise made loud.

If an answer is f(data) + c·noise, one run cannot tell f from c. So the noise is multiplied by `LOUD`: then c is the
answer over the noise, f being too small to matter, and the difference of the two answers is f(D) − f(D′), or shows that
c depends on the data. That is a wrong sensitivity, a clipped average, a batch divided by its own size, in two runs.

It is a reading, not a proof: an answer that is no such sum (its logarithm, or one that ignores its noise) is misread.
So what is seen here is told only if `replay` then verifies the form, with noise as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deniable.auditing.additive import Measured
from deniable.auditing.recording import Draw

LOUD = 1 << 26
"""How much louder the noise is: answers of up to a million scales are still small beside it."""

_ALIKE = 1e-4
"""Factors that agree this closely are taken to be one: what differs is the answer."""


def sighted(
    first: tuple[NDArray[np.float64], Sequence[Draw]], second: tuple[NDArray[np.float64], Sequence[Draw]]
) -> Measured | None:
    """The laws that two loud runs (numbers of the output, draws) suggest; None where they suggest nothing.

    >>> from deniable.auditing.recording import Sampler
    >>> draw = Draw("numpy", Sampler("laplace", "laplace"), np.array([0.7 * LOUD]), np.array([2.0]))
    >>> found = sighted((np.array([5 + 0.7 * LOUD]), [draw]), (np.array([1 + 0.7 * LOUD]), [draw]))
    >>> found.shifts.round(3), found.spread
    (array([2.]), array([1.]))
    """
    (y, drawn), (other, again) = first, second
    noise, scales = _stacked(drawn)
    louder, widths = _stacked(again)
    laws = {draw.law for draw in (*drawn, *again) if draw.law is not None}
    if len(laws) != 1 or not y.size or not y.shape == other.shape == noise.shape == louder.shape:
        return None
    usable = (noise != 0) & np.isfinite(y) & np.isfinite(other) & (scales > 0)
    if not usable.all() or not np.array_equal(noise / scales, louder / widths):
        return None
    factors, theirs = y / noise, other / louder
    if (factors == 0).any() or (theirs / factors <= 0).any():
        return None
    law, ratio = str(laws.pop()), np.asarray(theirs / factors, dtype=np.float64)
    spread = np.where(np.abs(np.log(ratio)) < _ALIKE, 1.0, ratio) * widths / scales
    # Where the scales differ the answers' difference is mostly noise; the spread alone is read.
    moved = np.where(spread == 1.0, (y - other) / factors, 0.0)
    if law.startswith("discrete"):
        return Measured(law, np.rint(moved), spread, float(scales[0])) if np.ptp(scales) == 0 else None
    return Measured(law, moved / scales, spread)


def _stacked(draws: Sequence[Draw]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All additive numbers and their scales, in the order they were drawn."""
    added = [draw for draw in draws if draw.law is not None]
    if not added:
        return np.zeros(0), np.zeros(0)
    return np.concatenate([draw.noise for draw in added]), np.concatenate([draw.scale for draw in added])
