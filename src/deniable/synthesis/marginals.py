"""`session.marginals`: many tables of counts that agree with one another, each number with an interval.

>>> import deniable as dn, pandas, tempfile, pathlib
>>> ledger = dn.Ledger.create(pathlib.Path(tempfile.mkdtemp()) / "l", unit="row", budget=dn.ApproxDP(1, 1e-9))
>>> frame = pandas.DataFrame({"sex": ["f", "m"] * 500, "age": list(range(18, 68)) * 20})
>>> session = dn.Session({"people": frame}, ledger=ledger)
>>> plan = session.marginals(
...     "people", [("sex", "age")], columns={"sex": ["f", "m"], "age": range(18, 68, 10)}, epsilon=1
... )
>>> print(plan.cost)
ε ≤ 1.00, δ = 1e-9, one row added or removed
>>> release = plan.run()
>>> release["age", "sex"].values.shape
(3, 6)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number, shown
from deniable._escapes import printable
from deniable._forms import Plain
from deniable._notebook import Shown
from deniable._remedies import example
from deniable.descriptions import Description
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.guarantees import ApproxDP, Guarantee
from deniable.ledger.records import as_purpose
from deniable.mechanisms.tables import simplex
from deniable.query.choice import draw_key
from deniable.query.planning import PlanningContext
from deniable.query.values import name as sql_name
from deniable.synthesis import residuals
from deniable.synthesis.contributions import UnitContribution, least_scale, read_target
from deniable.synthesis.counting import MOST_CELLS, Counting, RowSource, read_source, row_limit, unit_column
from deniable.synthesis.domain import Attribute, Clique, Domain, attribute
from deniable.synthesis.residuals import Residual

_MOST_RESIDUALS = 6000
"""Residuals of one release, at most: each has noise of its own."""


@dataclass(frozen=True, eq=False)
class Marginal:
    """One released table of counts. `values` are unbiased and may be negative; the interval of a cell is for these."""

    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    """The codes of each column in words: the axes of `values`."""
    values: NDArray[np.float64] = field(repr=False)
    scale: float
    """The standard deviation of the noise of every cell."""
    radius: float
    """Half the width of a cell's interval."""

    @property
    def low(self) -> NDArray[np.float64]:
        """The lower ends of the cells' intervals."""
        return self.values - self.radius

    @property
    def high(self) -> NDArray[np.float64]:
        """The upper ends of the cells' intervals."""
        return self.values + self.radius

    @property
    def counts(self) -> NDArray[np.float64]:
        """The nearest counts that are not negative and keep the table's total: nicer to show, but biased, without
        intervals, and no longer in agreement with other tables."""
        total = float(self.values.sum())
        if total <= 0:
            return np.zeros_like(self.values)
        return simplex(self.values.reshape(-1), total=total).reshape(self.values.shape)

    def to_columns(self) -> dict[str, list[Any]]:
        """One row per cell: the columns' labels, the count, its interval, and the count without negatives."""
        places = np.indices(self.values.shape).reshape(len(self.columns), -1)
        found: dict[str, list[Any]] = {
            name: [labels[place] for place in axis.tolist()]
            for name, labels, axis in zip(self.columns, self.labels, places, strict=True)
        }
        found["count"] = self.values.reshape(-1).tolist()
        found["count_low"] = self.low.reshape(-1).tolist()
        found["count_high"] = self.high.reshape(-1).tolist()
        found["count_projected"] = self.counts.reshape(-1).tolist()
        return found


