"""Places where a curve once came out too low, or is likely to: each against a value known by other means."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import special

from deniable.accounting.accountant import account
from deniable.events import (
    Claimed,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    MatrixGaussian,
    RandomizedResponse,
)
from deniable.guarantees import RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, PureDP
from deniable.units import Relation

TENTH = Fraction(1, 10)
REPLACE = Relation.REPLACE

# The unit is in the sample with probability q, and then the loss is ε₀: δ(1) is about q, and ε(1e-5) about ε₀ − ln 1/q.
SAMPLED_LOUD: dict[str, tuple[Event, float]] = {
    "pure claim": (Claimed(PureDP(10**5)).sampled(rate=TENTH), 1e5),
    "discrete Laplace": (DiscreteLaplace(Fraction(1, 1000)).sampled(rate=TENTH), 1000),
    "discrete Gaussian": (DiscreteGaussian(Fraction(1, 40)).sampled(rate=TENTH), 800),
    "without replacement": (
        Claimed(PureDP(700, relation=Relation.REPLACE)).sampled_without_replacement(batch=1, size=10),
        700,
    ),
}


@pytest.mark.parametrize("case", SAMPLED_LOUD)
def test_a_loud_step_on_a_sample_stays_loud(case: str) -> None:
    event, loss = SAMPLED_LOUD[case]
    profile = account(event)
    assert profile.delta(1) >= 0.1 * (1 - 1e-9)
    assert profile.epsilon(1e-5) == pytest.approx(loss - math.log(10), abs=0.01)


GROUPS_OF_LOUD: dict[str, Event] = {
    "many": Claimed(PureDP(8)).sampled(rate=0.5).for_group(100),
    "five": Claimed(PureDP(150)).sampled(rate=TENTH).for_group(5),
    "replaced": Claimed(PureDP(360)).sampled(rate=0.5).to_replace(),
    "Laplace": Laplace(Fraction(1, 400)).sampled(rate=TENTH).for_group(2),
    "randomized response": RandomizedResponse(800).sampled(rate=TENTH),
}


@pytest.mark.parametrize("case", GROUPS_OF_LOUD)
def test_a_wide_gap_between_corners_loses_no_mass(case: str) -> None:
    profile = account(GROUPS_OF_LOUD[case])
    assert profile.delta(1) >= 0.09
    assert profile.epsilon(1e-5) >= 300


# Exact: products of the leaky randomized response, ((1 − q)Q + qP, Q) and its reverse, added up at high precision.
LEAKY = [
    (Claimed(ApproxDP(1, 0.001)).sampled(rate=TENTH) * 3, 0.05, 0.0531527512784142),
    (Claimed(ApproxDP(5, 0.001)).sampled(rate=Fraction(999, 1000)) * 2, 0.05, 0.98662178651494),
]


@pytest.mark.parametrize(("event", "epsilon", "exact"), LEAKY)
def test_what_the_other_world_never_shows_is_counted(event: Event, epsilon: float, exact: float) -> None:
    found = account(event).delta_bracket(epsilon)
    assert found.upper >= exact * (1 - 1e-9)
    assert found.upper == pytest.approx(exact, rel=1e-5)


UNBOUNDED = {
    "sampled Gaussian": Gaussian(1).sampled(rate=0.01),
    "zCDP claim": Claimed(ZCDP(1)),
    "sampled zCDP claim": Claimed(ZCDP(1)).sampled(rate=TENTH) * 3,
    "zCDP claim beside Laplace": Claimed(ZCDP(1)) + Laplace(1),
}


@pytest.mark.parametrize("case", UNBOUNDED)
def test_an_unbounded_loss_has_no_pure_epsilon(case: str) -> None:
    profile = account(UNBOUNDED[case])
    assert profile.epsilon(0) == math.inf
    assert profile.delta(800) > 0, "too small for a float is not nothing"


def test_a_smaller_epsilon_than_the_largest_loss_has_a_delta() -> None:
    profile = account(RandomizedResponse(1) * 4096)
    assert profile.delta(4000) > 0
    assert profile.delta(4096) == 0


FREE: dict[str, Event] = {
    "pure, sampled": Claimed(PureDP(0)).sampled(rate=TENTH) * 3,
    "pure, batches": Claimed(PureDP(0, relation=REPLACE)).sampled_without_replacement(batch=1, size=10),
    "pure, shuffled": Claimed(PureDP(0, relation=REPLACE)).shuffled(size=10),
    "pure, group": Claimed(PureDP(0)).sampled(rate=TENTH).for_group(3).to_replace(),
    "Rényi": Claimed(RDP(8, 0)) * 5,
    "Rényi, sampled": Claimed(RDP(8, 0)).sampled(rate=TENTH) * 2,
    "truncated": Claimed(TCDP(0, 3)),
}


@pytest.mark.parametrize("case", FREE)
def test_a_promise_of_nothing_at_all_costs_nothing(case: str) -> None:
    """A Rényi divergence of 0 at an order above 1 is equality."""
    assert account(FREE[case]).delta_bracket(0) == (0, 0)
    assert account(FREE[case]).epsilon_bracket(0) == (0, 0)


# A leak of δ₀ in each of n steps that are otherwise free, with probability q each: δ = 1 − (1 − qδ₀)^n at every ε.
LEAKS: dict[str, tuple[Event, float]] = {
    "certain, sampled": (Claimed(ApproxDP(1, 1)).sampled(rate=TENTH) * 2, 0.19),
    "rare, sampled": (Claimed(ApproxDP(0, 0.001)).sampled(rate=TENTH) * 2, 1 - (1 - 1e-4) ** 2),
    "rare, replaced": (Claimed(ApproxDP(0, 0.001, relation=REPLACE)).sampled(rate=TENTH), 1e-4),
    "rare, group": (Claimed(ApproxDP(0, 0.001)).sampled(rate=TENTH).for_group(2).to_replace(), 4e-4),
}


@pytest.mark.parametrize("case", LEAKS)
def test_a_leak_alone(case: str) -> None:
    event, delta = LEAKS[case]
    profile = account(event)
    for epsilon in (0.5, 30.0):
        assert delta * (1 - 1e-9) <= profile.delta(epsilon) <= delta * 1.06
    assert profile.epsilon(1.1 * delta) <= 1e-9
    assert profile.epsilon(0.9 * delta) == math.inf


# Queries that once failed, took gigabytes or minutes, or said nothing; with a value that the upper end may not exceed.
EXTREME: dict[str, tuple[Event, float, float]] = {
    "tiny rate, many steps": (Gaussian(1).sampled(rate=Fraction(1, 10**12)) * 10**9, 0.0, 4e-4),
    "tiny rate at 0": (Gaussian(1).sampled(rate=Fraction(1, 10**12)) * 1000, 0.0, 4e-10),
    "loud and sampled": (Gaussian(1e-3).sampled(rate=TENTH) * 10, 3.1e6, 1e-5),
    "loud Laplace": (Laplace(1e-9).sampled(rate=TENTH) * 10, 7.4e9, 1e-5),
    "steep lattice": (DiscreteLaplace(1e-3) * 3, 3000.001, 0.0),
    "losses of 1e-7": (
        Claimed(PureDP(0.07193553878414655)).sampled(rate=1.9779512202994406e-06) * 2,
        0.0,
        2e-7,
    ),
    "losses of 1e-18": (Gaussian(1e9).sampled(rate=1e-9) * 10, 0.0, 1e-12),
    "flat": (Gaussian(1e9).sampled(rate=0.5) * 10, 1e-3, 1e-200),
    "near the largest loss": (Laplace(17.2).sampled(rate=0.00013) * 5, 3.89106943647279e-05, 5.2e-13),
    "loud shuffle": (RandomizedResponse(800).shuffled(size=10**6), 799.9999, 2e-4),
    "far out": (Claimed(ZCDP(1)) + Laplace(1), 60.0, 1e-290),
    "far out, mixed": (Gaussian(1) + Laplace(1) + ExponentialMechanism(1), 40.0, 1e-290),
    "an order next to 1": (Claimed(RDP(1 + Fraction(1, 10**20), 0.02)), 0.0, 0.1001),
    "a last order next to 1": (Claimed(TCDP(0.02, 1 + Fraction(1, 10**20))).sampled(rate=TENTH) * 2, 0.0, 0.021),
    "approximate zCDP for three": (Claimed(ApproxZCDP(0.001, 1e-9)).for_group(3), 1.0, 1e-3),
    "shuffled thrice": (RandomizedResponse(1).shuffled(size=10**5) * 3, 2.9, 1e-100),
}


@pytest.mark.parametrize("case", EXTREME)
def test_extreme_questions_have_useful_answers(case: str) -> None:
    event, epsilon, most = EXTREME[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = account(event).delta_bracket(epsilon)
    assert 0 <= found.lower <= found.upper <= most * (1 + 1e-9)


def test_far_out_the_curve_never_rises() -> None:
    """A group of five of a rare and loud step beside a mild one: the grid loses its way between the two."""
    loud = (Claimed(PureDP(0.06, relation=REPLACE)) + Claimed(ZCDP(0.094, relation=REPLACE))) * 2
    mild = Gaussian(2.25, 2.2, REPLACE, reach=2.2).sampled(rate=0.00011) * 1000
    profile = account((loud.sampled(rate=4.5e-22) + mild).for_group(5))
    found = [profile.delta_bracket(epsilon) for epsilon in (0.0, 1.7e-5, 2.46, 4.0, 5.8, 10.0, 100.0, 1e5)]
    assert [one.upper for one in found] == sorted((one.upper for one in found), reverse=True)
    assert profile.delta(5.8) <= profile.delta(2.9)


@pytest.mark.parametrize("population", [10**6, 10**9, 10**12])
def test_large_shuffles_approach_their_limit(population: int) -> None:
    """Given C ≈ np clones, δ(0) = (2s − 1)·P[A = C/2] ≈ (2s − 1)·√(2/(πnp)) (de Moivre)."""
    truth, clone = 1 / (1 + math.exp(-1)), 2 / (math.e + 1)
    limit = (2 * truth - 1) * math.sqrt(2 / (math.pi * population * clone))
    assert account(RandomizedResponse(1).shuffled(size=population)).delta(0) == pytest.approx(limit, rel=1e-4)


ATTAINED: list[tuple[Event, bool]] = [
    (Gaussian(1, 1, REPLACE, reach=1).sampled(rate=TENTH), True),
    (Gaussian(1, 1, REPLACE, reach=1).sampled(rate=TENTH) * 2, False),
    (Gaussian(1, 2, REPLACE, reach=1).sampled(rate=TENTH) * 2, True),
    (Gaussian(1, 1, REPLACE, reach=1).sampled(rate=TENTH) + Laplace(1, 1, REPLACE), False),
    (DiscreteGaussian(2, 1, REPLACE, reach=1).sampled(rate=TENTH) * 2, False),
    (DiscreteGaussian(10**4, 10**4), True),
    (DiscreteGaussian(10**5, 10**5), False),
    (DiscreteGaussian(10**5, 10**5).sampled(rate=TENTH), False),
    (DiscreteLaplace(10**7, 10**7), False),
    (Composed([Gaussian(1, 1, REPLACE, reach=1), Gaussian(2, 3, REPLACE, reach=3)]).sampled(rate=TENTH), True),
    (Composed([Gaussian(1, 1, REPLACE, reach=1), Gaussian(1, 2, REPLACE, reach=1)]).sampled(rate=TENTH), False),
    (DiscreteLaplace(1, 1, REPLACE, reach=1).sampled(rate=TENTH), True),
    (RandomizedResponse(1).sampled(rate=TENTH), False),
    (Laplace(1).sampled(rate=TENTH), True),
    ((Laplace(1) * 3).sampled(rate=TENTH), False),
    (Gaussian(1).sampled(rate=TENTH).for_group(2), True),
    (Laplace(1).sampled(rate=TENTH).for_group(2), False),
    (ExponentialMechanism(1), False),
]


@pytest.mark.parametrize(("event", "attained"), ATTAINED, ids=repr)
def test_a_lower_end_is_about_the_step_only_where_the_pair_is_attained(event: Event, attained: bool) -> None:
    assert ("of the bound" not in account(event).method) is attained


def chosen(epsilon: float, steps: int, at: float) -> float:
    """The best adaptive attack on exponential mechanisms, over a grid of losses {t, t − ε}: a lower bound on δ.

    Every such pair is attained by utilities; the next t may depend on what was seen. δ_k(x) is the largest of p·δ_{k−1}
    (x − t) + (1 − p)·δ_{k−1}(x − t + ε) over t, with p = (e^ε − e^t)/(e^ε − 1).
    """
    parts = 8

    @cache
    def best(left: int, moved: int) -> float:
        x = at - moved * epsilon / parts
        if not left:
            return max(0.0, -math.expm1(x))
        found = 0.0
        for t in range(parts + 1):
            p = (math.exp(epsilon) - math.exp(t * epsilon / parts)) / math.expm1(epsilon)
            found = max(found, p * best(left - 1, moved + t) + (1 - p) * best(left - 1, moved + t - parts))
        return found

    return best(steps, 0)


@pytest.mark.parametrize(("epsilon", "steps"), [(0.5, 2), (1.0, 6), (0.2, 30), (2.0, 12)])
def test_adaptive_attacks_on_exponential_mechanisms_stay_below_the_bound(epsilon: float, steps: int) -> None:
    profile = account(ExponentialMechanism(epsilon) * steps)
    for share in (0.0, 0.2, 0.5, 0.8):
        attack = chosen(epsilon, steps, share * epsilon * steps)
        assert attack <= profile.delta(share * epsilon * steps) * (1 + 1e-12)
    assert profile.delta(0) <= 1.35 * chosen(epsilon, steps, 0.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("steps", [2, 30, 1000])
def test_selections_cost_no_more_than_their_concentrated_bound(epsilon: float, steps: int) -> None:
    """ε²/8-zCDP (Hoeffding), alone and beside other steps."""
    claim = Claimed(ZCDP(Fraction(str(epsilon)) ** 2 / 8))
    for more in (Gaussian(10**9), Gaussian(3) + Laplace(9)):
        ours = account(ExponentialMechanism(epsilon) * steps + more).epsilon(1e-6)
        assert ours <= account(claim * steps + more).epsilon(1e-6) * (1 + 1e-9)


@pytest.mark.parametrize("beside", [Gaussian(5), Gaussian(0.7)])
@pytest.mark.parametrize(("scale", "count"), [(3, 4), (8, 20)])
def test_discrete_gaussians_beside_gaussians(beside: Gaussian, scale: int, count: int) -> None:
    """δ = Σ P[loss]·δ_Gaussian(ε − loss), by convolution of the lattice."""
    x = np.arange(-40 * scale, 40 * scale + 1)
    weight = np.exp(-(x**2) / (2 * scale**2))
    masses, total = weight / weight.sum(), np.ones(1)
    for _ in range(count):
        total = np.convolve(total, masses)
    # Losses (1 + 2k)/(2σ²) a step, k the noise's distance from the shift.
    losses = (count + 2 * (np.arange(len(total)) - count * 40 * scale)) / (2 * scale**2)
    mu = float(1 / beside.scale)
    profile = account(DiscreteGaussian(scale) * count + beside)
    assert "contour" in profile.method
    for epsilon in (0.0, 1.0, 4.0):
        at = epsilon - losses
        with np.errstate(over="ignore", invalid="ignore"):
            curve = special.ndtr(mu / 2 - at / mu) - np.exp(at + special.log_ndtr(-mu / 2 - at / mu))
        exact = float(total @ curve)
        found = profile.delta_bracket(epsilon)
        assert found.lower <= exact * (1 + 1e-9)
        assert found.upper >= exact * (1 - 1e-9)
        assert found.width <= 1e-8 * exact


def test_matrix_noise_is_one_gaussian() -> None:
    """Prefix sums of 4 steps through C = lower triangular, one unit in two steps at least two apart."""
    strategy = np.array([[1, 0, 0, 0], [0.5, 1, 0, 0], [0.25, 0.5, 1, 0], [0.125, 0.25, 0.5, 1]])
    patterns = [np.isin(np.arange(4), pick) for pick in ((0, 2), (0, 3), (1, 3))]
    # All entries of CᵀC are ≥ 0, so aligned contributions are the worst.
    sensitivity = max(float(np.linalg.norm(strategy @ pattern)) for pattern in patterns)
    event = MatrixGaussian(3, sensitivity, 4, participations=2, separation=2)
    assert account(event).epsilon(1e-6) == pytest.approx(account(Gaussian(3, sensitivity)).epsilon(1e-6), rel=1e-12)
    replaced = MatrixGaussian(3, sensitivity, 4, 2, 2, REPLACE)
    assert account(replaced).epsilon(1e-6) == pytest.approx(
        account(Gaussian(3, 2 * sensitivity)).epsilon(1e-6), rel=1e-12
    )


@pytest.mark.parametrize(("scale", "moved", "reach", "rate"), [(1.27, 1, 1, 0.3), (1.0, 1, 2, 0.2), (1.0, 2, 1, 0.3)])
def test_lower_ends_of_replaced_units_against_the_best_adaptive_placements(
    scale: float, moved: int, reach: int, rate: float
) -> None:
    """Two steps on integers, each placement tried, the second chosen in the light of the first output."""
    event = DiscreteGaussian(scale, moved, REPLACE, reach=reach).sampled(rate=rate)
    x = np.arange(-16, 17)
    rows = {k: np.exp(-((x - k) ** 2) / (2 * scale**2)) for k in range(-reach, reach + 1)}
    rows = {k: (1 - rate) * rows[0] / rows[0].sum() + rate * row / rows[0].sum() for k, row in rows.items()}
    pairs = [(rows[a], rows[b]) for a in rows for b in rows if 0 < abs(a - b) <= moved]

    def best(epsilon: float) -> float:
        return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in pairs)

    for epsilon in (0.05, 0.5):
        twice = max(
            sum(
                float(a) * best(epsilon - math.log(a / b)) for a, b in zip(p, q, strict=True) if a > 1e-17 and b > 1e-17
            )
            for p, q in pairs
        )
        for truth, count in ((best(epsilon), 1), (twice, 2)):
            profile = account(event * count)
            bracket = profile.delta_bracket(epsilon)
            assert truth <= bracket.upper * (1 + 1e-9)
            assert bracket.lower <= truth * (1 + 1e-9) or "of the bound" in profile.method


@pytest.mark.parametrize("event", [DiscreteGaussian(10**5, 5 * 10**4), DiscreteLaplace(10**7, 5 * 10**6)], ids=repr)
def test_lower_ends_of_wide_discrete_noise(event: Event) -> None:
    """Noise on this many integers is all but continuous."""
    kind = Gaussian if isinstance(event, DiscreteGaussian) else Laplace
    truth, profile = account(kind(event.scale, event.sensitivity)).delta_bracket(0.3), account(event)
    bracket = profile.delta_bracket(0.3)
    assert truth.lower <= bracket.upper * (1 + 1e-6)
    assert bracket.lower <= truth.upper * (1 + 1e-6) or "of the bound" in profile.method
