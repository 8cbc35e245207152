"""The regularised exponential mechanism: an exact sampler, a certified distance, and refusals elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2, norm

from deniable.errors import NotSupported
from deniable.guarantees import ApproxDP, PureDP
from deniable.learning import losses
from deniable.learning.optimizers import Data, RegularisedExponential, Task, exponential
from deniable.learning.optimizers.exponential import LatticePoint, Records, draw
from deniable.learning.privacy import enlarge_mu
from deniable.learning.table import IntegerTable
from deniable.noise import InsecureSource
from deniable.units import REPLACE

AIM = ApproxDP(1, 1e-6)


def plain(height: Callable[[np.ndarray], float]) -> Callable[[LatticePoint], Fraction]:
    """A height of floats."""
    return lambda point: Fraction(height(point.floats()))


def test_the_sampler_draws_the_density() -> None:
    """e^{−3|t| − 4t²/2} on [−1, 1], 600 draws against its distribution function; DKW at 1e-6."""

    def height(t: np.ndarray) -> float:
        return float(3 * abs(t[0]) + 2 * t[0] ** 2)

    def outline(t: np.ndarray) -> tuple[float, np.ndarray]:
        return height(t), 3 * np.sign(t) + 4 * t

    source = InsecureSource(3)
    found = np.sort([draw(plain(height), outline, side=1.0, dimensions=1, source=source)[0] for _ in range(600)])
    grid = np.linspace(-1, 1, 20_001)
    mass = np.cumsum(np.exp(-3 * np.abs(grid) - 2 * grid**2))
    exact = np.interp(found, grid, mass / mass[-1])
    off = np.maximum(np.arange(1, 601) / 600 - exact, exact - np.arange(600) / 600).max()
    assert off < math.sqrt(math.log(2 / 1e-6) / (2 * 600))


def test_cells_are_chosen_by_their_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine cells in one half of the cube and one in the other, of a flat density: 400 draws within 6 deviations."""

    def lopsided(found: exponential._Cells) -> None:
        for level in range(9):
            found.cut((found.levels == level) & (found.corners[:, 0] == (1 << level) - 1))

    monkeypatch.setattr(exponential._Cells, "refine", lopsided)
    source = InsecureSource(2)
    flat = [
        draw(plain(lambda t: 0.0), lambda t: (0.0, np.zeros(1)), side=1.0, dimensions=1, source=source)[0]
        for _ in range(400)
    ]
    assert abs(np.mean(np.array(flat) > 0) - 0.5) < 6 * 0.5 / math.sqrt(400)
    assert abs(np.mean(np.abs(flat)) - 0.5) < 6 * math.sqrt(1 / 12 / 400)


def test_the_sampler_draws_a_gaussian_in_two_dimensions() -> None:
    """A slanted quadratic: 400 draws, whitened coordinates against the normal law; DKW at 1e-6 in each of two."""
    shape = np.array([[40.0, 25.0], [25.0, 30.0]])
    middle = np.array([0.3, -0.2])

    def outline(t: np.ndarray) -> tuple[float, np.ndarray]:
        return float((t - middle) @ shape @ (t - middle)) / 2, shape @ (t - middle)

    source = InsecureSource(5)
    drawn = [draw(plain(lambda t: outline(t)[0]), outline, side=4.0, dimensions=2, source=source) for _ in range(400)]
    white = (np.array(drawn) - middle) @ np.linalg.cholesky(shape)
    for column in white.T:
        exact = norm.cdf(np.sort(column))
        assert np.abs(np.arange(1, 401) / 400 - exact).max() < math.sqrt(math.log(2 / 5e-7) / 800) + 1 / 400


