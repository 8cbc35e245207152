"""Private choices: their exact laws, and e^ε between neighbours, by enumeration or high-precision integration.

Laws are computed here by other means than in the code: the exponential mechanism as a softmax, permute-and-flip over
all orders, noisy max by integrating. Draws are compared with them at a false-alarm rate of 1e-6 per test. About a
minute on a busy machine with two cores.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise, permutations, product
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from deniable import mechanisms as dm
from deniable import noise
from deniable.accounting.accountant import account
from deniable.errors import DataError, InvalidArgument
from deniable.noise import EXPONENTIAL, GUMBEL, LAPLACE
from deniable.units import ADD_REMOVE, REPLACE

Law = list[Any]


def softmax(u: list[float], rate: float) -> Law:
    weights = [mp.exp(rate * x) for x in u]
    return [w / mp.fsum(weights) for w in weights]


def permuted_and_flipped(u: list[float], rate: float) -> Law:
    """Over all orders: the first to be accepted, with probability exp(rate·(u − best))."""
    accept = [mp.exp(rate * (x - max(u))) for x in u]
    law = [mp.mpf(0)] * len(u)
    orders = list(permutations(range(len(u))))
    for order in orders:
        left = mp.mpf(1)
        for i in order:
            law[i] += left * accept[i] / len(orders)
            left *= 1 - accept[i]
    return law


def laplace_max(u: list[float], rate: float) -> Law:
    """Pr[i wins] = ∫ density(x)·Π_j cdf(x + rate·(u_i − u_j)) dx, piece by piece between the kinks."""

    def cdf(x: float) -> float:
        return math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2

    law = []
    for i, mine in enumerate(u):
        gaps = [rate * (mine - other) for j, other in enumerate(u) if j != i]
        knots = [-45.0, *sorted({0.0, *(-g for g in gaps)}), 45.0]
        law.append(
            sum(
                quad(
                    lambda x, gaps=gaps: math.exp(-abs(x)) / 2 * math.prod(cdf(x + g) for g in gaps),
                    a,
                    b,
                    epsabs=0,
                    epsrel=1e-11,
                )[0]
                for a, b in pairwise(knots)
            )
        )
    return law


def fits(draws: list[Any], law: dict[Any, float]) -> bool:
    """χ², false alarm 1e-6; outcomes are pooled until 5 are expected of each."""
    counts, n = Counter(draws), len(draws)
    assert set(counts) <= set(law)
    observed, expected, o, e = [], [], 0.0, 0.0
    for outcome, p in sorted(law.items(), key=lambda item: item[1]):
        o, e = o + counts[outcome], e + n * float(p)
        if e >= 5:
            observed.append(o)
            expected.append(e)
            o = e = 0.0
    total = sum(expected)
    scaled = [x * sum(observed) / total for x in expected]
    return len(observed) < 2 or stats.chisquare(observed, scaled).pvalue > 1e-6


UTILITIES = [0, -1, -3, 2]


@pytest.mark.parametrize("monotone", [False, True])
def test_the_exponential_mechanism_is_a_softmax(monotone: bool) -> None:
    m = dm.exponential(candidates=4, sensitivity=2, epsilon=1.5, step=1, monotone=monotone)
    law = softmax(UTILITIES, 1.5 / (2 if monotone else 4))
    assert fits([m(UTILITIES) for _ in range(3000)], dict(enumerate(law)))


def test_permute_and_flip_has_the_law_of_its_definition() -> None:
    m = dm.permute_and_flip(candidates=4, sensitivity=1, epsilon=1, step=1)
    assert fits([m(UTILITIES) for _ in range(3000)], dict(enumerate(permuted_and_flipped(UTILITIES, 0.5))))


def test_permute_and_flip_published_value() -> None:
    """u = (0, −1, −2.5), ε = 1 (so rate 1/2): 0.611407, 0.274303, 0.114290."""
    found = permuted_and_flipped([0, -1, -2.5], 0.5)
    assert [round(float(p), 6) for p in found] == [0.611407, 0.274303, 0.11429]
    m = dm.permute_and_flip(candidates=3, sensitivity=1, epsilon=1)
    assert fits([m([0, -1, -2.5]) for _ in range(3000)], dict(enumerate(found)))


@pytest.mark.parametrize(
    ("law_of_noise", "law"), [(LAPLACE, laplace_max), (EXPONENTIAL, permuted_and_flipped), (GUMBEL, softmax)]
)
@pytest.mark.parametrize("monotone", [False, True])
def test_noisy_max_with_three_noises(law_of_noise: Any, law: Any, monotone: bool) -> None:
    m = dm.noisy_max(candidates=3, sensitivity=1, epsilon=1, step=1, noise=law_of_noise, monotone=monotone)
    u = [0, 1, -1]
    assert fits([m(u) for _ in range(2500)], dict(enumerate(law(u, 1 if monotone else 0.5))))


def losses(law: Any, u: list[float], v: list[float], rate: float) -> float:
    return max(abs(float(mp.log(p / q))) for p, q in zip(law(u, rate), law(v, rate), strict=True))


@pytest.mark.parametrize("law", [softmax, permuted_and_flipped, laplace_max])
def test_general_utilities_cost_epsilon(law: Any) -> None:
    """Every utility may move by ±1: rate ε/2 costs at most ε = 1."""
    bases = [[0, 0, 0], [0, 3, 1]] if law is laplace_max else [[0, 0, 0], [0, 1, 2], [0, 3, 1], [5, 0, 0]]
    worst = 0.0
    for base in bases:
        for move in product((-1, 0, 1), repeat=3):
            worst = max(worst, losses(law, base, [b + d for b, d in zip(base, move, strict=True)], 0.5))
    assert worst <= 1 + 1e-9
    assert worst > (0.6 if law is not softmax else 0.7)


@pytest.mark.parametrize("law", [softmax, permuted_and_flipped, laplace_max])
def test_monotone_utilities_cost_epsilon_at_half_the_noise(law: Any) -> None:
    """One unit raises some utilities by 1 and lowers none: rate ε costs at most ε = 1."""
    bases = [[0, 0, 0], [0, 3, 1]] if law is laplace_max else [[0, 0, 0], [0, 1, 2], [0, 3, 1], [5, 0, 0]]
    worst = max(
        losses(law, base, [b + d for b, d in zip(base, move, strict=True)], 1)
        for base in bases
        for move in product((0, 1), repeat=3)
    )
    assert worst <= 1 + 1e-9


def test_erratum_noise_of_scale_one_over_epsilon_is_not_enough_when_a_record_is_replaced() -> None:
    """Noisy max of counts with Laplace(1/ε): a replaced record moves one count up and one down, at up to 2ε."""

    def upset(gap: float) -> float:
        """The chance that the trailing one of two wins: the difference of two Laplace noises exceeds the gap."""
        return math.exp(-gap) * (2 + gap) / 4

    assert upset(3) == pytest.approx(laplace_max([0, 3], 1)[0], rel=1e-9)
    assert 1.9 < math.log(upset(20) / upset(22)) < 2
    with pytest.raises(InvalidArgument, match="monotone"):
        dm.noisy_max(candidates=2, sensitivity=1, epsilon=1, monotone=True, relation=REPLACE)
    for gap in range(5):
        assert losses(laplace_max, [0, gap], [1, gap - 1], 0.5) <= 1 + 1e-9


def test_erratum_the_printed_exponential_mechanism_costs_twice_its_epsilon() -> None:
    """exp(ε·u/Δ) instead of exp(ε·u/(2Δ)): many candidates that move against one."""
    u, v = [0] + [1] * 60, [1] + [0] * 60
    assert losses(softmax, u, v, 1) > 1.9
    assert losses(softmax, u, v, 0.5) <= 1 + 1e-9


def test_the_exponential_mechanism_has_range_epsilon() -> None:
    """max loss − min loss ≤ ε over all outcomes, which is what its event claims."""
    for move in product((-1, 0, 1), repeat=3):
        p, q = softmax([0, 1, 3], 0.5), softmax([0 + move[0], 1 + move[1], 3 + move[2]], 0.5)
        found = [mp.log(a / b) for a, b in zip(p, q, strict=True)]
        assert max(found) - min(found) <= 1 + 1e-12


def test_top_k_is_choosing_one_by_one() -> None:
    m = dm.top_k(candidates=3, places=2, sensitivity=1, epsilon=2, step=1)
    u = [0, 1, 3]
    law = {}
    first = softmax(u, 0.5)
    for i in range(3):
        rest = [j for j in range(3) if j != i]
        second = softmax([u[j] for j in rest], 0.5)
        for j, p in zip(rest, second, strict=True):
            law[(i, j)] = first[i] * p
    assert fits([tuple(m(u)) for _ in range(3000)], law)


def test_top_k_with_delta_is_confirmed_by_the_accountant() -> None:
    m = dm.top_k(candidates=50, places=10, sensitivity=1, epsilon=1, delta=1e-6, step=1)
    assert account(m.event).epsilon(1e-6) <= 1
    assert m.each > Fraction(1, 10)


def test_real_utilities_are_rounded_and_pay_for_it() -> None:
    m = dm.exponential(candidates=2, sensitivity=0.1, epsilon=1)
    assert m.steps * m.step > Fraction(1, 10)
    assert m.steps * m.step < Fraction(1, 10) * (1 + Fraction(1, 2**18))
    assert fits([m([0.0, 0.3]) for _ in range(1500)], dict(enumerate(softmax([0.0, 0.3], 5))))


def test_utilities_must_fit() -> None:
    m = dm.exponential(candidates=3, sensitivity=1, epsilon=1, step=1)
    for bad in ([1, 2], [[1, 2, 3]], "abc", {"a": 1, "b": 2, "c": 3}):
        with pytest.raises(DataError):
            m(bad)
    assert m.utilities([1.0, 2.5, math.inf]) == [1, 0, 0]


# above threshold


def survival(scale: float, m: Any) -> Any:
    """Pr[X ≥ m] of discrete Laplace noise, for integers m of either sign."""
    r = math.exp(-1 / scale)
    m = np.asarray(m, dtype=float)
    return np.where(m >= 1, np.exp(-np.maximum(m, 1) / scale), 1 + r - np.exp(-np.maximum(1 - m, 0) / scale)) / (1 + r)


def transcripts(
    m: Any, values: tuple[int, ...], *, scales: tuple[float, float] | None = None
) -> dict[tuple[bool, ...], float]:
    """The exact law of the answers: summed over the threshold's noise, multiplied over the queries'."""
    first, query = scales or tuple(float(event.scale) for event in m.noises)
    z = np.arange(-math.ceil(60 * first) - 1, math.ceil(60 * first) + 2)
    one = math.exp(-1 / first)
    open_: dict[tuple[bool, ...], Any] = {(): (1 - one) / (1 + one) * np.exp(-np.abs(z) / first)}
    found: dict[tuple[bool, ...], Any] = {}
    for value in values:
        bar = int(m.threshold) + z - value
        grown = {(*answers, True): mass * survival(query, bar) for answers, mass in open_.items()}
        grown |= {(*answers, False): mass * survival(query, 1 - bar) for answers, mass in open_.items()}
        found |= {answers: mass for answers, mass in grown.items() if sum(answers) == m.positives}
        open_ = {answers: mass for answers, mass in grown.items() if sum(answers) < m.positives}
    return {answers: float(mass.sum()) for answers, mass in (found | open_).items()}


def worst_loss(m: Any, pairs: Any, **kwargs: Any) -> float:
    worst = 0.0
    for one, other in pairs:
        p, q = transcripts(m, one, **kwargs), transcripts(m, other, **kwargs)
        worst = max(worst, *(abs(math.log(p[key] / q[key])) for key in p))
    return worst


def streams(
    moves: list[tuple[int, int]], positives: int, queries: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Many queries at one value, then a few at another, and each of the two moved."""
    return [
        ((base,) * queries + (last,) * positives, (base + a,) * queries + (last + b,) * positives)
        for base in (-5, 0, 5)
        for last in (-10, 0, 10)
        for a, b in moves
    ]


