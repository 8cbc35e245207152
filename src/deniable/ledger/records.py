"""The record: the header, the rows, and the chain of hashes that ties them together.

A row is one line of canonical JSON: fixed order of fields, no spaces, ASCII. It names the SHA-256 of the row before it
(of the header, for the first), so that no row can be changed, removed or put in without changing every hash after it.
It also names the SHA-256 of the totals after it. The number of a row orders it. Its time is the clock's; nothing
depends on it.

>>> first = make_row(seq=1, prev="00", totals={}, time="2026-01-01T00:00Z", purpose="a", key=None, what='"who":null}')
>>> first.body
'{"seq":1,"prev":"00","totals":{},"time":"2026-01-01T00:00Z","purpose":"a","key":null,"who":null}'
>>> first.hash == digest(first.body)
True
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from deniable import _checks
from deniable._escapes import dump_json, printable
from deniable._remedies import HEAD, Remedy
from deniable.accounting.filters import FilterEntry, Filters, FilterTotals, certify
from deniable.errors import DeniableError, LedgerDamaged
from deniable.events import Claimed, Event
from deniable.guarantees import ApproxDP, Guarantee
from deniable.ledger.stores import Balance, Row
from deniable.units import Unit

FORMAT = 1
"""The version of the record. A new one is written beside the old one's reader."""
RULES = 3
"""The version of the rules that the running totals were computed with: what an event costs, and whom it counts for.

Version 1 gave an analyst's new budget fresh totals. Since version 2 they begin with what that analyst was told before.
Since version 3 an (ε, δ) step for a group, an ε-DP step at a high Rényi order and a sampled step of a tiny or huge ε
cost less, because the bounds were sharpened.
"""

LONGEST_PURPOSE = 10_000
LONGEST_NAME = 200
"""Of an analyst, and of the unit's column and noun."""
LONGEST_KEY = 500
"""In characters. PostgreSQL indexes keys and names, and an entry of its index holds some 2,700 bytes."""


class Head(NamedTuple):
    """The end of a record: the number of its rows, and the hash of the last. Keep a copy elsewhere."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """The head that `str(head)` wrote."""
        seq, _, hash_text = text.strip().partition(":")
        if not (seq.isascii() and seq.isdigit()) or len(seq) > 18 or len(hash_text) != 64:
            raise LedgerDamaged(
                Remedy(f"this is not a ledger's head; it looks like 12:9f2c…, as {HEAD} gives it.", HEAD)
            )
        return cls(int(seq), hash_text)


class Charge(NamedTuple):
    """One row of the record: what was paid for, by whom and why. `event` and `at` are read from it when asked for."""

    seq: int
    time: str
    purpose: str
    who: str | None
    key: str | None
    hash: str
    what: str
    """The end of the row as it is written: `"who":…,"at":…,"event":{…}}`."""
    fresh: bool = True
    """False when the key named a charge that was paid before: it pays only for resuming that release."""

    @property
    def event(self) -> Event:
        """What was done to the data."""
        return entry_in(self.what).event

    @property
    def at(self) -> ApproxDP | None:
        """The (ε, δ) at which the event entered the basic filter, where that is not the event's own."""
        return entry_in(self.what).at

    @property
    def envelopes(self) -> tuple[str, ...]:
        """The envelopes that it was charged to, beside the budgets of all and of the analyst."""
        return tuple(parse_object("{" + self.what).get("envelopes", ()))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `deniable ledger show --json` prints them."""
        at = None if self.at is None else self.at.to_dict()
        fields = {name: getattr(self, name) for name in ("seq", "time", "purpose", "who", "key", "hash")}
        return {**fields, "at": at, "event": self.event.to_dict()}

    def to_json(self) -> str:
        """`to_dict()` as one line of JSON."""
        return dump_json(self.to_dict())

    def __repr__(self) -> str:
        names = ("seq", "time", "event", "purpose", "who", "key", "at", "hash", "fresh")
        return f"Charge({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


@dataclass(frozen=True)
class Terms:
    """A budget, and the filters that keep it."""

    budget: Guarantee
    filters: Filters

    def to_plain(self) -> dict[str, Any]:
        """As a JSON value."""
        return {"budget": Claimed(self.budget).to_record(), "filters": self.filters.to_plain()}

    @staticmethod
    def from_plain(plain: Any) -> Terms:
        """What `to_plain` wrote."""
        try:
            return Terms(guarantee_of(plain["budget"]), Filters.from_plain(plain["filters"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LedgerDamaged("the terms of a budget in the ledger cannot be read; they were edited.") from None

    def to_json(self) -> str:
        """One canonical line."""
        return canonical(self.to_plain())

    @staticmethod
    def from_json(text: str) -> Terms:
        """The terms that `to_json` wrote."""
        return _terms_of(text)


@lru_cache(maxsize=1024)
def _terms_of(text: str) -> Terms:
    return Terms.from_plain(parse_object(text))


@dataclass(frozen=True)
class Header:
    """What a ledger is about; fixed when it is created."""

    unit: Unit
    terms: Terms
    created: str

    def to_json(self) -> str:
        """One canonical line."""
        return canonical(
            {
                "deniable_ledger": FORMAT,
                "unit": self.unit.plain,
                **self.terms.to_plain(),
                "created": self.created,
            }
        )

    @staticmethod
    def from_json(text: str) -> Header:
        """The header that `to_json` wrote: a unit, a budget about that unit, and filters that keep the budget."""
        return _header_of(text)


@lru_cache(maxsize=64)
def _header_of(text: str) -> Header:
    plain_header = parse_object(text)
    version = plain_header.get("deniable_ledger")
    if version is None:
        raise LedgerDamaged("the header of the ledger is not one that Ledger.create wrote.")
    if version != FORMAT:
        raise LedgerDamaged(f"this ledger is written in format {version!r}; this program reads {FORMAT}.")
    try:
        unit = Unit.from_plain(plain_header["unit"])
        header = Header(unit, Terms.from_plain(plain_header), plain_header["created"])
        check_unit(unit)
        certify(header.terms.filters, header.terms.budget)
        if header.terms.budget.unit != unit:
            raise LedgerDamaged("the budget in the header of the ledger is about another unit; it was edited.")
        if header.to_json() != text:
            raise LedgerDamaged("the header of the ledger is not spelt as Ledger.create writes it; it was edited.")
    except LedgerDamaged:
        raise
    except (DeniableError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise LedgerDamaged(f"the header of the ledger cannot be read ({error}).") from None
    return header


def digest(text: str) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON in one fixed spelling: fields in the order given, no spaces, ASCII."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def parse_object(text: str) -> dict[str, Any]:
    """A JSON object, or `LedgerDamaged`."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise LedgerDamaged("a line of the ledger is not JSON; it was cut or edited.")
    return value


