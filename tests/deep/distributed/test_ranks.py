"""Several processes train as one device does. Two and four gloo ranks, started once each; some 20 s on two cores.

Statistical tests alarm falsely once in 10⁷.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import deniable as dn
from deniable.deep import NoiseShares, SeededGenerator, Trainer
from deniable.errors import InvalidArgument
from deniable.events import Event, Gaussian, Repeated, Sampled
from tests.deep.distributed.launching import read_job, run_job
from tests.deep.models import cross_entropy, flat, network, plan, sgd, table

ALARM = 1e-7
pytestmark = pytest.mark.xdist_group("ranks")


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What every rank saw."""
    return read_job("all", world=request.param, folder=tmp_path_factory.mktemp("ranks"))


# Four ranks do less than two.
only_two = pytest.mark.parametrize("ranks", [2], indirect=True, scope="module")


def has_scale_one(numbers: Tensor) -> bool:
    """Whether normal numbers have variance 1: a two-sided χ² test."""
    values = numbers.double().numpy()
    below = stats.chi2.cdf(float((values**2).sum()), values.size)
    return bool(ALARM / 2 < below < 1 - ALARM / 2)


def test_ranks_give_what_one_device_gives(ranks: list[Any]) -> None:
    # The same seed drew the batches: some are too small for every rank to have a unit.
    small, seed = plan(batch=3, steps=10), SeededGenerator(7)
    draws = [
        small.sampling.draw(
            small.schedule, step=step, size=200, order=None, source=seed.source(step, purpose="sampling")
        )
        for step in range(10)
    ]
    assert any(each.size < len(ranks) for each in draws)
    assert any(each.size % len(ranks) for each in draws)
    for name, (_, alone) in ranks[0]["equal"].items():
        for each in ranks:
            # Sums of the same gradients in another order; two passes round differently once more.
            torch.testing.assert_close(each["equal"][name][0], alone, rtol=1e-4, atol=2e-6, msg=name)
            assert torch.equal(each["equal"][name][0], ranks[0]["equal"][name][0]), name


@pytest.mark.parametrize("kind", ["normal, replicated", "normal, sharded", "shares, replicated"])
def test_noise_is_drawn_once_at_the_planned_scale(ranks: list[Any], kind: str) -> None:
    assert has_scale_one(ranks[0]["noise"][kind])
    for each in ranks:
        assert torch.equal(each["noise"][kind], ranks[0]["noise"][kind])


@only_two
def test_grid_noise_too(ranks: list[Any]) -> None:
    assert has_scale_one(ranks[0]["noise"]["grid, replicated"])


@only_two
@pytest.mark.parametrize("kind", ["laplace, replicated", "laplace, sharded"])
def test_laplace_noise_too(ranks: list[Any], kind: str) -> None:
    values = ranks[0]["noise"][kind].abs()
    # Sums of |Laplace| are Gamma(n).
    assert ALARM / 2 < stats.gamma.cdf(float(values.sum()), values.numel()) < 1 - ALARM / 2


def test_no_two_ranks_draw_the_same_noise(ranks: list[Any]) -> None:
    drawn = ranks[0]["noise"]["seeded"]
    stretches = [part[:1000] for part in torch.tensor_split(drawn, len(ranks))]
    for at, one in enumerate(stretches):
        for other in stretches[:at]:
            together = float(np.corrcoef(one.numpy(), other.numpy())[0, 1])
            assert abs(together) < 6 / np.sqrt(1000)


@pytest.mark.parametrize("way", ["replicated", "sharded"])
def test_what_ran_is_the_event(ranks: list[Any], way: str) -> None:
    """One Poisson sample for all ranks, every unit on one rank, as many steps, one draw of noise for each number."""
    steps = 40 if len(ranks) == 2 else 15
    event = plan(batch=5, steps=steps, noise_multiplier=2, clip=0.5).event
    assert isinstance(event, Repeated)
    assert isinstance(event.event, Sampled)
    assert event.event.event == Gaussian(scale=2)
    seen = [each["instrumented"][way] for each in ranks]
    assert {each["steps"] for each in seen} == {event.count}
    assert all(each["units"] == seen[0]["units"] for each in seen)
    for step, units in enumerate(seen[0]["units"]):
        parts = [each["worked"][step] for each in seen]
        assert sorted(chain.from_iterable(parts)) == sorted(units)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    # Coins of bias 5/200, one for each of 200 units in each step.
    drawn = sum(map(len, seen[0]["units"]))
    assert stats.binomtest(drawn, 200 * steps, float(event.event.rate)).pvalue > ALARM
    assert has_scale_one(seen[0]["noise"])


def test_every_worker_adds_its_share(ranks: list[Any]) -> None:
    for each in ranks:
        assert has_scale_one(each["share"]["added"] * len(ranks) ** 0.5)


def test_workers_with_data_of_their_own_draw_by_themselves(ranks: list[Any]) -> None:
    assert any(each["own"]["units"] != ranks[-1]["own"]["units"] for each in ranks)
    for each in ranks:
        assert all(unit < each["own"]["rows"] for step in each["own"]["units"] for unit in step)
        assert torch.equal(each["own"]["parameters"], ranks[0]["own"]["parameters"])


def test_workers_who_are_not_trusted_learn_neither_counts_nor_sums(ranks: list[Any]) -> None:
    """Under ADD_REMOVE how many units a worker has is private, and so is a sum before its noise."""
    for each in ranks:
        assert set(each["own"]["said"]) == {None}  # that opening and checking the data went well
        for units, length in zip(each["own"]["units"], each["own"]["longest"], strict=True):
            assert length <= len(units) * (1 + 1e-5)  # nobody else's units are in what an observer sees


