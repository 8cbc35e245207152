"""Recording and replaying a mechanism's randomness, from outside.

>>> import numpy as np
>>> from deniable.auditing.recording import DrawTape, recorded
>>> def mechanism(data):
...     return sum(data) + np.random.laplace(0, 2)
>>> with recorded(mechanism, DrawTape(seed=1)) as tape:
...     first = mechanism([1, 2])
>>> with recorded(mechanism, DrawTape(seed=1)):
...     second = mechanism([1, 2, 3])
>>> round(second - first, 9), tape.draws[0].label, tape.draws[0].scale
(3.0, 'numpy laplace', array([2.]))
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable.auditing.generators import (
    Reference,
    process_generators,
    process_states,
    references,
    seed_torch,
    shared_source,
)
from deniable.auditing.tracing import Traced, Untraceable

__all__ = ["Draw", "DrawTape", "ForcedChoice", "Sampler", "recorded"]


@dataclass(frozen=True)
class Sampler:
    """What is known of a sampling function: where its law, centre and scale are found among its arguments."""

    name: str
    law: str | None = None
    """"laplace", "gaussian", "discrete laplace" or "discrete gaussian", for noise that is added; None for the rest."""

    centre: tuple[str, int] | None = None
    scale: tuple[str, int] | None = None
    variance: str | None = None

    def centre_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The centre that was asked for."""
        return _argument(self.centre, args, kwargs, 0.0)

    def scale_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The scale that was asked for."""
        if self.variance is not None and self.variance in kwargs:
            return float(kwargs[self.variance]) ** 0.5
        return _argument(self.scale, args, kwargs, 1.0)


@dataclass(frozen=True)
class Draw:
    """One call of a sampler."""

    library: str
    sampler: Sampler
    noise: NDArray[np.float64] = field(repr=False)
    """The numbers drawn, less their centre; empty where they are not numbers."""

    scale: NDArray[np.float64] = field(repr=False)
    """The scale of each, for additive noise; empty for the rest."""

    @property
    def law(self) -> str | None:
        """The law of additive noise."""
        return self.sampler.law

    @property
    def label(self) -> str:
        """The function that was called: "numpy laplace"."""
        return f"{self.library} {self.sampler.name}"


@dataclass(frozen=True)
class ForcedChoice:
    """One number of one call that is chosen and not drawn: the place of a record in a sampling mask."""

    label: str
    turn: int
    """Which call of this sampler it is, from 1 on."""

    place: int
    value: Callable[[float], float]
    """What becomes of the number that was drawn."""


class DrawTape:
    """The record of one run's draws, and the random stream that each draw gets.

    Every call of a sampler starts its own stream, numbered by its turn among the calls of that sampler. Two runs that
    make the same calls draw the same numbers, and a call for n + 1 numbers shares its first n with a call for n: a
    sampling mask of one more record differs in that record alone. Additive noise can be varied (`variation`) while
    every other draw stays as it was; traced noise is followed through the mechanism (`traced`).
    """

    def __init__(
        self,
        seed: int,
        *,
        variation: int = 0,
        traced: bool = False,
        vary_all: bool = False,
        choices: Sequence[ForcedChoice] = (),
    ) -> None:
        self._seed, self._variation = seed, variation
        self._traced = traced
        self._choices = {(choice.label, choice.turn): choice for choice in choices}
        self._turns: Counter[str] = Counter()
        self._numbers = 0
        self._states: tuple[bytes, ...] | None = None
        self.inside = False
        """Whether a sampler is at work."""

        self.draws: list[Draw] = []
        self.unrecorded: set[str] = set()
        """Sources that were drawn from and cannot be recorded, by name."""

    def record_call(
        self,
        library: str,
        sampler: Sampler,
        reseed: Callable[[int], None],
        call: Callable[[], Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        own: bool = False,
    ) -> Any:
        """Make one call on its own stream, and keep it. A call inside a call belongs to the outer one.

        `own`: the generator was seeded by the mechanism itself, so its numbers do not have the law of the sampler.
        """
        if self.inside:
            return call()
        self.check_process()
        if own:
            self.unrecorded.add("a generator that the mechanism seeds itself")
        label = f"{library} {sampler.name}"
        given = kwargs.get("generator")  # torch's: as it was afterwards, so that other draws from it show
        state = None if given is None else given.get_state()
        self.inside = True
        try:
            reseed(self.stream(label, varied=sampler.law is not None))
            value = call()
        finally:
            self.inside = False
            if given is not None:
                given.set_state(state)
        choice = self._choices.get((label, self._turns[label]))
        if choice is not None:
            value = _choose(value, choice)
        draw = _record_draw(library, sampler, value, args, kwargs)
        self.draws.append(draw)
        self.accept_process()
        if not self._traced or sampler.law is None:
            return value
        if hasattr(value, "normal_") and sampler.name.endswith("_"):
            raise Untraceable("noise drawn into a tensor")
        first, self._numbers = self._numbers, self._numbers + draw.noise.size
        return Traced.of(value, centre=sampler.centre_of(args, kwargs), draw=first)

    def stream(self, label: str = "", *, varied: bool = False) -> int:
        """The seed of the next call of a sampler."""
        self._turns[label] += 1
        name = int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "little")
        entropy = [self._seed, name, self._turns[label], self._variation if varied else 0]
        words = np.random.SeedSequence(entropy).generate_state(2)
        return int(words[0]) << 32 | int(words[1])

    def note(self, source: str) -> None:
        """Something was drawn that is not on the tape."""
        if not self.inside:
            self.unrecorded.add(source)

    def accept_process(self) -> None:
        """The process's generators are as recorded calls left them."""
        if self._traced:
            self._states = process_states()

    def check_process(self) -> None:
        """Notice draws from the process's generators that no recorded call made."""
        if self._traced and self._states is not None and self._states != process_states():
            self.unrecorded.add("a generator of the process, by a function that is not recorded")


