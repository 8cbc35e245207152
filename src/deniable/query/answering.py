"""From exact totals to released columns: noise, the choice of groups, estimates, and what follows GROUP BY.

Everything here is a function of the exact totals and fresh noise, in this order:

1. Where keys are private, every found group's number of units gets noise, and the groups that reach the threshold are
   kept (see `thresholds`). Nothing below looks at another group.
2. Every measure of the kept groups gets its noise; each aggregate reads its column off them. Groups are handled a few
   at a time where a measure has many cells, so that memory stays small; their noise is independent anyway.
3. HAVING, ORDER BY, LIMIT see released columns only. Found groups come in the order of their keys, so that the order
   of the data does not show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.query.aggregates import Aggregate, Choice, EstimateColumn, Noisy
from deniable.query.keys import Keys
from deniable.query.measures import Measure, Totals
from deniable.query.outputs import KeyOutput
from deniable.query.reading import ParsedQuery
from deniable.query.thresholds import MeasureNoise, chosen
from deniable.query.values import name

AT_ONCE = 1 << 22
"""Integers of one measure that are handled at a time."""


class Answer(NamedTuple):
    """Released columns: keys by output name, and an estimate per aggregate."""

    keys: dict[str, list[Any]]
    estimates: dict[str, EstimateColumn | Choice]


def answered(
    question: ParsedQuery,
    keys: Sequence[Keys],
    aggregates: Sequence[Aggregate],
    noises: Sequence[MeasureNoise],
    totals: Totals,
    *,
    failure: Fraction,
) -> Answer:
    """The released columns of a query whose exact totals are these."""
    known: dict[Measure, NDArray[Any]] = {}
    for part in noises:
        if part.threshold is not None:
            kept, known[part.measure] = chosen(part, totals)
            totals = totals.part(kept)
    estimates = _estimates(aggregates, noises, totals, known, failure=failure)
    columns = _key_columns(question, keys, totals)
    if question.finish:
        released = {
            output.name: columns[output.name]
            if isinstance(output, KeyOutput)
            else estimates[output.name].value.tolist()
            for output in question.outputs
        }
        rows = question.finish.rows(released)
        columns, estimates = _columns_of(columns, rows), _estimates_of(estimates, rows)
    return Answer(columns, estimates)


def _estimates(
    aggregates: Sequence[Aggregate],
    noises: Sequence[MeasureNoise],
    totals: Totals,
    known: Mapping[Measure, NDArray[Any]],
    *,
    failure: Fraction,
) -> dict[str, EstimateColumn | Choice]:
    """Every aggregate of every group, from measures with fresh noise; those in `known` have theirs."""
    groups = len(totals.rows)
    size = max(1, AT_ONCE // max(part.measure.cells for part in noises))
    found: dict[str, list[EstimateColumn | Choice]] = {aggregate.name: [] for aggregate in aggregates}
    for start in range(0, max(groups, 1), size):
        places = np.arange(start, min(start + size, groups))
        some = totals if size >= groups else totals.part(places)
        noisy = {
            part.measure: Noisy(
                known[part.measure][places] if part.measure in known else part.added(part.measure.of(some)), part.scale
            )
            for part in noises
        }
        for aggregate in aggregates:
            found[aggregate.name].append(aggregate.estimate(noisy, failure=failure))
    return {name: _joined(parts) for name, parts in found.items()}


def _joined(parts: Sequence[EstimateColumn | Choice]) -> EstimateColumn | Choice:
    first = parts[0]
    return first if len(parts) == 1 else type(first)(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _columns_of(columns: Mapping[str, list[Any]], rows: NDArray[np.int64]) -> dict[str, list[Any]]:
    return {name: [values[i] for i in rows.tolist()] for name, values in columns.items()}


def _estimates_of(
    estimates: Mapping[str, EstimateColumn | Choice], rows: NDArray[np.int64]
) -> dict[str, EstimateColumn | Choice]:
    return {name: type(found)(*(column[rows] for column in found)) for name, found in estimates.items()}


def _key_columns(question: ParsedQuery, keys: Sequence[Keys], totals: Totals) -> dict[str, list[Any]]:
    """The keys of every group, by output. Declared ones are read off the group's number, whose first column counts
    slowest."""
    numbers = np.arange(len(totals.rows)) if totals.groups is None else totals.groups
    sizes = [1 if k.values is None else len(k.values) for k in keys]
    found: dict[int, list[Any]] = {}
    for i, k in enumerate(keys, start=1):
        if k.values is None:
            days = k.type == "DATE"  # which the engine returns as times
            found[i] = (totals.keys[i].astype("datetime64[D]") if days else totals.keys[i]).tolist()
        else:
            places = numbers // prod(sizes[i:]) % sizes[i - 1]
            found[i] = [k.values[place] for place in places.tolist()]
    grouped = {name(column): i for i, column in enumerate(question.groups, start=1)}
    return {
        output.name: found[grouped[name(output.column)]] for output in question.outputs if isinstance(output, KeyOutput)
    }
