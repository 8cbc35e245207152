"""Logging in by an OpenID provider: authorization code flow with PKCE. The libraries are authlib and joserfc.

    browser ──/v1/oidc──▶ provider ──/v1/oidc/callback?code&state──▶ service ──code, verifier──▶ provider: ID token

What belongs to one log-in (state, nonce, verifier) is in a cookie of the browser that began it, for ten minutes: an
answer that another browser began is refused. The ID token must be signed by a key of the provider and be for this
service and this log-in. Its subject names an account by a line that somebody who appoints it has written; no account is
made here, and no claim gives a role.
"""

from __future__ import annotations

import http.client
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hmac import compare_digest
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from deniable.errors import AccessDenied, InvalidArgument, MissingExtra, ServiceBusy
from deniable.service.access import MOST_LOGINS
from deniable.service.settings import ServiceSettings

try:
    from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
    from authlib.oauth2.rfc7636 import create_s256_code_challenge
    from authlib.oidc.core import CodeIDToken
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet
except ModuleNotFoundError as error:
    raise MissingExtra(error.name or "authlib", "oidc") from error

NAMES = {"issuer", "client_id", "redirect", "secret_file"}
"""What `[oidc]` in the settings may state; all but the last must be there."""
ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "EdDSA"]
"""With which an ID token may be signed: none by a secret that is shared."""
MINUTES = 10
"""In which a log-in must end."""
FRESH = 3600.0
"""Seconds for which what the provider says of itself is kept; its keys are asked for again where one is unknown."""
MOST = 1 << 20
"""Bytes of an answer of the provider."""
_REFUSED = "the provider's answer does not prove who you are; log in again"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

Fetch = Callable[[str, str, bytes], tuple[int, bytes]]
"""Sends a method, an address and a form; gives a status and a body."""


def send(method: str, address: str, form: bytes = b"") -> tuple[int, bytes]:
    """One request to the provider, within ten seconds. Nothing is followed."""
    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    headers = {"Accept": "application/json"}
    if form:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection = kind(parts.netloc, timeout=10)
    try:
        connection.request(method, f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}", form, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(MOST)
    except (OSError, http.client.HTTPException):
        raise ServiceBusy("the provider is out of reach; try again", seconds=5) from None
    finally:
        connection.close()


class LogInStart(NamedTuple):
    """Where a browser goes to log in, and what its cookie keeps."""

    address: str
    kept: str


