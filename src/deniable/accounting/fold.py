"""The one place that composes: any event becomes a canonical multiset of steps.

A rule for a mechanism never sees a count. `fold` walks sums, repetitions, groups and the move to REPLACE, and leaves

* `mu_squared`, the sum of (sensitivity/scale)² over everything that is exactly Gaussian (Dong–Roth–Su 2019, Cor. 3.3),
* `steps`, what is left, each step once with its count, in an order that depends on nothing but the steps,
* `leaks`, probabilities δ with which a step may simply fail: an (ε, δ) promise is an ε promise composed with a leak of
  δ (Kairouz–Oh–Viswanath 2015), and a δ-approximate ρ-zCDP promise is a ρ promise composed with one (conditioning on
  the good event, which may be shrunk to probability exactly 1 − δ),
* `renyi`, promises of which only Rényi divergences are known; these add order by order (Mironov 2017, Prop. 1).

The total curve is that of the product of all of them. Groups and the move to REPLACE go inside a sum: a step's promise
for k units is a promise under the relation "k units apart", and promises under one relation compose (theory of
adaptive composition does not care which relation it is). Inside a single step they are exact where the noise allows it:

| step | k units at once |
|---|---|
| Gaussian, Laplace, discrete Gaussian, discrete Laplace | k × sensitivity: the triangle inequality |
| exponential mechanism | k × ε: the utility moves by k sensitivities |
| k-ary randomized response | k reports change: k steps |
| PureDP, ZCDP, GDP | kε, k²ρ, kμ |
| ApproxDP | kε and δ(e^{kε} − 1)/(e^ε − 1), rounded up |
| anything else | `ForGroup` stays around the step; `pairs` bounds it along a path of neighbours |

>>> from deniable.events import Gaussian, Laplace
>>> found = fold(Gaussian(scale=2) * 8 + Laplace(scale=4, sensitivity=2).for_group(2) * 3)
>>> found.mu_squared, found.steps
(Fraction(2, 1), ((Laplace(scale=1), 3),))
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from deniable.conversions.group import for_group
from deniable.errors import NotSupported
from deniable.events import (
    Claimed,
    Composed,
    Correlated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    ForGroup,
    Gaussian,
    Laplace,
    Noise,
    RandomizedResponse,
    Repeated,
    Sampled,
    SampledWithoutReplacement,
    Shuffled,
    ToReplace,
)
from deniable.guarantees import FDP, GDP, RDP, TCDP, ZCDP, ApproxDP, ApproxZCDP, Guarantee, PureDP, TradeOff
from deniable.units import RECORD, Relation

Counted = tuple[tuple[Event, int], ...]


@dataclass(frozen=True)
class Folded:
    """A composition in canonical form. Its curve is that of the product of its four parts."""

    relation: Relation
    mu_squared: Fraction = Fraction(0)
    """All that is Gaussian, as one: μ² (exact). 0 when nothing is."""

    steps: Counted = ()
    """Leaves, sampled and shuffled steps, each with its count; equal steps are merged."""

    leaks: tuple[tuple[Fraction, int], ...] = ()
    """Probabilities of outright failure, each with its count."""

    renyi: tuple[tuple[Guarantee, int], ...] = ()
    """Promises known by Rényi divergences only, each with its count."""

    tight: bool = True
    """Whether every pair is one that the described step can attain (no claimed guarantee, no group bound)."""


def fold(event: Event) -> Folded:
    """The canonical form of an event."""
    return gather(event.relation, steps_of(event))


def steps_of(event: Event) -> Iterator[tuple[Event, int]]:
    """The steps of an event with their counts, not yet merged."""
    return _steps(event, 1, 1, False)


def gather(relation: Relation, found: Iterable[tuple[Event, int]]) -> Folded:
    """Equal steps merged, Gaussians added up, leaks and Rényi promises set apart."""
    mu_squared = Fraction(0)
    steps: Counter[Event] = Counter()
    leaks: Counter[Fraction] = Counter()
    renyi: Counter[Guarantee] = Counter()
    tight = True
    for step, count in found:
        if _is_free(step):
            continue
        squares = gaussian_squares(step)
        promise = step.guarantee if isinstance(step, Claimed) else None
        tight = tight and promise is None and not isinstance(step, ForGroup | ToReplace)
        if squares is not None:
            mu_squared += count * squares[0]
        elif isinstance(promise, ApproxDP | ApproxZCDP):
            leaks[promise.delta] += count
            if isinstance(promise, ApproxDP) and promise.epsilon:
                steps[Claimed(PureDP(promise.epsilon, relation=relation))] += count
            elif isinstance(promise, ApproxZCDP) and promise.rho:
                renyi[ZCDP(promise.rho, relation=relation)] += count
        elif isinstance(promise, FDP):
            sure, rest_of_it = _without_leak(promise.tradeoff.symmetrized())
            leaks[sure] += count
            if rest_of_it != TradeOff.perfect():
                steps[Claimed(FDP(rest_of_it, relation=relation))] += count
        elif isinstance(promise, ZCDP | TCDP | RDP):
            renyi[promise] += count
        else:
            steps[step] += count
    zcdp = sum((p.rho * n for p, n in renyi.items() if isinstance(p, ZCDP)), Fraction(0))
    others = [(p, n) for p, n in renyi.items() if not isinstance(p, ZCDP)]
    if zcdp:
        others.append((ZCDP(zcdp, relation=relation), 1))
    return Folded(
        relation=relation,
        mu_squared=mu_squared,
        steps=tuple(sorted(steps.items(), key=lambda item: (type(item[0]).__name__, item[0].to_json()))),
        leaks=tuple(sorted((delta, n) for delta, n in leaks.items() if delta)),
        renyi=tuple(sorted(others, key=lambda item: repr(item[0]))),
        tight=tight,
    )


def _is_free(event: Event) -> bool:
    """Whether neighbours have the same output law: a promise of nothing at all, and what is made of such promises."""
    if isinstance(event, Sampled | SampledWithoutReplacement | Shuffled | ForGroup | ToReplace | Repeated):
        return _is_free(event.event)
    if isinstance(event, Composed):
        return all(map(_is_free, event.parts))
    if not isinstance(event, Claimed):
        return False
    promise = event.guarantee
    if isinstance(promise, FDP):
        return promise.tradeoff == TradeOff.perfect()
    # At an order above 1, a Rényi divergence of 0 is equality.
    return not any(value for name, value in promise.numbers.items() if name not in ("order", "omega"))


def _without_leak(tradeoff: TradeOff) -> tuple[Fraction, TradeOff]:
    """A symmetric trade-off function as a leak of 1 − f(0) and what is left: every corner over f(0)."""
    kept = tradeoff.corners[0][1]
    if not kept:
        return Fraction(1), TradeOff.perfect()
    inside = [(a / kept, b / kept) for a, b in tradeoff.corners if a <= kept]
    return 1 - kept, TradeOff(inside)


def gaussian_squares(event: Event) -> tuple[Fraction, Fraction] | None:
    """(sensitivity/scale)² and (reach/scale)² of a step that is exactly Gaussian, sums and repetitions included.

    The second one is how far a unit's presence moves the answer. Under ADD_REMOVE and ZERO_OUT it is the sensitivity;
    under REPLACE it is the reach that was stated, and half the sensitivity for correlated noise. Of a claimed
    guarantee, or of noise that states none, it is not known; the sensitivity stands there and must not be relied on.
    """
    if isinstance(event, Gaussian):
        reach = event.sensitivity if event.reach is None else event.reach
        return (event.sensitivity / event.scale) ** 2, (reach / event.scale) ** 2
    if isinstance(event, Correlated):
        squared = event.contribution_squared / event.scale**2
        return (4 * squared if event.relation is Relation.REPLACE else squared), squared
    if isinstance(event, Claimed) and isinstance(event.guarantee, GDP):
        return event.guarantee.mu**2, event.guarantee.mu**2
    if isinstance(event, Repeated):
        inner = gaussian_squares(event.event)
        return None if inner is None else (inner[0] * event.count, inner[1] * event.count)
    if isinstance(event, Composed):
        known = [squares for squares in map(gaussian_squares, event.parts) if squares is not None]
        if len(known) < len(event.parts):
            return None
        return sum((s for s, _ in known), Fraction(0)), sum((r for _, r in known), Fraction(0))
    return None


def _steps(event: Event, count: int, group: int, moved: bool) -> Iterator[tuple[Event, int]]:
    """The steps of an event, with `group` units and the move to REPLACE pushed down to each of them."""
    if isinstance(event, Composed):
        for part in event.parts:
            yield from _steps(part, count, group, moved)
    elif isinstance(event, Repeated):
        yield from _steps(event.event, count * event.count, group, moved)
    elif isinstance(event, ForGroup):
        yield from _steps(event.event, count, group * event.members, moved)
    elif isinstance(event, ToReplace):
        yield from _steps(event.event, count, group, True)
    elif _is_everyone(event):
        yield from _steps(event.event, count, group, moved)  # type: ignore[attr-defined]
    elif isinstance(event, Sampled | SampledWithoutReplacement | Shuffled):
        for step in _wrapped(event, group, moved):
            yield step, count
    else:
        # One unit that leaves and one that enters are two units of the add/remove relation.
        for step, times in _leaf(event, 2 * group if moved else group, Relation.REPLACE if moved else event.relation):
            yield step, times * count


def _is_everyone(event: Event) -> bool:
    """A sampling that leaves nobody out."""
    if isinstance(event, Sampled):
        return event.rate == 1
    return isinstance(event, SampledWithoutReplacement) and event.batch == event.size


def _wrapped(event: Event, group: int, moved: bool) -> Iterator[Event]:
    """A sampled or shuffled step in canonical form; groups stay outside, where a bound takes care of them."""
    step = event
    if isinstance(event, Sampled):
        inner = _replacing(event.event) if moved else event.event
        moved = moved and inner is None
        step = Sampled(normal(event.event if inner is None else inner), rate=event.rate)
    elif isinstance(event, SampledWithoutReplacement):
        step = SampledWithoutReplacement(normal(event.event), batch=event.batch, size=event.size)
    if moved:
        step = ToReplace(step)
    yield step if group == 1 else ForGroup(step, group)


def _replacing(event: Event) -> Event | None:
    """Added noise, when one unit leaves and one enters: each moves the answer by its sensitivity at most."""
    if isinstance(event, Noise):
        reach = event.sensitivity
        return type(event)(event.scale, 2 * reach, Relation.REPLACE, reach=reach, coordinates=2 * event.coordinates)
    if isinstance(event, Repeated):
        inner = _replacing(event.event)
        return None if inner is None else inner * event.count
    if isinstance(event, Composed):
        parts = [part for part in map(_replacing, event.parts) if part is not None]
        return Composed(parts) if len(parts) == len(event.parts) else None
    return None


def normal(event: Event) -> Event:
    """A step in units of its sensitivity, so that equal laws compare equal. Sums and repetitions are kept."""
    if isinstance(event, Gaussian | Laplace):
        reach = None if event.reach is None else event.reach / event.sensitivity
        return type(event)(event.scale / event.sensitivity, 1, event.relation, reach=reach)
    return event


def _leaf(event: Event, group: int, relation: Relation) -> Iterator[tuple[Event, int]]:
    """One mechanism for a group, under a relation, with how often it then happens."""
    if isinstance(event, Correlated | Gaussian):
        # μ² = a/b exactly, as a·b Gaussians of scale b.
        a, b = (gaussian_squares(event) or (Fraction(0), Fraction(0)))[0].as_integer_ratio()
        yield Gaussian(b, group, relation), a * b
    elif isinstance(event, Laplace):
        yield Laplace(event.scale / (event.sensitivity * group), 1, relation), 1
    elif isinstance(event, DiscreteLaplace):
        yield DiscreteLaplace(event.scale, event.sensitivity * group, relation), 1
    elif isinstance(event, DiscreteGaussian):
        yield from _discrete_gaussian(event, group, relation)
    elif isinstance(event, RandomizedResponse):
        yield event, group
    elif isinstance(event, ExponentialMechanism):
        yield ExponentialMechanism(event.epsilon * group, relation), 1
    elif isinstance(event, Claimed):
        yield _claimed(event.guarantee, group, relation), 1
    else:
        raise NotSupported(
            f"there is no privacy analysis of {type(event).__name__}; state a guarantee with Claimed(...)"
        )


def _discrete_gaussian(event: DiscreteGaussian, group: int, relation: Relation) -> Iterator[tuple[Event, int]]:
    """On integers a number moves by whole steps. Several numbers at once have zCDP bounds only (CKS 2020, Thm 4)."""
    moved = event.sensitivity * group
    whole = math.floor(moved)
    if event.coordinates * group == 1 or moved**2 < 2:
        # Either one number moves, or at most one can: two integers that both move have L2 distance √2 or more.
        if whole:
            yield DiscreteGaussian(event.scale, whole, relation), 1
    else:
        yield Claimed(ZCDP(moved**2 / (2 * event.scale**2), relation=relation)), 1


def _claimed(promise: Guarantee, group: int, relation: Relation) -> Event:
    """A promise for a group: the rows of the table above; others keep their wrapping."""
    if group == 1:
        return Claimed(replace_relation(promise, relation))
    if isinstance(promise, PureDP | ZCDP | GDP | ApproxDP):
        return Claimed(replace_relation(for_group(promise, group), relation))
    if promise.relation is relation:
        return ForGroup(Claimed(promise), group)
    return ToReplace(Claimed(promise)) if group == 2 else ForGroup(ToReplace(Claimed(promise)), group // 2)


def replace_relation(promise: Guarantee, relation: Relation) -> Guarantee:
    """The same numbers for the nameless unit, under a relation."""
    return replace(promise, relation=relation, unit=RECORD)
