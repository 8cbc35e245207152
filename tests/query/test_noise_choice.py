"""Which noise a plan takes, that it keeps its promise, and that it is charged for what it draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest

from deniable import calibrate
from deniable.accounting import account
from deniable.accounting.filters import cost as filter_cost
from deniable.errors import BudgetExceeded, InvalidArgument, QueryError, UnitMismatch
from deniable.events import Claimed, DiscreteGaussian, DiscreteLaplace, Gaussian
from deniable.guarantees import GDP, RDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.ledger import Ledger
from deniable.noise import Grid
from deniable.noise.discrete import LEAK, SPREAD
from deniable.numerics.discrete import gaussian_radius, gaussian_sum_radius, gaussian_threshold
from deniable.query import AtMost, Session, planning
from deniable.query.complements import SharedAverage, SharedCount, SharedSum
from deniable.query.estimates import Noisy
from deniable.query.grids import Values
from deniable.query.measures import BoundDistances, Move, Totals, move
from deniable.query.noises import (
    CONCENTRATED,
    FORMS,
    LAPLACE,
    SMOOTHED,
    GaussianIntegers,
    IntegerNoise,
    LaplaceIntegers,
    pure_within,
)
from deniable.query.schema import Column, ColumnKind
from deniable.units import Relation

DAILY = "SELECT day, COUNT(*) AS n FROM t GROUP BY day"
DAYS = {"cover": 0, "keys": {"day": list(range(365))}, "per_unit": AtMost(groups=365, rows=1)}
FRAME = pd.DataFrame({"person": [1, 1, 2, 3], "day": [0, 1, 1, 2], "cost": [1.0, 2.0, 3.0, 4.0]})

Opened = Callable[..., Session]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Opens a session over a small table, on a new ledger with a budget."""
    with ExitStack() as stack:

        def open_session(budget: Guarantee, **options: Any) -> Session:
            name = tmp_path / f"{len(list(tmp_path.iterdir()))}.ledger"
            ledger = stack.enter_context(Ledger.create(name, unit="person", budget=budget, **options))
            return stack.enter_context(Session({"t": FRAME}, ledger=ledger))

        yield open_session


def test_a_year_of_daily_counts(opened: Opened) -> None:
    """± 1,093 with Laplace noise; with Gaussian noise within 1 % of what the best multiplier gives."""
    plan = opened(ApproxDP(3, 1e-6)).plan(DAILY, epsilon=1, delta=1e-6, **DAYS)
    best = calibrate(lambda scale: Gaussian(scale), ApproxDP(1, 1e-6)).value * 365**0.5 * 1.96
    assert best < plan.error["n"]() < 1.01 * best + 1
    assert plan.cost.figures == "ε = 1, δ = 1e-6"
    assert "discrete Gaussian; with discrete Laplace noise n would have ± 1,090" in str(plan)
    release = plan.run()
    reach = {high - n for n, high in zip(release.columns["n"], release.columns["n_high"], strict=True) if high}
    assert reach == {plan.error["n"]()}
    pure = opened(PureDP(3)).plan(DAILY, epsilon=1, **DAYS)
    assert pure.error["n"]() == 1093
    assert isinstance(pure.event, DiscreteLaplace)


@pytest.mark.parametrize(
    "budget", [ApproxDP(3, 1e-6), ZCDP(1), ApproxZCDP(1, 1e-6), RDP(8, 2), ApproxDP(3, 1e-4)], ids=str
)
def test_every_kind_of_budget_pays_for_the_smaller_noise(opened: Opened, budget: Guarantee) -> None:
    session = opened(budget)
    many = session.plan(DAILY, epsilon=1, **DAYS)
    one = session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1, per_unit=AtMost(groups=1, rows=1), cover=0)
    assert many.noise.form.name == "gaussian"
    assert one.noise.form is LAPLACE
    assert one.cost == PureDP(1, unit="person")
    assert isinstance(many.cost, ApproxDP)
    assert account(many.event).delta(1.0) <= many.cost.delta
    many.run()
    one.run()
    assert [charge.event for charge in session.ledger.charges()] == [many.event, one.event]


