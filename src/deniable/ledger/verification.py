"""Verification: reads a whole record again and checks every hash, every link, every total.

A ledger and its export are read by the same code. It notices a row that was changed, removed or inserted, totals that
are not the sum of the rows, and a record that was cut. Given a head that was kept elsewhere, it also notices a record
that was replaced by an older copy of itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from deniable.accounting.filters import FilterEntry, accepts, certify, nothing
from deniable.accounting.filters import replay as replay_filters
from deniable.accounting.filters.totals import ROUNDED, FilterTotals
from deniable.errors import DeniableError, LedgerDamaged
from deniable.events import Claimed, Event
from deniable.ledger import accounts, records
from deniable.ledger.accounts import COMMON, ENVELOPE, Account
from deniable.ledger.records import Head, Header, Terms, digest, fields_of
from deniable.ledger.stores import Balance, RecordSource, Row


@dataclass
class Tail:
    """Rows with the same ending, which cost the same: how many there are, and the first and the last."""

    count: int
    first: int
    last: int


@dataclass(frozen=True)
class RowKind:
    """The content of rows with one ending: a charge (`entry`), an owner's budget (`terms`), or a recount."""

    who: str | None
    """The analyst who is charged; of a budget, its owner."""
    entry: FilterEntry | None
    terms: Terms | None
    rows: Tail
    envelopes: tuple[str, ...] = ()
    """The envelopes that a charge names."""
    seen: int | None = None
    """The row that paid for what the analyst read, where the analyst alone is charged."""
    raises: bool = False
    """Whether the budget takes the place of a smaller one."""


class Chain:
    """The verified beginning of a record. Rows never change, so `follow` can continue where it stopped."""

    def __init__(self, header: str) -> None:
        self.head = Head(0, records.digest(header))
        self._tails: dict[str, Tail] = {}
        self._keys: set[str] = set()

    def follow(
        self, source: RecordSource, *, stop: int, expected: Head | None = None, picks: Collection[int] = ()
    ) -> dict[int, Row]:
        """Check every hash and link up to row `stop`, and return the rows whose numbers are in `picks`.

        `expected` is a head that the record must contain.
        """
        seq, prev = self.head
        if expected is not None and expected.seq == seq == 0 and expected.hash != prev:
            raise LedgerDamaged("the ledger's header is not the one that the kept head names: the ledger was replaced.")
        tails, keys, picked = self._tails, self._keys, {}
        for row in source.rows(start=seq + 1, stop=stop):
            seq += 1
            if row.seq != seq:
                raise LedgerDamaged(f"{source.where(seq)} is missing.")
            fields = fields_of(row.body)
            if fields is None or digest(row.body) != row.hash or fields[0] != str(seq):
                raise LedgerDamaged(f"{source.where(seq)} does not verify: it was changed.")
            _, before, _, _, _, key, what = fields
            if before != prev:
                one = f"{source.where(0)} was" if seq == 1 else "it, or one before it, was"
                raise LedgerDamaged(f"{source.where(seq)} does not follow from the one before: {one} changed.")
            if key != "null" or row.key is not None:
                if row.key is None or key != records.canonical(row.key) or key in keys:
                    raise LedgerDamaged(f"{source.where(seq)} does not verify: its key was changed.")
                keys.add(key)
            tail = tails.get(what)
            if tail is None:
                tails[what] = Tail(1, seq, seq)
            else:
                tail.count += 1
                tail.last = seq
            prev = row.hash
            if expected is not None and expected.seq == seq and expected.hash != prev:
                raise LedgerDamaged(f"{source.where(seq)} is not the one that the kept head names: it was replaced.")
            if seq in picks:
                picked[seq] = row
        if seq != stop:
            raise LedgerDamaged(f"the record ends at row {seq}, before row {stop}.")
        self.head = Head(seq, prev)
        return picked

    def kinds(self) -> list[RowKind]:
        """The kinds of rows, in order of first appearance. Rows with the same ending are read once."""
        return [_kind(what, tail) for what, tail in self._tails.items()]


def _kind(what: str, tail: Tail) -> RowKind:
    plain = records.parse_object("{" + what)
    who = plain["who"]
    if records.ending(plain) == what:
        match list(plain):
            case ["who", "at", "event"]:
                return RowKind(who, records.entry_of(plain), None, tail)
            case ["who", "at", "event", "envelopes"] if _is_list(plain["envelopes"]):
                return RowKind(who, records.entry_of(plain), None, tail, envelopes=tuple(plain["envelopes"]))
            case ["who", "seen", "at", "event"] if who and isinstance(plain["seen"], int):
                return RowKind(who, records.entry_of(plain), None, tail, seen=plain["seen"])
            case ["who", "allot" | "raise" as word] if who and tail.count == 1:
                return RowKind(who, None, Terms.from_plain(plain[word]), tail, raises=word == "raise")
            case ["who", "envelope", "allot" | "raise" as word] if who is None and tail.count == 1:
                owner = f"{ENVELOPE}{plain['envelope']}"
                return RowKind(owner, None, Terms.from_plain(plain[word]), tail, raises=word == "raise")
            case ["who", "recount"]:
                return RowKind(who, None, None, tail)
    raise LedgerDamaged(f"row {tail.first} of the ledger says nothing that a ledger writes.")


