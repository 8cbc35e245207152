"""Who may what: every route and role, tokens, sessions, other sites' pages, and what logs and headers tell."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

import deniable as dn
from deniable.errors import InvalidArgument
from deniable.service import roles
from tests.service.conftest import QUESTION, Service, ask

BODIES: dict[str, Any] = {
    "plan": QUESTION, "rehearse": QUESTION, "submit": QUESTION, "log_in": {"name": "x", "password": "y"},
    "add_account": {"name": "new", "role": "analyst"}, "add_token": {},
    "set_envelope": {"kind": "project", "name": "flu", "epsilon": 0.1, "decision": "x"},
    "decide": {"approve": True, "plan": "", "reason": "x"}, "publish": {"title": "x"},
    "change_password": {"new": "short"}, "set_password": {"new": "short"},
    "set_grant": {"account": "ana", "granted": True}, "set_identity": {"subject": "s"},
}  # fmt: skip

MAY: dict[str, set[str]] = {
    # Written down a second time on purpose: what each role may call.
    "owner": {"me", "tables", "plan", "rehearse", "releases", "release", "publish", "budget", "approvals", "decide",
              "ledger", "export", "head", "accounts", "add_account", "disable_account", "set_envelope", "tokens",
              "projects", "set_grant", "set_identity", "set_password", "change_password",
              "add_token", "revoke_token", "metrics", "health", "openapi", "log_in", "log_out"},
    "curator": {"me", "tables", "plan", "rehearse", "releases", "release", "publish", "budget", "approvals", "decide",
                "ledger", "export", "head", "accounts", "add_account", "disable_account", "set_envelope", "tokens",
                "projects", "set_grant", "set_identity", "set_password", "change_password",
                "add_token", "revoke_token", "metrics", "health", "openapi", "log_in", "log_out"},
    "analyst": {"me", "tables", "plan", "rehearse", "submit", "runs", "run", "releases", "release", "budget", "tokens",
                "add_token", "revoke_token", "health", "openapi", "log_in", "log_out", "projects", "change_password"},
    "auditor": {"me", "tables", "releases", "release", "budget", "ledger", "export", "head", "tokens", "add_token",
                "revoke_token", "health", "openapi", "log_in", "log_out", "projects", "change_password"},
    "public": {"health", "openapi", "log_in", "start_oidc", "finish_oidc", "release"},
}  # fmt: skip
for _names in MAY.values():
    _names |= MAY["public"]


@pytest.mark.parametrize("role", MAY)
def test_every_route_for_every_role(service: Service, role: str) -> None:
    routes = {(route.path, method) for route in service.app.routes for method in route.methods - {"HEAD"}}
    assert routes == {(each.path, each.method) for each in roles.ENDPOINTS}
    for each in roles.ENDPOINTS:
        path, body = each.path.replace("{id}", "nobody"), BODIES.get(each.name)
        reply = service.ask(None if role == "public" else role, each.method, path, body, Idempotency_Key=each.name)
        told = reply.headers.get("content-type", "")
        denied = reply.status in (401, 403) and each.name != "log_in"
        assert denied is (each.name not in MAY[role]), (each, reply)
        assert reply.status < 500
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-frame-options"] == "DENY"
        assert "unsafe" not in reply.headers["content-security-policy"]
        if reply.status >= 400:
            assert told == "application/problem+json"
            assert reply.value["status"] == reply.status


def test_what_is_not_in_the_table_is_not_there(service: Service) -> None:
    for method, path in (("GET", "/v2"), ("PUT", "/v1/runs"), ("GET", "/v1/runs/../accounts"), ("TRACE", "/healthz")):
        assert service.ask("owner", method, path).status in (404, 405)


def test_ids_of_others_are_not_there(service: Service) -> None:
    id = service.submit("analyst", "k").value["id"]
    token = service.ask("analyst", "POST", "/v1/tokens", {}).value["id"]
    service.clock.now += 5
    unknown = service.ask("other", "GET", "/v1/runs/rffff")
    for path in (f"/v1/runs/{id}", f"/v1/releases/{id}", f"/v1/releases/{id}.csv"):
        reply = service.ask("other", "GET", path)
        assert reply.status == 404
    assert service.ask("other", "GET", f"/v1/runs/{id}").body == unknown.body
    assert service.ask(None, "GET", f"/v1/releases/{id}").status == 404
    assert service.ask("curator", "GET", f"/v1/releases/{id}").status == 404
    assert service.ask("other", "DELETE", f"/v1/tokens/{token}").status == 404
    assert service.ask("other", "GET", "/v1/releases").value == []
    assert service.ask("other", "GET", "/v1/runs").value == []
    assert set(service.ask("analyst", "GET", "/v1/budget").value) == {"promise", "remaining"}


def test_a_published_release_is_for_everybody_and_counts_for_every_analyst(service: Service) -> None:
    id = service.submit("analyst", "k").value["id"]
    title = {"title": "Visits by city"}
    assert service.ask("curator", "POST", f"/v1/releases/{id}/publication", title).status == 404  # not shown yet
    service.clock.now += 5
    assert service.ask("curator", "POST", f"/v1/releases/{id}/publication", title).status == 204
    assert service.ask(None, "GET", f"/v1/releases/{id}").status == 200
    ledger = service.curator.session.ledger
    assert [float(ledger.remaining(who=who).numbers["epsilon"]) for who in ("ana", "ben")] == [0.9, 0.9]
    service.ask("curator", "POST", "/v1/accounts", {"name": "cem", "role": "analyst", "epsilon": "1/2"})
    assert float(ledger.remaining(who="cem").numbers["epsilon"]) == 0.4
    ledger.verify()


def test_tokens_expire_and_are_revoked_and_are_kept_as_hashes(service: Service) -> None:
    made = service.ask("analyst", "POST", "/v1/tokens", {"days": 1, "label": "laptop"}).value
    show = {"Authorization": f"Bearer {made['token']}"}
    assert ask(service.app, "GET", "/v1/me", show).value == {"name": "ana", "role": "analyst", "form": None}
    for wrong in (made["token"][:-1], made["token"][:-1] + "%", "dn_x", "", made["id"]):
        assert ask(service.app, "GET", "/v1/me", {"Authorization": f"Bearer {wrong}"}).status == 401
    assert ask(service.app, "GET", f"/v1/me?token={made['token']}").status == 401  # never in an address
    kept = str(service.curator.store.ask("SELECT * FROM service_tokens"))
    assert made["token"] not in kept
    assert made["token"].rpartition("_")[2] not in kept
    service.clock.now += 86_401
    assert ask(service.app, "GET", "/v1/me", show).status == 401
    other = service.ask("analyst", "POST", "/v1/tokens", {}).value
    assert service.ask("analyst", "DELETE", f"/v1/tokens/{other['id']}").status == 204
    assert ask(service.app, "GET", "/v1/me", {"Authorization": f"Bearer {other['token']}"}).status == 401
    for days in (0, -1, 1e9):
        assert service.ask("analyst", "POST", "/v1/tokens", {"days": days}).status == 422
    assert service.ask("analyst", "POST", "/v1/tokens", {"account": "ota"}).status == 403
    assert service.ask("curator", "POST", "/v1/tokens", {"account": "ota"}).status == 403
    assert service.ask("curator", "POST", "/v1/tokens", {"account": "ben"}).status == 201


def test_a_curator_appoints_no_curator_and_ends_no_owner(service: Service) -> None:
    for role in ("owner", "curator"):
        new = {"name": f"new {role}", "role": role}
        assert service.ask("curator", "POST", "/v1/accounts", new).status == 403
        assert service.ask("owner", "POST", "/v1/accounts", new).status == 201
    assert service.ask("curator", "DELETE", "/v1/accounts/ota").status == 403
    assert service.ask("owner", "DELETE", "/v1/accounts/ota").status == 403
    assert service.ask("curator", "DELETE", "/v1/accounts/ana").status == 204
    assert service.ask("analyst", "GET", "/v1/me").status == 401
    assert service.ask("owner", "POST", "/v1/accounts", {"name": "ana", "role": "analyst"}).status == 422


PASSWORD = "correct horse battery"


@pytest.fixture
def browser(service: Service) -> Callable[..., Any]:
    """Requests of a browser that has logged in."""
    service.ask("owner", "POST", "/v1/accounts", {"name": "eva", "role": "curator", "password": PASSWORD})
    login = ask(service.app, "POST", "/v1/sessions", {"Origin": "https://dp.test"},
                json.dumps({"name": "eva", "password": PASSWORD}).encode())  # fmt: skip
    cookie, form = login.headers["set-cookie"], login.value["form"]
    for word in ("__Host-deniable=", "Secure", "HttpOnly", "SameSite=Lax", "Path=/"):
        assert word in cookie
    assert "Domain" not in cookie
    pair = cookie.partition(";")[0]

    def send(method: str, path: str, body: Any = None, **headers: str) -> Any:
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(
            service.app, method, path, {"Cookie": pair, **more}, b"" if body is None else json.dumps(body).encode()
        )

    send.form, send.pair = form, pair  # type: ignore[attr-defined]
    return send


def test_another_sites_page_writes_nothing(service: Service, browser: Any) -> None:
    new, form = {"kind": "project", "name": "flu", "epsilon": 0.1, "decision": "x"}, browser.form
    fine = {"Origin": "https://dp.test", "Sec_Fetch_Site": "same-origin", "X_Form_Token": form}
    wrong: list[dict[str, str]] = [
        {}, {"X_Form_Token": form}, {"Origin": "https://dp.test"}, {**fine, "Origin": "https://evil.test"},
        {**fine, "Sec_Fetch_Site": "cross-site"}, {**fine, "Sec_Fetch_Site": "same-site"}, {**fine, "Origin": "null"},
        {**fine, "X_Form_Token": form[:-1]}, {**fine, "X_Form_Token": ""},
    ]  # fmt: skip
    for headers in wrong:
        assert browser("POST", "/v1/envelopes", new, **headers).status == 403, headers
    assert service.curator.session.ledger.envelopes() == {}
    assert browser("POST", "/v1/envelopes", new, **fine).status == 204
    assert browser("GET", "/v1/me").value["form"] == form
    evil = ask(service.app, "POST", "/v1/sessions", {"Origin": "https://evil.test"},
               json.dumps({"name": "eva", "password": PASSWORD}).encode())  # fmt: skip
    assert evil.status == 403 or evil.status == 401


def test_sessions_end(service: Service, browser: Any) -> None:
    fine = {"Origin": "https://dp.test", "X_Form_Token": browser.form}
    assert browser("DELETE", "/v1/sessions", **fine).status == 204
    assert browser("GET", "/v1/me").status == 401


def test_an_idle_session_ends_and_a_long_one_too(service: Service, browser: Any) -> None:
    for _ in range(20):
        service.clock.now += 1800
        if browser("GET", "/v1/me").status != 200:
            break
    assert service.clock.now - 1_000_000 >= 20 * 1800  # used every half hour, it lives on
    service.clock.now += 3 * 3600
    assert browser("GET", "/v1/me").status == 401


def test_a_cookie_that_an_attacker_chose_is_no_session(service: Service) -> None:
    service.ask("owner", "POST", "/v1/accounts", {"name": "eva", "role": "curator", "password": PASSWORD})
    body = json.dumps({"name": "eva", "password": PASSWORD}).encode()
    fixed = {"Cookie": "__Host-deniable=chosen"}
    assert ask(service.app, "GET", "/v1/me", fixed).status == 401
    login = ask(service.app, "POST", "/v1/sessions", {}, body)
    assert "chosen" not in login.headers["set-cookie"]
    assert login.headers["set-cookie"] != ask(service.app, "POST", "/v1/sessions", {}, body).headers["set-cookie"]


def test_five_tries_a_minute(service: Service) -> None:
    service.ask("owner", "POST", "/v1/accounts", {"name": "eva", "role": "curator", "password": PASSWORD})

    def log_in(name: str, password: str) -> Any:
        return ask(service.app, "POST", "/v1/sessions", {}, json.dumps({"name": name, "password": password}).encode())

    wrong, unknown = log_in("eva", "wrong"), log_in("nobody", "wrong")
    assert wrong.body == unknown.body  # which names exist is not told
    for _ in range(4):
        assert log_in("eva", "wrong").status in (401, 403)
    busy = log_in("eva", PASSWORD)
    assert (busy.status, busy.headers["retry-after"]) == (429, "60")
    service.clock.now += 61
    assert log_in("eva", PASSWORD).status == 200
    assert (
        service.ask("owner", "POST", "/v1/accounts", {"name": "z", "role": "curator", "password": "short"}).status
        == 422
    )
    kept = str(service.curator.store.ask("SELECT password FROM service_accounts"))
    assert "$argon2id$" in kept
    assert PASSWORD not in kept


def test_a_name_that_does_not_exist_is_hashed_as_well(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from deniable.service import access

    seen: list[str] = []
    verify = access.HASHER.verify

    class Counting:
        def verify(self, digest: str, password: str) -> bool:
            seen.append(digest.split("$")[3])
            return bool(verify(digest, password))

    service.ask("owner", "POST", "/v1/accounts", {"name": "eva", "role": "curator", "password": PASSWORD})
    monkeypatch.setattr(access, "HASHER", Counting())
    for name in ("eva", "nobody", "ota"):
        ask(service.app, "POST", "/v1/sessions", {}, json.dumps({"name": name, "password": "wrong"}).encode())
    assert len(seen) == 3
    assert len(set(seen)) == 1  # the same cost


def test_planted_values_are_nowhere(service: Service, caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "Zyxwv-8731"
    sql = f"SELECT COUNT(*) AS n FROM visits WHERE city = '{secret}'"
    service.submit("analyst", "k1", sql=sql, keys=None)
    service.submit("analyst", "k2", sql=sql + " AND", keys=None)
    service.ask("analyst", "POST", "/v1/plans", {"sql": sql, secret: 1})
    service.ask("analyst", "GET", f"/v1/runs/{secret}")
    service.ask("other", "GET", f"/nowhere/{secret}?{secret}", Authorization=f"Bearer {secret}")

    def broken(*given: Any) -> Any:
        raise RuntimeError(secret)

    monkeypatch.setattr(service.curator, "tables", broken)
    with pytest.raises(RuntimeError):  # the server's own log takes the trace away: `running`
        service.ask("analyst", "GET", "/v1/tables")
    metrics = service.ask("owner", "GET", "/metrics").body.decode()
    ledger = "".join(service.curator.session.ledger.export())
    own = [record.getMessage() for record in caplog.records if record.name.startswith("deniable")]
    assert own
    for text in (*own, metrics, ledger):
        assert secret not in text
        assert not any(token in text for token in service.tokens.values())


def test_the_servers_log_has_no_trace() -> None:
    from deniable.service import running

    try:
        raise RuntimeError("patient 17")
    except RuntimeError:
        record = logging.getLogger("x").makeRecord("x", 40, "f", 1, "failed", (), __import__("sys").exc_info())
    assert running._WithoutTraces().filter(record)
    assert "patient" not in logging.Formatter().format(record)


def test_openapi_lists_every_endpoint(service: Service) -> None:
    document = service.ask(None, "GET", "/v1/openapi.json").value
    assert document["openapi"] == "3.1.0"
    listed = {(path, method.upper()) for path, each in document["paths"].items() for method in each}
    assert listed == {(each.path, each.method) for each in roles.ENDPOINTS}
    assert "sql" in document["components"]["schemas"]["PlanRequest"]["properties"]


def test_an_address_without_tls_is_refused_by_the_client() -> None:
    for url in ("http://dp.example.org", "ftp://x", "https://a:b@x", "dp.example.org", "https://x/?token=1"):
        with pytest.raises(InvalidArgument):
            dn.connect(url, "dn_x")
    for token in ("", "secret", "dn_a\r\nX: y"):
        with pytest.raises(InvalidArgument) as refused:
            dn.connect("https://dp.example.org", token)
        assert token == "" or token not in str(refused.value)
    assert "dn_x" not in repr(dn.connect("https://dp.example.org", "dn_x"))
