"""Both neighbours on recorded randomness: proofs where every operation was followed, leads for the game otherwise.

*Proofs.* D and D′ run once each with traced noise (`tracing`). If both runs return numbers f + c·z whose noise was only
ever added to and scaled, the two laws are known, and with them the mechanism's true ε on these numbers. They refute a
claim if they break it and if these premises hold, each of them checked on the path that was taken:

1. no comparison, rounding, clamp, conversion or foreign function touched the noise: the traced run returned;
2. nothing else is random: no other sampler was called, no generator of the process or in its memory moved, no bits of
   the operating system were drawn, no compiled code outside a short list was entered;
3. runs without tracing give the very same numbers on the same draws, and f and c do not vary from run to run.

What remains is that the sampler has the law it was asked for.

*Leads.* Otherwise D and D′ run a few times on the same randomness with only the additive noise varied. What this shows
(a shift, a scale that depends on the data, an output that did not vary) is a statistic of a few runs. It becomes a
detector that knows where to look from the first round on, and the game decides.

Everything else is a finding: told, not judged. Sparse vector, noisy maximum and rejection samplers rightly draw
according to the data.
"""

from __future__ import annotations

import contextlib
import gc
import io
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.auditing.additive import Laws, Measured, fit_laws
from deniable.auditing.claims import Claim
from deniable.auditing.detectors import Detector
from deniable.auditing.generators import HIDDEN, functions, generators, state_of, unrecordable
from deniable.auditing.leads import Likelihood, UnvaryingOutput
from deniable.auditing.neighbours import Pair
from deniable.auditing.outputs import Output, read_output
from deniable.auditing.recording import Draw, DrawTape, recorded
from deniable.auditing.tracing import Traced, Untraceable, concrete, leaves, passing_conversions
from deniable.auditing.worlds import Caught, Limits, observe

_SEED = 20_240_229
_VARIED = 3
_VARIED_DISCRETE = 8
_CONFIRMING = 2
_FAR = 60.0
"""Noise is followed up to this many scales when rounding is bounded; beyond it there is no mass that counts."""

_DETERMINISTIC = frozenset(
    {
        "builtins", "math", "cmath", "operator", "_operator", "itertools", "functools", "_functools", "numbers",
        "collections", "_collections", "_collections_abc", "fractions", "decimal", "_decimal", "statistics",
        "_statistics", "numpy", "pandas", "scipy", "torch", "deniable", "copy", "copyreg", "abc", "_abc", "types",
        "typing", "dataclasses", "enum", "contextlib", "contextvars", "_contextvars", "warnings", "_warnings", "re",
        "_sre", "string", "struct", "_struct", "datetime", "_datetime", "heapq", "_heapq", "bisect", "_bisect", "array",
        "random", "_random", "hashlib", "_hashlib", "_sha2", "_sha256",
    }
)  # fmt: skip
"""Compiled modules that draw no randomness of their own, or only from generators that are watched."""


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
    """The laws of the two worlds, where they are proved and break the claim."""

    leads: tuple[Detector, ...] = ()
    """What the game should look at from its first round on."""

    def with_finding(self, kind: str, text: str) -> Replayed:
        """The same, and one more thing that was seen."""
        return replace(self, findings=(*self.findings, Finding(kind, text)))


@dataclass(frozen=True)
class _Run:
    output: Output
    draws: tuple[Draw, ...]
    unrecorded: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _TracedRun:
    """A traced run that returned: its traced numbers by their place, and the draws behind them."""

    value: Any
    numbers: dict[tuple[Any, ...], Traced]
    draws: tuple[Draw, ...]
    hidden: frozenset[str]

    def same_form(self, other: _TracedRun) -> bool:
        """Whether another run of the same world found the same f and c."""
        return self.numbers.keys() == other.numbers.keys() and all(
            np.array_equal(one.constant, other.numbers[place].constant)
            and np.array_equal(one.factor, other.numbers[place].factor)
            for place, one in self.numbers.items()
        )


