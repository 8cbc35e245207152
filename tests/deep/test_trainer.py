"""What the trainer executes is the plan, all of it and nothing else. Statistical tests alarm falsely once in 10⁷."""

from __future__ import annotations

import copy
import math
import os
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import deniable as dn
from deniable.deep import (
    FixedBatches,
    GridNoise,
    LaplaceNoise,
    Observation,
    SeededGenerator,
    Trainer,
    WithoutReplacement,
)
from deniable.deep.data import Rows
from deniable.deep.loading import StoredUnits
from deniable.deep.trainer import Batch
from deniable.errors import DataError, DeniableError, InvalidArgument, NotSupported
from deniable.events import Gaussian, Repeated, Sampled
from tests.deep.models import cross_entropy, flat, ledger, network, plan, sgd, table
from tests.laws.neighbours.training import ACTS, Items

ALARM = 1e-7


def silent(output: Tensor, y: Tensor) -> Tensor:
    """A loss without a gradient, so that a step is noise alone."""
    return (output * 0).sum(1)


def watched(
    model: nn.Module, *, loss: Any = cross_entropy, data: Any = None, rate: float = 0.1, **settings: Any
) -> list[Observation]:
    """Train and keep what an auditor sees."""
    seen: list[Observation] = []
    trainer = Trainer(model, sgd(model, lr=rate), loss, observers=[seen.append], **settings)
    trainer.fit(table() if data is None else data)
    return seen


# the noise


@pytest.mark.parametrize("kind", [None, LaplaceNoise(), GridNoise()])
def test_noise_scale_measured_on_parameters(kind: Any) -> None:
    """A loss without gradient and a learning rate of 1: parameters move by the noise over the expected batch."""
    model = nn.Linear(4, 3000)
    before = flat(model).double()
    stated = plan(steps=1, clip=0.5, noise_multiplier=3, noise=kind)
    Trainer(model, sgd(model, lr=1), silent, stated).fit(table())
    moved = (flat(model).double() - before) * 20 / (3 * 0.5)
    if isinstance(kind, LaplaceNoise):
        # Sums of |Laplace| are Gamma(n).
        low, high = stats.gamma.ppf([ALARM / 2, 1 - ALARM / 2], moved.numel())
        assert low < float(moved.abs().sum()) < high
    else:
        low, high = stats.chi2.ppf([ALARM / 2, 1 - ALARM / 2], moved.numel())
        assert low < float(moved.square().sum()) < high


def test_noise_is_added_to_every_parameter_and_differs_between_steps() -> None:
    seen = watched(network(), plan=plan(steps=3), loss=silent)
    for name, one in seen[0].released.items():
        assert (one != 0).all()
        assert not torch.equal(one, seen[1].released[name])


# the event equals what ran


def test_the_event_is_what_ran() -> None:
    """Steps counted, the rate counted over units and steps, the noise measured as released − clipped."""
    stated = plan(size=200, batch=20, steps=60, clip=0.25, noise_multiplier=2)
    seen = watched(network(width=100), plan=stated)
    event = stated.event
    assert isinstance(event, Repeated)
    assert isinstance(event.event, Sampled)
    assert isinstance(event.event.event, Gaussian)
    assert len(seen) == event.count == 60
    drawn = sum(len(each.units) for each in seen)
    assert stats.binomtest(drawn, 200 * 60, float(event.event.rate)).pvalue > ALARM
    noise = torch.cat(
        [
            (each.released[name] * 20 - each.clipped[name]).double().reshape(-1)
            for each in seen
            for name in each.released
        ]
    )
    low, high = stats.chi2.ppf([ALARM / 2, 1 - ALARM / 2], noise.numel())
    assert low < float((noise / (float(event.event.event.scale) * 0.25)).square().sum()) < high