@dataclass(frozen=True, eq=False)
class MarginalsRelease(Shown, Plain):
    """Consistent marginals; all of it may be published. `release["sex", "age"]` is one of them."""

    domain: Domain
    asked: tuple[Clique, ...]
    measured: Mapping[Clique, NDArray[np.float64]] = field(repr=False)
    """The noisy residuals."""
    residuals: tuple[Residual, ...] = field(repr=False)
    cost: ApproxDP
    event: Event = field(repr=False)
    confidence: Fraction
    remaining: Guarantee

    def __getitem__(self, names: str | tuple[str, ...]) -> Marginal:
        """The marginal of some columns: one that was asked, or of columns within one."""
        clique = self.domain.clique(names)
        if not any(set(clique) <= set(asked) for asked in self.asked):
            raise InvalidArgument("columns", self.domain.named(clique), "columns of one marginal that was asked")
        return self._built(clique)

    def __iter__(self) -> Iterator[Marginal]:
        """The marginals that were asked, in order."""
        return (self._built(clique) for clique in self.asked)

    def __len__(self) -> int:
        return len(self.asked)

    @property
    def total(self) -> tuple[float, float, float]:
        """The noisy number of rows, with the ends of its interval."""
        whole = self._built(())
        value = float(whole.values)
        return value, value - whole.radius, value + whole.radius

    @cached_property
    def _variances(self) -> dict[Clique, float]:
        return {residual.columns: residual.variance for residual in self.residuals}

    def _built(self, clique: Clique) -> Marginal:
        sizes = self.domain.sizes
        scale = sqrt(residuals.cell_variance(clique, sizes, self._variances))
        return Marginal(
            self.domain.named(clique),
            tuple(self.domain.attributes[place].labels for place in clique),
            residuals.rebuild(clique, sizes, self.measured),
            scale,
            scale * normal_radius(self.confidence),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "marginals": [
                {"columns": list(one.columns), "scale": one.scale, "cells": one.to_columns()} for one in self
            ],
            "confidence": float(self.confidence),
            "interval": "privacy noise, before the projection to counts that are not negative",
            "cost": self.cost.to_dict(),
            "event": self.event.to_dict(),
            "remaining": self.remaining.to_dict(),
        }

    def describe(self) -> Description:
        """The release in public facts, with its curve."""
        from deniable.accounting import account

        title = f"{len(self)} consistent marginals of {', '.join(self.domain.names)}"
        return Description(title, self.cost, self._facts, account(self.event, unit=self.cost.unit))

    @property
    def _facts(self) -> tuple[tuple[str, str], ...]:
        covered = f"{shown(self.confidence * 100)} % each, for privacy noise, before negative counts are projected away"
        return (("intervals", covered), ("remaining", self.remaining.figures))

    def __str__(self) -> str:
        lines = [f"{' × '.join(one.columns)}: {one.values.size} cells, each ± {one.radius:.3g}" for one in self]
        facts = [f"{name}: {text}" for name, text in (("cost", str(self.cost)), *self._facts)]
        return printable("\n".join([*lines, *facts]), lines=True)

    def __repr__(self) -> str:
        return str(self)  # what a shell shows


def normal_radius(confidence: Fraction) -> float:
    """Half an interval's width, in standard deviations. On grids as fine as `residuals.SMOOTH` the discrete Gaussian
    and the normal law cannot be told apart."""
    return NormalDist().inv_cdf(1 - float(1 - confidence) / 2)


@dataclass(frozen=True, eq=False)
class MarginalsPlan(Plain):
    """Consistent marginals, ready to run. Every field is public."""

    counting: Counting
    asked: tuple[Clique, ...]
    residuals: tuple[Residual, ...] = field(repr=False)
    contribution: UnitContribution
    cost: ApproxDP
    event: Event = field(repr=False)
    confidence: Fraction
    context: PlanningContext = field(repr=False)
    text: str
    """The table or the SELECT that was named."""

    @property
    def domain(self) -> Domain:
        """The columns and their codes."""
        return self.counting.domain

    @property
    def error(self) -> dict[tuple[str, ...], float]:
        """Half the width of every cell's interval, by the columns of each marginal."""
        variances = {residual.columns: residual.variance for residual in self.residuals}
        width = normal_radius(self.confidence)
        sizes = self.domain.sizes
        return {
            self.domain.named(one): width * sqrt(residuals.cell_variance(one, sizes, variances)) for one in self.asked
        }

    @property
    def _cliques(self) -> tuple[Clique, ...]:
        return tuple(residual.columns for residual in self.residuals)

    def run(self) -> MarginalsRelease:
        """Charge the ledger, count, add noise. Every call charges again and answers with fresh noise."""
        engine, context = self.context.engine, self.context
        engine.check(self.counting.statements(self._cliques))
        context.ledger.charge(self.event, purpose=as_purpose(f"marginals of {self.text}"), who=context.who)
        remaining = context.ledger.remaining(who=context.who)
        exact = self.counting.count(engine, self._cliques, key=context.key or draw_key())
        return self.release(exact, remaining)

    def release(self, exact: Mapping[Clique, NDArray[np.int64]], remaining: Guarantee) -> MarginalsRelease:
        """What exact marginals become, with fresh noise, without charging: for a caller that has charged the event."""
        noisy = {residual.columns: residual.measure(exact[residual.columns]) for residual in self.residuals}
        return MarginalsRelease(
            self.domain, self.asked, noisy, self.residuals, self.cost, self.event, self.confidence, remaining
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": self.text,
            "columns": {one.name: list(one.labels) for one in self.domain.attributes},
            "marginals": [list(self.domain.named(clique)) for clique in self.asked],
            "rows_per_unit": self.contribution.rows,
            "cost": self.cost.to_dict(),
            "event": self.event.to_dict(),
            "error": {" × ".join(names): radius for names, radius in self.error.items()},
            "confidence": float(self.confidence),
        }

    def __str__(self) -> str:
        lines = [f"cost: {self.cost}", f"{len(self.asked)} marginals, {len(self.residuals)} noisy residuals"]
        lines += [f"{' × '.join(names)}: each cell ± {radius:.3g}" for names, radius in self.error.items()]
        return printable("\n".join(lines), lines=True)

    def __repr__(self) -> str:
        return str(self)  # what a shell shows


