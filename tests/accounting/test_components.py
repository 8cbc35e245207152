"""Groups under Poisson sampling and mixtures of Gaussians: against quadrature, random directions and convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from deniable import account, dpsgd
from deniable.accounting.components import Components, ComponentsLaw, binomial_weights
from deniable.accounting.contour.mixture import Mixture, Side
from deniable.accounting.filters.costs import cost
from deniable.accounting.imports import from_dp_accounting
from deniable.errors import InvalidArgument, UnitMismatch
from deniable.events import Event, Gaussian, GaussianMixture
from deniable.units import Relation

F = Fraction
ABSENT = Side(0.0, 1.0, 0.0)
CASES = [  # members, rate, shift of one member, mirrored
    (2, F(1, 100), F(1), False),
    (3, F(1, 2), F(1, 2), False),
    (5, F(1, 1000), F(3), False),
    (6, F(1, 10**9), F(1), False),
    (3, F(1, 10), F(1), True),
    (4, F(9, 10), F(2), True),
]


def parts(members: int, rate: Fraction, shift: Fraction) -> Components:
    return Components.of(binomial_weights(members, rate), [float(j * shift) for j in range(members + 1)])


@pytest.mark.parametrize("case", CASES)
def test_one_step_agrees_with_forty_digits_in_both_orders(case: tuple[int, Fraction, Fraction, bool]) -> None:
    """P[S] − e^ε Q[S] on the half line S where the loss exceeds ε, which is found by halving."""
    members, rate, shift, mirrored = case
    laws = ComponentsLaw(parts(members, rate, shift), mirrored).directions
    with mp.workdps(40):
        weights = [mp.mpf(w.numerator) / w.denominator for w in binomial_weights(members, rate)]
        mu = mp.mpf(shift.numerator) / shift.denominator
        for order, law in enumerate(laws):
            for epsilon in (0.0, 0.3, 2.0, 12.0):
                sign = -1 if order else 1

                def loss(y: object, sign: int = sign) -> object:
                    p = mp.fsum(w * mp.exp(j * mu * y - (j * mu) ** 2 / 2) for j, w in enumerate(weights))
                    q = mp.fsum(w * mp.exp(-j * mu * y - (j * mu) ** 2 / 2) for j, w in enumerate(weights))
                    return sign * mp.log(p / q if mirrored else p)

                a, b = mp.mpf(-60), mp.mpf(120)
                if not loss(a if order else b) > epsilon:
                    assert law.profile(np.array([epsilon]))[0] == 0
                    continue
                for _ in range(140):
                    c = (a + b) / 2
                    a, b = (c, b) if (loss(c) > epsilon) == bool(order) else (a, c)
                tail = [mp.ncdf(sign * (j * mu - a)) for j in range(-members, members + 1)]
                p = mp.fsum(w * tail[members + j] for j, w in enumerate(weights))
                q = mp.fsum(w * tail[members - j] for j, w in enumerate(weights)) if mirrored else tail[members]
                true = (q - mp.exp(epsilon) * p) if order else (p - mp.exp(epsilon) * q)
                upper = law.profile(np.array([epsilon]))[0]
                assert true * (1 - mp.mpf(10) ** -12) <= upper <= true * (1 + mp.mpf(10) ** -5)


@pytest.mark.parametrize("case", CASES[:3] + CASES[4:])
@pytest.mark.parametrize("tilt", [0.7, 5.0])
def test_the_transform_agrees_with_a_fine_sum(case: tuple[int, Fraction, Fraction, bool], tilt: float) -> None:
    members, rate, shift, mirrored = case
    density = parts(members, rate, shift)
    mu, far = float(shift), (1 + tilt) * members * float(shift) + 14
    y = np.arange(-far, far, 0.004 / max(1, mu * members))
    logs = [math.log(w) for w in binomial_weights(members, rate)]

    def log_density(at: np.ndarray) -> np.ndarray:
        return np.logaddexp.reduce([w + j * mu * at - (j * mu) ** 2 / 2 for j, w in enumerate(logs)], axis=0)

    for above, below in ((density, density),) if mirrored else ((density, ABSENT), (ABSENT, density)):
        line = Mixture(above, below).tilted(tilt, reach=6.0, digits=34.0)
        omegas = np.array([0.0, 0.5, 4.0])
        ratios, bounds = line.ratios(omegas), line.decay(omegas[1:], 1e9)
        upper = log_density(y) if above is density else np.zeros_like(y)
        lower = log_density(-y) if mirrored else log_density(y) if below is density else np.zeros_like(y)

        def moment(
            z: complex, upper: np.ndarray = upper, lower: np.ndarray = lower, top: float = line.logarithm
        ) -> complex:
            exponent = (1 + z) * upper - z * lower - y * y / 2 - top
            return complex(np.exp(exponent).sum() * (y[1] - y[0]) / math.sqrt(2 * math.pi))

        value = moment(tilt)
        assert abs(value - 1) <= line.error + 1e-11
        for i, omega in enumerate(omegas[1:], 1):
            ratio = moment(complex(tilt, omega)) / value * np.exp(-1j * omega * line.mean)
            found = np.exp(ratios.logarithm[i])
            assert abs(found - ratio) <= ratios.error[i] * abs(found) + 1e-11
            assert math.log(abs(ratio)) <= bounds[i - 1] + 1e-9


def test_groups_of_the_issue_and_a_lower_end_that_meets_the_upper() -> None:
    run = dpsgd(noise_multiplier=1, rate=0.01, steps=1000)
    for members, epsilon in ((1, 1.82824), (2, 3.97909), (3, 6.34293), (5, 11.63797), (10, 27.89956), (32, 144.94716)):
        profile = account(run.for_group(members))
        ends = profile.epsilon_bracket(1e-5)
        assert ends.upper == pytest.approx(epsilon, abs=6e-6)
        assert ends.width < 1e-8 * ends.upper
        assert "bound" not in profile.method


@pytest.mark.parametrize("mirrored", [False, True])
def test_random_directions_in_the_plane_never_cost_more(mirrored: bool) -> None:
    """The theorem by brute force: vectors of the members anywhere in the disc, the curve by a sum over the plane."""
    draws = np.random.default_rng(7)
    axis = np.arange(-9.0, 9.0, 0.06) + 0.01
    x, y = np.meshgrid(axis, axis, indexing="ij")

    def cloud(vectors: np.ndarray, rate: float) -> np.ndarray:
        total = np.zeros_like(x)
        for mask in range(2 ** len(vectors)):
            inside = [bool(mask >> i & 1) for i in range(len(vectors))]
            at = vectors[inside].sum(axis=0)
            weight = rate ** sum(inside) * (1 - rate) ** (len(vectors) - sum(inside))
            total += weight * np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / 2)
        return total * 0.06**2 / (2 * math.pi)

    for members, rate, reach in ((2, F(1, 5), 1.5), (3, F(1, 2), 1.0)):
        laws = ComponentsLaw(parts(members, rate, F(reach)), mirrored).directions
        for trial in range(6):
            sets: list[Any] = []
            for _ in range(2 if mirrored else 1):
                angles, lengths = draws.uniform(0, 2 * math.pi, members), reach * draws.uniform(0, 1, members) ** 0.3
                if trial == 0:
                    angles, lengths = np.full(members, math.pi * len(sets)), np.full(members, reach)
                sets.append(lengths[:, None] * np.column_stack([np.cos(angles), np.sin(angles)]))
            p, q = cloud(sets[0], float(rate)), cloud(sets[1] if mirrored else sets[0][:0], float(rate))
            for epsilon in (0.0, 0.2, 1.0, 3.0):
                for law, (a, b) in zip((*laws, *laws), ((p, q), (q, p)), strict=False):
                    true = float(np.maximum(a - math.exp(epsilon) * b, 0).sum())
                    claimed = law.profile(np.array([epsilon]))[0]
                    assert true <= claimed + 5e-5
                    if trial == 0:
                        assert true == pytest.approx(claimed, abs=2e-4)


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE])
def test_compositions_agree_with_a_convolution(relation: Relation) -> None:
    """Four steps for a group of three: losses of all four points on a fine lattice of outputs."""
    rate, members, steps = F(1, 10), 3, 4
    event = dpsgd(noise_multiplier=1.5, rate=rate, steps=steps, relation=relation).for_group(members)
    ends = account(event).delta_bracket(1.5)
    y = np.arange(-8.0, 10.0, 0.004)
    weights = [float(w) for w in binomial_weights(members, rate)]
    p = sum(w * np.exp(-((y - j / 1.5) ** 2) / 2) for j, w in enumerate(weights))
    q = sum(w * np.exp(-((y + j / 1.5) ** 2) / 2) for j, w in enumerate(weights))
    pairs = [(p, q)] if relation is Relation.REPLACE else [(p, np.exp(-(y**2) / 2)), (np.exp(-(y**2) / 2), p)]
    worst = 0.0
    for upper, lower in pairs:
        mass, loss = upper * 0.004 / math.sqrt(2 * math.pi), np.log(upper / lower)
        h = 2e-4
        bins = np.round((loss + 40) / h).astype(int)
        held = (bins >= 0) & (bins < 400_000)
        law = np.bincount(bins[held], mass[held], minlength=400_000)
        sums = np.fft.irfft(np.fft.rfft(law, 2**21) ** steps, 2**21)
        total = h * np.arange(2**21) - 40 * steps
        worst = max(worst, float((sums * np.maximum(-np.expm1(1.5 - total), 0)).sum()))
    assert worst == pytest.approx(ends.upper, rel=2e-4)
    assert ends.width < 1e-8 * ends.upper


def test_renyi_costs_of_a_group_are_the_larger_of_both_directions() -> None:
    orders = (F(3, 2), F(2), F(7))
    found = cost(dpsgd(noise_multiplier=1, rate=0.1, steps=1).for_group(3), orders)
    y = np.linspace(-30, 60, 200_001)
    weights = [float(w) for w in binomial_weights(3, F(1, 10))]
    log_p = np.logaddexp.reduce([math.log(w) + j * y - j * j / 2 for j, w in enumerate(weights)], axis=0)
    bell = -(y**2) / 2 + math.log((y[1] - y[0]) / math.sqrt(2 * math.pi))
    for order, value in zip(orders, found.renyi, strict=True):
        a = float(order)
        both = [math.log(float(np.sum(np.exp(bell + power * log_p)))) / (a - 1) for power in (a, 1 - a)]
        assert value is not None
        assert max(both) * (1 - 1e-9) <= value <= max(both) * (1 + 1e-9)
    assert (found.epsilon, found.rho) == (None, None)


def test_what_the_theorem_does_not_cover_keeps_the_path_of_neighbours() -> None:
    several = (Gaussian(2) * 2).sampled(rate=0.05).for_group(2)
    sums = Gaussian(2, 1, Relation.REPLACE, reach=1).sampled(rate=0.05).for_group(2)
    huge = Gaussian(50).sampled(rate=0.001).for_group(600)
    for event in (several, sums, huge):
        assert "bound" in account(event).method


def test_a_mixture_is_the_group_that_it_states() -> None:
    stated = GaussianMixture(1, range(4), binomial_weights(3, F(1, 100)))
    group = dpsgd(noise_multiplier=1, rate=0.01, steps=1).for_group(3)
    for count in (1, 500):
        ours, theirs = account(stated * count), account(group * count)
        assert ours.epsilon(1e-6) == pytest.approx(theirs.epsilon(1e-6), rel=1e-12)
    assert Event.from_json(stated.to_json()) == stated
    assert GaussianMixture(1, (2, 0, 2), (0.1, 0.8, 0.1)) == GaussianMixture(1, (0, 2), (0.8, 0.2))
    certain = GaussianMixture(2, (3,), (1,))
    assert account(certain).delta(1.0) == pytest.approx(account(Gaussian(2, 3)).delta(1.0), rel=1e-9)
    assert account(certain * 5).epsilon(1e-6) == pytest.approx(account(Gaussian(2, 3) * 5).epsilon(1e-6), rel=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianMixture(1, (0, 1), (0.5, 0.4)),
        lambda: GaussianMixture(1, (0, 1), (1,)),
        lambda: GaussianMixture(1, (0,), (1,)),
        lambda: GaussianMixture(1, (0, -1), (0.5, 0.5)),
        lambda: GaussianMixture(1, (0, 1), (0.5, 0.5), "replace"),
    ],
)
def test_mixtures_that_are_refused(make: object) -> None:
    with pytest.raises(InvalidArgument):
        make()


def test_the_mixture_of_dp_accounting_is_read_and_never_made_cheaper() -> None:
    @dataclass
    class MixtureOfGaussiansDpEvent:
        standard_deviation: float
        sensitivities: list[float]
        sampling_probs: list[float]

    read = from_dp_accounting(MixtureOfGaussiansDpEvent(1.0, [0, 1, 2], [0.81, 0.18, 0.01]))
    assert read == GaussianMixture(1, (0, 1, 2), (0.81, 0.18, 0.01))
    lacking = from_dp_accounting(MixtureOfGaussiansDpEvent(1.0, [0, 1, 2], [0.81, 0.18, 0.01 - 1e-9]))
    assert isinstance(lacking, GaussianMixture)
    assert lacking.probabilities[-1] == F(1, 100)
    excess = from_dp_accounting(MixtureOfGaussiansDpEvent(1.0, [0, 1, 2], [0.81 + 1e-9, 0.18, 0.01]))
    assert excess == read
    with pytest.raises(UnitMismatch):
        from_dp_accounting(MixtureOfGaussiansDpEvent(1.0, [0, 1], [0.5, 0.5]), relation="replace")
    with pytest.raises(InvalidArgument):
        from_dp_accounting(MixtureOfGaussiansDpEvent(1.0, [0, 1], [0.5, 0.4]))
