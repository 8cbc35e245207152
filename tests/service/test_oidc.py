"""Logging in by an OpenID provider, against one in this process: what it proves, and everything that proves nothing."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey

from deniable.errors import InvalidArgument
from deniable.service.access import MOST_LOGINS
from deniable.service.oidc import FRESH, OpenIDProvider
from tests.service.conftest import Clock, Reply, Service, ask

ISSUER, CLIENT, BACK = "https://login.test", "deniable", "https://dp.test/v1/oidc/callback"


class Provider:
    """A provider: discovery, keys, and a token for each code, whose verifier must fit."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.key = clock, ECKey.generate_key("P-256", {"kid": "one"})
        self.published, self.header = [self.key], {"alg": "ES256", "kid": "one"}
        self.claims: dict[str, Any] = {}
        self.signer: Any = self.key
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []
        self.about = {
            "issuer": ISSUER, "authorization_endpoint": f"{ISSUER}/authorize", "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
        }  # fmt: skip

    def authorize(self, address: str) -> dict[str, str]:
        """What a person who logs in at the provider comes back with."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert (asked["redirect_uri"], asked["client_id"], asked["response_type"]) == (BACK, CLIENT, "code")
        assert asked["code_challenge_method"] == "S256"
        code = f"code {len(self.codes)}"
        self.codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": ISSUER}

    def fetch(self, method: str, address: str, form: bytes) -> tuple[int, bytes]:
        self.asked.append(address)
        match address.removeprefix(ISSUER):
            case "/.well-known/openid-configuration":
                return 200, json.dumps(self.about).encode()
            case "/keys":
                return 200, json.dumps(KeySet(self.published).as_dict(private=False)).encode()
        given = {name: values[0] for name, values in parse_qs(form.decode()).items()}
        asked = self.codes.pop(given["code"], None)
        if asked is None:
            return 400, b"{}"
        digest = urlsafe_b64encode(hashlib.sha256(given["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        assert digest == asked["code_challenge"]
        assert given["client_secret"] == "hush"
        now = int(self.clock())
        claims = {"iss": ISSUER, "aud": CLIENT, "sub": "s-17", "nonce": asked["nonce"], "iat": now, "exp": now + 300}
        claims = {name: value for name, value in {**claims, **self.claims}.items() if value is not None}
        token = jwt.encode(self.header, claims, self.signer, algorithms=["ES256", "HS256"])
        return 200, json.dumps({"id_token": token, "access_token": "x"}).encode()


class LogIn:
    """A service with a provider, and a browser."""

    def __init__(self, service: Service, provider: Provider) -> None:
        self.service, self.provider = service, provider

    def start(self) -> tuple[str, str]:
        """Where the browser is sent, and its cookie."""
        reply = ask(self.service.app, "GET", "/v1/oidc")
        assert reply.status == 303
        for word in ("__Host-deniable-oidc=", "Secure", "HttpOnly", "SameSite=Lax", "Max-Age=600"):
            assert word in reply.headers["set-cookie"]
        return reply.headers["location"], reply.headers["set-cookie"].partition(";")[0]

    def finish(self, cookie: str, answer: dict[str, str]) -> Reply:
        return ask(
            self.service.app, "GET", f"/v1/oidc/callback?{urlencode(answer)}", {"Cookie": cookie} if cookie else {}
        )

    def whole(self) -> Reply:
        address, cookie = self.start()
        return self.finish(cookie, self.provider.authorize(address))


@pytest.fixture
def log_in(make: Callable[..., Service], tmp_path: Path) -> LogIn:
    (tmp_path / "oidc.secret").write_text("hush\n")
    stated = {"issuer": ISSUER, "client_id": CLIENT, "redirect": BACK, "secret_file": "oidc.secret"}
    service = make(oidc=stated)
    provider = Provider(service.clock)
    service.curator.__dict__["provider"] = OpenIDProvider(service.settings, fetch=provider.fetch, clock=service.clock)
    service.curator.access.add_account("eva", "curator", password=None, now=service.clock())
    assert service.ask("owner", "POST", "/v1/accounts/eva/identity", {"subject": "s-17"}).status == 204
    return LogIn(service, provider)


def test_a_subject_that_is_written_down_logs_in(log_in: LogIn) -> None:
    done = log_in.whole()
    assert (done.status, done.headers["location"]) == (303, "/")
    cookie = done.headers["set-cookie"].partition(";")[0]  # the last of the two
    assert cookie.startswith("__Host-deniable=")
    me = ask(log_in.service.app, "GET", "/v1/me", {"Cookie": cookie}).value
    assert (me["name"], me["role"]) == ("eva", "curator")
    assert me["form"]
    assert ask(log_in.service.app, "POST", "/v1/password", {"Cookie": cookie, "X-Form-Token": me["form"],
               "Origin": "https://dp.test"}, b'{"new": "correct horse battery"}').status == 403  # fmt: skip
    log_in.whole()
    assert log_in.provider.asked.count(f"{ISSUER}/keys") == 1  # kept


OTHERS: list[dict[str, Any]] = [
    {"iss": "https://evil.test"}, {"aud": "another"}, {"aud": [CLIENT, "another"]}, {"nonce": "x"}, {"nonce": None},
    {"exp": 1}, {"exp": None}, {"iat": None}, {"iat": 10**10}, {"sub": None}, {"sub": ""}, {"sub": 17},
    {"sub": "s-18"}, {"sub": "S-17"}, {"azp": "another"}, {"aud": None}, {"iss": None}, {"nbf": 10**10},
]  # fmt: skip


def test_a_token_for_somebody_else_or_another_time_proves_nothing(log_in: LogIn) -> None:
    for claims in OTHERS:
        log_in.provider.claims = claims
        refused = log_in.whole()
        assert refused.status == 401, claims
        assert "set-cookie" not in refused.headers
    assert log_in.service.curator.store.ask("SELECT * FROM service_sessions") == []


@pytest.mark.parametrize("how", ["another key", "a shared secret", "the public key as a secret", "no signature"])
def test_a_token_that_the_provider_has_not_signed_proves_nothing(log_in: LogIn, how: str) -> None:
    provider = log_in.provider
    public = json.dumps(provider.key.as_dict(private=False))
    if how == "another key":
        provider.signer = ECKey.generate_key("P-256", {"kid": "one"})
    elif how == "no signature":
        fetch = provider.fetch

        def unsigned(method: str, address: str, form: bytes) -> tuple[int, bytes]:
            status, body = fetch(method, address, form)
            told = json.loads(body)
            if "id_token" in told:
                head = urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
                told["id_token"] = f"{head}.{told['id_token'].split('.')[1]}."
            return status, json.dumps(told).encode()

        log_in.service.curator.provider._fetch = unsigned
    else:
        provider.header = {"alg": "HS256", "kid": "one"}
        provider.signer = OctKey.import_key("hush" * 10 if how == "a shared secret" else public)
    assert log_in.whole().status == 401


def test_an_answer_is_for_the_browser_that_asked_and_once(log_in: LogIn) -> None:
    address, cookie = log_in.start()
    answer = log_in.provider.authorize(address)
    other = log_in.start()[1]
    wrong = [
        ("", answer), (other, answer), (cookie, {**answer, "state": "x"}), (cookie, {**answer, "state": ""}),
        ("__Host-deniable-oidc=..", {**answer, "state": ""}), (cookie, {**answer, "iss": "https://evil.test"}),
        (cookie, {"state": answer["state"], "error": "access_denied"}), (cookie, {"state": answer["state"]}),
        (cookie, {**answer, "code": "chosen"}),
    ]  # fmt: skip
    for kept, told in wrong:
        assert log_in.finish(kept, told).status == 401, told
    assert log_in.finish(cookie, answer).status == 303
    assert log_in.finish(cookie, answer).status == 401  # the provider takes a code once


def test_new_keys_are_asked_for_at_most_once_a_minute(log_in: LogIn) -> None:
    provider = log_in.provider
    log_in.whole()
    provider.key = provider.signer = ECKey.generate_key("P-256", {"kid": "two"})
    provider.published, provider.header = [provider.key], {"alg": "ES256", "kid": "two"}
    assert log_in.whole().status == 401
    log_in.service.clock.now += 61
    assert log_in.whole().status == 303


def test_an_identity_is_written_down_by_who_appoints(log_in: LogIn) -> None:
    service = log_in.service
    path = "/v1/accounts/ana/identity"
    assert service.ask("curator", "POST", "/v1/accounts/ota/identity", {"subject": "x"}).status == 403
    assert service.ask("owner", "POST", path, {"subject": "s-17"}).status == 422  # another account's
    assert service.ask("owner", "POST", "/v1/accounts/nobody/identity", {"subject": "x"}).status == 404
    assert service.ask("analyst", "POST", path, {"subject": "x"}).status == 403
    assert service.ask("owner", "POST", path, {"subject": "s-20"}).status == 204
    assert service.ask("analyst", "GET", "/v1/me").status == 401  # its holder notices
    service.ask("owner", "POST", "/v1/accounts/eva/identity", {"subject": None})
    assert log_in.whole().status == 401
    log_in.provider.claims = {"sub": "s-20"}
    assert log_in.whole().status == 303
    service.ask("owner", "DELETE", "/v1/accounts/ana")
    assert log_in.whole().status == 401


def test_without_a_provider_there_is_none(service: Service) -> None:
    for path in ("/v1/oidc", "/v1/oidc/callback?code=x&state=y"):
        assert ask(service.app, "GET", path).status == 404


@pytest.mark.parametrize(
    "changes",
    [{"issuer": "http://login.test"}, {"redirect": "dp.test"}, {"secret": "hush"}, {"secret_file": "nowhere"}],
    ids=str,
)
def test_settings_that_are_not_safe_are_refused(service: Service, changes: dict[str, str]) -> None:
    from dataclasses import replace

    stated = {"issuer": ISSUER, "client_id": CLIENT, "redirect": BACK, **changes}
    with pytest.raises(InvalidArgument):
        OpenIDProvider(replace(service.settings, oidc=stated))


def test_a_provider_that_says_it_is_another_is_refused(log_in: LogIn) -> None:
    log_in.provider.about["issuer"] = "https://evil.test"
    assert ask(log_in.service.app, "GET", "/v1/oidc").status == 401
    log_in.provider.about |= {"issuer": ISSUER, "authorization_endpoint": "http://evil.test/"}
    assert ask(log_in.service.app, "GET", "/v1/oidc").status == 422
    log_in.provider.about["authorization_endpoint"] = "https://[::evil"
    log_in.service.clock.now += FRESH + 1
    assert ask(log_in.service.app, "GET", "/v1/oidc").status == 422


def test_few_wait_for_the_provider(log_in: LogIn) -> None:
    places = log_in.service.curator.provider._places
    address, cookie = log_in.start()
    answer = log_in.provider.authorize(address)
    for _ in range(MOST_LOGINS):
        places.acquire()
    asked = len(log_in.provider.asked)
    assert ask(log_in.service.app, "GET", "/v1/oidc").status == 429
    assert log_in.finish(cookie, answer).status == 429
    assert len(log_in.provider.asked) == asked
    for _ in range(MOST_LOGINS):
        places.release()
    assert log_in.finish(cookie, answer).status == 303
    assert all(places.acquire(blocking=False) for _ in range(MOST_LOGINS))  # each gave its place back
