"""Basic, advanced and heterogeneous composition against the exact optimum, which they may never undercut."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable import textbook
from deniable.conversions import approx_to_fdp, fdp_to_approx, fdp_to_profile, gdp_to_fdp, gdp_to_profile, pure_to_fdp
from deniable.errors import DeniableError, InvalidArgument, UnitMismatch
from deniable.guarantees import FDP, GDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, PureDP, TradeOff
from deniable.textbook import (
    advanced_exponential,
    advanced_half,
    advanced_square,
    advanced_tanh,
    compose_advanced,
    compose_approx_zcdp,
    compose_basic,
    compose_fdp,
    compose_gdp,
    compose_gdp_repeated,
    compose_optimal,
    compose_tcdp,
    compose_zcdp,
    exponential_mechanism_zcdp,
    gaussian_zcdp,
    per_query_budget,
    repeat_advanced,
    repeat_basic,
    repeat_optimal,
    scale_per_query,
)
from deniable.textbook.composition import failure, product
from deniable.units import Relation
from tests.reference.values import Case, cases

FORMS = [advanced_tanh, advanced_half, advanced_square, advanced_exponential]


@pytest.mark.parametrize("case", cases(family="advanced_composition"), ids=str)
def test_reference(case: Case) -> None:
    found = advanced_tanh(PureDP(Fraction(case.part["epsilon0"])), count=case.part["count"], slack=case.delta)
    assert case.exact_value <= found.epsilon <= case.exact_value * (1 + Fraction(1, 10**12))
    assert found.delta == case.delta


def test_basic_sums_are_exact() -> None:
    assert compose_basic([PureDP(0.1)] * 3) == PureDP(0.3)
    assert compose_basic([PureDP(0.1), ApproxDP(0.2, 1e-6)]) == ApproxDP(0.3, 1e-6)
    assert repeat_basic(ApproxDP(0.1, 1e-6), count=10**12) == ApproxDP(1e11, 1)
    assert repeat_basic(PureDP(0.1), count=10) == PureDP(1)


@settings(max_examples=30)
@given(st.floats(0.001, 5), st.integers(1, 400), st.floats(-12, -0.5))
def test_the_forms_are_ordered_and_never_beat_the_optimum(epsilon: float, count: int, log_slack: float) -> None:
    step, slack = PureDP(epsilon), 10**log_slack
    found = [
        form(step, count=count, slack=slack).epsilon for form in FORMS if epsilon < 1 or form is not advanced_square
    ]
    assert found == sorted(found)
    exact = repeat_optimal(step, count=count).epsilon_bracket(slack).lower
    assert float(found[0]) >= exact
    best = repeat_advanced(step, count=count, slack=slack)
    assert best.epsilon == min(found[0], step.epsilon * count)
    # The leading term by itself, √k growth: the drift is what the four forms disagree about.
    assert found[0] >= epsilon * math.sqrt(2 * count * -math.log(slack))


@given(st.floats(0, 1e-3), st.integers(1, 10**6), st.floats(1e-9, 0.5))
def test_failures_combine(delta: float, count: int, slack: float) -> None:
    exact = -math.expm1(count * math.log1p(-delta) + math.log1p(-slack))
    found = failure([(Fraction(str(delta)), count), (Fraction(str(slack)), 1)])
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-12) + 1e-300
    assert found <= count * Fraction(str(delta)) + Fraction(str(slack))
    assert failure([(Fraction(1), 1)]) == 1


@settings(max_examples=40)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.floats(-8, -0.5))
def test_uneven_steps(tenths: list[int], log_slack: float) -> None:
    parts = [PureDP(Fraction(t, 20)) for t in tenths]
    slack = 10**log_slack
    found = compose_advanced(parts, slack=slack)
    exact = compose_optimal(parts).epsilon_bracket(slack)
    assert float(found.epsilon) >= exact.lower
    assert found.epsilon <= sum(part.epsilon for part in parts)
    if len(set(tenths)) == 1:
        same = repeat_advanced(parts[0], count=len(parts), slack=slack).epsilon
        assert found.epsilon <= same * (1 + Fraction(1, 10**12))
        even = repeat_optimal(parts[0], count=len(parts)).epsilon_bracket(slack)
        assert exact.lower <= even.upper + 1e-12
        assert even.lower <= exact.upper + 1e-12


def test_the_theory_sheets_uneven_example() -> None:
    parts = [PureDP(e) for e in (0.1, 0.3, 0.05, 0.2, 0.4, 0.1)] * 2
    bracket = compose_optimal(parts).epsilon_bracket(1e-3)
    assert bracket.lower <= bracket.upper
    assert bracket.upper == pytest.approx(1.97195, abs=5e-6)
    assert compose_basic(parts).epsilon == Fraction(23, 10)
    spread = math.fsum(float(p.epsilon) ** 2 for p in parts)
    drift = math.fsum(float(p.epsilon) * math.tanh(float(p.epsilon) / 2) for p in parts)
    by_formula = drift + math.sqrt(2 * spread * math.log(math.e + math.sqrt(spread) * 1e3))
    assert by_formula == pytest.approx(3.1984, abs=5e-5)
    assert compose_advanced(parts, slack=1e-3).epsilon == Fraction(23, 10)  # the sum is smaller here
    many = [PureDP(Fraction(p.epsilon, 10)) for p in parts * 40]
    drift = math.fsum(float(p.epsilon) * math.tanh(float(p.epsilon) / 2) for p in many)
    spread = math.fsum(float(p.epsilon) ** 2 for p in many)
    expected = drift + math.sqrt(2 * spread * min(math.log(1e3), math.log(math.e + math.sqrt(spread) * 1e3)))
    assert float(compose_advanced(many, slack=1e-3).epsilon) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("count", "epsilon", "delta"), [(100, 1, 1e-6), (1, 1, 1e-6), (10**12, 0.1, 1e-300), (7, 800, 0.5)]
)
def test_the_split_budget_fits(count: int, epsilon: float, delta: float) -> None:
    target = ApproxDP(epsilon, delta)
    each = per_query_budget(target, count=count)
    total = repeat_advanced(each, count=count, slack=delta)
    plain = repeat_basic(each, count=count)
    best = min(advanced_half(each, count=count, slack=delta).epsilon, plain.epsilon)
    assert best <= target.epsilon * (1 + Fraction(1, 10**12))
    assert best >= target.epsilon * (1 - Fraction(1, 10**9))
    assert total.epsilon <= best


def test_the_split_of_the_theory_sheet() -> None:
    assert float(per_query_budget(ApproxDP(1, 1e-6), count=100).epsilon) == pytest.approx(0.0186916584438746, rel=1e-12)


def test_concentrated_sums() -> None:
    assert compose_zcdp([ZCDP(0.1)] * 3) == ZCDP(0.3)
    assert compose_tcdp([TCDP(0.1, 8), TCDP(0.2, 4)]) == TCDP(0.3, 4)
    found = compose_approx_zcdp([ApproxZCDP(0.1, 1e-3), ApproxZCDP(0.2, 2e-3)])
    assert found.rho == Fraction(3, 10)
    assert float(found.delta) == pytest.approx(1 - 0.999 * 0.998, rel=1e-12)
    assert gaussian_zcdp(scale=2, sensitivity=3) == ZCDP(Fraction(9, 8))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), min_size=2, max_size=6), st.floats(0.05, 4))
def test_a_loss_of_range_epsilon_is_an_eighth(shape: list[tuple[float, float]], epsilon: float) -> None:
    """Any pair whose log ratio has range ε obeys D_α ≤ αε²/8: the exponential mechanism's bound."""
    losses = [epsilon * place for place, _ in shape]
    weights = [w for _, w in shape]
    total = sum(weights)
    p = [w / total for w in weights]
    shift = math.log(sum(a * math.exp(-loss) for a, loss in zip(p, losses, strict=True)))
    q = [a * math.exp(-loss - shift) for a, loss in zip(p, losses, strict=True)]
    rho = float(exponential_mechanism_zcdp(epsilon=epsilon).rho)
    for order in (1.01, 2, 8, 40):
        moment = sum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True))
        assert math.log(moment) / (order - 1) <= order * rho + 1e-12


