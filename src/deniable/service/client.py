"""`dn.connect`: a session whose tables and ledger are behind a service. It needs the standard library alone.

    with dn.connect("https://dp.example.org", token) as session:
        release = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=0.1)

A run has a key. Where a connection breaks, the same key is sent again, and the run is charged once.
"""

from __future__ import annotations

import http.client
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from deniable._checks import Number, exact
from deniable._escapes import escape_html, printable
from deniable._forms import Plain
from deniable._signatures import public
from deniable.errors import AccessDenied, DeniableError, InvalidArgument, ServiceBusy
from deniable.guarantees import Guarantee
from deniable.query.choice import AtMost
from deniable.query.release import Release
from deniable.service.problems import from_problem

TRIES = 5
"""How often a request is sent before a service counts as out of reach."""
_TIMEOUT = 60.0

Transport = Callable[[str, str, dict[str, str], bytes], tuple[int, dict[str, str], bytes]]
"""Sends a method, a path, headers and a body; gives a status, headers in small letters and a body."""


def connect(url: str, token: str) -> RemoteSession:
    """A session with a service that `deniable serve` runs.

    Args:
        url: the service's address, such as https://dp.example.org; http only on this machine.
        token: a token that the service has given; it is sent in a header, and never shown.
    """
    parts = urlsplit(url)
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise InvalidArgument("url", "…", "the address of a service, such as https://dp.example.org")
    if parts.scheme == "http" and not local:
        raise InvalidArgument("url", "…", "an https address: without TLS everybody on the way reads the token")
    if not isinstance(token, str) or not token.startswith("dn_") or not token.isascii() or not token.isprintable():
        raise InvalidArgument("token", "…", "a token of the service, which begins with dn_")
    return RemoteSession(_Connection(parts.scheme, parts.netloc, parts.path.rstrip("/")).send, token)


class _Connection:
    """One connection that is kept open, and opened again where it was lost."""

    def __init__(self, scheme: str, place: str, base: str) -> None:
        self._kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        self._place, self._base, self._lock = place, base, threading.Lock()
        self._open: http.client.HTTPConnection | None = None

    def send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        """One request and its answer; OSError or HTTPException where the connection breaks."""
        with self._lock:
            if self._open is None:
                self._open = self._kind(self._place, timeout=_TIMEOUT)
            try:
                self._open.request(method, self._base + path, body or None, headers)
                answer = self._open.getresponse()
                return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            except (OSError, http.client.HTTPException):
                self._open.close()
                self._open = None
                raise


