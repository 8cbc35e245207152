"""An account: one owner's budget, its running totals, and the decision whether an entry fits.

A ledger has one common account, which every charge must fit, and one account for each analyst with an own budget. An
envelope is the account of a project or a table: the charges that name it must fit it. The common budget and the
analysts' are promises. An envelope divides the work fairly, and promises nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deniable.accounting.filters import FilterEntry, FilterTotals, admitted, nothing
from deniable.errors import LedgerDamaged
from deniable.ledger import points, records, refusals
from deniable.ledger.records import RULES, Header, Terms
from deniable.ledger.stores import Balance, RecordSource, Row

COMMON = ""
"""The owner of the budget that everybody shares; analysts own theirs by name."""

ENVELOPE = "\n"
"""What the owner of an envelope begins with, before the envelope's name. No analyst's name has it."""


@dataclass(frozen=True)
class Account:
    """One owner's terms and totals. `record` is the balance in the store; None before the first write."""

    owner: str
    terms: Terms
    totals: FilterTotals
    rules: int = RULES
    record: Balance | None = None

    @classmethod
    def empty(cls, owner: str, terms: Terms) -> Account:
        """An account that nothing was charged to."""
        return cls(owner, terms, nothing(terms.filters))

    @property
    def seq(self) -> int:
        """The number of the row that last changed the totals; 0 before the first."""
        return 0 if self.record is None else self.record.seq

    @property
    def remainder(self) -> refusals.Remainder:
        """What remains."""
        return refusals.remainder_of(self.terms.budget, self.terms.filters, self.totals)

    def balance(self, seq: int) -> Balance:
        """The account as the store keeps it, as of a row."""
        terms = self.terms.to_json() if self.record is None else self.record.terms
        return Balance(self.owner, seq, terms, records.totals_text(self.totals, rules=self.rules))


def read(source: RecordSource, owner: str) -> Account | None:
    """An owner's account; None when they have none."""
    balance = source.balance(owner)
    return None if balance is None else account_of(balance)


def account_of(balance: Balance) -> Account:
    """The account that a stored balance describes."""
    totals, rules = records.totals_of(balance.totals)
    return Account(balance.owner, Terms.from_json(balance.terms), totals, rules, balance)


def check_voucher(account: Account, row: Row | None, header: Header) -> None:
    """Refuse totals whose hash is not the one in their row. Before the first row, the header must match instead."""
    if account.seq == 0:
        if account.totals != nothing(account.terms.filters) or account.terms != header.terms:
            raise LedgerDamaged("the ledger has totals but no rows; restore its latest state.")
        return
    voucher = None if row is None or row.seq != account.seq else records.vouchers(row).get(account.owner)
    if account.record is None or voucher != records.voucher(account.record):
        raise LedgerDamaged(f"the ledger's totals are not those of row {account.seq}; they were edited.")


def decide(entry: FilterEntry, accounts: list[Account], *, curves: bool) -> tuple[FilterEntry, list[Account]] | None:
    """The entry that every account admits, and the accounts after it; None when it does not fit.

    With `curves`, an entry that does not fit as it is may enter at a point of the event's privacy curve.
    """
    if (after := _admit(entry, accounts)) is not None:
        return entry, after
    if not curves:
        return None
    for alone in (False, True):
        rooms = [points.basic_room(account.terms.filters, account.totals, alone=alone) for account in accounts]
        point_entry = points.entry_within(entry.event, rooms)
        if point_entry is not None and (after := _admit(point_entry, accounts)) is not None:
            return point_entry, after
    return None


def _admit(entry: FilterEntry, accounts: list[Account]) -> list[Account] | None:
    """Every account with the entry added, or None when one of them does not admit it."""
    after = []
    for account in accounts:
        totals = admitted(account.terms.filters, account.totals, entry)
        if totals is None:
            return None
        after.append(replace(account, totals=totals))
    return after
