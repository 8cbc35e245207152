"""`session.synthesize`: a synthetic table under one charge.

A plan is made from the domain, ε and δ, and the schema; no row is read. `run` charges the ledger, then surveys columns
whose domain is to be found, counts all marginals that may be asked, and spends ρ: on measurements (`selection`), and at
the end on a check of the finished table (`quality`). Then nothing looks at the data any more.

**The event.** Which marginals are measured, and with how much noise, depends on noisy answers. What is fixed is that
all of it costs at most ρ of zCDP, so that is what is charged: `Claimed(ZCDP(ρ))`, and the surveys' own events. ρ is the
largest that proves (ε, δ). The number of rows is never taken from the data: it is the sum of noisy marginals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from itertools import combinations, product
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable._escapes import printable
from deniable._forms import Plain
from deniable._remedies import example
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Event
from deniable.guarantees import ZCDP, ApproxDP
from deniable.ledger.records import as_purpose
from deniable.noise.source import fresh_numbers
from deniable.query.bounding import Bounded
from deniable.query.choice import draw_key
from deniable.query.planning import PlanningContext
from deniable.query.surveys import LimitsSurvey
from deniable.synthesis import fitting, sampling, selection
from deniable.synthesis.contributions import UnitContribution, largest_rho, read_target
from deniable.synthesis.counting import MOST_CELLS, Counting, row_limit, unit_column
from deniable.synthesis.domain import PRIVATE, Attribute, Clique, Domain
from deniable.synthesis.finding import (
    DELTA_SHARE,
    EPSILON_SHARE,
    MOST_ROWS_FOUND,
    DomainSurvey,
    plan_limit,
    plan_surveys,
    take_limit,
)
from deniable.synthesis.marginals import read_cliques, read_columns, read_domain
from deniable.synthesis.quality import checked_cliques, take_check
from deniable.synthesis.selection import Candidate, Spending
from deniable.synthesis.table import MOST_ROWS, SyntheticTable, read_rows

METHODS = ("aim", "mst")

TREE_CELLS = 1 << 18
"""Cells of the model's junction tree, at most."""

MOST_NOISE = 1_000_000
"""The standard deviation of a column's counts, at most: beyond, no table shows through."""

WIDE = 40
"""Columns from which on a spanning tree is chosen instead of AIM's rounds."""

CHECK = Fraction(3, 100)
"""The share of ρ for the check of the finished table, unless another is given."""


