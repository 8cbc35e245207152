"""What may happen on the way to a server: connections ended at every statement, a cut wire, crashes. Some 10 s."""

from __future__ import annotations

import runpy
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deniable.errors import BudgetExceeded, LedgerError, LedgerUnsure
from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from tests.ledger.kept import OnServer, address_of
from tests.postgres import Server, running

psycopg = pytest.importorskip("psycopg", reason="needs psycopg; run: pip install 'deniable[postgres]'")

pytestmark = pytest.mark.xdist_group("ledger on a server")
recompute = runpy.run_path(str(Path(__file__).parent / "oracle.py"))["recompute"]
EVENT = Laplace(scale=100)


@pytest.fixture
def ledger(place: OnServer) -> Iterator[Ledger]:
    with Ledger.create(place.address, unit="row", budget=PureDP(1)) as made:
        yield made


def keys(place: OnServer) -> list[str]:
    return [key for (key,) in place.run("SELECT key FROM rows ORDER BY seq")]


class Cuts:
    """Counts the statements of a ledger's connection, and has the server end it around one of them."""

    def __init__(self, place: OnServer, *, at: int, after: bool) -> None:
        self._place, self._at, self._after, self.statements = place, at, after, list[str]()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        execute = psycopg.Connection.execute

        def watched(connection: Any, query: Any, *more: Any, **named: Any) -> Any:
            if connection.info.get_parameters().get("dbname") is None or isinstance(query, bytes):
                return execute(connection, query, *more, **named)  # the administrator's
            self.statements.append(query)
            mine = len(self.statements) == self._at
            if mine and not self._after:
                self._end(connection)
            done = execute(connection, query, *more, **named)
            if mine and self._after:
                self._end(connection)
            return done

        patch.setattr(psycopg.Connection, "execute", watched)

    def _end(self, connection: Any) -> None:
        number = connection.info.backend_pid
        self._place.run(f"SELECT pg_terminate_backend({number}, 10000)")