def test_the_default_delta_is_a_hundredth_of_what_is_left(opened: Opened) -> None:
    assert opened(ApproxDP(3, 1e-6)).plan(DAILY, epsilon=1, **DAYS).cost.delta == Fraction(1, 10**8)
    assert opened(ZCDP(1)).plan(DAILY, epsilon=1, **DAYS).cost.delta == Fraction(1, 10**9)


def test_what_does_not_fit_gives_way_to_what_does(opened: Opened) -> None:
    """Of ρ = 0.1 a count with Laplace noise would need 0.46, and one with Gaussian noise needs 0.02."""
    small = {"cover": 0, "epsilon": 1, "per_unit": AtMost(groups=1, rows=1)}
    assert opened(ZCDP(1)).plan("SELECT COUNT(*) AS n FROM t", **small).noise.form is LAPLACE
    session = opened(ZCDP(0.1))
    plan = session.plan("SELECT COUNT(*) AS n FROM t", **small)
    assert plan.noise.form is CONCENTRATED
    plan.run()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: type(form).__name__)
@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
def test_what_is_charged_is_at_most_what_was_bought(form: Any, relation: Relation) -> None:
    """In exact fractions, whatever the sensitivity; and the event states the noise that is drawn."""
    for squared, amount in ((1, Fraction(1, 7)), (365, Fraction(3, 10**4)), (2 * 10**31 + 3, Fraction(10**5, 3))):
        whole = int(squared**0.5) + 1
        move = Move(whole, squared, whole, 3)
        event, law = form.event(move, amount, relation), form.noise(move, amount)
        assert event.relation is relation
        assert event.sensitivity**2 >= squared
        if form is LAPLACE:
            assert (event.sensitivity / event.scale, law.scale) == (amount, event.scale)
        elif form is CONCENTRATED:
            assert isinstance(event, DiscreteGaussian)
            assert (event.sensitivity / event.scale) ** 2 / 2 <= amount
            assert law.scale == event.scale
            assert filter_cost(event).rho <= amount
        else:
            assert (event.sensitivity / event.scale) ** 2 <= amount
            assert law.scale**2 >= event.scale**2 + SPREAD
            assert form.leak([move]) == 3 * LEAK


def test_a_vector_is_not_charged_as_one_number(opened: Opened) -> None:
    """A day each of 365 groups: √365 in L2, and the accountant's bound for vectors."""
    plan = opened(ZCDP(1)).plan(DAILY, cost=ZCDP(0.02), **DAYS)
    assert isinstance(plan.event, DiscreteGaussian)
    assert plan.event.coordinates == 365
    assert plan.event.sensitivity**2 >= 365
    assert filter_cost(plan.event).rho == pytest.approx(0.02, rel=1e-9)


@pytest.mark.parametrize("groups", [1, 20, 100])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_found_keys_with_gaussian_noise(opened: Opened, groups: int, relation: str) -> None:
    """A group that one unit has alone is hidden by the exact tail, in all of the unit's groups at once."""
    session = opened(ApproxDP(3, 1e-6, relation=relation))
    plan = session.plan(DAILY, epsilon=1, noise="gaussian", per_unit=AtMost(groups=groups, rows=1), cover=0)
    part = plan.threshold
    assert part is not None
    assert part.threshold.delta == plan.cost.delta / 2 == Fraction(1, 2 * 10**8)
    sigma, threshold = mpmath.mpf(float(part.scale)), part.threshold.threshold
    mass = [mpmath.exp(-(x**2) / (2 * sigma**2)) for x in range(int(30 * sigma))]
    whole = 2 * sum(mass) - 1

    def shown(least: int) -> Any:
        return 1 - (1 - sum(mass[least - 1 :]) / whole) ** groups

    delta = mpmath.mpf(float(part.threshold.delta))
    assert shown(threshold) <= delta * (1 + 1e-9)
    assert shown(threshold - 1) > delta * (1 - 1e-6)
    assert account(plan.event).delta(1.0) <= plan.cost.delta
    claims = [event.guarantee.delta for event in plan.event.parts if isinstance(event, Claimed)]
    assert sum(claims) >= part.threshold.delta
    assert plan.run().columns["day"] == []


