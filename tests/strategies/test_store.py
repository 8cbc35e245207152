"""Strategies on disk and as text. 1 s."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deniable.errors import InvalidArgument
from deniable.strategies import (
    Banded,
    Buffered,
    Dense,
    Participation,
    Strategy,
    Toeplitz,
    once,
    optimal_toeplitz,
    separated,
    stored,
)
from deniable.strategies.store import cache
from tests.strategies.examples import strategies


@pytest.mark.parametrize("strategy", strategies(6), ids=repr)
def test_text_and_back(strategy: Strategy) -> None:
    again = Strategy.from_json(strategy.to_json())
    assert again == strategy
    assert hash(again) == hash(strategy)
    np.testing.assert_array_equal(again.matrix(), strategy.matrix())


def test_different_numbers_are_different_strategies() -> None:
    assert Toeplitz([1.0, 0.5], 4) != Toeplitz([1.0, 0.5 + 1e-15], 4)
    assert Toeplitz([1.0, 0.5], 4) != Toeplitz([1.0, 0.5], 5)


def test_found_once(tmp_path: Path) -> None:
    calls = []

    def find(participation: Participation, *, bands: int) -> Strategy:
        calls.append(bands)
        return optimal_toeplitz(participation, bands=bands)

    first = stored(find, once(20), bands=3, folder=tmp_path)
    assert stored(find, once(20), bands=3, folder=tmp_path) == first
    assert calls == [3]
    stored(find, once(20), bands=4, folder=tmp_path)
    stored(find, separated(20, separation=5), bands=3, folder=tmp_path)
    assert calls == [3, 4, 3]


def test_a_damaged_file_is_found_again(tmp_path: Path) -> None:
    first = stored(optimal_toeplitz, once(20), bands=3, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    for text in ("", "{}", "[1]", first.to_json().replace("Toeplitz", "Tree2"), Toeplitz([1.0], 19).to_json()):
        path.write_text(text)
        assert stored(optimal_toeplitz, once(20), bands=3, folder=tmp_path) == first


def test_a_changed_file_costs_accuracy_and_says_so(tmp_path: Path) -> None:
    stored(optimal_toeplitz, once(20), bands=3, folder=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(Toeplitz([9.0, 9.0], 20).to_json())
    changed = stored(optimal_toeplitz, once(20), bands=3, folder=tmp_path)
    assert float(changed.sensitivity(once(20)).value) == pytest.approx(9 * 2**0.5)


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache() == tmp_path / "deniable" / "strategies"
    stored(optimal_toeplitz, once(5), bands=2)
    assert len(list(cache().iterdir())) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Toeplitz([0.0, 1.0], 4),
        lambda: Toeplitz([1.0, np.nan], 4),
        lambda: Toeplitz([1.0] * 5, 4),
        lambda: Banded([[1.0, 0.5], [1.0, 0.5]]),
        lambda: Banded([[0.0]]),
        lambda: Dense([[1.0, 1.0], [0.0, 1.0]]),
        lambda: Dense([[1.0]] * 2),
        lambda: Buffered(decays=[1.0], weights=[0.1], steps=4),
        lambda: Buffered(decays=[0.5], weights=[-0.1], steps=4),
        lambda: Buffered(decays=[0.5, 0.2], weights=[0.1], steps=4),
        lambda: Strategy.from_json(json.dumps({"deniable_strategy": 2})),
        lambda: Strategy.from_json("nothing"),
    ],
)
def test_refusals(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgument):
        make()
