"""CSV files: one record's text changes that record's row and nothing else, and a file that breaks the rule is refused
as a whole when it is opened.

The rule is written a second time here, letter by letter, and both are compared. What the engine reads is compared with
what Python's csv module reads, for blocks and shards of every size.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from deniable.errors import DataError, InvalidArgument
from deniable.guarantees import PureDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Session
from deniable.query.engines import checked, csv_records
from deniable.query.engines.checked import copy_csv
from deniable.query.engines.csv_records import CsvCheck, CsvFile
from deniable.query.engines.parquet import CONFIG, read_parquet

Row = tuple[str | None, ...]

CELLS = [
    "", "a", " a ", '"', '""', 'a"b', ",", ",,", "\n", "\n\n", "\r", "\r\n", "a\nb", "x\r\ny\r\n", "\0", "é",
    "\U0001f600", "\ufeff", "\ufeffa", "\\", '\\"', "#", "'", "NULL", "\u2028", "\x1a", "\x85", '",\n"',
    '"\n1,2,3\n"', "x" * 3000,
]  # fmt: skip
"""Texts that are hard to read."""

ONE = AtMost(groups=1, rows=1)


def rows_of(path: Path, folder: Path, *, encoding: str | None = None) -> list[Row]:
    """The rows that queries read of a file. Their order means nothing."""
    names, copies = copy_csv(path, folder, encoding=encoding)
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT * FROM {read_parquet(copies)}")
        assert [column[0] for column in found.description] == names
        return found.fetchall()


def text_of(rows: list[Any], *, end: str = "\n", quoting: Any = csv.QUOTE_ALL) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=end, quoting=quoting).writerows(rows)
    return out.getvalue()


def python_rows(text: str) -> list[Row]:
    """What Python's csv module reads, with None for an empty field."""
    csv.field_size_limit(10**9)
    return [tuple(field or None for field in row) for row in csv.reader(io.StringIO(text, newline=""))]


def by_letters(text: str, *, fields: int, end: str) -> int | None:
    """The rule, letter by letter: how many records a text has; None if it breaks the rule."""
    place, records = 0, 0
    while place < len(text):
        if text.startswith(end, place) or (end == "\r\n" and text[place:] == "\r"):
            return records if not text[place:].strip("\r\n") else None
        number = 0
        while True:
            if text[place : place + 1] == '"':
                while True:
                    place = text.find('"', place + 1)
                    if place < 0:
                        return None
                    if text[place + 1 : place + 2] != '"':
                        break
                    place += 1
                place += 1
            else:
                while place < len(text) and text[place] not in ',"\r\n':
                    place += 1
            number += 1
            if text[place : place + 1] != ",":
                break
            place += 1
        if text.startswith(end, place):
            place += len(end)
        elif end == "\r\n" and text[place:] == "\r":
            place += 1
        elif place < len(text):
            return None
        if number != fields:
            return None
        records += 1
    return records


def by_blocks(text: str, *, fields: int, end: str, cuts: list[int]) -> int | None:
    """The rule as it is applied to blocks."""
    check, data = CsvCheck("t.csv", fields=fields, crlf=end == "\r\n"), text.encode()
    try:
        for start, stop in itertools.pairwise([0, *cuts, len(data)]):
            check.feed(data[start:stop])
        check.finish()
    except DataError:
        return None
    return check.records


def compare(text: str, draw: random.Random) -> None:
    for fields, end in itertools.product((1, 2, 3), ("\n", "\r\n")):
        expected = by_letters(text, fields=fields, end=end)
        some = sorted(draw.sample(range(len(text) + 1), k=min(2, len(text))))
        for cuts in ([], list(range(1, len(text))), some):
            assert by_blocks(text, fields=fields, end=end, cuts=cuts) == expected, (text, fields, end, cuts)


def test_the_rule_holds_for_all_short_texts() -> None:
    draw = random.Random(1)
    for length in range(5):
        for letters in itertools.product('a,"\n\r', repeat=length):
            compare("".join(letters), draw)


