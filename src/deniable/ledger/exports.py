"""An export: a ledger's whole record as lines of JSON, which verifies without the database it came from.

    {"deniable_ledger":1,"unit":{…},"budget":{…},"filters":{…},"created":"…"}         the header
    {"seq":1,"prev":"…","totals":{…},…,"event":{…},"hash":"…"}                        one line for each row
    {"deniable_ledger_end":1,"head":"1:…","balances":[…]}                             the head, and the totals after it

The hash of a row covers the row without its own hash. The first row names the hash of the header and every later row
the hash of the row before, so an edited line is noticed. The last line shows that nothing was cut. It also holds the
totals whose hashes the rows carry. Lines are ASCII and end in a line feed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, NamedTuple

from deniable import _files
from deniable.errors import LedgerDamaged, LedgerError, LedgerMissing
from deniable.ledger import records
from deniable.ledger.records import Head
from deniable.ledger.stores import Balance, RecordSource, Row
from deniable.ledger.stores.locations import file_at, printable_location

FORMAT = 1
"""The version of the last line; the header states the version of the rows."""

FIRST = b'{"deniable_ledger":'
"""How an export begins."""
_LAST = b'{"deniable_ledger_end":'
_HASH = b',"hash":"'
_TAIL = len(_HASH) + 64 + len(b'"}\n')
_STEP = 1000
"""The offset of every thousandth row is remembered, so that a later row is reached without reading all before it."""


def export(source: RecordSource) -> Iterator[str]:
    """The lines of an export, without their line feeds."""
    with source.reading():
        header, last, balances = source.header(), source.last(), source.balances()
    yield header
    for row in source.rows(stop=0 if last is None else last.seq):
        yield f'{row.body[:-1]},"hash":"{row.hash}"}}'
    head = Head(0, records.digest(header)) if last is None else Head(last.seq, last.hash)
    yield records.canonical(
        {"deniable_ledger_end": FORMAT, "head": str(head), "balances": [_plain(balance) for balance in balances]}
    )


def is_export(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as an export does."""
    try:
        return _files.peek(path, len(FIRST)) == FIRST
    except (OSError, ValueError):
        return False