@dataclass(frozen=True, eq=False)
class SynthesisPlan(Plain):
    """A synthetic table, ready to be made. Every field is public."""

    text: str
    """The table or the SELECT that was named."""
    counting: Counting
    surveys: tuple[DomainSurvey, ...]
    """Columns whose domain is found in the data."""
    limit: LimitsSurvey | None
    """How the rows of a unit that count are found; None where they were stated."""
    workload: tuple[Clique, ...]
    method: str
    check: Fraction
    zeros: Mapping[Clique, NDArray[np.bool_]] = field(repr=False)
    rows: int | None
    contribution: UnitContribution
    rho: Fraction
    cost: ApproxDP
    confidence: Fraction
    context: PlanningContext = field(repr=False)

    @property
    def domain(self) -> Domain:
        """The columns and their codes; columns that are still to be found have few."""
        return self.counting.domain

    @property
    def event(self) -> Event:
        """What running will do to the data; fixed, whatever is found and measured."""
        main = Claimed(ZCDP(self.rho, relation=self.cost.relation, unit=self.cost.unit))
        surveys = [*self.surveys, *([] if self.limit is None else [self.limit])]
        return reduce(add, (survey.event for survey in surveys), main)

    @property
    def error(self) -> dict[str, float]:
        """The standard deviation of the noise of each column's own counts: what is measured first, of every column.
        Where the limit of a unit's rows is to be found: for each row of that limit."""
        one = self.contribution if self.limit is None else replace(self.contribution, rows=1)
        spending = Spending({}, one, self.rho)
        share = (
            self.rho
            * (1 - self.check)
            * (selection.share_alone(len(self.domain.sizes)) if self.method == "aim" else Fraction(1, 3))
        )
        parts = [size ** (2 / 3) for size in self.domain.sizes]
        return {
            name: float(spending.scale(Fraction(float(share) * part / sum(parts))))
            for name, part in zip(self.domain.names, parts, strict=True)
        }

    @property
    def seconds(self) -> float:
        """About how long making the table takes on one core, without the engine's time; a guess from its size."""
        pairs = len(self.domain.sizes) * (len(self.domain.sizes) - 1) / 2
        rounds = 1 if self.method == "mst" else min(100.0, 10 + 50 * float(self.cost.epsilon) ** 0.5)
        return 0.3 + rounds * (0.01 + pairs * 2e-4)

    def run(self) -> SyntheticTable:
        """Charge the ledger, survey, count, measure, fit, draw rows, check them. Every call charges again."""
        context = self.context
        context.engine.check(self._statements)
        context.ledger.charge(self.event, purpose=as_purpose(f"synthetic rows of {self.text}"), who=context.who)
        remaining = context.ledger.remaining(who=context.who)
        counting, contribution = self._settled()
        exact = counting.count(context.engine, self._cliques(counting.domain), key=context.key or draw_key())
        spending = Spending(exact, contribution, self.rho)
        model, codes = self._fit_and_draw(spending, counting.domain)
        checked = checked_cliques(counting.domain)
        check = take_check(spending, checked, codes, counting.domain, model.size) if self.check else None
        return SyntheticTable(
            self.text, counting.domain, codes, model, tuple(spending.measurements), check, self.cost, self.event,
            tuple(spending.steps), self.confidence, remaining,
        )  # fmt: skip

    def _fit_and_draw(self, spending: Spending, domain: Domain) -> tuple[fitting.Model, NDArray[np.int64]]:
        """The model and rows of it, with what is not kept for the check."""
        kept = self.rho * self.check
        spending.rho -= kept
        if self.method == "mst":
            model = selection.run_mst(spending, domain, forbidden=self.zeros)
        else:
            candidates = weigh_candidates(self.workload, domain)
            model = selection.run_aim(spending, domain, candidates, cells=TREE_CELLS, forbidden=self.zeros)
        spending.rho += kept
        rows = min(round(model.size), MOST_ROWS) if self.rows is None else self.rows
        return model, sampling.sample(model.tree, model.beliefs, rows, random=fresh_numbers())

    def _settled(self) -> tuple[Counting, UnitContribution]:
        """How marginals are counted once all columns and the rows of a unit are known. The caller has charged."""
        found = {survey.name: survey.take(self.context) for survey in self.surveys}
        attributes = tuple(found.get(one.name, one) for one in self.domain.attributes)
        counting = replace(self.counting, domain=Domain(attributes)) if found else self.counting
        if self.limit is None:
            return counting, self.contribution
        noise_of_one = sum(self.error.values()) / len(self.error)
        rows = take_limit(self.limit, self.context, noise=noise_of_one)
        return replace(counting, rows=rows), replace(self.contribution, rows=rows)

    def _cliques(self, domain: Domain) -> list[Clique]:
        """All marginals that may be asked."""
        asked = [candidate.columns for candidate in weigh_candidates(self.workload, domain)]
        pairs = list(combinations(range(len(domain.sizes)), 2)) if self.method == "mst" else []
        checked = checked_cliques(domain) if self.check else []
        return list(dict.fromkeys([*asked, *pairs, *checked]))

    @property
    def _statements(self) -> list[Bounded]:
        surveyed = [statement for survey in self.surveys for statement in survey.statements]
        surveyed += [] if self.limit is None else [self.limit.sql]
        return [*surveyed, *self.counting.statements(self._cliques(self.domain))]

    def to_dict(self) -> dict[str, Any]:
        found = {survey.name for survey in self.surveys}
        return {
            "table": self.text,
            "columns": {one.name: PRIVATE if one.name in found else list(one.labels) for one in self.domain.attributes},
            "method": self.method,
            "workload": [list(self.domain.named(clique)) for clique in self.workload],
            "rows_per_unit": self.contribution.rows if self.limit is None else PRIVATE,
            "check": float(self.check),
            "rho": float(self.rho),
            "cost": self.cost.to_dict(),
            "event": self.event.to_dict(),
            "error": self.error,
            "seconds": self.seconds,
        }

    def explain(self) -> str:
        """The plan in words, with the SQL that will run."""
        texts = [self.context.engine.written(statement) for statement in self._statements]
        return "\n\n".join([str(self), *(printable(text, lines=True) for text in texts)])

    def __str__(self) -> str:
        parts = [survey.name for survey in self.surveys] + ([] if self.limit is None else ["rows per unit"])
        lines = [
            f"synthetic rows of {self.text}",
            f"cost: {self.cost}",
            f"method: {self.method.upper()}, ρ = {float(self.rho):.4g}, {float(100 * self.check):g} % for a check",
            f"columns: {', '.join(f'{n} ({s})' for n, s in zip(self.domain.names, self.domain.sizes, strict=True))}",
            *([f"found in the data: {', '.join(parts)}"] if parts else []),
            f"noise of each column's counts{' and row of a unit' if self.limit else ''}: "
            + ", ".join(f"{n} ± {2 * e:.3g}" for n, e in self.error.items()),
            f"takes about {self.seconds:.0f} s beside the engine",
        ]
        return "\n".join(printable(line) for line in lines)

    def __repr__(self) -> str:
        return str(self)  # what a shell shows


