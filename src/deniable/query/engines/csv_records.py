"""CSV files by one strict rule (RFC 4180), checked from the first byte to the last before any record is used.

**The rule.** A record is a line of fields with commas between them. A field that begins with a quote ends with the
next quote that is not doubled, and then a comma or the end of the record follows. Quotes, commas and line breaks inside
such a field are text; other fields have no quotes. All records have as many fields as the first, which holds the column
names. All records end alike, in LF or in CR LF; the last one may lack its end, and empty lines may follow it. Anything
else is refused, with the number of the line and nothing of its content.

**Why.** A reader that forgives a stray quote must guess where the next record begins, and then the text of one person
decides which rows others have. So must a reader that starts in the middle of a file, where it cannot know whether it is
inside quotes. By this rule a record ends at a line break with an even number of quotes before it: `CsvCheck` counts
them from the start of the file, and only whole records go on to an engine.

>>> check = CsvCheck("visits.csv", fields=2, crlf=False)
>>> check.feed(b'1,Bern\\n2,"Ba'), check.feed(b'sel\\n"\\n'), check.finish(), check.records
(7, 6, b'', 2)
>>> check.feed(b'3,5" wide\\n')
Traceback (most recent call last):
...
deniable.errors.DataError: visits.csv, line 4: a quote stands inside a field that does not begin with one; ...
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import sys
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from deniable._remedies import ExampleWord, Option, Remedy
from deniable.errors import DataError, InvalidArgument

LONGEST_RECORD = 1 << 26
"""Bytes of one record, at most."""
LONGEST_HEADER = 1 << 20
BLOCK = 1 << 20
"""Bytes that are checked together: they stay in the processor's cache."""

_QUOTE, _COMMA, _LF, _CR = b'",\n\r'
_BOM = "\ufeff".encode()
_NOWHERE = np.zeros(0, dtype=np.intp)

