"""Sampling, shuffling and iteration against brute force and exact Gaussians."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from math import comb

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deniable import account
from deniable.conversions import fdp_to_profile, gdp_to_fdp, gdp_to_profile, gdp_to_rdp
from deniable.errors import DeniableError, InvalidArgument, UnitMismatch
from deniable.events import Gaussian
from deniable.guarantees import FDP, GDP, RDP, ApproxDP, PureDP, TradeOff
from deniable.numerics.normal import delta_bracket
from deniable.textbook import (
    iterate,
    sample_batch,
    sample_fdp,
    sample_poisson,
    sample_rdp,
    sampled_gaussian_rdp,
    sampling_operator,
    shuffle,
    shuffle_responses,
    shuffled_batches_epsilon,
    shuffled_delta,
)
from deniable.units import Relation
from tests.reference.values import cases

REPLACE = Relation.REPLACE


def test_the_curve_of_a_sampled_gaussian_is_reached() -> None:
    """δ′(ln(1 + q(e^ε − 1))) = q·δ(ε) for the direction that removes, by numerical integration of the mixture."""
    q, base = 0.1, 1.2
    amplified = math.log1p(q * math.expm1(base))
    with mp.workdps(30):

        def gap(x: mp.mpf) -> mp.mpf:
            normal = mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)
            return max(normal * (1 - q + q * mp.exp(x - mp.mpf("0.5"))) - mp.exp(amplified) * normal, mp.mpf(0))

        edge = mp.mpf(base) + mp.mpf("0.5")
        truth = float(mp.quad(gap, [edge, edge + 3, edge + 10, edge + 40]))
    assert truth == pytest.approx(0.0094001105, rel=1e-8)
    assert q * delta_bracket(1.0, base).upper == pytest.approx(truth, rel=1e-9)
    promise = sample_poisson(ApproxDP(base, delta_bracket(1.0, base).upper), rate=q)
    assert float(promise.epsilon) == pytest.approx(amplified, rel=1e-12)
    assert float(promise.delta) == pytest.approx(truth, rel=1e-9)


@given(st.floats(0, 800), st.floats(1e-9, 1))
@example(5e-324, 0.25)
def test_sampling_helps_and_rate_one_changes_nothing(epsilon: float, rate: float) -> None:
    step = ApproxDP(epsilon, 1e-6)
    found = sample_poisson(step, rate=rate)
    assert found <= step
    assert found.delta == Fraction(str(rate)) * Fraction(1, 10**6)
    with mp.workdps(400):
        truth = mp.log1p(mp.mpf(str(rate)) * mp.expm1(mp.mpf(str(epsilon))))
        got = mp.mpf(found.epsilon.numerator) / found.epsilon.denominator
        assert truth <= got <= truth * (1 + mp.mpf("1e-11")) + mp.mpf("1e-300")
    assert sample_poisson(step, rate=1) == step
    assert sample_poisson(PureDP(1), rate=0.5) <= PureDP(1)


def test_batches_are_for_replace_and_poisson_is_not() -> None:
    swapped = ApproxDP(1, 1e-6, relation=REPLACE)
    assert sample_batch(swapped, batch=10, size=10) == swapped
    assert sample_batch(swapped, batch=1, size=10).epsilon == sample_poisson(ApproxDP(1, 0), rate=0.1).epsilon
    blank = PureDP(1, relation=Relation.ZERO_OUT)
    assert sample_poisson(blank, rate=0.1).relation is Relation.ZERO_OUT


def test_batch_reference() -> None:
    """One step of a Gaussian on 100 of 1000: δ(0.5) by the operator on the curve, and by the trade-off function."""
    (case,) = cases(family="without_replacement")
    base = math.log1p(math.expm1(0.5) / 0.1)
    claim = ApproxDP(base, delta_bracket(1.0, base).upper, relation=REPLACE)
    found = sample_batch(claim, batch=100, size=1000)
    assert float(found.epsilon) == pytest.approx(0.5, rel=1e-12)
    assert float(found.delta) == pytest.approx(case.value, rel=1e-9)
    near = [base + (i - 20) / 40 for i in range(41)]
    by_tests = sample_fdp(gdp_to_fdp(GDP(1, relation=REPLACE), epsilons=near), batch=100, size=1000)
    assert fdp_to_profile(by_tests).delta(0.5) == pytest.approx(case.value, rel=1e-4)
    assert fdp_to_profile(by_tests).delta(0.5) >= case.value * (1 - 1e-12)


def test_the_operator_on_a_gaussian() -> None:
    """C_0.2(G_1): δ at ln(1 + 0.2(e^ε − 1)) for ε = 0.5, 1, 2."""
    for base, expected in ((0.5, 0.0476843416), (1, 0.0253873475), (2, 0.0041847272)):
        lines = [(math.exp(base + i / 50), delta_bracket(1.0, base + i / 50).upper) for i in range(-20, 21)]
        operated = sampling_operator(TradeOff.of_lines(lines), Fraction(1, 5))
        assert operated.delta(math.log1p(0.2 * math.expm1(base))) == pytest.approx(expected, rel=1e-6)


@given(st.integers(2, 30), st.integers(0, 5), st.integers(1, 20))
def test_the_operator_agrees_with_the_formula(odds: int, tenth: int, share: int) -> None:
    """On f_{ε,δ} the operator's curve passes through (ln(1 + p(e^ε − 1)), pδ), exactly in odds."""
    rate = Fraction(share, 20)
    f = TradeOff.of_lines([(odds, Fraction(tenth, 10))])
    operated = sampling_operator(f, rate)
    assert operated.is_symmetric
    assert operated >= f
    assert operated.delta_at(1 + rate * (odds - 1)) == rate * Fraction(tenth, 10)
    assert sampling_operator(f, Fraction(1)) == f


