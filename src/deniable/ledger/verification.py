"""Reading a whole ledger again: every hash, every link, every total.

What this notices: a row that was changed, removed or put in; totals that are not the sum of the rows; a file that was
cut. What it cannot notice without help: a whole file exchanged for an older copy of itself. Give it a head that was
kept elsewhere, and it notices that too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from deniable.accounting.filters import Family, Tally, accepts, addends, after, emptied, families_of, nothing
from deniable.accounting.filters.totals import ROUNDED
from deniable.errors import LedgerDamaged
from deniable.ledger import accounts, records
from deniable.ledger.accounts import COMMON, Account
from deniable.ledger.records import Head, Header, Terms
from deniable.ledger.stores import Store


@dataclass
class Kind:
    """Rows that say the same: how often, and the first and the last."""

    count: int
    first: int
    last: int


def head(store: Store) -> Head:
    """Where the record ends."""
    last = store.last()
    return Head(0, records.digest(store.header())) if last is None else Head(last.seq, last.hash)


def verify(store: Store, known: Head | None) -> Head:
    """The head of a ledger that verifies; `LedgerDamaged` with the first row that does not."""
    store.examine()
    with store.reading():
        last, balances, header_text = store.last(), store.balances(), store.header()
    end = 0 if last is None else last.seq
    kinds, newest = _follow(store, header_text, end, known)
    # Rows that say the same are read once: what they cost is counted, not computed again.
    read = [(records.parsed('{"who":' + tail), kind) for tail, kind in kinds.items()]
    terms = {COMMON: Header.from_json(header_text).terms}
    terms |= {found["who"]: Terms.from_plain(found["allot"]) for found, _ in read if "allot" in found}
    if sorted(terms) != sorted(balance.owner for balance in balances):
        raise LedgerDamaged("the ledger's totals are not those of the analysts who were given a budget.")
    for balance in balances:
        account = accounts.of(balance)
        if account.terms != terms[balance.owner]:
            raise LedgerDamaged("the filters of the ledger are not those it was created with.")
        accounts.vouched(account, last, store)
        _check_totals(account, read)
    return newest


def _follow(store: Store, header_text: str, end: int, known: Head | None) -> tuple[dict[str, Kind], Head]:
    """Follow the chain to its end, and sort the rows by what they say about cost."""
    kinds: dict[str, Kind] = {}
    prev, seq = records.digest(header_text), 0
    if known is not None and known.seq == 0 and known.hash != prev:
        raise LedgerDamaged("the ledger's header is not the one that the kept head names: the ledger was replaced.")
    for row in store.rows(stop=end):
        seq += 1
        body = row.body
        if row.seq != seq:
            raise LedgerDamaged(f"row {seq} of the ledger is missing.")
        if records.digest(body) != row.hash or not body.startswith(f'{{"seq":{seq},"prev":"{prev}",'):
            raise LedgerDamaged(f"row {seq} of the ledger does not verify: it, or one before it, was changed.")
        # A bare quote ends a JSON string, so this can only be the field itself, whatever the purpose says.
        front, found, tail = body.partition(',"who":')
        key = "null" if row.key is None else records.canonical(row.key)
        if not found or not front.endswith(f',"key":{key}'):
            raise LedgerDamaged(f"row {seq} of the ledger does not verify: its key was changed.")
        kind = kinds.get(tail)
        if kind is None:
            kinds[tail] = Kind(1, seq, seq)
        else:
            kind.count += 1
            kind.last = seq
        prev = row.hash
        if known is not None and known.seq == seq and known.hash != prev:
            raise LedgerDamaged(f"row {seq} is not the one that the kept head names: the ledger was replaced.")
    if seq != end:
        raise LedgerDamaged(f"the ledger ends at row {seq}, before row {end}.")
    if known is not None and known.seq > seq:
        raise LedgerDamaged(f"the kept head names row {known.seq}, the ledger ends at row {seq}: it was set back.")
    return kinds, Head(seq, prev)


def _check_totals(account: Account, read: list[tuple[dict[str, Any], Kind]]) -> None:
    """The stored totals must cover the recomputed ones, and be equal unless a sum had to be shortened."""
    mine = [(found, kind) for found, kind in read if "event" in found and account.owner in (COMMON, found["who"])]
    filters, stored = account.terms.filters, account.totals
    if not mine:
        if stored != nothing(filters):
            raise LedgerDamaged("the ledger has totals but no charges.")
        return
    if account.owner != COMMON and account.seq < max(kind.last for _, kind in mine):
        raise LedgerDamaged(f"the totals of {account.owner} stop before their last charge.")
    if stored.choice == "open" or not accepts(filters, stored):
        raise LedgerDamaged("the ledger is overspent: no filter accepts its charges.")
    slack = Fraction(sum(kind.count for _, kind in mine), ROUNDED)
    for family, kept in zip(families_of(filters, stored), stored.tallies, strict=True):
        exact = _sum(family, mine)
        for true, said in [(exact.delta, kept.delta), *zip(exact.amounts, kept.amounts, strict=True)]:
            if true is said is None:
                continue
            if true is None or said is None or not true <= said <= true + slack:
                raise LedgerDamaged("the totals of the ledger are not the sum of its rows.")


def _sum(family: Family, mine: list[tuple[dict[str, Any], Kind]]) -> Tally:
    """What all charges add to one family, exactly."""
    delta: Fraction = Fraction(0)
    amounts: list[Fraction | None] = [Fraction(0)] * len(family.sums)
    for found, kind in mine:
        each = addends(family, records.entry_of(found)).times(kind.count)
        delta += each.delta
        amounts = [None if a is None or b is None else a + b for a, b in zip(amounts, each.amounts, strict=True)]
    return Tally(delta, tuple(amounts))


def recounted(store: Store) -> list[Account]:
    """Every account with its totals computed again from the rows, by this version's rules."""
    found = {b.owner: accounts.of(b) for b in store.balances()}
    fresh = {
        owner: replace(account, totals=emptied(account.terms.filters, account.totals), rules=records.RULES)
        for owner, account in found.items()
    }
    for row in store.rows():
        said = records.parsed(row.body)
        if "event" not in said:
            continue
        entry = records.entry_of(said)
        for owner in {COMMON, said["who"] or COMMON} & fresh.keys():
            account = fresh[owner]
            fresh[owner] = replace(account, totals=after(account.terms.filters, account.totals, entry))
    return list(fresh.values())