class RemoteTable(NamedTuple):
    """A table that queries may name."""

    name: str
    public: bool
    columns: tuple[dict[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(column["name"] for column in self.columns)


class RemotePlan(Plain):
    """A plan that a service has made; `run` asks it to charge and to answer."""

    def __init__(self, session: RemoteSession, request: dict[str, Any], summary: dict[str, Any]) -> None:
        self._session, self._request, self._summary = session, request, summary
        self.cost = Guarantee.from_dict(summary["cost"])
        self.error: dict[str, str] = summary["error"]
        """What the noise does to each aggregate, in words."""
        self.digest = str(summary["plan"])
        self.sql = str(summary["sql"])

    def run(self, *, key: str | None = None, fresh: bool = False) -> Release:
        """Charge and answer, at the service's deadline.

        Args:
            key: names the run; the same key is the same run, and is charged once.
            fresh: pay for a new answer also where a stored one could be read.
        """
        request = {**self._request, "fresh": True} if fresh else self._request
        return self._session.run(request, key or secrets.token_urlsafe(24))

    def rehearse(self) -> Release:
        """The answer on made-up rows; free, and its numbers mean nothing."""
        return Release.from_dict(self._session.call("POST", "/v1/rehearsals", self._request))

    def why(self) -> str:
        """Why the answer is as noisy as it is, and what would halve the noise."""
        return str(self._summary["why"])

    def explain(self) -> str:
        """The plan in words, with the SQL that will run."""
        return str(self._summary["explanation"])

    def to_dict(self) -> dict[str, Any]:
        own = ("plan", "sizes", "text", "explanation", "why", "remaining")
        return {name: value for name, value in self._summary.items() if name not in own}

    def __str__(self) -> str:
        return printable(self._summary["text"], lines=True)

    def __repr__(self) -> str:
        return str(self)  # what a shell shows

    def _repr_html_(self) -> str:
        return f"<pre>{escape_html(str(self))}</pre>"  # text alone: a notebook runs no script that a service sends


class RemoteSession:
    """Private questions to a service. `connect` makes one."""

    def __init__(self, send: Transport, token: str) -> None:
        self._send, self._token = send, token

    @property
    def tables(self) -> tuple[RemoteTable, ...]:
        """The tables that queries may name."""
        told = self.call("GET", "/v1/tables")
        return tuple(RemoteTable(each["name"], each["public"], tuple(each["columns"])) for each in told)

    @public
    def plan(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        cost: Guarantee | None = None,
        error: Number | Mapping[str, Number] | None = None,
        group_size: int | None = None,
        bounds: Mapping[str, Sequence[Number] | str] | str | None = None,
        keys: Mapping[str, object] | None = None,
        per_unit: AtMost | str | None = None,
        weights: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
        cover: Number | None = None,
        leave_out: bool = False,
        diagnose: Number | None = None,
        delta: Number | None = None,
        noise: str | None = None,
        project: str | None = None,
    ) -> RemotePlan:
        """Plan a query; free, reads no rows. The arguments are those of `Session.plan`.

        Args:
            sql: the question.
            epsilon: the cost of the whole query.
            cost: the cost as a guarantee, in its place.
            error: how far off each value may be, in its place.
            group_size: with `error`, the smallest group in which an average must keep it.
            bounds: per column that is added up, its ends.
            keys: per column of GROUP BY, the keys to release.
            per_unit: how much of one unit counts.
            weights: per aggregate its part of ε.
            confidence: of each interval.
            cover: the share of ε with which intervals cover what limits leave out.
            leave_out: leave units beyond stated limits and bounds out whole.
            diagnose: the share of ε that says how many rows were clamped and left out.
            delta: the δ of Gaussian noise and of keys that are found.
            noise: "laplace" or "gaussian".
            project: the project whose envelope pays as well.
        """
        limits: Any = per_unit
        if isinstance(per_unit, AtMost):
            limits = {name: number for name, number in per_unit.to_dict().items() if number is not None}
        given = {
            "sql": sql, "epsilon": epsilon, "cost": None if cost is None else cost.to_dict(), "error": error,
            "group_size": group_size, "bounds": bounds, "keys": keys,
            "per_unit": limits, "weights": weights, "confidence": confidence, "cover": cover,
            "leave_out": leave_out or None, "diagnose": diagnose, "delta": delta, "noise": noise,
            "project": project,
        }  # fmt: skip
        request = {name: _plain(value) for name, value in given.items() if value is not None}
        return RemotePlan(self, request, self.call("POST", "/v1/plans", request))

    @public
    def sql(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        cost: Guarantee | None = None,
        error: Number | Mapping[str, Number] | None = None,
        group_size: int | None = None,
        bounds: Mapping[str, Sequence[Number] | str] | str | None = None,
        keys: Mapping[str, object] | None = None,
        per_unit: AtMost | str | None = None,
        weights: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
        cover: Number | None = None,
        leave_out: bool = False,
        diagnose: Number | None = None,
        delta: Number | None = None,
        noise: str | None = None,
        project: str | None = None,
    ) -> Release:
        """Plan a query and run it; the arguments are those of `plan`."""
        return self.plan(
            sql, epsilon=epsilon, cost=cost, error=error, group_size=group_size, bounds=bounds, keys=keys,
            per_unit=per_unit, weights=weights, confidence=confidence, cover=cover,
            leave_out=leave_out, diagnose=diagnose, delta=delta, noise=noise, project=project,
        ).run()  # fmt: skip

    def remaining(self) -> Guarantee | None:
        """What is left of one's own budget; None for who has none while others have."""
        told = self.call("GET", "/v1/budget")["remaining"]
        return None if told is None else Guarantee.from_dict(told)

    def releases(self) -> dict[str, str]:
        """The releases that one may read again, free: their ids, with the SQL or the title."""
        return {each["id"]: each["sql"] or each["title"] or "" for each in self.call("GET", "/v1/releases")}

    def release(self, id: str) -> Release:
        """A stored release; free.

        Args:
            id: as `releases` lists it.
        """
        if not id.isalnum():
            raise InvalidArgument("id", id[:80], "the id of a release")
        return Release.from_dict(self.call("GET", f"/v1/releases/{id}"))

    def run(self, request: Mapping[str, Any], key: str) -> Release:
        """Submit a request under a key, wait until its answer is shown, and read it.

        Args:
            request: as `plan` sends it.
            key: names the run.
        """
        told = self.call("POST", "/v1/runs", request, {"Idempotency-Key": key})
        while told["state"] == "running":
            time.sleep(min(_TIMEOUT, max(0.02, told["seconds"])))
            told = self.call("GET", f"/v1/runs/{told['id']}")
        if told["problem"] is not None:
            raise from_problem(told["problem"])
        return self.release(told["release"])

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Send one request; the value of its answer, or the error that it tells of.

        Args:
            method: of HTTP.
            path: under the service's address.
            body: what is sent as JSON.
            headers: beside the usual ones.
        """
        content = b"" if body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", **(headers or {})}
        broken: Exception | None = None
        for turn in range(TRIES):
            try:
                status, told_headers, told = self._send(method, path, sent, content)
            except (OSError, http.client.HTTPException) as failure:
                broken = failure
                time.sleep(0.1 * 2**turn)
                continue
            if status == 429 and turn + 1 < TRIES and method == "GET":
                time.sleep(_pause(told_headers.get("retry-after", "")))
                continue
            return _value(status, told)
        raise ServiceBusy(f"the service is out of reach ({type(broken).__name__}); ask again with the same key")

    def close(self) -> None:
        """Forget the token. The service keeps its record."""
        self._token = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return "RemoteSession(…)"


def _pause(stated: str) -> float:
    """The seconds that a service asks to wait; 1 where it says none that can be read, and at most 10."""
    return float(min(10, int(stated))) if stated.isascii() and stated.isdigit() and len(stated) < 10 else 1.0


def _value(status: int, told: bytes) -> Any:
    """The value of an answer; the error of one that tells of one."""
    if 300 <= status < 400:
        raise DeniableError("the service sends to another address; the token goes to none but the one that was given")
    try:
        value = json.loads(told) if told else None
    except ValueError:
        raise DeniableError(f"the service answered {status} with something that is not JSON") from None
    if status >= 400:
        if status == 401:
            raise AccessDenied(str((value or {}).get("detail", "the token is not accepted")))
        raise from_problem(value)
    return value


def _plain(value: Any) -> Any:
    """An argument as JSON: exact numbers as text, lists for everything that is iterated."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, Fraction):
        return str(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, Sequence) or hasattr(value, "__iter__"):
        return [_plain(each) for each in value]
    try:
        return str(exact(value))
    except (TypeError, ValueError):
        return str(value)  # a date as its text
