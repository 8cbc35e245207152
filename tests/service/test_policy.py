"""Projects that are granted, limits of ε and δ, passwords that change, and refusals that leave nothing behind."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import deniable as dn
from deniable.errors import InvalidArgument
from deniable.service import jobs
from deniable.service.policy import CostLimit, RunCost
from deniable.service.settings import ServiceSettings
from deniable.service.store import SCHEMA, ServiceStore
from deniable.service.workers import Worker
from tests.service.conftest import QUESTION, Reply, Service, ask

PASSWORD, NEW = "correct horse battery", "staple correct horse"
FOUND = {"sql": QUESTION["sql"], "keys": None, "per_unit": {"groups": 1, "rows": 2}}
"""Keys are found, so that it costs δ."""


# projects


def grant(service: Service, account: str, *, granted: bool = True, role: str = "curator") -> int:
    return service.ask(role, "POST", "/v1/projects/flu", {"account": account, "granted": granted}).status


def test_a_project_is_named_by_those_who_were_granted_it(service: Service) -> None:
    unknown = service.submit("analyst", "k", project="flu")
    assert (unknown.status, grant(service, "ana")) == (422, 404)  # there is no such project yet
    service.curator.session.ledger.open_envelope("project flu", epsilon=0.3, decision="x")
    for path in ("/v1/plans", "/v1/rehearsals", "/v1/runs"):
        reply = service.ask("analyst", "POST", path, {**QUESTION, "project": "flu"}, Idempotency_Key="k")
        assert reply.status == 422
        assert reply.body == unknown.body  # whether there is one is not told
    assert [grant(service, name) for name in ("ana", "ota", "nobody")] == [204, 404, 404]
    assert service.submit("analyst", "k", project="flu").status == 202
    assert service.submit("other", "k", project="flu").status == 422
    assert service.ask("analyst", "GET", "/v1/projects").value == [{"name": "flu"}]
    assert service.ask("other", "GET", "/v1/projects").value == []
    assert service.ask("auditor", "GET", "/v1/projects").value == [{"name": "flu", "accounts": ["ana"]}]
    assert grant(service, "ana", granted=False) == 204
    assert service.submit("analyst", "k2", project="flu", epsilon=0.11).status == 422
    assert service.charges == 1
    slash = {"kind": "project", "name": "a/b", "epsilon": 0.1, "decision": "x"}
    assert service.ask("curator", "POST", "/v1/envelopes", slash).status == 422


def test_a_grant_that_ends_while_a_run_waits_is_seen(make: Callable[..., Service]) -> None:
    service = make(approval_above=0.05)
    service.curator.session.ledger.open_envelope("project flu", epsilon=0.3, decision="x")
    grant(service, "ana")
    id = service.submit("analyst", "k", project="flu").value["id"]
    [waiting] = service.curator.approvals()
    grant(service, "ana", granted=False)
    fine = {"approve": True, "plan": waiting["plan"], "reason": "x"}
    assert service.ask("curator", "POST", f"/v1/approvals/{id}", fine).value["state"] == "refused"
    assert service.charges == 0


def test_those_who_keep_the_service_can_plan(service: Service) -> None:
    for role in ("owner", "curator"):
        for changes in ({}, FOUND):
            reply = service.ask(role, "POST", "/v1/plans", {**QUESTION, **changes})
            assert reply.status == 200
            assert reply.value["remaining"]["epsilon"] == 3  # of the common budget
            assert service.ask(role, "POST", "/v1/rehearsals", {**QUESTION, **changes}).status == 200
    assert service.charges == 0


# limits


def test_a_limit_of_epsilon_limits_delta_too(make: Callable[..., Service]) -> None:
    service = make(most_epsilon_per_run=0.3)
    for name in ("ana", "ben"):
        service.curator.session.ledger.raise_allotment(name, dn.ApproxDP(1, 5e-7, unit="patient_id"), decision="x")
    assert service.submit("analyst", "k0", **FOUND).status == 202  # the δ of a plan by default
    for delta in ("1/2", 2e-7):
        refused = service.submit("other", "k1", **FOUND, delta=delta)
        assert (refused.status, refused.value["name"]) == (422, "delta")
    for cost in ({"kind": "ZCDP", "rho": 0.01}, {"kind": "RDP", "order": 1.001, "epsilon": 0.1}):
        assert service.submit("other", "k2", epsilon=None, cost=cost).status == 422
    assert service.charges == 1


def test_a_day_has_a_delta(make: Callable[..., Service]) -> None:
    service = make(most_epsilon_per_day=1, most_delta_per_day=5e-8, most_waiting_each=100)
    service.curator.session.ledger.raise_allotment("ana", dn.ApproxDP(1, 5e-7, unit="patient_id"), decision="x")
    for number, delta in enumerate((2e-8, 3e-8)):
        assert service.submit("analyst", f"k{number}", **FOUND, delta=delta, epsilon=0.01).status == 202
    refused = service.submit("analyst", "k2", **FOUND, delta=1e-9, epsilon=0.02)
    assert (refused.status, refused.value["name"]) == (422, "delta")
    assert "of 5e-08 for a day" in refused.value["detail"]
    assert service.submit("analyst", "k3", epsilon=0.02).status == 202  # without δ
    assert service.submit("analyst", "k4", epsilon=1.1).status == 422


def test_a_run_of_much_delta_waits_for_an_approval(make: Callable[..., Service]) -> None:
    service = make(approval_above=0.3, approval_above_delta=1e-8)
    service.curator.session.ledger.raise_allotment("ana", dn.ApproxDP(1, 5e-7, unit="patient_id"), decision="x")
    assert service.submit("analyst", "k1", **FOUND, delta=2e-8).value["state"] == "waiting"
    assert service.submit("analyst", "k2", **FOUND, delta=1e-8).value["state"] == "running"


def test_the_delta_of_a_limit_is_the_budgets_in_proportion() -> None:
    approximate, pure, zero = dn.ApproxDP(2, 1e-6), dn.PureDP(2), dn.ZCDP(0.1)
    assert CostLimit.of(None, None, approximate) is None
    assert CostLimit.of(0.5, None, approximate) == (Fraction(1, 2), Fraction(1, 4 * 10**6))
    assert CostLimit.of(0.001, None, approximate) == (Fraction(1, 1000), Fraction(1, 10**8))
    assert CostLimit.of(9, None, approximate) == (9, Fraction(1, 10**6))
    assert CostLimit.of(0.5, 0.25, approximate) == (Fraction(1, 2), Fraction(1, 4))
    assert CostLimit.of(0.5, None, pure) == (Fraction(1, 2), 0)
    assert CostLimit.of(0.5, None, zero) == (Fraction(1, 2), Fraction(1, 10**9))
    assert RunCost.of(dn.RDP(1.5, 0.1)) is None
    assert RunCost.of(dn.PureDP(0.1)) == (Fraction(1, 10), 0)


def test_a_limit_of_delta_stands_beside_one_of_epsilon(tmp_path: Path) -> None:
    plain = {"ledger": "l", "tables": {"t": "t.csv"}}
    for name in ("most_delta_per_run", "most_delta_per_day", "approval_above_delta"):
        with pytest.raises(InvalidArgument, match="left out, or given beside"):
            ServiceSettings.of(tmp_path, {**plain, name: 1e-9})


def test_tables_of_the_first_version_are_lifted(service: Service) -> None:
    store, place = service.curator.store, service.settings.ledger_place
    service.submit("analyst", "k")
    answers = store.ask("SELECT * FROM service_answers")
    store.ask("ALTER TABLE service_runs DROP COLUMN delta")
    store.ask("ALTER TABLE service_runs ADD COLUMN release TEXT")
    store.ask("UPDATE service_runs SET release = ?", answers[0][1])
    store.ask("DROP TABLE service_answers")
    store.ask("UPDATE service_schema SET version = 1")
    lifted = ServiceStore(place)
    assert [run.delta for run in lifted.runs("account = ?", "ana")] == [""]
    assert lifted.ask("SELECT * FROM service_answers") == answers
    assert lifted.ask("SELECT version FROM service_schema") == [(SCHEMA,)]
    lifted.ask("UPDATE service_schema SET version = 99")
    with pytest.raises(dn.errors.LedgerError, match="newer"):
        ServiceStore(place)
    lifted.close()


# passwords


def log_in(service: Service, name: str, password: str) -> Reply:
    return ask(service.app, "POST", "/v1/sessions", {}, json.dumps({"name": name, "password": password}).encode())


class Browser:
    """Requests of somebody who has logged in."""

    def __init__(self, service: Service, name: str, password: str) -> None:
        self.service, login = service, log_in(service, name, password)
        self.take(login)

    def take(self, reply: Reply) -> None:
        self.cookie, self.form = reply.headers["set-cookie"].partition(";")[0], reply.value["form"]

    def ask(self, method: str, path: str, body: Any = None) -> Reply:
        headers = {"Cookie": self.cookie, "X-Form-Token": self.form, "Origin": "https://dp.test"}
        return ask(self.service.app, method, path, headers, b"" if body is None else json.dumps(body).encode())


def test_a_password_is_changed_by_the_old_one_and_ends_all_sessions(service: Service) -> None:
    service.ask("owner", "POST", "/v1/accounts", {"name": "eva", "role": "curator", "password": PASSWORD})
    here, elsewhere = (Browser(service, "eva", PASSWORD) for _ in range(2))
    service.clock.now += 61
    wrong = [{"new": NEW}, {"new": NEW, "old": "wrong"}, {"new": "short", "old": PASSWORD}]
    assert [here.ask("POST", "/v1/password", body).status for body in wrong] == [403, 403, 422]
    changed = here.ask("POST", "/v1/password", {"new": NEW, "old": PASSWORD})
    assert changed.status == 200
    assert [each.ask("GET", "/v1/me").status for each in (here, elsewhere)] == [401, 401]
    here.take(changed)
    assert here.ask("GET", "/v1/me").value["name"] == "eva"
    service.clock.now += 61
    assert [log_in(service, "eva", word).status for word in (PASSWORD, NEW)] == [401, 200]
    service.clock.now += 61
    tries = [here.ask("POST", "/v1/password", {"new": NEW, "old": f"guess {n}"}).status for n in range(6)]
    assert tries == [403] * 5 + [429]  # guesses are counted here as well


def test_a_first_password_needs_a_token(service: Service) -> None:
    assert service.ask("analyst", "POST", "/v1/password", {"new": PASSWORD}).value == {"form": None}
    assert log_in(service, "ana", PASSWORD).status == 200
    assert service.ask("analyst", "POST", "/v1/password", {"new": NEW}).status == 403  # now there is an old one
    assert service.ask("analyst", "POST", "/v1/password", {"new": NEW, "old": PASSWORD}).status == 200
    assert service.ask("analyst", "GET", "/v1/me").status == 200  # tokens stay


def test_who_appoints_sets_a_password_and_ends_all_other_ways_in(service: Service) -> None:
    service.ask("analyst", "POST", "/v1/password", {"new": PASSWORD})
    browser = Browser(service, "ana", PASSWORD)
    for role, name, status in (
        ("curator", "ota", 403), ("curator", "cora", 403), ("owner", "ota", 403), ("owner", "nobody", 404),
        ("curator", "ana", 204),
    ):  # fmt: skip
        assert service.ask(role, "POST", f"/v1/accounts/{name}/password", {"new": NEW}).status == status
    assert browser.ask("GET", "/v1/me").status == 401
    assert service.ask("analyst", "GET", "/v1/me").status == 401
    service.clock.now += 61
    assert [log_in(service, "ana", word).status for word in (PASSWORD, NEW)] == [401, 200]
    assert service.ask("owner", "POST", "/v1/accounts/ana/password", {"new": NEW, "old": NEW}).status == 422
    kept = str(service.curator.store.ask("SELECT * FROM service_accounts"))
    assert NEW not in kept


def test_nobody_logs_in_by_a_password_that_changes_meanwhile(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.ask("analyst", "POST", "/v1/password", {"new": PASSWORD})
    access, proves = service.curator.access, service.curator.access._proves

    def change(account: Any, password: str) -> bool:
        proved = proves(account, password)
        access.set_password("ana", NEW)
        return proved

    monkeypatch.setattr(access, "_proves", change)
    assert log_in(service, "ana", PASSWORD).status == 401
    assert service.curator.store.ask("SELECT * FROM service_sessions") == []


# refusals leave nothing behind


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"epsilon": 99}, 402), ({"epsilon": -1}, 422), ({"epsilon": "many"}, 422), ({"epsilon": 0.1, "delta": 2}, 422),
        ({"delta": 1e-9}, 422), ({"role": "auditor", "epsilon": 1}, 422), ({"password": "short"}, 422),
    ],
)  # fmt: skip
def test_a_refused_account_leaves_nothing_behind(service: Service, changes: dict[str, Any], status: int) -> None:
    before = service.curator.store.accounts()
    new = {"name": "cem", "role": "analyst", **changes}
    reply = service.ask("curator", "POST", "/v1/accounts", new)
    assert reply.status == status or (reply.status, status) == (409, 402)
    assert service.curator.store.accounts() == before
    assert "cem" not in service.curator.session.ledger.analysts()
    assert (
        service.ask("curator", "POST", "/v1/accounts", {"name": "cem", "role": "analyst", "epsilon": 1}).status == 201
    )


def test_an_account_is_used_by_nobody_before_its_budget_is_there(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def look(*given: Any, **more: Any) -> None:
        seen.append(log_in(service, "cem", PASSWORD).status)

    monkeypatch.setattr(service.curator, "set_envelope", look)
    new = {"name": "cem", "role": "analyst", "password": PASSWORD, "epsilon": 1}
    assert service.ask("curator", "POST", "/v1/accounts", new).status == 201
    assert seen == [401]
    assert log_in(service, "cem", PASSWORD).status == 200


def test_a_refused_token_ends_no_other(service: Service) -> None:
    assert service.ask("curator", "POST", "/v1/tokens", {"account": "ben", "days": 0}).status == 422
    assert service.ask("other", "GET", "/v1/me").status == 200


# workers


def _hold(folder: str, pipe: Any) -> None:
    worker = Worker(ServiceSettings.of(Path(folder), {"ledger": "t.ledger", "tables": {"visits": "visits.csv"}}))
    pipe.send(worker.name)
    pipe.recv()


def test_a_killed_worker_is_known_at_once(service: Service, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_hold, args=(str(tmp_path), there))
    process.start()
    name, worker = here.recv(), service.curator.jobs._worker
    assert not worker.knows_gone(name)
    process.kill()
    process.join()
    assert worker.knows_gone(name)
    assert not worker.knows_gone(worker.name)
    assert not worker.knows_gone(f"another host/{name.rpartition('/')[2]}")
    worker.clear()
    assert [path.name for path in (tmp_path / ".workers").iterdir()] == [worker.name.rpartition("/")[2]]


@pytest.mark.parametrize(("charged", "seen"), [(True, "failed"), (False, "refused")])
def test_a_lost_workers_run_is_shown_at_its_next_time(
    service: Service, charged: bool, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.curator.jobs, "_finish", lambda *given: None)
    asked = service.submit("analyst", "k")
    id, store = asked.value["id"], service.curator.store
    state = jobs.CHARGED
    if not charged:
        id, state = "r" + "0" * 31, jobs.QUEUED
        run = store.run(asked.value["id"])
        assert run is not None
        store.add_run(run._replace(id=id, charge=None, state=state))
    path, gone = f"/v1/runs/{id}", f"{service.curator.jobs._worker._house}/gone"
    service.clock.now += 4.5
    assert service.ask("analyst", "GET", path).value["state"] == "running"  # its worker lives
    store.ask("UPDATE service_runs SET instance = 'elsewhere/gone' WHERE id = ?", id)
    assert service.ask("analyst", "GET", path).value["state"] == "running"  # nothing is known of other hosts
    store.ask("UPDATE service_runs SET instance = ? WHERE id = ?", gone, id)
    told = service.ask("analyst", "GET", path).value["state"]
    assert told == ("running" if charged else "refused")
    service.clock.now += 3.5
    assert service.ask("analyst", "GET", path).value["state"] == seen  # at 2T
    lost = store.run(id)
    assert lost is not None
    assert store.answer(id) is None
    assert service.charges == 1


def test_a_new_worker_gives_up_the_runs_of_one_that_is_gone(service: Service) -> None:
    store, worker = service.curator.store, service.curator.jobs._worker
    service.submit("analyst", "k")
    store.ask("UPDATE service_runs SET state = 'charged', finished = NULL")
    service.curator.jobs.give_up_lost()
    assert [run.state for run in store.runs("account = ?", "ana")] == [jobs.CHARGED]
    store.ask("UPDATE service_runs SET instance = ?", f"{worker._house}/gone")
    service.curator.jobs.give_up_lost()
    assert [(run.state, run.finished) for run in store.runs("account = ?", "ana")] == [(jobs.LOST, service.clock())]