@settings(max_examples=40)
@given(st.floats(1.1, 30), st.floats(0.01, 1), st.floats(0.3, 3))
def test_generic_renyi_sampling_covers_the_gaussian(order: float, rate: float, scale: float) -> None:
    plain = gdp_to_rdp(GDP(1 / Fraction(str(scale))), order=order)
    generic = sample_rdp(plain, rate=rate)
    assert float(generic.epsilon) >= sampled_gaussian_rdp(order, rate=rate, noise_multiplier=scale) * (1 - 1e-12)
    assert generic <= plain
    assert sample_rdp(plain, rate=1) == plain


def brute_shuffle(epsilon: float, local: float, people: int, clone: float) -> float:
    """The two counts, enumerated."""
    truth = math.exp(local) / (1 + math.exp(local))
    total = 0.0
    for c in range(people):
        weight = comb(people - 1, c) * clone**c * (1 - clone) ** (people - 1 - c)
        p, q = [0.0] * (c + 2), [0.0] * (c + 2)
        for a in range(c + 1):
            mass = comb(c, a) / 2**c
            p[a + 1] += mass * truth
            p[a] += mass * (1 - truth)
            q[a + 1] += mass * (1 - truth)
            q[a] += mass * truth
        total += weight * sum(max(0.0, x - math.exp(epsilon) * y) for x, y in zip(p, q, strict=True))
    return total


@pytest.mark.parametrize(
    ("epsilon", "local", "people"), [(0, 1, 1), (0.3, 1, 1), (0.1, 1, 2), (0.1, 1, 30), (0.5, 2, 150)]
)
def test_clones_by_enumeration(epsilon: float, local: float, people: int) -> None:
    clone = 2 / (math.exp(local) + 1)
    truth = brute_shuffle(epsilon, local, people, clone)
    found = shuffled_delta(epsilon, local=local, size=people, clone=clone)
    assert truth * (1 - 1e-13) <= found <= truth * (1 + 1e-9)


def shuffled_reports(epsilon: float, local: float, people: int, others: int) -> float:
    """The true δ of binary randomized response: the count of ones, when `others` of the rest hold a 1."""
    keep = math.exp(local) / (1 + math.exp(local))

    def counts(first: int) -> list[float]:
        law = [1.0]
        for bit in [first] + [1] * others + [0] * (people - 1 - others):
            one = keep if bit else 1 - keep
            law = [
                (law[i] if i < len(law) else 0.0) * (1 - one) + (law[i - 1] if i else 0.0) * one
                for i in range(len(law) + 1)
            ]
        return law

    p, q = counts(1), counts(0)
    return max(
        sum(max(0.0, x - math.exp(epsilon) * y) for x, y in zip(p, q, strict=True)),
        sum(max(0.0, y - math.exp(epsilon) * x) for x, y in zip(p, q, strict=True)),
    )


@pytest.mark.parametrize("others", [0, 10, 20, 39])
def test_the_clone_bound_covers_real_shuffled_responses(others: int) -> None:
    for epsilon in (0.05, 0.2, 0.6):
        truth = shuffled_reports(epsilon, 1.0, 40, others)
        responses = shuffled_delta(epsilon, local=1.0, size=40, clone=2 / (math.e + 1))
        assert truth <= responses * (1 + 1e-9)
        assert responses <= shuffled_delta(epsilon, local=1.0, size=40, clone=math.exp(-1)) * (1 + 1e-9)


