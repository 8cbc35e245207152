"""Several tables, planned as one fixed event, charged once, written once.

The event of a publication is the sum of its tables' events, all fixed before any row is read; `allotment` says how
much of ε each table gets.

**Once.** See `folder`: a run that was cut short is resumed under the same key, which the ledger charges once.

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
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deniable._escapes import printable
from deniable._forms import Plain
from deniable.descriptions import Description
from deniable.errors import DeniableError, LedgerUnsure
from deniable.events import Event
from deniable.guarantees import ApproxDP, PureDP
from deniable.ledger.records import as_purpose
from deniable.query import planning, staging
from deniable.query.explanation import Words, aligned
from deniable.query.notebook import plan_html
from deniable.query.planning import QueryPlan
from deniable.query.publication import draft as drafting
from deniable.query.publication.allotment import allot
from deniable.query.publication.draft import Draft
from deniable.query.publication.folder import Folder
from deniable.query.publication.note import method_note
from deniable.query.publication.rehearsal import rehearse
from deniable.query.release import Release
from deniable.query.session import Session
from deniable.query.staging import Plan

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
        return self.cost.epsilon == sum(plan.cost.epsilon for plan in self.plans.values())

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
                    at=None if self.summed or not isinstance(ledger.budget, ApproxDP) else self.cost,
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
                    release = answer(plan)
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
            rows.append((name, f"{float(plan.cost.epsilon):.6g}", errors))
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
        shares = [(name, f"{float(plan.cost.epsilon):.6g}") for name, plan in self.plans.items()]
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


def answer(plan: Plan) -> Release:
    """Compute and add noise, without charging: the publication has charged for all of its tables."""
    return planning.answer(plan) if isinstance(plan, QueryPlan) else staging.answer(plan)
