"""Sensitivity: the largest |C·u| that one unit can cause under a participation pattern, rounded up.

A unit contributes rows u_i with |u_i| ≤ 1 (in clips, of any dimension) in the steps of a pattern π, and nothing
elsewhere. With the Gram matrix X = CᵀC,

    |C·u|² = Σ_{i,j∈π} X_ij ⟨u_i, u_j⟩ ≤ Σ_{i,j∈π} |X_ij|,

with equality when X ≥ 0 (take all u_i equal). So for vectors the bound needs |X|, and is exact where X ≥ 0 on the
pattern (Choquette-Choo et al. 2023, "Multi-epoch matrix factorization mechanisms", section 2). Which pattern
is worst:

* **one step**: the longest column. Exact.
* **a fixed order**: each of its patterns is tried. Exact where X ≥ 0.
* **separated, orthogonal columns** (X_ij = 0 for |i − j| ≥ separation, as when C has at most `separation` bands): the
  largest sum of X_ii over a pattern, by dynamic programming. Exact.
* **separated, Toeplitz, c ≥ 0 and c_1 ≥ c_2 ≥ …**: the earliest pattern 0, b, 2b, …. Exact (Kalinin–Lampert 2024,
  Theorem 2, with c_0 ≥ c_1 as well, which is not needed). ⟨C e_i, C e_j⟩ = Σ_{t<T−j} c_t c_{t+j−i} for i ≤ j falls in j
  at a fixed gap (fewer terms), and in the gap once it is 1 or more; the m-th step of any pattern is at least m·b and
  its gaps are at least those of the earliest one; so term by term no pattern exceeds it.
* **separated, otherwise**: max_π Σ_{i∈π} v_i, where v_i is the largest Σ_{j∈π'} |X_ij| over patterns π' that hold i. An
  upper bound, by dynamic programming (Choquette-Choo et al. 2023, "(Amplified) banded matrix factorization", section 3
  and Algorithm 3).

Floating point: an inner product of n terms errs by at most n·2⁻⁵²·|c_i||c_j|; `MARGIN` adds that for the whole pattern
and the sum, then the root is rounded up to nine digits. C itself is exact: it is the matrix whose entries are these
doubles, and what a stream applies.

A `Participation` states in which steps of a run one unit may take part. It is public.

| pattern | a unit takes part in |
|---|---|
| `once(steps)` | at most one step (a single epoch) |
| `separated(steps, times=k, separation=b)` | at most k steps, any two of them at least b apart |
| `ordered(steps, period=b)` | steps p, p + b, p + 2b, … for one p (batches in a fixed order, epoch after epoch) |

(Choquette-Choo et al. 2023, "Multi-epoch matrix factorization", section 2, and "(Amplified) banded matrix
factorization", section 3.)

>>> ordered(10, period=4)
Participation(steps=10, times=3, separation=4, ordered=True)
>>> [list(pattern) for pattern in ordered(10, period=4).phases()]
[[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable.errors import InvalidArgument, NotSupported
from deniable.numerics.exact import short_above


@dataclass(frozen=True)
class Participation:
    """A unit takes part in at most `times` of `steps` steps, at least `separation` apart; exactly so if `ordered`."""

    steps: int
    times: int = 1
    separation: int = 1
    ordered: bool = False

    def __post_init__(self) -> None:
        steps = _checks.count("steps", self.steps)
        most = 1 + (steps - 1) // _checks.count("separation", self.separation)
        if _checks.count("times", self.times) > most:
            raise InvalidArgument(
                "times", self.times, f"at most {most}: {self.separation} steps apart, no more fit into {steps}"
            )
        if self.ordered and self.times < most:
            raise InvalidArgument("times", self.times, f"{most} in a fixed order", "For fewer, use separated(...).")

    def phases(self) -> Iterator[range]:
        """The patterns of a fixed order, one for each step of the first epoch. Every other pattern is part of one."""
        for first in range(min(self.separation, self.steps)):
            yield range(first, self.steps, self.separation)


def once(steps: int) -> Participation:
    """Every unit takes part in at most one step.

    Args:
        steps: the steps of the run.
    """
    return Participation(steps)


def separated(steps: int, *, separation: int, times: int | None = None) -> Participation:
    """Every unit takes part in a few steps that are far apart.

    Args:
        steps: the steps of the run.
        separation: the least distance between two steps of one unit.
        times: the most steps of one unit; as many as fit, if left out.
    """
    most = 1 + (_checks.count("steps", steps) - 1) // _checks.count("separation", separation)
    return Participation(steps, most if times is None else times, separation)


def ordered(steps: int, *, period: int) -> Participation:
    """Batches come in one fixed order, which repeats.

    Args:
        steps: the steps of the run.
        period: after so many steps the order repeats.
    """
    most = 1 + (_checks.count("steps", steps) - 1) // _checks.count("period", period)
    return Participation(steps, most, period, ordered=True)


Array = NDArray[np.float64]
Gram = Callable[[Any, Any], Array]
"""X[rows, columns], for two index arrays."""

MARGIN = 2.0**-50
"""The relative error allowed for each term of an inner product: four times what floating point needs."""

LARGEST = 8192
"""Steps up to which a general separated pattern is bounded; the Gram matrix is walked whole."""

_CHUNK = 128


@dataclass(frozen=True)
class Sensitivity:
    """A proven bound on |C·u|, in clips. `exact` says whether it is attained (up to rounding), `proof` why it holds."""

    value: Fraction
    exact: bool
    proof: str


def one_step(lengths: Array, rows: int) -> Sensitivity:
    """The longest column."""
    square = float(np.max(lengths)) ** 2
    return _above(square, rows * square, exact=True, proof="the longest column")


def in_order(gram: Gram, lengths: Array, pattern: Participation, rows: int) -> Sensitivity:
    """The worst phase of a fixed order."""
    worst, exact, scale = 0.0, True, 0.0
    for phase in pattern.phases():
        indices = np.array(phase)
        block, long = gram(indices, indices), lengths[indices]
        exact = exact and bool(np.all(block >= -MARGIN * rows * np.outer(long, long)))
        worst = max(worst, float(np.abs(block).sum()))
        scale = max(scale, float(long.sum()) ** 2)
    proof = "every phase of the order" + ("" if exact else ", absolute Gram matrix")
    return _above(worst, rows * scale, exact=exact, proof=proof)


def orthogonal(lengths: Array, pattern: Participation, rows: int) -> Sensitivity:
    """The largest sum of squares over a pattern, for columns that are orthogonal when `separation` or more apart."""
    squares = lengths**2
    if pattern.ordered:
        square = max(float(squares[list(phase)].sum()) for phase in pattern.phases())
    else:
        square = float(best(squares, pattern.times, pattern.separation))
    return _above(square, rows * square, exact=True, proof="orthogonal columns")


def earliest(coefficients: Array, pattern: Participation) -> Sensitivity:
    """Toeplitz with falling coefficients: the pattern 0, b, 2b, …."""
    steps = pattern.steps
    total = np.zeros(steps)
    whole = np.zeros(steps)
    whole[: min(len(coefficients), steps)] = coefficients[:steps]
    for first in range(0, pattern.times * pattern.separation, pattern.separation):
        total[first:] += whole[: steps - first]
    square = float(total @ total)
    return _above(square, (steps + pattern.times) * square, exact=True, proof="the earliest pattern, falling Toeplitz")


def is_falling(coefficients: Array) -> bool:
    """Whether Toeplitz coefficients are at least 0 and never rise behind the first."""
    return bool(np.all(coefficients >= 0) and np.all(np.diff(coefficients[1:]) <= 0))


def in_general(gram: Gram, lengths: Array, pattern: Participation, rows: int) -> Sensitivity:
    """Two rounds of dynamic programming over the absolute Gram matrix."""
    steps, apart, times = pattern.steps, pattern.separation, pattern.times
    if steps > LARGEST:
        raise NotSupported(
            f"a bound for {steps} steps of a general strategy is not computed (at most {LARGEST}). Use a Toeplitz"
            " strategy with falling coefficients, one with at most `separation` bands, or batches in a fixed order."
        )
    every = np.arange(steps)
    row_bounds = np.empty(steps)
    for start in range(0, steps, _CHUNK):
        here = every[start : start + _CHUNK]
        block = np.abs(gram(here, every))
        own = block[np.arange(len(here)), here]
        block[np.abs(here[:, None] - every) < apart] = 0.0
        row_bounds[here] = own + best(block, times - 1, apart)
    square = float(best(row_bounds, times, apart))
    scale = (times * float(np.max(lengths))) ** 2
    return _above(square, (rows + steps) * scale, exact=False, proof="absolute Gram matrix, dynamic programming")


def best(values: Array, times: int, separation: int) -> Array:
    """The largest sum of at most `times` non-negative values, `separation` or more apart, along the last axis."""
    # recent[j % separation] holds, for each number of picks, the best sum within the first j values.
    recent = np.zeros((separation, times + 1, *values.shape[:-1]))
    last = recent[0].copy()
    for j in range(1, values.shape[-1] + 1):
        slot = recent[j % separation]
        last[1:] = np.maximum(last[1:], slot[:-1] + values[..., j - 1])
        slot[:] = last
    return np.asarray(last[times])


def _above(square: float, terms: float, *, exact: bool, proof: str) -> Sensitivity:
    """The root of a computed square whose error is at most MARGIN × terms, rounded up to nine digits."""
    if not math.isfinite(square) or square <= 0:
        raise InvalidArgument("strategy", square, "a matrix with finite columns, not all of them 0")
    value = math.sqrt(square + MARGIN * terms) * (1 + 2.0**-50)
    return Sensitivity(short_above(value, figures=9), exact, proof)
