"""Every method: its preconditions, its event, its noise, and that it learns."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from deniable.errors import DeniableError, InvalidArgument, NotSupported
from deniable.events import Claimed, DiscreteLaplace, Gaussian
from deniable.guarantees import ApproxDP, PureDP
from deniable.learning import losses
from deniable.learning.optimizers import (
    SGD,
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
    SufficientStatistics,
    Task,
    TextbookGradientDescent,
)
from deniable.learning.optimizers.minimum import minimise
from deniable.learning.optimizers.objective import noise_scale
from deniable.learning.optimizers.phases import blocks
from deniable.learning.privacy import LEAK, leak, multiplier
from deniable.learning.table import Table
from deniable.noise import InsecureSource
from deniable.units import ADD_REMOVE, REPLACE

N, D = 3000, 4
SWAP = ApproxDP(2, 1e-5, relation=REPLACE)
BOTH = [ApproxDP(2, 1e-5), SWAP]


def classification(n: int = N, d: int = D) -> Data:
    generator = np.random.default_rng(7)
    rows = generator.normal(size=(n, d))
    labels = np.where(rows[:, 0] + 0.3 * generator.normal(size=n) > 0, 1.0, -1.0)
    return Data(Table.place(rows, norm=2.0), labels)


def excess(theta: np.ndarray, data: Data, loss: losses.LinearLoss) -> float:
    """Average loss above that of θ = 0, negative when something was learned."""
    zero = np.zeros_like(theta)
    return float(
        np.mean(loss.values(data.table.margins(theta), data.labels))
        - np.mean(loss.values(data.table.margins(zero), data.labels))
    )


LEARNERS: list[tuple[Method, ApproxDP | PureDP, float | None]] = [
    (GradientDescent(), BOTH[0], None),
    (GradientDescent(), BOTH[1], 5.0),
    (OutputPerturbation(), BOTH[0], None),
    (OutputPerturbation(), BOTH[1], None),
    (OutputPerturbation(), PureDP(2), None),
    (OutputPerturbation(), PureDP(2, relation=REPLACE), None),
    (ObjectivePerturbation(), BOTH[0], None),
    (ObjectivePerturbation(), BOTH[1], 5.0),
    (FrankWolfe(steps=20), BOTH[0], 4.0),
    (FrankWolfe(steps=20), BOTH[1], 4.0),
    (PhasedSGD(), SWAP, None),
    (Localisation(), SWAP, None),
    (LastIterate(), SWAP, None),
    (SGD(steps=60, rate=0.1), BOTH[0], None),
    (SGD(steps=60, rate=0.1), BOTH[1], 5.0),
    (SGD(steps=60, rate=0.1, norm=1), BOTH[0], None),
    (SGD(steps=60, rate=0.1, norm=1), BOTH[1], None),
]


@pytest.mark.parametrize(("method", "target", "radius"), LEARNERS, ids=lambda v: str(v)[:40])
def test_it_learns_and_states_its_relation(method: Method, target: ApproxDP, radius: float | None) -> None:
    """The seed fixes the noise, so this either always passes or always fails."""
    data, loss = classification(), losses.Logistic()
    plan = method.plan(Task(loss, D, target, size=N, radius=radius))
    theta = plan.run(data, source=InsecureSource(3))
    assert theta.shape == (D,)
    assert excess(theta, data, loss) < -0.02
    assert plan.event.relation is target.relation
    assert plan.risk > 0
    if radius is not None and not isinstance(method, FrankWolfe):
        assert np.linalg.norm(theta) <= radius * (1 + 1e-12)


SMOOTH, CORNER, JOINT, SQUARE = losses.Logistic(), losses.Hinge(), losses.Multinomial(3), losses.Squared()
REFUSALS = [
    (OutputPerturbation(), SQUARE, BOTH[0], None, "bounded set"),
    (OutputPerturbation(), CORNER, BOTH[0], None, "corners"),
    (OutputPerturbation(), losses.Distance(), BOTH[0], None, "linear model"),
    (ObjectivePerturbation(), JOINT, BOTH[0], None, "one margin"),
    (ObjectivePerturbation(), losses.SmoothedHinge(), BOTH[0], None, "twice differentiable"),
    (ObjectivePerturbation(), losses.Huber(), BOTH[0], None, "twice differentiable"),
    (ObjectivePerturbation(), SQUARE, BOTH[0], None, "bounded set"),
    (ObjectivePerturbation(), SMOOTH, PureDP(1), None, "delta"),
    (ObjectivePerturbation(strength=1e-6), SMOOTH, BOTH[0], None, "regularization"),
    (GradientDescent(), SMOOTH, PureDP(1), None, "delta"),
    (SufficientStatistics(), SMOOTH, BOTH[0], None, "least squares"),
    (NoisySum(), SMOOTH, BOTH[0], None, "mean"),
    (PhasedSGD(), SMOOTH, BOTH[0], None, "replace"),
    (PhasedSGD(), CORNER, SWAP, None, "not smooth"),
    (PhasedSGD(scale=100.0), SMOOTH, SWAP, None, "contractions"),
    (Localisation(), SQUARE, SWAP, None, "bounded set"),
    (LastIterate(), SMOOTH, BOTH[0], None, "replace"),
    (LastIterate(learning_rate=9.0), SMOOTH, SWAP, None, "contractions"),
    (SGD(), SMOOTH, PureDP(1), None, "delta"),
    (FrankWolfe(), SMOOTH, BOTH[0], None, "radius"),
    (FrankWolfe(), JOINT, BOTH[0], 1.0, "one margin"),
    (FrankWolfe(), CORNER, BOTH[0], 1.0, "not smooth"),
    (TextbookGradientDescent(), SMOOTH, BOTH[0], 1.0, "replace"),
    (TextbookGradientDescent(), SMOOTH, SWAP, None, "radius"),
    (TextbookGradientDescent(), SMOOTH, ApproxDP(2, 0.2, relation=REPLACE), 1.0, "exp"),
    (TextbookGradientDescent(steps=1), SMOOTH, SWAP, 1.0, "at least"),
]


@pytest.mark.parametrize(("method", "loss", "target", "radius", "why"), REFUSALS, ids=lambda v: str(v)[:30])
def test_a_failed_precondition_is_named(
    method: Method, loss: losses.LinearLoss, target: ApproxDP, radius: float | None, why: str
) -> None:
    with pytest.raises(DeniableError, match=why):
        method.plan(Task(loss, D, target, size=N, radius=radius))


# gradient descent


def test_gradient_descent_noise_is_tight_and_relation_aware() -> None:
    for target, factor in zip(BOTH, (1, 2), strict=True):
        plan = GradientDescent(steps=50).plan(Task(SMOOTH, D, target, size=N))
        ratio = multiplier(target, steps=50, draws=50 * D)
        assert plan.ratio == factor * ratio
        assert plan.event.parts[0].event.scale / plan.event.parts[0].event.sensitivity == ratio
        assert plan.event.parts[1] == leak(50 * D, target.relation)


def test_one_record_moves_the_sum_by_at_most_the_clip() -> None:
    """Neighbours by brute force: the integer sums that noise is added to differ by at most the integer clip."""
    from deniable.learning.optimizers.base import clipped_sum, gradient_grid

    data = classification(200)
    unit, bound, _ = gradient_grid(0.2)
    for loss in (losses.Logistic(), losses.Squared(), losses.Hinge(), losses.Distance()):
        task = Task(loss, D, BOTH[0], size=200)
        theta = np.full(D, 0.7)
        whole = clipped_sum(data, task, theta, unit=unit, bound=bound)
        for drop in range(0, 200, 9):
            kept = np.delete(np.arange(200), drop)
            other = clipped_sum(data.take(kept), task, theta, unit=unit, bound=bound)
            assert sum(int(x) ** 2 for x in whole - other) <= bound**2


# stochastic gradient descent


def test_sgd_meets_its_target_by_the_accountant() -> None:
    from deniable.accounting.accountant import account

    for norm in (1, 2):
        for target in BOTH:
            plan = SGD(steps=30, rate=0.2, norm=norm).plan(Task(SMOOTH, D, target, size=N))
            assert 1.999 < account(plan.event).epsilon(1e-5) <= 2
            step = plan.event.parts[0].event if norm == 2 else plan.event.event
            assert step.rate == Fraction(1, 5)
            assert step.event.sensitivity == step.event.scale / plan.ratio


def test_l1_gradients_are_as_short_as_promised() -> None:
    from deniable.learning.optimizers.sgd import COARSE, _clipped_in_l1

    data = classification(40)
    for loss in (losses.Logistic(), losses.Distance()):
        task, theta = Task(loss, D, BOTH[0], size=40), np.full(D, 0.4)
        whole = _clipped_in_l1(data, task, theta, clip=0.3)
        for drop in range(40):
            other = _clipped_in_l1(data.take(np.delete(np.arange(40), drop)), task, theta, clip=0.3)
            assert np.abs(whole - other).sum() <= COARSE


def test_an_empty_batch_still_moves() -> None:
    """Without a single record the noise alone is released, step by step."""
    nobody = Data(Table.place(np.zeros((0, D)), norm=1.0), np.zeros(0))
    for norm in (1, 2):
        plan = SGD(steps=30, rate=0.2, norm=norm).plan(Task(SMOOTH, D, BOTH[0], size=N))
        assert (plan.run(nobody, source=InsecureSource(1)) != 0).all()


# minimisers


def test_minimiser_is_certified() -> None:
    data = classification()
    theta = minimise(data, SMOOTH, strength=2.0, slope=np.zeros(D), tolerance=1e-7)
    gradient = data.table.points().T @ SMOOTH.residuals(data.table.points() @ theta, data.labels) + 2.0 * theta
    assert np.linalg.norm(gradient) <= 1e-7


def test_an_unreachable_tolerance_releases_nothing() -> None:
    with pytest.raises(NotSupported, match="nothing was released"):
        minimise(classification(), SMOOTH, strength=2.0, slope=np.zeros(D), tolerance=1e-16)


def test_minimisers_of_neighbours_are_as_close_as_promised() -> None:
    """Sensitivity L/λ, on the neighbours of a small data set; nearly attained by the worst of them."""
    generator = np.random.default_rng(1)
    rows = np.vstack([generator.normal(size=(20, 2)), [[1.0, 0.0]]])
    data = Data(Table.place(rows, norm=1.0), np.where(np.arange(21) % 2, 1.0, -1.0))
    strength = 3.0
    full = minimise(data, SMOOTH, strength=strength, slope=np.zeros(2), tolerance=1e-9)

    def moved(i: int) -> float:
        others = data.take(np.delete(np.arange(21), i))
        return float(
            np.linalg.norm(full - minimise(others, SMOOTH, strength=strength, slope=np.zeros(2), tolerance=1e-9))
        )

    moves = [moved(i) for i in range(21)]
    assert 0.1 / strength < max(moves) <= 1 / strength


def test_output_noise_covers_tolerance_and_grid() -> None:
    plan = OutputPerturbation(strength=10.0).plan(Task(SMOOTH, D, BOTH[0], size=N))
    assert plan.step * plan.bound >= (1 + 2 * plan.tolerance) / 10.0 + math.sqrt(D) * plan.step
    pure = OutputPerturbation(strength=10.0).plan(Task(SMOOTH, D, PureDP(0.5), size=N))
    assert isinstance(pure.event, DiscreteLaplace)
    assert pure.event.sensitivity / pure.event.scale == Fraction(1, 2)
    assert pure.event.sensitivity >= math.sqrt(D) * pure.bound


# objective perturbation


def objective_delta(epsilon: float, *, m: float, c: float) -> float:
    """E(1 − e^{ε−U})₊ with U = c + m²/2 + m|Z|, by quadrature: the bound's own definition, not its closed form."""
    z = np.linspace(0, 40, 400_001)
    density = 2 * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    loss = c + m * m / 2 + m * z
    return float(np.sum(np.maximum(0.0, -np.expm1(epsilon - loss)) * density) * (z[1] - z[0]))


