"""Every method: its preconditions, its event, its noise, and that it learns."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from deniable.errors import DataError, DeniableError, InvalidArgument, NotSupported
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
    RegularisedExponential,
    SufficientStatistics,
    Task,
    TextbookGradientDescent,
)
from deniable.learning.optimizers.phases import blocks
from deniable.learning.privacy import multiplier
from deniable.learning.table import IntegerTable
from deniable.noise import InsecureSource
from deniable.noise.discrete import LEAK
from deniable.units import REPLACE

N, D = 3000, 4
SWAP = ApproxDP(2, 1e-5, relation=REPLACE)
BOTH = [ApproxDP(2, 1e-5), SWAP]


def classification(n: int = N, d: int = D) -> Data:
    generator = np.random.default_rng(7)
    rows = generator.normal(size=(n, d))
    labels = np.where(rows[:, 0] + 0.3 * generator.normal(size=n) > 0, 1.0, -1.0)
    return Data(IntegerTable.place(rows, norm=2.0), labels)


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
    (ObjectivePerturbation(), PureDP(2), None),
    (ObjectivePerturbation(), PureDP(2, relation=REPLACE), None),
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


class SharpHinge(losses.Hinge):
    """A loss with a corner that nobody can round off."""

    def smoothed(self, width: float) -> losses.LinearLoss:
        return self


SHARP = SharpHinge()
SMOOTH, CORNER, JOINT, SQUARE = losses.Logistic(), losses.Hinge(), losses.Multinomial(3), losses.Squared()
ROUNDED = [
    (PhasedSGD(), SWAP),
    (Localisation(), SWAP),
    (OutputPerturbation(), BOTH[0]),
    (OutputPerturbation(), PureDP(2)),
]


@pytest.mark.parametrize(("method", "target"), ROUNDED, ids=lambda v: str(v)[:30])
def test_a_hinge_is_rounded_off_and_learned(method: Method, target: ApproxDP) -> None:
    """The width is fixed beforehand, and the risk is that of the hinge itself."""
    data = classification()
    plan = method.plan(Task(CORNER, D, target, size=N))
    assert isinstance(plan.task.loss, losses.SmoothedHinge)
    assert plan.task.loss.lipschitz == CORNER.lipschitz
    assert excess(plan.run(data, source=InsecureSource(3)), data, CORNER) < -0.02


REFUSALS = [
    (OutputPerturbation(), SQUARE, BOTH[0], None, "bounded set"),
    (OutputPerturbation(), SHARP, BOTH[0], None, "corners"),
    (OutputPerturbation(), losses.Distance(), BOTH[0], None, "linear model"),
    (ObjectivePerturbation(), JOINT, BOTH[0], None, "one margin"),
    (ObjectivePerturbation(), losses.SmoothedHinge(), BOTH[0], None, "twice differentiable"),
    (ObjectivePerturbation(), losses.Huber(), BOTH[0], None, "twice differentiable"),
    (ObjectivePerturbation(), SQUARE, BOTH[0], None, "bounded set"),
    (ObjectivePerturbation(strength=1e-4), SMOOTH, BOTH[0], None, "regularization"),
    (GradientDescent(), SMOOTH, PureDP(1), None, "delta"),
    (SufficientStatistics(), SMOOTH, BOTH[0], None, "least squares"),
    (NoisySum(), SMOOTH, BOTH[0], None, "mean"),
    (PhasedSGD(), SMOOTH, BOTH[0], None, "replace"),
    (PhasedSGD(), SHARP, SWAP, None, "not smooth"),
    (PhasedSGD(scale=100.0), SMOOTH, SWAP, None, "contractions"),
    (Localisation(), SQUARE, SWAP, None, "bounded set"),
    (LastIterate(), SMOOTH, BOTH[0], None, "replace"),
    (LastIterate(learning_rate=9.0), SMOOTH, SWAP, None, "contractions"),
    (LastIterate(learning_rate=2 / SMOOTH.smoothness), SMOOTH, SWAP, None, "contractions"),
    (SGD(), SMOOTH, PureDP(1), None, "delta"),
    (FrankWolfe(), SMOOTH, BOTH[0], None, "radius"),
    (FrankWolfe(), JOINT, BOTH[0], 1.0, "one margin"),
    (FrankWolfe(), CORNER, BOTH[0], 1.0, "not smooth"),
    (RegularisedExponential(), SMOOTH, BOTH[0], None, "at most 3"),
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


@pytest.mark.parametrize(
    "method",
    [FrankWolfe(), PhasedSGD(), Localisation(), LastIterate(), TextbookGradientDescent()],
    ids=lambda m: m.name,
)
def test_a_regularization_is_never_ignored(method: Method) -> None:
    method.plan(Task(SMOOTH, D, SWAP, size=N, radius=1.0))
    with pytest.raises(NotSupported, match="regularization"):
        method.plan(Task(SMOOTH, D, SWAP, size=N, radius=1.0, regularization=1.0))


# gradient descent


def test_gradient_descent_noise_is_tight_and_relation_aware() -> None:
    for target, factor in zip(BOTH, (1, 2), strict=True):
        plan = GradientDescent(steps=50).plan(Task(SMOOTH, D, target, size=N))
        ratio = multiplier(target, steps=50)
        assert plan.ratio == factor * ratio
        assert plan.event.event.scale / plan.event.event.sensitivity == ratio
        assert plan.event.count == 50


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
    from deniable.learning.optimizers.descent import COARSE, _sum_clipped_in_l1

    data = classification(40)
    for loss in (losses.Logistic(), losses.Distance()):
        task, theta = Task(loss, D, BOTH[0], size=40), np.full(D, 0.4)
        whole = _sum_clipped_in_l1(data, task, theta, clip=0.3)
        for drop in range(40):
            other = _sum_clipped_in_l1(data.take(np.delete(np.arange(40), drop)), task, theta, clip=0.3)
            assert np.abs(whole - other).sum() <= COARSE


def test_an_empty_batch_still_moves() -> None:
    """Without a single record the noise alone is released, step by step."""
    nobody = Data(IntegerTable.place(np.zeros((0, D)), norm=1.0), np.zeros(0))
    for norm in (1, 2):
        plan = SGD(steps=30, rate=0.2, norm=norm).plan(Task(SMOOTH, D, BOTH[0], size=N))
        assert (plan.run(nobody, source=InsecureSource(1)) != 0).all()


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
    assert float(plan.ratio) / 2 > float(multiplier(task.target, steps=plan.steps))


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


@pytest.mark.parametrize("method", [PhasedSGD(), Localisation()], ids=lambda m: m.name)
def test_phases_move_no_further_than_promised(method: PhasedSGD | Localisation) -> None:
    """Neighbours by brute force: a block's answer moves by at most the distance that its noise is set to."""
    task = Task(SMOOTH, D, SWAP, size=64, radius=3.0)
    data, eta, centre = classification(64), 0.9, np.full(D, 0.2)
    found, apart = method.work(data, task, centre, eta)
    far = 0.0
    for swap in range(0, 64, 5):
        rows = data.table.rows.copy()
        rows[swap] = -rows[swap]
        other, _ = method.work(Data(IntegerTable(rows, data.table.lengths, D), data.labels), task, centre, eta)
        far = max(far, float(np.linalg.norm(found - other)))
    assert far <= apart
    assert apart == pytest.approx((2 if isinstance(method, PhasedSGD) else 1) * eta, rel=1e-5)


