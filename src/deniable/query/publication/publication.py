"""Several tables, planned as one fixed event, charged once, written once.

The event of a publication is the sum of its tables' events, all fixed before any row is read; `allot` says how
much of ε each table gets.

**Once.** See `folder`: a run that was cut short is resumed under the same key, which the ledger charges once.

**Shares.** How much of ε each table of a publication gets.

Tables with an error cost what that error takes. The others share the rest in proportion to their weights:

- With δ = 0 the tables' ε add up (basic composition, exact fractions), and so do the δ of keys found in the data.
- With δ > 0 all tables are one event for the accountant. `calibrate` finds the largest common factor of the weights
  with which that event keeps (ε, δ)-DP by its certified curve. Where this gains less than 2 %, as it does for a few
  tables, the ε add up instead and δ stays unspent.

**Rehearsal.** Every table is computed once on made-up rows, before anything is charged (`query.rehearsal`), and its CSV
is written as text.

>>> import tempfile, pathlib, deniable as dn
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> _ = (folder / "visits.csv").write_text("patient_id,city\\n1,Bern\\n2,Basel\\n")
>>> _ = dn.Ledger.create(folder / "hospital.ledger", unit="patient_id", budget=dn.PureDP(3))
>>> _ = (folder / "tables.toml").write_text('''
... ledger = "hospital.ledger"
... epsilon = 1
... [data]
... visits = "visits.csv"
... [tables.all]
... sql = "SELECT COUNT(*) AS n FROM visits"
... per_unit = {groups = 1, rows = 2}
... [tables.by_city]
... sql = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
... keys.city = ["Bern", "Basel"]
... per_unit = {groups = 2, rows = 2}
... ''')
>>> with dn.Publication.read(folder / "tables.toml") as publication:
...     print(publication.cost)
...     sorted(path.name for path in publication.write(folder / "release").iterdir())
ε ≤ 1.00, δ = 0, one patient added or removed
['METHOD.md', 'all.csv', 'by_city.csv', 'release.json']
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deniable._escapes import printable
from deniable._forms import Plain
from deniable.descriptions import Description
from deniable.errors import DeniableError, InvalidArgument, LedgerUnsure
from deniable.events import Event
from deniable.guarantees import ApproxDP, PureDP
from deniable.ledger.records import as_purpose
from deniable.numerics.exact import short_above, short_below
from deniable.query.explanation import Words, aligned, plan_html
from deniable.query.planning import QueryPlan
from deniable.query.publication import draft as drafting
from deniable.query.publication.draft import Draft, DraftTable
from deniable.query.publication.folder import Folder, method_note
from deniable.query.rehearsal import MadeUpTables
from deniable.query.release import Release
from deniable.query.session import Session
from deniable.query.staging import Plan, compute

WORTH = Fraction(51, 50)
"""δ is spent where it makes ε go at least this much further."""

_PARTS = 100
"""More measurements than a table has."""

Plans = dict[str, Plan]


def allot(draft: Draft, session: Session) -> tuple[Plans, PureDP | ApproxDP]:
    """Every table's plan, and what all cost together."""
    fixed = {table.name: _plan(table, session, None) for table in draft.tables if table.weight is None}
    spent = sum((_own(plan).epsilon for plan in fixed.values()), Fraction(0))
    if draft.epsilon is None:
        return fixed, _tightest(fixed, draft.delta)
    shared = [table for table in draft.tables if table.weight is not None]
    weight = sum((table.weight or Fraction(0) for table in shared), Fraction(0))
    if spent >= draft.epsilon and not draft.delta:
        raise InvalidArgument(
            "epsilon", draft.epsilon, f"above {float(spent):.6g}, which the tables with an error cost",
            "Raise epsilon, or the errors.",
        )  # fmt: skip

    def at(factor: float | Fraction) -> Plans:
        made = {table.name: _plan(table, session, factor * (table.weight or 1)) for table in shared}  # type: ignore[arg-type]
        return {table.name: {**fixed, **made}[table.name] for table in draft.tables}

    plain = (draft.epsilon - spent) / weight
    if not draft.delta:
        plans = at(plain)
        return plans, _sum(plans.values())
    from deniable.calibration import calibrate  # loads scipy, as the accountant does

    target = ApproxDP(draft.epsilon, draft.delta, relation=session.ledger.relation, unit=session.ledger.unit)
    if plain > 0 and _epsilon(at(_down(plain * WORTH)), draft.delta) > draft.epsilon:
        plans = at(plain)
        return plans, _sum(plans.values())
    start = float(plain * WORTH if plain > 0 else draft.epsilon / weight / 1000)
    # k steps of ε/k each cost about √(2 ln(1/δ)/k)·ε at δ, so the factor grows by less than √k.
    end = float(draft.epsilon / weight) * (2 + math.sqrt(len(draft.tables) * _PARTS))
    found = calibrate(
        lambda factor: _composed(at(_down(factor))), target, within=(start, end), tolerance=Fraction(1, 1000)
    )
    return at(_down(found.value)), target


