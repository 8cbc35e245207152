"""What is written down: the header, the rows, and the chain of hashes that ties them together.

A row is one line of canonical JSON: fixed order of fields, no spaces, ASCII. It names the SHA-256 of the row before it
(of the header, for the first), so that no row can be changed, removed or put in without changing every hash after it.
It also names the SHA-256 of the totals after it. The number of a row gives its place; its time is what the clock said,
and nothing depends on it.

>>> first = written(seq=1, prev="00", totals={}, time="2026-01-01T00:00Z", purpose="a", key=None, what='{"who":null}')
>>> first.body
'{"seq":1,"prev":"00","totals":{},"time":"2026-01-01T00:00Z","purpose":"a","key":null,"who":null}'
>>> first.hash == digest(first.body)
True
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from deniable.accounting.filters import Entry, Filters, Totals
from deniable.errors import DeniableError, LedgerDamaged
from deniable.events import Claimed, Event
from deniable.guarantees import ApproxDP, Guarantee
from deniable.ledger.stores import Balance, Row
from deniable.units import Unit

FORMAT = 1
"""The version of the record. A new one is written beside the old one's reader."""
RULES = 1
"""The version of the cost rules that the running totals were computed with."""


class Head(NamedTuple):
    """Where the record ends: how many rows there are, and the hash of the last. Keep a copy elsewhere."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """The head that `str(head)` wrote."""
        seq, _, found = text.strip().partition(":")
        if not seq.isdigit() or len(found) != 64:
            raise LedgerDamaged(
                "this is not a ledger's head; it looks like 12:9f2c…, as `str(ledger.head())` gives it."
            )
        return cls(int(seq), found)


@dataclass(frozen=True)
class Charge:
    """One row of the record: what was paid for, by whom and why."""

    seq: int
    time: str
    event: Event
    purpose: str
    who: str | None
    key: str | None
    at: ApproxDP | None
    """The (ε, δ) at which the event entered the basic filter, where that is not the event's own."""
    hash: str
    fresh: bool = True
    """False when an idempotency key found a charge already paid: then only the release it paid for may be resumed."""


@dataclass(frozen=True)
class Terms:
    """A budget, and the filters that keep it."""

    budget: Guarantee
    filters: Filters

    def to_plain(self) -> dict[str, Any]:
        """As a JSON value."""
        return {"budget": plain(Claimed(self.budget)), "filters": self.filters.to_plain()}

    @staticmethod
    def from_plain(found: Any) -> Terms:
        """What `to_plain` wrote."""
        try:
            return Terms(promise(found["budget"]), Filters.from_plain(found["filters"]))
        except (KeyError, TypeError, ValueError):
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
    return Terms.from_plain(parsed(text))


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

    @classmethod
    def from_json(cls, text: str) -> Header:
        """The header that `to_json` wrote."""
        found = parsed(text)
        if found.get("deniable_ledger") != FORMAT:
            raise LedgerDamaged(
                f"this ledger is written in format {found.get('deniable_ledger')}; this program reads {FORMAT}."
            )
        try:
            return cls(Unit(**found["unit"]), Terms.from_plain(found), found["created"])
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerDamaged(f"the header of the ledger cannot be read ({error}).") from None


def digest(text: str) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON in one fixed spelling: fields in the order given, no spaces, ASCII."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def parsed(text: str) -> dict[str, Any]:
    """A JSON object, or `LedgerDamaged`."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise LedgerDamaged("a line of the ledger is not JSON; it was cut or edited.")
    return found


def plain(event: Event) -> Any:
    """An event as a JSON value."""
    return json.loads(event.to_json())


def event_of(found: Any) -> Event:
    """The event that a JSON value describes."""
    try:
        return Event.from_json(json.dumps(found))
    except (DeniableError, KeyError, TypeError, ValueError) as error:
        raise LedgerDamaged(f"an event of the ledger cannot be read ({error}).") from None


def promise(found: Any) -> Guarantee:
    """The guarantee that a claimed event states."""
    event = event_of(found)
    if not isinstance(event, Claimed):
        raise LedgerDamaged("a guarantee of the ledger cannot be read; it was edited.")
    return event.guarantee


def what(entry: Entry, who: str | None) -> str:
    """The end of a row, which decides what it costs: the same text for equal charges."""
    at = None if entry.at is None else plain(Claimed(entry.at))
    return canonical({"who": who, "at": at, "event": plain(entry.event)})


def written(
    *, seq: int, prev: str, totals: Mapping[str, str], time: str, purpose: str, key: str | None, what: str
) -> Row:
    """A row, in its canonical spelling, with its hash. `what` is a JSON object whose fields end the row."""
    first = {"seq": seq, "prev": prev, "totals": dict(totals), "time": time, "purpose": purpose, "key": key}
    body = f"{canonical(first)[:-1]},{what[1:]}"
    return Row(seq, key, body, digest(body))


def entry_of(found: Mapping[str, Any]) -> Entry:
    """The entry in a parsed row."""
    at = None if found["at"] is None else promise(found["at"])
    if at is not None and not isinstance(at, ApproxDP):
        raise LedgerDamaged("a row of the ledger enters at something that is not an (ε, δ); it was edited.")
    return Entry(event_of(found["event"]), at)


def charge_of(row: Row) -> Charge | None:
    """The charge in a row, which was paid before; None for a row that charges nothing."""
    found = parsed(row.body)
    if "event" not in found:
        return None
    entry = entry_of(found)
    return Charge(
        row.seq, found["time"], entry.event, found["purpose"], found["who"], found["key"], entry.at, row.hash, False
    )


def voucher(balance: Balance) -> str:
    """The hash of an owner's terms and totals, which the row that made them carries."""
    return digest(f"{balance.terms}\n{balance.totals}")


def totals_text(totals: Totals, *, rules: int) -> str:
    """Running totals in canonical JSON, with the version of the rules they were computed by."""
    return canonical({"rules": rules, **totals.to_plain()})


def totals_of(text: str) -> tuple[Totals, int]:
    """The running totals that `totals_text` wrote, and the version of their rules."""
    found = parsed(text)
    try:
        return Totals.from_plain(found), int(found["rules"])
    except (KeyError, TypeError, ValueError):
        raise LedgerDamaged("the running totals of the ledger cannot be read; they were edited.") from None


def now() -> str:
    """The clock, in UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
