"""A histogram of keys that are not known beforehand: a key is shown only if its noisy count is well above 1.

Every key that occurs gets its count plus discrete Laplace noise of scale t = K/ε, and is shown if that reaches a
threshold T. A unit with at most c keys changes K = c counts when it is added or removed, and K = 2c when it is
replaced. T is chosen by the exact tail: a key that only one unit has is shown with probability p = Pr[1 + X ≥ T], and
T is the smallest integer with

    1 − (1 − p)^c ≤ δ     and     p ≤ 1 − e^{−1/t}.

(ε, δ)-DP (Korolova, Kenthapadi, Mishra and Ntoulas 2009, for the idea). Proof: let j of the changed keys be ones that
only the one unit has in D. With probability at least 1 − δ none of those is shown. On that event the outputs differ
in keys that both data sets have, e^{1/t} each, and in keys new to D′, of which j′ are hidden there with probability
(1 − p)^j′ ≥ e^{−j′/t}: altogether e^{K/t} = e^ε at most.

Keys are shown in the order of their printed form, never in that of the data, and those that print differently are
different keys, even if Python calls them equal (1 and True): which of them came first is one record's doing.

>>> m = stability_histogram(epsilon=1, delta=1e-6)
>>> m.threshold
15
>>> list(m(["flu"] * 1000 + ["gout"] + ["cold"] * 500))
['cold', 'flu']
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.errors import DataError
from deniable.events import Claimed, DiscreteLaplace, Event
from deniable.guarantees import ApproxDP
from deniable.guarantees.rounding import float_above
from deniable.mechanisms import records, tails
from deniable.mechanisms.additive import add
from deniable.mechanisms.base import Mechanism, failure
from deniable.noise import Source
from deniable.units import Relation


@dataclass(frozen=True, repr=False)
class StabilityHistogram(Mechanism):
    """Noisy counts of the keys that enough units have."""

    epsilon: Fraction
    delta: Fraction
    per_unit: int
    stated: Relation

    @property
    def event(self) -> Event:
        return Claimed(ApproxDP(self.epsilon, self.delta, relation=self.stated))

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise of every count."""
        changed = self.per_unit * (2 if self.stated is Relation.REPLACE else 1)
        return DiscreteLaplace(changed / self.epsilon, changed, self.stated, coordinates=changed)

    @property
    def threshold(self) -> int:
        """The smallest noisy count that is shown."""
        rate = float(1 / self.noise.scale)
        # Rounded down a little, so that the threshold can only be higher than needed.
        shown = -math.expm1(math.log1p(-float(self.delta)) / self.per_unit) * (1 - 1e-9)
        return 1 + tails.laplace_threshold(self.noise.scale, min(shown, -math.expm1(-rate) * (1 - 1e-9)))

    def __call__(self, values: object, /, *, source: Source | None = None) -> dict[Hashable, int]:
        """The noisy counts of the keys shown.

        With `per_unit=1` values are keys, one per unit; otherwise each is a collection of keys, of which the first
        `per_unit` different ones count, in the order of their printed form.
        """
        found = records.tally(key for keys in self._units(values) for key in keys)
        noisy = add([count for _, count in found], self.noise, source)
        return {key: count for (key, _), count in zip(found, noisy, strict=True) if count >= self.threshold}

    def _units(self, values: object) -> Iterable[list[Hashable]]:
        if self.per_unit == 1:
            return ([key] for key in records.keys(values))
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise DataError("expected one collection of keys per unit")
        return (self._bounded(unit) for unit in values)

    def _bounded(self, unit: object) -> list[Hashable]:
        """One unit's keys. What is not a collection counts for nothing."""
        try:
            found = [] if isinstance(unit, str | bytes) else list(unit)  # type: ignore[call-overload]
        except Exception:  # noqa: BLE001  a record's own methods may raise anything, and whether they do is private
            return []
        return [key for key, _ in records.tally(records.keys(found))[: self.per_unit]]

    def error(self, confidence: Number = Fraction(19, 20)) -> float:
        """A bound on the noise of any one key, shown or not. Keys near the threshold show when their noise was high."""
        return float_above(Fraction(tails.laplace_radius(self.noise.scale, failure(confidence))))

    def needed(self, confidence: Number = Fraction(19, 20)) -> int:
        """The count from which on a key is shown with this probability."""
        return self.threshold - 1 + tails.laplace_threshold(self.noise.scale, failure(confidence))


def stability_histogram(
    *, epsilon: Number, delta: Number, per_unit: int = 1, relation: Relation = Relation.ADD_REMOVE
) -> StabilityHistogram:
    """A histogram of unknown keys, at most `per_unit` of them for one unit."""
    _checks.member("relation", relation, Relation, remedy="Use ADD_REMOVE, REPLACE or ZERO_OUT.")
    return StabilityHistogram(
        epsilon=_checks.positive("epsilon", epsilon),
        delta=_checks.inner_probability("delta", delta, remedy="Keys that are not known beforehand need a delta."),
        per_unit=_checks.count("per_unit", per_unit),
        stated=relation,
    )
