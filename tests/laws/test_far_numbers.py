"""Numbers far beyond floats: every mechanism, event and ledger has an answer for them, or one sentence of its own."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from deniable import mechanisms as dm
from deniable.calibration import calibrate
from deniable.errors import BudgetExceeded, DeniableError, InvalidArgument
from deniable.events import Event, Gaussian, Laplace
from deniable.guarantees import GDP, RDP, TCDP, ZCDP, ApproxDP, Guarantee, PureDP
from deniable.ledger import Ledger
from deniable.units import ADD_REMOVE
from tests.laws.examples import EXAMPLES
from tests.laws.test_mechanism_arguments import MAKERS

FAR: list[Any] = [Decimal("1e3000"), Decimal("1e-3000"), 10**400, Fraction(1, 10**400), 1e308, 5e-324]
NUMBERS = ("epsilon", "delta", "sensitivity", "step", "threshold", "width", "bias", "size", "candidates", "positives")
BUDGETS: list[Guarantee] = [PureDP(3), ApproxDP(3, 1e-6), ZCDP(1), GDP(1), RDP(4, 1), TCDP(1, 5)]


@pytest.mark.parametrize("maker", MAKERS)
def test_a_mechanism_refuses_in_words(maker: str) -> None:
    taken = set(inspect.signature(getattr(dm, maker)).parameters)
    for name in taken.intersection(NUMBERS):
        for value in FAR:
            try:
                made = MAKERS[maker](**{name: value})
                made.event.to_json()
            except DeniableError as refusal:
                assert str(refusal)  # noqa: PT017  any refusal will do, and a mechanism too


@pytest.mark.parametrize("confidence", [1e-300, Fraction(1, 10**3000), 1e-17])
def test_any_confidence_has_an_error(confidence: Any) -> None:
    for mechanism in (dm.laplace(sensitivity=1, epsilon=1), dm.count(epsilon=1), dm.mode(epsilon=1, delta=1e-6)):
        assert mechanism.error(confidence) >= 0


def test_helpers_refuse_in_words() -> None:
    for value in FAR:
        for call in (
            lambda: dm.analytic_scale(sensitivity=value, epsilon=1, delta=1e-6),  # noqa: B023
            lambda: dm.analytic_scale(sensitivity=1, epsilon=1, delta=value),  # noqa: B023
            lambda: dm.classic_scale(sensitivity=1, epsilon=value, delta=1e-6),  # noqa: B023
            lambda: dm.size(dm.mean, error=value, epsilon=1, bounds=(0, 1)),  # noqa: B023
            lambda: dm.central_and_local(epsilon=value, error=0.1),  # noqa: B023
            lambda: dm.histogram_or_ptr(epsilon=value, delta=1e-6, keys=3),  # noqa: B023
            lambda: dm.auction_price(prices=[1, value], epsilon=1).error(),  # noqa: B023
            lambda: dm.simplex([0.1, 0.2], total=value),  # noqa: B023
        ):
            try:
                call()
            except DeniableError as refusal:
                assert str(refusal)  # noqa: PT017


def test_a_target_that_no_scale_meets_is_refused_in_words() -> None:
    with pytest.raises(DeniableError):
        calibrate(lambda scale: Gaussian(scale=scale), GDP(Decimal("1e-3000")))


def far_events() -> Iterator[Event]:
    """Every event under ADD_REMOVE, with each of its numbers in turn far out."""
    for event in (each for several in EXAMPLES.values() for each in several[:1] if each.relation is ADD_REMOVE):
        for one in fields(event):
            known = getattr(event, one.name)
            if isinstance(known, int | Fraction) and not isinstance(known, bool):
                for value in FAR[:2]:
                    try:
                        yield type(event)(
                            **{each.name: getattr(event, each.name) for each in fields(event)} | {one.name: value}
                        )
                    except DeniableError:
                        continue


def test_a_ledger_pays_or_refuses_in_words(tmp_path: Path) -> None:
    groups = [Gaussian(scale=value).sampled(rate=0.1).for_group(3) for value in FAR]
    events = [*far_events(), *groups]
    assert len(events) > 10
    for budget in BUDGETS:
        with Ledger.create(tmp_path / f"{type(budget).__name__}.ledger", unit="row", budget=budget) as ledger:
            for event in events:
                try:
                    ledger.charge(event, purpose="far out")
                except DeniableError as refusal:
                    assert str(refusal)  # noqa: PT017
            ledger.verify()
    with Ledger.open(tmp_path / "GDP.ledger") as ledger, pytest.raises(BudgetExceeded, match="requested"):
        ledger.charge(Gaussian(scale=Decimal("1e-3000")), purpose="far out")


@pytest.mark.parametrize(
    "budget", [GDP(Decimal("1e3000")), ApproxDP(10**400, 1e-6), ApproxDP(1, Decimal("1e-3000"))], ids=["μ", "ε", "δ"]
)
def test_a_budget_is_within_floats(tmp_path: Path, budget: Guarantee) -> None:
    with pytest.raises(InvalidArgument, match="for a budget"):
        Ledger.create(tmp_path / "a.ledger", unit="row", budget=budget)


def test_counts_that_multiply_stay_numbers() -> None:
    with pytest.raises(InvalidArgument, match="count"):
        _ = (Laplace(scale=1) * 10**3000) * 10**3000
