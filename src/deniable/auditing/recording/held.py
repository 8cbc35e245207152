"""Generators and samplers that a mechanism holds: in its closure, its globals, its object.

`rng = np.random.default_rng()` at the top of a module, `from random import gauss`, `self.rng`: a recorder that watches
libraries alone would miss them. The names that the mechanism's own functions use are followed, a few functions deep.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_DEEPEST = 4
_FOREIGN = ("numpy", "torch", "random", "builtins", "deniable", "scipy", "sklearn", "pandas")


@dataclass(frozen=True)
class Place:
    """Somewhere that a name is bound."""

    value: Any
    put: Callable[[Any], None]


def places(mechanism: Any) -> list[Place]:
    """Every name that a mechanism's code can use and that can be bound to something else for a while."""
    seen: set[int] = set()
    return list(_of(mechanism, seen, _DEEPEST))


def _of(thing: Any, seen: set[int], depth: int) -> Iterator[Place]:
    if id(thing) in seen or depth == 0:
        return
    seen.add(id(thing))
    if isinstance(thing, functools.partial):
        for part in (thing.func, *thing.args, *thing.keywords.values()):
            yield from _of(part, seen, depth)
    elif isinstance(thing, types.MethodType):
        yield from _of(thing.__func__, seen, depth)
        yield from _of(thing.__self__, seen, depth)
    elif isinstance(thing, types.FunctionType):
        yield from _of_function(thing, seen, depth)
    elif not isinstance(thing, type | types.ModuleType | types.BuiltinFunctionType):
        yield from _of_object(thing, seen, depth)


def _of_function(function: types.FunctionType, seen: set[int], depth: int) -> Iterator[Place]:
    if (function.__module__ or "").partition(".")[0] in _FOREIGN:
        return
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        yield Place(value, functools.partial(setattr, cell, "cell_contents"))
        yield from _of(value, seen, depth - 1)
    for name in _names(function.__code__) & function.__globals__.keys():
        value = function.__globals__[name]
        yield Place(value, functools.partial(function.__globals__.__setitem__, name))
        if isinstance(value, types.FunctionType):
            yield from _of(value, seen, depth - 1)
    for value in function.__defaults__ or ():
        yield from _of(value, seen, depth - 1)


def _of_object(thing: Any, seen: set[int], depth: int) -> Iterator[Place]:
    if type(thing).__module__.partition(".")[0] in _FOREIGN:
        return
    attributes = getattr(thing, "__dict__", None)
    if isinstance(attributes, dict):
        for name, value in list(attributes.items()):
            yield Place(value, functools.partial(attributes.__setitem__, name))
            yield from _of(value, seen, depth - 1)
    if callable(thing):
        for method in vars(type(thing)).values():
            if isinstance(method, types.FunctionType):
                yield from _of(method, seen, depth - 1)


def _names(code: types.CodeType) -> set[str]:
    """The global names that code uses, functions inside it included."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)
