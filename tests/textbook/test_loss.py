"""The privacy-loss random variable: moments in closed form, tails and their bounds, the link to Rényi divergences."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from deniable.conversions import rdp_to_approx_classic
from deniable.errors import InvalidArgument, NotSupported
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    RandomizedResponse,
    TreeGaussian,
)
from deniable.guarantees import RDP, ApproxDP, PureDP
from deniable.textbook import laplace_rdp, pure_rdp, sampled_gaussian_rdp
from deniable.textbook.loss import PrivacyLoss, draw_loss, losses
from deniable.units import Relation
from tests.laws.examples import EXAMPLES


def only(event: Event) -> PrivacyLoss:
    (loss,) = losses(event)
    return loss


@pytest.mark.parametrize("mu", [1e-6, 0.3, 1, 30])
def test_a_gaussian_loss_is_normal_with_variance_two_rho(mu: float) -> None:
    """N(ρ, 2ρ), ρ = μ²/2. Note 000 prints N(ρ, 2ρ²)."""
    loss = only(Gaussian(1, mu))
    rho = mu * mu / 2
    assert loss.mean == pytest.approx(rho, rel=1e-12)
    assert loss.variance == pytest.approx(2 * rho, rel=1e-12)
    for order in (0.5, 1, 7):
        assert loss.log_mgf(order) == pytest.approx(order * (order + 1) * rho, rel=1e-12)
    for z in (-2, 0, 3):
        bell = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / mu
        assert loss.density(rho + z * mu) == pytest.approx(bell, rel=1e-6)
        assert loss.tail(rho + z * mu) == pytest.approx(math.erfc(z / math.sqrt(2)) / 2, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1, 4])
def test_laplace(epsilon: float) -> None:
    """E L = ε + e^{−ε} − 1, which is ε²/2 for small ε and not of order ε, as note 002 has it."""
    loss = only(Laplace(1, epsilon))
    assert loss.mean == pytest.approx(epsilon + math.expm1(-epsilon), rel=1e-9)
    assert loss.range == (-epsilon, epsilon)
    for order in (0.5, 1, 3):
        assert loss.log_mgf(order) == pytest.approx(order * laplace_rdp(order + 1, epsilon=epsilon), rel=1e-9)
    # P[L > t] = 1 − e^{(t−ε)/2}/2 for −ε < t < ε: the noise falls on the near side of the point where L = t.
    assert loss.tail(0) == pytest.approx(1 - math.exp(-epsilon / 2) / 2, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 1, 5])
def test_randomized_response_is_the_worst_pure_loss(epsilon: float) -> None:
    """|L| ≤ ε, E L = ε·tanh(ε/2), Var L ≤ ε²."""
    for loss in (only(RandomizedResponse(epsilon)), only(Claimed(PureDP(epsilon)))):
        assert loss.mean == pytest.approx(epsilon * math.tanh(epsilon / 2), rel=1e-9)
        assert loss.variance == pytest.approx((epsilon / math.cosh(epsilon / 2)) ** 2, rel=1e-9)
        assert sorted(at for at, _ in loss.atoms) == pytest.approx([-epsilon, epsilon])
        assert sum(mass for _, mass in loss.atoms) == pytest.approx(1)
        for order in (0.5, 1, 12):
            assert loss.log_mgf(order) == pytest.approx(order * pure_rdp(order + 1, epsilon=epsilon), rel=1e-9)
    for milder in (Laplace(1, epsilon), ExponentialMechanism(epsilon), DiscreteLaplace(1 / epsilon)):
        assert only(milder).mean <= epsilon * math.tanh(epsilon / 2) * (1 + 1e-9)
        assert only(milder).mean <= epsilon * math.expm1(epsilon)  # note 002's "worst case", true and loose


@pytest.mark.parametrize(("rate", "scale"), [(0.01, 1), (0.3, 2), (1e-9, 1), (0.1, 0.5)])
def test_a_sampled_gaussian_has_the_moments_of_its_divergence(rate: float, scale: float) -> None:
    removing, adding = losses(Gaussian(scale).sampled(rate=rate))
    for order in (0.5, 1, 3):
        truth = order * sampled_gaussian_rdp(order + 1, rate=rate, noise_multiplier=scale)
        assert removing.log_mgf(order) == pytest.approx(truth, rel=1e-8)
        assert adding.log_mgf(order) <= truth * (1 + 1e-8)
    assert removing.mean > 0
    assert adding.mean > 0


def test_discrete_gaussian_has_the_mean_of_its_continuous_twin() -> None:
    loss = only(DiscreteGaussian(2))
    assert loss.mean == pytest.approx(1 / 8, rel=1e-12)
    assert loss.log_mgf(1) == pytest.approx(2 / 8, rel=1e-9)  # equality at whole orders
    assert loss.log_mgf(0.5) <= 0.75 / 8 * (1 + 1e-9)


def test_a_tree_is_a_gaussian() -> None:
    assert only(TreeGaussian(2, 8)).mean == pytest.approx(4 / 4 / 2)
    assert only(TreeGaussian(2, 8, relation=Relation.REPLACE)).mean == pytest.approx(4 * 4 / 4 / 2)


def test_losses_of_a_composition_add() -> None:
    parts = [Laplace(2), RandomizedResponse(0.3).shuffled(size=50), Gaussian(3)]
    apart = [only(part) for part in parts[::2]]
    together = only(Laplace(2) * 3 + Gaussian(3))
    assert together.mean == pytest.approx(3 * apart[0].mean + apart[1].mean)
    assert together.variance == pytest.approx(3 * apart[0].variance + apart[1].variance)
    assert together.log_mgf(2) == pytest.approx(3 * apart[0].log_mgf(2) + apart[1].log_mgf(2))


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_event_has_a_loss(name: str) -> None:
    for event in EXAMPLES[name]:
        for loss in losses(event):
            assert loss.mean >= 0
            assert loss.variance >= 0
            assert loss.log_mgf(1) >= loss.mean * (1 - 1e-9)  # Jensen: ln E e^L ≥ E L
            assert 0 <= loss.infinite <= 1
            low, high = loss.range
            assert low <= loss.mean <= high or math.isinf(loss.mean)


def test_the_bounds_are_bounds_and_in_order() -> None:
    """Exact tail ≤ Chernoff ≤ Markov for k steps of randomized response, where the tail is a binomial sum."""
    from scipy.stats import binom

    count, epsilon = 40, 0.3
    loss = only(RandomizedResponse(epsilon) * count)
    truth_p = 1 / (1 + math.exp(-epsilon))
    for t in (3.0, 5.0, 8.0):
        lies = math.floor((count - t / epsilon) / 2)
        exact = float(binom.cdf(lies, count, 1 - truth_p))
        assert exact <= loss.tail_chernoff(t) <= loss.tail_hoeffding(t) * (1 + 1e-9)
        assert loss.tail_chernoff(t) <= loss.tail_markov(t) * (1 + 1e-9)
    # Hoeffding by hand: exp(−2(t − m)²/(k(2ε)²)).
    mean = count * epsilon * math.tanh(epsilon / 2)
    assert loss.tail_hoeffding(5) == pytest.approx(math.exp(-2 * (5 - mean) ** 2 / (count * 4 * epsilon**2)), rel=1e-6)
    assert loss.tail_chernoff(0) == 1
    assert loss.tail_hoeffding(0) == 1


def test_chernoff_is_the_classic_conversion() -> None:
    """min over λ of e^{K(λ) − λε} = δ is what RDP with the classic conversion says at the best order."""
    loss = only(Laplace(5) * 100)
    curve = [RDP(1 + i / 50, 100 * laplace_rdp(1 + i / 50, epsilon=0.2)) for i in range(1, 800)]
    epsilon = rdp_to_approx_classic(curve, delta=1e-6).epsilon
    assert loss.tail_chernoff(epsilon) == pytest.approx(1e-6, rel=1e-3)


def test_the_loss_tail_is_sufficient_for_delta_and_not_necessary() -> None:
    """P[L ≥ 1] = 0.3085 for μ = 1, and δ(1) = 0.1269: note 002's "iff" is an "if"."""
    from deniable.numerics.normal import delta_bracket

    assert only(Gaussian(1)).tail(1) == pytest.approx(0.3085, abs=5e-5)
    assert delta_bracket(1.0, 1.0).upper == pytest.approx(0.12693673750664392, rel=1e-12)