BOTH_WAYS = [(1, -1), (-1, 1), (1, 1), (-1, -1), (0, 1), (1, 0), (0, -1), (-1, 0)]
ONE_WAY = [(1, 1), (0, 1), (1, 0), (-1, -1), (0, -1), (-1, 0)]


@pytest.mark.parametrize("positives", [1, 2])
def test_above_threshold_costs_epsilon_exactly(positives: int) -> None:
    """All queries may move by ±1: every transcript keeps within e^ε, and some attain it."""
    m = dm.above_threshold(threshold=0, sensitivity=1, epsilon=2, positives=positives, step=1)
    assert 1.99 < worst_loss(m, streams(BOTH_WAYS, positives, 12)) <= 2 + 1e-9


@pytest.mark.parametrize("positives", [1, 2])
def test_above_threshold_for_monotone_queries(positives: int) -> None:
    m = dm.above_threshold(threshold=0, sensitivity=1, epsilon=2, positives=positives, step=1, monotone=True)
    assert 0.5 < worst_loss(m, streams(ONE_WAY, positives, 12)) <= 2 + 1e-9
    # With queries that move both ways the smaller noise is not enough.
    assert worst_loss(m, streams(BOTH_WAYS, positives, 12)) > 2.9


def test_broken_sparse_vectors_are_caught() -> None:
    """Query noise without the factor 2c, and a threshold without noise, both break the promise."""
    m = dm.above_threshold(threshold=0, sensitivity=1, epsilon=2, positives=2, step=1)
    first, query = (float(event.scale) for event in m.noises)
    assert worst_loss(m, streams(BOTH_WAYS, 2, 8), scales=(first, query / 4)) > 2
    once = dm.above_threshold(threshold=0, sensitivity=1, epsilon=2, step=1)
    query = float(once.noises[1].scale)
    assert worst_loss(once, streams([(1, 1)], 1, 40), scales=(1e-3, query)) > 2