def test_costs_of_every_kind(opened: Opened) -> None:
    session = opened(ApproxDP(30, 1e-4))
    for cost, form in (
        (PureDP(1), "laplace"), (ApproxDP(1, 1e-8), "gaussian"), (ZCDP(0.02), "gaussian"),
    ):  # fmt: skip
        plan = session.plan(DAILY, cost=cost, **DAYS)
        assert plan.noise.form.name == form
        assert plan.cost == cost.about(session.ledger.unit)
        assert plan.run().cost == plan.cost
    large = session.plan("SELECT COUNT(*) AS n FROM t", cost=ZCDP(8), per_unit=AtMost(groups=1, rows=1), cover=0)
    assert large.noise.form is LAPLACE, "beyond ρ of about 5 an ε-DP answer is nearer"
    assert filter_cost(large.event).rho <= 8


def test_found_keys_under_a_cost_in_zcdp(opened: Opened) -> None:
    session = opened(ApproxZCDP(1, 1e-6))
    plan = session.plan(DAILY, cost=ZCDP(0.1), delta=1e-8, per_unit=AtMost(groups=5, rows=1), cover=0)
    assert plan.cost == ApproxZCDP(0.1, 1e-8, unit="person")
    plan.run()
    with pytest.raises(QueryError, match="needs its keys declared"):
        session.plan(DAILY, cost=ZCDP(0.1), per_unit=AtMost(groups=5, rows=1), cover=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cost": ZCDP(1), "epsilon": 1}, "epsilon must be left out where cost is given"),
        ({"cost": ZCDP(1), "error": 5}, "error must be left out when cost is given"),
        ({"cost": 1}, "cost must be PureDP, ApproxDP or ZCDP"),
        ({"cost": ZCDP(0)}, "cost must be above 0"),
        ({"cost": ApproxDP(1, 1e-9), "delta": 1e-9}, "delta must be left out where cost is given"),
        ({"epsilon": 1, "noise": "normal"}, 'noise must be "laplace" or "gaussian"'),
        ({"cost": PureDP(1), "noise": "gaussian"}, "noise must be one that keeps ε = 1"),
    ],
)
def test_what_is_refused(opened: Opened, given: dict[str, Any], message: str) -> None:
    session = opened(ApproxDP(3, 1e-6))
    with pytest.raises(InvalidArgument, match=message):
        session.plan(DAILY, **given, **DAYS)
    assert list(session.ledger.charges()) == []


def test_a_pure_ledger_has_laplace_noise_alone(opened: Opened) -> None:
    session = opened(PureDP(3))
    with pytest.raises(InvalidArgument, match="noise must be one that keeps ε = 1"):
        session.plan(DAILY, epsilon=1, noise="gaussian", **DAYS)
    with pytest.raises(InvalidArgument, match="delta must be left out"):
        session.plan(DAILY, epsilon=1, delta=1e-9, **DAYS)


def test_a_cost_is_about_the_relation_of_its_ledger(opened: Opened) -> None:
    with pytest.raises(UnitMismatch):
        opened(ZCDP(1, relation="replace")).plan(DAILY, cost=ZCDP(0.1), **DAYS)


def test_a_refused_charge_says_what_was_asked(opened: Opened) -> None:
    session = opened(ZCDP(0.01))
    with pytest.raises(BudgetExceeded, match=r"requested ρ = 0\.01999"):
        session.plan(DAILY, cost=ZCDP(0.02), **DAYS).run()


def test_an_error_is_solved_with_the_noise_that_costs_less(opened: Opened) -> None:
    session = opened(ApproxDP(3, 1e-6))
    plan = session.plan(DAILY, error=160, **DAYS)
    assert plan.noise.form.name == "gaussian"
    assert plan.error["n"]() <= 160
    assert plan.cost.epsilon < Fraction(13, 10)
    forced = session.plan(DAILY, error=160, noise="laplace", **DAYS)
    assert forced.cost.epsilon > 6
    two = session.plan(
        "SELECT day, COUNT(*) AS n, SUM(cost) AS s FROM t GROUP BY day",
        error={"n": 200, "s": 2000}, bounds={"cost": (0, 10)}, **DAYS,
    )  # fmt: skip
    assert two.error["n"]() <= 200
    assert two.error["s"]() <= 2000
    two.run()