@only_two
def test_a_run_is_charged_once_and_refused_on_every_rank(ranks: list[Any]) -> None:
    for rank, each in enumerate(ranks):
        paid = each["charged"]
        assert paid["run"] == "first"
        assert "charged for the whole plan" in paid["progress"]
        who = "" if rank == 0 else "rank 0 could not go on: "
        assert f"{who}run='first' is already paid for (row 1)" in paid["again"]
        assert f"{who}the request does not fit" in paid["huge"]
        assert "secure where a ledger is charged" in paid["insecure"]


@only_two
def test_refusals_are_the_same_on_every_rank(ranks: list[Any]) -> None:
    expected = {
        "plans": "plan must be the same on every rank",
        "data": "dataset must be the same rows in the same order on every rank",
        "rows": "give each rank the whole data set, not a shard of it",
        "shares": "for as many workers as there are",
        "leak": "one example changes the gradients of the others",
        "leak, sharded": "one example changes the gradients of the others",
        "reading": "the same rows in the same order on every rank",
        "compile": "clipped eagerly",
        "vmap": "clipped eagerly",
        "grid": "needs a whole model on every rank",
    }
    for each in ranks:
        assert each["refusals"].keys() == {*expected, "file"}
        for name, words in expected.items():
            assert words in each["refusals"][name], name


@only_two
def test_an_error_of_any_kind_on_one_rank_is_one_on_all(ranks: list[Any]) -> None:
    """Nobody waits for a rank that failed, and what is private in an error stays on its rank."""
    first, last = (each["refusals"] for each in ranks)
    assert first["file"].startswith("FileError: there is no folder")
    assert last["file"].startswith("DeniableError: rank 0 could not go on: there is no folder")
    assert not any("a private value" in words for each in ranks for words in each["refusals"].values())


@only_two
@pytest.mark.parametrize("way", ["replicated", "sharded"])
def test_a_resumed_run_goes_on(ranks: list[Any], way: str) -> None:
    for each in ranks:
        found = each["resumed"][way]
        assert found["at"] == 6
        torch.testing.assert_close(found["parameters"], found["straight"], rtol=1e-3, atol=1e-4)


def test_a_rank_that_dies_leaves_a_right_ledger(tmp_path: Path) -> None:
    """One rank is killed: the run stops, it stays paid for, and one process can go on with it without paying again."""
    codes, said = run_job("died", world=2, folder=tmp_path)
    assert codes[1] == -9
    assert codes[0] not in (0, -9)
    assert "should have died" not in said[0]
    with dn.Ledger.open(tmp_path / "run.ledger") as ledger:
        assert ledger.verify().seq == 1
        (charge,) = ledger.charges()
        assert charge.key == "the one"
        assert charge.event == plan(steps=40).event
        model = network()
        trainer = Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy, ledger=ledger)
        # Four steps were taken and the journal is written some steps ahead: none is taken twice.
        assert 5 <= trainer.progress.step < 40
        trainer.fit(table())
        trainer.close()
        assert trainer.progress.step == 40
        assert ledger.verify().seq == 1


# plans, in one process


def test_the_event_of_shares_is_what_honest_workers_add() -> None:
    for workers, dishonest, scale in ((4, 0, 3), (4, 3, 1.5), (1, 0, 3), (100, 36, 2.4)):
        stated = plan(noise_multiplier=3, noise=NoiseShares(workers, dishonest))
        assert stated.event == plan(noise_multiplier=scale).event
    stated = plan(noise_multiplier=3, noise=NoiseShares(3, 1))
    scale = stated.event.event.event.scale  # type: ignore[attr-defined]
    assert 9 * 2 / 3 - scale**2 < 1e-4
    assert scale**2 <= 9 * 2 / 3
    assert dn.deep.Plan.from_json(stated.to_json()) == stated


def test_a_target_holds_against_dishonest_workers() -> None:
    target = dn.ApproxDP(2, 1e-5)
    usual: dict[str, Any] = {"size": 1000, "batch": 50, "steps": 100, "clip": 1, "target": target}
    trusted = dn.deep.Plan(**usual)
    shared = dn.deep.Plan(**usual, noise=NoiseShares(4, 2))
    assert float(shared.noise_multiplier) == pytest.approx(float(trusted.noise_multiplier) * 2**0.5, rel=1e-5)
    assert shared.profile.epsilon(1e-5) <= 2
    # The event is what a ledger charges and an accountant bounds; both see the honest noise alone.
    assert Event.from_json(shared.event.to_json()) == shared.event


@pytest.mark.parametrize(("workers", "dishonest"), [(0, 0), (2, 2), (2, -1), (2, 0.5), (2, True)])
def test_shares_need_somebody_honest(workers: int, dishonest: int) -> None:
    with pytest.raises(InvalidArgument):
        NoiseShares(workers, dishonest)


def test_shares_are_refused_without_their_workers_and_without_poisson() -> None:
    model = network()
    with pytest.raises(InvalidArgument, match="as many workers as there are, 1"):
        Trainer(model, sgd(model), cross_entropy, plan(noise=NoiseShares(2, 0)))
    with pytest.raises(InvalidArgument, match="hold data of their own"):
        plan(
            noise=NoiseShares(2, 0), sampling=dn.deep.WithoutReplacement(), relation=dn.Relation.REPLACE
        )  # fmt: skip


def test_one_share_is_all_the_noise() -> None:
    one, other = network(), network()
    for model, kind in ((one, None), (other, NoiseShares(1, 0))):
        Trainer(model, sgd(model), cross_entropy, plan(noise=kind), generator=SeededGenerator(3)).fit(table())
    assert torch.equal(flat(one), flat(other))
