"""How far each filter may be filled: every limit gives its share of δ and no more."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.accounting.filters import Filters, filters_for
from deniable.conversions import formulas
from deniable.errors import NotSupported
from deniable.guarantees import GDP, RDP, TCDP, ZCDP, ApproxDP, Guarantee, PureDP
from tests.accounting.filters.exact import ORDERS, real


@given(
    st.fractions(min_value=Fraction(1, 100), max_value=30),
    st.sampled_from([Fraction(1, 10**k) for k in (1, 3, 6, 12)]),
    st.sampled_from(ORDERS),
)
def test_renyi_limits_give_their_share(epsilon: Fraction, delta: Fraction, order: Fraction) -> None:
    limit = formulas.renyi_limit(epsilon, delta, order)
    a, e = real(order), real(epsilon)
    true = mpmath.exp((a - 1) * (real(limit) - e)) * (1 - 1 / a) ** a / (a - 1)
    assert true <= real(delta) <= true * (1 + mpmath.mpf(10) ** -20)


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 2), Fraction(3), Fraction(30)])
@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 10**6), Fraction(1, 10**15)])
def test_rho_limits_give_their_share_and_little_is_lost(epsilon: Fraction, delta: Fraction) -> None:
    rho, e, d = real(formulas.rho_limit(epsilon, delta)), real(epsilon), real(delta)

    def delta_at(a: mpmath.mpf, r: mpmath.mpf) -> mpmath.mpf:
        return mpmath.exp((a - 1) * (a * r - e)) * (1 - 1 / a) ** a / (a - 1)

    with mpmath.workdps(30):
        grid = [1 + mpmath.mpf(10) ** (mpmath.mpf(k) / 200) for k in range(-600, 1200)]
        best = min(grid, key=lambda a: delta_at(a, rho))
        near = [1 + (best - 1) * (1 + mpmath.mpf(k) / 10_000) for k in range(-130, 131)]
        assert min(delta_at(a, rho) for a in near) <= d * (1 + mpmath.mpf("1e-4"))
        assert min(delta_at(a, rho * mpmath.mpf("1.0001")) for a in grid) > d
    # The classic conversion never allows more.
    classic = (mpmath.sqrt(-mpmath.log(d) + e) - mpmath.sqrt(-mpmath.log(d))) ** 2
    assert rho >= classic * mpmath.mpf("0.999")


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.05, 1e-9), (8, 1e-3), (3, 0.4)])
def test_gaussian_limits_give_their_share(epsilon: float, delta: float) -> None:
    e, d = Fraction(str(epsilon)), Fraction(str(delta))
    limit = formulas.gaussian_limit(e, d)
    mu = mpmath.sqrt(real(limit))

    def curve(m: mpmath.mpf) -> mpmath.mpf:
        near, far = real(e) / m - m / 2, real(e) / m + m / 2
        return (mpmath.erfc(near / mpmath.sqrt(2)) - mpmath.exp(real(e)) * mpmath.erfc(far / mpmath.sqrt(2))) / 2

    assert curve(mu) <= real(d) < curve(mu * (1 + mpmath.mpf(10) ** -9))


@settings(max_examples=25)
@given(
    st.fractions(min_value=Fraction(1, 1000), max_value=50), st.sampled_from([Fraction(1, 10**k) for k in (1, 6, 15)])
)
def test_shares_and_caps_never_exceed_delta(epsilon: Fraction, delta: Fraction) -> None:
    filters = filters_for(ApproxDP(epsilon, delta))
    assert filters.delta <= delta
    assert filters.alone is not None
    assert filters.alone.delta == delta
    assert all(s.limit > 0 for family in filters.families for s in family.sums)
    for family in filters.families:
        for s in family.sums:
            if s.kind == "epsilon":
                assert s.limit == epsilon
                assert s.share == 0
            if s.kind == "renyi":
                assert s.order is not None
                assert s.limit == formulas.renyi_limit(epsilon, s.share, s.order)
    assert Filters.from_plain(filters.to_plain()) == filters


def test_no_budget_kind_is_widened() -> None:
    for budget in (PureDP(1), ZCDP(1), GDP(1), RDP(8, 1), TCDP(1, 9), ApproxDP(1, 0), ApproxDP(0, 0.5), ApproxDP(1, 1)):
        (family,) = filters_for(budget).families
        numbers = budget.numbers
        assert family.cap == numbers.get("delta", 0)
        assert [s.limit for s in family.sums] == [numbers.get("epsilon", numbers.get("rho", numbers.get("mu")))]
    with pytest.raises(NotSupported, match="Guarantee"):
        filters_for(Guarantee())
