"""The grid engine: a curve from lattice laws, sound for any composition.

A query fixes the tilt (near the saddle), the window and the step; the composition is then computed once from above and
once from below, in each direction. Answers between lattice points use convexity: the true curve lies below the chord of
proven upper ends in e^ε, and the pair from below has a curve that *is* its chord.

Two bounds always exist (`Net`, `Basic`): they need no window, no transform and no lattice.

**Moments.** The sketch of a law connects the dots between its nodes, so it dominates the law and so do its moments.
With K(λ) the sum of count·ln E[e^{λL}], the conversion of Canonne–Kamath–Steinke 2020 (Prop. 12, α = λ + 1) gives for
every λ > 0

    ln δ(ε) ≤ K(λ) − λε + (λ + 1)·ln(λ/(λ + 1)) − ln λ,

some ten per cent loose in ε. Losses that the sketch was cut at count as infinite.

**Basic composition.** δ(ε) ≤ Σ count·δ_i(ε/N), N = Σ count (Dwork–Kenthapadi–McSherry–Mironov–Naor 2006): nearly
tight for few steps and for losses so small or so rare that they do not add up to much; at ε = 0 it is the sum of the
total variations.

Where the grid's own bracket is wide (more than 10⁹ steps, losses of very different sizes, losses near 10⁻¹⁵) the
better of the two takes over as the upper end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from deniable.accounting.certificate import NotCertified, proven
from deniable.accounting.grid.cumulants import Cumulants
from deniable.accounting.grid.lattice import alignment, from_above, from_below, spacing
from deniable.accounting.grid.power import Power, power, unknown
from deniable.accounting.pairs.law import Law, LossAtoms
from deniable.guarantees import Bracket
from deniable.guarantees.profile import LossOdds, odds_of_curve
from deniable.numerics.arrays import UNIT
from deniable.numerics.roots import border, enlarge, first_whole

LARGEST = 20
"""The largest window has 2²⁰ points."""

_GOOD = 2e-5
"""A bracket of this relative width is not improved upon."""

_WIDE = 0.02
"""Beyond this relative width the bounds of `net` are asked as well."""


@dataclass(frozen=True, eq=False)
class GridDirection:
    """One direction of a composition: laws and counts."""

    laws: tuple[Law, ...]
    counts: tuple[int, ...]
    sketches: Cumulants
    cache: dict[tuple[float, float, int], tuple[Power, Power]] = field(default_factory=dict)

    @classmethod
    def of(cls, laws: Sequence[Law], counts: Sequence[int]) -> GridDirection:
        """From the laws of the steps and their counts."""
        return cls(tuple(laws), tuple(counts), Cumulants.of(laws, counts))

    @property
    def largest(self) -> float:
        """The sum of the largest losses, rounded up; infinite when one of them is."""
        peaks = [max(law.peak, 0.0) for law in self.laws]
        if math.inf in peaks:
            return math.inf
        parts = zip(self.laws, peaks, self.counts, strict=True)
        return math.fsum(n * (peak + law.location(peak)) for law, peak, n in parts) * (1 + 1e-15)

    def powers(self, view: Cumulants, tilt: float, *, goal: float, bits: int) -> tuple[Power, Power]:
        """The composition from below and from above. `goal` is the δ that truncated mass should be small against."""
        key = (tilt, goal, bits)
        if key not in self.cache:
            self.cache.clear()
            self.cache[key] = self._powers(view, tilt, bits)
        return self.cache[key]

    @property
    def basic(self) -> Basic:
        """The bound that asks each law for its own curve only."""
        return Basic(self.laws, self.counts)

    def net(self, view: Cumulants, tilt: float) -> Net:
        """The bounds that always exist, about a tilt."""
        # The sketches dominate the laws; what was cut off their tops is counted as infinite.
        cut = zip(self.sketches.atoms, view.atoms, self.counts, strict=True)
        infinite = math.fsum(n * float(whole.tails[0][len(kept.losses)]) for whole, kept, n in cut)
        return Net(self.basic, view.trimmed(tilt), tilt, infinite * (1 + 1e-9))

    def _powers(self, view: Cumulants, tilt: float, bits: int) -> tuple[Power, Power]:
        window = view.window(tilt, exponent=34.0)
        origins = [found[0] if (found := alignment(law)) is not None else 0.0 for law in self.laws]
        for _ in range(4):
            width = max((window.high - window.low) * 1.02, 1e-12 * (1 + abs(window.high)))
            step = self._step(width / 2**bits)
            # A lattice that is coarse against one step's losses spreads the composition; the window must hold that too.
            spread = view.widened(tilt, step, origins) if 0 < width < math.inf else 1.0
            if (wider := window.scaled(view.at(tilt)[1], spread)).high - wider.low <= width:
                break
            window = wider
        parts = zip(self.laws, map(float, self.counts), strict=True)
        misplaced = math.fsum(2 * n * (law.location(0.0) + law.relative) for law, n in parts)
        if not misplaced < window.high - window.low <= width < math.inf:
            # Rounding alone moves the losses by more than they differ.
            return unknown(tilt), unknown(tilt)
        size = 2 ** min(bits, max(6, math.ceil(math.log2(width / step))))
        below, above = [], []
        for number, (law, count) in enumerate(zip(self.laws, self.counts, strict=True)):
            start, end = self._range(view, number, tilt, step, size)
            above.append((from_above(law, step, start, end), count))
            below.append((from_below(law, step, start, end, tilt), count))
        return (
            power(below, tilt=tilt, size=size, window=window),
            power(above, tilt=tilt, size=size, window=window),
        )

    def _step(self, wanted: float) -> float:
        """A step of about the wanted size (not below) that meets as many atoms as it can."""
        found = [(alignment(law), count, _is_even(law)) for law, count in zip(self.laws, self.counts, strict=True)]
        spacings = [(a[1], n) for a, n, _ in found if a is not None and wanted <= a[1] < math.inf]
        if not spacings:
            return wanted
        lead = max(spacings, key=lambda item: item[1])[0]
        if all(even for *_, even in found) and all(abs(s - lead) < 1e-12 * lead for s, _ in spacings):
            # Nothing but atoms of one spacing: the lattice is exact as it is.
            return lead if len(spacings) == len(found) else lead / math.floor(lead / wanted)
        pieces = math.floor(lead / wanted)
        tried = range(pieces, max(0, pieces - 1 - min(pieces // 4, 4096)), -1)

        def misfit(m: int) -> float:
            return sum(n * abs(s * m / lead - round(s * m / lead)) / m for s, n in spacings)

        return lead / min(tried, key=misfit)

    def _range(self, view: Cumulants, number: int, tilt: float, step: float, size: int) -> tuple[float, float]:
        """Where one step's losses matter: not much farther than those of all steps together."""
        law, losses = self.laws[number], view.atoms[number].losses
        start = max(float(losses[view.start(tilt, number)]), law.low)
        whole = len(losses) == len(self.sketches.atoms[number].losses)
        end = law.high if whole and law.high < math.inf else float(losses[-1])
        return start, min(max(end, start + 2 * step), start + step * min(4 * size, 1 << 21))


