"""The ledger: a budget that cannot be overspent.

A charge is refused, or it is on disk before `charge` returns. Only then may anything touch the data. No refunds.

>>> import tempfile, pathlib
>>> from deniable.events import Laplace
>>> from deniable.guarantees import PureDP
>>> path = pathlib.Path(tempfile.mkdtemp()) / "visits.ledger"
>>> ledger = Ledger.create(path, unit="patient_id", budget=PureDP(0.3))
>>> ledger.charge(Laplace(scale=10), purpose="how many visits").seq
1
>>> print(ledger.remaining())
ε ≤ 0.20, δ = 0, one patient added or removed
>>> ledger.charge(Laplace(scale=1), purpose="too much")
Traceback (most recent call last):
...
deniable.errors.BudgetExceeded: the request does not fit the ledger's budget: requested ε = 1; remaining ε = 0.2. ...
>>> ledger.close()
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from deniable import _checks
from deniable._notebook import Shown
from deniable.accounting.filters import Entry, Filters, basic, filters_for
from deniable.descriptions import Description
from deniable.errors import InvalidArgument, LedgerDamaged, LedgerError
from deniable.events import Event
from deniable.guarantees import ApproxDP, Guarantee, PureDP
from deniable.ledger import points, records, refusals, verification
from deniable.ledger.accounts import COMMON, Account, decide, read, vouched
from deniable.ledger.records import Charge, Head, Header, Terms
from deniable.ledger.stores import Row, Store
from deniable.ledger.stores.places import created, opened
from deniable.units import Relation, Unit, one_relation, one_unit


class Ledger(Shown):
    """An append-only record of charges against one budget, for one unit under one relation."""

    def __init__(self, store: Store) -> None:
        """Use `Ledger.create` or `Ledger.open`."""
        if not hasattr(store, "header"):
            # Not shown: an address may hold a password.
            raise InvalidArgument("store", "...", "a store", "Ledger.open(path) opens one, Ledger.create makes one.")
        self._store = store
        self._header = Header.from_json(store.header())
        if self._common().rules != records.RULES:
            self._recount()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        unit: Unit | str,
        budget: Guarantee,
        relation: Relation | None = None,
        basic_only: bool = False,
    ) -> Ledger:
        """A new ledger at a path where there is nothing, or at an address `postgresql://user@host/database#name`.

        `relation` restates the budget under another relation than the one it carries. `basic_only` keeps the basic
        filter alone, with all of δ for the events' own δ: right when many charges have a δ and few of them are small.
        """
        _checks.member("budget", budget, Guarantee, remedy="For example ApproxDP(3, 1e-6).")
        if relation is not None:
            _checks.member("relation", relation, Relation, remedy="Use ADD_REMOVE, REPLACE or ZERO_OUT.")
            budget = replace(budget, relation=relation)
        promised = budget.about(Unit.of(unit))
        terms = Terms(promised, _filters(promised, basic_only=basic_only))
        header = Header(promised.unit, terms, records.now())
        first = Account.opened(COMMON, terms).balance(0)
        return cls(created(path, header=header.to_json(), balance=first))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """The ledger at a path or address. Opening never creates."""
        return cls(opened(path))

    @classmethod
    def of(cls, ledger: Ledger | str | os.PathLike[str]) -> Ledger:
        """A ledger, or the one at a path or address."""
        if isinstance(ledger, Ledger):
            return ledger
        if not isinstance(ledger, str | os.PathLike) or not os.fspath(ledger):
            remedy = "Ledger.create makes one, once."
            raise InvalidArgument("ledger", ledger, "a Ledger, or the path or address of one", remedy)
        return cls.open(ledger)

    @property
    def place(self) -> str:
        """Where the ledger is, without a password: fit to be printed."""
        return self._store.place

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

    # charging

    def charge(
        self,
        event: Event,
        *,
        purpose: str,
        who: str | None = None,
        key: str | None = None,
        at: ApproxDP | PureDP | None = None,
    ) -> Charge:
        """Pay for an event, or raise `BudgetExceeded`. When this returns, the charge is on disk.

        `key` makes it idempotent: the same key and event pay once, and the second call returns the first charge with
        `fresh=False`. Such a charge pays for resuming the one release it was made for, never for a second one.
        `at` is the (ε, δ) at which the event enters the basic filter; the accountant must confirm it.
        """
        self._check(event, purpose=purpose, who=who, key=key)
        entry = Entry(event) if at is None else points.stated(event, at)
        made = self._attempt(entry, curves=False, purpose=purpose, who=who, key=key)
        if made is None and at is None:
            # An event may fit at a point of its curve. That takes time, so it is computed while no lock is held.
            points.curve(event)
            made = self._attempt(entry, curves=True, purpose=purpose, who=who, key=key)
        if made is None:
            raise self._refusal(entry, who)
        return made

    def fits(self, event: Event, *, who: str | None = None, at: ApproxDP | PureDP | None = None) -> bool:
        """Whether `charge` would take the event now. Looking is free and charges nothing."""
        self._check(event, purpose="looking", who=who, key=None)
        entry = Entry(event) if at is None else points.stated(event, at)
        return decide(entry, self._accounts(who), curves=at is None) is not None

    def remaining(self, *, who: str | None = None) -> Guarantee:
        """The largest request that fits, as a guarantee: of a fresh budget, all of it. With `who`, of their own."""
        return self._account(who).left.largest

    def room(self, *, who: str | None = None) -> Guarantee:
        """What a plan may be calibrated to: a charge within it is accepted (`fits` says so for one event)."""
        return self._account(who).left.room

    def allot(self, who: str, budget: Guarantee) -> None:
        """Give an analyst a budget of their own inside the common one; from then on every charge names its analyst.

        An allotment is made once and never changed. It promises that what this analyst alone was told keeps that
        budget, as long as analysts do not pool their answers; the common budget covers them all together.
        """
        _checks.member("budget", budget, Guarantee, remedy="For example ApproxDP(1, 1e-7).")
        if not isinstance(who, str) or not who.strip():
            raise InvalidArgument("who", who, "an analyst's name")
        one_relation(self.relation, budget.relation, doing="allot")
        one_unit(budget.unit, self.unit, doing="allot")
        own = budget.about(self.unit)
        terms = Terms(own, filters_for(own))
        with self._store.writing():
            if self._store.balance(who) is not None:
                raise LedgerError(f"{who} already has a budget here; an allotment is made once and never changed.")
            accounts = [self._common(), Account.opened(who, terms)]
            what = records.canonical({"who": who, "allot": terms.to_plain()})
            last = self._vouched_last(accounts[:1])
            self._append(what, accounts, last, time=records.now(), purpose="allotment", key=None)

    def analysts(self) -> dict[str, Guarantee]:
        """Who has a budget of their own, and which."""
        return {b.owner: Terms.from_json(b.terms).budget for b in self._store.balances() if b.owner != COMMON}

    # the record

    def charges(self) -> Iterator[Charge]:
        """Every charge, oldest first."""
        for row in self._store.rows():
            found = records.charge_of(row)
            if found is not None:
                yield found

    def head(self) -> Head:
        """Where the record ends. A copy kept elsewhere lets `verify` notice a ledger that was set back."""
        return verification.head(self._store)

    def export(self) -> Iterator[str]:
        """The whole record as lines of JSON: the header, then every row with its hash."""
        yield self._store.header()
        for row in self._store.rows():
            yield f'{row.body[:-1]},"hash":"{row.hash}"}}'

    def verify(self, head: Head | str | None = None) -> Head:
        """Check every hash and recompute every total; returns the head, or raises `LedgerDamaged`.

        With a head from before, also check that the record still contains it: a restored old copy does not.
        """
        return verification.verify(self._store, Head.parse(head) if isinstance(head, str) else head)

    def describe(self) -> Description:
        """The budget, which is what is promised, and where the record stands. What remains is rounded down."""
        head = self.head()
        facts = (("remaining", self.remaining().figures), ("rows", str(head.seq)), ("head", head.hash))
        return Description(f"ledger {Path(self.place).name}", self.budget, facts)

    def close(self) -> None:
        """Let go of the file. Using the ledger again opens it again."""
        self._store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.place!r}, budget={self.budget!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        """The same ledger: two copies would be two names of one record."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its address, without a password; whoever unpickles it opens the ledger again."""
        return Ledger.open, (self._store.address,)

    # inside

    def _check(self, event: Event, *, purpose: str, who: str | None, key: str | None) -> None:
        """Refuse, before the store is asked, what can never be charged here."""
        _checks.member("event", event, Event, remedy="For example Laplace(scale=2).")
        one_relation(self.relation, event.relation, doing="charge")
        one_unit(self.unit, event.unit, doing="charge")
        if not isinstance(purpose, str) or not purpose.strip():
            raise InvalidArgument("purpose", purpose, "a few words that say what the charge is for")
        for name, value in (("who", who), ("key", key)):
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise InvalidArgument(name, value, "a word or None")

    def _attempt(self, entry: Entry, *, curves: bool, purpose: str, who: str | None, key: str | None) -> Charge | None:
        """One try, as the sole writer; None when it does not fit."""
        what = records.what(entry, who)
        with self._store.writing():
            if key is not None and (paid := self._store.by_key(key)) is not None:
                return _resumed(paid, entry.event, who=who, key=key)
            accounts = self._accounts(who)
            last = self._vouched_last(accounts)
            decided = decide(entry, accounts, curves=curves)
            if decided is None:
                return None
            settled, accounts = decided
            if settled is not entry:
                what = records.what(settled, who)
            time = records.now()
            row = self._append(what, accounts, last, time=time, purpose=purpose, key=key)
        return Charge(row.seq, time, settled.event, purpose, who, key, settled.at, row.hash)

    def _account(self, who: str | None) -> Account:
        """The common account, or an analyst's own where budgets were allotted."""
        return self._accounts(who)[-1] if who is not None else self._common()

    def _common(self) -> Account:
        found = read(self._store, COMMON)
        if found is None:
            raise LedgerDamaged("the totals of the ledger are missing; restore its latest state.")
        return found

    def _accounts(self, who: str | None) -> list[Account]:
        """The accounts that a charge must fit: the common one, and the analyst's own where budgets were allotted."""
        common = self._common()
        if who is not None and (own := read(self._store, who)) is not None:
            return [common, own]
        if self.analysts():
            raise LedgerError(
                f"this ledger has a budget for each analyst; who={who!r} is none of them. Use ledger.allot first."
            )
        return [common]

    def _vouched_last(self, accounts: list[Account]) -> Row | None:
        """The newest row, which must vouch for the totals that are about to be added to."""
        last = self._store.last()
        for account in accounts:
            vouched(account, last, self._store)
        return last

    def _append(
        self, what: str, accounts: list[Account], last: Row | None, *, time: str, purpose: str, key: str | None
    ) -> Row:
        """One more row, and the accounts after it."""
        seq = 1 if last is None else last.seq + 1
        balances = [account.balance(seq) for account in accounts]
        row = records.written(
            seq=seq,
            prev=records.digest(self._store.header()) if last is None else last.hash,
            totals={balance.owner: records.voucher(balance) for balance in balances},
            time=time,
            purpose=purpose,
            key=key,
            what=what,
        )
        self._store.append(row, balances)
        return row

    def _recount(self) -> None:
        """Compute all totals again by this version's cost rules, and write down that it was done."""
        with self._store.writing():
            accounts = verification.recounted(self._store)
            last = self._store.last()
            what = records.canonical({"who": None, "recount": {"rules": records.RULES}})
            self._append(what, accounts, last, time=records.now(), purpose="recount", key=None)

    def _refusal(self, entry: Entry, who: str | None) -> Exception:
        """Why it does not fit. An analyst is told about their own budget only."""
        accounts = self._accounts(who)
        own = accounts[-1]
        asked = refusals.requested(entry, own.terms.budget)
        if own.owner != COMMON and decide(entry, [own], curves=entry.at is None) is not None:
            return refusals.shared_refusal(asked, own.left, who=own.owner)
        return refusals.refusal(asked, own.left, whose="the ledger's" if own.owner == COMMON else f"{own.owner}'s")


def _resumed(paid: Row, event: Event, *, who: str | None, key: str) -> Charge:
    found = records.charge_of(paid)
    if found is None or found.event != event or found.who != who:
        raise LedgerError(f"key={key!r} already paid for another event (row {paid.seq}); choose another key.")
    return found


def _filters(budget: Guarantee, *, basic_only: bool) -> Filters:
    if not basic_only:
        return filters_for(budget)
    if not isinstance(budget, PureDP | ApproxDP):
        raise InvalidArgument("basic_only", basic_only, "left out unless the budget is PureDP or ApproxDP")
    return basic(budget)