@pytest.mark.parametrize(("epsilon", "delta", "strength"), [(0.2, 1e-6, 20.0), (1.0, 1e-5, 2.0), (4.0, 1e-9, 0.5)])
def test_objective_noise_meets_its_target(epsilon: float, delta: float, strength: float) -> None:
    scale = noise_scale(ApproxDP(epsilon, delta), lipschitz=1.0, smoothness=0.25, strength=strength)
    c = math.log1p(0.25 / strength)
    assert objective_delta(epsilon, m=1 / scale, c=c) <= delta * (1 + 1e-6)
    assert objective_delta(epsilon, m=1.01 / scale, c=c) > delta


def test_objective_perturbation_in_one_dimension_by_integration() -> None:
    """The density of the exact minimiser, on neighbours, integrated: its δ is below that of the bound."""
    s, strength, grid = 1.5, 1.0, np.linspace(-14, 14, 20_001)

    def density(records: list[tuple[float, float]]) -> np.ndarray:
        # b = −(Σ y x φ'(…) + λθ): the density of θ is that of b times |db/dθ|.
        slope = strength * grid
        bend = np.full(grid.shape, strength)
        for x, y in records:
            slope = slope + x * SMOOTH.residuals(x * grid, np.full(grid.shape, y))
            bend = bend + x * x * SMOOTH.curvatures(x * grid, np.full(grid.shape, y))
        return np.exp(-(slope**2) / (2 * s * s)) / (s * math.sqrt(2 * math.pi)) * bend

    base = [(1.0, 1.0), (0.5, -1.0), (-0.8, 1.0)]
    step = grid[1] - grid[0]
    c, m = math.log1p(0.25 / strength), 1 / s
    worst = 0.0
    for extra in ((1.0, 1.0), (1.0, -1.0), (0.4, 1.0), (-1.0, -1.0)):
        p, q = density(base), density([*base, extra])
        assert p.sum() * step == pytest.approx(1, abs=1e-4)
        for epsilon in (0.4, 0.8, 1.5):
            found = max(np.maximum(0, a - math.exp(epsilon) * b).sum() * step for a, b in ((p, q), (q, p)))
            assert found <= objective_delta(epsilon, m=m, c=c) * (1 + 1e-6)
            worst = max(worst, found / objective_delta(epsilon, m=m, c=c))
    assert worst > 0.1  # the bound is not empty


