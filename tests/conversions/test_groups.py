"""Groups, relations, parts and post-processing, against brute force over finite mechanisms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction as F

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable import conversions as c
from deniable.conversions.group import chain
from deniable.errors import InvalidArgument, NoConversion, UnitMismatch
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP, TradeOff
from deniable.guarantees.tradeoff import lower_hull
from deniable.textbook import amplification
from deniable.units import RECORD, Relation

KINDS: tuple[Guarantee, ...] = (
    PureDP(0.5),
    ApproxDP(0.5, 1e-6),
    ZCDP(0.5),
    ApproxZCDP(0.5, 0),
    TCDP(0.5, 16),
    RDP(16, 0.5),
    GDP(0.5),
    FDP(TradeOff.of_lines([(2, 0.01)])),
)
rows = st.lists(st.integers(1, 9), min_size=3, max_size=3)


def normal(values: list[int]) -> list[F]:
    return [F(v, sum(values)) for v in values]


def tests_between(p: list[F], q: list[F]) -> TradeOff:
    """T(P, Q) by brute force."""
    corners = []
    for chosen in itertools.product((0, 1), repeat=len(p)):
        corners.append((sum((a for a, x in zip(p, chosen, strict=True) if x), F(0)),
                        1 - sum((b for b, x in zip(q, chosen, strict=True) if x), F(0))))  # fmt: skip
    return TradeOff(lower_hull(corners))


tests_between.__test__ = False  # type: ignore[attr-defined]


def hockey(p: list[F], q: list[F], odds: F) -> F:
    return sum((max(F(0), a - odds * b) for a, b in zip(p, q, strict=True)), F(0))


def renyi(p: list[F], q: list[F], order: float) -> float:
    return math.log(sum(float(a) ** order * float(b) ** (1 - order) for a, b in zip(p, q, strict=True))) / (order - 1)


@pytest.mark.parametrize("one", KINDS, ids=lambda g: type(g).__name__)
def test_a_group_of_one_is_itself(one: Guarantee) -> None:
    assert c.for_group(one, 1) is one


@pytest.mark.parametrize("one", KINDS, ids=lambda g: type(g).__name__)
def test_larger_groups_cost_more(one: Guarantee) -> None:
    two, three = c.for_group(one, 2), c.for_group(one, 3)
    if not isinstance(one, RDP | TCDP):  # these also lower the order
        alone = [replace(each, unit=RECORD) for each in (one, two, three)]
        assert alone[0] < alone[1] < alone[2]
    assert type(two) is type(one)
    assert two.relation is one.relation


@pytest.mark.parametrize("one", KINDS, ids=lambda g: type(g).__name__)
def test_a_group_is_what_is_promised(one: Guarantee) -> None:
    """Printed, named, and never taken for a promise about a larger group."""
    three = c.for_group(one, 3)
    assert str(three).endswith("a group of 3 records added or removed")
    assert three.about("person_id").neighbours == "a group of 3 people added or removed"
    assert c.for_group(three, 2).unit.members == 6 if not isinstance(one, RDP | TCDP) else True
    assert three <= replace(three, unit=RECORD), "a group covers each of its units"
    with pytest.raises(UnitMismatch, match="for_group"):
        _ = replace(three, unit=RECORD) <= three
    assert "members=3" in repr(three)


def test_two_steps_to_replace_are_about_one_unit() -> None:
    assert c.add_remove_to_replace(PureDP(1)).neighbours == "one record replaced by another"
    assert c.zero_out_to_replace(PureDP(1, relation=Relation.ZERO_OUT)).unit.members == 1


def test_rules_for_single_units_refuse_groups() -> None:
    """A group's units may lie in different parts, samples and reports: max and q would be too small."""
    three, replaced = c.for_group(PureDP(1), 3), c.for_group(PureDP(1, relation=Relation.REPLACE), 3)
    refused: list[Callable[[], object]] = [
        lambda: c.parallel([three, three]),
        lambda: amplification.sample_poisson(three, rate=0.1),
        lambda: amplification.sample_batch(replaced, batch=1, size=10),
        lambda: amplification.shuffle(replaced, size=100, delta=1e-6),
    ]
    for ask in refused:
        with pytest.raises(UnitMismatch, match="first, then use for_group"):
            ask()


