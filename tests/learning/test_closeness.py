"""The lemma: being within e^{±c} of a μ-GDP law costs 6c·e^{μ²/8} of μ. Checked where c is visible, with mpmath."""

from __future__ import annotations

import mpmath
import pytest

from deniable.errors import InvalidArgument
from deniable.learning.privacy import enlarge_mu


def curve(mu: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    u = epsilon / mu - mu / 2
    return mpmath.ncdf(-u) - mpmath.exp(epsilon) * mpmath.ncdf(-u - mu)


@pytest.mark.parametrize("mu", [0.01, 0.2, 0.5, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("part", [1.0, 0.1, 1e-4])
def test_the_enlarged_curve_is_above(mu: float, part: float) -> None:
    """e^c δ_μ(ε − 2c) ≤ δ_μ′(ε) from ε = 0 into the far tail."""
    c = part * min(mu / 20, mu * mu / 40)
    try:
        larger = enlarge_mu(mu, c)
    except InvalidArgument:
        assert 6 * c * mpmath.exp(mu**2 / 8) > mu / 4  # refused because it would cost too much
        return
    with mpmath.workdps(60):
        close, first, second = mpmath.mpf(c), mpmath.mpf(mu), mpmath.mpf(larger)
        for k in range(120):
            epsilon = first * (mpmath.mpf(k) / 4) ** 2 / 8
            found = mpmath.exp(close) * curve(first, epsilon - 2 * close)
            assert found <= curve(second, epsilon)


def test_it_is_no_larger_than_needed() -> None:
    """At ε = 0 the needed increase is already a sixth of what is taken."""
    with mpmath.workdps(30):
        mu, c = mpmath.mpf(1), mpmath.mpf("1e-4")
        less = mu + (mpmath.mpf(enlarge_mu(1.0, 1e-4)) - mu) / 6
        assert mpmath.exp(c) * curve(mu, -2 * c) > curve(less, mpmath.mpf(0))


def test_what_the_proof_does_not_cover_is_refused() -> None:
    assert enlarge_mu(0.5, 0.0) == pytest.approx(0.5, rel=1e-12)
    for mu, closeness in ((0.5, 0.02), (0.01, 1e-5), (60.0, 0.0), (0.0, 0.0), (20.0, 0.5), (1.0, -1e-9)):
        with pytest.raises(InvalidArgument):
            enlarge_mu(mu, closeness)
