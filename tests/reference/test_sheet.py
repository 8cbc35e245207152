"""The numeric test vectors of the theory sheet that belong to the calculus, and what the reference file promises."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest

from deniable.conversions import (
    for_group,
    gaussian_claim_to_gdp,
    gdp_to_approx,
    laplace_to_gdp,
    pure_to_gdp,
    zcdp_to_approx,
    zcdp_to_approx_classic,
)
from deniable.events import Laplace
from deniable.guarantees import GDP, ZCDP, ApproxDP, PureDP, TradeOff
from deniable.numerics.normal import delta_bracket
from deniable.textbook import (
    compose_optimal,
    laplace_rdp,
    optimal_corner,
    per_query_budget,
    pure_rdp,
    repeat_optimal,
    sampled_gaussian_rdp,
    sampling_operator,
    shuffle_responses,
)
from deniable.units import Relation
from tests.reference.values import ALL, cases


def laplace_delta(epsilon: float) -> float:
    from deniable.accounting.accountant import account

    return account(Laplace(1, Fraction(3, 2))).delta(epsilon)


def operator_delta(base: float) -> float:
    lines = [(math.exp(base + i / 50), delta_bracket(1.0, base + i / 50).upper) for i in range(-20, 21)]
    return sampling_operator(TradeOff.of_lines(lines), Fraction(1, 5)).delta(math.log1p(0.2 * math.expm1(base)))


UNEVEN = [PureDP(e) for e in (0.1, 0.3, 0.05, 0.2, 0.4, 0.1)] * 2

VECTORS: dict[str, tuple[Callable[[], object], float]] = {
    "GDP μ=1, ε=1": (lambda: delta_bracket(1, 1).upper, 0.12693673750664392),
    "GDP μ=0.3, ε=0.2": (lambda: delta_bracket(0.3, 0.2).upper, 0.0497914233806348),
    "GDP μ=1, ε=0": (lambda: delta_bracket(1, 0).upper, 0.3829249225480262),
    "Laplace ε₀=1.5, δ(0)": (lambda: laplace_delta(0), 0.5276334472589853),
    "Laplace ε₀=1.5, δ(0.5)": (lambda: laplace_delta(0.5), 0.3934693402873666),
    "Laplace ε₀=1.5, δ(1.2)": (lambda: laplace_delta(1.2), 0.1392920235749422),
    "Laplace ε₀=1.5, RDP at 3": (lambda: laplace_rdp(3, epsilon=1.5), 1.2447715155929266),
    "RR ε=1, RDP at 2": (lambda: pure_rdp(2, epsilon=1), 0.7353256640555194),
    "RR ε=0.5, RDP at 5": (lambda: pure_rdp(5, epsilon=0.5), 0.3842426901671219),
    "RR ε=3, RDP at 1.5": (lambda: pure_rdp(1.5, epsilon=3), 2.907776667127978),
    "KOV k=10, ε=0.2, i=3": (lambda: optimal_corner(PureDP(0.2), count=10, index=3).delta, 0.03826339453672056),
    "RR¹⁰, ε=1, δ=1e-5": (lambda: repeat_optimal(PureDP(1), count=10).epsilon(1e-5), 9.99977),
    "zCDP ρ=0.1, classic": (lambda: zcdp_to_approx_classic(ZCDP(0.1), delta=1e-5).epsilon, 2.24597),
    "zCDP ρ=0.1, best": (lambda: zcdp_to_approx(ZCDP(0.1), delta=1e-5).epsilon, 1.91424),
    "zCDP ρ=0.1, exact Gaussian": (
        lambda: gdp_to_approx(GDP(math.sqrt(0.2)), delta=1e-5).epsilon, 1.76006,
    ),
    "pure ε=1 → μ": (lambda: pure_to_gdp(PureDP(1)).mu, 1.232035),
    "Laplace ε=1 → μ": (lambda: laplace_to_gdp(scale=1).mu, 1.030064),
    "claimed (0.21, 1e-5) → μ": (lambda: gaussian_claim_to_gdp(ApproxDP(0.21, 1e-5)).mu, 0.06414),
    "Poisson q=.1, μ=1, base ε=1.2": (lambda: 0.1 * delta_bracket(1, 1.2).upper, 0.0094001105),
    "Poisson RDP at 2": (lambda: sampled_gaussian_rdp(2, rate=0.1, noise_multiplier=1.2), 0.00997603559),
    "Poisson RDP at 3": (lambda: sampled_gaussian_rdp(3, rate=0.1, noise_multiplier=1.2), 0.0167663666),
    "Poisson RDP at 8": (lambda: sampled_gaussian_rdp(8, rate=0.1, noise_multiplier=1.2), 0.281802648),
    "C_0.2(G_1) at 0.5": (lambda: operator_delta(0.5), 0.0476843416),
    "C_0.2(G_1) at 1": (lambda: operator_delta(1), 0.0253873475),
    "C_0.2(G_1) at 2": (lambda: operator_delta(2), 0.0041847272),
    "group of 4": (lambda: for_group(ApproxDP(0.5, 1e-6), 4).delta, 9.8487e-06),
    "split k=100": (lambda: per_query_budget(ApproxDP(1, 1e-6), count=100).epsilon, 0.0186916584438746),
    "uneven, exact": (lambda: compose_optimal(UNEVEN).epsilon(1e-3), 1.97195),
    "shuffle ε₀=1, n=1000": (
        lambda: shuffle_responses(PureDP(1, relation=Relation.REPLACE), size=1000, delta=1e-5).epsilon, 0.1250401,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("compute", "expected"), VECTORS.values(), ids=VECTORS.keys())
def test_the_vectors(compute: Callable[[], object], expected: float) -> None:
    """To one unit of the last digit printed."""
    last = Decimal(repr(expected)).as_tuple().exponent
    unit = 10.0 ** int(last)
    assert float(compute()) == pytest.approx(expected, abs=max(unit, 1e-12 * expected))  # type: ignore[arg-type]


def test_the_reference_file_is_whole() -> None:
    assert len(ALL) == 104
    assert len({case.id for case in ALL}) == 104
    assert {case.unknown for case in ALL} == {"epsilon", "delta", "beta", "rdp"}
    for case in ALL:
        known = {"epsilon": case.delta, "delta": case.epsilon, "beta": case.alpha, "rdp": case.alpha}[case.unknown]
        assert known is not None
        assert case.exact_value >= 0
        assert 0 < case.relative_error < 1e-10


def test_cases_about_events_make_events() -> None:
    found = cases(has_event=True)
    assert len(found) > 70
    for case in found:
        assert case.event.relation.value == case.relation or case.relation == "any"
    with pytest.raises(AssertionError, match="no reference case"):
        cases(family="nothing")
