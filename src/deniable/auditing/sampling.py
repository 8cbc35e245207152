"""Claims about steps on Poisson samples: the record in question is put into a sample by design.

At rate q most runs never meet the canary, so outputs say little about it. But in every step its place in the sampling
mask is one recorded uniform number u, and the canary is meant to be in the sample if u < q. Let p = 1 − (1 − q)^T be
the probability that one of T numbers is below q. The mechanism's law with the canary is then, exactly,
p·P + (1 − p)·P′, where P is the law given that at least one is below q, and P′ the law given that none is. Let Q be the
law without the canary, and let P′ and Q be within τ of each other in total variation. A claimed line (ε, δ) of the
whole curve, in both orders, implies for every set S

    P(S) ≤ (e^ε − 1 + p)/p · Q(S) + (δ + (1 − p)τ)/p,
    Q(S) ≤ p·e^ε/k · P(S) + (δ + (1 − p)e^ε τ)/k,         k = 1 − (1 − p)e^ε, if k > 0.

*Proof.* p·P(S) = P_with(S) − (1 − p)P′(S) ≤ e^ε Q(S) + δ − (1 − p)(Q(S) − τ), and for the other order
Q(S) ≤ e^ε (p·P(S) + (1 − p)(Q(S) + τ)) + δ. ∎

So the game is played between P and Q on these lines: the claim is judged as a whole, and never by its inner step.

τ is at most the probability that both laws, drawn on the same randomness, give different outputs. With N such coupled
runs and a level α, τ₀ = 1 − α^(1/N), and the game is played on the lines of τ₀ if no coupled run differed. Both parts
may use all of α: if τ > τ₀, N runs without a difference have a probability below α; if τ ≤ τ₀, a true claim loses the
game with a probability of at most α. Only one of the two is the case.

Outputs are compared, and judged, with nine significant digits: what a claim says of outputs it says of every function
of them, and sums over one more masked zero may differ in their last bits.

Where the mask is not found, or being left out of the sample is not like being absent, this test is not made, and the
outputs are tested as they come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from deniable.auditing.claims import Claim, Line
from deniable.auditing.neighbours import Pair, place_of_change
from deniable.auditing.outputs import Output
from deniable.auditing.recording import Draw, DrawTape, ForcedChoice, recorded
from deniable.auditing.worlds import Limits, Round, observe
from deniable.events import Event, Repeated, Sampled
from deniable.units import Relation

_UNIFORM = frozenset({"numpy random", "numpy random_sample", "numpy rand", "random random", "torch rand"})
_SLACK = 0.05
"""How much of the canary's own part τ may take."""

_LOOK = 6
"""Coupled runs that decide whether the mask was found, before the bound on τ is made from others."""

_OFTEN = 0.9
"""A canary that is in some sample this often needs no design: outputs as they come say as much."""

_DIGITS = 9


class DrawPlace(NamedTuple):
    """One number of one call of a sampler."""

    label: str
    turn: int
    place: int


@dataclass(frozen=True)
class Mask:
    """The numbers that decide in which steps the canary is in the sample, and on which side of the rate it is in."""

    places: tuple[DrawPlace, ...]
    rate: float
    below: bool = True

    @property
    def chance(self) -> float:
        """The probability that the canary is in at least one sample."""
        return some_sample(self.rate, len(self.places))

    def choices(self, *, inside: bool, random: np.random.Generator) -> list[ForcedChoice]:
        """The numbers drawn anew, given that the canary is in at least one sample, or in none."""
        first = self._first_sample(random) if inside else len(self.places)
        return [
            ForcedChoice(*place, value=self._chooser(None if step > first else step == first))
            for step, place in enumerate(self.places)
        ]

    def _first_sample(self, random: np.random.Generator) -> int:
        """The first step whose sample has the canary: a geometric law, given that it is one of the steps."""
        waited = math.log1p(-random.random() * self.chance) / math.log1p(-self.rate)
        return min(int(waited), len(self.places) - 1)

    def _chooser(self, inside: bool | None) -> Callable[[float], float]:
        """What becomes of a number drawn in [0, 1): moved below the rate, or above it, or left as it is (None)."""
        if inside is None:
            return lambda drawn: drawn
        share, start = (self.rate, 0.0) if inside else (1 - self.rate, self.rate)

        def chosen(drawn: float) -> float:
            at = start + share * drawn
            return at if self.below else 1 - at

        return chosen


@dataclass(frozen=True)
class SampledWorlds:
    """A mechanism without the canary (D), and with the canary in a sample (D′)."""

    mechanism: Callable[[Any], Any]
    without: Any = field(repr=False)
    with_canary: Any = field(repr=False)
    mask: Mask
    seed: int | None
    limits: Limits

    def run(self, number: int, inside: bool | None) -> Round:
        """One run: without the canary (None), or with it in at least one sample, or in none."""
        base, other = np.random.SeedSequence([7 if self.seed is None else self.seed, number]).generate_state(2)
        data, choices = self.without, []
        if inside is not None:
            data = self.with_canary
            choices = self.mask.choices(inside=inside, random=np.random.default_rng(int(other)))
        with recorded(self.mechanism, DrawTape(int(base), choices=choices)):
            seen = observe(lambda: self.mechanism(data), self.limits)
        return Round(_without_last_bits(seen.output), seen.seconds)

    def run_rounds(self, rounds: Sequence[tuple[int, bool]]) -> list[Round]:
        """Rounds of the game, numbered away from coupled runs."""
        return [self.run(number, True if second else None) for number, second in rounds]

    def differences(self, start: int, runs: int) -> int:
        """How often leaving the canary out of every sample changed an output, on the same randomness."""
        return sum(
            self.run(number, False).output.atom != self.run(number, None).output.atom
            for number in range(start, start + runs)
        )


