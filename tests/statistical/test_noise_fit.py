"""Goodness of fit of the integer noises, from scale 1e-3 to 1e12 and down to the tails. 8 seconds.

False alarms: every test counts events whose probability is known to far better than the spread of the count, takes the
exact binomial tail of each count, and compares the smallest with 1e-6 divided by their number. By the union bound each
test alarms wrongly with probability at most 1e-6. The sources are secure: nothing here is seeded, a new run is a new
sample.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import erfc, exp, expm1, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from deniable.noise import discrete_gaussian, discrete_laplace, secure
from deniable.noise.discrete import DiscreteGaussianSampler, DiscreteLaplaceSampler

N = 1_000_000
ALARM = 1e-6
SCALES = [0.1, 0.5, 1, 2.5, 10, 100, 1e3, 1e4, 1e6, 1e9, 1e12]


def laplace_tail(m: int, scale: float) -> float:
    """Pr[X >= m] for m >= 1."""
    return exp(-m / scale) / (1 + exp(-1 / scale))


def gaussian_tail(m: int, scale: float) -> float:
    """Pr[X >= m] for m >= 1. From scale 100 on by the midpoint rule: off by less than one part in scale**2 here."""
    if scale >= 100:
        return erfc((m - 0.5) / scale / sqrt(2)) / 2
    reach = int(40 * scale) + 40
    weights = [exp(-(x**2) / (2 * scale**2)) for x in range(-reach, reach + 1)]
    return sum(weights[reach + m :]) / sum(weights)


LAWS: dict[str, tuple[Callable[[float, int], NDArray[np.int64]], Callable[[int, float], float]]] = {
    "laplace": (discrete_laplace, laplace_tail),
    "gaussian": (discrete_gaussian, gaussian_tail),
}


def smallest(counts: list[int], chances: list[float], n: int) -> float:
    """The smallest exact two-sided binomial p-value, times how many there are."""
    values = []
    for count, p in zip(counts, chances, strict=True):
        tails = min(stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p))
        values.append(min(1.0, 2 * tails))
    return min(values) * len(values)


def marks(tail: Callable[[int, float], float], scale: float) -> list[int]:
    """Whole numbers whose upper tails are about 1/4, 1/8, ... down to 2**-17, about 8 draws of a million."""
    found = []
    for level in range(2, 18):
        low, high = 1, int(60 * scale) + 60
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if tail(middle, scale) <= 2.0**-level else (middle + 1, high)
        if tail(low, scale) > 0:
            found.append(low)
    return sorted(set(found))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", LAWS)
def test_cells_from_the_centre_to_the_tails(name: str, scale: float) -> None:
    draw, tail = LAWS[name]
    found = draw(scale, N)
    edges = marks(tail, scale)
    counts, chances = [], []
    for inner, outer in zip(edges, [*edges[1:], None], strict=True):
        chance = tail(inner, scale) - (tail(outer, scale) if outer is not None else 0)
        beyond = (found >= outer, found <= -outer) if outer is not None else (False, False)
        counts += [int(((found >= inner) & ~np.asarray(beyond[0])).sum())]
        counts += [int(((found <= -inner) & ~np.asarray(beyond[1])).sum())]
        chances += [chance, chance]
    counts.append(int((np.abs(found) < edges[0]).sum()))
    chances.append(1 - 2 * tail(edges[0], scale))
    assert sum(counts) == N
    assert smallest(counts, chances, N) > ALARM


@pytest.mark.parametrize("scale", [0.1, 0.5, 1, 2.5, 10])
@pytest.mark.parametrize("name", LAWS)
def test_single_values_at_small_scales(name: str, scale: float) -> None:
    draw, tail = LAWS[name]
    found = draw(scale, N)
    values = [x for x in range(1, int(20 * scale) + 2) if N * (tail(x, scale) - tail(x + 1, scale)) > 1e-3]
    chances = [1 - 2 * tail(1, scale)] + [tail(x, scale) - tail(x + 1, scale) for x in values for _ in (0, 1)]
    counts = [int((found == 0).sum())] + [int((found == s * x).sum()) for x in values for s in (1, -1)]
    assert smallest(counts, chances, N) > ALARM


@pytest.mark.parametrize("scale", [1e6, 1e9, 1e12])
@pytest.mark.parametrize("name", LAWS)
def test_binary_digits_at_large_scales(name: str, scale: float) -> None:
    """Pairs of digits up to a thousandth of the scale are uniform to 1e-6, a hundredth of their spread here."""
    found = LAWS[name][0](scale, N)
    counts: list[int] = []
    j = 0
    while 4 << j <= scale / 1000:
        counts += np.bincount(found >> j & 3, minlength=4).tolist()
        j += 1
    assert j >= 8
    assert smallest(counts, [0.25] * len(counts), N) > ALARM


@pytest.mark.parametrize("scale", [1, 10, 1000])
def test_laplace_residues(scale: float) -> None:
    """X modulo 8 has a law in closed form, which ties the digit tables to the signs."""
    a = exp(-1 / scale)
    centre = -expm1(-1 / scale) / (1 + a) / -expm1(-8 / scale)
    chances = [centre * (1 + a**8)] + [centre * (a**r + a ** (8 - r)) for r in range(1, 8)]
    assert sum(chances) == pytest.approx(1, abs=1e-12)
    counts = np.bincount(discrete_laplace(scale, N) & 7, minlength=8).tolist()
    assert smallest(counts, chances, N) > ALARM


@pytest.mark.parametrize("scale", [1, 1000, 1e12])
@pytest.mark.parametrize("name", LAWS)
def test_neighbouring_draws_are_independent(name: str, scale: float) -> None:
    """Disjoint pairs at several distances: both negative with the square of the probability of one."""
    draw, tail = LAWS[name]
    found = draw(scale, N) < 0
    p = tail(1, scale)
    counts = []
    for gap in (1, 2, 64, 1 << 14):
        rows = N // (2 * gap)
        pairs = found[: rows * 2 * gap].reshape(rows, 2, gap)
        counts.append((int((pairs[:, 0] & pairs[:, 1]).sum()), rows * gap))
    values = [smallest([count], [p * p], n) for count, n in counts]
    assert min(values) * len(values) > ALARM


@pytest.mark.parametrize("name", LAWS)
def test_a_scale_of_a_thousandth_returns_zero(name: str) -> None:
    """Pr[X != 0] is 2 exp(-1000) or less: a false alarm in a million draws has probability below 1e-400."""
    assert not LAWS[name][0](1e-3, N).any()


@pytest.mark.parametrize("scale", [0.5, 3, 40, 5000])
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("single", [False, True])
def test_short_words_force_refinement_and_change_nothing(name: str, scale: float, single: bool) -> None:
    """8-bit words: most draws at the larger scales go through the slow path, and the law is the same."""
    exact, n = Fraction(str(scale)), 6000
    sampler: DiscreteLaplaceSampler | DiscreteGaussianSampler
    if name == "laplace":
        sampler = DiscreteLaplaceSampler(exact, word_bits=8)
    else:
        sampler = DiscreteGaussianSampler(exact**2, word_bits=8, rungs=16)
    source = secure()
    found = np.array([sampler.draw_one(source) for _ in range(n)]) if single else sampler.draw(n, source)
    tail = LAWS[name][1]
    edges = [m for m in marks(tail, scale) if tail(m, scale) > 1e-3]
    counts = [int((found >= m).sum()) for m in edges] + [int((found <= -m).sum()) for m in edges]
    counts.append(int((found & 1).sum()))
    odd = _odd(name, scale)
    assert smallest(counts, [tail(m, scale) for m in edges] * 2 + [odd], n) > ALARM


def _odd(name: str, scale: float) -> float:
    reach = int(40 * scale) + 40
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(x) / scale) if name == "laplace" else np.exp(-(x**2) / (2 * scale**2))
    return float(weights[x % 2 == 1].sum() / weights.sum())