def _choose(value: Any, choice: ForcedChoice) -> Any:
    """The draw with one number of it chosen.

    The last number drawn goes to the chosen place and the others move up, so that they stay with the records that
    they have in a shorter draw. All are independent and alike, so the law is the same.
    """
    if not getattr(value, "shape", ()):
        return choice.value(float(value))
    flat = value.reshape(-1)
    drawn = [float(each) for each in flat]
    chosen = [*drawn[: choice.place], choice.value(drawn[-1]), *drawn[choice.place : -1]]
    for place, number in enumerate(chosen):
        flat[place] = number
    return value


def _record_draw(library: str, sampler: Sampler, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Draw:
    if sampler.law is None:
        return Draw(library, sampler, _numbers(value).ravel(), np.zeros(0))
    values = _numbers(value)
    centre, scale = _numbers(sampler.centre_of(args, kwargs)), _numbers(sampler.scale_of(args, kwargs))
    shape = np.broadcast_shapes(values.shape, centre.shape, scale.shape)
    noise = np.broadcast_to(values - centre, shape).ravel()
    return Draw(library, sampler, noise, np.broadcast_to(scale, shape).ravel().astype(np.float64))


def _numbers(value: Any) -> NDArray[np.float64]:
    """Numbers of any library as an array of floats; an empty one for what are no numbers."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return np.zeros(0)


def _argument(place: tuple[str, int] | None, args: tuple[Any, ...], kwargs: dict[str, Any], default: float) -> Any:
    if place is None:
        return default
    name, position = place
    return kwargs.get(name, args[position] if position < len(args) else default)


_LOC, _SCALE = ("loc", 0), ("scale", 1)

_NUMPY_ADDITIVE = (
    Sampler("laplace", "laplace", _LOC, _SCALE),
    Sampler("normal", "gaussian", _LOC, _SCALE),
    Sampler("standard_normal", "gaussian"),
)
_NUMPY_BOTH = (
    "beta", "binomial", "bytes", "chisquare", "choice", "dirichlet", "exponential", "gamma", "geometric", "gumbel",
    "hypergeometric", "logistic", "lognormal", "multinomial", "multivariate_normal", "negative_binomial", "pareto",
    "permutation", "poisson", "random", "rayleigh", "shuffle", "standard_cauchy", "standard_exponential",
    "standard_gamma", "standard_t", "triangular", "uniform", "vonmises", "weibull", "zipf",
)  # fmt: skip

GENERATOR = (*_NUMPY_ADDITIVE, *map(Sampler, (*_NUMPY_BOTH, "integers", "permuted")))
"""Methods of `numpy.random.Generator`."""

LEGACY = (
    *_NUMPY_ADDITIVE,
    Sampler("randn", "gaussian"),
    *map(Sampler, (*_NUMPY_BOTH, "rand", "randint", "random_sample")),
)
"""Methods of `numpy.random.RandomState`, and functions of `numpy.random`."""

_STANDARD = (
    "betavariate", "binomialvariate", "choice", "choices", "expovariate", "gammavariate", "getrandbits",
    "lognormvariate", "paretovariate", "randbytes", "randint", "random", "randrange", "sample", "shuffle",
    "triangular", "uniform", "vonmisesvariate", "weibullvariate",
)  # fmt: skip

STANDARD = (
    Sampler("gauss", "gaussian", ("mu", 0), ("sigma", 1)),
    Sampler("normalvariate", "gaussian", ("mu", 0), ("sigma", 1)),
    *(Sampler(name) for name in _STANDARD if hasattr(random, name)),
)
"""Functions of `random`, and methods of `random.Random`."""

TORCH = (
    Sampler("randn", "gaussian"),
    Sampler("randn_like", "gaussian"),
    Sampler("normal", "gaussian", ("mean", 0), ("std", 1)),
    *map(Sampler, ("bernoulli", "multinomial", "poisson", "rand", "rand_like", "randint", "randint_like", "randperm")),
)
"""Functions of torch."""

TENSOR = (
    Sampler("normal_", "gaussian", ("mean", 1), ("std", 2)),
    *map(Sampler, ("bernoulli_", "cauchy_", "exponential_", "geometric_", "random_", "uniform_")),
)
"""Methods of torch's tensors, which come with themselves as the first argument."""

NOISE = (
    Sampler("discrete_laplace", "discrete laplace", None, ("scale", 0)),
    Sampler("discrete_gaussian", "discrete gaussian", None, ("scale", 0), "variance"),
    *map(Sampler, ("bernoulli", "bernoulli_exp", "categorical", "permutation", "race", "ranking", "uniform")),
)
"""Functions of `deniable.noise`."""


class Recorded:
    """Marks generators that record, so that none is wrapped twice."""


LEGACY_NAMES = tuple(sampler for sampler in LEGACY if hasattr(np.random, sampler.name))
NOISE_NAMES = tuple(sampler for sampler in NOISE if hasattr(noise, sampler.name))


@contextlib.contextmanager
def recorded(mechanism: Any, tape: DrawTape) -> Iterator[DrawTape]:
    """Run a mechanism inside this, and its draws are on the tape.

    Watching the generators of NumPy, `random`, torch and `deniable.noise` for the length of one run.

    Library functions are wrapped, and so are generators that the mechanism holds. On leaving, every wrapper is taken
    away and every generator has the state it had. torch is watched if it is already loaded, and never imported here.
    """
    with contextlib.ExitStack() as stack:
        replaced: dict[int, Any] = {}
        for owner, samplers, library, reseed in _owners():
            for sampler in samplers:
                original = getattr(owner, sampler.name)
                wrapper = _wrap_samplers(original, tape, library, sampler, reseed)
                stack.callback(setattr, owner, sampler.name, original)
                setattr(owner, sampler.name, wrapper)
                replaced[id(original)] = wrapper
        for owner, name, wrapper in _factories(tape):
            original = getattr(owner, name)
            stack.callback(setattr, owner, name, original)
            setattr(owner, name, wrapper)
            replaced[id(original)] = wrapper
        stack.enter_context(process_generators(tape.stream("process")))
        for place in references(mechanism):
            _rebind(place, tape, replaced, stack)
        stack.enter_context(shared_source(_WatchedSource(tape)))
        for owner, name, source in _ENTROPY:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, _watch_entropy(getattr(owner, name), tape, source))
        tape.accept_process()
        yield tape
        tape.check_process()


