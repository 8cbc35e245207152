"""Both neighbours on the same recorded randomness: what moves, and is it what was declared?

Two runs, one of each neighbour with loud noise, show what seems to be wrong (`measure_loud_runs`); the others verify
it. D and D′ run three times on the same randomness, the additive noise alone being varied (eight times where the noise
is integers). The records of draws are compared (number, order, scale), and an answer of the form f(data) + c·noise is
measured (`additive`).

A replay *refutes* only where it is a proof: the answer followed its noise in every replay, all randomness was recorded
(a repeated run gives the same output), nothing else was drawn, and the two laws so found break the claim; sixteen more
runs confirm it first. An output that one world gives in every replay, while the other follows continuous noise, breaks
every claim: a branch on the raw data without noise, a NaN, a crash.

If other draws were made, the laws are those given these draws; that breaks a claim only where the claim is an event on
a Poisson sample, whose inner step is what remains, and where these draws were coupled: the same numbers for the records
that both inputs have. Everything else is a finding: told, not judged. Sparse vector, noisy maximum and rejection
samplers rightly draw according to the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.auditing.additive import Measured, follows_noise, measure
from deniable.auditing.claims import Claim
from deniable.auditing.neighbours import Pair
from deniable.auditing.outputs import Output, crashed, read_output
from deniable.auditing.recording import Draw, DrawTape, recorded
from deniable.auditing.worlds import Caught
from deniable.events import Sampled

LOUD = 1 << 26
"""How much louder the noise is: answers of up to a million scales are still small beside it."""

_ALIKE = 1e-4
"""Factors that agree this closely are taken to be one: what differs is the answer."""


def measure_loud_runs(
    first: tuple[NDArray[np.float64], Sequence[Draw]], second: tuple[NDArray[np.float64], Sequence[Draw]]
) -> Measured | None:
    """The laws that two loud runs (numbers of the output, draws) suggest; None where they suggest nothing.

    Two runs: both neighbours once, on the same randomness, with the additive noise made loud.

    If an answer is f(data) + c·noise, one run cannot tell f from c. So the noise is multiplied by `LOUD`: then c is the
    answer over the noise, f being too small to matter, and the difference of the two answers is f(D) − f(D′), or shows
    that c depends on the data. That is a wrong sensitivity, a clipped average, a batch divided by its own size, in two
    runs.

    It is a reading, not a proof: an answer that is no such sum (its logarithm, or one that ignores its noise) is
    misread. So what is seen here is told only if `replay` then verifies the form, with noise as it is.

    >>> from deniable.auditing.recording import Sampler
    >>> draw = Draw("numpy", Sampler("laplace", "laplace"), np.array([0.7 * LOUD]), np.array([2.0]))
    >>> found = measure_loud_runs((np.array([5 + 0.7 * LOUD]), [draw]), (np.array([1 + 0.7 * LOUD]), [draw]))
    >>> found.shifts.round(3), found.spread
    (array([2.]), array([1.]))
    """
    (y, drawn), (other, again) = first, second
    noise, scales = _stack_draws(drawn)
    louder, widths = _stack_draws(again)
    laws = {draw.law for draw in (*drawn, *again) if draw.law is not None}
    if len(laws) != 1 or not y.size or not y.shape == other.shape == noise.shape == louder.shape:
        return None
    usable = (noise != 0) & np.isfinite(y) & np.isfinite(other) & (scales > 0)
    if not usable.all() or not np.array_equal(noise / scales, louder / widths):
        return None
    factors, theirs = y / noise, other / louder
    if (factors == 0).any() or (theirs / factors <= 0).any():
        return None
    law, ratio = str(laws.pop()), np.asarray(theirs / factors, dtype=np.float64)
    spread = np.where(np.abs(np.log(ratio)) < _ALIKE, 1.0, ratio) * widths / scales
    # Where the scales differ the answers' difference is mostly noise; the spread alone is read.
    moved = np.where(spread == 1.0, (y - other) / factors, 0.0)
    if law.startswith("discrete"):
        return Measured(law, np.rint(moved), spread, float(scales[0])) if np.ptp(scales) == 0 else None
    return Measured(law, moved / scales, spread)


def _stack_draws(draws: Sequence[Draw]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All additive numbers and their scales, in the order they were drawn."""
    added = [draw for draw in draws if draw.law is not None]
    if not added:
        return np.zeros(0), np.zeros(0)
    return np.concatenate([draw.noise for draw in added]), np.concatenate([draw.scale for draw in added])