@settings(max_examples=60)
@given(rows, rows, rows)
def test_two_steps_of_a_path(first: list[int], second: list[int], third: list[int]) -> None:
    """Three laws P, R, Q with each step as private as it is: what groups of two promise must hold between P and Q."""
    p, r, q = normal(first), normal(second), normal(third)
    steps = [(p, r), (r, q), (r, p), (q, r)]
    worst = max(max(a / b for a, b in zip(x, y, strict=True)) for x, y in steps)
    # pure, in odds
    assert max(a / b for a, b in zip(p, q, strict=True)) <= worst**2
    # approximate, at odds of 3/2: δ(1 + e^ε)
    delta = max(hockey(x, y, F(3, 2)) for x, y in steps)
    if delta:
        promise = c.for_group(ApproxDP(F(math.log(1.5)).limit_denominator(10**15), delta), 2)
        assert hockey(p, q, F(9, 4)) <= promise.delta * (1 + F(1, 10**9))
    # zCDP and tCDP: the ρ of each step over all orders below ω, then 4ρ below ω/2
    orders = [1 + i / 8 for i in range(1, 64)]
    rho = max(renyi(x, y, a) / a for x, y in steps for a in [1.0001, *orders])
    doubled = c.for_group(TCDP(rho, 9), 2)
    assert all(renyi(p, q, a) <= float(doubled.rho) * a + 1e-9 for a in orders if a < doubled.omega)
    # RDP at order 4
    found = c.for_group(RDP(4, max(max(renyi(x, y, 4) for x, y in steps), 0.0)), 2)
    assert found.order == 2
    assert renyi(p, q, 2) <= float(found.epsilon) + 1e-12
    # trade-off functions
    both = chain(tests_between(p, r), tests_between(r, q))
    assert tests_between(p, q) >= both


def test_groups_by_tests_agree_with_the_closed_forms() -> None:
    by_tests = c.fdp_to_pure(c.for_group(c.pure_to_fdp(PureDP(0.3)), 4))
    assert by_tests.epsilon == pytest.approx(1.2, rel=1e-9)
    f = c.approx_to_fdp(ApproxDP(0.5, 1e-6))
    found = c.fdp_to_profile(c.for_group(f, 4)).delta(2)
    assert found == pytest.approx(float(c.for_group(ApproxDP(0.5, 1e-6), 4).delta), rel=1e-6)
    fine = c.gdp_to_fdp(GDP(0.5), epsilons=[i / 10 for i in range(60)])
    grouped = c.for_group(fine, 3).tradeoff
    assert all(0 <= c.gdp_to_tradeoff(GDP(1.5), alpha=a) - float(grouped(a)) < 0.01 for a in (0.01, 0.1, 0.5, 0.9))


def test_the_notes_group_bound_is_loose_but_valid() -> None:
    """δ(e^{kε} − 1)/(e^ε − 1) = 9.8487e-06 at k = 4, ε = 0.5, δ = 1e-6; note 003's k e^{kε} δ = 2.956e-05."""
    delta = c.for_group(ApproxDP(0.5, 1e-6), 4).delta
    assert float(delta) == pytest.approx(9.8487e-6, rel=1e-5)
    assert 4 * math.exp(2) * 1e-6 == pytest.approx(2.956e-5, rel=1e-3)
    assert c.for_group(ApproxDP(0, 1e-6), 4).delta == pytest.approx(F(4, 10**6))
    assert c.for_group(ApproxDP(1, 0), 4).delta == 0
    assert c.for_group(ApproxDP(5, 0.5), 4).delta == 1


def test_many_lines_are_lowered_not_dropped() -> None:
    f = c.pure_to_fdp(PureDP(1e-3))
    grouped = c.for_group(f, 3000)
    assert len(grouped.tradeoff.corners) <= 130
    promise = c.pure_to_fdp(PureDP(3)).tradeoff
    assert grouped.tradeoff(0.01) <= promise(0.01)
    assert grouped.tradeoff(0.01) == pytest.approx(promise(0.01), abs=0.02)


NO_GROUP: dict[str, tuple[Callable[[], object], str]] = {
    "RDP at a low order": (lambda: c.for_group(RDP(3, 1), 2), "order of 4 or more"),
    "tCDP below ω": (lambda: c.for_group(TCDP(1, 2), 2), "no order above 1"),
    "approximate zCDP": (lambda: c.for_group(ApproxZCDP(1, 0.1), 2), "event of its own"),
}


@pytest.mark.parametrize(("convert", "why"), NO_GROUP.values(), ids=NO_GROUP.keys())
def test_groups_that_a_promise_says_nothing_about(convert: Callable[[], object], why: str) -> None:
    with pytest.raises(NoConversion, match=why):
        convert()


def test_add_remove_to_replace() -> None:
    replaced = {type(g): c.add_remove_to_replace(g) for g in KINDS}
    assert replaced[PureDP] == PureDP(1, relation=Relation.REPLACE)
    assert replaced[ZCDP] == ZCDP(2, relation=Relation.REPLACE)
    assert replaced[GDP] == GDP(1, relation=Relation.REPLACE)
    assert replaced[TCDP] == TCDP(2, 8, relation=Relation.REPLACE)
    assert replaced[RDP] == RDP(8, 1.5, relation=Relation.REPLACE)
    assert float(replaced[ApproxDP].numbers["delta"]) == pytest.approx((1 + math.exp(0.5)) * 1e-6)
    assert all(g.relation is Relation.REPLACE for g in replaced.values())
    assert c.zero_out_to_replace(PureDP(1, relation=Relation.ZERO_OUT)) == PureDP(2, relation=Relation.REPLACE)
    with pytest.raises(UnitMismatch, match="expected a promise under ADD_REMOVE"):
        c.add_remove_to_replace(PureDP(1, relation=Relation.REPLACE))
    with pytest.raises(UnitMismatch):
        c.zero_out_to_replace(PureDP(1))