@dataclass(frozen=True, eq=False)
class GridCurve:
    """The larger of the directions, each composed on its own."""

    directions: tuple[GridDirection, ...]
    method: str

    @cached_property
    def cap(self) -> float:
        """The largest loss: a pure ε that holds besides; infinite when there is none."""
        return max(direction.largest for direction in self.directions)

    def delta_bracket(self, epsilon: float) -> Bracket:
        """Proven ends around δ(ε)."""
        if epsilon >= self.cap:
            return Bracket(0.0, 0.0)
        try:
            return proven(lambda: self._larger(lambda direction, cut: self._delta(direction, epsilon, cut)))
        except NotCertified:
            return Bracket(0.0, max(direction.basic.delta(epsilon) for direction in self.directions))

    def epsilon_bracket(self, delta: float) -> Bracket:
        """Proven ends around ε(δ)."""
        if delta >= 1:
            return Bracket(0.0, 0.0)
        if delta <= 0:
            return Bracket(self.cap * (1 - 1e-12) if self.cap < math.inf else 0.0, self.cap)
        try:
            found = proven(lambda: self._larger(lambda direction, cut: self._epsilon(direction, delta, cut)))
        except NotCertified:
            found = Bracket(0.0, max(direction.basic.epsilon(delta) for direction in self.directions))
        upper = min(found.upper, self.cap)
        return Bracket(min(found.lower, upper), upper)

    def odds(self) -> tuple[LossOdds, ...]:
        """P[L > 0] and Q[L > 0], from the slopes of the curves of both directions at ε = 0."""
        sides = [GridCurve((direction,), self.method).delta_bracket for direction in self.directions]
        return tuple(odds_of_curve(own, other) for own, other in zip(sides, sides[::-1], strict=True))

    def _larger(self, ask: Callable[[GridDirection, int], Bracket]) -> Bracket:
        """The larger of the directions. A quick look is enough for one that proves to be the smaller."""
        found = ask(self.directions[0], 0)
        for direction in self.directions[1:]:
            other = ask(direction, 5)
            if other.upper > found.lower:
                other = ask(direction, 0)
            found = Bracket(max(found.lower, other.lower), max(found.upper, other.upper))
        return found

    def _delta(self, direction: GridDirection, epsilon: float, cut: int) -> Bracket:
        if epsilon >= direction.largest:
            return Bracket(0.0, 0.0)
        for below, above in direction.cache.values():
            # What was composed for a neighbouring question may answer this one.
            found = Bracket(_delta_below(below, epsilon), _delta_above(above, epsilon))
            if found.width <= _GOOD * found.upper:
                return found
        # What may be cut off depends on δ, which is what is asked: go down until it fits.
        goal = 0.1
        for _ in range(60):
            view = direction.sketches.cut(goal)
            tilt = view.tilt_for_epsilon(epsilon)
            expected = _estimate(view, tilt, epsilon)
            if expected >= 0.1 * goal:
                break
            # In small steps: what is cut too high looks rarer than it is.
            goal = max(expected, 1e-6 * goal)
        below, above = direction.powers(view, tilt, goal=goal, bits=self._bits(direction, view, tilt, epsilon) - cut)
        found = Bracket(_delta_below(below, epsilon), _delta_above(above, epsilon))
        if not found.width <= _WIDE * found.upper:
            found = Bracket(found.lower, max(found.lower, min(found.upper, direction.net(view, tilt).delta(epsilon))))
        return found

    def _epsilon(self, direction: GridDirection, delta: float, cut: int) -> Bracket:
        for below, above in direction.cache.values():
            upper = _epsilon_above(above, delta)
            found = Bracket(_epsilon_below(below, delta, upper), upper) if upper < math.inf else Bracket(0.0, upper)
            if found.width <= _GOOD * found.upper < math.inf:
                return found
        goal = max(delta, 1e-320)
        view = direction.sketches.cut(goal)
        tilt = view.tilt_for_delta(delta)
        guess = max(view.at(tilt)[1], 1e-9)
        below, above = direction.powers(view, tilt, goal=goal, bits=self._bits(direction, view, tilt, guess) - cut)
        upper = _epsilon_above(above, delta)
        lower = _epsilon_below(below, delta, guess if upper == math.inf else upper)
        if upper == math.inf or upper - lower > _WIDE * upper:
            upper = max(lower, min(upper, direction.net(view, tilt).epsilon(delta)))
        return Bracket(min(lower, direction.largest), min(upper, direction.largest))

    def _bits(self, direction: GridDirection, view: Cumulants, tilt: float, epsilon: float) -> int:
        """Points enough that the lattice costs about a hundred-thousandth of ε, or of δ where ε is small.

        A lattice of step h adds about h²/6 to the variance of each loss, and so λ(λ + 1)·h²/12 to ln δ, or h²/12 over
        the variance where the tilt λ is small.
        """
        low, high = view.window(tilt, exponent=34.0)[:2]
        allowed = max(1e-5 * epsilon * tilt, 2e-5)
        weight = max(tilt * (tilt + 1), 1 / (view.at(tilt)[2] + 1e-300))
        steps = float(sum(direction.counts))
        wanted = math.sqrt(12 * allowed / (steps * weight))
        if (high - low) / 2**LARGEST > 4 * math.sqrt(view.at(tilt)[2] / steps):
            # No window is fine enough to tell one step's losses apart; the moment bound will do better.
            return 14
        return min(LARGEST, max(12, math.ceil(math.log2(max((high - low) / max(wanted, 1e-300), 2.0)))))


