"""The table of a law: what each word means, and what the words that mean "refine" turn into. 3 seconds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from deniable.noise.laws import REFINE, Bounds, DrawTable, Ladder, Run, WeightLaw, Weights, _alias
from deniable.noise.source import InsecureSource, RecordingSource, ReplaySource

MANY = [0, 1, 255, 256, 257, 70_000, 2**24 + 3, 10**9]
LAWS = {
    "laplace": Ladder(Fraction(1, 2), degree=1),
    "laplace rungs": Ladder(Fraction(3, 100), degree=1, length=16),
    "gauss": Ladder(Fraction(1, 18), degree=2),
    "gauss rungs": Ladder(Fraction(1, 2 * 40**2), degree=2, length=8),
    "tiny scale": Ladder(Fraction(1000), degree=1),
    "run": Run(Fraction(1, 7), 16),
    "nearly uniform": Run(Fraction(1, 10**15), 300),
    "weights of all sizes": Weights(tuple(MANY), Fraction(1, 3 * 10**8), tuple(range(1, 9))),
    "weights": Weights((4, 7, 0, 160, 84, 9), Fraction(1, 2), (5, 1, 1, 1, 2, 0)),
}


@cache
def probabilities(law: WeightLaw, count: int = 4000) -> list[mpmath.mpf]:
    """The law by its definition, at 60 digits."""
    with mpmath.workdps(60):
        if isinstance(law, Ladder):
            raw = [mpmath.exp(-_mp(law.rate * law.foot(k) ** law.degree)) for k in range(count)]
        elif isinstance(law, Run):
            raw = [mpmath.exp(-_mp(law.step * k)) for k in range(law.count)]
        else:
            assert isinstance(law, Weights)
            raw = [m * mpmath.exp(-_mp(law.unit * n)) for n, m in zip(law.below, law.multiples, strict=True)]
        whole = mpmath.fsum(raw)
        return [w / whole for w in raw]


def _mp(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("bits", [20, 104, 300])
def test_laws_enclose_their_weights_and_tails(name: str, bits: int) -> None:
    law = LAWS[name]
    bounds = law.enclose(bits)
    true = probabilities(law)
    with mpmath.workdps(120):
        unit = mpmath.mpf(bounds.low[0] if name != "weights" else bounds.low[2]) / true[0 if name != "weights" else 2]
        slack = unit * mpmath.mpf(10) ** -50  # the reference has 60 digits
        for low, high, p in zip(bounds.low, bounds.high, true, strict=False):
            assert low <= p * unit * (1 + mpmath.mpf(2) ** (8 - bits)) + slack
            assert high >= p * unit * (1 - mpmath.mpf(2) ** (8 - bits)) - slack
        assert bounds.tail >= mpmath.fsum(true[len(bounds.low) :]) * unit - slack
    widest = max(high - low for low, high in zip(bounds.low, bounds.high, strict=True))
    assert widest <= max(4 * len(bounds.low), 4 * max(bounds.high) >> bits)


@pytest.mark.parametrize("word_bits", [4, 8, 64])
@pytest.mark.parametrize("name", LAWS)
def test_sure_masses_stay_below_the_probabilities(name: str, word_bits: int) -> None:
    table = DrawTable(LAWS[name], word_bits=word_bits)
    true = probabilities(LAWS[name])
    with mpmath.workdps(60):
        for mass, p in zip(table._sure, true, strict=False):
            assert 0 <= mass <= p * 2**word_bits * (1 + mpmath.mpf(10) ** -50)
            assert p * 2**word_bits - mass < 1 + mpmath.mpf(10) ** -3  # and close, or the slow path would be common
    assert table.remainder == 2**word_bits - sum(table._sure)
    if word_bits == 64:
        assert table.remainder <= len(table._sure) + 2


@pytest.mark.parametrize("name", LAWS)
def test_every_8_bit_word_is_looked_up_as_the_masses_say(name: str) -> None:
    table = DrawTable(LAWS[name], word_bits=8)
    words = np.arange(256, dtype=np.uint64) << np.uint64(56)
    found = Counter(table.look_up(words).tolist())
    expected = Counter({k: mass for k, mass in enumerate(table._sure) if mass})
    expected[REFINE] = table.remainder
    assert found == +expected
    # One at a time, the same; a word that means REFINE asks for more, and gets no more here.
    for word in words:
        meaning = int(table.look_up(np.array([word]))[0])
        if meaning != REFINE:
            assert table.draw_one(ReplaySource(np.array([word]))) == meaning


@pytest.mark.parametrize("name", LAWS)
def test_the_whole_law_is_exact_with_4_bit_words(name: str) -> None:
    """Every first word, then every place in the remainder, then every two next words: an exhaustive count, no sampling.

    What is decided after that brackets each probability, and what is not is less than a fifth of a 4-bit word.
    """
    law = LAWS[name]
    table = DrawTable(law, word_bits=4)
    decided: dict[int, Fraction] = {k: Fraction(mass, 16) for k, mass in enumerate(table._sure)}
    undecided, atom = Fraction(0), Fraction(1, 16**3)
    for place in range(table.remainder):
        for tail in range(16**2):
            found = table._locate(place << 8 | tail, 8)
            if found is None:
                undecided += atom
            else:
                decided[found] = decided.get(found, Fraction(0)) + atom
    assert sum(decided.values()) + undecided == 1
    assert undecided <= Fraction(1, 5)
    for k, p in enumerate(probabilities(law)[:400]):
        low = decided.get(k, Fraction(0))
        assert _mp(low) <= p + mpmath.mpf(10) ** -50
        assert p <= _mp(low + undecided) + mpmath.mpf(10) ** -50


@dataclass(frozen=True)
class Coarse:
    """A law that is first known to 7 bits only: the table must not trust what is not certified."""

    law: WeightLaw

    @property
    def count(self) -> int | None:
        return self.law.count

    def enclose(self, bits: int) -> Bounds:
        return self.law.enclose(7 if bits == 8 + 40 else bits)


@pytest.mark.parametrize("name", ["laplace", "gauss", "run"])
def test_a_coarsely_known_law_gives_small_masses_and_the_same_draws(name: str) -> None:
    """Refinement makes up for it: each outcome against its exact binomial law, union bound, false alarm below 1e-6."""
    table = DrawTable(Coarse(LAWS[name]), word_bits=8)
    true = [float(p) for p in probabilities(LAWS[name])[:20]]
    assert table.remainder > DrawTable(LAWS[name], word_bits=8).remainder
    assert all(mass <= p * 256 for mass, p in zip(table._sure, true, strict=False))
    counts = np.bincount(table.draw(5000, InsecureSource(3)), minlength=20)[:20]
    values = [stats.binomtest(int(c), 5000, p).pvalue for c, p in zip(counts, true, strict=False)]
    assert min(values) > 1e-6 / len(values)


def test_a_large_multiple_of_a_small_weight_keeps_its_precision() -> None:
    table = DrawTable(Weights((0, 100), Fraction(1), (1, 3 * 10**43)))
    assert table.remainder <= 3


def test_refinement_ends_and_reaches_far() -> None:
    """A word that means REFINE, then the largest remainder: the outcome lies where the law weighs under 2**-64."""
    table = DrawTable(LAWS["laplace"])
    words = [(table.remainder - 1), (1 << 64) - 1, (1 << 64) - 1, 123]
    source = ReplaySource(np.array(words, dtype=np.uint64))
    rung = table.refine(source)
    assert mpmath.exp(-LAWS["laplace"].foot(rung) / mpmath.mpf(2)) < mpmath.mpf(2) ** -64
    assert source.count >= 3  # one word was not enough


def test_one_word_per_draw() -> None:
    for name, law in LAWS.items():
        tape = RecordingSource(InsecureSource(1))
        assert DrawTable(law).draw(10_000, tape).shape == (10_000,)
        assert tape.count == 10_000, name
    tape = RecordingSource(InsecureSource(1))
    DrawTable(LAWS["gauss"], word_bits=8).draw(10_000, tape)
    assert tape.count > 10_000  # and with short words the refinements show


@settings(max_examples=200)
@given(parts=st.lists(st.integers(1, 1000), min_size=1, max_size=60), word_bits=st.sampled_from([10, 16, 64]))
def test_alias_slots_hold_exactly_the_masses(parts: list[int], word_bits: int) -> None:
    whole = 1 << word_bits
    scaled = [max(1, part * whole // sum(parts) - 1) for part in parts]
    scaled[0] += whole - sum(scaled)
    slot_bits, cuts, outcomes = _alias(list(enumerate(scaled)), word_bits)
    capacity = whole >> slot_bits
    found: Counter[int] = Counter()
    for slot, cut in enumerate(cuts):
        assert slot * capacity <= cut < whole
        found[outcomes[2 * slot]] += cut - slot * capacity
        found[outcomes[2 * slot + 1]] += (slot + 1) * capacity - cut
    assert +found == Counter(dict(enumerate(scaled)))