def test_above_threshold_is_drawn_as_computed() -> None:
    m = dm.above_threshold(threshold=1, sensitivity=1, epsilon=3, step=1)
    law = {answers: float(p) for answers, p in transcripts(m, (0, 1, 2)).items()}
    assert fits([tuple(m([0, 1, 2])) for _ in range(3000)], law)


def test_a_run_ends_after_its_positives() -> None:
    m = dm.above_threshold(threshold=0, sensitivity=1, epsilon=100, positives=2, step=1)
    assert m([-1000, 1000, 1000, 1000]) == [False, True, True]
    run = m.start()
    assert [run(1000), run(1000), run.over] == [True, True, True]
    with pytest.raises(DataError, match="positive"):
        run(0)
    assert "threshold=0" in repr(run)


# quantiles and the auction


def ranks(t: int, data: list[int]) -> tuple[int, int]:
    return sum(x < t for x in data), sum(x <= t for x in data)


def quantile_utility(t: int, data: list[int], q: Fraction) -> Fraction:
    low, high = ranks(t, data)
    wanted = q * len(data)
    return -max(Fraction(0), low - wanted, wanted - high)


@pytest.mark.parametrize("q", [Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1)])
def test_quantile_sensitivity(q: Fraction) -> None:
    worst = {ADD_REMOVE: Fraction(0), REPLACE: Fraction(0)}
    for rest in product(range(3), repeat=3):
        for x in range(3):
            for t in range(3):
                mine = quantile_utility(t, [x, *rest], q)
                worst[ADD_REMOVE] = max(worst[ADD_REMOVE], abs(mine - quantile_utility(t, list(rest), q)))
                for y in range(3):
                    worst[REPLACE] = max(worst[REPLACE], abs(mine - quantile_utility(t, [y, *rest], q)))
    from deniable.mechanisms.quantiles import rank_sensitivity

    assert all(worst[r] <= rank_sensitivity(q, r) for r in worst)
    assert worst[ADD_REMOVE] == max(q, 1 - q) or q in (0, 1)


