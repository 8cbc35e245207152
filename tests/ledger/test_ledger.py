"""What a ledger takes, refuses, remembers and says. About 3 s."""

from __future__ import annotations

import json
import runpy
from fractions import Fraction
from pathlib import Path

import pytest

from deniable.accounting import account
from deniable.accounting.filters import Tally
from deniable.errors import BudgetExceeded, InvalidArgument, LedgerError, UnitMismatch
from deniable.events import Claimed, DiscreteLaplace, Event, Gaussian, Laplace, RandomizedResponse
from deniable.guarantees import GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.ledger import Head, Ledger
from deniable.ledger.accounts import COMMON, read
from deniable.units import Relation, Unit

recompute = runpy.run_path(str(Path(__file__).parent / "oracle.py"))["recompute"]


def test_a_ledger_remembers_what_it_is_about(path: Path) -> None:
    budget = ApproxDP(3, 1e-6, relation=Relation.REPLACE)
    Ledger.create(path, unit="patient_id", budget=budget).close()
    with Ledger.open(path) as ledger:
        assert ledger.unit == Unit("patient_id", "patient")
        assert ledger.relation is Relation.REPLACE
        assert ledger.budget == ApproxDP(3, 1e-6, relation=Relation.REPLACE, unit="patient_id")
        assert str(path) in repr(ledger)


def test_a_relation_restates_the_budget(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1), relation=Relation.ZERO_OUT) as ledger:
        assert ledger.budget.relation is Relation.ZERO_OUT


def test_of_takes_a_path_or_a_ledger(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        assert Ledger.of(ledger) is ledger
        with Ledger.of(path) as other, Ledger.of(str(path)) as third:
            assert other.budget == third.budget == ledger.budget
    with pytest.raises(InvalidArgument, match=r"ledger must be a Ledger, or the path or address of one; got ledger=3"):
        Ledger.of(3)  # type: ignore[arg-type]


def test_the_constructor_says_how_to_open_a_ledger() -> None:
    with pytest.raises(InvalidArgument, match=r"Ledger\.open\(path\) opens one") as refused:
        Ledger("postgresql://clerk:secret@host/hospital")  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)


def test_three_tenths_fit_three_tenths(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(0.3)) as ledger:
        for seq in (1, 2, 3):
            assert ledger.charge(DiscreteLaplace(scale=10), purpose="q").seq == seq
        assert ledger.remaining() == PureDP(0, unit="row")
        with pytest.raises(BudgetExceeded):
            ledger.charge(Claimed(PureDP(Fraction(1, 10**20))), purpose="q")
        assert recompute(ledger.export())["epsilon"] == "3/10"


def test_thirds_are_exact(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        for _ in range(3):
            ledger.charge(Laplace(scale=3), purpose="q")
        assert ledger.remaining() == PureDP(0, unit="row")


def test_a_refusal_says_what_fits_and_charges_nothing(path: Path) -> None:
    with Ledger.create(path, unit="patient_id", budget=PureDP(1)) as ledger:
        ledger.charge(Laplace(scale=4), purpose="q")
        before = ledger.head()
        with pytest.raises(BudgetExceeded) as refused:
            ledger.charge(Laplace(scale=1), purpose="q")
        assert refused.value.requested == PureDP(1, unit="patient_id")
        assert refused.value.remaining == refused.value.largest == PureDP(0.75, unit="patient_id")
        assert str(refused.value) == (
            "the request does not fit the ledger's budget: requested ε = 1; remaining ε = 0.75. Nothing was charged."
        )
        assert ledger.head() == before
        ledger.charge(Claimed(refused.value.largest), purpose="the largest that fits")


def test_what_remains_is_rounded_down_in_the_sentence(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        ledger.charge(Claimed(PureDP(Fraction(1, 3))), purpose="q")
        with pytest.raises(BudgetExceeded, match=r"remaining ε = 0\.666666\. "):
            ledger.charge(Laplace(scale=1), purpose="q")


def test_a_spent_ledger_says_nothing_remains(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=ApproxDP(1, 1e-6)) as ledger:
        ledger.charge(Laplace(scale=1), purpose="q")
        with pytest.raises(BudgetExceeded, match="remaining nothing"):
            ledger.charge(Laplace(scale=1), purpose="q")


@pytest.mark.parametrize(
    "budget", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5), ApproxZCDP(0.5, 1e-6), GDP(1), RDP(8, 1), TCDP(0.1, 20)]
)
def test_a_first_request_that_needs_everything_gets_it(path: Path, budget: Guarantee) -> None:
    with Ledger.create(path, unit="row", budget=budget) as ledger:
        assert ledger.remaining() == ledger.room() == ledger.budget
        ledger.charge(Claimed(budget), purpose="all of it")
        assert not ledger.fits(Claimed(PureDP(0.001)))
        ledger.verify()


