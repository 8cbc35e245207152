"""Where a mechanism's randomness lives: generators that it holds, generators of the process, and what is out of reach.

`references` lists the names that a mechanism's code can use. `seeded` and `refreshed` put every generator in reach on a
stream of its own for one run, so that a worker's copy of a generator never repeats the noise of another worker. What
cannot be reseeded is told by name: `unrecordable` (libraries with generators of their own) and `keeps_state` (a
mechanism that a run leaves other than it was).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import importlib
import pickle
import random
import secrets
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable import noise

__all__ = ["Reference", "functions", "keeps_state", "references", "refreshed", "seeded", "unrecordable"]

_DEEPEST = 6
_MANY = 64
_FOREIGN = ("numpy", "torch", "random", "builtins", "deniable", "scipy", "sklearn", "pandas")

HIDDEN = {
    "jax": "jax", "jaxlib": "jax", "numba": "numba", "tensorflow": "tensorflow", "cupy": "cupy", "mlx": "mlx",
    "ctypes": "compiled code (ctypes)", "_ctypes": "compiled code (ctypes)", "cffi": "compiled code (cffi)",
    "secrets": "the operating system (secrets)",
}  # fmt: skip
"""Libraries whose draws nobody can record from outside, by what they are called in a report."""


@dataclass(frozen=True)
class Reference:
    """Somewhere that a name is bound."""

    value: Any
    put: Callable[[Any], None]


def references(mechanism: Any) -> list[Reference]:
    """Every name that a mechanism's code can use and that can be bound to something else for a while.

    `rng = np.random.default_rng()` at the top of a module, `from random import gauss`, `self.rng`: a recorder that
    watches libraries alone would miss them. The names that the mechanism's own functions use are followed, a few
    functions and containers deep.
    """
    return [found for found in _walk(mechanism, set(), _DEEPEST) if isinstance(found, Reference)]


def functions(mechanism: Any) -> list[types.FunctionType]:
    """The mechanism's own Python functions, and those that they use."""
    return [found for found in _walk(mechanism, set(), _DEEPEST) if isinstance(found, types.FunctionType)]


def _walk(thing: Any, seen: set[int], depth: int) -> Iterator[Reference | types.FunctionType]:
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
    elif isinstance(thing, dict | list):
        places = list(thing) if isinstance(thing, dict) else range(len(thing))
        for place in list(places)[:_MANY]:
            yield Reference(thing[place], functools.partial(thing.__setitem__, place))
            yield from _walk(thing[place], seen, depth - 1)
    elif isinstance(thing, tuple):
        for part in thing[:_MANY]:
            yield from _walk(part, seen, depth - 1)
    elif not isinstance(thing, type | types.ModuleType | types.BuiltinFunctionType):
        yield from _walk_object(thing, seen, depth)


def _walk_function(
    function: types.FunctionType, seen: set[int], depth: int
) -> Iterator[Reference | types.FunctionType]:
    if (function.__module__ or "").partition(".")[0] in _FOREIGN:
        return
    yield function
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        yield Reference(value, functools.partial(setattr, cell, "cell_contents"))
        yield from _walk(value, seen, depth - 1)
    for name in sorted(_names(function.__code__) & function.__globals__.keys()):
        value = function.__globals__[name]
        yield Reference(value, functools.partial(function.__globals__.__setitem__, name))
        if not isinstance(value, type | types.ModuleType):
            yield from _walk(value, seen, depth - 1)
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield from _walk(value, seen, depth - 1)


def _walk_object(thing: Any, seen: set[int], depth: int) -> Iterator[Reference | types.FunctionType]:
    attributes = getattr(thing, "__dict__", None)
    if isinstance(attributes, dict) and type(thing).__module__.partition(".")[0] not in _FOREIGN:
        for name, value in list(attributes.items()):
            yield Reference(value, functools.partial(attributes.__setitem__, name))
            yield from _walk(value, seen, depth - 1)
        for method in [part for kind in type(thing).__mro__[:-1] for part in vars(kind).values()]:
            if isinstance(method, types.FunctionType):
                yield from _walk(method, seen, depth - 1)


