"""One run with many canaries: both theorems by hand, against exact laws of worst mechanisms, and side by side."""

from __future__ import annotations

import bisect
import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from deniable.auditing.training import _inverse, one_run_curve_p_value, one_run_epsilon, one_run_mu, one_run_p_value
from deniable.errors import InvalidArgument
from deniable.events import Gaussian
from deniable.guarantees import GDP, ApproxDP, PureDP


def test_one_run_matches_the_theorem_by_hand() -> None:
    """m = r = v = 1: q + 2δ·P[Bin(1, q) = 0]."""
    q = math.e / (1 + math.e)
    assert one_run_p_value(correct=1, guesses=1, canaries=1, epsilon=1) == pytest.approx(q)
    with_delta = one_run_p_value(correct=1, guesses=1, canaries=1, epsilon=1, delta=0.01)
    assert with_delta == pytest.approx(q + 0.02 * (1 - q))


def test_one_run_is_valid_on_the_worst_mechanism() -> None:
    """Randomized response of every coin attains ε. The exact false-alarm rate at level 0.05 is a binomial tail.

    The p-value is below 0.05 only where the tail is: no simulation, no chance.
    """
    from scipy import stats

    q = 1 / (1 + math.exp(-1))
    refused = [
        v for v in range(201) if one_run_p_value(correct=v, guesses=200, canaries=200, epsilon=1, delta=1e-6) <= 0.05
    ]
    assert refused
    assert stats.binom.sf(min(refused) - 1, 200, q) <= 0.05


def test_one_run_bound_grows_with_what_was_guessed() -> None:
    values = [one_run_epsilon(correct=v, guesses=100, canaries=100, delta=1e-6).value for v in (50, 70, 90, 100)]
    assert values == sorted(values)
    assert values[0] == 0
    assert 3 < values[-1] <= math.log(100 / math.log(20))


def leaky(canaries: int, guesses: int, *, epsilon: float, delta: float) -> np.ndarray:
    """The exact law of the number right: every canary is told with probability δ, else answered at random with ε.

    The attacker names those that are told first, then others: this attains (ε, δ).
    """
    chance = 1 / (1 + math.exp(-epsilon))
    law = np.zeros(guesses + 1)
    for told in range(canaries + 1):
        weight = float(stats.binom.pmf(told, canaries, delta))
        sure = min(told, guesses)
        law[sure:] += weight * stats.binom.pmf(np.arange(guesses - sure + 1), guesses - sure, chance)
    return law


CASES = [
    (200, 200, 1.0, 0.0), (200, 60, 1.0, 0.0), (200, 40, 0.1, 0.05), (300, 20, 0.5, 0.01), (40, 40, 2.0, 0.05)
]  # fmt: skip


@pytest.mark.parametrize(("canaries", "guesses", "epsilon", "delta"), CASES)
def test_the_lemma_holds_for_the_exact_law(canaries: int, guesses: int, epsilon: float, delta: float) -> None:
    """g⁻¹ of the mass above i is at most the mass from i − 1 on, as the lemma weighs them."""
    law = leaky(canaries, guesses, epsilon=epsilon, delta=delta)
    inverse = _inverse(ApproxDP(epsilon, delta))
    number = np.arange(guesses + 1)
    for i in range(1, guesses + 1):
        right = float((number * law)[i:].sum()) / canaries
        wrong = float(((guesses - number) * law)[i - 1 :].sum()) / canaries
        assert inverse(right) <= wrong * (1 + 1e-9) + 1e-15


def false_alarm(law: np.ndarray, claim: Any, *, canaries: int, level: float) -> tuple[float, int]:
    """The exact chance that a true claim is refused at a level, and the least count that refuses it."""
    guesses = len(law) - 1

    def refused(correct: int) -> bool:
        known = {"correct": correct, "guesses": guesses, "canaries": canaries}
        return one_run_curve_p_value(**known, claim=claim) <= level

    least = bisect.bisect_left(range(guesses + 1), True, key=refused)
    return float(law[least:].sum()), least


@pytest.mark.parametrize(("canaries", "guesses", "epsilon", "delta"), CASES)
def test_worst_mechanisms_are_refused_no_more_often_than_stated(
    canaries: int, guesses: int, epsilon: float, delta: float
) -> None:
    """No simulation: the exact law against the region of refusal, which is reached for a smaller claim."""
    law = leaky(canaries, guesses, epsilon=epsilon, delta=delta)
    for level in (0.05, 0.001):
        alarm, _ = false_alarm(law, ApproxDP(epsilon, delta), canaries=canaries, level=level)
        assert alarm <= level
    power, _ = false_alarm(law, ApproxDP(epsilon / 4, delta / 100), canaries=canaries, level=0.05)
    assert power > 0.1


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_gaussian_noise_is_refused_no_more_often_than_stated(mu: float) -> None:
    """Every canary guessed: right with probability Φ(μ/2), independently, which is exact."""
    law = stats.binom.pmf(np.arange(101), 100, stats.norm.cdf(mu / 2))
    for claim in (GDP(mu), Gaussian(1 / mu)):
        alarm, _ = false_alarm(law, claim, canaries=100, level=0.05)
        assert alarm <= 0.05
    power, _ = false_alarm(law, GDP(mu / 4), canaries=100, level=0.05)
    assert power > 0.1


