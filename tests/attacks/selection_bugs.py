"""Selection that costs nothing: sparse vectors, maxima, randomized answers."""

from __future__ import annotations

import math

import numpy as np

from deniable.auditing import Pair
from deniable.guarantees import PureDP
from deniable.units import REPLACE
from tests.attacks.zoo import broken

# Answers to twelve queries of sensitivity 1 on two neighbours; the mechanism gets the answers as its data.
HIGH = Pair([0.0] * 6 + [1.0] * 6, [1.0] * 6 + [0.0] * 6, check=False)


def _lap(scale: float) -> float:
    return float(np.random.laplace(scale=scale))


@broken(HIGH, PureDP(1), by="testing", runs=4000)
def sparse_vector_without_query_noise(answers: list[float]) -> list[bool]:
    """Algorithm 5 of Lyu, Su and Li 2017: noise on the threshold alone."""
    threshold = 0.5 + _lap(2)
    return [answer >= threshold for answer in answers]


@broken(HIGH, PureDP(1), by="testing", runs=8000)
def sparse_vector_without_an_end(answers: list[float]) -> list[bool]:
    """Algorithm 6: every query may be above, and the noise does not know how many."""
    threshold = _lap(2)
    return [answer + _lap(2) >= threshold for answer in answers]


@broken(HIGH, PureDP(0.5), by="testing", runs=12000)
def sparse_vector_with_a_quarter_of_the_noise(answers: list[float]) -> list[bool]:
    """Algorithm 4: the query noise ignores the number of answers above, here up to six."""
    threshold, found = _lap(8), []
    for answer in answers:
        found.append(answer + _lap(8 / 3) >= threshold)
        if sum(found) == 6:
            break
    return found


@broken(Pair([3.0] * 12, [4.0] * 12, check=False), PureDP(1), by="testing", runs=12000)
def noisy_max_that_prints_its_count(answers: list[float]) -> tuple[int, float]:
    """For counts that all move one way the place costs ε. The winning count, printed as well, is another release."""
    noisy = [answer + _lap(1) for answer in answers]
    return int(np.argmax(noisy)), max(noisy)


@broken(
    Pair([1.0] + [0.0] * 9, [0.0] + [1.0] * 9, check=False),
    PureDP(1, relation=REPLACE),
    by="testing",
    best=(math.e / (math.e + 9), 1 / (1 + 9 * math.e)),
)
def exponential_mechanism_without_the_two(utilities: list[float]) -> int:
    """Weights e^{εu} instead of e^{εu/2}: the normaliser moves as well."""
    weights = np.exp(np.asarray(utilities))
    return int(np.random.choice(len(utilities), p=weights / weights.sum()))


@broken(([1], [0]), PureDP(0.3, relation=REPLACE), by="testing", runs=4000, best=(0.8, 0.2))
def randomized_response_of_rate_epsilon(data: list[int]) -> int:
    """Truth with probability ½ + ε has a loss of ln((½ + ε)/(½ − ε)), 1.39 for ε = 0.3."""
    return data[0] if np.random.random() < 0.8 else 1 - data[0]


@broken(([0] * 5 + [1] * 5, [0] * 5 + [1] * 4), PureDP(1), by="testing", best=(1.0, 0.0))
def best_column_chosen_for_free(data: list[int]) -> tuple[int, float]:
    """The most common value is found exactly, then its count is noised."""
    best = 1 if data.count(1) >= data.count(0) else 0
    return best, data.count(best) + _lap(1)


@broken(Pair([1.0] * 20, [0.0] * 20, check=False), PureDP(1), by="testing", runs=4000)
def best_of_twenty_at_the_price_of_one(scores: list[float]) -> float:
    """Twenty trainings, each with ε = 1, and only the best score is shown and paid for."""
    return max(score + _lap(1) for score in scores)