@pytest.mark.parametrize(
    "budget", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5), ApproxZCDP(0.5, 1e-6), GDP(1), RDP(8, 1), TCDP(0.1, 20)]
)
def test_what_remains_fits_and_more_does_not(path: Path, budget: Guarantee) -> None:
    with Ledger.create(path, unit="row", budget=budget) as ledger:
        ledger.charge(Claimed(GDP(0.2)) if isinstance(budget, GDP) else Laplace(scale=5), purpose="q")
        rest = ledger.remaining()
        assert type(rest) is type(budget)
        assert rest <= ledger.budget
        assert ledger.fits(Claimed(rest))
        assert ledger.fits(Claimed(ledger.room()))
        ledger.charge(Claimed(rest), purpose="the rest")
        assert not ledger.fits(Claimed(rest))
        ledger.verify()


def test_many_small_requests_cost_like_their_square_root(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=ApproxDP(3, 1e-6)) as ledger:
        ledger.charge(Laplace(scale=1000) * 10_000, purpose="ten thousand at 0.001")
        # Their basic sum is 10; yet more than half of the budget's reach is left for one more request.
        assert ledger.fits(Laplace(scale=1000) * 100_000)
        assert ledger.remaining().numbers["epsilon"] > 2
        ledger.verify()


def test_a_request_with_its_own_delta_does_not_ruin_the_rest(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=ApproxDP(3, 1e-6)) as ledger:
        ledger.charge(Claimed(ApproxDP(0.1, 1e-7)), purpose="private keys")
        ledger.charge(Laplace(scale=1000) * 10_000, purpose="ten thousand at 0.001")
        assert ledger.remaining().numbers["epsilon"] > 2


def test_basic_only_keeps_all_of_delta(path: Path, tmp_path: Path) -> None:
    with Ledger.create(path, unit="row", budget=ApproxDP(3, 1e-6), basic_only=True) as ledger:
        for _ in range(10):
            ledger.charge(Claimed(ApproxDP(0.3, 1e-7)), purpose="private keys")
        assert ledger.remaining() == ApproxDP(0, 0, unit="row")
        ledger.verify()
    with pytest.raises(InvalidArgument, match="basic_only"):
        Ledger.create(tmp_path / "b.ledger", unit="row", budget=ZCDP(1), basic_only=True)


def test_gaussians_fill_a_gaussian_budget_exactly(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=GDP(1)) as ledger:
        for _ in range(4):
            ledger.charge(Gaussian(scale=2), purpose="q")
        assert ledger.remaining() == GDP(0, unit="row")


