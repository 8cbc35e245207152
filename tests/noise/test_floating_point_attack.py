"""The attack of Mironov (2012) on floating-point Laplace noise: it breaks the textbook sampler, not ours. 1 second.

A double has 53 bits, so ``value - scale * log(u)`` takes only some of the doubles near it, and which ones depends on
the value. An attacker who sees the released double asks: is there a u on the generator's grid that leads from 0 to this
output? If not, the value was not 0, with certainty, whatever epsilon was promised.
"""

from __future__ import annotations

from fractions import Fraction
from math import copysign, exp, log

import numpy as np

from deniable.noise import Grid, add, discrete_laplace
from deniable.noise.discrete import DiscreteLaplaceSampler

SCALE = 1.0  # for a count: epsilon = 1


def textbook(value: float, rng: np.random.Generator) -> float:
    """Inverse transform in doubles, as in countless programs."""
    u = int(rng.integers(1, 1 << 53)) / (1 << 53)
    sign = 1.0 if rng.integers(2) else -1.0
    return value + sign * (SCALE * -log(u))


def reachable(output: float, value: float) -> bool:
    """Whether some u on the grid of 2**-53 gives this output from this value."""
    distance = output - value
    centre = round(exp(-abs(distance) / SCALE) * (1 << 53))
    spread = 64
    return any(
        value + copysign(SCALE * -log(k / (1 << 53)), distance) == output
        for k in range(max(1, centre - spread), min((1 << 53) - 1, centre + spread) + 1)
    )


def test_the_attack_succeeds_on_the_textbook_sampler() -> None:
    rng = np.random.default_rng(7)
    from_zero = [textbook(0.0, rng) for _ in range(300)]
    from_one = [textbook(1.0, rng) for _ in range(300)]
    assert all(reachable(y, 0.0) for y in from_zero)  # the attack never accuses wrongly
    assert all(reachable(y, 1.0) for y in from_one)
    caught = sum(not reachable(y, 0.0) for y in from_one)
    assert caught >= 60  # a promise of epsilon = 1 allows no output that rules a neighbour out; here a fifth does


def test_the_attack_fails_on_a_grid() -> None:
    """Released doubles are multiples of the step, the same ones from both neighbours: the output rules nobody out.

    Each of the outputs -20 ... 30 has probability above 2e-3 from either value, so 20000 draws miss one with
    probability below 102 * exp(-40) < 1e-6.
    """
    grid = Grid(low=0, high=1, step=0.1)
    from_zero, from_one = (
        set(grid.values(add(np.full(20_000, value), discrete_laplace(10 * SCALE, 20_000))).tolist())
        for value in (0, 10)
    )
    near = {float(i * grid.step) for i in range(-20, 31)}
    assert near <= from_zero
    assert near <= from_one
    for outputs in (from_zero, from_one):
        assert all(y == float(round(y / 0.1) * grid.step) for y in outputs)


def test_every_output_can_be_reached_from_both_neighbours() -> None:
    """The attack's own question, asked of our sampler: is there a word that leads from 0 to this output? And from 1?

    An output beyond 40 has probability below 1000 * exp(-39) < 1e-6.
    """
    sure = DiscreteLaplaceSampler(
        Fraction(1)
    )._top._sure  # how many words lead to each rung; the whole draw at this scale
    for y in set(add(np.full(1000, 1), discrete_laplace(SCALE, 1000)).tolist()):
        for value in (0, 1):
            noise = y - value
            assert sure[2 * noise if noise >= 0 else 2 * ~noise + 1] >= 1