def categorical_reports(epsilon: float, local: float, people: int, kinds: int) -> float:
    """The true δ of shuffled k-ary randomized response when everybody else holds the last category."""
    total = math.exp(local) + kinds - 1
    laws: list[dict[tuple[int, ...], float]] = []
    for first in (0, 1):
        law: dict[tuple[int, ...], float] = {(0,) * kinds: 1.0}
        for value in [first] + [kinds - 1] * (people - 1):
            nxt: dict[tuple[int, ...], float] = {}
            for state, mass in law.items():
                for report in range(kinds):
                    chance = (math.exp(local) if report == value else 1) / total
                    key = (*state[:report], state[report] + 1, *state[report + 1 :])
                    nxt[key] = nxt.get(key, 0.0) + mass * chance
            law = nxt
        laws.append(law)
    return sum(max(0.0, mass - math.exp(epsilon) * laws[1].get(key, 0.0)) for key, mass in laws[0].items())


def test_the_clone_bound_covers_categorical_responses() -> None:
    """p = 2/(e^{ε₀} + 1) for any number of categories."""
    for epsilon in (0.1, 0.5):
        truth = categorical_reports(epsilon, 1.5, 9, 4)
        assert truth <= shuffled_delta(epsilon, local=1.5, size=9, clone=2 / (math.exp(1.5) + 1)) * (1 + 1e-9)


def test_shuffling_numbers() -> None:
    one = PureDP(1, relation=REPLACE)
    assert float(shuffle_responses(one, size=1000, delta=1e-5).epsilon) == pytest.approx(0.1250401, abs=1e-7)
    assert float(shuffle(one, size=1000, delta=1e-5).epsilon) == pytest.approx(0.154, abs=5e-4)
    closed = math.log1p(math.expm1(1) * (4 * math.sqrt(2 * math.log(4e5)) / math.sqrt((math.e + 1) * 1000) + 4 / 1000))
    assert closed == pytest.approx(0.457, abs=1e-3)  # the printed closed form is far above the numeric bound


def test_shuffling_extremes() -> None:
    local = [PureDP(e, relation=REPLACE) for e in (1e-9, 1, 8, 800)]
    assert shuffle(local[3], size=10**6, delta=1e-5).epsilon == 800
    assert shuffle(local[1], size=1, delta=1e-5).epsilon <= 1
    small = shuffle(local[1], size=10**9, delta=1e-300).epsilon
    assert 0 < small < 0.01
    assert 0 < shuffle(local[0], size=10, delta=1e-12).epsilon <= local[0].epsilon
    few, many = (shuffle(local[2], size=n, delta=1e-6).epsilon for n in (10**4, 10**6))
    assert many < few <= 8


@pytest.mark.parametrize("c", [1000, 10**6, 10**7])
def test_the_incomplete_beta_function_is_as_good_as_assumed(c: int) -> None:
    """P[Bin(c, 1/2) ≥ t] by a sum of ratios; shuffled_delta allows an error of 1e-12 + 2e-14·√c."""
    from scipy.special import betainc

    for z in (1, 8, 30):
        t = int(c / 2 + z * math.sqrt(c) / 2)
        with mp.workdps(30):
            log = mp.loggamma(c + 1) - mp.loggamma(t + 1) - mp.loggamma(c - t + 1) - c * mp.log(2)
            ratio, total, j = mp.mpf(1), mp.mpf(1), t
            while ratio > total * mp.mpf(10) ** -22 and j < c:
                ratio *= mp.mpf(c - j) / (j + 1)
                j += 1
                total += ratio
            truth = mp.exp(log) * total
        found = float(betainc(t, c - t + 1, 0.5))
        assert abs(found / truth - 1) <= 1e-12 + 2e-14 * math.sqrt(c)


def test_iteration_on_a_linear_loss() -> None:
    """With linear losses the last iterate is exactly Gaussian: the shift 2ηL against n noises of size ηs."""
    lipschitz, noise, steps, eta = 1.5, 4.0, 20, 0.3
    for position in (1, 7, 20):
        found = iterate(
            3, lipschitz=lipschitz, noise=noise, position=position, steps=steps, smoothness=0, step_size=eta
        )
        exact = 3 * (2 * eta * lipschitz) ** 2 / (2 * steps * (eta * noise) ** 2)
        assert float(found.epsilon) >= exact * (1 - 1e-12)
        assert found.relation is REPLACE
    first = iterate(3, lipschitz=lipschitz, noise=noise, position=1, steps=steps, smoothness=0, step_size=eta)
    assert float(first.epsilon) == pytest.approx(3 * (2 * eta * lipschitz) ** 2 / (2 * steps * (eta * noise) ** 2))


@pytest.mark.parametrize("beta_eta", [0.1, 1.0, 1.9])
def test_iteration_on_a_quadratic_loss(beta_eta: float) -> None:
    """Quadratic losses β(x − s)²/2 on an interval: the map contracts by |1 − ηβ|, and the last iterate is Gaussian."""
    steps, noise, lipschitz = 12, 2.0, 1.0
    shrink = abs(1 - beta_eta)
    for position in range(1, steps + 1):
        left = steps - position
        shift = 2 * lipschitz * shrink**left  # in units of η
        variance = noise**2 * sum(shrink ** (2 * i) for i in range(steps))
        exact = 2 * shift**2 / (2 * variance)
        found = iterate(2, lipschitz=1, noise=2, position=position, steps=steps, smoothness=beta_eta, step_size=1)
        assert float(found.epsilon) >= exact * (1 - 1e-12)


