"""Correlated noise on two ranks is the noise of one device, and a rank that fails in a step is heard of by the other.

Two gloo ranks, started once; some 30 s. Every comparison but one is exact, of seeded runs; `test_the_noise_is_normal…`
alarms falsely less than once in 10⁶.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from deniable.deep import Trainer
from deniable.strategies import Strategy
from tests.deep.distributed.launching import read_job
from tests.deep.distributed.streams import STEPS, STRATEGIES, network
from tests.deep.models import cross_entropy, sgd, table

pytestmark = pytest.mark.xdist_group("ranks")
WAYS = ["replicated", "sharded"]
CLOSE = {"rtol": 1e-4, "atol": 2e-4}
"""For what is read off sums in single precision."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@pytest.fixture(scope="module")
def ranks(folder: Path) -> list[Any]:
    """What both ranks saw."""
    return read_job("streams", world=2, folder=folder, script="streams")


# the noise of one device


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [*STRATEGIES, "cyclic"])
def test_ranks_give_what_one_device_gives(ranks: list[Any], name: str, way: str) -> None:
    """With hardly any noise; batches by one seed."""
    for each in ranks:
        ours, alone = each["equal"][f"{name}, {way}"][0], ranks[0]["equal"][f"{name}, {way}"][1]
        torch.testing.assert_close(ours, alone, rtol=1e-4, atol=2e-6)
        assert torch.equal(ours, ranks[0]["equal"][f"{name}, {way}"][0])


def streamed(strategy: Strategy, drawn: list[Tensor]) -> Tensor:
    """The noise that one rank's fresh numbers become: a column for each number of the model that it draws for."""
    stream, rows = strategy.stream(), []
    for fresh in drawn:
        rows.append(stream.next(list(fresh.clone().view(stream.draws(), -1))).clone())
    return torch.stack(rows)


def in_order(noise: Tensor) -> Tensor:
    """Columns by their first number: which rank draws for which number of the model does not matter."""
    return noise[:, noise[0].argsort()]