@pytest.mark.soak
def test_the_sampler_draws_a_gaussian_in_three_dimensions() -> None:
    """200 draws, whitened coordinates and squared lengths; DKW at 2.5e-7 in each of four."""
    shape = np.array([[60.0, 20.0, 5.0], [20.0, 30.0, -10.0], [5.0, -10.0, 25.0]])

    def outline(t: np.ndarray) -> tuple[float, np.ndarray]:
        return float(t @ shape @ t) / 2, shape @ t

    source = InsecureSource(6)
    drawn = [draw(plain(lambda t: outline(t)[0]), outline, side=3.0, dimensions=3, source=source) for _ in range(200)]
    white = np.array(drawn) @ np.linalg.cholesky(shape)
    laws = [norm.cdf(np.sort(column)) for column in white.T] + [chi2(3).cdf(np.sort((white**2).sum(axis=1)))]
    for exact in laws:
        assert np.abs(np.arange(1, 201) / 200 - exact).max() < math.sqrt(math.log(2 / 2.5e-7) / 400) + 1 / 200


def test_a_peak_at_the_centre_of_a_cell_is_found() -> None:
    """The tangent there is flat, so only rejected points tell that the cell is poor."""

    def outline(t: np.ndarray) -> tuple[float, np.ndarray]:
        length = float(np.linalg.norm(t))
        return 1e4 * length, 1e4 * t / (length or 1.0)

    found = draw(plain(lambda t: outline(t)[0]), outline, side=1.0, dimensions=3, source=InsecureSource(1))
    assert np.linalg.norm(found) < 0.01


def test_a_height_that_is_not_convex_returns_too() -> None:
    """It is the loss's fault, and whether it shows depends on the data."""

    def outline(t: np.ndarray) -> tuple[float, np.ndarray]:
        return float(-30 * t[0] ** 2), np.zeros(1)

    found = draw(plain(lambda t: outline(t)[0]), outline, side=1.0, dimensions=1, source=InsecureSource(1))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Hinge(), losses.SmoothedHinge()], ids=lambda v: str(v)[:8])
@pytest.mark.parametrize("target", [AIM, ApproxDP(1, 1e-6, relation=REPLACE)], ids=["add_remove", "replace"])
def test_it_learns_without_smoothness(loss: losses.LinearLoss, target: ApproxDP) -> None:
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(2000, 2))
    data = Data(IntegerTable.place(rows, norm=2.0), np.where(rows[:, 0] > rows[:, 1], 1.0, -1.0))
    plan = RegularisedExponential().plan(Task(loss, 2, target, size=2000))
    theta = plan.run(data, source=InsecureSource(1))
    assert np.mean(np.sign(data.table.points() @ theta) == data.labels) > 0.95
    assert plan.event.relation is target.relation


def test_its_risk_is_an_upper_bound_on_average() -> None:
    """The geometric median of 300 points in the plane: mean excess of 20 draws below the bound."""
    points = np.random.default_rng(2).normal(size=(300, 2)) * 0.2 + 0.3
    data = Data(IntegerTable.place(points, norm=1.0))
    plan = RegularisedExponential().plan(Task(losses.Distance(), 2, AIM, size=300, radius=1.0))
    loss, rows = losses.Distance(), data.table.points()
    least = min(float(loss.values(np.array([a, b]), rows).mean()) for a in np.linspace(0, 0.6, 31) for b in (0.3, 0.28))
    source = InsecureSource(4)
    found = [float(loss.values(plan.run(data, source=source), rows).mean()) for _ in range(20)]
    assert np.mean(found) - least < plan.risk


def test_privacy_pays_for_the_distance() -> None:
    """sides·κL/√m of the draw, enlarged by the planned distance, is within the μ of the event and close to it."""
    for target in (AIM, ApproxDP(3, 1e-5, relation=REPLACE), ApproxDP(0.1, 1e-9)):
        for strength in (0.0, 5.0):
            task = Task(losses.Logistic(), 2, target, size=1000, regularization=strength)
            plan = RegularisedExponential().plan(task)
            mu = task.sides * plan.heat * 1.0 / math.sqrt(plan.convexity)
            promised = float(plan.event.guarantee.mu)
            assert promised * (1 - 2e-5) < enlarge_mu(mu, plan.closeness) <= promised
            assert plan.distance(1000, 700.0) <= plan.closeness
            assert plan.convexity >= plan.heat * strength