def weigh_candidates(workload: Sequence[Clique], domain: Domain) -> list[Candidate]:
    """All subsets of the workload's marginals; the weight of one is how many columns it shares with them in all."""
    subsets = {part for one in workload for size in range(1, len(one) + 1) for part in combinations(one, size)}
    small = [part for part in subsets if len(part) == 1 or domain.cells(part) <= TREE_CELLS]
    small += [(place,) for place in range(len(domain.sizes)) if (place,) not in subsets]
    masks = [sum(1 << place for place in one) for one in workload]
    weights = {part: sum((sum(1 << place for place in part) & mask).bit_count() for mask in masks) for part in small}
    return [Candidate(part, max(1, weights[part])) for part in sorted(small, key=lambda one: (len(one), one))]


def plan_synthesis(
    context: PlanningContext,
    table: str,
    *,
    columns: object,
    epsilon: Number | None,
    delta: Number | None,
    per_unit: object,
    workload: object,
    method: object,
    zeros: object,
    rows: object,
    check: Number,
    confidence: Number,
) -> SynthesisPlan:
    """The plan of a synthetic table; the arguments are those of `Session.synthesize`. Reads no rows."""
    level = _checks.inner_probability("confidence", confidence, remedy=example("confidence", 0.95))
    share = _checks.between(
        "check", check, low=0, high=Fraction(1, 2), expected="a share of the budget, at most 0.5",
        remedy=example("check", 0.03),
    )  # fmt: skip
    many = read_rows(rows)
    cost = read_target(epsilon, delta, context)
    source, given = read_columns(table, columns, context)
    private = {name: source.column(name) for name, declared in given.items() if declared == PRIVATE}
    surveys: tuple[DomainSurvey, ...] = ()
    survey: LimitsSurvey | None = None
    epsilon_left, delta_left = cost.epsilon, cost.delta
    find_rows = isinstance(per_unit, str) and per_unit == PRIVATE and context.ledger.unit.column is not None
    if private or find_rows:
        each = cost.epsilon * EPSILON_SHARE / (len(private) + find_rows)
        surveys = plan_surveys(source, private, context, each=each, delta=cost.delta * DELTA_SHARE)
        survey = plan_limit(source, context, epsilon=each) if find_rows else None
        epsilon_left, delta_left = cost.epsilon * (1 - EPSILON_SHARE), cost.delta * (1 - DELTA_SHARE)
    domain = read_domain(source, given, found={survey.name: survey.widest for survey in surveys})
    if method not in (None, *METHODS):
        raise InvalidArgument("method", method, 'left out, or "aim" or "mst"')
    way = str(method) if method is not None else "aim" if len(domain.sizes) < WIDE else "mst"
    work = read_cliques(2 if len(domain.names) > 1 else 1, domain, what="workload")
    if workload is not None:
        if way == "mst":
            raise InvalidArgument("workload", workload, 'left out with the method "mst", which measures pairs')
        work = read_cliques(workload, domain, what="workload")
    limit = MOST_ROWS_FOUND if find_rows else row_limit(per_unit, context)
    plan = SynthesisPlan(
        table,
        Counting(source, domain, unit_column(source, context), limit, context.engine.alike),
        surveys, survey, work, way, share, read_zeros(zeros, domain, surveys), many,
        UnitContribution(limit, context.ledger.relation), largest_rho(epsilon_left, delta_left), cost, level, context,
    )  # fmt: skip
    _check_size(plan, {survey.name: survey.most for survey in surveys})
    for statement in plan._statements:
        context.engine.bind(statement)
    return plan


