"""`Curator`: everything that the service does, as functions that take who asks and return plain values.

The JSON interface (`app`) and pages are written over this class. Who may call a function is decided before, by
`roles`; which run, token or account somebody may name is decided here.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deniable import _checks
from deniable._escapes import dump_json
from deniable.errors import AccessDenied, ApprovalNeeded, DeniableError, InvalidArgument, LedgerError, NotThere
from deniable.guarantees import Guarantee, read_promise
from deniable.query import Release
from deniable.service import requests, roles
from deniable.service.access import Access, Member
from deniable.service.jobs import DONE, WAITING, Jobs, RunView, open_tables, run_id, view
from deniable.service.planner import Planner
from deniable.service.problems import from_problem, to_problem
from deniable.service.requests import PlanRequest
from deniable.service.settings import ServiceSettings
from deniable.service.store import RunRow, ServiceStore

if TYPE_CHECKING:
    from deniable.service.oidc import OpenIDProvider

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes a text for a formula by."""


class Curator:
    """One worker of the service."""

    def __init__(self, settings: ServiceSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings, self.clock = settings, clock
        self.session = open_tables(settings)
        self.store = ServiceStore(settings.ledger_place)
        self.access = Access(self.store, settings)
        self.jobs = Jobs(settings, self.store, self.session, clock=clock)
        self._planner = Planner(settings) if settings.planning_seconds else None

    def start_early(self) -> None:
        """Before the first question: end the runs of a worker in whose place this one starts, and be ready to plan."""
        self.jobs.give_up_lost()
        if self._planner is not None:
            self._planner.start_early()

    def close(self) -> None:
        """Wait for what is being computed, and let go of everything."""
        self.jobs.close()
        if self._planner is not None:
            self._planner.close()
        self.store.close()
        self.session.close()
        self.session.ledger.close()

    # tables and plans

    def tables(self) -> list[dict[str, Any]]:
        """The tables that may be asked about, with their columns."""
        return [
            {
                "name": table.name,
                "public": table.public,
                "columns": [{"name": c.name, "kind": c.kind.name.lower(), "type": c.type} for c in table.columns],
            }
            for table in self.session.tables
        ]

    def promise(self) -> dict[str, Any]:
        """What everything released here keeps, all together: public."""
        ledger = self.session.ledger
        return {"title": self.settings.title, "promise": ledger.budget.to_dict(), "text": str(ledger.budget)}

    def plan(self, member: Member, body: bytes | str) -> dict[str, Any]:
        """What a question costs and how far off its answer will be; free."""
        return self._summarize(member, body, rehearse=False)

    def rehearse(self, member: Member, body: bytes | str) -> dict[str, Any]:
        """The answer to a question on made-up rows; free."""
        return self._summarize(member, body, rehearse=True)

    def _summarize(self, member: Member, body: bytes | str, *, rehearse: bool) -> dict[str, Any]:
        request: PlanRequest = requests.decode(body)
        requests.check_size(request, self.settings)
        who = self._payer(member)
        if who is not None:
            self.jobs.check_project(who, request.project)
        if self._planner is not None:
            return self._planner.summarize(who, request.text, rehearse=rehearse)
        plan = requests.make_plan(self.session.as_(who), request, self.settings)
        return plan.rehearse().to_dict() if rehearse else requests.summary(plan)

    def _payer(self, member: Member) -> str | None:
        """In whose name somebody plans: a curator has no budget, and plans against the common one."""
        return member.name if member.role == roles.ANALYST else None

    # runs and releases

    def submit(self, member: Member, body: bytes | str, key: str) -> RunView:
        """Ask a question: charged when this returns, unless it waits, was asked before, or is refused."""
        request: PlanRequest = requests.decode(body)
        requests.check_size(request, self.settings)
        _checks.text("key", key, most=200, expected="a word that names one run (Idempotency-Key)")
        if self._planner is not None:
            self._planner.summarize(member.name, request.text)  # in time, or it is refused
        return view(self.jobs.submit(member.name, request, key), self.clock())

    def run(self, member: Member, id: str) -> RunView:
        """A run of one's own."""
        run = self.jobs.look(id)
        if run is None or run.account != member.name:
            raise NotThere("there is no such run")
        return view(run, self.clock())

    def run_by_key(self, member: Member, key: str) -> RunView | None:
        """The run of one's own that a key names already."""
        run = self.store.run(run_id(member.name, key))
        return None if run is None or run.account != member.name else view(run, self.clock())

    def question(self, member: Member, id: str) -> PlanRequest:
        """What a run of one's own asks."""
        run = self.store.run(id)
        if run is None or run.account != member.name:
            raise NotThere("there is no such run")
        request: PlanRequest = requests.decode(run.request)
        return request

    def runs(self, member: Member) -> list[dict[str, Any]]:
        """One's own runs, the newest first."""
        return [
            {**view(run, self.clock())._asdict(), "sql": _sql(run), "submitted": run.submitted}
            for run in self.store.runs("account = ?", member.name)
        ]

    def answer(self, member: Member, id: str) -> Release:
        """A release: one's own, one that one has read, or a published one."""
        return Release.from_json(self.answer_text(member, id))

    def answer_text(self, member: Member, id: str) -> str:
        """The JSON of a release: as it is stored for who asked; for others with what they have left themselves."""
        run = self.store.run(id)
        if run is not None and run.copied is not None and run.account == member.name:
            run = self.store.run(run.copied)
        elif (
            run is not None and run.account != member.name and run.published is None and not self._has_read(member, id)
        ):
            run = None
        shown = run is not None and view(run, self.clock()).state == DONE
        text = self.store.answer(run.id) if run is not None and shown else None
        if run is None or text is None:
            raise NotThere("there is no such release")
        if run.account == member.name:
            return text
        return dump_json({**json.loads(text), "remaining": self._left(member)})

    def answer_csv(self, member: Member, id: str) -> str:
        """A release as CSV, which people open in spreadsheets: text that one would compute has an apostrophe before it.
        The JSON has every text as it is."""
        columns, out = self.answer(member, id).columns, io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for row in (columns, *zip(*columns.values(), strict=True)):
            writer.writerow(f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell for cell in row)
        return out.getvalue()

    def _left(self, member: Member) -> dict[str, Any] | None:
        """What is left of somebody's own budget; None for who has none."""
        ledger = self.session.ledger
        left: Guarantee | None = None
        if member.role == roles.ANALYST and (member.name in (analysts := ledger.analysts()) or not analysts):
            left = ledger.remaining(who=member.name)
        return None if left is None else left.to_dict()

    def _has_read(self, member: Member, id: str) -> bool:
        return bool(member.name) and bool(self.store.runs("account = ? AND copied = ?", member.name, id))

    def releases(self, member: Member) -> list[dict[str, Any]]:
        """The releases that somebody may read: their own, those that they have read, and those that are published."""
        rows = self.store.runs("state = ? AND (account = ? OR published IS NOT NULL)", DONE, member.name)
        told: dict[str, dict[str, Any]] = {}
        for run in rows:
            if view(run, self.clock()).state == DONE:
                id, sql = run.copied or run.id, _sql(run) if run.account == member.name else ""
                earlier = told.get(id, {"sql": "", "title": None})
                told[id] = {
                    "id": id,
                    "sql": earlier["sql"] or sql,
                    "title": earlier["title"] or run.published,
                    "submitted": run.submitted,
                }
        return list(told.values())

    def publish(self, id: str, title: str) -> None:
        """Let everybody read a release. It is private already, and costs nothing more but for analysts' own budgets."""
        _checks.text("title", title, most=200, expected="a title for everybody to read")
        run = self.store.run(id)
        if run is None or run.copied is not None or view(run, self.clock()).state != DONE:
            raise NotThere("there is no such release")
        for who in self.session.ledger.analysts():  # everybody is told, so every analyst's own budget counts it
            self._count_for(who, run)
        self.store.ask("UPDATE service_runs SET published = ? WHERE id = ?", title, id)

    def _count_for(self, who: str, run: RunRow) -> None:
        """Count a published release for an analyst, who is not told what its SQL was."""
        if who != run.account:
            self.jobs.read(who, run, PlanRequest(sql=""))

    def _count_published(self, who: str) -> None:
        for run in self.store.runs("published IS NOT NULL AND copied IS NULL"):
            self._count_for(who, run)

    # budgets

    def budget(self, member: Member) -> dict[str, Any]:
        """The promise, and what is left: one's own, and for those who keep the service everything."""
        ledger = self.session.ledger
        told: dict[str, Any] = {"promise": ledger.budget.to_dict()}
        if member.role == roles.ANALYST:
            return {**told, "remaining": self._left(member)}
        told["remaining"] = ledger.remaining().to_dict()
        told["analysts"] = {
            name: {"budget": budget.to_dict(), "remaining": ledger.remaining(who=name).to_dict()}
            for name, budget in ledger.analysts().items()
        }
        told["envelopes"] = {
            name: {"budget": budget.to_dict(), "remaining": ledger.remaining(envelope=name).to_dict()}
            for name, budget in ledger.envelopes().items()
        }
        runs = self.store.runs("copied IS NULL AND charge IS NOT NULL")
        told["late"] = {"late": self.jobs.late(runs), "runs": len(runs)}
        return told

    def set_envelope(self, member: Member, kind: str, name: str, *, epsilon: Any, delta: Any, decision: str) -> None:
        """Open or raise the envelope of an analyst, a project or a table. The decision is a row of the ledger."""
        ledger = self.session.ledger
        words = f"{member.name}: {decision}"
        budget = read_promise("budget", None, epsilon=epsilon, delta=delta, relation=ledger.relation)
        if kind == "analyst":
            account = self.store.account(name)
            if account is None or account.role != roles.ANALYST:
                raise InvalidArgument("name", name, "the account of an analyst")
            if name in ledger.analysts():
                ledger.raise_allotment(name, budget, decision=words)
            else:
                # What everybody may have read counts before the budget is made: one that it does not fit is refused.
                self._count_published(name)
                ledger.allot(name, budget)
                self._count_published(name)  # what was published meanwhile
        elif kind in ("project", "table"):
            known = [table.name for table in self.session.tables if not table.public]
            if kind == "table" and name not in known:  # it would limit nothing
                raise InvalidArgument("name", name, f"one of the tables {', '.join(known)}")
            if kind == "project" and "/" in name:
                raise InvalidArgument("name", name, "a name without /, which an address can hold")
            full = f"{kind} {name}"
            if full in ledger.envelopes():
                ledger.raise_envelope(full, budget, decision=words)
            else:
                ledger.open_envelope(full, budget, decision=words)
        else:
            raise InvalidArgument("kind", kind, "analyst, project or table")
        self.jobs.keep_head()

    def projects(self, member: Member) -> list[dict[str, Any]]:
        """The projects: an analyst's own, and for those who keep the service all, with who may name them."""
        members: dict[str, list[str]] = {
            name.removeprefix("project "): [] for name in self.session.ledger.envelopes() if name.startswith("project ")
        }
        for project, account in self.store.grants():
            members.setdefault(project, []).append(account)
        if member.role == roles.ANALYST:
            return [{"name": project} for project, accounts in members.items() if member.name in accounts]
        return [{"name": project, "accounts": accounts} for project, accounts in members.items()]

    def set_grant(self, member: Member, project: str, account: str, *, granted: bool) -> None:
        """Let an analyst name a project, or not any more. A project is there once its envelope is open."""
        if f"project {project}" not in self.session.ledger.envelopes():
            raise NotThere("there is no such project; open its envelope first")
        analyst = self.store.account(account)
        if analyst is None or analyst.role != roles.ANALYST:
            raise NotThere("there is no such analyst")
        with self.store.writing():
            self.store.ask("DELETE FROM service_grants WHERE project = ? AND account = ?", project, account)
            if granted:
                self.store.ask(
                    "INSERT INTO service_grants VALUES (?, ?, ?, ?)", project, account, member.name, self.clock()
                )

    # approvals

    def approvals(self) -> list[dict[str, Any]]:
        """The runs that wait for a second person, each with the digest of its plan and what it would do."""
        waiting = []
        for run in self.store.runs("state = ?", WAITING):
            told: dict[str, Any] = {"current": False, "cost": None}
            try:
                plan = self.jobs.plan(run.account, requests.decode(run.request))
                told = {"current": plan.digest == run.plan, "cost": plan.cost.to_dict(), "text": str(plan)}
            except DeniableError as refusal:  # of this run alone; the others can be decided
                told["text"] = to_problem(refusal, hidden=self.settings.places)["detail"]
            facts = {"id": run.id, "account": run.account, "sql": _sql(run), "plan": run.plan}
            waiting.append({**facts, **told, "submitted": run.submitted})
        return waiting

    def decide(self, member: Member, id: str, *, approve: bool, plan: str, reason: str) -> RunView:
        """Approve or deny a run that waits: the plan of this digest, and never one's own."""
        run = self.store.run(id)
        if run is None or run.state != WAITING:
            raise NotThere("there is no such run that waits")
        if run.account == member.name:
            raise AccessDenied("nobody approves their own run")
        if plan != run.plan:
            raise InvalidArgument("plan", plan[:80], "the digest of the plan that waits")
        asker = self.store.account(run.account)
        if approve and (asker is None or asker.disabled):
            raise LedgerError("the account that asked has ended, and nobody would read the answer; deny the run.")
        _checks.text("reason", reason, most=1000, expected="a few words")
        with self.store.writing():  # the decision and what it does to the run, or neither
            after = self.jobs.admit(run) if approve else self.jobs.deny(run, reason)
            if after is None:
                raise LedgerError("this run is decided already.")
            word = "approve" if approve else "deny"
            self.store.ask(
                "INSERT INTO service_approvals VALUES (?, ?, ?, ?, ?, ?)",
                id, member.name, word, reason, plan, self.clock(),
            )  # fmt: skip
        return view(self.jobs.charge_approved(after) if approve else after, self.clock())

    # the record

    def charges(self) -> list[dict[str, Any]]:
        """The charges of the ledger, oldest first."""
        return [charge.to_dict() for charge in self.session.ledger.charges()]

    def export(self) -> Iterator[str]:
        """The ledger's whole record, as lines of JSON that verify by themselves."""
        return self.session.ledger.export()

    def head(self) -> dict[str, Any]:
        """The end of the ledger, and the newest head in the second place."""
        kept = self.jobs.last_head()
        return {"head": str(self.session.ledger.head()), "kept": None if kept is None else str(kept)}

    # accounts and tokens

    def accounts(self) -> list[dict[str, Any]]:
        """All accounts, without secrets."""
        return [
            {"name": each.name, "role": each.role, "created": each.created, "disabled": bool(each.disabled)}
            for each in self.store.accounts()
        ]

    def add_account(
        self, member: Member, name: str, role: str, *, password: str | None = None, epsilon: Any = None,
        delta: Any = None,
    ) -> None:  # fmt: skip
        """A new account; an analyst gets a budget of their own with `epsilon`."""
        if not roles.may_appoint(member.role, role):
            raise AccessDenied(f"a {member.role} may not make an account of this role")
        if epsilon is not None and role != roles.ANALYST:
            raise InvalidArgument("epsilon", epsilon, "left out: only analysts have budgets")
        if delta is not None and epsilon is None:
            raise InvalidArgument("delta", delta, "left out, or given beside epsilon")
        # Nobody can use the account before its budget is there. A budget that is refused leaves no account.
        self.access.add_account(name, role, password=password, now=self.clock(), disabled=True)
        try:
            if epsilon is not None:
                self.set_envelope(member, "analyst", name, epsilon=epsilon, delta=delta, decision="new account")
        except BaseException:
            self.access.forget(name)
            raise
        self.access.enable(name)

    def disable_account(self, member: Member, name: str) -> None:
        """End all access of an account."""
        account = self.store.account(name)
        if account is None:
            raise NotThere("there is no such account")
        if not roles.may_appoint(member.role, account.role) or name == member.name:
            raise AccessDenied("this account may not be ended by you")
        self.access.disable(name)

    def add_token(
        self, member: Member, *, label: str, days: float | None, account: str | None = None
    ) -> dict[str, str]:
        """A new token, whose text is shown this once; for oneself, or by who appoints for another account.

        A token that somebody else makes ends all others of the account: nobody can act in its name unseen.
        """
        name = account or member.name
        if alone := name != member.name:
            other = self.store.account(name)
            if other is None or not roles.may_appoint(member.role, other.role):
                raise AccessDenied("tokens of this account are not yours to make")
            label = f"made by {member.name}: {label}"
        id, text = self.access.add_token(name, label=label, days=days, now=self.clock(), alone=alone)
        return {"id": id, "token": text}

    def tokens(self, member: Member) -> list[dict[str, Any]]:
        """One's own tokens, without their secrets."""
        return [
            {"id": t.id, "label": t.label, "created": t.created, "expires": t.expires, "revoked": bool(t.revoked)}
            for t in self.store.tokens(member.name)
        ]

    def revoke_token(self, member: Member, id: str) -> None:
        """End one of one's own tokens."""
        if not self.access.revoke(id, account=member.name):
            raise NotThere("there is no such token")

    def set_identity(self, member: Member, name: str, subject: str | None) -> None:
        """By which subject of the OpenID provider an account logs in; written down by who appoints it."""
        if subject is not None:
            _checks.text("subject", subject, most=255, expected="the `sub` that the provider gives")
        account, issuer = self.store.account(name), self.settings.oidc.get("issuer")
        if account is None or issuer is None:
            raise NotThere("there is no such account, or no provider")
        if not roles.may_appoint(member.role, account.role) or (name == member.name and member.form is not None):
            raise AccessDenied("the identity of this account is not yours to set; one's own needs a token")
        self.access.set_identity(name, issuer, subject, decided=member.name, now=self.clock())

    @cached_property
    def provider(self) -> OpenIDProvider:
        """The OpenID provider of the settings."""
        from deniable.service.oidc import OpenIDProvider

        if not self.settings.oidc:
            raise NotThere("this service has no OpenID provider")
        return OpenIDProvider(self.settings, clock=self.clock)

    def set_password(self, member: Member, name: str, new: str) -> None:
        """A new password for another account, by who appoints it. It ends all other ways into the account."""
        account = self.store.account(name)
        if account is None:
            raise NotThere("there is no such account")
        if not roles.may_appoint(member.role, account.role) or name == member.name:
            raise AccessDenied("the password of this account is not yours to set")
        self.access.set_password(name, new)


def _sql(run: RunRow) -> str:
    return str(json.loads(run.request).get("sql", ""))


def problem_of(told: RunView) -> DeniableError | None:
    """The error of a run that has none to show."""
    if told.state == WAITING:
        return ApprovalNeeded("the run waits for an approval; nothing was charged")
    return None if told.problem is None else from_problem(told.problem)
