"""Every mechanism, on records in every kind of container, on tables, and on answers that a caller computed.

Data, parameters and relations come from `tests/laws/mechanism_examples.py`. Under ADD_REMOVE the hostile record is
added; under REPLACE and ZERO_OUT, where the number of records is public, it takes the last one's place.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from deniable import mechanisms, noise
from deniable.guarantees import PureDP
from deniable.units import ADD_REMOVE, Relation
from tests.laws.mechanism_examples import CASES, EXAMPLES
from tests.laws.neighbours import hostile
from tests.laws.neighbours.core import REMOVED, EntryPoint, World
from tests.laws.neighbours.shapes import Shape, shape_of

SAMPLE, MOST = 4, 60
"""Hostile units of an ordinary run: a few in every container and under every relation, half of all once for each
mechanism. Names decide which, so that every unit is tried on many mechanisms."""


# records


@dataclass(frozen=True)
class Scattered:
    """Hostile records at random places, for the soak."""

    values: tuple[Any, ...]
    seed: int


def neighbour(own: list[Any], unit: Any, relation: Relation) -> list[Any]:
    """D, D without its last record, or D with hostile records: added, or in place of others."""
    if unit is None:
        return own
    if unit is REMOVED:
        return own[:-1]
    if isinstance(unit, Scattered):
        rng, found = random.Random(unit.seed), list(own)
        for value in unit.values:
            place = rng.randrange(len(found))
            found[place : place + (relation is not ADD_REMOVE)] = [value]
        return found
    return [*own, *unit] if relation is ADD_REMOVE else [*own[: -len(unit)], *unit]


def units(relation: Relation, *kinds: Mapping[str, Any], form: Callable[[Any], Any] = lambda value: value) -> Any:
    """Hostile records by label; the one that is removed only where a record can be."""
    removed = {"removed": REMOVED} if relation is ADD_REMOVE else {}
    found = hostile.values(*(kinds or (hostile.ANY,)), form=lambda value: [form(value)])
    return {**removed, **found, "duplicates": [form(1.0), form(1.0)]}


def many(relation: Relation) -> dict[str, Any]:
    """Very many records, where their number is private and no key is released."""
    return {"many rows": [3.5] * hostile.MANY} if relation is ADD_REMOVE else {}


def scattered(rng: random.Random) -> Scattered:
    return Scattered(tuple(hostile.mixed(rng, hostile.ANY, most=6)), rng.randrange(2**32))


def as_array(rows: list[Any]) -> Any:
    """What NumPy makes of a list: one dtype for all, decided by all of them."""
    try:
        found = np.array(rows)
    except Exception:  # noqa: BLE001  lists of different lengths, values that raise
        found = None
    if found is None or found.ndim != 1 or len(found) != len(rows):
        found = np.empty(len(rows), dtype=object)
        for place, value in enumerate(rows):
            found[place] = value
    return found


CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "array": as_array,
    "Series": lambda rows: pd.Series(as_array(rows), dtype=object),
    "generator": iter,
}


# what may differ


def optional(result: Any) -> Shape:
    """A release or None: which of them is decided by a private test."""
    return "a release" if result is None or np.all(np.isfinite(result)) else "not finite"


def key(result: Any) -> Shape:
    """A key of the data, or none, is what a private test releases."""
    return "a key or none"


def reports(result: Any) -> Shape:
    """Reports are noise; how many there are is public."""
    return type(result).__name__, len(result), sorted({type(report).__name__ for report in result})


def answers(result: list[bool]) -> Shape:
    """How many answers come before the run is over is decided by noise."""
    return type(result).__name__, {type(answer).__name__ for answer in result}


SHAPES: dict[str, Callable[[Any], Shape]] = {
    "AboveThreshold": answers,
    "CategoryResponse": reports,
    "ClusteredMean": optional,
    "Mode": key,
    "ProposeTestRelease": key,
}
RELEASES_KEYS = {"Mode", "StabilityHistogram", "ProposeTestRelease"}
"""Many records with one key rightly change what these release."""


def record_entries() -> list[EntryPoint]:
    """Every mechanism on records: every relation, every container."""
    found = []
    for name, i in CASES:
        example = EXAMPLES[name][i]
        if not example.records or name in ("ColumnMeans", "ClusteredMeans"):
            continue
        for relation in example.relations:
            for container, put in CONTAINERS.items():

                def call(
                    world: World, unit: Any, example: Any = example, relation: Any = relation, put: Any = put
                ) -> Any:
                    rows = put(neighbour(list(example.data), unit, relation))
                    return example.make(relation)(rows, source=world.source)

                first = container == "list" and relation is example.relations[0] and i == 0
                found.append(
                    EntryPoint(
                        f"mechanisms.{name}, example {i}, {relation.name}, {container}",
                        covers=(f"deniable.mechanisms.{name}.__call__",),
                        hostile=units(relation) | (many(relation) if first and name not in RELEASES_KEYS else {}),
                        call=call,
                        shape=SHAPES.get(name, shape_of),
                        mix=scattered,
                        sample=MOST if first else SAMPLE,
                    )
                )
    return found


# computed answers

CONTAINERS_BY_LABEL = {
    "dict", "list", "nested list", "empty list", "tuple", "empty tuple", "set", "array", "empty array", "frame",
    "derived list", "raising sequence", "raising array", "raising everything",
}  # fmt: skip
"""Several numbers in place of one: a shape, which is declared by `dimension`, and refused."""

ANSWERS = {label: value for label, value in hostile.ANY.items() if label not in CONTAINERS_BY_LABEL}


def answer_entries() -> list[EntryPoint]:
    """Every mechanism on numbers that a caller computed: the hostile one takes the first one's place."""
    found = []
    for name, i in CASES:
        example = EXAMPLES[name][i]
        if example.records or isinstance(example.data, dict) or name == "ReusableHoldout":  # it takes records, in pairs
            continue
        for container in ("list", "array") if isinstance(example.data, list) else ("number",):

            def call(world: World, unit: Any, example: Any = example, put: str = container) -> Any:
                mechanism = example.make(example.relations[0])
                data = example.data
                if unit is not None:
                    data = [unit, *example.data[1:]] if isinstance(example.data, list) else unit
                return mechanism(as_array(data) if put == "array" else data, source=world.source)

            choices = {"Exponential", "NoisyMax", "PermuteAndFlip", "TopK"}
            covers = (f"deniable.mechanisms.{name}.__call__", f"deniable.mechanisms.{name}.utilities")
            found.append(
                EntryPoint(
                    f"mechanisms.{name}, example {i}, {container}",
                    covers=covers if name in choices else covers[:1],
                    hostile=ANSWERS if container == "number" else dict(hostile.ANY),
                    call=call,
                    shape=SHAPES.get(name, shape_of),
                    sample=MOST if i == 0 and container != "array" else SAMPLE,
                )
            )
    return found