def test_objective_event_adds_up_to_the_target() -> None:
    for target in BOTH:
        plan = ObjectivePerturbation().plan(Task(SMOOTH, D, target, size=N))
        claimed, last = plan.event.parts[0], plan.event.parts[1]
        assert isinstance(claimed, Claimed)
        assert isinstance(last, Gaussian)
        share = ApproxDP(target.epsilon - claimed.guarantee.epsilon, target.delta - claimed.guarantee.delta)
        assert last.scale / last.sensitivity >= multiplier(share, draws=3 * D)
        assert plan.apart >= 2 * plan.tolerance / plan.strength


def test_under_replace_the_objective_pays_for_two_steps() -> None:
    one = ObjectivePerturbation(strength=5.0).plan(Task(SMOOTH, D, BOTH[0], size=N))
    two = ObjectivePerturbation(strength=5.0).plan(Task(SMOOTH, D, BOTH[1], size=N))
    assert two.scale > 1.9 * one.scale


# the textbook theorem


def test_textbook_constants() -> None:
    n, d, epsilon, delta, radius = 400, 3, 1.0, 1e-4, 0.5
    task = Task(losses.Hinge(), d, ApproxDP(epsilon, delta, relation=REPLACE), size=n, radius=radius)
    plan = TextbookGradientDescent().plan(task)
    spread = math.log(1 / delta)
    assert plan.steps == math.ceil(n**2 * epsilon**2 / (32 * d * spread))
    assert float(plan.ratio) / n == pytest.approx(4 * math.sqrt(plan.steps * spread) / (epsilon * n), rel=1e-5)
    inside = 2 * plan.steps + 32 * d * plan.steps**2 * spread / (epsilon * n) ** 2
    assert plan.rate == pytest.approx(2 * radius / math.sqrt(inside))
    assert plan.risk == pytest.approx(8 * 2 * radius * math.sqrt(d * spread) / (epsilon * n))
    # Its noise is enough for (ε, δ), with room to spare.
    assert float(plan.ratio) / 2 > float(multiplier(task.target, steps=plan.steps, draws=plan.steps * d))