_ENTROPY = [
    (owner, name, source)
    for owner, name, source in (
        (os, "urandom", "the operating system (os.urandom)"),
        (os, "getrandom", "the operating system (os.getrandom)"),
        (random, "_urandom", "the operating system (random.SystemRandom, secrets)"),
    )
    if hasattr(owner, name)
]
"""Functions that give bits of the operating system."""


def _watch_entropy(original: Callable[..., bytes], tape: DrawTape, source: str) -> Callable[..., bytes]:
    def watched(*args: Any) -> bytes:
        tape.note(source)
        return original(*args)

    return watched


class _WatchedSource:
    """Seeded words in the place of the secure source; words that no sampler asked for are noted."""

    def __init__(self, tape: DrawTape) -> None:
        self._tape = tape
        self._given = noise.InsecureSource(tape.stream("secure source"))

    def words(self, count: int) -> Any:
        """Some words."""
        self._tape.note("the secure source of deniable.noise, by a function that is not recorded")
        return self._given.words(count)

    def word(self) -> int:
        """One word."""
        self._tape.note("the secure source of deniable.noise, by a function that is not recorded")
        return self._given.word()


def _owners() -> list[tuple[Any, tuple[Sampler, ...], str, Callable[..., None]]]:
    """What is wrapped: an owner, its samplers, the library's name, and how its stream is set."""
    found: list[tuple[Any, tuple[Sampler, ...], str, Callable[..., None]]] = [
        (np.random, LEGACY_NAMES, "numpy", lambda seed, *_, **__: np.random.seed(seed % 2**32)),
        (random, STANDARD, "random", lambda seed, *_, **__: random.seed(seed)),
        (noise, NOISE_NAMES, "deniable", _set_source),
    ]
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        found += [
            (torch, TORCH, "torch", _seed_tensors),
            (torch.Tensor, TENSOR, "torch", _seed_tensors),
        ]
    return found


