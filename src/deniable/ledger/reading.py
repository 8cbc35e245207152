"""`LedgerRecord`: everything that can be read from a ledger or from an export of one.

>>> import tempfile, pathlib
>>> from deniable.events import Laplace
>>> from deniable.guarantees import PureDP
>>> from deniable.ledger import Ledger
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> with Ledger.create(folder / "visits.ledger", unit="patient_id", budget=PureDP(1)) as ledger:
...     _ = ledger.charge(Laplace(scale=4), purpose="how many visits")
...     _ = (folder / "visits.jsonl").write_text("".join(f"{line}\\n" for line in ledger.export()))
>>> record = Ledger.read_export(folder / "visits.jsonl")
>>> print(record.remaining())
ε ≤ 0.75, δ = 0, one patient added or removed
>>> [charge.purpose for charge in record.charges()]
['how many visits']
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from deniable import _checks
from deniable._notebook import Shown
from deniable._signatures import public
from deniable.accounting.filters import FilterEntry, Odometer
from deniable.descriptions import Description
from deniable.errors import LedgerDamaged, LedgerError
from deniable.events import Event
from deniable.guarantees import ApproxDP, Guarantee, PureDP
from deniable.ledger import exports, records, refusals, verification
from deniable.ledger.accounts import COMMON, ENVELOPE, Account, check_voucher, decide, read
from deniable.ledger.exports import ExportFile
from deniable.ledger.records import Charge, Head, Header, Terms
from deniable.ledger.stores import RecordSource, Row
from deniable.units import Relation, Unit

PAGE = 1000
"""Rows that are read at a time where the last charges are looked for."""

MOST_REPEATS = 10**6
"""`repeats_left` counts no further."""


class LedgerRecord(Shown):
    """The charges against one budget, for one unit under one relation. `Ledger.read_export` returns one."""

    def __init__(self, source: RecordSource) -> None:
        """Read a record. The header and the last totals are checked here; `verify` checks everything."""
        self._source = source
        with source.reading():
            self._header_text = source.header()
            self._header = Header.from_json(self._header_text)
            verification.Chain(self._header_text).follow(source, stop=0 if source.row(1) is None else 1)
            common = self._common()
            if common.terms != self._header.terms:
                raise LedgerDamaged(
                    f"the header of {source.place} does not state the budget that is charged; it was edited."
                )
            self._check_vouchers([common], source.last())

    @property
    def place(self) -> str:
        """Where the record is, without a password: fit to be printed."""
        return self._source.place

    @property
    def unit(self) -> Unit:
        """Who is protected."""
        return self._header.unit

    @property
    def relation(self) -> Relation:
        """What may change between neighbours."""
        return self.budget.relation

    @property
    def budget(self) -> Guarantee:
        """The promise that everything charged here keeps, all together."""
        return self._header.terms.budget

    def remaining(self, *, who: str | None = None, envelope: str | None = None) -> Guarantee:
        """The largest request that fits, as a guarantee. A fresh budget remains whole.

        Args:
            who: an analyst: answers for their own budget. The common one may hold less, and is not shown to analysts.
            envelope: answers for this envelope, in place of an analyst.
        """
        return self._look(who, () if envelope is None else (envelope,))[-1].remainder.largest

    def room(self, *, who: str | None = None) -> Guarantee:
        """The guarantee that a plan may be calibrated to: a charge within it fits (`fits` checks one event).

        Args:
            who: an analyst: answers for their own budget. The common one may hold less.
        """
        return self._look(who)[-1].remainder.room

    @public
    def odometer(self, *, delta: _checks.Number | None = None) -> Guarantee | None:
        """A bound on everything charged so far that holds at every time; None where no bound is known.

        Charges may depend on all answers, and so may the moment at which charging ends: if it ends where this number is
        at most ε, all answers together keep (ε, δ). The budget is a promise of its own beside it. Reads every row.

        Args:
            delta: the δ of the bound, fixed before the first charge; the budget's own if it is left out.
        """
        own = getattr(self.budget, "delta", Fraction(0))
        odometer = Odometer.start(own if delta is None else _checks.probability("delta", delta))
        counts = Counter((charge.event, charge.at) for charge in self.charges())
        for (event, at), count in counts.items():
            odometer = odometer.after(FilterEntry(event, at), count)
        epsilon = odometer.epsilon
        if epsilon is None:
            return None
        reading = PureDP(epsilon) if not odometer.delta else ApproxDP(epsilon, odometer.delta)
        return replace(reading, relation=self.relation).about(self.unit)

    def repeats_left(self, event: Event, *, who: str | None = None, at: ApproxDP | None = None) -> int:
        """How many more charges of this event fit, one after the other; a million if there are more.

        Args:
            event: what would be charged again and again.
            who: the analyst who would charge it; their own budget counts too.
            at: the (ε, δ) at which it enters, as in `Charge.at`.
        """
        accounts = self._look(who)

        def refuses(times: int) -> bool:
            point = None if at is None else ApproxDP(at.epsilon * times, min(Fraction(1), at.delta * times))
            return decide(FilterEntry(event * times, point), accounts, curves=False) is None

        # What is refused so many times is refused more often.
        return bisect_left(range(1, MOST_REPEATS + 1), True, key=refuses)

    def cost_of(self, charge: Charge) -> Guarantee | None:
        """What a charge costs on its own, in the kind of the budget; None where no finite number is known."""
        return refusals.request_cost(FilterEntry(charge.event, charge.at), self.budget)

    def analysts(self) -> dict[str, Guarantee]:
        """The analysts with a budget of their own, and those budgets."""
        return {owner: budget for owner, budget in self._owners().items() if not owner.startswith(ENVELOPE)}

    def envelopes(self) -> dict[str, Guarantee]:
        """The envelopes of projects and tables, and their budgets."""
        return {
            owner.removeprefix(ENVELOPE): budget
            for owner, budget in self._owners().items()
            if owner.startswith(ENVELOPE)
        }

    def _owners(self) -> dict[str, Guarantee]:
        return {b.owner: Terms.from_json(b.terms).budget for b in self._source.balances() if b.owner != COMMON}

    def charges(self, *, who: str | None = None, last: int | None = None) -> Iterator[Charge]:
        """The charges, oldest first.

        Args:
            who: only the charges in this analyst's name.
            last: only so many of the newest; all if left out.
        """
        if last is None:
            return _charges(self._source.rows(), who)
        return iter(list(islice(self._backwards(who), _checks.count("last", last)))[::-1])

    def head(self) -> Head:
        """The end of the record. A copy kept elsewhere lets `verify` notice a ledger that was set back."""
        return verification.head(self._source)

    def export(self) -> Iterator[str]:
        """The whole record as lines of JSON: the header, every row with its hash, the head with the totals."""
        return exports.export(self._source)

    def verify(self, head: Head | str | None = None) -> Head:
        """Check every hash and recompute every total; returns the head, or raises `LedgerDamaged`.

        Args:
            head: an earlier head, or its text. The record must still contain it; a restored old copy does not.
        """
        return verification.verify(self._source, Head.parse(head) if isinstance(head, str) else head)

    def describe(self) -> Description:
        """A summary: the budget, which is the promise, what remains of it (rounded down), and the head."""
        head = self.head()
        remaining = self._look(None)[-1].remainder.largest.figures
        facts = (("remaining", remaining), ("rows", str(head.seq)), ("head", head.hash))
        return Description(f"ledger {Path(self.place).name}", self.budget, facts)

    def close(self) -> None:
        """Let go of files. Using the record again opens them again."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.place!r}, budget={self.budget!r})"

    # inside

    def _look(self, who: str | None, envelopes: Sequence[str] = ()) -> list[Account]:
        """The common account, the analyst's own where budgets were allotted, and envelopes, in one view."""
        with self._source.reading():
            accounts = [self._common()] if who is None else self._accounts(who)
            accounts += self._envelopes(envelopes)
            self._check_vouchers(accounts, self._source.last())
        return accounts

    def _common(self) -> Account:
        account = read(self._source, COMMON)
        if account is None:
            raise LedgerDamaged("the totals of the ledger are missing; restore its latest state.")
        return account

    def _accounts(self, who: str | None) -> list[Account]:
        """The accounts that a charge must fit: the common one, and the analyst's own if they have one."""
        common = self._common()
        if who is not None:
            records.check_who(who)
            own = read(self._source, who)
            if own is not None:
                return [common, own]
        if self.analysts():
            raise LedgerError(
                f"this ledger has a budget for each analyst; who={who!r} is none of them. Use ledger.allot first."
            )
        return [common]

    def _envelopes(self, names: Sequence[str]) -> list[Account]:
        """The accounts of envelopes."""
        accounts = []
        for name in names:
            records.check_envelope(name)
            account = read(self._source, f"{ENVELOPE}{name}")
            if account is None:
                raise LedgerError(f"there is no envelope {name} here; ledger.open_envelope opens one.")
            accounts.append(account)
        return accounts

    def _check_vouchers(self, accounts: list[Account], last: Row | None) -> None:
        """Refuse totals whose hash is not in their row. The common totals belong to the newest row."""
        end = 0 if last is None else last.seq
        for account in accounts:
            if account.owner == COMMON and account.seq != end:
                raise LedgerDamaged(
                    f"the ledger's totals are of row {account.seq}, its rows end at {end}; restore its latest state."
                )
            row = last if last is not None and last.seq == account.seq else self._source.row(account.seq)
            check_voucher(account, row, self._header)

    def _backwards(self, who: str | None) -> Iterator[Charge]:
        """Charges from the newest to the oldest."""
        newest = self._source.last()
        stop = 0 if newest is None else newest.seq
        while stop > 0:
            start = max(1, stop - PAGE + 1)
            yield from reversed(list(_charges(self._source.rows(start=start, stop=stop), who)))
            stop = start - 1


def _charges(rows: Iterator[Row], who: str | None) -> Iterator[Charge]:
    for row in rows:
        charge = records.charge_of(row)
        if charge is not None and (who is None or charge.who == who):
            yield charge


def read_export(path: str | os.PathLike[str], head: Head | str | None = None) -> LedgerRecord:
    """The record in an export, all of it verified."""
    file = ExportFile(path)
    verification.verify(file, Head.parse(head) if isinstance(head, str) else head)
    return LedgerRecord(file)
