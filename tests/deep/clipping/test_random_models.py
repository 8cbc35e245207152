"""Random models, mixing and not: what the engine says, against brute force. `make soak` tries two thousand."""

from __future__ import annotations

import random

import pytest
import torch

from tests.deep.clipping.random_models import ISOLATED, LATE, MIXING, Case, Model, drawn, judge

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")
MODELS, BATCHES, PARTS = 2000, 50, 20


def cases(numbers: range, batches: int) -> list[Case]:
    return [judge(drawn(random.Random(number)), batches=batches) for number in numbers]


def test_there_are_enough_operations() -> None:
    assert len(ISOLATED) >= 60
    assert len(MIXING) >= 40


def test_no_mixer_is_accepted_and_few_others_are_refused() -> None:
    """Thirty models, with six batches each."""
    several = cases(range(30), 6)
    assert [str(each) for each in several if each.accepted_mixer or each.proved_mixer] == []
    assert sum(each.false_refusal for each in several) <= 1
    assert sum(bool(each.way) for each in several) >= 10
    assert sum(not each.way for each in several) >= 10


@pytest.mark.parametrize("name", [name for name in MIXING if name not in LATE])
def test_every_mixing_operation_is_refused(name: str) -> None:
    case = judge(Model([(name, "plain")]), batches=4)
    assert not case.way
    assert case.unproved


@pytest.mark.parametrize("name", LATE)
def test_what_begins_to_mix_with_more_rows_than_the_proof_has_is_noticed(name: str) -> None:
    case = judge(Model([(name, "plain")]), batches=8)
    assert not case.accepted_mixer, case


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_no_mixer_is_accepted_among_many_models(part: int) -> None:
    """Two minutes each."""
    torch.set_num_threads(1)
    size = MODELS // PARTS
    several = cases(range(part * size, (part + 1) * size), BATCHES)
    assert [str(each) for each in several if each.accepted_mixer or each.proved_mixer] == []
    refused = [str(each) for each in several if each.false_refusal]
    print(*refused, sep="\n")
    assert len(refused) <= 0.04 * size  # 2 % on the whole; a part may have twice that
