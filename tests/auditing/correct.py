"""Correct mechanisms with the claims they keep, many of them exactly: what an audit must not refute.

Noise is exact (`deniable.noise`, or bits of the operating system), since a claim about floating-point noise is false.
`BOUNDARY` names those whose pair attains the claim, where an exact test alarms as often as it may.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import deniable as dn
from deniable import mechanisms as dm
from deniable import noise
from deniable.auditing import Pair

_BITS = random.SystemRandom()
FLAGS = [True] * 6
LETTERS = ["a"] * 5 + ["b"] * 4


@dataclass(frozen=True)
class Correct:
    """A mechanism, two neighbours, and a claim that is true of it."""

    mechanism: Callable[[Any], Any]
    neighbours: Any
    claim: Any


def leaky_response(rows: list[int]) -> int:
    """(1, 0.1)-DP with equality: tells outright with probability 0.1, else answers at ε = 1."""
    truth = len(rows) == 3
    if _BITS.random() < 0.1:
        return 2 + truth
    return int(truth == (_BITS.random() < math.e / (1 + math.e)))


def sampled_sum(rows: list[float]) -> int:
    """A sum of a Poisson sample at rate ½, with discrete Gaussian noise."""
    kept = sum(row for row in rows if _BITS.random() < 0.5)
    return int(kept) + int(noise.discrete_gaussian(2))


def two_counts(rows: list[bool]) -> tuple[int, int]:
    """Two answers about the same records."""
    count = dm.count(epsilon=Fraction(1, 2))
    return count(rows), count(rows)


def crash_at_random(rows: list[int]) -> int:
    """Crashes, and not because of the data."""
    if _BITS.random() < 0.3:
        raise ValueError("bad luck")
    return int(noise.discrete_laplace(1)) + len(rows)


def sparse_vector(rows: list[int]) -> tuple[bool, ...]:
    """Three questions of sensitivity 2, of which one may be answered yes: ε = 2."""
    answers = dm.above_threshold(threshold=5, sensitivity=1, epsilon=1, step=1)(
        [sum(rows), 2 * len(rows), 2 * sum(rows)]
    )
    return tuple(answers)


def shuffled_response(rows: list[bool]) -> int:
    """How many of 30 randomized answers are yes."""
    return sum(row == (_BITS.random() < math.e / (1 + math.e)) for row in rows)


PURE, REPLACED = dn.PureDP(1), dn.PureDP(1, relation=dn.REPLACE)
THREE = ([1, 2, 3], [1, 2])
NEARLY = Pair([3, 3, 1], [4, 2, 2], check=False)  # utilities that each move by one

CORRECT: dict[str, Correct] = {
    "randomized response": Correct(
        lambda rows: (len(rows) == 3) == (_BITS.random() < math.e / (1 + math.e)), THREE, PURE
    ),
    "leaky response": Correct(leaky_response, THREE, dn.ApproxDP(1, 0.1)),
    "discrete Laplace": Correct(dm.count(epsilon=1), (FLAGS, FLAGS[1:]), PURE),
    "discrete Laplace against its curve": Correct(dm.count(epsilon=1), (FLAGS, FLAGS[1:]), dn.DiscreteLaplace(1)),
    "discrete Gaussian against its curve": Correct(
        lambda rows: len(rows) + int(noise.discrete_gaussian(1)), THREE, dn.DiscreteGaussian(1)
    ),
    "two counts": Correct(two_counts, (FLAGS, FLAGS[1:]), PURE),
    "histogram": Correct(
        dm.histogram(keys=["a", "b", "c"], epsilon=1, relation=dn.REPLACE), (LETTERS, [*LETTERS[1:], "c"]), REPLACED
    ),
    "exponential mechanism": Correct(dm.exponential(candidates=3, sensitivity=1, epsilon=1, step=1), NEARLY, PURE),
    "noisy maximum": Correct(dm.noisy_max(candidates=3, sensitivity=1, epsilon=1, step=1), NEARLY, PURE),
    "permute and flip": Correct(dm.permute_and_flip(candidates=3, sensitivity=1, epsilon=1, step=1), NEARLY, PURE),
    "sparse vector": Correct(sparse_vector, ([1, 1], [1, 1, 1]), dn.PureDP(2)),
    "stability histogram": Correct(
        dm.stability_histogram(epsilon=1, delta=1e-2), (["a"] * 8, ["a"] * 7), dn.ApproxDP(1, 1e-2)
    ),
    "mode": Correct(dm.mode(epsilon=1, delta=1e-2), (["a"] * 10, ["a"] * 9), dn.ApproxDP(1, 1e-2)),
    "sample": Correct(sampled_sum, ([1] * 4, [1] * 5), dn.DiscreteGaussian(2).sampled(rate=0.5)),
    "shuffled responses": Correct(
        shuffled_response,
        ([True] * 15 + [False] * 15, [True] * 16 + [False] * 14),
        dn.RandomizedResponse(1).shuffled(size=30),
    ),
    "crashes at random": Correct(crash_at_random, THREE, PURE),
}

BOUNDARY = {"randomized response", "leaky response", "discrete Laplace", "discrete Laplace against its curve"}