def _names(code: types.CodeType) -> set[str]:
    """The global names that code uses, functions inside it included."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)


def generators(mechanism: Any) -> list[Any]:
    """Every generator that a run may use: those in reach, then all others of NumPy and `random` in the process."""
    torch = sys.modules.get("torch")
    wanted: tuple[Any, ...] = (np.random.Generator, np.random.RandomState, random.Random)
    if torch is not None and hasattr(torch, "Generator"):
        wanted += (torch.Generator,)
    found = [place.value for place in references(mechanism) if isinstance(place.value, wanted)]
    seen = {id(thing): thing for thing in [*found, *_scan.all()] if not isinstance(thing, random.SystemRandom)}
    return list(seen.values())


class _Scan:
    """All generators of NumPy and `random` in this process. Looking takes a while, so an answer serves for a second."""

    def __init__(self) -> None:
        self._found: list[Any] = []
        self._until = 0.0

    def all(self) -> list[Any]:
        """Every such generator that the garbage collector knows."""
        if time.monotonic() > self._until:
            kinds: dict[type, bool] = {}
            known = [thing for thing in gc.get_objects() if self._is_generator(type(thing), kinds)]
            self._found = [thing for thing in known if not any(thing is each for each in _PROCESS)]
            self._until = time.monotonic() + 1.0
        return self._found

    @staticmethod
    def _is_generator(kind: type, kinds: dict[type, bool]) -> bool:
        if kind not in kinds:
            kinds[kind] = issubclass(kind, np.random.Generator | np.random.RandomState | random.Random)
        return kinds[kind]


_PROCESS: tuple[Any, ...] = (vars(random)["_inst"], np.random.mtrand.__dict__["_rand"])
"""The generators behind the functions of `random` and `numpy.random`, which are seeded as the process's own."""

_scan = _Scan()


def state_of(generator: Any) -> bytes:
    """The state of a generator, as a key."""
    if isinstance(generator, np.random.Generator):
        state: Any = generator.bit_generator.state
    elif isinstance(generator, np.random.RandomState):
        state = generator.get_state()
    elif isinstance(generator, random.Random):
        state = generator.getstate()
    else:
        state = generator.get_state().numpy()
    return hashlib.sha256(_flat(state)).digest()


def _flat(state: Any) -> bytes:
    if isinstance(state, Mapping):
        return b"".join(_flat(part) for part in state.values())
    if isinstance(state, tuple | list):
        return b"".join(_flat(part) for part in state) if len(state) < _MANY else repr(state).encode()
    return state.tobytes() if isinstance(state, np.ndarray) else repr(state).encode()


def process_states() -> tuple[bytes, ...]:
    """The states of the generators that all code of a process shares."""
    torch = sys.modules.get("torch")
    tensor = torch.get_rng_state().numpy().tobytes() if torch is not None and hasattr(torch, "get_rng_state") else b""
    return repr(hash(random.getstate())).encode(), _flat(np.random.get_state()), tensor


Seeds = Callable[[], int]


def seed_torch(seed: int) -> None:
    """Seed torch's generators, if it is loaded."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        seed_all = torch.manual_seed if _has_accelerator() else torch.default_generator.manual_seed
        seed_all(seed % 2**63)


@functools.lru_cache(maxsize=1)
def _has_accelerator() -> bool:
    """Whether torch may have generators beside the CPU's. To seed those it keeps a stack trace, which is slow."""
    accelerator = getattr(sys.modules["torch"], "accelerator", None)
    return accelerator is None or bool(accelerator.is_available())


@contextlib.contextmanager
def process_generators(seed: int) -> Iterator[None]:
    """The generators that all code shares, seeded, and put back."""
    torch = sys.modules.get("torch")
    standard, legacy = random.getstate(), np.random.get_state()
    tensor = torch.get_rng_state() if torch is not None and hasattr(torch, "get_rng_state") else None
    random.seed(seed)
    np.random.seed(seed % 2**32)
    seed_torch(seed)
    try:
        yield
    finally:
        random.setstate(standard)
        np.random.set_state(legacy)
        if torch is not None and tensor is not None:
            torch.set_rng_state(tensor)


@contextlib.contextmanager
def shared_source(source: Any) -> Iterator[None]:
    """The process's secure source, giving the words of another for a while."""
    shared = noise.secure()
    for name in ("words", "word"):
        setattr(shared, name, getattr(source, name))
    try:
        yield
    finally:
        for name in ("words", "word"):
            delattr(shared, name)