BAD: dict[str, tuple[Callable[[], object], type[DeniableError], str]] = {
    "Poisson, replace": (lambda: sample_poisson(PureDP(1, relation=REPLACE), rate=0.1), UnitMismatch, "ADD_REMOVE"),
    "batch under add/remove": (lambda: sample_batch(PureDP(1), batch=1, size=2), UnitMismatch, "REPLACE only"),
    "tests under add/remove": (
        lambda: sample_fdp(FDP(TradeOff.perfect()), batch=1, size=2), UnitMismatch, "REPLACE only",
    ),
    "batch too large": (
        lambda: sample_batch(PureDP(1, relation=REPLACE), batch=3, size=2), InvalidArgument, "batch",
    ),
    "batch too large, tests": (
        lambda: sample_fdp(FDP(TradeOff.perfect(), relation=REPLACE), batch=3, size=2), InvalidArgument, "batch",
    ),
    "rate above 1": (lambda: sample_poisson(PureDP(1), rate=1.01), InvalidArgument, "rate"),
    "rate 0": (lambda: sample_rdp(RDP(2, 1), rate=0), InvalidArgument, "rate"),
    "shuffle under add/remove": (lambda: shuffle(PureDP(1), size=9, delta=0.1), UnitMismatch, "REPLACE"),
    "shuffle nobody": (
        lambda: shuffle(PureDP(1, relation=REPLACE), size=0, delta=0.1), InvalidArgument, "size",
    ),
    "shuffle at δ = 0": (lambda: shuffle(PureDP(1, relation=REPLACE), size=9, delta=0), InvalidArgument, "delta"),
    "a step that expands": (
        lambda: iterate(2, lipschitz=1, noise=1, position=1, steps=2, smoothness=3, step_size=1), InvalidArgument,
        "at most 2/smoothness",
    ),
    "a record after the last": (
        lambda: iterate(2, lipschitz=1, noise=1, position=3, steps=2, smoothness=1, step_size=1), InvalidArgument,
        "position",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("amplify", "kind", "said"), BAD.values(), ids=BAD.keys())
def test_bad_input(amplify: Callable[[], object], kind: type[DeniableError], said: str) -> None:
    with pytest.raises(kind) as caught:
        amplify()
    assert said in str(caught.value)


def test_a_sampled_gaussian_is_never_worse_than_the_gaussian() -> None:
    profile = gdp_to_profile(GDP(1))
    assert sample_poisson(ApproxDP(profile.epsilon(1e-4), 1e-4), rate=0.1).epsilon < profile.epsilon(1e-5)


@pytest.mark.parametrize(
    ("noise", "steps", "lower", "plain"),
    [(0.5, 1000, 10.997, 10.997), (0.4, 10_000, 14.451, 14.451), (1, 1000, 3.724, 4.887)],
)
def test_shuffled_batches_cannot_do_much_better_than_no_amplification(
    noise: float, steps: int, lower: float, plain: float
) -> None:
    found = shuffled_batches_epsilon(noise_multiplier=noise, steps=steps, delta=1e-6)
    upper = account(Gaussian(noise)).epsilon(1e-6)
    assert found == pytest.approx(lower, abs=1e-3)
    assert upper == pytest.approx(plain, abs=1e-3)
    assert found <= upper
    assert shuffled_batches_epsilon(noise_multiplier=noise, steps=1, delta=1e-6) <= upper
    assert shuffled_batches_epsilon(noise_multiplier=50, steps=10, delta=0.5) == 0


def test_shuffled_batches_lie_above_their_lower_end_by_enumeration() -> None:
    """Two batches of one unit each, contributions ±1: the exact curve of the shuffled epoch over the plane."""
    s, y = 0.8, np.arange(-8.0, 8.0, 0.02)
    x = (
        np.exp(-((y[None, :] - np.array([1.0, 0.0, -1.0])[:, None]) ** 2) / (2 * s * s))
        * 0.02
        / (s * math.sqrt(2 * math.pi))
    )
    p = (np.outer(x[0], x[2]) + np.outer(x[2], x[0])) / 2
    q = (np.outer(x[1], x[2]) + np.outer(x[2], x[1])) / 2
    for delta in (1e-2, 1e-3):
        lower = shuffled_batches_epsilon(noise_multiplier=s, steps=2, delta=delta)
        assert float(np.maximum(p - math.exp(lower) * q, 0).sum()) >= delta * (1 - 1e-3)
