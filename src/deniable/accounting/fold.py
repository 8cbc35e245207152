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

What differs by kind is asked of `rules.rule_of(event)`.

>>> from deniable.events import Gaussian, Laplace
>>> found = fold(Gaussian(scale=2) * 8 + Laplace(scale=4, sensitivity=2).for_group(2) * 3)
>>> found.mu_squared, found.steps
(Fraction(2, 1), ((Laplace(scale=1), 3),))

`within_floats` then keeps exact parameters inside the range of floats, on the safe side. A privacy loss of 10^−400 must
not become 0 there, and one of 10^400 must not become an error. Between 10^−60 and 10^60 nothing is touched. Outside

* a loss, a rate, a ρ or a leak that is too small is raised to the smallest one,
* a loss, a ρ or a count that is too large reveals everything, `Claimed(ApproxDP(0, 1))`,
* noise or categories beyond the range whose loss lies within it are replaced by the promise that they keep.

Each replacement costs at least as much as what it replaces. The curve is then one "of the bound".

>>> within_floats(fold(Laplace(scale=10**400))).steps == fold(Laplace(scale=10**60)).steps
True
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from deniable.accounting.rules import HUGE, TINY, Counted, revealing, rule_of
from deniable.events import Claimed, Event
from deniable.guarantees import ZCDP, ApproxDP, Guarantee
from deniable.units import Relation


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
    """Whether every step is the mechanism itself: no claimed guarantee, no group bound."""


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
        rule = rule_of(step)
        if rule.is_free(step):
            continue
        shares = rule.shares(step, relation)
        tight = tight and rule.described(step)
        mu_squared += count * shares.mu_squared
        leaks[shares.leak] += count
        for part in shares.steps:
            steps[part] += count
        for promise in shares.renyi:
            renyi[promise] += count
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


def gaussian_squares(event: Event) -> tuple[Fraction, Fraction] | None:
    """(sensitivity/scale)² and (reach/scale)² of a step that is exactly Gaussian, sums and repetitions included.

    The second one is how far a unit's presence moves the answer. Under ADD_REMOVE and ZERO_OUT it is the sensitivity;
    under REPLACE it is the reach that was stated, and half the sensitivity for correlated noise. Of a claimed
    guarantee, or of noise that states none, it is not known; the sensitivity stands there and must not be relied on.
    """
    return rule_of(event).squares(event)


def _steps(event: Event, count: int, members: int, moved: bool) -> Iterator[tuple[Event, int]]:
    """The steps of an event, with the group of units and the move to REPLACE pushed down to each of them."""
    rule = rule_of(event)
    parts = rule.parts(event)
    if parts is None:
        for step, times in rule.steps(event, members, moved):
            yield step, times * count
    else:
        for part in parts:
            yield from _steps(part.event, count * part.times, members * part.members, moved or part.moved)


def within_floats(folded: Folded) -> Folded:
    """A composition that costs at least as much and whose every parameter is a float of ordinary size."""
    relation = folded.relation
    clamped = [(rule_of(step).clamp(step), count) for step, count in folded.steps]
    promises = [(Claimed(promise), count) for promise, count in folded.renyi]
    promises += [(Claimed(ApproxDP(0, delta, relation=relation)), count) for delta, count in folded.leaks]
    clamped += [(rule_of(promise).clamp(promise), count) for promise, count in promises]
    clamped = [(revealing(relation), 1) if count > HUGE else (step, count) for step, count in clamped]
    square = folded.mu_squared
    if square > HUGE**2:
        clamped.append((revealing(relation), 1))
        square = Fraction(0)
    # A step whose rate became 1 may be a sum, and may have joined the Gaussians.
    tame = gather(relation, ((part, n * count) for step, count in clamped for part, n in steps_of(step)))
    tame = replace(tame, mu_squared=tame.mu_squared + (max(square, TINY**2) if square else 0), tight=folded.tight)
    return folded if tame == folded else replace(tame, tight=False)