def _tightest(plans: Plans, delta: Fraction) -> PureDP | ApproxDP:
    """What fixed plans cost together: their sum, or a point of their composed curve where that is lower."""
    summed = _sum(plans.values())
    least = _epsilon(plans, delta) if delta else math.inf
    if not math.isfinite(least) or Fraction(least) * WORTH >= summed.epsilon:
        return summed
    return ApproxDP(short_above(least, figures=6), delta, relation=summed.relation, unit=summed.unit)


def _epsilon(plans: Plans, delta: Fraction) -> float:
    """What plans cost together at δ, by the accountant."""
    from deniable.accounting import account

    return account(_composed(plans)).epsilon(delta)


def _composed(plans: Plans) -> Event:
    return reduce(add, (plan.event for plan in plans.values()))


def _sum(plans: Iterable[Plan]) -> PureDP | ApproxDP:
    """The tables' ε and δ, added up."""
    costs = [_own(plan) for plan in plans]
    epsilon = sum((cost.epsilon for cost in costs), Fraction(0))
    delta = sum((cost.delta for cost in costs if isinstance(cost, ApproxDP)), Fraction(0))
    relation, unit = costs[0].relation, costs[0].unit
    if not delta:
        return PureDP(epsilon, relation=relation, unit=unit)
    return ApproxDP(epsilon, delta, relation=relation, unit=unit)


def _own(plan: Plan) -> PureDP | ApproxDP:
    """What one table costs."""
    if not isinstance(plan.cost, PureDP | ApproxDP):
        raise TypeError("the tables of a publication are planned with ε")
    return plan.cost


def _plan(table: DraftTable, session: Session, epsilon: Fraction | None) -> Plan:
    options = dict(table.options)
    if options["delta"] is None:
        # Gaussian noise would take a share of what the ledger has left.
        options["noise"] = options["noise"] or "laplace"
    plan = session.plan(table.sql, epsilon=epsilon, **options)
    if isinstance(plan.cost, ApproxDP) and table.options["delta"] is None:
        # A share of what the ledger has left would be another one when a run is resumed.
        raise InvalidArgument(
            f"tables.{table.name}.delta",
            None,
            "given: Gaussian noise, and keys that are found in the data, cost δ",
            "For example delta = 1e-8.",
        )
    return plan


def _down(value: float | Fraction) -> Fraction:
    """A factor to six digits, rounded down: the same decimal in the search, in the plan and in print."""
    return short_below(value, figures=6)


def rehearse(publication: Publication) -> dict[str, Release]:
    """Every table, computed on made-up rows; the numbers mean nothing."""
    with MadeUpTables(publication.session.context, publication.plans.values()) as tables:
        found = {name: tables.answer(plan) for name, plan in publication.plans.items()}
    for release in found.values():
        release.to_csv()
    return found


Progress = Callable[[str, int, int], None]
"""Told the name of what is being done, how many steps are done, and of how many."""


