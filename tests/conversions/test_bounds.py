"""The arrows that are upper bounds: against the exact curve, against each other, and the ones that do not exist."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable import conversions as c
from deniable.errors import InvalidArgument, NoConversion, UnitMismatch
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP, TradeOff
from deniable.units import Relation
from tests.reference.values import Case, cases


@pytest.mark.parametrize("case", cases(family="rdp_conversion"), ids=str)
def test_rdp_reference(case: Case) -> None:
    curve = RDP(case.part["alpha"] and Fraction(case.part["alpha"]), Fraction(case.part["rdp"]))
    convert = {"mironov": c.rdp_to_approx_classic, "cks": c.rdp_to_approx}[case.part["conversion"]]
    found = convert(curve, delta=case.delta).epsilon
    assert case.exact_value <= found <= case.exact_value * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("case", cases(family="zcdp_conversion"), ids=str)
def test_zcdp_reference(case: Case) -> None:
    convert = {"bun_steinke": c.zcdp_to_approx_classic, "cks_optimal": c.zcdp_to_approx}[case.part["conversion"]]
    found = convert(ZCDP(Fraction(case.part["rho"])), delta=case.delta).epsilon
    assert case.exact_value * (1 - Fraction(1, 10**15)) <= found <= case.exact_value * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("case", [*cases(family="gdp"), *cases(family="tradeoff")[:2]], ids=str)
def test_gdp_reference(case: Case) -> None:
    mu = GDP(Fraction(case.part["mu"]))
    if case.unknown == "beta":
        assert c.gdp_to_tradeoff(mu, alpha=case.alpha) == pytest.approx(case.value, rel=1e-12)
        return
    bracket = (
        c.gdp_to_profile(mu).delta_bracket(case.epsilon)
        if case.unknown == "delta"
        else c.gdp_to_profile(mu).epsilon_bracket(case.delta)
    )
    assert Fraction(bracket.lower) <= case.exact_value <= Fraction(bracket.upper)
    assert bracket.width < 1e-12 * bracket.upper


@pytest.mark.parametrize("beyond", [Fraction(1, 10**20), Fraction(1, 10**16), Fraction(3, 10**12), Fraction(1, 3)])
def test_orders_that_are_no_floats(beyond: Fraction) -> None:
    """A promise at an order holds at every lower one; at one that no float tells from 1 it says nothing here."""
    promise = RDP(1 + beyond, 5)
    profile = c.rdp_to_profile(promise)
    with mp.workdps(50):
        a = 1 + mp.mpf(beyond.numerator) / beyond.denominator
        for epsilon in (0, 1, 1000):
            exact = mp.exp((a - 1) * (5 - epsilon)) * (1 - 1 / a) ** a / (a - 1)
            assert min(exact, 1) <= profile.delta(epsilon) <= min(exact * (1 + mp.mpf("1e-3")), 1)
        least = 5 + mp.log(1 - 1 / a) - mp.log(a * mp.mpf("1e-5")) / (a - 1)
        if beyond < 1e-15:
            with pytest.raises(NoConversion, match="close to 1"):
                c.rdp_to_approx(promise, delta=1e-5)
        else:
            found = c.rdp_to_approx(promise, delta=1e-5).epsilon
            assert least <= mp.mpf(found.numerator) / found.denominator <= least * (1 + mp.mpf("1e-3"))


@pytest.mark.parametrize("rho", [1e-300, 1e-3, 1, 1e150, 1e300])
def test_a_curve_at_any_epsilon(rho: float) -> None:
    profile = c.zcdp_to_profile(ZCDP(rho))
    found = [profile.delta(epsilon) for epsilon in (0, 1e-300, 1, 1e5, 1e300)]
    assert all(0 < delta <= 1 for delta in found)
    assert found == sorted(found, reverse=True)


@settings(max_examples=50)
@given(st.floats(-4, 1), st.floats(-50, -0.5))
def test_concentrated_bounds_lie_above_the_gaussian(log_mu: float, log_delta: float) -> None:
    mu, delta = GDP(10**log_mu), 10**log_delta
    exact = c.gdp_to_approx(mu, delta=delta)
    best = c.zcdp_to_approx(c.gdp_to_zcdp(mu), delta=delta)
    classic = c.zcdp_to_approx_classic(c.gdp_to_zcdp(mu), delta=delta)
    assert exact <= best <= classic
    profile = c.zcdp_to_profile(c.gdp_to_zcdp(mu))
    assert profile.epsilon(delta) >= c.gdp_to_profile(mu).epsilon(delta)
    # The two functions of one bound agree: δ at the ε of a δ is that δ.
    if best.epsilon > 0:
        assert profile.delta(best.epsilon) == pytest.approx(delta, rel=1e-6)


def test_example_gaps() -> None:
    """The theory sheet's example: classic 5.757, best 5.222, exact 4.887 at ρ = 0.5, δ = 1e-6."""
    found = [
        c.zcdp_to_approx_classic(ZCDP(0.5), delta=1e-6).epsilon,
        c.zcdp_to_approx(ZCDP(0.5), delta=1e-6).epsilon,
        c.gdp_to_approx(GDP(1), delta=1e-6).epsilon,
    ]
    assert [round(float(e), 3) for e in found] == [5.757, 5.222, 4.887]


