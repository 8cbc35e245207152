"""Every arrow takes promises of its own kind only: read as another kind, a promise would come out too strong."""

from __future__ import annotations

import inspect
from decimal import Decimal
from typing import Any

import pytest

from deniable import conversions, textbook
from deniable.conversions.arrows import KINDS
from deniable.errors import DeniableError, InvalidArgument
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, PureDP, TradeOff

FAR = Decimal("1e-3000")
PROMISES: list[Any] = [
    PureDP(1), ApproxDP(1, 1e-3), ZCDP(1), ApproxZCDP(1, 1e-3), TCDP(1, 2), RDP(2, 1), GDP(1),
    FDP(TradeOff([(0, 1), (0.3, 0.4), (0.4, 0.3), (1, 0)])),
]  # fmt: skip
OTHER = {"delta": 1e-5, "order": 2, "omega": 2, "alpha": 0.1}
ARROWS = {
    name: kind.__name__
    for name in conversions.__all__
    for kind in KINDS.values()
    if str(next(iter(inspect.signature(getattr(conversions, name)).parameters.values())).annotation) == kind.__name__
}


def arguments(name: str, value: Any = None) -> dict[str, Any]:
    needed = list(inspect.signature(getattr(conversions, name)).parameters.values())[1:]
    found = {one.name: OTHER.get(one.name, 1) for one in needed if one.default is one.empty}
    return found if value is None else dict.fromkeys(found, value)


@pytest.mark.parametrize("name", ARROWS)
def test_other_kinds_are_refused(name: str) -> None:
    others = [promise for promise in PROMISES if not isinstance(promise, KINDS[ARROWS[name]])]
    assert len(others) >= len(PROMISES) - 1
    for other in [*others, 1.0, "x"]:
        with pytest.raises(InvalidArgument, match=ARROWS[name]):
            getattr(conversions, name)(other, **arguments(name))


@pytest.mark.parametrize("name", ["rdp_to_approx", "rdp_to_pure", "rdp_to_zcdp"])
def test_curves_are_no_other_promises(name: str) -> None:
    with pytest.raises(InvalidArgument, match="RDP"):
        getattr(conversions, name)(TCDP(1, 2), **arguments(name))


COMPOSED = {"compose_zcdp": ZCDP, "compose_basic": PureDP | ApproxDP, "compose_gdp": GDP, "compose_tcdp": TCDP}
REPEATED = ("advanced_half", "advanced_tanh", "advanced_exponential", "repeat_optimal")


@pytest.mark.parametrize("name", COMPOSED)
def test_theorems_compose_their_own_kind(name: str) -> None:
    for other in (promise for promise in PROMISES if not isinstance(promise, COMPOSED[name])):
        for parts in ([other, other], (other,), iter([other])):
            with pytest.raises(InvalidArgument, match="must be"):
                getattr(textbook, name)(parts)


@pytest.mark.parametrize("name", REPEATED)
def test_theorems_repeat_their_own_kind(name: str) -> None:
    more = {} if name == "repeat_optimal" else {"slack": 1e-6}
    for other in PROMISES[2:]:
        with pytest.raises(InvalidArgument, match="PureDP or ApproxDP"):
            getattr(textbook, name)(other, count=3, **more)


@pytest.mark.parametrize("name", ARROWS)
def test_far_numbers_are_refused_in_words(name: str) -> None:
    far: list[Any] = [
        GDP(FAR),
        ZCDP(FAR),
        PureDP(FAR),
        TCDP(FAR, 2),
        RDP(2, FAR),
        ZCDP(1 / FAR),
        TCDP(1 / FAR, 2),
        GDP(1 / FAR),
    ]
    for promise in (one for one in [*far, *PROMISES] if isinstance(one, KINDS[ARROWS[name]])):
        for value in (None, FAR):
            try:
                str(getattr(conversions, name)(promise, **arguments(name, value)))
            except DeniableError as refusal:
                assert str(refusal)  # noqa: PT017
