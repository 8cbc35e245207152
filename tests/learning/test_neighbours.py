"""The declared sensitivity against the true one: worst neighbours on small adversarial data, by brute force."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from deniable.guarantees import ApproxDP, PureDP
from deniable.learning import losses, privacy
from deniable.learning.optimizers import (
    Data,
    FrankWolfe,
    GradientDescent,
    LastIterate,
    Localisation,
    Method,
    NoisySum,
    ObjectivePerturbation,
    OutputPerturbation,
    PhasedSGD,
    RegularisedExponential,
    SufficientStatistics,
    Task,
)
from deniable.learning.optimizers.minimum import Objective, minimise, reachable, rounding
from deniable.learning.optimizers.objective import laplace_scale
from deniable.learning.optimizers.whole import Slope
from deniable.learning.table import ONE, IntegerTable
from deniable.noise import InsecureSource
from deniable.noise.discrete import SPREAD
from deniable.units import REPLACE

SMOOTH = losses.Logistic()
AIM = ApproxDP(1, 1e-6)


# minimisers


CASES: list[tuple[losses.LinearLoss, float, float, float]] = [
    (losses.Logistic(), -1.0, 1.0, 0.45),  # a residual of 1 and no curvature do not come together
    (losses.SmoothedHinge(0.5), -1.0, 1.0, 0.999),
    (losses.Huber(0.3), -1.0, 1.0, 0.999),
    (losses.SmoothedPinball(0.5, 0.3), -1.0, 1.0, 0.999),
    (losses.Multinomial(3), 0.0, 1.0, 0.45),
]


@pytest.mark.parametrize(("loss", "label", "other", "part"), CASES, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_minimisers_of_the_worst_neighbours_are_as_far_apart_as_declared(
    loss: losses.LinearLoss, label: float, other: float, part: float, relation: str
) -> None:
    """A record alone among empty rows: L/λ (2L/λ when exchanged) is attained where a loss has no curvature at 0."""
    target = AIM if relation == "add_remove" else ApproxDP(1, 1e-6, relation=REPLACE)
    strength = 5.0
    plan = OutputPerturbation(strength=strength).plan(Task(loss, 1, target, size=4))
    table = IntegerTable.place(np.array([[0.0], [0.0], [0.0], [1.0]]), norm=1.0)
    full = Data(table, np.array([other, other, other, label]))
    near = full.take(np.arange(3)) if relation == "add_remove" else Data(table, np.full(4, other))
    one, two = (minimise(data, loss, strength=strength, tolerance=plan.tolerance) for data in (full, near))
    moved, exact = float(np.linalg.norm(one - two)), plan.task.sides * loss.lipschitz / strength
    assert part * exact < moved <= plan.step * plan.bound
    assert exact <= plan.step * plan.bound <= exact * (1 + 1e-4)


def test_the_tolerance_leaves_room_for_float64() -> None:
    """What rounding may add for the records publicly known, and twice as many, is an eighth of the tolerance."""
    for size in (10, 10**4, 10**8):
        task = Task(SMOOTH, 5, AIM, size=size)
        assert OutputPerturbation().plan(task).tolerance >= reachable(task)
        assert ObjectivePerturbation().plan(task).tolerance >= reachable(task)
    assert 1e-6 < reachable(Task(SMOOTH, 5, AIM, size=10**8)) < 1e-3
    wide = losses.Huber(100.0)
    assert reachable(Task(wide, 5, AIM, size=10**4)) > 20 * reachable(Task(losses.Huber(1.0), 5, AIM, size=10**4))


def test_rounding_counts_all_that_is_added_up() -> None:
    """Each term alone is at least what one float64 operation on it may lose."""
    known = {"columns": 3, "length": 0.0, "pull": 0.0}
    unit = 2.0**-53
    assert rounding(1000, losses.Huber(50.0), **known) >= 1000 * 50 * 256 * unit
    assert rounding(1, SMOOTH, **known | {"pull": 1e9}) >= 1e9 * unit
    assert rounding(1000, SMOOTH, **known | {"length": 1e6}) >= 1000 * 0.25 * 3 * 1e6 * unit


def test_a_slope_that_drowns_the_gradient_is_not_certified_in_float64() -> None:
    """At λθ ≈ −10⁹ the sum is rounded to 10⁻⁷: whatever is computed, a gradient below 10⁻⁸ is not proved."""
    data = Data(IntegerTable.place(np.array([[0.7], [0.3]]), norm=1.0), np.array([1.0, -1.0]))
    objective = Objective(data, SMOOTH, 1.0, np.array([1e9]), np.zeros(1))
    at = objective.newton(1e-4)
    assert objective.certified(at, 1e-4)
    assert not objective.certified(at, 1e-8)
    found = minimise(data, SMOOTH, strength=1.0, slope=Slope(np.array([1], dtype=object), 1e9), tolerance=1e-8)
    assert found == pytest.approx(-1e9, abs=2)  # in integers


def test_the_certificate_holds_in_exact_arithmetic() -> None:
    """Late phases have λ = 2/η of 10¹² and a centre far away; λθ − λ·centre would cancel to nothing."""
    data = Data(IntegerTable.place(np.array([[0.7], [-0.2], [0.9]]), norm=1.0), np.array([1.0, -1.0, -1.0]))
    task = Task(SMOOTH, 1, ApproxDP(1, 1e-6, relation=REPLACE), size=3)
    eta, centre = 2e-12, np.array([1.2345678912345])
    moved, apart = Localisation().work(data, task, centre, eta)
    with mpmath.workdps(50):
        at = mpmath.mpf(float(centre[0])) + mpmath.mpf(float(moved[0]))
        slope = mpmath.mpf(float(moved[0])) * 2 / mpmath.mpf(eta)
        for row, label in zip(data.table.rows[:, 0], data.labels, strict=True):
            x, y = mpmath.mpf(int(row)) / ONE, mpmath.mpf(float(label))
            slope += -x * y / (1 + mpmath.exp(y * x * at))
        assert abs(slope) <= 1.1e-6
    assert apart == pytest.approx(eta, rel=1e-5)


# densities, by integration in one dimension


def density(
    records: list[tuple[float, float]], law: Callable[[np.ndarray], np.ndarray], grid: np.ndarray, strength: float
) -> np.ndarray:
    """Of the minimiser of Σφ + (λ/2)θ² + bθ: the density of b = −(Σxφ′ + λθ), times |db/dθ|."""
    slope, bend = strength * grid, np.full(grid.shape, strength)
    for x, y in records:
        slope = slope + x * SMOOTH.residuals(x * grid, np.full(grid.shape, y))
        bend = bend + x * x * SMOOTH.curvatures(x * grid, np.full(grid.shape, y))
    return law(slope) * bend


BASE = [(1.0, 1.0), (0.5, -1.0), (-0.8, 1.0)]
WORST = [(1.0, 1.0), (1.0, -1.0), (0.3, 1.0), (-1.0, -1.0)]


@pytest.mark.parametrize(("epsilon", "strength"), [(0.5, 1.0), (1.0, 0.4), (3.0, 0.1)])
def test_pure_objective_perturbation_keeps_its_promise(epsilon: float, strength: float) -> None:
    """The largest |ln p/q| over a grid: at most ε for one record, at most 2ε for an exchange, and not far below."""
    scale = laplace_scale(PureDP(epsilon), parameters=1, lipschitz=1.0, smoothness=0.25, strength=strength)
    grid = np.linspace(-40, 40, 20_001)

    def law(b: np.ndarray) -> np.ndarray:
        return np.exp(-np.abs(b) / scale) / (2 * scale)

    alone = density(BASE, law, grid, strength)
    with_one = [density([*BASE, extra], law, grid, strength) for extra in WORST]
    losses_found = [float(np.abs(np.log(alone / other)).max()) for other in with_one]
    assert 0.5 * epsilon < max(losses_found) <= epsilon
    swapped = max(float(np.abs(np.log(a / b)).max()) for a in with_one for b in with_one)
    assert swapped <= 2 * epsilon


@pytest.mark.parametrize("parameters", [2, 5])
def test_pure_objective_perturbation_in_several_dimensions(parameters: int) -> None:
    """The loss at a minimiser needs no integral: −|b|₁/s + ln det of the Hessian, at random θ, for diagonal rows."""
    epsilon, strength, d = 1.0, 0.6, parameters
    scale = laplace_scale(PureDP(epsilon), parameters=d, lipschitz=1.0, smoothness=0.25, strength=strength)
    generator = np.random.default_rng(d)
    rows = generator.normal(size=(6, d))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    labels = np.where(np.arange(6) % 2, 1.0, -1.0)
    corner = np.full(d, 1 / math.sqrt(d))  # |row|₁ = √d

    def log_density(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
        margins = x @ theta
        slope = x.T @ SMOOTH.residuals(margins, y) + strength * theta
        hessian = (x.T * SMOOTH.curvatures(margins, y)) @ x + strength * np.eye(d)
        return float(-np.abs(slope).sum() / scale + np.linalg.slogdet(hessian)[1])

    worst = 0.0
    for theta in generator.normal(size=(400, d)) * 6:
        for label in (-1.0, 1.0):
            more = np.vstack([rows, corner]), np.append(labels, label)
            worst = max(worst, abs(log_density(theta, *more) - log_density(theta, rows, labels)))
    assert 0.4 * epsilon < worst <= epsilon


def test_pure_objective_noise_is_a_rounded_laplace() -> None:
    """Sign times geometric: |b| is an exponential number rounded down to the grid. 4000 draws; DKW at 1e-9."""
    plan = ObjectivePerturbation().plan(Task(SMOOTH, 4000, PureDP(1), size=100))
    found = np.sort(np.abs(plan._slope(None).floats())) / plan.scale
    empirical = np.arange(1, 4001) / 4000
    assert np.abs(empirical - (1 - np.exp(-found))).max() < math.sqrt(math.log(2 / 1e-9) / (2 * 4000)) + 1e-3


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Hinge()], ids=lambda v: type(v).__name__)
def test_the_exponential_mechanism_keeps_its_gaussian_trade_off(loss: losses.LinearLoss) -> None:
    """One dimension, by integration: the curve of e^{−H} between neighbours is below that of the promised μ."""
    plan = RegularisedExponential().plan(Task(loss, 1, ApproxDP(2, 1e-3), size=4))
    mu = float(plan.event.guarantee.mu)
    grid = np.linspace(-plan.side, plan.side, 40_001)
    step = grid[1] - grid[0]

    def law(records: list[tuple[float, float]]) -> np.ndarray:
        height = plan.convexity / 2 * grid**2
        for x, y in records:
            height = height + plan.heat * loss.values(x * grid, np.full(grid.shape, y))
        found = np.exp(-(height - height.min()))
        return found / (found.sum() * step)

    tightest = 0.0
    for extra in WORST:
        p, q = law(BASE), law([*BASE, extra])
        for epsilon in (0.0, 0.2, 0.5, 1.0):
            bound = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
            for a, b in ((p, q), (q, p)):
                found = float(np.maximum(0, a - math.exp(epsilon) * b).sum() * step)
                assert found <= bound * (1 + 1e-6)
                tightest = max(tightest, found / bound)
    assert tightest > 0.3


# rounding of steps, against a longer float


def longer(data: Data, theta: np.ndarray, rate: float, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One pass of x ← x − rate·(∇f + noise) in extended precision: the last iterate and the average."""
    rows, at = data.table.points().astype(np.longdouble), theta.astype(np.longdouble)
    total = np.zeros_like(at)
    for i, drawn in enumerate(noise.astype(np.longdouble)):
        move = drawn
        if i < len(rows):
            y = np.longdouble(data.labels[i])
            move = move - rows[i] * y / (1 + np.exp(y * (rows[i] @ at)))
        at = at - np.longdouble(rate) * move
        total += at
    return at, total / len(noise)


