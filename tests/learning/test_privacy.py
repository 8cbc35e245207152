"""The noise: what it costs, and that integers cost no more than the Gaussian they imitate."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from deniable.errors import InvalidArgument
from deniable.events import Gaussian
from deniable.guarantees import ApproxDP, PureDP
from deniable.learning import privacy
from deniable.noise import InsecureSource
from deniable.noise.discrete import LEAK, SPREAD
from deniable.units import ADD_REMOVE, REPLACE


def gaussian_delta(mu: mpmath.mpf, epsilon: float) -> mpmath.mpf:
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("steps", [1, 37, 1000])
def test_multiplier_meets_its_target_tightly(epsilon: float, steps: int) -> None:
    with mpmath.workdps(40):
        ratio = privacy.multiplier(ApproxDP(epsilon, 1e-6), steps=steps)
        mu = mpmath.sqrt(steps) / (mpmath.mpf(ratio.numerator) / ratio.denominator)
        assert gaussian_delta(mu, epsilon) <= mpmath.mpf("1e-6")
        assert gaussian_delta(mu * (1 + mpmath.mpf("1e-6")), epsilon) > mpmath.mpf("1e-6")


def test_leak_covers_poisson_summation() -> None:
    """2η₀ = 4 Σ exp(−2π²r²j²) at r² = SPREAD."""
    with mpmath.workdps(50):
        eta = 2 * mpmath.nsum(lambda j: mpmath.exp(-2 * mpmath.pi**2 * SPREAD * j**2), [1, 5])
        leak = mpmath.mpf(LEAK.numerator) / LEAK.denominator
        assert 2.1 * eta <= leak <= 5 * eta


def test_discrete_gaussian_is_a_rounded_gaussian_but_for_the_leak() -> None:
    """The claim behind the event, by quadrature: P ≥ (1 − 2η₀)·P̃ at every integer, for a spread where η₀ is visible."""
    spread, tau = 0.09, 1.3
    eta = 2 * sum(math.exp(-2 * math.pi**2 * spread * j**2) for j in range(1, 9))
    variance = tau**2 + spread
    integers = np.arange(-40, 41)
    law = np.exp(-(integers**2) / (2 * variance))
    law /= law.sum()
    y = np.linspace(-12, 12, 48_001)
    weights = np.exp(-((integers[:, None] - y) ** 2) / (2 * spread))
    density = np.exp(-(y**2) / (2 * tau**2)) / (tau * math.sqrt(2 * math.pi))
    rounded = (weights / weights.sum(axis=0) * density).sum(axis=1) * (y[1] - y[0])
    near = np.abs(integers) <= 5
    ratios = law[near] / rounded[near]
    assert rounded.sum() == pytest.approx(1, abs=1e-10)
    assert ratios.min() >= 1 - 2 * eta
    assert ratios.min() < 0.95  # at this spread the leak is real


def test_events_state_relation_and_leak() -> None:
    one = privacy.gaussian_event(Fraction(3), steps=5, draws=10, relation=ADD_REMOVE)
    assert one == Gaussian(3) * 5  # no leak: the margin of the noise pays
    two = privacy.gaussian_event(Fraction(3), steps=5, draws=10, relation=REPLACE, rate=Fraction(1, 10))
    assert two == Gaussian(3, 2, REPLACE, reach=1).sampled(rate=0.1) * 5 + privacy.leak(10, REPLACE)


def test_the_margin_and_the_spread_are_in_the_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are far too small to be seen in draws, and the proof rests on them."""
    asked = []

    def none(*, variance: Fraction, size: tuple[int, ...], source: object) -> np.ndarray:
        asked.append(variance)
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(privacy.noise, "discrete_gaussian", none)
    privacy.add_gaussian(np.zeros(3, dtype=np.int64), bound=7, ratio=Fraction(5, 2))
    assert asked == [(Fraction(35, 2) * (1 + Fraction(1, 10**11))) ** 2 + 36]


def test_noise_has_the_stated_scale() -> None:
    """n = 20000 draws; the sample variance is within 6.5 of its standard deviations: false alarms below 1e-10."""
    n, bound, ratio = 20_000, 1000, Fraction(5, 2)
    drawn = privacy.add_gaussian(np.zeros(n, dtype=np.int64), bound=bound, ratio=ratio)
    expected = float((ratio * privacy.MARGIN * bound) ** 2 + SPREAD)
    assert abs(drawn.var() / expected - 1) < 6.5 * math.sqrt(2 / n)


def test_largest_rho_solves_its_equation() -> None:
    with mpmath.workdps(30):
        for epsilon, delta in ((0.01, 1e-9), (1.0, 1e-6), (8.0, 1e-3)):
            rho = mpmath.mpf(privacy.largest_rho(ApproxDP(epsilon, delta)))
            reached = rho + 2 * mpmath.sqrt(rho * mpmath.log(1 / mpmath.mpf(str(delta))))
            assert reached <= mpmath.mpf(str(epsilon))
            assert reached == pytest.approx(epsilon, rel=1e-9)


def test_gaussian_noise_needs_a_delta() -> None:
    with pytest.raises(InvalidArgument, match="delta"):
        privacy.multiplier(PureDP(1))
    with pytest.raises(InvalidArgument, match="delta"):
        privacy.largest_rho(PureDP(1))


def test_targets_are_checked() -> None:
    assert privacy.make_target(0.1, 0, ADD_REMOVE) == PureDP(0.1)
    assert privacy.make_target(0.1, 1e-6, REPLACE) == ApproxDP(0.1, 1e-6, relation=REPLACE)
    for epsilon, delta in ((0, 0), (-1, 0), (float("nan"), 0), (1, 1), (1, -0.1), ("x", 0)):
        with pytest.raises(InvalidArgument):
            privacy.make_target(epsilon, delta, ADD_REMOVE)


def test_rounding_up_rounds_up() -> None:
    for value in (0.1, 1 / 3, 7.0, 123456.789, 9.99999999999):
        found = privacy.round_up(value)
        assert Fraction(value) <= found <= Fraction(value) * (1 + Fraction(1, 10**8))


def test_a_noisy_count_is_at_least_one() -> None:
    counts = [privacy.noisy_count(0, epsilon=Fraction(1, 100), source=InsecureSource(seed)) for seed in range(20)]
    assert min(counts) == 1 < max(counts)