class OpenIDProvider:
    """The provider that the settings name."""

    def __init__(
        self, settings: ServiceSettings, *, fetch: Fetch = send, clock: Callable[[], float] = time.time
    ) -> None:
        stated = settings.oidc
        if not stated or set(stated) - NAMES or not {*NAMES} - {"secret_file"} <= set(stated):
            raise InvalidArgument("oidc", sorted(stated), f"a table with {', '.join(sorted(NAMES))}")
        self._issuer, self._client, self._redirect = stated["issuer"], stated["client_id"], stated["redirect"]
        for name in ("issuer", "redirect"):
            _check_address(name, stated[name])
        secret = stated.get("secret_file")
        self._secret = None if secret is None else _read_secret(settings.folder / secret)
        self._fetch, self._clock, self._lock = fetch, clock, threading.Lock()
        self._about: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, Any] = 0.0, None
        self._places = threading.BoundedSemaphore(MOST_LOGINS)

    @contextmanager
    def _place(self) -> Iterator[None]:
        """A place among those who wait for the provider: everybody may try, and each holds a thread."""
        if not self._places.acquire(blocking=False):
            raise ServiceBusy("too many log in at this moment; try again", seconds=1)
        try:
            yield
        finally:
            self._places.release()

    def start(self) -> LogInStart:
        """Where a browser goes, with values that are new for this log-in."""
        with self._place():
            place = self._address("authorization_endpoint")
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        address = prepare_grant_uri(
            place, client_id=self._client, response_type="code", scope="openid",
            redirect_uri=self._redirect, state=state, nonce=nonce, code_challenge_method="S256",
            code_challenge=create_s256_code_challenge(verifier),
        )  # fmt: skip
        return LogInStart(str(address), f"{state}.{nonce}.{verifier}")

    def finish(self, kept: str | None, answer: Mapping[str, str]) -> str:
        """The subject whom the provider's answer proves, to the browser that keeps this log-in's values."""
        state, nonce, verifier = kept.split(".") if kept and kept.count(".") == 2 else ("", "", "")
        if not state or not compare_digest(state.encode(), answer.get("state", "").encode()):
            raise AccessDenied(_REFUSED)
        if answer.get("iss", self._issuer) != self._issuer or "error" in answer or not answer.get("code"):
            raise AccessDenied(_REFUSED)
        given = {"client_id": self._client, "code": answer["code"], "code_verifier": verifier}
        if self._secret is not None:
            given["client_secret"] = self._secret
        form = prepare_token_request("authorization_code", redirect_uri=self._redirect, **given)
        with self._place():
            told = _object(*self._fetch("POST", self._address("token_endpoint"), str(form).encode()))
            return self._subject(told.get("id_token"), nonce)

    def _subject(self, token: Any, nonce: str) -> str:
        """The subject of an ID token, all of which is checked."""
        if not isinstance(token, str):
            raise AccessDenied(_REFUSED)
        claims: Any = None
        for again in (False, True):
            try:
                claims = jwt.decode(token, self._key_set(again=again), algorithms=ALGORITHMS).claims
                break
            except (JoseError, ValueError, TypeError, KeyError):  # the provider may have new keys
                continue
        if not isinstance(claims, dict):
            raise AccessDenied(_REFUSED)
        options = {
            "iss": {"essential": True, "value": self._issuer},
            "aud": {"essential": True, "value": self._client},
            "nonce": {"essential": True, "value": nonce},
        }
        try:
            CodeIDToken(claims, {}, options, {"nonce": nonce, "client_id": self._client}).validate(
                now=int(self._clock()), leeway=60
            )
        except (JoseError, ValueError, TypeError):
            raise AccessDenied(_REFUSED) from None
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise AccessDenied(_REFUSED)
        return str(claims["sub"])

    # what the provider says of itself

    def _address(self, name: str) -> str:
        with self._lock:
            if self._about is None or self._about[0] + FRESH < self._clock():
                place = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
                about = _object(*self._fetch("GET", place, b""))
                if about.get("issuer") != self._issuer:
                    raise AccessDenied(_REFUSED)
                self._about = self._clock(), about
            address = self._about[1].get(name)
        if not isinstance(address, str):
            raise AccessDenied(_REFUSED)
        _check_address(name, address)
        return address

    def _key_set(self, *, again: bool) -> Any:
        """The provider's keys; asked for `again` at most once a minute."""
        place = self._address("jwks_uri")
        with self._lock:
            time, keys = self._keys
            age = self._clock() - time
            if keys is None or age > FRESH or (again and age > 60):
                keys = KeySet.import_key_set(_object(*self._fetch("GET", place, b"")))  # type: ignore[arg-type]
                self._keys = self._clock(), keys
            return keys


def _object(status: int, body: bytes) -> dict[str, Any]:
    """An answer of the provider that is a JSON object."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if status != 200 or not isinstance(value, dict):
        raise AccessDenied(_REFUSED)
    return value


def _check_address(name: str, address: str) -> None:
    try:
        parts = urlsplit(address)
    except ValueError:  # brackets that are no address
        parts = urlsplit("")
    if not parts.hostname or (parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK)):
        raise InvalidArgument(f"oidc.{name}", address[:80], "an https address")


def _read_secret(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as failure:
        raise InvalidArgument("oidc.secret_file", "…", f"a file that can be read ({failure.strerror})") from None
