"""Attack risks read off the curve, against the Gaussian's own formulas."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy.special import ndtr, ndtri

from deniable.accounting import account
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Gaussian, Laplace, RandomizedResponse
from deniable.guarantees import ApproxDP, PureDP

HALF = account(Gaussian(2))


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_advantage_is_total_variation(mu: float) -> None:
    assert account(Gaussian(1 / mu)).advantage == pytest.approx(2 * ndtr(mu / 2) - 1, rel=1e-9)


@pytest.mark.parametrize("alpha", [1e-6, 0.001, 0.05, 0.5])
def test_true_positives_of_a_gaussian(alpha: float) -> None:
    exact = ndtr(ndtri(alpha) + 0.5)
    assert exact * (1 - 1e-12) <= HALF.true_positive_rate(alpha) <= exact * (1 + 1e-5)


def test_true_positives_at_the_ends() -> None:
    assert HALF.true_positive_rate(1) == 1
    assert HALF.true_positive_rate(0) == pytest.approx(0, abs=1e-9)
    assert account(Claimed(ApproxDP(1, 0.01))).true_positive_rate(0) == pytest.approx(0.01, rel=1e-9)


@pytest.mark.parametrize("prior", [0.001, 0.2, 0.5, 0.8])
def test_accuracy_of_a_gaussian(prior: float) -> None:
    mu, odds = 1.3, math.log(prior / (1 - prior))
    exact = prior * ndtr(mu / 2 + odds / mu) + (1 - prior) * ndtr(mu / 2 - odds / mu)
    assert account(Gaussian(1 / 1.3)).accuracy(prior) == pytest.approx(exact, rel=1e-9)


def test_the_accuracy_of_the_theory_sheet() -> None:
    assert account(Gaussian(10, sensitivity=13)).accuracy(0.2) == pytest.approx(0.833276190, abs=1e-9)


@pytest.mark.parametrize("prior", [0.01, 0.5, 0.9])
def test_the_posterior_of_a_pure_promise(prior: float) -> None:
    """Every output: π e^ε/(1 + π(e^ε − 1))."""
    exact = prior * math.e / (1 + prior * (math.e - 1))
    for event in (Laplace(1), RandomizedResponse(1), Claimed(PureDP(1))):
        assert exact <= account(event).posterior(prior) <= exact * (1 + 1e-9)


@pytest.mark.parametrize("prior", [Fraction(1, 10**300), Fraction(1, 10**320)])
def test_a_prior_that_is_hardly_a_float(prior: Fraction) -> None:
    profile = account(Laplace(1))
    assert prior <= Fraction(profile.posterior(prior)) <= 4 * prior
    assert profile.accuracy(prior) == 1 == profile.accuracy(1 - prior)


def test_the_posterior_of_a_gaussian_needs_a_failure() -> None:
    assert HALF.posterior(0.1) == 1
    found = HALF.posterior(0.1, failure=1e-6)
    # Exactly: L ~ N(1/8, 1/4) under P, so the odds grow by e^t with t its upper 1e-6 quantile; the bound is a bit
    # above.
    t = 0.125 - 0.5 * ndtri(1e-6)
    exact = 1 / (1 + 9 * math.exp(-t))
    assert exact <= found <= exact * 1.25


def test_failures_only_help() -> None:
    risks = [account(Laplace(1) * 10).posterior(0.1, failure=f) for f in (0, 1e-9, 1e-3, 0.3)]
    assert risks == sorted(risks, reverse=True)
    assert risks[0] == pytest.approx(1 / (1 + 9 * math.exp(-10)), rel=1e-9)


@pytest.mark.parametrize("prior", [0, 1, -0.5, math.nan])
def test_priors_lie_between(prior: float) -> None:
    with pytest.raises(InvalidArgument, match="prior"):
        HALF.accuracy(prior)
    with pytest.raises(InvalidArgument, match="prior"):
        HALF.posterior(prior)