def test_a_connection_ended_around_any_statement_neither_loses_nor_doubles_a_charge(
    place: OnServer, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each statement of a charge. Then the same key once more: it is there exactly once."""
    ledger.charge(EVENT, purpose="the first, which reads the header too", key="first")
    with monkeypatch.context() as patch:
        count = Cuts(place, at=0, after=False)
        count.install(patch)
        ledger.charge(EVENT, purpose="counting", key="counting")
    assert count.statements[0].startswith("BEGIN")
    assert count.statements[-1] == "COMMIT"
    outcomes = {}
    for after in (False, True):
        for at in range(1, len(count.statements) + 1):
            key = f"{'after' if after else 'before'} {at}"
            with monkeypatch.context() as patch:
                Cuts(place, at=at, after=after).install(patch)
                told = None
                with suppress(LedgerError):
                    told = ledger.charge(EVENT, purpose="cut", key=key)
            # An answer means that it is there; an error that could ask says truly that it is not.
            assert (key in keys(place)) == (told is not None), key
            outcomes[key] = told is not None
            again = ledger.charge(EVENT, purpose="cut", key=key)
            assert again.fresh == (told is None)
            assert keys(place).count(key) == 1
    # A connection that was dead before the charge began is replaced without a word; one that dies in it is not.
    last = len(count.statements)
    assert outcomes["before 1"]
    assert not outcomes["after 1"]
    assert not outcomes[f"before {last}"]
    assert outcomes[f"after {last}"]
    assert recompute(ledger.export())["rows"] == 2 + 2 * last
    assert ledger.verify().seq == 2 + 2 * last


COMMIT = b"COMMIT\0"


class Wire:
    """A way to the server that can be cut around the COMMIT: before it arrives, or before its answer does."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._target, self.folder = str(server.folder / ".s.PGSQL.5432"), folder
        self.cut: str | None = None
        self.open = True
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(folder / ".s.PGSQL.5432"))
        self._door.listen()
        threading.Thread(target=self._admit, daemon=True).start()

    def _admit(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            if not self.open:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            stop = threading.Event()
            threading.Thread(target=self._up, args=(client, server, stop), daemon=True).start()
            threading.Thread(target=self._down, args=(server, client, stop), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket, stop: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if COMMIT in data and self.cut == "before":
                    break
                if COMMIT in data and self.cut is not None:
                    stop.set()  # the server gets it, and its answer is dropped
                server.sendall(data)
        _hang_up(client, server)

    def _down(self, server: socket.socket, client: socket.socket, stop: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if stop.is_set():
                    self.open = self.cut != "after, and gone"
                    break
                client.sendall(data)
        _hang_up(client, server)

    def close(self) -> None:
        self._door.close()


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@pytest.fixture
def wire(server: Server, ledger: Ledger) -> Iterator[Wire]:
    folder = Path(tempfile.mkdtemp(prefix="dn-wire-"))
    made = Wire(server, folder)
    yield made
    made.close()
    shutil.rmtree(folder)


def through(wire: Wire, place: OnServer) -> str:
    """The ledger's address by way of the wire."""
    return address_of(wire.folder, place.name)


def test_a_commit_that_never_arrived_charged_nothing(wire: Wire, place: OnServer, ledger: Ledger) -> None:
    with Ledger.open(through(wire, place)) as far:
        wire.cut = "before"
        with pytest.raises(LedgerError, match="nothing was charged") as lost:
            far.charge(EVENT, purpose="q", key="once")
        assert not isinstance(lost.value, LedgerUnsure)
        assert ledger.head().seq == 0
        wire.cut = None
        assert far.charge(EVENT, purpose="q", key="once").fresh
        assert ledger.verify().seq == 1


def test_a_commit_whose_answer_was_lost_is_found(wire: Wire, place: OnServer, ledger: Ledger) -> None:
    with Ledger.open(through(wire, place)) as far:
        wire.cut = "after"
        made = far.charge(EVENT, purpose="q")  # no key: the store looks for its own row
        assert made.fresh
        assert ledger.verify().seq == made.seq == 1
        wire.cut = None
        assert far.charge(EVENT, purpose="q").seq == 2


def test_a_commit_that_nobody_can_be_asked_about_says_so(wire: Wire, place: OnServer, ledger: Ledger) -> None:
    with Ledger.open(through(wire, place)) as far:
        wire.cut = "after, and gone"
        with pytest.raises(LedgerUnsure, match=r"may stand\. Nothing may be released"):
            far.charge(EVENT, purpose="q", key="once")
        wire.cut, wire.open = None, True
        again = far.charge(EVENT, purpose="q", key="once")
        assert not again.fresh
        assert ledger.verify().seq == 1


def test_a_refused_charge_does_not_care_about_its_end(wire: Wire, place: OnServer, ledger: Ledger) -> None:
    with Ledger.open(through(wire, place)) as far:
        wire.cut = "after"
        with pytest.raises(BudgetExceeded):
            far.charge(Laplace(scale=0.1), purpose="too much")
        wire.cut = None
        assert far.head().seq == 0


# servers that crash


def test_a_server_that_crashes_keeps_what_was_told() -> None:
    """Three crashes while four threads charge; what was told is there, and at most one charge more for each thread."""
    with running(durable=True) as server:
        place = OnServer(server, "crash")
        Ledger.create(place.address, unit="row", budget=PureDP(100)).close()
        told: list[str] = []

        def charge_until_it_fails(number: int) -> None:
            with Ledger.open(place.address) as own, suppress(LedgerError, LedgerUnsure):
                for turn in range(10_000):
                    key = f"{len(told)} {number} {turn} {threading.get_ident()}"
                    own.charge(EVENT, purpose="q", key=key)
                    told.append(key)
                    enough.set()

        for _ in range(3):
            enough = threading.Event()
            with ThreadPoolExecutor(4) as pool:
                for number in range(4):
                    pool.submit(charge_until_it_fails, number)
                assert enough.wait(60)
                server.stop("immediate")
            server.start()
            recorded = set(keys(place))
            assert recorded.issuperset(told)
            assert len(recorded) <= len(told) + 4 * 3
        with Ledger.open(place.address) as ledger:
            assert ledger.verify().seq == len(recorded)
            verdict = recompute(ledger.export())
            assert verdict["whole"]
            assert not verdict["overspent"]


def test_an_idle_connection_that_died_is_replaced(place: OnServer, ledger: Ledger) -> None:
    for ask in (ledger.head, ledger.verify, lambda: ledger.charge(EVENT, purpose="q")):
        place.run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name <> 'x'"
                  " AND pid <> pg_backend_pid() AND datname = current_database()")  # fmt: skip
        ask()