def _check_size(plan: SynthesisPlan, found: Mapping[str, int]) -> None:
    """Refuse tables whose marginals are too many, at the largest that can be found."""
    sizes = [found.get(one.name, one.size) for one in plan.domain.attributes]
    cells = sum(int(np.prod([sizes[place] for place in one])) for one in plan._cliques(plan.domain))
    if cells > MOST_CELLS:
        raise InvalidArgument(
            "columns", f"{cells} cells in all marginals", f"at most {MOST_CELLS}", "Take wider bins or fewer columns."
        )
    found_rows = 1 if plan.limit is None else plan.contribution.rows
    if max(plan.error.values()) * found_rows > MOST_NOISE:
        raise InvalidArgument(
            "epsilon", float(plan.cost.epsilon), f"large enough for noise below {MOST_NOISE:,} rows",
            "Give more, or limit the rows of a unit further.",
        )  # fmt: skip
    if sum(sizes) > TREE_CELLS:
        raise InvalidArgument("columns", f"{sum(sizes)} codes", f"at most {TREE_CELLS}", "Take wider bins.")


def read_zeros(zeros: object, domain: Domain, surveys: Sequence[DomainSurvey]) -> dict[Clique, NDArray[np.bool_]]:
    """Combinations that cannot occur, as cells of marginals."""
    if zeros is None:
        return {}
    if isinstance(zeros, str | Mapping) or not isinstance(zeros, Iterable):
        raise InvalidArgument("zeros", zeros, "a list of combinations", "For example [{'sex': 'm', 'pregnant': True}].")
    found: dict[Clique, NDArray[np.bool_]] = {}
    for one in zeros:
        if not isinstance(one, Mapping) or not one:
            raise InvalidArgument("zeros", one, "a mapping from column to the values that do not go together")
        clique = domain.clique(one, what="zeros")
        if any(survey.name in one for survey in surveys):
            raise InvalidArgument("zeros", list(one), "about columns whose values are declared")
        if domain.cells(clique) > TREE_CELLS:
            raise InvalidArgument("zeros", list(one), f"combinations of at most {TREE_CELLS} cells")
        places = [_codes(domain.attributes[place], one[domain.names[place]]) for place in clique]
        cells = found.setdefault(clique, np.zeros(domain.shape(clique), dtype=np.bool_))
        for cell in product(*places):
            cells[cell] = True
    if not fitting.possible(domain.sizes, found):
        raise InvalidArgument("zeros", "…", "combinations that leave some row possible")
    return found


def _codes(attribute: Attribute, values: object) -> list[int]:
    listed = values if isinstance(values, list | tuple | set | frozenset) else [values]
    return [attribute.code(value) for value in listed]
