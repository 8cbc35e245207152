"""A service over a small table, asked through its ASGI interface without a socket, with a clock that tests move."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import deniable as dn
from deniable.service import access
from deniable.service.app import make_app
from deniable.service.client import RemoteSession
from deniable.service.curator import Curator
from deniable.service.settings import ServiceSettings

CITIES = ["Bern", "Basel"]
QUESTION: dict[str, Any] = {
    "sql": "SELECT city, COUNT(*) AS n FROM visits GROUP BY city",
    "epsilon": 0.1,
    "keys": {"city": CITIES},
    "per_unit": {"groups": 1, "rows": 2},
}


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body) if self.body else None


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class AtOnce:
    """A pool that computes when it is asked to."""

    def submit(self, work: Callable[..., Any], *given: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*given))
        except Exception as failure:  # noqa: BLE001  as a thread of a pool does
            done.set_exception(failure)
        return done

    def shutdown(self, wait: bool = True) -> None:
        return None


def finish(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns. The thread of the tests may have a loop of its own, such as a browser's."""
    with ThreadPoolExecutor(1) as alone:
        return alone.submit(asyncio.run, work).result()


def ask(app: Any, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Reply:
    """One request to an ASGI application."""
    sent: list[dict[str, Any]] = []
    where, _, query = path.partition("?")
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
    raw += [(b"host", b"dp.test"), (b"content-length", str(len(body)).encode())]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": where,
        "raw_path": where.encode(), "query_string": query.encode(), "headers": raw, "scheme": "https",
        "server": ("dp.test", 443), "client": ("127.0.0.1", 1), "root_path": "",
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    finish(app(scope, receive, send))
    start = next(message for message in sent if message["type"] == "http.response.start")
    content = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return Reply(start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, content)


class Service:
    """A curator, its application, and a token for every role."""

    def __init__(self, folder: Path, clock: Clock, **stated: Any) -> None:
        settings = {"ledger": "t.ledger", "tables": {"visits": "visits.csv"}, "planning_seconds": 0, "deadline": 4}
        self.settings = ServiceSettings.of(folder, {**settings, **stated})
        self.clock = clock
        self.open()
        self.names = {"owner": "ota", "curator": "cora", "analyst": "ana", "auditor": "aldo", "other": "ben"}
        self.tokens: dict[str, str] = {}
        for role, name in self.names.items():
            kind = "analyst" if role == "other" else role
            self.curator.access.add_account(name, kind, password=None, now=clock())
            self.tokens[role] = self.curator.access.add_token(name, label="", days=None, now=clock())[1]
            if kind == "analyst":
                self.curator.session.ledger.allot(name, epsilon=1)

    def open(self) -> None:
        self.curator = Curator(self.settings, clock=self.clock)
        self.curator.jobs._pool.shutdown()
        self.curator.jobs._pool = AtOnce()  # type: ignore[assignment]
        self.app = make_app(self.curator)

    def ask(self, role: str | None, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        shown = {} if role is None else {"Authorization": f"Bearer {self.tokens[role]}"}
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(self.app, method, path, {**shown, **more}, b"" if body is None else json.dumps(body).encode())

    def submit(self, role: str, key: str, **changes: Any) -> Reply:
        return self.ask(role, "POST", "/v1/runs", {**QUESTION, **changes}, Idempotency_Key=key)

    def client(self, role: str) -> RemoteSession:
        def send(method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
            self.clock.now += 200 if "/v1/runs/" in path else 0  # whoever asks again has waited
            return ask(self.app, method, path, headers, body)

        return RemoteSession(send, self.tokens[role])

    @property
    def charges(self) -> int:
        return len(list(self.curator.session.ledger.charges()))


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are hashed once, lightly: the real parameters take half a second each."""
    monkeypatch.setattr(access, "HASHER", access.argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    rows = "".join(f"{i},{CITIES[i % 2]},{i % 50}\n" for i in range(60))
    (tmp_path / "visits.csv").write_text("patient_id,city,cost\n" + rows)
    dn.Ledger.create(tmp_path / "t.ledger", unit="patient_id", epsilon=3, delta=1e-6).close()
    opened: list[Service] = []

    def made(**stated: Any) -> Service:
        opened.append(Service(tmp_path, Clock(), **stated))
        return opened[-1]

    yield made
    for service in opened:
        service.curator.close()


@pytest.fixture
def service(make: Callable[..., Service]) -> Service:
    return make()