def test_gaussian_sums() -> None:
    assert compose_gdp([GDP(3), GDP(4)]) == GDP(5)
    assert compose_gdp_repeated(GDP(0.1), count=10**12) == GDP(10**5)
    root_two = compose_gdp_repeated(GDP(1), count=2).mu
    assert root_two**2 >= 2
    assert float(root_two) == pytest.approx(math.sqrt(2), rel=1e-15)
    sigma = scale_per_query(GDP(1), count=100, sensitivity=2)
    assert sigma == 20
    tiny = scale_per_query(GDP(1e-9), count=3)
    assert compose_gdp_repeated(GDP(1 / tiny), count=3).mu <= Fraction(1, 10**9) * (1 + Fraction(1, 10**14))


def test_products_of_trade_off_functions_are_compositions() -> None:
    step = ApproxDP(0.3, 0.01)
    f = approx_to_fdp(step)
    found = fdp_to_profile(compose_fdp([f] * 6))
    exact = repeat_optimal(step, count=6)
    for epsilon in (0.0, 0.3, 0.9, 1.5):
        assert found.delta(epsilon) == pytest.approx(exact.delta(epsilon), rel=1e-9)
    assert product(TradeOff.perfect(), f.tradeoff) == f.tradeoff


def test_long_products_are_lowered_to_a_bound() -> None:
    steps = [pure_to_fdp(PureDP(e)) for e in (0.31, 0.17, 0.23, 0.29, 0.11, 0.13, 0.19, 0.07)]
    parts = [PureDP(e) for e in (0.31, 0.17, 0.23, 0.29, 0.11, 0.13, 0.19, 0.07)]
    exact = compose_optimal(parts).epsilon_bracket(1e-3)
    low = fdp_to_approx(compose_fdp(steps, lines=40), delta=1e-3)
    high = fdp_to_approx(compose_fdp(steps, lines=300), delta=1e-3)
    assert low.epsilon >= high.epsilon >= exact.lower
    assert float(high.epsilon) == pytest.approx(exact.upper, rel=0.05)


