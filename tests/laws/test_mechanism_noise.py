"""A mechanism's event describes the noise that is drawn: the calls to the samplers are recorded and compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from deniable import mechanisms as dm
from deniable import noise
from deniable.accounting import account
from deniable.events import Claimed, DiscreteGaussian, DiscreteLaplace, ExponentialMechanism, RandomizedResponse
from deniable.events.sampling import leaves
from deniable.guarantees import ApproxDP, PureDP
from deniable.units import REPLACE, Relation
from tests.laws.mechanism_examples import EXAMPLES, PAIRS


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Every draw of noise: the sampler's name and what decides its law."""
    seen: list[tuple[str, Any]] = []

    def watch(name: str, law: Callable[..., Any]) -> None:
        real = getattr(noise, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            seen.append((name, law(*args, **kwargs)))
            return real(*args, **kwargs)

        monkeypatch.setattr(noise, name, watched)

    watch("discrete_laplace", lambda scale, size=None, **_: (scale, size))
    watch("discrete_gaussian", lambda scale, size=None, **_: (scale, size))
    watch("race", lambda scores, *, rate, noise, **_: (rate, noise))
    watch("ranking", lambda scores, places, *, rate, noise, **_: (rate, noise, places))
    watch("categorical", lambda weights, size=None, *, multiples=None, **_: (tuple(weights), multiples))
    watch("bernoulli", lambda p, size=None, **_: p)
    return seen


@pytest.mark.parametrize(("name", "i", "relation"), PAIRS)
def test_the_event_matches_the_noise_that_is_drawn(
    name: str, i: int, relation: Relation, calls: list[tuple[str, Any]]
) -> None:
    example = EXAMPLES[name][i]
    m = example.make(relation)
    m(example.data)
    parts = leaves(m.event)
    if all(isinstance(part, DiscreteLaplace | DiscreteGaussian) for part in parts):
        samplers = {"discrete_laplace": DiscreteLaplace, "discrete_gaussian": DiscreteGaussian}
        assert [(samplers[sampler], scale) for sampler, (scale, _) in calls] == [(type(p), p.scale) for p in parts]
    elif isinstance(parts[0], RandomizedResponse):
        # A lie has e^−ε times the weight of the truth, for each of the other categories.
        (weights, multiples) = calls[0][1]
        assert weights[1] - weights[0] == -parts[0].epsilon
        assert (multiples or [1, 1]) == [1, parts[0].categories - 1]
    elif name == "UnaryResponse":
        assert calls[0][1][0][1] - calls[0][1][0][0] == -m.epsilon
        assert calls[1] == ("bernoulli", Fraction(1, 2))
    elif isinstance(parts[0], ExponentialMechanism):
        check_exponential(m, parts[0].epsilon, calls)
    else:
        assert isinstance(m.event, Claimed)
        CLAIMED[name](m, m.event.guarantee, calls)


def check_exponential(m: Any, epsilon: Fraction, calls: list[tuple[str, Any]]) -> None:
    """The utilities' largest change, times the rate, is half of ε, or all of it if they are monotone."""
    sampler, law = calls[0]
    if sampler == "categorical":
        nearest = sorted({abs(w) for w in law[0]})[1]  # NUMBERS are all different: ranks are 1 apart, q·n = 15 is whole
        assert nearest == epsilon / (2 if m.relation is REPLACE else 2 * Fraction(7, 10))
        return
    rate, law_of_noise = law[:2]
    assert law_of_noise is noise.GUMBEL
    if isinstance(m, dm.AuctionPrice):
        assert rate * 100 * max(m.prices) == epsilon / (2 if m.relation is REPLACE else 1)  # revenues are in cents
        return
    assert rate * m.steps == epsilon / 2
    assert m.steps * m.step >= m.sensitivity


def check_pure_choice(m: Any, promise: PureDP, calls: list[tuple[str, Any]]) -> None:
    (_, (rate, law)) = calls[0]
    assert law is (noise.EXPONENTIAL if isinstance(m, dm.PermuteAndFlip) else m.noise)
    assert rate * m.steps == promise.epsilon / 2


def check_threshold(m: Any, promise: PureDP, calls: list[tuple[str, Any]]) -> None:
    """ε = Δ/b₁ + 2cΔ/b₂."""
    scales = [scale for _, (scale, _) in calls]
    assert len(set(scales[1:])) == 1
    assert promise.epsilon == m.steps / scales[0] + 2 * m.positives * m.steps / scales[1]


def check_best_of(m: Any, promise: PureDP, calls: list[tuple[str, Any]]) -> None:
    scales = {law[0] for sampler, law in calls if sampler == "discrete_laplace"}
    assert scales == {2}
    assert promise.epsilon == (2 + m.eta) / 2


def check_test(m: Any, promise: ApproxDP, calls: list[tuple[str, Any]]) -> None:
    """The test's noise has scale 1/ε_T; for the clustered means the other half of ε pays for noise on the means."""
    share = Fraction(1, 2) if isinstance(m, dm.ClusteredMean | dm.ClusteredMeans) else 1
    assert calls[0] == ("discrete_laplace", (1 / (promise.epsilon * share), None))
    if isinstance(m, dm.ClusteredMean) and len(calls) > 1:
        event = m.noise.event
        assert calls[1] == ("discrete_laplace", (event.scale, 1))
        assert event.sensitivity / event.scale == promise.epsilon / 2
    if isinstance(m, dm.ClusteredMeans) and len(calls) > 1:
        assert calls[1] == ("discrete_gaussian", (m.noise.event.scale, len(m.widths)))
        assert account(m.noise.event).delta(float(promise.epsilon / 2)) <= promise.delta


def check_holdout(m: Any, promise: PureDP, calls: list[tuple[str, Any]]) -> None:
    """Half of ε is that of the sparse vector technique, half pays for `positives` means."""
    compared = [scale for _, (scale, size) in calls if size is None]
    threshold, query = (event.scale for event in m.comparison.noises)
    assert compared[0] == threshold
    assert set(compared[1:]) == {query}
    drawn = m.noise.event
    assert {scale for _, (scale, size) in calls if size is not None} <= {drawn.scale}
    cost = m.comparison.epsilon + m.positives * drawn.sensitivity / drawn.scale
    assert cost == promise.epsilon


def check_stability(m: Any, promise: ApproxDP, calls: list[tuple[str, Any]]) -> None:
    changed = 2 if m.relation is REPLACE else 1
    assert calls == [("discrete_laplace", (changed / promise.epsilon, 1))]


def check_median(m: Any, promise: ApproxDP, calls: list[tuple[str, Any]]) -> None:
    assert calls == []  # drawn from bits, in test_median
    alpha, beta, epsilon = float(m.alpha), float(m.beta), float(promise.epsilon)
    assert alpha + beta <= epsilon
    assert math.expm1(beta) * math.log(1 / float(promise.delta)) <= epsilon - alpha + beta


CLAIMED: dict[str, Callable[..., None]] = {
    "PermuteAndFlip": check_pure_choice,
    "NoisyMax": check_pure_choice,
    "AboveThreshold": check_threshold,
    "BestOf": check_best_of,
    "ProposeTestRelease": check_test,
    "Mode": check_test,
    "ClusteredMean": check_test,
    "ClusteredMeans": check_test,
    "ReusableHoldout": check_holdout,
    "StabilityHistogram": check_stability,
    "Median": check_median,
}