def test_rounding_carries_a_pass_no_further_than_is_paid_for() -> None:
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(2000, 3))
    data = Data(IntegerTable.place(rows, norm=2.0), np.where(rows[:, 0] > 0, 1.0, -1.0))
    task = Task(SMOOTH, 3, ApproxDP(1, 1e-6, relation=REPLACE), size=2000)
    centre, eta = np.array([3.0, -1.0, 0.5]), 0.9
    moved, apart = PhasedSGD().work(data, task, centre, eta)
    exact = longer(data, centre, eta, np.zeros((2000, 3)))[1] - centre
    assert 0 < np.linalg.norm((moved - exact).astype(float)) <= (apart - 2 * eta) / 2


def test_the_last_iterate_is_as_near_to_its_theorem_as_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise, moved by 240 grid steps in every coordinate: the worst that the coupling allows."""
    from deniable.learning.optimizers import iteration

    generator = np.random.default_rng(4)
    rows = generator.normal(size=(300, 2))
    data = Data(IntegerTable.place(rows, norm=2.0), np.where(rows[:, 0] > 0, 1.0, -1.0))
    far = 50.0  # never reached, but it bounds what rounding may do, so that the grid is what counts
    plan = LastIterate(rest=50).plan(Task(SMOOTH, 2, ApproxDP(1, 1e-6, relation=REPLACE), size=300, radius=far))
    drawn = np.rint(generator.normal(size=(350, 2)) * iteration._GRID).astype(np.int64)
    feed = iter(drawn)
    monkeypatch.setattr(iteration.noise, "discrete_gaussian", lambda **_: next(feed))
    monkeypatch.setattr(iteration, "add_gaussian", lambda sums, **_: sums.astype(float))
    found = plan.run(data)
    shifted = (drawn + 240).astype(np.longdouble) * np.longdouble(plan.scale) / iteration._GRID
    exact = longer(data, np.zeros(2), plan.rate, shifted)[0]
    assert 0.1 * plan.apart / 2 < float(np.linalg.norm((found - exact).astype(float))) <= plan.apart / 2


# integers


def test_integer_noise_is_below_its_event_into_the_far_tail() -> None:
    """The exact pair of discrete Gaussians against the event's curve, to δ below 10⁻³⁰⁸, where a leak would show."""
    ratio, bound = Fraction(3, 2), 40
    with mpmath.workdps(380):
        variance = (ratio * privacy.MARGIN * bound) ** 2 + SPREAD
        spread = mpmath.mpf(variance.numerator) / variance.denominator
        reach = range(-2400, 2400)
        weights = [mpmath.exp(-mpmath.mpf(k * k) / (2 * spread)) for k in reach]
        total = sum(weights)
        mu = 1 / (mpmath.mpf(ratio.numerator) / ratio.denominator)
        for epsilon in (0, 0.5, 2, 5, 10, 20, 28):
            e = mpmath.exp(epsilon)
            found = sum(
                max(mpmath.mpf(0), weights[i] - e * weights[i - bound]) for i in range(bound, len(weights))
            ) / total  # fmt: skip
            u = mpmath.mpf(epsilon) / mu - mu / 2
            assert found <= mpmath.ncdf(-u) - e * mpmath.ncdf(-u - mu)
        assert found < mpmath.mpf(10) ** -300