def test_gaussian_products() -> None:
    fine = gdp_to_fdp(GDP(0.5), epsilons=[i / 8 for i in range(24)])
    found = fdp_to_profile(compose_fdp([fine, fine], lines=2000)).delta(1)
    exact = gdp_to_profile(compose_gdp([GDP(0.5), GDP(0.5)])).delta(1)
    assert exact <= found <= exact * 1.05


REPLACE = Relation.REPLACE
BAD: dict[str, tuple[Callable[[], object], type[DeniableError], str]] = {
    "no parts": (lambda: compose_basic([]), InvalidArgument, "parts"),
    "a number": (lambda: compose_basic([1]), InvalidArgument, "guarantee"),  # type: ignore[list-item]
    "mixed relations": (lambda: compose_basic([PureDP(1), PureDP(1, relation=REPLACE)]), UnitMismatch, "compose"),
    "mixed units": (lambda: compose_zcdp([ZCDP(1, unit="a"), ZCDP(1, unit="b")]), UnitMismatch, "compose"),
    "slack 0": (lambda: advanced_tanh(PureDP(1), count=2, slack=0), InvalidArgument, "slack must be strictly between"),
    "slack 1": (lambda: advanced_tanh(PureDP(1), count=2, slack=1), InvalidArgument, "slack"),
    "count 0": (lambda: advanced_tanh(PureDP(1), count=0, slack=0.1), InvalidArgument, "count must be a whole number"),
    "count 1.5": (lambda: repeat_optimal(PureDP(1), count=1.5), InvalidArgument, "count"),  # type: ignore[arg-type]
    "count -1": (lambda: repeat_basic(PureDP(1), count=-1), InvalidArgument, "count"),
    "ε ≥ 1 in the small form": (lambda: advanced_square(PureDP(1), count=2, slack=0.1), InvalidArgument, "below 1"),
    "ε = 800 in e^ε − 1": (
        lambda: advanced_exponential(PureDP(800), count=2, slack=0.1), InvalidArgument, "advanced_tanh",
    ),
    "split without δ": (lambda: per_query_budget(ApproxDP(1, 0), count=2), InvalidArgument, "delta"),
    "no noise is enough": (lambda: scale_per_query(GDP(0), count=2), InvalidArgument, "mu"),
    "too fine a grid": (lambda: compose_optimal([PureDP(1)], points=2**40), InvalidArgument, "points"),
    "mixed relations, tests": (
        lambda: compose_fdp([FDP(TradeOff.perfect()), FDP(TradeOff.perfect(), relation=REPLACE)]), UnitMismatch,
        "compose",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("compose", "kind", "said"), BAD.values(), ids=BAD.keys())
def test_bad_input(compose: Callable[[], object], kind: type[DeniableError], said: str) -> None:
    with pytest.raises(kind) as caught:
        compose()
    assert said in str(caught.value)


def test_the_room_is_found_under_its_earlier_name() -> None:
    earlier = importlib.import_module("deniable.accounting.theorems")
    assert all(getattr(earlier, name) is getattr(textbook, name) for name in textbook.__all__)
    assert importlib.import_module("deniable.accounting.loss").losses is textbook.losses