def test_staged_plans_promise_whichever_noise_they_will_take(opened: Opened) -> None:
    """The noise is chosen for the limits that are found; the charge covers both."""
    plan = opened(ApproxDP(3, 1e-6)).plan(DAILY, epsilon=1, keys=DAYS["keys"], per_unit="private")
    promise = ApproxDP(Fraction(3, 4), 1e-8, unit="person")
    assert plan.event.parts[-1] == Claimed(promise)
    few, many = (plan.settle({}, AtMost(groups=groups, rows=1)) for groups in (1, 300))
    assert few.noise.form is LAPLACE
    assert many.noise.form is SMOOTHED
    assert account(many.event).delta(0.75) <= promise.delta
    assert plan.run().cost == plan.cost == ApproxDP(1, 1e-8, unit="person")
    zcdp = opened(ZCDP(1)).plan(DAILY, cost=ZCDP(0.1), keys=DAYS["keys"], per_unit="private")
    assert filter_cost(zcdp.event).rho <= Fraction(1, 10)
    assert filter_cost(zcdp.settle({}, AtMost(groups=300, rows=1)).event).rho <= zcdp.promise.rho
    zcdp.run()


def test_whatever_is_found_can_be_answered(opened: Opened) -> None:
    """After the charge nothing raises: the noise of the widest and of the narrowest that can be found is drawn."""
    sql = "SELECT day, SUM(cost) AS s, VARIANCE(cost) AS v, MEDIAN(cost) AS q FROM t GROUP BY day"
    plan = opened(ApproxDP(3, 1e-6)).plan(sql, epsilon=0.01, keys=DAYS["keys"], bounds="private", per_unit="private")
    for settled in (plan.answer, *plan.variants):
        again = plan.settle(settled.options.bounds, settled.options.per_unit)
        assert account(again.event).delta(0.008) <= plan.promise.delta
        assert len(planning.answer(again).rows) == 365


def test_a_basic_ledger_takes_the_point(opened: Opened) -> None:
    session = opened(ApproxDP(3, 1e-6), basic_only=True)
    session.plan(DAILY, epsilon=1, **DAYS).run()
    assert session.ledger.remaining().epsilon == 2


def test_gaussian_radii_are_exact() -> None:
    """Against sums in 50 digits."""
    with mpmath.workdps(50):
        for scale in (Fraction(1, 3), Fraction(7, 2), Fraction(120)):
            mass = [
                mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(float(scale)) ** 2))
                for x in range(int(20 * scale) + 20)
            ]
            whole = 2 * sum(mass) - 1
            for tail in (0.5, 0.05, 1e-9):
                threshold, radius = gaussian_threshold(scale, tail), gaussian_radius(scale, tail)
                assert sum(mass[threshold:]) / whole <= tail
                assert threshold == 1 or sum(mass[threshold - 1 :]) / whole > tail * (1 - 1e-6)
                assert 2 * sum(mass[radius + 1 :]) / whole <= tail
    far = Fraction(10**30)
    assert gaussian_threshold(far, 0.025) == pytest.approx(1.959964e30, rel=1e-6)


def test_sums_of_gaussian_noise() -> None:
    """Within the lattice's step above the normal law's radius; and by the bound where the failure is tiny."""
    found = gaussian_sum_radius(Fraction(1000), ((1.0, 3), (2.0, 4)), Fraction(1, 40))
    exact = 1000 * (3 + 16) ** 0.5 * 1.959964
    assert exact < found < 1.05 * exact
    assert gaussian_sum_radius(Fraction(1000), ((1.0, 1),), Fraction(1, 10**30)) > 11_000
    assert gaussian_sum_radius(Fraction(5), ((0.0, 3),), Fraction(1, 40)) == 0