def event_of(plain: Any) -> Event:
    """The event that a JSON value describes."""
    try:
        return Event.from_json(json.dumps(plain))
    except (DeniableError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise LedgerDamaged(f"an event of the ledger cannot be read ({error}).") from None


def guarantee_of(plain: Any) -> Guarantee:
    """The guarantee that a claimed event states."""
    event = event_of(plain)
    if not isinstance(event, Claimed):
        raise LedgerDamaged("a guarantee of the ledger cannot be read; it was edited.")
    return event.guarantee


# rows


def charge_ending(entry: FilterEntry, who: str | None, envelopes: Sequence[str] = ()) -> str:
    """The end of a charge's row. It decides what the row costs: equal charges have equal endings."""
    named = {"envelopes": sorted(envelopes)} if envelopes else {}
    return ending({"who": who, **_plain_entry(entry), **named})


def reading_ending(entry: FilterEntry, who: str, seq: int) -> str:
    """The end of the row that charges an analyst alone, for reading what row `seq` paid for."""
    return ending({"who": who, "seen": seq, **_plain_entry(entry)})


def _plain_entry(entry: FilterEntry) -> dict[str, Any]:
    at = None if entry.at is None else Claimed(entry.at).to_record()
    return {"at": at, "event": entry.event.to_record()}


def ending(fields: Mapping[str, Any]) -> str:
    """The last fields of a row as they are written in it."""
    return canonical(fields)[1:]


def make_row(
    *, seq: int, prev: str, totals: Mapping[str, str], time: str, purpose: str, key: str | None, what: str
) -> Row:
    """A row in its canonical spelling, with its hash. `what` is the row's ending, as `ending` writes it."""
    first = {"seq": seq, "prev": prev, "totals": dict(totals), "time": time, "purpose": purpose, "key": key}
    body = f"{canonical(first)[:-1]},{what}"
    return Row(seq, key, body, digest(body))


_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_ROW = re.compile(
    rf'\{{"seq":(\d++),"prev":"([0-9a-f]++)","totals":(\{{(?:{_STRING}:{_STRING}(?:,{_STRING}:{_STRING})*+)?+\}}),'
    rf'"time":({_STRING}),"purpose":({_STRING}),"key":({_STRING}|null),'
    rf'("who":(?:{_STRING}|null),"(?:at|allot|recount|raise|envelope|seen)":.*\}})'
)

Fields = tuple[str, str, str, str, str, str, str]
"""Number, hash before, totals, time, purpose, key and ending of a row, each as it is written in JSON."""


def fields_of(body: str) -> Fields | None:
    """The fields of a row; None for text that is not a row."""
    match = _ROW.fullmatch(body)
    return None if match is None else match.groups()  # type: ignore[return-value]


def entry_of(fields: Mapping[str, Any]) -> FilterEntry:
    """The entry in a parsed row."""
    at = None if fields["at"] is None else guarantee_of(fields["at"])
    if at is not None and not isinstance(at, ApproxDP):
        raise LedgerDamaged("a row of the ledger enters at something that is not an (ε, δ); it was edited.")
    return FilterEntry(event_of(fields["event"]), at)


@lru_cache(maxsize=4096)
def entry_in(what: str) -> FilterEntry:
    """The entry at the end of a row."""
    try:
        return entry_of(parse_object("{" + what))
    except KeyError:
        raise LedgerDamaged("a row of the ledger has no event; it was edited.") from None


def charge_of(row: Row) -> Charge | None:
    """The charge in a row, with `fresh=False`; None for a row that charges nothing."""
    fields = fields_of(row.body)
    if fields is None:
        raise LedgerDamaged(f"row {row.seq} of the ledger cannot be read; it was edited.")
    _, _, _, time, purpose, key, what = fields
    who, kind = _kind(what)
    if kind != "at":
        return None
    return Charge(row.seq, string(time), string(purpose), who, optional(key), row.hash, what, False)


@lru_cache(maxsize=4096)
def _kind(what: str) -> tuple[str | None, str]:
    """The analyst whom a row names, and the next field, which tells the kind: `at` is a charge."""
    who, kind = list(parse_object("{" + what).items())[:2]
    return who[1], kind[0]


def optional(text: str) -> str | None:
    """A string of JSON, or null."""
    return None if text == "null" else string(text)


def string(text: str) -> str:
    """A string of JSON, which has no escapes in most rows."""
    return str(json.loads(text)) if "\\" in text else text[1:-1]


# text


def check_purpose(purpose: object) -> None:
    """Refuse what cannot be stored as a purpose."""
    _checks.text("purpose", purpose, most=LONGEST_PURPOSE, expected="a few words that say what the charge is for")


def check_who(who: object) -> None:
    """Refuse what cannot be stored as an analyst's name."""
    _checks.text("who", who, most=LONGEST_NAME, expected="an analyst's name")


def check_key(key: object) -> None:
    """Refuse what cannot be stored as a key."""
    _checks.text("key", key, most=LONGEST_KEY, expected="a word that names one release, or None")


def check_envelope(name: object) -> None:
    """Refuse what cannot be stored as an envelope's name."""
    _checks.text("name", name, most=LONGEST_NAME, expected="an envelope's name, such as project flu or table visits")


def check_decision(decision: object) -> None:
    """Refuse what cannot be stored as the words of a decision."""
    _checks.text("decision", decision, most=LONGEST_PURPOSE, expected="a few words that say who decided it and why")


def check_unit(unit: Unit) -> None:
    """Refuse a unit whose column or noun cannot be stored."""
    if unit.column is not None:
        _checks.text("unit", unit.column, most=LONGEST_NAME, expected="a column's name")
    _checks.text("unit", unit.noun, most=LONGEST_NAME, expected="a word for one unit")


def as_purpose(text: str) -> str:
    """Any text as a purpose: on one line, with control characters escaped, and cut when it is too long.

    >>> as_purpose("SELECT city,\\n       COUNT(*) FROM visits GROUP BY city")
    'SELECT city, COUNT(*) FROM visits GROUP BY city'
    """
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST_PURPOSE else f"{line[: LONGEST_PURPOSE - 1]}…"


# totals


def voucher(balance: Balance) -> str:
    """The hash of an owner's terms and totals, which the row that made them carries."""
    return digest(f"{balance.terms}\n{balance.totals}")


def vouchers(row: Row) -> dict[str, Any]:
    """The hashes of totals that a row carries, by owner."""
    fields = fields_of(row.body)
    return {} if fields is None else parse_object(fields[2])


def totals_text(totals: FilterTotals, *, rules: int) -> str:
    """Running totals in canonical JSON, with the version of the rules they were computed by."""
    return canonical({"rules": rules, **totals.to_plain()})


def totals_of(text: str) -> tuple[FilterTotals, int]:
    """The running totals that `totals_text` wrote, and the version of their rules."""
    plain = parse_object(text)
    try:
        return FilterTotals.from_plain(plain), int(plain["rules"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise LedgerDamaged("the running totals of the ledger cannot be read; they were edited.") from None


def now() -> str:
    """The clock, in UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
