"""`public`: the decorator of entry points. A wrong argument name is answered with the one that was meant.

The suggestion comes from the vocabulary of docs/glossary.md, from names that other libraries use, or from the spelling.

>>> from deniable.events import dpsgd
>>> dpsgd(noise_multiplier=1.1, batch=256, examples=60_000, steps=10)
Traceback (most recent call last):
...
deniable.errors.WrongArguments: dpsgd has no argument examples; did you mean size (how many units there are)?
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
from collections.abc import Callable
from decimal import Decimal
from typing import Any, ParamSpec, TypeVar

from deniable.errors import InvalidArgument, WrongArguments

P = ParamSpec("P")
R = TypeVar("R")
Kind = TypeVar("Kind", bound=type)

MEANINGS: dict[str, str] = {
    "size": "how many units there are",
    "batch": "the expected batch",
    "clip": "the largest norm of one unit's gradient",
    "source": "where randomness comes from",
    "key": "makes a charge idempotent",
    "relation": "what may change between neighbours",
    "budget": "a limit",
    "target": "what to calibrate to",
    "claim": "what to attack",
}
"""What the words of the glossary mean, for a suggestion."""

FOREIGN: dict[str, tuple[str, ...]] = {
    "target_epsilon": ("epsilon",),
    "eps": ("epsilon",),
    "privacy_budget": ("epsilon", "budget"),
    "target_delta": ("delta",),
    "examples": ("size",),
    "n": ("size",),
    "n_samples": ("size",),
    "num_samples": ("size",),
    "population": ("size",),
    "people": ("size",),
    "dataset_size": ("size",),
    "sample_size": ("batch", "size"),
    "batch_size": ("batch",),
    "expected_batch_size": ("batch",),
    "logical_batch_size": ("batch",),
    "max_physical_batch_size": ("microbatch",),
    "max_grad_norm": ("clip",),
    "l2_norm_clip": ("clip",),
    "clipping_norm": ("clip",),
    "sample_rate": ("rate",),
    "sampling_probability": ("rate",),
    "sampling_rate": ("rate",),
    "sigma": ("noise_multiplier", "scale"),
    "std": ("scale",),
    "stddev": ("scale",),
    "standard_deviation": ("scale",),
    "num_steps": ("steps",),
    "iterations": ("steps",),
    "max_iter": ("steps",),
    "seed": ("source", "seed"),
    "rng": ("source",),
    "random_state": ("source",),
    "generator": ("source", "generator"),
    "accountant": ("ledger",),
    "neighboring_relation": ("relation",),
    "adjacency": ("relation",),
    "guarantee": ("budget", "target", "claim"),
    "promise": ("budget", "target", "claim"),
    "budget": ("target", "claim", "epsilon"),
    "target": ("budget", "claim"),
    "claim": ("budget", "target"),
    "user": ("who",),
    "analyst": ("who",),
    "size": ("members", "batch"),
    "k": ("members",),
    "idempotency_key": ("key",),
    "limits": ("per_unit",),
    "groups": ("per_unit",),
    "force": ("overwrite",),
    "norm": ("data_norm",),
    "alpha": ("confidence",),
}
"""Names that people bring from elsewhere, and what they are called here, the likeliest first."""


def public_class(kind: Kind) -> Kind:
    """Marks a class whose constructor is an entry point; for dataclasses, whose constructor is generated."""
    kind.__init__ = public(kind.__init__)  # type: ignore[misc]
    return kind


def public(function: Callable[P, R]) -> Callable[P, R]:
    """Marks an entry point. A call whose arguments do not fit raises `WrongArguments`, which says what fits."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            check_call(function, args, kwargs)
            raise

    return call


def limit_sizes(function: Callable[P, R]) -> Callable[P, R]:
    """Marks an entry point that computes with floats: numbers far beyond them, given by name, are refused."""
    call = public(function)

    @functools.wraps(function)
    def limited_call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in kwargs.items():
            check_size(name, value)
        return call(*args, **kwargs)

    return limited_call


def check_size(name: str, value: Any) -> None:
    """Refuse a number that is neither 0 nor within 1e±300, or 1e±30 for an ε.

    Values that are not finite numbers pass; other checks refuse them.

    >>> check_size("sensitivity", 10**400)
    Traceback (most recent call last):
    ...
    deniable.errors.InvalidArgument: sensitivity must be between 1e-300 and 1e300, or 0; got ...
    """
    if isinstance(value, Decimal):
        size: Any = value.copy_abs() if value.is_finite() else 0
    elif isinstance(value, numbers.Rational):
        size = abs(value)
    else:
        size = abs(value) if isinstance(value, numbers.Real) and math.isfinite(value) else 0
    most = 1e30 if name == "epsilon" else 1e300
    if size and not 1 / most <= float_of(size) <= most:
        raise InvalidArgument(name, value, f"between {1 / most:.0e} and {most:.0e}, or 0".replace("e+", "e"))


def float_of(size: Any) -> float:
    """A positive number as a float; infinite where it is beyond floats."""
    try:
        return float(size)
    except OverflowError:
        return math.inf


def check_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise `WrongArguments` if a function cannot be called like that; the message says what fits."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
        return
    except TypeError:
        pass
    name = type(args[0]).__name__ if function.__name__ == "__init__" and args else _name_of(function)
    parameters = {n: p for n, p in signature.parameters.items() if n not in ("self", "cls")}
    for wrong in kwargs:
        if wrong not in parameters:
            raise WrongArguments(f"{name} has no argument {wrong}{_suggestion(wrong, parameters)}") from None
    positional = len(args) - (len(signature.parameters) - len(parameters))
    by_place = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if positional > len(by_place):
        named = list(parameters)[len(by_place) : positional]
        form = ", ".join([*by_place, *(f"{n}=..." for n in named)])
        raise WrongArguments(f"{name} takes {_join_names(named)} by name: {name}({form})") from None
    required = [n for n, p in parameters.items() if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    missing = [n for n in required if n not in kwargs and n not in by_place[: max(positional, 0)]]
    if missing:
        raise WrongArguments(f"{name} needs {_join_names(missing)}") from None


def _suggestion(wrong: str, parameters: dict[str, inspect.Parameter]) -> str:
    known = [each for each in FOREIGN.get(wrong, ()) if each in parameters]
    near = known or difflib.get_close_matches(wrong, parameters, n=1, cutoff=0.6)
    if not near:
        return f"; it takes {_join_names(list(parameters))}"
    meaning = MEANINGS.get(near[0])
    return f"; did you mean {near[0]}" + (f" ({meaning})?" if meaning else "?")


def _name_of(function: Callable[..., Any]) -> str:
    """The name as a person writes it: Class.method for a method."""
    parts = [part for part in function.__qualname__.split(".") if part != "<locals>"]
    return ".".join(parts[-2:])


def _join_names(names: list[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1] if names else "no arguments"
