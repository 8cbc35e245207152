"""An export verifies without the database: whole, or refused with the line that is wrong."""

from __future__ import annotations

import json
import pickle
import random
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deniable.errors import InvalidArgument, LedgerDamaged, LedgerError, LedgerMissing
from deniable.events import Claimed, Laplace
from deniable.guarantees import ApproxDP, PureDP
from deniable.ledger import Ledger, LedgerRecord, exports, records
from tests.ledger.kept import InFile

recompute = runpy.run_path(str(Path(__file__).parent / "oracle.py"))["recompute"]
EVENT = Laplace(scale=100)


def write(ledger: LedgerRecord, path: Path) -> Path:
    path.write_text("".join(f"{line}\n" for line in ledger.export()))
    return path


def filled(path: Path | str) -> Ledger:
    """A ledger with charges, keys, analysts and a few that are not ASCII."""
    ledger = Ledger.create(path, unit="patient_id", budget=ApproxDP(3, 1e-6))
    ledger.charge(EVENT, purpose="visits per city", key="run 1")
    ledger.charge(Claimed(ApproxDP(0.25, 1e-7)), purpose='say "who":null, é', who="Zoë")
    ledger.allot("Zoë", ApproxDP(1, 1e-6))
    ledger.allot("who", PureDP(0.5))
    for number in range(4):
        ledger.charge(EVENT * (number + 1), purpose=f"q{number}", who="who", key=f"key {number}")
    return ledger


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """An export of ten lines whose ledger is gone."""
    with filled(tmp_path / "a.ledger") as ledger:
        path = write(ledger, tmp_path / "hospital.jsonl")
    (tmp_path / "a.ledger").unlink()
    assert len(path.read_text().splitlines()) == 10
    return path


def test_an_export_says_what_its_ledger_says(path: Path, tmp_path: Path) -> None:
    with filled(path) as ledger:
        record = Ledger.read_export(write(ledger, tmp_path / "hospital.jsonl"))
        assert record.head() == record.verify() == ledger.verify()
        assert list(record.charges()) == list(ledger.charges())
        assert list(record.charges(who="who", last=2)) == list(ledger.charges(who="who", last=2))
        assert (record.unit, record.relation, record.budget) == (ledger.unit, ledger.relation, ledger.budget)
        assert record.analysts() == ledger.analysts()
        for who in (None, "Zoë", "who"):
            assert record.remaining(who=who) == ledger.remaining(who=who)
            assert record.room(who=who) == ledger.room(who=who)
        assert list(record.export()) == list(ledger.export())
        assert record.describe().facts == ledger.describe().facts
        assert recompute(record.export())["whole"]
    assert not hasattr(record, "charge")
    assert not hasattr(record, "allot")
    assert pickle.loads(pickle.dumps(record)).head() == record.head()
    with pytest.raises(LedgerError, match="each analyst"):
        record.remaining(who="eve")


def test_an_empty_ledger_has_an_export_too(path: Path, tmp_path: Path) -> None:
    with Ledger.create(path, unit="row", budget=PureDP(1)) as ledger:
        record = Ledger.read_export(write(ledger, tmp_path / "empty.jsonl"), head=ledger.head())
        assert record.head() == ledger.head()
        assert list(record.charges()) == list(record.charges(last=3)) == []
        assert record.remaining() == PureDP(1, unit="row")


def test_a_kept_head_must_be_in_an_export(exported: Path) -> None:
    record = Ledger.read_export(exported)
    early = records.Head(2, list(record.charges())[1].hash)
    assert Ledger.read_export(exported, head=early).head() == record.head()
    assert Ledger.read_export(exported, head=str(early)).head() == record.head()
    with pytest.raises(LedgerDamaged, match=r"line 3 of .*hospital\.jsonl is not the one that the kept head names"):
        Ledger.read_export(exported, head=early._replace(hash="0" * 64))
    with pytest.raises(LedgerDamaged, match="set back"):
        Ledger.read_export(exported, head=early._replace(seq=99))


def refused(path: Path) -> str:
    with pytest.raises(LedgerError) as damage:
        Ledger.read_export(path)
    return str(damage.value)


def line_in(message: str) -> int | None:
    found = re.search(r"line (\d+)", message)
    return None if found is None else int(found[1])


def test_an_export_cut_after_any_line_is_refused_with_its_last(exported: Path) -> None:
    lines = exported.read_text().splitlines(keepends=True)
    for kept in range(1, len(lines)):
        exported.write_text("".join(lines[:kept]))
        message = refused(exported)
        assert line_in(message) == kept
        assert "cut" in message


def test_an_export_cut_at_any_byte_is_refused(exported: Path) -> None:
    whole = exported.read_bytes()
    for size in [*range(0, len(whole), 97), *range(len(whole) - 70, len(whole))]:
        exported.write_bytes(whole[:size])
        assert line_in(refused(exported)) is not None


