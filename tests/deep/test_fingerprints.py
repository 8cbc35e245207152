"""The same rows in the same order: what is compared, and that a fixed order does not survive other data. 2 s."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import deniable as dn
from deniable.deep import CyclicPoisson, FixedBatches, Trainer
from deniable.deep.data import People, Rows
from deniable.deep.fingerprints import differ, fingerprint
from deniable.errors import DataError
from tests.deep.models import cross_entropy, network, plan, sgd, table


class Read:
    """A data set that is read row by row; `change` is what happens to an input on the way."""

    def __init__(self, data: tuple[Tensor, Tensor], change: Any = lambda x: x) -> None:
        self._data, self._change = data, change

    def __len__(self) -> int:
        return len(self._data[0])

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return self._change(self._data[0][row]), self._data[1][row]


def printed(dataset: Any, **people: Any) -> Any:
    rows = Rows(dataset)
    return fingerprint(rows, People(len(rows), **people))


def shuffled(data: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    order = torch.arange(len(data[0])).flip(0)
    return data[0][order], data[1][order]


def test_the_same_data_have_the_same_fingerprint() -> None:
    x, y = table()
    assert not differ([printed((x, y)), printed((x.clone(), y.clone()))])
    assert not differ([printed(Read((x, y))), printed(Read((x, y)))])
    strided = torch.stack([x, x])[1].t().contiguous().t()
    assert not differ([printed((x, y)), printed((strided, y))])


def test_other_data_have_another() -> None:
    x, y = table()
    one = x.clone()
    one[117, 2] += 1e-6
    labels = y.clone()
    labels[-1] = (labels[-1] + 1) % 3
    for other in ((one, y), (x, labels), shuffled((x, y)), (x[:-1], y[:-1]), (x.double(), y)):
        assert differ([printed((x, y)), printed(other)])
    assert differ([printed(Read((x, y))), printed(Read(shuffled((x, y))))])
    ids = [row // 4 for row in range(200)]
    assert differ([printed((x, y), ids=ids), printed((x, y), ids=[*ids[:-1], 0])])
    assert not differ([printed((x, y), ids=ids), printed((x, y), ids=ids)])


def test_what_changes_at_random_is_not_compared() -> None:
    noisy = lambda x: x + torch.randn(4)  # noqa: E731
    one, two = printed(Read(table(), noisy)), printed(Read(table(), noisy))
    assert one[1] is None
    assert one[2] is not None
    assert not differ([one, two])
    assert differ([one, printed(Read(shuffled(table()), noisy))])  # by the labels
    assert not differ([printed(Read(table(0))), printed(Read(table(0)))])


@pytest.mark.parametrize("sampling", [FixedBatches(), CyclicPoisson(parts=10)], ids=repr)
def test_a_fixed_order_is_about_the_same_data(sampling: Any) -> None:
    model, data = network(), table()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(sampling=sampling))
    trainer.step(next(trainer.batches(data)))
    trainer.step(next(trainer.batches(table())))  # a copy of them
    with pytest.raises(DataError, match="not the rows that this run began with"):
        trainer.batches(shuffled(data))
    data[0].copy_(data[0].flip(0))  # in place
    with pytest.raises(DataError, match="not the rows that this run began with"):
        trainer.batches(data)
    assert trainer.fit(table()).progress.step == 12


def test_a_poisson_sample_does_not_care_where_a_unit_is() -> None:
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(sampling=dn.deep.Poisson()))
    trainer.step(next(trainer.batches(table())))
    assert trainer.fit(shuffled(table())).progress.step == 12
