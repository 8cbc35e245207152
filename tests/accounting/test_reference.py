"""Every reference value that is about something done lies inside the accountant's bracket, and the bracket is narrow.

Two millionths wide at most: all but one of them are within one.
"""

from __future__ import annotations

import warnings
from fractions import Fraction

import pytest

from deniable.accounting.accountant import account
from tests.reference.values import Case, cases

ABOUT_EVENTS = [case for case in cases() if case.has_event and case.family != "advanced_composition"]


def test_there_are_enough_cases() -> None:
    assert len(ABOUT_EVENTS) >= 60


@pytest.mark.parametrize("case", ABOUT_EVENTS, ids=str)
def test_the_bracket_contains_the_value(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        profile = account(case.event)
        slack = Fraction(case.relative_error) * abs(case.exact_value)
        if case.unknown == "beta":
            missed = profile.tradeoff(case.alpha)
            assert missed <= case.exact_value + slack, "a trade-off is a proven lower end"
            assert missed >= case.value * (1 - 1e-3)
            return
        found = (
            profile.epsilon_bracket(case.delta) if case.unknown == "epsilon" else profile.delta_bracket(case.epsilon)
        )
    assert Fraction(found.lower) <= case.exact_value + slack
    assert Fraction(found.upper) >= case.exact_value - slack
    assert found.width <= max(3e-6 * found.upper, 1e-300)
