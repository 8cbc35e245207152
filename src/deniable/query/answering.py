"""From exact totals to released columns: noise, the choice of groups, estimates, and what follows GROUP BY.

Everything here is a function of the exact totals and fresh noise, in this order:

1. Where keys are private, every found group's number of units gets noise, and the groups that reach the threshold are
   kept (see below). Nothing below looks at another group.
2. Every measure of the kept groups gets its noise; each aggregate reads its column off them. Groups are handled a few
   at a time where a measure has many cells, so that memory stays small; their noise is independent anyway.
3. HAVING, ORDER BY, LIMIT see released columns only. Found groups come in the order of their keys, so that the order
   of the data does not show.

**Private keys.** Where keys are private, a group is shown if its number of units, with noise, reaches a threshold. A
unit is in at most K groups after bounding, and counts once in each. `noises` proves what that costs, for both laws of
noise, for K groups per unit and for both relations.

The other measures are then taken of the groups that are shown. Given that list they are like measures over declared
keys: a unit still has at most K groups and R rows in each, because bounding came first and knows nothing of the list.
So they cost their own part each, and all together compose (adaptive composition: Dwork and Roth 2014, Theorem B.1, for
ε; Bun and Steinke 2016, Lemma 2.3, for zCDP; Dong, Roth and Su 2022, Theorem 4, for Gaussian noise).

The number of units itself is released for the groups that are shown, when it is asked for: it is the noisy number
that was compared with T. Groups near T are shown when their noise was high, so such numbers are too high on average.

**Shares.** What the whole query may spend (an ε, or a ρ: see `noises`), divided exactly among its measures.

Private keys count as one more aggregate, called `keys`. Every aggregate gets a share in proportion to its weight (1
unless stated), and divides it evenly among its measures; a measure that serves several aggregates is taken once and
gets all their parts. The shares add up to the total as fractions.

>>> from deniable.query.aggregates import CountAggregate
>>> shares([CountAggregate("n", None), CountAggregate("m", None)], total=Fraction(1, 2), weights=None)
{Measure(values=None, summed=False, centre=0): Fraction(1, 2)}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.errors import InvalidArgument
from deniable.query.estimates import Aggregate, Choice, EstimateColumn, Noisy
from deniable.query.finishing import ComputedKey, evaluate
from deniable.query.formulas import KEY, VALUE, Leaf
from deniable.query.keys import Keys
from deniable.query.measures import Measure, Totals
from deniable.query.noises import MeasureNoise
from deniable.query.reading import ParsedQuery
from deniable.query.schema import KeyOutput
from deniable.query.values import name

KEYS = "keys"
"""The name under which private keys have their weight."""


def shares(
    aggregates: Sequence[Aggregate],
    *,
    total: Fraction,
    weights: Mapping[str, Number] | None,
    keys: Measure | None = None,
) -> dict[Measure, Fraction]:
    """The part of each measure; `keys` is what decides which groups are shown, where keys are private."""
    needed = {aggregate.name: aggregate.measures for aggregate in aggregates}
    if keys is not None:
        needed[KEYS] = (*needed.get(KEYS, ()), keys)
    parts = _weights(list(needed), weights)
    whole = sum(parts, Fraction(0))
    found: dict[Measure, Fraction] = {}
    for measures, part in zip(needed.values(), parts, strict=True):
        for measure in measures:
            share = total * part / whole / len(measures)
            found[measure] = found.get(measure, Fraction(0)) + share
    return found


def _weights(names: Sequence[str], weights: Mapping[str, Number] | None) -> list[Fraction]:
    if weights is not None and not isinstance(weights, Mapping):
        raise InvalidArgument("weights", weights, "a mapping from an aggregate's name to a number")
    for given in weights or {}:
        if given not in names:
            raise InvalidArgument(
                "weights", given, f"about the aggregates {', '.join(names)}", "Use the name after AS."
            )
    return [_checks.positive(f"weights[{name!r}]", (weights or {}).get(name, 1)) for name in names]


def chosen(part: MeasureNoise, totals: Totals) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The groups whose noisy number of units reaches the threshold, ascending, and those numbers."""
    if part.threshold is None:
        raise TypeError("only private keys have a threshold")
    noisy = part.added(part.measure.of(totals))
    kept = np.flatnonzero(noisy >= part.threshold.threshold)
    return kept, noisy[kept]


AT_ONCE = 1 << 22
"""Integers of one measure that are handled at a time."""


Estimates = dict[str, EstimateColumn | Choice]
"""Released columns by the name of their aggregate."""


class Answer(NamedTuple):
    """Released columns: keys by output name, and an estimate per aggregate."""

    keys: dict[str, list[Any]]
    estimates: Estimates
    """With intervals that cover the noise, and the limits where `Beyond` is known."""
    noise_only: Estimates
    """The same values with intervals for the noise alone."""


class Beyond(NamedTuple):
    """The units that own more than their limits or bounds let count."""

    most: int
    """At most that many, but for a probability of `failure`."""
    about: int
    """A noisy number of them; 0 where the limits cannot leave anything out."""
    failure: Fraction = Fraction(0)
    in_part: bool = False
    """Whether some of them count in part, cut or clamped, so that intervals are widened by what these may add; else
    they are left out whole."""


NOBODY = Beyond(0, 0)