@pytest.mark.parametrize("data", [[], [3], [1, 1, 1, 4], [0, 2, 2, 5, 6]])
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
def test_quantile_is_the_exponential_mechanism_over_all_points(data: list[int], relation: Any) -> None:
    m = dm.quantile(bounds=(0, 6), q=0.4, epsilon=2, step=1, relation=relation)
    q = Fraction(2, 5)
    rate = 2 / (2 * (1 if relation is REPLACE else 0.6))
    law = softmax([float(quantile_utility(t, data, q)) for t in range(7)], rate)
    assert fits([m(data) for _ in range(1500)], {float(t): p for t, p in enumerate(law)})


def test_many_ties_do_not_hurt() -> None:
    """A thousand equal values: the answer is that value, where #{x < t} alone would see no point near the median."""
    m = dm.quantile(bounds=(0, 100), q=0.5, epsilon=1)
    assert [round(m([42] * 1000), 3) for _ in range(5)] == [42] * 5


def test_several_quantiles_come_in_order() -> None:
    m = dm.quantile(bounds=(0, 1), q=[0.9, 0.1, 0.5], epsilon=0.1)
    for _ in range(20):
        high, low, middle = m([0.2, 0.8])  # type: ignore[misc]
        assert low <= middle <= high
    assert repr(m.event) == "ExponentialMechanism(epsilon=1/30) * 3"


