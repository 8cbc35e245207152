"""What an unprotected release gives away: four attacks that anybody can repeat.

Each takes what was published and gives back what was private. None needs more than school algebra or least squares.
They are the reason for everything else in this library; against a private release they return noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable.errors import InvalidArgument

__all__ = ["difference_means", "find_record", "random_questions", "reconstruct", "recover_label"]


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
