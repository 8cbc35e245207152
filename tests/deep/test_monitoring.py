"""What is shown of a run, what follows a step, and that a killed run goes on as if nothing had happened."""

from __future__ import annotations

import os
import signal
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from deniable.deep import EarlyStopping, LossSeries, SeededGenerator, SeriesPoint, TensorBoardLogger, Trainer
from deniable.errors import InvalidArgument, NotSupported
from tests.deep.models import cross_entropy, flat, ledger, network, plan, sgd, table


class Kept:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, dict[str, float]]] = []

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.told.append((step, dict(values)))


def accuracy(model: nn.Module) -> dict[str, float]:
    x, y = table(seed=1)
    torch.rand(3)  # an evaluation that draws must not change the run
    assert not model.training
    return {"accuracy": float((model(x).argmax(1) == y).double().mean())}


def dropping() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))


def prepared(**changed: Any) -> tuple[nn.Module, Trainer]:
    """A run with everything that follows a step."""
    model = dropping()
    optimizer = sgd(model, momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=12)
    torch.manual_seed(5)
    trainer = Trainer(
        model, optimizer, cross_entropy, plan(series=LossSeries(bound=2)), scheduler=scheduler, ema=0.9,
        generator=SeededGenerator(3), **changed,
    )  # fmt: skip
    return model, trainer


def averages(trainer: Trainer, model: nn.Module) -> torch.Tensor:
    with trainer.averaged():
        return flat(model).clone()


# what is shown


def test_loggers_are_told_public_numbers_alone() -> None:
    kept = Kept()
    model, trainer = prepared()
    trainer.fit(table(), loggers=[kept], evaluate=accuracy, evaluate_every=5)
    assert [step for step, _ in kept.told] == list(range(1, 13))
    assert {name for _, values in kept.told for name in values} == {
        "learning_rate", "clip", "released/loss", "evaluation/accuracy",
    }  # fmt: skip
    assert [step for step, values in kept.told if "evaluation/accuracy" in values] == [5, 10, 12]
    assert [step for step, _ in trainer.evaluations] == [5, 10, 12]
    assert [values["released/loss"] for _, values in kept.told] == [point.loss for point in trainer.series]
    assert model.training


def test_evaluation_changes_nothing() -> None:
    one, first = prepared()
    first.fit(table())
    two, second = prepared()
    second.fit(table(), evaluate=accuracy, evaluate_every=2)
    assert torch.equal(flat(one), flat(two))


def test_an_evaluation_sees_the_average() -> None:
    seen: list[torch.Tensor] = []

    def look(model: nn.Module) -> dict[str, float]:
        seen.append(flat(model))
        return {}

    model, trainer = prepared()
    trainer.fit(table(), evaluate=look)
    assert torch.equal(seen[-1], averages(trainer, model))
    assert not torch.equal(seen[-1], flat(model))


def test_tensorboard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written: list[Any] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            written.append(folder)

        def add_scalar(self, *values: Any) -> None:
            written.append(values)

        def flush(self) -> None:
            pass

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    TensorBoardLogger(tmp_path).log(3, {"clip": 1.0})
    assert written == [str(tmp_path), ("clip", 1.0, 3)]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(NotSupported, match="pip install tensorboard"):
        TensorBoardLogger(tmp_path)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"evaluate": 3}, "evaluate"), ({"stop": 3}, "stop"), ({"loggers": [3]}, "loggers"),
        ({"evaluate_every": 0}, "evaluate_every"), ({"stop": EarlyStopping(patience=3)}, "series"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_refused_before_the_charge(tmp_path: Path, settings: Any, says: str) -> None:
    book, model = ledger(tmp_path / "a.ledger"), network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(), ledger=book)
    with pytest.raises(InvalidArgument, match=says):
        trainer.fit(table(), **settings)
    assert not list(book.charges())


# stopping early


def test_early_stopping_looks_at_the_released_losses() -> None:
    rule = EarlyStopping(patience=3, window=2)
    trainer = types.SimpleNamespace(series=[])
    ended = []
    for step, loss in enumerate([5.0, 4, 3, 2, 2, 2, 2, 2, 2]):
        trainer.series.append(SeriesPoint(step, loss, 0.1))
        ended.append(rule(trainer))  # type: ignore[arg-type]
    assert ended == [False] * 7 + [True] * 2
    with pytest.raises(InvalidArgument):
        EarlyStopping(patience=0)


def test_a_run_that_stops_early_is_saved_and_costs_the_same(tmp_path: Path) -> None:
    book, model = ledger(tmp_path / "a.ledger"), network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(), ledger=book)
    trainer.fit(table(), stop=lambda run: run.progress.step == 4, checkpoint=tmp_path / "run.pt")
    trainer.close()
    assert [charge.event for charge in book.charges()] == [plan().event]
    assert Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy, ledger=book).progress.step == 4


# what follows a step


