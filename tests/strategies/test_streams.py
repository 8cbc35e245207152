"""Streams: the noise is N·z with N·C = I, in the promised memory, on arrays and tensors, and after a loss. 2 s."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from deniable.errors import DataError, InvalidArgument
from deniable.strategies import Buffered, Toeplitz, Tree, ordered, separated
from tests.strategies.examples import mixed_signs, noising, strategies

SIZES = [1, 2, 3, 8, 13]


@pytest.mark.parametrize("steps", SIZES)
def test_the_noise_undoes_the_strategy(steps: int) -> None:
    for strategy in strategies(steps):
        np.testing.assert_allclose(noising(strategy) @ strategy.matrix(), np.eye(steps), atol=1e-9)


@pytest.mark.parametrize("steps", SIZES)
def test_tensors_and_arrays_agree(steps: int) -> None:
    random = np.random.default_rng(2)
    for strategy in strategies(steps):
        left, right = strategy.stream(), strategy.stream()
        for _ in range(steps):
            fresh = [random.normal(size=5) for _ in range(left.draws())]
            given = copy.deepcopy(fresh)
            found = left.next(fresh)
            same = right.next([torch.from_numpy(each) for each in given])
            np.testing.assert_allclose(found, same.numpy(), atol=1e-10)


@pytest.mark.parametrize("steps", [1, 8, 13])
def test_memory_is_what_is_promised(steps: int) -> None:
    for strategy in strategies(steps):
        stream, most = strategy.stream(), 0
        for _ in range(steps):
            stream.next([np.zeros(2) for _ in range(stream.draws())])
            most = max(most, len(stream.state()["memory"]))
        assert most <= max(strategy.memory, 1), strategy
    assert (Tree(1 << 20).memory, Toeplitz.square_root(10**4, bands=8).memory) == (21, 7)
    assert Buffered(decays=[0.9, 0.4], weights=[0.1, 0.4], steps=10**4).memory == 2


@pytest.mark.parametrize("at", [0, 1, 4, 5])
def test_a_state_goes_on_where_it_was(at: int) -> None:
    random = np.random.default_rng(5)
    for strategy in strategies(8):
        whole, before, after = strategy.stream(), strategy.stream(), strategy.stream()
        for t in range(8):
            if t == at:
                after.load(copy.deepcopy(before.state()))
            fresh = [random.normal(size=3) for _ in range(whole.draws())]
            again = copy.deepcopy(fresh)
            expected = whole.next(fresh)
            np.testing.assert_array_equal((before if t < at else after).next(again), expected)
            if t < at and t == at - 1:
                assert before.step == at


@pytest.mark.parametrize("kept", [0, 1, 3, 6])
@pytest.mark.parametrize("lost", [1, 2, 5])
def test_lost_steps_never_cost_more(kept: int, lost: int) -> None:
    # The exact cost of what was released: u·(N Nᵀ)⁻¹·u, with steps `kept` … `kept + lost` released and forgotten.
    steps = 13
    for strategy in [Tree(steps), Toeplitz.square_root(steps), mixed_signs(steps, 3), *strategies(steps)]:
        for participation in (separated(steps, separation=3), ordered(steps, period=4)):
            if not strategy.survives_loss(participation.separation):
                continue
            stream = strategy.stream()
            before = noising(strategy)
            for _ in range(kept):
                stream.next([np.ones(1)] * stream.draws())
            stream.skip(kept + lost)
            rest, start = np.zeros((steps, strategy.rows)), 0
            for t in range(kept + lost, steps):
                fresh = np.eye(stream.draws(), strategy.rows, start)
                start += len(fresh)
                rest[t] = stream.next(list(fresh))
            released = np.hstack([before, np.zeros_like(before)])
            released[kept + lost :] = np.hstack([np.zeros_like(before), rest])[kept + lost :]
            cost = np.abs(np.linalg.inv(released @ released.T))
            bound = float(strategy.sensitivity(participation).value) ** 2
            phases = [list(range(p, steps, participation.separation)) for p in range(participation.separation)]
            assert max(cost[np.ix_(p, p)].sum() for p in phases) <= bound * (1 + 1e-9), strategy


def test_negative_entries_do_not_survive_a_loss() -> None:
    assert not mixed_signs(9, 4).survives_loss(3)
    assert mixed_signs(9, 3).survives_loss(3)
    assert Toeplitz.square_root(9).survives_loss(1)


def test_refusals() -> None:
    stream = Tree(2).stream()
    with pytest.raises(InvalidArgument, match="vectors"):
        stream.next([np.zeros(1), np.zeros(1)])
    stream.skip(2)
    with pytest.raises(InvalidArgument, match="one of the 2 steps"):
        stream.next([np.zeros(1)] * stream.draws())
    with pytest.raises(InvalidArgument, match="between 2 and 2"):
        stream.skip(1)
    for strategy in (Tree(9), Toeplitz([1.0, 0.5], 9), Buffered(decays=[0.5], weights=[0.5], steps=9)):
        with pytest.raises(DataError):
            strategy.stream().load({"step": 4, "memory": [np.zeros(1)] * 9})
        with pytest.raises(DataError):
            strategy.stream().load({"step": 40, "memory": []})
        with pytest.raises(DataError):
            strategy.stream().load({})
