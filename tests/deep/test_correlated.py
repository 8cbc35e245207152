"""Correlated noise in training: what ran is what was accounted for, it goes on after a stop, and nothing unproved runs.

About 10 s.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import deniable as dn
from deniable.deep import (
    CyclicPoisson,
    FixedBatches,
    LaplaceNoise,
    Observation,
    Plan,
    Poisson,
    SeededGenerator,
    Trainer,
    WithoutReplacement,
)
from deniable.deep.checkpoint import AHEAD
from deniable.deep.sampling import Schedule
from deniable.errors import DataError, DeniableError, InvalidArgument, NotSupported, UnitMismatch
from deniable.events import Gaussian, MatrixGaussian
from deniable.strategies import Banded, Buffered, Dense, Strategy, Toeplitz, Tree, once, optimal_banded, ordered, stored
from deniable.units import REPLACE, ZERO_OUT
from tests.deep.models import cross_entropy, flat, ledger, network, plan, sgd, table

STEPS = 12
STRATEGIES: list[Strategy] = [
    Tree(STEPS),
    Dense(np.tril(np.full((STEPS, STEPS), 0.3)) + np.eye(STEPS)),
    optimal_banded(ordered(STEPS, period=4), bands=4),
    Toeplitz.square_root(STEPS, bands=4),
    Buffered(decays=[0.9, 0.5], weights=[0.2, 0.3], steps=STEPS),
]


def correlated(strategy: Strategy, **changed: Any) -> Plan:
    """Twelve steps, three epochs of four batches."""
    return plan(**{"noise": strategy, "batch": 50, **changed})


def noises(trained: list[Observation]) -> np.ndarray:
    """What was added to every sum, as rows; 50 is the expected batch."""
    return np.array(
        [
            np.concatenate(
                [(50 * seen.released[n].double() - s.double()).reshape(-1).numpy() for n, s in seen.clipped.items()]
            )
            for seen in trained
        ]
    )


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_what_ran_is_what_was_accounted_for(strategy: Strategy) -> None:
    """White box: C times the noise that was added is the independent noise whose scale the event states."""
    stated, model = correlated(strategy), network()
    seen: list[Any] = []
    Trainer(model, sgd(model), cross_entropy, stated, generator=SeededGenerator(7), observers=[seen.append]).fit(
        table()
    )
    added, size = noises(seen), sum(p.numel() for p in model.parameters())
    stream, drawn, generator = strategy.stream(), [], SeededGenerator(7)
    expected = []
    for step in range(STEPS):
        many = stream.draws()
        fresh = generator.noise("normal", many * size, scale=2.0, step=step, device="cpu").double().view(many, size)
        drawn += list(fresh.numpy().copy())
        expected.append(stream.next(list(fresh)).numpy())
    np.testing.assert_allclose(added, expected, atol=2e-4)
    if strategy.rows == STEPS:
        np.testing.assert_allclose(strategy.matrix() @ added, drawn, atol=1e-3)
    # The event: scale of those draws, sensitivity of that matrix in this order, and every unit as often as it says.
    event = stated.event
    assert isinstance(event, MatrixGaussian)
    assert (event.scale, event.relation) == (2, ZERO_OUT)
    gram = strategy.matrix().T @ strategy.matrix()
    per_unit: dict[int, list[int]] = {}
    for each in seen:
        for unit in each.units:
            per_unit.setdefault(unit, []).append(each.step - 1)
    reached = max(float(gram[np.ix_(steps, steps)].sum()) for steps in per_unit.values()) ** 0.5
    assert float(event.sensitivity) == pytest.approx(reached, rel=1e-8)
    assert float(event.sensitivity) >= reached
    assert all(len(s) <= event.participations and min(np.diff(s)) >= event.separation for s in per_unit.values())


def test_the_draws_are_normal_of_the_stated_scale() -> None:
    # 12 × 20 000 numbers: their variance is within 2 % but with probability below 1e-6 (normal quantile 4.9).
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4000)
    seen: list[Observation] = []
    strategy = STRATEGIES[3]
    loss = lambda output, y: output.square().sum(1)  # noqa: E731
    Trainer(model, sgd(model), loss, correlated(strategy, clip=0.5), observers=[seen.append]).fit(table())
    fresh = strategy.matrix() @ noises(seen)
    assert np.var(fresh) == pytest.approx(1.0, rel=0.02)
    # Rows are uncorrelated: the largest of 66 sample correlations of 20 000 pairs stays below 6.5/√20 000.
    assert np.abs(np.corrcoef(fresh) - np.eye(STEPS)).max() < 6.5 / 20_000**0.5


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize("stop", [0, 1, 5, 12])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, strategy: Strategy, stop: int) -> None:
    stated = correlated(strategy)
    whole, model, again = network(), network(), network(seed=2)
    Trainer(whole, sgd(whole), cross_entropy, stated, generator=SeededGenerator(3)).fit(table())
    first = Trainer(model, sgd(model), cross_entropy, stated, generator=SeededGenerator(3))
    batches = first.batches(table())
    for _ in range(stop):
        first.step(next(batches))
    first.save(tmp_path / "run.pt")
    first.close()
    second = Trainer.resume(tmp_path / "run.pt", again, sgd(again), cross_entropy, generator=SeededGenerator(3))
    assert second.plan == stated
    second.fit(table())
    assert torch.equal(flat(again), flat(whole))


@pytest.mark.parametrize("strategy", [Tree(40), Toeplitz.square_root(40, bands=10)], ids=repr)
def test_lost_steps_stay_spent_and_their_noise_is_forgotten(tmp_path: Path, strategy: Strategy) -> None:
    stated, model, again = plan(noise=strategy, steps=40), network(), network()
    seen: list[Observation] = []
    first = Trainer(model, sgd(model), cross_entropy, stated, observers=[seen.append])
    batches = first.batches(table())
    for _ in range(2):
        first.step(next(batches))
    first.save(tmp_path / "run.pt")
    for _ in range(3):
        first.step(next(batches))
    first._journal.close()  # type: ignore[union-attr]  # the process dies here, at step 5
    second = Trainer.resume(tmp_path / "run.pt", again, sgd(again), cross_entropy, observers=[seen.append])
    assert second.progress.step == 2 + AHEAD
    second.fit(table())
    assert len(seen) == 5 + 40 - (2 + AHEAD)
    (held,) = second._noising._held.values()  # type: ignore[attr-defined]
    assert held.stream.step == 40


def test_negative_entries_and_lost_steps_are_refused(tmp_path: Path) -> None:
    entries = np.tile([1.0, -0.5, 0.4], (40, 1))
    entries[-1, 1:] = entries[-2, 2] = 0
    stated, model, again = plan(noise=Banded(entries), steps=40, batch=100), network(), network()
    first = Trainer(model, sgd(model), cross_entropy, stated)
    batches = first.batches(table())
    first.step(next(batches))
    first.save(tmp_path / "run.pt")
    first.step(next(batches))
    first._journal.close()  # type: ignore[union-attr]
    second = Trainer.resume(tmp_path / "run.pt", again, sgd(again), cross_entropy)
    with pytest.raises(NotSupported, match="were lost in a crash"):
        second.fit(table())


def test_a_resumed_run_draws_fresh_noise(tmp_path: Path) -> None:
    """Two resumes of one checkpoint share its memory and nothing that is drawn after it."""
    strategy = STRATEGIES[3]
    model = network()
    first = Trainer(model, sgd(model), cross_entropy, correlated(strategy))
    first.step(next(first.batches(table())))
    first.save(tmp_path / "run.pt")
    first.close()
    found = []
    for _ in range(2):
        again = network()
        seen: list[Any] = []
        second = Trainer.resume(tmp_path / "run.pt", again, sgd(again), cross_entropy, observers=[seen.append])
        second.step(next(second.batches(table())))
        second._journal.mark(1)  # type: ignore[union-attr]  # a copy of both files, taken before
        second._journal.close()  # type: ignore[union-attr]
        found.append(noises(seen))
    assert np.abs(found[0] - found[1]).min() > 0


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_the_checkpoint_of_a_finished_run_has_no_memory(tmp_path: Path, strategy: Strategy) -> None:
    """With it, and the released sums, one could read the exact ones."""
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, correlated(strategy))
    for batch in trainer.batches(table()):
        trainer.step(batch)
        trainer.save(tmp_path / "run.pt")
        held = torch.load(tmp_path / "run.pt", weights_only=True)["noise"]
        assert bool(held) == (batch.step < STEPS)
    trainer.close()
    again = Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy)
    assert list(again.batches(table())) == []
    again.save(tmp_path / "run.pt")


def test_a_run_that_lost_its_last_steps_has_no_memory_either(tmp_path: Path) -> None:
    model = network()
    first = Trainer(model, sgd(model), cross_entropy, correlated(STRATEGIES[3]))
    batches = first.batches(table())
    first.step(next(batches))
    first.save(tmp_path / "run.pt")
    first.step(next(batches))
    first._journal.close()  # type: ignore[union-attr]  # dies; the journal was ahead up to the end
    second = Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy)
    assert second.progress.step == STEPS
    second.save(tmp_path / "run.pt")
    assert torch.load(tmp_path / "run.pt", weights_only=True)["noise"] == {}


@pytest.mark.parametrize("steps", [20, 4000])
def test_a_strategy_whose_inverse_grows_is_refused(tmp_path: Path, steps: int) -> None:
    """Its noise doubles every step: in 24 bits the fresh part is soon rounded away."""
    growing = Toeplitz([1.0, 2.0], steps)
    with pytest.raises(InvalidArgument, match="inverse does not grow"):
        plan(noise=growing, steps=steps)
    # A file in the cache is no way around it.
    run = once(steps)
    stored(lambda _: growing, run, folder=tmp_path)
    with pytest.raises(InvalidArgument, match="inverse does not grow"):
        plan(noise=stored(lambda _: Tree(steps), run, folder=tmp_path), steps=steps)


def test_why_a_growing_inverse_is_refused() -> None:
    """White box: after 40 steps C times the noise is no longer what was drawn; with a strategy of use it is."""
    for strategy, kept in ((Toeplitz([1.0, 2.0], 40), False), (Toeplitz.square_root(40, bands=10), True)):
        stream, drawn, made = strategy.stream(), torch.randn(40, 100), []
        for fresh in drawn:
            made.append(stream.next([fresh.clone()]).clone())
        error = torch.from_numpy(strategy.matrix()) @ torch.stack(made).double() - drawn
        assert (float(error.abs().max()) < 1e-4) is kept


def test_the_state_of_another_noise_is_refused() -> None:
    from deniable.deep.noising import noising

    runtime = noising(correlated(STRATEGIES[0]).noise, correlated(STRATEGIES[0]))
    with pytest.raises(DataError, match="not one that correlated noise wrote"):
        runtime.load({"cpu": {"step": 3, "memory": []}})
    sums = {"w": torch.zeros(4)}
    for memory, words in (
        ([sums], "one vector per node"),
        ([{"v": torch.zeros(4)}], "no noise for w"),
        ([{"w": torch.zeros(5)}], "another size"),
    ):
        runtime.load({"step": 3, "memory": memory})
        with pytest.raises(DataError, match=words):
            runtime.add(sums, step=3, generator=SeededGenerator(1))


# what belongs together


def test_samplings_without_a_theorem_are_refused() -> None:
    strategy = STRATEGIES[3]
    for sampling, changed in ((Poisson(), {"relation": ZERO_OUT}), (WithoutReplacement(), {"relation": REPLACE})):
        with pytest.raises(NotSupported, match="do not belong together"):
            correlated(strategy, sampling=sampling, **changed)
    for strategy in (Tree(STEPS), Toeplitz.square_root(STEPS), Toeplitz.square_root(STEPS, bands=4), STRATEGIES[4]):
        with pytest.raises(NotSupported, match="again after 3 steps"):
            correlated(strategy, sampling=CyclicPoisson(parts=3))
    with pytest.raises(InvalidArgument, match="12 steps of the plan"):
        correlated(Tree(STEPS + 1))
    with pytest.raises(UnitMismatch, match="ZERO_OUT"):
        correlated(strategy, relation=dn.ADD_REMOVE)
    with pytest.raises(UnitMismatch, match="ZERO_OUT"):
        correlated(strategy, target=dn.ApproxDP(1, 1e-5), noise_multiplier=None)
    with pytest.raises(InvalidArgument, match="at most 4"):
        correlated(Toeplitz.square_root(STEPS, bands=2), sampling=CyclicPoisson(parts=5))
    with pytest.raises(InvalidArgument, match="a strategy"):
        dn.deep.CorrelatedNoise("tree")  # type: ignore[arg-type]


def test_the_default_sampling_is_the_strategys() -> None:
    stated = correlated(STRATEGIES[0])
    assert (stated.sampling, stated.relation) == (FixedBatches(), ZERO_OUT)
    assert "sampling" not in repr(stated)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_json(strategy: Strategy) -> None:
    for sampling in (FixedBatches(), CyclicPoisson(parts=4)):
        if strategy.bands <= 4 or sampling == FixedBatches():
            stated = correlated(strategy, sampling=sampling)
            assert Plan.from_json(stated.to_json()) == stated
    changed = correlated(strategy).to_json().replace('"noise_multiplier": 2', '"noise_multiplier": 1')
    with pytest.raises(InvalidArgument, match="edited"):
        Plan.from_json(changed)


def test_calibrated_to_a_target(tmp_path: Path) -> None:
    target = dn.ApproxDP(3, 1e-5, relation=ZERO_OUT)
    strategy = Toeplitz.square_root(STEPS)
    stated = correlated(strategy, target=target, noise_multiplier=None)
    assert stated.profile.epsilon(delta=1e-5) <= 3
    assert stated.profile.epsilon(delta=1e-5) > 2.999
    model = network()
    book = ledger(tmp_path / "run.ledger", relation=ZERO_OUT)
    assert Trainer(model, sgd(model), cross_entropy, stated, ledger=book).fit(table()).progress.step == STEPS
    with pytest.raises(InvalidArgument, match="secure"):
        Trainer(model, sgd(model), cross_entropy, stated, ledger=book, generator=SeededGenerator(1))


def test_replacing_costs_twice() -> None:
    one, two = correlated(STRATEGIES[3]), correlated(STRATEGIES[3], relation=REPLACE, noise_multiplier=4)
    assert one.profile.epsilon(delta=1e-5) == pytest.approx(two.profile.epsilon(delta=1e-5))


# cyclic Poisson batches


def test_cyclic_batches() -> None:
    schedule, sampling = Schedule(size=1000, batch=Fraction(100), steps=40), CyclicPoisson(parts=8)
    order = np.random.default_rng(0).permutation(1000)
    drawn = [
        sampling.draw(schedule, step=t, size=1000, order=order, source=SeededGenerator(t).source(t, purpose="sampling"))
        for t in range(40)
    ]
    part_of = {int(unit): place % 8 for place, unit in enumerate(order)}
    assert all(part_of[int(unit)] == t % 8 for t, units in enumerate(drawn) for unit in units)
    assert all(len(set(units)) == len(units) for units in drawn)
    # 40 · 125 coins of 0.8: the total is within 4000 ± 150 but with probability below 1e-6 (deviation 28).
    assert abs(sum(map(len, drawn)) - 4000) < 150


def test_cyclic_event() -> None:
    strategy = optimal_banded(ordered(STEPS, period=4), bands=3)
    stated = correlated(strategy, batch=25, sampling=CyclicPoisson(parts=4))
    assert (
        stated.event == Gaussian(2, strategy.sensitivity(ordered(12, period=12)).value, ZERO_OUT).sampled(rate=0.5) * 3
    )
    whole = correlated(strategy, batch=50, sampling=CyclicPoisson(parts=4)).profile.epsilon(delta=1e-5)
    fixed = correlated(strategy, batch=50).profile.epsilon(delta=1e-5)
    assert whole == pytest.approx(fixed, rel=1e-3)  # rate 1: the same run, by two theorems
    replaced = correlated(strategy, batch=25, sampling=CyclicPoisson(parts=4), relation=REPLACE).event
    assert "reach=1" in repr(replaced)
    plain = plan(sampling=CyclicPoisson(parts=10))  # independent noise has one band
    assert plain.event == Gaussian(2, 1, ZERO_OUT).sampled(rate=Fraction(1)) * 2
    model = network()
    assert Trainer(model, sgd(model), cross_entropy, stated).fit(table()).progress.step == STEPS


def hockey_stick(means: np.ndarray, chances: np.ndarray, epsilon: float) -> float:
    """δ of a mixture of unit normals in the plane against the one at 0, both ways, on a grid."""
    line = np.linspace(-9, 9, 721)
    x, y = np.meshgrid(line, line)
    zero = np.exp(-(x**2 + y**2) / 2) / (2 * np.pi)
    mixed = sum(
        c * np.exp(-((x - m[0]) ** 2 + (y - m[1]) ** 2) / 2) / (2 * np.pi) for m, c in zip(means, chances, strict=True)
    )
    cell = (line[1] - line[0]) ** 2
    excess = (np.maximum(mixed - np.exp(epsilon) * zero, 0), np.maximum(zero - np.exp(epsilon) * mixed, 0))
    return float(max(part.sum() for part in excess) * cell)


def test_why_more_bands_than_parts_are_refused() -> None:
    """Two steps, a unit in each with probability ½: with columns that overlap the sampled event claims too little."""
    rate, coins = 0.5, [(0, 0), (0, 1), (1, 0), (1, 1)]
    chances = np.full(4, 0.25)
    for below, sound in ((0.0, True), (1.0, False)):
        matrix = np.array([[1.0, 0.0], [below, 1.0]])
        matrix /= np.linalg.norm(matrix, axis=0)
        claimed = dn.account(Gaussian(1, 1, ZERO_OUT).sampled(rate=rate) * 2)
        true = hockey_stick(np.array([matrix @ c for c in coins]), chances, 1.0)
        assert (true <= claimed.delta(epsilon=1.0) * (1 + 1e-4)) is sound  # the grid is right to 1e-5


def test_laplace_noise_stays_independent() -> None:
    with pytest.raises(DeniableError):
        Plan(size=200, batch=20, steps=12, clip=1, noise_multiplier=2, noise=Tree(12), sampling=LaplaceNoise())  # type: ignore[arg-type]
