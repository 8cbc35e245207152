"""Text that a ledger stores: one check for purposes, names, keys and units, before the store is asked."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from deniable.errors import InvalidArgument
from deniable.events import Laplace
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.ledger.records import LONGEST_KEY, LONGEST_NAME, LONGEST_PURPOSE, as_purpose, check_purpose

EVENT = Laplace(scale=100)
BAD = {
    "an escape": "clear\x1b[2J",
    "a zero": "a\0b",
    "a line break": "a\nb",
    "a tab": "a\tb",
    "a bell": "a\x07",
    "a C1 control": "a\x9bb",
    "a lone surrogate": "a\ud800",
    "the other half": "\udfffb",
    "a change of direction": "abc\u202egnp.exe",
    "an isolate": "a\u2066b\u2069",
    "a line separator": "a\u2028b",
    "a paragraph separator": "a\u2029b",
    "blanks": "  ",
    "nothing": "",
    "bytes": b"a",
    "a number": 3,
}
FIELDS: dict[str, Callable[[Ledger, str], object]] = {
    "purpose": lambda ledger, text: ledger.charge(EVENT, purpose=text),
    "who": lambda ledger, text: ledger.charge(EVENT, purpose="q", who=text),
    "key": lambda ledger, text: ledger.charge(EVENT, purpose="q", key=text),
    "who is allotted": lambda ledger, text: ledger.allot(text, PureDP(0.1)),
    "who looks": lambda ledger, text: ledger.remaining(who=text),
    "who has room": lambda ledger, text: ledger.room(who=text),
    "who fits": lambda ledger, text: ledger.fits(EVENT, who=text),
}


def test_no_field_takes_what_cannot_be_stored_or_shown(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        for field, call in FIELDS.items():
            for name, text in BAD.items():
                with pytest.raises(InvalidArgument) as refused:
                    call(ledger, text)  # type: ignore[arg-type]
                assert str(refused.value).isprintable(), (field, name)
        assert ledger.head().seq == 0
        assert ledger.analysts() == {}
        ledger.verify()


def test_over_long_text_is_refused_and_what_is_not_fits_every_store(path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        longest = {"purpose": LONGEST_PURPOSE, "who": LONGEST_NAME, "key": LONGEST_KEY}
        for name, most in longest.items():
            with pytest.raises(InvalidArgument, match=f"{name} must be .* at most {most:,} characters"):
                ledger.charge(EVENT, **{"purpose": "q", name: "x" * (most + 1)})
        # Four bytes for each character, and nothing that could be compressed: what an index holds is limited.
        texts = {name: "".join(chr(0x20000 + 37 * k % 40_000) for k in range(most)) for name, most in longest.items()}
        ledger.charge(EVENT, **texts)
        ledger.allot(texts["who"], PureDP(0.5))
        again = ledger.charge(EVENT, **texts)
        assert not again.fresh
        assert (again.purpose, again.who, again.key) == (texts["purpose"], texts["who"], texts["key"])
        ledger.verify()


def test_ordinary_words_of_any_language_are_taken(path: Path) -> None:
    words = [
        "Zoë",
        "Müller & Söhne",
        "رقم المريض",
        "מטופל",
        "患者数",
        "patient's «visits» [bold]x[/bold]",
        "क्‍ष",
        "👩‍⚕️ visits",
    ]
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        for word in words:
            ledger.charge(EVENT, purpose=word, who=word, key=word)
        assert [charge.purpose for charge in ledger.charges()] == words
        ledger.verify()


@pytest.mark.parametrize("text", ["SELECT 'a\x1b[2J'\n FROM t", "x" * 50_000, "'\ud800'", "a\u202eb", "one\r\n\ttwo"])
def test_a_question_is_a_purpose_whatever_it_holds(text: str) -> None:
    check_purpose(as_purpose(text))


def test_a_question_with_strange_text_is_charged_and_answered(tmp_path: Path) -> None:
    import deniable as dn

    (tmp_path / "visits.csv").write_text("patient_id,city\n1,Bern\n2,Basel\n")
    dn.Ledger.create(tmp_path / "a.ledger", unit="patient_id", budget=PureDP(3)).close()
    cities = ", ".join(f"'city {n}'" for n in range(3000))
    with dn.Session(tmp_path / "visits.csv", ledger=tmp_path / "a.ledger") as session:
        for where in ("city = 'a\x01b'", f"city IN ({cities})", "city = '[red]\u202e'"):
            session.sql(
                f"SELECT COUNT(*) AS n FROM visits WHERE {where}", epsilon=0.1, per_unit=dn.AtMost(groups=1, rows=1)
            )
        purposes = [charge.purpose for charge in session.ledger.charges()]
    assert purposes[0].endswith(r"city = 'a\x01b'")
    assert len(purposes[1]) == LONGEST_PURPOSE


def test_a_number_that_cannot_be_written_down_is_refused_before_it_is_charged() -> None:
    for scale in (Fraction(10) ** 5000, 1 / Fraction(10) ** 5000):
        with pytest.raises(InvalidArgument, match="at most 3,900 digits"):
            Laplace(scale=scale)
    for scale in (Decimal("1e999999999"), Decimal("1e-999999999")):
        with pytest.raises(InvalidArgument, match="scale"):
            Laplace(scale=scale)
    assert Laplace(scale=Fraction(10) ** 3000).to_json()
