"""One ε for the whole query, divided exactly among its measures.

Private keys count as one more aggregate, called `keys`. Every aggregate gets a share in proportion to its weight (1
unless stated), and divides it evenly among its measures; a measure that serves several aggregates is taken once and
gets all their parts. The shares add up to ε as fractions.

>>> from deniable.query.aggregates import CountAggregate
>>> shares([CountAggregate("n", None), CountAggregate("m", None)], epsilon=Fraction(1, 2), weights=None)
{Measure(values=None, summed=False, centre=0): Fraction(1, 2)}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.query.aggregates import Aggregate
from deniable.query.measures import Measure

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
