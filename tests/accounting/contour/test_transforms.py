"""Every transform against sums and integrals of 30 digits: value and ratios within their own error bounds, and decay.

Four seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import flint
import mpmath
import numpy as np
import pytest

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.atoms import discrete_laplace, randomized_response
from deniable.accounting.contour.gaussian import Normal, discrete_gaussian
from deniable.accounting.contour.laplace import _RULE_ERROR, Laplacian, SampledLaplacian, Spread, _rule
from deniable.accounting.contour.mixture import Mixture, Side
from deniable.accounting.contour.transform import Transform

Exact = Callable[[mpmath.mpc], mpmath.mpc]
ABSENT = Side(0.0, 1.0, 0.0)


def normal(z: mpmath.mpc) -> mpmath.mpc:
    return mpmath.exp(mpmath.mpf("0.49") / 2 * z * (z + 1))


def laplace(epsilon: str) -> Exact:
    e = mpmath.mpf(epsilon)
    return lambda z: ((z + 1) * mpmath.exp(z * e) + z * mpmath.exp(-(z + 1) * e)) / (2 * z + 1)


def spread(epsilon: str) -> Exact:
    """∫ e^{zl} of the density e^{(ε+l)/2}/(2(e^ε − 1)) on [−ε, ε], by quadrature."""
    e = mpmath.mpf(epsilon)

    def value(z: mpmath.mpc) -> mpmath.mpc:
        pieces = mpmath.linspace(-e, e, 2 + int(abs(z) * e))
        return mpmath.quad(lambda l: mpmath.exp(z * l + (e + l) / 2), pieces) / (2 * mpmath.expm1(e))

    return value


def integrate(integrand: Callable[..., flint.acb], edges: list[float]) -> mpmath.mpc:
    """∫ by ball arithmetic, piece by piece; the enclosures are far narrower than anything tested."""
    goal = flint.arb(2) ** (20 - flint.ctx.prec)
    total = sum(
        (flint.acb.integral(integrand, a, b, rel_tol=goal, abs_tol=goal) for a, b in pairwise(edges)), flint.acb(0)
    )
    assert float(total.rad()) < 1e-25 * max(1.0, float(abs(total)))
    return mpmath.mpc(*(mpmath.mpf(part.mid().str(35, radius=False)) for part in (total.real, total.imag)))


def sampled_laplace(epsilon: str, rate: str, forward: bool) -> Exact:
    """∫ over the noise itself, split at the two kinks of the density ratio."""

    def value(z: mpmath.mpc) -> mpmath.mpc:
        flint.ctx.prec = 120
        e, q = flint.arb(epsilon), flint.arb(rate)
        power = flint.acb(float(z.real), float(z.imag)) + 1 if forward else -flint.acb(float(z.real), float(z.imag))

        def piece(low: int, high: int) -> Callable[..., flint.acb]:
            # on each piece |x| = low·x and |x − 1| = high·(x − 1)
            def integrand(x: flint.acb, analytic: bool) -> flint.acb:
                mixed = 1 - q + q * (e * (low * x - high * (x - 1))).exp()
                return e / 2 * (power * mixed.log(analytic=analytic) - e * low * x).exp()

            return integrand

        far = 70 / float(e)
        return (
            integrate(piece(-1, -1), [-far, 0]) + integrate(piece(1, -1), [0, 1]) + integrate(piece(1, 1), [1, 1 + far])
        )

    return value


def mixture(p: str, a: str, q: str, b: str) -> Exact:
    def value(z: mpmath.mpc) -> mpmath.mpc:
        flint.ctx.prec = 220
        ps, qs, up, low = (flint.arb(v) for v in (p, q, a, b))
        power = flint.acb(float(z.real), float(z.imag))

        def integrand(y: flint.acb, analytic: bool) -> flint.acb:
            above = (1 - ps + ps * (up * y - up**2 / 2).exp()).log(analytic=analytic)
            below = (1 - qs + qs * (-low * y - low**2 / 2).exp()).log(analytic=analytic)
            return ((1 + power) * above - power * below - y * y / 2).exp() / (2 * flint.arb.pi()).sqrt()

        return integrate(integrand, [-16, 0, 16 + (1 + float(z.real)) * float(up)])

    return value


def atoms(pairs: list[tuple[mpmath.mpf, mpmath.mpf]]) -> Exact:
    return lambda z: mpmath.fsum(mass * mpmath.exp(z * loss) for mass, loss in pairs)


def response(epsilon: str, k: int) -> Exact:
    e = mpmath.mpf(epsilon)
    whole = mpmath.exp(e) + k - 1
    return atoms([(mpmath.exp(e) / whole, e), (1 / whole, -e), ((k - 2) / whole, mpmath.mpf(0))])


def integer_noise(mass: Callable[[int], mpmath.mpf], shift: int, reach: int) -> Exact:
    total = mpmath.fsum(mass(x) for x in range(-reach, reach + 1))
    found = [(mass(x) / total, mpmath.log(mass(x) / mass(x - shift))) for x in range(-reach, reach + 1)]
    return atoms(found)


def cases() -> list[tuple[str, Transform, Exact]]:
    with mpmath.workdps(30):
        side, wide = Side(0.01, 0.99, 1.0), Side(0.9, 0.1, 2.5)
        return [
            ("normal", Normal(0.49), normal),
            ("laplace", Laplacian(0.1), laplace("0.1")),
            ("laplace, large", Laplacian(3.0), laplace("3")),
            ("spread", Spread(0.1), spread("0.1")),
            ("spread, large", Spread(3.0), spread("3")),
            ("sampled laplace, rare", SampledLaplacian(1.0, 0.001, 0.999, True), sampled_laplace("1", "0.001", True)),
            ("sampled laplace", SampledLaplacian(1.0, 0.1, 0.9, True), sampled_laplace("1", "0.1", True)),
            ("sampled laplace, reversed", SampledLaplacian(1.0, 0.1, 0.9, False), sampled_laplace("1", "0.1", False)),
            ("sampled laplace, large", SampledLaplacian(9.0, 0.7, 0.3, False), sampled_laplace("9", "0.7", False)),
            ("mixture", Mixture(side, ABSENT), mixture("0.01", "1", "0", "0")),
            ("mixture, reversed", Mixture(ABSENT, side), mixture("0", "0", "0.01", "1")),
            ("mixture, both", Mixture(side, side), mixture("0.01", "1", "0.01", "1")),
            ("mixture, small noise", Mixture(wide, ABSENT), mixture("0.9", "2.5", "0", "0")),
            ("mixture, small noise, reversed", Mixture(ABSENT, wide), mixture("0", "0", "0.9", "2.5")),
            ("response", randomized_response(Fraction(1, 2)), response("0.5", 2)),
            ("response of four", randomized_response(Fraction(1), 4), response("1", 4)),
            ("discrete laplace", discrete_laplace(Fraction(3), 4),
             integer_noise(lambda x: mpmath.exp(-mpmath.mpf(abs(x)) / 3), 4, 400)),
            ("discrete gaussian", discrete_gaussian(Fraction(3, 2), 2),
             integer_noise(lambda x: mpmath.exp(-mpmath.mpf(x) ** 2 / mpmath.mpf("4.5")), 2, 60)),
            ("discrete gaussian, smooth", discrete_gaussian(Fraction(4), 1),
             integer_noise(lambda x: mpmath.exp(-mpmath.mpf(x) ** 2 / 32), 1, 120)),
        ]  # fmt: skip


CASES = cases()
NAMES = [name for name, _, _ in CASES]


@pytest.mark.parametrize(("name", "transform", "exact"), CASES, ids=NAMES)
@pytest.mark.parametrize("tilt", [0.3, 4.0])
def test_value_and_ratios_are_within_their_bounds(name: str, transform: Transform, exact: Exact, tilt: float) -> None:
    line = transform.tilted(tilt, reach=7.0, digits=34.0)
    omegas = np.array([0.5, 1.25, 7.0])
    ratios, errors = line.ratios(omegas)
    with mpmath.workdps(30):
        whole = exact(mpmath.mpc(tilt))
        assert abs(mpmath.log(whole.real) - mpmath.mpf(line.logarithm)) <= line.error
        for omega, ratio, error in zip(omegas, ratios, errors, strict=True):
            z = mpmath.mpc(tilt, omega)
            true = exact(z) / whole * mpmath.exp(-1j * mpmath.mpf(omega) * mpmath.mpf(line.mean))
            found = mpmath.exp(mpmath.mpc(complex(ratio)))
            assert abs(found - true) <= abs(found) * mpmath.mpf(error) + mpmath.mpf(10) ** -24
    assert line.error < 1e-12, "the bound is of use"
    assert (np.exp(ratios.real) * errors).max() < 1e-6, "the bound is of use"


@pytest.mark.parametrize(("name", "transform", "exact"), CASES, ids=NAMES)
def test_the_decay_bounds_every_larger_frequency(name: str, transform: Transform, exact: Exact) -> None:
    tilt = 1.5
    line = transform.tilted(tilt, reach=40.0, digits=34.0)
    end = math.inf if transform.lattice is None else math.pi / float(transform.lattice.spacing)
    omegas = np.array([0.4, 3.0, 12.0])
    omegas = omegas[omegas < end]
    bounds = line.decay(omegas, end)
    assert (np.diff(bounds) <= 1e-12).all()
    many = np.linspace(0.4, min(40.0, end), 400)
    found, errors = line.ratios(many)
    sizes = np.exp(found.real) * np.maximum(1 - errors, 0.0)  # what the modulus is at least
    for omega, bound in zip(omegas, bounds, strict=True):
        assert sizes[many >= omega].max() <= math.exp(bound) * (1 + 1e-9)
    assert bounds[0] < 0 or "laplace" in name


def test_the_decay_claims_nothing_beyond_half_a_period() -> None:
    """A lattice law revives fully at the period; a bound for all frequencies must not fall."""
    for step in (randomized_response(Fraction(1)), discrete_gaussian(Fraction(4), 1), discrete_laplace(Fraction(2), 3)):
        line = step.tilted(1.0, reach=10.0, digits=30.0)
        assert line.decay(np.array([1.0]), math.inf)[0] == 0.0


@pytest.mark.parametrize(("name", "transform", "exact"), CASES, ids=NAMES)
def test_moments_estimate_value_slope_and_curvature(name: str, transform: Transform, exact: Exact) -> None:
    found = transform.moments(np.array([0.75]))
    step = mpmath.mpf(1) / 1024
    with mpmath.workdps(30):
        low, middle, high = (mpmath.log(exact(mpmath.mpc(mpmath.mpf("0.75") + k * step)).real) for k in (-1, 0, 1))
        slope, curvature = (high - low) / (2 * step), (high - 2 * middle + low) / step**2
    assert found.value[0] == pytest.approx(float(middle), rel=1e-5)
    assert found.slope[0] == pytest.approx(float(slope), rel=1e-4)
    assert found.curvature[0] == pytest.approx(float(curvature), rel=1e-4)


def test_the_gauss_legendre_rule_is_as_exact_as_claimed() -> None:
    nodes, weights = _rule()
    flint.ctx.prec = 150
    for k, (node, weight) in enumerate(zip(nodes, weights, strict=True)):
        root, true = flint.arb.legendre_p_root(64, k, weight=True)
        assert abs(root - flint.arb(float(node))) < _RULE_ERROR
        assert abs(true / flint.arb(float(weight)) - 1) < _RULE_ERROR


def test_small_steps_keep_their_relative_accuracy() -> None:
    """log M is 10^{-14} here; repeated 10^{12} times it must still be right to 10 digits."""
    line = Mixture(Side(1e-7, 1 - 1e-7, 1.0), ABSENT).tilted(1.0, reach=1.0, digits=60.0)
    with mpmath.workdps(50):
        q = mpmath.mpf(1e-7)
        second = q * q * (mpmath.e - 1)  # G(2) − 1 = q²(e^{a²} − 1)
        assert abs(line.logarithm / mpmath.log1p(second) - 1) < 1e-12
    assert line.error < 1e-12 * line.logarithm


def test_out_of_range_is_refused() -> None:
    with pytest.raises(NotCertified):
        Mixture(Side(0.5, 0.5, 1.0), ABSENT).tilted(1.0, reach=1e7, digits=30.0)
    with pytest.raises(NotCertified):
        discrete_laplace(Fraction(1), 10**6)
    with pytest.raises(NotCertified):
        Laplacian(1.0).tilted(1e4, reach=1.0, digits=30.0)