@given(st.floats(1.01, 100), st.floats(0.001, 10), st.floats(1e-12, 0.5))
def test_rdp_at_more_orders_never_costs_more(order: float, cost: float, delta: float) -> None:
    one = RDP(order, cost)
    two = RDP(2 * order, cost * 1.5)
    assert c.rdp_to_approx([one, two], delta=delta) <= c.rdp_to_approx(one, delta=delta)
    assert c.rdp_to_approx(one, delta=delta) <= c.rdp_to_approx_classic(one, delta=delta)
    profile = c.rdp_to_profile([one, two])
    assert profile.epsilon(delta) == pytest.approx(float(c.rdp_to_approx([one, two], delta=delta).epsilon), abs=1e-12)
    assert profile.delta(profile.epsilon(delta)) <= delta * (1 + 1e-9) or profile.epsilon(delta) == 0
    assert profile.delta(1000) < 1e-3 or order < 1.2
    assert profile.epsilon(0) == math.inf


def test_rdp_along_a_line_is_the_zcdp_bound() -> None:
    orders = [Fraction(i, 100) for i in range(101, 3000)]
    curve = [c.zcdp_to_rdp(ZCDP(0.5), order=a) for a in orders]
    best = c.zcdp_to_approx(ZCDP(0.5), delta=1e-6).epsilon
    found = c.rdp_to_approx(curve, delta=1e-6).epsilon
    assert best <= found <= best * Fraction(100001, 100000)
    assert c.linear_rdp_to_zcdp(0.5) == ZCDP(0.5)


def test_truncation_costs() -> None:
    full = c.zcdp_to_approx(ZCDP(0.1), delta=1e-6)
    wide = c.tcdp_to_approx(c.zcdp_to_tcdp(ZCDP(0.1), omega=1000), delta=1e-6)
    narrow = c.tcdp_to_approx(TCDP(0.1, 3), delta=1e-6)
    assert wide.epsilon == pytest.approx(full.epsilon, rel=1e-9)
    assert narrow.epsilon > 2 * full.epsilon
    assert narrow.epsilon == pytest.approx(c.rdp_to_approx(RDP(3, 0.3), delta=1e-6).epsilon, rel=1e-9)
    assert c.tcdp_to_profile(TCDP(0.1, 3)).epsilon(1e-6) == pytest.approx(narrow.epsilon)
    assert c.tcdp_to_rdp(TCDP(0.1, 3), order=2) == RDP(2, 0.2)


def test_rdp_to_tcdp_covers_every_order_between() -> None:
    """From D_α = αμ²/2 at orders 2, 4, 8: ρ must cover α just above 1, 2 and 4."""
    found = c.rdp_to_tcdp([c.gdp_to_rdp(GDP(1), order=a) for a in (2, 4, 8)])
    assert found == TCDP(1, 8)
    assert c.rdp_to_tcdp(RDP(2, 1)) == TCDP(1, 2)  # the orders between 1 and 2 have nothing but D_2
    for tenth in range(11, 80):
        alpha = Fraction(tenth, 10)
        assert c.gdp_to_rdp(GDP(1), order=alpha) <= c.tcdp_to_rdp(found, order=alpha)


@given(st.floats(1.01, 31.9))
def test_interpolation_never_tightens(order: float) -> None:
    known = [c.pure_to_rdp(PureDP(2), order=a) for a in (1.5, 2, 4, 32)]
    exact = c.pure_to_rdp(PureDP(2), order=order)
    between = c.interpolated_rdp(known, order=order)
    assert exact.epsilon <= between.epsilon * (1 + Fraction(1, 10**12))
    assert between.epsilon <= 2