def _is_even(law: Law) -> bool:
    """Whether a law is nothing but atoms on one lattice."""
    return isinstance(law, LossAtoms) and (len(law.losses) < 2 or spacing(law.losses) is not None)


def _estimate(view: Cumulants, tilt: float, epsilon: float) -> float:
    """About δ(ε), as a scale for what may be cut off."""
    if tilt <= 0:
        return 0.1
    value, _, bend = view.at(tilt)
    exponent = value - tilt * epsilon - math.log(tilt * (1 + tilt) * math.sqrt(2 * math.pi * bend + 1))
    return math.exp(max(min(exponent, -1.0), -730.0))


def _delta_at(found: Power, index: int, *, up: bool) -> float:
    """One proven end of δ at a lattice point, without `shift`."""
    low, high = found.log_delta(index)
    if up:
        exponent = high + found.factor
        value = math.exp(min(exponent, 0.0)) if exponent > -745 else 5e-324
        return min(1.0, value * (1 + 1e-15) + found.infinite)
    exponent = low - found.factor
    return math.exp(min(exponent, 0.0)) if exponent > -744 else 0.0


def _place(found: Power, loss: float) -> int:
    """The last lattice point at or below a loss, inside the window or one outside of it."""
    place = (loss - found.start) / found.step
    return max(-1, min(len(found.mass) - 1, math.floor(place))) if math.isfinite(place) else -1


