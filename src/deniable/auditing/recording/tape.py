"""The record of one run's draws, and the random stream that each draw gets.

Every call of a sampler starts its own stream, numbered by its place in the run. Two runs that make the same calls draw
the same numbers, and a call for n + 1 numbers shares its first n with a call for n: a sampling mask of one more record
differs in that record alone. Additive noise can be varied (`variation`) or multiplied (`loud`) while every other draw
stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


class Tape:
    """The draws of one run."""

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
                value = _louder(value, sampler.centre_of(args, kwargs), self._loud)
        finally:
            self._inside = False
        self.draws.append(_drawn(library, sampler, value, args, kwargs))
        return value

    def stream(self, *, varied: bool = False) -> int:
        """The seed of the next call."""
        self._calls += 1
        words = np.random.SeedSequence([self._seed, self._calls, self._variation if varied else 0]).generate_state(2)
        return int(words[0]) << 32 | int(words[1])


def _drawn(library: str, sampler: Sampler, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Draw:
    if sampler.law is None:
        return Draw(library, sampler, _numbers(value).ravel(), np.zeros(0))
    values = _numbers(value)
    centre, scale = _numbers(sampler.centre_of(args, kwargs)), _numbers(sampler.scale_of(args, kwargs))
    shape = np.broadcast_shapes(values.shape, centre.shape, scale.shape)
    noise = np.broadcast_to(values - centre, shape).ravel()
    return Draw(library, sampler, noise, np.broadcast_to(scale, shape).ravel().astype(np.float64))


def _louder(value: Any, centre: Any, factor: int) -> Any:
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