def test_interpolating_the_divergence_itself_would_be_wrong() -> None:
    """D_α of randomized response bends downward, so its chord lies below it: only (α − 1)D_α may be interpolated."""
    low, middle, high = (c.pure_to_rdp(PureDP(2), order=a).epsilon for a in (1.5, 4, 32))
    chord = low + (high - low) * (4 - Fraction(3, 2)) / (32 - Fraction(3, 2))
    assert chord < middle


def test_approximate_zcdp_adds_its_own_failure() -> None:
    inner = c.zcdp_to_approx(ZCDP(0.1), delta=1e-6)
    outer = c.approx_zcdp_to_approx(ApproxZCDP(0.1, 1e-5), delta=1e-5 + (1 - 1e-5) * 1e-6)
    assert outer.epsilon == pytest.approx(inner.epsilon, rel=1e-9)
    with pytest.raises(NoConversion, match="larger delta"):
        c.approx_zcdp_to_approx(ApproxZCDP(0.1, 1e-5), delta=1e-5)
    found = c.approx_to_approx_zcdp(ApproxDP(1, 1e-6))
    assert found == ApproxZCDP(c.pure_to_zcdp(PureDP(1)).rho, 1e-6)


def test_a_claim_without_delta_is_pure() -> None:
    claim = ApproxDP(1, 0, relation=Relation.REPLACE, unit="patient_id")
    assert c.approx_to_pure(claim) == PureDP(1, relation=Relation.REPLACE, unit="patient_id")
    assert c.approx_to_gdp(claim) == c.pure_to_gdp(c.approx_to_pure(claim))
    assert c.approx_to_zcdp(claim) == c.pure_to_zcdp(c.approx_to_pure(claim))
    assert c.approx_to_rdp(claim, order=3) == c.pure_to_rdp(c.approx_to_pure(claim), order=3)
    assert c.approx_to_tcdp(claim, omega=3) == c.pure_to_tcdp(c.approx_to_pure(claim), omega=3)


def test_every_arrow_keeps_unit_and_relation() -> None:
    who = {"relation": Relation.REPLACE, "unit": "patient_id"}
    found: list[Guarantee] = [
        c.pure_to_approx(PureDP(1, **who)), c.pure_to_fdp(PureDP(1, **who)), c.pure_to_gdp(PureDP(1, **who)),
        c.pure_to_rdp(PureDP(1, **who), order=2), c.pure_to_zcdp(PureDP(1, **who)),
        c.pure_to_tcdp(PureDP(1, **who), omega=2), c.pure_to_zcdp_classic(PureDP(1, **who)),
        c.approx_to_fdp(ApproxDP(1, 0.1, **who)), c.approx_to_approx_zcdp(ApproxDP(1, 0.1, **who)),
        c.gdp_to_approx(GDP(1, **who), delta=0.1), c.gdp_to_zcdp(GDP(1, **who)), c.gdp_to_fdp(GDP(1, **who)),
        c.gdp_to_rdp(GDP(1, **who), order=2), c.gdp_to_tcdp(GDP(1, **who), omega=2),
        c.zcdp_to_approx(ZCDP(1, **who), delta=0.1), c.zcdp_to_rdp(ZCDP(1, **who), order=2),
        c.zcdp_to_tcdp(ZCDP(1, **who), omega=2), c.zcdp_to_fdp(ZCDP(1, **who)),
        c.rdp_to_approx(RDP(2, 1, **who), delta=0.1), c.rdp_to_tcdp(RDP(2, 1, **who)), c.rdp_to_fdp(RDP(2, 1, **who)),
        c.tcdp_to_approx(TCDP(1, 2, **who), delta=0.1), c.tcdp_to_rdp(TCDP(1, 3, **who), order=2),
        c.approx_zcdp_to_approx(ApproxZCDP(1, 0.01, **who), delta=0.1),
        c.fdp_to_approx(FDP(TradeOff.of_lines([(2, 0)]), **who), delta=0),
        c.fdp_to_gdp(FDP(TradeOff.of_lines([(2, 0)]), **who)), c.for_group(GDP(1, **who), 3),
        c.profile_to_approx(c.gdp_to_profile(GDP(1, **who)), delta=0.1),
        c.profile_to_fdp(c.gdp_to_profile(GDP(1, **who))),
        c.post_processed(GDP(1, **who)),
    ]  # fmt: skip
    assert all(g.relation is Relation.REPLACE and g.unit.noun == "patient" for g in found)


