"""Stopping and going on: the same run, never more steps than the plan, never the same noise, never two at once."""

from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import deniable as dn
from deniable.deep import BallsAndBins, CyclicPoisson, FixedBatches, Observation, SeededGenerator, Trainer
from deniable.deep.checkpoint import AHEAD, Journal, written
from deniable.errors import DataError, DeniableError, FileError, FileExists, InvalidArgument, LedgerError, UnitMismatch
from tests.deep.models import cross_entropy, flat, ledger, network, plan, sgd, table


def dropping() -> nn.Module:
    """A model whose forward pass draws random numbers of its own."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3))


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.05)


def taken(trainer: Trainer, steps: int) -> Trainer:
    """Some steps."""
    batches = trainer.batches(table())
    for _ in range(steps):
        trainer.step(next(batches))
    return trainer


@pytest.mark.parametrize("sampling", [None, FixedBatches()])
@pytest.mark.parametrize("stop", [0, 5, 12])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, sampling: Any, stop: int) -> None:
    stated = plan(sampling=sampling)
    whole, model = dropping(), dropping()
    torch.manual_seed(9)
    Trainer(whole, adam(whole), cross_entropy, stated, generator=SeededGenerator(3)).fit(table())
    torch.manual_seed(9)
    first = taken(Trainer(model, adam(model), cross_entropy, stated, generator=SeededGenerator(3)), stop)
    first.save(tmp_path / "run.pt")
    first.close()
    torch.manual_seed(1234)
    again = dropping()
    torch.nn.init.zeros_(again[0].weight)  # type: ignore[index]
    second = Trainer.resume(tmp_path / "run.pt", again, adam(again), cross_entropy, generator=SeededGenerator(3))
    assert second.progress.step == stop
    assert second.plan == stated
    second.fit(table())
    assert second.progress.step == 12
    assert torch.equal(flat(again), flat(whole))


def test_steps_lost_in_a_crash_stay_spent(tmp_path: Path) -> None:
    """The journal is ahead of the checkpoint: what may have run is not run again."""
    seen: list[Observation] = []
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(steps=40), observers=[seen.append])
    taken(trainer, 2).save(tmp_path / "run.pt")
    taken(trainer, 3)
    trainer._journal.close()  # type: ignore[union-attr]  # the process dies here, at step 5
    fresh = network()
    resumed = Trainer.resume(tmp_path / "run.pt", fresh, sgd(fresh), cross_entropy, observers=[seen.append])
    assert 5 <= resumed.progress.step == 2 + AHEAD
    resumed.fit(table())
    assert resumed.progress.step == 40
    assert len(seen) == 5 + 40 - (2 + AHEAD) <= 40


def test_balls_stay_in_their_bins_over_a_crash(tmp_path: Path) -> None:
    """Every unit is in one batch of every epoch of 40, whatever was lost."""
    seen: list[Observation] = []
    model = network()
    stated = plan(batch=5, steps=100, sampling=BallsAndBins())
    trainer = Trainer(model, sgd(model), cross_entropy, stated, observers=[seen.append])
    trainer.save(tmp_path / "run.pt")
    taken(trainer, 55)._journal.close()  # type: ignore[union-attr]  # the process dies here
    again = network()
    Trainer.resume(tmp_path / "run.pt", again, sgd(again), cross_entropy, observers=[seen.append]).fit(table())
    for epoch in range(3):
        steps = {each.step: each.units for each in seen if (each.step - 1) // 40 == epoch}
        drawn = [unit for units in steps.values() for unit in units]
        assert len(set(drawn)) == len(drawn)
        if epoch == 0:
            assert sorted(drawn) == list(range(200))


@pytest.mark.parametrize("sampling", [FixedBatches(), CyclicPoisson(parts=10)], ids=repr)
def test_a_crash_before_the_second_checkpoint_keeps_the_order(tmp_path: Path, sampling: Any) -> None:
    """The first checkpoint is written before the first step. A new order would let a unit take part too often."""
    seen: list[Observation] = []
    stated = plan(batch=5, steps=40, sampling=sampling)
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, stated, observers=[seen.append])
    trainer.save(tmp_path / "run.pt")
    taken(trainer, 15)._journal.close()  # type: ignore[union-attr]  # the process dies here
    again = network()
    Trainer.resume(tmp_path / "run.pt", again, sgd(again), cross_entropy, observers=[seen.append]).fit(table())
    # By chance a new order passes with probability below 1e-6: some 100 units would have to stay where they were.
    period = 40 if sampling == FixedBatches() else 10
    phases: dict[int, set[int]] = {}
    for each in seen:
        for unit in each.units:
            phases.setdefault(unit, set()).add(each.step % period)
    assert len(seen) == 15 + 40 - AHEAD
    assert {len(each) for each in phases.values()} == {1}
    if sampling == FixedBatches():
        drawn = [unit for each in seen for unit in each.units]
        assert len(set(drawn)) == len(drawn)


def test_a_checkpoint_without_its_order_is_refused(tmp_path: Path) -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(sampling=FixedBatches()))
    trainer.save(tmp_path / "run.pt")
    held = torch.load(tmp_path / "run.pt", weights_only=True)
    assert sorted(held["order"].tolist()) == list(range(200))
    torch.save({**held, "order": None}, tmp_path / "run.pt")
    trainer.close()
    Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy).close()  # no step has begun
    taken(Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy), 1).close()
    with pytest.raises(DataError, match="does not hold the order"):
        Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy)


def test_a_closed_trainer_is_over(tmp_path: Path) -> None:
    """Another process may have gone on: neither a step nor the journal may be set back."""
    model = network()
    first = Trainer(model, sgd(model), cross_entropy, plan(), run="one")
    batches = first.batches(table())
    first.step(next(batches))
    held = next(batches)
    first.save(tmp_path / "run.pt")
    first.close()
    first.close()
    other = Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy)
    other.fit(table(), checkpoint=tmp_path / "run.pt")
    other.close()
    ways: list[Any] = [
        lambda: first.save(tmp_path / "run.pt"), lambda: first.step(held), lambda: next(batches),
        lambda: first.batches(table()), lambda: first.fit(table()),
    ]  # fmt: skip
    for way in ways:
        with pytest.raises(DeniableError, match="is closed"):
            way()
    # A second run that has the same name and no ledger to tell them apart.
    second = Trainer(model, sgd(model), cross_entropy, plan(), run="one")
    for _ in range(2):
        with pytest.raises(LedgerError, match="12 steps of run 'one' have begun"):
            second.save(tmp_path / "run.pt")
    assert Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy).progress.step == 12


def test_a_journal_takes_back_only_what_it_wrote_ahead(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run.pt", run="one", create=True)
    journal.begin(1, last=40)
    assert journal.begun == AHEAD
    journal.mark(3)
    journal.close()
    journal = Journal(tmp_path / "run.pt", run="one", create=False)
    journal.begin(4, last=40)
    with pytest.raises(LedgerError, match="3 steps of run 'one' have begun"):
        journal.mark(2)
    journal.mark(3)
    journal.close()


def test_no_noise_is_repeated_after_a_resume(tmp_path: Path) -> None:
    seen: list[Observation] = []
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(), observers=[seen.append])
    taken(trainer, 3).save(tmp_path / "run.pt")
    trainer.close()
    Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy, observers=[seen.append]).fit(table())
    noises = [tuple((each.released["0.bias"] * 20 - each.clipped["0.bias"]).tolist()) for each in seen]
    assert len(set(noises)) == len(noises) == 12


def test_a_checkpoint_holds_no_key(tmp_path: Path) -> None:
    model = network()
    trainer = taken(Trainer(model, sgd(model), cross_entropy, plan()), 2)
    trainer.save(tmp_path / "run.pt")
    held = torch.load(tmp_path / "run.pt", weights_only=True)
    assert set(held) == {
        "deniable_checkpoint", "plan", "run", "step", "model", "optimizer", "order", "noise", "torch", "cuda", "charge",
        "measures", "after_step",
    }  # fmt: skip
    assert held["noise"] == {}


def test_a_finished_run_has_nothing_left(tmp_path: Path) -> None:
    model = network()
    Trainer(model, sgd(model), cross_entropy, plan()).fit(table(), checkpoint=tmp_path / "run.pt", every=5).close()
    resumed = Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy)
    assert list(resumed.batches(table())) == []


def test_two_cannot_go_on_with_one_run(tmp_path: Path) -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    trainer.save(tmp_path / "run.pt")
    with pytest.raises(LedgerError, match="another trainer"):
        Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy)
    trainer.close()
    Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy).close()


def test_whoever_is_refused_holds_nothing(tmp_path: Path) -> None:
    """A resume that fails after it took the journal gives it back: by the ledger, by the model, by the order."""
    book = ledger(tmp_path / "a.ledger")
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(), ledger=book, run="one")
    taken(trainer, 1).save(tmp_path / "run.pt")
    trainer.close()
    people = dn.Ledger.create(tmp_path / "b.ledger", unit="who", budget=dn.ApproxDP(9, 1e-4))
    with pytest.raises(UnitMismatch) as held:  # the exception keeps the trainer that was refused alive
        Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy, ledger=people)
    other = nn.Linear(2, 3)
    with pytest.raises(DataError, match="Missing key"):
        Trainer.resume(tmp_path / "run.pt", other, sgd(other), cross_entropy, ledger=book)
    resumed = Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy, ledger=book)
    assert resumed.progress.step == 1, held
    resumed.fit(table())


def test_a_trainer_that_nobody_can_reach_holds_nothing(tmp_path: Path) -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    trainer.save(tmp_path / "run.pt")
    del trainer
    gc.collect()
    Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy).close()


def test_the_journal_belongs_to_the_checkpoint(tmp_path: Path) -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    trainer.save(tmp_path / "run.pt")
    trainer.close()
    (tmp_path / "run.pt.journal").rename(tmp_path / "elsewhere")
    with pytest.raises(LedgerError, match="is missing"):
        Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy)
    (tmp_path / "run.pt.journal").write_text("{")
    with pytest.raises(LedgerError, match="cannot be read"):
        Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy)
    other = Trainer(model, sgd(model), cross_entropy, plan())
    other.save(tmp_path / "other.pt")
    other.close()
    os.replace(tmp_path / "other.pt.journal", tmp_path / "run.pt.journal")
    with pytest.raises(LedgerError, match="belongs to another run"):
        Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy)
    # A place where another run left its journal is not written over.
    os.replace(tmp_path / "elsewhere", tmp_path / "third.pt.journal")
    with pytest.raises(LedgerError, match="belongs to another run"):
        Trainer(model, sgd(model), cross_entropy, plan()).save(tmp_path / "third.pt")


def test_the_journal_is_on_disk_before_the_step(tmp_path: Path) -> None:
    """A loss that looks at the file while the step runs finds the step in it."""
    found: list[int] = []
    journal: Journal | None = None

    def looking(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if journal is not None:
            found.append(journal._read(create=False))
        return cross_entropy(output, y)

    model = network()
    trainer = Trainer(model, sgd(model), looking, plan(), sample=table(8))
    trainer.save(tmp_path / "run.pt")
    journal = trainer._journal
    for batch in trainer.batches(table()):
        trainer.step(batch)
        assert min(found) >= batch.step
        found.clear()


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    model = network()
    with pytest.raises(DataError, match="no checkpoint"):
        Trainer.resume(tmp_path / "none.pt", model, sgd(model), cross_entropy)
    (tmp_path / "text.pt").write_text("hello")
    with pytest.raises(DataError, match="is not a checkpoint"):
        Trainer.resume(tmp_path / "text.pt", model, sgd(model), cross_entropy)
    torch.save({"model": {}}, tmp_path / "plain.pt")
    with pytest.raises(DataError, match="is not a checkpoint"):
        Trainer.resume(tmp_path / "plain.pt", model, sgd(model), cross_entropy)


EDITS: dict[str, Any] = {
    **{f"without {name}": lambda held, name=name: held.pop(name) for name in (
        "plan", "run", "step", "order", "torch", "cuda", "charge", "noise", "model", "optimizer",
    )},
    **{f"{name} = {value!r}": lambda held, name=name, value=value: held.update({name: value}) for name, value in (
        ("plan", "{}"), ("plan", 3), ("run", 3), ("run", "another"), ("step", "2"), ("step", -1), ("step", 1.5),
        ("step", True), ("step", 99), ("torch", 3), ("torch", torch.zeros(3)), ("cuda", 3), ("charge", 3),
        ("noise", {"key": 1}), ("model", 3), ("model", {}), ("optimizer", 3), ("optimizer", {}),
        ("order", torch.arange(3)), ("order", torch.zeros(200, dtype=torch.int64)), ("order", torch.arange(200.0)),
        ("order", torch.arange(200)),
    )},
}  # fmt: skip


def test_an_edited_checkpoint_is_refused_in_a_sentence_and_holds_nothing(tmp_path: Path) -> None:
    """Also a plan with less noise, beside a ledger. The whole one goes on afterwards, and has paid once."""
    model, path = network(), tmp_path / "run.pt"
    book = ledger(tmp_path / "a.ledger", relation="replace", epsilon=1000)
    settings: dict[str, Any] = {"relation": "replace", "sampling": FixedBatches(), "steps": 10}
    trainer = Trainer(model, sgd(model), cross_entropy, plan(**settings), ledger=book)
    taken(trainer, 2).save(path)
    trainer.close()
    whole = path.read_bytes()
    weaker = {"weaker plan": lambda held: held.update(plan=plan(**settings, noise_multiplier=1).to_json())}
    for name, edit in {**EDITS, **weaker}.items():
        held = torch.load(path, weights_only=True)
        edit(held)
        torch.save(held, path)
        refused = network()
        try:
            Trainer.resume(path, refused, sgd(refused), cross_entropy, ledger=book)
        except DeniableError:
            path.write_bytes(whole)
        else:
            pytest.fail(name)
    again = network()
    for other, optimizer in ((nn.Sequential(nn.Linear(4, 3)), sgd), (network(), adam)):
        with pytest.raises(DataError, match="another model or another optimizer"):
            Trainer.resume(path, other, optimizer(other), cross_entropy, ledger=book)
    resumed = Trainer.resume(path, again, sgd(again), cross_entropy, ledger=book)
    assert (resumed.fit(table()).progress.step, len(list(book.charges()))) == (10, 1)
    resumed.close()


# with a ledger


def test_a_resume_does_not_pay_twice(tmp_path: Path) -> None:
    book = ledger(tmp_path / "a.ledger")
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(), ledger=book, run="one")
    taken(trainer, 3).save(tmp_path / "run.pt")
    trainer.close()
    with pytest.raises(InvalidArgument, match="ledger must be"):
        Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy)
    resumed = Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy, ledger=book)
    resumed.fit(table())
    assert [(each.key, each.event) for each in book.charges()] == [("one", plan().event)]
    assert "charged for the whole plan" in str(resumed.progress)


def test_the_charge_is_on_disk_before_the_first_row_is_read(tmp_path: Path) -> None:
    book = ledger(tmp_path / "a.ledger")
    x, y = table()
    charged: list[int] = []

    class Watching(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 200

        def __getitem__(self, row: int) -> Any:
            charged.append(len(list(dn.Ledger.open(tmp_path / "a.ledger").charges())))
            return x[row], y[row]

    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(steps=1), ledger=book, sample=table(2))
    assert not charged
    trainer.fit(Watching())
    assert charged
    assert min(charged) == 1


def test_without_a_sample_forms_are_read_then_the_plan_is_charged_then_rows_are_used(tmp_path: Path) -> None:
    book = ledger(tmp_path / "a.ledger")
    x, y = table()
    charged: list[int] = []

    class Watching(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 200

        def __getitem__(self, row: int) -> Any:
            charged.append(len(list(dn.Ledger.open(tmp_path / "a.ledger").charges())))
            return x[row], y[row]

    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(steps=1), ledger=book)
    assert list(book.charges()) == []
    batches = trainer.batches(Watching())
    assert charged == [0] * 16
    for batch in batches:
        trainer.step(batch)
    assert set(charged[16:]) == {1}


def test_a_paid_key_does_not_pay_for_a_second_run(tmp_path: Path) -> None:
    book = ledger(tmp_path / "a.ledger")
    model = network()
    Trainer(model, sgd(model), cross_entropy, plan(), ledger=book, run="one", sample=table(2))
    with pytest.raises(LedgerError, match="already paid"):
        Trainer(model, sgd(model), cross_entropy, plan(), ledger=book, run="one", sample=table(2))
    with pytest.raises(LedgerError, match="already paid"):
        Trainer(model, sgd(model), cross_entropy, plan(steps=3), ledger=book, run="one").batches(table())
    Trainer(model, sgd(model), cross_entropy, plan(), ledger=book, sample=table(2))
    assert len({each.key for each in book.charges()}) == 2


def test_a_plan_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    book = ledger(tmp_path / "a.ledger", epsilon=0.1)
    model = network()
    with pytest.raises(dn.errors.BudgetExceeded):
        Trainer(model, sgd(model), cross_entropy, plan(), ledger=book)


@pytest.mark.parametrize("generator", [SeededGenerator(1), dn.deep.PhiloxGenerator(1)])
def test_a_ledger_refuses_noise_that_can_be_predicted(tmp_path: Path, generator: Any) -> None:
    book = ledger(tmp_path / "a.ledger")
    model = network()
    with pytest.raises(InvalidArgument, match="secure where a ledger is charged"):
        Trainer(model, sgd(model), cross_entropy, plan(), ledger=book, generator=generator)
    assert list(book.charges()) == []


def test_a_ledger_about_people_takes_plans_about_people(tmp_path: Path) -> None:
    book = ledger(tmp_path / "a.ledger", unit="user_id")
    model = network()
    with pytest.raises(dn.errors.UnitMismatch, match='unit="user_id"'):
        Trainer(model, sgd(model), cross_entropy, plan(), ledger=book)
    Trainer(model, sgd(model), cross_entropy, plan(unit="user_id"), ledger=book).fit(table(), people=range(200))
    rows = ledger(tmp_path / "b.ledger")
    with pytest.raises(dn.errors.UnitMismatch):
        Trainer(model, sgd(model), cross_entropy, plan(unit="user_id"), ledger=rows)


def test_one_of_many_that_race_for_a_run_gets_it(tmp_path: Path) -> None:
    """Each opens the ledger for itself, as processes do; the ledger's own tests race with processes."""
    ledger(tmp_path / "a.ledger").close()
    start = threading.Barrier(6)

    def race(_: int) -> str:
        model = network()
        start.wait()
        try:
            Trainer(model, sgd(model), cross_entropy, plan(), ledger=tmp_path / "a.ledger", run="one").batches(table())
        except LedgerError as error:
            return "refused" if "already paid" in str(error) else str(error)
        return "paid"

    with ThreadPoolExecutor(6) as pool:
        said = sorted(pool.map(race, range(6)))
    assert said == ["paid"] + ["refused"] * 5
    assert len(list(dn.Ledger.open(tmp_path / "a.ledger").charges())) == 1


