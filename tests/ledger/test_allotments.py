"""Budgets of analysts inside the common one."""

from __future__ import annotations

from pathlib import Path

import pytest

from deniable.errors import BudgetExceeded, InvalidArgument, LedgerError, UnitMismatch
from deniable.events import Laplace
from deniable.guarantees import ApproxDP, PureDP
from deniable.ledger import Ledger
from deniable.units import Relation


@pytest.fixture
def ledger(path: Path) -> Ledger:
    made = Ledger.create(path, unit="row", budget=ApproxDP(1, 1e-6))
    made.allot("ana", PureDP(0.5))
    made.allot("bob", ApproxDP(0.75, 1e-7))
    return made


def test_both_budgets_must_accept(ledger: Ledger) -> None:
    ledger.charge(Laplace(scale=2), purpose="q", who="ana")
    with pytest.raises(BudgetExceeded, match="ana's budget") as refused:
        ledger.charge(Laplace(scale=100), purpose="q", who="ana")
    assert refused.value.remaining == PureDP(0, unit="row")
    with pytest.raises(BudgetExceeded, match="all analysts together") as refused:
        ledger.charge(Laplace(scale=1.5), purpose="q", who="bob")
    # What the others left is not for bob to know.
    assert refused.value.remaining == ApproxDP(0.75, 1e-7, unit="row")
    assert refused.value.largest is None
    ledger.charge(Laplace(scale=2), purpose="q", who="bob")
    assert ledger.remaining(who="bob").numbers["epsilon"] == 0.25
    ledger.verify()
    ledger.close()


def test_everyone_is_named_once_budgets_are_allotted(ledger: Ledger) -> None:
    for who in (None, "eve"):
        with pytest.raises(LedgerError, match="each analyst"):
            ledger.charge(Laplace(scale=100), purpose="q", who=who)
    with pytest.raises(LedgerError, match="each analyst"):
        ledger.remaining(who="eve")
    assert list(ledger.charges()) == []
    ledger.close()


def test_an_allotment_is_made_once(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="never changed"):
        ledger.allot("ana", PureDP(9))
    with pytest.raises(UnitMismatch):
        ledger.allot("cem", PureDP(1, relation=Relation.REPLACE))
    with pytest.raises(UnitMismatch):
        ledger.allot("cem", PureDP(1, unit="doctor_id"))
    with pytest.raises(InvalidArgument):
        ledger.allot("", PureDP(1))
    assert ledger.analysts() == {"ana": PureDP(0.5, unit="row"), "bob": ApproxDP(0.75, 1e-7, unit="row")}
    ledger.verify()
    ledger.close()


def test_analysts_may_join_later(ledger: Ledger) -> None:
    ledger.charge(Laplace(scale=4), purpose="q", who="ana")
    ledger.allot("cem", PureDP(0.5))
    ledger.charge(Laplace(scale=4), purpose="q", who="cem")
    ledger.charge(Laplace(scale=4), purpose="q", who="ana")
    assert ledger.remaining(who="ana") == PureDP(0, unit="row")
    assert ledger.remaining(who="cem") == PureDP(0.25, unit="row")
    assert ledger.remaining().numbers["epsilon"] == 0.25
    ledger.verify()
    ledger.close()


def test_without_allotments_who_is_a_note(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        ledger.charge(Laplace(scale=4), purpose="q", who="anybody")
        ledger.charge(Laplace(scale=4), purpose="q")
        assert [charge.who for charge in ledger.charges()] == ["anybody", None]
        assert ledger.remaining(who="somebody") == ledger.remaining() == PureDP(0.5, unit="row")
