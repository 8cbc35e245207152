"""Conversions never tighten: what an arrow promises is no better than a mechanism that keeps the original promise."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from deniable import conversions as c
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, Profile, PureDP, TradeOff

EPSILONS = (0.0, 0.05, 0.3, 0.7, 1.0, 1.7, 3.0, 6.0)


def profile(guarantee: Guarantee) -> Profile:
    """The best curve that a promise implies here."""
    if isinstance(guarantee, PureDP):
        return c.pure_to_profile(guarantee)
    if isinstance(guarantee, ApproxDP):
        return c.approx_to_profile(guarantee)
    if isinstance(guarantee, GDP):
        return c.gdp_to_profile(guarantee)
    if isinstance(guarantee, ZCDP):
        return c.zcdp_to_profile(guarantee)
    if isinstance(guarantee, TCDP):
        return c.tcdp_to_profile(guarantee)
    if isinstance(guarantee, RDP):
        return c.rdp_to_profile(guarantee)
    if isinstance(guarantee, FDP):
        return c.fdp_to_profile(guarantee)
    raise AssertionError(f"no curve for {guarantee!r}")


def witness(guarantee: Guarantee) -> Guarantee:
    """A promise with an exact curve that keeps the given one: itself, or the Gaussian that just satisfies it."""
    if isinstance(guarantee, ZCDP | TCDP):
        return GDP(math.sqrt(2 * guarantee.rho) * (1 - 1e-15))
    if isinstance(guarantee, RDP):
        return GDP(math.sqrt(2 * guarantee.epsilon / guarantee.order) * (1 - 1e-15))
    return guarantee


SOURCES: tuple[Guarantee, ...] = (
    PureDP(0.7), PureDP(3), ApproxDP(0.7, 1e-3), ApproxDP(2, 0), GDP(0.3), GDP(2), ZCDP(0.05), ZCDP(1),
    TCDP(0.05, 20), RDP(3, 0.2), RDP(20, 0.5), FDP(TradeOff([(0, 1), (0.2, 0.5), (0.5, 0.2), (1, 0)])),
)  # fmt: skip

ARROWS: dict[str, Callable[..., Guarantee]] = {
    "pure → approx": lambda g: c.pure_to_approx(g),
    "pure → approx at 0.3": lambda g: c.pure_to_approx(g, epsilon=0.3),
    "pure → f": lambda g: c.pure_to_fdp(g),
    "pure → RDP 2": lambda g: c.pure_to_rdp(g, order=2),
    "pure → RDP 40": lambda g: c.pure_to_rdp(g, order=40),
    "pure → zCDP": lambda g: c.pure_to_zcdp(g),
    "pure → tCDP": lambda g: c.pure_to_tcdp(g, omega=7),
    "pure → GDP": lambda g: c.pure_to_gdp(g),
    "approx → approx": lambda g: c.approx_to_approx(g, epsilon=0.2),
    "approx → f": lambda g: c.approx_to_fdp(g),
    "GDP → approx": lambda g: c.gdp_to_approx(g, delta=1e-3),
    "GDP → approx at 1": lambda g: c.gdp_to_approx(g, epsilon=1),
    "GDP → f": lambda g: c.gdp_to_fdp(g),
    "GDP → zCDP": lambda g: c.gdp_to_zcdp(g),
    "GDP → RDP": lambda g: c.gdp_to_rdp(g, order=5),
    "zCDP → approx": lambda g: c.zcdp_to_approx(g, delta=1e-3),
    "zCDP → classic": lambda g: c.zcdp_to_approx_classic(g, delta=1e-3),
    "zCDP → RDP": lambda g: c.zcdp_to_rdp(g, order=5),
    "zCDP → tCDP": lambda g: c.zcdp_to_tcdp(g, omega=5),
    "zCDP → f": lambda g: c.zcdp_to_fdp(g),
    "tCDP → approx": lambda g: c.tcdp_to_approx(g, delta=1e-3),
    "tCDP → RDP": lambda g: c.tcdp_to_rdp(g, order=5),
    "RDP → approx": lambda g: c.rdp_to_approx(g, delta=1e-3),
    "RDP → classic": lambda g: c.rdp_to_approx_classic(g, delta=1e-3),
    "RDP → tCDP": lambda g: c.rdp_to_tcdp(g),
    "RDP → f": lambda g: c.rdp_to_fdp(g),
    "f → approx": lambda g: c.fdp_to_approx(g, delta=0.01),
    "f → pure": lambda g: c.fdp_to_pure(g),
    "f → GDP": lambda g: c.fdp_to_gdp(g),
    "group of 2": lambda g: c.for_group(g, 2),
}

STARTS = {"pure": PureDP, "approx": ApproxDP, "GDP": GDP, "zCDP": ZCDP, "tCDP": TCDP, "RDP": RDP, "f": FDP}
CASES = [
    (name, source)
    for name in ARROWS
    for source in SOURCES
    if (name == "group of 2" and not (isinstance(source, RDP) and source.order < 4))
    or (name != "group of 2" and type(source) is STARTS[name.split(" →")[0]])
]


@pytest.mark.parametrize(("name", "source"), CASES, ids=[f"{name}: {source!r}" for name, source in CASES])
def test_an_arrow_never_tightens(name: str, source: Guarantee) -> None:
    before, after = profile(witness(source)), profile(ARROWS[name](source))
    for epsilon in EPSILONS:
        assert after.delta(epsilon) >= before.delta_bracket(epsilon).lower, epsilon


def test_approximate_zcdp_never_tightens() -> None:
    source = ApproxDP(0.7, 1e-3)
    through = c.approx_zcdp_to_approx(c.approx_to_approx_zcdp(source), delta=1e-2)
    assert float(through.delta) >= c.approx_to_profile(source).delta_bracket(through.epsilon).lower
    assert isinstance(c.approx_to_approx_zcdp(source), ApproxZCDP)
