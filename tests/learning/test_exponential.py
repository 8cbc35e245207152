"""The regularised exponential mechanism: an exact sampler, a certified distance, and refusals elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2, norm

from deniable.errors import NotSupported
from deniable.guarantees import ApproxDP, PureDP
from deniable.learning import losses
from deniable.learning.closeness import enlarged
from deniable.learning.optimizers import Data, RegularisedExponential, Task, cells
from deniable.learning.optimizers.cells import draw
from deniable.learning.table import Table
from deniable.noise import InsecureSource
from deniable.units import REPLACE

AIM = ApproxDP(1, 1e-6)


def test_the_sampler_draws_the_density() -> None:
    """e^{−3|t| − 4t²/2} on [−1, 1], 600 draws against its distribution function; DKW at 1e-6."""

    def height(t: np.ndarray) -> float:
        return float(3 * abs(t[0]) + 2 * t[0] ** 2)

    def outline(t: np.ndarray) -> tuple[float, np.ndarray]:
        return height(t), 3 * np.sign(t) + 4 * t

    source = InsecureSource(3)
    found = np.sort([draw(height, outline, side=1.0, dimensions=1, source=source)[0] for _ in range(600)])
    grid = np.linspace(-1, 1, 20_001)
    mass = np.cumsum(np.exp(-3 * np.abs(grid) - 2 * grid**2))
    exact = np.interp(found, grid, mass / mass[-1])
    off = np.maximum(np.arange(1, 601) / 600 - exact, exact - np.arange(600) / 600).max()
    assert off < math.sqrt(math.log(2 / 1e-6) / (2 * 600))


def test_cells_are_chosen_by_their_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine cells in one half of the cube and one in the other, of a flat density: 400 draws within 6 deviations."""

    def lopsided(found: cells._Cells) -> None:
        for level in range(9):
            found.cut((found.levels == level) & (found.corners[:, 0] == (1 << level) - 1))

    monkeypatch.setattr(cells._Cells, "refine", lopsided)
    source = InsecureSource(2)
    flat = [
        draw(lambda t: 0.0, lambda t: (0.0, np.zeros(1)), side=1.0, dimensions=1, source=source)[0] for _ in range(400)
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
    drawn = [draw(lambda t: outline(t)[0], outline, side=4.0, dimensions=2, source=source) for _ in range(400)]
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
    drawn = [draw(lambda t: outline(t)[0], outline, side=3.0, dimensions=3, source=source) for _ in range(200)]
    white = np.array(drawn) @ np.linalg.cholesky(shape)
    laws = [norm.cdf(np.sort(column)) for column in white.T] + [chi2(3).cdf(np.sort((white**2).sum(axis=1)))]
    for exact in laws:
        assert np.abs(np.arange(1, 201) / 200 - exact).max() < math.sqrt(math.log(2 / 2.5e-7) / 400) + 1 / 200


def test_a_peak_at_the_centre_of_a_cell_is_found() -> None:
    """The tangent there is flat, so only rejected points tell that the cell is poor."""

    def outline(t: np.ndarray) -> tuple[float, np.ndarray]:
        length = float(np.linalg.norm(t))
        return 1e4 * length, 1e4 * t / (length or 1.0)

    found = draw(lambda t: outline(t)[0], outline, side=1.0, dimensions=3, source=InsecureSource(1))
    assert np.linalg.norm(found) < 0.01


def test_a_height_that_is_not_convex_returns_nothing() -> None:
    def outline(t: np.ndarray) -> tuple[float, np.ndarray]:
        return float(-30 * t[0] ** 2), np.zeros(1)

    with pytest.raises(NotSupported, match="not convex"):
        draw(lambda t: outline(t)[0], outline, side=1.0, dimensions=1, source=InsecureSource(1))


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Hinge(), losses.SmoothedHinge()], ids=lambda v: str(v)[:8])
@pytest.mark.parametrize("target", [AIM, ApproxDP(1, 1e-6, relation=REPLACE)], ids=["add_remove", "replace"])
def test_it_learns_without_smoothness(loss: losses.LinearLoss, target: ApproxDP) -> None:
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(2000, 2))
    data = Data(Table.place(rows, norm=2.0), np.where(rows[:, 0] > rows[:, 1], 1.0, -1.0))
    plan = RegularisedExponential().plan(Task(loss, 2, target, size=2000))
    theta = plan.run(data, source=InsecureSource(1))
    assert np.mean(np.sign(data.table.points() @ theta) == data.labels) > 0.95
    assert plan.event.relation is target.relation


def test_its_risk_is_an_upper_bound_on_average() -> None:
    """The geometric median of 300 points in the plane: mean excess of 20 draws below the bound."""
    points = np.random.default_rng(2).normal(size=(300, 2)) * 0.2 + 0.3
    data = Data(Table.place(points, norm=1.0))
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
            assert promised * (1 - 2e-5) < enlarged(mu, plan.closeness) <= promised
            assert plan.distance(1000, 700.0) <= plan.closeness
            assert plan.convexity >= plan.heat * strength


def test_a_distance_above_the_plan_releases_nothing() -> None:
    plan = RegularisedExponential().plan(Task(losses.Logistic(), 1, AIM, size=100))
    assert plan.distance(10**10, 1e10) > plan.closeness
    data = Data(Table.place(np.ones((50, 1)), norm=1.0), np.ones(50))
    from dataclasses import replace

    with pytest.raises(NotSupported, match="nothing was released"):
        replace(plan, closeness=1e-20).run(data)


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
