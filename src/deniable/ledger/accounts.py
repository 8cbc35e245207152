"""An owner's side of the ledger: the terms of a budget, its running totals, and whether an entry fits.

There is the common account, which every charge must fit, and one for each analyst with a budget of their own.
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


@dataclass(frozen=True)
class Account:
    """One owner's terms and totals. `kept` is how the store keeps it; None for an account that is not kept yet."""

    owner: str
    terms: Terms
    totals: FilterTotals
    rules: int = RULES
    kept: Balance | None = None

    @classmethod
    def opened(cls, owner: str, terms: Terms) -> Account:
        """An account that nothing was charged to."""
        return cls(owner, terms, nothing(terms.filters))

    @property
    def seq(self) -> int:
        """The row that the account is of; 0 before the first."""
        return 0 if self.kept is None else self.kept.seq

    @property
    def left(self) -> refusals.Left:
        """What remains."""
        return refusals.left(self.terms.budget, self.terms.filters, self.totals)

    def balance(self, seq: int) -> Balance:
        """The account as the store keeps it, as of a row."""
        terms = self.terms.to_json() if self.kept is None else self.kept.terms
        return Balance(self.owner, seq, terms, records.totals_text(self.totals, rules=self.rules))


def read(source: RecordSource, owner: str) -> Account | None:
    """An owner's account; None when they have none."""
    found = source.balance(owner)
    return None if found is None else of(found)


def of(balance: Balance) -> Account:
    """The account that a store kept."""
    totals, rules = records.totals_of(balance.totals)
    return Account(balance.owner, Terms.from_json(balance.terms), totals, rules, balance)


def vouched(account: Account, row: Row | None, header: Header) -> None:
    """Refuse totals that the row they belong to does not vouch for; before the first row, the header does."""
    if account.seq == 0:
        if account.totals != nothing(account.terms.filters) or account.terms != header.terms:
            raise LedgerDamaged("the ledger has totals but no rows; restore its latest state.")
        return
    found = None if row is None or row.seq != account.seq else records.vouchers(row).get(account.owner)
    if account.kept is None or found != records.voucher(account.kept):
        raise LedgerDamaged(f"the ledger's totals are not those of row {account.seq}; they were edited.")


def decide(entry: FilterEntry, accounts: list[Account], *, curves: bool) -> tuple[FilterEntry, list[Account]] | None:
    """The entry that every account admits, and the accounts after it; `curves` allows a point of the event's curve."""
    if (after := _admitted(entry, accounts)) is not None:
        return entry, after
    if not curves:
        return None
    for alone in (False, True):
        rooms = [points.basic_room(account.terms.filters, account.totals, alone=alone) for account in accounts]
        found = points.entry_within(entry.event, rooms)
        if found is not None and (after := _admitted(found, accounts)) is not None:
            return found, after
    return None


def _admitted(entry: FilterEntry, accounts: list[Account]) -> list[Account] | None:
    """Every account with the entry added, or None when one of them does not admit it."""
    after = []
    for account in accounts:
        totals = admitted(account.terms.filters, account.totals, entry)
        if totals is None:
            return None
        after.append(replace(account, totals=totals))
    return after
