"""Poisson samples of discrete noise: transforms against forty digits, brackets against the grid."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from deniable.accounting.accountant import grid_curve
from deniable.accounting.contour import contour_curve
from deniable.accounting.fold import fold
from deniable.accounting.rules import rule_of
from deniable.events import DiscreteGaussian, DiscreteLaplace, Sampled

F = Fraction
OMEGAS = np.array([0.0, 7.0, 50.0])


def transform(noise: DiscreteGaussian | DiscreteLaplace, rate: Fraction, z: mp.mpc, forward: bool) -> mp.mpc:
    """M(z) by its sum."""
    scale, q, shift = (
        mp.mpf(noise.scale.numerator) / noise.scale.denominator,
        mp.mpf(rate.numerator) / rate.denominator,
        int(noise.sensitivity),
    )
    power, reach = (2, 2 * scale * scale) if isinstance(noise, DiscreteGaussian) else (1, scale)
    outputs = range(-int(45 * scale) - 60, int(45 * scale) + 60)

    def mass(k: int) -> mp.mpf:
        return mp.exp(-(abs(mp.mpf(k)) ** power) / reach)

    total, whole = mp.mpf(0), mp.fsum(mass(k) for k in outputs)
    for k in outputs:
        absent = mass(k) / whole
        density = 1 - q + q * mass(k - shift) / mass(k)
        total += absent * (density ** (1 + z) if forward else density ** (-z))
    return total


@pytest.mark.parametrize(("rate", "tilt"), [(F(1, 10**6), 12.0), (F(3, 5), 0.3)])
@pytest.mark.parametrize("noise", [DiscreteGaussian(F(1, 2)), DiscreteGaussian(3, 2), DiscreteLaplace(F(3, 2), 4)])
def test_transforms(noise: DiscreteGaussian | DiscreteLaplace, rate: Fraction, tilt: float) -> None:
    ((step, _),) = fold(Sampled(noise, rate) * 2).steps
    for side, forward in zip(rule_of(step).transforms(step) or (), (True, False), strict=True):
        line = side.tilted(tilt, reach=50.0, digits=29.0)
        with mp.workdps(30):
            whole = transform(noise, rate, mp.mpc(tilt), forward)
            assert abs(mp.log(whole.real) - line.logarithm) <= line.error + 1e-20
            logarithms, errors = line.ratios(OMEGAS)
            for omega, logarithm, error in zip(OMEGAS, logarithms, errors, strict=True):
                turned = mp.exp(-1j * omega * mp.mpf(line.mean)) / whole
                true = transform(noise, rate, mp.mpc(tilt, omega), forward) * turned
                assert abs(true - mp.exp(mp.mpc(logarithm))) <= error * abs(true) * (1 + 1e-6) + 1e-20


@pytest.mark.parametrize("delta", [1e-4, 1e-7])
def test_brackets_meet_those_of_the_grid(delta: float) -> None:
    event = DiscreteGaussian(4).sampled(rate=0.1) * 30 + DiscreteLaplace(6, 2).sampled(rate=0.3) * 5
    event = event + DiscreteGaussian(9, 3).sampled(rate=0.05) * 100
    folded = fold(event)
    found = contour_curve(folded)
    assert found is not None
    narrow, wide = found.smoothed.epsilon_bracket(delta), grid_curve(folded).epsilon_bracket(delta)
    assert narrow.lower <= wide.upper
    assert wide.lower <= narrow.upper
    assert narrow.upper - narrow.lower <= 2e-6 * narrow.upper