def _delta_above(found: Power, epsilon: float) -> float:
    """The upper end of δ(ε): the chord between proven upper ends."""
    at = epsilon - found.shift
    index = _place(found, at)
    if index < 0:
        return 1.0
    here = _delta_at(found, index, up=True)
    if index + 1 >= len(found.mass) - 1:
        return here
    there = _delta_at(found, index + 1, up=True)
    share = _share(at - found.loss(index), found.step)
    return min(1.0, max(here + (there - here) * share, there) * (1 + 1e-15))


def _delta_below(found: Power, epsilon: float) -> float:
    """The lower end of δ(ε): a later lattice point, whose δ is smaller."""
    at = epsilon + found.shift
    if not math.isfinite(at):
        return 0.0
    # Before the window δ is at least what it is at its start.
    index = max(_place(found, at), 0)
    if index + 1 >= len(found.mass) - 1:
        return 0.0
    here = _delta_at(found, index, up=False)
    if at < found.loss(0):
        return here
    there = _delta_at(found, index + 1, up=False)
    share = _share(at - found.loss(index), found.step)
    return max(min(here, there), (here + (there - here) * share) * (1 - 1e-15))


def _share(part: float, whole: float) -> float:
    """(e^part − 1)/(e^whole − 1), between 0 and 1."""
    if whole > 30:
        return min(math.exp(min(part - whole, 0.0)), 1.0)
    return min(max(math.expm1(min(part, whole)) / math.expm1(whole), 0.0), 1.0)


def _epsilon_above(found: Power, delta: float) -> float:
    """The upper end of ε(δ)."""
    last = len(found.mass) - 2
    if _delta_at(found, last, up=True) > delta:
        return math.inf
    first = first_whole(lambda place: _delta_at(found, place, up=True) <= delta, -1, last)
    if first == 0:
        return max(0.0, found.loss(0) + found.shift)
    return max(0.0, _chord(found, first - 1, delta, up=True) + found.shift)


def _epsilon_below(found: Power, delta: float, guess: float) -> float:
    """The lower end of ε(δ). Far below the tilt's own ε the lower ends drown in rounding, so the search starts at a
    guess.
    """
    low, back = min(max(_place(found, guess), 0), len(found.mass) - 1), 1
    while _delta_at(found, low, up=False) <= delta:
        if low == 0:
            return 0.0
        low, back = max(low - back, 0), back * 2
    first = first_whole(lambda place: not _delta_at(found, place, up=False) > delta, low, len(found.mass) - 1)
    return max(0.0, _chord(found, first - 1, delta, up=False) - found.shift)


def _chord(found: Power, index: int, delta: float, *, up: bool) -> float:
    """Where the chord from a lattice point to the next one, in e^ε, meets δ; rounded to the safe side."""
    here, there = _delta_at(found, index, up=up), _delta_at(found, index + 1, up=up)
    share = (here - delta) / (here - there) if here > there else (1.0 if up else 0.0)
    share = min(max(share * (1 + (1e-14 if up else -1e-14)), 0.0), 1.0)
    if found.step > 30:
        return found.loss(index + 1 if up else index)
    return found.loss(index) + math.log1p(share * math.expm1(found.step))