# tables


def table_entries() -> list[EntryPoint]:
    """Contingency tables and marginals, given by columns; a hostile row has the value in one column, or in both."""
    forms = {"x": lambda value: (value, "u"), "y": lambda value: (0, value), "both": lambda value: (value, value)}
    found = []
    for name in ("Contingency", "Marginals"):
        (example,) = EXAMPLES[name]
        for put in (dict, pd.DataFrame):
            for where, form in forms.items():

                def call(world: World, unit: Any, example: Any = example, put: Any = put) -> Any:
                    rows = neighbour(list(zip(*example.data.values(), strict=True)), unit, ADD_REMOVE)
                    columns = {
                        column: pd.Series(as_array([row[place] for row in rows]), dtype=object)
                        for place, column in enumerate(example.data)
                    }
                    return example.make(ADD_REMOVE)(put(columns), source=world.source)

                found.append(
                    EntryPoint(
                        f"mechanisms.{name}, {put.__name__}, a value in {where}",
                        covers=(f"deniable.mechanisms.{name}.__call__",),
                        hostile=units(ADD_REMOVE, form=form),
                        call=call,
                        sample=MOST if put is dict and where == "x" else SAMPLE,
                    )
                )
    return found


def means_of(name: str, put: Callable[[list[Any]], Any]) -> Callable[[World, Any], Any]:
    (example,) = EXAMPLES[name]

    def call(world: World, unit: Any) -> Any:
        rows = neighbour(list(example.data), unit, example.relations[0])
        return example.make(example.relations[0])(put(rows), source=world.source)

    return call


def as_matrix(rows: list[Any]) -> Any:
    found = np.empty((len(rows), 2), dtype=object)
    for place, row in enumerate(rows):
        found[place, 0], found[place, 1] = row
    return found


(MEANS,) = (example.relations[0] for example in EXAMPLES["ColumnMeans"])
COLUMN_MEANS = [
    EntryPoint(
        f"mechanisms.{name}, {how}",
        covers=(f"deniable.mechanisms.{name}.__call__",),
        hostile=units(MEANS, form=form),
        call=means_of(name, put),
        shape=optional if name == "ClusteredMeans" else shape_of,
        sample=sample,
    )
    for name in ("ColumnMeans", "ClusteredMeans")
    for how, form, put, sample in (
        ("a hostile value", lambda value: [value, 0.5], list, MOST),
        ("a hostile row", lambda value: value, list, MOST),
        ("array", lambda value: [0.5, value], as_matrix, SAMPLE),
        ("frame", lambda value: [value, value], lambda rows: pd.DataFrame(as_matrix(rows)), SAMPLE),
    )
]


# the rest


def best_of(world: World, unit: Any) -> Any:
    """Two candidates, and data that can be read once only."""
    rows = iter(neighbour([1.0, 2.0, 3.0], unit, ADD_REMOVE))
    candidates = [mechanisms.sum_of(bounds=(0, 9), epsilon=1), mechanisms.quantile(bounds=(0, 9), q=0.5, epsilon=1)]

    def score(output: Any) -> Any:
        return None if output < 0 else output

    return mechanisms.best_of(candidates, score=score, trials=3)(rows)