REPLACE = Relation.REPLACE


def test_parallel_takes_the_worst_part() -> None:
    assert c.parallel([PureDP(1), PureDP(0.5)]) == PureDP(1)
    assert c.parallel([ApproxDP(1, 1e-9), ApproxDP(0.5, 1e-6)]) == ApproxDP(1, 1e-6)
    assert c.parallel([TCDP(1, 8), TCDP(0.5, 4)]) == TCDP(1, 4)
    assert c.parallel([RDP(4, 1), RDP(4, 2)]) == RDP(4, 2)
    low, high = FDP(TradeOff.of_lines([(2, 0.1)])), FDP(TradeOff.of_lines([(8, 0)]))
    worst = c.parallel([low, high]).tradeoff
    assert low.tradeoff >= worst
    assert high.tradeoff >= worst
    assert worst(0) == F(9, 10)


def test_parallel_under_replace_counts_leaving_and_entering() -> None:
    moved = [PureDP(1), PureDP(0.7), PureDP(0.5)]
    inside = [PureDP(e, relation=REPLACE) for e in (1.2, 0.7, 0.5)]
    assert c.parallel_under_replace(moved, inside) == PureDP(1.7, relation=REPLACE)
    assert c.parallel_under_replace(moved[:1], inside[:1]) == PureDP(1.2, relation=REPLACE)
    inside[2] = PureDP(2, relation=REPLACE)
    assert c.parallel_under_replace(moved, inside) == PureDP(2, relation=REPLACE)
    two = c.parallel_under_replace([GDP(3), GDP(4)], [GDP(3, relation=REPLACE), GDP(4, relation=REPLACE)])
    assert two == GDP(5, relation=REPLACE)
    approx = c.parallel_under_replace(
        [ApproxDP(1, 1e-6), ApproxDP(2, 1e-7)], [ApproxDP(1, 0, relation=REPLACE), ApproxDP(2, 0, relation=REPLACE)]
    )
    assert approx == ApproxDP(3, 1.1e-6, relation=REPLACE)


def test_parallel_is_tight_for_a_histogram_under_replace() -> None:
    """One record leaves bin 1 and enters bin 2: Laplace(1/ε) in each bin loses 2ε in all, as the rule says."""
    epsilon = 0.5
    loss = 2 * epsilon  # ln of the ratio of two products of Laplace densities, far out on both axes
    rule = c.parallel_under_replace([PureDP(epsilon)] * 2, [PureDP(epsilon, relation=REPLACE)] * 2)
    assert float(rule.epsilon) == loss


BAD: dict[str, tuple[Callable[[], object], type[Exception]]] = {
    "no parts": (lambda: c.parallel([]), InvalidArgument),
    "kinds": (lambda: c.parallel([PureDP(1), ZCDP(1)]), InvalidArgument),
    "relations": (lambda: c.parallel([PureDP(1), PureDP(1, relation=REPLACE)]), UnitMismatch),
    "orders": (lambda: c.parallel([RDP(2, 1), RDP(3, 1)]), InvalidArgument),
    "replace alone": (lambda: c.parallel([PureDP(1, relation=REPLACE)]), NoConversion),
    "wrong way round": (lambda: c.parallel_under_replace([PureDP(1, relation=REPLACE)], [PureDP(1)]), InvalidArgument),
    "no rule": (lambda: c.parallel([ApproxZCDP(1, 0.1)]), NoConversion),
    "tests under replace": (
        lambda: c.parallel_under_replace(
            [FDP(TradeOff.perfect())] * 2, [FDP(TradeOff.perfect(), relation=REPLACE)] * 2
        ), NoConversion,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("compose", "kind"), BAD.values(), ids=BAD.keys())
def test_parts_that_do_not_fit(compose: Callable[[], object], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        compose()


@settings(max_examples=60)
@given(rows, rows, rows, rows, rows)
def test_post_processing_costs_nothing(
    first: list[int], second: list[int], one: list[int], two: list[int], three: list[int]
) -> None:
    """A random channel over two random laws raises no divergence and lowers no trade-off function."""
    p, q = normal(first), normal(second)
    channel = [normal(one), normal(two), normal(three)]

    def through(law: list[F]) -> list[F]:
        return [sum((law[i] * channel[i][j] for i in range(3)), F(0)) for j in range(3)]

    assert tests_between(through(p), through(q)) >= tests_between(p, q)
    for order in (1.5, 2, 7):
        assert renyi(through(p), through(q), order) <= renyi(p, q, order) + 1e-12
    assert c.post_processed(PureDP(1)) == PureDP(1)
    with pytest.raises(InvalidArgument):
        c.post_processed(1)  # type: ignore[type-var]
