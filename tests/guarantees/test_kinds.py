"""Guarantees: what they accept, how they print, when they compare."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from deniable.errors import InvalidArgument, UnitMismatch
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP, TradeOff
from deniable.units import Relation, Unit

PAIRS: dict[str, tuple[Guarantee, Guarantee]] = {
    "pure": (PureDP(0.5), PureDP(1)),
    "approximate": (ApproxDP(0.5, 1e-9), ApproxDP(0.5, 1e-6)),
    "concentrated": (ZCDP(0.1), ZCDP(0.2)),
    "approximately concentrated": (ApproxZCDP(0.1, 1e-9), ApproxZCDP(0.1, 1e-6)),
    "truncated": (TCDP(0.1, 20), TCDP(0.1, 10)),
    "Rényi, by order": (RDP(8, 0.5), RDP(4, 0.5)),
    "Rényi, by cost": (RDP(8, 0.4), RDP(8, 0.5)),
    "Gaussian": (GDP(0.5), GDP(1)),
    "by tests": (FDP(TradeOff.of_lines([(2, 0)])), FDP(TradeOff.of_lines([(3, 0)]))),
}


@pytest.mark.parametrize(("less", "more"), PAIRS.values(), ids=PAIRS.keys())
def test_order_within_a_kind(less: Guarantee, more: Guarantee) -> None:
    assert less <= more
    assert less < more
    assert more > less
    assert not more <= less
    assert not less < less
    assert len({less, more, less}) == 2


@pytest.mark.parametrize("one", [pair[0] for pair in PAIRS.values()], ids=PAIRS.keys())
def test_promises_about_others_do_not_compare(one: Guarantee) -> None:
    other = type(one)(**one.numbers, relation=Relation.REPLACE)  # type: ignore[call-arg]
    with pytest.raises(UnitMismatch, match="cannot compare"):
        _ = one <= other
    with pytest.raises(UnitMismatch, match="one patient"):
        _ = one.about("patient_id") <= one.about("household_id")
    assert one != other


def test_naming_the_unit_changes_no_number() -> None:
    assert not PureDP(1) < PureDP(1, unit="patient_id")
    assert PureDP(1) <= PureDP(1, unit="patient_id")


def test_kinds_do_not_compare() -> None:
    with pytest.raises(TypeError):
        _ = PureDP(1) <= ApproxDP(1, 0)  # type: ignore[operator]


def test_one_printed_form_rounded_up() -> None:
    assert str(PureDP(0.5, unit="patient_id")) == "ε ≤ 0.50, δ = 0, one patient added or removed"
    assert str(ApproxDP(2.38001, 1.01e-6)) == "ε ≤ 2.39, δ = 1.1e-6, one record added or removed"
    assert str(ZCDP(0.0012345, relation=Relation.REPLACE)) == "ρ ≤ 0.0013, one record replaced by another"
    assert str(ApproxZCDP(0.5, 1e-9)) == "ρ ≤ 0.50, δ = 1e-9, one record added or removed"
    assert str(TCDP(0.1, 12.5)) == "ρ ≤ 0.10 for orders below 12.5, one record added or removed"
    assert str(RDP(8, 0.25)) == "Rényi ε ≤ 0.25 at order 8, one record added or removed"
    assert str(GDP(1, relation=Relation.ZERO_OUT)) == "μ ≤ 1.00, one record blanked out"
    assert str(FDP(TradeOff.of_lines([(2, 0)]))) == (
        "advantage of any test ≤ 0.34 (trade-off function of 3 corners), one record added or removed"
    )


def test_the_code_of_a_guarantee_makes_it() -> None:
    for one, other in PAIRS.values():
        for guarantee in (one, other):
            names = {c.__name__: c for c in (FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, PureDP, TradeOff)}
            assert eval(repr(guarantee), {**names, "Fraction": Fraction}) == guarantee or "/" in repr(guarantee)


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "epsilon below 0": (lambda: PureDP(-0.1), "epsilon must be a number that is 0 or more; got epsilon=-0.1"),
    "epsilon nan": (lambda: PureDP(math.nan), "epsilon must be"),
    "epsilon inf": (lambda: ApproxDP(math.inf, 0.1), "epsilon must be"),
    "epsilon text": (lambda: PureDP("one"), "epsilon must be"),  # type: ignore[arg-type]
    "epsilon True": (lambda: PureDP(True), "epsilon must be"),
    "delta above 1": (lambda: ApproxDP(1, 1.5), "delta must be a probability between 0 and 1; got delta=1.5"),
    "delta below 0": (lambda: ApproxDP(1, -1e-9), "delta must be"),
    "rho nan": (lambda: ZCDP(math.nan), "rho must be"),
    "mu below 0": (lambda: GDP(-1), "mu must be"),
    "order 1": (lambda: RDP(1, 0.1), "order must be a Rényi order above 1; got order=1"),
    "order below 1": (lambda: RDP(0.5, 0.1), "order must be"),
    "order inf": (lambda: RDP(math.inf, 0.1), "order must be"),
    "omega 1": (lambda: TCDP(0.1, 1), "omega must be"),
    "relation of no name": (lambda: PureDP(1, relation="swap"), "relation must be one of"),
    "unit empty": (lambda: PureDP(1, unit=" "), "unit must be a column name"),
    "trade-off as list": (lambda: FDP([(0, 1), (1, 0)]), "tradeoff must be a TradeOff"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("make", "said"), BAD.values(), ids=BAD.keys())
def test_bad_input_names_the_argument(make: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert said in str(caught.value)


def test_typed_decimals_are_exact() -> None:
    assert PureDP(0.1).epsilon * 3 == PureDP(0.3).epsilon
    assert ApproxDP(800, 1e-300).delta == Fraction(1, 10**300)


@pytest.mark.parametrize(
    "promise",
    [
        PureDP(0.1), ApproxDP(3, 1e-6, relation="replace", unit="patient_id"), ZCDP(0.25), ApproxZCDP(0.5, 1e-9),
        TCDP(0.1, 8), RDP(8, 0.25), GDP(1.5), FDP(TradeOff([(0, 1), (0.125, 0.25), (1, 0)])),
        PureDP(2, unit=Unit.of("patient_id")),
    ],
    ids=repr,
)  # fmt: skip
def test_a_guarantee_reads_itself_back(promise: Guarantee) -> None:
    assert Guarantee.from_json(promise.to_json()) == promise
    assert Guarantee.from_dict(promise.to_dict()) == promise


def test_every_kind_reads_itself_back() -> None:
    assert set(Guarantee.kinds()) == {"PureDP", "ApproxDP", "ZCDP", "ApproxZCDP", "TCDP", "RDP", "GDP", "FDP"}


def test_a_promise_that_is_rounded_for_json_is_not_stronger() -> None:
    assert Guarantee.from_json(PureDP(Fraction(1, 3)).to_json()) >= PureDP(Fraction(1, 3))


@pytest.mark.parametrize("text", ["", "3", "[]", '{"kind": "Gaussian"}', '{"kind": "PureDP"}', '{"kind": "TradeOff"}'])
def test_what_is_no_guarantee_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        Guarantee.from_json(text)