@pytest.mark.parametrize(
    "loss",
    [
        losses.Logistic(),
        losses.Squared(),
        losses.Hinge(),
        losses.SmoothedHinge(),
        losses.Huber(),
        losses.Multinomial(3),
    ],
    ids=lambda v: type(v).__name__,
)
def test_a_residual_has_the_same_bits_wherever_its_record_stands(loss: losses.LinearLoss) -> None:
    """Vectorised exp and its tail loops agree: the sensitivity of a sum of rounded residuals rests on it."""
    generator = np.random.default_rng(5)
    margins = generator.normal(size=(1001, loss.outputs)) * 3
    labels = generator.integers(0, 2, 1001) if loss.outputs > 1 else generator.choice([-1.0, 1.0], 1001)
    shaped = margins if loss.outputs > 1 else margins[:, 0]
    whole = loss.residuals(shaped, labels)
    for drop in (0, 1, 2, 3, 5, 7, 500, 999):
        kept = np.delete(np.arange(1001), drop)
        assert (loss.residuals(shaped[kept], labels[kept]) == whole[kept]).all()


# the number of records


SIZELESS: list[tuple[Method, losses.LinearLoss | losses.PointLoss, ApproxDP | PureDP, float | None]] = [
    (GradientDescent(steps=20), SMOOTH, AIM, None),
    (GradientDescent(steps=20), losses.Distance(), AIM, 1.0),
    (OutputPerturbation(), SMOOTH, AIM, None),
    (OutputPerturbation(), SMOOTH, PureDP(1), None),
    (ObjectivePerturbation(), SMOOTH, AIM, None),
    (ObjectivePerturbation(), SMOOTH, PureDP(1), None),
    (FrankWolfe(steps=10, radius=3.0), SMOOTH, AIM, None),
    (SufficientStatistics(), losses.Squared(), AIM, None),
    (NoisySum(), losses.HalfSquare(), AIM, 1.0),
    (NoisySum(), losses.HalfSquare(), PureDP(1), 1.0),
    (RegularisedExponential(), SMOOTH, AIM, None),
]


@pytest.mark.parametrize(("method", "loss", "target", "radius"), SIZELESS, ids=lambda v: str(v)[:30])
def test_records_of_weight_zero_change_nothing(
    method: Method, loss: losses.LinearLoss, target: ApproxDP, radius: float | None
) -> None:
    """With the same noise, a plan for 300 records gives the same answer for 300 and for 337: it never looks at n."""
    generator = np.random.default_rng(8)
    rows = generator.normal(size=(337, 2))
    labels, weights = np.where(rows[:, 0] > 0, 1.0, -1.0), (np.arange(337) < 300).astype(float)
    data = Data(IntegerTable.place(rows, norm=2.0), labels, weights)
    plan = method.plan(Task(loss, 2, target, size=300, radius=radius))
    one, two = (plan.run(part, source=InsecureSource(4)) for part in (data, data.take(np.arange(300))))
    assert one == pytest.approx(two, rel=1e-9, abs=1e-9)