def search(world: World, unit: Any) -> Any:
    rows = neighbour([1.0, 2.0, 3.0], unit, ADD_REMOVE)
    mechanism = mechanisms.mean(bounds=(0, 9), epsilon=1)
    found = mechanisms.search([mechanism.event, mechanism.event], trials=3)
    return found.run(lambda trial: mechanism(rows), score=lambda output: output)


def above_threshold(world: World, unit: Any) -> Any:
    """One query after another, while the run lasts."""
    run = mechanisms.above_threshold(threshold=1e9, sensitivity=1, epsilon=1).start(source=world.source)
    return [run(value) for value in (0.5, 0.5 if unit is None else unit, -1) if not run.over]


def reusable_holdout(world: World, unit: Any) -> Any:
    """One query after another, while the run lasts; one record of the holdout is hostile."""
    holdout = mechanisms.reusable_holdout(size=3, threshold=0.5, epsilon=1)
    values = [0.5, 0.5, 0.5 if unit is None else unit]
    run = holdout.start(source=world.source)
    one_by_one = [run(values, training=training) for training in (0.5, 0.0, 1.0) if not run.over]
    return one_by_one + holdout([(values, 0.5), (tuple(values), 0)], source=world.source)


def propose_test_release(world: World, unit: Any) -> Any:
    """The distance that a caller computed, whatever it is."""
    made = mechanisms.propose_test_release(
        base=lambda data, source: 1.0,
        distance=lambda data: 40 if unit is None else unit,
        promise=PureDP(0),
        epsilon=1,
        delta=1e-6,
    )
    return made([1.0], source=world.source)


def stability_histogram(world: World, unit: Any) -> Any:
    """Several keys for each unit; the hostile one has any collection of them."""
    rows = neighbour([["a", "b"]] * 500, unit, ADD_REMOVE)
    return mechanisms.stability_histogram(epsilon=1, delta=1e-6, per_unit=2)(rows, source=world.source)


def revenues(world: World, unit: Any) -> Any:
    return mechanisms.auction_price(prices=[1, 2, 3.5], epsilon=1).revenues(neighbour([1, 2, 3.0], unit, ADD_REMOVE))


def place(world: World, unit: Any) -> Any:
    """The indices themselves are private; the sum of them is one number."""
    grid = noise.Grid(low=-1, high=9, step=0.5)
    indices = grid.place(neighbour([1.0, 2.0, 3.0], unit, ADD_REMOVE))
    return str(indices.dtype), indices.ndim, grid.total(indices)


def add(world: World, unit: Any) -> Any:
    sums = np.array([1, 2, 3 if unit is None else unit], dtype=np.int64)
    return noise.add(sums, noise.discrete_laplace(2, 3, source=world.source))


def race(world: World, unit: Any) -> Any:
    scores = [1, 2.5, 3 if unit is None else unit]
    return noise.race(scores, source=world.source), noise.ranking(scores, 2, source=world.source)


def best(result: mechanisms.Best) -> Shape:
    """Which candidate won is noise."""
    return type(result.output).__name__, type(result.score).__name__


OTHERS = [
    EntryPoint(name, tuple(f"deniable.{covered}" for covered in covers), units_, call, **{"sample": MOST, **more})
    for name, covers, units_, call, more in (
        ("mechanisms.best_of, generator", ["mechanisms.BestOf.__call__"], units(ADD_REMOVE), best_of,
         {"mix": scattered, "shape": best}),
        ("mechanisms.search", ["mechanisms.PrivateSearch.run"], units(ADD_REMOVE), search,
         {"mix": scattered, "sample": 20}),
        ("mechanisms.above_threshold, a run", ["mechanisms.AboveThreshold.start"], dict(hostile.ANY), above_threshold,
         {"shape": answers}),
        ("mechanisms.reusable_holdout, a run",
         ["mechanisms.ReusableHoldout.start", "mechanisms.ReusableHoldout.__call__"], dict(hostile.ANY),
         reusable_holdout, {"shape": answers}),
        ("mechanisms.propose_test_release, distance", ["mechanisms.ProposeTestRelease.__call__"], dict(hostile.ANY),
         propose_test_release, {"shape": optional}),
        ("mechanisms.stability_histogram, several keys", ["mechanisms.StabilityHistogram.__call__"],
         {**units(ADD_REMOVE), "many keys": [range(hostile.MANY)], "hostile keys": [list(hostile.ANY.values())]},
         stability_histogram, {}),
        ("mechanisms.auction_price, revenues", ["mechanisms.AuctionPrice.revenues"], units(ADD_REMOVE), revenues,
         {"mix": scattered}),
        ("noise.Grid", ["noise.Grid.place", "noise.Grid.total"], units(ADD_REMOVE), place, {"mix": scattered}),
        ("noise.add", ["noise.add"], {"2^62": 2**62 - 1, "-2^63": -(2**63), "0": 0}, add, {"shape": np.shape}),
        ("noise.race", ["noise.race", "noise.ranking"], dict(hostile.ANY), race, {}),
    )
]  # fmt: skip

ENTRY_POINTS = [*record_entries(), *answer_entries(), *table_entries(), *COLUMN_MEANS, *OTHERS]
