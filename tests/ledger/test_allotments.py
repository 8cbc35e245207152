"""Budgets of analysts inside the common one."""

from __future__ import annotations

from pathlib import Path

import pytest

from deniable.accounting.filters import nothing
from deniable.errors import BudgetExceeded, InvalidArgument, LedgerError, UnitMismatch
from deniable.events import Claimed, Gaussian, Laplace
from deniable.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from deniable.ledger import Ledger, records, verification
from deniable.ledger.accounts import Account
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


# after charges


def test_an_allotment_counts_what_its_analyst_was_told(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        ledger.charge(Laplace(scale=4), purpose="q", who="ana")
        ledger.charge(Laplace(scale=5), purpose="q", who="bob")
        ledger.allot("ana", PureDP(0.5))
        assert ledger.remaining(who="ana") == PureDP(0.25, unit="row")
        ledger.verify()
        with pytest.raises(BudgetExceeded, match="ana's budget"):
            ledger.charge(Laplace(scale=2), purpose="q", who="ana")
        ledger.charge(Laplace(scale=4), purpose="q", who="ana")
        assert ledger.remaining(who="ana") == PureDP(0, unit="row")
        ledger.verify()


def test_what_names_nobody_may_have_been_told_to_anybody(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        ledger.charge(Laplace(scale=4), purpose="a table for everybody")
        for who in ("ana", "bob"):
            ledger.allot(who, PureDP(0.5))
            assert ledger.remaining(who=who) == PureDP(0.25, unit="row")
        ledger.verify()


def test_an_allotment_that_does_not_hold_the_past_is_refused(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=ApproxDP(1, 1e-6)) as ledger:
        ledger.charge(Laplace(scale=2), purpose="q", who="ana")
        ledger.charge(Gaussian(scale=20), purpose="q", who="bob")
        before = ledger.head()
        with pytest.raises(LedgerError, match=r"in the name of ana.*does not fit a budget of ε = 0\.25\. Allot more"):
            ledger.allot("ana", PureDP(0.25))
        with pytest.raises(LedgerError, match="in the name of bob"):
            ledger.allot("bob", PureDP(1))  # no Gaussian has a finite ε
        assert ledger.head() == before
        assert ledger.analysts() == {}
        ledger.charge(Laplace(scale=10), purpose="nothing was allotted, so nobody need be named")
        ledger.verify()


def test_the_first_charge_chooses_the_filter_and_not_the_last(path: Path) -> None:
    """To choose the rule in the light of later charges would be to choose after their answers were seen."""
    with Ledger.create(path, unit="row", budget=ApproxDP(3, 1e-5)) as ledger:
        ledger.charge(Laplace(scale=10), purpose="fits the list", who="ana")
        ledger.charge(Claimed(ApproxDP(0.1, 8e-7)), purpose="fits the basic filter alone", who="ana")
        with pytest.raises(LedgerError, match="in the name of ana"):
            ledger.allot("ana", ApproxDP(1, 1e-6))
        ledger.verify()


@pytest.mark.parametrize(
    ("common", "own"),
    [
        (PureDP(1), PureDP(5)),
        (PureDP(1), ApproxDP(0.5, 1e-7)),
        (PureDP(1), ZCDP(0.1)),
        (ApproxDP(1, 1e-6), ApproxDP(0.5, 1e-5)),
        (ApproxDP(1, 1e-6), ApproxDP(1.1, 1e-7)),
        (ApproxDP(1, 1e-6), ZCDP(1)),
        (ZCDP(0.1), PureDP(1)),
        (GDP(1), GDP(1.5)),
    ],
)
def test_an_allotment_above_the_common_budget_is_refused(path: Path, common: Guarantee, own: Guarantee) -> None:
    with Ledger.create(path, unit="row", budget=common) as ledger:
        with pytest.raises(BudgetExceeded, match="does not fit the ledger's whole budget") as refused:
            ledger.allot("ana", own)
        assert refused.value.largest == ledger.budget
        assert ledger.analysts() == {}
        ledger.allot("ana", common)  # all of it is not above it
        ledger.verify()


@pytest.mark.parametrize("who", ["who", "time", "key", "totals", '","who":null', "{}", "null"])
def test_an_analyst_may_have_the_name_of_a_field(path: Path, who: str) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        ledger.charge(Laplace(scale=10), purpose="q", who=who, key="a")
        ledger.allot(who, PureDP(0.5))
        ledger.charge(Laplace(scale=10), purpose="q", who=who, key="b")
        assert [(charge.who, charge.key) for charge in ledger.charges()] == [(who, "a"), (who, "b")]
        assert ledger.remaining(who=who) == PureDP(0.3, unit="row")
        ledger.verify()


def test_totals_of_the_first_rules_are_counted_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers that forgot what an analyst was told before the allotment are mended when they are opened."""
    replay = verification.replay
    with monkeypatch.context() as patch:
        patch.setattr(records, "RULES", 1)
        patch.setattr(Account, "empty", lambda owner, terms: Account(owner, terms, nothing(terms.filters), 1))
        patch.setattr(verification, "replay", lambda who, terms, kinds: replay(who, terms, []))
        with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
            ledger.charge(Laplace(scale=4), purpose="q", who="ana")
            ledger.allot("ana", PureDP(0.5))
            assert ledger.remaining(who="ana") == PureDP(0.5, unit="row")
    with Ledger.open(path) as ledger:
        assert ledger.remaining(who="ana") == PureDP(0.25, unit="row")
        ledger.verify()
    with Ledger.open(path) as ledger:
        assert ledger.head().seq == 3  # counted once


def test_what_others_spent_is_not_in_a_refusal(ledger: Ledger) -> None:
    """Word for word the same, whatever the others have left."""
    said = set()
    for scale in (3, 8):
        ledger.charge(Laplace(scale=scale), purpose="q", who="ana")
        with pytest.raises(BudgetExceeded, match="all analysts together") as refused:
            ledger.charge(Claimed(ApproxDP(0.75, 1e-7)), purpose="q", who="bob")
        said.add((str(refused.value), refused.value.remaining, refused.value.largest))
    assert len(said) == 1
    ledger.close()