@dataclass(frozen=True, eq=False)
class Publication(Plain):
    """A set of tables, planned; `write` charges and makes them."""

    draft: Draft
    session: Session
    plans: dict[str, Plan]
    cost: PureDP | ApproxDP

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Publication:
        """The publication that a TOML file describes, planned; reads no rows."""
        draft = drafting.read(Path(path))
        session = Session(
            dict(draft.data), ledger=draft.ledger, public=dict(draft.public), who=draft.who, encoding=draft.encoding
        )
        try:
            return cls(draft, session, *allot(draft, session))
        except BaseException:
            session.close()
            raise

    @cached_property
    def event(self) -> Event:
        """What writing will do to the data, all tables together."""
        return reduce(add, (plan.event for plan in self.plans.values()))

    @property
    def summed(self) -> bool:
        """Whether the cost is the sum of the tables' costs, rather than a point of their composed curve."""
        return self.cost.epsilon == sum(_own(plan).epsilon for plan in self.plans.values())

    @property
    def _entered(self) -> bool:
        """Whether the event enters a ledger at its cost: the sum of its parts' ε is larger, or there is none."""
        return not self.summed or any(plan.at is not None for plan in self.plans.values())

    @property
    def digest(self) -> str:
        """What a resumed run must agree with: the file, the event it led to, and the keys that are released."""
        answers = [plan if isinstance(plan, QueryPlan) else plan.answer for plan in self.plans.values()]
        keys = [[k.texts for k in answer.keys] for answer in answers]
        return hashlib.sha256(json.dumps([self.draft.text, self.event.to_record(), keys]).encode()).hexdigest()

    def write(self, out: str | os.PathLike[str], *, progress: Progress | None = None) -> Path:
        """Rehearse, charge once, compute each table, and leave a finished folder at `out`, which must not exist.

        A run that was cut short has left `out` with `.partial` after it. Running again finishes it: nothing is charged
        again, and a table that was written is not drawn again.
        """
        say = progress or (lambda name, done, of: None)
        steps = len(self.plans) + 1
        say("rehearsal on made-up rows", 0, steps)
        rehearse(self)
        ledger = self.session.ledger
        self.session.context.engine.check(statement for plan in self.plans.values() for statement in plan.statements)
        with Folder.open(Path(out), digest=self.digest) as folder:
            if folder.whole:
                return folder.place()
            try:
                charge = ledger.charge(
                    self.event,
                    purpose=as_purpose(f"publication: {self.draft.title}"),
                    who=self.draft.who,
                    key=folder.key,
                    at=self.cost if self._entered and isinstance(ledger.budget, ApproxDP) else None,
                )
            except LedgerUnsure:
                # The charge may stand. The folder keeps its key, and running again finds out without paying twice.
                raise
            except DeniableError:
                folder.forget()
                raise
            for done, (name, plan) in enumerate(self.plans.items(), start=1):
                say(name, done, steps)
                if not folder.has(name):
                    release = compute(plan)
                    folder.keep(name, csv=release.to_csv(), facts=release.extras())
            say("method note", steps, steps)
            found = {name: folder.facts(name) for name in self.plans}
            note = method_note(self, charge, found)
            return folder.finish(note=note, record=self._record(charge), found=found)

    def _record(self, charge: Any) -> dict[str, Any]:
        """The release for machines."""
        return {
            "title": self.draft.title,
            "cost": self.cost.to_dict(),
            "event": self.event.to_dict(),
            "charge": {"row": charge.seq, "time": charge.time, "hash": charge.hash},
            "tables": {name: plan.to_dict() for name, plan in self.plans.items()},
        }

    def describe(self) -> Description:
        """The publication in public facts."""
        facts = [(name, str(plan.cost)) for name, plan in self.plans.items()]
        return Description(self.draft.title, self.cost, (*facts, ("event", repr(self.event))))

    def __str__(self) -> str:
        rows = [("table", "ε", "released with this error of the noise")]
        for name, plan in self.plans.items():
            errors = "; ".join(f"{n} {e}" for n, e in plan.error.items()) or "known once bounds and limits are found"
            rows.append((name, f"{float(_own(plan).epsilon):.6g}", errors))
        return "\n".join(
            [printable(self.draft.title), "", f"cost    {self.cost}", f"method  {self.method}", "", *aligned(rows)]
        )

    @property
    def method(self) -> str:
        """By which theorem the tables compose."""
        if self.summed:
            return "the tables' ε add up (basic composition)"
        from deniable.accounting import account

        return f"the tables' composed curve ({account(self.event).method})"

    def _repr_html_(self) -> str:
        answers = {name: plan if isinstance(plan, QueryPlan) else plan.answer for name, plan in self.plans.items()}
        errors = [(f"{name}: {n}", str(e)) for name, plan in self.plans.items() for n, e in plan.error.items()]
        shares = [(name, f"{float(_own(plan).epsilon):.6g}") for name, plan in self.plans.items()]
        view = Words(
            self.draft.title,
            (("cost", str(self.cost)), ("method", self.method)),
            (("table", "ε"), *shares),
            (("released", "error of the noise"), *errors),
            tuple((name, answer.engine.written(answer.bounded)) for name, answer in answers.items()),
        )
        return plan_html(view)

    def explain(self) -> str:
        """The publication, then every plan with the SQL that will run."""
        return "\n\n".join([str(self), *(f"{name}: {plan.explain()}" for name, plan in self.plans.items())])

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.draft.title,
            "cost": self.cost.to_dict(),
            "event": self.event.to_dict(),
            "tables": {name: plan.to_dict() for name, plan in self.plans.items()},
        }

    def close(self) -> None:
        """Let go of the tables and the ledger."""
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
