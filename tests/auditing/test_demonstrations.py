"""What unprotected releases give away, and what noise does to the same attacks."""

from __future__ import annotations

from functools import partial

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


def test_tracing_finds_members_in_means_and_not_in_private_means() -> None:
    """d = 2500 bits of 50 people: a member's score has a mean of √(d/n) = 7.07. With μ = 1 it is at most μ/2.

    Seeded; the mean of 50 private scores is within six of its deviations (0.15) of its mean.
    """
    generator = np.random.default_rng(3)
    people, strangers = (generator.integers(0, 2, (50, 2500)) for _ in range(2))
    means = people.mean(axis=0)
    members = np.array([demonstrations.trace_member(person, means, 0.5) for person in people])
    others = np.array([demonstrations.trace_member(person, means, 0.5) for person in strangers])
    assert 6.5 < members.mean() < 7.6
    assert np.quantile(others, 0.99) < members.min()
    # One person moves the vector of means by √d/n at most; noise for μ = 1.
    private = means + generator.normal(0, np.sqrt(2500) / 50, 2500)
    seen = np.array([demonstrations.trace_member(person, private, 0.5) for person in people])
    assert seen.mean() < 0.5 + 6 * 0.15


def test_linkage() -> None:
    """8000 people of one postcode, by birthday, year and sex: e^{−n/K} of them are alone, 87 %."""
    generator = np.random.default_rng(1)
    cells = generator.integers(0, 365 * 80 * 2, 8000)
    assert abs(demonstrations.unique_share(zip(cells.tolist(), strict=True)) - np.exp(-8000 / (365 * 80 * 2))) < 0.02


def test_extraction_is_bounded_by_privacy() -> None:
    """A count of PINs with the secret seen once, and with Laplace noise: P[exposure ≥ b] ≤ e^ε·2^−b.

    2000 seeded releases; the share may exceed the bound by six deviations.
    """
    generator = np.random.default_rng(2)
    candidates, secret, epsilon = 1024, 77, 1.0
    counts = np.zeros(candidates)
    counts[secret] = 1
    assert demonstrations.exposure(dict(enumerate(counts)), secret) == 10
    noisy = counts + generator.laplace(0, 1 / epsilon, (2000, candidates))
    ranks = (noisy >= noisy[:, [secret]]).sum(axis=1)
    found = np.log2(candidates) - np.log2(ranks)
    for bits in (3, 5, 8):
        most = np.exp(epsilon) * 2.0**-bits
        assert (found >= bits).mean() <= most + 6 * np.sqrt(most / 2000)


def test_inferring_an_attribute_counts_members_and_strangers() -> None:
    """A memorising model gives members away. A noisy mean tells as much about strangers: within the bound of Yeom."""
    generator = np.random.default_rng(4)
    hidden = generator.integers(0, 2, 400)
    answers = 10.0 * np.arange(400) + hidden  # one parameter for each member

    def likelihood(member: int, bit: int) -> float:
        return -abs(float(answers[member]) - 10.0 * member - bit)

    guesses = [demonstrations.infer_attribute(partial(likelihood, member), (0, 1)) for member in range(200)]
    assert (np.array(guesses) == hidden[:200]).all()
    mean = hidden[:200].mean() + generator.laplace(0, 1 / (200 * 0.5))
    guess = demonstrations.infer_attribute(lambda bit: bit * mean + (1 - bit) * (1 - mean), (0, 1))
    members, strangers = (hidden[:200] == guess).mean(), (hidden[200:] == guess).mean()
    assert abs(members - strangers) <= (np.exp(0.5) - 1) / (np.exp(0.5) + 1) + 6 * np.sqrt(0.5 / 200)


def test_support_vectors_lie_on_the_margin() -> None:
    """A linear machine touches a few of its 60 records and no stranger; with noise in its weights it touches nobody."""
    from sklearn.svm import SVC

    generator = np.random.default_rng(6)
    labels = np.repeat([-1, 1], 30)
    records = generator.normal(size=(60, 2)) + 3.0 * labels[:, None]
    machine = SVC(kernel="linear", C=1e6, tol=1e-12).fit(records, labels)
    touched = demonstrations.on_the_margin(machine.decision_function(records), labels)
    assert 2 <= touched.sum() <= 6
    strangers = generator.normal(size=(10_000, 2)) + 3.0
    assert not demonstrations.on_the_margin(machine.decision_function(strangers), np.ones(10_000)).any()
    noisy = records @ (machine.coef_[0] + generator.normal(0, 0.1, 2)) + machine.intercept_[0]
    assert not demonstrations.on_the_margin(noisy, labels).any()