_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""What a first line may hold in place of commas. Such files are not read: their numbers often have decimal commas."""

_STATELESS = (
    "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "shift_jis", "cp932",
    "shift_jis_2004", "shift_jisx0213", "euc_jp", "euc_jis_2004", "euc_jisx0213", "euc_kr", "cp949", "johab", "gb2312",
    "gbk", "gb18030", "big5", "big5hkscs", "cp950", "ascii", "iso8859-1",
)  # fmt: skip
"""Encodings in which no letter changes what the bytes behind it mean, beside those of one byte per letter."""

_STRAY = "a quote stands inside a field that does not begin with one; quote the field, and double the quotes in it"
_TRAILING = "text follows a closing quote, or a quote is never closed; double the quotes inside a field"
_BREAK = "it does not end as the first line does, or it has a carriage return outside of quotes"
_COUNT = "it has another number of fields than the first line"
_EMPTY = "it is empty; only at the end of a file may lines be empty"


class CsvFile:
    """A CSV file, open for one reading: its column names, and its records as UTF-8 once they are checked."""

    def __init__(self, path: Path, *, encoding: str | None = None) -> None:
        self._name, self._stack = path.name, ExitStack()
        try:
            with _reading(path.name):
                opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
                raw: IO[bytes] = self._stack.enter_context(opener(path, "rb"))
            self._start = b""
            self._line: Callable[[], int] = lambda: 1 + self._start.count(b"\n")
            self._blocks = _utf8_blocks(raw, path.name, encoding, line=lambda: self._line())
            header, self._rest = self._first_record()
            self.names = _names(path.name, header)
            self.crlf = header.endswith(b"\r\n")
            """Whether records end in CR LF, and not in LF alone."""
            check = self._check = CsvCheck(path.name, fields=len(self.names), crlf=self.crlf)
            check.feed(header)
            self._line = lambda: check.line
        except BaseException:
            self._stack.close()
            raise

    def records(self) -> Iterator[bytes]:
        """All records behind the first, whole, some at a time. A fault is raised when it is met."""
        pending: list[bytes] = []
        for block in self._all_blocks():
            end = self._check.feed(block)
            if end:
                yield b"".join((*pending, block[:end]))
                pending = []
            pending.append(block[end:])
        if last := self._check.finish():
            yield b"".join((*pending, last))

    @property
    def number(self) -> int:
        """How many records came so far, without the first."""
        return self._check.records - 1

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> CsvFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _first_record(self) -> tuple[bytes, bytes]:
        """The first record, and what was read behind it."""
        while (end := _end_of_record(self._start)) == 0 and len(self._start) <= LONGEST_HEADER:
            block = next(self._blocks, b"")
            if not block:
                return self._start + b"\n", b""
            self._start += block
        if not 0 < end <= LONGEST_HEADER:
            raise DataError(f"the first line of {self._name} must hold the column names; it is longer than 1 MB")
        return self._start[:end], self._start[end:]

    def _all_blocks(self) -> Iterator[bytes]:
        for start in range(0, len(self._rest), BLOCK):
            yield self._rest[start : start + BLOCK]
        yield from self._blocks


class CsvCheck:
    """The rule, over the bytes of a file, in blocks of any size."""

    def __init__(self, name: str, *, fields: int, crlf: bool) -> None:
        self.records = 0
        self._name, self._fields, self._crlf = name, fields, crlf
        self.line = 1
        """The number of the line in which the next byte is."""
        self._last = _LF  # a field may begin at the start of the file as it may behind a line break
        self._inside = False
        self._over = False
        """Whether an empty line came: then nothing but empty lines may follow."""
        # Of the record that has begun: its first line, its bytes, its commas.
        self._record_line, self._size, self._commas = 1, 0, 0

    def feed(self, block: bytes) -> int:
        """Check the next bytes. Says how many of them belong to records that end in them."""
        if self._over:
            self._check_empty(block)
        if self._over or not block:
            return 0
        # With the byte before: whether the first one may stand there can depend on it.
        text = np.frombuffer(bytes((self._last,)) + block, dtype=np.uint8)
        marks = (text == _COMMA) | (text == _LF)
        for mark in (_QUOTE, _CR):
            if mark in block:
                marks |= text == mark
        marks[0] = False
        places = np.flatnonzero(marks)
        kinds = text[places]
        lines, inside = places[kinds == _LF], self._inside
        quotes, opening, returns, others = _NOWHERE, _NOWHERE == 0, _NOWHERE, places
        if inside or _QUOTE in block:
            quoted = kinds == _QUOTE
            within = np.bitwise_xor.accumulate(quoted.view(np.uint8)).view(np.bool_) ^ inside
            quotes, opening = places[quoted], within[quoted]
            outside = ~(within | quoted)
            others, kinds = places[outside], kinds[outside]
            inside = bool(within[-1]) if len(within) else inside
        if _CR in block:
            returns = others[kinds == _CR]
            others, kinds = others[kinds != _CR], kinds[kinds != _CR]
        ends = others[kinds == _LF]
        faults = [
            *self._quote_faults(text, quotes, opening),
            *self._break_faults(text, returns, ends),
            *self._field_faults(others, kinds, ends),
        ]
        if faults:
            place, sentence = min(faults, key=lambda fault: (fault[0], fault[1] == _EMPTY))
            before = int(np.searchsorted(ends, place))
            start = int(ends[before - 1]) if before else 0
            if sentence == _EMPTY:
                size = self.feed(block[:start])
                self._over = True
                self._check_empty(block[start:])
                return size
            raise self._refusal(sentence, line=self._line_behind(lines, start) if before else self._record_line)
        return self._go_on(text, ends, others, lines, inside=inside)

    def finish(self) -> bytes:
        """Check the end of the file. Says what the last record lacks of its own end."""
        if self._over or not self._size:
            return b""
        end = b"\r\n" if self._crlf and self._last != _CR else b"\n"
        self.feed(end)
        if self._inside:
            raise self._refusal("a quote is opened and never closed", line=self._record_line)
        return b"" if self._over else end  # what was left may be half of an empty line's end

    def _go_on(
        self,
        text: NDArray[np.uint8],
        ends: NDArray[np.intp],
        separators: NDArray[np.intp],
        lines: NDArray[np.intp],
        *,
        inside: bool,
    ) -> int:
        """Take note of a block without faults; `lines` are all line breaks in it, those inside quotes included."""
        end = int(ends[-1]) if len(ends) else 0
        if self._size + (int(ends[0]) if end else len(text) - 1) > LONGEST_RECORD:
            raise self._refusal(f"a record is longer than {LONGEST_RECORD >> 20} MB", line=self._record_line)
        if end:
            self._record_line, self._size, self._commas = self._line_behind(lines, end), 0, 0
        self._size += len(text) - 1 - end
        self._commas += len(separators) - int(np.searchsorted(separators, end, side="right"))
        self.line += len(lines)
        self._inside, self._last = inside, int(text[-1])
        self.records += len(ends)
        return end

    def _quote_faults(
        self, text: NDArray[np.uint8], quotes: NDArray[np.intp], opening: NDArray[np.bool_]
    ) -> Iterator[tuple[int, str]]:
        """A quote that opens stands where a field begins, or behind one that closes: then the two are one quote of the
        text. Behind one that closes stands another quote, or the end of the field."""
        opened, closed = quotes[opening], quotes[~opening]
        yield from _first(opened[~_among(text[opened - 1], _COMMA, _LF, _QUOTE)], _STRAY)
        if self._last == _QUOTE and not self._inside:
            closed = np.concatenate(([0], closed))
        closed = closed[closed + 1 < len(text)]  # the last byte is looked at again with the next block
        yield from _first(closed[~_among(text[closed + 1], _COMMA, _LF, _QUOTE, _CR)] + 1, _TRAILING)

    def _break_faults(
        self, text: NDArray[np.uint8], returns: NDArray[np.intp], ends: NDArray[np.intp]
    ) -> Iterator[tuple[int, str]]:
        """Outside of quotes, CR stands before every LF, or nowhere."""
        if not self._crlf:
            yield from _first(returns, _BREAK)
            return
        if self._last == _CR and not self._inside:
            returns = np.concatenate(([0], returns))
        returns = returns[returns + 1 < len(text)]
        yield from _first(returns[text[returns + 1] != _LF] + 1, _BREAK)
        yield from _first(ends[text[ends - 1] != _CR], _BREAK)

    def _field_faults(
        self, places: NDArray[np.intp], kinds: NDArray[np.uint8], ends: NDArray[np.intp]
    ) -> Iterator[tuple[int, str]]:
        """The separators are as many commas as a record has, then a line break, again and again. A line without a byte
        is a record of no fields, though it looks like one of an empty field."""
        if self._fields == 1:
            sizes = np.diff(ends, prepend=-self._size) - 1
            yield from _first(ends[sizes == self._crlf], _EMPTY)
        found = np.flatnonzero(kinds == _LF)
        wanted = np.arange(self._fields - 1 - self._commas, len(kinds), self._fields)
        if np.array_equal(found, wanted):
            return
        both = min(len(found), len(wanted))
        number = next(iter(np.flatnonzero(found[:both] != wanted[:both]).tolist()), both)
        place = int(places[min(int(each[number]) for each in (found, wanted) if number < len(each))])
        start = int(ends[number - 1]) + 1 if number else 1 - self._size
        is_empty = number < len(ends) and int(ends[number]) - start == self._crlf
        yield place, _EMPTY if is_empty else _COUNT

    def _check_empty(self, block: bytes) -> None:
        if block.strip(b"\r\n"):
            raise self._refusal(_EMPTY, line=self._record_line)
        self.line += block.count(b"\n")

    def _line_behind(self, lines: NDArray[np.intp], place: int) -> int:
        """The number of the line in which the byte behind a place is."""
        return self.line + int(np.searchsorted(lines, place, side="right"))

    def _refusal(self, sentence: str, *, line: int) -> DataError:
        return DataError(f"{self._name}, line {line}: {sentence}; the file is refused as a whole")


def check_encoding(encoding: str) -> str:
    """The name of an encoding, if a letter's bytes alone say which letter it is. Others, like ISO-2022 and UTF-7, have
    signs that change what the bytes behind them mean: one record could change all that follow."""
    try:
        known = codecs.lookup(encoding)
        home = sys.modules.get(getattr(known.incrementaldecoder, "__module__", ""))
        # An encoding of one byte per letter has a table of its 256 letters.
        if known.name in _STATELESS or hasattr(home, "decoding_table") or hasattr(home, "decoding_map"):
            return known.name
    except (LookupError, TypeError, ValueError):
        pass
    raise InvalidArgument(
        "encoding", encoding, "an encoding of text that Python knows, without shift states", 'For example "cp1252".'
    )


def _utf8_blocks(raw: IO[bytes], name: str, encoding: str | None, *, line: Callable[[], int]) -> Iterator[bytes]:
    """The text of a file in UTF-8, without a byte order mark. Bytes that are not its encoding are refused; `line` says
    in which line the last block ended."""
    known = "utf-8" if encoding is None else check_encoding(encoding)
    plain = known in ("utf-8", "utf-8-sig")
    with _reading(name):
        block = raw.read(BLOCK)
    known = "utf-8" if plain else _with_byte_order(known, block)
    decoder = codecs.getincrementaldecoder(known)("strict")
    start = True
    while True:
        try:
            # Bytes below 128 need no look, unless a letter has begun before them.
            text = None if plain and block.isascii() and not decoder.getstate()[0] else decoder.decode(block, not block)
        except UnicodeDecodeError as failure:
            before = failure.object[: failure.start].decode(known, "ignore").count("\n")
            fault = _encoding_fault(known, failure)
            raise DataError(Remedy(f"{name}, line {line() + before}: {fault}", *fault.options)) from None
        if not block and not text:
            return
        found = block if text is None or plain else text.encode("utf-8")
        if start and found:
            found, start = found.removeprefix(_BOM), False
        if found:
            yield found
        with _reading(name):
            block = raw.read(BLOCK)


def _with_byte_order(encoding: str, start: bytes) -> str:
    """An encoding whose byte order the first bytes of a file say, with that order in its name."""
    for mark in ("le", "be"):
        if encoding in ("utf-16", "utf-32") and start.startswith("\ufeff".encode(f"{encoding}-{mark}")):
            return f"{encoding}-{mark}"
    return encoding


def _encoding_fault(encoding: str, failure: UnicodeDecodeError) -> Remedy:
    """What is wrong with bytes, and what may help."""
    wide = failure.object[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    hint = "utf-16" if wide else "cp1252" if encoding != "cp1252" else "latin-1"
    other = Option("encoding", hint)
    return Remedy(f"bytes that are not {encoding.upper()}; if the file is in another encoding, say so: {other}", other)


def _end_of_record(text: bytes) -> int:
    """Where the first record of a text ends; 0 where it does not."""
    end, quotes = -1, 0
    while (after := text.find(b"\n", end + 1)) >= 0:
        quotes += text.count(b'"', end + 1, after)
        end = after
        if quotes % 2 == 0:
            return end + 1
    return 0


def _names(file: str, header: bytes) -> list[str]:
    """The column names of the first record. A file without names would show a row instead, so what looks like data is
    refused, and never quoted."""
    try:
        names = next(csv.reader(io.StringIO(header.decode("utf-8"), newline="")), [])
    except csv.Error:
        names = []
    for sign, what in _SEPARATORS.items():
        if sum(name.count(sign) for name in names) >= max(len(names), 1):
            read = Option("pandas.read_csv", ExampleWord(f"..., sep={sign!r}"))
            raise DataError(
                Remedy(
                    f"{file} is separated by {what}; save it with commas, and with points in numbers, or give {read}",
                    read,
                )
            )
    if not names or any(_looks_like_data(name) for name in names):
        raise DataError(f"the first line of {file} must hold the column names, and a name has letters")
    if any(unicodedata.category(letter) in ("Cc", "Cs") for name in names for letter in name):
        raise DataError(f"the first line of {file} has a name with a control character or a line break; rename it")
    folded = [name.casefold() for name in names]
    for place, name in enumerate(folded):
        if name in folded[:place]:
            # By number: if the file has no line of names, this is somebody's row.
            both = f"{folded.index(name) + 1} and {place + 1}"
            raise DataError(f"the columns {both} of {file} have one name, in SQL's eyes; rename one")
    return names


def _looks_like_data(name: str) -> bool:
    """Whether a name is a number, a date, or nothing."""
    try:
        float(name)
    except ValueError:
        return not any(letter.isalpha() for letter in name)
    return True


def _first(places: NDArray[np.intp], sentence: str) -> list[tuple[int, str]]:
    """The first of the places with a fault."""
    return [(int(places.min()), sentence)] if len(places) else []


def _among(text: NDArray[np.uint8], *bytes_: int) -> NDArray[np.bool_]:
    found = np.zeros(len(text), dtype=np.bool_)
    for byte in bytes_:
        found |= text == byte
    return found


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Says in a sentence why a file cannot be read."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"{name} is not a whole gzip file; write it again") from None
    except OSError as failure:
        raise DataError(f"{name} could not be read: {failure.strerror}") from None
