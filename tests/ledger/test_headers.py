"""The header is checked when a ledger is opened: edited, foreign or half of one, it is refused there and then."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from deniable.accounting.filters import Family, Filters, SumFilter, basic, certify, filters_for
from deniable.errors import InvalidArgument, LedgerDamaged
from deniable.events import Laplace
from deniable.guarantees import GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.ledger import Ledger
from deniable.ledger.records import canonical, digest, voucher
from deniable.units import Unit
from tests.ledger.kept import Kept


def made(kept: Kept, *, charges: int) -> dict[str, Any]:
    """A closed ledger; its header."""
    with Ledger.create(kept.address, unit="patient_id", budget=ApproxDP(3, 1e-6)) as ledger:
        for _ in range(charges):
            ledger.charge(Laplace(scale=10), purpose="q")
        found: dict[str, Any] = json.loads(next(ledger.export()))
    return found


def put(kept: Kept, text: str, *, terms: str | None = None) -> None:
    statements = [f"UPDATE header SET body = '{text}'"]
    if terms is not None:
        statements.append(f"UPDATE balances SET terms = '{terms}'")
    kept.edit(*statements)


def change(*path: str | int, to: Any) -> Callable[[dict[str, Any]], str]:
    def edit(header: dict[str, Any]) -> str:
        place: Any = header
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to
        return canonical(header)

    return edit


EDITS: dict[str, Callable[[dict[str, Any]], str]] = {
    "a larger budget": change("budget", "guarantee", "epsilon", to="9"),
    "a smaller budget": change("budget", "guarantee", "epsilon", to="1"),
    "a larger δ": change("budget", "guarantee", "delta", to="1e-3"),
    "another relation": change("budget", "guarantee", "relation", to="replace"),
    "another unit": change("unit", "column", to="doctor_id"),
    "another noun": change("unit", "noun", to="doctor"),
    "another unit in both places": lambda h: canonical(h).replace("patient", "doctor"),
    "a unit that is no text": change("unit", "column", to=7),
    "an escape in the unit": lambda h: canonical(h).replace("patient", "\\u001b[2J"),
    "a larger limit": change("filters", "families", 0, "sums", 0, "limit", to="99"),
    "another cap": change("filters", "families", 0, "cap", to="1/1000"),
    "a limit that is no number": change("filters", "families", 0, "sums", 0, "limit", to="many"),
    "no filters": change("filters", "families", to=[]),
    "a kind nobody knows": change("filters", "families", 0, "sums", 0, "kind", to="hope"),
    "another version": change("deniable_ledger", to=2),
    "a version that is no number": change("deniable_ledger", to="1"),
    "a field too many": change("note", to="hello"),
    "another time": change("created", to="2001-01-01T00:00:00.000000Z"),
    "spaces": lambda h: json.dumps(h),
    "no JSON": lambda h: "hello",
    "not an object": lambda h: "[1]",
    "empty": lambda h: "",
    "another file's": lambda h: canonical({"kind": "Laplace", "scale": "1"}),
    "no unit": lambda h: canonical({name: value for name, value in h.items() if name != "unit"}),
}


CASES = [(name, charges) for name in EDITS for charges in (0, 2)]
# Before the first row nothing else says when a ledger was created.
CASES.remove(("another time", 0))


@pytest.mark.parametrize(("name", "charges"), CASES)
def test_an_edited_header_is_refused_at_opening(kept: Kept, name: str, charges: int) -> None:
    header = made(kept, charges=charges)
    put(kept, EDITS[name](header))
    with pytest.raises(LedgerDamaged):
        Ledger.open(kept.address)


def test_a_header_of_another_ledger_is_refused_at_opening(kept: Kept, tmp_path: Path) -> None:
    made(kept, charges=1)
    with Ledger.create(tmp_path / "other.ledger", unit="patient_id", budget=ApproxDP(3, 1e-6)) as other:
        put(kept, next(other.export()))
    with pytest.raises(LedgerDamaged, match=r"does not follow.*header was changed"):
        Ledger.open(kept.address)


def test_filters_that_do_not_keep_the_budget_are_refused_wherever_they_stand(kept: Kept) -> None:
    """Whoever edits the header and the totals alike makes another ledger; what it promises must still be kept."""
    header = made(kept, charges=0)
    header["filters"]["families"][0]["sums"][0]["limit"] = "99"
    terms = canonical({"budget": header["budget"], "filters": header["filters"]})
    put(kept, canonical(header), terms=terms)
    with pytest.raises(LedgerDamaged, match="filters"):
        Ledger.open(kept.address)


def test_a_header_that_changes_under_an_open_ledger_takes_no_first_charge(kept: Kept) -> None:
    header = made(kept, charges=0)
    with Ledger.open(kept.address) as ledger:
        put(kept, change("created", to="2001-01-01T00:00:00.000000Z")(header))
        with pytest.raises(LedgerDamaged, match="changed after"):
            ledger.charge(Laplace(scale=10), purpose="q")


def test_totals_that_no_row_vouches_for_are_refused_at_opening_and_when_asked(kept: Kept) -> None:
    made(kept, charges=2)
    edit = """UPDATE balances SET totals = replace(totals, '"1/5"', '"1/10"')"""
    with Ledger.open(kept.address) as ledger:
        kept.edit(edit)
        for ask in (ledger.remaining, ledger.room, ledger.describe, lambda: ledger.fits(Laplace(scale=10))):
            with pytest.raises(LedgerDamaged, match="edited"):
                ask()
    with pytest.raises(LedgerDamaged, match="edited"):
        Ledger.open(kept.address)


def test_totals_under_other_terms_than_the_header_states_are_refused_at_opening(kept: Kept) -> None:
    """Wider filters in the totals, and a row that vouches for them: the header still says what is promised."""
    made(kept, charges=1)
    with Ledger.open(kept.address) as ledger:
        [balance], row = ledger._store.balances(), ledger._store.row(1)
    assert row is not None
    wider = balance._replace(terms=balance.terms.replace('"limit":"3"', '"limit":"99"'))
    assert wider != balance
    body = row.body.replace(voucher(balance), voucher(wider))
    kept.edit(
        f"UPDATE balances SET terms = '{wider.terms}'", f"UPDATE rows SET body = '{body}', hash = '{digest(body)}'"
    )
    with pytest.raises(LedgerDamaged, match="does not state the budget that is charged"):
        Ledger.open(kept.address)


# filters

KEPT: list[Guarantee] = [
    PureDP(1), ApproxDP(1, 0), ApproxDP(0, 1e-6), ApproxDP(3, 1e-6), ApproxDP(0.01, 1e-12), ApproxDP(50, 0.1),
    ZCDP(0.5), ApproxZCDP(0.5, 1e-6), TCDP(0.1, 20), RDP(8, 1), GDP(1),
]  # fmt: skip


@pytest.mark.parametrize("budget", KEPT, ids=str)
def test_the_filters_of_a_budget_keep_it(budget: Guarantee) -> None:
    certify(filters_for(budget), budget)
    if isinstance(budget, PureDP | ApproxDP):
        certify(basic(budget), budget)


def raised(filters: Filters, family: int, place: int, **changes: Any) -> Filters:
    """One sum with other numbers."""
    families = list(filters.families)
    sums = list(families[family].sums)
    fields = {"kind": sums[place].kind, "limit": sums[place].limit, "share": sums[place].share}
    sums[place] = SumFilter(**{**fields, "order": sums[place].order, **changes})
    families[family] = Family(families[family].name, tuple(sums), families[family].cap)
    return Filters(tuple(families), filters.alone)


def test_every_number_of_a_list_is_proved_again() -> None:
    budget = ApproxDP(3, 1e-6)
    filters = filters_for(budget)
    for family, each in enumerate(filters.families):
        for place, kept in enumerate(each.sums):
            # The search for the best order leaves two parts in a hundred thousand; beyond that nothing passes.
            with pytest.raises(InvalidArgument):
                certify(raised(filters, family, place, limit=kept.limit * Fraction(10_001, 10_000)), budget)
            with pytest.raises(InvalidArgument):
                certify(raised(filters, family, place, share=kept.share + Fraction(1, 10**7)), budget)
            if kept.share:
                with pytest.raises(InvalidArgument):
                    certify(raised(filters, family, place, share=kept.share / 2), budget)
        higher = [
            Family(f.name, f.sums, f.cap + (Fraction(1, 10**9) if n == family else 0))
            for n, f in enumerate(filters.families)
        ]
        with pytest.raises(InvalidArgument):
            certify(Filters(tuple(higher), filters.alone), budget)


@pytest.mark.parametrize(
    "budget", [PureDP(1), ZCDP(0.5), TCDP(0.1, 20), RDP(8, 1), GDP(1), ApproxZCDP(0.5, 1e-6)], ids=str
)
def test_one_sum_is_bound_by_its_own_budget(budget: Guarantee) -> None:
    filters = filters_for(budget)
    limit = filters.families[0].sums[0].limit
    with pytest.raises(InvalidArgument):
        certify(raised(filters, 0, 0, limit=limit * 2), budget)
    with pytest.raises(InvalidArgument):
        certify(Filters(filters.families * 2), budget)
    for other in ("epsilon", "rho", "mu_squared", "renyi", "truncated"):
        if other != filters.families[0].sums[0].kind:
            with pytest.raises(InvalidArgument):
                certify(raised(filters, 0, 0, kind=other), budget)


def test_sums_with_their_own_split_share_no_family() -> None:
    budget = ApproxDP(3, 1e-6)
    gaussian, concentrated = filters_for(budget).families[1:]
    joined = Family("joined", (*gaussian.sums, *concentrated.sums), concentrated.cap)
    with pytest.raises(InvalidArgument):
        certify(Filters((joined,)), budget)


def test_the_unit_of_a_ledger_is_text_that_can_be_stored(tmp_path: Path) -> None:
    bad: list[Unit | str] = ["a\x1bb", "x" * 201, Unit("id", "x" * 201), Unit("id", " ")]
    for unit in bad:
        with pytest.raises(InvalidArgument, match="unit"):
            Ledger.create(tmp_path / "a.ledger", unit=unit, budget=PureDP(1))
    assert not list(tmp_path.iterdir())
    for word in ("\ud800", "a\nb"):  # a unit writes its word as something that can be printed
        with Ledger.create(tmp_path / f"{ord(word[0])}.ledger", unit=Unit("id", word), budget=PureDP(1)) as ledger:
            assert ledger.unit.noun.isprintable()
