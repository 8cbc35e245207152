"""Watching the generators of NumPy, `random`, torch and `deniable.noise` for the length of one run.

Library functions are wrapped, and so are generators that the mechanism holds. On leaving, every wrapper is taken away
and every generator has the state it had. torch is watched if it is already loaded, and never imported here.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from deniable import noise
from deniable.auditing.recording import libraries
from deniable.auditing.recording.held import Place, places
from deniable.auditing.recording.tape import Sampler, Tape


@contextlib.contextmanager
def recorded(mechanism: Any, tape: Tape) -> Iterator[Tape]:
    """Run a mechanism inside this, and its draws are on the tape."""
    with contextlib.ExitStack() as stack:
        replaced: dict[int, Any] = {}
        for owner, samplers, library, reseed in _owners():
            for sampler in samplers:
                original = getattr(owner, sampler.name)
                wrapper = _wrapped(original, tape, library, sampler, reseed)
                stack.callback(setattr, owner, sampler.name, original)
                setattr(owner, sampler.name, wrapper)
                replaced[id(original)] = wrapper
        for owner, name, wrapper in _factories(tape):
            original = getattr(owner, name)
            stack.callback(setattr, owner, name, original)
            setattr(owner, name, wrapper)
            replaced[id(original)] = wrapper
        stack.enter_context(_states(tape.stream()))
        for place in places(mechanism):
            _rebind(place, tape, replaced, stack)
        stack.enter_context(_shared_source(tape))
        yield tape


@contextlib.contextmanager
def seeded(seed: int | None, number: int, mechanism: Any = None) -> Iterator[None]:
    """Every generator in reach seeded by (seed, number) for one run, and as it was afterwards. No seed, no effect."""
    if seed is None:
        yield
        return
    tape = Tape(seed, variation=number)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_states(tape.stream(varied=True)))
        original = np.random.default_rng
        stack.callback(setattr, np.random, "default_rng", original)
        fresh = functools.partial(_fresh, original, tape)
        setattr(np.random, "default_rng", fresh)  # noqa: B010
        for place in places(mechanism) if mechanism is not None else ():
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
        (np.random, libraries.LEGACY_NAMES, "numpy", lambda seed, *_, **__: np.random.seed(seed % 2**32)),
        (random, libraries.STANDARD, "random", lambda seed, *_, **__: random.seed(seed)),
        (noise, libraries.NOISE_NAMES, "deniable", _set_source),
    ]
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        found += [
            (torch, libraries.TORCH, "torch", functools.partial(_seed_torch, torch)),
            (torch.Tensor, libraries.TENSOR, "torch", functools.partial(_seed_torch, torch)),
        ]
    return found


def _wrapped(
    original: Callable[..., Any],
    tape: Tape,
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


def _factories(tape: Tape) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Constructors whose generators record."""
    original = np.random.default_rng

    @functools.wraps(original)
    def default_rng(seed: Any = None) -> Any:
        if seed is None:
            return _generator(np.random.PCG64(tape.stream()), tape)
        # A seed that the mechanism chose is kept: that is how a reused one shows itself.
        return _generator(original(seed).bit_generator, tape, own=True)

    return [(np.random, "default_rng", default_rng)]


def _generator(bits: Any, tape: Tape, *, own: bool = False) -> np.random.Generator:
    """A NumPy generator that records; `own` keeps the stream that the mechanism seeded itself."""

    def reseed(seed: int, **_: Any) -> None:
        if not own:
            bits.state = type(bits)(seed).state

    base = np.random.Generator(bits)
    methods = {s.name: _method(s, tape, reseed) for s in libraries.GENERATOR if hasattr(base, s.name)}
    made: np.random.Generator = type("Generator", (np.random.Generator, libraries.Recorded), methods)(bits)
    return made


def _legacy(state: Any, tape: Tape) -> Any:
    """A legacy NumPy generator that records."""

    def reseed(seed: int, **_: Any) -> None:
        made.seed(seed % 2**32)

    methods = {s.name: _method(s, tape, reseed) for s in libraries.LEGACY if hasattr(state, s.name)}
    made = type("RandomState", (np.random.RandomState, libraries.Recorded), methods)()
    return made


def _standard(tape: Tape) -> random.Random:
    """A generator of `random` that records."""
    methods = {s.name: _method(s, tape, lambda seed, **_: made.seed(seed)) for s in libraries.STANDARD}
    made: random.Random = type("Random", (random.Random, libraries.Recorded), methods)()
    return made


def _method(sampler: Sampler, tape: Tape, reseed: Callable[..., None]) -> Callable[..., Any]:
    """A method of a subclass that records and calls the method of its base."""

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        base = type(self).__mro__[1]
        call = functools.partial(getattr(base, sampler.name), self, *args, **kwargs)
        library = "random" if base is random.Random else "numpy"
        return tape.play(library, sampler, reseed, call, args, kwargs)

    return watched


def _rebind(place: Place, tape: Tape, replaced: dict[int, Any], stack: contextlib.ExitStack) -> None:
    """A held generator or sampler, exchanged for one that records."""
    held = place.value
    if isinstance(held, libraries.Recorded):
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


def _reseed_held(held: Any, tape: Tape, stack: contextlib.ExitStack) -> None:
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


def _fresh(original: Callable[..., Any], tape: Tape, seed: Any = None) -> Any:
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
def _shared_source(tape: Tape, *, varied: bool = False) -> Iterator[None]:
    """The process's secure source, giving seeded words for a while."""
    shared, given = noise.secure(), noise.InsecureSource(tape.stream(varied=varied))
    for name in ("words", "word"):
        setattr(shared, name, getattr(given, name))
    try:
        yield
    finally:
        for name in ("words", "word"):
            delattr(shared, name)
