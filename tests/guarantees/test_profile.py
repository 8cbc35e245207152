"""What a profile reads off its curve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from deniable.errors import InvalidArgument
from deniable.guarantees import Bracket, Profile, TradeOff
from deniable.units import Relation, Unit


@dataclass(frozen=True)
class Tests:
    """The curve of a trade-off function, exactly."""

    f: TradeOff
    method = "conjugate"

    def delta_bracket(self, epsilon: float) -> Bracket:
        return Bracket(self.f.delta(epsilon), self.f.delta(epsilon))

    def epsilon_bracket(self, delta: float) -> Bracket:
        return Bracket(self.f.epsilon(delta), self.f.epsilon(delta))


Tests.__test__ = False  # type: ignore[attr-defined]
PROFILE = Profile(Tests(TradeOff.of_lines([(2, 0.01), (8, 0)])), Relation.ADD_REMOVE, Unit.of("patient_id"))


@pytest.mark.parametrize("alpha", [0, 1e-9, 0.001, 0.05, 0.1, 0.3, 0.5, 0.9, 0.999, 1])
def test_the_trade_off_comes_back(alpha: float) -> None:
    f = TradeOff.of_lines([(2, 0.01), (8, 0)])
    assert float(f(alpha)) - 1e-7 <= PROFILE.tradeoff(alpha) <= float(f(alpha))


def test_cost_is_rounded_up_and_names_the_unit() -> None:
    assert PROFILE.cost(0.01) == "ε ≤ 0.70, δ = 0.01, one patient added or removed"
    closed = Profile(Tests(TradeOff.of_lines([(2, 0.5)])), Relation.REPLACE)
    assert closed.cost(1e-6) == "ε ≤ ∞, δ = 1e-6, one record replaced by another"
    assert closed.epsilon(1e-6) == math.inf


@pytest.mark.parametrize(("method", "value"), [("epsilon", 1.5), ("epsilon", math.nan), ("delta", -1), ("tradeoff", 2)])
def test_bad_input(method: str, value: float) -> None:
    with pytest.raises(InvalidArgument):
        getattr(PROFILE, method)(value)


def test_a_bracket_has_a_width() -> None:
    assert Bracket(1.0, 1.5).width == 0.5