_SEED = 20_240_229
_VARIED = 3
_CONFIRMING = 8


@dataclass(frozen=True)
class Finding:
    """One thing that was seen. `proof` says whether it refutes the claim by itself."""

    kind: str
    text: str
    proof: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True)
class Replayed:
    """What replays found."""

    findings: tuple[Finding, ...]
    runs: int
    measured: Measured | None = None
    """The laws found, where they refute the claim."""

    given: bool = False
    """Whether they are laws given the sample that was drawn: then they bound the inner step, not the mechanism."""


@dataclass(frozen=True)
class _Run:
    output: Output
    draws: tuple[Draw, ...]


def replay_pair(mechanism: Callable[[Any], Any], pair: Pair, claim: Claim, *, copies: Callable[[Any], Any]) -> Replayed:
    """Compare the neighbours on the same randomness; `copies` gives each run its own input."""

    def run(data: Any, variation: int, loud: int = 1) -> _Run:
        with Caught() as caught, recorded(mechanism, DrawTape(_SEED, variation=variation, loud=loud)) as tape:
            value = mechanism(copies(data))
        output = crashed(caught.error) if caught.error is not None else read_output(value)
        return _Run(output, tuple(tape.draws))

    def replays(start: int, stop: int) -> tuple[list[_Run], list[_Run]]:
        return [run(pair.first, v) for v in range(start, stop)], [run(pair.second, v) for v in range(start, stop)]

    seen = _first_sight(run(pair.first, 0, LOUD), run(pair.second, 0, LOUD), claim)
    first, second = replays(0, _VARIED)
    runs = 2 + 2 * _VARIED
    if any((draw.law or "").startswith("discrete") for draw in first[0].draws):
        more_first, more_second = replays(_VARIED, _CONFIRMING)
        first, second = first + more_first, second + more_second
        runs = 2 + 2 * _CONFIRMING
    findings = _compared(first, second)
    measured = _laws(first, second)
    judged = None if measured is None else _judged(claim, first, second)
    if measured is None or judged is None:
        return Replayed(tuple(findings), runs)
    if not any(measured.breaks(line.epsilon, line.delta) for line in judged.lines):
        return Replayed(tuple(findings), runs)
    more_first, more_second = replays(_CONFIRMING, 2 * _CONFIRMING)
    again = [run(pair.first, 0), run(pair.second, 0)]
    runs += 2 * _CONFIRMING + 2
    first, second = first + more_first, second + more_second
    confirmed = _laws(first, second)
    repeated = all(a.output.atom == b.output.atom for a, b in zip(again, (first[0], second[0]), strict=True))
    if confirmed is None or not repeated or not any(confirmed.breaks(e, d) for e, d in judged.lines):
        return Replayed(tuple(findings), runs)
    findings = [_refutation(confirmed, judged, claim), *seen, *findings]
    return Replayed(tuple(findings), runs, confirmed, given=judged is not claim)


def _alone(runs: list[_Run]) -> bool:
    """Whether nothing was drawn but additive noise."""
    return all(draw.law is not None for run in runs for draw in run.draws)


def _coupled(one: _Run, two: _Run) -> bool:
    """Whether all draws but additive noise are the same numbers in both worlds, as far as both have them."""
    others = [[draw for draw in run.draws if draw.law is None] for run in (one, two)]
    if [draw.label for draw in others[0]] != [draw.label for draw in others[1]]:
        return False
    for a, b in zip(*others, strict=True):
        size = min(a.noise.size, b.noise.size)
        if not size or abs(a.noise.size - b.noise.size) > 1 or not np.array_equal(a.noise[:size], b.noise[:size]):
            return False
    return True


def _judged(claim: Claim, first: list[_Run], second: list[_Run]) -> Claim | None:
    """The claim that the laws given all other draws must obey; None where there is none."""
    if _alone(first + second):
        return claim
    if isinstance(claim.stated, Sampled) and all(_coupled(*runs) for runs in zip(first, second, strict=True)):
        return Claim.of(claim.stated.event)
    return None


def _laws(first: list[_Run], second: list[_Run]) -> Measured | None:
    """The laws of both worlds, where replays tell them."""
    return _measured(first, second) or _fixed(first, second)


