"""Every mechanism is attacked by our own auditor, with replays, on neighbours that move it as far as they may.

An audit refutes a true claim with probability at most 1e-9. About 15 seconds; the long form runs in `make soak`.
"""

from __future__ import annotations

from typing import Any

import pytest

import deniable as dn
from deniable.auditing import Pair
from deniable.units import ADD_REMOVE, REPLACE, ZERO_OUT, Relation
from tests.laws.mechanism_examples import EXAMPLES, Example

ANSWERS: dict[str, list[Any]] = {
    "LaplaceMechanism": [4.25, 9, [2.0, 2.5, -4.125]],
    "GaussianMechanism": [4.25, [2, 3, 4, 5]],
    "Exponential": [[1, 4, 8, 9, 3]],
    "PermuteAndFlip": [[1, 4, 8, 9, 3]],
    "NoisyMax": [[1, 4, 8, 9, 3]] * 3,
    "TopK": [[1, 4, 8, 9, 3]],
    "AboveThreshold": [[1, 21, 46, 56, 121]],
}
"""Where data are answers: answers at the largest distance that the sensitivity allows."""

RECORDS: dict[str, Any] = {
    "Sum": 40.0,
    "MeanOfKnownSize": 25.0,
    "MeanOfUnknownSize": 25.0,
    "Variance": 25.0,
    "VarianceOfUnknownSize": 25.0,
    "Quantile": 25.0,
    "AuctionPrice": 3.01,
    "Median": 25.0,
    "ClusteredMean": 1e9,
    "ColumnMeans": [1.0, 1.0],
}
"""Where data are records: one at the edge. A flag or a key comes from the data."""


def neighbours(name: str, number: int, example: Example, relation: Relation) -> Pair:
    """Two inputs that differ in one record, or by the sensitivity."""
    if name in ANSWERS:
        return Pair(example.data, ANSWERS[name][number], check=False)
    if isinstance(example.data, dict):
        shorter = {column: values[:-1] for column, values in example.data.items()}
        other = {
            column: [*values[:-1], None if relation is ZERO_OUT else values[0]]
            for column, values in example.data.items()
        }
        return Pair(example.data, shorter if relation is ADD_REMOVE else other)
    data = list(example.data)
    if relation is ADD_REMOVE:
        return Pair(data, [*data, RECORDS.get(name, data[0])])
    return Pair(data, [RECORDS.get(name, data[-1]) if relation is REPLACE else None, *data[1:]])


CASES = [
    (name, number, relation)
    for name, examples in EXAMPLES.items()
    for number, example in enumerate(examples)
    for relation in example.relations
]
FIRST = [case for case in CASES if case[2] is EXAMPLES[case[0]][case[1]].relations[0]]


def attacked(name: str, number: int, relation: Relation, *, runs: int) -> dn.AuditReport:
    example = EXAMPLES[name][number]
    pair = neighbours(name, number, example, relation)
    return dn.audit(example.make(relation), neighbours=pair, confidence=1 - 1e-9, runs=runs)


@pytest.mark.parametrize(("name", "number", "relation"), FIRST)
def test_no_mechanism_is_refuted(name: str, number: int, relation: Relation) -> None:
    report = attacked(name, number, relation, runs=80)
    assert not report.refuted, str(report)


def test_a_blanked_record_of_a_mean_counts_as_the_middle() -> None:
    """What this auditor found: counted as a bound, a missing record moved the mean by twice its stated sensitivity."""
    (example,) = EXAMPLES["MeanOfKnownSize"]
    mean = example.make(ZERO_OUT)
    for record in (0.0, 25.0):
        pair = Pair([record] * 50, [record] * 49 + [None])
        assert not dn.audit(mean, neighbours=pair, confidence=1 - 1e-9, runs=40).refuted


@pytest.mark.soak
@pytest.mark.parametrize(("name", "number", "relation"), CASES)
def test_no_mechanism_is_refuted_by_many_runs(name: str, number: int, relation: Relation) -> None:
    report = attacked(name, number, relation, runs=5_000)
    assert not report.refuted, str(report)


def test_the_attack_would_notice() -> None:
    """The same pairs refute a claim of a fifth of the ε, for a mechanism of each kind: they do move the answers."""
    for name in ("LaplaceMechanism", "Sum", "Count", "Histogram"):
        example = EXAMPLES[name][0]
        pair = neighbours(name, 0, example, ADD_REMOVE)
        report = dn.audit(example.make(ADD_REMOVE), neighbours=pair, claim=dn.PureDP(0.2), runs=3000, seed=1)
        assert report.refuted, name
