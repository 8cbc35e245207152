"""Too many counts, even noisy ones, give back nearly every bit (Dinur and Nissim 2003).

Ask n·log n or so random subset counts with an error well below √n each, solve a least squares problem, round. Noise of
that size looks protective and is not; ε-DP noise for that many questions grows with their number and stops the attack.

>>> import numpy as np
>>> generator = np.random.default_rng(0)
>>> secret = generator.integers(0, 2, 64)
>>> questions = random_questions(400, people=64, generator=generator)
>>> answers = questions @ secret + generator.uniform(-1.5, 1.5, 400)     # "only" off by one and a half
>>> float((reconstruct(questions, answers) == secret).mean())
1.0
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def random_questions(many: int, *, people: int, generator: Any) -> NDArray[np.float64]:
    """Subsets, one per row: each person is in each with probability one half."""
    return np.asarray(generator.integers(0, 2, size=(many, people)), dtype=np.float64)


def reconstruct(questions: Any, answers: Any) -> NDArray[np.int64]:
    """The bits that fit noisy subset counts best."""
    from scipy import optimize

    fit = optimize.lsq_linear(np.asarray(questions, dtype=np.float64), np.asarray(answers, dtype=np.float64), (0, 1))
    return np.asarray(np.rint(fit.x), dtype=np.int64)
