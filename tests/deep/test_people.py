"""People with many rows: sampled with all of them, clipped once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deniable.deep import Observation, Trainer
from deniable.deep.data import People
from deniable.errors import DataError, InvalidArgument
from deniable.noise import secure
from tests.deep.models import cross_entropy, network, plan, sgd, table


def test_a_person_is_sampled_with_all_rows_and_clipped_once() -> None:
    x, y = table(90)
    people = np.repeat(np.arange(30), 3)
    stated = plan(size=30, batch=30, steps=1, clip=0.1, unit="user_id", rows_per_unit=4, noise_multiplier=1e-6)
    seen: list[Observation] = []
    model = network()
    trainer = Trainer(model, sgd(model), cross_entropy, stated, observers=[seen.append])
    trainer.fit((x, y), people=[f"person {p}" for p in people])
    expected = {name: torch.zeros_like(p) for name, p in network().named_parameters()}
    for person in range(30):
        fresh = network()
        cross_entropy(fresh(x[people == person]), y[people == person]).sum().backward()
        gradient = torch.cat([p.grad.reshape(-1) for p in fresh.parameters() if p.grad is not None])
        for name, p in fresh.named_parameters():
            expected[name] += p.grad * min(1.0, 0.1 / float(gradient.norm()))
    for name, sums in seen[0].clipped.items():
        torch.testing.assert_close(sums, expected[name], atol=1e-4, rtol=1e-3)
    assert trainer.private.norms.shape == (30,)


def test_people_are_asked_for_exactly_when_the_plan_protects_people() -> None:
    model = network()
    people = np.arange(200)
    with pytest.raises(InvalidArgument, match="people must be given exactly when"):
        Trainer(model, sgd(model), cross_entropy, plan(unit="user_id")).fit(table())
    with pytest.raises(InvalidArgument, match="people must be given exactly when"):
        Trainer(model, sgd(model), cross_entropy, plan()).fit(table(), people=people)
    with pytest.raises(DataError, match="one id for every row"):
        Trainer(model, sgd(model), cross_entropy, plan(unit="user_id")).fit(table(), people=people[:7])


def test_who_has_too_many_rows_gives_a_random_choice_of_them() -> None:
    people = People(50, ids=np.array([7] * 40 + [3] * 10), rows_per_unit=5)
    assert len(people) == 2
    found = [people.rows(np.array([0, 1]), secure()) for _ in range(60)]
    assert all(set(each[0]) <= set(range(40, 50)) and set(each[1]) <= set(range(40)) for each in found)
    assert len({row for each in found for row in each[1].tolist()}) > 30


@pytest.mark.parametrize("missing", [None, float("nan"), np.datetime64("NaT")])
def test_rows_without_an_id_take_part_in_nothing(missing: object) -> None:
    """They are nobody's, so no unit's share could hold them; nothing is refused."""
    x, y = table(40)
    ids: list[object] = [missing, *[f"person {at % 4}" for at in range(39)]]
    people = People(40, ids=ids, rows_per_unit=20)
    assert len(people) == 4
    assert 0 not in people.rows(np.arange(4), secure())
    model = network()
    stated = plan(size=4, batch=4, steps=1, unit="user_id", rows_per_unit=20)
    trainer = Trainer(model, sgd(model), cross_entropy, stated).fit((x, y), people=ids)
    assert trainer.private.norms.shape == (4,)
