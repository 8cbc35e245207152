"""The assumptions about floating point, and the functions that lean on them, against 40 digits. One second."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from deniable.numerics.arrays import (
    CALL,
    EXCESS,
    complex_excess,
    excess,
    log_of_one_plus,
    weighted_excess,
)

GENERATOR = np.random.default_rng(20260101)
SIZES = np.concatenate([10.0 ** GENERATOR.uniform(-12, 2.5, 400), GENERATOR.uniform(0.4, 1.2, 200)])
ARGUMENTS = SIZES * GENERATOR.choice([-1.0, 1.0], len(SIZES))


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "sin", "cos"])
def test_elementary_functions_are_within_four_units(name: str) -> None:
    x = np.abs(ARGUMENTS) if name.startswith("log") else ARGUMENTS
    found = getattr(np, name)(x)
    with mpmath.workdps(40):
        exact = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]
        worst = max(abs((mpmath.mpf(float(f)) - e) / e) for f, e in zip(found, exact, strict=True))
    assert worst < CALL


def test_excess_keeps_its_promise() -> None:
    found = excess(ARGUMENTS)
    with mpmath.workdps(60):
        exact = [mpmath.expm1(mpmath.mpf(float(t))) - mpmath.mpf(float(t)) for t in ARGUMENTS]
        worst = max(abs((mpmath.mpf(float(f)) - e) / e) for f, e in zip(found, exact, strict=True))
    assert worst < EXCESS
    assert (found >= 0).all()


def test_complex_excess_keeps_its_promise() -> None:
    t = (ARGUMENTS[:300] * np.exp(1j * GENERATOR.uniform(0, 2 * np.pi, 300))).astype(np.complex128)
    found, error = complex_excess(t)
    with mpmath.workdps(60):
        for value, bound, at in zip(found, error, t, strict=True):
            w = mpmath.mpc(at)
            assert abs(mpmath.mpc(value) - (mpmath.exp(w) - 1 - w)) <= bound


def test_weighted_excess_does_not_overflow() -> None:
    found = weighted_excess(np.array([-1000.0, -3.0]), np.array([1010.0, 0.25]))
    assert found[0] == pytest.approx(np.exp(10.0), rel=1e-12)
    assert found[1] == pytest.approx(np.exp(-3.0) * (np.expm1(0.25) - 0.25), rel=1e-14)


def test_the_logarithm_of_nearly_one_loses_nothing() -> None:
    found = log_of_one_plus(np.array([-1e-20, -0.5]), np.array([1e-15, 0.25]))
    assert found[0].real == pytest.approx(-1e-20, rel=1e-9)
    assert found[1] == pytest.approx(np.log(0.5 + 0.25j), rel=1e-14)


def test_a_modulus_of_nothing_stays_finite() -> None:
    assert np.isfinite(log_of_one_plus(np.array([-1.0]), np.array([0.0]))).all()
