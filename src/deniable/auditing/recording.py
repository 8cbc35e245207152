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
import random
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import noise

__all__ = ["Draw", "DrawTape", "Sampler", "recorded", "seeded"]


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


class DrawTape:
    """The draws of one run.

    The record of one run's draws, and the random stream that each draw gets.

    Every call of a sampler starts its own stream, numbered by its place in the run. Two runs that make the same calls
    draw the same numbers, and a call for n + 1 numbers shares its first n with a call for n: a sampling mask of one
    more record differs in that record alone. Additive noise can be varied (`variation`) or multiplied (`loud`) while
    every other draw stays as it was.
    """

    def __init__(self, seed: int, *, variation: int = 0, loud: int = 1) -> None:
        self._seed, self._variation, self._loud = seed, variation, loud
        self._calls = 0
        self._inside = False
        self.draws: list[Draw] = []

    def play(
        self,
        library: str,
        sampler: Sampler,
        reseed: Callable[[int], None],
        call: Callable[[], Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Make one call on its own stream, and keep it. A call inside a call belongs to the outer one."""
        if self._inside:
            return call()
        self._inside = True
        try:
            reseed(self.stream(varied=sampler.law is not None))
            value = call()
            if sampler.law is not None and self._loud != 1:
                value = _multiply_noise(value, sampler.centre_of(args, kwargs), self._loud)
        finally:
            self._inside = False
        self.draws.append(_record_draw(library, sampler, value, args, kwargs))
        return value

    def stream(self, *, varied: bool = False) -> int:
        """The seed of the next call."""
        self._calls += 1
        words = np.random.SeedSequence([self._seed, self._calls, self._variation if varied else 0]).generate_state(2)
        return int(words[0]) << 32 | int(words[1])


def _record_draw(library: str, sampler: Sampler, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Draw:
    if sampler.law is None:
        return Draw(library, sampler, _numbers(value).ravel(), np.zeros(0))
    values = _numbers(value)
    centre, scale = _numbers(sampler.centre_of(args, kwargs)), _numbers(sampler.scale_of(args, kwargs))
    shape = np.broadcast_shapes(values.shape, centre.shape, scale.shape)
    noise = np.broadcast_to(values - centre, shape).ravel()
    return Draw(library, sampler, noise, np.broadcast_to(scale, shape).ravel().astype(np.float64))


def _multiply_noise(value: Any, centre: Any, factor: int) -> Any:
    """Noise of any library times a factor, around its centre; a tensor is changed in place, as its sampler may do."""
    if hasattr(value, "mul_"):
        return value.sub_(centre).mul_(factor).add_(centre)
    return centre + factor * (value - centre)


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


_DEEPEST = 4
_FOREIGN = ("numpy", "torch", "random", "builtins", "deniable", "scipy", "sklearn", "pandas")


@dataclass(frozen=True)
class GeneratorReference:
    """Somewhere that a name is bound."""

    value: Any
    put: Callable[[Any], None]


def find_generators(mechanism: Any) -> list[GeneratorReference]:
    """Every name that a mechanism's code can use and that can be bound to something else for a while.

    Generators and samplers that a mechanism holds: in its closure, its globals, its object.

    `rng = np.random.default_rng()` at the top of a module, `from random import gauss`, `self.rng`: a recorder that
    watches libraries alone would miss them. The names that the mechanism's own functions use are followed, a few
    functions deep.
    """
    seen: set[int] = set()
    return list(_walk(mechanism, seen, _DEEPEST))


def _walk(thing: Any, seen: set[int], depth: int) -> Iterator[GeneratorReference]:
    if id(thing) in seen or depth == 0:
        return
    seen.add(id(thing))
    if isinstance(thing, functools.partial):
        for part in (thing.func, *thing.args, *thing.keywords.values()):
            yield from _walk(part, seen, depth)
    elif isinstance(thing, types.MethodType):
        yield from _walk(thing.__func__, seen, depth)
        yield from _walk(thing.__self__, seen, depth)
    elif isinstance(thing, types.FunctionType):
        yield from _walk_function(thing, seen, depth)
    elif not isinstance(thing, type | types.ModuleType | types.BuiltinFunctionType):
        yield from _walk_object(thing, seen, depth)


def _walk_function(function: types.FunctionType, seen: set[int], depth: int) -> Iterator[GeneratorReference]:
    if (function.__module__ or "").partition(".")[0] in _FOREIGN:
        return
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        yield GeneratorReference(value, functools.partial(setattr, cell, "cell_contents"))
        yield from _walk(value, seen, depth - 1)
    for name in _names(function.__code__) & function.__globals__.keys():
        value = function.__globals__[name]
        yield GeneratorReference(value, functools.partial(function.__globals__.__setitem__, name))
        if isinstance(value, types.FunctionType):
            yield from _walk(value, seen, depth - 1)
    for value in function.__defaults__ or ():
        yield from _walk(value, seen, depth - 1)


def _walk_object(thing: Any, seen: set[int], depth: int) -> Iterator[GeneratorReference]:
    if type(thing).__module__.partition(".")[0] in _FOREIGN:
        return
    attributes = getattr(thing, "__dict__", None)
    if isinstance(attributes, dict):
        for name, value in list(attributes.items()):
            yield GeneratorReference(value, functools.partial(attributes.__setitem__, name))
            yield from _walk(value, seen, depth - 1)
    if callable(thing):
        for method in vars(type(thing)).values():
            if isinstance(method, types.FunctionType):
                yield from _walk(method, seen, depth - 1)


def _names(code: types.CodeType) -> set[str]:
    """The global names that code uses, functions inside it included."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)


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
        stack.enter_context(_states(tape.stream()))
        for place in find_generators(mechanism):
            _rebind(place, tape, replaced, stack)
        stack.enter_context(_shared_source(tape))
        yield tape


@contextlib.contextmanager
def seeded(seed: int | None, number: int, mechanism: Any = None) -> Iterator[None]:
    """Every generator in reach seeded by (seed, number) for one run, and as it was afterwards. No seed, no effect."""
    if seed is None:
        yield
        return
    tape = DrawTape(seed, variation=number)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_states(tape.stream(varied=True)))
        original = np.random.default_rng
        stack.callback(setattr, np.random, "default_rng", original)
        fresh = functools.partial(_fresh, original, tape)
        setattr(np.random, "default_rng", fresh)  # noqa: B010
        for place in find_generators(mechanism) if mechanism is not None else ():
            if place.value is original:
                stack.callback(place.put, original)
                place.put(fresh)
            else:
                _reseed_held(place.value, tape, stack)
        stack.enter_context(_shared_source(tape, varied=True))
        yield


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
            (torch, TORCH, "torch", functools.partial(_seed_torch, torch)),
            (torch.Tensor, TENSOR, "torch", functools.partial(_seed_torch, torch)),
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
        return tape.play(library, sampler, set_stream, lambda: original(*args, **kwargs), args, kwargs)

    return watched


def _set_source(seed: int, *, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """deniable.noise draws from the source it is given; a recorded call is given ours."""
    kwargs["source"] = noise.InsecureSource(seed)


def _seed_torch(torch: Any, seed: int, *, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    torch.manual_seed(seed % 2**63)
    if kwargs.get("generator") is not None:
        kwargs["generator"].manual_seed(seed % 2**63)


def _factories(tape: DrawTape) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Constructors whose generators record."""
    original = np.random.default_rng

    @functools.wraps(original)
    def default_rng(seed: Any = None) -> Any:
        if seed is None:
            return _generator(np.random.PCG64(tape.stream()), tape)
        # A seed that the mechanism chose is kept: that is how a reused one shows itself.
        return _generator(original(seed).bit_generator, tape, own=True)

    return [(np.random, "default_rng", default_rng)]


def _generator(bits: Any, tape: DrawTape, *, own: bool = False) -> np.random.Generator:
    """A NumPy generator that records; `own` keeps the stream that the mechanism seeded itself."""

    def reseed(seed: int, **_: Any) -> None:
        if not own:
            bits.state = type(bits)(seed).state

    base = np.random.Generator(bits)
    methods = {s.name: _method(s, tape, reseed) for s in GENERATOR if hasattr(base, s.name)}
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


def _method(sampler: Sampler, tape: DrawTape, reseed: Callable[..., None]) -> Callable[..., Any]:
    """A method of a subclass that records and calls the method of its base."""

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        base = type(self).__mro__[1]
        call = functools.partial(getattr(base, sampler.name), self, *args, **kwargs)
        library = "random" if base is random.Random else "numpy"
        return tape.play(library, sampler, reseed, call, args, kwargs)

    return watched


def _rebind(place: GeneratorReference, tape: DrawTape, replaced: dict[int, Any], stack: contextlib.ExitStack) -> None:
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


def _reseed_held(held: Any, tape: DrawTape, stack: contextlib.ExitStack) -> None:
    """A held generator, on a stream of its own until it is put back."""
    if isinstance(held, np.random.Generator):
        bits: Any = held.bit_generator
        stack.callback(setattr, bits, "state", bits.state)
        bits.state = type(bits)(tape.stream(varied=True)).state
    elif isinstance(held, np.random.RandomState):
        stack.callback(held.set_state, held.get_state())
        held.seed(tape.stream(varied=True) % 2**32)
    elif type(held) is random.Random:
        stack.callback(held.setstate, held.getstate())
        held.seed(tape.stream(varied=True))


def _fresh(original: Callable[..., Any], tape: DrawTape, seed: Any = None) -> Any:
    return original(tape.stream(varied=True) if seed is None else seed)


@contextlib.contextmanager
def _states(seed: int) -> Iterator[None]:
    """The process-wide generators, seeded, and put back."""
    torch = sys.modules.get("torch")
    standard, legacy = random.getstate(), np.random.get_state()
    tensor = torch.get_rng_state() if torch is not None and hasattr(torch, "get_rng_state") else None
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch is not None and tensor is not None:
        torch.manual_seed(seed % 2**63)
    try:
        yield
    finally:
        random.setstate(standard)
        np.random.set_state(legacy)
        if torch is not None and tensor is not None:
            torch.set_rng_state(tensor)


@contextlib.contextmanager
def _shared_source(tape: DrawTape, *, varied: bool = False) -> Iterator[None]:
    """The process's secure source, giving seeded words for a while."""
    shared, given = noise.secure(), noise.InsecureSource(tape.stream(varied=varied))
    for name in ("words", "word"):
        setattr(shared, name, getattr(given, name))
    try:
        yield
    finally:
        for name in ("words", "word"):
            delattr(shared, name)
