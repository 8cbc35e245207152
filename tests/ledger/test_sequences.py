"""A law: whatever was charged and allotted in whatever order, `verify` agrees, and nobody has more left than is true.

A budget of an analyst is compared with a ledger of their own that was charged, from the start, with what they were
told. About 20 s; a longer form runs under `make soak`.
"""

from __future__ import annotations

import pickle
import random
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest

from deniable.errors import BudgetExceeded, LedgerError
from deniable.events import Claimed, DiscreteLaplace, Event, Gaussian, Laplace
from deniable.guarantees import GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP
from deniable.ledger import Ledger

BUDGETS: list[Guarantee] = [
    PureDP(2), ApproxDP(2, 1e-6), ApproxDP(3, 1e-5), ZCDP(0.5), ApproxZCDP(0.5, 1e-6), GDP(1), RDP(8, 1), TCDP(0.2, 20),
]  # fmt: skip
SMALL: list[Guarantee] = [
    PureDP(0.5), PureDP(1), ApproxDP(1, 1e-7), ApproxDP(0.3, 1e-8), ZCDP(0.1), ApproxZCDP(0.1, 1e-8), GDP(0.4),
    RDP(8, 0.3), TCDP(0.1, 20), PureDP(5),
]  # fmt: skip
EVENTS: list[Event] = [
    Laplace(scale=7), Laplace(scale=60) * 3, Laplace(scale=40), DiscreteLaplace(scale=13, sensitivity=2),
    Claimed(PureDP(0.05)),
    Claimed(ApproxDP(0.1, 1e-9)), Claimed(ApproxDP(0.25, 5e-7)), Gaussian(scale=8), Gaussian(scale=20) * 2,
    Gaussian(scale=2).sampled(rate=0.01), Claimed(ZCDP(0.002)), Laplace(scale=1), Laplace(scale=9) + Gaussian(scale=9),
]  # fmt: skip
NAMES = ["ana", "bob", "who", "time", '","who":null', "Zoë", None, None]


def play(path: Path | str, folder: Path, *, seed: int, steps: int) -> None:
    rng = random.Random(seed)
    budget = rng.choice(BUDGETS)
    pure = isinstance(budget, PureDP | ApproxDP)
    ledger = Ledger.create(path, unit="row", budget=budget, basic_only=pure and rng.random() < 0.2)
    for step in range(steps):
        kind, known = rng.random(), list(ledger.analysts())
        who = rng.choice(known) if known and kind < 0.6 else rng.choice(NAMES)
        with suppress(LedgerError):  # a refusal, which must leave no trace
            if kind < 0.7:
                event = rng.choice(EVENTS)
                at = ApproxDP(1, 1e-7) if rng.random() < 0.1 and event == Laplace(scale=7) else None
                key = f"k{rng.randrange(step + 1)}" if rng.random() < 0.2 else None
                ledger.charge(event, purpose="q", who=who, key=key, at=at)
            elif kind < 0.85 and who is not None and step > rng.randrange(12):
                ledger.allot(who, rng.choice(SMALL))
            elif kind < 0.92:
                ledger.close()
            elif kind < 0.96:
                ledger.close()
                ledger = Ledger.open(path)
            else:
                ledger = pickle.loads(pickle.dumps(ledger))
        if rng.random() < 0.1:
            ledger.verify()
    head = ledger.verify()
    check(ledger, None, folder / "common")
    for number, who in enumerate(ledger.analysts()):
        check(ledger, who, folder / f"own {number}")
    exported = folder / "export.jsonl"
    exported.write_text("".join(f"{line}\n" for line in ledger.export()))
    record = Ledger.read_export(exported, head=head)
    assert record.head() == head
    assert record.analysts() == ledger.analysts()
    assert list(record.charges()) == list(ledger.charges())
    assert [record.remaining(who=w) for w in (None, *record.analysts())] == [
        ledger.remaining(who=w) for w in (None, *ledger.analysts())
    ]
    ledger.close()


def check(ledger: Ledger, who: str | None, path: Path) -> None:
    """What remains is what a ledger says that was charged, from the start, with what its owner was told."""
    budget = ledger.budget if who is None else ledger.analysts()[who]
    basic_only = who is None and len(ledger._header.terms.filters.families) == 1 and isinstance(budget, ApproxDP)
    with Ledger.create(path, unit="row", budget=budget, basic_only=basic_only) as own:
        for charge in ledger.charges():
            if who is None or charge.who in (who, None):
                own.charge(charge.event, purpose=charge.purpose, at=charge.at)
        assert own.remaining() == ledger.remaining(who=who)
        assert own.room() == ledger.room(who=who)
    if isinstance(budget, PureDP):
        told = [c.event for c in ledger.charges() if who is None or c.who in (who, None)]
        assert ledger.remaining(who=who).numbers["epsilon"] <= budget.epsilon - sum(map(pure_epsilon, told))


def pure_epsilon(event: Event) -> Fraction:
    from deniable.accounting.filters import cost

    epsilon = cost(event).epsilon
    assert epsilon is not None
    return epsilon


@pytest.mark.parametrize("seed", range(12))
def test_verify_agrees_with_every_sequence(path: Path | str, tmp_path: Path, seed: int) -> None:
    play(path, tmp_path, seed=seed, steps=40)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 160))
def test_verify_agrees_with_many_longer_sequences(path: Path | str, tmp_path: Path, seed: int) -> None:
    play(path, tmp_path, seed=seed, steps=150)


def test_the_sequences_charge_refuse_and_allot(tmp_path: Path) -> None:
    """The law above would hold of a ledger that refuses everything."""
    charged, allotted = 0, 0
    for seed in range(6):
        place = tmp_path / str(seed)
        place.mkdir()
        play(place / "a.ledger", place, seed=seed, steps=40)
        with Ledger.open(place / "a.ledger") as ledger:
            charged += len(list(ledger.charges()))
            allotted += len(ledger.analysts())
    assert charged > 60
    assert allotted > 5


def test_a_refusal_crosses_processes() -> None:
    refusal = BudgetExceeded("too much", requested=PureDP(2), remaining=PureDP(1), largest=None)
    again = pickle.loads(pickle.dumps(refusal))
    assert (str(again), again.requested, again.remaining, again.largest) == ("too much", PureDP(2), PureDP(1), None)