# beyond float64


VALUED: list[losses.LinearLoss | losses.PointLoss] = [
    losses.Logistic(), losses.Hinge(), losses.SmoothedHinge(0.5), losses.SmoothedHinge(1e-4), losses.Squared(2.0),
    losses.Huber(0.3), losses.Distance(), losses.SmoothedDistance(0.1),
]  # fmt: skip


def exact_value(
    loss: losses.LinearLoss | losses.PointLoss, theta: list[mpmath.mpf], row: list[mpmath.mpf], y: float
) -> Any:
    """The loss of one record by its formula."""
    if isinstance(loss, losses.PointLoss):
        length = mpmath.sqrt(sum((t - x) ** 2 for t, x in zip(theta, row, strict=True)))
        width = mpmath.mpf(getattr(loss, "width", 0))
        return mpmath.sqrt(length**2 + width**2) - width
    m = sum(t * x for t, x in zip(theta, row, strict=True))
    if isinstance(loss, losses.Logistic):
        return mpmath.log(1 + mpmath.exp(-y * m))
    if isinstance(loss, losses.Hinge):
        return max(mpmath.mpf(0), 1 - y * m)
    if isinstance(loss, losses.Squared):
        return (m - y) ** 2 / 2
    width = mpmath.mpf(loss.width)
    if isinstance(loss, losses.Huber):
        away = abs(m - y)
        return away**2 / 2 if away <= width else width * (away - width / 2)
    short = 1 - y * m
    inside = min(max(short + width, mpmath.mpf(0)), 2 * width) ** 2 / (4 * width)
    return inside + max(mpmath.mpf(0), short - width)


@pytest.mark.parametrize("loss", VALUED, ids=lambda v: str(v)[:20])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_in_integers_are_right(loss: losses.LinearLoss, weighted: bool) -> None:
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(12, 2))
    weights = generator.choice([0.0, 0.3, 1.0], 12) if weighted else None
    labels = np.where(rows[:, 0] > 0, 1.0, -1.0)
    data = Data(IntegerTable.place(rows, norm=1.5), labels, weights)
    records = Records(loss, data)
    for side in (1.0, 3.7, 1e-3, 500.0):
        point = LatticePoint((123456789 << 60, (1 << 99) + 7), 100, side)
        entries, power = point.numerators()
        found = records.whole_sum(entries, power, 120)
        with mpmath.workdps(80):
            theta = [mpmath.mpf(entry) / 2**power for entry in entries]
            exact = sum(
                (1 if weights is None else mpmath.mpf(float(weights[i])))
                * exact_value(loss, theta, [mpmath.mpf(int(x)) / 2**16 for x in data.table.rows[i]], float(labels[i]))
                for i in range(12)
            )
            assert abs(mpmath.mpf(found) - exact * 2**120) <= 3 * 12
            near = [mpmath.mpf(side) * ((2 * step + 1) / mpmath.mpf(2) ** 100 - 1) for step in point.steps]
            assert all(abs(a - b) <= mpmath.mpf(2) ** -90 for a, b in zip(theta, near, strict=True))
            coarse = [mpmath.mpf(entry) for entry in point.floats().tolist()]
            assert all(abs(a - b) <= side * mpmath.mpf(2) ** -51 for a, b in zip(theta, coarse, strict=True))


def test_more_records_than_float64_can_tell_are_drawn_in_integers() -> None:
    """A plan whose distance float64 does not keep: the same density, 300 draws each; two-sample DKW at 1e-6."""
    plan = RegularisedExponential().plan(Task(losses.Logistic(), 1, ApproxDP(8, 1e-6), size=100))
    assert plan.distance(10**10, 1e10) > plan.closeness
    data = Data(IntegerTable.place(np.linspace(-1, 1, 20)[:, None], norm=1.0), np.where(np.arange(20) > 6, 1.0, -1.0))
    strict = replace(plan, closeness=1e-20)
    samples = [
        np.sort([one.run(data, source=InsecureSource(seed))[0] for seed in range(300)]) for one in (plan, strict)
    ]
    grid = np.concatenate(samples)
    laws = [np.searchsorted(sample, grid, side="right") / 300 for sample in samples]
    assert np.abs(laws[0] - laws[1]).max() < 2 * math.sqrt(math.log(2 / 1e-6) / 600)
    lattice = (samples[1] / plan.side + 1) * 2.0**51
    assert (np.abs(lattice - np.floor(lattice) - 0.5) < 0.51).all()
    bits, extra = strict._precision(20)
    assert bits > 64
    assert extra > 0


