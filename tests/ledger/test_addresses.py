"""Addresses that may hold a password are never shown; a session that another ledger left behind is not written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from deniable.errors import DeniableError, InvalidArgument
from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from tests.ledger.kept import OnServer

pytest.importorskip("psycopg", reason="needs psycopg; run: pip install 'deniable[postgres]'")
pytestmark = pytest.mark.xdist_group("ledger on a server")

MISTYPED = [
    "postgresql://clerk:pa#S3cret@127.0.0.1:1/hospital",
    "postgresql://clerk:pa/S3cret@127.0.0.1/hospital",
    "postgresql://clerk:12/S3cret@127.0.0.1/hospital",
    "postgresql://clerk:pa@S3cret@127.0.0.1:1/hospital",
    "postgresql+psycopg://clerk:S3cret@127.0.0.1/hospital",
    "PostgreSQL://clerk:S3cret@127.0.0.1/hospital",
    " postgresql://clerk:S3cret@127.0.0.1/hospital",
    "host=127.0.0.1 dbname=hospital user=clerk password=S3cret",
    "postgresql://clerk:S3cret@127.0.0.1:1/hospital?conect_timeout=3",
    "postgresql://clerk:S3cret@127.0.0.1:1/hospital#Visits",
]


@pytest.mark.parametrize("address", MISTYPED)
def test_a_mistyped_address_is_refused_and_its_password_not_shown(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for attempt in (Ledger.open, lambda text: Ledger.create(text, unit="row", budget=PureDP(1))):
        with pytest.raises(InvalidArgument) as refused:
            attempt(address)
        said: list[str] = []
        error: BaseException | None = refused.value
        while error is not None:
            said.append(str(error))
            error = error.__cause__
        assert "S3cret" not in " ".join(said)
    assert not list(tmp_path.iterdir())


def test_a_session_of_another_ledger_takes_no_charge_of_this_one(place: OnServer) -> None:
    """As behind a pooler that hands a transaction to whichever session is free."""
    with (
        Ledger.create(place.address, unit="row", budget=PureDP(1)) as full,
        Ledger.create(f"{place.address}_other", unit="row", budget=PureDP(100)) as other,
    ):
        full.charge(Laplace(scale=1), purpose="all of it")
        own = full._store.connection  # type: ignore[attr-defined]
        full._store.connection = other._store._connected()  # type: ignore[attr-defined]
        try:
            with pytest.raises(DeniableError, match="budget"):
                full.charge(Laplace(scale=1), purpose="once more")
        finally:
            full._store.connection = own  # type: ignore[attr-defined]
        assert [len(list(ledger.charges())) for ledger in (full, other)] == [1, 0]