class ExportFile:
    """An export, open for reading. A file that changes after it was opened is refused."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = file_at(path).absolute()
        self.place = printable_location(path)
        self._state: tuple[int, ...] | None = None
        self._refuse_ledger()
        with self._open() as file:
            self._header = self._text(file.readline(), 1).removesuffix("\n")
            if not self._header.startswith(FIRST.decode()):
                raise LedgerDamaged(f"line 1 of {self.place} is not the header of an export that deniable wrote.")
            try:
                records.Header.from_json(self._header)
            except LedgerDamaged as damage:
                raise LedgerDamaged(f"line 1 of {self.place}: {damage}") from None
            self._offsets = {1: file.tell()}
            self._end = self._read_end(file)

    # what a source answers

    def header(self) -> str:
        return self._header

    @contextmanager
    def reading(self) -> Iterator[None]:
        yield

    def last(self) -> Row | None:
        return self.row(self._end.head.seq)

    def row(self, seq: int) -> Row | None:
        return next(self.rows(start=seq, stop=seq), None) if 1 <= seq <= self._end.head.seq else None

    def rows(self, *, start: int = 1, stop: int | None = None) -> Iterator[Row]:
        end = self._end.head.seq
        stop = end if stop is None else min(stop, end)
        seq = max(number for number in self._offsets if number <= max(start, 1))
        with self._open() as file:
            file.seek(self._offsets[seq])
            while seq <= stop:
                if seq % _STEP == 1:
                    self._offsets[seq] = file.tell()
                row = self._row(file.readline(), seq)
                if seq >= start:
                    yield row
                seq += 1
            if seq > end and file.tell() != self._end.offset:
                raise LedgerDamaged(f"{self.where(seq)} is one too many: the last line counts {end} rows.")

    def balance(self, owner: str) -> Balance | None:
        return next((balance for balance in self._end.balances if balance.owner == owner), None)

    def balances(self) -> list[Balance]:
        return list(self._end.balances)

    def examine(self) -> None:
        """Check that the last line names the last row. Everything else is checked while it is read."""
        last = self.last()
        hash = records.digest(self._header) if last is None else last.hash
        if hash != self._end.head.hash:
            raise LedgerDamaged(f"{self.where(None)}, its last, names another row than the one before it.")

    def where(self, seq: int | None) -> str:
        return f"line {self._end.head.seq + 2 if seq is None else seq + 1} of {self.place}"

    def close(self) -> None:
        """Nothing is held open."""

    # reading

    def _refuse_ledger(self) -> None:
        """Refuse a ledger before it is opened: closing it again would drop the locks of its connections here."""
        with suppress(OSError, ValueError):
            if _files.is_ledger(self.path):
                raise LedgerDamaged(f"line 1 of {self.place} is not the header of an export that deniable wrote.")

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            raise LedgerMissing(f"there is no export at {self.place}.") from None
        except (OSError, ValueError) as failure:
            reason = failure.strerror if isinstance(failure, OSError) else failure
            raise LedgerError(f"{self.place} cannot be read: {reason}.") from None
        with file:
            status = os.fstat(file.fileno())
            state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if self._state not in (None, state):
                raise LedgerDamaged(f"{self.place} changed after it was read; read it again.")
            self._state = state
            yield file

    def _text(self, line: bytes, number: int) -> str:
        if not line.endswith(b"\n"):
            raise LedgerDamaged(f"line {number} of {self.place} is cut; export the ledger again.")
        try:
            return line.decode("ascii")
        except UnicodeDecodeError:
            raise LedgerDamaged(f"line {number} of {self.place} is not as it was exported; it was edited.") from None

    def _row(self, line: bytes, seq: int) -> Row:
        text = self._text(line, seq + 1)
        body, hash = text[:-_TAIL] + "}", text[-67:-3]
        if text[-_TAIL:] != f'{_HASH.decode()}{hash}"}}\n':
            raise LedgerDamaged(f"{self.where(seq)} is not as it was exported; it was edited.")
        # A bare quote ends a string of JSON, so no text can look like this end of the key.
        if ',"key":null,"who":' in body:
            return Row(seq, None, body, hash)
        fields = records.fields_of(body)
        return Row(seq, None if fields is None else records.optional(fields[5]), body, hash)

    def _read_end(self, file: BinaryIO) -> End:
        """The last line, which only a whole export has."""
        size, step = file.seek(0, os.SEEK_END), 1 << 16
        block = b""
        while len(block) < size and block.count(b"\n", 0, -1) < 1:
            block_size = min(size, len(block) + step)
            file.seek(size - block_size)
            block, step = file.read(block_size), 2 * step
        line = block[block.rfind(b"\n", 0, -1) + 1 :]
        if not line.startswith(_LAST) or not line.endswith(b"\n"):
            number = self._count(file)
            raise LedgerDamaged(
                f"{self.place} was cut, or more was added: line {number}, its last, is not the line that states the"
                " head. Export the ledger again."
            )
        try:
            plain = records.parse_object(line.decode("ascii"))
            if plain["deniable_ledger_end"] != FORMAT or records.canonical(plain) != line.decode("ascii").rstrip("\n"):
                raise ValueError
            return End(Head.parse(plain["head"]), tuple(map(_balance, plain["balances"])), size - len(line))
        except (LedgerDamaged, KeyError, TypeError, ValueError, AttributeError):
            number = self._count(file)
            raise LedgerDamaged(f"line {number} of {self.place} is not as it was exported; it was edited.") from None

    def _count(self, file: BinaryIO) -> int:
        file.seek(0)
        return sum(1 for _ in file)


class End(NamedTuple):
    """What the last line says, and where in the file it begins."""

    head: Head
    balances: tuple[Balance, ...]
    offset: int


def _plain(balance: Balance) -> dict[str, Any]:
    return {
        "owner": balance.owner,
        "seq": balance.seq,
        "terms": records.parse_object(balance.terms),
        "totals": records.parse_object(balance.totals),
    }


def _balance(plain: dict[str, Any]) -> Balance:
    return Balance(
        str(plain["owner"]), int(plain["seq"]), records.canonical(plain["terms"]), records.canonical(plain["totals"])
    )
