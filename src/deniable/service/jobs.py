"""A run is a job: row, charge, compute, store, show at the deadline.

    waiting ──approved──▶ queued ──charged──▶ charged ──computed──▶ done
       │                    │                    ├──an error──▶ failed      the charge stands
       ▼                    ▼                    └──no worker left──▶ lost   the charge stands
     denied              refused: nothing was charged

**One answer for a charge.** The row is there before the charge. The charge carries the run's key, which pays once. Only
the worker whose charge was fresh computes, and it stores the answer only into a row that is still `charged`. Only a
stored answer is shown. A worker that dies after the charge leaves a row that becomes `lost`: it is paid anew, with
another key.

**Time.** The charge, and every refusal, happen while the question is being asked: they depend on what was charged and
asked before, which is public here. The answer appears at the deadline T after the question, whether it was computed
early or waited in a queue; if it is late, at 2T, 4T, … 128T, which are eight times in all. Errors after the charge
appear at the same times. A place in the queue is free again when the answer is shown, not when it is computed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from typing import Any, NamedTuple

from deniable import _files
from deniable.errors import (
    AlreadyPaid,
    ApprovalNeeded,
    DeniableError,
    InvalidArgument,
    LedgerDamaged,
    LedgerError,
    LedgerUnsure,
    ServiceBusy,
)
from deniable.guarantees import ApproxDP
from deniable.ledger.records import Head
from deniable.query import Release, Session
from deniable.query.staging import Plan, compute
from deniable.service import requests
from deniable.service.policy import CostPolicy, RunCost
from deniable.service.problems import from_problem, to_problem
from deniable.service.requests import PlanRequest
from deniable.service.settings import ServiceSettings
from deniable.service.store import KEY, RunRow, ServiceStore
from deniable.service.workers import Worker

WAITING, DENIED, QUEUED, REFUSED, CHARGED, DONE, FAILED, LOST = (
    "waiting", "denied", "queued", "refused", "charged", "done", "failed", "lost",
)  # fmt: skip

TIMES = 8
"""At how many times an answer can appear: T, 2T, … 128T."""

STORING = 0.1
"""Seconds that storing is taken to need: an answer is in the store before the time at which it is shown."""

HEADS = 1000
"""Lines of the second place among which the newest head is."""

STOPPED = (
    "the answer could not be computed; the charge stands and nothing is released. Ask whoever keeps the service, and"
    " ask again with another key"
)
"""What is said of every failure after the charge, whatever the reason."""

BEFORE = "the service stopped before the run was charged; nothing was charged. Ask again with another key"


class RunView(NamedTuple):
    """What may be known of a run at some time."""

    id: str
    state: str
    """waiting, denied, refused, running, done or failed."""
    ready: float
    """When it is worth looking again: seconds since 1970."""
    release: str | None
    """The id of the answer, once it is shown."""
    problem: dict[str, Any] | None


def run_id(who: str, key: str) -> str:
    """The id of the run that somebody's key names."""
    return "r" + hashlib.sha256(f"{who}\n{key}".encode()).hexdigest()[:31]


def shown_at(run: RunRow) -> float | None:
    """When a finished run is shown: the first of its times that is not before its end; None where it has none."""
    if run.finished is None:
        return None
    if not run.deadline or run.copied is not None or run.state in (REFUSED, DENIED):
        return run.finished
    times = (run.submitted + run.deadline * 2**turn for turn in range(TIMES))
    return next((time for time in times if run.finished <= time), None)


def view(run: RunRow, now: float) -> RunView:
    """What may be known of a run now. A function of the clock alone until the answer is shown."""
    last = run.submitted + run.deadline * 2 ** (TIMES - 1)
    if run.state in (WAITING, DENIED, REFUSED):
        problem = None if run.error is None else json.loads(run.error)
        return RunView(run.id, run.state, now + max(run.deadline, 1), None, problem)
    time = shown_at(run)
    if time is not None and time <= now:
        fine = run.state == DONE
        problem = None if fine else to_problem(LedgerError(STOPPED))
        return RunView(run.id, DONE if fine else FAILED, now, run.copied or run.id if fine else None, problem)
    if run.deadline and now >= last:
        return RunView(run.id, FAILED, now, None, to_problem(LedgerError(STOPPED)))
    steps = (run.submitted + run.deadline * 2**turn for turn in range(TIMES))
    return RunView(run.id, "running", next((step for step in steps if step > now), now + 0.05), None, None)


def open_tables(settings: ServiceSettings) -> Session:
    """The tables of a service: steady, and within the limits of its settings."""
    places = [*settings.tables.values(), *settings.public.values()]
    limited: dict[str, Any] = {} if any("://" in place for place in places) else {
        "memory": settings.memory, "threads": settings.threads, "seconds": settings.seconds or longest(settings)
    }  # fmt: skip
    return Session(
        settings.data(settings.tables), ledger=settings.ledger_place, public=settings.data(settings.public) or None,
        steady=True, **limited,
    )  # fmt: skip