def _is_list(value: object) -> bool:
    """Whether a value is a list of different texts, in order."""
    texts = isinstance(value, list) and all(isinstance(text, str) for text in value)
    return texts and bool(value) and sorted(set(value)) == value  # type: ignore[call-overload]


def head(source: RecordSource) -> Head:
    """Where the record ends."""
    last = source.last()
    return Head(0, records.digest(source.header())) if last is None else Head(last.seq, last.hash)


def verify(source: RecordSource, expected: Head | None) -> Head:
    """Verify a record and return its head; `LedgerDamaged` names the first row that does not verify."""
    source.examine()
    with source.reading():
        last, balances, header_text = source.last(), source.balances(), source.header()
    end = 0 if last is None else last.seq
    if expected is not None and expected.seq > end:
        raise LedgerDamaged(f"the kept head names row {expected.seq}, the ledger ends at row {end}: it was set back.")
    chain = Chain(header_text)
    rows = chain.follow(source, stop=end, expected=expected, picks={balance.seq for balance in balances})
    try:
        _check_accounts(Header.from_json(header_text), chain.kinds(), rows, balances, end)
    except LedgerDamaged as damage:
        location = source.where(None)
        raise LedgerDamaged(f"{location}: {damage}" if location else str(damage)) from None
    return chain.head


def _check_accounts(
    header: Header, kinds: list[RowKind], rows: Mapping[int, Row], balances: Sequence[Balance], end: int
) -> None:
    """Check that every owner's totals are the sum of the rows that charge them, and fit their budget."""
    terms = {COMMON: header.terms} | _allotments(header, kinds)
    if sorted(terms) != sorted(balance.owner for balance in balances):
        raise LedgerDamaged("the ledger's totals are not those of the analysts who were given a budget.")
    for balance in balances:
        account = accounts.account_of(balance)
        if account.terms != terms[balance.owner]:
            raise LedgerDamaged("the filters of the ledger are not those it was created with.")
        if account.owner == COMMON and account.seq != end:
            raise LedgerDamaged(f"the totals are of row {account.seq}, and the rows end at {end}.")
        accounts.check_voucher(account, rows.get(account.seq), header)
        _check_totals(account, kinds)


def _allotments(header: Header, kinds: Iterable[RowKind]) -> dict[str, Terms]:
    """The budget of every analyst and envelope. After the first allotment to an analyst every charge, but for readings,
    must name an analyst who has a budget; what a charge names must be there before it."""
    kinds = list(kinds)
    terms: dict[str, Terms] = {}
    since: dict[str, int] = {}
    for kind in kinds:
        if kind.terms is None or kind.who is None:
            continue
        first, name, budget = kind.rows.first, kind.who.removeprefix(ENVELOPE), kind.terms.budget
        if (kind.who in terms) is not kind.raises:
            missing = "raises a budget that was not there" if kind.raises else f"gives {name} a second budget"
            raise LedgerDamaged(f"row {first} {missing}; it was edited.")
        if (budget.unit, budget.relation) != (header.unit, header.terms.budget.relation):
            raise LedgerDamaged(f"row {first} gives {name} a budget about another unit; it was edited.")
        try:
            certify(kind.terms.filters, budget)
        except DeniableError:
            raise LedgerDamaged(f"the filters of {name} do not keep their budget; they were edited.") from None
        if kind.raises and not contains(kind.terms, terms[kind.who]):
            raise LedgerDamaged(f"row {first} gives {name} a smaller budget than before; it was edited.")
        terms[kind.who] = kind.terms
        since.setdefault(kind.who, first)
    analysts = {owner: first for owner, first in since.items() if not owner.startswith(ENVELOPE)}
    start = min(analysts.values(), default=None)
    paid: dict[Event, int] = {}
    for kind in kinds:
        if kind.entry is None:
            continue
        if start is not None and kind.seen is None and kind.who not in analysts and kind.rows.last > start:
            raise LedgerDamaged(f"row {kind.rows.last} charges nobody who has a budget; it was edited.")
        if any(since.get(f"{ENVELOPE}{name}", kind.rows.first) >= kind.rows.first for name in kind.envelopes):
            raise LedgerDamaged(f"row {kind.rows.first} names an envelope that was not there; it was edited.")
        if kind.seen is None:
            paid.setdefault(kind.entry.event, kind.rows.first)
        elif paid.get(kind.entry.event, kind.seen + 1) > kind.seen:
            raise LedgerDamaged(f"row {kind.rows.first} reads what nobody paid for; it was edited.")
    return terms