def _fixed(first: list[_Run], second: list[_Run]) -> Measured | None:
    """One world gives one output whatever its noise, and the other, which follows continuous noise, cannot give it."""
    moving = [runs for runs in (first, second) if len({run.output.atom for run in runs}) > 1]
    if len(moving) != 1 or len({run.output.structure for run in moving[0]}) != 1 or moving[0][0].output.labels:
        return None
    varied = follows_noise([(run.output.numbers, run.draws) for run in moving[0]])
    return Measured.apart() if varied else None


def _first_sight(one: _Run, two: _Run, claim: Claim) -> list[Finding]:
    """What two loud runs suggest: a scale that depends on the data, or a shift that would break the claim."""
    if bool(one.draws) != bool(two.draws):
        return [Finding("first sight", "two runs already showed that noise is drawn on one input only")]
    if one.output.structure != two.output.structure:
        return [Finding("first sight", "two runs already showed outputs of two kinds")]
    judged = _judged(claim, [one], [two])
    if judged is None or one.output.labels:
        return []
    found = measure_loud_runs((one.output.numbers, one.draws), (two.output.numbers, two.draws))
    if found is None or (found.alike and not any(found.breaks(*line) for line in judged.lines)):
        return []
    return [Finding("first sight", f"two runs already showed that {_what(found)}")]


def _what(measured: Measured) -> str:
    """What moves between the neighbours."""
    if measured.law == "apart":
        return "one input always gives the same output, which the other never gives"
    if not measured.alike:
        wider = float(np.exp(np.abs(np.log(measured.spread)).max()))
        return f"the noise's scale itself depends on the data, by a factor of {wider:.4g}"
    moved = float(np.abs(measured.shifts).max()) / (measured.step if measured.law.startswith("discrete") else 1)
    return f"the answer moves by {moved:.4g} times the noise's scale"


def _measured(first: list[_Run], second: list[_Run]) -> Measured | None:
    structures = {run.output.structure for run in first + second}
    if len(structures) != 1 or any(run.output.labels for run in first + second):
        return None
    one, two = ([(run.output.numbers, run.draws) for run in runs] for runs in (first, second))
    return measure(one, two)


def _refutation(measured: Measured, judged: Claim, claim: Claim) -> Finding:
    given = "" if judged is claim else " given the sample that was drawn"
    allowed = judged.profile.cost(judged.delta)
    noise = "" if measured.law == "apart" else f" ({measured.law} noise) between the neighbours"
    return Finding(
        "sensitivity",
        f"{_what(measured)}{noise}{given}, which breaks {allowed}. This is a proof if the answer is f(data) + c·noise,"
        " as it was in every replay, and the sampler has the law that it was asked for.",
        proof=True,
    )


def _compared(first: list[_Run], second: list[_Run]) -> list[Finding]:
    """Number, order and scale of the draws, and whether they matter."""
    one, two = first[0], second[0]
    found = []
    if not one.draws and not two.draws:
        return [Finding("randomness", "no call of a sampler could be recorded, so replays show nothing")]
    if len(one.draws) != len(two.draws):
        counts = f"{len(one.draws)} draws on D and {len(two.draws)} on D′"
        found.append(Finding("draws", f"{counts} with the same randomness: the data decide how often"))
    elif [draw.label for draw in one.draws] != [draw.label for draw in two.draws]:
        found.append(Finding("order", "the data decide in which order the samplers are called"))
    else:
        for a, b in zip(one.draws, two.draws, strict=True):
            if a.law is not None and a.noise.size != b.noise.size:
                found.append(Finding("draws", f"{a.label} gave {a.noise.size} numbers on D and {b.noise.size} on D′"))
                break
            if a.law is not None and not np.allclose(a.scale, b.scale, rtol=1e-12, atol=0):
                found.append(Finding("scale", f"the scale of {a.label} depends on the data"))
                break
    # A choice among labels may well stay the same; a number that noise was added to may not.
    plain = _alone(first + second) and one.output.numbers.size and not one.output.labels
    fixed = [runs for runs in (first, second) if runs[0].draws and len({run.output.atom for run in runs}) == 1]
    if fixed and plain:
        where = "both inputs" if len(fixed) == 2 else "D" if fixed[0] is first else "D′"
        found.append(Finding("noise", f"noise was drawn, and the output on {where} did not change with it"))
    return found
