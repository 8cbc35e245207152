"""The harness sees what it must: every kind of leak, planted once, is found; and an honest entry passes."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import random
import sys
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable import mechanisms, noise
from deniable.events import Laplace
from tests.laws.neighbours.core import REMOVED, Command, EntryPoint, World, difference, observe


def total(world: World, unit: Any) -> Any:
    rows = [1.0, 2.0] if unit is None else [1.0] if unit is REMOVED else [1.0, 2.0, unit]
    return mechanisms.sum_of(bounds=(0, 9), epsilon=1)(rows)


def raises(world: World, unit: Any) -> Any:
    if unit is not None:
        raise ValueError("NaN in the data")
    return total(world, unit)


def warns(world: World, unit: Any) -> Any:
    if unit is not None:
        warnings.warn("a value is infinite", RuntimeWarning, stacklevel=1)
    return total(world, unit)


def logs(world: World, unit: Any) -> Any:
    logging.getLogger("deniable.sums").info("%d rows", 2 if unit is None else 3)
    return total(world, unit)


def prints(world: World, unit: Any) -> Any:
    print(2 if unit is None else 3)
    return total(world, unit)


def complains(world: World, unit: Any) -> Any:
    print(2 if unit is None else 3, file=sys.stderr)
    return total(world, unit)


def writes_to_the_descriptor(world: World, unit: Any) -> Any:
    os.write(2, b"2 rows" if unit is None else b"3 rows")
    return total(world, unit)


def charges_again(world: World, unit: Any) -> Any:
    with world.ledger(unit="row") as ledger:
        for _ in range(1 if unit is None else 2):
            ledger.charge(Laplace(scale=1), purpose="sum")
    return total(world, unit)


def charges_another(world: World, unit: Any) -> Any:
    with world.ledger(unit="row") as ledger:
        ledger.charge(Laplace(scale=1 if unit is None else 2), purpose="sum")
    return total(world, unit)


def names_the_purpose(world: World, unit: Any) -> Any:
    world.ledger(unit="row").charge(Laplace(scale=1), purpose=f"sum of {2 if unit is None else 3} rows")
    return total(world, unit)


def writes_a_file(world: World, unit: Any) -> Any:
    if unit is not None:
        Path("rejected.txt").write_text("row 3")
    return total(world, unit)


def writes_another_word(world: World, unit: Any) -> Any:
    Path("release.json").write_text('{"rows": 12}' if unit is None else '{"rows": 13, "skipped": 1}')
    return total(world, unit)


def changes_the_type(world: World, unit: Any) -> Any:
    return total(world, unit) if unit is None else int(total(world, unit))


def changes_the_length(world: World, unit: Any) -> Any:
    return [total(world, None)] * (2 if unit is None else 3)


def changes_the_dtype(world: World, unit: Any) -> Any:
    return np.zeros(3, dtype=np.float64 if unit is None else object)


def names_a_key(world: World, unit: Any) -> Any:
    return {"a": 1} if unit is None else {"a": 1, "b": 1}


def orders_the_keys(world: World, unit: Any) -> Any:
    return {"a": 1, "b": 1} if unit is None else {"b": 1, "a": 1}


def is_poisoned(world: World, unit: Any) -> Any:
    return 1.5 if unit is None else math.nan


def leaves_another_code(world: World, unit: Any) -> Any:
    return world.command("account", "--noise-multiplier", "1.1" if unit is None else "none", "--steps", "5")


def leaves_quietly(world: World, unit: Any) -> Any:
    return Command(0 if unit is None else 3, "done")


def chains_a_cause(world: World, unit: Any) -> Any:
    try:
        try:
            raise KeyError("a" if unit is None else "b")
        except KeyError as cause:
            raise ValueError("refused") from cause
    except ValueError as error:
        return error


LEAKS: list[Callable[[World, Any], Any]] = [
    raises, warns, logs, prints, complains, writes_to_the_descriptor, charges_again, charges_another, names_the_purpose,
    writes_a_file, writes_another_word,
    changes_the_type, changes_the_length, changes_the_dtype, names_a_key, orders_the_keys, is_poisoned,
    leaves_another_code, leaves_quietly, chains_a_cause,
]  # fmt: skip


def entry(call: Callable[[World, Any], Any]) -> EntryPoint:
    return EntryPoint(call.__name__, ("deniable.mechanisms.Sum.__call__",), {"NaN": math.nan}, call)


@pytest.mark.parametrize("leak", LEAKS, ids=lambda leak: leak.__name__)
def test_a_planted_leak_is_found(leak: Callable[[World, Any], Any]) -> None:
    """One line about what differs, on the neighbour alone: D against itself is the same."""
    one = entry(leak)
    without = observe(one)
    assert without.succeeded
    assert not difference(without, observe(one))
    seen = difference(without, observe(one, math.nan))
    assert "with it" in seen
    assert len(seen.splitlines()) < 40


@pytest.mark.parametrize("unit", [math.nan, 1e308, REMOVED])
def test_an_honest_entry_passes(unit: Any) -> None:
    assert observe(entry(total), unit) == observe(entry(total))


def draws(world: World, unit: Any) -> Any:
    """Random words of every origin, as text that the shape keeps."""
    rng = np.random.default_rng()
    found = [noise.secure().word(), random.random(), np.random.random(), rng.random(), uuid.uuid4().int]
    return {str(found): noise.secure().secure}


def test_all_randomness_is_pinned_inside_and_none_outside() -> None:
    one = entry(draws)
    before = noise.secure().word()
    assert observe(one) == observe(one)
    assert observe(one, seed=1) != observe(one, seed=2)
    after = noise.secure().word()
    assert observe(one) == observe(one)
    assert len({before, after, noise.secure().word()}) == 3, "a pinned key is in use outside the harness"


def test_the_world_is_empty_and_left_behind() -> None:
    here = Path.cwd()

    def call(world: World, unit: Any) -> Any:
        assert Path.cwd() == world.folder
        assert not list(world.folder.iterdir())
        world.write("data/visits.csv", "id\n1\n")
        return {str(world.folder): 1}

    with contextlib.ExitStack():
        first, second = observe(entry(call)), observe(entry(call))
    assert first == second
    assert first.files == ("data/visits.csv",)
    assert first.succeeded
    assert Path.cwd() == here