def answered(
    question: ParsedQuery,
    keys: Sequence[Keys],
    aggregates: Sequence[Aggregate],
    noises: Sequence[MeasureNoise],
    totals: Totals,
    *,
    cut: Callable[[Measure], int],
    beyond: Beyond | None,
    failure: Fraction,
) -> Answer:
    """The released columns of a query whose exact totals are these. `cut` says how many rows of a unit beyond still
    count in one group of a measure. Each interval fails with at most this probability, which is divided between its
    noise and the number of units beyond, where these count in part."""
    known: dict[Measure, NDArray[Any]] = {}
    for part in noises:
        if part.threshold is not None:
            kept, known[part.measure] = chosen(part, totals)
            totals = totals.part(kept)
    columns = _key_columns(question, keys, totals)
    by_key = {(KEY, name(column)): columns[name(column)] for column in question.groups}
    by_key |= {(KEY, before): columns[after] for before, after in question.renamed.items()}
    placed = [aggregate.with_keys(by_key) for aggregate in aggregates]
    readers = [_Intervals(failure)]
    readers += [] if beyond is None else [_Intervals(failure, cut, beyond)]
    found = _estimates(placed, noises, totals, known, readers)
    released: dict[Leaf, list[Any]] = {
        **by_key, **{(VALUE, given): column.value.tolist() for given, column in found[0].items()}
    }  # fmt: skip
    shown = {
        output.name: _key_output(output, by_key, columns, len(totals.rows))
        for output in question.outputs
        if isinstance(output, KeyOutput)
    }
    hidden = {output.name for output in question.finish.hidden}
    found = [{given: column for given, column in each.items() if given not in hidden} for each in found]
    if question.finish:
        rows = question.finish.rows(released)
        shown, found = _columns_of(shown, rows), [_estimates_of(each, rows) for each in found]
    return Answer(shown, estimates=found[-1], noise_only=found[0])


def _key_output(
    output: KeyOutput, by_key: Mapping[Leaf, list[Any]], columns: Mapping[str, list[Any]], size: int
) -> list[Any]:
    """The keys of an output, or what is computed of them."""
    if not isinstance(output, ComputedKey):
        return columns[name(output.column)]
    values = [cell.value for cell in evaluate(output.formula, by_key, size)]
    numeric = output.formula.kind.numeric and not output.formula.whole
    return [math.nan if value is None else float(value) for value in values] if numeric else values


@dataclass(frozen=True)
class _Intervals:
    """How intervals are read off noisy measures: their failure, and what units beyond the limits may have added."""

    failure: Fraction
    cut: Callable[[Measure], int] | None = None
    beyond: Beyond = NOBODY

    def read(self, aggregate: Aggregate, noisy: Mapping[Measure, Noisy]) -> EstimateColumn | Choice:
        if self.cut is None:
            return aggregate.estimate(noisy, failure=self.failure)
        rows = {measure: self.cut(measure) for measure in aggregate.measures}
        widened = {measure: noisy[measure]._replace(share=self._share(measure, many)) for measure, many in rows.items()}
        failure = self.failure - self.beyond.failure if any(rows.values()) else self.failure
        return aggregate.estimate({**noisy, **widened}, failure=failure)

    def _share(self, measure: Measure, rows: int) -> tuple[int, int]:
        most = self.beyond.most * rows
        return most * min(measure.low, 0), most * max(measure.high, 0)


def _estimates(
    aggregates: Sequence[Aggregate],
    noises: Sequence[MeasureNoise],
    totals: Totals,
    known: Mapping[Measure, NDArray[Any]],
    readers: Sequence[_Intervals],
) -> list[Estimates]:
    """Every aggregate of every group, from measures with fresh noise; those in `known` have theirs. All readers read
    the same noise."""
    groups = len(totals.rows)
    size = max(1, AT_ONCE // max(part.measure.cells for part in noises))
    found: list[dict[str, list[EstimateColumn | Choice]]] = [{a.name: [] for a in aggregates} for _ in readers]
    for start in range(0, max(groups, 1), size):
        places = np.arange(start, min(start + size, groups))
        some = totals if size >= groups else totals.part(places)
        noisy = {
            part.measure: Noisy(
                known[part.measure][places] if part.measure in known else part.added(part.measure.of(some)), part.law
            )
            for part in noises
        }
        parts = [aggregate.part(places) if size < groups else aggregate for aggregate in aggregates]
        for reader, columns in zip(readers, found, strict=True):
            for aggregate in parts:
                columns[aggregate.name].append(reader.read(aggregate, noisy))
    return [{name: _joined(pieces) for name, pieces in columns.items()} for columns in found]


def _joined(parts: Sequence[EstimateColumn | Choice]) -> EstimateColumn | Choice:
    first = parts[0]
    return first if len(parts) == 1 else type(first)(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _columns_of(columns: Mapping[str, list[Any]], rows: NDArray[np.int64]) -> dict[str, list[Any]]:
    return {name: [values[i] for i in rows.tolist()] for name, values in columns.items()}


def _estimates_of(estimates: Estimates, rows: NDArray[np.int64]) -> Estimates:
    return {name: type(found)(*(column[rows] for column in found)) for name, found in estimates.items()}


def _key_columns(question: ParsedQuery, keys: Sequence[Keys], totals: Totals) -> dict[str, list[Any]]:
    """The keys of every group, by the SQL of the grouped column. Declared ones are read off the group's number, whose
    first column counts slowest."""
    numbers = np.arange(len(totals.rows)) if totals.groups is None else totals.groups
    sizes = [1 if k.values is None else len(k.values) for k in keys]
    found: list[list[Any]] = []
    for i, k in enumerate(keys, start=1):
        if k.values is None:
            days = k.type == "DATE"  # which the engine returns as times
            found.append((totals.keys[i].astype("datetime64[D]") if days else totals.keys[i]).tolist())
        else:
            places = numbers // prod(sizes[i:]) % sizes[i - 1]
            found.append([k.values[place] for place in places.tolist()])
    return {name(column): values for column, values in zip(question.groups, found, strict=True)}