def test_every_changed_byte_is_refused_with_its_line(exported: Path) -> None:
    """One character at a time, at places all over the file. A changed hash shows in its own line or in the next."""
    whole = exported.read_bytes()
    rng = random.Random(5)
    for _ in range(600):
        place = rng.randrange(len(whole))
        other = rng.choice([b for b in b'x0"\\ {}:,\n\xc3' if b != whole[place]])
        exported.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
        line = whole[:place].count(b"\n") + 1
        found = line_in(refused(exported))
        # A line break makes two lines of one, or one of two: then the count of all lines differs.
        assert found is not None
        if other != 10 and whole[place] != 10 and line < 10:
            assert found in (line, line + 1), (place, found, line)


EDITS: dict[str, Callable[[list[str]], list[str]]] = {
    "two rows exchanged": lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
    "a row twice": lambda lines: [*lines[:3], lines[3], *lines[3:]],
    "a row left out": lambda lines: [*lines[:3], *lines[4:]],
    "the header left out": lambda lines: lines[1:],
    "the end left out": lambda lines: lines[:-1],
    "the last row left out": lambda lines: [*lines[:-2], lines[-1]],
    "one line more at the end": lambda lines: [*lines, "{}\n"],
    "a blank line at the end": lambda lines: [*lines, "\n"],
    "a blank line inside": lambda lines: [*lines[:5], "\n", *lines[5:]],
    "the end twice": lambda lines: [*lines, lines[-1]],
    "line ends of another system": lambda lines: [line.replace("\n", "\r\n") for line in lines],
    "a mark at the front": lambda lines: ["\ufeff" + lines[0], *lines[1:]],
    "spaces at the end of a line": lambda lines: [*lines[:4], lines[4][:-1] + " \n", *lines[5:]],
    "nothing but rows": lambda lines: lines[1:-1],
    "nothing": lambda lines: [],
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_export_is_refused_with_a_line(exported: Path, name: str) -> None:
    lines = exported.read_text().splitlines(keepends=True)
    exported.write_bytes("".join(EDITS[name](lines)).encode())
    assert line_in(refused(exported)) is not None


def forge(path: Path, change: Callable[[list[dict[str, Any]], dict[str, Any]], None]) -> None:
    """Change rows or totals and write every hash anew, as somebody would who knows the format."""
    header, *rows, end = path.read_text().splitlines()
    plain, last = [json.loads(row) for row in rows], json.loads(end)
    change(plain, last)
    prev, lines = records.digest(header), [header]
    for row in plain:
        del row["hash"]
        row["prev"] = prev
        body = records.canonical(row)
        prev = records.digest(body)
        lines.append(f'{body[:-1]},"hash":"{prev}"}}')
    last["head"] = f"{len(plain)}:{prev}"
    lines.append(records.canonical(last))
    path.write_text("".join(f"{line}\n" for line in lines))


def test_a_forger_who_writes_all_hashes_anew_changes_nothing(exported: Path) -> None:
    before = exported.read_text()
    forge(exported, lambda rows, end: None)
    assert exported.read_text() == before
    Ledger.read_export(exported)


def cheaper(rows: list[dict[str, Any]], end: dict[str, Any]) -> None:
    rows[0]["event"]["scale"] = "100000"


def fewer_totals(rows: list[dict[str, Any]], end: dict[str, Any]) -> None:
    end["balances"][0]["totals"]["tallies"][0][1][0] = "0"


def no_analyst(rows: list[dict[str, Any]], end: dict[str, Any]) -> None:
    del end["balances"][1]


def wider(rows: list[dict[str, Any]], end: dict[str, Any]) -> None:
    rows[2]["allot"]["filters"]["families"][0]["sums"][0]["limit"] = "99"


def nameless(rows: list[dict[str, Any]], end: dict[str, Any]) -> None:
    rows[-1]["who"] = None


def same_key(rows: list[dict[str, Any]], end: dict[str, Any]) -> None:
    rows[-1]["key"] = "run 1"


def other_filter(rows: list[dict[str, Any]], end: dict[str, Any]) -> None:
    """The totals of the filter that the first charge did not choose, vouched for by the last row."""
    balance = end["balances"][0]
    totals = {"rules": balance["totals"]["rules"], "choice": "alone", "tallies": [["0", ["1/10"]]]}
    balance["totals"] = totals
    voucher = records.digest(f"{records.canonical(balance['terms'])}\n{records.canonical(totals)}")
    rows[-1]["totals"][""] = voucher


@pytest.mark.parametrize("change", [cheaper, fewer_totals, no_analyst, wider, nameless, same_key, other_filter])
def test_sums_and_filters_are_checked_as_in_the_database(exported: Path, change: Callable[..., None]) -> None:
    forge(exported, change)
    assert re.search(r"line \d+ of .*hospital\.jsonl", refused(exported))


def nested(depth: int) -> dict[str, Any]:
    event: dict[str, Any] = {"kind": "Laplace", "scale": "1", "sensitivity": "1", "relation": "add_remove"}
    for _ in range(depth):
        event = {"kind": "Repeated", "event": event, "count": 2}
    return {"deniable": 1, **event}


HOSTILE: dict[str, Any] = {
    "a long number": {"deniable": 1, "kind": "Laplace", "scale": "1e999999999", "sensitivity": "1"},
    "a small number": {"deniable": 1, "kind": "Laplace", "scale": "1e-999999999", "sensitivity": "1"},
    "many digits": {"deniable": 1, "kind": "Laplace", "scale": "9" * 100_000, "sensitivity": "1"},
    "a division by zero": {"deniable": 1, "kind": "Laplace", "scale": "1/0", "sensitivity": "1"},
    "nothing": {},
    "a list": [],
    "a number": 3,
    "null": None,
    "no kind": {"deniable": 1},
    "another kind": {"deniable": 1, "kind": "Ledger"},
    "a guarantee": {"deniable": 1, "kind": "PureDP", "epsilon": "1"},
    "a scale of zero": {"deniable": 1, "kind": "Laplace", "scale": "0", "sensitivity": "1"},
    "a list for a scale": {"deniable": 1, "kind": "Laplace", "scale": ["1"], "sensitivity": "1"},
    "other events inside": nested(150),
    "a unit of numbers": {
        "deniable": 1, "kind": "Claimed", "guarantee": {"kind": "PureDP", "epsilon": "1", "unit": {"column": 3}}
    },
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_event_is_refused_in_words_and_at_once(exported: Path, name: str) -> None:
    """Whoever verifies an export got it from somebody else."""

    def change(rows: list[dict[str, Any]], end: dict[str, Any]) -> None:
        rows[0]["event"] = HOSTILE[name]

    forge(exported, change)
    assert re.search(r"line \d+ of .*hospital\.jsonl", refused(exported))


def test_lines_that_are_nested_or_long_without_end_are_refused(exported: Path) -> None:
    header, *rows, end = exported.read_text().splitlines()
    deep = '{"deniable_ledger":' + "[" * 100_000 + "]" * 100_000 + "}"
    digits = '{"deniable_ledger":' + "9" * 10_000 + "}"
    for line in (deep, digits):
        exported.write_text("\n".join([line, *rows, end, ""]))
        assert line_in(refused(exported)) == 1
        exported.write_text("\n".join([header, *rows, line.replace("ledger", "ledger_end"), ""]))
        assert line_in(refused(exported)) == 10


def test_an_overspent_export_does_not_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deniable.accounting import filters
    from deniable.ledger import accounts

    monkeypatch.setattr(accounts, "admitted", filters.after)
    with Ledger.create(tmp_path / "a.ledger", unit="row", budget=PureDP(1)) as ledger:
        ledger.charge(Laplace(scale=0.1), purpose="ten at once")
        path = write(ledger, tmp_path / "a.jsonl")
    assert "overspent" in refused(path)


def test_an_export_that_changes_after_it_was_read_is_refused(exported: Path) -> None:
    record = Ledger.read_export(exported)
    exported.write_text(exported.read_text().replace("q3", "q4"))
    for ask in (lambda: list(record.charges()), record.verify, lambda: list(record.export())):
        with pytest.raises(LedgerDamaged, match="changed after it was read"):
            ask()


def test_what_is_no_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerMissing, match="no export"):
        Ledger.read_export(tmp_path / "none.jsonl")
    with pytest.raises(LedgerError, match="cannot be read"):
        Ledger.read_export(tmp_path)
    with pytest.raises(InvalidArgument):
        Ledger.read_export(3)  # type: ignore[arg-type]
    place = InFile(tmp_path)
    filled(place.address).close()
    with pytest.raises(LedgerDamaged, match="line 1"):
        Ledger.read_export(place.address)


def test_rows_of_a_long_export_are_found_without_reading_all_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_STEP", 3)
    with Ledger.create(tmp_path / "a.ledger", unit="row", budget=PureDP(1)) as ledger:
        for number in range(11):
            ledger.charge(EVENT, purpose=f"q{number}")
        file = exports.ExportFile(write(ledger, tmp_path / "a.jsonl"))
        for _ in range(2):  # the second time places are known
            for start in range(1, 13):
                for stop in range(start - 1, 12):
                    found = [row.seq for row in file.rows(start=start, stop=stop)]
                    assert found == list(range(start, min(stop, 11) + 1))
        assert file.row(12) is file.row(0) is None