@dataclass(frozen=True)
class Replayer:
    """A mechanism and its neighbours, to be run on recorded randomness. `copies` gives each run its own input."""

    mechanism: Callable[[Any], Any]
    pair: Pair
    claim: Claim
    copies: Callable[[Any], Any]
    limits: Limits = field(default_factory=Limits)

    def replay(self) -> Replayed:
        """Try to prove that the claim is false; failing that, look for leads."""
        proved, runs = self._proof()
        if proved is not None:
            return Replayed((_refutation(proved, self.claim),), runs, proved)
        found = self._leads()
        return Replayed(found.findings, runs + found.runs, None, found.leads)

    def _proof(self) -> tuple[Measured | None, int]:
        """The laws, if they break the claim and every premise holds; and the runs that this took."""
        first = self._traced(self.pair.first, 0)
        if first is None or not first.numbers or _elsewhere(first):
            return None, 1
        second = self._traced(self.pair.second, 0)
        if second is None or _elsewhere(second):
            return None, 2
        laws = _traced_laws(first, second)
        measured = None if laws is None else laws.measured()
        if measured is None or not any(measured.breaks(line.epsilon, line.delta) for line in self.claim.lines):
            return None, 2
        if unrecordable(self.mechanism):
            return None, 2
        held = generators(self.mechanism)
        for data, world in ((self.pair.first, first), (self.pair.second, second)):
            for variation in range(1, 1 + _CONFIRMING):
                traced, plain = self._traced(data, variation, held), self._run(data, variation)
                if traced is None or not traced.same_form(world) or _elsewhere(traced):
                    return None, 2 + 4 * _CONFIRMING
                if read_output(concrete(traced.value)).atom != plain.output.atom:
                    return None, 2 + 4 * _CONFIRMING
        return measured, 2 + 4 * _CONFIRMING

    def _leads(self) -> Replayed:
        first, second = ([self._run(data, v) for v in range(_VARIED)] for data in (self.pair.first, self.pair.second))
        if any((draw.law or "").startswith("discrete") for draw in first[0].draws):
            more = range(_VARIED, _VARIED_DISCRETE)
            first += [self._run(self.pair.first, v) for v in more]
            second += [self._run(self.pair.second, v) for v in more]
        findings = _compared(first, second)
        hidden = sorted(frozenset[str]().union(*(run.unrecorded for run in first + second)))
        hidden += [name for name in unrecordable(self.mechanism) if name not in hidden]
        if hidden:
            names = "; ".join(hidden)
            findings.append(Finding("randomness", f"not recorded, so judged by the game alone: {names}"))
        laws = _fitted_laws(first, second)
        leads: list[Detector] = [] if laws is None else [Likelihood(laws)]
        measured = None if laws is None else laws.measured()
        if (
            measured is not None
            and any(measured.breaks(line.epsilon, line.delta) for line in self.claim.lines)
            and _alone(first + second)
        ):
            findings.insert(0, Finding("lead", f"in a few replays {_what(measured)}; the game decides"))
        constant = _constant_world(first, second)
        if constant is not None:
            leads.append(constant)
            findings.insert(0, Finding("lead", "one input gave the same output in every replay; the game decides"))
        return Replayed(tuple(findings), len(first) + len(second), None, tuple(leads))

    def _run(self, data: Any, variation: int) -> _Run:
        given = self.copies(data)
        with recorded(self.mechanism, DrawTape(_SEED, variation=variation)) as tape:
            seen = observe(lambda: self.mechanism(given), self.limits)
        return _Run(seen.output, tuple(tape.draws), frozenset(tape.unrecorded))

    def _traced(self, data: Any, variation: int, held: Sequence[Any] = ()) -> _TracedRun | None:
        """One run with traced noise; None where something else than addition and scaling touched it.

        `held`: generators of this process that must not move.
        """
        tape = DrawTape(_SEED, variation=variation, traced=True)
        given, refused = self.copies(data), Untraceable.count
        foreign: set[str] = set()
        value = None
        with (
            Caught() as caught,
            contextlib.suppress(Untraceable),
            _watched_generators(held, tape),
            recorded(self.mechanism, tape),
            passing_conversions(functions(self.mechanism)),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(record=True),
            _no_collection(),
            _watched_calls(foreign, tape),
            self.limits.around(),
        ):
            value = self.mechanism(given)
        if caught.error is not None or Untraceable.count != refused:
            return None
        return _TracedRun(value, dict(leaves(value)), tuple(tape.draws), frozenset(tape.unrecorded | foreign))


@contextlib.contextmanager
def _watched_generators(held: Sequence[Any], tape: DrawTape) -> Iterator[None]:
    """Notice every generator that moves although nobody recorded it."""
    before = [(generator, state_of(generator)) for generator in held]
    yield
    if any(state_of(generator) != state for generator, state in before):
        tape.unrecorded.add("a generator that was made before the audit and cannot be reached")


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection in a watched run: finalizers of somebody else's objects are no calls of the mechanism."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _watched_calls(foreign: set[str], tape: DrawTape) -> Iterator[None]:
    """Collect the compiled modules that a run enters outside of recorded samplers, and that may be random."""

    def watch(frame: Any, event: str, called: Any) -> None:
        if tape.inside:
            return
        if event == "c_call":
            owner = getattr(called, "__self__", None)
            module = getattr(called, "__module__", None) or type(owner).__module__ or ""
            if isinstance(owner, type(sys)):
                module = owner.__name__
            if module.partition(".")[0] not in _DETERMINISTIC:
                foreign.add(f"compiled code of {module}")
        elif event == "call":
            name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if name in HIDDEN:
                foreign.add(HIDDEN[name])

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)
        foreign.discard("compiled code of sys")  # this function's own call