def test_a_key_pays_once(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        first = ledger.charge(Laplace(scale=1), purpose="training", key="run 7")
        again = ledger.charge(Laplace(scale=1), purpose="training, resumed", key="run 7")
        assert first.fresh
        assert not again.fresh
        assert again.seq == first.seq == ledger.head().seq == 1
        assert again.purpose == "training"


def test_a_key_is_for_one_event_and_one_person(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        ledger.charge(Laplace(scale=4), purpose="q", key="a", who="ana")
        for event, who in ((Laplace(scale=8), "ana"), (Laplace(scale=4), "bob"), (Laplace(scale=4), None)):
            with pytest.raises(LedgerError, match="already paid for another"):
                ledger.charge(event, purpose="q", key="a", who=who)
        assert ledger.head().seq == 1


def test_relations_and_units_are_not_mixed(path: Path) -> None:
    with Ledger.create(path, unit="patient_id", budget=PureDP(1)) as ledger:
        with pytest.raises(UnitMismatch, match="REPLACE"):
            ledger.charge(RandomizedResponse(epsilon=0.1), purpose="q")
        with pytest.raises(UnitMismatch, match="doctor"):
            ledger.charge(Claimed(PureDP(0.1, unit="doctor_id")) * 2 + Laplace(scale=10), purpose="q")
        ledger.charge(Claimed(PureDP(0.1, unit="patient_id")) * 2, purpose="q")


@pytest.mark.parametrize(
    ("purpose", "who", "key"), [("", None, None), (" ", None, None), ("q", "", None), ("q", None, ""), (3, None, None)]
)
def test_words_are_checked(path: Path, purpose: str, who: str | None, key: str | None) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        with pytest.raises(InvalidArgument):
            ledger.charge(Laplace(scale=10), purpose=purpose, who=who, key=key)
        assert ledger.head().seq == 0


def test_only_events_and_guarantees_are_taken(path: Path) -> None:
    with pytest.raises(InvalidArgument, match="budget"):
        Ledger.create(path, unit="row", budget=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="unit"):
        Ledger.create(path, unit="", budget=PureDP(1))
    with pytest.raises(InvalidArgument, match="path"):
        Ledger.create("", unit="row", budget=PureDP(1))
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger, pytest.raises(InvalidArgument, match="event"):
        ledger.charge(0.5, purpose="q")  # type: ignore[arg-type]


def test_an_event_without_a_finite_cost_is_refused_by_name(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        with pytest.raises(BudgetExceeded, match="no finite cost") as refused:
            ledger.charge(Gaussian(scale=100), purpose="q")
        assert refused.value.requested is None


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (ZCDP(0.5), "requested ρ = 0.00499583, δ = 1e-8; remaining ρ = 0.5."),
        (RDP(8, 1), "requested something that has no finite cost in this budget's terms"),
        (TCDP(0.5, 10), "requested something that has no finite cost in this budget's terms"),
        (PureDP(1), "requested ε = 0.1, δ = 1e-8; remaining ε = 1."),
    ],
)
def test_a_budget_without_a_delta_says_that_a_delta_was_asked_for(path: Path, budget: Guarantee, words: str) -> None:
    with Ledger.create(path, unit="row", budget=budget) as ledger:
        with pytest.raises(BudgetExceeded) as refused:
            ledger.charge(Claimed(ApproxDP(0.1, 1e-8)), purpose="q")
        assert words in str(refused.value)


def test_a_new_kind_of_event_is_refused(path: Path) -> None:
    class Unheard(Event):
        relation = Relation.ADD_REMOVE

    try:
        with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger, pytest.raises(BudgetExceeded):
            ledger.charge(Unheard(), purpose="q")
    finally:
        del Event.registry["Unheard"]


def test_charges_come_back_as_they_were(path: Path) -> None:
    events = [Laplace(scale=10), DiscreteLaplace(scale=30, sensitivity=3) * 2, Claimed(PureDP(0.125))]
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        made = [ledger.charge(e, purpose=f'why "{n}", é', who="ana", key=str(n)) for n, e in enumerate(events)]
        assert [charge.event for charge in ledger.charges()] == events
        assert [charge.purpose for charge in ledger.charges()] == [charge.purpose for charge in made]
        assert [charge.hash for charge in ledger.charges()] == [charge.hash for charge in made]
        assert all(charge.who == "ana" and charge.time.endswith("Z") for charge in ledger.charges())


def test_purposes_cannot_pretend_to_be_fields(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        ledger.charge(Laplace(scale=10), purpose='x","who":null,"at":null', key='k","who":"eve')
        ledger.verify()
        assert next(ledger.charges()).key == 'k","who":"eve'


def test_the_export_is_the_whole_record(path: Path) -> None:
    with Ledger.create(path, unit="patient_id", budget=ApproxDP(3, 1e-6)) as ledger:
        ledger.charge(Laplace(scale=2) * 2, purpose="a")
        ledger.charge(Claimed(ApproxDP(0.25, 1e-7)), purpose="b")
        lines = list(ledger.export())
        found = recompute(lines)
        assert found["epsilon"] == "5/4"
        assert found["delta"] == "1/10000000"
        assert found["whole"]
        assert not found["overspent"]
        assert Head(found["rows"], found["head"]) == ledger.head() == ledger.verify()
    assert json.loads(lines[0])["unit"] == {"column": "patient_id", "noun": "patient"}


def test_heads_are_text_and_back(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        fresh = ledger.head()
        assert fresh.seq == 0
        ledger.charge(Laplace(scale=10), purpose="q")
        assert Head.parse(str(ledger.head())) == ledger.head()
        assert ledger.verify(str(fresh)) == ledger.head()
        with pytest.raises(LedgerError, match="head"):
            ledger.verify("12")


def test_a_closed_ledger_opens_again(path: Path) -> None:
    ledger = Ledger.create(path, unit="row", budget=PureDP(1))
    ledger.close()
    ledger.charge(Laplace(scale=10), purpose="q")
    ledger.close()
    assert ledger.remaining() == PureDP(0.9, unit="row")
    ledger.close()


def test_looking_is_free(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        assert ledger.fits(Laplace(scale=1))
        assert not ledger.fits(Laplace(scale=0.5))
        assert ledger.head().seq == 0
        assert ledger.remaining() == PureDP(1, unit="row")


def test_at_must_be_a_promise_that_the_event_keeps(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=ApproxDP(3, 1e-6)) as ledger:
        charge = ledger.charge(Laplace(scale=2), purpose="q", at=ApproxDP(1, 1e-8))
        assert charge.at == ApproxDP(1, 1e-8)
        totals = read(ledger._store, COMMON)
        assert totals is not None
        assert totals.totals.tallies[0] == Tally(Fraction(1, 10**8), (Fraction(1),))
        assert next(ledger.charges()).at == charge.at
        ledger.verify()


def test_long_fractions_are_shortened_upwards(path: Path) -> None:
    """Denominators that share nothing would grow without end; the totals stay short, and never fall below the truth."""
    primes = [p for p in range(1000, 3000) if all(p % d for d in range(2, 55))]
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        for p in primes:
            ledger.charge(Laplace(scale=p), purpose="q")
        rest = ledger.remaining().numbers["epsilon"]
        true = 1 - sum(Fraction(1, p) for p in primes)
        assert true - Fraction(len(primes), 10**60) <= rest <= true
        assert rest.denominator.bit_length() < 1100
        ledger.verify()


def test_a_ledger_describes_itself_by_its_budget(path: Path) -> None:
    with Ledger.create(path, unit="patient_id", budget=PureDP(1)) as ledger:
        ledger.charge(Claimed(PureDP(Fraction(1, 3))), purpose="q")
        found = ledger.describe()
        assert found.guarantee == ledger.budget
        assert dict(found.facts) == {"remaining": "ε = 0.666666", "rows": "1", "head": ledger.head().hash}


def test_the_odometer_reads_what_was_charged(tmp_path: Path) -> None:
    """The sum of ε while it is the smaller, then the mixture over Rényi orders."""
    with Ledger.create(tmp_path / "a.ledger", unit="patient_id", budget=ApproxDP(9, 1e-6)) as ledger:
        assert ledger.odometer() == ApproxDP(0, 1e-6, unit="patient_id")
        ledger.charge(Laplace(scale=4), purpose="one")
        assert ledger.odometer() == ApproxDP(0.25, 1e-6, unit="patient_id")
        for _ in range(3):
            ledger.charge(Gaussian(scale=2), purpose="more")
        reading = ledger.odometer()
        assert isinstance(reading, ApproxDP)
        assert account(Laplace(scale=4) + Gaussian(scale=2) * 3).epsilon(1e-6) < reading.epsilon < 6
        assert ledger.odometer(delta=0) is None
    with Ledger.create(tmp_path / "b.ledger", unit="row", budget=PureDP(1, relation=Relation.REPLACE)) as ledger:
        ledger.charge(Laplace(scale=4, relation=Relation.REPLACE), purpose="one")
        assert ledger.odometer() == PureDP(0.25, relation=Relation.REPLACE, unit=ledger.unit)
        assert ledger.odometer(delta=1e-6) == ApproxDP(0.25, 1e-6, relation=Relation.REPLACE, unit=ledger.unit)


@pytest.mark.parametrize(
    ("budget", "event"),
    [
        (PureDP(2), Laplace(scale=3)),
        (ApproxDP(3, 1e-6), DiscreteLaplace(scale=4)),
        (ApproxDP(2, 1e-6), Gaussian(scale=20)),
        (ZCDP(0.1), Gaussian(scale=7)),
        (GDP(1), Gaussian(scale=4)),
    ],
)
def test_as_many_repeats_are_left_as_can_be_charged(path: Path, budget: Guarantee, event: Event) -> None:
    with Ledger.create(path, unit="row", budget=budget) as ledger:
        ledger.charge(event, purpose="first")
        left = ledger.repeats_left(event)
        assert left > 1
        for _ in range(left):
            ledger.charge(event, purpose="again")
        assert ledger.repeats_left(event) == 0
        with pytest.raises(BudgetExceeded):
            ledger.charge(event, purpose="one too many")


def test_repeats_of_a_charge_at_a_point(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=ApproxDP(1, 1e-6), basic_only=True) as ledger:
        charge = ledger.charge(Gaussian(scale=50), purpose="first", at=ApproxDP(0.1, 1e-7))
        left = ledger.repeats_left(charge.event, at=charge.at)
        assert left == 9
        assert ledger.cost_of(charge) == ApproxDP(0.1, 1e-7, unit="row")
        for _ in range(left):
            ledger.charge(Gaussian(scale=50), purpose="again", at=ApproxDP(0.1, 1e-7))
        assert not ledger.fits(Gaussian(scale=50), at=ApproxDP(0.1, 1e-7))


def test_repeats_are_counted_up_to_a_million(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        assert ledger.repeats_left(Laplace(scale=10**7)) == 10**6
        assert ledger.repeats_left(Laplace(scale=Fraction(1, 2))) == 0