def test_partial_converse() -> None:
    """(ε, δ)-DP bounds P[L > t] by δ/(1 − e^{ε−t}) for t > ε."""
    from deniable.numerics.normal import delta_bracket

    loss = only(Gaussian(1))
    for epsilon in (0.5, 1.0, 2.0):
        for beyond in (0.1, 0.5, 2.0):
            bound = delta_bracket(1.0, epsilon).upper / -math.expm1(-beyond)
            assert loss.tail(epsilon + beyond) <= bound


def test_the_lattice_has_the_moments_of_the_sum() -> None:
    loss = only(Laplace(2) * 30)
    places, masses = loss.lattice()
    assert float(np.sum(masses)) == pytest.approx(1, abs=1e-6)
    assert float(np.sum(places * masses)) == pytest.approx(loss.mean, rel=1e-2)
    centred = float(np.sum((places - loss.mean) ** 2 * masses))
    assert centred == pytest.approx(loss.variance, rel=1e-2)
    assert loss.estimate_tail(loss.mean) == 0.5


def test_plots_against_the_central_limit() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    draw_loss(only(Laplace(2) * 30), axes)
    lines = axes.get_lines()
    assert [line.get_label() for line in lines][:2] == [
        "privacy loss",
        "normal law with the same mean and variance (estimate)",
    ]
    # After thirty steps the two curves agree to a few per cent near the middle.
    x, y = lines[0].get_data()
    normal = lines[1].get_ydata()
    middle = np.argmin(np.abs(np.asarray(x) - lines[2].get_xdata()[0]))
    assert y[middle] == pytest.approx(normal[middle], rel=0.1)


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "tail of a sum": (lambda: only(Laplace(1) * 2).tail(1), NotSupported, "accountant"),
    "atoms of a density": (lambda: only(Gaussian(1)).atoms, NotSupported, "density"),
    "Hoeffding without bounds": (lambda: only(Gaussian(1)).tail_hoeffding(1), NotSupported, "tail_chernoff"),
    "picture of an infinite loss": (lambda: only(Claimed(ApproxDP(1, 0.1))).lattice(), NotSupported, "infinite"),
    "order 0": (lambda: only(Gaussian(1)).log_mgf(0), InvalidArgument, "order must be a positive number"),
    "tail at nan": (lambda: only(Gaussian(1)).tail(math.nan), InvalidArgument, "at must be"),
    "too few points": (lambda: only(Gaussian(1)).lattice(points=3), InvalidArgument, "points"),
}


@pytest.mark.parametrize(("compute", "kind", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(compute: Callable[[], object], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        compute()


def test_a_promise_with_delta_may_tell_everything() -> None:
    loss = only(Claimed(ApproxDP(1, 1e-6)) * 3)
    assert loss.infinite == pytest.approx(3e-6, rel=1e-5)
    assert math.isinf(loss.mean)
    assert math.isinf(loss.log_mgf(1))
    assert loss.tail_markov(100) == 1
