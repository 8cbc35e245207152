"""Choices by exact log-weights. 1 second."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from deniable.errors import InvalidArgument
from deniable.noise import Categorical, InsecureSource, RecordingSource, categorical


def probabilities(log_weights: list[Fraction], multiples: list[int]) -> list[float]:
    with mpmath.workdps(50):
        raw = [
            m * mpmath.exp(mpmath.mpf(w.numerator) / w.denominator) for w, m in zip(log_weights, multiples, strict=True)
        ]
        return [float(r / mpmath.fsum(raw)) for r in raw]


CASES = {
    "spread": ([Fraction(0), Fraction(-1), Fraction(3, 2), Fraction(-7)], [1, 1, 1, 1]),
    "intervals": ([Fraction(0), Fraction(-1), Fraction(-2)], [1, 10, 0]),
    "a huge multiple of a small weight": ([Fraction(0), Fraction(-100)], [1, 3 * 10**43]),
    "far from zero": ([Fraction(10**9), Fraction(10**9) - 1], [1, 1]),
    "even": ([Fraction(5)] * 7, [1] * 7),
}


@pytest.mark.parametrize("word_bits", [8, 64])
@pytest.mark.parametrize("name", CASES)
def test_frequencies(name: str, word_bits: int) -> None:
    """Each count against its exact binomial law; union bound, false alarm below 1e-6."""
    log_weights, multiples = CASES[name]
    n = 20_000
    found = Categorical(log_weights, multiples=multiples, word_bits=word_bits).draw(n, InsecureSource(6))
    counts = np.bincount(found, minlength=len(log_weights))
    for seen, p in zip(counts, probabilities(log_weights, multiples), strict=True):
        assert (seen == 0) if p == 0 else stats.binomtest(int(seen), n, p).pvalue > 1e-6 / len(counts)


def test_the_rate_multiplies_the_log_weights() -> None:
    one = categorical([0, 3, -7, 2.5], 500, rate=Fraction(1, 4), source=InsecureSource(1))
    other = categorical([0, 0.75, -1.75, 0.625], 500, source=InsecureSource(1))
    assert (one == other).all()


def test_one_word_per_choice() -> None:
    tape = RecordingSource(InsecureSource(6))
    categorical([0.25, 1, -3], 5000, source=tape)
    assert tape.count == 5000
    assert type(categorical([0, 1])) is int
    assert categorical([3]) == 0
    assert categorical([0, 10**9], 50).tolist() == [1] * 50


@pytest.mark.parametrize(
    ("log_weights", "multiples", "message"),
    [
        ([], None, "at least one choice"),
        ([1, 2], [0, 0], "at least one choice"),
        ([1, 2], [1], "as many as log_weights"),
        ([1, 2], [1, -17], "multiples must be whole numbers, 0 or more"),
        ([1, 2], [1, 17.5], "multiples must be whole numbers, 0 or more"),
        ([1, float("nan")], None, "log_weights must be finite numbers"),
        ([1, float("-inf")], None, "log_weights must be finite numbers"),
        ([1, "secret 17"], None, "log_weights must be finite numbers; got log_weights='str'"),
    ],
)
def test_what_is_refused(log_weights: list[float], multiples: list[int] | None, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as refusal:
        categorical(log_weights, multiples=multiples)
    assert "17" not in str(refusal.value)  # weights may be private: no message shows one
