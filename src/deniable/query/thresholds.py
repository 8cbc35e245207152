"""Noise as a plan fixes it, and the threshold behind which groups with private keys are released.

Where keys are private, a group is shown if its number of units, with discrete Laplace noise, reaches a threshold T. A
unit is in at most K groups after bounding, and counts once in each. That is the stability histogram (Korolova,
Kenthapadi, Mishra and Ntoulas 2009) of `mechanisms.stability_histogram`, where T is chosen by the exact tail and (ε, δ)
is proved, for K groups per unit and for both relations. The groups that a unit has alone are all hidden with
probability at least 1 − δ.

The other measures are then taken of the groups that are shown. Given that list they are like measures over declared
keys: a unit still has at most K groups and R rows in each, because bounding came first and knows nothing of the list.
So they cost their own ε each, and all together compose (adaptive composition: Dwork and Roth 2014, Theorem B.1).

The number of units itself is released for the groups that are shown, when it is asked for: it is the noisy number
that was compared with T. Groups near T are shown when their noise was high, so such numbers are too high on average.

One ε for the whole query, divided exactly among its measures.

Private keys count as one more aggregate, called `keys`. Every aggregate gets a share in proportion to its weight (1
unless stated), and divides it evenly among its measures; a measure that serves several aggregates is taken once and
gets all their parts. The shares add up to ε as fractions.

>>> from deniable.query.aggregates import CountAggregate
>>> shares([CountAggregate("n", None), CountAggregate("m", None)], epsilon=Fraction(1, 2), weights=None)
{Measure(values=None, summed=False, centre=0): Fraction(1, 2)}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks, noise
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.events import DiscreteLaplace, Event
from deniable.query.aggregates import Aggregate
from deniable.query.measures import Measure, Move, Totals

if TYPE_CHECKING:
    from deniable.mechanisms.counts import StabilityHistogram


KEYS = "keys"
"""The name under which private keys have their weight."""


def shares(
    aggregates: Sequence[Aggregate],
    *,
    epsilon: Fraction,
    weights: Mapping[str, Number] | None,
    keys: Measure | None = None,
) -> dict[Measure, Fraction]:
    """ε per measure; `keys` is what decides which groups are shown, where keys are private."""
    needed = {aggregate.name: aggregate.measures for aggregate in aggregates}
    if keys is not None:
        needed[KEYS] = (*needed.get(KEYS, ()), keys)
    parts = _weights(list(needed), weights)
    whole = sum(parts, Fraction(0))
    found: dict[Measure, Fraction] = {}
    for measures, part in zip(needed.values(), parts, strict=True):
        for measure in measures:
            share = epsilon * part / whole / len(measures)
            found[measure] = found.get(measure, Fraction(0)) + share
    return found


def _weights(names: Sequence[str], weights: Mapping[str, Number] | None) -> list[Fraction]:
    if weights is not None and not isinstance(weights, Mapping):
        raise InvalidArgument("weights", weights, "a mapping from an aggregate's name to a number")
    for name in weights or {}:
        if name not in names:
            raise InvalidArgument("weights", name, f"about the aggregates {', '.join(names)}", "Use the name after AS.")
    return [_checks.positive(f"weights[{name!r}]", (weights or {}).get(name, 1)) for name in names]


@dataclass(frozen=True)
class MeasureNoise:
    """The noise of one measure: its part of ε, how far a unit moves the measure, and the law. With a `threshold`, the
    measure is the number of units that decides which groups are shown."""

    measure: Measure
    epsilon: Fraction
    move: Move
    event: DiscreteLaplace
    threshold: StabilityHistogram | None = None

    @property
    def scale(self) -> Fraction:
        """The scale of the discrete Laplace noise, in steps of the measure's grid."""
        return self.event.scale

    @property
    def charged(self) -> Event:
        """What taking the measure does to the data."""
        return self.event if self.threshold is None else self.threshold.event

    def added(self, exact: NDArray[Any]) -> NDArray[Any]:
        """A measure with fresh noise."""
        return noise.add(exact, noise.discrete_laplace(self.scale, exact.shape))


def chosen(part: MeasureNoise, totals: Totals) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The groups whose noisy number of units reaches the threshold, ascending, and those numbers."""
    if part.threshold is None:
        raise TypeError("only private keys have a threshold")
    noisy = part.added(part.measure.of(totals))
    kept = np.flatnonzero(noisy >= part.threshold.threshold)
    return kept, noisy[kept]