def _elsewhere(run: _TracedRun) -> bool:
    """Whether anything but additive noise was, or may have been, drawn."""
    return bool(run.hidden) or any(draw.law is None for draw in run.draws)


def _traced_laws(first: _TracedRun, second: _TracedRun) -> Laws | None:
    """The laws of traced numbers that both worlds give, each following a draw of its own in both."""
    laws = {draw.law for run in (first, second) for draw in run.draws}
    if len(laws) != 1 or not first.draws or not second.draws:
        return None
    one, two = _scales(first.draws), _scales(second.draws)
    rows: list[tuple[float, ...]] = []
    used: tuple[set[int], set[int]] = (set(), set())
    for place in (place for place in first.numbers if place in second.numbers):
        a, b = first.numbers[place], second.numbers[place]
        if a.shape != b.shape:
            continue
        precision = max(_precision(a.value), _precision(b.value))
        for f, c, z, g, d, w in zip(
            *(part.ravel() for x in (a, b) for part in (x.constant, x.factor, x.draw)), strict=True
        ):
            if c == 0 or d == 0 or z in used[0] or w in used[1]:
                continue
            used[0].add(int(z))
            used[1].add(int(w))
            width, other = c * one[z], d * two[w]
            # Every operation rounds once; no path that is traced has more than a few operations a number.
            size = abs(f) + abs(g) + 2 * _FAR * (abs(width) + abs(other))
            rows.append((f, g, width, other, 64 * precision * size, c, d))
    if not rows:
        return None
    f, g, width, other, blur, c, d = np.array(rows).T
    if not (np.isfinite(width).all() and (width != 0).all() and (other != 0).all()):
        return None
    law = str(laws.pop())
    steps = (c, d) if law.startswith("discrete") else None
    return Laws(law, np.arange(len(f)), (f, g), (width, other), blur, steps)


def _scales(draws: tuple[Draw, ...]) -> NDArray[np.float64]:
    return np.concatenate([draw.scale for draw in draws])


def _precision(value: Any) -> float:
    """The relative rounding of a number's type."""
    kind = str(getattr(value, "dtype", "float64"))
    return 2.0**-8 if "16" in kind else 2.0**-24 if "32" in kind else 2.0**-53


def _alone(runs: list[_Run]) -> bool:
    """Whether nothing was drawn but additive noise."""
    return all(draw.law is not None for run in runs for draw in run.draws)


def _fitted_laws(first: list[_Run], second: list[_Run]) -> Laws | None:
    """The laws that replays suggest, where all outputs are plain numbers."""
    structures = {run.output.structure for run in first + second}
    if len(structures) != 1 or any(run.output.labels for run in first + second):
        return None
    one, two = ([(run.output.numbers, run.draws) for run in runs] for runs in (first, second))
    return fit_laws(one, two)


def _constant_world(first: list[_Run], second: list[_Run]) -> UnvaryingOutput | None:
    """A detector for an output that one world gave in every replay and the other in none."""
    atoms = [{run.output.atom for run in runs} for runs in (first, second)]
    if not (first[0].draws or second[0].draws):
        return None
    for second_world, (here, there) in enumerate((atoms, atoms[::-1])):
        if len(here) == 1 and not here & there:
            return UnvaryingOutput(next(iter(here)), second=bool(second_world))
    return None


def _what(measured: Measured) -> str:
    """What moves between the neighbours."""
    if not measured.alike:
        wider = float(np.exp(np.abs(np.log(measured.spread)).max()))
        return f"the noise's scale itself depends on the data, by a factor of {wider:.4g}"
    step = measured.step if measured.law.startswith("discrete") else 1.0
    norm = 1 if measured.law.endswith("laplace") else 2
    moved = float(np.linalg.norm(measured.shifts, norm)) / step
    inside = "" if measured.shifts.size == 1 else f" (L{norm} norm of {measured.shifts.size} numbers)"
    return f"the answer moves by {moved:.4g} times the noise's scale{inside}"


def _refutation(measured: Measured, claim: Claim) -> Finding:
    allowed = claim.profile.cost(claim.delta)
    return Finding(
        "sensitivity",
        f"{_what(measured)} ({measured.law} noise) between the neighbours, which breaks {allowed}. Proved by following"
        " the noise through every operation: the answer is f(data) + c·noise, and nothing else is random. It rests on"
        " the sampler having the law that it was asked for.",
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
