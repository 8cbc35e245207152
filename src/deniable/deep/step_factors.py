"""Clip, noise and batch as public functions of the step.

A plan's `stages` say for how many steps which factors apply to its clip, its noise multiplier and its batch. They are
numbers that were written down before the data came, so the run is the composition of its steps, each with its own scale
and rate, and the plan's event is the sum of them. A clip changes no event, for noise is measured in clips.

>>> stages(steps=6, noise=lambda step: 2 if step < 4 else 1)
(Stage(steps=4, noise=2), Stage(steps=2))
>>> stages(steps=6, clip=lambda step: 1 - step / 8, every=3)
(Stage(steps=3), Stage(steps=3, clip=0.625))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Any

from deniable import _checks
from deniable._checks import Number, shown
from deniable._forms import plain_number
from deniable.errors import InvalidArgument

Factor = Callable[[int], Number]
_NAMES = ("clip", "noise", "batch")


@dataclass(frozen=True, init=False, repr=False)
class Stage:
    """Some steps in a row, and what their clip, noise multiplier and batch are multiplied by."""

    steps: int
    clip: Fraction
    noise: Fraction
    batch: Fraction

    def __init__(self, *, steps: int, clip: Number = 1, noise: Number = 1, batch: Number = 1) -> None:
        object.__setattr__(self, "steps", _checks.count("steps", steps))
        for name, value in zip(_NAMES, (clip, noise, batch), strict=True):
            object.__setattr__(self, name, _checks.positive(name, value))

    @property
    def factors(self) -> tuple[Fraction, Fraction, Fraction]:
        """Of clip, noise and batch."""
        return self.clip, self.noise, self.batch

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the stage, exact; factors of 1 are left out."""
        return {"steps": self.steps} | {
            name: plain_number(each) for name, each in zip(_NAMES, self.factors, strict=True) if each != 1
        }

    def __repr__(self) -> str:
        told = [f"{name}={shown(each)}" for name, each in zip(_NAMES, self.factors, strict=True) if each != 1]
        return f"Stage({', '.join([f'steps={self.steps}', *told])})"


def stages(
    *,
    steps: int,
    clip: Factor | None = None,
    noise: Factor | None = None,
    batch: Factor | None = None,
    every: int = 1,
) -> tuple[Stage, ...]:
    """The stages of functions of the step, from 0: each gives the factor of that step.

    Args:
        steps: How many steps there are.
        clip: The factor of the clip.
        noise: The factor of the noise multiplier.
        batch: The factor of the batch.
        every: A function is asked at steps 0, `every`, 2·`every`, …, and what it says is kept until the next. Steps
            with one noise and one batch are accounted together, so a few hundred different ones are better than
            thousands.
    """
    many, often = _checks.count("steps", steps), _checks.count("every", every)
    given = dict(zip(_NAMES, (clip, noise, batch), strict=True))
    for name, function in given.items():
        if function is not None and not callable(function):
            raise InvalidArgument(name, function, "a function of the step", "For example lambda step: 1 / (1 + step).")

    def at(step: int) -> tuple[Fraction, ...]:
        return tuple(
            Fraction(1) if function is None else _checks.positive(name, function(step))
            for name, function in given.items()
        )

    told = [at(step) for step in range(0, many, often)]
    each = [told[step // often] for step in range(many)]
    return tuple(
        Stage(steps=len(list(run)), **dict(zip(_NAMES, factors, strict=True))) for factors, run in groupby(each)
    )


def check_stages(given: object) -> None:
    """Refuse what is no list of stages."""
    if not isinstance(given, tuple | list) or not all(isinstance(each, Stage) for each in given):
        raise InvalidArgument("stages", given, "a list of dn.deep.Stage", "dn.deep.stages(…) makes one of functions.")


def merge_stages(given: Sequence[Stage], steps: int) -> tuple[Stage, ...]:
    """The stages of a plan of so many steps, neighbours of the same factors as one; none where they say nothing."""
    if given and sum(each.steps for each in given) != steps:
        raise InvalidArgument("stages", list(given), f"as many steps as the plan, {steps}")
    runs = [(factors, list(run)) for factors, run in groupby(given, key=lambda stage: stage.factors)]
    if [factors for factors, _ in runs] == [(1, 1, 1)]:
        return ()
    return tuple(
        Stage(steps=sum(each.steps for each in run), **dict(zip(_NAMES, factors, strict=True))) for factors, run in runs
    )
