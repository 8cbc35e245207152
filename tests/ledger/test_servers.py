"""A ledger on a server: what it asks of the server, who may do what, and addresses. Some 8 s."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from deniable.errors import InvalidArgument, LedgerDamaged, LedgerError, LedgerExists, LedgerMissing, MissingExtra
from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from tests.ledger.kept import OnServer
from tests.postgres import Server

psycopg = pytest.importorskip("psycopg", reason="needs psycopg; run: pip install 'deniable[postgres]'")
from deniable.ledger.stores import postgres as module  # noqa: E402
from deniable.ledger.stores.postgres import Address, PostgresStore  # noqa: E402

pytestmark = pytest.mark.xdist_group("ledger on a server")
EVENT = Laplace(scale=100)


@pytest.fixture
def ledger(place: OnServer) -> Iterator[Ledger]:
    with Ledger.create(place.address, unit="row", budget=PureDP(1)) as made:
        yield made


def test_a_server_that_may_forget_is_refused(postgres: Server) -> None:
    """The other tests' server runs without fsync."""
    address = OnServer(postgres, "careless").address
    with pytest.raises(LedgerError, match="fsync"):
        Ledger.create(address, unit="row", budget=PureDP(1))


def test_a_commit_waits_for_the_disk_whatever_the_role_prefers(place: OnServer, ledger: Ledger) -> None:
    place.run("ALTER ROLE tester SET synchronous_commit = off")
    try:
        with Ledger.open(place.address) as other:
            store = other._store
            assert isinstance(store, PostgresStore)
            assert store.ask("SHOW synchronous_commit") == [("on",)]
    finally:
        place.run("ALTER ROLE tester RESET synchronous_commit")