MISSING: dict[str, tuple[Callable[[], object], str]] = {
    "approx → pure": (lambda: c.approx_to_pure(ApproxDP(1, 1e-6)), "delta=1e-06 implies no PureDP"),
    "approx → GDP": (lambda: c.approx_to_gdp(ApproxDP(1, 1e-6)), "no GDP"),
    "approx → zCDP": (lambda: c.approx_to_zcdp(ApproxDP(1, 1e-6)), "no ZCDP"),
    "approx → tCDP": (lambda: c.approx_to_tcdp(ApproxDP(1, 1e-6), omega=2), "no TCDP"),
    "approx → RDP": (lambda: c.approx_to_rdp(ApproxDP(1, 1e-6), order=2), "no RDP"),
    "zCDP → pure": (lambda: c.zcdp_to_pure(ZCDP(1)), "unbounded"),
    "zCDP → GDP": (lambda: c.zcdp_to_gdp(ZCDP(1)), "no finite μ"),
    "tCDP → zCDP": (lambda: c.tcdp_to_zcdp(TCDP(1, 2)), "omega"),
    "tCDP beyond ω": (lambda: c.tcdp_to_rdp(TCDP(1, 2), order=2), "below omega"),
    "RDP → pure": (lambda: c.rdp_to_pure(RDP(2, 1)), "order ∞"),
    "RDP → zCDP": (lambda: c.rdp_to_zcdp(RDP(2, 1)), "beyond order 2"),
    "RDP → GDP": (lambda: c.rdp_to_gdp(RDP(2, 1)), "no finite μ"),
    "RDP beyond its orders": (lambda: c.interpolated_rdp([RDP(2, 1)], order=3), "beyond the last"),
    "GDP → pure": (lambda: c.gdp_to_pure(GDP(1)), "unbounded"),
    "f with f(0) < 1 → pure": (lambda: c.fdp_to_pure(FDP(TradeOff.of_lines([(2, 0.1)]))), "Ask for 0.1 or more"),
    "f with f(0) < 1 → GDP": (lambda: c.fdp_to_gdp(FDP(TradeOff.of_lines([(2, 0.1)]))), "infinite"),
    "profile at δ = 0": (lambda: c.profile_to_approx(c.gdp_to_profile(GDP(1)), delta=0), "reaches no ε"),
    "every μ": (lambda: c.gaussian_claim_to_gdp(ApproxDP(1, 1)), "every μ"),
    "replace → add/remove": (lambda: c.replace_to_add_remove(PureDP(1, relation=Relation.REPLACE)), "number of units"),
}


@pytest.mark.parametrize(("convert", "why"), MISSING.values(), ids=MISSING.keys())
def test_arrows_that_do_not_exist_say_why(convert: Callable[[], object], why: str) -> None:
    with pytest.raises(NoConversion) as caught:
        convert()
    assert why in str(caught.value)


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "delta 0": (lambda: c.zcdp_to_approx(ZCDP(1), delta=0), "delta must be strictly between 0 and 1; got delta=0"),
    "delta 1": (lambda: c.rdp_to_approx(RDP(2, 1), delta=1), "delta"),
    "delta nan": (lambda: c.gdp_to_approx(GDP(1), delta=math.nan), "delta"),
    "both given": (lambda: c.gdp_to_approx(GDP(1), delta=0.1, epsilon=1), "epsilon instead"),
    "neither given": (lambda: c.gdp_to_approx(GDP(1)), "epsilon instead"),
    "epsilon below 0": (lambda: c.gdp_to_approx(GDP(1), epsilon=-1), "epsilon"),
    "order 1": (lambda: c.pure_to_rdp(PureDP(1), order=1), "order must be a Rényi order above 1"),
    "alpha above 1": (lambda: c.gdp_to_tradeoff(GDP(1), alpha=1.5), "alpha"),
    "no orders": (lambda: c.rdp_to_approx([], delta=0.1), "curve must be one RDP guarantee or more"),
    "group of 0": (lambda: c.for_group(PureDP(1), 0), "size"),
}


@pytest.mark.parametrize(("convert", "said"), BAD.values(), ids=BAD.keys())
def test_bad_input_names_the_argument(convert: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        convert()
    assert said in str(caught.value)


def test_mixed_relations_do_not_make_a_curve() -> None:
    with pytest.raises(UnitMismatch):
        c.rdp_to_approx([RDP(2, 1), RDP(3, 1, relation=Relation.REPLACE)], delta=0.1)