def read_columns(table: str, columns: object, context: PlanningContext) -> tuple[RowSource, dict[str, Any]]:
    """The rows that are asked, and what was declared for each of their columns."""
    source = read_source(table, context)
    if not isinstance(columns, Mapping):
        raise InvalidArgument(
            "columns", columns, "a mapping from column to its categories or bins",
            example("columns", {"sex": ["f", "m"]}),
        )  # fmt: skip
    given = {str(name): declared for name, declared in columns.items()}
    folded = {name.casefold() for name in given}
    if len(folded) < len(given):
        raise InvalidArgument("columns", list(given), "each column once")
    given |= {name: None for name in source.columns if name.casefold() not in folded}
    if not given:
        raise InvalidArgument("columns", columns, "one or more columns", example("columns", {"sex": ["f", "m"]}))
    unit = unit_column(source, context)
    for name in given:
        column = source.column(name)
        if unit is not None and sql_name(column) == sql_name(unit):
            raise InvalidArgument("columns", name, "columns other than the id", "Ids are made up, never read.")
    return source, given


def read_domain(
    source: RowSource,
    given: Mapping[str, Any],
    *,
    found: Mapping[str, Attribute] | None = None,
) -> Domain:
    """The domain of some columns; `found` has those whose values are found in the data."""
    known = found or {}
    return Domain(
        tuple(
            known[name] if name in known else attribute(name, source.column(name), declared)
            for name, declared in given.items()
        )
    )


def read_cliques(asked: object, domain: Domain, *, what: str) -> tuple[Clique, ...]:
    """Sets of columns: a list of names and tuples of names, or a number of ways."""
    if isinstance(asked, int) and not isinstance(asked, bool):
        if not 1 <= asked <= len(domain.names):
            raise InvalidArgument(what, asked, f"a number of columns, 1 to {len(domain.names)}")
        return tuple(combinations(range(len(domain.names)), asked))
    if isinstance(asked, str | bytes | Mapping) or not isinstance(asked, Iterable):
        raise InvalidArgument(what, asked, "a list of columns and of tuples of columns", "For example [('a', 'b')].")
    found = tuple(dict.fromkeys(domain.clique(one, what=what) for one in asked))
    if not found:
        raise InvalidArgument(what, [], "one or more marginals")
    return found


def plan_marginals(
    context: PlanningContext,
    table: str,
    marginals: object,
    *,
    columns: object,
    epsilon: Number | None,
    delta: Number | None,
    per_unit: object,
    confidence: Number,
) -> MarginalsPlan:
    """The plan of consistent marginals; the arguments are those of `Session.marginals`. Reads no rows."""
    level = _checks.inner_probability("confidence", confidence, remedy=example("confidence", 0.95))
    source, given = read_columns(table, columns, context)
    domain = read_domain(source, given)
    asked = read_cliques(marginals, domain, what="marginals")
    rows = row_limit(per_unit, context)
    contribution = UnitContribution(rows, context.ledger.relation)
    every = residuals.closure(asked, domain.sizes)
    cells = sum(domain.cells(clique) for clique in every)
    if cells > MOST_CELLS or len(every) > _MOST_RESIDUALS:
        raise InvalidArgument(
            "marginals", f"{cells} cells in {len(every)} tables", f"at most {MOST_CELLS} cells in {_MOST_RESIDUALS}",
            "Ask fewer marginals, or take wider bins.",
        )  # fmt: skip
    cost = read_target(epsilon, delta, context)
    planned, event = _calibrated(asked, domain, contribution, cost)
    counting = Counting(source, domain, unit_column(source, context), rows, context.engine.alike)
    for statement in counting.statements([residual.columns for residual in planned]):
        context.engine.bind(statement)
    return MarginalsPlan(counting, asked, planned, contribution, cost, event, level, context, table)


def _calibrated(
    asked: tuple[Clique, ...], domain: Domain, contribution: UnitContribution, cost: ApproxDP
) -> tuple[tuple[Residual, ...], Event]:
    """Residuals whose noise is (ε, δ)-DP, as the accountant confirms."""
    from deniable.accounting import account

    scale = least_scale(cost.epsilon, cost.delta)
    while True:
        # The floats of the division of the noise may be off by their last digits.
        planned = residuals.plan_residuals(
            asked, domain.sizes, contribution, unit_scale=scale * (1 + Fraction(1, 10**9))
        )
        event = residuals.composed(planned, contribution, unit_scale=scale)
        if account(event).epsilon(delta=cost.delta) <= cost.epsilon:
            return planned, event
        scale *= Fraction(10_001, 10_000)
