"""`Session.describe`: one charge, one table, and what it finds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from deniable.accounting import account
from deniable.errors import BudgetExceeded, InvalidArgument
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.query import Session


def visits() -> pd.DataFrame:
    person = np.repeat(np.arange(2000), 3)
    cost = np.where(np.arange(6000) % 4 == 0, np.nan, 100.0 + np.arange(6000) % 700)
    return pd.DataFrame({"person": person, "city": ["Bern", None, "Basel"] * 2000, "cost": cost})


def test_a_table_is_described_for_one_charge(tmp_path: Path) -> None:
    """ε = 400, so the noise is below 1 but for a probability of e^(−20) in any cell."""
    with (
        Ledger.create(tmp_path / "l", unit="person", budget=PureDP(1000)) as ledger,
        Session({"visits": visits(), "empty": visits()[:0]}, ledger=ledger) as session,
    ):
        found = session.describe("visits", epsilon=400)
        (charge,) = ledger.charges()
        assert charge.event == found.event
        assert account(found.event).epsilon(0) <= 400 * (1 + 1e-12)
        assert ledger.remaining() == PureDP(600, unit="person")
        assert found.people.low <= 2000 <= found.people.high
        assert found.rows.low <= 6000 <= found.rows.high
        assert found.missing["city"] == pytest.approx(1 / 3, abs=0.01)
        assert found.missing["cost"] == pytest.approx(1 / 4, abs=0.01)
        low, high = found.ranges["cost"]
        assert low <= 100 < 799 <= high <= 1000
        assert dict(found.owners)[3] == pytest.approx(2000, abs=5)
        lost = {rows: left for rows, _, left in found.errors}
        assert lost[1] == pytest.approx(4000, rel=0.01)
        assert lost[5] < 10
        assert json.loads(found.to_json())["table"] == "visits"
        assert "± 3" in str(found)
        nothing = session.describe("EMPTY", epsilon=1)
        assert set(nothing.missing) == {"city", "cost"}


def test_rows_on_their_own(tmp_path: Path) -> None:
    with (
        Ledger.create(tmp_path / "l", unit="row", budget=PureDP(100)) as ledger,
        Session({"visits": visits()[["cost"]]}, ledger=ledger) as session,
    ):
        found = session.describe("visits", epsilon=50)
        assert found.people is None
        assert found.rows.low <= 6000 <= found.rows.high
        assert not found.errors


def test_what_cannot_be_described(tmp_path: Path) -> None:
    with (
        Ledger.create(tmp_path / "l", unit="person", budget=PureDP(1)) as ledger,
        Session({"visits": visits()}, ledger=ledger, public={"towns": pd.DataFrame({"a": [1]})}) as session,
    ):
        for wrong in ("towns", "nothing", None):
            with pytest.raises(InvalidArgument, match="one of the private tables visits"):
                session.describe(wrong, epsilon=1)
        with pytest.raises(InvalidArgument, match="epsilon must be a positive number"):
            session.describe("visits", epsilon=0)
        with pytest.raises(BudgetExceeded):
            session.describe("visits", epsilon=2)
        assert not list(ledger.charges())