class SampledSteps(NamedTuple):
    """Steps that are alike, each on a Poisson sample."""

    rate: float
    steps: int


def sampled_steps(stated: Any) -> SampledSteps | None:
    """The steps on samples that an event states; None for every other claim."""
    count = stated.count if isinstance(stated, Repeated) else 1
    inner: Event | None = stated.event if isinstance(stated, Repeated) else stated
    return SampledSteps(float(inner.rate), count) if isinstance(inner, Sampled) else None


def some_sample(rate: float, steps: int) -> float:
    """The probability of being in at least one of some Poisson samples."""
    return -math.expm1(steps * math.log1p(-rate)) if rate < 1 else 1.0


def sampled_worlds(
    mechanism: Callable[[Any], Any], pair: Pair, claim: Claim, *, seed: int | None, limits: Limits
) -> SampledWorlds | None:
    """The worlds of the game for a claim about samples; None where the mask cannot be found."""
    steps = sampled_steps(claim.stated)
    if steps is None or claim.relation is not Relation.ADD_REMOVE or some_sample(*steps) > _OFTEN:
        return None
    change = place_of_change(pair.first, pair.second)
    if change is None:
        return None
    without, with_canary = (pair.first, pair.second) if change.second_is_longer else (pair.second, pair.first)
    draws = _draws(mechanism, without, limits), _draws(mechanism, with_canary, limits)
    places = _mask_places(*draws, change.place, steps.steps)
    if places is None:
        return None
    # Fresh randomness for every audit without a seed: rounds are numbered from a start that nobody chose.
    base = int(np.random.default_rng().integers(2**62)) if seed is None else seed
    for below in (True, False):
        mask = Mask(places, steps.rate, below)
        worlds = SampledWorlds(mechanism, without, with_canary, mask, base, limits)
        if not worlds.differences(10**12, _LOOK):
            return worlds
    return None


def coupled_runs(chance: float, level: float) -> int:
    """How many coupled runs make τ small enough beside the canary's part."""
    return math.ceil(math.log(1 / level) / (_SLACK * chance))


def largest_distance(runs: int, level: float) -> float:
    """τ₀: coupled runs would all be alike with a probability below the level if τ were larger."""
    return -math.expm1(math.log(level) / runs)


def conditional_claim(claim: Claim, chance: float, *, distance: float) -> Claim:
    """The claim's lines as they hold between the canary inside a sample and no canary."""
    lines: list[Line] = []
    for epsilon, delta, *_ in claim.lines:
        odds = math.exp(epsilon)
        toll = (delta + (1 - chance) * distance) / chance
        lines.append(Line(max(0.0, math.log((odds - 1 + chance) / chance)), toll, orders=(True, False)))
        rest = 1 - (1 - chance) * odds
        if rest > 0:
            toll = (delta + (1 - chance) * odds * distance) / rest
            lines.append(Line(max(0.0, math.log(chance * odds / rest)), toll, orders=(False, True)))
    return replace(claim, lines=tuple(line for line in lines if line.delta < 1), mu=None)


def _without_last_bits(output: Output) -> Output:
    """The output with its fractions cut to nine significant digits; whole numbers stay as they are."""
    values = output.numbers
    fractions = np.isfinite(values) & (values != np.rint(values))
    if not fractions.any():
        return output
    powers = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.abs(values[fractions]))))
    cut = values.copy()
    cut[fractions] = np.where(np.isfinite(powers), np.rint(values[fractions] * powers) / powers, 0.0)
    return Output(output.structure, cut, output.labels)


def _draws(mechanism: Callable[[Any], Any], data: Any, limits: Limits) -> list[Draw]:
    with recorded(mechanism, DrawTape(1)) as tape:
        observe(lambda: mechanism(data), limits)
    return [draw for draw in tape.draws if draw.label in _UNIFORM]


def _mask_places(without: list[Draw], with_canary: list[Draw], place: int, steps: int) -> tuple[DrawPlace, ...] | None:
    """The calls that draw one number more where the canary is, one in each step, or the one call made besides."""
    if len(without) == len(with_canary):
        longer = [i for i, (a, b) in enumerate(zip(without, with_canary, strict=True)) if a.noise.size != b.noise.size]
        if len(longer) != steps or any(with_canary[i].noise.size != without[i].noise.size + 1 for i in longer):
            return None
        return tuple(DrawPlace(with_canary[i].label, _turn(with_canary, i), place) for i in longer)
    labels = {draw.label for draw in with_canary}
    alone = len(with_canary) == len(without) + 1 == place + 1 and len(labels) == 1 and with_canary[-1].noise.size == 1
    if steps == 1 and alone:
        return (DrawPlace(labels.pop(), len(with_canary), 0),)  # one number for each record, the canary last
    return None


def _turn(draws: list[Draw], place: int) -> int:
    """Which call of its sampler a draw is, from 1 on."""
    return sum(draw.label == draws[place].label for draw in draws[: place + 1])
