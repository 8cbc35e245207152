"""Claims about a step on a Poisson sample: the record in question is put into the sample by design.

At rate q most runs never meet the canary, so outputs say little about it. But its place in the sampling mask is one
recorded uniform number u. The mechanism's law with the canary is, exactly, q·P + (1 − q)·P′, where P is the law given
u < q and P′ the law given u ≥ q. Let Q be the law without the canary, and let P′ and Q be within τ of each other in
total variation. Then a claimed line (ε, δ) of the whole curve, in both orders, implies for every set S

    P(S) ≤ (e^ε − 1 + q)/q · Q(S) + (δ + (1 − q)τ)/q,
    Q(S) ≤ q·e^ε/k · P(S) + (δ + (1 − q)e^ε τ)/k,         k = 1 − (1 − q)e^ε, if k > 0.

*Proof.* q·P(S) = P_with(S) − (1 − q)P′(S) ≤ e^ε Q(S) + δ − (1 − q)(Q(S) − τ), and for the other order
Q(S) ≤ e^ε (q·P(S) + (1 − q)(Q(S) + τ)) + δ. ∎

So the game is played between P and Q on these lines: the claim is judged as a whole, and never by its inner step. τ is
bounded before, at a part of the level: both laws are drawn on the same randomness, and τ is at most the probability
that they then differ (Clopper and Pearson). Where the mask is not found, or being left out of the sample is not like
being absent, this test is not made, and the outputs are tested as they come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from deniable.auditing.claims import Claim, Line
from deniable.auditing.neighbours import Pair, place_of_change
from deniable.auditing.recording import Choice, Draw, DrawTape, recorded
from deniable.auditing.statistics import clopper_pearson_upper
from deniable.auditing.worlds import Limits, Round, observe
from deniable.events import Sampled
from deniable.units import Relation

_UNIFORM = frozenset({"numpy random", "numpy random_sample", "numpy rand", "random random", "torch rand"})
_SLACK = 0.03
"""How much of the canary's own part τ may take."""

_LOOK = 6
"""Coupled runs that decide whether the mask was found, before the bound on τ is made from others."""


@dataclass(frozen=True)
class Mask:
    """The number that decides whether the canary is in the sample, and on which side of the rate it is in."""

    label: str
    turn: int
    place: int
    rate: float
    below: bool = True

    def choice(self, *, inside: bool) -> Choice:
        """The number drawn anew, given that the canary is inside, or outside."""
        share, start = (self.rate, 0.0) if inside else (1 - self.rate, self.rate)

        def chosen(drawn: float) -> float:
            at = start + share * drawn
            return at if self.below else 1 - at

        return Choice(self.label, self.turn, self.place, chosen)


@dataclass(frozen=True)
class SampledWorlds:
    """A mechanism without the canary (D), and with the canary in its sample (D′)."""

    mechanism: Callable[[Any], Any]
    without: Any = field(repr=False)
    with_canary: Any = field(repr=False)
    mask: Mask
    seed: int | None
    limits: Limits

    def run(self, number: int, inside: bool | None) -> Round:
        """One run: without the canary (None), or with it inside or outside the sample."""
        data = self.without if inside is None else self.with_canary
        choice = None if inside is None else self.mask.choice(inside=inside)
        base = np.random.SeedSequence([7 if self.seed is None else self.seed, number]).generate_state(1)[0]
        with recorded(self.mechanism, DrawTape(int(base), choice=choice)):
            return observe(lambda: self.mechanism(data), self.limits)

    def run_rounds(self, rounds: Sequence[tuple[int, bool]]) -> list[Round]:
        """Rounds of the game, numbered away from coupled runs."""
        return [self.run(number, True if second else None) for number, second in rounds]

    def differences(self, start: int, runs: int) -> int:
        """How often leaving the canary out of the sample changed an output, on the same randomness."""
        return sum(
            self.run(number, False).output.atom != self.run(number, None).output.atom
            for number in range(start, start + runs)
        )


def sampled_worlds(
    mechanism: Callable[[Any], Any], pair: Pair, claim: Claim, *, seed: int | None, limits: Limits
) -> SampledWorlds | None:
    """The worlds of the game for a claim about a sample; None where the mask cannot be found."""
    if not isinstance(claim.stated, Sampled) or claim.relation is not Relation.ADD_REMOVE:
        return None
    found = place_of_change(pair.first, pair.second)
    if found is None:
        return None
    without, with_canary = (pair.first, pair.second) if found.second_is_longer else (pair.second, pair.first)
    mask = _mask(_draws(mechanism, without), _draws(mechanism, with_canary), found.place, float(claim.stated.rate))
    if mask is None:
        return None
    # Fresh randomness for every audit without a seed: rounds are numbered from a start that nobody chose.
    base = int(np.random.default_rng().integers(2**62)) if seed is None else seed
    for below in (True, False):
        worlds = SampledWorlds(mechanism, without, with_canary, replace(mask, below=below), base, limits)
        if not worlds.differences(10**12, _LOOK):
            return worlds
    return None


def coupled_runs(rate: float, level: float) -> int:
    """How many coupled runs make τ small enough beside the canary's part."""
    return math.ceil(math.log(1 / level) / (_SLACK * rate))


def conditional_claim(claim: Claim, rate: float, *, differences: int, runs: int, level: float) -> Claim:
    """The claim's lines as they hold between the canary inside the sample and no canary."""
    distance = clopper_pearson_upper(differences, runs, level=level)
    lines: list[Line] = []
    for epsilon, delta, *_ in claim.lines:
        odds = math.exp(epsilon)
        lines.append(
            Line(math.log((odds - 1 + rate) / rate), (delta + (1 - rate) * distance) / rate, orders=(True, False))
        )
        rest = 1 - (1 - rate) * odds
        if rest > 0:
            toll = (delta + (1 - rate) * odds * distance) / rest
            lines.append(Line(math.log(rate * odds / rest), toll, orders=(False, True)))
    return replace(claim, lines=tuple(line for line in lines if line.delta < 1), mu=None)


def _draws(mechanism: Callable[[Any], Any], data: Any) -> list[Draw]:
    with recorded(mechanism, DrawTape(1)) as tape:
        observe(lambda: mechanism(data))
    return [draw for draw in tape.draws if draw.label in _UNIFORM]


def _mask(without: list[Draw], with_canary: list[Draw], place: int, rate: float) -> Mask | None:
    """The one call that draws one number more where the canary is, or the one call that is made besides."""
    if len(without) == len(with_canary):
        longer = [i for i, (a, b) in enumerate(zip(without, with_canary, strict=True)) if a.noise.size != b.noise.size]
        if len(longer) != 1 or with_canary[longer[0]].noise.size != without[longer[0]].noise.size + 1:
            return None
        label = with_canary[longer[0]].label
        turn = sum(draw.label == label for draw in with_canary[: longer[0] + 1])
        return Mask(label, turn, place, rate)
    labels = {draw.label for draw in with_canary}
    if len(with_canary) == len(without) + 1 == place + 1 and len(labels) == 1 and with_canary[-1].noise.size == 1:
        return Mask(labels.pop(), len(with_canary), 0, rate)  # one number for each record, the canary last
    return None