@pytest.mark.parametrize("seed", range(4))
def test_the_rule_holds_for_long_texts(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(60):
        end = draw.choice(["\n", "\r\n"])
        cells = [[draw.choice(CELLS[:-1]) for _ in range(draw.choice([1, 2, 2]))] for _ in range(draw.randint(1, 5))]
        text = text_of(cells, end=end, quoting=draw.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
        text = text.encode("ascii", "ignore").decode()
        place = draw.randrange(len(text) + 1)
        compare(draw.choice([text, text[:place] + draw.choice('a,"\n\r') + text[place:], text[:place]]), draw)


@pytest.mark.soak
def test_the_rule_holds_for_longer_texts() -> None:
    draw = random.Random(1)
    for letters in itertools.product('a,"\n\r', repeat=7):
        compare("".join(letters), draw)


@pytest.fixture(params=[(1, 1), (3, 50), (7, 1000), (1 << 20, 1 << 23)], ids=lambda sizes: f"{sizes[0]}-{sizes[1]}")
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, ...]:
    """Blocks and shards of a few bytes, so that every border falls everywhere."""
    block, shard = request.param
    monkeypatch.setattr(csv_records, "BLOCK", block)
    monkeypatch.setattr(checked, "SHARD", shard)
    return tuple(request.param)


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("fields", [1, 2, 3])
def test_rows_are_those_of_the_csv_module(
    fields: int, end: str, threads: int, sizes: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONFIG, "threads", threads)
    draw = random.Random(f"{fields} {end} {threads} {sizes}")
    cells = [[draw.choice(CELLS) for _ in range(fields)] for _ in range(20)] + [["z"] * fields]
    text = text_of(cells, end=end) + text_of([["y"] * fields] * 3, end=end, quoting=csv.QUOTE_MINIMAL)
    if draw.random() < 0.5:
        text = text.removesuffix(end)
    (tmp_path / "t.csv").write_bytes((",".join("abc"[:fields]) + end + text).encode())
    assert Counter(rows_of(tmp_path / "t.csv", tmp_path)) == Counter(python_rows(text))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_all_pairs_of_cells(end: str, tmp_path: Path) -> None:
    text = text_of([list(pair) for pair in itertools.product(CELLS, repeat=2)], end=end)
    (tmp_path / "t.csv").write_bytes((f"a,b{end}" + text).encode())
    assert Counter(rows_of(tmp_path / "t.csv", tmp_path)) == Counter(python_rows(text))


LINE = "{},cccccccccccccccccccccccccccccccccccccc,{}\n"
EVIL = {
    "lines like records": '99999999,"hello\n' + "".join(f"z{k},b,c\n" for k in range(400)) + 'bye",5\n',
    "quotes and lines": '99999999,"' + '"",""\n' * 300 + '",5\n',
    "a long text": '99999999,"' + ("".join(f"{10**7 + k},zz,1\n" for k in range(60_000)))[:900_000] + '",5\n',
    "a long line": "99999999," + "y" * 3_000_000 + ",5\n",
    "NUL": '99999999,"\0\n\0",5\n',
}


@pytest.mark.parametrize("name", EVIL)
def test_a_text_across_the_border_of_8_mb_is_one_row(name: str, tmp_path: Path) -> None:
    evil = EVIL[name]
    lines = [LINE.format(k, k % 10) for k in range(180_000)]
    place = (8_000_000 - len(evil) // 2) // len(LINE.format(10**5, 0))
    (tmp_path / "t.csv").write_text("".join(["person,city,x\n", *lines[:place], evil, *lines[place:]]), newline="")
    _, copies = copy_csv(tmp_path / "t.csv", tmp_path)
    table = read_parquet(copies)
    with duckdb.connect() as connection:
        text = evil.removeprefix("99999999,").removesuffix(",5\n")
        text = text[1:-1].replace('""', '"') if text[0] == '"' else text
        row = connection.execute(f"SELECT city, x FROM {table} WHERE person = '99999999'").fetchall()
        assert row == [(text, "5")]
        others = f"SELECT COUNT(*), COUNT(DISTINCT person), SUM(x::INT) FROM {table} WHERE person <> '99999999'"
        assert connection.execute(others).fetchall() == [
            (len(lines), len(lines), sum(k % 10 for k in range(len(lines))))
        ]


def test_one_records_text_changes_its_row_alone(sizes: tuple[int, ...], tmp_path: Path) -> None:
    draw = random.Random(str(sizes))
    for _ in range(3):
        cells = [[draw.choice(CELLS) for _ in range(3)] for _ in range(8)]
        place, other = draw.randrange(8), [draw.choice(CELLS) for _ in range(3)]
        found = []
        for row in (cells[place], other):
            text = text_of([["a", "b", "c"], *cells[:place], row, *cells[place + 1 :]])
            (tmp_path / "t.csv").write_bytes(text.encode())
            found.append(Counter(rows_of(tmp_path / "t.csv", tmp_path)))
        before, after = (tuple(cell or None for cell in row) for row in (cells[place], other))
        assert found[0] - Counter([before]) == found[1] - Counter([after])


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "t.ledger", unit="person", budget=PureDP(10**6)) as found:
        yield found


@pytest.fixture
def count(ledger: Ledger) -> Callable[..., int]:
    """How many rows a table has. With ε = 1000 the noise is 0 but for a probability of e^(−1000)."""

    def run(data: Any, where: str = "", table: str = "t", **options: Any) -> int:
        with Session(data, ledger=ledger, **options) as session:
            found = session.sql(f'SELECT COUNT(*) AS n FROM "{table}" {where}', epsilon=1000, per_unit=ONE)
            return int(found.columns["n"][0])

    return run


SECRET = "SECRET"
FAULTS = {
    "an inch": (b'2,12" ' + b"SECRET\n", 3, "a quote stands inside a field"),
    "an inch in quotes": (b'2,"12" SECRET"\n', 3, "text follows a closing quote"),
    "text behind a quote": (b'2,"a"SECRET\n', 3, "text follows a closing quote"),
    "three quotes": (b'2,"a"b"SECRET\n', 3, "text follows a closing quote"),
    "an open quote": (b'2,"SECRET\n', 3, "a quote is opened and never closed"),
    "an open quote, closed by another": (b'2,"SECRET\n3,"b"\n', 3, "text follows a closing quote"),
    "a quote alone": (b'"\n', 3, "never closed"),
    "a field less": (b"SECRET\n", 3, "another number of fields"),
    "a field more": (b"2,SECRET,1\n", 3, "another number of fields"),
    "a line break less": (b"2,a3,SECRET\n", 3, "another number of fields"),
    "a carriage return": (b"2,SEC\rRET\n", 3, "a carriage return outside of quotes"),
    "another end": (b"2,SECRET\r\n", 3, "does not end as the first line does"),
    "an empty line": (b"\n2,SECRET\n", 3, "it is empty"),
    "empty lines": (b"\n\n\n2,SECRET\n", 3, "it is empty"),
    "a blank": (b" \n2,SECRET\n", 3, "another number of fields"),
    "not UTF-8": (b"2,SECRET\xfc\n", 3, "say so: encoding='cp1252'"),
    "a cut letter": (b"2,SECRET\xe2\x82\n", 3, "not UTF-8"),
    "half of a pair": (b"2,SECRET\xed\xa0\x80\n", 3, "not UTF-8"),
    "behind lines in quotes": (b'2,"a\nb\nc"\n3,SECRET,4\n', 6, "another number of fields"),
    "in a record of many lines": (b'2,"a\nb\nc"SECRET\n', 3, "text follows a closing quote"),
}


@pytest.mark.parametrize("size", [1, 5, 1 << 20])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_refuses_the_file(
    name: str, size: int, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its line and nothing of its content, at the opening, and without a trace in the ledger."""
    content, line, words = FAULTS[name]
    monkeypatch.setattr(csv_records, "BLOCK", size)
    (tmp_path / "t.csv").write_bytes(b"person,city\n1,Bern\n" + content)
    before = (tmp_path / "t.ledger").read_bytes()
    with pytest.raises(DataError) as caught:
        Session(tmp_path / "t.csv", ledger=ledger)
    assert f"t.csv, line {line}: " in str(caught.value)
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)
    assert (tmp_path / "t.ledger").read_bytes() == before
    assert list(ledger.charges()) == []


@pytest.mark.parametrize("line", [1_000, 20_000])
def test_the_line_of_a_late_fault(line: int, tmp_path: Path, ledger: Ledger) -> None:
    lines = [f'{number},"two\nlines {"x" * 100}"\n' for number in range(10_000)]
    place = line // 2
    text = "".join(["person,city\n", *lines[: place - 1], 'a"b,c\n', *lines[place - 1 :]])
    (tmp_path / "t.csv").write_text(text, newline="")
    with pytest.raises(DataError, match=f"line {line}: a quote stands inside"):
        Session(tmp_path / "t.csv", ledger=ledger)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("tail", [b"", b"END", b"ENDEND", b"ENDENDEND"])
def test_the_end_of_a_file(end: bytes, tail: bytes, tmp_path: Path, count: Callable[..., int]) -> None:
    """The last line may lack its end, and empty lines may follow."""
    for head, row in ((b"person,cityEND", b"1,Bern"), (b"personEND", b"1")):
        (tmp_path / "t.csv").write_bytes((head + row + b"END" + row.replace(b"1", b"2") + tail).replace(b"END", end))
        assert count(tmp_path / "t.csv") == 2


def test_a_table_without_rows(tmp_path: Path, count: Callable[..., int]) -> None:
    for text in ("person", "person\n", "person,city\r\n", "person\n\n\n"):
        (tmp_path / "t.csv").write_bytes(text.encode())
        assert count(tmp_path / "t.csv") == 0


def test_a_record_has_a_longest_length(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_records, "BLOCK", 100)
    monkeypatch.setattr(csv_records, "LONGEST_RECORD", 1 << 20)
    (tmp_path / "t.csv").write_text("person,city\n1," + "x" * (1 << 20) + "\n")
    with pytest.raises(DataError, match="line 2: a record is longer than 1 MB"):
        Session(tmp_path / "t.csv", ledger=ledger)
    (tmp_path / "t.csv").write_text("person,city\n1," + "x" * ((1 << 20) - 3) + "\n")
    Session(tmp_path / "t.csv", ledger=ledger).close()


def test_a_byte_order_mark_is_no_letter(tmp_path: Path, count: Callable[..., int]) -> None:
    for encoding in (None, "utf-8", "utf-8-sig", "utf_8"):
        (tmp_path / "t.csv").write_bytes("\ufeffperson,city\n1,\ufeffBern\n\ufeff2,Bern\n".encode())
        assert count(tmp_path / "t.csv", "WHERE person = '\ufeff2' OR city = '\ufeffBern'", encoding=encoding) == 2


@pytest.mark.parametrize(
    "encoding",
    ["cp1252", "latin-1", "iso-8859-15", "mac-roman", "cp437", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp037"],
)
def test_encodings(encoding: str, tmp_path: Path, count: Callable[..., int]) -> None:
    (tmp_path / "t.csv").write_bytes('person,city\r\n1,Zürich\r\n2,"Zürich"\r\n3,Bern\r\n'.encode(encoding))
    assert count(tmp_path / "t.csv", "WHERE city = 'Zürich'", encoding=encoding) == 2


@pytest.mark.parametrize("encoding", ["shift_jis", "cp932", "euc_jp", "gbk", "gb18030", "big5", "euc_kr"])
def test_encodings_of_several_bytes(
    encoding: str, tmp_path: Path, count: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_records, "BLOCK", 3)
    (tmp_path / "t.csv").write_bytes("person,city\n1,東京\n2,東京\n".encode(encoding))
    assert count(tmp_path / "t.csv", "WHERE city = '東京'", encoding=encoding) == 2
    (tmp_path / "t.csv").write_bytes("person,city\n1,東京\n2,".encode(encoding) + b"\x85\n")
    with pytest.raises(DataError, match="line 3: bytes that are not"):
        count(tmp_path / "t.csv", encoding=encoding)


@pytest.mark.parametrize(
    "encoding", ["nonsense", "base64", "utf-7", "iso2022_jp", "hz", "rot13", "unicode_escape", "", 7]
)
def test_encodings_in_which_a_record_changes_others(encoding: Any, tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "t.csv").write_bytes(b"person\n1\n")
    with pytest.raises(InvalidArgument, match="encoding must be an encoding of text"):
        Session(tmp_path / "t.csv", ledger=ledger, encoding=encoding)


def test_a_wrong_encoding_says_its_line(tmp_path: Path, ledger: Ledger) -> None:
    text = "person,city\n1,Bern\n2,Zürich\n"
    for content, encoding, words in (
        (text.encode("cp1252"), None, "line 3: bytes that are not UTF-8; .*encoding='cp1252'"),
        (text.encode("utf-16"), None, "line 1: bytes that are not UTF-8; .*encoding='utf-16'"),
        (text.encode(), "ascii", "line 3: bytes that are not ASCII"),
        (text.encode("cp1252").replace(b"\xfc", b"\x81"), "cp1252", "line 3: bytes that are not CP1252; .*'latin-1'"),
        (text.encode("utf-16-be") + b"\xd8\x00\x00\n", "utf-16-be", "line 4: bytes that are not UTF-16-BE"),
        (b"\xfe\xff" + text.encode("utf-16-be") + b"\xd8\x00\x00\n", "utf-16", "line 4: bytes that are not UTF-16-BE"),
    ):
        (tmp_path / "t.csv").write_bytes(content)
        with pytest.raises(DataError, match=words):
            Session(tmp_path / "t.csv", ledger=ledger, encoding=encoding)


def test_an_encoding_needs_a_csv_file(tmp_path: Path, ledger: Ledger) -> None:
    duckdb.sql("SELECT 1 AS person").write_parquet(str(tmp_path / "t.parquet"))
    with pytest.raises(InvalidArgument, match="left out where no table is a CSV file"):
        Session(tmp_path / "t.parquet", ledger=ledger, encoding="cp1252")


def test_gzip(tmp_path: Path, count: Callable[..., int], ledger: Ledger) -> None:
    text = text_of([["person", "city"], *([number, "a\nb"] for number in range(1000))]).encode()
    packed = gzip.compress(text[:4000]) + gzip.compress(text[4000:])
    (tmp_path / "t.csv.gz").write_bytes(packed)
    assert count(tmp_path / "t.csv.gz") == 1000
    for broken in (packed[:-9], packed[:200], packed[:-8] + b"12345678", b"person\n1\n", packed + b"x"):
        (tmp_path / "t.csv.gz").write_bytes(broken)
        with pytest.raises(DataError, match=r"t\.csv\.gz is not a whole gzip file"):
            Session(tmp_path / "t.csv.gz", ledger=ledger)


def test_a_file_that_changes_is_not_read(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "t.csv"
    path.write_text("person\n1\n2\n")
    with Session(path, ledger=ledger) as session:
        plan = session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1000, per_unit=ONE)
        path.write_text('person\n1\n2\n3\n"\n')
        with pytest.raises(DataError, match="has changed since the session was opened; open it again"):
            plan.run()
        assert list(ledger.charges()) == []
        # What was checked is what is read, even if nothing had noticed the change.
        totals = session.context.engine.run(plan.bounded, groups=1, key=(1, 2))
        assert totals.rows.tolist() == [2]


def test_a_file_that_changes_while_it_is_opened(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("person\n1\n2\n")

    def names(*given: Any) -> list[str]:
        path.write_text("person\n1\n2\n3\n")
        return ["person"]

    monkeypatch.setattr(csv_records, "_names", names)
    with pytest.raises(DataError, match="has changed while it was opened"):
        Session(path, ledger=ledger)


def test_nothing_is_left_of_a_copy(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "a [folder]*?'s"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = tmp_path / "t.csv"
    path.write_text("person,city\n1,Bern\n2,Basel\n")
    with Session(path, ledger=ledger) as session:
        (folder,) = scratch.iterdir()
        assert folder.stat().st_mode & 0o077 == 0, "the copy is for its owner alone"
        assert not list(folder.rglob("*.csv"))
        found = session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1000, per_unit=ONE)
        assert found.columns["n"] == [2]
    assert not list(scratch.iterdir())
    path.write_text('person,city\n1,Bern\n2,"Basel\n')
    with pytest.raises(DataError):
        Session(path, ledger=ledger)
    assert not list(scratch.iterdir())


def test_a_disk_that_is_full(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("person\n1\n")

    def full(*_: Any) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checked, "_fresh", full)
    with pytest.raises(DataError, match="could not be copied to the folder for temporary files; make room"):
        Session(tmp_path / "t.csv", ledger=ledger)


def test_rows_that_the_engine_passes_over_are_noticed(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text("person\n1\n2\n")
    monkeypatch.setattr(checked, "_copied", lambda *_: 1)
    with pytest.raises(DataError, match="is not read as it was checked"):
        Session(tmp_path / "t.csv", ledger=ledger)


@pytest.mark.parametrize("name", ["cit\ty", "cit\x1by", '"ci\nty"', "ci\0ty"])
def test_names_without_control_characters(name: str, tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "t.csv").write_text(f"person,{name}\n1,2\n", newline="")
    with pytest.raises(DataError, match=r"the first line of t\.csv has a name with a control character"):
        Session(tmp_path / "t.csv", ledger=ledger)


@pytest.mark.parametrize("first", ["17,x", "2026-01-31,Bern", ",x", "1e5,x", "nan,x", 'SECRET,"SEC"RET'])
def test_a_first_line_of_data_is_not_quoted(first: str, tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "t.csv").write_text(f"{first}\n1,2\n")
    with pytest.raises(DataError) as caught:
        Session(tmp_path / "t.csv", ledger=ledger)
    assert not any(part in str(caught.value) for part in ("17", "2026", "1e5", "SEC"))


def test_names_of_the_engine_are_names_like_others(tmp_path: Path, count: Callable[..., int]) -> None:
    names = ["person", "filename", "file_row_number", "c0", "select", 'a"b', "a'b", "é", "row"]
    (tmp_path / "t.csv").write_text(text_of([names, list(range(9)), list(range(1, 10))]), newline="")
    assert count(tmp_path / "t.csv", 'WHERE filename = 2 AND file_row_number = 3 AND "a""b" = 6') == 1


@pytest.mark.parametrize("end", ["", "\r", "\r\n", "\r\n\r", "\r\n\r\n\r\n"])
def test_empty_lines_at_the_end_are_no_records(end: str, tmp_path: Path, count: Callable[..., int]) -> None:
    (tmp_path / "t.csv").write_text(f"person,city\r\n1,Bern\r\n{end}", newline="")
    with CsvFile(tmp_path / "t.csv") as file:
        assert b"".join(file.records()) == b"1,Bern\r\n"
        assert file.number == 1
    assert count(tmp_path / "t.csv") == 1


@pytest.mark.parametrize("size", [1, 3, 10, 1 << 20])
def test_the_line_of_a_byte_that_is_no_text_is_right_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """In the names, in a quoted field of several lines, and behind the empty lines at the end."""
    monkeypatch.setattr(csv_records, "BLOCK", size)
    content = b'id,"ab"\n1,"x\n\ny"\n2,z\n\n\n\n'
    for place in range(len(content) + 1):
        (tmp_path / "t.csv").write_bytes(content[:place] + b"\xff" + content[place:])
        line = 1 + content[:place].count(b"\n")
        with (
            pytest.raises(DataError, match=f"line {line}: bytes that are not UTF-8"),
            CsvFile(tmp_path / "t.csv") as file,
        ):
            list(file.records())
