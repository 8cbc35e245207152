"""Laws on cells: between two tables, and their compositions against quadrature and enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from deniable.accounting.accountant import account, grid_curve, tables_curve
from deniable.accounting.contour.transform import Direction, Points, TiltedPoints
from deniable.accounting.fold import fold
from deniable.accounting.grid.lattice import LossTable, table_above, table_below
from deniable.accounting.pairs import laws
from deniable.accounting.rules import rule_of
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    RandomizedResponse,
)
from deniable.guarantees import ApproxDP, PureDP
from deniable.units import Relation

REPLACE = Relation.REPLACE


def sums(make: Callable[[int], Event], number: int, count: int) -> Event:
    total = make(0) * count
    for k in range(1, number):
        total = total + make(k) * count
    return total


def curve_of(table: LossTable, epsilon: float) -> float:
    return float(table.mass @ np.maximum(-np.expm1(epsilon - table.losses), 0.0)) + table.infinite


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(1, relation=REPLACE).sampled_without_replacement(batch=10, size=1000),
        Laplace(2, relation=REPLACE).sampled_without_replacement(batch=300, size=1000),
        ExponentialMechanism(1).sampled(rate=0.1),
        Claimed(ApproxDP(1, Fraction(1, 1000))).sampled(rate=0.1),
        (Gaussian(1) + Laplace(3)).sampled(rate=0.05),
        RandomizedResponse(1).shuffled(size=20),
    ],
    ids=lambda event: type(event.event).__name__,
)
@pytest.mark.parametrize("number", [3, 40, 700])
def test_a_law_lies_between_its_tables(event: Event, number: int) -> None:
    """Cells of any width, atoms on their ends or not."""
    for law in laws(event):
        high = min(law.high, 9.0)
        nodes = np.unique(np.concatenate((np.linspace(max(law.low, -9.0), high, number), law.jumps[:5])))
        above, below = table_above(law, nodes), table_below(law, nodes)
        for epsilon in np.linspace(-1.0, 1.1 * high, 23):
            true = float(law.profile(epsilon))
            up = curve_of(above, epsilon - above.shift) * (1 + above.factor)
            down = curve_of(below, epsilon + below.shift) * (1 - below.factor)
            # `profile` itself is rounded up by its admitted errors
            assert true <= up + 1e-13
            assert down <= true * (1 + 1e-12) + 1e-15


def transform_without_replacement(sigma: float, rate: float, z: np.ndarray) -> np.ndarray:
    """M(z) of C_q for a Gaussian step, by Gauss–Legendre panels over the outputs that favour P; the rest mirrors."""
    a = 1 / sigma
    x, w = np.polynomial.legendre.leggauss(60)
    edges = np.linspace(a / 2, a / 2 + 14, 15)
    half = np.diff(edges) / 2
    y = (edges[:-1, None] + half[:, None] * (x + 1)).ravel()
    weight = (half[:, None] * w).ravel() * np.exp(-y * y / 2) / math.sqrt(2 * math.pi)
    loss = np.log1p(rate * np.expm1(a * y - a * a / 2))
    p = weight * np.exp(loss)
    rest = 1 - p.sum() - weight.sum()
    return np.asarray(np.exp(np.outer(z, loss)) @ p + np.exp(-np.outer(z, loss)) @ weight + rest)


def test_batches_without_replacement_against_quadrature() -> None:
    """Nine different steps, a hundred times each, by an integral that shares no code and converges fast."""
    steps = [(0.8 + 0.05 * k, 100 + k) for k in range(9)]
    event = sums(
        lambda k: Gaussian(Fraction(80 + 5 * k, 100), relation=REPLACE).sampled_without_replacement(
            batch=100 + k, size=10_000
        ),
        9,
        100,
    )
    profile = account(event)
    assert profile.method.startswith("contour integral of tables of the bound")
    tilt, omegas = 5.0, np.arange(1, 250) * 0.1  # beyond them waves are below 1e-22
    z = tilt + 1j * np.append(0.0, omegas)
    total = np.ones(len(z), dtype=complex)
    for sigma, batch in steps:
        total = total * transform_without_replacement(sigma, batch / 10_000, z) ** 100
    for epsilon in (1.0, 2.0):
        waves = (total * np.exp(-z * epsilon) / (z * (z + 1))).real
        delta = 0.1 / (2 * math.pi) * (waves[0] + 2 * waves[1:].sum())
        bracket = profile.curve.delta_bracket(epsilon)
        assert bracket.lower <= delta * (1 + 1e-9)
        assert delta <= bracket.upper * (1 + 1e-9)
        assert bracket.width <= 5e-4 * bracket.upper
        back = profile.curve.epsilon_bracket(delta)
        assert back.lower <= epsilon + 1e-9
        assert epsilon <= back.upper + 1e-9
        assert back.width <= 1e-4 * back.upper


def test_a_promise_with_a_leak_against_enumeration() -> None:
    """Ten different promises on samples, every combination of their four outcomes; infinite losses are leaks."""
    parts = [(0.4 + 0.1 * k, 0.2 + 0.02 * k) for k in range(10)]
    event = sums(
        lambda k: Claimed(ApproxDP(Fraction(4 + k, 10), Fraction(1, 10**6))).sampled(rate=Fraction(20 + 2 * k, 100)),
        10,
        1,
    )
    outcomes, leak = [], 0.0
    for epsilon, rate in parts:
        finite, kept = 1 - 1e-6, rate * 1e-6
        q = finite / (1 + math.exp(epsilon))
        weights = ((1 - rate) * q * math.exp(epsilon) + rate * q, (1 - rate) * q + rate * q * math.exp(epsilon))
        losses = [math.log1p(rate * math.expm1(side * epsilon)) for side in (-1, 1)]
        outcomes.append([(losses[0], weights[0]), (losses[1], weights[1]), (math.log1p(-rate), (1 - rate) * 1e-6)])
        leak += kept
    loss, mass = np.zeros(1), np.ones(1)
    for own in outcomes:
        loss = np.add.outer(loss, [value for value, _ in own]).ravel()
        mass = np.multiply.outer(mass, [weight for _, weight in own]).ravel()
    for goal in (0.3, 1.5):
        delta = float(mass @ np.maximum(-np.expm1(goal - loss), 0.0))
        bracket = tables_curve(fold(event)).sides[0].delta(goal)
        assert bracket.lower <= delta + leak * (1 + 1e-9)
        assert delta + 0.9 * leak <= bracket.upper
        assert bracket.width <= 1e-3 * bracket.upper + 2 * leak


@pytest.mark.parametrize(
    "event",
    [
        sums(lambda k: ExponentialMechanism(Fraction(50 + k, 100)).sampled(rate=Fraction(1, 100)), 10, 30),
        sums(lambda k: (Gaussian(1) + Laplace(3 + k)).sampled(rate=Fraction(1, 100)), 9, 20)
        + Gaussian(20)
        + Laplace(3).sampled(rate=Fraction(1, 50)),
    ],
    ids=["choices", "several on one sample"],
)
def test_brackets_meet_those_of_the_grid(event: Event) -> None:
    narrow, wide = account(event).curve.epsilon_bracket(1e-6), grid_curve(fold(event)).epsilon_bracket(1e-6)
    assert "tables" in account(event).method
    assert narrow.lower <= wide.upper
    assert wide.lower <= narrow.upper
    assert narrow.width <= 1e-3 * narrow.upper


def test_one_frequency_answers_for_its_group() -> None:
    """`around` bounds the modulus at every frequency of a group, also of points that leave something out."""
    source = np.random.default_rng(7)
    loss = np.sort(source.normal(0, 0.1, 40))
    weight = np.log(source.dirichlet(np.ones(40)))
    none = np.zeros(40)
    step = TiltedPoints(Points(weight, loss, none, none, none), 0.7, 1e-9)
    half = 2.0
    centres = half + 2 * half * np.arange(32)
    bounds = step.around(centres, half)
    assert bounds.min() < -0.5
    tilted = np.exp(weight + 0.7 * loss)
    for centre, bound in zip(centres, bounds, strict=True):
        omegas = centre + np.linspace(-half, half, 41)
        moduli = np.abs(np.exp(1j * np.outer(omegas, loss)) @ tilted) / tilted.sum()
        assert np.log(moduli.max()) <= bound + 1e-9 or bound == 0.0


def test_wide_sampled_discrete_gaussians_have_narrow_brackets() -> None:
    """σ of 20 and more, where one frequency at a time takes too long; against the continuous noise they approach."""
    parts = [(Fraction(2000 + 37 * k, 100), Fraction(100 + k, 10_000)) for k in range(12)]
    integers = sums(lambda k: DiscreteGaussian(parts[k][0], 10).sampled(rate=parts[k][1]), 12, 100)
    reals = sums(lambda k: Gaussian(parts[k][0], 10).sampled(rate=parts[k][1]), 12, 100)
    bracket, limit = (account(event).curve.epsilon_bracket(1e-5) for event in (integers, reals))
    assert bracket.width <= 1e-6 * bracket.upper
    assert bracket.lower <= limit.upper * (1 + 1e-9)
    assert limit.lower * (1 - 1e-9) <= bracket.upper


def test_cutting_the_ends_keeps_what_was_left_out_before() -> None:
    rare = Gaussian(1).sampled(rate=Fraction(1, 10**6))
    transforms = rule_of(rare).transforms(rare)
    assert transforms is not None
    direction = Direction(((transforms[0], 3),), leak=1e-18)
    assert direction.cut(-20.0).leak > 1e-18


def test_combinations_are_all_there() -> None:
    """The product of a few atoms is the product itself."""
    law = laws((RandomizedResponse(1) + RandomizedResponse(Fraction(1, 2)) * 2).sampled(rate=1 - Fraction(1, 10**6)))[0]
    known = law.atoms()
    assert known is not None
    # the inner losses are those of all eight combinations
    signs = itertools.product((-1, 1), repeat=3)
    inner = {round(a * 1.0 + (b + c) * 0.5, 9) for a, b, c in signs}
    assert len(inner) <= len(known[0]) <= 8


def test_a_law_without_atoms_is_no_product_of_atoms() -> None:
    """One smooth factor, and the product goes through the lattice: nothing may be left out of it."""
    both = laws((Gaussian(1) + Claimed(PureDP(1))).sampled(rate=0.5))[0]
    alone = laws(Gaussian(1).sampled(rate=0.5))[0]
    assert both.atoms() is not None
    assert float(both.profile(0.5)) > float(alone.profile(0.5))