def _wrap_samplers(
    original: Callable[..., Any],
    tape: DrawTape,
    library: str,
    sampler: Sampler,
    reseed: Callable[..., None],
) -> Callable[..., Any]:
    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        set_stream = functools.partial(reseed, args=args, kwargs=kwargs)
        return tape.record_call(library, sampler, set_stream, lambda: original(*args, **kwargs), args, kwargs)

    return watched


def _set_source(seed: int, *, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """deniable.noise draws from the source it is given; a recorded call is given ours."""
    kwargs["source"] = noise.InsecureSource(seed)


def _seed_tensors(seed: int, *, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    seed_torch(seed)
    if kwargs.get("generator") is not None:
        kwargs["generator"].manual_seed(seed % 2**63)


def _factories(tape: DrawTape) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Constructors whose generators record."""
    original = np.random.default_rng

    @functools.wraps(original)
    def default_rng(seed: Any = None) -> Any:
        if seed is None:
            return _generator(np.random.PCG64(tape.stream("default_rng")), tape)
        # A seed that the mechanism chose is kept: that is how a reused one shows itself.
        return _generator(original(seed).bit_generator, tape, own=True)

    return [(np.random, "default_rng", default_rng)]


def _generator(bits: Any, tape: DrawTape, *, own: bool = False) -> np.random.Generator:
    """A NumPy generator that records; `own` keeps the stream that the mechanism seeded itself."""

    def reseed(seed: int, **_: Any) -> None:
        if not own:
            bits.state = type(bits)(seed).state

    base = np.random.Generator(bits)
    methods = {s.name: _method(s, tape, reseed, own=own) for s in GENERATOR if hasattr(base, s.name)}
    made: np.random.Generator = type("Generator", (np.random.Generator, Recorded), methods)(bits)
    return made


def _legacy(state: Any, tape: DrawTape) -> Any:
    """A legacy NumPy generator that records."""

    def reseed(seed: int, **_: Any) -> None:
        made.seed(seed % 2**32)

    methods = {s.name: _method(s, tape, reseed) for s in LEGACY if hasattr(state, s.name)}
    made = type("RandomState", (np.random.RandomState, Recorded), methods)()
    return made


def _standard(tape: DrawTape) -> random.Random:
    """A generator of `random` that records."""
    methods = {s.name: _method(s, tape, lambda seed, **_: made.seed(seed)) for s in STANDARD}
    made: random.Random = type("Random", (random.Random, Recorded), methods)()
    return made


def _method(sampler: Sampler, tape: DrawTape, reseed: Callable[..., None], *, own: bool = False) -> Callable[..., Any]:
    """A method of a subclass that records and calls the method of its base."""

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        base = type(self).__mro__[1]
        call = functools.partial(getattr(base, sampler.name), self, *args, **kwargs)
        library = "random" if base is random.Random else "numpy"
        return tape.record_call(library, sampler, reseed, call, args, kwargs, own=own)

    return watched


def _rebind(place: Reference, tape: DrawTape, replaced: dict[int, Any], stack: contextlib.ExitStack) -> None:
    """A held generator or sampler, exchanged for one that records."""
    held = place.value
    if isinstance(held, Recorded):
        return
    if isinstance(held, np.random.Generator):
        fresh: Any = _generator(type(held.bit_generator)(), tape)
    elif isinstance(held, np.random.RandomState):
        fresh = _legacy(held, tape)
    elif type(held) is random.Random:
        fresh = _standard(tape)
    elif id(held) in replaced and callable(held):
        fresh = replaced[id(held)]
    else:
        return
    stack.callback(place.put, held)
    place.put(fresh)
