"""The ledger: a budget that cannot be overspent.

A charge is refused, or it is on disk before `charge` returns. Only then may anything touch the data. A charge is never
refunded.

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
from collections.abc import Sequence
from dataclasses import replace
from numbers import Number
from typing import Any

from deniable import _checks
from deniable._signatures import public
from deniable.accounting.filters import FilterEntry, Filters, accepts, basic, filters_for
from deniable.errors import InvalidArgument, LedgerDamaged, LedgerError
from deniable.events import Claimed, Event
from deniable.guarantees import ApproxDP, Guarantee, PureDP, read_promise
from deniable.ledger import points, records, refusals, verification
from deniable.ledger.accounts import COMMON, ENVELOPE, Account, decide, read
from deniable.ledger.reading import LedgerRecord, read_export
from deniable.ledger.records import Charge, Head, Header, Terms
from deniable.ledger.stores import Row, Store
from deniable.ledger.stores.locations import create_store, open_store
from deniable.units import AnyRelation, Relation, Unit, one_relation, one_unit


class Ledger(LedgerRecord):
    """An append-only record of charges against one budget, for one unit under one relation."""

    def __init__(self, store: Store) -> None:
        """Use `Ledger.create` or `Ledger.open`."""
        if not hasattr(store, "header"):
            # Not shown: an address may hold a password.
            raise InvalidArgument("store", "...", "a store", "Ledger.open(path) opens one, Ledger.create makes one.")
        super().__init__(store)
        self._store = store
        if self._common().rules != records.RULES:
            self._recount()

    @classmethod
    @public
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        unit: Unit | str,
        budget: Guarantee | None = None,
        epsilon: _checks.Number | None = None,
        delta: _checks.Number | None = None,
        relation: AnyRelation | None = None,
        size: int | None = None,
        basic_only: bool = False,
    ) -> Ledger:
        """Create a ledger in a new file, or in PostgreSQL at an address `postgresql://user@host/database#name`.

        Args:
            path: the file, which must not exist yet, or the address.
            unit: who is protected: the column that says whom a row is about, or "row".
            budget: the limit of all that is ever released, a guarantee.
            epsilon: with `delta`, the short form of `budget`.
            delta: of the short form; without it the budget is pure.
            relation: the relation of the budget, if it is another than the one that `budget` carries.
            size: how many units there are, if that is public: a δ that is large for so many is warned of.
            basic_only: use the basic filter alone, which keeps all of δ for the events' own δ. This suits ledgers
                in which many charges have a δ and few of them are small.
        """
        promise = read_promise("budget", budget, epsilon=epsilon, delta=delta)
        if relation is not None:
            promise = replace(promise, relation=Relation.of(relation))
        limit = promise.about(Unit.of(unit))
        records.check_unit(limit.unit)
        _checks.warn_of_delta(limit, size=size)
        terms = Terms(limit, _filters(limit, basic_only=basic_only))
        header = Header(limit.unit, terms, records.now())
        first = Account.empty(COMMON, terms).balance(0)
        return cls(create_store(path, header=header.to_json(), balance=first))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open the ledger at a path or address. Opening never creates one.

        Args:
            path: the file, or the address `postgresql://user@host/database#name`.
        """
        return cls(open_store(path))

    @classmethod
    def of(cls, ledger: Ledger | str | os.PathLike[str]) -> Ledger:
        """A ledger, or the one at a path or address."""
        if isinstance(ledger, Ledger):
            return ledger
        if not isinstance(ledger, str | os.PathLike) or not os.fspath(ledger):
            # An address may be in it: only what cannot hold one is shown.
            came = ledger if ledger is None or isinstance(ledger, Number) else "..."
            remedy = "Ledger.create makes one, once."
            raise InvalidArgument("ledger", came, "a Ledger, or the path or address of one", remedy)
        return cls.open(ledger)

    @staticmethod
    def read_export(path: str | os.PathLike[str], *, head: Head | str | None = None) -> LedgerRecord:
        """Read and verify a file that `deniable ledger export` wrote. Nothing can be charged to it.

        Args:
            path: the file, with one line of JSON for each row.
            head: a head that was kept elsewhere; the record must contain it.
        """
        return read_export(path, head)

    # charging

    @public
    def charge(
        self,
        event: Event,
        *,
        purpose: str,
        who: str | None = None,
        key: str | None = None,
        at: ApproxDP | PureDP | None = None,
        envelopes: Sequence[str] = (),
    ) -> Charge:
        """Pay for an event, or raise `BudgetExceeded`. When this returns, the charge is on disk.

        Args:
            event: what is about to be done to the data.
            purpose: why, in words.
            who: the analyst in whose name it is charged; needed once budgets were allotted.
            key: makes the charge idempotent. The same key and event pay once, and the second call returns the first
                charge with `fresh=False`: it pays for resuming that release, never for a second one.
            at: the (ε, δ) at which the event enters the basic filter; the accountant must confirm it.
            envelopes: projects and tables whose envelopes it must fit as well (`open_envelope`).
        """
        self._check(event, at)
        envelopes = _checked_names(envelopes)
        records.check_purpose(purpose)
        if who is not None:
            records.check_who(who)
        if key is not None:
            records.check_key(key)
        entry = FilterEntry(event) if at is None else points.entry_at(event, at)
        charge = self._attempt(entry, curves=False, purpose=purpose, who=who, key=key, envelopes=envelopes)
        if charge is None and at is None:
            # An event may fit at a point of its curve. That takes time, so it is computed while no lock is held.
            points.curve(event)
            charge = self._attempt(entry, curves=True, purpose=purpose, who=who, key=key, envelopes=envelopes)
        if charge is None:
            raise self._refusal(entry, who, envelopes)
        return charge

    @public
    def charge_reader(self, seq: int, *, who: str, purpose: str, key: str | None = None) -> Charge:
        """Charge an analyst's own budget for reading an answer that another one paid for, or raise `BudgetExceeded`.

        The answer exists already, so the common budget pays nothing more. What this analyst was told grows by it, and
        their own budget is a promise about all that they were told. Without a budget of their own nothing can be
        refused. The reading is recorded all the same, because a later allotment counts it.

        Args:
            seq: the number of the row that paid for the answer.
            who: the analyst who reads it.
            purpose: why, in words.
            key: makes the charge idempotent, as in `charge`.
        """
        records.check_purpose(purpose)
        records.check_who(who)
        if key is not None:
            records.check_key(key)
        row = self._store.row(_checks.count("seq", seq))
        paid = None if row is None else records.charge_of(row)
        if paid is None:
            raise LedgerError(f"row {seq} of the ledger paid for no answer that could be read; nothing was charged.")
        if paid.who is None or paid.who == who:
            raise LedgerError(f"row {seq} counts for {who} already; nothing was charged.")
        entry = FilterEntry(paid.event, paid.at)
        if self._store.balance(who) is not None:
            points.curve(entry.event)  # takes time, so it is computed while no lock is held
        with self._store.writing():
            if key is not None and (earlier := self._store.by_key(key)) is not None:
                return _resume_reading(earlier, seq, who=who, key=key)
            account, common = read(self._store, who), self._common()
            payers = [] if account is None else [account]
            last = self._check_last([common, *payers])
            decision = decide(entry, payers, curves=True)
            if decision is not None:
                accepted, after = decision
                what, time = records.reading_ending(accepted, who, seq), records.now()
                row = self._append(what, [common, *after], last, time=time, purpose=purpose, key=key)
                return Charge(row.seq, time, purpose, who, key, row.hash, what)
        (own,) = payers
        raise refusals.refusal(refusals.request_cost(entry, own.terms.budget), own.remainder, whose=f"{own.owner}'s")

    def fits(self, event: Event, *, who: str | None = None, at: ApproxDP | PureDP | None = None) -> bool:
        """Whether `charge` would accept the event now. Asking charges nothing."""
        self._check(event, at)
        entry = FilterEntry(event) if at is None else points.entry_at(event, at)
        return decide(entry, self._payers(who), curves=at is None) is not None

    @public
    def allot(
        self,
        who: str,
        budget: Guarantee | None = None,
        *,
        epsilon: _checks.Number | None = None,
        delta: _checks.Number | None = None,
    ) -> None:
        """Give an analyst a budget of their own inside the common one; from then on every charge names its analyst.

        An allotment is made once, and only ever raised (`raise_allotment`). It promises that the answers this analyst
        saw, before and after it, keep that budget, as long as analysts do not pool their answers. The common budget
        covers all analysts together. Earlier charges in this analyst's name count, and so do charges in nobody's name,
        because anybody may have seen their answers. The allotment is refused if these charges do not fit it, or if it
        does not fit the whole common budget.

        Args:
            who: the analyst.
            budget: the analyst's own limit, a guarantee.
            epsilon: with `delta`, the short form of `budget`.
            delta: of the short form; without it the budget is pure.
        """
        records.check_who(who)
        self._set_budget(who, self._terms(budget, epsilon, delta), raises=False, purpose="allotment")

    @public
    def raise_allotment(
        self,
        who: str,
        budget: Guarantee | None = None,
        *,
        epsilon: _checks.Number | None = None,
        delta: _checks.Number | None = None,
        decision: str,
    ) -> None:
        """Give an analyst a larger budget in place of the one they have; the decision is a row of the record.

        From then on the larger budget is what is promised about all that this analyst was told, before and after. It
        is replayed over the past as an allotment is, and refused unless it takes all of the old one.

        Args:
            who: the analyst.
            budget: the analyst's new limit, a guarantee.
            epsilon: with `delta`, the short form of `budget`.
            delta: of the short form; without it the budget is pure.
            decision: who decided it and why, in words.
        """
        records.check_who(who)
        records.check_decision(decision)
        self._set_budget(who, self._terms(budget, epsilon, delta), raises=True, purpose=decision)

    @public
    def open_envelope(
        self,
        name: str,
        budget: Guarantee | None = None,
        *,
        epsilon: _checks.Number | None = None,
        delta: _checks.Number | None = None,
        decision: str,
    ) -> None:
        """Open an envelope for a project or a table: charges that name it must fit it too.

        An envelope divides the common budget fairly. It promises nothing: what is asked outside of it is not counted.

        Args:
            name: such as "project flu" or "table visits".
            budget: the envelope's limit, a guarantee.
            epsilon: with `delta`, the short form of `budget`.
            delta: of the short form; without it the budget is pure.
            decision: who decided it and why, in words.
        """
        self._set_envelope(name, self._terms(budget, epsilon, delta), raises=False, decision=decision)

    @public
    def raise_envelope(
        self,
        name: str,
        budget: Guarantee | None = None,
        *,
        epsilon: _checks.Number | None = None,
        delta: _checks.Number | None = None,
        decision: str,
    ) -> None:
        """Give an envelope a larger budget; the decision is a row of the record.

        Args:
            name: the envelope's.
            budget: its new limit, a guarantee.
            epsilon: with `delta`, the short form of `budget`.
            delta: of the short form; without it the budget is pure.
            decision: who decided it and why, in words.
        """
        self._set_envelope(name, self._terms(budget, epsilon, delta), raises=True, decision=decision)

    def _set_envelope(self, name: str, terms: Terms, *, raises: bool, decision: str) -> None:
        records.check_envelope(name)
        records.check_decision(decision)
        self._set_budget(f"{ENVELOPE}{name}", terms, raises=raises, purpose=decision)

    def _terms(self, budget: Guarantee | None, epsilon: _checks.Number | None, delta: _checks.Number | None) -> Terms:
        """The terms of a budget inside the common one."""
        budget = read_promise("budget", budget, epsilon=epsilon, delta=delta, relation=self.relation)
        one_relation(self.relation, budget.relation, doing="allot")
        one_unit(budget.unit, self.unit, doing="allot")
        own = budget.about(self.unit)
        return Terms(own, filters_for(own))

    def _set_budget(self, owner: str, terms: Terms, *, raises: bool, purpose: str) -> None:
        """Record an owner's budget, with what was charged to them already."""
        name = owner.removeprefix(ENVELOPE)
        self._refuse_terms(owner, terms, raises=raises)
        if decide(FilterEntry(Claimed(terms.budget)), [Account.empty(COMMON, self._header.terms)], curves=True) is None:
            raise refusals.allotment_refusal(terms.budget, self.budget, who=name)
        # Rows never change: all that are there are read while no lock is held, and under the lock only newer ones.
        chain = verification.Chain(self._header_text)
        chain.follow(self._store, stop=self.head().seq)
        with self._store.writing():
            self._refuse_terms(owner, terms, raises=raises)
            common = self._common()
            last = self._check_last([common])
            chain.follow(self._store, stop=0 if last is None else last.seq)
            totals = verification.replay(owner, terms, chain.kinds())
            # Why this is sound: fix the terms, and let the filters that they state cut the run from its first row on,
            # where `who` is told something. Every run in which these terms are allotted passes here with its past
            # within the filters, and `charge` keeps it there; so on these runs nothing was cut, and the theorem of the
            # filters (docs/ledger.md) speaks of everything that `who` was told. The past is replayed by the rule that
            # `charge` and `verify` follow: the first charge chooses between the list and the basic filter alone, and
            # an event enters where it entered when it was charged. A past that does not fit under that choice is
            # refused; to choose again in its light would be to choose after seeing answers. The same holds of terms
            # that take the place of smaller ones: they are fixed, and the whole past is replayed under them.
            if not accepts(terms.filters, totals):
                raise refusals.late_refusal(terms.budget, who=name)
            own_account = replace(Account.empty(owner, terms), totals=totals.shorten())
            word = "raise" if raises else "allot"
            whose = {"who": owner} if owner == name else {"who": None, "envelope": name}
            what = records.ending({**whose, word: terms.to_plain()})
            self._append(what, [common, own_account], last, time=records.now(), purpose=purpose, key=None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        """The same ledger: two copies would be two names of one record."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address, without a password. Unpickling opens the ledger again."""
        return Ledger.open, (self._store.address,)

    # inside

    def _check(self, event: Event, at: ApproxDP | PureDP | None) -> None:
        """Refuse an event that can never be charged here, before the store is read."""
        _checks.member("event", event, Event, remedy="For example Laplace(scale=2).")
        one_relation(self.relation, event.relation, doing="charge")
        one_unit(self.unit, event.unit, doing="charge")
        if at is not None:
            _checks.member("at", at, (ApproxDP, PureDP), remedy="For example ApproxDP(1, 1e-7).")
            one_relation(event.relation, at.relation, doing="charge")
            one_unit(event.unit, at.unit, doing="charge")

    def _refuse_terms(self, owner: str, terms: Terms, *, raises: bool) -> None:
        """Refuse a second budget for an owner, and one that is to be raised and is not there, or is not smaller."""
        balance, name = self._store.balance(owner), owner.removeprefix(ENVELOPE)
        if not raises and balance is not None:
            raise LedgerError(f"{name} already has a budget here; an allotment is made once and never changed.")
        if raises and balance is None:
            raise LedgerError(f"{name} has no budget of their own here that could be raised; nothing was changed.")
        if balance is not None and not verification.contains(terms, Terms.from_json(balance.terms)):
            raise LedgerError(
                f"{terms.budget.figures} is not more than the budget that {name} has; a budget is only ever raised."
            )

    def _attempt(
        self,
        entry: FilterEntry,
        *,
        curves: bool,
        purpose: str,
        who: str | None,
        key: str | None,
        envelopes: Sequence[str],
    ) -> Charge | None:
        """Try to charge, as the only writer; None when the entry does not fit."""
        what = records.charge_ending(entry, who, envelopes)
        with self._store.writing():
            if key is not None and (paid := self._store.by_key(key)) is not None:
                return _resume(paid, entry.event, who=who, key=key, envelopes=envelopes)
            accounts = [*self._accounts(who), *self._envelopes(envelopes)]
            last = self._check_last(accounts)
            decision = decide(entry, accounts, curves=curves)
            if decision is None:
                return None
            accepted, accounts = decision
            if accepted is not entry:
                what = records.charge_ending(accepted, who, envelopes)
            time = records.now()
            row = self._append(what, accounts, last, time=time, purpose=purpose, key=key)
        return Charge(row.seq, time, purpose, who, key, row.hash, what)

    def _payers(self, who: str | None, envelopes: Sequence[str] = ()) -> list[Account]:
        """The accounts that a charge must fit, read in one transaction."""
        with self._store.reading():
            accounts = [*self._accounts(who), *self._envelopes(envelopes)]
            self._check_vouchers(accounts, self._store.last())
        return accounts

    def _check_last(self, accounts: list[Account]) -> Row | None:
        """The newest row, after a check that it carries the hashes of the totals."""
        last = self._store.last()
        if last is None and self._store.header() != self._header_text:
            raise LedgerDamaged(f"the header of {self.place} was changed after the ledger was opened.")
        self._check_vouchers(accounts, last)
        return last

    def _append(
        self, what: str, accounts: list[Account], last: Row | None, *, time: str, purpose: str, key: str | None
    ) -> Row:
        """Append one row, with the accounts after it."""
        seq = 1 if last is None else last.seq + 1
        balances = [account.balance(seq) for account in accounts]
        row = records.make_row(
            seq=seq,
            prev=records.digest(self._header_text) if last is None else last.hash,
            totals={balance.owner: records.voucher(balance) for balance in balances},
            time=time,
            purpose=purpose,
            key=key,
            what=what,
        )
        self._store.append(row, balances)
        return row

    def _recount(self) -> None:
        """Compute all totals again by this version's cost rules, and record that in a row."""
        with self._store.writing():
            if self._common().rules == records.RULES:
                return  # another process was faster
            accounts = verification.recount(self._store)
            last = self._store.last()
            what = records.ending({"who": None, "recount": {"rules": records.RULES}})
            self._append(what, accounts, last, time=records.now(), purpose="recount", key=None)

    def _refusal(self, entry: FilterEntry, who: str | None, envelopes: Sequence[str]) -> Exception:
        """The exception that says why an entry does not fit. It tells an analyst what is left of their own budget, and
        not of what they share with others: the common budget and envelopes."""
        payers = self._payers(who, envelopes)
        split = len(payers) - len(envelopes)
        own, alone = payers[split - 1], payers[split - 1].owner != COMMON
        request = refusals.request_cost(entry, own.terms.budget)
        if alone and decide(entry, [own], curves=entry.at is None) is None:
            return refusals.refusal(request, own.remainder, whose=f"{own.owner}'s")
        for envelope in payers[split:]:
            if decide(entry, [envelope], curves=entry.at is None) is None:
                whose = f"the envelope {envelope.owner.removeprefix(ENVELOPE)}'s"
                if alone:
                    return refusals.shared_refusal(request, own.remainder, who=own.owner, what=f"{whose} budget")
                cost = refusals.request_cost(entry, envelope.terms.budget)
                return refusals.refusal(cost, envelope.remainder, whose=whose)
        if alone:
            return refusals.shared_refusal(request, own.remainder, who=own.owner)
        return refusals.refusal(request, own.remainder, whose="the ledger's")


def _checked_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of envelopes, each once and in order."""
    if isinstance(names, str):
        raise InvalidArgument("envelopes", names, 'a list of names, such as ["project flu"]')
    for name in names:
        records.check_envelope(name)
    return tuple(sorted(set(names)))


def _resume_reading(earlier: Row, seq: int, *, who: str, key: str) -> Charge:
    fields = records.fields_of(earlier.body)
    plain = {} if fields is None else records.parse_object("{" + fields[6])
    if fields is None or plain.get("seen") != seq or plain.get("who") != who:
        raise LedgerError(f"key={key!r} already paid for something else (row {earlier.seq}); choose another key.")
    time, purpose = records.string(fields[3]), records.string(fields[4])
    return Charge(earlier.seq, time, purpose, who, key, earlier.hash, fields[6], False)


def _resume(paid: Row, event: Event, *, who: str | None, key: str, envelopes: Sequence[str]) -> Charge:
    charge = records.charge_of(paid)
    if charge is None or charge.event != event or charge.who != who or charge.envelopes != tuple(envelopes):
        raise LedgerError(f"key={key!r} already paid for another event (row {paid.seq}); choose another key.")
    return charge


def _filters(budget: Guarantee, *, basic_only: bool) -> Filters:
    if not basic_only:
        return filters_for(budget)
    if not isinstance(budget, PureDP | ApproxDP):
        raise InvalidArgument("basic_only", basic_only, "left out unless the budget is PureDP or ApproxDP")
    return basic(budget)