def most_certain(mu: float, *, canaries: int, guesses: int, generator: np.random.Generator) -> int:
    """How many of the most certain guesses are right when every canary has its own normal noise."""
    inside = generator.random(canaries) < 0.5
    scores = np.where(inside, mu / 2, -mu / 2) + generator.normal(size=canaries)
    chosen = np.argsort(-np.abs(scores))[:guesses]
    return int(((scores[chosen] > 0) == inside[chosen]).sum())


def test_a_curve_says_more_than_one_of_its_lines() -> None:
    """Noise of μ = 1, 100 guesses of 1000: the ε of the bound on μ beats the (ε, δ) theorem, and stays below the truth.

    Seeded; the medians of 15 runs.
    """
    from deniable.auditing.statistics import gdp_epsilon

    generator = np.random.default_rng(4)
    counts = [most_certain(1.0, canaries=1000, guesses=100, generator=generator) for _ in range(15)]
    known = {"guesses": 100, "canaries": 1000}
    curve = np.median([gdp_epsilon(one_run_mu(correct=c, **known).value, delta=1e-5) for c in counts])
    line = np.median([one_run_epsilon(correct=c, **known, delta=1e-5).value for c in counts])
    assert 1.3 * line < curve < gdp_epsilon(1.0, delta=1e-5)


def test_both_theorems_agree_on_pure_privacy() -> None:
    """For δ = 0 the (ε, δ) theorem is an exact binomial tail; the curve's p-value is within a quarter of it."""
    for correct in (70, 80, 90, 100):
        known = {"correct": correct, "guesses": 100, "canaries": 100}
        exact = one_run_p_value(**known, epsilon=0.5)  # type: ignore[arg-type]
        assert exact <= one_run_curve_p_value(**known, claim=PureDP(0.5)) * (1 + 1e-6) <= 1.25 * exact + 1e-9


@pytest.mark.parametrize(("canaries", "guesses"), [(1, 1), (8, 3), (8, 8), (30, 20)])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.3, 0.05), (2.0, 0.01)])
def test_the_recursion_is_the_best_that_the_lemma_allows(
    canaries: int, guesses: int, epsilon: float, delta: float
) -> None:
    """A linear program over all laws of the number right that obey the lemma: its optimum is the p-value."""
    from scipy.optimize import linprog

    number, odds = np.arange(guesses + 1), math.exp(epsilon)
    for correct in {1, guesses // 2 + 1, guesses}:
        rows, limits = [], []
        for i in range(1, guesses + 1):
            right = np.where(number >= i, number, 0) / canaries
            wrong = np.where(number >= i - 1, guesses - number, 0) / canaries
            rows += [right - odds * wrong, right - wrong / odds]
            limits += [delta, 1 - (1 - delta) / odds]
        best = linprog(
            -(number >= correct).astype(float), A_ub=rows, b_ub=limits, A_eq=[np.ones(guesses + 1)], b_eq=[1.0]
        )
        found = one_run_curve_p_value(
            correct=correct, guesses=guesses, canaries=canaries, claim=ApproxDP(epsilon, delta)
        )
        assert found == pytest.approx(-best.fun, rel=1e-6)


@pytest.mark.parametrize("mu", [0.2, 1.0, 2.5])
def test_one_guess_about_one_canary_is_the_best_guess(mu: float) -> None:
    """Φ(μ/2), by hand: the chance is where τ and its least false rate add up to 1."""
    found = one_run_curve_p_value(correct=1, guesses=1, canaries=1, claim=GDP(mu))
    assert found == pytest.approx(stats.norm.cdf(mu / 2), rel=1e-6)


@pytest.mark.parametrize("power", [1e-250, 1e-40, 1e-16, 1e-11, 1e-3, 0.5, 0.999])
@pytest.mark.parametrize("mu", [0.02, 0.5, 3])
def test_the_inverse_of_a_gaussian_curve_keeps_its_digits_in_the_tail(power: float, mu: float) -> None:
    """Else p-values near 1e-16 came out up to 3 % too small."""
    with mpmath.workdps(60):
        start = -mpmath.sqrt(-2 * mpmath.log(power))
        at = mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z)) - mpmath.log(power), start)
        true = mpmath.ncdf(at - mpmath.mpf(mu))
        assert abs(_inverse(GDP(mu))(power) / true - 1) < 1e-9


def test_p_values_fall_with_what_is_right_and_grow_with_what_is_claimed() -> None:
    found = [one_run_curve_p_value(correct=c, guesses=60, canaries=200, claim=GDP(0.5)) for c in (30, 40, 50, 60)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 1.0
    claimed = [one_run_curve_p_value(correct=55, guesses=60, canaries=200, claim=GDP(m)) for m in (0.1, 0.5, 1, 3)]
    assert all(a <= b for a, b in itertools.pairwise(claimed))
    bound = one_run_mu(correct=55, guesses=60, canaries=200).value
    at, beyond = (
        one_run_curve_p_value(correct=55, guesses=60, canaries=200, claim=GDP(bound * f)) for f in (0.999, 1.001)
    )
    assert at <= 0.05 < beyond * 1.01


@pytest.mark.parametrize(
    "wrong", [{"correct": 3, "guesses": 2, "canaries": 5}, {"correct": 1, "guesses": 6, "canaries": 5}]
)
def test_counts_that_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match="guesses"):
        one_run_p_value(**wrong, epsilon=1)