@pytest.mark.parametrize("method", [PhasedSGD(), Localisation()], ids=lambda m: m.name)
def test_late_phases_keep_what_early_ones_found(method: Method) -> None:
    """Steps fall like 4⁻ᵖʰᵃˢᵉ, far below the float spacing of the centre: moves are placed on the grid, not centres."""
    n = 40_000
    rows = np.random.default_rng(2).normal(size=(n, 1))
    data = Data(IntegerTable.place(rows, norm=2.0), np.where(rows[:, 0] > 0, 1.0, -1.0))
    theta = method.plan(Task(SMOOTH, 1, SWAP, size=n)).run(data, source=InsecureSource(1))
    assert theta[0] > 1


def test_plans_for_public_sizes_refuse_other_sizes() -> None:
    for method in (PhasedSGD(), LastIterate()):
        with pytest.raises(DataError, match="records"):
            method.plan(Task(SMOOTH, D, SWAP, size=N)).run(classification(N - 1))


# sums and moments


def test_moments_are_exact_and_bounded() -> None:
    from deniable.learning.optimizers.statistics import second_moments
    from deniable.learning.table import ONE

    generator = np.random.default_rng(5)
    data = Data(IntegerTable.place(generator.normal(size=(60, 3)), norm=1.0), generator.uniform(-1.5, 1.5, size=60))
    labels = np.trunc(np.clip(data.labels, -1, 1) * ONE)
    vectors = np.column_stack([data.table.rows, labels]).astype(int).tolist()
    exact = [[sum(v[i] * v[j] for v in vectors) for j in range(4)] for i in range(4)]
    sums = second_moments(data, [labels])
    assert sums.second.tolist() == [row[:3] for row in exact[:3]]
    assert sums.products[0].tolist() == exact[3][:3]
    assert sums.squares.tolist() == [exact[3][3]]
    assert second_moments(data, [], diagonal=True).second.tolist() == [exact[i][i] for i in range(3)]
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
    data = Data(IntegerTable.place(rows, norm=2.0), labels)
    plan = SufficientStatistics().plan(Task(losses.Squared(), 2, ApproxDP(5, 1e-5), size=40_000))
    assert plan.run(data, source=InsecureSource(1)) / 2 == pytest.approx([0.5, -0.3], abs=0.03)


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
    assert mean.ratio == (2 if swapped else 1) * multiplier(target)
    assert mean.event.sensitivity == (2 if swapped else 1)
    moments = SufficientStatistics().plan(Task(losses.Squared(), D, target, size=N))
    assert float(moments.ratio) >= (math.sqrt(2) if swapped else 1) * float(multiplier(target))
    assert moments.event.scale == moments.ratio
    assert float(moments.event.sensitivity) >= (math.sqrt(2) if swapped else 1)


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
    claimed, last, leaked = plan.event.parts
    mu = float(claimed.guarantee.mu)
    assert mu >= 2 / (plan.scale * math.sqrt(100))
    assert last.scale / last.sensitivity == plan.ratio
    allowed = 1 / float(multiplier(SWAP))
    assert 0.9999 * allowed < math.hypot(mu, 1 / float(plan.ratio)) <= allowed
    assert leaked.guarantee.delta == 2 * (N + 99) * D * LEAK


