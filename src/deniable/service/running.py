"""Starting a service: making its folder, checking what is open, and running its workers."""

from __future__ import annotations

import logging
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from deniable import _files
from deniable.errors import LedgerError, MissingExtra
from deniable.ledger import Ledger
from deniable.service import roles
from deniable.service.access import Access
from deniable.service.app import make_app
from deniable.service.curator import Curator
from deniable.service.pages import page_routes
from deniable.service.settings import FILE, ServiceSettings
from deniable.service.store import ServiceStore

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as error:
    raise MissingExtra("uvicorn", "serve") from error

FOLDER = "DENIABLE_SERVICE"
"""The variable of the environment that tells a worker its folder."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_CITIES = ("Basel", "Bern", "Geneva", "Lausanne", "Zurich")


class NewService(NamedTuple):
    """What `initialize` made: tokens are shown this once."""

    folder: Path
    tokens: Mapping[str, str]
    """By account."""


def initialize(
    folder: str | Path,
    *,
    tables: Mapping[str, str],
    unit: str | None = None,
    ledger: str | None = None,
    epsilon: float = 3,
    delta: float | None = 1e-6,
    demo: bool = False,
) -> NewService:
    """Make a service's folder: settings, a ledger unless there is one, the owner's account, made-up data if asked."""
    place = Path(folder).absolute()
    if not place.is_dir():
        _files.make_folder(place)
        place.chmod(0o700)
    tables = {name: str(Path(path).absolute()) if "://" not in path else path for name, path in tables.items()}
    if demo:
        _files.write_text(place / "visits.csv", _made_up_visits(), private=True)
        tables, unit = {**tables, "visits": "visits.csv"}, unit or "patient_id"
    settings = ServiceSettings.of(place, {"ledger": ledger or "service.ledger", "tables": tables})
    settings.write()
    if ledger is None:
        Ledger.create(settings.ledger_place, unit=unit or "row", epsilon=epsilon, delta=delta).close()
    store, now = ServiceStore(settings.ledger_place), time.time()
    access, tokens = Access(store, settings), {}
    names = {"owner": roles.OWNER, **({"ana": roles.ANALYST} if demo else {})}
    for name, role in names.items():
        if store.account(name) is None:
            access.add_account(name, role, password=None, now=now)
            tokens[name] = access.add_token(name, label="first", days=None, now=now)[1]
    store.close()
    if demo:
        with Ledger.open(settings.ledger_place) as made:
            made.allot("ana", epsilon=epsilon / 2, delta=None if delta is None else delta / 2)
    return NewService(place, tokens)


def _made_up_visits() -> str:
    """A table of 3,000 visits that nobody made."""
    lines = ["patient_id,city,age,cost"]
    for visit in range(3000):
        person = visit * 7919 % 1200
        lines.append(f"{person},{_CITIES[person % 5]},{18 + person * 31 % 70},{20 + visit * 104_729 % 900}")
    return "\n".join(lines) + "\n"


def check(folder: str | Path, *, host: str = "127.0.0.1", tls: bool = False) -> list[str]:
    """What is open or missing, in words; an empty list where nothing is."""
    settings, open_ends = ServiceSettings.read(folder), []
    places = [settings.folder, settings.folder / FILE, *([settings.heads_path] if settings.heads_path.exists() else [])]
    places += [] if "://" in settings.ledger else [Path(settings.ledger_place)]
    places += [Path(place) for place in settings.data(settings.tables).values() if "://" not in place]
    for path in places:
        if not path.exists():
            open_ends.append(f"{_files.show_path(path)} is not there")
        elif path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
            open_ends.append(f"{_files.show_path(path)} is open to every user of this machine: chmod o-rwx")
    if host not in _LOOPBACK and not tls:
        open_ends.append(f"{host} is reached without TLS: listen on 127.0.0.1 behind a proxy, or give a certificate")
    if not settings.heads_path.exists():
        open_ends.append("no head of the ledger is kept in the second place yet")
    if "://" not in settings.ledger and settings.heads_path.parent == Path(settings.ledger_place).parent:
        open_ends.append("heads lie beside the ledger, and are set back with it: let `heads` name another disk")
    if not settings.deadline:
        open_ends.append("deadline is 0, so that the time of an answer tells of the data")
    return open_ends


@contextmanager
def only_one(settings: ServiceSettings) -> Iterator[None]:
    """Holds the folder, so that a second service on it is refused."""
    with _files.holding(settings.folder / ".running") as free:
        if not free:
            raise LedgerError("another service runs on this folder; stop it first")
        yield


def recover(settings: ServiceSettings) -> None:
    """Refuse a ledger that was set back, and give up what was cut short; before the first worker starts."""
    curator = Curator(settings)
    try:
        curator.jobs.recover()
    finally:
        curator.close()


def serve(
    folder: str | Path, *, host: str = "127.0.0.1", port: int = 8360, workers: int = 2, certificate: str | None = None,
    certificate_key: str | None = None, proxies: str | None = None, on_start: Callable[[str], None] = lambda url: None,
) -> None:  # fmt: skip
    """Run a service until it is told to stop; `on_start` is told its address once nothing refuses it."""
    settings = ServiceSettings.read(folder)
    with only_one(settings):
        recover(settings)
        os.environ[FOLDER] = str(settings.folder)
        on_start(f"http{'s' if certificate else ''}://{host}:{port}")
        uvicorn.run(
            "deniable.service.running:application", factory=True, host=host, port=port, workers=workers,
            ssl_certfile=certificate, ssl_keyfile=certificate_key, proxy_headers=proxies is not None,
            forwarded_allow_ips=proxies, server_header=False, access_log=False, log_config=None,
            timeout_graceful_shutdown=30, limit_concurrency=1000, http=PromptProtocol, ws="none",
            h11_max_incomplete_event_size=32_768,
        )  # fmt: skip


class PromptProtocol(H11Protocol):
    """HTTP by h11, whose answers leave at once. The server writes an answer in two pieces, and the system would keep
    the second back until the first is acknowledged, for 40 ms."""

    def connection_made(self, transport: Any) -> None:
        own = transport.get_extra_info("socket")
        if own is not None and own.family != socket.AF_UNIX:
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)


def application() -> Any:
    """One worker's application, for the folder in the environment."""
    start_logging()
    curator = Curator(ServiceSettings.read(os.environ[FOLDER]))
    curator.start_early()
    return make_app(curator, pages=page_routes(curator))


class _WithoutTraces(logging.Filter):
    """Takes the trace of an exception from a record: it may quote what somebody sent."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info, record.exc_text, record.stack_info = None, None, None
        return True


def start_logging() -> None:
    """Write one line for each request to standard error, and no trace of any exception."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(_WithoutTraces())
    root = logging.getLogger()
    root.handlers, root.level = [handler], logging.INFO
