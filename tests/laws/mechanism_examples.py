"""One example or more of every mechanism, with its data and how wrong a release is: what the laws run over.

A mechanism without a line here fails `test_every_mechanism_has_an_example`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deniable import mechanisms as dm
from deniable import noise
from deniable.guarantees import ApproxDP, PureDP
from deniable.mechanisms import Mechanism
from deniable.units import ADD_REMOVE, REPLACE, ZERO_OUT, Relation

KEYS = ["a", "b", "c"]
FLAGS = [True] * 30 + [False] * 20
LETTERS = ["a"] * 25 + ["b"] * 15 + ["c"] * 10
NUMBERS = [0.5 * i for i in range(50)]
TABLE = {"x": [0, 1] * 25, "y": ["u", "v", "v", "u", "u"] * 10}
ATTRIBUTES = {"x": [0, 1], "y": ["u", "v"]}
ROWS = [[i / 50, 1 - i / 50] for i in range(50)]


@dataclass(frozen=True)
class Example:
    """How to make a mechanism under each relation it has, data for it, and how wrong a release is."""

    make: Callable[[Relation], Mechanism]
    data: Any
    wrong: Callable[[Any, Mechanism], float]
    relations: tuple[Relation, ...] = (ADD_REMOVE, REPLACE, ZERO_OUT)
    assumptions: dict[str, Any] = field(default_factory=dict)
    promise: Callable[[Relation], PureDP | ApproxDP] = lambda relation: PureDP(1, relation=relation)
    records: bool = True
    """Whether data are records, so that any of them may be missing or absurd."""


def approximate(relation: Relation) -> ApproxDP:
    return ApproxDP(1, 1e-6, relation=relation)


def largest(found: Any, truth: Any) -> float:
    return float(np.max(np.abs(np.asarray(found, dtype=float) - np.asarray(truth, dtype=float))))


def histogram_error(found: dict[Any, int], truth: list[str]) -> float:
    return max(abs(found[key] - truth.count(key)) for key in KEYS)


def table_of(names: tuple[str, ...]) -> np.ndarray:
    truth = np.zeros([2] * len(names), dtype=int)
    for row in zip(*(TABLE[name] for name in names), strict=True):
        truth[tuple(ATTRIBUTES[name].index(value) for name, value in zip(names, row, strict=True))] += 1
    return truth


def shares(found: dict[Any, dm.Estimate]) -> float:
    return max(abs(found[key].value - LETTERS.count(key) / 50) for key in KEYS)


def rank_error(value: float, q: float) -> float:
    below, upto = sum(x < value - 1e-4 for x in NUMBERS), sum(x <= value + 1e-4 for x in NUMBERS)
    return max(0.0, below - q * 50, q * 50 - upto)


UTILITIES = [0, 3, 9, 10, 2]
BOTH = (ADD_REMOVE, REPLACE)
CLUSTER = [5 + i / 1000 for i in range(400)]
BIDS = [1, 1, 1, 3.01, 2, 2.5] * 10
MIDDLE = 12.0  # the lower median of NUMBERS

EXAMPLES: dict[str, list[Example]] = {
    "LaplaceMechanism": [
        Example(
            lambda r: dm.laplace(sensitivity=1, epsilon=1, relation=r), 3.25, lambda y, m: abs(y - 3.25), records=False
        ),
        Example(
            lambda r: dm.laplace(sensitivity=2, epsilon=1, step=1, relation=r),
            7,
            lambda y, m: abs(y - 7),
            records=False,
        ),
        Example(
            lambda r: dm.laplace(sensitivity=1, epsilon=1, norm=2, dimension=3, relation=r),
            [1.0, 2.5, -4.125],
            lambda y, m: largest(y, [1.0, 2.5, -4.125]),
            records=False,
        ),
    ],
    "GaussianMechanism": [
        Example(
            lambda r: dm.gaussian(sensitivity=1, epsilon=1, delta=1e-6, relation=r),
            3.25,
            lambda y, m: abs(y - 3.25),
            promise=approximate,
            records=False,
        ),
        Example(
            lambda r: dm.gaussian(sensitivity=1, epsilon=1, delta=1e-6, norm=math.inf, dimension=4, step=1, relation=r),
            [1, 2, 3, 4],
            lambda y, m: largest(y, [1, 2, 3, 4]),
            promise=approximate,
            records=False,
        ),
    ],
    "Count": [
        Example(lambda r: dm.count(epsilon=1, relation=r), FLAGS, lambda y, m: abs(y - 30)),
        Example(
            lambda r: dm.count(epsilon=1, delta=1e-6, relation=r), FLAGS, lambda y, m: abs(y - 30), promise=approximate
        ),
    ],
    "Sum": [
        Example(
            lambda r: dm.sum_of(bounds=(-5, 40), epsilon=1, relation=r),
            NUMBERS,
            lambda y, m: abs(y - sum(NUMBERS)) - 1e-3,
        ),
        Example(
            lambda r: dm.sum_of(bounds=(0, 40), epsilon=1, step=0.5, delta=1e-6, relation=r),
            NUMBERS,
            lambda y, m: abs(y - sum(NUMBERS)),
            promise=approximate,
        ),
    ],
    "MeanOfKnownSize": [
        Example(
            lambda r: dm.mean(bounds=(0, 25), size=50, epsilon=1, relation=r),
            NUMBERS,
            lambda y, m: abs(y - 12.25),
            (REPLACE, ZERO_OUT),
        )
    ],
    "MeanOfUnknownSize": [
        Example(
            lambda r: dm.mean(bounds=(0, 25), epsilon=1, relation=r),
            NUMBERS,
            lambda y, m: abs(y - 12.25),
            (ADD_REMOVE,),
            {"size": 50},
        )
    ],
    "Variance": [
        Example(
            lambda r: dm.variance(bounds=(0, 25), size=50, epsilon=1, relation=r),
            NUMBERS,
            lambda y, m: abs(y - np.var(NUMBERS)),
            (REPLACE,),
        )
    ],
    "VarianceOfUnknownSize": [
        Example(
            lambda r: dm.variance(bounds=(0, 25), epsilon=1, delta=1e-6, relation=r),
            NUMBERS * 40,
            lambda y, m: abs(y - np.var(NUMBERS)),
            (ADD_REMOVE,),
            {"size": 2000},
            approximate,
        )
    ],
    "Histogram": [
        Example(
            lambda r: dm.histogram(keys=KEYS, epsilon=1, relation=r), LETTERS, lambda y, m: histogram_error(y, LETTERS)
        ),
        Example(
            lambda r: dm.histogram(keys=KEYS, epsilon=1, delta=1e-6, relation=r),
            LETTERS,
            lambda y, m: histogram_error(y, LETTERS),
            promise=approximate,
        ),
    ],
    "Contingency": [
        Example(
            lambda r: dm.contingency(attributes=ATTRIBUTES, epsilon=1, relation=r),
            TABLE,
            lambda y, m: largest(y, table_of(("x", "y"))),
            records=False,
        )
    ],
    "Marginals": [
        Example(
            lambda r: dm.marginals(attributes=ATTRIBUTES, ways=1, epsilon=1, relation=r),
            TABLE,
            lambda y, m: max(largest(y[names], table_of(names)) for names in y),
            records=False,
        )
    ],
    "ColumnMeans": [
        Example(
            lambda r: dm.column_means(bounds=[(0, 1)] * 2, size=50, epsilon=1, relation=r),
            ROWS,
            lambda y, m: largest(y, np.mean(ROWS, axis=0)),
            (REPLACE,),
        )
    ],
    "LinearQueries": [
        Example(
            lambda r: dm.linear_queries(matrix=[[1, 0.5, 0], [0, 1, -1]], keys=KEYS, epsilon=1, relation=r),
            LETTERS,
            lambda y, m: largest(y, [32.5, 5]),
        )
    ],
    "Exponential": [
        Example(
            lambda r: dm.exponential(candidates=5, sensitivity=1, epsilon=1, relation=r),
            UTILITIES,
            lambda y, m: 10 - UTILITIES[y],
            records=False,
        )
    ],
    "PermuteAndFlip": [
        Example(
            lambda r: dm.permute_and_flip(candidates=5, sensitivity=1, epsilon=1, step=1, relation=r),
            UTILITIES,
            lambda y, m: 10 - UTILITIES[y],
            records=False,
        )
    ],
    "NoisyMax": [
        Example(
            lambda r, z=z: dm.noisy_max(  # type: ignore[misc]
                candidates=5, sensitivity=1, epsilon=1, step=1, noise=z, relation=r
            ),
            UTILITIES,
            lambda y, m: 10 - UTILITIES[y],
            records=False,
        )
        for z in (noise.LAPLACE, noise.EXPONENTIAL, noise.GUMBEL)
    ],
    "TopK": [
        Example(
            lambda r: dm.top_k(candidates=5, places=2, sensitivity=1, epsilon=1, step=1, relation=r),
            UTILITIES,
            lambda y, m: max(10 - UTILITIES[y[0]], (10 if y[0] != 3 else 9) - UTILITIES[y[1]]),
            records=False,
        )
    ],
    "AboveThreshold": [
        Example(
            lambda r: dm.above_threshold(threshold=50, sensitivity=1, epsilon=1, step=1, relation=r),
            [0, 20, 45, 55, 120],
            lambda y, m: threshold_error(y),
            assumptions={"queries": 5},
            records=False,
        )
    ],
    "Quantile": [
        Example(
            lambda r: dm.quantile(bounds=(0, 25), q=0.3, epsilon=1, step=0.25, relation=r),
            NUMBERS,
            lambda y, m: rank_error(y, 0.3),
            BOTH,
        )
    ],
    "AuctionPrice": [
        Example(
            lambda r: dm.auction_price(prices=[1, 2, 3, 3.01], epsilon=1, relation=r),
            BIDS,
            lambda y, m: float(max(m.revenues(BIDS)) - m.revenues(BIDS)[m.prices.index(y)]),
        )
    ],
    "BestOf": [
        Example(
            lambda r: dm.best_of([dm.count(epsilon=0.5, relation=r)], score=lambda y: -abs(y - 30), trials=5),
            FLAGS,
            lambda y, m: 1 - chance_at_least(y.score),
        )
    ],
    "ProposeTestRelease": [
        Example(
            lambda r: dm.propose_test_release(
                base=first, distance=count_of, promise=PureDP(0, relation=r), epsilon=1, delta=1e-6
            ),
            LETTERS,
            lambda y, m: 0.0 if y in (None, "a") else 1.0,
            promise=approximate,
        )
    ],
    "Mode": [
        Example(
            lambda r: dm.mode(epsilon=1, delta=1e-6, relation=r),
            LETTERS * 4,
            lambda y, m: 0.0 if y in (None, "a") else 1.0,
            BOTH,
            promise=approximate,
        )
    ],
    "ClusteredMean": [
        Example(
            lambda r: dm.clustered_mean(width=1, size=400, epsilon=1, delta=1e-6, relation=r),
            CLUSTER,
            lambda y, m: 0.0 if y is None else abs(y - np.mean(CLUSTER)),
            (REPLACE,),
            promise=approximate,
        )
    ],
    "ClusteredMeans": [
        Example(
            lambda r: dm.clustered_means(widths=[1, 2], size=400, epsilon=1, delta=1e-6, relation=r),
            [[value, -2 * value] for value in CLUSTER],
            lambda y, m: 0.0 if y is None else largest(y, [np.mean(CLUSTER), -2 * np.mean(CLUSTER)]),
            (REPLACE,),
            promise=approximate,
        )
    ],
    "ReusableHoldout": [
        Example(
            lambda r: dm.reusable_holdout(size=50, threshold=0.1, epsilon=1, positives=2, relation=r),
            [(FLAGS, 0.6), (FLAGS, 0.1), (FLAGS, 0.58)],
            lambda y, m: largest(y, 0.6),
            (REPLACE,),
            {"queries": 3},
            records=False,
        )
    ],
    "StabilityHistogram": [
        Example(
            lambda r: dm.stability_histogram(epsilon=1, delta=1e-6, relation=r),
            ["a"] * 500,
            lambda y, m: abs(y["a"] - 500),
            promise=approximate,
        )
    ],
    "Median": [
        Example(
            lambda r: dm.median(bounds=(0, 25), size=50, epsilon=1, delta=1e-6, relation=r),
            NUMBERS,
            lambda y, m: abs(y - MIDDLE),
            (REPLACE,),
            promise=approximate,
        )
    ],
    "BinaryResponse": [
        Example(
            lambda r: dm.binary_response(epsilon=1),
            FLAGS,
            lambda y, m: abs(m.estimate(y).value - 0.6),
            (REPLACE,),
            {"size": 50},
        )
    ],
    "CategoryResponse": [
        Example(
            lambda r: dm.category_response(keys=KEYS, epsilon=1),
            LETTERS,
            lambda y, m: shares(m.estimate(y)),
            (REPLACE,),
            {"size": 50},
        )
    ],
    "UnaryResponse": [
        Example(
            lambda r: dm.unary_response(keys=KEYS, epsilon=1),
            LETTERS,
            lambda y, m: shares(m.estimate(y)),
            (REPLACE,),
            {"size": 50},
        )
    ],
    "ShuffledResponse": [
        Example(
            lambda r: dm.shuffled(dm.binary_response(epsilon=1), size=50),
            FLAGS,
            lambda y, m: abs(m.estimate(y).value - 0.6),
            (REPLACE,),
        )
    ],
}


def first(data: Any, source: Any) -> Any:
    return "a"


def count_of(data: Any) -> int:
    return 20


def threshold_error(answers: list[bool]) -> float:
    """The smallest α for which the answers are right about 0, 20, 45, 55, 120 against 50."""
    values = [0, 20, 45, 55, 120]
    return max(max(50 - v, 0) if yes else max(v - 50, 0) for v, yes in zip(values, answers, strict=False))


def chance_at_least(score: float) -> float:
    """1 − the share of one trial's outcomes that score better: discrete Laplace of scale 2, |noise| < −score."""
    r = math.exp(-0.5)
    m = int(-score)
    return 1 - (0.0 if m == 0 else 1 - 2 * r**m / (1 + r))


ABSTRACT = {"AdditiveMechanism", "AnswerMechanism", "SelectionMechanism"}
CASES = [(name, i) for name, found in EXAMPLES.items() for i in range(len(found))]
PAIRS = [(name, i, r) for name, i in CASES for r in EXAMPLES[name][i].relations]
