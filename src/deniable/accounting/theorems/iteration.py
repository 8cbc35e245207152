"""Amplification by iteration: only the last iterate of noisy gradient descent is released.

Projected noisy SGD in one pass, x_{t+1} = Proj(x_t − η(∇f(x_t; s_t) + Z_t)), Z_t ~ N(0, s²I), over a convex set, with
losses that are convex, L-Lipschitz and β-smooth and η ≤ 2/β, so that every step is a contraction. For the record used
at step t of n, REPLACE,

    D_α ≤ 2αL²/(s²(n − t + 1))          (Feldman–Mironov–Talwar–Thakurta 2018, Theorem 23)

The gradients at step t differ by at most 2L; the n − t + 1 noises from step t on each absorb an equal part of the shift
2ηL. The last record gets no amplification. Averages of iterates, or any other iterate, are not covered.

>>> iterate(2, lipschitz=1, noise=10, position=1, steps=100, smoothness=1, step_size=0.5)
RDP(order=2, epsilon=0.0004, relation=REPLACE)
"""

from __future__ import annotations

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.guarantees import RDP
from deniable.units import Relation


def iterate(
    order: Number,
    *,
    lipschitz: Number,
    noise: Number,
    position: int,
    steps: int,
    smoothness: Number,
    step_size: Number,
) -> RDP:
    """D_α of the last iterate for the record at `position` (1 … steps); noise is the s of Z_t. Upper bound.

    `smoothness` (β) and `step_size` (η) are asked for because the theorem needs ηβ ≤ 2; convexity is the caller's word.
    """
    alpha = _checks.order("order", order)
    slope = _checks.positive("lipschitz", lipschitz)
    scale = _checks.positive("noise", noise)
    total = _checks.count("steps", steps)
    place = _checks.count("position", position)
    if place > total:
        raise InvalidArgument("position", position, f"at most the number of steps, {total}")
    smooth, rate = _checks.nonnegative("smoothness", smoothness), _checks.positive("step_size", step_size)
    if rate * smooth > 2:
        raise InvalidArgument(
            "step_size", step_size, "at most 2/smoothness", "Beyond it a step may expand and nothing is amplified."
        )
    cost = 2 * alpha * slope**2 / (scale**2 * (total - place + 1))
    return RDP(alpha, cost, relation=Relation.REPLACE)
