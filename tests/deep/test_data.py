"""What data a trainer takes, who reads them, and that a row which cannot be read decides nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deniable.deep import Observation, Padding, SeededGenerator, Trainer
from deniable.deep.data import Rows
from deniable.deep.padding import pad
from deniable.errors import DataError, InvalidArgument, NotSupported
from tests.deep.models import cross_entropy, flat, ledger, network, plan, sgd, table

WORDS = 11


class Named(nn.Module):
    """A model that is called by name."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Reader(nn.Module):
    """The mean of the words that are there."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.words, self.layer = nn.Embedding(WORDS, 4), nn.Linear(4, 3)

    def forward(self, ids: Tensor) -> Tensor:
        there = (ids > 0).unsqueeze(-1)
        return self.layer((self.words(ids) * there).sum(1) / there.sum(1).clamp_min(1))


class Each:
    """A map-style data set of what a function makes of a place."""

    def __init__(self, make: Callable[[int], Any], size: int = 200) -> None:
        self._make, self._size = make, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, at: int) -> Any:
        return self._make(at)


class Several(Each):
    """As a data set of Hugging Face: many rows at once, each a mapping of lists."""

    def __getitems__(self, places: list[int]) -> list[Any]:
        return [self._make(at) for at in places]


def run(data: Any, model: nn.Module | None = None, *, stated: Any = None, **settings: Any) -> Tensor:
    """The parameters after a seeded run."""
    model = model or network()
    torch.manual_seed(0)
    Trainer(model, sgd(model), cross_entropy, stated or plan(steps=3), generator=SeededGenerator(3), microbatch=7).fit(
        data, **settings
    )
    return flat(model)


def sums(data: Any, model: nn.Module, *, stated: Any, **settings: Any) -> dict[str, Tensor]:
    """The clipped sums of the first step."""
    seen: list[Observation] = []
    trainer = Trainer(model, sgd(model), cross_entropy, stated, observers=[seen.append], generator=SeededGenerator(3))
    trainer.fit(data, **settings)
    return seen[0].clipped


X, Y = table()


@pytest.fixture(scope="module")
def usual() -> Tensor:
    """The parameters after a run over tensors."""
    return run((X, Y))


# kinds of data


@pytest.mark.parametrize(
    "data",
    [
        pytest.param((X.numpy(), Y), id="an array and a tensor"),
        pytest.param(Each(lambda at: (X[at].numpy(), np.int64(Y[at]))), id="rows of arrays and numbers"),
    ],
)
def test_arrays_are_the_tensors_that_they_hold(data: Any, usual: Tensor) -> None:
    torch.testing.assert_close(run(data), usual)


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        pytest.param({"x": X.numpy(), "y": Y.numpy()}, {}, id="columns of arrays"),
        pytest.param({"x": X, "class": Y}, {"label": "class"}, id="columns, the label named"),
        pytest.param(Each(lambda at: {"x": X[at], "labels": Y[at]}), {}, id="rows"),
        pytest.param(Several(lambda at: {"x": X[at].tolist(), "label": int(Y[at])}), {}, id="rows of lists"),
    ],
)
def test_mappings_call_the_model_by_name(data: Any, settings: Any) -> None:
    torch.testing.assert_close(run(data, Named(), **settings), run((X, Y), Named()))


def test_a_file_that_is_mapped_is_read_where_rows_are_drawn(tmp_path: Path, usual: Tensor) -> None:
    np.save(tmp_path / "x.npy", X.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    torch.testing.assert_close(run((mapped, Y.numpy())), usual)


def test_only_rows_that_were_drawn_are_read() -> None:
    """Two steps of two expected units, of a hundred million that nobody could hold; 16 are looked at for their form."""
    read = set()

    def make(at: int) -> Any:
        read.add(at)
        return X[at % 200], Y[at % 200]

    run(Each(make, size=10**6), stated=plan(size=10**6, batch=2, steps=2))
    assert len(read) < 60


@pytest.mark.parametrize(
    ("data", "settings", "says"),
    [
        ((X.numpy(), np.array(["a"] * 200)), {}, "no tensor has"),
        ((X, [1] * 200), {}, "tensors or NumPy arrays"),
        ({"x": X, "class": Y}, {}, "label="),
        ({"x": X, "label": Y[:3]}, {}, "same number of rows"),
        ({"x": X.tolist(), "label": Y.tolist()}, {}, "tensors or NumPy arrays"),
        (Each(lambda at: {"x": X[at], "class": Y[at]}), {}, "label="),
        ((X, Y), {"padding": Padding(lengths=[4], values={0: 0})}, "padding"),
        ((X, Y), {"collate": list}, "collate"),
        ((X, Y), {"label": 3}, "label"),
        ((X, Y), {"num_workers": -1}, "num_workers"),
        ((X, Y), {"num_workers": True}, "num_workers"),
        ((X, Y), {"prefetch_factor": 0}, "prefetch_factor"),
        ((X, Y), {"pin_memory": "yes"}, "pin_memory"),
    ],
)
def test_what_cannot_be_read_is_refused_before_the_charge(tmp_path: Path, data: Any, settings: Any, says: str) -> None:
    book = ledger(tmp_path / "a.ledger")
    model = network()
    with pytest.raises((DataError, InvalidArgument), match=says):
        Trainer(model, sgd(model), cross_entropy, plan(), ledger=book).fit(data, **settings)
    assert not list(book.charges())


# padding

PADDING = Padding(lengths=(3, 6), values={"ids": 0})


def words(at: int) -> dict[str, Any]:
    """One to eight words, and a label."""
    return {"ids": [1 + (at * step) % (WORDS - 1) for step in range(1 + at % 8)], "label": at % 3}


def test_rows_of_different_lengths_give_the_sums_of_a_loop_over_them() -> None:
    """Padded to 3 or 6, cut at 6; every example alone, without padding, gives the same clipped gradient."""
    stated = plan(batch=200, steps=1, clip=0.2)
    model = Reader()
    wanted = {name: torch.zeros_like(each) for name, each in model.named_parameters()}
    for at in range(200):
        row = words(at)
        loss = cross_entropy(model(torch.tensor([row["ids"][:6]])), torch.tensor([row["label"]]))
        gradients = dict(zip(wanted, torch.autograd.grad(loss.sum(), list(model.parameters())), strict=True))
        norm = torch.cat([each.reshape(-1) for each in gradients.values()]).norm()
        for name, each in gradients.items():
            wanted[name] += each * min(1.0, 0.2 / float(norm))
    found = sums(Several(words), model, stated=stated, padding=PADDING)
    for name, each in wanted.items():
        torch.testing.assert_close(found[name], each, atol=1e-3, rtol=1e-3)


def test_every_length_is_proved_before_the_charge(tmp_path: Path) -> None:
    """A model that takes three words only is refused, though the rows that are looked at may all be short."""

    class Three(Reader):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids) + ids.reshape(-1, 3)[:, :1] * 0

    book = ledger(tmp_path / "a.ledger")
    model = Three()
    with pytest.raises(NotSupported):
        Trainer(model, sgd(model), cross_entropy, plan(), ledger=book).fit(
            Each(lambda at: {"ids": [1], "label": 0}), padding=PADDING
        )
    assert not list(book.charges())


def test_padding_by_place_and_by_two_columns() -> None:
    pairs = pad(Padding(lengths=(2, 4), values={0: 0, 1: -100}), [([5], [1]), ([5, 6, 7], [1, 2])])
    assert [each[0].tolist() for each in pairs] == [[5, 0, 0, 0], [5, 6, 7, 0]]
    assert [each[1].tolist() for each in pairs] == [[1, -100, -100, -100], [1, 2, -100, -100]]


@pytest.mark.parametrize(
    "settings",
    [
        {"lengths": (), "values": {"a": 0}}, {"lengths": (4, 2), "values": {"a": 0}},
        {"lengths": (2, 2), "values": {"a": 0}}, {"lengths": (0, 2), "values": {"a": 0}},
        {"lengths": 3, "values": {"a": 0}}, {"lengths": (2,), "values": {}}, {"lengths": (2,), "values": {"a": "b"}},
        {"lengths": (2,), "values": ["a"]},
    ],
)  # fmt: skip
def test_padding_refuses_what_is_no_rule(settings: Any) -> None:
    with pytest.raises(InvalidArgument):
        Padding(**settings)


def test_a_row_that_cannot_be_padded_contributes_nothing() -> None:
    odd = [{"label": 1}, {"ids": 5, "label": 1}, {"ids": "seven", "label": 1}, ([1, 2], 1), None, {"ids": None, "y": 1}]
    usual = plan(batch=200, steps=1)
    kept = sums(Several(words, 194), Reader(), stated=usual, padding=PADDING)
    found = sums(Several(lambda at: odd[at - 194] if at >= 194 else words(at)), Reader(), stated=usual, padding=PADDING)
    assert all(torch.equal(found[name], kept[name]) for name in kept)


# workers


@pytest.mark.parametrize("data", [Each(lambda at: (X[at], Y[at])), Several(lambda at: {"x": X[at], "y": Y[at]})])
def test_workers_take_the_same_steps(data: Any) -> None:
    model = Named if isinstance(data, Several) else network
    # Batches of 1 are often empty; parts of 7 make several slices of a batch of 20.
    for stated in (plan(steps=6), plan(batch=1, steps=9)):
        alone = run(data, model(), stated=stated)
        assert torch.equal(run(data, model(), stated=stated, num_workers=2), alone)


def test_workers_and_people_and_padding() -> None:
    stated = plan(size=50, batch=10, steps=3, unit="who", rows_per_unit=3)
    settings: dict[str, Any] = {"people": [at // 4 for at in range(200)], "padding": PADDING}
    alone = run(Several(words), Reader(), stated=stated, **settings)
    assert torch.equal(run(Several(words), Reader(), stated=stated, num_workers=1, **settings), alone)


class Unpicklable:
    """What no other process can be given."""

    def __reduce__(self) -> Any:
        raise TypeError("secret 4711")


class Explosive:
    """What another process cannot take."""

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    raise ValueError("secret 4711")


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda: os._exit(3), id="the worker ends"),
        pytest.param(lambda: (X[0], Unpicklable()), id="not sent"),
        pytest.param(lambda: (X[0], Y[0], Explosive()), id="not received"),
    ],
)
def test_a_row_that_ends_its_worker_contributes_nothing(act: Any) -> None:
    usual = plan(batch=4, size=4, steps=1)
    kept = run(Each(lambda at: (X[at], Y[at]), 3), stated=usual)
    first = os.getpid()

    def make(at: int) -> Any:
        if at < 3:
            return X[at], Y[at]
        return act() if os.getpid() != first else None

    found = run(Each(make, 4), stated=usual, num_workers=1, collate=together)
    torch.testing.assert_close(found, kept)


def together(items: list[Any]) -> Any:
    """One item with an axis for rows; what is no tensor as it is."""
    return tuple(each[None] if isinstance(each, Tensor) else each for each in items[0])


def test_a_run_with_workers_goes_on_after_an_interruption(tmp_path: Path) -> None:
    data = Each(lambda at: (X[at], Y[at]))
    alone = run(data, stated=plan(steps=6))
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(steps=6), generator=SeededGenerator(3), microbatch=7)
    for batch in trainer.batches(data, num_workers=1):
        if trainer.step(batch).step == 2:
            break
    trainer.save(tmp_path / "run.pt")
    trainer.fit(data, num_workers=1)
    trainer.close()  # the lock is gone though workers were forked while it was held
    torch.testing.assert_close(flat(model), alone)
    Trainer.resume(tmp_path / "run.pt", model, sgd(model), cross_entropy).close()


# augmentations


def test_augmentations_are_averaged_before_clipping_as_in_a_loop() -> None:
    """Each reading of a row gives another x. A loop takes the mean of the four gradients, then clips it."""
    readings = dict.fromkeys(range(60), 0)

    def make(at: int) -> Any:
        readings[at] += 1
        return X[at] * (1 + readings[at] % 4), Y[at]

    stated = plan(size=60, batch=60, steps=1, clip=0.3, augmentations=4)
    model = network()
    wanted = torch.zeros_like(flat(model))
    for at in range(60):
        inputs = torch.stack([X[at] * (1 + each) for each in range(4)])
        loss = cross_entropy(model(inputs), Y[at].repeat(4)).mean()
        mean = torch.cat([each.reshape(-1) for each in torch.autograd.grad(loss, list(model.parameters()))])
        wanted += mean * min(1.0, 0.3 / float(mean.norm()))
    found = sums(Each(make, 60), model, stated=stated)
    torch.testing.assert_close(torch.cat([each.reshape(-1) for each in found.values()]), wanted, atol=1e-3, rtol=1e-3)


def test_augmentations_of_people_are_averaged_row_by_row() -> None:
    """Two rows each: the sum over rows of the mean over augmentations, clipped once. Equal augmentations are none."""
    usual: dict[str, Any] = {"size": 100, "batch": 100, "steps": 1, "clip": 0.3, "unit": "who", "rows_per_unit": 2}
    whose = [at // 2 for at in range(199)] + [None]
    data = (X, Y)
    one = sums(data, network(), stated=plan(**usual), people=whose)
    three = sums(data, network(), stated=plan(**usual, augmentations=3), people=whose)
    for name, each in one.items():
        torch.testing.assert_close(three[name], each, atol=1e-3, rtol=1e-3)


def test_a_model_may_augment_by_itself_row_by_row() -> None:
    """Random flips in the forward pass are proved like the rest of the model."""

    class Flips(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: Tensor) -> Tensor:
            flips = torch.rand(x.shape[0], 1, device=x.device) < 0.5
            return self.inner(torch.where(flips, x.flip(-1), x))

    model = Flips()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(steps=2, augmentations=4)).fit((X, Y))
    assert trainer.private.loss == pytest.approx(1.1, abs=0.6)


def test_a_plan_says_its_augmentations() -> None:
    stated = plan(augmentations=8)
    assert stated.from_json(stated.to_json()) == stated
    assert "augmentations: 8 of each row" in str(stated)
    assert "augmentations=8" in repr(stated)
    assert stated.event == plan().event
    with pytest.raises(InvalidArgument, match="augmentations"):
        plan(augmentations=0)


def test_rows_say_why_they_cannot_be_read() -> None:
    assert isinstance(Rows(Each(lambda at: {"x": X[at]})).read([0]), DataError)