def test_the_noise_that_is_drawn_has_the_law(opened: Opened) -> None:
    """20,000 draws: their variance is within 6 deviations (5 %) of σ² (false alarms: 2e-9)."""
    plan = opened(ApproxDP(3, 1e-6)).plan(DAILY, epsilon=1, **DAYS)
    (part,) = plan.noises
    drawn = np.asarray(part.added(np.zeros(20_000, dtype=np.int64)), dtype=float)
    assert abs(drawn.var() / float(part.scale) ** 2 - 1) < 0.06


def test_the_epsilon_of_a_rho() -> None:
    from deniable.conversions.formulas import pure_rho

    for rho in (Fraction(1, 10**6), Fraction(1, 10), Fraction(5), Fraction(200)):
        assert rho * Fraction(99, 100) < pure_rho(pure_within(rho)) <= rho


def test_gdp_is_refused_by_name(opened: Opened) -> None:
    with pytest.raises(InvalidArgument, match="cost must be PureDP, ApproxDP or ZCDP"):
        opened(ApproxDP(3, 1e-6)).plan(DAILY, cost=GDP(0.1), **DAYS)


def test_the_formula_of_distances_from_bounds() -> None:
    """Against all ways to place up to two rows with values at or between the bounds in each of two groups."""
    measure = BoundDistances(Values(Column("x", ColumnKind.INTEGER, "INTEGER"), Grid(low=-1, high=2, step=1)))
    sums = {(a, 3 * n - a) for n in range(3) for a in range(3 * n + 1)}
    for total in (None, 3):
        shares = [(*one, *two) for one in sums for two in sums if total is None or (sum(one) + sum(two)) // 3 <= total]
        for relation, others in ((Relation.ADD_REMOVE, [(0, 0, 0, 0)]), (Relation.REPLACE, shares)):
            found = move(measure, AtMost(groups=2, rows=2, total=total), groups=2, relation=relation)
            apart = np.abs(np.array(shares)[:, None] - np.array(others)[None])
            assert found.sensitivity == apart.sum(axis=2).max()
            assert found.squared == (apart**2).sum(axis=2).max()
            assert found.coordinates >= (apart > 0).sum(axis=2).max()


def possible_values(name: str, bounds: tuple[int, int]) -> tuple[float, float]:
    """Between what a count, a sum or an average can lie: ends of intervals are cut to it, values are not."""
    return (0 if name == "n" or bounds[0] >= 0 else -np.inf), (0 if name == "s" and bounds[1] <= 0 else np.inf)


@pytest.mark.parametrize("bounds", [(0, 10), (-5, 10), (-10, -2), (3, 8)])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_intervals_of_shared_vectors_cover(opened: Opened, bounds: tuple[int, int], noise: str) -> None:
    """4,000 groups of the same four values: 95 % of the intervals hold the truth, less 5.4 deviations (1e-7)."""
    truth = np.clip([1, 2, 9, 12], *bounds)
    totals = Totals(np.full(4000, 4), {}, {})
    session = opened(ApproxDP(1000, 1e-4))
    plan = session.plan(
        "SELECT AVG(cost) AS a, SUM(cost) AS s, COUNT(cost) AS n FROM t",
        epsilon=300, noise=noise, bounds={"cost": (*bounds, 1)}, per_unit=AtMost(groups=1, rows=100),
    )  # fmt: skip
    (part,) = plan.noises
    values = part.measure.values
    totals.counts[values], totals.sums[values] = np.full(4000, 4), np.full(4000, truth.sum())
    noisy = {part.measure: Noisy(part.added(part.measure.of(totals)), part.law)}
    least = 0.95 - 5.4 * np.sqrt(0.95 * 0.05 / 4000)
    for aggregate, true in zip(plan.answer.aggregates, (truth.mean(), truth.sum(), 4), strict=True):
        found = aggregate.estimate(noisy, failure=Fraction(1, 20))
        inside = (found.low <= true) & (true <= found.high)
        assert inside.mean() >= least
        value = np.clip(np.asarray(found.value, dtype=float), *possible_values(aggregate.name, bounds))
        assert ((found.low <= value) & (value <= found.high)).all()
        if aggregate.name != "a":
            # A rounded count or sum is off by half a step more.
            error = np.abs(np.asarray(found.value, dtype=float) - true)
            assert (error <= plan.error[aggregate.name]()).mean() >= least


@pytest.mark.parametrize("bounds", [(0, 10), (-5, 10), (-10, -2)])
def test_shared_vectors_cover_units_beyond_the_limits(bounds: tuple[int, int]) -> None:
    """Every way in which two units with up to two rows each add to a group of known values, almost without noise."""
    low, high = bounds
    values = Values(Column("x", ColumnKind.INTEGER, "INTEGER"), Grid(low=low, high=high, step=1))
    distances, law = BoundDistances(values), LaplaceIntegers(Fraction(1, 100))
    inside = np.array([low, low + 1, high, high, high - 2, low + 3])
    extra = [(n, s) for n in range(5) for s in (n * low, n * high, n * (low + high) // 2)]
    totals = Totals(np.zeros(len(extra)), {}, {})
    totals.counts[values] = np.array([len(inside) + n for n, _ in extra])
    totals.sums[values] = np.array([inside.sum() + s for _, s in extra])
    noisy = {distances: Noisy(distances.of(totals), law, (0, 4 * (high - low)))}
    for kind, true in ((SharedAverage, inside.mean()), (SharedSum, inside.sum()), (SharedCount, len(inside))):
        found = kind("x", distances).estimate(noisy, failure=Fraction(1, 20))
        assert (np.asarray(found.low, dtype=float) <= true + 1e-9).all()
        assert (np.asarray(found.high, dtype=float) >= true - 1e-9).all()
        assert ((found.low <= found.value) & (found.value <= found.high)).all()


def test_what_shares_a_vector(opened: Opened) -> None:
    """An average, or a sum and a count of one column, also in a formula; a sum or a count alone do not, nor beside a
    variance."""
    session = opened(PureDP(3))
    wide = {"epsilon": 1, "bounds": {"cost": (0, 10)}, "per_unit": AtMost(groups=1, rows=1)}
    for outputs, names in {
        "AVG(cost) AS a": ["SUM(cost - 0), SUM(10 - cost)"],
        "SUM(cost) AS s, COUNT(cost) AS n": ["SUM(cost - 0), SUM(10 - cost)"],
        "SUM(cost) / COUNT(cost) AS r": ["SUM(cost - 0), SUM(10 - cost)"],
        "SUM(cost) AS s, COUNT(*) AS n": ["SUM(cost)", "COUNT(*)"],
        "AVG(cost) AS a, VAR_POP(cost) AS v": ["SUM(cost - 5)", "COUNT(cost)", "SUM((cost - 5)² - 12.5)"],
    }.items():
        plan = session.plan(f"SELECT {outputs} FROM t", **wide)
        assert [part.measure.name for part in plan.noises] == names
    both = session.plan("SELECT SUM(cost) AS s, COUNT(cost) AS n FROM t", **wide).error
    half = {**wide, "epsilon": 0.5}
    apart = {
        name: session.plan(f"SELECT {name} AS x FROM t", **half).error["x"]() for name in ("SUM(cost)", "COUNT(cost)")
    }
    assert both["s"]() < 0.51 * apart["SUM(cost)"]
    assert both["n"]() < 0.85 * apart["COUNT(cost)"]


@pytest.mark.parametrize(
    "law", [LaplaceIntegers(Fraction(3, 2)), GaussianIntegers(Fraction(3, 2)), GaussianIntegers(Fraction(1, 2))]
)
def test_mixtures_of_noise_stay_within_one_radius(law: IntegerNoise) -> None:
    """Exact sums over all pairs of noises, for eleven mixtures."""
    x = np.arange(-60, 61)
    decay = np.abs(x) / float(law.scale) if isinstance(law, LaplaceIntegers) else x**2 / (2 * float(law.scale) ** 2)
    mass = np.exp(-decay) / np.exp(-decay).sum()
    for failure in (Fraction(1, 2), Fraction(1, 20), Fraction(1, 1000)):
        far = law.mixture_radius(failure)
        for p in np.linspace(0, 1, 11):
            beyond = np.abs((1 - p) * x[:, None] - p * x[None, :]) > far + 1e-9
            assert (np.outer(mass, mass) * beyond).sum() <= float(failure)
