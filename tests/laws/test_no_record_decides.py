"""No record decides: whichever single unit is added, removed or changed, all but the noisy values is the same.

Success or failure, exception type and message, warnings, log lines, what is printed, rows charged, names, shapes and
types of what is released, files written. `tests/laws/neighbours/core.py` says how to register an entry point.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.laws.neighbours.core import REMOVED, EntryPoint, Observation, difference, observe, ordinary_labels

SOAK_SECONDS = float(os.environ.get("DENIABLE_SOAK_SECONDS", "600"))
"""How long the random form runs."""

Fixtures = dict[str, Any]


def entry_points() -> Iterator[EntryPoint]:
    for path in sorted((Path(__file__).parent / "neighbours").glob("[!_]*.py")):
        yield from getattr(import_module(f"tests.laws.neighbours.{path.stem}"), "ENTRY_POINTS", ())


ENTRIES = {entry.name: entry for entry in entry_points()}
LABELS = ordinary_labels(ENTRIES.values())
every_entry = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, id=name, marks=[pytest.mark.xdist_group("spark")] if "spark" in entry.needs else [])
        for name, entry in ENTRIES.items()
    ],
)
"""What needs Spark runs in the one group that starts it."""


@pytest.fixture
def fixtures(request: pytest.FixtureRequest) -> Callable[[EntryPoint], Fixtures]:
    return lambda entry: {name: request.getfixturevalue(name) for name in entry.needs}


_ORDINARY: dict[tuple[str, int], Observation] = {}
"""D, observed once for all neighbours of a run."""


def ordinary(entry: EntryPoint, given: Fixtures, *, seed: int, again: bool = False) -> Observation:
    """D without a hostile unit."""
    key = entry.name, seed
    if again or key not in _ORDINARY:
        _ORDINARY[key] = observe(entry, seed=seed, fixtures=given)
    return _ORDINARY[key]


def broken(entry: EntryPoint, unit: Any, label: str, given: Fixtures, *, seed: int = 0) -> str:
    """How one pair of neighbours breaks the law; empty when it does not.

    A first call may load what later ones find loaded, and warn. So a difference counts if D looks as before when it is
    observed again; otherwise the neighbours are compared once more, both of them warm.
    """
    without = ordinary(entry, given, seed=seed)
    assert without.succeeded, f"{entry.name} fails on ordinary data: {without.outcome}"
    seen = difference(without, observe(entry, unit, seed=seed, fixtures=given))
    if not seen:
        return ""
    cold, without = without, ordinary(entry, given, seed=seed, again=True)
    if cold != without:
        seen = difference(without, observe(entry, unit, seed=seed, fixtures=given))
    if not seen:
        return ""
    again = difference(without, observe(entry, seed=seed, fixtures=given))
    steady = f"\nD itself differs from call to call, so the entry is not pinned:\n{again}" if again else ""
    return f"{entry.name}: one unit ({label}) decides what is seen.\n{seen}{steady}"


def check(entry: EntryPoint, labels: Iterable[str], given: Fixtures) -> None:
    """The law, for the neighbours of these labels."""
    found = [broken(entry, entry.hostile[label], label, given) for label in labels]
    if any(found):
        pytest.fail("\n".join(filter(None, found)), pytrace=False)


@every_entry
def test_no_record_decides(name: str, fixtures: Callable[[EntryPoint], Fixtures]) -> None:
    check(ENTRIES[name], LABELS[name], fixtures(ENTRIES[name]))


@pytest.mark.soak
@every_entry
def test_every_hostile_unit(name: str, fixtures: Callable[[EntryPoint], Fixtures]) -> None:
    """What the ordinary run samples, in full."""
    check(ENTRIES[name], ENTRIES[name].hostile, fixtures(ENTRIES[name]))


@pytest.mark.soak
def test_at_random(fixtures: Callable[[EntryPoint], Fixtures]) -> None:
    """Random entry points, seeds and mixtures of hostile values. `DENIABLE_SOAK_SECONDS` says for how long.

    Neighbours differ by several units here: if one unit changes nothing, several do not either. Spark is left to the
    test before this one, which keeps its one process.
    """
    names = [name for name, entry in ENTRIES.items() if "spark" not in entry.needs]
    start = int(os.environ.get("DENIABLE_SOAK_SEED", str(time.time_ns())))
    end = time.monotonic() + SOAK_SECONDS
    number = 0
    while time.monotonic() < end:
        rng = random.Random(f"{start} {number}")
        entry = ENTRIES[rng.choice(names)]
        label, unit = f"DENIABLE_SOAK_SEED={start}, number {number}", REMOVED
        if entry.mix is not None:
            unit = entry.mix(rng)
        else:
            label, unit = rng.choice(list(entry.hostile.items()))
        if found := broken(entry, unit, label, fixtures(entry), seed=rng.randrange(1, 2**32)):
            pytest.fail(found, pytrace=False)
        _ORDINARY.clear()
        number += 1
    assert number > 0


def test_entry_points_are_registered_well() -> None:
    found = [entry.name for entry in entry_points()]
    assert len(found) == len(set(found)), "two entry points have one name"
    for entry in ENTRIES.values():
        assert entry.hostile, f"{entry.name} has no hostile units"
        assert entry.covers, f"{entry.name} covers nothing"
        assert ("removed" in entry.hostile) == any(unit is REMOVED for unit in entry.hostile.values()), (
            f'{entry.name}: the label "removed" belongs to REMOVED'
        )