@pytest.mark.parametrize(("kind", "order"), [(None, 2), (LaplaceNoise(), 1), (GridNoise(bits=16), 2)])
def test_one_unit_moves_a_step_by_at_most_its_sensitivity(kind: Any, order: int) -> None:
    """Replay: the same randomness with and without the last row; where it was drawn, sums differ by at most clip."""
    stated = plan(steps=40, clip=0.25, noise_multiplier=100, noise=kind)
    x, y = table()
    x[-1] *= 50
    runs = []
    for rows in (200, 199):
        # A learning rate of 0 keeps both runs at the same parameters.
        data = (x[:rows], y[:rows])
        runs.append(watched(network(), plan=stated, data=data, rate=0, generator=SeededGenerator(1)))
    unit = 0.25 / 2**16 if isinstance(kind, GridNoise) else 1.0
    hit = 0
    for one, two in zip(*runs, strict=True):
        apart = torch.cat([(one.clipped[n] - two.clipped[n]).double().reshape(-1) for n in one.clipped]) * unit
        distance = float(apart.abs().sum() if order == 1 else apart.norm())
        assert set(one.units) - set(two.units) == ({199} & set(one.units))
        if 199 in one.units:
            hit += 1
            assert 0.249 < distance <= 0.25 * (1 + 1e-5)
        else:
            assert distance < 1e-5
    assert hit


def test_the_divisor_is_the_expected_batch() -> None:
    seen = watched(network(), plan=plan(noise_multiplier=1e-6, steps=8))
    for each in seen:
        for name, released in each.released.items():
            torch.testing.assert_close(released, each.clipped[name] / 20, atol=1e-6, rtol=1e-5)


def test_without_replacement_and_fixed_batches_run_as_stated() -> None:
    drawn = watched(network(), plan=plan(sampling=WithoutReplacement()))
    assert {len(set(each.units)) for each in drawn} == {20}
    fixed = watched(network(), plan=plan(sampling=FixedBatches(), steps=20))
    assert sorted(unit for each in fixed[:10] for unit in each.units) == list(range(200))
    assert [each.units for each in fixed[:10]] == [each.units for each in fixed[10:]]


# unusual batches


def test_an_empty_batch_is_a_step_of_noise() -> None:
    stated = plan(size=10**9, batch=1, steps=5, noise_multiplier=1)
    seen = watched(network(), plan=stated)
    assert len(seen) == 5
    assert all(not each.units for each in seen)
    assert all((each.released["0.weight"] != 0).all() and (each.clipped["0.weight"] == 0).all() for each in seen)


def test_empty_data_can_be_trained_on() -> None:
    """Under add/remove nobody may learn that there is nobody."""
    x, y = table()
    assert len(watched(network(), plan=plan(), data=(x[:0], y[:0]))) == 12


def test_a_single_example_and_the_whole_data() -> None:
    x, y = table()
    one = watched(network(), plan=plan(size=1, batch=1, noise_multiplier=1e-4, steps=2), data=(x[:1], y[:1]))
    assert [each.units for each in one] == [[0], [0]]
    norm = torch.cat([each.reshape(-1) for each in one[0].clipped.values()]).norm()
    assert 0 < float(norm) <= 1
    everyone = watched(network(), plan=plan(batch=200, steps=2))
    assert everyone[0].units == list(range(200))


