"""Coins: exact biases, by exhaustion with 4-bit words. 1 second."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from deniable.errors import InvalidArgument
from deniable.noise import InsecureSource, RecordingSource, ReplaySource, bernoulli, bernoulli_exp
from deniable.noise.bernoulli import Coin, exponential, rational

BIASES = {
    "third": (rational(Fraction(1, 3)), mpmath.mpf(1) / 3),
    "half": (rational(Fraction(1, 2)), mpmath.mpf(1) / 2),
    "nearly one": (rational(Fraction(999, 1000)), mpmath.mpf(999) / 1000),
    "small": (rational(Fraction(1, 10**9)), mpmath.mpf(10) ** -9),
    "zero": (rational(Fraction(0)), mpmath.mpf(0)),
    "one": (rational(Fraction(1)), mpmath.mpf(1)),
    "1/e": (exponential(Fraction(1)), mpmath.exp(-1)),
    "exp(-1/1000)": (exponential(Fraction(1, 1000)), mpmath.exp(-mpmath.mpf(1) / 1000)),
    "exp(0)": (exponential(Fraction(0)), mpmath.mpf(1)),
    "exp(-100)": (exponential(Fraction(100)), mpmath.exp(-100)),
}


@pytest.mark.parametrize("name", BIASES)
def test_every_sequence_of_three_4_bit_words(name: str) -> None:
    """The words that give heads bracket the bias to one part in 16**3; arrays and single tosses read them alike."""
    enclosure, bias = BIASES[name]
    coin = Coin(enclosure, word_bits=4)
    heads = undecided = 0
    for sequence in product(range(16), repeat=3):
        words = np.array(sequence, dtype=np.uint64) << np.uint64(60)
        answers = []
        for toss in (lambda source: coin.toss_one(source), lambda source: bool(coin.toss(1, source)[0])):
            try:
                answers.append(toss(ReplaySource(words)))
            except InvalidArgument:  # three words do not decide
                answers.append(None)
        assert answers[0] == answers[1]
        heads += answers[0] is True
        undecided += answers[0] is None
    assert undecided <= 2
    assert heads <= bias * 16**3 <= heads + undecided


def test_the_rare_word_is_refined_at_full_width() -> None:
    """A word equal to the leading bits of 1/3 is decided by the next: 0x5...54 lies below, 0x5...56 above."""
    third = np.array([0x5555555555555555, 0x5555555555555554], dtype=np.uint64)
    assert bernoulli(Fraction(1, 3), source=ReplaySource(third)) is True
    third[1] = 0x5555555555555556
    assert bernoulli(Fraction(1, 3), source=ReplaySource(third)) is False


def test_one_word_per_toss() -> None:
    tape = RecordingSource(InsecureSource(2))
    bernoulli(0.3, 10_000, source=tape)
    bernoulli_exp(0.3, 10_000, source=tape)
    bernoulli(1, 10, source=tape)  # a sure answer reads its words too
    assert tape.count == 20_010


def test_types_and_shapes() -> None:
    assert type(bernoulli(0.5)) is bool
    assert type(bernoulli_exp(0.5)) is bool
    assert bernoulli(0.5, (3, 4)).dtype == np.bool_
    assert bernoulli_exp(0, 5).all()
    assert not bernoulli(0, 5).any()


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), "x", True])
def test_p_is_a_probability(p: object) -> None:
    with pytest.raises(InvalidArgument, match="p must be a probability"):
        bernoulli(p)  # type: ignore[call-overload]


def test_x_is_not_negative() -> None:
    with pytest.raises(InvalidArgument, match="x must be a number that is 0 or more"):
        bernoulli_exp(-1)