def longest(settings: ServiceSettings) -> float | None:
    """After how many seconds no answer would be shown any more."""
    return settings.deadline * 2 ** (TIMES - 1) or None


def data_version(settings: ServiceSettings) -> str:
    """Names the data as they are now: another version, and stored answers are not given any more."""
    facts: list[Any] = [settings.version]
    for name, place in sorted({**settings.data(settings.tables), **settings.data(settings.public)}.items()):
        facts.append((name, place, _stamp(place)))
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _stamp(place: str) -> tuple[int, int] | None:
    try:
        status = os.stat(place)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


class Jobs:
    """The runs of one worker, over the store that all workers share."""

    def __init__(
        self, settings: ServiceSettings, store: ServiceStore, session: Session, *, clock: Callable[[], float]
    ) -> None:
        self._settings, self._store, self._session, self._clock = settings, store, session, clock
        self._pool = ThreadPoolExecutor(max_workers=settings.runners, thread_name_prefix="run")
        self._policy, self._worker = CostPolicy(settings, session.ledger.budget), Worker(settings)
        self._heads = threading.Lock()
        self.version = data_version(settings)
        self.unwritten_heads = 0
        """Heads that the second place did not take."""

    # start

    def recover(self) -> None:
        """Before the first worker starts: refuse a ledger that was set back, and give up what was cut short."""
        ledger = self._session.ledger
        ledger.verify(self.last_head())
        if self._store.uncharged():
            raise LedgerDamaged(
                "the ledger lacks charges whose answers are stored: it was set back; restore its latest state."
            )
        for id, seq in self._store.unknown_keys():
            # The answer to this charge may have been seen. Its key is burnt: it pays for nothing any more.
            self._store.add_run(_burnt(id, seq, self._clock(), self._settings))
        self.give_up_lost()
        self._worker.clear()

    def give_up_lost(self) -> None:
        """End the runs of workers of this folder that are gone: killed, or stopped with the machine."""
        for run in self._store.runs("state IN (?, ?)", QUEUED, CHARGED):
            if self._worker.knows_gone(run.instance):
                self._give_up(run)

    def look(self, id: str) -> RunRow | None:
        """A run by its id. One that is late may have lost its worker: then it ends, and is shown at its next time."""
        run = self._store.run(id)
        late = run is not None and run.state in (QUEUED, CHARGED) and self._clock() >= run.submitted + run.deadline
        if run is not None and late and self._worker.knows_gone(run.instance):
            self._give_up(run)
            return self._store.run(id)
        return run

    def _give_up(self, run: RunRow) -> None:
        """End a run that no worker computes any more."""
        paid = self._store.ask("SELECT seq FROM rows WHERE key = ?", f"{KEY}{run.id}")
        if paid:
            self._store.advance(run.id, run.state, LOST, charge=paid[0][0], finished=self._clock())
        else:
            problem = json.dumps(to_problem(LedgerError(BEFORE)))
            self._store.advance(run.id, run.state, REFUSED, error=problem, finished=self._clock())

    def last_head(self) -> Head | None:
        """The newest head in the second place. Workers write at the same time, so that it need not be the last."""
        try:
            lines = self._settings.heads_path.read_text(encoding="ascii").split()
        except OSError:
            return None
        return max((Head.parse(line) for line in lines[-HEADS:]), key=lambda head: head.seq, default=None)

    def keep_head(self) -> None:
        """Write the ledger's head to the second place."""
        try:
            with self._heads:
                _files.append_line(self._settings.heads_path, str(self._session.ledger.head()))
        except (OSError, DeniableError):  # the charge stands, and its answer is computed
            self.unwritten_heads += 1

    # asking

    def plan(self, who: str, request: PlanRequest) -> Plan:
        """The plan of a request in somebody's name, with the envelopes that it must fit: of the project that it names,
        and of every table that its statements read."""
        self.check_project(who, request.project)
        wanted = [] if request.project is None else [f"project {request.project}"]
        plan = requests.make_plan(self._session.as_(who, envelopes=wanted), request, self._settings)
        known = self._session.ledger.envelopes()
        read = [f"table {name}" for name in requests.tables_of(plan, self._session.tables) if f"table {name}" in known]
        if not read:
            return plan
        return requests.make_plan(self._session.as_(who, envelopes=[*wanted, *read]), request, self._settings)

    def check_project(self, who: str, project: str | None) -> None:
        """Refuse a project that somebody was not granted. Whether there is one of that name is not told."""
        if project is not None and not self._store.is_granted(project, who):
            raise InvalidArgument("project", project[:80], "one that you were granted", "A curator grants projects.")

    def submit(self, who: str, request: PlanRequest, key: str) -> RunRow:
        """Ask: the run is charged when this returns, or waits for an approval, or was asked before.

        The same key and request are the same run.
        """
        id = run_id(who, key)
        if (earlier := self._store.run(id)) is not None:
            return self._again(earlier, request)
        plan = self.plan(who, request)
        if not request.fresh and (stored := self._stored(who, request, plan)) is not None:
            return stored
        cost = RunCost.of(plan.cost)
        self._policy.check_run(cost)
        waits = self._policy.needs_approval(cost)
        now, question = self._clock(), request.question
        if waits and request.delta is None and request.cost is None and isinstance(plan.cost, ApproxDP):
            request.delta = str(plan.cost.delta)  # or it would be another share of what is left then
            plan = self.plan(who, request)
        run = RunRow(
            id=id, account=who, request=request.text, question=question, plan=plan.digest,
            version=self.version, epsilon="" if cost is None else str(cost.epsilon), submitted=now,
            deadline=self._settings.deadline, instance=self._worker.name, state=WAITING if waits else QUEUED,
            charge=None, error=None, finished=None, copied=None, published=None,
            delta="" if cost is None else str(cost.delta),
        )  # fmt: skip
        with self._store.writing():
            twin = self._store.run(id)
            if twin is None:
                self._check_room(who, cost, now, waits=waits)
                self._store.add_run(run)
        if twin is not None:
            return self._again(twin, request)
        return run if waits else self._charge(run, plan)

    def _again(self, run: RunRow, request: PlanRequest) -> RunRow:
        """A run whose key is used again: by the same request it is the same run, and by another it is refused."""
        if not run.account:
            raise LedgerError("the answer that this key paid for is lost; choose another key. Nothing was charged now.")
        if run.question != request.question:
            raise LedgerError("this key belongs to another question; choose another key. Nothing was charged.")
        if run.state == REFUSED and run.error is not None:
            raise from_problem(json.loads(run.error))
        return run

    def _check_room(self, who: str, cost: RunCost | None, now: float, *, waits: bool) -> None:
        """Refuse a run beyond what a day may cost, or where too many wait; as the only writer."""
        self._check_day(who, cost, now)
        waiting = self._store.runs("account = ? AND state = ?", who, WAITING) if waits else []
        if len(waiting) >= self._settings.most_waiting_each:
            raise ServiceBusy("too many of your runs wait for an approval; ask again when they are decided", seconds=60)
        since = now - self._settings.deadline * 2 ** (TIMES - 1) - 60
        recent = self._store.runs(  # of these, those that may not be shown yet
            "submitted > ? AND copied IS NULL AND state IN (?, ?, ?, ?, ?)"
            " AND (submitted + deadline > ? OR finished IS NULL OR finished > submitted + deadline)",
            since, QUEUED, CHARGED, DONE, FAILED, LOST, now,
        )  # fmt: skip
        pending = [run for run in recent if view(run, now).state == "running"]
        own = sum(run.account == who for run in pending)
        if len(pending) >= self._settings.most_waiting or own >= self._settings.most_waiting_each:
            raise ServiceBusy(
                "too many questions wait for their answers; ask again later", seconds=self._settings.deadline or 1
            )

    def _check_day(self, who: str, cost: RunCost | None, now: float, *, but: str = "") -> None:
        """Refuse a run beyond what a day may cost beside all others of the day; as the only writer."""
        if self._policy.limits_days:
            today = self._store.runs(
                "account = ? AND submitted > ? AND state NOT IN (?, ?) AND copied IS NULL AND id <> ?",
                who, now - 86_400, REFUSED, DENIED, but,
            )  # fmt: skip
            self._policy.check_day(cost, today)

    # answers that are stored

    def _stored(self, who: str, request: PlanRequest, plan: Plan) -> RunRow | None:
        """A run whose answer can be read in place of a new one: free, or charged to the reader's own budget alone."""
        now = self._clock()
        same = self._store.runs(
            "version = ? AND state = ? AND copied IS NULL AND (plan = ? OR question = ?)",
            self.version, DONE, plan.digest, request.question,
        )  # fmt: skip
        shown = [run for run in same if view(run, now).state == DONE]
        own = next((run for run in shown if run.account == who), None)
        if own is not None or not shown:
            return own
        return self.read(who, shown[0], request)

    def read(self, who: str, run: RunRow, request: PlanRequest) -> RunRow:
        """The answer of another analyst's run, for one who pays from their own budget. Where they have none, the ledger
        records the reading: a budget that they get later counts it."""
        id = "c" + hashlib.sha256(f"{who}\n{run.id}".encode()).hexdigest()[:31]
        if (earlier := self._store.run(id)) is not None:
            return earlier
        ledger, seq = self._session.ledger, None
        if run.charge is not None:
            seq = ledger.charge_reader(run.charge, who=who, purpose=f"reads {run.id}", key=f"service {id}").seq
            self.keep_head()
        now = self._clock()
        copy = run._replace(
            id=id, account=who, request=request.text, question=request.question, submitted=now, charge=seq,
            finished=now, copied=run.id, published=None, epsilon="", delta="",
        )  # fmt: skip
        with self._store.writing():
            earlier = self._store.run(id)
            if earlier is None:
                self._store.add_run(copy)
        return earlier or copy

    # approvals

    def admit(self, run: RunRow) -> RunRow | None:
        """Let a run wait no longer; None where it does not wait. It counts on this day, and must fit it: on the day on
        which it was asked for it may count no more."""
        now = self._clock()
        cost = RunCost(Fraction(run.epsilon), Fraction(run.delta or 0)) if run.epsilon else None
        self._check_day(run.account, cost, now, but=run.id)
        waited = self._store.advance(run.id, WAITING, QUEUED, submitted=now)
        return run._replace(state=QUEUED, submitted=now) if waited else None

    def deny(self, run: RunRow, reason: str) -> RunRow | None:
        """End a run that waits; None where it does not wait."""
        problem = json.dumps(to_problem(ApprovalNeeded(f"the run was not approved: {reason}. Nothing was charged.")))
        waited = self._store.advance(run.id, WAITING, DENIED, error=problem, finished=self._clock())
        return self._store.run(run.id) if waited else None

    def charge_approved(self, run: RunRow) -> RunRow:
        """Charge and compute a run that a second person has approved, if its plan is still the one that they saw."""
        try:
            plan = self.plan(run.account, requests.decode(run.request))
        except DeniableError as refusal:
            return self._refuse(run, refusal)
        if plan.digest != run.plan:
            return self._refuse(
                run, LedgerError("the plan is not the one that was approved; ask again. Nothing was charged.")
            )
        try:
            return self._charge(run, plan)
        except DeniableError:
            return self._store.run(run.id) or run

    # charging and computing

    def _refuse(self, run: RunRow, refusal: DeniableError) -> RunRow:
        self._store.advance(run.id, QUEUED, REFUSED, error=self._problem(refusal), finished=self._clock())
        return self._store.run(run.id) or run

    def _problem(self, refusal: DeniableError) -> str:
        return json.dumps(to_problem(refusal, hidden=self._settings.places))

    def _charge(self, run: RunRow, plan: Plan) -> RunRow:
        """Charge, then compute. What is refused was not charged."""
        try:
            charge = plan.pay(key=f"{KEY}{run.id}", purpose=f"run {run.id}")
        except (AlreadyPaid, LedgerUnsure):
            # Nobody knows whether the answer to this charge was seen, or the charge may stand: it is given up.
            self._store.advance(run.id, QUEUED, LOST, finished=self._clock())
            raise LedgerUnsure("the run is lost, and its charge may stand; ask again with another key") from None
        except DeniableError as refusal:
            self._refuse(run, refusal)
            raise
        self._store.advance(run.id, QUEUED, CHARGED, charge=charge.seq)
        self.keep_head()
        self._pool.submit(compute, plan).add_done_callback(lambda computed: self._finish(run.id, computed))
        return run._replace(state=CHARGED, charge=charge.seq)

    def _finish(self, id: str, computed: Future[Release]) -> None:
        """Store an answer, or that there is none. Only into a row that still waits for it."""
        end = self._clock() + (STORING if self._settings.deadline else 0)
        if computed.cancelled() or computed.exception() is not None:
            self._store.advance(id, CHARGED, FAILED, finished=end)
            return
        self._store.add_answer(id, CHARGED, DONE, release=computed.result().to_json(), finished=end)

    # looking

    def late(self, runs: Sequence[RunRow]) -> int:
        """How many runs were not shown at their deadline. It changes at the times of answers alone, as these do."""
        now = self._clock()
        due = [run for run in runs if run.deadline and now >= run.submitted + run.deadline]
        return sum((shown_at(run) or math.inf) > run.submitted + run.deadline for run in due)

    def close(self) -> None:
        """Wait for what is being computed."""
        self._pool.shutdown(wait=True)
        self._worker.close()


def _burnt(id: str, seq: int, now: float, settings: ServiceSettings) -> RunRow:
    return RunRow(
        id=id, account="", request="{}", question="", plan="", version="", epsilon="", submitted=now, deadline=0,
        instance=settings.instance, state=LOST, charge=seq, error=None, finished=now, copied=None,
        published=None, delta="",
    )  # fmt: skip