def test_the_auction_of_the_notes() -> None:
    """Bids 1, 1, 1, 3.01: revenue 4 at price 1, 3.01 at 3.01, nothing at 3.02."""
    m = dm.auction_price(prices=[1, 3.01, 3.02], epsilon=1, relation=REPLACE)
    assert m.revenues([1, 1, 1, 3.01]) == [4, Fraction(301, 100), 0]
    law = softmax([4, 3.01, 0], 1 / (2 * 3.02))
    assert fits([m([1, 1, 1, 3.01]) for _ in range(2500)], dict(zip(m.prices, law, strict=True)))


def test_revenue_moves_by_at_most_the_largest_price_and_never_falls_with_one_more_bid() -> None:
    m = dm.auction_price(prices=[1, 2, 5], epsilon=1)
    bids = (0.5, 1, 2, 3, 5, 9, None)
    for rest in product(bids, repeat=2):
        without = m.revenues(list(rest))
        for bid in bids:
            more = [a - b for a, b in zip(m.revenues([bid, *rest]), without, strict=True)]
            assert all(0 <= change <= 5 for change in more)
            for other in bids:
                swapped = zip(m.revenues([bid, *rest]), m.revenues([other, *rest]), strict=True)
                assert max(abs(a - b) for a, b in swapped) <= 5


# selection among private candidates