@dataclass(frozen=True, eq=False)
class Basic:
    """Basic composition of one direction: it asks each law for its own curve and nothing else."""

    laws: Sequence[Law]
    counts: Sequence[int]

    def delta(self, epsilon: float) -> float:
        """An upper end of δ(ε)."""
        each = epsilon / float(sum(self.counts))
        spent = (float(n) * _alone(law, each) for law, n in zip(self.laws, self.counts, strict=True))
        return min(1.0, math.fsum(spent) * (1 + 1e-15))

    def epsilon(self, delta: float) -> float:
        """An upper end of ε(δ), by bisection."""

        def kept(epsilon: float) -> bool:
            return self.delta(epsilon) <= delta

        high = enlarge(kept, 1.0, most=1e300, factor=4)
        return math.inf if high is None else border(kept, high)[1]


@dataclass(frozen=True, eq=False)
class Net:
    """Both bounds for one direction of a composition, the first about a tilt."""

    basic: Basic
    view: Cumulants
    tilt: float
    infinite: float
    """P-mass of the losses that the view was cut at."""

    @cached_property
    def _lines(self) -> list[tuple[float, float]]:
        """Pairs (λ, c) with ln δ(ε) ≤ c − λε."""
        parts = list(zip(self.basic.laws, self.view.atoms, map(float, self.basic.counts), strict=True))
        top = max((float(np.max(np.abs(atoms.losses))) for atoms in self.view.atoms if len(atoms.losses)), default=0.0)
        # The laws' masses may be larger by a factor, and their losses by a shift, than the sketch of them says.
        factor = math.fsum(n * (law.relative + 16 * UNIT) for law, _, n in parts)
        shift = math.fsum(
            n * (2 * law.location(top) + 2 * law.relative + 32 * UNIT * (0.25 + top)) for law, _, n in parts
        )
        scales = (max(self.tilt, 1e-6), 1 / self.view.deviation(max(self.tilt, 0.0)))
        found = []
        for at in np.unique(np.concatenate([scale * np.geomspace(1e-3, 1e2, 80) for scale in scales])):
            total = math.fsum(n * _log_moment(atoms, float(at)) for _, atoms, n in parts) * (1 + 1e-15)
            exponent = total + factor + at * shift + (at + 1) * math.log(at / (at + 1)) - math.log(at)
            if math.isfinite(exponent):
                found.append((float(at), exponent + 8 * UNIT * (abs(total) + at * shift + math.log(at + 2))))
        return found

    def delta(self, epsilon: float) -> float:
        """An upper end of δ(ε)."""
        best = min((c - at * epsilon for at, c in self._lines), default=0.0)
        moments = math.exp(min(best, 0.0)) * (1 + 1e-12) + math.ulp(0.0) + self.infinite
        return float(min(1.0, moments, self.basic.delta(epsilon)))

    def epsilon(self, delta: float) -> float:
        """An upper end of ε(δ)."""
        left = delta - self.infinite
        wanted = math.log(left) - 1e-12 if left > 0 else -math.inf
        moments = min(((c - wanted) / at for at, c in self._lines), default=math.inf) * (1 + 1e-15)
        return float(max(0.0, min(moments, self.basic.epsilon(delta))))


def _alone(law: Law, epsilon: float) -> float:
    """δ of one step, rounded up."""
    return 0.0 if epsilon >= law.peak + law.location(abs(law.peak)) else float(law.profile(np.array([epsilon]))[0])


def _log_moment(atoms: LossAtoms, at: float) -> float:
    """ln E[e^{λL}], rounded up."""
    if not len(atoms.losses):
        return 0.0
    exponent = at * atoms.losses
    terms = 8 * UNIT * (len(atoms.p) + 8)
    if np.max(np.abs(exponent)) < 1:
        # From the deviations: their sum is smaller by far than its parts, and each part is good to a few units.
        grown = np.expm1(exponent)
        over = math.fsum([*atoms.p.tolist(), -1.0])
        return math.log1p(float(atoms.p @ grown) + over + terms * float(atoms.p @ np.abs(grown)) + 2 * UNIT)
    log_mass = np.log(atoms.p) + exponent
    peak = float(log_mass.max())
    if not math.isfinite(peak):
        return math.inf
    near = log_mass > peak - 60
    # Far below the peak the exponent's own rounding does not matter; at it, it is a few units of its parts.
    slip = 4 * UNIT * float(np.max(np.abs(np.log(atoms.p[near])) + np.abs(exponent[near])))
    return peak + math.log(float(np.exp(log_mass - peak).sum())) + terms + slip