@contextlib.contextmanager
def seeded(
    seed: int | None, number: int, mechanism: Any = None, *, held: Iterable[Any] | None = None
) -> Iterator[None]:
    """Every generator in reach seeded by (seed, number) for one run, and as it was afterwards. No seed, no effect."""
    if seed is None:
        yield
        return
    # One stream for each use: how many generators a process has besides must not matter.
    process, made, kept, source = (_stream(seed, number, use) for use in range(4))
    with contextlib.ExitStack() as stack:
        stack.enter_context(process_generators(process()))
        original = np.random.default_rng

        def fresh(seed: Any = None) -> np.random.Generator:
            return original(made() if seed is None else seed)

        stack.callback(setattr, np.random, "default_rng", original)
        setattr(np.random, "default_rng", fresh)  # noqa: B010
        for place in references(mechanism) if mechanism is not None else ():
            if place.value is original:
                stack.callback(place.put, original)
                place.put(fresh)
        _reseed(generators(mechanism) if held is None else held, kept, stack)
        stack.enter_context(shared_source(noise.InsecureSource(source())))
        yield


@contextlib.contextmanager
def refreshed(held: Iterable[Any]) -> Iterator[None]:
    """Every generator in reach on a stream that the operating system chose, for one run on a worker.

    A worker gets a copy of what the mechanism holds. Without this, all workers would draw the same noise again and
    again, and their rounds would not be independent.
    """
    process = process_generators(secrets.randbits(63))
    process.__enter__()  # a worker's generators need not be put back, and threads share them
    _reseed(held, lambda: secrets.randbits(64), contextlib.ExitStack())
    yield


def _stream(seed: int, number: int, use: int) -> Seeds:
    """Seeds for one use in one round."""
    calls = iter(range(1, sys.maxsize))

    def following() -> int:
        words = np.random.SeedSequence([seed, number, use, next(calls)]).generate_state(2)
        return int(words[0]) << 32 | int(words[1])

    return following


def _reseed(held: Iterable[Any], seeds: Seeds, stack: contextlib.ExitStack) -> None:
    """Generators on streams of their own until they are put back."""
    for generator in held:
        if isinstance(generator, np.random.Generator):
            bits: Any = generator.bit_generator
            stack.callback(setattr, bits, "state", bits.state)
            bits.state = type(bits)(seeds()).state
        elif isinstance(generator, np.random.RandomState):
            stack.callback(generator.set_state, generator.get_state())
            generator.seed(seeds() % 2**32)
        elif isinstance(generator, random.Random):
            stack.callback(generator.setstate, generator.getstate())
            generator.seed(seeds())
        else:  # torch's
            stack.callback(generator.set_state, generator.get_state())
            generator.manual_seed(seeds() % 2**63)


def unrecordable(mechanism: Any) -> tuple[str, ...]:
    """Sources in a mechanism's reach whose draws cannot be recorded or reseeded, by name."""
    found = set()
    for value in [mechanism, *(place.value for place in references(mechanism))]:
        module = value.__name__ if isinstance(value, types.ModuleType) else _module_of(value)
        name = HIDDEN.get(module.partition(".")[0])
        if name is not None:
            found.add(name)
        elif isinstance(value, random.SystemRandom):
            found.add("the operating system (random.SystemRandom)")
    return tuple(sorted(found))


def _module_of(value: Any) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__ or "")


def keeps_state(mechanism: Any, run: Callable[[], object]) -> bool:
    """Whether one run leaves the mechanism, or what its code uses, other than it was; True where one cannot tell."""
    before = _fingerprint(mechanism)
    run()
    after = _fingerprint(mechanism)
    return before is None or before != after


def _fingerprint(mechanism: Any) -> bytes | None:
    """What a worker would get, as a key; None where it cannot be had."""
    import joblib  # noqa: F401  (workers get what its pickler writes)

    dumps = _pickler()
    parts = [place.value for place in references(mechanism)]
    values = [part for part in parts if not isinstance(part, types.ModuleType | types.FunctionType | type)]
    try:
        return hashlib.sha256(dumps((mechanism, values))).digest()
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError, pickle.PicklingError):
        return None


def _pickler() -> Callable[[Any], bytes]:
    """The pickler that sends functions by value: cloudpickle, which joblib needs or brings along."""
    try:
        module = importlib.import_module("cloudpickle")
    except ModuleNotFoundError:
        module = importlib.import_module("joblib.externals.cloudpickle")
    dumps: Callable[[Any], bytes] = module.dumps
    return dumps
