"""Where exact parameters become floats: the one place that keeps them inside the range of floats, on the safe side.

Events hold exact fractions of any size; the engines compute with floats. A privacy loss of 10^−400 must not become 0
there, and one of 10^400 must not become an error. Between 10^−60 and 10^60 every parameter is a float to a unit in the
last place, and so are its square and its product with a count: inside that range nothing is touched. Outside of it

* a loss, a rate, a ρ or a leak that is too small is raised to the smallest one,
* a loss, a ρ or a count that is too large reveals everything, `Claimed(ApproxDP(0, 1))`,
* noise or categories beyond the range whose loss lies within it are replaced by the promise that they keep.

Each replacement costs at least as much as what it replaces. The curve is then one "of the bound".

>>> from deniable.accounting.fold import fold
>>> from deniable.events import Laplace
>>> within_floats(fold(Laplace(scale=10**400))).steps == fold(Laplace(scale=10**60)).steps
True
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from deniable.accounting.fold import Folded, gather, steps_of
from deniable.events import (
    Claimed,
    Composed,
    Correlated,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    ForGroup,
    Gaussian,
    Laplace,
    MatrixGaussian,
    Noise,
    RandomizedResponse,
    Repeated,
    Sampled,
    SampledWithoutReplacement,
    Shuffled,
    ToReplace,
)
from deniable.guarantees import ZCDP, ApproxDP, Guarantee, PureDP
from deniable.units import Relation

HUGE = 10**60
TINY = Fraction(1, HUGE)

_SIZES, _ORDERS = ("epsilon", "delta", "rho", "mu"), ("order", "omega")


def within_floats(folded: Folded) -> Folded:
    """A composition that costs at least as much and whose every parameter is a float of ordinary size."""
    relation = folded.relation
    found = [(_step(step), count) for step, count in folded.steps]
    found += [(Claimed(_promise(promise)), count) for promise, count in folded.renyi]
    found += [(Claimed(_promise(ApproxDP(0, delta, relation=relation))), count) for delta, count in folded.leaks]
    found = [(_revealing(relation), 1) if count > HUGE else (step, count) for step, count in found]
    square = folded.mu_squared
    if square > HUGE**2:
        found.append((_revealing(relation), 1))
        square = Fraction(0)
    # A step whose rate became 1 may be a sum, and may have joined the Gaussians.
    tame = gather(relation, ((part, n * count) for step, count in found for part, n in steps_of(step)))
    tame = replace(tame, mu_squared=tame.mu_squared + (max(square, TINY**2) if square else 0), tight=folded.tight)
    return folded if tame == folded else replace(tame, tight=False)


def _revealing(relation: Relation) -> Event:
    """Everything is told."""
    return Claimed(ApproxDP(0, 1, relation=relation))


def _step(event: Event) -> Event:
    """One step, its inner steps included."""
    if isinstance(event, Composed):
        return Composed(_step(part) for part in event.parts)
    if isinstance(event, Repeated):
        return _revealing(event.relation) if event.count > HUGE else Repeated(_step(event.event), event.count)
    if isinstance(event, Sampled):
        # A sample of a sample: a higher rate costs more. Rates that no float tells from 1 are 1.
        rate = max(event.rate, TINY)
        inner = _step(event.event)
        return inner if 1 - rate < Fraction(1, 2**52) else Sampled(inner, rate=rate)
    if isinstance(event, SampledWithoutReplacement):
        people = min(event.size, HUGE * event.batch)
        return SampledWithoutReplacement(_step(event.event), batch=event.batch, size=people)
    if isinstance(event, Shuffled):
        inner = _step(event.event)
        local = not isinstance(inner, Claimed) or isinstance(inner.guarantee, PureDP)
        return Shuffled(inner, size=event.size) if local else inner
    if isinstance(event, ForGroup):
        return _revealing(event.relation) if event.members > HUGE else ForGroup(_step(event.event), event.members)
    if isinstance(event, ToReplace):
        return ToReplace(_step(event.event))
    if isinstance(event, Correlated):
        square = event.contribution_squared / event.scale**2
        if square > HUGE**2:
            return _revealing(event.relation)
        return event if square >= TINY**2 else MatrixGaussian(HUGE, 1, 1, relation=event.relation)
    return _noise(event) if isinstance(event, Noise) else _leaf(event)


def _noise(event: Noise) -> Event:
    """Noise, by how far the answer moves in units of the scale."""
    moved, far = event.sensitivity / event.scale, (event.reach or event.sensitivity) / event.scale
    if max(moved, far) > HUGE:
        return _revealing(event.relation)
    plain = all(TINY <= size <= HUGE for size in (moved, event.scale, event.sensitivity))
    if plain:
        return event
    moved = max(moved, TINY)
    if isinstance(event, Gaussian | Laplace):
        reach = None if event.reach is None else max(far, TINY)
        return type(event)(1, moved, event.relation, reach=reach, coordinates=event.coordinates)
    if isinstance(event, DiscreteLaplace):
        return Claimed(PureDP(moved, relation=event.relation))
    # Canonne–Kamath–Steinke 2020, Thm 4: (Δ/σ)²/2-zCDP, in any dimension.
    return Claimed(ZCDP(moved**2 / 2, relation=event.relation))


def _leaf(event: Event) -> Event:
    """A step with an ε of its own, or a promise."""
    if isinstance(event, RandomizedResponse | ExponentialMechanism):
        if event.epsilon > HUGE:
            return _revealing(event.relation)
        if isinstance(event, ExponentialMechanism):
            return ExponentialMechanism(max(event.epsilon, TINY), event.relation)
        if event.categories > HUGE:
            return Claimed(PureDP(max(event.epsilon, TINY), relation=event.relation))
        return RandomizedResponse(max(event.epsilon, TINY), event.categories)
    return Claimed(_promise(event.guarantee)) if isinstance(event, Claimed) else event


def _promise(promise: Guarantee) -> Guarantee:
    """A promise with each of its sizes within the range; 0 stays 0. A promise at an order is one at all lower ones."""
    sizes = {name: value for name, value in promise.numbers.items() if name in _SIZES and value}
    if any(value > HUGE for value in sizes.values()):
        return ApproxDP(0, 1, relation=promise.relation)
    orders = {name: min(value, HUGE) for name, value in promise.numbers.items() if name in _ORDERS}
    return replace(promise, **orders, **{name: max(value, TINY) for name, value in sizes.items()})