def test_the_declared_size_decides_nothing() -> None:
    """One record declared: none, one and thousands are drawn."""
    rows = np.random.default_rng(4).normal(size=(3000, 2))
    data = Data(IntegerTable.place(rows, norm=2.0), np.where(rows[:, 0] > 0, 1.0, -1.0))
    for loss in (losses.Logistic(), losses.Hinge(), losses.Distance()):
        for target in (AIM, ApproxDP(1e-3, 1e-9), ApproxDP(30, 1e-6)):
            plan = RegularisedExponential().plan(Task(loss, 2, target, size=1, radius=1.0))
            for count in (0, 1, 3000):
                assert np.isfinite(plan.run(data.take(np.arange(count)), source=InsecureSource(1))).all()


def test_tangents_are_never_higher_than_is_allowed_for() -> None:
    """Heights in integers against floors of cells, on steep sums: never below the floor less the slack."""
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(400, 2))
    data = Data(IntegerTable.place(rows, norm=2.0), np.where(rows[:, 0] > 0, 1.0, -1.0))
    plan = RegularisedExponential().plan(Task(losses.Logistic(), 2, ApproxDP(100, 1e-6), size=400))
    records = Records(plan.task.loss, data)
    slack = plan._slack(400, 400.0)
    assert slack < 1e-6
    for _ in range(200):
        centre, width = generator.uniform(-3, 3, 2), 10 ** generator.uniform(-6, 0)
        value, slope = records.sums(centre)
        at = centre + width * generator.choice([-1, 1], 2)
        height = plan.heat * math.fsum(records.values(at)) + plan.convexity / 2 * float(at @ at)
        centre_height = plan.heat * value + plan.convexity / 2 * float(centre @ centre)
        floor = centre_height - width * float(np.abs(plan.heat * slope + plan.convexity * centre).sum())
        assert height >= floor - slack


@pytest.mark.parametrize(
    ("loss", "columns", "target", "size", "why"),
    [
        (losses.Logistic(), 4, AIM, 100, "at most 3"),
        (losses.Multinomial(3), 1, AIM, 100, "one margin"),
        (losses.Logistic(), 2, PureDP(1), 100, "delta"),
        (losses.HalfSquare(), 2, AIM, 100, "bounded set"),
        (losses.Logistic(), 3, AIM, 10**6, "records"),
    ],
)
def test_refusals_say_why(loss: losses.LinearLoss, columns: int, target: ApproxDP, size: int, why: str) -> None:
    with pytest.raises(NotSupported, match=why):
        RegularisedExponential().plan(Task(loss, columns, target, size=size, radius=1.0))


def test_squared_loss_stays_where_its_constant_holds() -> None:
    plan = RegularisedExponential().plan(Task(losses.Squared(2.0), 2, AIM, size=100))
    assert plan.side * math.sqrt(2) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("epsilon", "size", "applies"), [(1e-3, 5000, True), (1e-3, 20_000, False), (0.1, 20_000, True)]
)
def test_many_records_are_refused_where_float64_is_too_coarse(epsilon: float, size: int, applies: bool) -> None:
    """The declared size and ε decide: heights in integers would take hours over so many records."""
    task = Task(losses.Logistic(), 2, ApproxDP(epsilon, 1e-6), size=size)
    if applies:
        RegularisedExponential().plan(task)
    else:
        with pytest.raises(NotSupported, match="computed in integers, and records are many"):
            RegularisedExponential().plan(task)