def contains(terms: Terms, smaller: Terms) -> bool:
    """Whether a budget takes all of another, and is not the same."""
    whole = FilterEntry(Claimed(smaller.budget))
    return (
        terms.budget != smaller.budget and accounts.decide(whole, [Account.empty("", terms)], curves=True) is not None
    )


def concerns(owner: str, kind: RowKind) -> bool:
    """Whether a charge counts for an owner.

    Every charge counts for the common budget, but those for reading what was paid before. For an analyst's own budget,
    charges in their name count, also those before the allotment, and so do charges in nobody's name, because anybody
    may have seen their answers. For an envelope those count that name it.
    """
    if owner.startswith(ENVELOPE):
        return owner.removeprefix(ENVELOPE) in kind.envelopes
    if kind.seen is not None:
        return owner == kind.who
    return owner == COMMON or kind.who is None or kind.who == owner


def replay(owner: str, terms: Terms, kinds: Iterable[RowKind], *, choice: str | None = None) -> FilterTotals:
    """An owner's exact totals, computed as if their filters had existed from the first row."""
    entries = [(k.entry, k.rows.count) for k in kinds if k.entry is not None and concerns(owner, k)]
    return replay_filters(terms.filters, entries, choice="alone" if choice == "alone" else "list" if choice else None)


def _check_totals(account: Account, kinds: list[RowKind]) -> None:
    """The stored totals must cover the recomputed ones, and be equal unless a sum had to be shortened."""
    mine = [kind for kind in kinds if kind.entry is not None and concerns(account.owner, kind)]
    filters, stored = account.terms.filters, account.totals
    whose = "the ledger's" if account.owner == COMMON else f"{account.owner.strip()}'s"
    if not mine:
        if stored != nothing(filters):
            raise LedgerDamaged(f"{whose} totals are not zero, and there are no charges.")
        return
    if account.seq < max(kind.rows.last for kind in mine):
        raise LedgerDamaged(f"{whose} totals stop before their last charge.")
    # Older rules may have chosen another filter. A recount is recorded as a row and keeps the old choice.
    recounted = any(kind.entry is None and kind.terms is None for kind in kinds)
    exact = replay(account.owner, account.terms, mine, choice=stored.choice if recounted else None)
    if stored.choice != exact.choice or len(stored.tallies) != len(exact.tallies):
        raise LedgerDamaged(f"{whose} totals follow another filter than the first charge chose.")
    if not accepts(filters, stored):
        raise LedgerDamaged(f"{whose} budget is overspent: no filter accepts the charges.")
    slack = Fraction(sum(kind.rows.count for kind in mine), ROUNDED)
    for exact_tally, stored_tally in zip(exact.tallies, stored.tallies, strict=True):
        for exact_amount, stored_amount in [
            (exact_tally.delta, stored_tally.delta),
            *zip(exact_tally.amounts, stored_tally.amounts, strict=True),
        ]:
            if exact_amount is stored_amount is None:
                continue
            if (
                exact_amount is None
                or stored_amount is None
                or not exact_amount <= stored_amount <= exact_amount + slack
            ):
                raise LedgerDamaged(f"{whose} totals are not the sum of the rows.")


def recount(source: RecordSource) -> list[Account]:
    """Every account with its totals computed again from the rows, by this version's rules."""
    last, header_text = source.last(), source.header()
    chain = Chain(header_text)
    chain.follow(source, stop=0 if last is None else last.seq)
    header, kinds = Header.from_json(header_text), chain.kinds()
    terms = {COMMON: header.terms} | _allotments(header, kinds)
    stored = [accounts.account_of(balance) for balance in source.balances()]
    if {account.owner: account.terms for account in stored} != terms:
        raise LedgerDamaged("the filters of the ledger are not those it was created with.")
    return [_recount_account(account, kinds) for account in stored]


def _recount_account(account: Account, kinds: list[RowKind]) -> Account:
    # The first charge chose the filter, and the choice stands. Version 1 of the rules did not store it for analysts.
    stands = account.totals.choice != "open" and (account.owner == COMMON or account.rules > 1)
    totals = replay(account.owner, account.terms, kinds, choice=account.totals.choice if stands else None)
    return replace(account, totals=totals.shorten(), rules=records.RULES)