def test_a_huge_batch_runs_in_parts_and_nobody_is_left_out() -> None:
    results = [
        watched(network(), plan=plan(batch=200, steps=1, noise_multiplier=1e-9), microbatch=size)
        for size in (None, 7, 1)
    ]
    for each in results[1:]:
        for name, sums in each[0].clipped.items():
            torch.testing.assert_close(sums, results[0][0].clipped[name], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", [None, GridNoise()])
def test_not_a_number_counts_as_nothing(kind: Any) -> None:
    x, y = table()
    whole = plan(batch=200, steps=1, noise_multiplier=1e-6, noise=kind)
    kept = watched(network(), plan=whole, data=(x[2:], y[2:]))
    broken = x.clone()
    broken[0], broken[1, 2] = math.nan, math.inf
    seen = watched(network(), plan=whole, data=(broken, y))
    for name, sums in seen[0].clipped.items():
        assert torch.isfinite(seen[0].released[name]).all()
        torch.testing.assert_close(sums, kept[0].clipped[name], atol=1e-4, rtol=1e-4)


def test_padding_changes_nothing() -> None:
    """A fixed physical shape with a mask gives the sums of the ragged batch."""
    x, y = table()
    part = StoredUnits(Rows((x, y)), np.array([[3], [5]]))
    found = part.chunk(0, 2, fill=4, device=torch.device("cpu"))
    assert found.mask.tolist() == [True, True, False, False]
    assert torch.equal(found.batch[0][:2], x[[3, 5]])
    assert found.batch[0].shape == (4, 4)


# refusals


def test_batches_from_elsewhere_are_refused() -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    before = flat(model)
    x, y = table()
    for foreign in ((x, y), Batch(1, np.arange(3), np.arange(3)[:, None]), None):
        with pytest.raises(DeniableError, match=r"does not come from trainer\.batches"):
            trainer.step(foreign)  # type: ignore[arg-type]
    stranger = network()
    other = Trainer(stranger, sgd(stranger), cross_entropy, plan())
    with pytest.raises(DeniableError, match=r"does not come from trainer\.batches"):
        trainer.step(next(other.batches((x, y))))
    assert torch.equal(before, flat(model))


def test_a_batch_is_used_once_and_none_is_left_out() -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    batches = trainer.batches(table())
    first = next(batches)
    trainer.step(first)
    with pytest.raises(DeniableError, match="used before"):
        trainer.step(first)
    next(batches)
    with pytest.raises(DeniableError, match=r"was not given to trainer\.step"):
        next(batches)


def test_nothing_runs_beyond_the_plan() -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    last = [trainer.step(batch) for batch in trainer.batches(table())][-1]
    assert (last.step, last.steps) == (12, 12)
    assert list(trainer.batches(table())) == []
    before = flat(model)
    trainer.fit(table())
    assert torch.equal(before, flat(model))


def test_a_changed_model_is_refused() -> None:
    for change in (
        lambda m: m[0].weight.requires_grad_(False),
        lambda m: m.append(nn.Linear(3, 3)),
        lambda m: setattr(m[0], "weight", nn.Parameter(torch.zeros(8, 4))),
    ):
        model = network()
        trainer = Trainer(model, sgd(model), cross_entropy, plan())
        batch = next(trainer.batches(table()))
        change(model)
        with pytest.raises(DeniableError, match="changed since the trainer was made"):
            trainer.step(batch)


class Centred(nn.Module):
    """Rows less their mean, in training mode only."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0) if self.training else x


@pytest.mark.parametrize("rows", [0, 200])
def test_a_model_that_mixes_from_now_on_is_refused_before_a_row_is_looked_at(tmp_path: Any, rows: int) -> None:
    """With rows and without any alike. The step is not taken, and its batch can be given again."""
    model, book = nn.Sequential(nn.Linear(4, 3), Centred()).eval(), ledger(tmp_path / "a.ledger")
    x, y = table()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(), ledger=book, sample=(x[:4], y[:4]))
    batches = trainer.batches((x[:rows], y[:rows]))
    trainer.step(next(batches))
    weights, batch = flat(model).clone(), next(batches)
    model.train()
    with pytest.raises(NotSupported, match="row"):
        trainer.step(batch)
    assert (trainer.progress.step, len(list(book.charges()))) == (1, 1)
    assert torch.equal(flat(model), weights)
    model.eval()
    assert trainer.step(batch).step == 2


class Interrupted(nn.Module):
    """A layer during which somebody presses Ctrl-C."""

    now = False

    def forward(self, x: Tensor) -> Tensor:
        if Interrupted.now:
            raise KeyboardInterrupt
        return x


@pytest.mark.parametrize("mode", ["fast", "two_pass", "vmap"])
def test_an_interrupted_step_is_spent_and_leaves_nothing_behind(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(4, 3), Interrupted())
    trainer = Trainer(model, sgd(model), cross_entropy, plan(batch=200), mode=mode)
    batches = trainer.batches(table())
    before, identities = flat(model).clone(), [id(each) for each in model.parameters()]
    batch = next(batches)
    monkeypatch.setattr(Interrupted, "now", True)
    with pytest.raises(KeyboardInterrupt):
        trainer.step(batch)
    monkeypatch.undo()
    assert torch.equal(flat(model), before)
    assert [id(each) for each in model.parameters()] == identities
    assert all(each.grad is None for each in model.parameters())
    assert trainer.progress.step == 1
    with pytest.raises(DeniableError, match="was used before"):
        trainer.step(batch)
    assert trainer.step(next(batches)).step == 2
    assert (model[0].weight + 0).grad_fn is not None  # torch's modes are off again


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_trainer_is_not_copied(way: Any) -> None:
    """Each copy could take all the steps of a plan that was charged once."""
    model = network()
    with pytest.raises(DeniableError, match="pays for one run"):
        way(Trainer(model, sgd(model), cross_entropy, plan()))


def test_a_forked_process_takes_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    batch = next(trainer.batches(table()))
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    for act in (lambda: trainer.step(batch), lambda: trainer.batches(table()), lambda: trainer.save("nowhere.pt")):
        with pytest.raises(DeniableError, match="forked"):
            act()
    monkeypatch.undo()
    assert trainer.step(batch).step == 1


def test_of_two_threads_with_one_batch_one_takes_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes while the first is between its checks and its step."""
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    batch, outcomes = next(trainer.batches(table())), []

    def take() -> None:
        try:
            outcomes.append(trainer.step(batch).step)
        except DeniableError:
            outcomes.append(0)

    second, check = threading.Thread(target=take), trainer._refuse_changed

    def meet() -> None:
        monkeypatch.setattr(trainer, "_refuse_changed", check)
        second.start()
        second.join(0.2)
        check()

    monkeypatch.setattr(trainer, "_refuse_changed", meet)
    take()
    second.join()
    assert sorted(outcomes) == [0, 1]


def test_what_is_not_callable_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    model, book = network(), ledger(tmp_path / "a.ledger")
    for settings in ({"loss": 3}, {"observers": 3}, {"observers": [3]}, {"generator": 3}):
        with pytest.raises(InvalidArgument, match=next(iter(settings))):
            Trainer(model, sgd(model), **{"loss": cross_entropy, "plan": plan(), "ledger": book, **settings})
    trainer = Trainer(model, sgd(model), cross_entropy, plan(), ledger=book)
    wrong: tuple[dict[str, Any], ...] = ({"every": 0}, {"every": 1.5}, {"every": "x"}, {"on_step": 3})
    for given in wrong:
        with pytest.raises(InvalidArgument, match=next(iter(given))):
            trainer.fit(table(), checkpoint=tmp_path / "run.pt", **given)
    assert (list(book.charges()), trainer.progress.step, (tmp_path / "run.pt").exists()) == ([], 0, False)


@pytest.mark.parametrize("name", ACTS)
def test_whatever_a_row_does_when_it_is_read_is_no_matter_of_anybody_else(name: str) -> None:
    """It is read or not; it raises nothing, and nobody is warned."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Rows(Items(ACTS[name])).read([0])
    if isinstance(found, tuple):
        assert type(found[0]) is Tensor
        assert not found[0].requires_grad
    else:
        assert isinstance(found, Exception)


def test_parameters_that_an_optimizer_is_given_later_are_refused_before_anything_is_paid(tmp_path: Any) -> None:
    model, book = network(), ledger(tmp_path / "a.ledger")
    trainer = Trainer(model, sgd(model), cross_entropy, plan(), ledger=book)
    trainer.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    with pytest.raises(DeniableError, match="those of the optimizer changed"):
        trainer.fit(table())
    assert list(book.charges()) == []
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    batch = next(trainer.batches(table()))
    trainer.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
    with pytest.raises(DeniableError, match="those of the optimizer changed"):
        trainer.step(batch)


class Recurrent(nn.Module):
    def __init__(self, *, packs: bool = False) -> None:
        super().__init__()
        self.packs = packs
        self.layer, self.head = nn.LSTM(2, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        inner: Any = x.view(-1, 2, 2)
        if self.packs:
            inner = nn.utils.rnn.pack_padded_sequence(inner, (x[:, 0] > 0).long() + 1, True, False)
        return self.head(self.layer(inner)[1][0][-1])


@pytest.mark.parametrize("packs", [False, True])
def test_recurrent_layers_train_packed_or_not(tmp_path: Any, packs: bool) -> None:
    book = ledger(tmp_path / "a.ledger")
    model = Recurrent(packs=packs)
    before = flat(model)
    trainer = Trainer(model, sgd(model), cross_entropy, plan(steps=2), ledger=book).fit(table())
    assert trainer.private.norms.isfinite().all()
    assert trainer.checked is not None
    assert trainer.checked.mode == "fast"
    assert len(list(book.charges())) == 1
    assert not torch.equal(flat(model), before)


@pytest.mark.parametrize(
    "table_layer", [nn.Embedding(20, 3, sparse=True), nn.EmbeddingBag(20, 12, sparse=True, mode="sum")]
)
def test_sparse_tables_get_dense_noise(table_layer: nn.Module) -> None:
    """Every number of the table moves, looked up or not: which ones were is private."""
    model = nn.Sequential(table_layer, nn.Flatten(), nn.Linear(12, 3))
    before = table_layer.weight.detach().clone()
    tokens, y = torch.randint(0, 5, (200, 4)), table()[1]
    Trainer(model, sgd(model), cross_entropy, plan(steps=1)).fit((tokens, y))
    assert bool((table_layer.weight != before).all())


def test_bags_by_offsets_in_the_data_are_refused_before_anything_is_paid(tmp_path: Any) -> None:
    """A flat list of entries has no row for each example."""
    book = ledger(tmp_path / "a.ledger")
    model = nn.EmbeddingBag(20, 3)
    entries, offsets = torch.randint(0, 20, (500,)), torch.arange(0, 400, 2)
    with pytest.raises(InvalidArgument, match="one entry per example"):
        Trainer(model, sgd(model), cross_entropy, plan(), ledger=book, sample=((entries, offsets), table()[1]))
    with pytest.raises(DeniableError):
        Trainer(model, sgd(model), cross_entropy, plan(), ledger=book).fit((entries, offsets, table()[1]))
    alike = entries[:200], torch.arange(200)
    with pytest.raises(NotSupported, match="pad the bags to one length"):
        Trainer(model, sgd(model), cross_entropy, plan(), ledger=book).fit((*alike, table()[1]))
    with pytest.raises(NotSupported, match="pad the bags to one length"):
        Trainer(model, sgd(model), cross_entropy, plan(), ledger=book, sample=(alike, table()[1]))
    assert list(book.charges()) == []


def test_batch_normalisation_is_refused_before_anything_is_paid(tmp_path: Any) -> None:
    book = dn.Ledger.create(tmp_path / "a.ledger", unit="row", budget=dn.ApproxDP(9, 1e-4))
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    with pytest.raises(NotSupported, match="BatchNorm"):
        Trainer(model, sgd(model), cross_entropy, plan(), ledger=book)
    assert list(book.charges()) == []


def test_an_optimizer_that_evaluates_by_itself_is_refused() -> None:
    model = network()
    with pytest.raises(NotSupported, match="LBFGS"):
        Trainer(model, torch.optim.LBFGS(model.parameters()), cross_entropy, plan())


def test_the_optimizer_holds_the_models_parameters() -> None:
    model = network()
    with pytest.raises(InvalidArgument, match=r"0\.weight is missing"):
        Trainer(model, torch.optim.SGD(model[2].parameters(), lr=1), cross_entropy, plan())  # type: ignore[index]
    with pytest.raises(InvalidArgument, match="a torch optimizer"):
        Trainer(model, "sgd", cross_entropy, plan())  # type: ignore[arg-type]
    both = [*model.parameters(), *network().parameters()]
    with pytest.raises(InvalidArgument, match="parameters of this model only"):
        Trainer(model, torch.optim.SGD(both, lr=1), cross_entropy, plan())


def test_columns_are_not_taken_for_two_rows() -> None:
    x, y = table()
    model = network()
    for data in ((x.numpy(), y.tolist()), (x.tolist(), y)):
        with pytest.raises(DataError, match=r"torch\.as_tensor"):
            Trainer(model, sgd(model), cross_entropy, plan()).fit(data)


def test_data_of_another_size_are_refused_only_where_the_size_is_public() -> None:
    x, y = table()
    model = network()
    with pytest.raises(DataError, match="number of units is public"):
        Trainer(model, sgd(model), cross_entropy, plan(sampling=FixedBatches())).fit((x[:150], y[:150]))
    Trainer(model, sgd(model), cross_entropy, plan()).fit((x[:150], y[:150]))


def test_streams_and_lopsided_tensors_are_refused() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return iter(())

    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    x, y = table()
    for data in (Stream(), (x, y[:-1]), (x,), 3):
        with pytest.raises(DataError):
            trainer.batches(data)


def test_a_plan_must_be_a_plan() -> None:
    model = network()
    with pytest.raises(InvalidArgument, match="plan must be"):
        Trainer(model, sgd(model), cross_entropy, plan().event)  # type: ignore[arg-type]


# the rest


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9, weight_decay=1e-3),
        lambda p: torch.optim.Adam(p, lr=0.05),
        lambda p: torch.optim.AdamW(p, lr=0.05),
        lambda p: torch.optim.RMSprop(p, lr=0.02),
    ],
)
def test_any_optimizer_learns(make: Any) -> None:
    x, y = table(1000)
    model = network()
    trainer = Trainer(model, make(model.parameters()), cross_entropy, plan(size=1000, batch=200, steps=60, clip=2))
    trainer.fit((x, y))
    assert float((model(x).argmax(1) == y).double().mean()) > 0.7


def test_frozen_parameters_stay_and_foreign_gradients_are_dropped() -> None:
    model = network()
    for parameter in model[0].parameters():  # type: ignore[index]
        parameter.requires_grad_(False)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, optimizer, cross_entropy, plan(steps=2))
    for batch in trainer.batches(table()):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 1e9)  # what a stray backward() would leave behind
        trainer.step(batch)
    after = list(model.parameters())
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])
    assert float((before[2] - after[2].detach()).abs().max()) < 10
    assert all(p.grad is None for p in model.parameters())


def test_any_dataset_of_pairs() -> None:
    x, y = table()

    class Pairs(Dataset[Any]):
        def __len__(self) -> int:
            return 200

        def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
            return x[row], y[row]

    found = []
    for data in ((x, y), TensorDataset(x, y), Pairs()):
        seen = watched(network(), plan=plan(steps=2), data=data, generator=SeededGenerator(4))
        found.append(seen[1].clipped["0.weight"])
    assert torch.equal(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


def test_progress_is_public_and_statistics_say_that_they_are_not() -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(target=dn.ApproxDP(8, 1e-5)))
    assert "loss 0" in str(trainer.private)
    progress = [trainer.step(batch) for batch in trainer.batches(table())]
    assert str(progress[2]) == "step 3 of 12; no ledger; the whole plan costs: " + str(trainer.plan.guarantee)
    shown = str(trainer.private)
    assert shown.startswith("private, do not publish: ")
    assert 0 <= trainer.private.clipped <= 1
    assert sorted(trainer.private.quantiles()) == list(trainer.private.quantiles())
    assert "tensor" not in repr(trainer.private)
    assert repr(next(iter(Trainer(model, sgd(model), cross_entropy, plan()).batches(table())))) == "Batch(step=1)"


def test_an_interrupted_fit_says_what_stands_and_goes_on() -> None:
    model = nn.Linear(3, 2)
    plan = dn.deep.Plan(size=40, batch=10, steps=5, clip=1.0, target=dn.ApproxDP(3, 1e-5))
    data = (torch.randn(40, 3), torch.randint(0, 2, (40,)))
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss(reduction="none"), plan)

    def interrupt(state: object) -> None:
        if trainer.progress.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        trainer.fit(data, on_step=interrupt)
    assert caught.value.__notes__ == [f"{trainer.progress}. trainer.fit goes on from there."]
    assert "step 2 of 5" in caught.value.__notes__[0]
    assert trainer.fit(data, progress=False).progress.step == 5
