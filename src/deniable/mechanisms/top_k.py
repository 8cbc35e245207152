"""The k best candidates, in order: the exponential mechanism k times without replacement, in one draw.

Adding Gumbel noise once and taking the k largest is the same as choosing one by one and removing it (Durfee and
Rogers 2019), so the event is k exponential mechanisms. Given ε alone each gets ε/k; given δ too, each gets as much as
the accountant lets k of them have.

>>> m = top_k(candidates=10, places=3, sensitivity=1, epsilon=3, step=1)
>>> m.event
ExponentialMechanism(epsilon=1) * 3
>>> len(m(range(10)))
3
>>> top_k(candidates=1000, places=20, sensitivity=1, epsilon=1, delta=1e-6, step=1).each > Fraction(1, 20)
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from deniable import _checks, noise
from deniable._checks import Number
from deniable.calibration import calibrate
from deniable.errors import InvalidArgument
from deniable.events import Event, ExponentialMechanism
from deniable.guarantees import ApproxDP
from deniable.mechanisms.selection import Choice, prepared
from deniable.noise import Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class TopK(Choice):
    """The `places` best candidates, which cost (ε, δ) together."""

    places: int = 1
    delta: Fraction = Fraction(0)

    @property
    def each(self) -> Fraction:
        """The ε of one place."""
        return _share(self.epsilon, self.delta, self.places)

    @property
    def event(self) -> Event:
        return ExponentialMechanism(self.each, self.stated) * self.places

    def __call__(self, utilities: object, /, *, source: Source | None = None) -> list[int]:
        """The positions of the chosen candidates, best first."""
        return noise.ranking(self.utilities(utilities), self.places, rate=self.rate, noise=noise.GUMBEL, source=source)

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound, for every place, on the best utility that was still there minus the chosen one."""
        each = 1 - (1 - _checks.inner_probability("confidence", confidence)) / self.places
        return self.shortfall(each)


def top_k(
    *,
    candidates: int,
    places: int,
    sensitivity: Number,
    epsilon: Number,
    delta: Number = 0,
    monotone: bool = False,
    step: Number | None = None,
    relation: Relation = Relation.ADD_REMOVE,
) -> TopK:
    """The `places` best of `candidates`; (ε, δ) is the whole cost."""
    k = _checks.count("places", places)
    if k > _checks.count("candidates", candidates):
        raise InvalidArgument("places", places, f"at most the {candidates} candidates")
    fields = prepared(candidates, sensitivity, epsilon, step, relation, monotone=monotone)
    allowed = _checks.between("delta", delta, low=0, high=1, open_high=True, expected="0 or a probability below 1")
    found = TopK(**fields, places=k, delta=allowed)  # type: ignore[arg-type]
    _ = found.each  # computed once, and refused here if it cannot be
    return found


@lru_cache(maxsize=256)
def _share(epsilon: Fraction, delta: Fraction, places: int) -> Fraction:
    """The largest ε of one place found, within a hundredth, for which the accountant confirms the promise for all."""
    if not delta or places == 1:
        return epsilon / places

    def event(each: float) -> Event:
        return ExponentialMechanism(_short_below(each)) * places

    found = calibrate(event, ApproxDP(epsilon, delta), tolerance=Fraction(1, 100))
    return max(_short_below(found.value), epsilon / places)


def _short_below(value: float) -> Fraction:
    """Five significant digits, rounded down."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 4)
    return math.floor(Fraction(value) / unit) * unit