def test_an_unsaved_run_keeps_no_journal(tmp_path: Path) -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(steps=1)).fit(table())
    trainer.close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DeniableError):
        trainer.step(None)  # type: ignore[arg-type]


# files


def test_a_file_of_somebody_else_is_not_replaced_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    for content in (b"weights of another project", b""):
        path.write_bytes(content)
        with pytest.raises(FileExists, match=r"model\.pt exists already"):
            trainer.save(path)
        with pytest.raises(FileExists):
            trainer.fit(table(), checkpoint=path)
        with pytest.raises(FileExists):
            written(path, {"run": trainer.run})
        assert path.read_bytes() == content
        assert [each.name for each in tmp_path.iterdir()] == ["model.pt"], "no journal is begun either"
    assert trainer.progress.step == 0
    trainer.save(path, overwrite=True)
    trainer.fit(table(), checkpoint=path, every=5)  # its own by now
    trainer.close()
    assert Trainer.resume(path, model, sgd(model), cross_entropy).progress.step == 12


def test_a_checkpoint_of_another_run_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    model = network()
    first = Trainer(model, sgd(model), cross_entropy, plan())
    first.save(path)
    first.close()
    before = path.read_bytes()
    other = Trainer(model, sgd(model), cross_entropy, plan())
    with pytest.raises(FileExists):
        other.save(path)
    with pytest.raises(LedgerError, match="belongs to another run"):
        other.save(path, overwrite=True)  # its journal would be lost, and with it which steps have begun
    assert path.read_bytes() == before
    assert Trainer.resume(path, model, sgd(model), cross_entropy).progress.step == 0


def test_a_resumed_run_saves_over_its_own_checkpoint(tmp_path: Path) -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    taken(trainer, 2).save(tmp_path / "run.pt")
    trainer.close()
    again = Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy)
    taken(again, 1).save(tmp_path / "run.pt")
    assert torch.load(tmp_path / "run.pt", weights_only=True)["step"] == 3
    again.close()


def test_places_that_cannot_be_written_are_one_sentence(tmp_path: Path) -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    for place in ("nowhere/run.pt", "", "x" * 300):
        with pytest.raises(FileError):
            trainer.save(tmp_path / place)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_keeps_the_checkpoint_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    trainer.save(tmp_path / "run.pt")
    before = (tmp_path / "run.pt").read_bytes()

    def full(state: Any, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(torch, "save", full)
        with pytest.raises(FileError, match="the disk is full"):
            trainer.save(tmp_path / "run.pt")
    assert (tmp_path / "run.pt").read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run.pt", "run.pt.journal"]
    trainer.save(tmp_path / "run.pt")