def is_one_stream_for_each_number(strategy: Strategy, seen: list[Any]) -> bool:
    """Whether what was added to the sums over a run is, column by column, the stream of one rank's fresh numbers."""
    expected = torch.cat([streamed(strategy, each["drawn"]) for each in seen], dim=1)
    return all(
        each["added"].shape == expected.shape
        and torch.allclose(in_order(each["added"]), in_order(expected), **CLOSE)
        and torch.equal(each["parameters"], seen[0]["parameters"])
        for each in seen
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_number_has_one_stream_on_one_rank(ranks: list[Any], name: str, way: str) -> None:
    seen = [each["drawn"][f"{name}, {way}"] for each in ranks]
    assert seen[0]["added"].shape == (STEPS, 76)
    assert all(each["drawn"][0].numel() == 38 for each in seen)
    assert not torch.equal(seen[0]["drawn"][0], seen[1]["drawn"][0])
    assert is_one_stream_for_each_number(STRATEGIES[name], seen)


@pytest.mark.parametrize("how", ["exchanged", "twice", "late"])
def test_other_noise_would_be_seen(ranks: list[Any], how: str) -> None:
    """Ranks that exchange the numbers they draw for from step to step, that both draw for all, that draw late."""
    assert not is_one_stream_for_each_number(STRATEGIES["banded"], [each["broken"][how] for each in ranks])


@pytest.mark.parametrize("way", WAYS)
def test_the_noise_is_normal_of_the_stated_scale(ranks: list[Any], way: str) -> None:
    """From the secure generator. False alarm: 10⁻⁷ for the variance, 6·8·10⁻¹¹ for the correlations of four rows."""
    fresh = ranks[0]["measured"][way]
    below = stats.chi2.cdf(float(fresh.square().sum()), fresh.numel())
    assert 5e-8 < below < 1 - 5e-8
    assert float((torch.corrcoef(fresh) - torch.eye(4)).abs().max()) < 6.5 / fresh.shape[1] ** 0.5
    assert torch.equal(fresh, ranks[1]["measured"][way])


# checkpoints


def flat(vector: dict[str, Tensor]) -> Tensor:
    return torch.cat([each.reshape(-1) for each in vector.values()])


@pytest.mark.parametrize("way", WAYS)
def test_a_checkpoint_holds_the_memory_of_whole_parameters(ranks: list[Any], way: str) -> None:
    found = ranks[0]["resumed"][f"banded, {way}"]
    memory = found["saved"]["memory"]
    assert found["saved"]["step"] == 5
    assert [each.keys() for each in memory] == [dict(network().named_parameters()).keys()] * 3
    assert {name: each.shape for name, each in memory[0].items()} == {
        n: p.shape for n, p in network().named_parameters()
    }
    torch.testing.assert_close(flat(memory[0]).double(), found["added"], **CLOSE)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_resumed_run_equals_an_uninterrupted_one(ranks: list[Any], name: str, way: str) -> None:
    for each in ranks:
        found = each["resumed"][f"{name}, {way}"]
        assert torch.equal(found["parameters"], found["straight"])
        assert found["written"]["step"] == 5  # written again before another step: what was read
        for one, other in zip(found["saved"]["memory"], found["written"]["memory"], strict=True):
            assert torch.equal(flat(one), flat(other))
        assert found["last"] == {}  # a finished run remembers nothing


def test_one_process_goes_on_with_the_streams_of_two(ranks: list[Any], folder: Path) -> None:
    path, model = folder / "banded-replicated.pt", network()
    first = ranks[0]["resumed"]["banded, replicated"]
    found = torch.load(path, weights_only=True)
    torch.save({**found, "noise": first["saved"], "step": 5}, folder / "again.pt")
    (folder / "again.pt.journal").write_bytes((folder / "banded-replicated.pt.journal").read_bytes())
    (folder / "again.pt.journal").write_text(f'{{"run": "{found["run"]}", "begun": 5}}'.ljust(511) + "\n")
    trainer = Trainer.resume(folder / "again.pt", model, sgd(model), cross_entropy)
    trainer.step(next(trainer.batches(table())))
    (held,) = trainer._noising._held.values()  # type: ignore[attr-defined]
    assert held.stream.step == 6
    assert torch.equal(flat(held.memory()[1]), flat(first["saved"]["memory"][0]))
    trainer.close()


def test_ranks_resume_from_one_checkpoint(ranks: list[Any]) -> None:
    for each in ranks:
        assert "checkpoint must be the same on every rank" in each["other"]


def test_more_ranks_than_numbers(ranks: list[Any]) -> None:
    """One rank has nothing to draw, and takes part all the same."""
    for way in WAYS:
        assert torch.isfinite(ranks[0]["one"][way]).all()
        assert torch.equal(ranks[0]["one"][way], ranks[1]["one"][way])


# a rank that fails

HEARD = "DeniableError: rank 1 could not go on in the last step; see what it printed."


@pytest.mark.parametrize("where", ["loss", "noise"])
@pytest.mark.parametrize("kind", ["normal", "grid", "shares", "correlated"])
def test_a_step_that_fails_on_one_rank_fails_on_all(ranks: list[Any], kind: str, where: str) -> None:
    """Nobody waits for the rank, nothing private leaves it, no parameter moves, and the ranks can go on together."""
    first, last = (each["failed"][f"{kind}, {where}"] for each in ranks)
    assert first["said"][2].startswith(HEARD)
    assert last["said"][2] == ("MemoryError: a private value" if where == "loss" else "OSError: a private value")
    for each in (first, last):
        assert [*each["said"][:2], *each["said"][3:]] == ["nothing"] * (STEPS - 1)
        assert each["steps"] == STEPS
        assert torch.equal(each["parameters"][2], each["parameters"][1])
        assert torch.isfinite(each["parameters"][-1]).all()
        # One rank has forgotten what the other remembers: a checkpoint could not hold both.
        assert ("remember the noise of different steps" in each["remembered"]) == (kind == "correlated")
    assert all(map(torch.equal, first["parameters"], last["parameters"]))


@pytest.mark.parametrize("when", ["draw", "save", "end"])
def test_on_a_device_nothing_is_released_and_all_hear_of_it_at_the_next_wait(ranks: list[Any], when: str) -> None:
    first, last = (each["late"][when] for each in ranks)
    assert first["said"].startswith(HEARD)
    assert last["said"] == "MemoryError: a private value"
    assert first["steps"] == last["steps"] == (STEPS if when == "end" else 3)
    # A sum without the noise of the rank that failed would have been a release.
    assert torch.isnan(first["parameters"]).all()
    assert torch.isfinite(last["parameters"]).all()
    assert first["kept"]
