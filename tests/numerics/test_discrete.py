"""Discrete laws against mpmath and against their definition: masses, tails, radii, sums. About two seconds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from deniable.numerics import discrete
from deniable.numerics.discrete import laplace_radius, laplace_sum_radius, log_masses


def laplace_tail(scale: Fraction, m: int) -> Any:
    """Pr[X ≥ m], m ≥ 1, by summing the geometric series in 40 digits."""
    r = mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)
    return r**m / (1 + r)


def gaussian_tail(scale: float, m: int) -> Any:
    reach = math.ceil(scale * 40) + m + 50
    masses = [mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(scale) ** 2)) for x in range(reach)]
    return mpmath.fsum(masses[m:]) / (2 * mpmath.fsum(masses) - 1)


@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(1, 2), Fraction(2), Fraction(1000, 7), Fraction(10**12)])
@pytest.mark.parametrize("tail", [0.5, 0.05, 1e-6, 1e-30])
def test_laplace_radius_is_the_smallest(scale: Fraction, tail: float) -> None:
    m = discrete.laplace_radius(scale, tail)
    assert 2 * laplace_tail(scale, m + 1) <= tail
    assert m == 0 or 2 * laplace_tail(scale, m) > tail


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(60)])
@pytest.mark.parametrize("tail", [0.5, 0.05, 1e-6])
def test_gaussian_radius_is_the_smallest(scale: Fraction, tail: float) -> None:
    m = discrete.gaussian_radius(scale, tail)
    assert 2 * gaussian_tail(float(scale), m + 1) <= tail
    assert m == 0 or 2 * gaussian_tail(float(scale), m) > tail


def test_gaussian_radius_of_a_large_scale_is_one_more_than_the_normal_one_at_most() -> None:
    for tail in (0.3, 1e-3, 1e-12):
        m = discrete.gaussian_radius(Fraction(10**6), tail)
        assert 0 <= m - norm.isf(tail / 2) * 1e6 <= 2
    summed, bounded = discrete.gaussian_radius(Fraction(2048), 1e-3), norm.isf(5e-4) * 2048
    assert abs(summed - bounded) <= 1


def beyond(scale: Fraction, t: int) -> mpmath.mpf:
    """Pr[|X| > t], by adding up the law: 1 − sum over |x| ≤ t of p(x)."""
    with mpmath.workdps(60):
        q = mpmath.exp(-1 / mpmath.mpf(scale.numerator) * scale.denominator)
        inside = sum(q ** abs(x) for x in range(-t, t + 1))
        return 1 - inside * (1 - q) / (1 + q)


@pytest.mark.parametrize(
    "scale", [Fraction(1, 1000), Fraction(1, 10), Fraction(1, 2), 1, Fraction(10, 3), 8, Fraction(1000, 7)]
)
@pytest.mark.parametrize("failure", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6), Fraction(99, 100)])
def test_the_margin_is_the_smallest(scale: Fraction, failure: Fraction) -> None:
    scale = Fraction(scale)
    found = laplace_radius(scale, failure)
    assert beyond(scale, found) <= mpmath.mpf(failure.numerator) / failure.denominator
    if found > 0:
        assert beyond(scale, found - 1) > mpmath.mpf(failure.numerator) / failure.denominator


def test_a_huge_scale() -> None:
    # For a large scale the tail is e^(−t/s): t = s ln 20 at 5 %.
    assert laplace_radius(Fraction(10**40), Fraction(1, 20)) == pytest.approx(2.995732273553991e40, rel=1e-9)


@pytest.mark.parametrize("failure", [Fraction(1, 4), Fraction(1, 40), Fraction(1, 10**4)])
@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(1), Fraction(9, 2), Fraction(40)])
@pytest.mark.parametrize("many", [1, 2, 7])
def test_the_margin_of_a_sum(scale: Fraction, many: int, failure: Fraction) -> None:
    """Against the law itself, convolved on the integers: never too small, and hardly larger than it need be."""
    reach = int(60 * float(scale)) + 60
    places = np.arange(-reach, reach + 1)
    law = np.exp(-np.abs(places) / float(scale))
    law /= law.sum()
    whole = law
    for _ in range(many - 1):
        whole = np.convolve(whole, law)
    centre = len(whole) // 2
    for weight in (1.0, 0.3):
        found = laplace_sum_radius(scale, ((weight, many),), failure)
        beyond = whole[centre + int(np.floor(found / weight + 1e-9)) + 1 :].sum()
        assert beyond <= float(failure)
        least = int(np.argmax(np.cumsum(whole[::-1])[::-1] - whole <= float(failure))) - centre
        assert found <= weight * (least + 1 + many * (float(scale) + 1) / 32)


def test_a_margin_of_two_weights() -> None:
    """Opposite signs and different weights: the law is symmetric, so signs do not matter. Of 200,000 sums, the share
    beyond the margin is 2.5 % at most, but for 5.4 deviations."""
    random = np.random.default_rng()
    r = 1 - np.exp(-1 / 30)
    draws = [random.geometric(r, (200_000, n)) - random.geometric(r, (200_000, n)) for n in (3, 9)]
    sums = 0.9 * draws[0].sum(axis=1) - 0.1 * draws[1].sum(axis=1)
    far = laplace_sum_radius(Fraction(30), ((0.9, 3), (0.1, 9)), Fraction(1, 40))
    share = (sums > far).mean()
    assert 0.02 < share < 0.025 + 5.4 * np.sqrt(0.025 * 0.975 / 200_000)
    assert laplace_sum_radius(Fraction(30), ((0.0, 3), (0.5, 0)), Fraction(1, 40)) == 0
    assert laplace_sum_radius(Fraction(30), ((1.0, 1),), Fraction(1, 40)) >= laplace_radius(
        Fraction(30), Fraction(1, 20)
    )


@pytest.mark.parametrize(("n", "q"), [(1, 0.5), (10, 0.1), (1000, 0.3), (10**9, 1e-6), (10**12, 0.5)])
def test_binomial_masses(n: int, q: float) -> None:
    places = sorted({0, 1, n // 3, int(n * q), min(n, int(n * q + 9 * math.sqrt(n * q)) + 1), n})
    found = log_masses(n, q, places)
    for j, log in zip(places, found, strict=True):
        truth = mpmath.loggamma(n + 1) - mpmath.loggamma(j + 1) - mpmath.loggamma(n - j + 1)
        truth += j * mpmath.log(mpmath.mpf(q)) + (n - j) * mpmath.log(1 - mpmath.mpf(q))
        assert abs(mpmath.mpf(float(log)) - truth) <= mpmath.mpf("1e-12") * (1 + abs(truth))


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 400.0])
def test_cumulative_probabilities_are_sums_of_the_law(scale: float) -> None:
    far = math.ceil(45 * scale) + 5
    places = np.arange(-far, far + 1)
    for law, found in (
        (np.exp(-np.abs(places) / scale), discrete.laplace_cumulative(places.astype(float), 1 / scale)),
        (np.exp(-((places / scale) ** 2) / 2), discrete.gaussian_cumulative(places.astype(float), scale)),
    ):
        np.testing.assert_allclose(found, np.cumsum(law) / law.sum(), rtol=0, atol=1e-13)


def test_a_large_discrete_gaussian_is_a_normal_law_half_a_step_on() -> None:
    places = np.arange(-60_000.0, 60_001.0, 5_000.0)
    summed = np.cumsum(np.exp(-((np.arange(-900_000, 900_001) / 20_001) ** 2) / 2))
    true = summed[(places + 900_000).astype(int)] / summed[-1]
    np.testing.assert_allclose(discrete.gaussian_cumulative(places, 20_001.0), true, rtol=0, atol=3e-11)
