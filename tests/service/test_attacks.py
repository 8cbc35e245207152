"""What was tried against the service and must not work again: each test is an attack, or the cousin of one."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import deniable as dn
from deniable.errors import DeniableError, InvalidArgument, LedgerError, ServiceBusy
from deniable.query.release import Release
from deniable.service import client, planner, requests, running
from deniable.service.access import MOST_LOGINS
from deniable.service.settings import ServiceSettings
from tests.service.conftest import QUESTION, Service, ask, finish

PASSWORD = "correct horse battery"


def publish(service: Service, role: str = "analyst", **changes: Any) -> str:
    """The id of a release that everybody may read."""
    id: str = service.submit(role, f"published by {role}", **changes).value["id"]
    service.clock.now += 5
    assert service.ask("curator", "POST", f"/v1/releases/{id}/publication", {"title": "Visits"}).status == 204
    return id


# what others are told


def test_a_release_tells_nobody_what_another_analyst_has_left(service: Service) -> None:
    service.submit("analyst", "first", epsilon=0.25)
    id = publish(service)
    left = {role: service.ask(role, "GET", f"/v1/releases/{id}").value["remaining"] for role in ("analyst", "other")}
    assert (left["analyst"]["epsilon"], left["other"]["epsilon"]) == (0.65, 0.9)
    for role in (None, "curator", "auditor"):
        reply = service.ask(role, "GET", f"/v1/releases/{id}")
        assert reply.value["remaining"] is None
        release = Release.from_json(reply.body.decode())
        assert "remaining" not in str(release)
        assert release.to_json().encode() == reply.body
        assert service.ask(role, "GET", f"/v1/releases/{id}.csv").status == 200


def test_a_published_release_tells_nobody_its_sql(service: Service) -> None:
    sql = "SELECT COUNT(*) AS n FROM visits WHERE city = 'Zyxwv'"
    id = publish(service, sql=sql, keys=None)
    for path in ("/v1/runs", "/v1/releases"):
        assert b"Zyxwv" in service.ask("analyst", "GET", path).body
        assert b"Zyxwv" not in service.ask("other", "GET", path).body
    [listed] = service.ask("other", "GET", "/v1/releases").value
    assert (listed["id"], listed["title"]) == (id, "Visits")


def test_no_refusal_says_where_the_ledger_lies(service: Service, tmp_path: Path) -> None:
    (tmp_path / "t.ledger").rename(tmp_path / "gone")
    replies = [
        service.submit("analyst", "k"),
        service.ask("curator", "POST", "/v1/accounts", {"name": "n", "role": "analyst"}),
    ]
    (tmp_path / "gone").rename(tmp_path / "t.ledger")
    for reply in replies:
        assert reply.status in (409, 503)
        assert str(tmp_path) not in reply.body.decode()


def test_nobody_is_told_what_a_database_says(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("/v1/releases/\0", "/v1/runs/a\0b"):
        assert service.ask("analyst", "GET", path).status == 422
    body = json.dumps({"name": "\0", "password": "x"}).encode()
    assert ask(service.app, "POST", "/v1/sessions", {}, body).status == 422
    pytest.importorskip("psycopg")
    place = "postgresql://clerk:hush@db.test/hospital#visits"
    settings = ServiceSettings.of(service.settings.folder, {"ledger": place, "tables": {"t": "t.csv"}})
    assert "postgresql://clerk@db.test/hospital#visits" in settings.places  # as the store names it

    def fail(*given: Any) -> Any:
        try:
            raise OSError('connection to server at "db.test" (10.0.0.5), user "clerk" failed')
        except OSError as failure:
            raise LedgerError(f"the server did not take the charge ({failure}); nothing was charged.") from failure

    monkeypatch.setattr(service.curator.store._store, "ask", fail)
    reply = ask(service.app, "GET", "/v1/releases/x")
    assert reply.status == 409
    assert not any(word in reply.body.decode() for word in ("db.test", "10.0.0.5", "clerk"))


def test_a_refusal_by_an_envelope_says_nothing_of_what_others_spent(service: Service) -> None:
    ledger = service.curator.session.ledger
    ledger.open_envelope("project flu", epsilon=0.3, decision="x")
    for name in ("ana", "ben"):
        assert service.ask("curator", "POST", "/v1/projects/flu", {"account": name, "granted": True}).status == 204
    service.submit("analyst", "k", epsilon=0.2, project="flu")
    refused = service.submit("other", "k", epsilon=0.25, project="flu")
    assert refused.status == 402
    assert refused.value["largest"] is None
    assert refused.value["remaining"]["epsilon"] == 1  # one's own
    assert "0.1" not in refused.value["detail"]
    own = service.submit("other", "k2", epsilon=1.5, project="flu").value
    assert own["largest"]["epsilon"] == 1


def test_no_answer_sends_to_an_address_that_came(service: Service) -> None:
    for path in ("/v1/me/", "/healthz/", "//evil.test/"):
        reply = service.ask("analyst", "GET", path)
        assert (reply.status, reply.headers["cache-control"]) == (404, "no-store")
        assert "location" not in reply.headers


def test_no_text_of_a_file_is_a_formula(service: Service) -> None:
    texts = ["=1+1", "@x", "+a", "-b", "\t=1", "Bern"]
    sql = 'SELECT city, COUNT(*) AS "=n" FROM visits GROUP BY city'
    id = publish(service, sql=sql, keys={"city": texts}, epsilon=0.01)
    head, *rows = csv.reader(service.ask(None, "GET", f"/v1/releases/{id}.csv").body.decode().splitlines())
    assert head == ["city", "'=n", "'=n_low", "'=n_high"]
    assert {row[0] for row in rows} == {*(f"'{text}" for text in texts[:-1]), "Bern"}
    assert all(not cell.startswith("'") for row in rows for cell in row[1:])  # numbers are as they were, also below 0


# budgets of one's own


def test_a_budget_too_small_for_what_is_published_is_not_given(service: Service) -> None:
    publish(service, epsilon=0.2)
    new = {"name": "cem", "role": "analyst", "epsilon": 0.1}
    assert service.ask("curator", "POST", "/v1/accounts", new).status == 409
    assert "cem" not in service.curator.session.ledger.analysts()
    service.curator.session.ledger.verify()


# envelopes of tables


def test_no_spelling_of_a_table_escapes_its_envelope(service: Service) -> None:
    service.curator.session.ledger.open_envelope("table visits", epsilon=0.1, decision="x")
    for number, sql in enumerate(
        (
            "SELECT COUNT(*) AS n FROM visits",
            'SELECT COUNT(*) AS n FROM "VISITS" AS x',
            "WITH w AS (SELECT * FROM Visits) SELECT COUNT(*) AS n FROM w",
            "SELECT COUNT(*) AS n FROM (SELECT patient_id FROM /* v */ vIsItS) AS visit",
        )
    ):
        refused = service.submit("analyst", f"k{number}", sql=sql, keys=None, epsilon=0.2)
        assert refused.status == 402, sql
        assert "the envelope table visits" in refused.value["detail"]
    assert service.charges == 0


def test_tables_are_known_by_what_runs_and_not_by_what_is_written(service: Service) -> None:
    jobs, tables = service.curator.jobs, service.curator.session.tables
    other = tables[0].__class__("visit", tables[0].columns)  # its name is in the text, and it is not asked
    plan = jobs.plan("ana", requests.decode(json.dumps({**QUESTION, "bounds": {}})))
    assert requests.tables_of(plan, (*tables, other)) == ["visits"]


def test_an_envelope_of_a_table_that_is_not_there_is_refused(service: Service) -> None:
    for name in ("Visits", "visit", "x"):
        body = {"kind": "table", "name": name, "epsilon": 0.1, "decision": "x"}
        assert service.ask("curator", "POST", "/v1/envelopes", body).status == 422
    assert service.curator.session.ledger.envelopes() == {}


# approvals


def test_runs_that_wait_are_bounded_and_one_that_cannot_be_planned_hides_no_other(make: Callable[..., Service]) -> None:
    service = make(approval_above=0.2, most_waiting_each=2)
    ids = [service.submit("analyst", f"k{n}", epsilon=0.3 + n / 100).value["id"] for n in range(2)]
    assert service.submit("analyst", "k2", epsilon=0.4).status == 429
    assert service.submit("analyst", "k3", epsilon=0.1).status == 202  # waits for nobody
    assert service.submit("other", "k2", epsilon=0.4).status == 202
    service.curator.store.ask("UPDATE service_runs SET request = ? WHERE id = ?", '{"sql": "nothing"}', ids[0])
    listed = {each["id"]: each for each in service.ask("curator", "GET", "/v1/approvals").value}
    assert len(listed) == 3
    assert (listed[ids[0]]["current"], listed[ids[0]]["cost"]) == (False, None)
    assert listed[ids[1]]["current"]


def test_a_decision_that_was_cut_short_can_be_made_again(
    make: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make(approval_above=0.2)
    id = service.submit("analyst", "k", epsilon=0.5).value["id"]
    fine = {"approve": True, "plan": service.curator.approvals()[0]["plan"], "reason": "x"}

    def fail(*given: Any, **more: Any) -> Any:
        raise LedgerError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(service.curator.store, "advance", fail)
        assert service.ask("curator", "POST", f"/v1/approvals/{id}", fine).status == 409
    assert service.curator.store.approval(id) is None
    assert service.ask("curator", "POST", f"/v1/approvals/{id}", fine).value["state"] == "running"
    assert service.charges == 1


def test_no_run_of_an_account_that_has_ended_is_approved(make: Callable[..., Service]) -> None:
    service = make(approval_above=0.2)
    id = service.submit("analyst", "k", epsilon=0.5).value["id"]
    word = {"plan": service.curator.approvals()[0]["plan"], "reason": "x"}
    service.ask("owner", "DELETE", "/v1/accounts/ana")
    assert service.ask("curator", "POST", f"/v1/approvals/{id}", {**word, "approve": True}).status == 409
    assert service.ask("curator", "POST", f"/v1/approvals/{id}", {**word, "approve": False}).value["state"] == "denied"
    assert service.charges == 0


def test_the_newest_head_counts_and_not_the_last_line(service: Service, tmp_path: Path) -> None:
    for key in ("k1", "k2"):
        service.submit("analyst", key, fresh=True)
    heads = (tmp_path / "heads.log").read_text().split()
    (tmp_path / "heads.log").write_text("\n".join(reversed(heads)) + "\n")
    assert service.curator.jobs.last_head() == service.curator.session.ledger.head()


def test_a_run_that_waited_must_fit_the_day_on_which_it_is_approved(make: Callable[..., Service]) -> None:
    service = make(most_epsilon_per_day=0.5, approval_above=0.2)
    id = service.submit("analyst", "waits", epsilon=0.45).value["id"]
    service.clock.now += 86_401  # on this day it counts no more
    assert service.submit("analyst", "today", epsilon=0.2).status == 202
    fine = {"approve": True, "plan": service.curator.approvals()[0]["plan"], "reason": "x"}
    refused = service.ask("curator", "POST", f"/v1/approvals/{id}", fine)
    assert (refused.status, refused.value["name"]) == (422, "epsilon")
    assert (service.charges, service.curator.store.approval(id)) == (1, None)
    service.clock.now += 86_401
    assert service.ask("curator", "POST", f"/v1/approvals/{id}", fine).value["state"] == "running"


# accounts and sessions


def test_what_somebody_else_makes_is_the_only_way_in(service: Service) -> None:
    for name in ("eva", "eve"):
        service.ask("owner", "POST", "/v1/accounts", {"name": name, "role": "analyst", "password": PASSWORD})
    access, now = service.curator.access, service.clock()
    service.ask("curator", "POST", "/v1/tokens", {"account": "eva"})
    access.set_identity("eve", "https://login.test", "s-1", decided="cora", now=now)
    for name in ("eva", "eve"):
        with pytest.raises(DeniableError):
            access.log_in(name, PASSWORD, now=now)
    assert access.log_in_as("https://login.test", "s-1", now=now)[1].name == "eve"
    service.ask("owner", "POST", "/v1/accounts/eve/password", {"new": PASSWORD})  # takes the account back
    with pytest.raises(DeniableError):
        access.log_in_as("https://login.test", "s-1", now=now)
    assert access.log_in("eve", PASSWORD, now=now)[1].name == "eve"


def test_nobody_acts_in_anothers_name_unseen(service: Service) -> None:
    made = service.ask("curator", "POST", "/v1/tokens", {"account": "ben", "label": "first"}).value
    assert service.ask("other", "GET", "/v1/me").status == 401  # ben sees that the token has ended
    shown = {"Authorization": f"Bearer {made['token']}"}
    listed = ask(service.app, "GET", "/v1/tokens", shown).value
    assert [each["label"] for each in listed if not each["revoked"]] == ["made by cora: first"]


def test_every_account_can_be_ended(service: Service) -> None:
    for name in ("a/b", ".", ".."):
        assert service.ask("owner", "POST", "/v1/accounts", {"name": name, "role": "analyst"}).status == 422


def test_a_session_that_has_ended_keeps_nobody_from_logging_in(service: Service) -> None:
    service.ask("owner", "POST", "/v1/accounts", {"name": "eva", "role": "curator", "password": PASSWORD})
    body, id = json.dumps({"name": "eva", "password": PASSWORD}).encode(), publish(service)
    first = ask(service.app, "POST", "/v1/sessions", {}, body).headers["set-cookie"].partition(";")[0]
    second = ask(service.app, "POST", "/v1/sessions", {"Cookie": first}, body)  # logged in twice: the first has ended
    assert second.status == 200
    assert ask(service.app, "GET", "/v1/me", {"Cookie": first}).status == 401
    assert ask(service.app, "GET", f"/v1/releases/{id}", {"Cookie": first}).status == 200
    assert ask(service.app, "POST", "/v1/sessions", {"Cookie": first}, body).status == 200


def test_few_log_in_at_a_time(service: Service) -> None:
    access = service.curator.access
    for _ in range(MOST_LOGINS):
        access._hashing.acquire()
    before = service.curator.store.ask("SELECT * FROM service_logins")
    reply = ask(service.app, "POST", "/v1/sessions", {}, json.dumps({"name": "x", "password": "y"}).encode())
    assert reply.status == 429
    assert service.curator.store.ask("SELECT * FROM service_logins") == before  # nor is anything written
    for _ in range(MOST_LOGINS):
        access._hashing.release()
    with pytest.raises(DeniableError):
        access.log_in("x", "y", now=service.clock())
    assert all(access._hashing.acquire(blocking=False) for _ in range(MOST_LOGINS))  # each gave its place back


# load


def test_few_wait_for_a_plan(service: Service) -> None:
    waits = planner.Planner(service.settings)
    places = [waits._place("ana") for _ in range(planner.MOST_EACH)]
    for place in places:
        place.__enter__()
    with pytest.raises(ServiceBusy):
        waits.summarize("ana", "{}")
    more = [waits._place(f"p{n}") for n in range(planner.MOST - planner.MOST_EACH)]
    for place in more:
        place.__enter__()
    with pytest.raises(ServiceBusy):
        waits.summarize("ben", "{}")
    for place in (*places, *more):
        place.__exit__(None, None, None)
    with waits._place("ana"):
        assert waits._waiting.total() == 1


def test_a_mistake_while_planning_is_quoted_nowhere(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    asked = [("ana", json.dumps(QUESTION), False)]

    def receive() -> Any:
        if not asked:
            raise EOFError
        return asked.pop()

    def fail(*given: Any) -> Any:
        raise ValueError("SELECT secret")

    service.settings.write()
    monkeypatch.setattr(requests, "make_plan", fail)
    planner._serve(SimpleNamespace(send=sent.append, recv=receive), str(service.settings.folder))
    assert [told for told, _ in sent[1:]] == [False]
    assert "secret" not in str(sent)


def test_a_number_beyond_every_float_is_refused(service: Service) -> None:
    for number in ("1e400", "-1e400", 10**400, "1" * 600):
        for name in ("epsilon", "error", "cover", "diagnose", "delta", "confidence"):
            changes = {"epsilon": None, "error": number} if name == "error" else {name: number}
            assert service.ask("analyst", "POST", "/v1/plans", {**QUESTION, **changes}).status == 422, changes


@pytest.mark.parametrize("stated", ["²", "1" * 5000, "-1", "1e3", "70000", ""])
def test_a_length_that_is_none_is_refused(service: Service, stated: str) -> None:
    from deniable.service.app import read_body

    request: Any = SimpleNamespace(headers={"content-length": stated})
    with pytest.raises(InvalidArgument):
        read_body(request, 64 * 1024).send(None)


def test_a_body_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from deniable.service import app

    monkeypatch.setattr(app, "BODY_SECONDS", 0.001)

    async def stream() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    request: Any = SimpleNamespace(headers={}, stream=stream)
    with pytest.raises(InvalidArgument, match="seconds"):
        finish(app.read_body(request, 10))

    async def chunks() -> AsyncIterator[bytes]:  # without a length, as chunked bodies come
        while True:
            yield b"123"

    request.stream = chunks
    with pytest.raises(InvalidArgument, match="bytes"):
        finish(app.read_body(request, 10))


def test_heads_that_cannot_be_written_stop_no_answer(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> Any:
        raise LedgerError("busy")

    with monkeypatch.context() as patched:
        patched.setattr(service.curator.session.ledger, "head", fail)
        id = service.submit("analyst", "k").value["id"]
    service.clock.now += 5
    assert service.ask("analyst", "GET", f"/v1/runs/{id}").value["state"] == "done"
    assert service.curator.jobs.unwritten_heads == 1


# settings and client


@pytest.mark.parametrize("title", ['a"b\\c', "a\nledger = 'other'", "a\x00\x1f\x7f\x85b", "Ä ∑ 😀", "a\r\n[public]"])
def test_settings_are_read_as_they_were_written(tmp_path: Path, title: str) -> None:
    stated = ServiceSettings.of(tmp_path, {"ledger": "l", "tables": {title: title}, "title": title})
    stated.write()
    read = ServiceSettings.read(tmp_path)
    assert (read.title, dict(read.tables), read.ledger) == (title, {title: title}, "l")


def test_the_server_parses_strictly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uvicorn, given = pytest.importorskip("uvicorn"), dict[str, Any]()
    monkeypatch.setattr(uvicorn, "run", lambda *names, **options: given.update(options))
    running.initialize(tmp_path / "s", tables={}, demo=True)
    running.serve(tmp_path / "s")
    assert (given["ws"], given["access_log"], given["proxy_headers"]) == ("none", False, False)
    assert issubclass(given["http"], pytest.importorskip("uvicorn.protocols.http.h11_impl").H11Protocol)


def test_the_client_follows_no_one_with_its_token() -> None:
    sent: list[str] = []

    def send(method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        sent.append(path)
        return 302, {"location": "https://evil.test/"}, b""

    with pytest.raises(DeniableError, match="another address"):
        client.RemoteSession(send, "dn_x").call("GET", "/v1/me")
    assert sent == ["/v1/me"]


def test_the_client_waits_by_the_services_clock(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    assert len(service.client("analyst").plan(QUESTION["sql"], epsilon=0.1, keys=QUESTION["keys"],
                                              per_unit=dn.AtMost(groups=1, rows=2)).run()) == 2  # fmt: skip
    assert slept == [4.0]
    assert [client._pause(word) for word in ("3", "", "-1", "nan", "soon", "99")] == [3, 1, 1, 1, 1, 10]
