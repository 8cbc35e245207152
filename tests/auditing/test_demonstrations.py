"""What unprotected releases give away, and what noise does to the same attacks."""

from __future__ import annotations

import numpy as np

from deniable.auditing import demonstrations
from deniable.mechanisms import laplace


def test_reconstruction_works_on_small_noise_and_fails_on_private_answers() -> None:
    """64 bits, 400 questions. Private answers at ε = 1 for all of them have noise of scale 400.

    Guessing gets half of the bits; 80 % or more has probability below 1e-6.
    """
    generator = np.random.default_rng(5)
    secret = generator.integers(0, 2, 64)
    questions = demonstrations.random_questions(400, people=64, generator=generator)
    truth = questions @ secret
    small = truth + generator.uniform(-1.5, 1.5, 400)
    assert (demonstrations.reconstruct(questions, small) == secret).mean() > 0.95
    private = np.array([float(laplace(sensitivity=1, epsilon=1 / 400)(float(answer))) for answer in truth])
    assert (demonstrations.reconstruct(questions, private) == secret).mean() < 0.8


def test_differencing_and_inversion_are_exact() -> None:
    generator = np.random.default_rng(1)
    values = generator.uniform(0, 100, 50)
    found = demonstrations.difference_means(values[:-1].mean(), values.mean(), size=49)
    assert abs(found - values[-1]) < 1e-9
    X, y = generator.normal(size=(30, 4)), generator.normal(size=30)
    weights = np.linalg.solve(X.T @ X + 0.5 * np.eye(4), X.T @ y)
    assert abs(demonstrations.recover_label(weights, X, y[:-1], ridge=0.5) - y[-1]) < 1e-9


def test_a_median_names_its_record() -> None:
    people = {"ann": 12.5, "bob": 17.25, "eve": 40.0}
    assert demonstrations.find_record(float(np.median(list(people.values()))), candidates=people) == ["bob"]
