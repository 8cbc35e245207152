"""Weighted means of transforms: against their parts, against a sum in 64 bits, and against the grid."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from deniable.accounting.accountant import curve, grid_curve
from deniable.accounting.contour.blend import MeanTransform
from deniable.accounting.contour.mixture import Mixture, Side
from deniable.accounting.fold import fold
from deniable.events import Gaussian
from tests.accounting.contour.test_cut import shifted

ABSENT = Side(0.0, 1.0, 0.0)


def pair(rate: float, shift: float) -> tuple[Mixture, Mixture]:
    side = Side(rate, 1 - rate, shift)
    return Mixture(side, ABSENT), Mixture(ABSENT, side)


def reference(parts: tuple[tuple[float, Mixture], ...], tilt: float, omega: float) -> tuple[float, complex]:
    """log M(λ) and M(λ + iω)/M(λ), the first to first order in M − 1, in 64 bits."""
    wide = np.longdouble
    y = np.linspace(wide(-30), wide(45), 1 << 16)
    total, minus, there = wide(0), wide(0), np.clongdouble(0)
    for weight, part in parts:
        upper, lower = (
            np.log1p(sum(w * np.expm1(a * (at - a / 2)) for w, a in shifted(side)) + 0 * at)
            for side, at in ((part.above, y), (part.below, -y))
        )
        loss, base = upper - lower, np.exp(upper - y * y / 2) * (y[1] - y[0]) / np.sqrt(2 * wide(np.pi))
        own = wide(weight) * base * np.exp(wide(tilt) * loss)
        total, minus = total + own.sum(), minus + wide(weight) * (base * np.expm1(wide(tilt) * loss)).sum()
        there += (own * np.exp(1j * wide(omega) * loss)).sum()
    return float(np.log1p(minus)), complex(there / total)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("full", [0.3, 1e-9])
@pytest.mark.parametrize("tilt", [0.5, 6.0])
def test_a_mean_is_within_its_errors(side: int, full: float, tilt: float) -> None:
    parts = ((1 - full, pair(0.01, 0.8)[side]), (full, pair(0.01, 1.6)[side]))
    line = MeanTransform(parts).tilted(tilt, reach=60.0, digits=36.0)
    for omega in (0.01, 3.0, 40.0):
        value, ratio = reference(parts, tilt, omega)
        assert abs(value - line.logarithm) <= line.error + 1e-17
        (logarithm,), (error,) = line.ratios(np.array([omega]))
        truth = ratio * np.exp(-1j * omega * line.mean)
        assert abs(np.exp(logarithm) - truth) <= error * abs(truth) + 1e-15
        assert error * abs(truth) < 1e-6
        assert math.log(abs(truth)) <= float(line.decay(np.array([omega]), math.inf)[0]) + 1e-13


def test_a_mean_of_equals_is_each_of_them() -> None:
    one = pair(0.02, 0.7)[0]
    line, alone = (each.tilted(3.0, reach=9.0, digits=36.0) for each in (MeanTransform(((0.6, one), (0.4, one))), one))
    assert line.logarithm == pytest.approx(alone.logarithm, rel=1e-12)
    assert line.mean == pytest.approx(alone.mean, rel=1e-12)
    omegas = np.arange(8) * 1.1
    assert np.allclose(line.ratios(omegas).logarithm, alone.ratios(omegas).logarithm, atol=1e-13)


@pytest.mark.parametrize(
    ("scale", "rate", "steps", "size", "capacity"),
    [(9.68, 0.0494, 2185, 1289, 65), (1.69, 0.0222, 165, 270, 7), (3.84, 0.000197, 840, 81_741, 34)],
)
def test_truncated_batches_have_a_narrow_bracket_inside_the_grids(
    scale: float, rate: float, steps: int, size: int, capacity: int
) -> None:
    step = Gaussian(Fraction(str(scale))).truncated(rate=rate, capacity=capacity, size=size)
    folded = fold(step * steps)
    narrow, wide = (engine(folded).epsilon_bracket(1e-6) for engine in (curve, grid_curve))
    assert wide.lower <= narrow.upper
    assert narrow.lower <= wide.upper
    assert narrow.width <= 1e-7 * narrow.upper
