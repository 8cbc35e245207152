"""Events that enter the basic filter at a point of their curve: plans calibrated to what remains."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import pytest

from deniable.errors import BudgetExceeded, InvalidArgument
from deniable.events import Claimed, Event, Gaussian, Laplace
from deniable.guarantees import ApproxDP, Bracket, Profile, PureDP
from deniable.ledger import Ledger, points
from deniable.units import Relation


class Exact:
    """The Gaussian's exact curve, with brackets a trillionth wide."""

    method = "test"

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def _delta(self, epsilon: float) -> float:
        near, far = epsilon / self.mu - self.mu / 2, epsilon / self.mu + self.mu / 2
        return (math.erfc(near / math.sqrt(2)) - math.exp(epsilon) * math.erfc(far / math.sqrt(2))) / 2

    def delta_bracket(self, epsilon: float) -> Bracket:
        return Bracket(self._delta(epsilon) * (1 - 1e-9), self._delta(epsilon) * (1 + 1e-9))

    def epsilon_bracket(self, delta: float) -> Bracket:
        low, high = 0.0, 100.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta_bracket(middle).upper > delta else (low, middle)
        return Bracket(low, high)


@pytest.fixture(autouse=True)
def curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """An accountant for this page: it knows Gaussians."""

    def curve(event: Event) -> Profile | None:
        if isinstance(event, Gaussian):
            return Profile(Exact(float(event.sensitivity / event.scale)), Relation.ADD_REMOVE)
        return None

    monkeypatch.setattr(points, "curve", curve)


def calibrated(target: ApproxDP) -> Gaussian:
    """The least noise that keeps a promise, to five figures."""
    low, high = 1e-3, 1e6
    for _ in range(60):
        middle = math.sqrt(low * high)
        fits = Exact(1 / middle).delta_bracket(float(target.epsilon)).upper <= target.delta
        low, high = (low, middle) if fits else (middle, high)
    return Gaussian(scale=round(high * 1.00001, 5))


def test_a_plan_calibrated_to_a_fresh_ledger_is_accepted(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a.ledger", unit="row", budget=ApproxDP(3, 1e-6)) as ledger:
        room = ledger.room()
        assert isinstance(room, ApproxDP)
        plan = calibrated(room)
        charge = ledger.charge(plan, purpose="training")
        assert charge.at is not None
        assert charge.at.delta == room.delta
        assert 3 - Fraction(1, 1000) < charge.at.epsilon <= 3
        assert not ledger.fits(Claimed(PureDP(0.01)))
        ledger.verify()


def test_a_plan_calibrated_to_what_queries_left_is_accepted(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a.ledger", unit="row", budget=ApproxDP(3, 1e-6)) as ledger:
        ledger.charge(Laplace(scale=2), purpose="a query")
        room = ledger.room()
        assert isinstance(room, ApproxDP)
        assert room == ApproxDP(2.5, 5e-7, unit="row")
        plan = calibrated(room)
        assert ledger.fits(plan)
        assert ledger.charge(plan, purpose="training").at is not None
        assert ledger.remaining().numbers["epsilon"] < Fraction(1, 100)
        ledger.verify()


def test_a_plan_that_needs_a_little_more_is_refused(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a.ledger", unit="row", budget=ApproxDP(3, 1e-6)) as ledger:
        ledger.charge(Laplace(scale=2), purpose="a query")
        with pytest.raises(BudgetExceeded) as refused:
            ledger.charge(calibrated(ApproxDP(2.51, 5e-7)), purpose="training")
        assert refused.value.largest == ApproxDP(2.5, 5e-7, unit="row")


def test_a_stated_point_keeps_the_basic_filter_alive(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a.ledger", unit="row", budget=ApproxDP(3, 1e-6)) as ledger:
        plan = calibrated(ApproxDP(1, 1e-7))
        assert ledger.charge(plan, purpose="training", at=ApproxDP(1, 1e-7)).at == ApproxDP(1, 1e-7)
        ledger.charge(Laplace(scale=0.5), purpose="ε = 2")
        ledger.verify()


def test_a_promise_that_the_event_does_not_keep_is_refused(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a.ledger", unit="row", budget=ApproxDP(3, 1e-6)) as ledger:
        plan = calibrated(ApproxDP(1, 1e-7))
        for at in (ApproxDP(0.99, 1e-7), ApproxDP(1, 9e-8), PureDP(1)):
            with pytest.raises(InvalidArgument, match="a promise that the event keeps"):
                ledger.charge(plan, purpose="training", at=at)
        assert ledger.head().seq == 0


def test_a_float_below_the_decimal_is_no_promise(tmp_path: Path) -> None:
    """Three steps of 0.1 keep 0.3, and not the float that is called so, which is a little less."""
    with Ledger.create(tmp_path / "a.ledger", unit="row", budget=PureDP(1)) as ledger:
        ledger.charge(Laplace(10) * 3, purpose="three", at=PureDP(0.3))
        with pytest.raises(InvalidArgument, match="a promise that the event keeps"):
            ledger.charge(Laplace(10) * 3, purpose="three", at=PureDP(Fraction(0.3)))


def test_a_point_must_fit_every_account(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a.ledger", unit="row", budget=ApproxDP(3, 1e-6)) as ledger:
        ledger.allot("ana", ApproxDP(1, 1e-7))
        charge = ledger.charge(calibrated(ApproxDP(1, 1e-7)), purpose="training", who="ana")
        assert charge.at is not None
        assert charge.at.delta == Fraction(1, 10**7)
        assert not ledger.fits(calibrated(ApproxDP(0.5, 1e-8)), who="ana")
        ledger.verify()