def test_the_schedule_and_the_average_are_those_of_a_plain_loop() -> None:
    model, trainer = prepared()
    twin = dropping()
    optimizer = sgd(twin, momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=12)
    average = flat(twin)
    rates: list[float] = []

    def follow(progress: Any) -> None:
        nonlocal average
        optimizer.step()
        scheduler.step()
        rates.append(trainer.optimizer.param_groups[0]["lr"])
        assert rates[-1] == optimizer.param_groups[0]["lr"]
        decay = min(0.9, (1 + progress.step) / (10 + progress.step))
        average = decay * average + (1 - decay) * flat(model)

    trainer.fit(table(), on_step=follow)
    assert len(set(rates)) > 6
    torch.testing.assert_close(averages(trainer, model), average)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ema": 1}, "ema"), ({"ema": 0}, "ema"), ({"ema": "0.9x"}, "ema"), ({"scheduler": 3}, "scheduler"),
        ({"scheduler": lr_scheduler.StepLR(sgd(network()), 3)}, "one of the optimizer"),
        ({"scheduler": lr_scheduler.ReduceLROnPlateau(sgd(network()))}, "ReduceLROnPlateau"),
    ],
)  # fmt: skip
def test_what_cannot_follow_a_step_is_refused(settings: Any, says: str) -> None:
    model = network()
    with pytest.raises((InvalidArgument, NotSupported), match=says):
        Trainer(model, sgd(model), cross_entropy, plan(), **settings)


def test_a_schedule_that_no_checkpoint_holds_is_refused() -> None:
    class Halving:
        def __call__(self, step: int) -> float:
            return 0.5**step

        def __reduce__(self) -> Any:
            raise TypeError

    rule = Halving()
    rule.other = rule  # type: ignore[attr-defined]
    model = network()
    optimizer = sgd(model)
    with pytest.raises(NotSupported, match="more than numbers"):
        Trainer(model, optimizer, cross_entropy, plan(), scheduler=lr_scheduler.LambdaLR(optimizer, rule))


@pytest.mark.parametrize(
    "make",
    [
        lambda o: lr_scheduler.MultiStepLR(o, [2, 5]),
        lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step)),
        lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.LinearLR(o), lr_scheduler.ExponentialLR(o, 0.9)], [3]),
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4),
    ],
)
def test_every_usual_schedule_fits_a_checkpoint(make: Any) -> None:
    model = network()
    optimizer = sgd(model)
    Trainer(model, optimizer, cross_entropy, plan(), scheduler=make(optimizer))


def test_a_killed_run_goes_on_bit_by_bit(tmp_path: Path) -> None:
    """Killed by the system behind a checkpoint: schedule, average, momentum, dropout and series are as in one run."""
    straight, whole = prepared()
    whole.fit(table())
    child = os.fork()
    if not child:
        _, trainer = prepared()
        for batch in trainer.batches(table()):
            if trainer.step(batch).step == 5:
                trainer.save(tmp_path / "run.pt")
                os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    model = dropping()
    optimizer = sgd(model, momentum=0.9)
    resumed = Trainer.resume(
        tmp_path / "run.pt", model, optimizer, cross_entropy, generator=SeededGenerator(3), ema=0.9,
        scheduler=lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=12),
    )  # fmt: skip
    resumed.fit(table())
    assert torch.equal(flat(model), flat(straight))
    assert torch.equal(averages(resumed, model), averages(whole, straight))
    assert resumed.series == whole.series


def test_steps_that_a_kill_lost_move_the_schedule_on(tmp_path: Path) -> None:
    _, trainer = prepared()
    for batch in trainer.batches(table()):
        if trainer.step(batch).step == 3:
            trainer.save(tmp_path / "run.pt")
        if trainer.progress.step == 5:
            break
    trainer._let_go()  # as a kill would: 12 steps may have begun
    model = dropping()
    optimizer = sgd(model, momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=12)
    resumed = Trainer.resume(tmp_path / "run.pt", model, optimizer, cross_entropy, scheduler=scheduler, ema=0.9)
    assert (resumed.progress.step, scheduler.last_epoch) == (12, 12)


@pytest.mark.parametrize("left", ["scheduler", "ema"])
def test_a_run_is_resumed_with_what_it_began_with(tmp_path: Path, left: str) -> None:
    _, trainer = prepared()
    trainer.save(tmp_path / "run.pt")
    trainer.close()
    model = dropping()
    optimizer = sgd(model, momentum=0.9)
    scheduler = lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=12)
    settings: dict[str, Any] = {"scheduler": scheduler, "ema": 0.9}
    del settings[left]
    with pytest.raises(InvalidArgument, match=left):
        Trainer.resume(tmp_path / "run.pt", model, optimizer, cross_entropy, **settings)


def test_the_plan_of_a_trainer_cannot_be_replaced() -> None:
    _, trainer = prepared()
    with pytest.raises(AttributeError):
        trainer.plan = plan()  # type: ignore[misc]