def test_a_writer_that_holds_on_is_not_waited_for_for_ever(
    place: OnServer, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT", 1)
    with ledger._store.writing(), Ledger.open(place.address) as other:
        assert other.head().seq == 0  # readers pass
        with pytest.raises(LedgerError, match="another process has been writing"):
            other.charge(EVENT, purpose="q")
    ledger.charge(EVENT, purpose="q")


def test_a_writer_that_falls_silent_is_sent_away(
    place: OnServer, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that froze in the middle of a charge must not keep the others waiting, nor wake up and commit."""
    monkeypatch.setattr(module, "WAIT", 2)
    with Ledger.open(place.address) as frozen:

        def freeze(*row: Any) -> None:
            # The server ends a transaction that is idle for a second; another writer waits for that, and goes on.
            with Ledger.open(place.address) as other:
                other.charge(EVENT, purpose="q")
            PostgresStore.append(frozen._store, *row)  # type: ignore[arg-type]

        monkeypatch.setattr(frozen._store, "append", freeze)
        with pytest.raises(LedgerError, match="did not take the charge"):
            frozen.charge(EVENT, purpose="too late")
        assert frozen.verify().seq == 1


# roles


def test_a_role_that_may_only_read_looks_and_does_not_charge(place: OnServer, ledger: Ledger) -> None:
    ledger.charge(EVENT, purpose="q")
    grants = f"GRANT SELECT ON ALL TABLES IN SCHEMA {place.name} TO ROLE"
    with role(place, grants) as address, Ledger.open(address) as reader:
        assert reader.verify() == ledger.head()
        assert reader.remaining() == ledger.remaining()
        with pytest.raises(LedgerError, match=r"may not do that.*INSERT on rows"):
            reader.charge(EVENT, purpose="q")
    assert ledger.verify().seq == 1


def test_a_role_that_charges_cannot_change_the_past(place: OnServer, ledger: Ledger) -> None:
    grants = (
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {place.name} TO ROLE; GRANT INSERT ON {place.name}.rows TO ROLE;"
        f"GRANT INSERT, UPDATE ON {place.name}.balances TO ROLE"
    )
    with role(place, grants) as address, Ledger.open(address) as clerk:
        clerk.charge(EVENT, purpose="q")
        assert clerk.verify().seq == 1
        store = clerk._store
        assert isinstance(store, PostgresStore)
        for statement in (
            "UPDATE rows SET body = ''",
            "DELETE FROM rows",
            "TRUNCATE rows",
            "UPDATE header SET body=''",
        ):
            with pytest.raises(LedgerError, match="permission denied"):
                store.ask(statement)


def test_a_role_without_rights_is_told_which_it_needs(place: OnServer, ledger: Ledger) -> None:
    ledger.charge(EVENT, purpose="q")
    rights = r"USAGE on the schema and SELECT on its tables.*INSERT on rows, and INSERT and UPDATE on balances"
    for usage in (False, True):
        with role(place, "", usage=usage) as address:
            with pytest.raises(LedgerError, match=rights) as refused:
                Ledger.open(address)
            assert not isinstance(refused.value, LedgerDamaged | LedgerMissing)
            with pytest.raises(LedgerError, match=r"may not create a ledger.*needs CREATE on the database"):
                Ledger.create(f"{address}_mine", unit="row", budget=PureDP(1))
    assert ledger.verify().seq == 1


def test_a_server_that_only_reads_says_so(place: OnServer, ledger: Ledger) -> None:
    # ALTER USER, for the word ROLE stands for the role's name.
    grants = "ALTER USER ROLE SET default_transaction_read_only = on;GRANT CREATE ON DATABASE postgres TO ROLE"
    with role(place, grants) as address, pytest.raises(LedgerError, match="only reads"):
        Ledger.create(f"{address}_mine", unit="row", budget=PureDP(1))


def test_even_the_owner_does_not_change_rows_by_accident(place: OnServer, ledger: Ledger) -> None:
    ledger.charge(EVENT, purpose="q")
    for statement in ("UPDATE rows SET body = ''", "DELETE FROM rows", "TRUNCATE rows"):
        with pytest.raises(psycopg.Error, match="never changed"):
            place.run(statement)


def test_rows_that_a_policy_hides_are_an_error_and_not_a_gap(place: OnServer, ledger: Ledger) -> None:
    ledger.charge(EVENT, purpose="q")
    place.run("ALTER TABLE rows ENABLE ROW LEVEL SECURITY")
    grants = f"GRANT SELECT ON ALL TABLES IN SCHEMA {place.name} TO ROLE"
    with role(place, grants) as address, pytest.raises(LedgerError), Ledger.open(address) as reader:
        reader.verify()


@contextmanager
def role(place: OnServer, grants: str, *, usage: bool = True) -> Iterator[str]:
    name = f"role_{place.name}"[:60]
    place.run(f"CREATE ROLE {name} LOGIN", *([f"GRANT USAGE ON SCHEMA {place.name} TO {name}"] if usage else []))
    place.run(*filter(None, grants.replace("ROLE", name).split(";")))
    try:
        yield str(place.address).replace("tester@", f"{name}@")
    finally:
        place.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_a_full_disk_is_said_and_charges_nothing(place: OnServer, ledger: Ledger) -> None:
    place.run(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$",
        "CREATE TRIGGER full_disk BEFORE UPDATE ON balances FOR EACH ROW EXECUTE FUNCTION full_disk()",
    )
    with pytest.raises(LedgerError, match=r"no space left.*nothing may be released"):
        ledger.charge(EVENT, purpose="q")
    assert ledger.verify().seq == 0
    place.run("DROP TRIGGER full_disk ON balances")
    assert ledger.charge(EVENT, purpose="q").seq == 1


# places


def test_opening_never_creates_and_creating_never_overwrites(place: OnServer, ledger: Ledger) -> None:
    ledger.charge(EVENT, purpose="q")
    with pytest.raises(LedgerExists, match="already something"):
        Ledger.create(place.address, unit="row", budget=PureDP(99))
    assert ledger.verify().seq == 1
    with pytest.raises(LedgerMissing, match="no ledger"):
        Ledger.open(f"{place.address}_none")
    assert place.run(f"SELECT count(*) FROM pg_namespace WHERE nspname = '{place.name}_none'") == [(0,)]


def test_creating_races_are_won_once(place: OnServer) -> None:
    def attempt(_: int) -> bool:
        try:
            Ledger.create(place.address, unit="row", budget=PureDP(1)).close()
        except LedgerExists:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(8))) == 1
    with Ledger.open(place.address) as ledger:
        assert ledger.verify().seq == 0


def test_a_schema_that_is_not_a_ledger_is_refused(place: OnServer) -> None:
    place.run(f"CREATE SCHEMA {place.name}")
    with pytest.raises(LedgerDamaged, match="not a ledger"):
        Ledger.open(place.address)


SECRET = "hunter2"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://clerk:{SECRET}@127.0.0.1:1/db#visits",
        f"postgresql://clerk@127.0.0.1:1/db?password={SECRET}",
        f"postgresql://clerk:{SECRET}@127.0.0.1:1/db?nonsense={SECRET}",
        f"postgresql://clerk:{SECRET}@127.0.0.1:1/db#Not A Name",
        f"postgres://clerk:{SECRET}@[::1/db",
    ],
)
def test_a_password_is_never_printed(address: str) -> None:
    """No server listens there; whatever is said about it leaves the password out, down to the first cause."""
    with pytest.raises((LedgerError, InvalidArgument)) as refused:
        Ledger.open(address)
    error: BaseException | None = refused.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__


def test_an_address_is_shown_without_its_password(place: OnServer, ledger: Ledger) -> None:
    secret = str(place.address).replace("tester@", f"tester:{SECRET}@")
    with Ledger.open(secret) as other:
        assert other.place == place.address
        for shown in (repr(other), str(other.describe()), repr(Address.parse(secret))):
            assert SECRET not in shown
    assert Address.parse("postgresql://h/d").shown == "postgresql://h/d#deniable"


def test_the_command_line_takes_an_address_and_hides_its_password(place: OnServer) -> None:
    from typer.testing import CliRunner

    from deniable.cli.app import app

    secret = str(place.address).replace("tester@", f"tester:{SECRET}@")

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, ["ledger", *words])
        assert done.exit_code == 0, done.output
        assert SECRET not in done.output
        return done.output

    assert f"created {place.address}: ε ≤ 1.00" in run("create", secret, "--epsilon", "1", "--unit", "row")
    with Ledger.open(secret) as ledger:
        ledger.charge(EVENT, purpose="by hand")
        head = str(ledger.head())
    assert "by hand" in run("show", secret)
    assert f"{place.address}: 1 row verified" in run("verify", secret, "--head", head)
    assert f'"file": "{place.address}"' in run("verify", secret, "--json")
    assert len(run("export", secret).splitlines()) == 3


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "deniable.ledger.stores.postgres")
    with pytest.raises(MissingExtra, match=r"pip install 'deniable\[postgres\]'"):
        Ledger.open("postgresql://somewhere/db")