def _exact_mu(*, factor: float, apart: float, size: int, place: int, rest: int, scale: float) -> float:
    """μ of the last iterate, given the iterate before the record at `place`, when a step multiplies by `factor`."""
    after = np.arange(place, size + rest)
    shrunk = np.where(after < size, factor, 1.0)  # steps without data do not contract
    kept = np.append(np.cumprod(shrunk[::-1])[::-1][1:], 1.0)  # what later steps leave of a step's noise
    return float(apart * kept[0] / (scale * math.sqrt((kept**2).sum())))


def test_the_last_iterate_keeps_its_trade_off_where_it_is_normal() -> None:
    """Quadratic losses (x − s)²/2 on [−1, 1], L = 2, s moved by 2: below 2L/(s√k) for every place in the pass.

    Linear losses do not contract and their gradients may be 2L apart: there the theorem is an equality.
    """
    rest, scale, lipschitz = 6, 1.5, 2.0
    promised = 2 * lipschitz / (scale * math.sqrt(rest + 1))
    for size in (1, 5, 20):
        for place in range(size):
            known = {"size": size, "place": place, "rest": rest, "scale": scale}
            assert _exact_mu(factor=0.7, apart=2.0, **known) <= promised  # type: ignore[arg-type]
            linear = _exact_mu(factor=1.0, apart=2 * lipschitz, **known)  # type: ignore[arg-type]
            assert linear == pytest.approx(promised) if place == size - 1 else linear < promised