@pytest.mark.parametrize("eta", [0, 0.5, 1])
def test_the_number_of_trials_has_its_law(eta: float) -> None:
    m = dm.best_of([dm.count(epsilon=1)], score=float, trials=4, eta=eta)
    gamma = float(m.gamma)
    weights = [(1 - gamma) ** k * (math.prod((i + eta) / (i + 1) for i in range(1, k))) for k in range(1, 400)]
    law = {k: w / sum(weights) for k, w in enumerate(weights, start=1)}
    draws = [m.draw_trials(None) for _ in range(2000)]
    assert fits([min(k, 399) for k in draws], law)
    assert m.trials == pytest.approx(4, rel=1e-6)
    assert sum(k * p for k, p in law.items()) == pytest.approx(4, rel=1e-6)
    for x in (0.0, 0.3, 0.9, 1.0):
        assert m.generating(x) == pytest.approx(sum(p * x**k for k, p in law.items()), abs=1e-9)


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0])
def test_selection_costs_two_plus_eta(eta: float) -> None:
    """Pairs of ε-close candidate laws on a few scores: the released law stays within e^{(2+η)ε}, and can come near."""
    epsilon = 0.5
    m = dm.best_of([dm.count(epsilon=epsilon)], score=float, trials=200, eta=eta)
    worst = 0.0
    for size in (2, 3):
        grid = [x for x in product((1e-4, 0.003, 0.1, 0.4, 0.9), repeat=size - 1) if sum(x) < 1]
        for head in grid:
            q = [*head, 1 - sum(head)]
            for signs in product((-1, 1), repeat=size):
                p = closest(q, signs, epsilon)
                if p is None:
                    continue
                worst = max(worst, *(abs(math.log(a / b)) for a, b in zip(released(m, p), released(m, q), strict=True)))
    assert worst <= (2 + eta) * epsilon + 1e-9
    assert worst > (2 + eta) * epsilon * 0.9
    assert m.event.guarantee.epsilon == (2 + Fraction(eta)) / 2


def closest(q: list[float], signs: tuple[int, ...], epsilon: float) -> list[float] | None:
    """q with the masses of one sign scaled by e^±ε, and the others so that it adds up to 1, within e^ε too."""
    for scale in (math.exp(epsilon), math.exp(-epsilon)):
        moved = sum(x for x, s in zip(q, signs, strict=True) if s > 0)
        if 0 < moved < 1:
            rest = (1 - moved * scale) / (1 - moved)
            if math.exp(-epsilon) <= rest <= math.exp(epsilon):
                return [x * (scale if s > 0 else rest) for x, s in zip(q, signs, strict=True)]
    return None


def released(m: Any, law: list[float]) -> list[float]:
    """The law of the best of K: f(F(y)) − f(F(y−)), scores in increasing order."""
    sums = [0.0]
    for p in law:
        sums.append(sums[-1] + p)
    sums[-1] = 1.0
    return [m.generating(b) - m.generating(a) for a, b in pairwise(sums)]


def test_the_best_is_the_best() -> None:
    m = dm.best_of([dm.count(epsilon=1), dm.count(epsilon=2)], score=lambda y: -abs(y - 10), trials=30, eta=1)
    found = [m([True] * 10) for _ in range(60)]  # one candidate alone: probability below 1e-11
    assert {best.candidate for best in found} == {0, 1}
    assert all(best.score == -abs(best.output - 10) for best in found)
    assert m.event.guarantee.epsilon == 6  # three times the larger
    assert m.error(0.95) < dm.best_of([dm.count(epsilon=1)], score=float, trials=3, eta=1).error(0.95)


def test_scores_that_are_not_numbers_rank_last() -> None:
    m = dm.best_of([dm.count(epsilon=5)], score=lambda y: math.nan if y != 3 else 1.0, trials=50, eta=1)
    assert sum(m([True] * 3).output == 3 for _ in range(20)) >= 15


def test_candidates_need_a_pure_guarantee() -> None:
    from deniable.errors import NotSupported

    with pytest.raises(NotSupported, match="pure"):
        dm.best_of([dm.count(epsilon=1, delta=1e-6)], score=float, trials=3)
    with pytest.raises(InvalidArgument, match="relation"):
        dm.best_of([dm.count(epsilon=1), dm.count(epsilon=1, relation=REPLACE)], score=float, trials=3)
    with pytest.raises(InvalidArgument, match="candidates"):
        dm.best_of([], score=float, trials=3)
    assert noise.bernoulli(1)  # γ = 1 is a single trial
    assert dm.best_of([dm.count(epsilon=1)], score=float, trials=1).trials == 1
