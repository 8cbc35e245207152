"""Runs: charged once, shown at the deadline, stored, read again, approved, lost and never answered twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deniable as dn
from deniable.errors import (
    AccessDenied,
    ApprovalNeeded,
    BudgetExceeded,
    InvalidArgument,
    LedgerDamaged,
    LedgerError,
    QueryError,
)
from deniable.query.engines import DuckDB
from deniable.service import jobs
from tests.service.conftest import QUESTION, Service


def test_an_answer_appears_at_the_deadline(service: Service) -> None:
    asked = service.submit("analyst", "k1")
    assert (asked.status, asked.value["state"]) == (202, "running")
    assert asked.headers["location"] == f"/v1/runs/{asked.value['id']}"
    assert service.charges == 1
    path = asked.headers["location"]
    service.clock.now += 3.9
    before = service.ask("analyst", "GET", path).value
    assert (before["state"], before["release"], before["problem"]) == ("running", None, None)
    assert service.ask("analyst", "GET", f"/v1/releases/{asked.value['id']}").status == 404
    assert service.ask("analyst", "GET", "/v1/releases").value == []
    service.clock.now += 0.2
    after = service.ask("analyst", "GET", path).value
    assert after["state"] == "done"
    release = dn.query.Release.from_json(
        service.ask("analyst", "GET", f"/v1/releases/{after['release']}").body.decode()
    )
    assert list(release.columns) == ["city", "n", "n_low", "n_high"]
    csv = service.ask("analyst", "GET", f"/v1/releases/{after['release']}.csv")
    assert csv.body.startswith(b"city,n,n_low,n_high\n")


@pytest.mark.parametrize(
    ("finished", "shown"), [(0.5, 4), (4.0, 4), (4.01, 8), (9, 16), (200, 256), (512, 512), (512.1, None)]
)
def test_a_late_answer_appears_at_one_of_eight_times(service: Service, finished: float, shown: float | None) -> None:
    id = service.submit("analyst", "k").value["id"]
    run = service.curator.store.run(id)
    assert run is not None
    for state in (jobs.DONE, jobs.FAILED, jobs.LOST):
        late = run._replace(finished=run.submitted + finished, state=state)
        seen = [t for t in range(1100) if jobs.view(late, run.submitted + t).state in ("done", "failed")]
        assert seen[0] == (512 if shown is None else shown)
        states = {jobs.view(late, run.submitted + t).state for t in seen}
        assert states == ({"done"} if state == jobs.DONE and shown is not None else {"failed"})


def test_until_it_is_shown_nothing_tells_whether_it_is_computed(service: Service) -> None:
    run = service.curator.store.run(service.submit("analyst", "k").value["id"])
    assert run is not None
    forms = [
        run._replace(state=jobs.CHARGED, finished=None),
        run._replace(state=jobs.DONE, finished=run.submitted + 1),
        run._replace(state=jobs.FAILED, finished=run.submitted + 3),
        run._replace(state=jobs.LOST, finished=run.submitted + 2),
    ]
    for after in (0, 1, 2.5, 3.99):
        assert len({str(jobs.view(form, run.submitted + after)) for form in forms}) == 1


def test_an_error_after_the_charge_is_one_sentence_at_the_deadline(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for number, failure in enumerate((ValueError("patient 17 costs 49"), MemoryError(), LedgerError("row 7"))):

        def fail(*given: Any, failure: Exception = failure, **more: Any) -> None:
            raise failure

        monkeypatch.setattr(DuckDB, "run", fail)
        asked = service.submit("analyst", f"k{number}", epsilon=0.1 + number / 100)
        assert asked.value["state"] == "running"
        service.clock.now += 3.5
        assert service.ask("analyst", "GET", asked.headers["location"]).value["state"] == "running"
        service.clock.now += 1
        after = service.ask("analyst", "GET", asked.headers["location"]).value
        assert after["state"] == "failed"
        told.append(str(after["problem"]))
    assert len(set(told)) == 1
    assert "the charge stands" in told[0]
    assert service.charges == 3


def test_the_same_key_is_the_same_run(service: Service) -> None:
    first, second = (service.submit("analyst", "k").value for _ in range(2))
    assert first["id"] == second["id"]
    assert service.charges == 1
    other = service.submit("analyst", "k", epsilon=0.2)
    assert (other.status, service.charges) == (409, 1)
    assert service.submit("other", "k").value["id"] != first["id"]  # another account's key is another key
    assert service.charges == 2


def test_the_same_question_is_answered_from_store(service: Service) -> None:
    first = service.submit("analyst", "k1").value["id"]
    service.clock.now += 5
    again = service.submit("analyst", "k2").value
    assert (again["id"], again["state"], again["release"]) == (first, "done", first)
    spaced = service.submit("analyst", "k3", fresh=True).value
    assert spaced["id"] != first
    assert service.charges == 2


def test_another_analyst_pays_from_their_own_budget_alone(service: Service) -> None:
    first = service.submit("analyst", "k1").value["id"]
    service.clock.now += 5
    ledger = service.curator.session.ledger
    common, own = ledger.remaining(), ledger.remaining(who="ben")
    read = service.submit("other", "k1").value
    assert (read["state"], read["release"]) == ("done", first)
    assert ledger.remaining() == common
    assert own.numbers["epsilon"] - ledger.remaining(who="ben").numbers["epsilon"] == dn._checks.exact(0.1)
    service.submit("other", "k2")
    assert float(ledger.remaining(who="ben").numbers["epsilon"]) == 0.9
    mine = service.ask("analyst", "GET", f"/v1/releases/{first}").body
    assert service.ask("other", "GET", f"/v1/releases/{first}").body == mine
    assert service.charges == 1
    ledger.verify()


def test_what_was_read_before_a_budget_counts(make: Callable[..., Service], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(dn.Ledger, "allot", lambda *_, **__: None)  # nobody has a budget yet
        service = make()
    first = service.submit("analyst", "k1").value["id"]
    service.clock.now += 5
    assert service.submit("other", "k1").value["release"] == first
    given = {"kind": "analyst", "name": "ben", "epsilon": "1/2", "decision": "the board"}
    assert service.ask("curator", "POST", "/v1/envelopes", given).status == 204
    ledger = service.curator.session.ledger
    assert float(ledger.remaining(who="ben").numbers["epsilon"]) == 0.4
    ledger.verify()


def test_a_changed_file_gives_no_stored_answer(service: Service, tmp_path: Path) -> None:
    service.submit("analyst", "k1")
    service.clock.now += 5
    with (tmp_path / "visits.csv").open("a") as file:
        file.write("99,Bern,3\n")
    service.curator.close()
    service.open()
    assert service.submit("analyst", "k2").value["state"] == "running"
    assert service.charges == 2


def test_a_refusal_before_the_charge_is_told_at_once(service: Service) -> None:
    refused = service.submit("analyst", "k", epsilon=1.5)
    assert refused.status == 402
    assert refused.value["type"] == "urn:deniable:error:BudgetExceeded"
    assert refused.value["largest"]["epsilon"] == 1
    again = service.submit("analyst", "k", epsilon=1.5)
    assert (again.status, service.charges) == (402, 0)
    assert service.submit("analyst", "k2", sql="SELECT * FROM visits").status == 422
    assert service.ask("analyst", "POST", "/v1/runs", QUESTION).status == 422  # no key


def test_limits(make: Callable[..., Service]) -> None:
    service = make(most_sql=100, most_keys=3, most_aggregates=2, most_waiting_each=2, most_epsilon_per_run=0.3,
                   most_epsilon_per_day=0.5)  # fmt: skip
    many = ", ".join(f"COUNT(*) AS c{i}" for i in range(3))
    for changes, word in (
        ({"sql": QUESTION["sql"] + " " * 100}, "100 characters"),
        ({"keys": {"city": ["a", "b", "c", "d"]}}, "at most 3"),
        ({"sql": f"SELECT {many} FROM visits", "keys": None}, "2 aggregates"),
        ({"epsilon": 0.4}, "0.3 in one run"),
        ({"unknown": 1}, "unknown"),
        ({"epsilon": "many"}, "a number"),
        ({"epsilon": "1/10", "cost": {"kind": "nothing"}}, ""),
    ):
        reply = service.submit("analyst", "k", **changes)
        assert reply.status == 422, changes
        assert word in reply.value["detail"]
    assert service.ask("analyst", "POST", "/v1/plans", {"sql": "x" * 70_000}).status == 422
    for number in range(2):
        assert service.submit("analyst", f"w{number}", epsilon=0.1 + number / 100).status == 202
    busy = service.submit("analyst", "w2", epsilon=0.15)
    assert (busy.status, busy.headers["retry-after"]) == (429, "4")
    service.clock.now += 5
    assert service.submit("analyst", "w2", epsilon=0.25).status == 202  # a place is free when an answer is shown
    day = service.submit("analyst", "w3", epsilon=0.12)
    assert "of 0.5 for a day" in day.value["detail"]
    service.clock.now += 86_500
    assert service.submit("analyst", "w4", epsilon=0.12).status == 202


def test_approval_by_a_second_person_of_the_plan_that_they_saw(make: Callable[..., Service]) -> None:
    service = make(approval_above=0.2)
    waiting = service.submit("analyst", "k", epsilon=0.5).value
    assert (waiting["state"], service.charges) == ("waiting", 0)
    [request] = service.ask("curator", "GET", "/v1/approvals").value
    path, plan = f"/v1/approvals/{waiting['id']}", request["plan"]
    fine = {"approve": True, "plan": plan, "reason": "grant 12"}
    assert service.ask("analyst", "POST", path, fine).status == 403
    assert service.ask("curator", "POST", path, {**fine, "plan": "0" * 64}).status == 422
    service.submit("other", "meanwhile", sql="SELECT COUNT(*) AS n FROM visits", keys=None)  # default shares of δ move
    approved = service.ask("curator", "POST", path, fine)
    assert approved.value["state"] == "running"
    assert service.ask("curator", "POST", path, fine).status == 404
    service.clock.now += 5
    assert service.submit("analyst", "k", epsilon=0.5).value["state"] == "done"
    denied = service.submit("analyst", "k2", epsilon=0.3).value["id"]
    [request] = service.ask("owner", "GET", "/v1/approvals").value
    no = {"approve": False, "plan": request["plan"], "reason": "too much for one table"}
    assert service.ask("owner", "POST", f"/v1/approvals/{denied}", no).value["state"] == "denied"
    assert "too much for one table" in service.submit("analyst", "k2", epsilon=0.3).value["problem"]["detail"]
    assert service.charges == 2


def test_nobody_approves_their_own_run(make: Callable[..., Service]) -> None:
    service = make(approval_above=0.2)
    id = service.submit("analyst", "k", epsilon=0.5).value["id"]
    plan = service.curator.approvals()[0]["plan"]
    from deniable.service.access import Member

    with pytest.raises(AccessDenied):
        service.curator.decide(Member("ana", "curator"), id, approve=True, plan=plan, reason="mine")


class _Killed(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("where", ["before the charge", "after the charge", "after computing"])
def test_a_worker_that_dies_leaves_at_most_one_answer(
    where: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = service.curator.store

    def die(*given: Any, **more: Any) -> Any:
        raise _Killed

    with monkeypatch.context() as patched:
        if where == "before the charge":
            patched.setattr(service.curator.jobs, "_charge", die)
        elif where == "after the charge":
            patched.setattr(service.curator.jobs, "keep_head", die)
        else:
            patched.setattr(service.curator.jobs, "_finish", die)
        with pytest.raises(_Killed):
            service.curator.jobs.submit("ana", jobs.requests.decode(jobs.json.dumps(QUESTION)), "k")
    assert store.runs("id IN (SELECT run FROM service_answers)") == []
    service.curator.close()
    service.open()
    service.curator.jobs.recover()
    service.clock.now += 700
    retried = service.submit("analyst", "k")
    charged = 0 if where == "before the charge" else 1
    assert service.charges == charged
    assert retried.status == (409 if where == "before the charge" else 202)
    if charged:
        assert retried.value["state"] == "failed"
    service.submit("analyst", "anew")
    service.clock.now += 5
    assert service.submit("analyst", "anew").value["state"] == "done"
    assert (service.charges, len(service.curator.store.runs("id IN (SELECT run FROM service_answers)"))) == (
        charged + 1,
        1,
    )


def test_a_store_that_was_set_back_gives_no_second_answer(service: Service) -> None:
    id = service.submit("analyst", "k").value["id"]
    service.clock.now += 5
    service.curator.store.ask("DELETE FROM service_runs")
    # At once, without a start between: the key has paid.
    assert service.submit("analyst", "k").status == 503
    service.curator.store.ask("DELETE FROM service_runs")
    service.curator.jobs.recover()
    assert service.submit("analyst", "k").status == 409
    assert service.ask("analyst", "GET", f"/v1/releases/{id}").status == 404
    assert service.charges == 1


def test_a_ledger_that_was_set_back_is_refused_at_start(service: Service, tmp_path: Path) -> None:
    service.submit("analyst", "k")
    heads = tmp_path / "heads.log"
    assert heads.read_text().split()[-1] == str(service.curator.session.ledger.head())
    service.curator.jobs.recover()
    head = service.curator.session.ledger.head()
    heads.write_text(f"{head.seq + 1}:{'0' * 64}\n")
    with pytest.raises(LedgerDamaged, match="set back"):
        service.curator.jobs.recover()
    heads.unlink()
    service.curator.store.ask("UPDATE service_runs SET charge = 99")
    with pytest.raises(LedgerDamaged, match="set back"):
        service.curator.jobs.recover()


def test_a_worker_that_comes_back_after_it_was_given_up_stores_nothing(service: Service) -> None:
    run = service.curator.store.run(service.submit("analyst", "k").value["id"])
    assert run is not None
    store = service.curator.store
    store.ask("UPDATE service_runs SET state = 'lost' WHERE id = ?", run.id)
    store.ask("DELETE FROM service_answers")
    assert not store.add_answer(run.id, jobs.CHARGED, jobs.DONE, release="{}", finished=1.0)
    assert store.answer(run.id) is None


def test_sixteen_at_once_for_the_last_of_a_budget(make: Callable[..., Service]) -> None:
    """Two workers, eight threads each, for the last ε = 1 in steps of 0.1."""
    service = make(most_waiting_each=100)
    second = jobs.Jobs(service.settings, service.curator.store, service.curator.session, clock=service.clock)
    states: list[str] = []

    def spend(worker: jobs.Jobs, number: int) -> None:
        request = jobs.requests.decode(jobs.json.dumps({**QUESTION, "fresh": True}))
        try:
            states.append(worker.submit("ana", request, f"k{number}").state)
        except BudgetExceeded:
            states.append("refused")

    workers = (service.curator.jobs, second)
    threads = [threading.Thread(target=spend, args=(workers[n % 2], n)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    second.close()
    service.clock.now += 700
    assert sorted(states) == ["charged"] * 10 + ["refused"] * 6
    assert service.charges == 10
    assert len(service.curator.store.runs("id IN (SELECT run FROM service_answers)")) == 10


def test_the_client_is_a_session(make: Callable[..., Service], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    service = make(approval_above=0.5)
    with service.client("analyst") as session:
        assert [table.name for table in session.tables] == ["visits"]
        options: dict[str, Any] = {"keys": {"city": ("Bern", "Basel")}, "per_unit": dn.AtMost(groups=1, rows=2)}
        plan = session.plan(QUESTION["sql"], epsilon=0.1, **options)
        local = service.curator.session.as_("ana").plan(QUESTION["sql"], epsilon=0.1, **options)
        assert (plan.cost, plan.digest, str(plan), plan.explain()) == (
            local.cost,
            local.digest,
            str(local),
            local.explain(),
        )
        assert plan.to_dict() == local.to_dict()
        assert plan.error == {name: str(error) for name, error in local.error.items()}
        assert len(plan.rehearse()) == 2
        release = plan.run(key="once")
        assert plan.run(key="once").to_json() == release.to_json() == plan.run().to_json()
        assert plan.run(fresh=True).to_json() != release.to_json()
        assert session.remaining() == service.curator.session.ledger.remaining(who="ana")
        [*_, id] = session.releases()
        assert session.release(id).to_json() == release.to_json()
        error = session.sql("SELECT SUM(cost) AS s FROM visits", error=2000, bounds={"cost": (0, 50)},
                            per_unit=dn.AtMost(groups=1, rows=1))  # fmt: skip
        assert len(error) == 1
        with pytest.raises(QueryError) as wrong:
            session.sql("SELECT city FROM nowhere", epsilon=0.1)
        with pytest.raises(QueryError) as here:
            service.curator.session.sql("SELECT city FROM nowhere", epsilon=0.1)
        assert (str(wrong.value), wrong.value.line) == (str(here.value), here.value.line)
        with pytest.raises(InvalidArgument, match="epsilon must be"):
            session.plan(QUESTION["sql"], epsilon=-1, **options)
        session.sql(QUESTION["sql"], epsilon=0.5, **options)
        with pytest.raises(BudgetExceeded) as refused:
            session.sql(QUESTION["sql"], epsilon=0.5, confidence=0.9, **options)
        assert refused.value.largest is not None
        with pytest.raises(ApprovalNeeded):
            session.sql(QUESTION["sql"], epsilon=0.6, **options)
    assert service.tokens["analyst"] not in repr(session)


def test_a_lost_connection_is_tried_again_with_the_same_key(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    session, count = service.client("analyst"), 0
    send = session._send

    def lossy(*given: Any) -> Any:
        nonlocal count
        count += 1
        reply = send(*given)
        if count % 2:
            raise ConnectionResetError  # it was answered, and the answer is lost
        return reply

    session._send = lossy
    assert (
        len(session.sql(QUESTION["sql"], epsilon=0.1, keys=QUESTION["keys"], per_unit=dn.AtMost(groups=1, rows=2))) == 2
    )
    assert service.charges == 1