def test_textbook_stays_below_its_bound() -> None:
    data = classification(300)
    task = Task(losses.Hinge(), D, ApproxDP(1, 1e-4, relation=REPLACE), size=300, radius=1.0)
    plan = TextbookGradientDescent().plan(task)
    best = min(
        float(np.mean(task.linear.values(data.table.margins(np.array([np.cos(a), np.sin(a), 0, 0])), data.labels)))
        for a in np.linspace(0, 2 * np.pi, 100)
    )
    found = np.mean(task.linear.values(data.table.margins(plan.run(data, source=InsecureSource(1))), data.labels))
    assert found - best < plan.risk


# phases


def test_blocks_cover_every_record_once() -> None:
    for size in (2, 3, 17, 1000):
        assert sorted(i for block in blocks(size) for i in range(block.start, block.stop)) == list(range(size))
        assert blocks(size)[0] == slice(0, max(1, size // 2))


@pytest.mark.parametrize("stepwise", [True, False])
def test_phases_move_no_further_than_promised(stepwise: bool) -> None:
    """Neighbours by brute force: a block's answer moves by at most the distance that its noise is set to."""
    method: Method = PhasedSGD() if stepwise else Localisation()
    plan = method.plan(Task(SMOOTH, D, SWAP, size=64, radius=3.0))
    data, eta, centre = classification(64), 0.9, np.full(D, 0.2)
    work = plan._pass if stepwise else plan._minimum
    found, apart = work(data, centre, eta)
    far = 0.0
    for swap in range(0, 64, 5):
        rows = data.table.rows.copy()
        labels = data.labels.copy()
        rows[swap], labels[swap] = -rows[swap], labels[swap]
        other, _ = work(Data(Table(rows, data.table.lengths, D), labels), centre, eta)
        far = max(far, float(np.linalg.norm(found - other)))
    assert far <= apart
    assert apart == pytest.approx((2 if stepwise else 1) * eta, rel=1e-5)


# sums and moments


def test_moments_are_exact_and_bounded() -> None:
    from deniable.learning.optimizers.statistics import _moments
    from deniable.learning.table import ONE

    generator = np.random.default_rng(5)
    data = Data(Table.place(generator.normal(size=(60, 3)), norm=1.0), generator.uniform(-1.5, 1.5, size=60))
    vectors = np.column_stack([data.table.rows, np.trunc(np.clip(data.labels, -1, 1) * ONE)]).astype(int).tolist()
    exact = [[sum(v[i] * v[j] for v in vectors) for j in range(4)] for i in range(4)]
    assert _moments(data).tolist() == exact
    assert all(sum(x * x for x in v) <= 2 * ONE * ONE for v in vectors)
    upper = np.triu_indices(4)
    for v, w in pairwise(vectors):
        one, two = np.outer(v, v)[upper].astype(float), np.outer(w, w)[upper].astype(float)
        assert np.linalg.norm(one) <= 2 * ONE * ONE
        assert np.linalg.norm(one - two) <= 2 * ONE * ONE * math.sqrt(2)


def test_statistics_solve_least_squares() -> None:
    generator = np.random.default_rng(6)
    rows = generator.normal(size=(40_000, 2)) * 0.4
    labels = rows @ np.array([0.5, -0.3])
    data = Data(Table.place(rows, norm=2.0), labels)
    plan = SufficientStatistics().plan(Task(losses.Squared(), 2, ApproxDP(5, 1e-5), size=40_000))
    assert plan.run(data, source=InsecureSource(1)) / 2 == pytest.approx([0.5, -0.3], abs=0.03)


def test_leaks_add_up() -> None:
    assert leak(7, ADD_REMOVE).guarantee.delta == 7 * LEAK


def test_hyperparameters_are_checked() -> None:
    for wrong in (
        lambda: GradientDescent(steps=0),
        lambda: GradientDescent(clip=-1.0),
        lambda: GradientDescent(momentum=1.0),
        lambda: OutputPerturbation(strength=0.0),
        lambda: ObjectivePerturbation(strength=-1.0),
        lambda: SGD(norm=3),
        lambda: SGD(rate=0.0),
        lambda: FrankWolfe(steps=0),
        lambda: FrankWolfe(radius=0.0),
        lambda: LastIterate(rest=-1),
        lambda: PhasedSGD(scale=0.0),
        lambda: SufficientStatistics(shrink=0.0),
    ):
        with pytest.raises(InvalidArgument):
            wrong()


# noise and event say the same


@pytest.mark.parametrize("target", BOTH, ids=["add_remove", "replace"])
def test_sums_and_moments_scale_their_noise_with_the_relation(target: ApproxDP) -> None:
    swapped = target.relation is REPLACE
    mean = NoisySum().plan(Task(losses.HalfSquare(), D, target, size=N))
    assert mean.ratio == (2 if swapped else 1) * multiplier(target, draws=D)
    assert mean.event.parts[0].sensitivity == (2 if swapped else 1)
    draws = (D + 1) * (D + 2) // 2
    moments = SufficientStatistics().plan(Task(losses.Squared(), D, target, size=N))
    assert float(moments.ratio) >= (math.sqrt(2) if swapped else 1) * float(multiplier(target, draws=draws))
    assert moments.event.parts[0].scale == moments.ratio
    assert float(moments.event.parts[0].sensitivity) >= (math.sqrt(2) if swapped else 1)


@pytest.mark.parametrize("target", BOTH, ids=["add_remove", "replace"])
def test_frank_wolfe_draws_at_the_rate_of_its_event(target: ApproxDP, monkeypatch: pytest.MonkeyPatch) -> None:
    from deniable import noise
    from deniable.learning.optimizers.base import gradient_grid

    plan = FrankWolfe(steps=3, radius=2.0).plan(Task(SMOOTH, D, target, size=N))
    rates = []
    monkeypatch.setattr(noise, "race", lambda scores, *, rate, source: rates.append(rate) or 0)
    plan.run(classification(50))
    apart = (2 if target.relation is REPLACE else 1) * gradient_grid(1.0)[1]
    assert rates == [plan.event.event.epsilon / (2 * apart)] * 3
    rho = float(plan.event.event.epsilon) ** 2 * plan.event.count / 8
    assert 0.99 * float(target.epsilon) < rho + 2 * math.sqrt(rho * math.log(1e5)) <= float(target.epsilon)


def test_the_last_iterate_promises_what_its_noise_gives() -> None:
    plan = LastIterate(rest=99).plan(Task(SMOOTH, D, SWAP, size=N))
    rho = float(plan.event.guarantee.rho)
    assert rho >= 2 / (plan.scale**2 * 100)
    assert 1.99 < rho + 2 * math.sqrt(rho * math.log(1e5)) <= 2
