"""Envelopes of projects and tables, budgets that are raised, and answers that another analyst reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deniable.errors import BudgetExceeded, InvalidArgument, LedgerDamaged, LedgerError
from deniable.events import Gaussian, Laplace
from deniable.guarantees import ApproxDP, PureDP
from deniable.ledger import Ledger, records


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.create(path, unit="row", budget=ApproxDP(2, 1e-6)) as made:
        yield made


def epsilon(ledger: Ledger, **whose: str) -> float:
    return float(ledger.remaining(**whose).numbers["epsilon"])


def test_a_charge_must_fit_every_envelope_that_it_names(ledger: Ledger) -> None:
    ledger.open_envelope("project flu", epsilon=0.5, decision="the board, 3 May")
    ledger.open_envelope("table visits", epsilon=1, decision="the board, 3 May")
    charge = ledger.charge(Laplace(scale=4), purpose="q", envelopes=["table visits", "project flu"])
    assert charge.envelopes == ("project flu", "table visits")
    assert epsilon(ledger, envelope="project flu") == 0.25
    assert epsilon(ledger, envelope="table visits") == 0.75
    with pytest.raises(BudgetExceeded, match="the envelope project flu's budget") as refused:
        ledger.charge(Laplace(scale=2), purpose="q", envelopes=["project flu", "table visits"])
    assert refused.value.largest == PureDP(0.25, unit="row")
    ledger.charge(Laplace(scale=2), purpose="q", envelopes=["table visits"])  # nobody must be named: no analyst has one
    ledger.charge(Laplace(scale=2), purpose="q")
    assert epsilon(ledger, envelope="project flu") == 0.25
    assert ledger.envelopes() == {"project flu": PureDP(0.5, unit="row"), "table visits": PureDP(1, unit="row")}
    assert ledger.analysts() == {}
    ledger.verify()


def test_an_envelope_is_no_analyst_and_an_analyst_is_no_envelope(ledger: Ledger) -> None:
    ledger.open_envelope("ana", epsilon=0.1, decision="a name that an analyst has too")
    ledger.allot("ana", epsilon=1)
    ledger.charge(Laplace(scale=1), purpose="q", who="ana")
    assert (epsilon(ledger, who="ana"), epsilon(ledger, envelope="ana")) == (0, 0.1)
    for name in ("project flu", "\nana"):
        with pytest.raises((LedgerError, InvalidArgument)):
            ledger.charge(Laplace(scale=9), purpose="q", who="ana", envelopes=[name])
    with pytest.raises(InvalidArgument, match="without control characters"):
        ledger.allot("\nana", epsilon=1)
    with pytest.raises(InvalidArgument, match="a list of names"):
        ledger.charge(Laplace(scale=9), purpose="q", who="ana", envelopes="ana")
    ledger.verify()


def test_a_budget_is_only_ever_raised(ledger: Ledger) -> None:
    ledger.allot("ana", epsilon=0.5)
    ledger.charge(Laplace(scale=2), purpose="q", who="ana")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Laplace(scale=4), purpose="q", who="ana")
    for small in (0.25, 0.5):
        with pytest.raises(LedgerError, match="only ever raised"):
            ledger.raise_allotment("ana", epsilon=small, decision="no")
    with pytest.raises(LedgerError, match="no budget"):
        ledger.raise_allotment("eve", epsilon=1, decision="no")
    with pytest.raises(BudgetExceeded, match="whole budget"):
        ledger.raise_allotment("ana", epsilon=3, decision="no")
    with pytest.raises(InvalidArgument, match="who decided"):
        ledger.raise_allotment("ana", epsilon=1, decision="")
    ledger.raise_allotment("ana", epsilon=1, decision="Dr Meier, for the second paper")
    assert ledger.analysts() == {"ana": PureDP(1, unit="row")}
    assert epsilon(ledger, who="ana") == 0.5
    ledger.charge(Laplace(scale=2), purpose="q", who="ana")
    ledger.open_envelope("project flu", epsilon=0.5, decision="the board")
    ledger.raise_envelope("project flu", ApproxDP(1, 1e-8), decision="the board")
    assert ledger.envelopes()["project flu"] == ApproxDP(1, 1e-8, unit="row")
    assert [records.fields_of(row.body)[4] for row in ledger._store.rows()][2:3] == ['"Dr Meier, for the second paper"']
    ledger.verify()
    with pytest.raises(LedgerError, match="never changed"):
        ledger.open_envelope("project flu", epsilon=2, decision="again")


def test_who_reads_an_answer_pays_alone(ledger: Ledger) -> None:
    for who in ("ana", "ben"):
        ledger.allot(who, epsilon=0.5)
    paid = ledger.charge(Laplace(scale=4), purpose="q", who="ana")
    common = ledger.remaining()
    read = ledger.charge_reader(paid.seq, who="ben", purpose="reads", key="ben reads 3")
    assert read.fresh
    assert (read.who, read.event) == ("ben", paid.event)
    assert ledger.remaining() == common
    assert (epsilon(ledger, who="ana"), epsilon(ledger, who="ben")) == (0.25, 0.25)
    again = ledger.charge_reader(paid.seq, who="ben", purpose="reads", key="ben reads 3")
    assert (again.fresh, again.seq) == (False, read.seq)
    assert epsilon(ledger, who="ben") == 0.25
    assert [charge.seq for charge in ledger.charges()] == [paid.seq]
    for seq, who, words in ((paid.seq, "ana", "already"), (read.seq, "ana", "no answer"), (1, "ben", "no answer")):
        with pytest.raises(LedgerError, match=words):
            ledger.charge_reader(seq, who=who, purpose="reads")
    ledger.charge(Laplace(scale=4), purpose="q", who="ana", key="k")
    with pytest.raises(LedgerError, match="something else"):
        ledger.charge_reader(paid.seq, who="ben", purpose="reads", key="k")
    ledger.charge_reader(paid.seq, who="ben", purpose="reads")
    with pytest.raises(BudgetExceeded, match="ben's budget"):
        ledger.charge_reader(paid.seq, who="ben", purpose="reads")
    ledger.verify()


@pytest.mark.parametrize("others", [(), ("ana",)])
def test_what_was_read_before_a_budget_counts(ledger: Ledger, others: tuple[str, ...]) -> None:
    """Nobody can refuse a reader without a budget; the budget that they get later is about all that they were told."""
    for who in others:
        ledger.allot(who, epsilon=1)
    paid = ledger.charge(Laplace(scale=4), purpose="q", who="ana")
    common = ledger.remaining()
    read = ledger.charge_reader(paid.seq, who="ben", purpose="reads", key="ben reads")
    assert not ledger.charge_reader(paid.seq, who="ben", purpose="reads", key="ben reads").fresh
    assert (read.event, ledger.remaining()) == (paid.event, common)
    ledger.verify()
    with pytest.raises(LedgerError, match="does not fit"):
        ledger.allot("ben", epsilon=0.125)
    ledger.allot("ben", epsilon=1)
    assert epsilon(ledger, who="ben") == 0.75
    ledger.verify()


def test_everything_is_in_an_export_and_survives_new_rules(ledger: Ledger, tmp_path: Path) -> None:
    ledger.allot("ana", epsilon=1)
    ledger.allot("ben", ApproxDP(1, 1e-7))
    ledger.open_envelope("project flu", ApproxDP(1, 1e-7), decision="the board")
    paid = ledger.charge(Gaussian(scale=20), purpose="q", who="ben", envelopes=["project flu"])
    with pytest.raises(BudgetExceeded):  # a pure budget takes no Gaussian
        ledger.charge_reader(paid.seq, who="ana", purpose="reads")
    laplace = ledger.charge(Laplace(scale=4), purpose="q", who="ana", envelopes=["project flu"])
    ledger.charge_reader(laplace.seq, who="ben", purpose="reads")
    ledger.raise_allotment("ben", ApproxDP(2, 1e-6), decision="the board")
    ledger.charge(Laplace(scale=4), purpose="q", who="ben")
    file = tmp_path / "flu.jsonl"
    file.write_text("".join(f"{line}\n" for line in ledger.export()))
    record = Ledger.read_export(file)
    whose: tuple[dict[str, str], ...] = ({}, {"who": "ana"}, {"who": "ben"}, {"envelope": "project flu"})
    assert [record.remaining(**each) for each in whose] == [ledger.remaining(**each) for each in whose]
    assert record.envelopes() == ledger.envelopes()
    from deniable.ledger import verification

    assert [each.totals for each in verification.recount(ledger._store)] == [
        account.totals for account in (verification.accounts.account_of(b) for b in ledger._store.balances())
    ]


EDITS: dict[str, Callable[[str], str]] = {
    "a reading of what nobody paid for": lambda text: text.replace('"seen":3', '"seen":2'),
    "a smaller budget": lambda text: text.replace('"raise"', '"allot"'),
    "an envelope that is not there": lambda text: text.replace('"envelopes":["project flu"]', '"envelopes":["x"]'),
}


@pytest.mark.parametrize("edit", EDITS)
def test_rows_that_no_ledger_writes_are_noticed(edit: str, path: Path) -> None:
    """Rewritten with good hashes: what rows say is checked as well."""
    with Ledger.create(path, unit="row", budget=PureDP(5)) as ledger:
        ledger.allot("ana", epsilon=1)
        ledger.open_envelope("project flu", epsilon=1, decision="the board")
        ledger.charge(Laplace(scale=4), purpose="q", who="ana", envelopes=["project flu"])
        ledger.allot("ben", epsilon=1)
        ledger.charge_reader(3, who="ben", purpose="reads")
        ledger.raise_allotment("ben", epsilon=2, decision="the board")
        kinds = ledger._store.rows()
        from deniable.ledger.verification import Chain, _allotments

        changed = [EDITS[edit](row.body) for row in kinds]
        assert changed != [row.body for row in ledger._store.rows()]
        chain = Chain(ledger._header_text)
        for seq, body in enumerate(changed, start=1):
            fields = records.fields_of(body)
            assert fields is not None
            chain._tails[fields[6]] = type("Tail", (), {"count": 1, "first": seq, "last": seq})()
        with pytest.raises(LedgerDamaged):
            _allotments(ledger._header, chain.kinds())
