"""Numbers that a step releases beside the sum of gradients, inside the plan's event.

A measure is one number of each unit in a batch, between −1 and 1: whether its gradient was clipped (for adaptive
clipping), or its loss. The sum over the batch is released with noise, and every measure takes a share of the plan's
noise multiplier z, so that the event stays that of a Gaussian of scale z:

    the gradients, in clips, get noise of scale z/√(1 − Σ s_j), and measure j noise of scale z/√s_j.

*Proof.* One unit adds a vector: its gradient in clips, of length at most 1, and its measures, each at most 1. Divided
by the scales of their noise its squared length is at most (1 − Σ s_j)/z² + Σ s_j/z² = 1/z². So all of it together is
one Gaussian mechanism of sensitivity 1 and scale z, on the same sample. Two units are twice that apart. ∎ A share of
1 % makes the noise of the gradients half a percent larger.

*Exact noise.* A unit's measure is cut towards 0 to whole multiples of 2⁻²⁰, sums are integers, and the noise is the
exact discrete Gaussian of variance (2²⁰·z)²/s_j + 36, which is a post-processing of the normal law up to `LEAK` a
number (see `noises.GridNoise`); the plan's event says so.

A unit that could not be read counts as clipped, with the largest loss. What is released is public: it may be printed,
logged, and used to stop a run.

>>> LossSeries(bound=3)
LossSeries(bound=3, share=0.02)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deniable import _checks, noise
from deniable._checks import Number, shown
from deniable._forms import plain_number
from deniable.errors import InvalidArgument
from deniable.noise import Source
from deniable.noise.discrete import SPREAD
from deniable.numerics.exact import root_below

if TYPE_CHECKING:
    from torch import Tensor

BITS = 20

_LEAST_SHARE = Fraction(1, 10**9)
_FLOATS = Fraction(1, 10**30), Fraction(10**30)
"""Bounds of a loss within which no product of a step leaves the floats."""


@dataclass(frozen=True, init=False, repr=False)
class LossSeries:
    """The mean training loss of every step, with noise, charged inside the plan.

    Args:
        bound: A unit's loss is clamped to lie between 0 and this.
        share: The share of the squared noise multiplier that goes to the series.
    """

    bound: Fraction
    share: Fraction

    def __init__(self, *, bound: Number, share: Number = Fraction(1, 50)) -> None:
        read = _checks.between("bound", bound, low=_FLOATS[0], high=_FLOATS[1], expected="between 1e-30 and 1e30")
        object.__setattr__(self, "bound", read)
        object.__setattr__(self, "share", read_share(share))

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the series, exact."""
        return {"bound": plain_number(self.bound), "share": plain_number(self.share)}

    def __repr__(self) -> str:
        return f"LossSeries(bound={shown(self.bound)}, share={shown(self.share)})"


class SeriesPoint(NamedTuple):
    """The loss of one step as it was released: public."""

    step: int
    loss: float
    """Clamped losses over the expected batch, plus noise; it also varies with the size of the batch."""
    deviation: float
    """The standard deviation of the noise in it."""


def read_share(share: Number) -> Fraction:
    """A share of the noise, if some is left for the gradients."""
    found = _checks.inner_probability("share", share)
    if found > Fraction(1, 2):
        raise InvalidArgument("share", share, "at most 0.5: the rest is for the gradients", "For example 0.02.")
    if found < _LEAST_SHARE:
        raise InvalidArgument("share", share, "at least 1e-9: less is nothing but noise", "For example 0.02.")
    return found


def gradient_multiplier(multiplier: Fraction, shares: Mapping[str, Fraction]) -> Fraction:
    """The noise multiplier that is left for the gradients, rounded up."""
    left = 1 - sum(shares.values(), start=Fraction(0))
    return multiplier / root_below(left, decimals=18) if shares else multiplier


def deviation(multiplier: Fraction, share: Fraction) -> float:
    """The standard deviation of a measure's noise, where one unit counts at most 1."""
    return float(multiplier) / math.sqrt(share)


def release(values: Tensor, *, multiplier: Fraction, share: Fraction, source: Source) -> float:
    """The sum of a measure over units, with its noise. Every value counts between −1 and 1, one that is no number 1."""
    exact = values.detach().double().cpu().numpy()
    cut = np.trunc(np.clip(np.nan_to_num(exact, nan=1.0), -1, 1) * 2**BITS)
    drawn = noise.discrete_gaussian(variance=multiplier**2 / share * 4**BITS + SPREAD, source=source)
    return float(Fraction(int(cut.astype(np.int64).sum()) + int(drawn), 2**BITS))
