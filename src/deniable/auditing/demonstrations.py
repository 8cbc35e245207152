"""What an unprotected release gives away: attacks that anybody can repeat.

Each takes what was published and gives back what was private. None needs more than school algebra or least squares.
They are the reason for everything else in this library; against a private release they return noise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable.errors import InvalidArgument

__all__ = [
    "difference_means",
    "exposure",
    "find_record",
    "infer_attribute",
    "on_the_margin",
    "random_questions",
    "reconstruct",
    "recover_label",
    "trace_member",
    "unique_share",
]


def difference_means(before: float, after: float, *, size: int) -> float:
    """The value of the record that made the mean of `size` records move from `before` to `after`.

    Two means, one before somebody joined and one after, give away that somebody's value exactly.

    >>> salaries = [4100.0, 5200.0, 3900.0]
    >>> before, after = sum(salaries) / 3, sum([*salaries, 9750.0]) / 4
    >>> round(difference_means(before, after, size=3), 6)
    9750.0
    """
    many = _checks.count("size", size)
    return (many + 1) * after - many * before


def find_record(median: float, *, candidates: Mapping[str, float]) -> list[str]:
    """Who has the value that was released, among those whose values are suspected.

    A median of an odd number of values is one of them: releasing it releases a record.

    >>> find_record(41.5, candidates={"ann": 30.0, "bob": 41.5, "eve": 77.0})
    ['bob']
    """
    return [name for name, value in candidates.items() if value == median]


def recover_label(weights: Any, rows: Any, known_labels: Any, *, ridge: float = 0.0) -> float:
    """The label of the last row, from the weights of least squares (with `ridge`) and all the other labels.

    A linear model is a formula of its records: whoever knows all but one label can solve for it.

    Least squares gives w with XᵀXw = Xᵀy. The attacker knows the rows and all labels but one, and reads the last off.

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 4.0]])
    >>> y = np.array([1.0, 3.0, 2.0, 7.5])
    >>> w = np.linalg.lstsq(X, y, rcond=None)[0]
    >>> round(recover_label(w, X, y[:3]), 6)
    7.5
    """
    X, w, known = (np.asarray(given, dtype=np.float64) for given in (rows, weights, known_labels))
    if known.size != len(X) - 1:
        raise InvalidArgument("known_labels", known.size, f"one fewer than the {len(X)} rows")
    moved = X.T @ (X @ w) + ridge * w - X[:-1].T @ known
    last = X[-1]
    return float(last @ moved / (last @ last))


def random_questions(many: int, *, people: int, generator: Any) -> NDArray[np.float64]:
    """Subsets, one per row: each person is in each with probability one half."""
    return np.asarray(generator.integers(0, 2, size=(many, people)), dtype=np.float64)


def reconstruct(questions: Any, answers: Any) -> NDArray[np.int64]:
    """The bits that fit noisy subset counts best.

    Too many counts, even noisy ones, give back nearly every bit (Dinur and Nissim 2003).

    Ask n·log n or so random subset counts with an error well below √n each, solve a least squares problem, round. Noise
    of that size looks protective and is not; ε-DP noise for that many questions grows with their number and stops the
    attack.

    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> secret = generator.integers(0, 2, 64)
    >>> questions = random_questions(400, people=64, generator=generator)
    >>> answers = questions @ secret + generator.uniform(-1.5, 1.5, 400)     # "only" off by one and a half
    >>> float((reconstruct(questions, answers) == secret).mean())
    1.0
    """
    from scipy import optimize

    fit = optimize.lsq_linear(np.asarray(questions, dtype=np.float64), np.asarray(answers, dtype=np.float64), (0, 1))
    return np.asarray(np.rint(fit.x), dtype=np.int64)


def trace_member(record: Any, means: Any, reference: Any) -> float:
    """How far a record lies towards published column means from a reference: members score higher than strangers.

    Tracing (Homer et al. 2008, Dwork et al. 2015): the inner product of record − reference with means − reference, in
    standard deviations of a stranger's score when the columns are bits. For d columns and n records a member's score
    has a mean of about √(d/n); with noise for μ-GDP no attacker's two error rates are further apart than μ allows.

    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> people = generator.integers(0, 2, (51, 2500))            # the last one is a stranger
    >>> means = people[:50].mean(axis=0)
    >>> trace_member(people[0], means, 0.5) > 4 > trace_member(people[50], means, 0.5)
    True
    """
    middle = np.asarray(reference, dtype=np.float64)
    towards = np.asarray(means, dtype=np.float64) - middle
    score = (np.asarray(record, dtype=np.float64) - middle) @ towards
    return float(score / (0.5 * max(float(np.linalg.norm(towards)), 1e-300)))


def unique_share(rows: Any) -> float:
    """The share of records that are alone in what they show: whoever knows these attributes of a person has their row.

    Linkage (Sweeney 2000): with n people in K equally likely cells the share is about e^{−n/K}.

    >>> unique_share([("A", 1950, "f"), ("A", 1950, "m"), ("A", 1950, "m")]) == 1 / 3
    True
    """
    given = [tuple(row) for row in rows]
    if not given:
        raise InvalidArgument("rows", 0, "at least one record")
    counts = Counter(given)
    return sum(counts[row] == 1 for row in given) / len(given)


def exposure(scores: Mapping[Any, float], secret: Any) -> float:
    """How many bits a model gives away of a secret: log2 of the candidates, less log2 of the secret's rank.

    Canary extraction (Carlini et al. 2019). A model that never saw the secret ranks it anywhere, so the exposure
    exceeds b with probability 2^−b; under (ε, δ)-DP with probability at most e^ε·2^−b + δ.

    >>> exposure({"0000": -9.0, "0001": -3.0, "0002": -8.0, "0003": -7.0}, "0001")       # the likeliest of four
    2.0
    """
    if secret not in scores:
        raise InvalidArgument("secret", "…", "one of the candidates")
    rank = sum(score >= scores[secret] for score in scores.values())
    return math.log2(len(scores)) - math.log2(rank)


def infer_attribute(likelihood: Callable[[Any], float], candidates: Iterable[Any]) -> Any:
    """The value of a hidden attribute that explains a released model's answer best (Fredrikson et al. 2014).

    What holds for strangers too is a fact about the population. Only the difference of the success rates on members and
    strangers is a leak, and under (ε, δ)-DP it is at most (e^ε − 1 + 2δ)/(e^ε + 1) (Yeom et al. 2018).

    >>> infer_attribute(lambda dose: -(dose - 3.2) ** 2, [1, 2, 3, 4])
    3
    """
    return max(candidates, key=likelihood)


def on_the_margin(decisions: Any, labels: Any, *, tolerance: float = 1e-6) -> NDArray[np.bool_]:
    """Which records lie exactly on the margin of a support vector machine: |y·f(x) − 1| within the tolerance.

    A maximal margin is a formula of a few training records, and it touches them; strangers hardly ever lie on it.

    >>> on_the_margin([1.0, 2.5, -1.0000000001], [1, 1, -1])
    array([ True, False,  True])
    """
    signs = np.where(np.asarray(labels) > 0, 1.0, -1.0)
    return np.asarray(np.abs(signs * np.asarray(decisions, dtype=np.float64) - 1) < tolerance)
